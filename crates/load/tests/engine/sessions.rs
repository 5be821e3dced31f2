//! Rates of sessions: each start is a session, whose steps follow each other. Bounds also hold on a
//! busy machine: they follow from the order of events and not from speed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use experiment::plan::{Backlog, Load, Overflow, Pause, Rate};
use record::events::Outcome;
use record::hlog::Time;

use crate::open::rest;
use crate::server::{Reply, Server, text};
use crate::setting::{LoadRun, load, orders, play, step};

/// Requests of each session by the session's key: opcode and time of arrival.
type Sessions = BTreeMap<String, Vec<(u8, Instant)>>;

/// Plays sessions of three steps against a server that answers after a while. Returns the sessions
/// that the server has seen.
fn played(load: Load, answers_after: Duration) -> (LoadRun, Sessions) {
    let sessions: Arc<Mutex<Sessions>> = Arc::default();
    let seen = Arc::clone(&sessions);
    let server = Server::frames(move |request| {
        let key = String::from_utf8_lossy(text(text(&request.body).1).0).into_owned();
        seen.lock().unwrap().entry(key).or_default().push((request.opcode, Instant::now()));
        if !answers_after.is_zero() {
            rest(answers_after);
        }
        Reply::Frame(0, if request.opcode == 3 { vec![1] } else { Vec::new() })
    });
    let run = play(orders(&server.service(), load));
    drop(server);
    let sessions = std::mem::take(&mut *sessions.lock().unwrap());
    (run, sessions)
}

/// Returns a load of sessions that begin at a rate. Each session has its own key.
fn sessions(agents: u32, rate: Rate, time_s: f64) -> Load {
    let key = "key={agent}-{seq}";
    let steps = vec![step("save", &[key, "value=v"]), step("load", &[key]), step("remove", &[key])];
    let rate = Some(Rate::Sessions { sessions: Box::new(rate) });
    Load { rate, drain_s: 60.0, ..load(agents, time_s, steps) }
}

/// Checks that each session has its steps in order, once, and that the counts of the run are those
/// of the server.
fn assert_in_order(run: &LoadRun, sessions: &Sessions) {
    for (key, requests) in sessions {
        let opcodes: Vec<u8> = requests.iter().map(|(opcode, _)| *opcode).collect();
        assert!([1, 2, 3].starts_with(&opcodes), "{key}: {opcodes:?}");
    }
    let requests: usize = sessions.values().map(Vec::len).sum();
    assert_eq!((run.summary.ok, run.summary.failed), (requests as u64, 0));
    let whole = sessions.values().filter(|requests| requests.len() == 3).count();
    assert_eq!(run.summary.cycles, whole as u64);
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn each_start_is_a_session() {
    for rate in [Rate::Constant(40.0), Rate::Poisson { poisson: 40.0 }] {
        let is_even = matches!(rate, Rate::Constant(_));
        let (run, sessions) = played(sessions(50, rate, 2.0), Duration::ZERO);
        assert_in_order(&run, &sessions);
        assert!(!is_even || sessions.len() == 80, "{}", sessions.len());
        assert_eq!(run.summary.unfinished, 0);
    }
}

#[test]
fn sessions_wait_for_an_agent_if_the_service_is_slow() {
    // An agent needs 60 ms for a session, of which 40 begin in a second: less than half can run.
    let backlog = Backlog { most: 1_000, overflow: Overflow::Drop };
    for backlog in [None, Some(backlog)] {
        let load = Load { backlog, ..sessions(1, Rate::Constant(40.0), 1.0) };
        let (run, sessions) = played(load, Duration::from_millis(20));
        assert_in_order(&run, &sessions);
        assert_eq!(sessions.len(), 40, "all that were due begin, in the drain at the latest");
        let begun = sessions.values().filter(|requests| requests.len() == 1).count();
        assert!(begun >= 20, "sessions that begin in the drain are cut: {begun}");
        // The first step of the last session was due 25 ms before the end, and at least 20 steps of
        // 20 ms went before it in the drain.
        assert!(*run.times_ns(Outcome::Ok, Time::Latency).last().unwrap() >= 400_000_000);
        assert_eq!(run.summary.unfinished, 0);
    }
}

#[test]
fn sessions_beyond_the_backlog_are_dropped() {
    let backlog = Some(Backlog { most: 2, overflow: Overflow::Drop });
    let load = Load { backlog, ..sessions(1, Rate::Constant(100.0), 1.0) };
    let (run, sessions) = played(load, Duration::from_millis(20));
    assert_in_order(&run, &sessions);
    assert_eq!(sessions.len() as u64 + run.summary.dropped, 100);
    assert!(run.summary.dropped >= 50);
    assert!(run.notices().iter().any(|notice| notice.contains("sessions were due but were dropped")));
}

#[test]
fn sessions_that_never_began_are_unfinished() {
    let mut load = sessions(1, Rate::Constant(40.0), 0.5);
    load.drain_s = 0.0;
    let (run, sessions) = played(load, Duration::from_millis(100));
    let open: u64 = run.summary.ok + run.summary.unfinished;
    let later: usize = sessions.values().map(|requests| requests.len() - 1).sum();
    // The server may not have seen the last request.
    let all = 20 + later as u64;
    assert!((all..=all + 1).contains(&open), "a start is an operation, and so is each later step: {open}");
    assert!(run.notices().iter().any(|notice| notice.contains("rate × length of a session")), "{:?}", run.notices());
}

/// Returns a load of sessions with a pause of its own after each step.
fn pausing(rate: Rate, agents: u32) -> Load {
    let mut load = sessions(agents, rate, 3.0);
    load.steps[0].think = Some(Pause::Uniform { uniform: [0.05, 0.15] });
    load.steps[1].think = Some(Pause::Fixed(0.2));
    load.steps[2].think = Some(Pause::Fixed(30.0));
    load
}

/// Returns the median of the times between two steps of the sessions, in seconds.
fn median_s(sessions: &Sessions, step: usize) -> f64 {
    let pairs = sessions.values().filter_map(|requests| Some((requests.get(step)?.1, requests.get(step + 1)?.1)));
    let mut times: Vec<f64> = pairs.map(|(one, next)| (next - one).as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[test]
fn sessions_pause_between_their_steps() {
    for (answers_after_ms, agents) in [(0, 200), (100, 200), (100, 10)] {
        let answers_after = Duration::from_millis(answers_after_ms);
        let (run, sessions) = played(pausing(Rate::Constant(40.0), agents), answers_after);
        assert_in_order(&run, &sessions);
        assert_eq!(sessions.len(), 120, "each start is a session");
        let pauses = [0, 1].map(|step| median_s(&sessions, step) - answers_after.as_secs_f64());
        println!("{agents} agents, answers after {answers_after_ms} ms: medians of the pauses {pauses:.3?} s");
        for requests in sessions.values() {
            let times: Vec<Duration> = requests.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
            let least = [50, 200].map(|pause_ms| Duration::from_millis(pause_ms + answers_after_ms));
            assert!(times.iter().zip(least).all(|(time, least)| *time >= least), "{times:?}");
        }
        let latency = run.times_ns(Outcome::Ok, Time::Latency);
        let waited = latency.iter().filter(|ns| **ns >= 200_000_000 + answers_after_ms * 1_000_000).count();
        println!("{waited} of {} operations took 0.2 s longer than their answer", latency.len());
        if agents == 10 {
            assert!(waited > 50, "ten agents take 17 of 40 sessions in a second: {waited}");
        }
    }
}
