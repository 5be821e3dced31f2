//! Open loops: the number of operations is rate × time regardless of the server, latency counts
//! from the intended start, and everything that was due is counted. Bounds also hold on a busy
//! machine: they follow from the order of events and not from speed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use experiment::plan::{Load, Rate, Retry};
use record::events::Outcome;
use record::hlog::Time;

use crate::server::{Reply, Server, nobody};
use crate::setting::{load, orders, play, step};

fn open(agents: u32, rate: f64, time_s: f64) -> Load {
    Load { rate: Some(Rate::Constant(rate)), ..load(agents, time_s, vec![step("ping", &[])]) }
}

fn good() -> Server {
    Server::frames(|_| Reply::Frame(0, Vec::new()))
}

/// Pauses a thread of this test.
pub fn rest(time: Duration) {
    let (_sender, nothing) = std::sync::mpsc::channel::<()>();
    assert!(nothing.recv_timeout(time).is_err());
}

#[test]
fn operations_equal_rate_times_time() {
    let server = good();
    for (agents, rate, threads, expected) in [(1, 100.0, 1, 50), (7, 1000.0, 2, 500), (30, 30.0, 3, 15)] {
        let mut load = open(agents, rate, 0.5);
        load.threads = Some(threads);
        load.drain_s = 60.0;
        let run = play(orders(&server.service(), load));
        assert_eq!((run.summary.ok, run.summary.unfinished), (expected, 0), "{agents} agents at {rate}/s");
        assert_eq!(run.times_ns(Outcome::Ok, Time::Latency).len() as u64, expected);
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
        assert!(run.intervals.iter().all(|interval| interval.generator.dropped == 0));
    }
}

#[test]
fn agents_join_one_after_the_other_during_a_ramp() {
    let server = good();
    let mut load = open(4, 80.0, 1.0);
    load.ramp_s = 1.0;
    load.drain_s = 60.0;
    // Of 20 operations each, agents 2, 3 and 4 miss those before 0.25, 0.5 and 0.75 s.
    let run = play(orders(&server.service(), load));
    assert_eq!(run.summary.ok, 20 + 15 + 10 + 5);
}

#[test]
fn a_stall_shows_as_latency_and_not_as_fewer_operations() {
    let served = AtomicU32::new(0);
    let server = Server::frames(move |_| {
        if served.fetch_add(1, Ordering::SeqCst) == 50 {
            rest(Duration::from_secs(1));
        }
        Reply::Frame(0, Vec::new())
    });
    let mut load = open(1, 100.0, 2.0);
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!(run.summary.ok, 200);
    let latency = run.times_ns(Outcome::Ok, Time::Latency);
    let service = run.times_ns(Outcome::Ok, Time::Service);
    // One request was answered a second late. The operations that were due meanwhile waited 0.99 s,
    // 0.98 s, ….
    assert!(*service.last().unwrap() >= 1_000_000_000);
    for (place, latency) in latency.iter().rev().take(100).enumerate() {
        let at_least = 1_000_000_000 - 10_000_000 * place as u64;
        assert!(*latency >= at_least, "number {place} from the top: {latency} ns");
    }
    let patient = |times: &[u64]| times.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>();
    assert!(
        patient(&latency) - patient(&service) >= 49.5,
        "what waited is in the latency, and not in the service time"
    );
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn operations_never_started_are_counted_as_unfinished() {
    let answered = AtomicU32::new(0);
    // Ten answers, then none.
    let server = Server::frames(move |_| match answered.fetch_add(1, Ordering::SeqCst) {
        0..10 => Reply::Frame(0, Vec::new()),
        _ => Reply::Silence,
    });
    let mut load = open(3, 1000.0, 1.2);
    load.drain_s = 0.3;
    load.timeout_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.unfinished), (10, 1190));
    let ages = run.times_ns(Outcome::Unfinished, Time::Latency);
    assert_eq!(ages.len(), 1190);
    // The youngest operation was due 0.3 s before the end. The oldest was among the first 13. They
    // are 1 ms apart.
    assert!(ages[0] >= 300_000_000 && *ages.last().unwrap() >= 1_480_000_000, "{ages:?}");
    let spread = ages.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(spread <= 13_000_000, "{spread}");
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    // The number of open operations grows by a thousand a second, in the second in which they are
    // due.
    let first = &run.intervals[0].generator;
    let (all_s, due_s) = (first.interval_s, first.interval_s.min(1.2));
    let expected = (500.0 * due_s * due_s + 1200.0 * (all_s - due_s)) / all_s - 10.0;
    assert!((first.in_flight_mean - expected).abs() < 15.0, "{first:?}");
    assert!(run.notices().iter().any(|notice| notice.starts_with("1187 operations were due but never began")));
    // No operation was dropped, since the backlog has no limit.
    assert!(run.intervals.iter().all(|interval| interval.generator.dropped == 0));
}

#[test]
fn a_backlog_is_worked_off_in_the_drain() {
    let asked = AtomicU32::new(0);
    let server = Server::frames(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            rest(Duration::from_millis(700));
        }
        Reply::Frame(0, Vec::new())
    });
    let mut load = open(1, 200.0, 0.5);
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.unfinished), (100, 0));
    assert!(
        run.times_ns(Outcome::Ok, Time::Latency)[0] >= 200_000_000,
        "the last was due 0.2 s before the first answer"
    );
}

#[test]
fn retries_keep_their_agent_busy() {
    let server = Server::frames(|request| Reply::Frame(if request.number % 3 == 0 { 0 } else { 4 }, Vec::new()));
    let mut load = open(2, 200.0, 0.5);
    load.retry = Retry::Tries { tries: 3, wait_s: 0.01 };
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.attempts), (100, 300));
    // An operation takes 20 ms of pauses, and each agent has one due every 10 ms. So the last waits
    // for half of its agent's time.
    assert!(*run.times_ns(Outcome::Ok, Time::Latency).last().unwrap() >= 500_000_000);
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn cycles_and_mixes_start_one_operation_at_a_time() {
    let server = Server::names();
    let steps = vec![step("save", &["key={agent}", "value={seq}"]), step("load", &["key={agent}"])];
    let mut load = Load { rate: Some(Rate::Constant(200.0)), ..load(3, 0.5, steps) };
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load.clone()));
    assert_eq!(run.summary.ok, 100);
    // Agent 1 has 34 operations, the others 33: their last cycles are incomplete. If starts are
    // late, agents take each other's, and either two of them or none has an incomplete cycle.
    assert!((49..=50).contains(&run.summary.cycles), "{:?}", run.summary);
    load.order = experiment::plan::StepOrder::Mix;
    assert_eq!(play(orders(&server.service(), load)).summary.ok, 100);
}

#[test]
fn all_operations_count_if_connects_are_refused() {
    let mut load = open(2, 1000.0, 0.5);
    load.drain_s = 0.1;
    load.reconnect_s = 0.05;
    let run = play(orders(&nobody(), load));
    assert_eq!(run.summary.failed + run.summary.unfinished, 500);
    assert!(run.summary.failed >= 2 && run.attempts("connect refused") == run.summary.failed);
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn a_stopped_load_counts_operations_due_until_then() {
    for abort in [false, true] {
        let server = Server::frames(|request| match request.number {
            1 => Reply::Frame(0, Vec::new()),
            _ => Reply::Silence,
        });
        let mut load = open(2, 1000.0, 600.0);
        load.drain_s = 0.1;
        load.timeout_s = 60.0;
        let (sink, intervals) = std::sync::mpsc::sync_channel(1000);
        let clock = record::clock::Clock::starting_in(Duration::ZERO);
        let running = load::start(orders(&server.service(), load), clock, sink).unwrap();
        let first = intervals.recv().unwrap();
        if abort {
            running.abort()
        } else {
            running.stop()
        }
        let summary = running.join().unwrap();
        let last_s = intervals.iter().last().unwrap().end_s;
        assert_eq!((first.generator.operations, summary.ok), (2, 2));
        let due = summary.unfinished + 2;
        assert!(due >= 1000 && due as f64 <= last_s * 1000.0 + 1.0, "{due} in {last_s} s");
    }
}

#[test]
fn a_stalled_generator_records_each_delayed_operation_as_late() {
    let server = good();
    let (sink, intervals) = std::sync::mpsc::sync_channel(0);
    // Several agents: with a single busy agent, all waiting operations would wait for the target.
    let mut load = open(10, 2000.0, 4.0);
    load.drain_s = 60.0;
    let clock = record::clock::Clock::starting_in(Duration::ZERO);
    let running = load::start(orders(&server.service(), load), clock, sink).unwrap();
    // The records of the first second are not taken, so the thread waits from 1 s on.
    rest(Duration::from_millis(2500));
    let late: Vec<f64> = intervals.iter().filter_map(|interval| interval.generator.late_us_p99).collect();
    assert_eq!(running.join().unwrap().ok, 8000);
    // 3000 operations were due meanwhile. The single operation that a timer woke would not show in
    // the 99th percentile of a second.
    assert!(late.iter().any(|late_us| *late_us > 1_000_000.0), "{late:?}");
}

#[test]
fn a_stalled_target_does_not_make_the_generator_late() {
    let asked = AtomicU32::new(0);
    let server = Server::frames(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 100 {
            rest(Duration::from_millis(2500));
        }
        Reply::Frame(0, Vec::new())
    });
    let mut load = open(1, 200.0, 4.0);
    load.drain_s = 60.0;
    let run = play(orders(&server.service(), load));
    assert_eq!(run.summary.ok, 800);
    // A busy machine may be late by a lot, but not for all of the 500 operations that waited for
    // the target.
    let late = run.intervals.iter().filter_map(|interval| interval.generator.late_us_p99);
    assert!(late.fold(0.0, f64::max) < 1_000_000.0);
}
