//! Who we are.

use super::{About, Finding, Kind, NOT_TOLD, Patient};

pub static KIND: Kind = Kind {
    name: "root",
    about: About::Lab,
    reads: "geteuid(2)",
    why: "virtual hosts, their faults and the fixes of this command need root; load and targets on this machine do not",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    match patient.measured.is_root {
        Some(true) => Finding::good("yes: all kinds of hosts and faults"),
        Some(false) => Finding::good("no: no virtual hosts, and --fix prints commands instead of running them"),
        None => Finding::unknown(NOT_TOLD),
    }
}
