//! Control groups: which controllers there are, and whether a quota is on us.

use super::{About, Finding, Kind, NOT_TOLD, Patient};
use crate::environment;
use crate::linux::cgroup::{Controller, Hierarchies};

pub static CONTROLLERS: Kind = Kind {
    name: "control groups",
    about: About::Lab,
    reads: "/proc/self/mountinfo, /proc/cgroups, cgroup.controllers",
    why: "virtual hosts are given their share of CPU, memory and disk by control groups; without a controller that limit cannot be set",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_controllers,
};

pub static QUOTA: Kind = Kind {
    name: "quota on ourselves",
    about: About::Processor,
    reads: "cpu.max, or cpu.cfs_quota_us, of our own control group and those above it",
    why: "a quota stops load generator and target alike in the middle of a period, which looks like a slow service",
    source: "https://docs.kernel.org/scheduler/sched-bwc.html",
    caught_by: &["generator_stall", "generator_lateness"],
    article: None,
    look: look_at_quota,
};

fn look_at_controllers(patient: &Patient<'_>) -> Finding {
    let there = Hierarchies::detect_in(patient.root.folder());
    if there.is_empty() {
        return Finding::notice("none are mounted", "mount -t cgroup2 none /sys/fs/cgroup");
    }
    let wanted = [
        ("cpu", Controller::Cpu),
        ("cpuset", Controller::Cpuset),
        ("memory", Controller::Memory),
        ("disks", Controller::Block),
    ];
    let (here, missing): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(_, controller)| there.of(*controller).is_some());
    let names = |list: &[(&str, Controller)]| list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let version =
        environment::cgroup_version(patient.root).map_or_else(String::new, |version| format!("version {version}: "));
    if missing.is_empty() {
        return Finding::good(format!("{version}{}", names(&here)));
    }
    let remedy = "take a kernel or a container that hands it down; what does not need it works without";
    Finding::notice(format!("{version}no controller for {}", names(&missing)), remedy)
}

fn look_at_quota(patient: &Patient<'_>) -> Finding {
    match environment::quota_cores(patient.root) {
        None if environment::cgroup_version(patient.root).is_none() => Finding::unknown(NOT_TOLD),
        None => Finding::good("none"),
        Some(cores) => Finding::bad(
            format!("this container may use {cores} cores, and is stopped when they are used up"),
            "give the container whole CPUs instead (docker run --cpuset-cpus=0-3, without --cpus)",
        ),
    }
}
