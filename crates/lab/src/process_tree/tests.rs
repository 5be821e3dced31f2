//! Tests of trees and of the sums over them, on made-up processes and on real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::{Bench, Scratch, manifest, server};
use crate::sampling::Bounds;

/// A line as of Linux 6: 22 figures after the state are enough.
fn stat_line(
    pid: u32,
    parent: u32,
    group: u32,
    (user, system): (u64, u64),
    (children_user, children_system): (u64, u64),
) -> String {
    format!(
        "{pid} (a (b) c) S {parent} {group} 1 0 -1 4194304 1 0 0 0 {user} {system} {children_user} {children_system} 20 0 2 0 1{pid} 1000 7 18446744073709551615\n"
    )
}

struct Machine(Scratch);

impl Machine {
    fn with(processes: &[(u32, String)]) -> Self {
        let machine = Self(Scratch::new());
        machine.0.write("stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n");
        for (pid, stat) in processes {
            machine.0.write(&format!("{pid}/stat"), stat);
            machine.0.write(&format!("{pid}/task/{pid}/stat"), &stat.replace(" S ", " D "));
            machine.0.write(&format!("{pid}/task/{pid}/schedstat"), &format!("5 {}000000 3\n", pid));
        }
        machine
    }

    fn read(&self, forest: &mut Forest) -> Sample {
        let members = [Member { host: "n1".to_owned(), role: "server".to_owned(), pid: 10 }];
        let mut host = Sample { host: "n1".to_owned(), ..Sample::default() };
        let reading = forest.read(&Source::machine(Proc::at(&self.0)), &members, 1.0, &mut host);
        assert_eq!(host, Sample { host: "n1".to_owned(), ..Sample::default() }, "the machine is the probes'");
        reading.roles.into_iter().next().unwrap_or_default()
    }

    fn reads(&self, pid: u32, bytes: u64) {
        let text = format!("rchar: 9\nread_bytes: {bytes}\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n");
        self.0.write(&format!("{pid}/io"), &text);
    }

    /// As seen from inside a host that can do as much as two of the machine's cores.
    fn whole(&self, forest: &mut Forest) -> Sample {
        let host = Some(Bounds { capacity: 2.0, ..Bounds::default() });
        let mut sample = Sample::default();
        forest.read(&Source { proc: Proc::at(&self.0), host }, &[], 1.0, &mut sample);
        sample
    }
}

#[test]
fn a_stat_line_is_read_whatever_the_program_calls_itself() {
    let stat = Stat::parse(&stat_line(10, 1, 9, (3, 4), (5, 6))).unwrap();
    assert_eq!((stat.pid, stat.name.as_str(), stat.state, stat.parent, stat.group), (10, "a (b) c", 'S', 1, 9));
    assert_eq!(
        (stat.user_ticks, stat.system_ticks, stat.children_user_ticks, stat.children_system_ticks),
        (3, 4, 5, 6)
    );
    assert_eq!((stat.threads, stat.started_ticks, stat.resident_pages), (2, 110, 7));
    assert_eq!(Stat::parse("10 (sh"), None);
    assert_eq!(Stat::parse(""), None);
}

#[test]
fn children_groups_and_adopted_ones_are_of_the_tree() {
    let stats = |lines: &[String]| -> HashMap<u32, Stat> {
        lines.iter().map(|line| Stat::parse(line).unwrap()).map(|stat| (stat.pid, stat)).collect()
    };
    let line = |pid, parent, group| stat_line(pid, parent, group, (0, 0), (0, 0));
    let all = stats(&[
        line(10, 1, 10),
        line(11, 10, 10),
        line(12, 11, 12),
        line(13, 1, 10),
        line(20, 1, 20),
        line(21, 20, 20),
    ]);
    let descendants = |root, all: &HashMap<u32, Stat>, seen: &HashMap<u32, u64>| {
        descendants(&Roots { started: Some(root), ..Roots::default() }, 1, all, seen)
    };
    assert_eq!(descendants(10, &all, &HashMap::new()), [10, 11, 12, 13]);
    // 20 was seen below 10 before its parent died; with another start time it would be another process.
    assert_eq!(descendants(10, &all, &HashMap::from([(20, 120)])), [10, 11, 12, 13, 20, 21]);
    assert_eq!(descendants(10, &all, &HashMap::from([(20, 999)])), [10, 11, 12, 13]);
    // The lab's process has ended, its group has not.
    let orphans = stats(&[line(13, 1, 10)]);
    assert_eq!(descendants(10, &orphans, &HashMap::new()), [13]);
}

#[test]
fn a_tree_is_added_up() {
    let mut forest = Forest::default();
    let line = |pid, parent, user| (pid, stat_line(pid, parent, 10, (user, 10), (0, 0)));
    let first = Machine::with(&[line(10, 1, 100), line(11, 10, 50)]).read(&mut forest);
    assert_eq!((first.cpu_user_pct, first.run_delay_pct), (None, None), "no base yet");
    assert_eq!((first.threads, first.io_wait_threads), (Some(4), Some(2)));
    let second = Machine::with(&[line(10, 1, 130), line(11, 10, 70)]).read(&mut forest);
    // 50 ticks of 100 a second on 2 cores.
    assert_eq!((second.cpu_user_pct, second.cpu_system_pct), (Some(25.0), Some(0.0)));
    assert_eq!(second.run_delay_pct, Some(0.0));
    assert_eq!(second.rss_bytes, Some(14 * rustix::param::page_size() as u64));
}

#[test]
fn a_role_that_comes_back_has_used_all_its_time_since() {
    let mut forest = Forest::default();
    Machine::with(&[]).read(&mut forest);
    let sample = Machine::with(&[(10, stat_line(10, 1, 10, (40, 20), (0, 0)))]).read(&mut forest);
    assert_eq!((sample.cpu_user_pct, sample.cpu_system_pct), (Some(20.0), Some(10.0)));
    assert_eq!(sample.run_delay_pct, Some(1.0));
}

/// A target that the search has come to this about.
fn sought(found: Whereabouts) -> Sought {
    Sought { finder: None, name: ("local".to_owned(), "target".to_owned()), found: Some(found) }
}

fn here(roots: &[u32], more: &[u32]) -> Whereabouts {
    let set = |pids: &[u32]| pids.iter().copied().collect();
    Whereabouts::Here(ServerProcesses { roots: set(roots), more: set(more) })
}

impl Machine {
    fn share_out(&self, forest: &mut Forest) -> Reading {
        let mut host = Sample::default();
        forest.read(&Source::machine(Proc::at(&self.0)), &[], 1.0, &mut host)
    }
}

#[test]
fn a_server_that_was_found_is_the_target_and_the_rest_are_others() {
    let mut forest = Forest::default();
    forest.share_out(Some(sought(here(&[10], &[30]))), None);
    let line = |pid, parent, user, children| (pid, stat_line(pid, parent, 5, (user, 0), (children, 0)));
    // Master, worker, a process of the same control group with a child elsewhere, and a hog with a child.
    let before = [line(10, 1, 100, 0), line(11, 10, 50, 0), line(30, 1, 7, 0), line(31, 30, 0, 0), line(20, 1, 0, 0)];
    let first = Machine::with(&before).share_out(&mut forest);
    assert_eq!((first.run, first.roles[0].threads), (None, Some(6)), "no base yet");
    // The worker used 10 more and was waited for; another took its place.
    let after = [line(10, 1, 130, 60), line(12, 10, 5, 0), line(30, 1, 17, 0), line(31, 30, 20, 0), line(20, 1, 40, 0)];
    let second = Machine::with(&after).share_out(&mut forest);
    // 30 + 10 + 5 + 10 ticks of 200.
    let target = &second.roles[0];
    assert_eq!((target.host.as_str(), target.process.as_str()), ("local", "target"));
    assert!((target.cpu_user_pct.unwrap() - 27.5).abs() < 1e-9 && (second.run.unwrap().0 - 27.5).abs() < 1e-9);
    let share = |pid, cpu_pct| ProcessShare { name: "a (b) c".to_owned(), pid, cpu_pct };
    let told = forest.told();
    assert_eq!(told.0, [share(10, 15.0), share(30, 5.0), share(12, 2.5)]);
    assert_eq!(told.1, [share(20, 20.0), share(31, 10.0)]);
}

#[test]
fn what_a_server_had_used_before_it_was_found_is_not_of_the_load() {
    let mut forest = Forest::default();
    forest.share_out(Some(sought(Whereabouts::Unknown("it does not listen yet".to_owned()))), None);
    let line = |pid, user| (pid, stat_line(pid, 1, 5, (user, 0), (0, 0)));
    assert_eq!(Machine::with(&[line(10, 5_000)]).share_out(&mut forest).roles, []);
    forest.sought.as_mut().unwrap().found = Some(here(&[10], &[]));
    let reading = Machine::with(&[line(10, 5_020)]).share_out(&mut forest);
    assert_eq!((reading.roles[0].cpu_user_pct, reading.run), (Some(10.0), Some((10.0, 0.0))));
    assert_eq!(reading.roles[0].run_delay_pct, Some(0.0));
    let told = forest.told();
    assert_eq!((told.0[0].cpu_pct, told.1.len()), (10.0, 0));
}

#[test]
fn what_runs_in_the_labs_control_group_is_no_other_process() {
    let mut forest = Forest::default();
    forest.share_out(None, Some("plimsoll-run".to_owned()));
    let machine = |user| {
        let line = |pid| (pid, stat_line(pid, 1, 5, (user, 0), (0, 0)));
        let machine = Machine::with(&[line(10), line(20)]);
        machine.0.write("10/cgroup", "4:cpu:/plimsoll-run/n1/server\n0::/\n");
        machine.0.write("20/cgroup", "4:cpu:/plimsoll-run-2/n1/server\n0::/\n");
        machine
    };
    machine(0).share_out(&mut forest);
    machine(20).share_out(&mut forest);
    assert_eq!(forest.told().1.iter().map(|share| share.pid).collect::<Vec<_>>(), [20]);
}

#[test]
fn in_a_host_everything_that_runs_is_added_up() {
    let mut forest = Forest::default();
    let line = |pid, user| (pid, stat_line(pid, 1, pid, (user, 0), (0, 0)));
    let machine = Machine::with(&[line(10, 100), line(20, 100)]);
    machine.reads(10, 0);
    let first = machine.whole(&mut forest);
    assert_eq!((first.threads, first.io_wait_threads), (Some(4), Some(2)));
    assert_eq!((first.cpu_user_pct, first.run_delay_pct, first.disk_read_bytes), (None, None, None), "no base yet");
    // Of no role, and what a new process did has been done since.
    let machine = Machine::with(&[line(10, 130), line(20, 120), line(30, 10)]);
    machine.reads(10, 512);
    machine.reads(30, 100);
    let second = machine.whole(&mut forest);
    // 60 ticks of 200.
    assert_eq!(second.cpu_user_pct, Some(30.0));
    assert_eq!((second.disk_read_bytes, second.disk_write_bytes), (Some(612), Some(4096)));
    assert!((second.run_delay_pct.unwrap() - 3.0).abs() < 1e-9 && second.rss_bytes.is_none());
}

#[test]
fn a_child_that_ended_is_counted_once() {
    let ticks = |own: u64, children: u64| Ticks { own: (own, 0), children: (children, 0) };
    let before = HashMap::from([(10, ticks(100, 0)), (11, ticks(50, 0))]);
    // 11 used 5 more, ended and was waited for: its 55 are in 10's account.
    let after = HashMap::from([(10, ticks(103, 55))]);
    assert_eq!(used(&before, &after, false), (8, 0));
    // It was not waited for: what it used last is lost, and nothing is below 0.
    assert_eq!(used(&before, &HashMap::from([(10, ticks(103, 0))]), false), (3, 0));
    // One that came and went in between is in the account as well.
    assert_eq!(used(&before, &HashMap::from([(10, ticks(100, 7)), (11, ticks(50, 0))]), false), (7, 0));
    // This program's children are the target.
    assert_eq!(used(&before, &after, true), (3, 0));
}

#[test]
fn a_running_target_is_seen() {
    let bench = Bench::new();
    let site = bench.up(&manifest(vec![server("server")])).unwrap();
    let mut host = Sample { host: "n1".to_owned(), ..Sample::default() };
    let source = Source::machine(Proc::at(Path::new("/proc")));
    let reading = Forest::default().read(&source, &site.members(), f64::NAN, &mut host);
    let (rows, own) = (reading.roles, reading.own.unwrap());
    let roles: Vec<&str> = rows.iter().map(|row| row.process.as_str()).collect();
    assert_eq!((roles.as_slice(), own.process.as_str(), own.host.as_str()), (["server"].as_slice(), "", "n1"));
    assert!(rows[0].rss_bytes.unwrap() > 0 && rows[0].cpu_user_pct.is_none() && own.rss_bytes.unwrap() > 0);
    // A thread of it waits in `accept`, for which the kernel holds a number that is not open yet: it must not count.
    let process = Path::new("/proc").join(site.members()[0].pid.to_string());
    let counted = || fs::read_dir(process.join("fd")).unwrap().count() as u64;
    crate::fixture::until("they are counted", || open_files(&process) == Some(counted()));
}
