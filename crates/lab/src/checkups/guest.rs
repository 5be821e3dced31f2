//! Whether this machine is one of several on the same hardware.

use super::{About, Finding, Kind, NOT_TOLD, Patient};
use crate::environment;

pub static KIND: Kind = Kind {
    name: "shared hardware",
    about: About::Noise,
    reads: "/proc/cpuinfo, /sys/class/dmi/id, /.dockerenv",
    why: "neighbours on the same hardware take CPU, caches and disk, and only the CPU that they take is shown, as steal",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["steal"],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    match environment::virtualisation(patient.root).as_deref() {
        None => Finding::unknown(NOT_TOLD),
        Some("none") => Finding::good("no: neither a container nor a virtual machine"),
        Some(kind) => Finding::notice(
            format!("yes: {kind}"),
            "repeat trials, interleave what is compared (repeat = 5), and publish figures of a real machine",
        ),
    }
}
