//! A group: one name in every hierarchy. Made, filled, frozen, killed, removed. It must not limit what is in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::hierarchies::Hierarchy;
use super::{Controller, Error, Hierarchies, Version, deepest_first, write, write_or};
use crate::linux::{pidfd, procfs};

/// Between two looks at whether something has happened.
const GLANCE: Duration = Duration::from_millis(2);
/// What is not frozen after so long hangs in the kernel, and freezes when it comes out.
const FREEZES_WITHIN: Duration = Duration::from_secs(1);

/// A group. It exists once it is made, and until it is removed: not until this value goes.
#[derive(Debug, Clone)]
pub struct Group {
    pub(super) hierarchies: Arc<Hierarchies>,
    name: String,
    /// Only where this controller is.
    only: Option<Controller>,
    /// Not where this controller is.
    except: Option<Controller>,
}

impl Group {
    /// The group of that name, such as `a/b/c`, in every hierarchy.
    #[must_use]
    pub fn new(hierarchies: &Arc<Hierarchies>, name: impl Into<String>) -> Self {
        Self { hierarchies: Arc::clone(hierarchies), name: name.into(), only: None, except: None }
    }

    /// The root of every hierarchy. It is there already, and of its verbs only a few make sense.
    #[must_use]
    pub fn root(hierarchies: &Arc<Hierarchies>) -> Self {
        Self::new(hierarchies, "")
    }

    /// A group in this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self { name: format!("{}/{name}", self.name), ..self.clone() }
    }

    /// A group in this one that exists only where CPU time is limited, so that each thread of a process may be in another one.
    /// In version 2 it is threaded, and its processes count as this group's for everything else.
    #[must_use]
    pub fn slot(&self, name: &str) -> Self {
        self.child(name).where_cpu_is_limited()
    }

    /// The same group, but what is done to it is done only where CPU time is limited.
    #[must_use]
    pub fn where_cpu_is_limited(&self) -> Self {
        Self { only: Some(Controller::Cpu), ..self.clone() }
    }

    /// The same group, but not where `controller` is: there, what is in it stays where it was.
    #[must_use]
    pub fn except(&self, controller: Controller) -> Self {
        Self { except: Some(controller), ..self.clone() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which hierarchies it is in, and its folder in each.
    fn places(&self) -> impl Iterator<Item = (&Hierarchy, PathBuf)> {
        let controls = |hierarchy: &Hierarchy, it: Controller| hierarchy.controllers.contains(&it);
        let has = move |hierarchy: &&Hierarchy| {
            self.only.is_none_or(|it| controls(hierarchy, it)) && !self.except.is_some_and(|it| controls(hierarchy, it))
        };
        self.hierarchies.all().iter().filter(has).map(|hierarchy| (hierarchy, hierarchy.root.join(&self.name)))
    }

    /// Its folders.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.places().map(|(_, folder)| folder).collect()
    }

    /// Its folder where a controller is, and which version that is.
    pub(super) fn at(&self, controller: Controller, needed_for: &'static str) -> Result<(Version, PathBuf), Error> {
        let hierarchy = self.hierarchies.need(controller, needed_for)?;
        Ok((hierarchy.version, hierarchy.root.join(&self.name)))
    }

    /// Its folder in version 2, with or without controllers.
    pub(super) fn at_v2(&self) -> Option<PathBuf> {
        self.hierarchies.v2().map(|hierarchy| hierarchy.root.join(&self.name))
    }

    /// Whether it is there, in any hierarchy.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folders().iter().any(|folder| folder.is_dir())
    }

    /// Makes it, with the groups above it. Nothing happens to one that is there.
    ///
    /// # Errors
    /// [`Error::Denied`] without root; what the system says.
    pub fn make(&self) -> Result<(), Error> {
        if self.name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::of(
                format!("make the control group {:?}", self.name),
                io::ErrorKind::InvalidInput.into(),
            ));
        }
        self.places().try_for_each(|(hierarchy, folder)| self.make_in(hierarchy, &folder))
    }

    fn make_in(&self, hierarchy: &Hierarchy, folder: &Path) -> Result<(), Error> {
        let mut above = hierarchy.root.clone();
        for part in self.name.split('/') {
            let group = above.join(part);
            let is_threaded = self.only.is_some() && group == folder && hierarchy.version == Version::V2;
            // What is handed down by a group that holds processes must be threaded, so the group becomes that first.
            if hierarchy.version == Version::V2 && !is_threaded {
                hand_down(&above, hierarchy.handed_down());
            }
            match fs::create_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::of(format!("make the control group {}", group.display()), error));
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

    /// The files that a process writes `0` into, one after the other, to be in this group: before it starts anything.
    #[must_use]
    pub fn join_files(&self) -> Vec<PathBuf> {
        self.folders().into_iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// The same for a process that is to be in this group and, where CPU time is limited, in a slot of it.
    #[must_use]
    pub fn join_files_with(&self, slot: &Self) -> Vec<PathBuf> {
        let others = self.places().filter(|(hierarchy, _)| !hierarchy.controllers.contains(&Controller::Cpu));
        let others = others.map(|(_, folder)| folder.join("cgroup.procs")).collect::<Vec<_>>();
        others.into_iter().chain(slot.join_files()).collect()
    }

    /// Puts this process here, with all its threads.
    ///
    /// # Errors
    /// What the system says.
    pub fn join(&self) -> Result<(), Error> {
        self.join_files().iter().try_for_each(|file| write_or(file, "0"))
    }

    /// Puts a process here, with all its threads. One that is gone is no error.
    ///
    /// # Errors
    /// What the system says.
    pub fn take_in(&self, process: u32) -> Result<(), Error> {
        self.join_files().iter().try_for_each(|file| match write(file, &process.to_string()) {
            Err(error) if rustix::io::Errno::from_io_error(&error) != Some(rustix::io::Errno::SRCH) => {
                Err(Error::of(format!("put process {process} into {}", file.display()), error))
            }
            _ => Ok(()),
        })
    }

    /// The processes in it and below it, as numbered in this process's pid namespace; others are left out.
    #[must_use]
    pub fn processes(&self) -> BTreeSet<u32> {
        self.folders().iter().flat_map(|folder| processes_below(folder)).collect()
    }

    /// The threads in it and below it.
    #[must_use]
    pub fn threads(&self) -> Vec<u32> {
        let Some((_, folder)) = self.places().min_by_key(|(hierarchy, _)| hierarchy.version == Version::V1) else {
            return Vec::new();
        };
        deepest_first(&folder).iter().filter_map(|folder| threads_file(folder)).flat_map(|file| pids(&file)).collect()
    }

    /// The file that lists the threads of a slot, and into which the number of one is written to move it there.
    #[must_use]
    pub fn threads_file(&self) -> Option<PathBuf> {
        threads_file(&self.at(Controller::Cpu, "a slot").ok()?.1)
    }

    /// Stops all that is in it where it stands, or lets it go on. Waits up to a second until it stands; a process that hangs
    /// in the kernel stops as soon as it comes out.
    ///
    /// # Errors
    /// [`Error::Missing`] if neither version can do that here.
    pub fn set_frozen(&self, frozen: bool) -> Result<(), Error> {
        let v2 = self.at_v2().filter(|folder| folder.join("cgroup.freeze").exists());
        if let Some(folder) = v2 {
            write_or(&folder.join("cgroup.freeze"), if frozen { "1" } else { "0" })?;
            let word = if frozen { "frozen 1" } else { "frozen 0" };
            await_event(&folder.join("cgroup.events"), word, FREEZES_WITHIN);
            return Ok(());
        }
        let state = self.at(Controller::Freezer, "standing still")?.1.join("freezer.state");
        let word = if frozen { "FROZEN" } else { "THAWED" };
        let until = Instant::now() + FREEZES_WITHIN;
        write_or(&state, word)?;
        while fs::read_to_string(&state).is_ok_and(|text| text.trim() != word) && Instant::now() < until {
            glance();
        }
        Ok(())
    }

    /// Kills all that is in it and below it; how many processes that were. This process leaves it before.
    ///
    /// # Errors
    /// [`Error::Undying`] if some are left after `within`.
    pub fn kill(&self, within: Duration) -> Result<usize, Error> {
        self.leave();
        let until = Instant::now() + within;
        let mut killed = BTreeSet::new();
        loop {
            let found = self.processes();
            let Some(first) = found.first() else { return Ok(killed.len()) };
            if Instant::now() >= until {
                return Err(Error::Undying { name: self.name.clone(), count: found.len() });
            }
            // By name at once, so that a process that starts others is not outrun; then by number what version 2 does not have.
            let at_once = self.at_v2().is_some_and(|folder| write(&folder.join("cgroup.kill"), "1").is_ok());
            if !at_once || killed.is_superset(&found) {
                found.iter().for_each(|process| self.kill_process(*process));
            }
            // What version 1 froze dies only when it goes on.
            if let Ok((Version::V1, folder)) = self.at(Controller::Freezer, "going on") {
                let _ = write(&folder.join("freezer.state"), "THAWED");
            }
            pidfd::await_end(*first, GLANCE);
            killed.extend(found);
        }
    }

    /// A number may have gone to another process since the list was read.
    pub(super) fn kill_process(&self, process: u32) {
        let Some(stat) = procfs::stat(process) else { return };
        let groups = procfs::text(&Path::new("/proc").join(process.to_string()).join("cgroup")).unwrap_or_default();
        if groups.contains(&format!("/{}", self.name)) {
            pidfd::signal(&stat, Signal::KILL);
        }
    }

    /// Moves this process to the root if it is in here or below: it would be killed with the rest.
    pub fn leave(&self) {
        let us = std::process::id();
        for (hierarchy, folder) in self.places() {
            if processes_below(&folder).any(|process| process == us) {
                let _ = write(&hierarchy.root.join("cgroup.procs"), "0");
            }
        }
    }

    /// Kills what is in it and removes it with all groups below it. The folders that were removed; nothing happens if there
    /// is none.
    ///
    /// # Errors
    /// [`Error::Undying`], or what the system says after `within`.
    pub fn remove(&self, within: Duration) -> Result<Vec<PathBuf>, Error> {
        let until = Instant::now() + within;
        self.kill(within)?;
        let mut removed = Vec::new();
        for folder in self.folders().iter().filter(|folder| folder.is_dir()) {
            while let Err(error) = remove_all(folder) {
                // A dead process lingers in its group for a moment, and something may still have been starting.
                let may_pass =
                    error.kind() == io::ErrorKind::ResourceBusy || error.kind() == io::ErrorKind::DirectoryNotEmpty;
                if !may_pass || Instant::now() >= until {
                    return Err(Error::of(format!("remove the control group {}", folder.display()), error));
                }
                glance();
                self.kill(until.saturating_duration_since(Instant::now()))?;
            }
            removed.push(folder.clone());
        }
        Ok(removed)
    }

    /// Removes it if nothing is in it and below it.
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

/// Version 2: what groups below may use. What cannot be handed down is missed when it is asked for.
fn hand_down(group: &Path, wanted: impl Iterator<Item = String>) {
    let file = group.join("cgroup.subtree_control");
    let given = fs::read_to_string(&file).unwrap_or_default();
    for word in wanted {
        if !given.split_ascii_whitespace().any(|name| word.strip_prefix('+') == Some(name)) {
            let _ = write(&file, &word);
        }
    }
}

/// Version 1: a new group has no CPU and no memory node, and takes no process before it has both.
fn inherit_cpuset(above: &Path, group: &Path) -> Result<(), Error> {
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

/// Numbers, a line each. A process outside of our pid namespace is 0.
fn pids(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
}

fn threads_file(folder: &Path) -> Option<PathBuf> {
    ["tasks", "cgroup.threads"].iter().map(|name| folder.join(name)).find(|file| file.exists())
}

/// Waits until a line of `cgroup.events` is `word`, or the time is over. The kernel wakes who polls the file.
fn await_event(file: &Path, word: &str, within: Duration) {
    let until = Instant::now() + within;
    while let Ok(events) = File::open(file) {
        let is_so = fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == word));
        let left = until.saturating_duration_since(Instant::now());
        if is_so || left.is_zero() {
            return;
        }
        // A change between the two lines above is missed: hence not all of the time at once.
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&timespec(left.min(10 * GLANCE))));
    }
}

fn glance() {
    let _ = poll(&mut [], Some(&timespec(GLANCE)));
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(time.subsec_nanos()) }
}

#[cfg(test)]
mod tests;
