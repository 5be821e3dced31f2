//! Tests of a host's groups; the measuring one is run by hand: `cargo test -p lab --release -- --ignored --nocapture asked`.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use experiment::profile::Disk;

use super::cpu::Plan;
use super::{Groups, Setup, host_of, make_top, throttle, top_of};
use crate::linux::cgroup::{Controller, Hierarchies, Quota, Throttle, leftovers, remove_tree};
use crate::runner::{Envelope, Isolation, Refusal, Volume};

pub fn setup(name: &str, envelope: Envelope) -> Setup {
    Setup { host: "n1".to_owned(), run: format!("test-{name}-{}", std::process::id()), envelope, ..Setup::default() }
}

pub fn slow(cores: u32, speed: f64) -> Envelope {
    Envelope { cores: Some(cores), core_speed: Some(speed), ..Envelope::default() }
}

/// As root, with the controllers a slow host needs.
pub fn can_be_slow() -> bool {
    let can = rustix::process::geteuid().is_root() && Hierarchies::detect().of(Controller::Cpu).is_some();
    if !can {
        eprintln!("skipped: slow cores need root and the control group controller `cpu`");
    }
    can
}

#[test]
fn what_an_envelope_and_a_fault_come_to() {
    let machine = |count: u32| Envelope { cpus: (0..count).collect(), ..Envelope::default() };
    let of = |cores, core_speed| Envelope { cores, core_speed, ..machine(4) };
    let quota = Quota::of_cores;
    let table = [
        (of(None, None), None, Plan::Free),
        (of(Some(4), Some(1.0)), None, Plan::Free),
        (of(Some(4), Some(1.7)), None, Plan::Free),
        (of(Some(2), None), None, Plan::Whole(quota(2.0))),
        (of(Some(8), None), None, Plan::Free),
        (of(Some(2), Some(0.1)), None, Plan::Cores(2, quota(0.1))),
        (of(None, Some(0.1)), None, Plan::Cores(4, quota(0.1))),
        (of(Some(2), Some(0.4)), Some(0.25), Plan::Cores(2, quota(0.1))),
        (of(None, None), Some(0.25), Plan::Cores(4, quota(0.25))),
        (of(Some(2), None), Some(0.5), Plan::Cores(2, quota(0.5))),
    ];
    for (envelope, fault, wanted) in table {
        assert_eq!(Plan::of(&envelope, fault), wanted, "{envelope:?} {fault:?}");
    }
}

#[test]
fn figures_of_a_disk_are_whole_numbers() {
    let disk = Disk { write_iops: Some(0.3), read_bytes_per_s: Some(1e6), ..Disk::default() };
    let wanted = Throttle { write_iops: Some(1), read_bytes_per_s: Some(1_000_000), ..Throttle::default() };
    assert_eq!(throttle(&disk), wanted);
}

#[test]
fn without_control_groups_only_a_limited_host_is_refused() {
    let none = || Arc::new(Hierarchies::default());
    let why = Groups::make_with(none(), &setup("none", slow(2, 0.5))).unwrap_err();
    assert!(why.starts_with("no control groups are mounted; a host with limits needs"), "{why}");
    let (groups, notices) = Groups::make_with(none(), &setup("none", Envelope::default())).unwrap();
    assert_eq!(notices.len(), 1);
    assert!(!groups.are_there() && groups.join_files().is_empty() && groups.usage().cpu.is_none());
    let Err(Refusal::Cannot { reason }) = groups.freeze(true) else { panic!("cannot be done") };
    assert!(reason.starts_with("freezing a host needs control groups"), "{reason}");
    groups.remove().unwrap();
}

#[test]
fn a_host_with_a_volume_stays_where_its_limits_are() {
    let machine = crate::linux::cgroup::recorded::Machine::v1();
    let volume = Volume { file: "/x".into(), device: "/dev/loop3".into(), at: "/data".into() };
    let isolation = |volume| Some(Isolation { volume, ..Isolation::default() });
    for (volume, is_in_blkio) in [(Some(volume), false), (None, true)] {
        let setup = Setup { isolation: isolation(volume), ..setup("volume", Envelope::default()) };
        let files = host_of(&machine.hierarchies(), &setup).child("target").join_files();
        assert_eq!(files.iter().any(|file| file.starts_with(machine.path("blkio"))), is_in_blkio, "{files:?}");
        assert!(files.iter().any(|file| file.starts_with(machine.path("memory"))));
    }
}

#[test]
fn a_host_with_slow_cores_comes_and_goes() {
    if !can_be_slow() {
        return;
    }
    let setup = setup("slow", slow(3, 0.05));
    make_top(&setup.run, 16).unwrap();
    let (groups, notices) = Groups::make(&setup).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(groups.quota_period_s(), Some(0.020));
    // Each start goes to another core while nothing has been started.
    let slot = |files: &[std::path::PathBuf]| files.last().unwrap().parent().unwrap().file_name().unwrap().to_owned();
    let slots: BTreeSet<_> = (0..3).map(|_| slot(&groups.join_files())).collect();
    assert_eq!(slots.len(), 3);
    let mut process = started(&groups, &["sleep", "600"]);
    assert_eq!(groups.threads(), [process.id()]);
    assert_eq!(groups.usage().cores, 3);
    assert!(groups.usage().throttled_ns.is_some());
    // A fault, on top of it, and the end of that.
    groups.set_cpu(Some(0.5)).unwrap();
    assert_eq!(groups.quota_period_s(), Some(0.040));
    groups.set_cpu(None).unwrap();
    assert_eq!(groups.quota_period_s(), Some(0.020));
    groups.freeze(true).unwrap();
    groups.freeze(false).unwrap();
    let Err(Refusal::Cannot { reason }) = groups.set_disk(Some(&Disk::default())) else { panic!("it has no volume") };
    assert!(reason.contains("volume"), "{reason}");
    assert_eq!(groups.kill_all().unwrap(), 1);
    process.wait().unwrap();
    groups.remove().unwrap();
    assert!(leftovers(&top_of(&setup.run)).is_empty());
}

#[test]
fn a_fault_makes_fast_cores_slow_with_all_that_runs() {
    if !can_be_slow() {
        return;
    }
    let setup = setup("fault", Envelope::default());
    let (groups, _) = Groups::make(&setup).unwrap();
    let mut processes: Vec<Child> = (0..3).map(|_| started(&groups, &["sleep", "600"])).collect();
    assert_eq!(groups.quota_period_s(), None);
    let ids: BTreeSet<u32> = processes.iter().map(Child::id).collect();
    for of_profile in [Some(0.25), None, Some(0.5)] {
        groups.set_cpu(of_profile).unwrap();
        assert_eq!(groups.quota_period_s(), of_profile.map(|_| 0.010));
        assert_eq!(groups.threads().into_iter().collect::<BTreeSet<_>>(), ids);
        assert_eq!(in_slots(&setup), if of_profile.is_some() { ids.clone() } else { BTreeSet::new() });
    }
    // The host crashes, is booted again, and has what its profile says.
    drop(groups);
    let (groups, _) = Groups::make(&setup).unwrap();
    assert_eq!((groups.quota_period_s(), in_slots(&setup)), (None, BTreeSet::new()));
    remove_tree(&top_of(&setup.run)).unwrap();
    assert!(leftovers(&top_of(&setup.run)).is_empty());
    processes.iter_mut().for_each(|process| assert!(!process.wait().unwrap().success()));
    groups.remove().unwrap();
}

fn in_slots(setup: &Setup) -> BTreeSet<u32> {
    let target = crate::linux::cgroup::Group::new(&Arc::new(Hierarchies::detect()), top_of(&setup.run));
    let target = target.child("n1").child("target");
    (0..64).flat_map(|index| target.slot(&format!("core{index}")).processes()).collect()
}

fn started(groups: &Groups, command: &[&str]) -> Child {
    let joins: Vec<String> = groups.join_files().iter().map(|file| format!("echo 0 > {}", file.display())).collect();
    let script = format!("set -e; {}; exec {}", joins.join("; "), command.join(" "));
    let mut process =
        Command::new("sh").arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // It has joined once it is the program.
    let program = format!("/proc/{}/cmdline", process.id());
    while std::fs::read_to_string(&program).is_ok_and(|text| !text.starts_with(command[0])) {
        assert!(process.try_wait().unwrap().is_none(), "it could not join");
        std::thread::yield_now();
    }
    process
}
