//! Tests of what is read around this program, on made-up texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::Scratch;

/// A machine with two CPUs that did so much until now: ticks busy and idle.
fn stat(first: (u64, u64), second: (u64, u64)) -> String {
    let line = |name: &str, (busy, idle): (u64, u64)| format!("{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
    line("cpu ", (first.0 + second.0, first.1 + second.1)) + &line("cpu0", first) + &line("cpu1", second)
}

fn own(user_pct: f64) -> Sample {
    Sample { cpu_user_pct: Some(user_pct), cpu_system_pct: Some(0.0), ..Sample::default() }
}

/// Strangers on these CPUs over a second in which the first CPU was busy to 80 % and the second to 30 %, and this program used
/// 20 % of the machine.
fn strangers(cpus: &[u32]) -> Option<f64> {
    let proc = Scratch::new();
    let mut clients = Clients::new(cpus.into(), Own::default());
    let mut read = |text: String| {
        proc.write("stat", &text);
        let mut row = own(20.0);
        clients.read(&Proc::at(&proc), 1.0, Some(&mut row));
        row
    };
    assert_eq!(read(stat((100, 100), (100, 100))).cpu_strangers_pct, None, "no base yet");
    read(stat((180, 120), (130, 170))).cpu_strangers_pct
}

#[test]
fn strangers_are_what_is_busy_on_the_clients_cpus_but_the_clients() {
    assert!((strangers(&[0]).unwrap() - 40.0).abs() < 1e-9, "80 % of that CPU, and 40 % of it is ours");
    assert_eq!(strangers(&[1]), Some(0.0), "never below");
    assert!((strangers(&[0, 1]).unwrap() - 35.0).abs() < 1e-9);
    assert_eq!(strangers(&[]), None, "clients that have none to themselves");
    assert_eq!(strangers(&[7]), None, "there is no such CPU");
}

#[test]
fn a_quota_of_any_group_above_shows() {
    let machine = Scratch::new();
    machine.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    machine.write("proc/self/cgroup", "0::/a/b\n");
    let account = |group: &str, us: u64| {
        let text = format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
        machine.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), &text);
    };
    account("a", 500);
    account("a/b", 0);
    let mut clients = Clients::new([].into(), Own::detect_in(&machine));
    let mut read = || {
        let mut row = own(1.0);
        clients.read(&Proc::at(&machine.join("proc")), 2.0, Some(&mut row));
        row.cpu_throttled_pct
    };
    assert_eq!(read(), None, "no base yet");
    assert_eq!(read(), Some(0.0));
    account("a", 200_500);
    assert_eq!(read(), Some(10.0));
    account("a", 9_000_000);
    assert_eq!(read(), Some(100.0), "summed over CPUs it may be more than there was");
}
