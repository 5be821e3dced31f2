//! Prerequisites of a lab: the experiment's requirements, control groups, namespaces, links and
//! rights.

use ::lab::needs::{UnmetNeed, unmet};
use linux::cgroup::{Controller, Hierarchies};
use runner::environment;

use super::{CheckKind, CheckResult, CheckScope, Fix, MachineSnapshot, NOT_TOLD};

pub static LAB: CheckKind = CheckKind {
    name: "its lab",
    about: CheckScope::Experiment,
    reads: "what `plimsoll run` looks for before it makes hosts",
    why: "a lab that cannot be made ends the run with exit code 3 before anything is measured",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_lab,
};

pub static TARGET: CheckKind = CheckKind {
    name: "its target",
    about: CheckScope::Experiment,
    reads: "the target's hook `install check`",
    why: "a target that lacks something does not start",
    source: "targets/README.md",
    caught_by: &[],
    article: None,
    look: look_at_target,
};

pub static SETTINGS: CheckKind = CheckKind {
    name: "its settings",
    about: CheckScope::Experiment,
    reads: "[needs] in target.toml, /proc/sys, /proc/self/limits",
    why: "a target whose needs are not met refuses to start, or runs differently from production",
    source: "targets/README.md",
    caught_by: &[],
    article: None,
    look: look_at_settings,
};

fn look_at_settings(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(asked) = snapshot.asked else { return CheckResult::unknown(NONE) };
    let may_raise = snapshot.measured.is_root == Some(true);
    let unmet: Vec<UnmetNeed> =
        asked.needs.iter().flat_map(|(target, needs)| unmet(snapshot.root, target, needs, may_raise)).collect();
    if unmet.is_empty() {
        return CheckResult::good(if asked.needs.is_empty() {
            "the target needs none"
        } else {
            "as the target needs them"
        });
    }
    let whats: Vec<&str> = unmet.iter().map(|one| one.what.as_str()).collect();
    let by_hand: Vec<&str> = unmet.iter().filter(|one| one.sysctl.is_none()).map(|one| one.remedy.as_str()).collect();
    let fixes = unmet.iter().filter_map(|one| one.sysctl.as_ref());
    let fixes: Vec<Fix> = fixes.filter_map(|(name, to)| snapshot.fix_sysctl(name, &to.to_string())).collect();
    let remedy = match (by_hand.is_empty(), fixes.is_empty()) {
        (true, _) => "let the kernel allow it; a file in /etc/sysctl.d keeps it".to_owned(),
        (false, true) => by_hand.join("; "),
        (false, false) => format!("{}; and let the kernel allow it", by_hand.join("; ")),
    };
    CheckResult::bad(whats.join("; "), remedy).fixed_by(fixes)
}

const NONE: &str = "no experiment was given";

fn look_at_lab(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(asked) = snapshot.asked else { return CheckResult::unknown(NONE) };
    match &asked.refused {
        Some((why, remedy)) => CheckResult::bad(why.clone(), remedy.clone()),
        None => CheckResult::good(format!("can be made here ({})", asked.lab)),
    }
}

fn look_at_target(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(asked) = snapshot.asked else { return CheckResult::unknown(NONE) };
    match asked.missing.as_slice() {
        [] => CheckResult::good(format!("{}: nothing is missing", asked.target)),
        missing => {
            let found = format!("{} is not installed completely: {}", asked.target, missing.join("; "));
            CheckResult::bad(found, "plimsoll run FILE --install, which does this before the run")
        }
    }
}

pub static CONTROLLERS: CheckKind = CheckKind {
    name: "control groups",
    about: CheckScope::Lab,
    reads: "/proc/self/mountinfo, /proc/cgroups, cgroup.controllers",
    why: "virtual hosts get their share of CPU, memory and disk from control groups; without a controller that limit \
          cannot be set",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_controllers,
};

pub static QUOTA: CheckKind = CheckKind {
    name: "quota on ourselves",
    about: CheckScope::Processor,
    reads: "cpu.max, or cpu.cfs_quota_us, of our own control group and those above it",
    why: "a quota stops load generator and target in the middle of a period, which looks like a slow service",
    source: "https://docs.kernel.org/scheduler/sched-bwc.html",
    caught_by: &["generator_stall", "generator_lateness"],
    article: None,
    look: look_at_quota,
};

fn look_at_controllers(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let there = Hierarchies::detect_in(snapshot.root.folder());
    if there.is_empty() {
        return CheckResult::notice("none are mounted", "mount -t cgroup2 none /sys/fs/cgroup");
    }
    let wanted = [
        ("cpu", Controller::Cpu),
        ("cpuset", Controller::Cpuset),
        ("memory", Controller::Memory),
        ("disks", Controller::Block),
    ];
    let (here, missing): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(_, controller)| there.of(*controller).is_some());
    let [names, missing_names] =
        [&here, &missing].map(|list| list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "));
    let version =
        environment::cgroup_version(snapshot.root).map_or_else(String::new, |version| format!("version {version}: "));
    if missing.is_empty() {
        return CheckResult::good(format!("{version}{names}"));
    }
    let remedy = "use a kernel or a container that provides the controller; everything else works without it";
    CheckResult::notice(format!("{version}no controller for {missing_names}"), remedy)
}

fn look_at_quota(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match environment::quota_cores(snapshot.root) {
        None if environment::cgroup_version(snapshot.root).is_none() => CheckResult::unknown(NOT_TOLD),
        None => CheckResult::good("none"),
        Some(cores) => CheckResult::bad(
            format!("this container may use {cores} cores, and is stopped when they are used up"),
            "give the container whole CPUs instead (docker run --cpuset-cpus=0-3, without --cpus)",
        ),
    }
}

pub static LINKS: CheckKind = CheckKind {
    name: "emulated links",
    about: CheckScope::Lab,
    reads: "a rate (tbf) and a delay (netem), tried in a temporary network namespace",
    why: "rates need tbf and ifb, delays need netem: without them, such links are refused",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_links,
};

pub static NAMESPACES: CheckKind = CheckKind {
    name: "virtual hosts",
    about: CheckScope::Lab,
    reads: "/proc/self/ns, /dev/loop-control",
    why: "a virtual host consists of namespaces, and its disk is a loop device",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_namespaces,
};

fn look_at_links(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(links) = &snapshot.measured.links else { return CheckResult::unknown("can only be tested as root") };
    if !links.has_tc {
        return CheckResult::notice(
            "the program `tc` is missing",
            "plimsoll install --lab, or put /usr/sbin into PATH",
        );
    }
    let kinds = [("rates", links.rate), ("delays", links.delay)];
    let here: Vec<&str> = kinds.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let missing: Vec<&str> = kinds.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect();
    match (here.as_slice(), missing.as_slice()) {
        (here, []) => CheckResult::good(format!("{} work", here.join(" and "))),
        (here, missing) => {
            let rest = if here.is_empty() { String::new() } else { format!("; {} work", here.join(" and ")) };
            let found = format!("this kernel has no {}{rest}", missing.join(" and no "));
            CheckResult::notice(found, "modprobe sch_netem sch_tbf ifb, or the ordinary kernel of a distribution")
        }
    }
}

fn look_at_namespaces(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    const NEEDED: [&str; 5] = ["net", "pid", "mnt", "ipc", "uts"];
    if !snapshot.root.path("proc/self/ns").exists() {
        return CheckResult::notice(
            "this kernel has no namespaces",
            "virtual hosts need CONFIG_NAMESPACES; everything else works without them",
        );
    }
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|name| snapshot.root.path(&format!("proc/self/ns/{name}")).symlink_metadata().is_err())
        .collect();
    if !missing.is_empty() {
        let found = format!("this kernel has no namespaces of {}", missing.join(", "));
        return CheckResult::notice(found, "virtual hosts need them; everything else works without them");
    }
    if !snapshot.root.path("dev/loop-control").exists() {
        return CheckResult::notice("can be made, but without disks of their own", "modprobe loop");
    }
    match snapshot.measured.is_root {
        Some(false) => {
            CheckResult::notice("the kernel has what they need, but making them needs root", "run Plimsoll as root")
        }
        _ => CheckResult::good("namespaces and loop devices are there"),
    }
}

pub static RIGHTS: CheckKind = CheckKind {
    name: "root",
    about: CheckScope::Lab,
    reads: "geteuid(2)",
    why: "virtual hosts, their faults and the fixes of this command need root; load and targets on this machine do not",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_rights,
};

fn look_at_rights(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    match snapshot.measured.is_root {
        Some(true) => CheckResult::good("yes: all kinds of hosts and faults"),
        Some(false) => CheckResult::good("no: no virtual hosts, and --fix prints commands instead of running them"),
        None => CheckResult::unknown(NOT_TOLD),
    }
}
