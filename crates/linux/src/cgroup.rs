//! Control groups of version 1, version 2 and both at once: finding controllers, and making,
//! limiting, freezing, killing, reading and removing groups.
//!
//! A [`Cgroup`] is one name in every hierarchy, such as `plimsoll-x/n1/target`. Callers need not
//! know that version 1 has a tree per controller. The kernel documents the files in
//! `cgroup-v1/*.rst` and `cgroup-v2.rst`.

mod group;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use group::{Cgroup, Quota, Throttle};

/// Error of an action on a group.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A controller is missing.
    #[error("{needed_for} needs the control group controller `{controller}`, {why}")]
    Missing {
        controller: Controller,
        /// Purpose of the controller.
        needed_for: &'static str,
        /// Cause and remedy.
        why: &'static str,
    },
    /// This process may not make the change.
    #[error("cannot {doing}: {error} (control groups need root and a writable /sys/fs/cgroup)")]
    Denied {
        /// Action that failed.
        doing: String,
        /// System error.
        error: io::Error,
    },
    /// Version 1 refuses a limit below the memory in use.
    #[error(
        "memory cannot be limited to {asked_bytes} bytes: {used_bytes} bytes are in use, and this kernel (control groups of \
         version 1) could not free enough of them"
    )]
    MemoryInUse {
        /// The limit.
        asked_bytes: u64,
        /// Memory in use.
        used_bytes: u64,
    },
    /// Killed processes do not end.
    #[error("{count} processes of {name} are still alive after being killed")]
    Undying {
        /// Name of the group.
        name: String,
        /// Number of processes that are left.
        count: usize,
    },
    /// A system call failed.
    #[error("cannot {doing}: {error}")]
    System {
        /// Action that failed.
        doing: String,
        /// System error.
        error: io::Error,
    },
}

impl CgroupError {
    fn of(doing: String, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { doing, error },
            _ => Self::System { doing, error },
        }
    }
}

/// Device number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Major number, 7 for loop devices.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// Returns the device of a node such as `/dev/loop3`.
    ///
    /// # Errors
    /// The file does not exist or is not a block device.
    pub fn at(node: &Path) -> Result<Self, CgroupError> {
        let doing = || format!("examine {}", node.display());
        let found = fs::metadata(node).map_err(|error| CgroupError::of(doing(), error))?;
        if rustix::fs::FileType::from_raw_mode(found.mode()) != rustix::fs::FileType::BlockDevice {
            return Err(CgroupError::of(doing(), io::Error::other("it is not a block device")));
        }
        let number = found.rdev();
        Ok(Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) })
    }

    /// Parses a number such as `7:3`.
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Writes a control file in one write, as the kernel requires. Does not make a missing file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

fn write_or(path: &Path, text: &str) -> Result<(), CgroupError> {
    write(path, text).map_err(|error| CgroupError::of(format!("write {text} to {}", path.display()), error))
}

/// Parses a file's whole text as a number. Returns `None` for `max`.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number in the line that begins with `key` and a space.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns the folders in a group's folder, which are the group's child groups.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Returns a folder and all folders below it, deepest first.
fn deepest_first(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = children(folder).iter().flat_map(|child| deepest_first(child)).collect();
    found.push(folder.to_path_buf());
    found
}

// Control groups that this machine provides, from its mounts and the kernel's list of controllers.

/// A controller, which limits or counts one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Shares and quotas of CPU time.
    Cpu,
    /// Accounting of CPU time. Version 2 always includes it.
    CpuAccount,
    /// Set of allowed CPUs.
    Cpuset,
    /// Memory.
    Memory,
    /// Block devices.
    Block,
    /// Number of processes and threads.
    Pids,
    /// Freezes and resumes processes. Part of every group in version 2.
    Freezer,
}

impl Controller {
    const ALL: [Self; 7] =
        [Self::Cpu, Self::CpuAccount, Self::Cpuset, Self::Memory, Self::Block, Self::Pids, Self::Freezer];

    /// Returns the name in version 1.
    fn v1(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuAccount => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
            Self::Block => "blkio",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }

    /// Returns the name in version 2, or `None` if version 2 has no such controller.
    fn v2(self) -> Option<&'static str> {
        match self {
            Self::CpuAccount | Self::Freezer => None,
            Self::Block => Some("io"),
            other => Some(other.v1()),
        }
    }
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Block => "blkio (io in version 2)",
            other => other.v1(),
        })
    }
}

/// Version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One tree per controller or per few controllers.
    V1,
    /// One tree for all controllers.
    V2,
}

/// A mounted tree of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// Folder of the root group.
    pub root: PathBuf,
    /// Controllers of the tree. May be empty with version 2.
    pub controllers: Vec<Controller>,
}

/// All mounted trees with a supported controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchies {
    all: Vec<Hierarchy>,
    /// Controllers that the kernel has but that were disabled at boot.
    disabled: Vec<Controller>,
}

impl Hierarchies {
    /// Finds the hierarchies of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_in(Path::new("/"))
    }

    /// Finds the hierarchies of a machine whose `/proc` and mounts are below `root`.
    #[must_use]
    pub fn detect_in(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let mut all: Vec<Hierarchy> = Vec::new();
        for line in text("proc/self/mountinfo").lines() {
            let Some(found) = hierarchy(line, root) else { continue };
            // Inside a virtual host the same trees are mounted twice, one over the other.
            if all.iter().all(|known| known.version != found.version || known.controllers != found.controllers) {
                all.push(found);
            }
        }
        Self { all, disabled: disabled(&text("proc/cgroups")) }
    }

    #[must_use]
    pub fn all(&self) -> &[Hierarchy] {
        &self.all
    }

    /// Whether there are no hierarchies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the tree of version 2, with or without controllers.
    #[must_use]
    pub fn v2(&self) -> Option<&Hierarchy> {
        self.all.iter().find(|hierarchy| hierarchy.version == Version::V2)
    }

    /// Returns the hierarchy of this controller.
    #[must_use]
    pub fn of(&self, controller: Controller) -> Option<&Hierarchy> {
        self.all.iter().find(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// Returns the hierarchy of this controller, or an error that names the purpose.
    ///
    /// # Errors
    /// [`CgroupError::Missing`].
    pub fn need(&self, controller: Controller, needed_for: &'static str) -> Result<&Hierarchy, CgroupError> {
        self.of(controller).ok_or_else(|| self.missing(controller, needed_for))
    }

    fn missing(&self, controller: Controller, needed_for: &'static str) -> CgroupError {
        let why = if self.disabled.contains(&controller) {
            "which is switched off on the kernel command line: boot with `cgroup_enable=NAME`, without \
             `cgroup_disable=NAME`"
        } else if self.is_empty() {
            "but no control groups are mounted: mount them at /sys/fs/cgroup"
        } else if self.of(controller).is_some() {
            "which lacks this feature on this kernel, or is not enabled for this group"
        } else {
            "which is neither mounted nor in the version 2 tree: mount it, or use a kernel that has it"
        };
        CgroupError::Missing { controller, needed_for, why }
    }
}

/// Parses a line of mountinfo (proc(5)). Returns `None` if it mounts no supported tree.
fn hierarchy(line: &str, root: &Path) -> Option<Hierarchy> {
    let (place, kind) = line.split_once(" - ")?;
    let point = Path::new(place.split(' ').nth(4)?);
    let folder = root.join(point.strip_prefix("/").ok()?);
    let mut kind = kind.split(' ');
    match kind.next()? {
        "cgroup" => {
            let options: Vec<&str> = kind.next_back()?.split(',').collect();
            let controllers = named(|controller| options.contains(&controller.v1()));
            let of_use = !controllers.is_empty();
            of_use.then_some(Hierarchy { version: Version::V1, root: folder, controllers })
        }
        "cgroup2" => {
            let text = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
            let offered: Vec<&str> = text.split_ascii_whitespace().collect();
            let controllers = named(|controller| controller.v2().is_some_and(|name| offered.contains(&name)));
            Some(Hierarchy { version: Version::V2, root: folder, controllers })
        }
        _ => None,
    }
}

fn named(is_wanted: impl Fn(Controller) -> bool) -> Vec<Controller> {
    Controller::ALL.into_iter().filter(|controller| is_wanted(*controller)).collect()
}

/// Returns the disabled controllers in the text of `/proc/cgroups`. Its columns are name,
/// hierarchy, groups, enabled.
fn disabled(text: &str) -> Vec<Controller> {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    named(|controller| lines.iter().any(|line| line.first() == Some(&controller.v1()) && line.get(3) == Some(&"0")))
}

impl Hierarchy {
    /// Returns the words for `cgroup.subtree_control` that enable all controllers for child groups.
    /// Each word needs its own write, because the kernel rejects a whole line for one wrong word.
    fn handed_down(&self) -> impl Iterator<Item = String> {
        self.controllers.iter().filter_map(|controller| controller.v2()).map(|name| format!("+{name}"))
    }
}

// Control groups of this process, and the visible groups above them. The quotas of all these groups
// can stop this process.

/// All groups with CPU quota accounting that apply to this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnCgroups {
    /// Path of `cpu.stat` of each group.
    accounts: Vec<PathBuf>,
}

impl OwnCgroups {
    /// Finds the groups on this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_in(Path::new("/"))
    }

    /// Finds the groups on a machine whose `/proc` and mounts are below `root`.
    #[must_use]
    pub fn detect_in(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let memberships = text("proc/self/cgroup");
        let mut accounts = Vec::new();
        for mount in text("proc/self/mountinfo").lines().filter_map(CgroupMount::parse) {
            let group = memberships.lines().find_map(|line| mount.group(line));
            for folder in group.into_iter().flat_map(|group| mount.upwards(group)) {
                let account = root.join(folder.strip_prefix("/").unwrap_or(&folder)).join("cpu.stat");
                if read(&account).is_some() && !accounts.contains(&account) {
                    accounts.push(account);
                }
            }
        }
        Self { accounts }
    }

    /// Returns the time for which each group's quota has stopped its processes since the group was
    /// made, in nanoseconds, summed over CPUs. Empty if no group has quota accounting.
    #[must_use]
    pub fn throttled_ns(&self) -> Vec<Option<u64>> {
        self.accounts.iter().map(|account| read(account).map(|throttling| throttling.throttled_ns)).collect()
    }
}

fn read(account: &Path) -> Option<Throttling> {
    Throttling::parse(&fs::read_to_string(account).ok()?)
}

/// A line of mountinfo (proc(5)) that mounts a tree with limits of CPU time.
struct CgroupMount<'a> {
    /// Group that the mount shows as its root.
    top: &'a Path,
    /// Mount point.
    point: &'a Path,
    is_v2: bool,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top, point) = (Path::new(place.next()?), Path::new(place.next()?));
        let mut kind = kind.split(' ');
        match kind.next()? {
            "cgroup2" => Some(Self { top, point, is_v2: true }),
            "cgroup" => {
                let has_cpu = kind.next_back()?.split(',').any(|option| option == "cpu");
                has_cpu.then_some(Self { top, point, is_v2: false })
            }
            _ => None,
        }
    }

    /// Returns the group of this process in a line of `/proc/self/cgroup`, if the line concerns
    /// this tree: `4:cpu,cpuacct:/a/b`, or `0::/a/b` in version 2.
    fn group<'l>(&self, line: &'l str) -> Option<&'l Path> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_this = match self.is_v2 {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|name| name == "cpu"),
        };
        is_this.then(|| Path::new(path))
    }

    /// Returns the folders of a group and of the groups above it, up to the mount point.
    fn upwards(&self, group: &Path) -> Vec<PathBuf> {
        // In a container the path may lead outside the mount. The container's own group is then the
        // visible root.
        let below = group.strip_prefix(self.top).ok().filter(|below| !below.starts_with(".."));
        let folder = below.map_or_else(|| self.point.to_path_buf(), |below| self.point.join(below));
        folder.ancestors().take_while(|above| above.starts_with(self.point)).map(Path::to_path_buf).collect()
    }
}

// Resource use of a group, and its waiting times.

/// CPU time used, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in user mode.
    pub user_ns: u64,
    /// Time in the kernel.
    pub system_ns: u64,
}

/// Effect of a group's CPU quota since the group was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Number of periods in which the group ran.
    pub periods: u64,
    /// Number of periods in which the quota stopped the group.
    pub throttled_periods: u64,
    /// Time for which the quota stopped the group, summed over CPUs, nanoseconds.
    pub throttled_ns: u64,
}

impl Throttling {
    /// Parses the text of `cpu.stat` of either version. Returns `None` if CPU time is not
    /// controlled.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let throttled_ns =
            field(text, "throttled_time").or_else(|| Some(field(text, "throttled_usec")?.saturating_mul(1000)));
        Some(Self {
            periods: field(text, "nr_periods")?,
            throttled_periods: field(text, "nr_throttled")?,
            throttled_ns: throttled_ns?,
        })
    }
}

/// Memory use of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Memory in use, including page cache.
    pub used_bytes: u64,
    /// Part of `used_bytes` that is inactive page cache, which the kernel reclaims first. Monitors
    /// call the rest the working set.
    pub inactive_file_bytes: u64,
    /// Limit. `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// Number of processes killed for lack of memory, since the group was made.
    pub oom_kills: Option<u64>,
}

/// A resource for which a task can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Cpu,
    /// Disks.
    Io,
    Memory,
}

/// Pressure: the time for which tasks have waited since the group was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PressureTotals {
    /// Time in which at least one task waited, microseconds.
    pub some_us: u64,
    /// Time in which all tasks waited, microseconds.
    pub full_us: Option<u64>,
}

impl Cgroup {
    /// Returns the CPU time of the group and all groups below it. Version 2 needs no controller for
    /// this.
    #[must_use]
    pub fn cpu_time(&self) -> Option<CpuTime> {
        if let Some(text) = self.at_v2().and_then(|folder| fs::read_to_string(folder.join("cpu.stat")).ok()) {
            let [user_us, system_us] = ["user_usec", "system_usec"].map(|key| field(&text, key));
            return Some(CpuTime {
                user_ns: user_us?.saturating_mul(1000),
                system_ns: system_us?.saturating_mul(1000),
            });
        }
        let (_, folder) = self.at(Controller::CpuAccount, "CPU time").ok()?;
        Some(CpuTime {
            user_ns: number(&folder.join("cpuacct.usage_user"))?,
            system_ns: number(&folder.join("cpuacct.usage_sys"))?,
        })
    }

    /// Returns the effect of the group's own quota, without quotas of groups below.
    #[must_use]
    pub fn throttling(&self) -> Option<Throttling> {
        let (_, folder) = self.at(Controller::Cpu, "CPU time").ok()?;
        Throttling::parse(&fs::read_to_string(folder.join("cpu.stat")).ok()?)
    }

    /// Returns the memory use of the group and all groups below it.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryUsage> {
        let (version, folder) = self.at(Controller::Memory, "memory").ok()?;
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let stat = text("memory.stat");
        Some(match version {
            Version::V1 => MemoryUsage {
                used_bytes: number(&folder.join("memory.usage_in_bytes"))?,
                inactive_file_bytes: field(&stat, "total_inactive_file").unwrap_or(0),
                // Without a limit, the kernel reports the largest number of whole pages.
                limit_bytes: number(&folder.join("memory.limit_in_bytes")).filter(|bytes| *bytes < i64::MAX as u64 / 2),
                oom_kills: field(&text("memory.oom_control"), "oom_kill"),
            },
            Version::V2 => MemoryUsage {
                used_bytes: number(&folder.join("memory.current"))?,
                inactive_file_bytes: field(&stat, "inactive_file").unwrap_or(0),
                limit_bytes: number(&folder.join("memory.max")),
                oom_kills: field(&text("memory.events"), "oom_kill"),
            },
        })
    }

    /// Returns the pressure on the group and all groups below it. Needs version 2, with or without
    /// controllers, and a kernel with PSI enabled.
    #[must_use]
    pub fn stall(&self, resource: Resource) -> Option<PressureTotals> {
        let name = match resource {
            Resource::Cpu => "cpu.pressure",
            Resource::Io => "io.pressure",
            Resource::Memory => "memory.pressure",
        };
        let text = fs::read_to_string(self.at_v2()?.join(name)).ok()?;
        let [some_us, full_us] = ["some ", "full "].map(|kind| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
        });
        Some(PressureTotals { some_us: some_us?, full_us })
    }

    /// Returns the bytes read from and written to each device by the group and all groups below it.
    #[must_use]
    pub fn transferred(&self) -> Option<Vec<(Device, u64, u64)>> {
        let (version, folder) = self.at(Controller::Block, "reads and writes").ok()?;
        let name = match version {
            Version::V1 => "blkio.throttle.io_service_bytes_recursive",
            Version::V2 => "io.stat",
        };
        let text = fs::read_to_string(folder.join(name)).ok()?;
        let mut devices: Vec<(Device, u64, u64)> = Vec::new();
        for (device, is_write, bytes) in text.lines().flat_map(transfers) {
            if devices.last().is_none_or(|last| last.0 != device) {
                devices.push((device, 0, 0));
            }
            if let Some(last) = devices.last_mut() {
                *(if is_write { &mut last.2 } else { &mut last.1 }) += bytes;
            }
        }
        Some(devices)
    }

    /// Returns the number of processes and threads in the group and below it.
    #[must_use]
    pub fn pids(&self) -> Option<u64> {
        number(&self.at(Controller::Pids, "processes").ok()?.1.join("pids.current"))
    }
}

/// Parses a line such as `7:0 Read 4096` or `7:0 rbytes=4096 wbytes=0 …` into device, whether the
/// bytes were written, and bytes.
fn transfers(line: &str) -> Vec<(Device, bool, u64)> {
    let mut words = line.split_ascii_whitespace();
    let Some(device) = words.next().and_then(Device::parse) else { return Vec::new() };
    let rest: Vec<&str> = words.collect();
    if let [kind @ ("Read" | "Write"), bytes] = rest.as_slice() {
        return bytes.parse().map(|bytes| vec![(device, *kind == "Write", bytes)]).unwrap_or_default();
    }
    let mut transfers = Vec::new();
    for (is_write, name) in [(false, "rbytes="), (true, "wbytes=")] {
        let bytes = rest.iter().find_map(|word| word.strip_prefix(name)?.parse().ok());
        transfers.extend(bytes.map(|bytes| (device, is_write, bytes)));
    }
    transfers
}

// Removal of leftover groups by name. All processes in them are killed.

/// Time after which killed processes are reported as hanging.
const PATIENCE: Duration = Duration::from_secs(5);
/// Prefix of all group names that this program makes at the top.
const PREFIX: &str = "plimsoll-";

/// Result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of killed processes.
    pub killed: usize,
    /// Removed folders of the top group, one per hierarchy.
    pub folders: Vec<PathBuf>,
}

/// Kills all processes in and below the top group with this name, and removes the group in every
/// hierarchy. A missing group has no effect. `name` is a single part and begins with `plimsoll-`.
///
/// # Errors
/// [`CgroupError::Denied`] without root, [`CgroupError::Undying`], or an invalid name.
pub fn remove_tree(name: &str) -> Result<Removed, CgroupError> {
    remove_tree_of(&Arc::new(Hierarchies::detect()), name)
}

fn remove_tree_of(hierarchies: &Arc<Hierarchies>, name: &str) -> Result<Removed, CgroupError> {
    if !name.starts_with(PREFIX) || name.contains('/') {
        let refused = io::Error::other(format!("only groups whose names begin with {PREFIX} are removed"));
        return Err(CgroupError::of(format!("remove the control group {name:?}"), refused));
    }
    let group = Cgroup::new(hierarchies, name);
    let killed = if group.exists() { group.kill(PATIENCE)? } else { 0 };
    Ok(Removed { killed, folders: group.remove(PATIENCE)? })
}

/// Removes all limits on a device that were set at the root. Only version 1 has such limits. A
/// device that no longer exists has no limits.
pub fn clear_throttle(device: Device) -> Result<(), CgroupError> {
    let hierarchies = Arc::new(Hierarchies::detect());
    match hierarchies.of(Controller::Block) {
        Some(hierarchy) if hierarchy.version == Version::V1 => {
            match Cgroup::root(&hierarchies).set_throttle(device, &Throttle::default()) {
                Err(CgroupError::System { error, .. }) if is_gone(&error) => Ok(()),
                done => done,
            }
        }
        _ => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::NODEV | rustix::io::Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fixture::{CgroupTree, TestDir};

    use super::*;

    pub fn hierarchies(machine: &CgroupTree) -> Arc<Hierarchies> {
        Arc::new(Hierarchies::detect_in(&machine.folder))
    }

    fn found(hierarchies: &Hierarchies, machine: &CgroupTree, controller: Controller) -> Option<(Version, String)> {
        let hierarchy = hierarchies.of(controller)?;
        let below = hierarchy.root.strip_prefix(machine.path("")).unwrap();
        Some((hierarchy.version, below.display().to_string()))
    }

    #[test]
    fn a_tree_for_each_controller() {
        let machine = CgroupTree::v1();
        let hierarchies = hierarchies(&machine);
        assert_eq!(found(&hierarchies, &machine, Controller::Cpu), Some((Version::V1, "cpu".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), Some((Version::V1, "cpuacct".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::Block), Some((Version::V1, "blkio".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::Freezer), None);
        assert_eq!(hierarchies.v2().unwrap().controllers, []);
        // Devices and systemd's names are not supported controllers.
        assert_eq!(hierarchies.all().len(), 7);
    }

    #[test]
    fn shared_and_disabled_controllers_are_reported() {
        let machine = CgroupTree::hybrid();
        let hierarchies = hierarchies(&machine);
        let together = Some((Version::V1, "cpu,cpuacct".to_owned()));
        assert_eq!(found(&hierarchies, &machine, Controller::Cpu), together);
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), together);
        assert_eq!(hierarchies.all().len(), 3);
        let why = hierarchies.need(Controller::Memory, "a limit of memory").unwrap_err().to_string();
        assert!(
            why.starts_with("a limit of memory needs the control group controller `memory`, which is switched off"),
            "{why}"
        );
        let why = hierarchies.need(Controller::Pids, "an end to processes").unwrap_err().to_string();
        assert!(why.contains("`pids`") && why.contains("neither mounted"), "{why}");
    }

    #[test]
    fn controllers_of_a_version_2_system_are_found() {
        let machine = CgroupTree::v2();
        let hierarchies = hierarchies(&machine);
        assert_eq!(hierarchies.all().len(), 1, "mounted twice, and one tree");
        for controller in [Controller::Cpu, Controller::Cpuset, Controller::Memory, Controller::Block, Controller::Pids]
        {
            assert_eq!(found(&hierarchies, &machine, controller), Some((Version::V2, String::new())));
        }
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), None);
    }

    #[test]
    fn a_machine_without_control_groups_has_no_hierarchies() {
        let hierarchies = Hierarchies::detect_in(&TestDir::new());
        assert!(hierarchies.is_empty());
        let why = hierarchies.need(Controller::Cpu, "a limit of CPU time").unwrap_err().to_string();
        assert!(why.contains("no control groups are mounted"), "{why}");
    }

    const V1: &str = "nr_periods 9\nnr_throttled 3\nthrottled_time 7000\n";
    const V2: &str = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n";

    fn machine(mounts: &str, groups: &str, accounts: &[(&str, &str)]) -> OwnCgroups {
        let folder = TestDir::new();
        folder.write("proc/self/mountinfo", mounts);
        folder.write("proc/self/cgroup", groups);
        for (group, text) in accounts {
            folder.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), text);
        }
        let own = OwnCgroups::detect_in(&folder);
        let throttled = own.throttled_ns();
        assert!(throttled.iter().all(|ns| *ns == Some(7_000)), "{throttled:?}");
        own
    }

    #[test]
    fn own_group_and_its_ancestors_count() {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let accounts = [("system.slice/ci.service", V2), ("system.slice", V2), ("other", V2), ("", "usage_usec 5\n")];
        let own = machine(mount, "0::/system.slice/ci.service\n", &accounts);
        assert_eq!(own.accounts.len(), 2, "the root has no quota, others are none of ours: {own:?}");
    }

    #[test]
    fn version_1_reads_only_the_cpu_tree() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let accounts = [("cpu,cpuacct/a", V1), ("cpuset/a", V1)];
        assert_eq!(machine(mounts, "4:cpuset:/a\n3:cpu,cpuacct:/a\n0::/\n", &accounts).accounts.len(), 1);
    }

    #[test]
    fn a_container_mount_starts_at_its_own_group() {
        // Without a separate namespace the path is the machine's, and the mount begins at it.
        let mounts = "32 31 0:29 /docker/4f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(machine(mounts, "3:cpu:/docker/4f\n", &[("cpu", V1), ("cpu/docker/4f", V1)]).accounts.len(), 1);
        let outside = machine(mounts, "3:cpu:/../5a\n", &[("cpu", V1)]);
        assert!(outside.accounts[0].ends_with("sys/fs/cgroup/cpu/cpu.stat"), "{outside:?}");
    }

    #[test]
    fn throttling_is_unknown_without_groups() {
        assert_eq!(machine("21 1 0:20 / /proc rw - proc proc rw\n", "", &[]).throttled_ns(), []);
    }

    /// Returns the names at the top of any hierarchy that begin with `prefix`, sorted.
    pub fn leftovers(prefix: &str) -> Vec<String> {
        leftovers_of(&Hierarchies::detect(), prefix)
    }

    pub fn leftovers_of(hierarchies: &Hierarchies, prefix: &str) -> Vec<String> {
        let groups = hierarchies.all().iter().flat_map(|hierarchy| children(&hierarchy.root));
        let names = groups.filter_map(|group| Some(group.file_name()?.to_str()?.to_owned()));
        let found: BTreeSet<String> = names.filter(|name| name.starts_with(prefix)).collect();
        found.into_iter().collect()
    }
}
