//! Tests of agents without sockets: given events, expected actions, and recorded counts.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use experiment::plan::{
    AgentStage, Backlog, Connections, Failover, Load, Overflow, Rate, Reconnects, Retry, Step, StepOrder, Warmup,
    WhenFailed,
};
use fixture::TestDir;
use record::clock::Clock;
use wire::feed_stream::FeedQueue;
use wire::in_order::{InOrderProtocol, Progress};
use wire::protocols::Protocol;
use wire::protocols::vsns::Vsns;
use wire::testing::feed;

use super::*;
use crate::engine::agents::answers::DecodedAnswer;
use crate::engine::thread_stats::ThreadIdentity;
use crate::{LoadOrder, ThreadInterval};

const MS: u64 = 1_000_000;
/// Status codes of the protocol's answers.
const OK: u8 = 0;
const NOT_FOUND: u8 = 1;
const BUSY: u8 = 4;

fn pairs<T: for<'a> From<&'a str>>(pairs: &[(&str, &str)]) -> BTreeMap<String, T> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
}

/// Returns a step that performs the operation `call` in every cycle.
pub fn step(call: &str, with: &[(&str, &str)], expect: &[(&str, &str)]) -> Step {
    let (call, name) = (call.to_owned(), call.to_owned());
    Step { call, name, weight: 1, every: 1, with: pairs(with), expect: pairs(expect), ..Step::default() }
}

/// Returns orders for a load on one service, without io_uring.
pub fn orders(protocol: &str, service: &str, load: Load) -> LoadOrder {
    LoadOrder {
        protocol: protocol.into(),
        services: vec![service.into()],
        load,
        purpose: LoadPurpose::Measure,
        seed: 1,
        tls: Default::default(),
        files: wire::input_files::InputFiles::below("."),
        slot_s: 0.1,
        tether: None,
        hosts: Vec::new(),
        without_ring: true,
        slice: None,
    }
}

/// Returns a load that saves a random value, reads it and removes it, for ten seconds. Each attempt
/// times out after half a second.
pub fn load(agents: u32) -> Load {
    let key = ("key", "{seq}");
    Load {
        cookies: false,
        stop_at_violation: false,
        follow: 0,
        name: None,
        groups: Vec::new(),
        copies: 1,
        agents,
        agent_stages: Vec::new(),
        from: Vec::new(),
        ramp_s: 0.0,
        count: None,
        iterations: None,
        time_s: 10.0,
        timeout_s: 0.5,
        drain_s: 1.0,
        think_s: 0.0,
        think_spread_pct: 0.0,
        think: None,
        warmup: Warmup::Seconds(0.0),
        retry: Retry::FailFast,
        reconnect_s: 0.1,
        reconnects: Default::default(),
        connections: Default::default(),
        rate: None,
        backlog: None,
        sites: Default::default(),
        threads: Some(1),
        order: StepOrder::Cycle,
        when_failed: WhenFailed::GoOn,
        steps: vec![
            Step { audit: true, ..step("save", &[key, ("value", "{bytes:8}")], &[]) },
            Step { audit: true, ..step("load", &[key], &[("value", "blue")]) },
            Step { audit: true, ..step("remove", &[key], &[]) },
        ],
        feeds: Vec::new(),
        script: None,
        proto: Vec::new(),
    }
}

/// Agents of a thread, and their recorded statistics.
struct Played {
    agents: Agents<Vsns>,
    stats: ThreadStats,
    connect_after_ns: u64,
    intervals: Receiver<ThreadInterval>,
}

const FIRST: usize = 0;

impl Played {
    fn new(load: Load) -> Self {
        Self::of(load, LoadPurpose::Measure)
    }

    fn of(load: Load, purpose: LoadPurpose) -> Self {
        Self::by(&LoadOrder { purpose, ..orders("vsns", "127.0.0.1:1", load) })
    }

    fn by(orders: &LoadOrder) -> Self {
        let script = Arc::new(Script::<Vsns>::compile(orders).unwrap());
        let identity = ThreadIdentity {
            thread: 0,
            threads: 1,
            clock: Clock::starting_in(Duration::ZERO),
            slot_ns: script.slot_ns,
            services: script.places.services,
            names: Arc::clone(&script.names),
            has_expectations: script.has_expectations(),
            refusals: Vsns::REFUSALS,
            has_pushes: false,
        };
        let (sink, intervals) = sync_channel(64);
        let mut agents = Agents::new(&script, &Arc::default(), 0);
        agents.set_first_timers();
        Self { agents, stats: ThreadStats::new(identity, sink), connect_after_ns: 0, intervals }
    }

    fn time(&self, now_ms: u64) -> EventTime {
        EventTime { now_ns: now_ms * MS, connect_after_ns: self.connect_after_ns }
    }

    /// Fires every timer that is due at the given time. Returns the resulting actions.
    fn at(&mut self, now_ms: u64) -> Vec<AgentEffect> {
        let at = self.time(now_ms);
        let mut effects = Vec::new();
        while let Some((timer, due_ns)) = self.agents.timers.take(at.now_ns) {
            effects.push(self.agents.timer_fired(timer, due_ns, at, &mut self.stats));
        }
        effects.retain(|effect| *effect != AgentEffect::Wait);
        effects
    }

    /// Sends the agent's request. Returns its bytes after the number.
    fn sent(&mut self, index: usize, now_ms: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.agents.encode(AgentId::at(index), (&mut (), &mut ()), 7, now_ms * MS, &mut bytes).unwrap();
        bytes.split_off(8)
    }

    fn fail(&mut self, index: usize, cause: AttemptCause, now_ms: u64) -> AgentEffect {
        let at = self.time(now_ms);
        self.agents.attempt_failed(AgentId::at(index), cause, at, &mut self.stats)
    }

    /// Answers the agent's request.
    fn answer(&mut self, index: usize, status: u8, body: &[u8], now_ms: u64) -> AgentEffect {
        let (id, at) = (AgentId::at(index), self.time(now_ms));
        let mut input = (body.len() as u32 + 5).to_be_bytes().to_vec();
        input.extend_from_slice(&7_u32.to_be_bytes());
        input.push(status);
        input.extend_from_slice(body);
        let progress = Vsns::decode(&self.agents.asked(id), &mut (), &mut (), &input, false);
        let Progress::Answer(answer) = progress else { panic!("{progress:?}") };
        let decoded = DecodedAnswer { session: &(), input: &input, result: answer.result };
        let class = self.agents.take_answer(id, &decoded, at.now_ns, &mut self.stats);
        self.agents.answered(id, class, answer.result, at, &mut self.stats)
    }

    /// Sends the first agent's request and answers it.
    fn exchange(&mut self, status: u8, body: &[u8], now_ms: u64) -> AgentEffect {
        self.sent(FIRST, now_ms);
        self.answer(FIRST, status, body, now_ms)
    }

    /// Counts operations with this outcome.
    fn ended(&self, outcome: Outcome) -> u64 {
        self.stats.totals.outcomes[outcome as usize]
    }

    /// Returns effect, outcome, value and applied state of the last line of the history.
    fn last_line(&self) -> (&str, Outcome, Option<&str>, Option<bool>) {
        let line = self.stats.history.last().unwrap();
        (&line.effect, line.outcome, line.value.as_deref(), line.applied)
    }
}

const SEND: AgentEffect = AgentEffect::Send(AgentId::at(FIRST));
const TIME_OUT: AgentEffect = AgentEffect::TimeOut(AgentId::at(FIRST));

#[test]
fn a_retry_after_a_timeout_sends_the_same_request() {
    let mut played = Played::new(Load { retry: Retry::Tries { tries: 2, wait_s: 0.1 }, ..load(1) });
    assert_eq!(played.at(0), [SEND]);
    let first = played.sent(FIRST, 0);
    assert_eq!(played.at(499), []);
    assert_eq!(played.at(500), [TIME_OUT]);
    assert_eq!(played.fail(FIRST, AttemptCause::Timeout, 500), AgentEffect::Wait);
    assert_eq!((played.at(599), played.ended(Outcome::Timeout)), (vec![], 0));
    assert_eq!(played.at(600), [SEND]);
    assert_eq!(played.sent(FIRST, 600), first, "a retry is the same request");
    assert_eq!(played.at(1_099), []);
    assert_eq!(played.at(1_100), [TIME_OUT]);
    assert_eq!(played.fail(FIRST, AttemptCause::Timeout, 1_100), SEND, "the next cycle begins at once");
    assert_eq!((played.stats.totals.attempts, played.ended(Outcome::Timeout)), (2, 1));
    assert_eq!(played.last_line().3, None, "nobody knows whether it was applied");
    assert_ne!(played.sent(FIRST, 1_100), first, "another cycle, another value");
}

#[test]
fn an_answer_in_time_cancels_its_timeout() {
    let mut played = Played::new(load(1));
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.exchange(OK, b"", 400), SEND);
    played.sent(FIRST, 400);
    assert_eq!(played.at(500), [], "that was the first request's");
    assert_eq!(played.at(899), []);
    assert_eq!(played.at(900), [TIME_OUT]);
}

#[test]
fn a_stall_extends_the_deadline_by_its_overrun() {
    for (stalled_until, over) in [(520, 540), (900, 1_300), (2_000, 2_500)] {
        let mut played = Played::new(load(1));
        assert_eq!(played.at(0), [SEND]);
        played.sent(FIRST, 0);
        assert_eq!(played.at(stalled_until), [], "the thread stood still");
        assert_eq!(played.at(over - 1), [], "{stalled_until}");
        assert_eq!(played.at(over), [TIME_OUT], "{stalled_until}");
    }
}

#[test]
fn a_request_delayed_by_a_stall_can_still_be_answered() {
    let mut played = Played::new(load(1));
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.at(2_000), [], "the thread stood still before the kernel had it");
    assert_eq!(played.exchange(OK, b"", 2_300), SEND);
    assert_eq!((played.ended(Outcome::Ok), played.ended(Outcome::Timeout)), (1, 0));
}

#[test]
fn a_wrong_answer_ends_its_cycle_if_configured() {
    for (when_failed, next) in [(WhenFailed::GoOn, 3), (WhenFailed::NextCycle, 1)] {
        let mut played = Played::new(Load { when_failed, ..load(1) });
        assert_eq!(played.at(0), [SEND]);
        assert_eq!(played.exchange(OK, b"", 1), SEND);
        assert_eq!(played.exchange(OK, b"red", 2), SEND);
        assert_eq!((played.ended(Outcome::Ok), played.ended(Outcome::Wrong)), (1, 1));
        // A request begins with the operation's code.
        assert_eq!(played.sent(FIRST, 2)[0], next, "{when_failed:?}");
        assert_eq!(played.stats.totals.cycles, 0);
    }
}

#[test]
fn only_cycles_without_a_failure_are_counted() {
    let mut played = Played::new(load(1));
    assert_eq!(played.at(0), [SEND]);
    played.sent(FIRST, 0);
    assert_eq!(played.fail(FIRST, AttemptCause::Reset, 1), SEND);
    assert_eq!((played.sent(FIRST, 1)[0], played.stats.totals.cycles), (1, 0));
    for (status, body) in [(OK, &b""[..]), (OK, b"blue"), (OK, b"\x01")] {
        assert_eq!(played.exchange(status, body, 2), SEND);
    }
    assert_eq!((played.sent(FIRST, 2)[0], played.stats.totals.cycles), (1, 1));
    assert_eq!((played.ended(Outcome::Failed), played.ended(Outcome::Ok)), (1, 3));
}

#[test]
fn operations_that_end_later_were_not_sent_before_the_open_ones() {
    let mut played = Played::new(load(2));
    let open_since_ms = |played: &Played| played.agents.open_since_ns(40 * MS) / MS;
    assert_eq!(played.at(0).len(), 2);
    assert_eq!(open_since_ms(&played), 40, "nothing is sent yet");
    played.sent(0, 5);
    played.sent(1, 9);
    assert_eq!(open_since_ms(&played), 5);
    let _ = played.answer(0, OK, b"", 12);
    assert_eq!(open_since_ms(&played), 9);
    played.sent(0, 15);
    let _ = played.answer(1, OK, b"", 16);
    assert_eq!(open_since_ms(&played), 15);
}

#[test]
fn a_request_that_is_sent_again_may_have_been_seen_since_it_was_due() {
    let mut played = Played::new(load(1));
    assert_eq!(played.at(0), [SEND]);
    played.sent(FIRST, 5);
    assert!(played.agents.unsend(AgentId::at(FIRST), false));
    assert_eq!(played.agents.open_since_ns(40 * MS), 0);
    let _ = played.exchange(OK, b"", 30);
    assert_eq!(played.stats.history[0].start_s, Some(0.0));
    played.sent(FIRST, 31);
    assert!(played.agents.unsend(AgentId::at(FIRST), true));
    let _ = played.exchange(OK, b"blue", 35);
    assert_eq!(played.stats.history[1].start_s, Some(0.035), "the target had not begun with it");
}

#[test]
fn history_lines_record_answers_and_known_effects() {
    let mut played = Played::new(load(1));
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.exchange(OK, b"", 1), SEND);
    assert!(matches!(played.last_line(), ("write", Outcome::Ok, Some(_), Some(true))));
    assert_eq!(played.exchange(OK, b"red", 2), SEND);
    assert_eq!(played.last_line(), ("read", Outcome::Wrong, Some("red"), Some(true)));
    assert_eq!(played.exchange(NOT_FOUND, b"", 3), SEND);
    assert_eq!(played.last_line(), ("remove", Outcome::Ok, None, Some(true)));
    assert_eq!(played.exchange(BUSY, b"", 4), SEND);
    assert!(matches!(played.last_line(), ("write", Outcome::Failed, Some(_), Some(false))), "it was refused");
    played.sent(FIRST, 5);
    assert_eq!(played.fail(FIRST, AttemptCause::Closed, 5), SEND);
    assert!(matches!(played.last_line(), ("write", Outcome::Failed, Some(_), None)), "it may have been carried out");
    assert_eq!(played.fail(FIRST, AttemptCause::ConnectRefused, 6), SEND);
    assert!(matches!(played.last_line(), ("write", Outcome::Failed, Some(_), Some(false))), "it was never sent");
}

#[test]
fn a_retry_does_not_make_an_earlier_attempt_harmless() {
    let mut played = Played::new(Load { retry: Retry::Tries { tries: 2, wait_s: 0.0 }, ..load(1) });
    assert_eq!(played.at(0), [SEND]);
    played.sent(FIRST, 0);
    assert_eq!(played.fail(FIRST, AttemptCause::Timeout, 1), AgentEffect::Wait);
    assert_eq!(played.at(1), [SEND]);
    assert_eq!(played.exchange(BUSY, b"", 2), SEND);
    assert!(matches!(played.last_line(), ("write", Outcome::Failed, Some(_), None)));
}

#[test]
fn an_attempt_waits_until_a_connect_is_allowed() {
    let mut played = Played::new(load(1));
    played.connect_after_ns = 50 * MS;
    assert_eq!((played.at(0), played.at(49)), (vec![], vec![]));
    assert_eq!(played.stats.open_now(), 1, "the operation has begun, and waits");
    assert_eq!(played.at(50), [SEND]);
    played.connect_after_ns = 150 * MS;
    assert_eq!(played.fail(FIRST, AttemptCause::ConnectRefused, 50), AgentEffect::Wait);
    assert_eq!(played.stats.open_now(), 0, "in a closed loop the next one begins only then");
    assert_eq!((played.at(149), played.at(150)), (vec![], vec![SEND]));
}

#[test]
fn an_agent_pauses_to_think_and_ends_with_the_load() {
    let mut played = Played::new(Load { think_s: 4.0, ..load(1) });
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.exchange(OK, b"", 2_000), AgentEffect::Wait);
    assert_eq!((played.at(5_999), played.at(6_000)), (vec![], vec![SEND]));
    assert_eq!(played.exchange(OK, b"blue", 6_500), AgentEffect::Wait);
    assert!(!played.agents.are_done());
    assert_eq!(played.at(10_500), []);
    assert!(played.agents.are_done());
    assert_eq!((played.ended(Outcome::Ok), played.stats.open_now()), (2, 0));
}

#[test]
fn open_loop_operations_wait_or_are_dropped() {
    let rate = Some(Rate::Constant(10.0));
    for (backlog, open, dropped) in [(None, 10, 0), (Some(Backlog { most: 3, overflow: Overflow::Drop }), 4, 6)] {
        let mut played = Played::new(Load { rate: rate.clone(), backlog, timeout_s: 5.0, ..load(1) });
        assert_eq!(played.at(0), [SEND]);
        played.sent(FIRST, 0);
        assert_eq!(played.at(950), [], "the agent is busy");
        played.agents.count_due(950 * MS, &mut played.stats);
        assert_eq!((played.stats.open_now(), played.stats.totals.dropped), (open, dropped));
        assert_eq!(played.answer(FIRST, OK, b"", 950), SEND, "the second has been due for long");
        assert_eq!(played.stats.open_now(), open - 1);
    }
}

#[test]
fn agents_do_not_depend_on_each_other() {
    let mut played = Played::new(Load { ramp_s: 0.8, ..load(2) });
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.at(400), [AgentEffect::Send(AgentId::at(1))]);
    played.sent(1, 400);
    assert_eq!(played.at(500), [TIME_OUT]);
    assert_eq!(played.fail(FIRST, AttemptCause::Timeout, 500), SEND);
    assert_eq!(played.answer(1, OK, b"", 501), AgentEffect::Send(AgentId::at(1)));
    assert_eq!((played.ended(Outcome::Timeout), played.ended(Outcome::Ok)), (1, 1));
}

/// Returns agents that come and go: in each stage, a constant number of them for a second.
fn in_stages(numbers: &[u32], load: Load) -> Played {
    let stage = |agents: &u32| AgentStage { from: *agents, to: *agents, over_s: 1.0 };
    let agents = numbers.iter().copied().max().unwrap();
    Played::new(Load { agents, agent_stages: numbers.iter().map(stage).collect(), timeout_s: 5.0, ..load })
}

const LEAVES: AgentEffect = AgentEffect::Disconnect(ConnId::at(FIRST));

#[test]
fn agents_leave_after_their_cycle_and_return() {
    let mut played = in_stages(&[1, 0, 1], load(1));
    assert_eq!(played.at(0), [SEND]);
    assert_eq!(played.stats.agents, 1);
    assert_eq!(played.exchange(OK, b"", 900), SEND);
    assert_eq!(played.exchange(OK, b"blue", 1_100), SEND, "the cycle is done to its end");
    assert_eq!(played.exchange(OK, b"\x01", 1_200), LEAVES);
    assert_eq!((played.stats.agents, played.stats.totals.cycles, played.agents.are_done()), (0, 1, false));
    assert_eq!(played.at(1_999), []);
    assert_eq!(played.at(2_000), [SEND], "the timeout of the last request is over");
    let agent = &played.agents.all()[FIRST];
    assert_eq!((agent.cycle, agent.intended_ns, played.stats.agents), (2, 2_000 * MS, 1));
    for (body, next) in [(&b""[..], SEND), (b"blue", SEND), (b"\x01", SEND)] {
        assert_eq!(played.exchange(OK, body, 5_000), next, "the last number stays");
    }
}

#[test]
fn an_agent_leaves_after_a_failure_or_in_the_pause_after_its_cycle() {
    let mut failed = in_stages(&[1, 0], load(1));
    assert_eq!(failed.at(0), [SEND]);
    failed.sent(FIRST, 0);
    assert_eq!(failed.fail(FIRST, AttemptCause::Reset, 1_300), LEAVES);
    assert_eq!(failed.at(9_000), []);
    let mut paused = in_stages(&[1, 0, 1], Load { think_s: 0.6, ..load(1) });
    assert_eq!(paused.at(0), [SEND]);
    assert_eq!(paused.exchange(OK, b"", 100), AgentEffect::Wait);
    assert_eq!(paused.at(700), [SEND]);
    assert_eq!(paused.exchange(OK, b"blue", 800), AgentEffect::Wait);
    assert_eq!(paused.at(1_399), [], "a pause within the cycle is not cut");
    assert_eq!(paused.at(1_400), [SEND]);
    assert_eq!(paused.exchange(OK, b"\x01", 1_450), LEAVES, "no pause follows");
    assert_eq!(paused.at(2_000), [SEND]);
    let mut late = in_stages(&[1, 0], Load { think_s: 0.4, ..load(1) });
    assert_eq!(late.at(0), [SEND]);
    for (body, at) in [(&b""[..], 0), (b"blue", 400)] {
        assert_eq!(late.exchange(OK, body, at), AgentEffect::Wait);
        assert_eq!(late.at(at + 400), [SEND]);
    }
    assert_eq!(late.exchange(OK, b"\x01", 800), AgentEffect::Wait);
    assert_eq!((late.at(999), late.at(1_000)), (vec![], vec![LEAVES]), "the pause would end at 1.2 s");
}

#[test]
fn agents_that_share_a_connection_keep_it_until_the_last_has_left() {
    let connections = Connections { keep_alive: true, pipeline: 2 };
    let mut played = in_stages(&[2, 1, 0], Load { connections, ..load(1) });
    assert_eq!(played.at(0).len(), 2);
    for index in [0, 1] {
        played.sent(index, 0);
    }
    assert_eq!(played.fail(1, AttemptCause::Reset, 1_100), AgentEffect::Wait);
    assert_eq!(played.fail(0, AttemptCause::Reset, 1_200), SEND);
    assert_eq!(played.fail(0, AttemptCause::Reset, 2_000), LEAVES);
}

#[test]
fn a_preparation_ends_with_its_count_or_with_the_first_failure() {
    let played = || Played::of(load(1), LoadPurpose::Prepare { count: 1 });
    let mut full = played();
    assert_eq!(full.at(0), [SEND]);
    for (body, next) in [(&b""[..], SEND), (b"blue", SEND), (b"\x01", AgentEffect::Wait)] {
        assert_eq!(full.exchange(OK, body, 1), next);
    }
    assert!(full.agents.are_done() && full.agents.failure.is_none());
    let mut broken = played();
    assert_eq!(broken.at(0), [SEND]);
    broken.sent(FIRST, 0);
    assert_eq!(broken.fail(FIRST, AttemptCause::Reset, 1), AgentEffect::Wait);
    assert!(matches!(&broken.agents.failure, Some(Error::Prepare { seq: 1, .. })));
}

/// Returns agents of three services in turn, with a pause of 100 ms after a failed connect.
fn at_three(agents: u32, failover: Failover) -> Played {
    let services = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(str::to_owned).into();
    let load = Load { reconnects: Reconnects { failover, ..Default::default() }, ..load(agents) };
    Played::by(&LoadOrder { services, ..orders("vsns", "", load) })
}

const CONN: ConnId = ConnId::at(1);

#[test]
fn a_refused_connect_is_retried_after_a_pause() {
    let mut played = at_three(3, Failover::None);
    for now_ms in [0, 100] {
        let next = played.agents.connect_failed(CONN, AttemptCause::ConnectRefused, now_ms * MS);
        assert_eq!(next, NextConnect { service: 1, after_ns: (now_ms + 100) * MS });
    }
    assert_eq!(played.agents.all()[1].place.service, 1);
}

#[test]
fn failover_tries_every_service_before_it_pauses() {
    let mut played = at_three(6, Failover::Next);
    let mut fail = |cause, now_ms| {
        let NextConnect { service, after_ns } = played.agents.connect_failed(CONN, cause, now_ms * MS);
        (service, after_ns / MS)
    };
    assert_eq!(fail(AttemptCause::ConnectRefused, 10), (2, 10));
    assert_eq!(fail(AttemptCause::NoPort, 20), (2, 120), "this machine's lack is nobody's fault");
    assert_eq!(fail(AttemptCause::ConnectTimeout, 120), (0, 120));
    assert_eq!(fail(AttemptCause::TlsClosed, 130), (1, 230), "all were tried");
    assert_eq!(fail(AttemptCause::ConnectRefused, 230), (2, 230));
    played.agents.routes.connected(CONN);
    let places: Vec<AgentService> = played.agents.all().iter().map(|agent| agent.place).collect();
    // Each service has one request for each step.
    assert_eq!(places[1], AgentService { service: 2, requests: 6 });
    assert_eq!(places.iter().map(|place| place.service).collect::<Vec<_>>(), [0, 2, 2, 0, 1, 2], "the others stay");
    let next = played.agents.connect_failed(CONN, AttemptCause::ConnectRefused, 300 * MS);
    assert_eq!(next, NextConnect { service: 0, after_ns: 300 * MS }, "the round begins anew where it got through");
}

#[test]
fn agents_sharing_a_connection_fail_over_together() {
    let mut load = Load { reconnects: Reconnects { failover: Failover::Next, ..Default::default() }, ..load(6) };
    load.connections.pipeline = 2;
    let services = ["127.0.0.1:1", "127.0.0.1:2"].map(str::to_owned).into();
    let mut played = Played::by(&LoadOrder { services, ..orders("vsns", "", load) });
    let services = |played: &Played| played.agents.all().iter().map(|agent| agent.place.service).collect::<Vec<_>>();
    assert_eq!(services(&played), [0, 1, 0, 1, 0, 1], "the fifth shares with the first, the sixth with the second");
    let _ = played.agents.connect_failed(CONN, AttemptCause::ConnectRefused, 0);
    assert_eq!(services(&played), [0, 0, 0, 1, 0, 0]);
}

#[test]
fn operations_fail_until_a_delayed_reconnect() {
    let late = |spread_pct| {
        let reconnects = Reconnects { delay_s: 1.0, spread_pct, ..Default::default() };
        Played::new(Load { reconnects, ..load(1) })
    };
    let (mut played, conn) = (late(0.0), ConnId::at(0));
    assert_eq!(played.at(0), [SEND]);
    assert!(played.agents.routes.may_connect(conn, 0));
    assert_eq!(played.agents.connection_cut(conn, 5 * MS), Some(105 * MS), "the next operation fails then");
    assert!(!played.agents.routes.may_connect(conn, 1_004 * MS) && played.agents.routes.may_connect(conn, 1_005 * MS));
    let mut not_connected =
        |now_ms| played.agents.connect_failed(conn, AttemptCause::NotConnected, now_ms * MS).after_ns / MS;
    assert_eq!((not_connected(105), not_connected(950)), (205, 1_005), "the last pause ends with the delay");
    assert_eq!(Played::new(load(1)).agents.connection_cut(conn, 0), None, "it is made at once without a delay");
}

#[test]
fn connect_pauses_are_drawn_from_the_seed() {
    let drawn = |spread_pct| {
        let reconnects = Reconnects { delay_s: 1.0, spread_pct, ..Default::default() };
        let (mut played, conn) = (Played::new(Load { reconnects, ..load(1) }), ConnId::at(0));
        assert_eq!(played.at(0), [SEND]);
        let mut refused = |now_ms| {
            let next = played.agents.connect_failed(conn, AttemptCause::ConnectRefused, now_ms * MS);
            next.after_ns / MS - now_ms
        };
        let pauses = [refused(0), refused(500)];
        played.agents.connection_cut(conn, 0);
        (pauses, (0..2_000).find(|now_ms| played.agents.routes.may_connect(conn, now_ms * MS)).unwrap())
    };
    assert_eq!(drawn(0.0), ([100, 100], 1_000));
    let ([first, second], delay) = drawn(50.0);
    assert!([first, second].iter().all(|pause| (50..=150).contains(pause)) && first != second, "{first} {second}");
    assert!((500..=1_500).contains(&delay) && delay != 1_000, "{delay}");
    assert_eq!(drawn(50.0), ([first, second], delay));
}

/// Returns an agent that saves records from a stream and pings in every other cycle. The test fills
/// the stream.
fn streaming(load: Load) -> (Played, Arc<FeedQueue>) {
    let scratch = TestDir::new();
    let file = scratch.join("docs.json");
    std::fs::write(&file, "{\"id\": 1}\n").unwrap();
    let save = step("save", &[("key", "{feed.docs.id}"), ("value", "{feed.docs.line}")], &[]);
    let steps = vec![Step { every: 2, ..step("ping", &[], &[]) }, save];
    let feeds = vec![experiment::plan::Feed { stream: true, ..feed(file.to_str().unwrap()) }];
    let mut played = Played::new(Load { steps, feeds, ..load });
    played.stats.watch_feeds(Vec::new());
    let stream = Arc::clone(played.agents.script.feeds[0].stream().unwrap());
    (played, stream)
}

#[test]
fn waiting_for_a_record_is_no_latency() {
    let (mut played, stream) = streaming(load(1));
    assert_eq!((played.at(0), played.at(200)), (vec![], vec![]));
    assert_eq!((played.stats.open_now(), played.stats.waiting_for_feed()), (0, 1));
    stream.feed_record("{\"id\": 17}\n");
    assert_eq!(played.at(300), [SEND]);
    assert_eq!((played.stats.open_now(), played.stats.waiting_for_feed()), (1, 0));
    let sent = String::from_utf8_lossy(&played.sent(FIRST, 300)).into_owned();
    assert!(sent.contains("17") && sent.contains("{\"id\": 17}"), "{sent}");
    stream.feed_record("{\"id\": 18}\n");
    assert_eq!(played.answer(FIRST, OK, b"", 310), SEND, "there is one");
    assert_eq!(played.exchange(OK, b"", 320), SEND);
    assert_eq!(played.exchange(OK, b"", 330), AgentEffect::Wait, "and the third cycle has none");
    stream.end_feed(Ok(()));
    assert_eq!(played.at(430), []);
    assert!(played.agents.are_done() && !played.agents.control.is_stopped());
    assert_eq!((played.ended(Outcome::Ok), played.stats.totals.cycles), (3, 2));
    played.stats.finish(500 * MS);
    let row = played.intervals.try_recv().unwrap().generator;
    assert_eq!((row.feed_wait_s, row.latency_sum_s, row.feed_bytes), (Some(0.4), 0.03, None));
}

#[test]
fn waiting_for_a_record_in_an_open_loop_is_latency() {
    let (mut played, stream) = streaming(Load { rate: Some(Rate::Constant(10.0)), ..load(1) });
    assert_eq!(played.at(0), []);
    (1..=2).for_each(|id| stream.feed_record(&format!("{{\"id\": {id}}}\n")));
    assert_eq!(played.at(150), [SEND]);
    played.sent(FIRST, 150);
    assert_eq!(played.answer(FIRST, OK, b"", 160), SEND, "the ping was due at 100");
    assert_eq!(played.exchange(OK, b"", 170), AgentEffect::Wait);
    assert_eq!(played.at(200), [SEND], "the record was taken with the cycle");
    assert_eq!(played.exchange(OK, b"", 210), AgentEffect::Wait);
    assert_eq!((played.at(300), played.stats.waiting_for_feed()), (vec![], 1));
    stream.end_feed(Ok(()));
    assert_eq!(played.at(310), []);
    assert!(played.agents.are_done() && played.agents.control.is_stopped());
    played.agents.starts.end_ns = 310 * MS;
    played.agents.leave_unfinished(350 * MS, &mut played.stats);
    assert_eq!((played.ended(Outcome::Unfinished), played.stats.open_now()), (1, 0), "it was due and never began");
    played.stats.finish(350 * MS);
    let row = played.intervals.try_recv().unwrap().generator;
    assert_eq!((row.feed_wait_s, row.latency_sum_s), (Some(0.16), 0.24));
}

#[test]
fn a_broken_feed_ends_the_load() {
    let (mut played, stream) = streaming(load(1));
    stream.end_feed(Err("it ends in mid-line".to_owned()));
    assert_eq!(played.at(0), []);
    let error = played.agents.values.feeding.failure.as_ref().unwrap().to_string();
    assert_eq!(error, "feed `docs`: it ends in mid-line");
}

/// Returns the number of sent operations by step for each second, and each agent's steps in order.
/// Each answer arrives after `answered_ms`.
fn sent_by_second(load: Load, answered_ms: u64, seconds: u64) -> (Vec<[u32; 3]>, Vec<Vec<u8>>) {
    let mut by_agent = vec![Vec::new(); load.agents as usize];
    let mut played = Played::new(load);
    let mut counts = vec![[0; 3]; seconds as usize];
    let mut open: std::collections::VecDeque<(u64, usize)> = Default::default();
    for now_ms in 0..seconds * 1_000 {
        let mut effects = played.at(now_ms);
        while open.front().is_some_and(|(due_ms, _)| *due_ms <= now_ms) {
            let (_, index) = open.pop_front().unwrap();
            let body: &[u8] = match by_agent[index].last().unwrap() {
                2 => b"blue",
                3 => b"\x01",
                _ => b"",
            };
            effects.push(played.answer(index, OK, body, now_ms));
        }
        for effect in effects {
            if let AgentEffect::Send(id) = effect {
                let step = played.sent(id.index(), now_ms)[0];
                by_agent[id.index()].push(step);
                counts[(now_ms / 1_000) as usize][usize::from(step) - 1] += 1;
                open.push_back((now_ms + answered_ms, id.index()));
            }
        }
    }
    assert_eq!(played.stats.totals.outcomes.iter().skip(1).sum::<u64>(), 0, "all that ended is ok");
    (counts, by_agent)
}

/// Returns a load that saves and reads at a rate.
fn two_steps(agents: u32, rate: Rate) -> Load {
    let all = load(agents);
    Load { steps: all.steps[..2].to_vec(), rate: Some(rate), timeout_s: 5.0, ..all }
}

#[test]
fn an_open_loop_mixes_all_steps_in_each_second() {
    for agents in [10, 100, 1_000] {
        for backlog in [None, Some(Backlog { most: 100, overflow: Overflow::Drop })] {
            let load = Load { backlog, ..two_steps(agents, Rate::Constant(50.0)) };
            let (seconds, by_agent) = sent_by_second(load, 2, 8);
            for [saves, reads, _] in &seconds {
                assert!((20..=30).contains(saves) && saves + reads == 50, "{agents} agents: {seconds:?}");
            }
            assert!(by_agent.iter().all(|steps| steps.chunks(2).all(|cycle| matches!(cycle, [1, 2] | [1]))));
            let used = by_agent.iter().filter(|steps| !steps.is_empty()).count();
            assert!(used >= 100.min(agents as usize), "free agents take turns: {used} of {agents}");
        }
    }
}

#[test]
fn slow_answers_do_not_disturb_the_mix() {
    // Until the first answers arrive, only first steps can begin.
    let (seconds, _) = sent_by_second(two_steps(200, Rate::Constant(50.0)), 1_000, 9);
    assert!(
        seconds[2..].iter().all(|[saves, reads, _]| (20..=30).contains(saves) && saves + reads == 50),
        "{seconds:?}"
    );
    let three = Load { rate: Some(Rate::Constant(60.0)), timeout_s: 5.0, ..load(300) };
    let (seconds, _) = sent_by_second(three, 1_000, 9);
    assert!(seconds[4..].iter().all(|steps| steps.iter().all(|count| (15..=25).contains(count))), "{seconds:?}");
}

#[test]
fn steps_of_every_nth_cycle_keep_their_share() {
    let mut load = two_steps(500, Rate::Poisson { poisson: 200.0 });
    load.steps[1].every = 4;
    let (seconds, _) = sent_by_second(load, 5, 8);
    for [saves, reads, _] in &seconds {
        let share = f64::from(*reads) / f64::from(saves + reads);
        assert!((0.15..0.25).contains(&share), "one of five is a read: {seconds:?}");
    }
}

#[test]
fn an_open_loop_mixes_the_positions_of_sequences() {
    let mut load = Load { order: StepOrder::Mix, ..two_steps(500, Rate::Constant(100.0)) };
    let sequence = [("save", false, 3), ("load", true, 3), ("remove", false, 1)];
    let all = self::load(1).steps;
    load.steps = sequence
        .iter()
        .map(|(call, follows, weight)| {
            let step = all.iter().find(|step| step.call == *call).unwrap();
            Step { follows: *follows, weight: *weight, ..step.clone() }
        })
        .collect();
    let (seconds, by_agent) = sent_by_second(load, 5, 8);
    for [saves, reads, removals] in &seconds {
        assert!((30..=56).contains(saves) && saves.abs_diff(*reads) <= 14, "{seconds:?}");
        assert!(saves + reads + removals == 100, "{seconds:?}");
    }
    let in_order = |steps: &Vec<u8>| steps.windows(2).all(|pair| (pair[0] == 1) == (pair[1] == 2));
    assert!(by_agent.iter().all(in_order));
}

#[test]
fn a_start_waits_only_while_all_agents_are_busy() {
    let mut played = Played::new(Load { timeout_s: 5.0, ..two_steps(2, Rate::Constant(10.0)) });
    assert_eq!(played.at(0), [SEND]);
    played.sent(FIRST, 0);
    assert_eq!(played.at(100), [AgentEffect::Send(AgentId::at(1))]);
    played.sent(1, 100);
    assert_eq!(played.at(250), [], "both are busy");
    assert_eq!(played.answer(1, OK, b"", 260), AgentEffect::Send(AgentId::at(1)), "it takes what was due at 200");
    played.sent(1, 260);
    assert_eq!(played.answer(1, OK, b"blue", 270), AgentEffect::Wait);
    assert_eq!(played.at(300), [AgentEffect::Send(AgentId::at(1))], "the other's turn, which is still busy");
    assert_eq!((played.stats.open_now(), played.ended(Outcome::Ok)), (2, 2));
}

#[test]
fn a_place_without_starts_takes_no_agent_from_a_start_that_is_due() {
    let [first, second] = [AgentId::at(0), AgentId::at(1)];
    let mut played = Played::new(Load { timeout_s: 5.0, ..two_steps(2, Rate::Constant(10.0)) });
    assert_eq!(played.at(0), [SEND]);
    played.sent(FIRST, 0);
    assert_eq!(played.at(100), [AgentEffect::Send(second)]);
    played.sent(1, 100);
    // The thread was stopped from 100 to 350 ms, over the load's end. The place whose next start is
    // after the end waits before the place whose start is before the end.
    let starts = &mut played.agents.starts;
    starts.end_ns = 350 * MS;
    for (place, next_ms) in [(first, 400), (second, 300)] {
        starts.turns.place_mut(place).next_ns = next_ms * MS;
        starts.wait_for_agent(place, played.agents.list[place].group, next_ms * MS, &mut played.stats);
    }
    assert_eq!(played.answer(FIRST, OK, b"", 350), SEND, "the start at 300 is due");
    played.sent(FIRST, 350);
    assert_eq!(played.exchange(OK, b"blue", 360), AgentEffect::Wait);
    assert!(!played.agents.are_done());
}

#[test]
fn an_open_loop_completes_exactly_the_given_cycles() {
    for backlog in [None, Some(Backlog { most: 100, overflow: Overflow::Drop })] {
        let load = Load { count: Some(7), backlog, ..two_steps(30, Rate::Constant(100.0)) };
        let mut played = Played::new(load);
        let mut open = std::collections::VecDeque::new();
        for now_ms in 0..1_500 {
            let mut effects = played.at(now_ms);
            if now_ms % 40 == 0
                && let Some(index) = open.pop_front()
            {
                let body: &[u8] =
                    if played.agents.list[AgentId::at(index)].step == StepId::FIRST { b"" } else { b"blue" };
                effects.push(played.answer(index, OK, body, now_ms));
            }
            for effect in effects {
                if let AgentEffect::Send(id) = effect {
                    played.sent(id.index(), now_ms);
                    open.push_back(id.index());
                }
            }
            played.agents.count_due(now_ms / 100 * 100 * MS, &mut played.stats);
        }
        assert!(played.agents.are_done());
        played.agents.leave_unfinished(1_500 * MS, &mut played.stats);
        assert_eq!(played.stats.totals.outcomes, [14, 0, 0, 0, 0]);
        assert_eq!((played.stats.open_now(), played.stats.totals.cycles), (0, 7));
        assert!(played.stats.notices.is_empty(), "{:?}", played.stats.notices);
    }
}

/// Returns a load of sessions that save and read.
fn sessions(agents: u32, per_s: f64) -> Load {
    two_steps(agents, Rate::Sessions { sessions: Box::new(Rate::Constant(per_s)) })
}

#[test]
fn later_steps_of_a_session_follow_without_a_start() {
    let second = AgentEffect::Send(AgentId::at(1));
    for backlog in [None, Some(Backlog { most: 100, overflow: Overflow::Drop })] {
        let mut played = Played::new(Load { backlog, ..sessions(2, 10.0) });
        assert_eq!(played.at(0), [SEND]);
        assert_eq!(played.exchange(OK, b"", 10), SEND, "the second step follows at once");
        assert_eq!(played.sent(FIRST, 10)[0], 2);
        assert_eq!(played.at(100), [second]);
        assert_eq!(played.sent(1, 100)[0], 1);
        assert_eq!(played.at(250), [], "both are busy");
        played.agents.count_due(250 * MS, &mut played.stats);
        assert_eq!(played.stats.open_now(), 3);
        assert_eq!(played.answer(FIRST, OK, b"blue", 260), SEND, "the session that was due at 200");
        assert_eq!(played.sent(FIRST, 260)[0], 1);
        assert_eq!(played.fail(1, AttemptCause::Closed, 270), AgentEffect::Wait, "a failure ends the session");
        assert_eq!(played.at(300), [second]);
        assert_eq!(played.sent(1, 300)[0], 1);
        let totals = played.stats.totals;
        assert_eq!((played.stats.open_now(), totals.cycles, totals.dropped), (2, 1, 0));
    }
}

#[test]
fn the_end_of_a_load_cuts_sessions_but_not_the_starts_that_were_due() {
    for backlog in [None, Some(Backlog { most: 100, overflow: Overflow::Drop })] {
        for think_s in [0.0, 30.0] {
            let mut played = Played::new(Load { time_s: 0.35, think_s, backlog, ..sessions(1, 10.0) });
            assert_eq!(played.at(0), [SEND]);
            played.sent(FIRST, 0);
            if think_s > 0.0 {
                assert_eq!(played.answer(FIRST, OK, b"", 10), AgentEffect::Wait);
                assert_eq!(played.at(349), [], "the agent pauses, and the starts wait");
            }
            played.agents.count_due(350 * MS, &mut played.stats);
            played.agents.end_pauses(350 * MS);
            if think_s > 0.0 {
                assert_eq!(played.at(350), [SEND], "the pause is cut");
            } else {
                assert_eq!(played.at(350), []);
                assert_eq!(played.answer(FIRST, OK, b"", 350), SEND, "the second step is cut");
            }
            assert_eq!(played.stats.open_now(), 3);
            for _ in 0..2 {
                assert_eq!(played.sent(FIRST, 400)[0], 1);
                assert_eq!(played.answer(FIRST, OK, b"", 400), SEND);
            }
            assert_eq!(played.exchange(OK, b"", 410), AgentEffect::Wait);
            assert_eq!((played.stats.open_now(), played.ended(Outcome::Ok)), (0, 4));
            assert_eq!(played.stats.totals.cycles, 0);
        }
    }
}
