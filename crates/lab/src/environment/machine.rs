//! Single facts about a machine, each from the file that says it. It must not combine them.

use std::collections::BTreeMap;
use std::fs;

use super::Root;

/// `Debian GNU/Linux 12 (bookworm)`.
pub fn os(root: &Root) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// The options of a kernel's command line that change what is measured. The others are nobody's business: they name
/// consoles, disks, addresses and, on some machines, secrets.
pub fn measured_options(line: &str) -> String {
    const NAMES: [&str; 33] = [
        "audit",
        "cgroup_disable",
        "cgroup_no_v1",
        "clocksource",
        "default_hugepagesz",
        "elevator",
        "hpet",
        "hugepages",
        "hugepagesz",
        "idle",
        "intel_iommu",
        "intel_pstate",
        "iommu",
        "isolcpus",
        "l1tf",
        "maxcpus",
        "mds",
        "mem",
        "mitigations",
        "nmi_watchdog",
        "noht",
        "nohz",
        "nohz_full",
        "nosmt",
        "nowatchdog",
        "nr_cpus",
        "numa_balancing",
        "preempt",
        "psi",
        "rcu_nocbs",
        "threadirqs",
        "transparent_hugepage",
        "tsc",
    ];
    const BEGINNINGS: [&str; 9] =
        ["amd_pstate", "cpufreq.", "cpuidle", "haltpoll", "intel_idle.", "no_", "nospec", "processor.", "spec"];
    // What follows `--` is for init.
    let options = line.split_ascii_whitespace().take_while(|option| *option != "--");
    let kept = options.filter(|option| {
        let name = option.split('=').next().unwrap_or_default();
        NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// As x86 (`model name`), or as ARM boards say it.
pub fn cpu_model(root: &Root) -> Option<String> {
    of_cpu(root, &["model name", "Model"]).or_else(|| root.text("proc/device-tree/model"))
}

/// What the kernel says of the first processor under the first of these names that it knows.
pub fn of_cpu(root: &Root, names: &[&str]) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    let value = |wanted: &&str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == *wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    names.iter().find_map(value)
}

/// The program that keeps the wall clock right, as the kernel cuts its name.
pub fn time_keeper(root: &Root) -> Option<String> {
    const KEEPERS: [&str; 6] = ["chronyd", "systemd-timesyn", "ntpd", "openntpd", "ptp4l", "phc2sys"];
    let processes = root.names("proc").into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    let mut names = processes.filter_map(|process| root.text(&format!("proc/{process}/comm")));
    names.find(|name| KEEPERS.contains(&name.as_str()))
}

/// How many CPUs a list such as `0,4-5` names.
pub fn count_listed(list: &str) -> Option<u32> {
    list.trim()
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1),
            None => part.parse::<u32>().ok().map(|_| 1),
        })
        .sum()
}

/// Intel's driver says it in the negative.
pub fn turbo(root: &Root) -> Option<bool> {
    let off = root.number::<u8>("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0);
    off.or_else(|| root.number::<u8>("sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1))
}

/// `/sys/devices/system/cpu/vulnerabilities`, without those that this processor does not have.
pub fn mitigations(root: &Root) -> BTreeMap<String, String> {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    let files = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names
        .filter_map(|name| Some((root.text(&format!("{FOLDER}/{name}"))?, name)))
        .filter(|(says, _)| says != "Not affected")
        .map(|(says, name)| (name, says))
        .collect()
}

/// What kind of machine this pretends to be; `none` only where the processor says that it is a real one.
pub fn virtualisation(root: &Root) -> Option<String> {
    if root.path(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if root.path("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if let Some(name) = root.text("run/systemd/container") {
        return Some(name);
    }
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let is_guest = flags.map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let product = root.text("sys/class/dmi/id/sys_vendor").or_else(|| root.text("sys/hypervisor/type"));
    match (is_guest, product) {
        (Some(false), _) => Some("none".to_owned()),
        (Some(true), Some(product)) => Some(product),
        (Some(true), None) if root.text(CLOCKS).is_some_and(|clocks| clocks.contains("kvm-clock")) => {
            Some("kvm".to_owned())
        }
        (Some(true), None) => Some("unknown hypervisor".to_owned()),
        (None, _) => None,
    }
}

const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

/// A machine that has any controller on version 1 is 1.
pub fn cgroup_version(root: &Root) -> Option<u32> {
    let text = root.text("proc/self/cgroup")?;
    let has_controllers = |line: &str| {
        let controllers = line.split(':').nth(1).unwrap_or_default();
        !controllers.is_empty() && !controllers.starts_with("name=")
    };
    Some(if text.lines().any(has_controllers) { 1 } else { 2 })
}

/// Soft and hard limit of that name in `/proc/self/limits`; none where it is unlimited.
pub fn limit(limits: &str, name: &str) -> (Option<u64>, Option<u64>) {
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut values = line.split_ascii_whitespace().map(|value| value.parse().ok());
    (values.next().flatten(), values.next().flatten())
}

/// `Europe/Zurich`.
pub fn time_zone(root: &Root) -> Option<String> {
    if let Some(zone) = std::env::var("TZ").ok().filter(|zone| !zone.is_empty()) {
        return Some(zone.trim_start_matches(':').to_owned());
    }
    let link = fs::read_link(root.path("etc/localtime")).ok();
    let from_link = link.and_then(|link| Some(link.to_str()?.split_once("zoneinfo/")?.1.to_owned()));
    from_link.or_else(|| root.text("etc/timezone"))
}
