//! Which control groups this machine offers: from its mounts, and from what the kernel says it has. It must not make any.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;

/// What limits or counts one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Shares and quotas of CPU time.
    Cpu,
    /// Counts CPU time; version 2 always does.
    CpuAccount,
    /// CPUs that may be used.
    Cpuset,
    /// Memory.
    Memory,
    /// Block devices.
    Block,
    /// Number of processes and threads.
    Pids,
    /// Stops and goes on; part of every group in version 2.
    Freezer,
}

impl Controller {
    const ALL: [Self; 7] =
        [Self::Cpu, Self::CpuAccount, Self::Cpuset, Self::Memory, Self::Block, Self::Pids, Self::Freezer];

    /// Its name in version 1.
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

    /// Its name in version 2; `None`: it is no controller there.
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

/// Of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A tree for each controller or for a few of them.
    V1,
    /// One tree.
    V2,
}

/// A mounted tree of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where its root group is.
    pub root: PathBuf,
    /// What it controls; of version 2 possibly nothing.
    pub controllers: Vec<Controller>,
}

/// All that is mounted and of use here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchies {
    all: Vec<Hierarchy>,
    /// In the kernel, but switched off when it was started.
    disabled: Vec<Controller>,
}

impl Hierarchies {
    /// Those of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_in(Path::new("/"))
    }

    /// Those of a machine whose `/proc` and mounts are found below `root`.
    #[must_use]
    pub fn detect_in(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let mut all: Vec<Hierarchy> = Vec::new();
        for line in text("proc/self/mountinfo").lines() {
            let Some(found) = hierarchy(line, root) else { continue };
            // Inside a virtual host the same trees are mounted twice, one over the other.
            let is_new = |known: &Hierarchy| known.version != found.version || known.controllers != found.controllers;
            if all.iter().all(is_new) {
                all.push(found);
            }
        }
        Self { all, disabled: disabled(&text("proc/cgroups")) }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Hierarchy] {
        &self.all
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The one tree of version 2, with or without controllers.
    #[must_use]
    pub fn v2(&self) -> Option<&Hierarchy> {
        self.all.iter().find(|hierarchy| hierarchy.version == Version::V2)
    }

    /// Where this controller is.
    #[must_use]
    pub fn of(&self, controller: Controller) -> Option<&Hierarchy> {
        self.all.iter().find(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// The same, or an error that says for what it is missing.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn need(&self, controller: Controller, needed_for: &'static str) -> Result<&Hierarchy, Error> {
        self.of(controller).ok_or_else(|| self.missing(controller, needed_for))
    }

    pub(super) fn missing(&self, controller: Controller, needed_for: &'static str) -> Error {
        let why = if self.disabled.contains(&controller) {
            "which was switched off when this kernel was started: boot it with `cgroup_enable=NAME`, without `cgroup_disable=NAME`"
        } else if self.is_empty() {
            "and no control groups are mounted here: mount them at /sys/fs/cgroup"
        } else if self.of(controller).is_some() {
            "which this kernel has, but without this feature, or it is not handed down to this group"
        } else {
            "which is neither mounted nor in the version 2 tree here: mount it, or take a kernel that has it"
        };
        Error::Missing { controller, needed_for, why }
    }
}

/// What a line of mountinfo (proc(5)) mounts, if it is of use here.
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

/// Lines of `/proc/cgroups`: name, hierarchy, groups, enabled.
fn disabled(text: &str) -> Vec<Controller> {
    let off = |line: &str, name: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        columns.first() == Some(&name) && columns.get(3) == Some(&"0")
    };
    named(|controller| text.lines().any(|line| off(line, controller.v1())))
}

impl Hierarchy {
    /// What is to be written to `cgroup.subtree_control` so that groups below get all that there is, one by one: the kernel
    /// refuses a line as a whole.
    pub(super) fn handed_down(&self) -> impl Iterator<Item = String> {
        self.controllers.iter().filter_map(|controller| controller.v2()).map(|name| format!("+{name}"))
    }
}

#[cfg(test)]
pub mod tests;
