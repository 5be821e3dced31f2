//! What else uses the processors, now.

use super::{About, Finding, Kind, Patient};

pub static STEAL: Kind = Kind {
    name: "stolen CPU",
    about: About::Noise,
    reads: "/proc/stat over a second",
    why: "time that the hypervisor gives to other machines is missing here, and looks like a slow service",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look: look_at_steal,
};

pub static STRANGERS: Kind = Kind {
    name: "CPU used by others",
    about: About::Noise,
    reads: "/proc/stat and /proc/*/stat over a second",
    why: "what other programs use, generator and target do not have",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["strangers", "generator_stall"],
    article: None,
    look: look_at_strangers,
};

/// From these on the verdict calls a trial suspect.
const STEAL_PCT: f64 = 2.0;
const STRANGERS_PCT: f64 = 10.0;

/// There was no second to look at.
const NOT_SAMPLED: &str = "/proc/stat did not move";

fn look_at_steal(patient: &Patient<'_>) -> Finding {
    let Some(noise) = &patient.measured.noise else { return Finding::unknown(NOT_SAMPLED) };
    let Some(steal_pct) = noise.steal_pct else { return Finding::unknown(NOT_SAMPLED) };
    let found = format!("{steal_pct:.1} % in the last second");
    if steal_pct >= STEAL_PCT {
        return Finding::bad(found, "move to another host, or to a machine with CPUs of its own, or wait");
    }
    Finding::good(found)
}

fn look_at_strangers(patient: &Patient<'_>) -> Finding {
    let Some(noise) = &patient.measured.noise else { return Finding::unknown(NOT_SAMPLED) };
    let who: Vec<String> = noise.busiest.iter().map(|(name, pct)| format!("{name} {pct:.0} %")).collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let used = noise.others_pct;
    match used {
        used if used >= STRANGERS_PCT => Finding::bad(
            format!("{used:.0} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used if used >= STRANGERS_PCT / 3.0 => Finding::notice(
            format!("{used:.1} % of the machine in the last second{who}"),
            "end it, or wait until it has ended",
        ),
        used => Finding::good(format!("{used:.1} % of the machine in the last second")),
    }
}
