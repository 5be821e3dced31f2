//! Tests of the threads that sample, on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::mpsc::sync_channel;

use super::*;
use crate::fixture::until;

#[test]
fn a_lab_has_a_row_for_this_machine_and_none_for_a_host_that_is_down() {
    let (sink, samples) = sync_channel(1000);
    let sources = Sources::of_virtual_lab("no-such-run");
    sources.set("n1", None);
    let mut watched = Watched::default();
    watched.sources = sources;
    let probes = Probes::start(watched, Clock::starting_in(Duration::from_millis(5)), sink).unwrap();
    let mut rows: Vec<Sample> = Vec::new();
    until("two seconds have rows", || {
        rows.extend(samples.try_iter());
        rows.len() >= 4
    });
    probes.stop();
    assert!(rows.iter().all(|row| row.host == "local" && (row.process.is_empty() || row.process == "generator")));
    assert!(rows.iter().all(|row| row.cpu_strangers_pct.is_none()), "the hosts' part is not known");
}

#[test]
fn strangers_are_the_rest_and_never_negative() {
    let used = |user: f64| Sample { cpu_user_pct: Some(user), cpu_system_pct: Some(1.0), ..Sample::default() };
    assert_eq!(strangers_pct(&used(50.0), &[used(20.0), used(9.0)]), Some(20.0));
    assert_eq!(strangers_pct(&used(5.0), &[used(20.0)]), Some(0.0));
    assert_eq!(strangers_pct(&used(5.0), &[Sample::default()]), None, "unknown, if any part is");
    assert_eq!(strangers_pct(&Sample::default(), &[]), None);
}

#[test]
fn rows_come_until_stopped_and_know_this_program() {
    let (sink, samples) = sync_channel(1000);
    let clock = Clock::starting_in(Duration::from_millis(5));
    let probes = Probes::start(Watched::default(), clock, sink).unwrap();
    let mut rows: Vec<Sample> = Vec::new();
    until("two seconds have rows", || {
        rows.extend(samples.try_iter());
        rows.len() >= 4
    });
    probes.stop();
    let generator = rows.iter().find(|row| row.process == "generator").unwrap();
    assert!(generator.rss_bytes.unwrap() > 100_000 && generator.threads.unwrap() >= 2 && generator.fds.unwrap() >= 3);
    assert!(generator.cpu_user_pct.is_some() && generator.run_delay_pct.is_some());
    let host = rows.iter().find(|row| row.process.is_empty()).unwrap();
    assert_eq!(host.host, "local");
    assert!(host.at_s >= 1.0 && host.cpu_user_pct.is_some() && host.cpu_strangers_pct.is_some());
    assert_eq!(samples.iter().count(), 0, "the other end is let go of");
}
