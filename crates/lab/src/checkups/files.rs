//! Open files of a process.

use super::{About, Finding, Kind, NOT_TOLD, Patient, Tuning};
use crate::environment;

pub static KIND: Kind = Kind {
    name: "open files",
    about: About::Limits,
    reads: "/proc/self/limits",
    why: "each agent is a connection, and each connection an open file at both ends",
    source: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    caught_by: &["failed_connects"],
    article: Some(Tuning {
        number: 2,
        says: "soft nofile 1024, hard nofile 65536",
        worth: "needed beyond about 900 connections; Plimsoll raises its own soft limit to the hard one, a target must do so itself",
    }),
    look,
};

/// As the load engine counts: threads, streams, records, probes.
const OTHERS: u64 = 192;

fn look(patient: &Patient<'_>) -> Finding {
    let Some(limits) = patient.text("proc/self/limits") else { return Finding::unknown(NOT_TOLD) };
    let (soft, hard) = environment::limit(&limits, "Max open files");
    let (soft, hard) = (soft.unwrap_or(u64::MAX), hard.unwrap_or(u64::MAX));
    let agents = patient.agents();
    let needed = agents.unwrap_or(4_000).saturating_add(OTHERS);
    let remedy =
        format!("ulimit -n {0}, and `* hard nofile {0}` in /etc/security/limits.conf", (needed * 2).max(65_536));
    // setrlimit(2): who is root goes beyond the hard limit, up to this.
    let ceiling = patient.sysctl("fs.nr_open").and_then(|numbers| numbers.first().copied()).unwrap_or(0);
    let may_raise = patient.measured.is_root == Some(true) && needed <= ceiling;
    match agents {
        Some(agents) if hard < needed && may_raise => Finding::notice(
            format!("{hard} at most: for {agents} agents Plimsoll, as root, raises its own; a target may not"),
            remedy,
        ),
        Some(agents) if hard < needed => {
            Finding::bad(format!("{hard} at most, and {agents} agents need {needed}"), remedy)
        }
        _ if hard < needed => Finding::notice(format!("{hard} at most: enough for {} agents", room(hard)), remedy),
        _ if soft < needed => Finding::notice(
            format!("{soft}, at most {hard}: Plimsoll raises its own, a target may not"),
            format!("ulimit -n {}", hard.min((needed * 2).max(65_536))),
        ),
        _ if soft == u64::MAX => Finding::good("no limit"),
        _ => Finding::good(format!("{soft}: enough for {} agents", room(soft))),
    }
}

fn room(files: u64) -> u64 {
    files.saturating_sub(OTHERS)
}
