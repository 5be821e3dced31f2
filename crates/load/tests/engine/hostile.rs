//! Targets that misbehave. Whatever a target does, each operation ends with the right outcome, the
//! load ends, its totals balance, and memory stays bounded. The cases are tables, and the client
//! for single operations is tested with the same tables.

mod bodies;
mod calls;
mod connections;
mod encryption;
mod found;
mod frames;
mod greetings;
mod heads;
mod lines;
mod programs;
mod replies;
mod sealed;
mod server;

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use experiment::plan::{Connections, Tls};
use load::LoadOrder;
use record::events::Outcome;
use record::hlog::Time;

use crate::setting::{LoadRun, load, orders, pairs, play, step};
use server::{Hostile, PeerAction};

/// Time limit for a case on the slowest machine. A case that takes longer hangs.
const HANGS: Duration = Duration::from_secs(100);
/// Memory limit: more than any held answer may take, and much less than a target without end sends
/// in the time.
const HELD_BYTES: u64 = 1024 * 1024 * 1024;
/// Timeout for answers that are sent at once: much longer than even a starved machine takes.
const PATIENCE_S: f64 = 30.0;
/// Timeout for answers that never come.
const IMPATIENCE_S: f64 = 0.2;
const IMPATIENCES_S: [f64; 3] = [IMPATIENCE_S, 2.0, 10.0];
/// Cases that run at a time. Most of them wait most of the time.
const AT_A_TIME: usize = 8;

/// Agents that share a connection.
const SHARING: u32 = 4;
/// Results that attempts may have because of other agents on the connection.
const WITH_OTHERS: [&str; 3] = ["bad answer", "connection closed", "connection reset"];

/// A plain answer.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Protocol of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Http,
    /// HTTP by TLS. Any certificate is trusted.
    Https,
    Vsns,
    Redis,
    /// Redis with a database that is selected before the first request.
    Greeted,
    Lines,
    /// Lines. The target first sends two lines.
    Banner,
}

impl Dialect {
    fn protocol(self) -> &'static str {
        match self {
            Self::Http | Self::Https => "http",
            Self::Vsns => "vsns",
            Self::Redis | Self::Greeted => "redis",
            Self::Lines | Self::Banner => "lines",
        }
    }

    /// Returns the address as an experiment writes it for a target.
    fn service(self, address: &str) -> String {
        match self {
            Self::Http | Self::Vsns | Self::Redis | Self::Lines => address.to_owned(),
            Self::Https => format!("https://{address}/"),
            Self::Greeted => format!("redis://{address}/3"),
            Self::Banner => format!("tcp://{address}?banner=2"),
        }
    }

    /// Returns the value to keep from an answer, if the protocol has one.
    fn keeps(self) -> Option<&'static str> {
        match self {
            Self::Http | Self::Https => Some("kept=answer.body"),
            Self::Redis | Self::Greeted => Some("kept=answer.value"),
            Self::Lines | Self::Banner => Some("kept=answer.text"),
            Self::Vsns => None,
        }
    }
}

/// Ways in which agents use connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionUse {
    /// Each agent has its own connection.
    Alone,
    /// Each agent has its own connection and keeps a value of the answer. Such answers take another
    /// code path than answers without an evaluation.
    Keeping,
    /// All agents share one connection and send requests before earlier ones are answered.
    Sharing,
    /// Each operation uses a new connection, which the ring does not carry.
    Fresh,
}

/// A misbehaving target, and the results of attempts on it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    name: &'static str,
    dialect: Dialect,
    call: &'static str,
    with: &'static [&'static str],
    actions: &'static [PeerAction],
    /// Results that all occur.
    ends: &'static [&'static str],
    /// Results that may occur too, depending on timing.
    or: &'static [&'static str],
}

/// A case for `get`.
const fn http(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Case {
    Case { name, dialect: Dialect::Http, call: "get", with: &["path=/x"], actions, ends, or: &[] }
}

/// A case for `get` by TLS.
const fn https(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Case {
    Case { dialect: Dialect::Https, ..http(name, actions, ends) }
}

/// A case for the `GET` of Redis.
const fn redis(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Case {
    Case { name, dialect: Dialect::Redis, call: "get", with: &["key=k"], actions, ends, or: &[] }
}

/// A case for a line that is answered by a line.
const fn lines(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Case {
    Case { name, dialect: Dialect::Lines, call: "send", with: &["line=x"], actions, ends, or: &[] }
}

/// A case for `ping`.
const fn vsns(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Case {
    Case { name, dialect: Dialect::Vsns, call: "ping", with: &[], actions, ends, or: &[] }
}

impl Case {
    const fn asked(self, call: &'static str, with: &'static [&'static str]) -> Self {
        Self { call, with, ..self }
    }

    const fn or(self, or: &'static [&'static str]) -> Self {
        Self { or, ..self }
    }

    /// Whether the target sends bytes without end.
    fn is_endless(&self) -> bool {
        self.actions.iter().any(|action| {
            matches!(action, PeerAction::Endless(_) | PeerAction::EndlessBare(_) | PeerAction::EndlessKeys)
        })
    }

    /// Returns the timeouts to try one after the other. If no answer comes, a longer timeout is
    /// tried when even the connect took too long.
    fn timeouts_s(&self) -> &'static [f64] {
        let is_late = self.ends.iter().chain(self.or).any(|word| ["timeout", "connect timeout"].contains(word));
        if is_late { &IMPATIENCES_S } else { &[PATIENCE_S] }
    }

    /// Returns a load. It has a single agent if the answer may use the whole memory budget.
    fn orders(&self, address: &str, usage: ConnectionUse, timeout_s: f64, time_s: f64) -> LoadOrder {
        let mut step = step(self.call, self.with);
        if let Some(kept) = self.dialect.keeps().filter(|_| usage == ConnectionUse::Keeping) {
            step.keep = pairs(&[kept]);
        }
        let agents = match usage {
            ConnectionUse::Sharing => SHARING,
            _ if self.is_endless() => 1,
            _ => 2,
        };
        let mut load = load(agents, time_s, vec![step]);
        load.timeout_s = timeout_s;
        load.drain_s = PATIENCE_S;
        // A few connections are enough, and each takes a port for a minute.
        load.think_s = 0.01;
        load.connections = Connections {
            keep_alive: usage != ConnectionUse::Fresh,
            pipeline: if usage == ConnectionUse::Sharing { SHARING } else { 1 },
        };
        let tls = Tls { insecure: true, ..Tls::default() };
        LoadOrder { protocol: self.dialect.protocol().to_owned(), tls, ..orders(&self.dialect.service(address), load) }
    }

    /// Plays loads against the target and checks their results.
    fn check(&'static self) {
        for usage in [ConnectionUse::Alone, ConnectionUse::Keeping, ConnectionUse::Sharing, ConnectionUse::Fresh] {
            if usage == ConnectionUse::Keeping && self.dialect.keeps().is_none() {
                continue;
            }
            let target = Hostile::start(self.dialect, self.actions);
            let play = |timeout_s| {
                begun(|time_s| {
                    let orders = self.orders(&target.address(), usage, timeout_s, time_s);
                    in_time(self.name, move || play(orders))
                })
            };
            let has_connected =
                |run: &LoadRun| self.may_end_in("connect timeout") || run.attempts("connect timeout") == 0;
            let (last_s, first_s) = self.timeouts_s().split_last().unwrap();
            let run = first_s.iter().map(|timeout_s| play(*timeout_s)).find(has_connected);
            let run = run.unwrap_or_else(|| play(*last_s));
            self.judge(usage, &run.results(), &target.troubles());
            balance(self.name, &run);
        }
    }

    fn may_end_in(&self, word: &str) -> bool {
        self.ends.contains(&word) || self.or.contains(&word)
    }

    fn judge(&self, usage: ConnectionUse, words: &BTreeSet<&str>, troubles: &str) {
        let mut expected: Vec<&str> = self.ends.iter().chain(self.or).copied().collect();
        if usage == ConnectionUse::Sharing {
            // The results of agents that sent their request behind another depend on timing.
            expected.extend(WITH_OTHERS);
        } else {
            for word in self.ends {
                let Self { name, dialect, .. } = self;
                assert!(
                    words.contains(word),
                    "{dialect:?} {name}, {usage:?}: nothing ended in `{word}`: {words:?}; the target's troubles: {troubles}"
                );
            }
        }
        let Self { name, dialect, .. } = self;
        assert!(
            words.iter().all(|word| expected.contains(word)),
            "{dialect:?} {name}, {usage:?}: {words:?}; the target's troubles: {troubles}"
        );
    }
}

/// Runs `check` on the cases that send without end, one by one because memory is limited, or on all
/// others.
fn each(cases: &'static [Case], is_endless: bool, check: fn(&'static Case)) {
    let cases = cases.iter().filter(|case| case.is_endless() == is_endless);
    let (cases, at_a_time) = (Mutex::new(cases), if is_endless { 1 } else { AT_A_TIME });
    std::thread::scope(|scope| {
        let work = || {
            while let Some(case) = { cases.lock().unwrap().next() } {
                check(case);
            }
        };
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

/// Plays a load with increasing times until an operation has ended. A starved machine may need more
/// time.
fn begun(play: impl Fn(f64) -> LoadRun) -> LoadRun {
    [0.1, 0.3, 1.0, 3.0].into_iter().map(play).find(|run| run.summary.attempts > 0).expect("no operation ended")
}

/// Checks that each operation that began has ended once and is counted everywhere. No operation is
/// retried here.
fn balance(name: &str, run: &LoadRun) {
    let summary = &run.summary;
    let ended = summary.ok + summary.failed + summary.timeout + summary.wrong;
    assert!(ended > 0 && summary.unfinished == 0, "{name}: {summary:?}");
    assert_eq!(summary.attempts, ended, "{name}");
    let counted: u64 = run.intervals.iter().flat_map(|interval| &interval.attempts).map(|one| one.count).sum();
    assert_eq!(counted, ended, "{name}");
    let rows: u64 = run.intervals.iter().map(|interval| interval.generator.operations).sum();
    assert_eq!(rows, ended, "{name}");
    for (outcome, count) in [
        (Outcome::Ok, summary.ok),
        (Outcome::Failed, summary.failed),
        (Outcome::Timeout, summary.timeout),
        (Outcome::Wrong, summary.wrong),
        (Outcome::Unfinished, 0),
    ] {
        assert_eq!(run.times_ns(outcome, Time::Latency).len() as u64, count, "{name}: {outcome:?}");
    }
    let slots = run.intervals.iter().flat_map(|interval| &interval.slots);
    let in_slots: u32 = slots.map(|slot| slot.ok + slot.failed + slot.timeout + slot.wrong).sum();
    assert_eq!(u64::from(in_slots), ended, "{name}");
    assert_eq!((run.attempts("ok"), run.attempts("timeout")), (summary.ok, summary.timeout), "{name}");
    assert!(run.books_error_pct() < 0.5, "{name}: {} %", run.books_error_pct());
}

/// Does the work. Fails if the work hangs, panics, or holds too much memory.
fn in_time<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits) = channel();
    let before = resident_bytes();
    let since = Instant::now();
    std::thread::Builder::new().spawn(move || drop(done.send(work()))).unwrap();
    loop {
        match waits.recv_timeout(Duration::from_millis(20)) {
            Ok(run) => return run,
            Err(RecvTimeoutError::Disconnected) => panic!("{name}: it panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        assert!(since.elapsed() < HANGS, "{name}: it hangs");
        let held = resident_bytes().saturating_sub(before);
        assert!(held < HELD_BYTES, "{name}: it holds {held} bytes");
    }
}

/// Returns the resident memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Tests that panics are noticed.
#[test]
#[should_panic(expected = "it panicked")]
fn a_panic_fails_its_case() {
    in_time::<()>("canary", || panic!("on purpose"));
}

#[test]
#[should_panic(expected = "nothing ended in `bad answer`")]
fn an_unexpected_result_fails_its_case() {
    static CASE: Case = http("canary", &[PeerAction::Hear, PeerAction::Say(OK), PeerAction::Again], &["bad answer"]);
    CASE.check();
}
