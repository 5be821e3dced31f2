//! How many files one user's event loops may watch.

use super::{About, Finding, Kind, NOT_TOLD, Patient};

pub static KIND: Kind = Kind {
    name: "watched files",
    about: About::Limits,
    reads: "fs.epoll.max_user_watches",
    why: "each connection is a watch of the load generator, and another one of the target if both belong to one user",
    source: "https://man7.org/linux/man-pages/man7/epoll.7.html",
    caught_by: &["failed_connects"],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let name = "fs.epoll.max_user_watches";
    let Some([most]) = patient.sysctl(name).and_then(|numbers| <[u64; 1]>::try_from(numbers).ok()) else {
        return Finding::unknown(NOT_TOLD);
    };
    let needed = patient.agents().unwrap_or(10_000).saturating_mul(2);
    if most >= needed {
        return Finding::good(format!("{most}"));
    }
    let found = format!("{most}, and {needed} are needed at both ends of so many connections");
    Finding::bad(found, "raise it").fixed_by(patient.fix_sysctl(name, &needed.saturating_mul(2).to_string()))
}
