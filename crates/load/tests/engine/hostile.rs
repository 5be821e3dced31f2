//! Targets that misbehave. Whatever a target does, each operation ends with the right outcome, the
//! load ends, its totals balance, and memory stays bounded. The cases are in the folders of the
//! protocols, and the client for single operations is tested with the same cases.

mod calls;
mod connections;
mod encryption;
mod found;
mod server;

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use experiment::plan::{Connections, StreamEnd, Tls};
use load::LoadOrder;
use load::protocols::{self, KINDS, ProtocolKind, TEST_KINDS};
use record::events::Outcome;
use record::hlog::Time;
use wire::testing::hostile::{HostileCase, PeerAction};

use crate::setting::{LoadRun, load, orders, play, step};
use server::Hostile;

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
const AT_A_TIME: usize = 32;
/// Cases without end that run at a time.
const ENDLESS_AT_A_TIME: usize = 4;

/// Agents that share a connection.
const SHARING: u32 = 4;
/// Results that attempts may have because of other agents on the connection.
const WITH_OTHERS: [&str; 3] = ["bad answer", "connection closed", "connection reset"];

/// Uses in which agents use connections.
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

/// A case, and its protocol.
#[derive(Debug, Clone, Copy)]
struct HostileTarget {
    protocol: &'static ProtocolKind,
    case: &'static HostileCase,
}

impl HostileTarget {
    /// Whether the target sends bytes without end.
    fn is_endless(self) -> bool {
        self.case.actions.iter().any(|action| {
            matches!(action, PeerAction::Endless(_) | PeerAction::EndlessBare(_) | PeerAction::EndlessKeys)
        })
    }

    /// Returns the timeouts to try one after the other. If no answer comes, a longer timeout is
    /// tried when even the connect took too long.
    fn timeouts_s(self) -> &'static [f64] {
        let is_late = ["timeout", "connect timeout"].iter().any(|word| self.may_end_in(word));
        if is_late { &IMPATIENCES_S } else { &[PATIENCE_S] }
    }

    /// Returns the address as an experiment writes it for a target.
    fn service(self, target: &Hostile) -> String {
        self.case.service.replace("{address}", &target.address())
    }

    fn start(self) -> Hostile {
        Hostile::start(self.protocol.info.name, self.case.actions)
    }

    /// Returns a load. It has a single agent if the answer may use the whole memory budget.
    fn orders(self, service: &str, usage: ConnectionUse, timeout_s: f64, time_s: f64) -> LoadOrder {
        let mut step = step(self.case.call, self.case.with);
        step.stream = self.case.streams.then(StreamEnd::default);
        if usage == ConnectionUse::Keeping {
            step.keep = self.case.keep.iter().map(|field| ("kept".to_owned(), (*field).into())).collect();
        }
        let agents = match usage {
            ConnectionUse::Sharing => SHARING,
            _ if self.is_endless() => 1,
            _ => 2,
        };
        let steps = if self.case.cookies { vec![step.clone(), step] } else { vec![step] };
        let mut load = load(agents, time_s, steps);
        load.cookies = self.case.cookies;
        load.timeout_s = timeout_s;
        load.drain_s = PATIENCE_S;
        // A few connections are enough, and each takes a port for a minute.
        load.think_s = 0.03;
        load.connections = Connections {
            keep_alive: usage != ConnectionUse::Fresh,
            pipeline: if usage == ConnectionUse::Sharing { SHARING } else { 1 },
        };
        let tls = Tls { insecure: true, ..Tls::default() };
        LoadOrder { protocol: self.protocol.info.name.to_owned(), tls, ..orders(service, load) }
    }

    /// Plays loads against the target and checks their results.
    fn check(self) {
        let uses: &[ConnectionUse] = match self.case {
            // Programs have no connections.
            HostileCase { service: "", .. } => &[ConnectionUse::Keeping],
            HostileCase { keep: None, .. } => &[ConnectionUse::Alone, ConnectionUse::Sharing, ConnectionUse::Fresh],
            _ => &[ConnectionUse::Alone, ConnectionUse::Keeping, ConnectionUse::Sharing, ConnectionUse::Fresh],
        };
        // A ring never carries fresh connections: without rings, their test would be the same.
        for usage in uses.iter().filter(|usage| !(is_without_ring() && **usage == ConnectionUse::Fresh)) {
            let target = self.start();
            let service = self.service(&target);
            let run = self.play(&service, *usage);
            self.judge(*usage, &run.results(), &target.troubles());
            balance(self.case.name, &run);
        }
    }

    /// Plays a load. Plays it with a longer timeout if even a connect took too long.
    fn play(self, service: &str, usage: ConnectionUse) -> LoadRun {
        let mut timeouts_s = self.timeouts_s().iter();
        loop {
            let timeout_s = *timeouts_s.next().unwrap();
            let run = begun(|time_s| {
                let orders = self.orders(service, usage, timeout_s, time_s);
                in_time(self.case.name, move || play(orders))
            });
            let has_connected = self.may_end_in("connect timeout") || run.attempts("connect timeout") == 0;
            if has_connected || timeouts_s.len() == 0 {
                return run;
            }
        }
    }

    fn may_end_in(self, word: &str) -> bool {
        self.case.ends.iter().chain(self.case.or).any(|known| *known == word)
    }

    fn judge(self, usage: ConnectionUse, words: &BTreeSet<&str>, troubles: &str) {
        let HostileCase { name, service, ends, .. } = self.case;
        let about = format!(
            "{} {service} {name}, {usage:?}: {words:?}; the target's troubles: {troubles}",
            self.protocol.info.name
        );
        for word in *ends {
            // The results of agents that sent their request behind another depend on timing.
            assert!(usage == ConnectionUse::Sharing || words.contains(word), "nothing ended in `{word}`: {about}");
        }
        let is_expected =
            |word: &&str| self.may_end_in(word) || (usage == ConnectionUse::Sharing && WITH_OTHERS.contains(word));
        assert!(words.iter().all(is_expected), "{about}");
    }
}

/// Runs `check` on the cases of all protocols that send without end, or on all others. Few cases
/// without end run at a time: each takes memory and as much of the machine as it gets, and other
/// tests run beside it. Without rings, protocols that never use one are left out.
fn each(is_endless: bool, check: fn(HostileTarget)) {
    let cases = |protocol: &'static ProtocolKind| {
        protocol.tests.hostile.iter().map(move |case| HostileTarget { protocol, case })
    };
    let protocols = KINDS.iter().chain(TEST_KINDS).copied();
    let protocols = protocols.filter(|protocol| !(is_without_ring() && protocol.tests.speaks_unasked));
    let targets = protocols.flat_map(cases);
    let targets = Mutex::new(targets.filter(|target| target.is_endless() == is_endless));
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..if is_endless { ENDLESS_AT_A_TIME } else { AT_A_TIME } {
            workers.push(scope.spawn(|| {
                while let Some(target) = { targets.lock().unwrap().next() } {
                    check(target);
                }
            }));
        }
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

/// Whether the engine plays without rings.
fn is_without_ring() -> bool {
    std::env::var_os("WITHOUT_RING").is_some()
}

#[test]
fn cases() {
    each(false, HostileTarget::check);
}

#[test]
fn cases_without_end() {
    each(true, HostileTarget::check);
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
#[should_panic(expected = "nothing ended in `answer: err`")]
fn an_unexpected_result_fails_its_case() {
    static CASE: HostileCase = HostileCase {
        call: "send",
        with: &["line=x"],
        ..HostileCase::new("canary", &[PeerAction::Hear, PeerAction::Say(b"ok\n"), PeerAction::Again], &["answer: err"])
    };
    HostileTarget { protocol: protocols::find("lines").unwrap(), case: &CASE }.check();
}
