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
pub mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::{Controller, Hierarchies, Version};
    use crate::fixture::Scratch;

    /// A machine as a folder.
    pub struct Machine {
        pub folder: Scratch,
    }

    impl Machine {
        fn with(mounts: &[&str], cgroups: &str) -> Self {
            let folder = Scratch::new();
            let others = "21 1 0:20 / /proc rw - proc proc rw\n22 1 8:1 / / rw - ext4 /dev/vda rw\n";
            folder.write("proc/self/mountinfo", &format!("{others}{}\n", mounts.join("\n")));
            folder.write("proc/cgroups", &format!("#subsys_name\thierarchy\tnum_cgroups\tenabled\n{cgroups}"));
            Self { folder }
        }

        /// A tree for each controller, and one of version 2 without any.
        pub fn v1() -> Self {
            let machine = Self::with(
                &[
                    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
                    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu",
                    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct",
                    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset",
                    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
                    "36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices",
                    "38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio",
                    "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids",
                    "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd",
                    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
                ],
                "cpuset\t3\t1\t1\ncpu\t1\t1\t1\nmemory\t4\t16\t1\n",
            );
            machine.folder.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
            for name in ["cpu", "cpuacct", "cpuset", "memory", "blkio", "pids"] {
                machine.folder.write(&format!("sys/fs/cgroup/{name}/cgroup.procs"), "");
            }
            machine
        }

        /// As systemd mounted it for years: version 1 with some controllers together, version 2 for names only. Memory was
        /// switched off, as on a small board.
        pub fn hybrid() -> Self {
            let machine = Self::with(
                &[
                    "25 24 0:22 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw,nsdelegate",
                    "26 24 0:23 / /sys/fs/cgroup/systemd rw,nosuid shared:6 - cgroup cgroup rw,xattr,name=systemd",
                    "29 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct",
                    "30 24 0:27 / /sys/fs/cgroup/freezer rw,nosuid shared:10 - cgroup cgroup rw,freezer",
                    "31 24 0:28 / /sys/fs/cgroup/net_cls,net_prio rw,nosuid shared:11 - cgroup cgroup rw,net_cls,net_prio",
                ],
                "cpu\t2\t50\t1\nmemory\t0\t1\t0\nfreezer\t4\t2\t1\n",
            );
            machine.folder.write("sys/fs/cgroup/unified/cgroup.controllers", "");
            machine
        }

        /// Version 2 alone; a virtual host has it mounted twice.
        pub fn v2() -> Self {
            let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";
            let machine = Self::with(&[mount, mount], "");
            machine.folder.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n");
            machine.folder.write("sys/fs/cgroup/cgroup.subtree_control", "");
            machine
        }

        pub fn hierarchies(&self) -> Arc<Hierarchies> {
            Arc::new(Hierarchies::detect_in(&self.folder))
        }

        pub fn path(&self, name: &str) -> PathBuf {
            self.folder.join("sys/fs/cgroup").join(name)
        }

        /// Files of a group that is already there, as the kernel would have made them.
        pub fn has(&self, folder: &str, files: &[&str]) {
            for file in files {
                self.folder.write(&format!("sys/fs/cgroup/{folder}/{file}"), "");
            }
        }

        /// What a file holds now.
        pub fn says(&self, file: &str) -> String {
            std::fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
        }
    }

    fn found(hierarchies: &Hierarchies, machine: &Machine, controller: Controller) -> Option<(Version, String)> {
        let hierarchy = hierarchies.of(controller)?;
        let below = hierarchy.root.strip_prefix(machine.path("")).unwrap();
        Some((hierarchy.version, below.display().to_string()))
    }

    #[test]
    fn a_tree_for_each_controller() {
        let machine = Machine::v1();
        let hierarchies = machine.hierarchies();
        assert_eq!(found(&hierarchies, &machine, Controller::Cpu), Some((Version::V1, "cpu".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), Some((Version::V1, "cpuacct".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::Block), Some((Version::V1, "blkio".to_owned())));
        assert_eq!(found(&hierarchies, &machine, Controller::Freezer), None);
        assert_eq!(hierarchies.v2().unwrap().controllers, []);
        // Neither devices nor systemd's names are of use.
        assert_eq!(hierarchies.all().len(), 7);
    }

    #[test]
    fn controllers_together_and_one_switched_off() {
        let machine = Machine::hybrid();
        let hierarchies = machine.hierarchies();
        let together = Some((Version::V1, "cpu,cpuacct".to_owned()));
        assert_eq!(found(&hierarchies, &machine, Controller::Cpu), together);
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), together);
        assert_eq!(hierarchies.all().len(), 3);
        let why = hierarchies.need(Controller::Memory, "a limit of memory").unwrap_err().to_string();
        assert!(
            why.starts_with("a limit of memory needs the control group controller `memory`, which was switched off"),
            "{why}"
        );
        let why = hierarchies.need(Controller::Pids, "an end to processes").unwrap_err().to_string();
        assert!(why.contains("`pids`") && why.contains("neither mounted"), "{why}");
    }

    #[test]
    fn version_2_alone() {
        let machine = Machine::v2();
        let hierarchies = machine.hierarchies();
        assert_eq!(hierarchies.all().len(), 1, "mounted twice, and one tree");
        for controller in [Controller::Cpu, Controller::Cpuset, Controller::Memory, Controller::Block, Controller::Pids]
        {
            assert_eq!(found(&hierarchies, &machine, controller), Some((Version::V2, String::new())));
        }
        assert_eq!(found(&hierarchies, &machine, Controller::CpuAccount), None);
    }

    #[test]
    fn a_machine_without_any() {
        let hierarchies = Hierarchies::detect_in(&Scratch::new());
        assert!(hierarchies.is_empty());
        let why = hierarchies.need(Controller::Cpu, "a limit of CPU time").unwrap_err().to_string();
        assert!(why.contains("no control groups are mounted"), "{why}");
    }
}
