//! Tests of what counts as a replacement.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Processes as pid, parent and name; the pid tells the start as well. Returns how many were replaced.
fn look(staff: &mut Staff, processes: &[(u32, u32, &str)]) -> Option<u64> {
    let stat = |pid: u32, parent: u32, name: &str| {
        Stat::parse(&format!("{pid} ({name}) S {parent} 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 2 0 1{pid} 1000 7 0")).unwrap()
    };
    let all: HashMap<u32, Stat> =
        processes.iter().map(|(pid, parent, name)| (*pid, stat(*pid, *parent, name))).collect();
    let pids: Vec<u32> = all.keys().copied().collect();
    let mut row = Sample::default();
    staff.read(&pids, &all, &mut row);
    row.processes_replaced
}

const MASTER: (u32, u32, &str) = (10, 1, "master");

#[test]
fn a_worker_that_its_master_starts_again_was_replaced() {
    let mut staff = Staff::default();
    assert_eq!(look(&mut staff, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), None, "no base yet");
    assert_eq!(look(&mut staff, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), Some(0));
    assert_eq!(look(&mut staff, &[MASTER, (12, 10, "worker"), (20, 10, "worker")]), Some(1));
    assert_eq!(look(&mut staff, &[MASTER, (12, 10, "worker"), (20, 10, "worker")]), Some(0), "once");
}

#[test]
fn a_master_may_take_its_time() {
    let mut staff = Staff::default();
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    for _ in 0..3 {
        assert_eq!(look(&mut staff, &[MASTER]), Some(0));
    }
    assert_eq!(look(&mut staff, &[MASTER, (20, 10, "worker")]), Some(1));
}

#[test]
fn what_comes_and_goes_for_each_request_is_not_replaced() {
    let mut staff = Staff::default();
    look(&mut staff, &[MASTER]);
    for pid in 20..30 {
        assert_eq!(look(&mut staff, &[MASTER, (pid, 10, "cgi")]), Some(0));
    }
}

#[test]
fn a_worker_more_or_of_another_name_or_parent_replaces_nobody() {
    let mut staff = Staff::default();
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    assert_eq!(look(&mut staff, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), Some(0));
    assert_eq!(look(&mut staff, &[MASTER, (12, 10, "worker"), (13, 12, "worker"), (14, 10, "logger")]), Some(0));
}

#[test]
fn a_target_that_was_restarted_as_a_whole_is_not_its_own_workers_doing() {
    let mut staff = Staff::default();
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    look(&mut staff, &[MASTER, (11, 10, "worker")]);
    assert_eq!(look(&mut staff, &[(30, 1, "master"), (31, 30, "worker")]), Some(0));
}
