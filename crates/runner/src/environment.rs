//! Description of this machine: hardware, kernel, settings and limits, for the comparison of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use linux::cgroup::{Controller, Hierarchies, Version};
use linux::procfs;
use record::environment::{Build, Cache, Cpu, Environment, Interface, Limits, RunFolderDisk};

use crate::probes::memory_bytes;

/// Root of this machine's file system, or of recorded files of a machine.
pub struct RecordedRoot(PathBuf);

impl RecordedRoot {
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the names in a folder, sorted. Empty if the folder does not exist.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns a file's text without surrounding white space, or `None` if nothing else is in the
    /// file.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = procfs::text(&self.path(path))?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Parses a file's whole text as a number.
    #[must_use]
    pub fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// Returns the path of a file or folder below this root.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

/// Reads the description of this machine. `run_folder` selects the disk and need not exist yet.
#[must_use]
pub fn read(run_folder: &Path) -> Environment {
    let is_synchronised = linux::is_clock_synchronised();
    Environment { is_synchronised, ..read_at(&RecordedRoot(PathBuf::from("/")), run_folder) }
}

fn read_at(root: &RecordedRoot, run_folder: &Path) -> Environment {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    Environment {
        plimsoll: Some(env!("CARGO_PKG_VERSION").to_owned()),
        build: Build::default(),
        targets: BTreeMap::new(),
        installed: BTreeMap::new(),
        hostname: root.text("proc/sys/kernel/hostname"),
        os: os(root),
        kernel: root.text("proc/sys/kernel/osrelease"),
        kernel_command_line: root.text("proc/cmdline").map(|line| measured_options(&line)),
        cpu: cpu(root),
        memory_bytes: memory_bytes(&memory, "MemTotal:"),
        memory_speed_mt_per_s: memory_speed_mt_per_s(root),
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
        time_zone: time_zone(root),
        interfaces: interfaces(root),
        sysctls: sysctls(root),
        more: more(root),
    }
}

fn cpu(root: &RecordedRoot) -> Cpu {
    const FREQUENCY: &str = "sys/devices/system/cpu/cpu0/cpufreq";
    let siblings = root.text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    Cpu {
        model: cpu_model(root),
        stepping: of_cpu(root, &["stepping", "CPU revision"]),
        microcode: of_cpu(root, &["microcode"]),
        sockets: sockets(root),
        caches: caches(root),
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

fn limits(root: &RecordedRoot) -> Limits {
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

fn disk(root: &RecordedRoot, run_folder: &Path) -> RunFolderDisk {
    let Some(folder) = existing(run_folder) else { return RunFolderDisk::default() };
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let mount = holding(&mounts, &folder);
    let free = rustix::fs::statvfs(&folder).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    RunFolderDisk {
        device: mount.as_ref().map(|mount| mount.device.clone()),
        file_system: mount.as_ref().map(|mount| mount.file_system.clone()),
        mount_options: mount.as_ref().map(|mount| mount.options.clone()),
        rotational: mount.as_ref().and_then(|mount| is_rotational(root, &mount.number)),
        scheduler: mount.and_then(|mount| scheduler(root, &mount.number)),
        free_bytes: free,
        // Measuring the sync time takes longer than all other readings.
        sync_us: None,
    }
}

/// Returns the disk of this machine that holds a folder.
pub fn disk_of(folder: &Path) -> RunFolderDisk {
    disk(&RecordedRoot::at(Path::new("/")), folder)
}

// Limits of this process: CPU quota and memory limit of its control group and of the groups above.

/// Returns the tightest CPU quota, in CPUs. `None` without a quota.
pub fn quota_cores(root: &RecordedRoot) -> Option<f64> {
    let (version, folders) = groups(root, Controller::Cpu)?;
    let quotas = folders.iter().filter_map(|folder| {
        let (quota, period) = match version {
            Version::V2 => {
                let text = procfs::text(&folder.join("cpu.max"))?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
            }
            Version::V1 => (number(folder, "cpu.cfs_quota_us")?, number(folder, "cpu.cfs_period_us")?),
        };
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    });
    quotas.min_by(f64::total_cmp)
}

/// Returns the tightest memory limit. `None` without a limit.
pub fn memory_limit_bytes(root: &RecordedRoot) -> Option<u64> {
    let (version, folders) = groups(root, Controller::Memory)?;
    let name = if version == Version::V2 { "memory.max" } else { "memory.limit_in_bytes" };
    // Version 1 reports "no limit" as a number close to the largest.
    folders.iter().filter_map(|folder| number::<u64>(folder, name).filter(|bytes| *bytes < 1 << 60)).min()
}

fn number<N: std::str::FromStr>(folder: &Path, name: &str) -> Option<N> {
    procfs::text(&folder.join(name))?.trim().parse().ok()
}

/// Returns this process's group in the controller's tree, and all groups above it.
fn groups(root: &RecordedRoot, controller: Controller) -> Option<(Version, Vec<PathBuf>)> {
    let hierarchies = Hierarchies::detect_in(root.folder());
    let hierarchy = hierarchies.of(controller)?;
    let text = root.text("proc/self/cgroup")?;
    let own = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_its = match hierarchy.version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => controllers.split(',').any(|name| name == controller.to_string()),
        };
        is_its.then(|| path.trim_start_matches('/').to_owned())
    })?;
    let own = hierarchy.root.join(own);
    let above = own.ancestors().take_while(|folder| folder.starts_with(&hierarchy.root));
    Some((hierarchy.version, above.map(Path::to_path_buf).collect()))
}

// Devices of a machine: processor packages and caches, memory modules, network interfaces.

const CPUS: &str = "sys/devices/system/cpu";

/// Returns the number of processor packages.
fn sockets(root: &RecordedRoot) -> Option<u32> {
    let names = root.names(CPUS).into_iter();
    let cpus = names.filter(|name| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok()));
    let packages: BTreeSet<String> =
        cpus.filter_map(|cpu| root.text(&format!("{CPUS}/{cpu}/topology/physical_package_id"))).collect();
    u32::try_from(packages.len()).ok().filter(|count| *count > 0)
}

/// Returns the caches of the first processor, smallest level first.
fn caches(root: &RecordedRoot) -> Vec<Cache> {
    let folder = format!("{CPUS}/cpu0/cache");
    let mut caches = Vec::new();
    for index in root.names(&folder).into_iter().filter(|name| name.starts_with("index")) {
        let [level, holds, size, cpus] =
            ["level", "type", "size", "shared_cpu_list"].map(|name| root.text(&format!("{folder}/{index}/{name}")));
        caches.push(Cache {
            level: level.and_then(|level| level.parse().ok()),
            holds,
            size_bytes: size.and_then(|size| in_bytes(&size)),
            shared_by: cpus.and_then(|list| count_listed(&list)),
        });
    }
    caches
}

/// Parses a size such as `1024K`.
fn in_bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the loopback and the interfaces that are devices. Bridges and tunnels are left out,
/// because they vary between runs.
pub fn interfaces(root: &RecordedRoot) -> Vec<Interface> {
    const FOLDER: &str = "sys/class/net";
    let names = root.names(FOLDER).into_iter();
    let kept = names.filter(|name| name == "lo" || root.path(&format!("{FOLDER}/{name}/device")).exists());
    kept.map(|name| {
        let driver = fs::read_link(root.path(&format!("{FOLDER}/{name}/device/driver"))).ok();
        // An interface that is down reports -1.
        let speed = root.number::<i64>(&format!("{FOLDER}/{name}/speed")).filter(|speed| *speed > 0);
        Interface {
            mtu_bytes: root.number(&format!("{FOLDER}/{name}/mtu")),
            driver: driver.and_then(|driver| Some(driver.file_name()?.to_str()?.to_owned())),
            speed_mbit_per_s: speed.and_then(|speed| u64::try_from(speed).ok()),
            name,
        }
    })
    .collect()
}

/// Returns the speed of the fastest memory module, from the firmware's tables, which only root may
/// read.
fn memory_speed_mt_per_s(root: &RecordedRoot) -> Option<u64> {
    memory_speed(&fs::read(root.path("sys/firmware/dmi/tables/DMI")).ok()?)
}

/// Returns the fastest speed in structures of type 17, "Memory Device": size at 0Ch, speed at 15h,
/// configured speed at 20h (DMTF DSP0134, 7.18).
fn memory_speed(table: &[u8]) -> Option<u64> {
    const MEMORY_DEVICE: u8 = 17;
    let mut fastest = None;
    let mut rest = table;
    while let [kind, length, ..] = *rest {
        let fixed = rest.get(..usize::from(length)).filter(|fixed| fixed.len() >= 4)?;
        let [size, configured, speed] =
            [0x0c, 0x20, 0x15].map(|at| Some(u64::from(u16::from_le_bytes([*fixed.get(at)?, *fixed.get(at + 1)?]))));
        if kind == MEMORY_DEVICE && size.is_some_and(|size| size > 0) {
            fastest = fastest.max([configured, speed].into_iter().flatten().find(|speed| (1..0xffff).contains(speed)));
        }
        // The structure's strings follow, ended by two zeros.
        let texts = &rest[fixed.len()..];
        let end = texts.windows(2).position(|pair| pair == [0, 0])? + 2;
        rest = &texts[end..];
    }
    fastest
}

// Single facts about a machine, each from its file.

/// Returns the name of the operating system, such as `Debian GNU/Linux 12 (bookworm)`.
pub fn os(root: &RecordedRoot) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// Returns the options of a kernel command line that affect measurements. Other options are left
/// out for privacy: they name consoles, disks, addresses and, on some machines, secrets.
fn measured_options(line: &str) -> String {
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
    // Options after `--` are for init.
    let options = line.split_ascii_whitespace().take_while(|option| *option != "--");
    let kept = options.filter(|option| {
        let name = option.split('=').next().unwrap_or_default();
        NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// Returns the processor's name: `model name` on x86, `Model` or the device tree's on ARM boards.
fn cpu_model(root: &RecordedRoot) -> Option<String> {
    of_cpu(root, &["model name", "Model"]).or_else(|| root.text("proc/device-tree/model"))
}

/// Returns the first processor's value in `/proc/cpuinfo`, under the first of these names that
/// exists.
fn of_cpu(root: &RecordedRoot, names: &[&str]) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    names.iter().find_map(|wanted| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == *wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    })
}

/// Returns the name of the running program that adjusts the wall clock, as shortened by the kernel.
pub fn time_keeper(root: &RecordedRoot) -> Option<String> {
    const KEEPERS: [&str; 6] = ["chronyd", "systemd-timesyn", "ntpd", "openntpd", "ptp4l", "phc2sys"];
    let processes = root.names("proc").into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    let mut names = processes.filter_map(|process| root.text(&format!("proc/{process}/comm")));
    names.find(|name| KEEPERS.contains(&name.as_str()))
}

/// Returns the number of CPUs in a list such as `0,4-5`.
pub fn count_listed(list: &str) -> Option<u32> {
    list.trim()
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1),
            None => part.parse::<u32>().ok().map(|_| 1),
        })
        .sum()
}

/// Whether CPU turbo is on. Intel's driver reports the negation.
pub fn turbo(root: &RecordedRoot) -> Option<bool> {
    let off = root.number::<u8>("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0);
    off.or_else(|| root.number::<u8>("sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1))
}

/// Returns the entries of `/sys/devices/system/cpu/vulnerabilities` that affect this processor.
pub fn mitigations(root: &RecordedRoot) -> BTreeMap<String, String> {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    let files = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names
        .filter_map(|name| Some((root.text(&format!("{FOLDER}/{name}"))?, name)))
        .filter(|(says, _)| says != "Not affected")
        .map(|(says, name)| (name, says))
        .collect()
}

/// Returns the kind of virtual machine or container. `none` only if the processor reports real
/// hardware.
pub fn virtualisation(root: &RecordedRoot) -> Option<String> {
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

/// Returns the version of control groups. A machine with any controller on version 1 counts as 1.
pub fn cgroup_version(root: &RecordedRoot) -> Option<u32> {
    let text = root.text("proc/self/cgroup")?;
    let mut controllers = text.lines().filter_map(|line| line.split(':').nth(1));
    let has_v1 = controllers.any(|names| !names.is_empty() && !names.starts_with("name="));
    Some(if has_v1 { 1 } else { 2 })
}

/// Returns the soft and hard limit with this name in `/proc/self/limits`. `None` if unlimited.
pub fn limit(limits: &str, name: &str) -> (Option<u64>, Option<u64>) {
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut values = line.split_ascii_whitespace().map(|value| value.parse().ok());
    (values.next().flatten(), values.next().flatten())
}

/// Returns the time zone, such as `Europe/Zurich`.
fn time_zone(root: &RecordedRoot) -> Option<String> {
    if let Some(zone) = std::env::var("TZ").ok().filter(|zone| !zone.is_empty()) {
        return Some(zone.trim_start_matches(':').to_owned());
    }
    let link = fs::read_link(root.path("etc/localtime")).ok();
    let from_link = link.and_then(|link| Some(link.to_str()?.split_once("zoneinfo/")?.1.to_owned()));
    from_link.or_else(|| root.text("etc/timezone"))
}

// Disk that holds a folder.

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// Device as mounted: `/dev/sda1`.
    pub device: String,
    /// Type of the file system.
    pub file_system: String,
    /// Device number, `major:minor`.
    pub number: String,
    /// Options of the mount and of the file system.
    pub options: String,
}

/// Returns the folder, or the nearest parent that exists.
pub fn existing(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    folder.ancestors().find_map(|folder| folder.canonicalize().ok())
}

/// Returns the mount that holds `folder`, from the text of `/proc/self/mountinfo` (proc(5)).
pub fn holding(mountinfo: &str, folder: &Path) -> Option<MountPoint> {
    let mut nearest: Option<(usize, MountPoint)> = None;
    for line in mountinfo.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let place: Vec<&str> = place.split(' ').collect();
        let kind: Vec<&str> = kind.split(' ').collect();
        let (Some(number), Some(point)) = (place.get(2), place.get(4)) else { continue };
        let (Some(file_system), Some(device)) = (kind.first(), kind.get(1)) else { continue };
        let point = unescaped(point);
        let depth = Path::new(&point).components().count();
        // Of two mounts on the same point, the later is on top.
        if folder.starts_with(&point) && nearest.as_ref().is_none_or(|(nearest, _)| depth >= *nearest) {
            let mount = MountPoint {
                device: unescaped(device),
                file_system: (*file_system).to_owned(),
                number: (*number).to_owned(),
                options: options(place.get(5).copied().unwrap_or_default(), kind.get(2).copied().unwrap_or_default()),
            };
            nearest = Some((depth, mount));
        }
    }
    nearest.map(|(_, mount)| mount)
}

/// Joins two lists of mount options. Each option appears once.
fn options(of_mount: &str, of_system: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in of_mount.split(',').chain(of_system.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// Undoes the kernel's octal escapes of white space and backslashes in paths.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Whether the disk rotates. A partition uses its disk's value.
fn is_rotational(root: &RecordedRoot, number: &str) -> Option<bool> {
    of_queue(root, number, "rotational").map(|rotates| rotates == "1")
}

/// Returns the I/O scheduler of a disk.
fn scheduler(root: &RecordedRoot, number: &str) -> Option<String> {
    of_queue(root, number, "scheduler").map(|text| chosen(&text))
}

fn of_queue(root: &RecordedRoot, number: &str, what: &str) -> Option<String> {
    let folder = format!("sys/dev/block/{number}");
    let says = root.text(&format!("{folder}/queue/{what}"));
    says.or_else(|| root.text(&format!("{folder}/../queue/{what}")))
}

// Kernel settings that are known to affect measurements.

const SYSCTLS: [&str; 26] = [
    "fs.epoll.max_user_watches",
    "fs.file-max",
    "kernel.numa_balancing",
    "kernel.pid_max",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.threads-max",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.overcommit_memory",
];

/// Returns the kernel settings that have no field of their own.
fn sysctls(root: &RecordedRoot) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for name in SYSCTLS {
        if let Some(text) = root.text(&format!("proc/sys/{}", name.replace('.', "/"))) {
            values.insert(name.to_owned(), text.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    values
}

/// Returns the settings that are recorded under short names instead of their kernel names.
pub fn more(root: &RecordedRoot) -> BTreeMap<String, String> {
    const SETTINGS: [(&str, &str); 4] = [
        ("swappiness", "proc/sys/vm/swappiness"),
        ("tcp_congestion_control", "proc/sys/net/ipv4/tcp_congestion_control"),
        ("tcp_syncookies", "proc/sys/net/ipv4/tcp_syncookies"),
        ("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled"),
    ];
    SETTINGS.iter().filter_map(|(name, path)| Some(((*name).to_owned(), root.text(path)?))).collect()
}

/// Normalises the white space in a kernel file's text. Of `always [madvise] never`, returns the
/// choice.
pub fn chosen(text: &str) -> String {
    let choice = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(choice, _)| choice);
    choice.map_or_else(|| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;

    fn root(files: &[(&str, &str)]) -> (RecordedRoot, TestDir) {
        let folder = TestDir::new();
        for (path, text) in files {
            folder.write(path, text);
        }
        (RecordedRoot(folder.to_path_buf()), folder)
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
    fn missing_files_leave_facts_empty() {
        let (root, _folder) = root(&[]);
        let found = read_at(&root, Path::new("/"));
        // All facts that do not depend on this program or the folder.
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
    fn a_laptop_is_described() {
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
    fn virtual_machines_and_containers_are_recognised() {
        let guest = ("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
        let says = |files: &[(&str, &str)]| virtualisation(&root(files).0);
        assert_eq!(says(&[guest, ("sys/class/dmi/id/sys_vendor", "QEMU\n")]).as_deref(), Some("QEMU"));
        let clock = ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc\n");
        assert_eq!(says(&[guest, clock]).as_deref(), Some("kvm"));
        assert_eq!(says(&[guest]).as_deref(), Some("unknown hypervisor"));
        assert_eq!(says(&[guest, (".dockerenv", "")]).as_deref(), Some("docker"));
        // ARM reports no hypervisor flag.
        assert_eq!(says(&[("proc/cpuinfo", "Features\t: fp asimd\nModel\t: Raspberry Pi 2\n")]), None);
    }

    #[test]
    fn only_kernel_options_that_matter_are_kept() {
        let line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=off quiet token=abc isolcpus=2,3 intel_idle.max_cstate=1 -- psi=1";
        assert_eq!(measured_options(line), "mitigations=off isolcpus=2,3 intel_idle.max_cstate=1");
    }

    #[test]
    fn mixed_cgroup_versions_count_as_version_1() {
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
        let device = |folder: &str| holding(mounts, Path::new(folder)).unwrap().device;
        assert_eq!(device("/var/runs"), "/dev/vda");
        assert_eq!(device("/data/runs"), "tmpfs");
        assert_eq!(device("/database"), "/dev/vda");
        assert_eq!(device("/data/my disk/runs"), "/dev/sda1");
        assert_eq!(holding("", Path::new("/")), None);
        assert_eq!(holding(mounts, Path::new("/data")).unwrap().options, "rw,nosuid");
    }

    #[test]
    fn a_partition_takes_rotation_from_its_disk() {
        let (root, _folder) =
            root(&[("sys/dev/block/8:0/queue/rotational", "1\n"), ("sys/dev/block/8:0/8:1/size", "1\n")]);
        assert_eq!(is_rotational(&root, "8:0"), Some(true));
        assert_eq!(is_rotational(&root, "8:0/8:1"), Some(true));
        assert_eq!(is_rotational(&root, "9:0"), None);
    }

    #[test]
    fn packages_and_caches_are_counted() {
        let folder = TestDir::new();
        for (cpu, package) in [("cpu0", "0"), ("cpu1", "1"), ("cpu2", "1"), ("cpufreq", "7")] {
            folder.write(&format!("{CPUS}/{cpu}/topology/physical_package_id"), package);
        }
        for (index, [level, kind, size, list]) in
            [["1", "Data", "32K", "0"], ["3", "Unified", "16M", "0-1"]].into_iter().enumerate()
        {
            for (what, value) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", list)] {
                folder.write(&format!("{CPUS}/cpu0/cache/index{index}/{what}"), value);
            }
        }
        let root = RecordedRoot::at(&folder);
        assert_eq!(sockets(&root), Some(2));
        let caches = caches(&root);
        assert_eq!((caches.len(), caches[0].size_bytes, caches[1].size_bytes), (2, Some(32 << 10), Some(16 << 20)));
        assert_eq!(
            (caches[1].level, caches[1].holds.as_deref(), caches[1].shared_by),
            (Some(3), Some("Unified"), Some(2))
        );
        assert_eq!((in_bytes("1G"), in_bytes("")), (None, None));
    }

    #[test]
    fn interfaces_are_the_loopback_and_devices() {
        let folder = TestDir::new();
        folder.write("sys/class/net/lo/mtu", "65536");
        folder.write("sys/class/net/docker0/mtu", "1500");
        folder.write("sys/class/net/eth0/mtu", "1500");
        folder.write("sys/class/net/eth0/speed", "-1");
        folder.write("sys/class/net/eth0/device/vendor", "x");
        std::os::unix::fs::symlink(
            "../../../bus/virtio/drivers/virtio_net",
            folder.join("sys/class/net/eth0/device/driver"),
        )
        .unwrap();
        let found = interfaces(&RecordedRoot::at(&folder));
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["eth0", "lo"]);
        assert_eq!(
            (found[0].driver.as_deref(), found[0].mtu_bytes, found[0].speed_mbit_per_s),
            (Some("virtio_net"), Some(1500), None)
        );
        assert_eq!((found[1].driver.as_deref(), found[1].mtu_bytes), (None, Some(65_536)));
    }

    /// Makes a structure of this type, followed by a string.
    fn structure(kind: u8, words: &[(usize, u16)]) -> Vec<u8> {
        let mut bytes = vec![0; 0x22];
        (bytes[0], bytes[1]) = (kind, 0x22);
        for (at, word) in words {
            bytes[*at..*at + 2].copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend(b"DIMM 0\0\0");
        bytes
    }

    #[test]
    fn the_fastest_installed_memory_module_counts() {
        let module =
            |size: u16, speed: u16, configured: u16| structure(17, &[(0x0c, size), (0x15, speed), (0x20, configured)]);
        let table =
            [structure(1, &[(0x20, 9999)]), module(0, 4800, 4800), module(8, 3200, 2666), module(8, 2400, 0)].concat();
        assert_eq!(memory_speed(&table), Some(2666));
        assert_eq!(memory_speed(&module(8, 0xffff, 0)), None);
        assert_eq!(memory_speed(&[]), None);
        for cut in 0..table.len() {
            // A truncated table causes no panic and no invented figure.
            assert!(memory_speed(&table[..cut]).is_none_or(|speed| speed == 2666 || speed == 2400));
        }
    }

    #[test]
    fn the_bracketed_choice_is_read() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(chosen("\n"), "");
    }
}
