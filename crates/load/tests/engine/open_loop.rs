//! A rate: every operation that was due is counted, and its latency begins when it was due. No bound here is the machine's speed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use experiment::plan::Load;
use record::events::Outcome;
use record::hlog::Time;

use crate::server::{Reply, Server};
use crate::setting::{Came, load, orders, play, step};

fn at_rate(agents: u32, rate: f64, time_s: f64) -> Load {
    Load { rate: Some(rate), ..load(agents, time_s, vec![step("ping", &[])]) }
}

/// Latencies of an outcome, in nanoseconds, over the whole load.
fn latencies(came: &Came, outcome: Outcome) -> hdrhistogram::Histogram<u64> {
    let mut all = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    for interval in &came.intervals {
        for (_, kind, time, histogram) in interval.sheet.histograms() {
            if kind == outcome && time == Time::Latency {
                all.add(histogram).unwrap();
            }
        }
    }
    all
}

#[test]
fn every_operation_that_was_due_is_done() {
    let server = Server::names();
    for (agents, rate, time_s) in [(8, 1000.0, 1.0), (3, 250.0, 0.5), (50, 20.0, 1.0)] {
        let came = play(orders(&server.service(), at_rate(agents, rate, time_s)));
        assert_eq!(came.summary.ok, (rate * time_s) as u64, "{agents} agents at {rate}");
    }
}

#[test]
fn over_a_ramp_half_as_many_are_due() {
    let server = Server::names();
    let load = Load { ramp_s: 1.0, ..at_rate(4, 400.0, 1.0) };
    assert_eq!(play(orders(&server.service(), load)).summary.ok, 200);
}

/// A server that stands still for 600 ms has kept everything waiting that was due in that time: at 500/s some 300 operations,
/// evenly between 0 and 600 ms. A closed loop would have seen one for each agent.
#[test]
fn a_stall_is_in_the_latency_of_everything_it_kept_waiting() {
    static HAS_STALLED: AtomicBool = AtomicBool::new(false);
    let server = Server::frames(|request| {
        if request.connection == 1 && request.number == 50 && !HAS_STALLED.swap(true, Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(600));
        }
        Reply::Frame(0, Vec::new())
    });
    // One agent, so that one connection that waits is all there is.
    let came = play(orders(&server.service(), at_rate(1, 500.0, 1.5)));
    assert_eq!(came.summary.ok, 750);
    let latencies = latencies(&came, Outcome::Ok);
    let waited = latencies.count_between(100_000_000, u64::MAX);
    assert!((240..=320).contains(&waited) || latencies.max() > 700_000_000, "{waited} waited for 100 ms or more");
    assert!(latencies.max() >= 590_000_000, "{}", latencies.max());
}

/// A server that answers nothing: what an agent had open, and everything that waited for an agent, is unfinished.
#[test]
fn what_never_began_is_unfinished() {
    let server = Server::frames(|_| Reply::Silence);
    let load = Load { drain_s: 0.2, ..at_rate(5, 1000.0, 0.5) };
    let came = play(orders(&server.service(), load));
    assert_eq!((came.summary.ok, came.summary.unfinished), (0, 500));
    let open = latencies(&came, Outcome::Unfinished);
    assert_eq!(open.len(), 500);
    assert!(open.min() >= 190_000_000 && open.max() >= 690_000_000, "{} to {}", open.min(), open.max());
}

/// What is in flight is what is due and has not ended: in flight × time = the sum of all latencies, as Little's law says.
#[test]
fn the_books_balance_when_the_target_cannot_keep_up() {
    let server = Server::frames(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        Reply::Frame(0, Vec::new())
    });
    let load = Load { drain_s: 0.3, ..at_rate(4, 2000.0, 1.0) };
    let came = play(orders(&server.service(), load));
    let seconds = came.intervals.iter().map(|interval| &interval.generator);
    let in_flight_s: f64 = seconds.clone().map(|second| second.in_flight_mean * second.interval_s).sum();
    let ended_s: f64 = seconds.map(|second| second.latency_sum_s).sum();
    let unfinished = latencies(&came, Outcome::Unfinished);
    let unfinished_s = unfinished.mean() * unfinished.len() as f64 / 1e9;
    let off = (in_flight_s - ended_s - unfinished_s).abs() / in_flight_s;
    assert!(off < 0.01, "{in_flight_s} in flight, {ended_s} ended, {unfinished_s} unfinished");
    assert_eq!(came.summary.ok + came.summary.unfinished, 2000);
}
