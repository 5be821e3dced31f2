//! The control groups that this program itself is in, and those above them as far as they can be seen from here: whose quota
//! can keep it from running. It must not change any.

use std::fs;
use std::path::{Path, PathBuf};

use super::Throttling;

/// Every group with a CPU quota's account that this program is subject to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// `cpu.stat` of each.
    accounts: Vec<PathBuf>,
}

impl Own {
    /// Those of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_in(Path::new("/"))
    }

    /// Those of a machine whose `/proc` and mounts are found below `root`.
    #[must_use]
    pub fn detect_in(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let memberships = text("proc/self/cgroup");
        let mut accounts = Vec::new();
        for mount in text("proc/self/mountinfo").lines().filter_map(Mount::parse) {
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

    /// For how long the strictest of them has kept this program and what is beside it from running, since it was made:
    /// nanoseconds, summed over CPUs, one figure for each group. Empty where none has a quota's account.
    #[must_use]
    pub fn throttled_ns(&self) -> Vec<Option<u64>> {
        self.accounts.iter().map(|account| read(account).map(|throttling| throttling.throttled_ns)).collect()
    }
}

fn read(account: &Path) -> Option<Throttling> {
    Throttling::parse(&fs::read_to_string(account).ok()?)
}

/// A line of mountinfo (proc(5)) that mounts a tree in which CPU time may be limited.
struct Mount<'a> {
    /// The group that is seen as the tree's root.
    top: &'a Path,
    /// Where it is seen.
    point: &'a Path,
    is_v2: bool,
}

impl<'a> Mount<'a> {
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

    /// The group that a line of `/proc/self/cgroup` puts this program into, if it is about this tree: `4:cpu,cpuacct:/a/b`, or `0::/a/b`
    /// in version 2.
    fn group<'l>(&self, line: &'l str) -> Option<&'l Path> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_this = match self.is_v2 {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|name| name == "cpu"),
        };
        is_this.then(|| Path::new(path))
    }

    /// The folders of a group and of those above it, up to what is mounted.
    fn upwards(&self, group: &Path) -> Vec<PathBuf> {
        // A path that leads out of what is mounted here is that of a container whose own group is what is seen as the root.
        let below = group.strip_prefix(self.top).ok().filter(|below| !below.starts_with(".."));
        let folder = below.map_or_else(|| self.point.to_path_buf(), |below| self.point.join(below));
        folder.ancestors().take_while(|above| above.starts_with(self.point)).map(Path::to_path_buf).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Scratch;

    const V1: &str = "nr_periods 9\nnr_throttled 3\nthrottled_time 7000\n";
    const V2: &str = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n";

    fn machine(mounts: &str, groups: &str, accounts: &[(&str, &str)]) -> Own {
        let folder = Scratch::new();
        folder.write("proc/self/mountinfo", mounts);
        folder.write("proc/self/cgroup", groups);
        for (group, text) in accounts {
            folder.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), text);
        }
        let own = Own::detect_in(&folder);
        let throttled = own.throttled_ns();
        assert!(throttled.iter().all(|ns| *ns == Some(7_000)), "{throttled:?}");
        own
    }

    #[test]
    fn the_group_and_all_above_it_count() {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let accounts = [("system.slice/ci.service", V2), ("system.slice", V2), ("other", V2), ("", "usage_usec 5\n")];
        let own = machine(mount, "0::/system.slice/ci.service\n", &accounts);
        assert_eq!(own.accounts.len(), 2, "the root has no quota, others are none of ours: {own:?}");
    }

    #[test]
    fn version_1_has_a_tree_of_its_own_for_cpu_time() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let accounts = [("cpu,cpuacct/a", V1), ("cpuset/a", V1)];
        assert_eq!(machine(mounts, "4:cpuset:/a\n3:cpu,cpuacct:/a\n0::/\n", &accounts).accounts.len(), 1);
    }

    #[test]
    fn in_a_container_the_mount_is_its_own_group() {
        // Without a namespace of its own the path is that of the machine, and the mount begins at it.
        let mounts = "32 31 0:29 /docker/4f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(machine(mounts, "3:cpu:/docker/4f\n", &[("cpu", V1), ("cpu/docker/4f", V1)]).accounts.len(), 1);
        let outside = machine(mounts, "3:cpu:/../5a\n", &[("cpu", V1)]);
        assert!(outside.accounts[0].ends_with("sys/fs/cgroup/cpu/cpu.stat"), "{outside:?}");
    }

    #[test]
    fn without_groups_nothing_is_known() {
        assert_eq!(machine("21 1 0:20 / /proc rw - proc proc rw\n", "", &[]).throttled_ns(), []);
    }
}
