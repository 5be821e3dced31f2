//! Memory that is nearer to some processors than to others.

use super::{About, Finding, Kind, NOT_TOLD, Patient};
use crate::environment;

pub static KIND: Kind = Kind {
    name: "memory nodes",
    about: About::Memory,
    reads: "/sys/devices/system/node/online, kernel.numa_balancing",
    why: "memory of another node is slower; the kernel unmaps and moves pages while a trial runs, to bring them nearer",
    source: "https://docs.kernel.org/admin-guide/sysctl/kernel.html",
    caught_by: &[],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let online = patient.text("sys/devices/system/node/online");
    let Some(nodes) = online.and_then(|list| environment::count_listed(&list)) else {
        return Finding::unknown(NOT_TOLD);
    };
    if nodes < 2 {
        return Finding::good("one");
    }
    let name = "kernel.numa_balancing";
    let found = format!("{nodes} of them");
    match patient.sysctl(name).as_deref() {
        Some([0]) | None => {
            Finding::notice(found, "keep generator and target on one node each (numactl --cpunodebind --membind)")
        }
        Some(_) => Finding::notice(
            format!("{found}, and pages move between them"),
            "bind processes, and keep pages where they are",
        )
        .fixed_by(patient.fix_sysctl(name, "0")),
    }
}
