//! What this machine is, for whoever compares one run with another: read from /proc, /sys and /etc. It must not judge, and
//! must not make up what it cannot find.

mod bounds;
mod devices;
mod machine;
mod mounts;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use experiment::plan;
use record::environment::{Build, Cpu, Disk, Environment, Limits};

use crate::linux::cgroup::{Controller, Hierarchies};
use crate::linux::{clock, procfs};
use crate::placement::{Room, needs_score};
use crate::probes::memory_bytes;
use crate::runner::machine::score as machine_score;

pub(crate) use bounds::{memory_limit_bytes, quota_cores};
pub(crate) use machine::{cgroup_version, count_listed, limit, mitigations, time_keeper, turbo, virtualisation};
pub(crate) use mounts::existing;

/// The root of the file system, or a recorded part of one.
pub(crate) struct Root(PathBuf);

impl Root {
    /// What is below this folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// What is in a folder, sorted; empty if it is not there.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// A file's text without the white space around it; `None` if there is nothing else in it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = procfs::text(&self.path(path))?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

/// Reads all that can be found out about this machine; `run_folder` says which disk matters, it need not exist yet.
#[must_use]
pub fn read(run_folder: &Path) -> Environment {
    let is_synchronised = clock::is_synchronised();
    Environment { is_synchronised, ..read_at(&Root(PathBuf::from("/")), run_folder) }
}

/// What of this machine a lab can use: the CPUs that this program may run on, the memory that is available and, where the
/// lab's profiles need it, a core's score, which takes a second.
#[must_use]
pub fn room(lab: &plan::Lab) -> Room {
    // Measured once, because every trial is to be played alike.
    static SCORE: OnceLock<f64> = OnceLock::new();
    let cpus = rustix::thread::sched_getaffinity(None).map(|set| {
        let numbers = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
    });
    let memory = procfs::text(Path::new("/proc/meminfo")).unwrap_or_default();
    Room {
        cpus: cpus.unwrap_or_default(),
        memory_bytes: memory_bytes(&memory, "MemAvailable:").unwrap_or(u64::MAX),
        shares_cpus: Hierarchies::detect().of(Controller::Cpuset).is_none(),
        score: needs_score(lab).then(|| *SCORE.get_or_init(machine_score)),
    }
}

fn read_at(root: &Root, run_folder: &Path) -> Environment {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    Environment {
        plimsoll: Some(env!("CARGO_PKG_VERSION").to_owned()),
        build: Build::default(),
        targets: BTreeMap::new(),
        installed: BTreeMap::new(),
        hostname: root.text("proc/sys/kernel/hostname"),
        os: machine::os(root),
        kernel: root.text("proc/sys/kernel/osrelease"),
        kernel_command_line: root.text("proc/cmdline").map(|line| machine::measured_options(&line)),
        cpu: cpu(root),
        memory_bytes: memory_bytes(&memory, "MemTotal:"),
        memory_speed_mt_per_s: devices::memory_speed_mt_per_s(root),
        memory_nodes: root.text("sys/devices/system/node/online").and_then(|list| count_listed(&list)),
        swap_bytes: memory_bytes(&memory, "SwapTotal:"),
        virtualisation: virtualisation(root),
        cgroup_version: cgroup_version(root),
        quota_cores: quota_cores(root),
        memory_limit_bytes: memory_limit_bytes(root),
        clocksource: root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        is_synchronised: None,
        time_keeper: time_keeper(root),
        limits: limits(root),
        disk: disk(root, run_folder),
        root: Some(rustix::process::geteuid().is_root()),
        time_zone: machine::time_zone(root),
        interfaces: devices::interfaces(root),
        sysctls: settings::sysctls(root),
        more: settings::more(root),
    }
}

fn cpu(root: &Root) -> Cpu {
    const FREQUENCY: &str = "sys/devices/system/cpu/cpu0/cpufreq";
    let siblings = root.text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    Cpu {
        model: machine::cpu_model(root),
        stepping: machine::of_cpu(root, &["stepping", "CPU revision"]),
        microcode: machine::of_cpu(root, &["microcode"]),
        sockets: devices::sockets(root),
        caches: devices::caches(root),
        smt: root.number::<u8>("sys/devices/system/cpu/smt/active").map(|active| active == 1),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok()),
        threads_per_core: siblings.and_then(|list| count_listed(&list)),
        governor: root.text(&format!("{FREQUENCY}/scaling_governor")),
        frequency_driver: root.text(&format!("{FREQUENCY}/scaling_driver")),
        isolated: root.text("sys/devices/system/cpu/isolated"),
        turbo: turbo(root),
        max_mhz: root.number::<f64>(&format!("{FREQUENCY}/cpuinfo_max_freq")).map(|khz| khz / 1000.0),
        mitigations: mitigations(root),
    }
}

fn limits(root: &Root) -> Limits {
    let limits = root.text("proc/self/limits").unwrap_or_default();
    let files = limit(&limits, "Max open files");
    let ports = root.text("proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ports = ports.split_whitespace().map(|port| port.parse().ok());
    Limits {
        open_files: files.0,
        open_files_max: files.1,
        ephemeral_ports: ports.next().flatten().zip(ports.next().flatten()).map(|(first, last)| [first, last]),
        accept_queue: root.number("proc/sys/net/core/somaxconn"),
        reuses_ports: root.number("proc/sys/net/ipv4/tcp_tw_reuse"),
        processes: limit(&limits, "Max processes").0,
    }
}

fn disk(root: &Root, run_folder: &Path) -> Disk {
    let Some(folder) = existing(run_folder) else { return Disk::default() };
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let mount = mounts::holding(&mounts, &folder);
    let free = rustix::fs::statvfs(&folder).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    Disk {
        device: mount.as_ref().map(|mount| mount.device.clone()),
        file_system: mount.as_ref().map(|mount| mount.file_system.clone()),
        mount_options: mount.as_ref().map(|mount| mount.options.clone()),
        rotational: mount.as_ref().and_then(|mount| mounts::is_rotational(root, &mount.number)),
        scheduler: mount.and_then(|mount| mounts::scheduler(root, &mount.number)),
        free_bytes: free,
        // Measuring it takes longer than reading all the rest.
        sync_us: None,
    }
}

/// The disk of this machine that a folder lies on.
pub(crate) fn disk_of(folder: &Path) -> Disk {
    disk(&Root::at(Path::new("/")), folder)
}

#[cfg(test)]
mod tests;
