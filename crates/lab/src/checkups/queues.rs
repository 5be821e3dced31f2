//! Queues of connections that nobody has accepted yet.

use super::{About, Finding, Kind, NOT_TOLD, OF_LAB, Patient};

pub static ACCEPT: Kind = Kind {
    name: "accept queue",
    about: About::Network,
    reads: "net.core.somaxconn",
    why: "when many agents connect at once and the queue is full, connections wait for a second until they are tried again",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: |patient| look(patient, "net.core.somaxconn", 4096),
};

pub static HALF_OPEN: Kind = Kind {
    name: "half-open queue",
    about: About::Network,
    reads: "net.ipv4.tcp_max_syn_backlog, tcp_syncookies",
    why: "beyond it, connections are made with cookies, without window scaling, or are dropped and tried again after a second",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: |patient| look(patient, "net.ipv4.tcp_max_syn_backlog", 4096),
};

/// A ramp spreads agents; without one they all knock at once.
const ENOUGH: u64 = 1024;

fn look(patient: &Patient<'_>, name: &str, to: u64) -> Finding {
    if patient.is_in_lab() {
        return Finding::good(OF_LAB);
    }
    let Some([length]) = patient.sysctl(name).and_then(|numbers| <[u64; 1]>::try_from(numbers).ok()) else {
        return Finding::unknown(NOT_TOLD);
    };
    let knocking = patient.asked.map(|asked| asked.at_once);
    let to = to.max(knocking.unwrap_or(0)).to_string();
    match knocking {
        Some(knocking) if knocking > length && length < ENOUGH => Finding::bad(
            format!("{length}, and {knocking} agents connect at once"),
            "lengthen it, or give the load a ramp",
        )
        .fixed_by(patient.fix_sysctl(name, &to)),
        // The low default of a small machine is enough where nothing is known of a crowd.
        None if length < 128 || (length < ENOUGH && name.ends_with("somaxconn")) => {
            Finding::notice(format!("{length}"), "lengthen it").fixed_by(patient.fix_sysctl(name, &to))
        }
        _ => Finding::good(format!("{length}")),
    }
}
