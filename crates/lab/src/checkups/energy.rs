//! The processor's own energy meter.

use super::{About, Finding, Kind, Patient};

pub static KIND: Kind = Kind {
    name: "energy meter",
    about: About::Hardware,
    reads: "/sys/class/powercap/*/energy_uj (RAPL)",
    why: "without a meter, energy is a model of the profile's watts and the CPU used, and says so",
    source: "https://docs.kernel.org/power/powercap/powercap.html",
    caught_by: &[],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let zones = patient.root.names("sys/class/powercap");
    let meters: Vec<&String> =
        zones.iter().filter(|zone| zone.contains("rapl:") && zone.matches(':').count() == 1).collect();
    if meters.is_empty() {
        return Finding::unknown("not on this machine");
    }
    let reads = |zone: &&&String| patient.text(&format!("sys/class/powercap/{zone}/energy_uj")).is_some();
    if meters.iter().any(|zone| reads(&zone)) {
        return Finding::good(format!("RAPL, {} package(s)", meters.len()));
    }
    Finding::notice(
        "RAPL is there, but only root may read it",
        "run Plimsoll as root, or chmod a+r /sys/class/powercap/*/energy_uj",
    )
}
