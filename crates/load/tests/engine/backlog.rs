//! Tests of a limited backlog: operations beyond the limit are dropped and counted exactly, and the
//! totals of the rest balance.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use experiment::plan::{Backlog, Load, Overflow, Rate};
use record::events::Outcome;
use record::hlog::Time;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, play, step};

fn bounded(agents: u32, rate: f64, time_s: f64, most: u32, overflow: Overflow) -> Load {
    Load {
        rate: Some(Rate::Constant(rate)),
        backlog: Some(Backlog { most, overflow }),
        drain_s: 0.3,
        timeout_s: 60.0,
        ..load(agents, time_s, vec![step("ping", &[])])
    }
}

/// Returns a server that gives `answers` answers and then none.
fn silent_after(answers: u32) -> Server {
    let answered = AtomicU32::new(0);
    Server::frames(move |_| match answered.fetch_add(1, Ordering::SeqCst) {
        number if number < answers => Reply::Frame(0, Vec::new()),
        _ => Reply::Silence,
    })
}

fn dropped(run: &LoadRun) -> u64 {
    run.intervals.iter().map(|interval| interval.generator.dropped).sum()
}

#[test]
fn operations_beyond_the_backlog_are_dropped() {
    let server = silent_after(10);
    let run = play(orders(&server.service(), bounded(3, 1000.0, 1.2, 100, Overflow::Drop)));
    // Ten operations are answered, three are open, a hundred wait.
    assert_eq!((run.summary.ok, run.summary.unfinished, run.summary.dropped), (10, 103, 1087));
    assert_eq!(dropped(&run), 1087);
    assert_eq!(run.times_ns(Outcome::Unfinished, Time::Latency).len(), 103, "what was dropped is in no latency");
    assert_eq!(run.intervals.iter().filter_map(|interval| interval.generator.due).sum::<u64>(), 1200);
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    assert!(run.notices().iter().any(|notice| notice.starts_with("1087 operations were due but were dropped")));
    assert!(run.notices().iter().any(|notice| notice.starts_with("100 operations were due but never began")));
}

#[test]
fn a_backlog_of_zero_lets_no_operation_wait() {
    let server = silent_after(0);
    let run = play(orders(&server.service(), bounded(2, 100.0, 0.5, 0, Overflow::Drop)));
    assert_eq!((run.summary.unfinished, run.summary.dropped), (2, 48));
}

#[test]
fn threads_share_the_backlog_limit() {
    let server = silent_after(0);
    let mut load = bounded(4, 200.0, 0.5, 5, Overflow::Drop);
    load.threads = Some(2);
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.unfinished, run.summary.dropped), (4 + 5, 91));
}

#[test]
fn a_full_backlog_can_stop_the_load() {
    let server = silent_after(10);
    let mut load = bounded(3, 1000.0, 600.0, 100, Overflow::Stop);
    load.threads = Some(1);
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.unfinished), (10, 103));
    assert_eq!(run.summary.dropped, 600_000 - 113);
    assert!(run.intervals.last().unwrap().end_s < 500.0, "it did not go on to its end");
    assert!(run.notices().iter().any(|notice| notice.starts_with("the load was stopped at ")));
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn waiting_operations_start_in_order() {
    let asked = AtomicU32::new(0);
    let server = Server::frames(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let (_sender, nothing) = std::sync::mpsc::channel::<()>();
            assert!(nothing.recv_timeout(Duration::from_millis(700)).is_err());
        }
        Reply::Frame(0, Vec::new())
    });
    let mut load = bounded(1, 200.0, 0.5, 1000, Overflow::Drop);
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.unfinished, run.summary.dropped), (100, 0, 0));
    let latency = run.times_ns(Outcome::Ok, Time::Latency);
    assert!(latency[0] >= 200_000_000, "the last was due 0.2 s before the first answer");
    assert!(*latency.last().unwrap() >= 700_000_000);
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn nothing_is_dropped_if_the_target_keeps_up() {
    let server = silent_after(u32::MAX);
    for (agents, rate, threads) in [(8, 400.0, 1), (30, 1000.0, 2)] {
        let mut load = bounded(agents, rate, 0.5, 100_000, Overflow::Drop);
        load.drain_s = 60.0;
        load.threads = Some(threads);
        let run = play(orders(&server.service(), load));
        assert_eq!((run.summary.ok, run.summary.dropped), ((rate * 0.5) as u64, 0));
    }
}
