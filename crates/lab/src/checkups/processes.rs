//! Processes and threads.

use super::{About, Finding, Kind, NOT_TOLD, Patient, Tuning};
use crate::environment;

pub static KIND: Kind = Kind {
    name: "processes and threads",
    about: About::Limits,
    reads: "/proc/self/limits, kernel.pid_max, kernel.threads-max",
    why: "a target with a thread for each connection ends where threads end",
    source: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    caught_by: &["lost_process"],
    article: Some(Tuning {
        number: 2,
        says: "soft nproc 2407, hard nproc 16384",
        worth: "it counts threads of one user, and root has no such limit; a few thousand are enough for an event loop, Erlang's included",
    }),
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let Some(limits) = patient.text("proc/self/limits") else { return Finding::unknown(NOT_TOLD) };
    let one = |name: &str| patient.sysctl(name).and_then(|numbers| numbers.first().copied());
    let ours = environment::limit(&limits, "Max processes").0;
    let kernel = [one("kernel.pid_max"), one("kernel.threads-max")].into_iter().flatten().min();
    let Some(least) = [ours, kernel].into_iter().flatten().min() else { return Finding::unknown(NOT_TOLD) };
    let who = if ours == Some(least) { "for this user" } else { "for the machine" };
    if least < 4096 {
        return Finding::notice(format!("{least} {who}"), "ulimit -u 16384, or kernel.pid_max and kernel.threads-max");
    }
    Finding::good(format!("{least} {who}"))
}
