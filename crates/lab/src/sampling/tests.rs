//! Tests of the threads that sample, on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::mpsc::sync_channel;

use super::*;
use crate::fixture::{Scratch, until};
use crate::runner::session::Session;
use crate::runner::{Setup, VERSION, beside};

/// What is sampled of a lab for two seconds in which there are rows of each of these hosts.
fn sampled(sources: Sources, hosts: &[&str]) -> Vec<Sample> {
    let (sink, samples) = sync_channel(1000);
    let mut watched = Watched::default();
    watched.sources = sources;
    let probes = Probes::start(watched, Clock::starting_in(Duration::from_millis(5)), sink).unwrap();
    let mut rows: Vec<Sample> = Vec::new();
    until("two seconds have rows", || {
        rows.extend(samples.try_iter());
        hosts.iter().all(|host| rows.iter().filter(|row| row.host == **host && row.process.is_empty()).count() >= 2)
    });
    let _ = probes.stop();
    assert_eq!(samples.iter().filter(|row| row.at_s < 0.0).count(), 0, "the other end is let go of");
    rows
}

#[test]
fn a_lab_has_a_row_for_this_machine_and_none_for_a_host_that_is_down() {
    let sources = Sources::of(["netns", "netns"].into_iter(), "no-such-run");
    sources.set("n1", None);
    let rows = sampled(sources, &["local"]);
    assert!(rows.iter().all(|row| row.host == "local" && (row.process.is_empty() || row.process == "generator")));
    assert!(rows.iter().all(|row| row.cpu_strangers_pct.is_none()), "the hosts' part is not known");
}

#[test]
fn a_host_is_asked_by_the_runner_that_it_has_at_the_time() {
    let folder = Scratch::new();
    let runner = |name: &str| {
        let (input, to) = std::io::pipe().unwrap();
        let (from, output) = std::io::pipe().unwrap();
        let serving = beside(input, output);
        let version = VERSION.to_owned();
        let run = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let setup = Setup { version, run, host: name.to_owned(), folder: folder.join(name), ..Setup::default() };
        (
            Session::open(Box::new(to), Box::new(from), &setup, Duration::from_secs(30), &Default::default()).unwrap(),
            serving,
        )
    };
    let (session, serving) = runner("n2");
    let sources = Sources::of(["ssh", "ssh"].into_iter(), "none");
    sources.set("n1", None);
    sources.set("n2", Some(session));
    let rows = sampled(sources.clone(), &["local", "n2"]);
    let strangers = |host: &str| rows.iter().find(|row| row.host == host && row.process.is_empty()).unwrap();
    assert!(strangers("local").cpu_strangers_pct.is_some() && strangers("n2").cpu_strangers_pct.is_some());
    assert!(rows.iter().all(|row| row.host != "n1" && row.at_s >= 0.0));
    // It is crashed, and another comes up.
    let (another, serving_another) = runner("n1");
    sources.set("n2", None);
    sources.set("n1", Some(another));
    let rows = sampled(sources.clone(), &["n1"]);
    assert!(rows.iter().all(|row| row.host != "n2"));
    sources.set("n1", None);
    drop(sources);
    assert_eq!((serving.join().unwrap(), serving_another.join().unwrap()), (0, 0), "the probes keep no runner alive");
}

#[test]
fn hosts_of_a_run_on_this_machine_are_no_lab_of_their_own() {
    let sources = Sources::of(["local"].into_iter(), "run");
    sources.set("n1", None);
    assert!(!sources.is_lab() && sources.run().is_none() && sources.hosts().is_empty());
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
    let _ = probes.stop();
    let generator = rows.iter().find(|row| row.process == "generator").unwrap();
    assert!(generator.rss_bytes.unwrap() > 100_000 && generator.threads.unwrap() >= 2 && generator.fds.unwrap() >= 3);
    assert!(generator.cpu_user_pct.is_some() && generator.run_delay_pct.is_some());
    let host = rows.iter().find(|row| row.process.is_empty()).unwrap();
    assert_eq!(host.host, "local");
    assert!(host.at_s >= 1.0 && host.cpu_user_pct.is_some() && host.cpu_strangers_pct.is_some());
    assert_eq!(samples.iter().count(), 0, "the other end is let go of");
}
