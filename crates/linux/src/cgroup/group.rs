//! A control group: one name in every hierarchy, and the operations on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{CgroupError, Controller, Device, Hierarchies, Hierarchy, Version, deepest_first, number, write, write_or};
use crate::procfs;

/// Poll interval of the waits in this file.
const GLANCE: Duration = Duration::from_millis(2);
/// Maximum time to wait for a freeze. A process that hangs in the kernel freezes when it leaves the
/// kernel.
const FREEZES_WITHIN: Duration = Duration::from_secs(1);

/// A group. It exists from [`Cgroup::make`] until it is removed, independently of this value.
#[derive(Debug, Clone)]
pub struct Cgroup {
    pub(super) hierarchies: Arc<Hierarchies>,
    name: String,
    /// Controller to which the group is restricted.
    only: Option<Controller>,
    /// Controller in whose hierarchy the group does not exist.
    except: Option<Controller>,
}

impl Cgroup {
    /// Names a group, such as `a/b/c`, in every hierarchy.
    #[must_use]
    pub fn new(hierarchies: &Arc<Hierarchies>, name: impl Into<String>) -> Self {
        Self { hierarchies: Arc::clone(hierarchies), name: name.into(), only: None, except: None }
    }

    /// Returns the root of every hierarchy. It always exists, and only a few operations apply to
    /// it.
    #[must_use]
    pub fn root(hierarchies: &Arc<Hierarchies>) -> Self {
        Self::new(hierarchies, "")
    }

    /// Returns the child group with this name.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self { name: format!("{}/{name}", self.name), ..self.clone() }
    }

    /// Returns a child group that exists only in the hierarchy with CPU limits, so that each thread
    /// of a process may be in another slot. In version 2 the slot is threaded, and its processes
    /// count toward this group for all other controllers.
    #[must_use]
    pub fn slot(&self, name: &str) -> Self {
        self.child(name).where_cpu_is_limited()
    }

    /// Returns the same group, restricted to the hierarchy with CPU limits.
    #[must_use]
    pub fn where_cpu_is_limited(&self) -> Self {
        Self { only: Some(Controller::Cpu), ..self.clone() }
    }

    /// Returns the same group without the hierarchy of `controller`. Its processes stay where they
    /// are in that hierarchy.
    #[must_use]
    pub fn except(&self, controller: Controller) -> Self {
        Self { except: Some(controller), ..self.clone() }
    }

    /// Returns the group's hierarchies, and its folder in each.
    fn places(&self) -> impl Iterator<Item = (&Hierarchy, PathBuf)> {
        let all = self.hierarchies.all().iter();
        let all = all.filter(|hierarchy| self.only.is_none_or(|only| hierarchy.controllers.contains(&only)));
        let all = all.filter(|hierarchy| self.except.is_none_or(|except| !hierarchy.controllers.contains(&except)));
        all.map(|hierarchy| (hierarchy, hierarchy.root.join(&self.name)))
    }

    /// Returns the group's folders.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.places().map(|(_, folder)| folder).collect()
    }

    /// Returns the group's folder in the hierarchy of a controller, and the version of that
    /// hierarchy.
    pub(super) fn at(
        &self,
        controller: Controller,
        needed_for: &'static str,
    ) -> Result<(Version, PathBuf), CgroupError> {
        let hierarchy = self.hierarchies.need(controller, needed_for)?;
        Ok((hierarchy.version, hierarchy.root.join(&self.name)))
    }

    /// Returns the group's folder in version 2, with or without controllers.
    pub(super) fn at_v2(&self) -> Option<PathBuf> {
        self.hierarchies.v2().map(|hierarchy| hierarchy.root.join(&self.name))
    }

    /// Whether the group exists in any hierarchy.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folders().iter().any(|folder| folder.is_dir())
    }

    /// Makes the group and the groups above it, unless they exist.
    ///
    /// # Errors
    /// [`CgroupError::Denied`] without root, or the system's error.
    pub fn make(&self) -> Result<(), CgroupError> {
        if self.name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(CgroupError::of(
                format!("make the control group {:?}", self.name),
                io::ErrorKind::InvalidInput.into(),
            ));
        }
        self.places().try_for_each(|(hierarchy, folder)| self.make_in(hierarchy, &folder))
    }

    fn make_in(&self, hierarchy: &Hierarchy, folder: &Path) -> Result<(), CgroupError> {
        let mut above = hierarchy.root.clone();
        for part in self.name.split('/') {
            let group = above.join(part);
            let is_threaded = self.only.is_some() && group == folder && hierarchy.version == Version::V2;
            // A parent with processes can enable only threaded controllers for its children. A slot
            // therefore becomes threaded before it gets its controller.
            if hierarchy.version == Version::V2 && !is_threaded {
                hand_down(&above, hierarchy.handed_down());
            }
            match fs::create_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(CgroupError::of(format!("make the control group {}", group.display()), error));
                }
                _ => {}
            }
            if hierarchy.version == Version::V1 && hierarchy.controllers.contains(&Controller::Cpuset) {
                inherit_cpuset(&above, &group)?;
            }
            if is_threaded {
                let kind = group.join("cgroup.type");
                if fs::read_to_string(&kind).is_ok_and(|text| text.trim() != "threaded") {
                    write_or(&kind, "threaded")?;
                }
                hand_down(&above, ["+cpu".to_owned()].into_iter());
            }
            above = group;
        }
        Ok(())
    }

    /// Returns the files into which a process writes `0`, one after the other, to join the group.
    /// The process must join before it starts other processes.
    #[must_use]
    pub fn join_files(&self) -> Vec<PathBuf> {
        self.folders().into_iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Returns the join files for a process in this group that uses a slot in the hierarchy with
    /// CPU limits.
    #[must_use]
    pub fn join_files_with(&self, slot: &Self) -> Vec<PathBuf> {
        let others = self.places().filter(|(hierarchy, _)| !hierarchy.controllers.contains(&Controller::Cpu));
        let others = others.map(|(_, folder)| folder.join("cgroup.procs")).collect::<Vec<_>>();
        others.into_iter().chain(slot.join_files()).collect()
    }

    /// Moves this process with all its threads into the group.
    pub fn join(&self) -> Result<(), CgroupError> {
        self.join_files().iter().try_for_each(|file| write_or(file, "0"))
    }

    /// Moves a process with all its threads into the group. A process that has ended is not an
    /// error.
    pub fn take_in(&self, process: u32) -> Result<(), CgroupError> {
        self.join_files().iter().try_for_each(|file| match write(file, &process.to_string()) {
            Err(error) if rustix::io::Errno::from_io_error(&error) != Some(rustix::io::Errno::SRCH) => {
                Err(CgroupError::of(format!("put process {process} into {}", file.display()), error))
            }
            _ => Ok(()),
        })
    }

    /// Returns the processes in and below the group, with their ids in this process's pid
    /// namespace. Leaves out processes of other namespaces.
    #[must_use]
    pub fn processes(&self) -> BTreeSet<u32> {
        self.folders().iter().flat_map(|folder| processes_below(folder)).collect()
    }

    /// Returns the file that lists the threads of a slot. Writing a thread's id to it moves the
    /// thread into the slot.
    #[must_use]
    pub fn threads_file(&self) -> Option<PathBuf> {
        threads_file(&self.at(Controller::Cpu, "a slot").ok()?.1)
    }

    /// Freezes or resumes all processes in the group. Waits up to a second for the change. A
    /// process that hangs in the kernel freezes when it leaves the kernel.
    ///
    /// # Errors
    /// [`CgroupError::Missing`] if neither version can freeze here.
    pub fn set_frozen(&self, frozen: bool) -> Result<(), CgroupError> {
        let v2 = self.at_v2().filter(|folder| folder.join("cgroup.freeze").exists());
        if let Some(folder) = v2 {
            write_or(&folder.join("cgroup.freeze"), if frozen { "1" } else { "0" })?;
            let word = if frozen { "frozen 1" } else { "frozen 0" };
            await_event(&folder.join("cgroup.events"), word, FREEZES_WITHIN);
            return Ok(());
        }
        let state = self.at(Controller::Freezer, "freezing processes")?.1.join("freezer.state");
        let word = if frozen { "FROZEN" } else { "THAWED" };
        let until = Instant::now() + FREEZES_WITHIN;
        write_or(&state, word)?;
        while fs::read_to_string(&state).is_ok_and(|text| text.trim() != word) && Instant::now() < until {
            glance();
        }
        Ok(())
    }

    /// Kills all processes in and below the group, and returns their number. This process first
    /// leaves the group.
    ///
    /// # Errors
    /// [`CgroupError::Undying`] if processes are left after `within`.
    pub fn kill(&self, within: Duration) -> Result<usize, CgroupError> {
        self.leave();
        let until = Instant::now() + within;
        let mut killed = BTreeSet::new();
        loop {
            let found = self.processes();
            let Some(first) = found.first() else { return Ok(killed.len()) };
            if Instant::now() >= until {
                return Err(CgroupError::Undying { name: self.name.clone(), count: found.len() });
            }
            // Kill the whole group at once first, because a process that forks could escape
            // otherwise. Then kill one by one, for version 1 and for processes that are left.
            let at_once = self.at_v2().is_some_and(|folder| write(&folder.join("cgroup.kill"), "1").is_ok());
            if !at_once || killed.is_superset(&found) {
                found.iter().for_each(|process| self.kill_process(*process));
            }
            // With version 1, frozen processes die only after they are resumed.
            if let Ok((Version::V1, folder)) = self.at(Controller::Freezer, "resuming processes") {
                let _ = write(&folder.join("freezer.state"), "THAWED");
            }
            crate::await_end(*first, GLANCE);
            killed.extend(found);
        }
    }

    /// Kills a process if it is still in the group. Its id may have been reused since the list was
    /// read.
    pub(super) fn kill_process(&self, process: u32) {
        let Some(stat) = procfs::stat(process) else { return };
        let groups = procfs::text(&Path::new("/proc").join(process.to_string()).join("cgroup")).unwrap_or_default();
        if groups.contains(&format!("/{}", self.name)) {
            crate::signal(&stat, Signal::KILL);
        }
    }

    /// Moves this process to the root if it is in or below the group, so that it is not killed.
    pub fn leave(&self) {
        let us = std::process::id();
        for (hierarchy, folder) in self.places() {
            if processes_below(&folder).any(|process| process == us) {
                let _ = write(&hierarchy.root.join("cgroup.procs"), "0");
            }
        }
    }

    /// Kills the processes in the group, and removes it with all groups below it. Returns the
    /// removed folders. A missing group has no effect.
    ///
    /// # Errors
    /// [`CgroupError::Undying`], or the system's error after `within`.
    pub fn remove(&self, within: Duration) -> Result<Vec<PathBuf>, CgroupError> {
        let until = Instant::now() + within;
        self.kill(within)?;
        let mut removed = Vec::new();
        for folder in self.folders().iter().filter(|folder| folder.is_dir()) {
            while let Err(error) = remove_all(folder) {
                // A dead process stays in its group briefly, and a new process may have joined the
                // group.
                let may_pass =
                    error.kind() == io::ErrorKind::ResourceBusy || error.kind() == io::ErrorKind::DirectoryNotEmpty;
                if !may_pass || Instant::now() >= until {
                    return Err(CgroupError::of(format!("remove the control group {}", folder.display()), error));
                }
                glance();
                self.kill(until.saturating_duration_since(Instant::now()))?;
            }
            removed.push(folder.clone());
        }
        Ok(removed)
    }

    /// Removes the group if it has no processes and no groups below it.
    pub fn remove_empty(&self) {
        for folder in self.folders() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn remove_all(folder: &Path) -> io::Result<()> {
    deepest_first(folder).iter().try_for_each(|group| match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    })
}

/// Enables controllers for child groups, in version 2. A controller that cannot be enabled is
/// reported when it is needed.
fn hand_down(group: &Path, wanted: impl Iterator<Item = String>) {
    let file = group.join("cgroup.subtree_control");
    let given = fs::read_to_string(&file).unwrap_or_default();
    for word in wanted {
        if !given.split_ascii_whitespace().any(|name| word.strip_prefix('+') == Some(name)) {
            let _ = write(&file, &word);
        }
    }
}

/// Copies CPUs and memory nodes from the group above, in version 1. A new group has neither, and
/// accepts no process without both.
fn inherit_cpuset(above: &Path, group: &Path) -> Result<(), CgroupError> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let text = |folder: &Path| fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_owned();
        if text(group).is_empty() {
            write_or(&group.join(name), &text(above))?;
        }
    }
    Ok(())
}

fn processes_below(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    deepest_first(folder).into_iter().flat_map(|folder| pids(&folder.join("cgroup.procs")))
}

/// Returns the ids in a file, one per line. Leaves out 0, which stands for a process outside this
/// pid namespace.
fn pids(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
}

fn threads_file(folder: &Path) -> Option<PathBuf> {
    ["tasks", "cgroup.threads"].iter().map(|name| folder.join(name)).find(|file| file.exists())
}

/// Waits until `cgroup.events` contains the line `word`, or until the timeout. The kernel wakes
/// pollers of the file.
fn await_event(file: &Path, word: &str, within: Duration) {
    let until = Instant::now() + within;
    while let Ok(events) = File::open(file) {
        let is_so = fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == word));
        let left = until.saturating_duration_since(Instant::now());
        if is_so || left.is_zero() {
            return;
        }
        // A change between opening and reading the file would be missed, so poll for a short time
        // only.
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&timespec(left.min(10 * GLANCE))));
    }
}

fn glance() {
    let _ = poll(&mut [], Some(&timespec(GLANCE)));
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(time.subsec_nanos()) }
}

// Limits of a group: CPU time, CPUs, memory, processes, disks.

/// CPU time per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Length of a period, 1 ms to 1 s.
    pub period_us: u64,
    /// CPU time, at least 1 ms. More than the period means more than one core.
    pub quota_us: u64,
}

impl Quota {
    /// Returns the quota for this number of cores. The period is as short as the kernel allows, but
    /// at least 10 ms. A short period resembles a slow core more, but a period below a scheduler
    /// tick has no meaning.
    #[must_use]
    pub fn of_cores(cores: f64) -> Self {
        let cores = cores.max(0.001);
        let period_us = (1000.0 / cores).clamp(10_000.0, 1_000_000.0);
        Self { period_us: period_us.round() as u64, quota_us: (period_us * cores).round().max(1000.0) as u64 }
    }
}

/// Limits of reads from and writes to a device. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Reads/s.
    pub read_iops: Option<u64>,
    /// Writes/s.
    pub write_iops: Option<u64>,
    /// Bytes/s read.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes/s written.
    pub write_bytes_per_s: Option<u64>,
}

impl Cgroup {
    /// Limits the CPU time of all processes in the group together. `None`: no limit.
    pub fn set_quota(&self, quota: Option<Quota>) -> Result<(), CgroupError> {
        let what = "a limit of CPU time";
        let (version, folder) = self.at(Controller::Cpu, what)?;
        let (text, period_us) = match quota {
            Some(quota) => (quota.quota_us.to_string(), quota.period_us),
            None => ("max".to_owned(), 100_000),
        };
        if version == Version::V2 {
            return self.put(Controller::Cpu, what, &folder.join("cpu.max"), &format!("{text} {period_us}"));
        }
        // Remove the old quota first, because the kernel could reject the new period with the old
        // quota.
        self.put(Controller::Cpu, what, &folder.join("cpu.cfs_quota_us"), "-1")?;
        write_or(&folder.join("cpu.cfs_period_us"), &period_us.to_string())?;
        if quota.is_some() { write_or(&folder.join("cpu.cfs_quota_us"), &text) } else { Ok(()) }
    }

    /// Sets the group's weight relative to its neighbours when CPU time is short. 1 is the default
    /// of every group.
    pub fn set_weight(&self, weight: f64) -> Result<(), CgroupError> {
        let what = "a share of CPU time";
        let (version, folder) = self.at(Controller::Cpu, what)?;
        let (file, figure) = match version {
            Version::V1 => ("cpu.shares", (weight * 1024.0).clamp(2.0, 262_144.0)),
            Version::V2 => ("cpu.weight", (weight * 100.0).clamp(1.0, 10_000.0)),
        };
        self.put(Controller::Cpu, what, &folder.join(file), &figure.round().to_string())
    }

    /// Sets the CPUs on which the group may run. Empty: all CPUs of the group above.
    pub fn set_cpus(&self, cpus: &[u32]) -> Result<(), CgroupError> {
        let what = "a choice of CPUs";
        let (version, folder) = self.at(Controller::Cpuset, what)?;
        let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let text = match (version, cpus.is_empty()) {
            (_, false) => list,
            (Version::V1, true) => {
                let above = folder.parent().and_then(|above| fs::read_to_string(above.join("cpuset.cpus")).ok());
                above.unwrap_or_default().trim().to_owned()
            }
            (Version::V2, true) => "\n".to_owned(),
        };
        self.put(Controller::Cpuset, what, &folder.join("cpuset.cpus"), &text)
    }

    /// Limits memory including page cache, without additional swap. `None`: no limit. If the limit
    /// is below the memory in use, version 2 kills processes, and version 1 frees memory or fails.
    ///
    /// # Errors
    /// [`CgroupError::Missing`], [`CgroupError::MemoryInUse`], or the system's error.
    pub fn set_memory(&self, bytes: Option<u64>) -> Result<(), CgroupError> {
        let what = "a limit of memory";
        let (version, folder) = self.at(Controller::Memory, what)?;
        if version == Version::V2 {
            let text = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
            self.put(Controller::Memory, what, &folder.join("memory.max"), &text)?;
            // The file does not exist without swap.
            let _ = write(&folder.join("memory.swap.max"), if bytes.is_some() { "0" } else { "max" });
            return Ok(());
        }
        let limit = folder.join("memory.limit_in_bytes");
        let with_swap = folder.join("memory.memsw.limit_in_bytes");
        let text = bytes.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
        // The limit with swap may never be below the limit without swap. It must be written first
        // if the limits rise, and last if they fall.
        let raised = with_swap.exists() && write(&with_swap, &text).is_ok();
        match write(&limit, &text) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let used_bytes = number(&folder.join("memory.usage_in_bytes")).unwrap_or(0);
                return Err(CgroupError::MemoryInUse { asked_bytes: bytes.unwrap_or(0), used_bytes });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.hierarchies.missing(Controller::Memory, what));
            }
            done => done.map_err(|error| CgroupError::of(format!("write {text} to {}", limit.display()), error))?,
        }
        if with_swap.exists() && !raised { write_or(&with_swap, &text) } else { Ok(()) }
    }

    /// Limits the number of processes and threads. `None`: no limit.
    pub fn set_pids(&self, most: Option<u64>) -> Result<(), CgroupError> {
        let what = "a limit of the number of processes";
        let (_, folder) = self.at(Controller::Pids, what)?;
        let text = most.map_or_else(|| "max".to_owned(), |most| most.to_string());
        self.put(Controller::Pids, what, &folder.join("pids.max"), &text)
    }

    /// Limits reads from and writes to a device. Version 1 counts reads and writes by the group's
    /// own processes. It misses those that the kernel does for these processes, such as a file
    /// system's journal, unless the group is the root.
    ///
    /// # Errors
    /// [`CgroupError::Missing`], also for the root of version 2, which cannot be limited; or the
    /// system's error.
    pub fn set_throttle(&self, device: Device, throttle: &Throttle) -> Result<(), CgroupError> {
        let what = "a limit of reads and writes";
        let (version, folder) = self.at(Controller::Block, what)?;
        let figures = [
            ("rbps", "read_bps", throttle.read_bytes_per_s),
            ("wbps", "write_bps", throttle.write_bytes_per_s),
            ("riops", "read_iops", throttle.read_iops),
            ("wiops", "write_iops", throttle.write_iops),
        ];
        if version == Version::V2 {
            let line = figures.iter().fold(device.to_string(), |mut line, (name, _, figure)| {
                // The kernel rejects a limit of 0.
                let figure = figure.map_or_else(|| "max".to_owned(), |figure| figure.max(1).to_string());
                let _ = write!(line, " {name}={figure}");
                line
            });
            return self.put(Controller::Block, what, &folder.join("io.max"), &line);
        }
        for (_, name, figure) in figures {
            let file = folder.join(format!("blkio.throttle.{name}_device"));
            // 0 removes the limit.
            let line = format!("{device} {}", figure.map_or(0, |figure| figure.max(1)));
            self.put(Controller::Block, what, &file, &line)?;
        }
        Ok(())
    }

    /// Writes a control file. A missing file means that the kernel lacks the feature.
    fn put(&self, controller: Controller, what: &'static str, file: &Path, text: &str) -> Result<(), CgroupError> {
        match write(file, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.hierarchies.missing(controller, what)),
            done => done.map_err(|error| CgroupError::of(format!("write {text:?} to {}", file.display()), error)),
        }
    }
}

// Memory limits below the memory in use. Processes are ended, the largest first, as the kernel does
// when memory runs out.

/// Time for the kernel to free the memory of a killed process.
const TO_GIVE_BACK: Duration = Duration::from_millis(20);

impl Cgroup {
    /// Limits memory, even below the memory in use. With version 2, the kernel ends processes.
    /// Version 1 refuses such a limit, so processes are ended here. The whole group is frozen
    /// meanwhile, because other processes would take the freed memory.
    ///
    /// # Errors
    /// As for [`Cgroup::set_memory`], or ending all processes within this time did not suffice.
    pub fn shrink_memory(&self, bytes: u64, within: Duration) -> Result<(), CgroupError> {
        let refused = match self.set_memory(Some(bytes)) {
            Err(refused @ CgroupError::MemoryInUse { .. }) => refused,
            done => return done,
        };
        let stood_still = self.is_frozen();
        self.set_frozen(true)?;
        let shrunk = self.end_largest_until_it_fits(bytes, within, refused);
        if !stood_still {
            self.set_frozen(false)?;
        }
        shrunk
    }

    fn end_largest_until_it_fits(
        &self,
        bytes: u64,
        within: Duration,
        mut refused: CgroupError,
    ) -> Result<(), CgroupError> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            let Some(largest) = self.largest() else { return Err(refused) };
            self.kill_process(largest);
            crate::await_end(largest, TO_GIVE_BACK);
            match self.set_memory(Some(bytes)) {
                Err(again @ CgroupError::MemoryInUse { .. }) => refused = again,
                done => return done,
            }
        }
        Err(refused)
    }

    /// Returns the process in the group with the most memory.
    fn largest(&self) -> Option<u32> {
        let us = std::process::id();
        let others = self.processes().into_iter().filter(|process| *process != us);
        others.max_by_key(|process| procfs::stat(*process).map_or(0, |stat| stat.resident_pages))
    }

    fn is_frozen(&self) -> bool {
        let folders = self.folders().into_iter();
        folders
            .filter_map(|folder| fs::read_to_string(folder.join("cgroup.freeze")).ok())
            .any(|text| text.trim() == "1")
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::time::Duration;

    use fixture::CgroupTree;

    use super::Cgroup;
    use crate::cgroup::tests::{hierarchies, leftovers, leftovers_of};
    use crate::cgroup::{
        CgroupError, Controller, CpuTime, Device, Hierarchies, MemoryUsage, PressureTotals, Quota, Resource, Throttle,
        Throttling, remove_tree,
    };

    const TARGET: &str = "plimsoll-x/n1/target";
    const LOOP: Device = Device { major: 7, minor: 3 };

    fn throttle() -> Throttle {
        Throttle { write_iops: Some(200), read_bytes_per_s: Some(1_000_000), ..Throttle::default() }
    }

    #[test]
    fn a_quota_is_a_share_of_each_period() {
        // (cores, period, quota): at least 10 ms of period and 1 ms of quota.
        let table = [
            (0.05, 20_000, 1000),
            (0.1, 10_000, 1000),
            (0.25, 10_000, 2500),
            (1.0, 10_000, 10_000),
            (3.0, 10_000, 30_000),
            (0.0001, 1_000_000, 1000),
        ];
        for (cores, period_us, quota_us) in table {
            assert_eq!(Quota::of_cores(cores), Quota { period_us, quota_us }, "{cores}");
        }
    }

    #[test]
    fn version_1_inherits_cpus_and_nodes() {
        let machine = CgroupTree::v1();
        for (group, cpus) in
            [("", "0-3\n"), ("/plimsoll-x", ""), ("/plimsoll-x/n1", "2\n"), ("/plimsoll-x/n1/target", "")]
        {
            machine.folder.write(&format!("sys/fs/cgroup/cpuset{group}/cpuset.cpus"), cpus);
            machine
                .folder
                .write(&format!("sys/fs/cgroup/cpuset{group}/cpuset.mems"), if group.is_empty() { "0\n" } else { "" });
        }
        let group = Cgroup::new(&hierarchies(&machine), TARGET);
        group.make().unwrap();
        assert_eq!(machine.says("cpuset/plimsoll-x/cpuset.cpus"), "0-3");
        assert_eq!(machine.says(&format!("cpuset/{TARGET}/cpuset.cpus")), "2");
        assert_eq!(machine.says(&format!("cpuset/{TARGET}/cpuset.mems")), "0");
        assert!(machine.path(&format!("unified/{TARGET}")).is_dir());
        assert_eq!(group.join_files().len(), 7);
        assert_eq!(leftovers_of(&group.hierarchies, "plimsoll-"), ["plimsoll-x"]);
        // A slot exists only in the hierarchy with CPU limits, and replaces its group there.
        let slot = group.slot("core0");
        assert_eq!(slot.join_files(), [machine.path(&format!("cpu/{TARGET}/core0/cgroup.procs"))]);
        let files = group.join_files_with(&slot);
        assert_eq!(files.len(), 7);
        assert!(!files.contains(&machine.path(&format!("cpu/{TARGET}/cgroup.procs"))));
    }

    #[test]
    fn limits_of_version_1() {
        let machine = CgroupTree::v1();
        let file = |controller: &str, name: &str| format!("{controller}/{TARGET}/{name}");
        machine.has(&format!("cpu/{TARGET}"), &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"]);
        machine.has(&format!("memory/{TARGET}"), &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]);
        machine.has(&format!("pids/{TARGET}"), &["pids.max"]);
        let throttles =
            ["read_bps", "write_bps", "read_iops", "write_iops"].map(|name| format!("blkio.throttle.{name}_device"));
        machine.has("blkio", &throttles.each_ref().map(String::as_str));
        let hierarchies = hierarchies(&machine);
        let group = Cgroup::new(&hierarchies, TARGET);
        group.set_quota(Some(Quota::of_cores(0.05))).unwrap();
        assert_eq!(machine.says(&file("cpu", "cpu.cfs_quota_us")), "1000");
        assert_eq!(machine.says(&file("cpu", "cpu.cfs_period_us")), "20000");
        group.set_quota(None).unwrap();
        assert_eq!(machine.says(&file("cpu", "cpu.cfs_quota_us")), "-1");
        group.set_weight(16.0).unwrap();
        assert_eq!(machine.says(&file("cpu", "cpu.shares")), "16384");
        group.set_memory(Some(1 << 20)).unwrap();
        assert_eq!(machine.says(&file("memory", "memory.limit_in_bytes")), "1048576");
        assert_eq!(machine.says(&file("memory", "memory.memsw.limit_in_bytes")), "1048576");
        group.set_pids(Some(10)).unwrap();
        assert_eq!(machine.says(&file("pids", "pids.max")), "10");
        let root = Cgroup::root(&hierarchies);
        root.set_throttle(LOOP, &throttle()).unwrap();
        assert_eq!(machine.says("blkio/blkio.throttle.write_iops_device"), "7:3 200");
        assert_eq!(machine.says("blkio/blkio.throttle.read_bps_device"), "7:3 1000000");
        assert_eq!(machine.says("blkio/blkio.throttle.read_iops_device"), "7:3 0");
        // Missing file: a kernel without that feature.
        let error = group.set_throttle(LOOP, &throttle()).unwrap_err();
        assert!(matches!(error, CgroupError::Missing { controller: Controller::Block, .. }), "{error}");
        let error = group.set_frozen(true).unwrap_err();
        assert!(matches!(error, CgroupError::Missing { controller: Controller::Freezer, .. }), "{error}");
    }

    #[test]
    fn version_2_enables_controllers_along_the_path() {
        let machine = CgroupTree::v2();
        for group in ["plimsoll-x", "plimsoll-x/n1", TARGET] {
            machine.has(group, &["cgroup.subtree_control"]);
        }
        machine.has(TARGET, &["cpu.max", "cpu.weight", "cpuset.cpus", "memory.max", "memory.swap.max", "io.max"]);
        let group = Cgroup::new(&hierarchies(&machine), TARGET);
        group.make().unwrap();
        // Last word that was written.
        assert_eq!(machine.says("cgroup.subtree_control"), "+pids");
        assert_eq!(machine.says("plimsoll-x/n1/cgroup.subtree_control"), "+pids");
        assert_eq!(
            machine.says(&format!("{TARGET}/cgroup.subtree_control")),
            "",
            "it is a leaf and may hold processes"
        );
        group.set_quota(Some(Quota::of_cores(0.1))).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/cpu.max")), "1000 10000");
        group.set_quota(None).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/cpu.max")), "max 100000");
        group.set_weight(2.0).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/cpu.weight")), "200");
        group.set_cpus(&[0, 3]).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/cpuset.cpus")), "0,3");
        group.set_memory(Some(4096)).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/memory.max")), "4096");
        assert_eq!(machine.says(&format!("{TARGET}/memory.swap.max")), "0");
        group.set_throttle(LOOP, &throttle()).unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/io.max")), "7:3 rbps=1000000 wbps=max riops=max wiops=200");
        let error = group.set_pids(Some(5)).unwrap_err();
        assert!(matches!(error, CgroupError::Missing { controller: Controller::Pids, .. }), "{error}");
    }

    #[test]
    fn a_slot_of_version_2_is_threaded() {
        let machine = CgroupTree::v2();
        machine.has(TARGET, &["cgroup.subtree_control"]);
        machine.folder.write(&format!("sys/fs/cgroup/{TARGET}/core1/cgroup.type"), "domain\n");
        let group = Cgroup::new(&hierarchies(&machine), TARGET);
        let slot = group.slot("core1");
        slot.make().unwrap();
        assert_eq!(machine.says(&format!("{TARGET}/core1/cgroup.type")), "threaded");
        assert_eq!(
            machine.says(&format!("{TARGET}/cgroup.subtree_control")),
            "+cpu",
            "and nothing else, or it could hold none"
        );
        assert_eq!(group.join_files_with(&slot), [machine.path(&format!("{TARGET}/core1/cgroup.procs"))]);
    }

    #[test]
    fn readings_of_both_versions() {
        let throttling = Throttling { periods: 40, throttled_periods: 30, throttled_ns: 5000 };
        assert_eq!(
            Throttling::parse("nr_periods 40\nnr_throttled 30\nthrottled_time 5000\nnr_bursts 0\n"),
            Some(throttling)
        );
        let v2 = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 40\nnr_throttled 30\nthrottled_usec 5\n";
        assert_eq!(Throttling::parse(v2), Some(throttling));
        assert_eq!(Throttling::parse("usage_usec 9\n"), None, "not controlled");

        let machine = CgroupTree::v2();
        let file = |name: &str, text: &str| machine.folder.write(&format!("sys/fs/cgroup/{TARGET}/{name}"), text);
        file("cpu.stat", v2);
        file("memory.current", "8192\n");
        file("memory.max", "max\n");
        file("memory.stat", "anon 1\nfile 4096\ninactive_file 2048\n");
        file("memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 0\n");
        file("io.stat", "7:3 rbytes=10 wbytes=20 rios=1 wios=1\n8:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n");
        file(
            "io.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        );
        let group = Cgroup::new(&hierarchies(&machine), TARGET);
        assert_eq!(group.cpu_time(), Some(CpuTime { user_ns: 5000, system_ns: 4000 }));
        let memory = MemoryUsage { used_bytes: 8192, inactive_file_bytes: 2048, limit_bytes: None, oom_kills: Some(1) };
        assert_eq!(group.memory(), Some(memory));
        let disk = Device { major: 8, minor: 0 };
        assert_eq!(group.transferred(), Some(vec![(LOOP, 10, 20), (disk, 1, 2)]));
        assert_eq!(group.stall(Resource::Io), Some(PressureTotals { some_us: 77, full_us: Some(7) }));
        assert_eq!(group.stall(Resource::Cpu), None);

        let machine = CgroupTree::v1();
        let file = |name: &str, text: &str| machine.folder.write(&format!("sys/fs/cgroup/{name}"), text);
        file(&format!("cpuacct/{TARGET}/cpuacct.usage_user"), "50\n");
        file(&format!("cpuacct/{TARGET}/cpuacct.usage_sys"), "40\n");
        file(&format!("memory/{TARGET}/memory.usage_in_bytes"), "8192\n");
        file(&format!("memory/{TARGET}/memory.limit_in_bytes"), "9223372036854771712\n");
        file(&format!("memory/{TARGET}/memory.stat"), "inactive_file 1\ntotal_inactive_file 2048\n");
        file(&format!("memory/{TARGET}/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
        file(
            &format!("blkio/{TARGET}/blkio.throttle.io_service_bytes_recursive"),
            "7:3 Read 10\n7:3 Write 20\n7:3 Sync 30\n7:3 Total 30\n8:0 Read 1\n8:0 Write 2\nTotal 33\n",
        );
        let group = Cgroup::new(&hierarchies(&machine), TARGET);
        assert_eq!(group.cpu_time(), Some(CpuTime { user_ns: 50, system_ns: 40 }));
        assert_eq!(group.memory(), Some(memory));
        assert_eq!(group.transferred(), Some(vec![(LOOP, 10, 20), (disk, 1, 2)]));
    }

    #[test]
    fn only_groups_of_plimsoll_are_removed() {
        for name in ["user.slice", "plimsoll-x/n1", ""] {
            assert!(remove_tree(name).is_err(), "{name:?}");
        }
    }

    /// Returns a group of this machine that no other test uses. Without root or control groups,
    /// prints the reason and returns `None`.
    pub fn real(name: &str) -> Option<(Arc<Hierarchies>, String)> {
        let hierarchies = Arc::new(Hierarchies::detect());
        if !rustix::process::geteuid().is_root() || hierarchies.is_empty() {
            eprintln!("skipped: control groups need root, and a machine that has them");
            return None;
        }
        Some((hierarchies, format!("plimsoll-test-{name}-{}", std::process::id())))
    }

    pub fn sleeper() -> Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_group_is_made_and_removed() {
        let Some((hierarchies, top)) = real("group") else { return };
        let group = Cgroup::new(&hierarchies, &top).child("n1").child("target");
        group.make().unwrap();
        group.make().unwrap();
        assert!(group.exists());
        let mut process = sleeper();
        group.take_in(process.id()).unwrap();
        assert_eq!(group.processes().into_iter().collect::<Vec<_>>(), [process.id()]);
        if group.set_frozen(true).is_ok() {
            // Frozen processes are killed too.
            assert_eq!(group.processes().len(), 1);
        }
        assert_eq!(leftovers(&top), [top.as_str()]);
        let removed = remove_tree(&top).unwrap();
        assert_eq!(removed.killed, 1);
        assert_eq!(removed.folders.len(), hierarchies.all().len());
        assert!(!process.wait().unwrap().success());
        assert!(leftovers(&top).is_empty());
        assert!(!group.exists());
        assert_eq!(remove_tree(&top).unwrap().folders.len(), 0, "twice does no harm");
        assert_eq!(group.kill(Duration::ZERO).unwrap(), 0);
    }

    #[test]
    fn real_limits_match_the_request() {
        let Some((hierarchies, top)) = real("limits") else { return };
        let group = Cgroup::new(&hierarchies, &top);
        group.make().unwrap();
        let has = |controller| hierarchies.of(controller).is_some();
        if has(Controller::Memory) {
            group.set_memory(Some(64 << 20)).unwrap();
            assert_eq!(group.memory().unwrap().limit_bytes, Some(64 << 20));
            group.set_memory(Some(32 << 20)).unwrap();
            assert_eq!(group.memory().unwrap().limit_bytes, Some(32 << 20));
            group.set_memory(None).unwrap();
            assert_eq!(group.memory().unwrap().limit_bytes, None);
        }
        if has(Controller::Cpu) {
            // The kernel must accept every change of quota and period.
            for cores in [0.05, 3.0, 0.1, 0.002] {
                group.set_quota(Some(Quota::of_cores(cores))).unwrap();
            }
            group.set_quota(None).unwrap();
            group.set_weight(16.0).unwrap();
            assert!(group.throttling().is_some());
        }
        if has(Controller::Cpuset) {
            group.set_cpus(&[0]).unwrap();
            group.set_cpus(&[]).unwrap();
        }
        if has(Controller::Pids) {
            group.set_pids(Some(100)).unwrap();
            assert_eq!(group.pids(), Some(0));
        }
        assert!(group.cpu_time().is_some());
        group.remove(Duration::from_secs(5)).unwrap();
        assert!(leftovers(&top).is_empty());
    }
}
