//! What virtual hosts and their links are made of.

use super::{About, Finding, Kind, Patient};

pub static LINKS: Kind = Kind {
    name: "emulated links",
    about: About::Lab,
    reads: "a rate (tbf) and a delay (netem), tried in a network of its own that is gone with the try",
    why: "rates need tbf and ifb, delays need netem: what the kernel lacks is refused, never imitated",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_links,
};

pub static NAMESPACES: Kind = Kind {
    name: "virtual hosts",
    about: About::Lab,
    reads: "/proc/self/ns, /dev/loop-control",
    why: "a virtual host is made of namespaces, its disk of a loop device",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_namespaces,
};

fn look_at_links(patient: &Patient<'_>) -> Finding {
    let Some(links) = &patient.measured.links else { return Finding::unknown("needs root to be tried") };
    if !links.has_tc {
        return Finding::notice("not without the program `tc`", "plimsoll install --lab, or put /usr/sbin into PATH");
    }
    let kinds = [("rates", links.rate), ("delays", links.delay)];
    let here: Vec<&str> = kinds.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let missing: Vec<&str> = kinds.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect();
    match (here.as_slice(), missing.as_slice()) {
        (here, []) => Finding::good(format!("{} work", here.join(" and "))),
        (here, missing) => {
            let rest = if here.is_empty() { String::new() } else { format!("; {} work", here.join(" and ")) };
            let found = format!("this kernel has no {}{rest}", missing.join(" and no "));
            Finding::notice(found, "modprobe sch_netem sch_tbf ifb, or the ordinary kernel of a distribution")
        }
    }
}

fn look_at_namespaces(patient: &Patient<'_>) -> Finding {
    const NEEDED: [&str; 5] = ["net", "pid", "mnt", "ipc", "uts"];
    if !patient.root.path("proc/self/ns").exists() {
        return Finding::notice(
            "this kernel has no namespaces",
            "virtual hosts need CONFIG_NAMESPACES; all else works without",
        );
    }
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|name| patient.root.path(&format!("proc/self/ns/{name}")).symlink_metadata().is_err())
        .collect();
    if !missing.is_empty() {
        let found = format!("this kernel has no namespaces of {}", missing.join(", "));
        return Finding::notice(found, "virtual hosts need them; all else works without");
    }
    if !patient.root.path("dev/loop-control").exists() {
        return Finding::notice("can be made, but without disks of their own", "modprobe loop");
    }
    match patient.measured.is_root {
        Some(false) => {
            Finding::notice("the kernel has what they need, but making them needs root", "run Plimsoll as root")
        }
        _ => Finding::good("namespaces and loop devices are there"),
    }
}
