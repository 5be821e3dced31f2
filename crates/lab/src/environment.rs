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
mod tests {
    use super::*;
    use crate::fixture::Scratch;

    fn root(files: &[(&str, &str)]) -> (Root, Scratch) {
        let folder = Scratch::new();
        for (path, text) in files {
            folder.write(path, text);
        }
        (Root(folder.to_path_buf()), folder)
    }

    #[test]
    fn this_machine_has_the_basics() {
        let found = read(Path::new("a/run/folder/that/is/not/there/yet"));
        assert!(found.kernel.is_some() && found.memory_bytes.unwrap() > 0 && found.cpu.cores.unwrap() > 0);
        assert_eq!(found.plimsoll.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(found.disk.free_bytes.is_some() && found.disk.file_system.is_some() && found.root.is_some());
        assert!(found.limits.open_files.is_some() && found.limits.ephemeral_ports.is_some());
    }

    #[test]
    fn a_machine_that_says_nothing_gives_nothing() {
        let (root, _folder) = root(&[]);
        let found = read_at(&root, Path::new("/"));
        // All of it that is not of this program or of the folder.
        let known = Environment {
            plimsoll: found.plimsoll.clone(),
            root: found.root,
            time_zone: found.time_zone.clone(),
            disk: found.disk.clone(),
            cpu: Cpu { architecture: found.cpu.architecture.clone(), cores: found.cpu.cores, ..Cpu::default() },
            ..Environment::default()
        };
        assert_eq!(found, known);
    }

    #[test]
    fn a_laptop() {
        let (root, _folder) = root(&[
            ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor @ 2.00GHz\nflags\t\t: fpu vme\n"),
            ("proc/meminfo", "MemTotal:       16000 kB\nSwapTotal:      0 kB\n"),
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("proc/812/comm", "chronyd\n"),
            ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4600000\n"),
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4-5\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n"),
        ]);
        let found = read_at(&root, Path::new("/"));
        assert_eq!(found.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!((found.memory_bytes, found.swap_bytes), (Some(16_000 << 10), Some(0)));
        assert_eq!((found.virtualisation.as_deref(), found.cgroup_version), (Some("none"), Some(2)));
        assert_eq!(found.limits.ephemeral_ports, Some([32_768, 60_999]));
        assert_eq!((found.quota_cores, found.memory_limit_bytes), (Some(1.5), Some(4 << 30)));
        assert_eq!((found.time_keeper.as_deref(), found.memory_nodes), (Some("chronyd"), Some(2)));
        assert_eq!(found.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
        let cpu = found.cpu;
        assert_eq!((cpu.smt, cpu.stepping, cpu.sockets), (Some(true), None, None));
        assert_eq!((cpu.model.as_deref(), cpu.governor.as_deref()), (Some("A Processor @ 2.00GHz"), Some("powersave")));
        assert_eq!((cpu.max_mhz, cpu.threads_per_core, cpu.turbo), (Some(4600.0), Some(3), Some(true)));
        assert_eq!(cpu.mitigations, BTreeMap::from([("meltdown".to_owned(), "Mitigation: PTI".to_owned())]));
    }

    #[test]
    fn guests_are_known_by_what_they_say() {
        let guest = ("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
        let says = |files: &[(&str, &str)]| virtualisation(&root(files).0);
        assert_eq!(says(&[guest, ("sys/class/dmi/id/sys_vendor", "QEMU\n")]).as_deref(), Some("QEMU"));
        let clock = ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc\n");
        assert_eq!(says(&[guest, clock]).as_deref(), Some("kvm"));
        assert_eq!(says(&[guest]).as_deref(), Some("unknown hypervisor"));
        assert_eq!(says(&[guest, (".dockerenv", "")]).as_deref(), Some("docker"));
        // ARM says nothing of a hypervisor.
        assert_eq!(says(&[("proc/cpuinfo", "Features\t: fp asimd\nModel\t: Raspberry Pi 2\n")]), None);
    }

    #[test]
    fn only_kernel_options_that_matter_are_kept() {
        let line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=off quiet token=abc isolcpus=2,3 intel_idle.max_cstate=1 -- psi=1";
        assert_eq!(machine::measured_options(line), "mitigations=off isolcpus=2,3 intel_idle.max_cstate=1");
    }

    #[test]
    fn both_cgroup_versions_are_version_1() {
        let version = |text: &str| cgroup_version(&root(&[("proc/self/cgroup", text)]).0);
        assert_eq!(version("4:memory:/x\n1:name=systemd:/\n0::/\n"), Some(1));
        assert_eq!(version("1:name=systemd:/\n0::/\n"), Some(2));
    }

    #[test]
    fn limits_are_read_from_their_table() {
        let table = [
            "Limit                     Soft Limit           Hard Limit           Units",
            "Max processes             unlimited            96365                processes",
            "Max open files            1024                 1048576              files",
        ];
        let table = &table.join("\n");
        assert_eq!(limit(table, "Max open files"), (Some(1024), Some(1_048_576)));
        assert_eq!(limit(table, "Max processes"), (None, Some(96_365)));
        assert_eq!(limit(table, "Max locked memory"), (None, None));
    }

    #[test]
    fn the_nearest_mount_holds_a_folder() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:20 / /data rw,nosuid shared:2 - tmpfs tmpfs rw
31 30 8:1 / /data/my\\040disk rw - xfs /dev/sda1 rw
";
        let device = |folder: &str| mounts::holding(mounts, Path::new(folder)).unwrap().device;
        assert_eq!(device("/var/runs"), "/dev/vda");
        assert_eq!(device("/data/runs"), "tmpfs");
        assert_eq!(device("/database"), "/dev/vda");
        assert_eq!(device("/data/my disk/runs"), "/dev/sda1");
        assert_eq!(mounts::holding("", Path::new("/")), None);
        assert_eq!(mounts::holding(mounts, Path::new("/data")).unwrap().options, "rw,nosuid");
    }

    #[test]
    fn a_partition_asks_its_disk_whether_it_rotates() {
        let (root, _folder) =
            root(&[("sys/dev/block/8:0/queue/rotational", "1\n"), ("sys/dev/block/8:0/8:1/size", "1\n")]);
        assert_eq!(mounts::is_rotational(&root, "8:0"), Some(true));
        assert_eq!(mounts::is_rotational(&root, "8:0/8:1"), Some(true));
        assert_eq!(mounts::is_rotational(&root, "9:0"), None);
    }
}
