//! What agents do, and when: cycles and steps, attempts and retries, pauses and timeouts, and how
//! an operation ends.
//!
//! An agent is told what has happened and when, counts it, sets its own timers, and says what is to
//! be done. Nothing here knows a socket or reads a clock, so that any course of events can be
//! played with plain numbers.

use std::ops::Range;
use std::sync::Arc;

use experiment::plan::StepOrder;
use fastrand::Rng;
use record::events::Outcome;
use record::rows::AgentCycles;

use super::agent_group::{AgentGroup, GroupId};
use super::control::LoadControl;
use super::ids::{AgentId, ConnId, StepId, indexed_by};
use super::script::{CompiledStep, Script};
use super::thread_stats::ThreadStats;
use super::timer_wheel::Wheel;
use crate::protocols::{AttemptCause, Protocol, RequestContext};
use crate::schedules::NS_PER_S;
use crate::values::allowed::NotSendable;
use crate::values::feeds::{FeedRows, TakenRecord};
use crate::values::{OperationValues, ValueSource, mix};
use crate::{Error, LoadPurpose};

pub mod answers;
mod backlog;
mod examples;
mod feeding;
mod reconnects;
mod turns;

pub use reconnects::NextConnect;

use answers::{AnswerClass, CaptureMemory};
use backlog::Queue;
use feeding::{FeedTurn, Feeding};
use reconnects::ConnectionRoute;
use turns::Turns;

/// How often a thread looks at its orders, and measures how late it does when nothing else is due.
pub const HEARTBEAT_NS: u64 = 10_000_000;
/// After a stall, time at least to take the answers that came in it before they are given up.
const REPRIEVE_NS: u64 = 1_000_000;
/// Pause after a request that could not be written.
const NOT_SENT_PAUSE_NS: u64 = 1_000_000;
/// "Not yet", for a moment.
pub const NEVER: u64 = u64::MAX;

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWork {
    /// Waits for its first operation.
    Unborn,
    /// Between two operations.
    Pause,
    /// A cycle is to begin, and a record for it has not been read yet.
    FeedPause,
    /// An operation is open, and an attempt of it goes on.
    Attempt,
    /// An operation is open, between two attempts.
    RetryPause,
    /// Will do nothing more.
    Done,
}

/// Which service an agent goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentService {
    /// Number of the service.
    pub service: u32,
    /// Where the requests to it begin among all.
    pub requests: u32,
}

/// An agent.
pub struct Agent {
    /// The agent's number, from 1, over all threads.
    pub number: u32,
    /// The group whose steps and pace the agent has.
    pub group: GroupId,
    /// The agent's number in its group, from 0, over all threads. The agent joins at the
    /// first start of the schedule's place with this number.
    pub place_in_group: u32,
    /// The service that the agent calls.
    pub place: AgentService,
    /// The connection of the thread that the agent uses. It never changes.
    pub connection: ConnId,
    /// The next agent in the line of agents that wait for the connection, if any.
    pub behind: AgentId,
    /// The agent's current activity.
    pub work: AgentWork,
    /// The step of its operation, or of the next one.
    pub step: StepId,
    /// Whether its next operation begins a cycle.
    pub begins_cycle: bool,
    /// Whether its timeout timer is set. It may be set too early, never too late.
    pub is_timer_set: bool,
    /// Whether its answer was looked for once more after the deadline, because the thread was late.
    pub has_reprieve: bool,
    /// Whether an attempt of the operation may have taken effect without our knowing.
    pub is_unsure: bool,
    /// Attempts of this operation.
    pub tries: u32,
    /// Number of its last request on its connection.
    pub request_id: u32,
    /// Slots filled in this cycle, a bit each.
    pub kept: u32,
    /// Feeds that are streams and of which its cycle lacks a record, a bit each.
    pub needs: u64,
    /// Its cycle, from 1.
    pub cycle: u64,
    /// Full cycles that it finished.
    pub finished_cycles: u64,
    /// When it finished the last of them.
    pub last_cycle_ns: u64,
    /// The operation's random number.
    pub draw: u64,
    /// Where its random numbers come from.
    pub random: Rng,
    /// When its operation was to start, or between two operations the next one.
    pub intended_ns: u64,
    /// In an open loop without a bounded backlog: the place whose start its operation takes, until it begins.
    pub start: AgentId,
    /// When a timer last woke it for an operation. What it had to do before then began late by the thread's doing.
    pub woken_ns: u64,
    /// When the last attempt was sent; [`NEVER`] if it was not.
    pub sent_ns: u64,
    /// When the attempt times out.
    pub deadline_ns: u64,
}

indexed_by!(AgentId, [Agent], Agent);
indexed_by!(AgentId, Vec<Agent>, Agent);

impl Agent {
    /// A new agent of the first group.
    pub fn new(number: u32, seed: u64, place: AgentService, connection: ConnId) -> Self {
        Self {
            number,
            group: GroupId::at(0),
            place_in_group: number - 1,
            place,
            connection,
            behind: AgentId::NONE,
            work: AgentWork::Unborn,
            step: StepId::FIRST,
            begins_cycle: true,
            is_timer_set: false,
            has_reprieve: false,
            is_unsure: false,
            tries: 0,
            request_id: 0,
            kept: 0,
            needs: 0,
            cycle: 0,
            finished_cycles: 0,
            last_cycle_ns: 0,
            draw: 0,
            random: Rng::with_seed(mix(seed ^ mix(u64::from(number)))),
            intended_ns: 0,
            start: AgentId::NONE,
            woken_ns: 0,
            sent_ns: NEVER,
            deadline_ns: NEVER,
        }
    }

    /// Whether an operation is open.
    pub fn has_operation(&self) -> bool {
        matches!(self.work, AgentWork::Attempt | AgentWork::RetryPause)
    }

    /// When the last attempt was sent, if it was.
    pub fn sent(&self) -> Option<u64> {
        (self.sent_ns != NEVER).then_some(self.sent_ns)
    }
}

/// How an operation ended.
pub struct OperationEnd {
    /// What became of it.
    pub outcome: Outcome,
    /// What an audited read found.
    pub read: Option<String>,
    /// Whether it took effect, if that is known.
    pub applied: Option<bool>,
    /// The same of each of its parts, where the answer tells of them.
    pub parts: Option<Vec<Option<bool>>>,
}

/// When something happens to an agent.
#[derive(Debug, Clone, Copy)]
pub struct EventTime {
    /// The moment.
    pub now_ns: u64,
    /// Its connection is down, and is not tried before this moment; 0 where it may be used.
    pub connect_after_ns: u64,
}

/// What is to be done about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an agent whose request is not sent is never answered"]
pub enum AgentEffect {
    /// Nothing: it waits for a timer, or will do nothing more.
    Wait,
    /// Its request goes out on its connection.
    Send(AgentId),
    /// Its attempt was not answered in time.
    TimeOut(AgentId),
}

/// What a timer is for; its number follows from it and from the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentTimer {
    Wake(AgentId),
    Timeout(AgentId),
    Heartbeat,
    /// A start of the place of that number is due.
    Arrival(AgentId),
}

impl AgentTimer {
    /// Whose it is.
    pub fn agent(self) -> Option<AgentId> {
        match self {
            Self::Wake(id) | Self::Timeout(id) | Self::Arrival(id) => Some(id),
            Self::Heartbeat => None,
        }
    }
}

/// The agents of a thread.
pub struct Agents<P: Protocol> {
    script: Arc<Script<P>>,
    control: Arc<LoadControl>,
    list: Vec<Agent>,
    /// Where each of their connections leads.
    routes: Vec<ConnectionRoute>,
    /// Slots of all agents, one agent's after the other's.
    slots: Vec<Vec<u8>>,
    /// What agents have taken of feeds.
    feeding: Feeding,
    wheel: Wheel,
    /// Per group: the queue of starts that wait for an agent. `None` without a backlog limit.
    queues: Vec<Option<Queue>>,
    /// The starts of open loops, and the agents that are free for them.
    turns: Turns,
    /// Agents that are not done.
    running: usize,
    /// No operation starts from here on.
    end_ns: u64,
    /// For what is read of answers and kept of them.
    captures: CaptureMemory,
    /// What ends the load early.
    pub failure: Option<Error>,
}

impl<P: Protocol> Agents<P> {
    /// The agents of thread `thread`.
    pub fn new(script: &Arc<Script<P>>, control: &Arc<LoadControl>, thread: u32) -> Self {
        let routes: Vec<_> = script.places.connections_of(thread).map(ConnectionRoute::to).collect();
        let in_turn = (0..routes.len()).map(ConnId::at).cycle();
        let new_agent = |(number, connection)| {
            let group = script.group_of(number);
            let AgentGroup { before, seed, .. } = script.groups[group];
            let alone = Agent::new(number - before, seed, script.place_of(number), connection);
            Agent { number, group, ..alone }
        };
        let list: Vec<Agent> = script.places.agents_of(thread).zip(in_turn).map(new_agent).collect();
        let queues: Vec<Option<Queue>> =
            script.groups.iter().map(|group| backlog::queue(group, &script.places, thread)).collect();
        let timers_each = if script.is_paced { 3 } else { 2 };
        Self {
            control: Arc::clone(control),
            slots: vec![Vec::new(); list.len() * script.slots],
            feeding: Feeding::new(script, thread, list.len()),
            wheel: Wheel::new(list.len() * timers_each + 1),
            queues,
            turns: Turns::new(script, &list),
            running: list.len(),
            end_ns: script.end_ns,
            captures: CaptureMemory::default(),
            failure: None,
            list,
            routes,
            script: Arc::clone(script),
        }
    }

    /// Every agent.
    pub fn ids(&self) -> impl Iterator<Item = AgentId> + use<P> {
        (0..self.list.len()).map(AgentId::at)
    }

    /// All of them, by their numbers.
    #[inline]
    pub fn all(&self) -> &[Agent] {
        &self.list
    }

    /// All of them, to be put in line.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [Agent] {
        &mut self.list
    }

    /// Whether agent number 1 is among them.
    pub fn has_first(&self) -> bool {
        self.list.first().is_some_and(|first| first.number == 1)
    }

    /// The cycles of each agent that has begun to work.
    pub fn cycles(&self) -> Vec<AgentCycles> {
        let begun = self.list.iter().filter(|agent| agent.cycle > 0);
        let cycles = |agent: &Agent| AgentCycles {
            agent: agent.number,
            cycles: agent.finished_cycles,
            last_cycle_s: (agent.finished_cycles > 0).then(|| agent.last_cycle_ns as f64 / NS_PER_S as f64),
        };
        begun.map(cycles).collect()
    }

    /// Whether there is none left that will do anything.
    pub fn are_done(&self) -> bool {
        self.running == 0
    }

    /// No operation starts from here on.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// No operation starts from this moment on.
    pub fn end_at(&mut self, now_ns: u64) {
        self.end_ns = now_ns;
    }

    /// What the agent asks on its connection.
    #[inline]
    pub fn asked(&self, id: AgentId) -> RequestContext<'_, P> {
        let agent = &self.list[id];
        RequestContext { request: self.script.request(agent), id: agent.request_id }
    }

    /// Whether an agent of that connection has begun to work and is not done.
    pub fn are_between_attempts(&self, conn: ConnId) -> bool {
        let mut own = self.list.iter().skip(conn.index()).step_by(self.routes.len());
        own.any(|agent| matches!(agent.work, AgentWork::Pause | AgentWork::FeedPause | AgentWork::RetryPause))
    }

    /// Appends the request of the agent's step, which is sent now under that number; whether a
    /// script was asked for it.
    ///
    /// # Errors
    /// If the protocol cannot hold one of its values. It is then not sent.
    #[inline]
    pub fn encode(
        &mut self,
        id: AgentId,
        request_id: u32,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, NotSendable> {
        let agent = &mut self.list[id];
        agent.request_id = request_id;
        agent.sent_ns = now_ns;
        let step = &self.script.steps[agent.step];
        let source = source(agent, id, &self.script, &self.slots, &self.feeding.taken);
        let values = OperationValues { source, arguments: &step.arguments };
        P::encode(self.script.request(agent), request_id, &values, out)?;
        Ok(step.asks_script)
    }

    /// What was encoded for this agent and those behind it is sent now, and not before a script was
    /// asked for it.
    pub fn stamp_anew(&mut self, mut next: AgentId, now_ns: u64) {
        while next != AgentId::NONE {
            let agent = &mut self.list[next];
            agent.sent_ns = now_ns;
            next = agent.behind;
        }
    }

    /// The agent's request is to be sent again although it was sent already: nobody can say whether
    /// the attempt has taken effect. False if it was not sent.
    pub fn unsend(&mut self, id: AgentId) -> bool {
        let agent = &mut self.list[id];
        let was_sent = agent.sent_ns != NEVER;
        agent.sent_ns = NEVER;
        agent.is_unsure |= was_sent;
        was_sent
    }

    /// The agent's operation that was to start at `intended_ns` begins, or it has nothing more to
    /// do.
    fn begin(&mut self, id: AgentId, intended_ns: u64, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let is_fixed = self.script.groups[self.list[id].group].schedule.is_fixed();
        let started_ns = if is_fixed { intended_ns } else { at.now_ns };
        if started_ns >= self.end_ns {
            return self.retire(id);
        }
        if !self.choose_step(id) {
            self.turns.spend(id);
            return self.retire(id);
        }
        match self.take_records(id) {
            FeedTurn::Has => self.begin_operation(id, intended_ns, at, stats),
            FeedTurn::Waits => self.wait_for_record(id, intended_ns, at, stats),
            FeedTurn::Ends => self.feed_ended(id),
        }
    }

    /// The agent has all that its operation takes.
    fn begin_operation(
        &mut self,
        id: AgentId,
        intended_ns: u64,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.draw = agent.random.u64(..);
        agent.intended_ns = intended_ns;
        agent.sent_ns = NEVER;
        agent.tries = 0;
        agent.is_unsure = false;
        self.count_open(id, at.now_ns, stats);
        self.attempt(id, at)
    }

    /// The next attempt of the agent's operation; waits if its last connect failed only just now.
    fn attempt(&mut self, id: AgentId, at: EventTime) -> AgentEffect {
        let agent = &mut self.list[id];
        if at.now_ns < at.connect_after_ns {
            agent.work = AgentWork::RetryPause;
            self.set_timer(AgentTimer::Wake(id), at.connect_after_ns);
            return AgentEffect::Wait;
        }
        agent.work = AgentWork::Attempt;
        agent.tries = agent.tries.saturating_add(1);
        agent.sent_ns = NEVER;
        self.set_deadline(id, at.now_ns);
        AgentEffect::Send(id)
    }

    /// The agent's attempt times out so long after this moment.
    pub fn set_deadline(&mut self, id: AgentId, now_ns: u64) {
        let agent = &mut self.list[id];
        agent.deadline_ns = now_ns.saturating_add(self.script.groups[agent.group].timeout_ns);
        agent.has_reprieve = false;
        if !agent.is_timer_set {
            agent.is_timer_set = true;
            let deadline_ns = agent.deadline_ns;
            self.set_timer(AgentTimer::Timeout(id), deadline_ns);
        }
    }

    /// The agent's attempt has failed: it tries again, or ends the operation.
    pub fn attempt_failed(
        &mut self,
        id: AgentId,
        cause: AttemptCause,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.is_unsure |= !cause.is_harmless(P::REFUSALS) && P::about_data(cause).is_none();
        stats.attempt(self.script.steps[agent.step].name, cause);
        self.note_failure(id, cause, None, stats);
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        if agent.tries < group.tries {
            agent.work = AgentWork::RetryPause;
            let due_ns = at.now_ns.saturating_add(group.wait_ns);
            self.set_timer(AgentTimer::Wake(id), due_ns);
            return AgentEffect::Wait;
        }
        let outcome = if cause == AttemptCause::Timeout { Outcome::Timeout } else { Outcome::Failed };
        let applied = (!agent.is_unsure).then_some(false);
        self.record_end(id, OperationEnd { outcome, read: None, applied, parts: None }, at.now_ns, stats);
        self.end_operation(id, outcome, cause, at, stats)
    }

    /// The agent's request cannot be sent. It would be the same in another try, so the operation has failed. What comes next waits a
    /// moment: a load of such values would do nothing else.
    pub fn not_sent(
        &mut self,
        id: AgentId,
        refusal: NotSendable,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.sent_ns = NEVER;
        agent.tries = self.script.groups[agent.group].tries;
        let connect_after_ns = at.connect_after_ns.max(at.now_ns.saturating_add(NOT_SENT_PAUSE_NS));
        self.attempt_failed(id, AttemptCause::NotSent(refusal), EventTime { connect_after_ns, ..at }, stats)
    }

    /// The agent's answer has been taken, and its connection is free for what comes next; `result`
    /// is what the protocol made of it.
    pub fn answered(
        &mut self,
        id: AgentId,
        class: AnswerClass,
        result: AttemptCause,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        match class {
            AnswerClass::Ok => self.end_operation(id, Outcome::Ok, AttemptCause::Ok, at, stats),
            AnswerClass::Wrong => self.end_operation(id, Outcome::Wrong, AttemptCause::Wrong, at, stats),
            AnswerClass::Failed | AnswerClass::Undecidable => self.attempt_failed(id, result, at, stats),
        }
    }

    /// The agent's operation has ended and is recorded; `cause` is what became of its last attempt.
    fn end_operation(
        &mut self,
        id: AgentId,
        outcome: Outcome,
        cause: AttemptCause,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        if matches!(self.script.purpose, LoadPurpose::Prepare { .. }) && outcome != Outcome::Ok {
            let agent = &self.list[id];
            let name = self.script.steps[agent.step].name;
            self.failure.get_or_insert(Error::Prepare {
                operation: self.script.names[name].clone(),
                seq: agent.cycle,
                result: cause.text(P::REFUSALS),
            });
        }
        self.advance_step(id, outcome, at.now_ns, stats);
        let agent = &mut self.list[id];
        let schedule = &self.script.groups[agent.group].schedule;
        // With fixed starts, the attempt waits for a connection and the operation is late.
        if schedule.is_fixed() {
            return self.take_next(id, at, stats);
        }
        let next_ns = schedule.next_ns(agent.place_in_group, agent.intended_ns, at.now_ns).max(at.connect_after_ns);
        agent.intended_ns = next_ns;
        if next_ns <= at.now_ns {
            return self.begin(id, next_ns, at, stats);
        }
        agent.work = AgentWork::Pause;
        self.set_timer(AgentTimer::Wake(id), next_ns);
        AgentEffect::Wait
    }

    /// Everything that is recorded at the end of an operation.
    fn record_end(&self, id: AgentId, end: OperationEnd, now_ns: u64, stats: &mut ThreadStats) {
        let agent = &self.list[id];
        let step = &self.script.steps[agent.step];
        stats.end(step.name, end.outcome, agent.place.service, agent.intended_ns, agent.sent(), now_ns);
        if self.script.groups[agent.group].is_timed && end.outcome == Outcome::Ok {
            stats.punctual(step.name, now_ns.saturating_sub(agent.intended_ns.max(agent.woken_ns)));
        }
        if let Some(audit) = &step.audit {
            self.tell_history(id, audit, end, now_ns, &mut stats.history);
        }
    }

    /// After the end of an operation: to the next step of the cycle, or to its end.
    fn advance_step(&mut self, id: AgentId, outcome: Outcome, now_ns: u64, stats: &mut ThreadStats) {
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        agent.begins_cycle = true;
        let goes_on = match outcome {
            Outcome::Ok => true,
            Outcome::Wrong => !group.wrong_ends_cycle,
            _ => false,
        };
        if !goes_on {
            return;
        }
        if group.order == StepOrder::Cycle
            && let Some(step) =
                step_from(&self.script.steps, agent.step.index() + 1..group.steps.end, self.script.turn_of(agent))
        {
            agent.step = step;
            agent.begins_cycle = false;
            return;
        }
        agent.finished_cycles += 1;
        agent.last_cycle_ns = now_ns;
        stats.cycle();
    }

    /// Chooses the step of the operation that begins; false if there is none left.
    fn choose_step(&mut self, id: AgentId) -> bool {
        if !self.list[id].begins_cycle {
            return true;
        }
        let id_of_group = self.list[id].group;
        let own = self.script.groups[id_of_group].steps.clone();
        // Where every step has an `every` above 1, some cycles have no step at all.
        let shortest = self.script.steps[own.clone()].iter().map(|step| step.every).min().unwrap_or(1);
        for _ in 0..shortest {
            if !self.next_cycle(id) {
                return false;
            }
            let agent = &mut self.list[id];
            let group = &self.script.groups[id_of_group];
            let step = match group.order {
                StepOrder::Cycle => step_from(&self.script.steps, own.clone(), self.script.turn_of(agent)),
                StepOrder::Mix => {
                    let total = group.weights.last().copied().unwrap_or(1);
                    let drawn = agent.random.u64(..total);
                    StepId::at(own.start + group.weights.partition_point(|sum| *sum <= drawn))
                }
            };
            if let Some(step) = step {
                agent.step = step;
                agent.begins_cycle = false;
                agent.needs = self.script.streams_of(agent);
                return true;
            }
        }
        false
    }

    /// Counts on, forgets what was kept, takes feed rows; false if all cycles of a preparation, or of
    /// a load of so many, are taken.
    fn next_cycle(&mut self, id: AgentId) -> bool {
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        match self.script.purpose {
            LoadPurpose::Measure => {
                if !group.take_cycle() {
                    // Groups without a number of cycles go on as long as there are some left to others.
                    if self.script.groups.iter().all(|group| group.has_done_all() != Some(false)) {
                        self.control.stop();
                    }
                    return false;
                }
                agent.cycle += 1;
            }
            LoadPurpose::Prepare { count } => {
                let next = match agent.cycle {
                    0 => u64::from(agent.number),
                    cycle => cycle + u64::from(group.agents),
                };
                if next > count {
                    return false;
                }
                agent.cycle = next;
            }
        }
        agent.kept = 0;
        self.take_rows(id);
        true
    }

    // Timers. The wheel cannot cancel one, so a timer that fires may mean nothing any more.

    /// Every agent's first operation, and the heartbeat.
    pub fn set_first_timers(&mut self) {
        for id in self.ids() {
            let is_fixed = self.script.groups[self.list[id].group].schedule.is_fixed();
            let timer = if is_fixed { AgentTimer::Arrival(id) } else { AgentTimer::Wake(id) };
            let first_ns = self.turns.place(id).next_ns;
            self.list[id].intended_ns = first_ns;
            self.set_timer(timer, first_ns);
        }
        self.set_timer(AgentTimer::Heartbeat, HEARTBEAT_NS);
    }

    /// A moment before which no timer is due, and whether one is due then.
    pub fn next_timer(&self) -> (u64, bool) {
        (self.wheel.soonest_ns(), self.wheel.is_exact())
    }

    /// Takes out a timer that is due, with the moment at which it was.
    #[inline]
    pub fn take_timer(&mut self, now_ns: u64) -> Option<(AgentTimer, u64)> {
        self.wheel.pop(now_ns).map(|(number, due_ns)| (self.timer(number), due_ns))
    }

    /// The timer has fired that was due at `due_ns`.
    pub fn timer_fired(
        &mut self,
        timer: AgentTimer,
        due_ns: u64,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        match timer {
            AgentTimer::Heartbeat => {
                stats.late(at.now_ns - due_ns);
                self.set_timer(AgentTimer::Heartbeat, (due_ns + HEARTBEAT_NS).max(at.now_ns));
                AgentEffect::Wait
            }
            AgentTimer::Wake(id) => {
                stats.late(at.now_ns - due_ns);
                self.woken(id, due_ns, at, stats)
            }
            AgentTimer::Timeout(id) => self.deadline_passed(id, at.now_ns),
            AgentTimer::Arrival(id) => self.arrived(id, at, stats),
        }
    }

    fn woken(&mut self, id: AgentId, due_ns: u64, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        match self.list[id].work {
            AgentWork::Unborn => {
                stats.agents += u32::from(at.now_ns < self.end_ns);
                self.list[id].woken_ns = at.now_ns;
                self.begin(id, due_ns, at, stats)
            }
            AgentWork::Pause => {
                self.list[id].woken_ns = at.now_ns;
                self.begin(id, due_ns, at, stats)
            }
            AgentWork::FeedPause => self.look_for_record(id, at, stats),
            AgentWork::RetryPause => self.attempt(id, at),
            AgentWork::Attempt | AgentWork::Done => AgentEffect::Wait,
        }
    }

    /// An agent's timeout is not moved with each operation: it fires early and is set again.
    fn deadline_passed(&mut self, id: AgentId, now_ns: u64) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.is_timer_set = false;
        if agent.work != AgentWork::Attempt {
            return AgentEffect::Wait;
        }
        let mut due_ns = agent.deadline_ns;
        if agent.deadline_ns.saturating_add(HEARTBEAT_NS) < now_ns && !agent.has_reprieve {
            // The thread stood still at the deadline. The answer may be waiting in the socket, or the
            // request still be on this side of it. So the target has once more as long as the thread
            // overslept, or else it is the generator that is measured. Once: a target may send so
            // much that the thread is always late.
            let overslept_ns = now_ns - agent.deadline_ns;
            let timeout_ns = self.script.groups[agent.group].timeout_ns;
            agent.has_reprieve = true;
            agent.deadline_ns = now_ns;
            due_ns = now_ns.saturating_add(overslept_ns.min(timeout_ns).max(REPRIEVE_NS));
        } else if agent.deadline_ns <= now_ns {
            return AgentEffect::TimeOut(id);
        }
        agent.is_timer_set = true;
        self.set_timer(AgentTimer::Timeout(id), due_ns);
        AgentEffect::Wait
    }

    fn set_timer(&mut self, timer: AgentTimer, due_ns: u64) {
        let number = match timer {
            AgentTimer::Wake(id) => id.index() * 2,
            AgentTimer::Timeout(id) => id.index() * 2 + 1,
            AgentTimer::Heartbeat => self.list.len() * 2,
            AgentTimer::Arrival(id) => self.list.len() * 2 + 1 + id.index(),
        };
        self.wheel.set(u32::try_from(number).unwrap_or(u32::MAX), due_ns);
    }

    fn timer(&self, number: u32) -> AgentTimer {
        let number = number as usize;
        if let Some(index) = number.checked_sub(self.list.len() * 2 + 1) {
            return AgentTimer::Arrival(AgentId::at(index));
        }
        match (number / 2, number % 2) {
            (index, _) if index == self.list.len() => AgentTimer::Heartbeat,
            (index, 0) => AgentTimer::Wake(AgentId::at(index)),
            (index, _) => AgentTimer::Timeout(AgentId::at(index)),
        }
    }
}

/// What the values of an agent's operation depend on.
#[inline]
fn source<'a, P: Protocol>(
    agent: &Agent,
    id: AgentId,
    script: &'a Script<P>,
    slots: &'a [Vec<u8>],
    records: &'a [TakenRecord],
) -> ValueSource<'a> {
    let feeds: &'a [FeedRows] = &script.feeds;
    ValueSource {
        agent: u64::from(agent.number),
        seq: agent.cycle,
        copy: u64::from(script.groups[agent.group].copy_of(agent.place_in_group)),
        draw: agent.draw,
        slots: &slots[id.index() * script.slots..][..script.slots],
        kept: agent.kept,
        feeds,
        records: &records[id.index() * feeds.len()..][..feeds.len()],
    }
}

/// The first of those steps that the cycle of that number does.
fn step_from(steps: &[CompiledStep], mut places: Range<usize>, turn: u64) -> Option<StepId> {
    places.find(|place| turn.is_multiple_of(steps[*place].every)).and_then(StepId::at)
}

#[cfg(test)]
pub(super) mod tests;
