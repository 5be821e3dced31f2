//! Tests of whose quota this program is under, on recorded machines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
