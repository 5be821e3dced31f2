//! Memory, the disk for records, and limits of processes.

use experiment::quantity::show_bytes;
use runner::environment::{self, chosen};
use runner::probes::memory_bytes;

use super::{CheckKind, CheckResult, CheckScope, MachineSnapshot, NOT_TOLD, Tuning, count};

pub static LAYOUTS: CheckKind = CheckKind {
    name: "address randomisation",
    about: CheckScope::Memory,
    reads: "kernel.randomize_va_space",
    why: "a program's speed depends on where its code and data lie in memory: with only one layout, chance looks like \
          a property",
    source: "Mytkowicz et al., Producing wrong data without doing anything obviously wrong, ASPLOS 2009",
    caught_by: &[],
    article: None,
    look: look_at_layouts,
};

fn look_at_layouts(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let name = "kernel.randomize_va_space";
    match snapshot.sysctl(name).as_deref() {
        Some([2]) => CheckResult::good("on: layouts differ from start to start, repeats average over them"),
        Some([_]) => {
            CheckResult::notice("off or in part: every repeat has the same layout, lucky or not", "turn it on")
                .fixed_by(snapshot.fix_sysctl(name, "2"))
        }
        _ => CheckResult::unknown(NOT_TOLD),
    }
}

pub static FREE: CheckKind = CheckKind {
    name: "free disk",
    about: CheckScope::Disk,
    reads: "statvfs(3) of the folder that runs go to",
    why: "a full disk ends the records in the middle of a trial",
    source: "docs/formats.md",
    caught_by: &["full_disk", "cut_off"],
    article: None,
    look: look_at_free,
};

pub static SYNC: CheckKind = CheckKind {
    name: "synced writes",
    about: CheckScope::Disk,
    reads: "20 writes of 4 KiB in that folder, each with fsync(2); the file is removed",
    why: "a target that syncs to the same disk is limited by it, and so are records: a slow disk can hide a difference",
    source: "https://man7.org/linux/man-pages/man2/fsync.2.html",
    caught_by: &["generator_stall"],
    article: None,
    look: look_at_sync,
};

const GIB: u64 = 1 << 30;

fn look_at_free(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(free) = snapshot.measured.free_bytes else { return CheckResult::unknown(NOT_TOLD) };
    let found = format!("{} where runs go ({})", show_gib(free), snapshot.measured.folder);
    let remedy = "free some space, or choose another disk with --out";
    match free {
        free if free < GIB / 4 => CheckResult::bad(found, remedy),
        free if free < 2 * GIB => CheckResult::notice(found, remedy),
        _ => CheckResult::good(found),
    }
}

/// Formats a disk's free space in GiB with one decimal, or in MiB below 1 GiB.
fn show_gib(bytes: u64) -> String {
    if bytes < GIB { show_bytes(bytes >> 20 << 20) } else { format!("{:.1} GiB", bytes as f64 / GIB as f64) }
}

fn look_at_sync(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(sync) = snapshot.measured.sync_us else {
        return CheckResult::unknown(format!("{} cannot be written to", snapshot.measured.folder));
    };
    let system = snapshot.measured.file_system.as_deref().unwrap_or("unknown file system");
    let found = format!("{} at the median, {} at most, on {system}", millis(sync.p50), millis(sync.max));
    if ["tmpfs", "ramfs"].contains(&system) {
        return CheckResult::notice(
            format!("{found}: it is in memory, not on a disk"),
            "choose a folder on a disk with --out",
        );
    }
    if sync.p50 > 20_000.0 {
        return CheckResult::notice(
            found,
            "put the target's data (TMPDIR) or the records (--out) on a faster disk, or note it beside the figures",
        );
    }
    CheckResult::good(found)
}

fn millis(us: f64) -> String {
    if us < 100.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}

pub static WATCHES: CheckKind = CheckKind {
    name: "watched files",
    about: CheckScope::Limits,
    reads: "fs.epoll.max_user_watches",
    why: "each connection is a watch of the load generator, and another of the target if both run as one user",
    source: "https://man7.org/linux/man-pages/man7/epoll.7.html",
    caught_by: &["failed_connects"],
    article: None,
    look: look_at_watches,
};

fn look_at_watches(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let name = "fs.epoll.max_user_watches";
    let Some([most]) = snapshot.sysctl(name).and_then(|numbers| <[u64; 1]>::try_from(numbers).ok()) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    let needed = snapshot.agents().unwrap_or(10_000).saturating_mul(2);
    if most >= needed {
        return CheckResult::good(format!("{most}"));
    }
    let found = format!("{most}; {needed} are needed for both ends of all connections");
    CheckResult::bad(found, "raise it").fixed_by(snapshot.fix_sysctl(name, &needed.saturating_mul(2).to_string()))
}

pub static OPEN_FILES: CheckKind = CheckKind {
    name: "open files",
    about: CheckScope::Limits,
    reads: "/proc/self/limits",
    why: "each agent is a connection, and each connection an open file at both ends",
    source: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    caught_by: &["failed_connects", "local_limits"],
    article: Some(Tuning {
        number: 2,
        says: "soft nofile 1024, hard nofile 65536",
        worth: "needed beyond about 900 connections; Plimsoll raises its own soft limit to the hard one, a target must do so itself",
    }),
    look: look_at_open_files,
};

/// Number of open files for threads, streams, records and probes, as in the load engine.
const OTHERS: u64 = 192;

fn look_at_open_files(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(limits) = snapshot.text("proc/self/limits") else { return CheckResult::unknown(NOT_TOLD) };
    let (soft, hard) = environment::limit(&limits, "Max open files");
    let (soft, hard) = (soft.unwrap_or(u64::MAX), hard.unwrap_or(u64::MAX));
    let agents = snapshot.agents();
    let needed = agents.unwrap_or(4_000).saturating_add(OTHERS);
    let remedy =
        format!("ulimit -n {0}, and `* hard nofile {0}` in /etc/security/limits.conf", (needed * 2).max(65_536));
    // Root may raise its limit beyond the hard limit, up to this value (setrlimit(2)).
    let ceiling = snapshot.sysctl("fs.nr_open").and_then(|numbers| numbers.first().copied()).unwrap_or(0);
    let may_raise = snapshot.measured.is_root == Some(true) && needed <= ceiling;
    match agents {
        Some(agents) if hard < needed && may_raise => CheckResult::notice(
            format!("{hard} at most: for {agents} agents Plimsoll, as root, raises its own; a target may not"),
            remedy,
        ),
        Some(agents) if hard < needed => {
            CheckResult::bad(format!("{hard} at most, and {agents} agents need {needed}"), remedy)
        }
        _ if hard < needed => CheckResult::notice(format!("{hard} at most: enough for {} agents", room(hard)), remedy),
        _ if soft < needed => CheckResult::notice(
            format!("{soft}, at most {hard}: Plimsoll raises its own, a target may not"),
            format!("ulimit -n {}", hard.min((needed * 2).max(65_536))),
        ),
        _ if soft == u64::MAX => CheckResult::good("no limit"),
        _ => CheckResult::good(format!("{soft}: enough for {} agents", room(soft))),
    }
}

fn room(files: u64) -> u64 {
    files.saturating_sub(OTHERS)
}

pub static AVAILABLE: CheckKind = CheckKind {
    name: "memory available",
    about: CheckScope::Memory,
    reads: "/proc/meminfo, and the limits of our own control group",
    why: "without memory to spare, the kernel drops caches, swaps, or kills the target",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["lost_process"],
    article: None,
    look: look_at_available,
};

pub static HUGE_PAGES: CheckKind = CheckKind {
    name: "transparent huge pages",
    about: CheckScope::Memory,
    reads: "/sys/kernel/mm/transparent_hugepage/enabled",
    why: "the kernel may stop a process at any time to find and clear 2 MiB at once; databases advise against `always`",
    source: "https://docs.kernel.org/admin-guide/mm/transhuge.html",
    caught_by: &[],
    article: None,
    look: look_at_huge_pages,
};

pub static SWAP: CheckKind = CheckKind {
    name: "swap",
    about: CheckScope::Memory,
    reads: "/proc/meminfo, vm.swappiness",
    why: "a swapped-out page takes a disk read to come back: one slow answer in a thousand, without a visible cause",
    source: "https://docs.kernel.org/admin-guide/sysctl/vm.html",
    caught_by: &[],
    article: None,
    look: look_at_swap,
};

const MIB: u64 = 1 << 20;

/// Formats in whole MiB, or from 10 GiB in whole GiB.
fn show(bytes: u64) -> String {
    match bytes {
        small if small < 10 * 1024 * MIB => show_bytes(small / MIB * MIB),
        large => show_bytes(large / (1024 * MIB) * (1024 * MIB)),
    }
}

fn look_at_available(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let text = snapshot.text("proc/meminfo").unwrap_or_default();
    let (total, available) = (memory_bytes(&text, "MemTotal:"), memory_bytes(&text, "MemAvailable:"));
    let (Some(total), Some(available)) = (total, available) else { return CheckResult::unknown(NOT_TOLD) };
    let (most, whose) = match environment::memory_limit_bytes(snapshot.root) {
        Some(limit) if limit < total => (available.min(limit), format!("{} that this container may use", show(limit))),
        _ => (available, show(total)),
    };
    let found = format!("{} of {whose}", show(most));
    match most {
        least if least < 256 * MIB => CheckResult::bad(found, "end what is not needed (ps --sort=-rss aux | head)"),
        little if little < 1024 * MIB => {
            CheckResult::notice(found, "end what is not needed (ps --sort=-rss aux | head)")
        }
        _ => CheckResult::good(found),
    }
}

fn look_at_huge_pages(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    match snapshot.text(path).map(|text| chosen(&text)).as_deref() {
        None => CheckResult::unknown(NOT_TOLD),
        Some("always") => CheckResult::notice("always", "use them only for programs that request them")
            .fixed_by(snapshot.fix(path, "madvise")),
        Some(choice) => CheckResult::good(choice),
    }
}

fn look_at_swap(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let text = snapshot.text("proc/meminfo").unwrap_or_default();
    let (Some(total), Some(free)) = (memory_bytes(&text, "SwapTotal:"), memory_bytes(&text, "SwapFree:")) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    let name = "vm.swappiness";
    let swappiness = snapshot.sysctl(name).and_then(|numbers| numbers.first().copied());
    match (total, total.saturating_sub(free), swappiness) {
        (0, ..) => CheckResult::good("none"),
        (_, used, _) if used > 64 * MIB => CheckResult::notice(
            format!("{} of {} are in use", show(used), show(total)),
            "swapoff -a, if memory suffices",
        ),
        (_, _, Some(swappiness)) if swappiness > 10 => {
            let found = format!("{}, at swappiness {swappiness}", show(total));
            CheckResult::notice(found, "swap only as a last resort").fixed_by(snapshot.fix_sysctl(name, "1"))
        }
        _ => CheckResult::good(format!("{}, used only as a last resort", show(total))),
    }
}

pub static NODES: CheckKind = CheckKind {
    name: "memory nodes",
    about: CheckScope::Memory,
    reads: "/sys/devices/system/node/online, kernel.numa_balancing",
    why: "memory of another node is slower; the kernel unmaps and moves pages while a trial runs, to bring them nearer",
    source: "https://docs.kernel.org/admin-guide/sysctl/kernel.html",
    caught_by: &[],
    article: None,
    look: look_at_nodes,
};

fn look_at_nodes(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let online = snapshot.text("sys/devices/system/node/online");
    let Some(nodes) = online.and_then(|list| environment::count_listed(&list)) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    if nodes < 2 {
        return CheckResult::good("one");
    }
    let name = "kernel.numa_balancing";
    let found = format!("{nodes} of them");
    match snapshot.sysctl(name).as_deref() {
        Some([0]) | None => {
            CheckResult::notice(found, "keep generator and target on one node each (numactl --cpunodebind --membind)")
        }
        Some(_) => CheckResult::notice(
            format!("{found}, and pages move between them"),
            "bind processes, and keep pages where they are",
        )
        .fixed_by(snapshot.fix_sysctl(name, "0")),
    }
}

pub static PERSISTENT: CheckKind = CheckKind {
    name: "persistent memory",
    about: CheckScope::Hardware,
    reads: "/sys/bus/nd/devices, /proc/mounts, ndctl list, ipmctl show -dimm",
    why: "a file system on persistent memory without `dax` is an ordinary fast disk with a page cache",
    source: "https://docs.kernel.org/filesystems/dax.html",
    caught_by: &[],
    article: None,
    look: look_at_persistent,
};

fn look_at_persistent(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let listed = &snapshot.measured.persistent;
    let devices = snapshot.root.names("sys/bus/nd/devices");
    let [namespaces, regions] = [("namespace", listed.namespaces.len()), ("region", listed.regions.len())]
        .map(|(kind, listed)| listed.max(devices.iter().filter(|name| name.starts_with(kind)).count()));
    let mounts = snapshot.text("proc/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let on_it: Vec<Vec<&str>> =
        fields.filter(|fields| fields.first().is_some_and(|device| device.starts_with("/dev/pmem"))).collect();
    if namespaces + regions == 0 && on_it.is_empty() && !listed.is_there() {
        return CheckResult::unknown("not on this machine");
    }
    let is_direct = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|options| options.split(',').any(|option| matches!(option, "dax" | "dax=always")))
    };
    let cached: Vec<&str> =
        on_it.iter().filter(|fields| !is_direct(fields)).filter_map(|fields| fields.get(1).copied()).collect();
    if !cached.is_empty() {
        let found = format!("{} without dax: a page cache is in between", cached.join(", "));
        return CheckResult::notice(found, "mount -o dax (ext4 with blocks of 4096 bytes, or xfs)");
    }
    let has = [(regions, "region"), (namespaces, "namespace")].map(|(number, one)| (number as u64, one));
    let has: Vec<String> =
        has.into_iter().filter(|(number, _)| *number > 0).map(|(number, one)| count(number, one)).collect();
    let has = has.join(", ");
    if !on_it.is_empty() {
        let direct: Vec<&str> = on_it.iter().filter_map(|fields| fields.get(1).copied()).collect();
        return CheckResult::good(format!("{has}, {} with dax", direct.join(", ")));
    }
    let ways = listed.ways();
    if ways.is_empty() {
        let devices: Vec<&str> = listed.namespaces.iter().filter_map(|namespace| namespace.device.as_deref()).collect();
        let what = if devices.is_empty() { "pmemN".to_owned() } else { devices.join(", ") };
        let remedy = format!("mount it: mount -o dax /dev/{what}; `ndctl list -RND` lists the namespaces");
        return CheckResult::notice(format!("{has}, none mounted"), remedy);
    }
    let commands = ways.into_iter().flat_map(|(what, commands)| [format!("# {what}")].into_iter().chain(commands));
    CheckResult {
        commands: commands.collect(),
        ..CheckResult::notice(
            format!("{has}, none mounted: the tier `pmem` needs a mounted one"),
            "one of these, as root; each destroys what is on the modules:",
        )
    }
}

pub static PROCESSES: CheckKind = CheckKind {
    name: "processes and threads",
    about: CheckScope::Limits,
    reads: "/proc/self/limits, kernel.pid_max, kernel.threads-max",
    why: "a target with a thread for each connection fails at this limit",
    source: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    caught_by: &["lost_process"],
    article: Some(Tuning {
        number: 2,
        says: "soft nproc 2407, hard nproc 16384",
        worth: "it counts threads of one user, and root has no such limit; a few thousand are enough for an event loop, Erlang's included",
    }),
    look: look_at_processes,
};

fn look_at_processes(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let Some(limits) = snapshot.text("proc/self/limits") else { return CheckResult::unknown(NOT_TOLD) };
    let ours = environment::limit(&limits, "Max processes").0;
    let kernel = ["kernel.pid_max", "kernel.threads-max"].map(|name| snapshot.sysctl(name)?.first().copied());
    let kernel = kernel.into_iter().flatten().min();
    let Some(least) = [ours, kernel].into_iter().flatten().min() else { return CheckResult::unknown(NOT_TOLD) };
    let who = if ours == Some(least) { "for this user" } else { "for the machine" };
    if least < 4096 {
        return CheckResult::notice(
            format!("{least} {who}"),
            "ulimit -u 16384, or kernel.pid_max and kernel.threads-max",
        );
    }
    CheckResult::good(format!("{least} {who}"))
}
