//! Tests of groups: what is written where, on recorded machines; and on this one, as root, that what is made is gone again.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::Group;
use crate::linux::cgroup::hierarchies::tests::Machine;
use crate::linux::cgroup::remains::tests::leftovers_of;
use crate::linux::cgroup::{
    Controller, CpuTime, Device, Error, Hierarchies, Memory, Quota, Resource, Stall, Throttle, Throttling, leftovers,
    remove_tree,
};

const TARGET: &str = "plimsoll-x/n1/target";
const LOOP: Device = Device { major: 7, minor: 3 };

fn throttle() -> Throttle {
    Throttle { write_iops: Some(200), read_bytes_per_s: Some(1_000_000), ..Throttle::default() }
}

#[test]
fn a_quota_is_a_share_of_each_period() {
    // (cores, period, quota): no less than 10 ms, and no less than 1 ms of quota.
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
fn version_1_gets_cpus_and_nodes_from_above() {
    let machine = Machine::v1();
    for (group, cpus) in [("", "0-3\n"), ("/plimsoll-x", ""), ("/plimsoll-x/n1", "2\n"), ("/plimsoll-x/n1/target", "")]
    {
        machine.folder.write(&format!("sys/fs/cgroup/cpuset{group}/cpuset.cpus"), cpus);
        machine
            .folder
            .write(&format!("sys/fs/cgroup/cpuset{group}/cpuset.mems"), if group.is_empty() { "0\n" } else { "" });
    }
    let group = Group::new(&machine.hierarchies(), TARGET);
    group.make().unwrap();
    assert_eq!(machine.says("cpuset/plimsoll-x/cpuset.cpus"), "0-3");
    assert_eq!(machine.says(&format!("cpuset/{TARGET}/cpuset.cpus")), "2");
    assert_eq!(machine.says(&format!("cpuset/{TARGET}/cpuset.mems")), "0");
    assert!(machine.path(&format!("unified/{TARGET}")).is_dir());
    assert_eq!(group.join_files().len(), 7);
    assert_eq!(leftovers_of(&group.hierarchies, "plimsoll-"), ["plimsoll-x"]);
    // A slot is only where CPU time is limited, and replaces its group there.
    let slot = group.slot("core0");
    assert_eq!(slot.join_files(), [machine.path(&format!("cpu/{TARGET}/core0/cgroup.procs"))]);
    let files = group.join_files_with(&slot);
    assert_eq!(files.len(), 7);
    assert!(!files.contains(&machine.path(&format!("cpu/{TARGET}/cgroup.procs"))));
}

#[test]
fn limits_of_version_1() {
    let machine = Machine::v1();
    let file = |controller: &str, name: &str| format!("{controller}/{TARGET}/{name}");
    machine.has(&format!("cpu/{TARGET}"), &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"]);
    machine.has(&format!("memory/{TARGET}"), &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]);
    machine.has(&format!("pids/{TARGET}"), &["pids.max"]);
    let throttles =
        ["read_bps", "write_bps", "read_iops", "write_iops"].map(|name| format!("blkio.throttle.{name}_device"));
    machine.has("blkio", &throttles.each_ref().map(String::as_str));
    let hierarchies = machine.hierarchies();
    let group = Group::new(&hierarchies, TARGET);
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
    let root = Group::root(&hierarchies);
    root.set_throttle(LOOP, &throttle()).unwrap();
    assert_eq!(machine.says("blkio/blkio.throttle.write_iops_device"), "7:3 200");
    assert_eq!(machine.says("blkio/blkio.throttle.read_bps_device"), "7:3 1000000");
    assert_eq!(machine.says("blkio/blkio.throttle.read_iops_device"), "7:3 0");
    // Not there: a kernel without that feature.
    let error = group.set_throttle(LOOP, &throttle()).unwrap_err();
    assert!(matches!(error, Error::Missing { controller: Controller::Block, .. }), "{error}");
    let error = group.set_frozen(true).unwrap_err();
    assert!(matches!(error, Error::Missing { controller: Controller::Freezer, .. }), "{error}");
}

#[test]
fn version_2_hands_down_what_it_has_on_the_way() {
    let machine = Machine::v2();
    for group in ["plimsoll-x", "plimsoll-x/n1", TARGET] {
        machine.has(group, &["cgroup.subtree_control"]);
    }
    machine.has(TARGET, &["cpu.max", "cpu.weight", "cpuset.cpus", "memory.max", "memory.swap.max", "io.max"]);
    let group = Group::new(&machine.hierarchies(), TARGET);
    group.make().unwrap();
    // The last of what was written one by one.
    assert_eq!(machine.says("cgroup.subtree_control"), "+pids");
    assert_eq!(machine.says("plimsoll-x/n1/cgroup.subtree_control"), "+pids");
    assert_eq!(machine.says(&format!("{TARGET}/cgroup.subtree_control")), "", "it is a leaf and may hold processes");
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
    assert!(matches!(error, Error::Missing { controller: Controller::Pids, .. }), "{error}");
}

#[test]
fn a_slot_of_version_2_is_threaded() {
    let machine = Machine::v2();
    machine.has(TARGET, &["cgroup.subtree_control"]);
    machine.folder.write(&format!("sys/fs/cgroup/{TARGET}/core1/cgroup.type"), "domain\n");
    let group = Group::new(&machine.hierarchies(), TARGET);
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

    let machine = Machine::v2();
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
    let group = Group::new(&machine.hierarchies(), TARGET);
    assert_eq!(group.cpu_time(), Some(CpuTime { user_ns: 5000, system_ns: 4000 }));
    let memory = Memory { used_bytes: 8192, inactive_file_bytes: 2048, limit_bytes: None, oom_kills: Some(1) };
    assert_eq!(group.memory(), Some(memory));
    let disk = Device { major: 8, minor: 0 };
    assert_eq!(group.transferred(), Some(vec![(LOOP, 10, 20), (disk, 1, 2)]));
    assert_eq!(group.stall(Resource::Io), Some(Stall { some_us: 77, full_us: Some(7) }));
    assert_eq!(group.stall(Resource::Cpu), None);

    let machine = Machine::v1();
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
    let group = Group::new(&machine.hierarchies(), TARGET);
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

/// A group of this machine that no other test has; `None`, with a word why, without root or control groups.
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
fn what_is_made_is_gone_again() {
    let Some((hierarchies, top)) = real("group") else { return };
    let group = Group::new(&hierarchies, &top).child("n1").child("target");
    group.make().unwrap();
    group.make().unwrap();
    assert!(group.exists());
    let mut process = sleeper();
    group.take_in(process.id()).unwrap();
    assert_eq!(group.processes().into_iter().collect::<Vec<_>>(), [process.id()]);
    if group.set_frozen(true).is_ok() {
        // What is frozen is killed all the same.
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
fn limits_on_this_machine_are_what_was_asked() {
    let Some((hierarchies, top)) = real("limits") else { return };
    let group = Group::new(&hierarchies, &top);
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
        // Every change of quota and period must be one that the kernel takes.
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
