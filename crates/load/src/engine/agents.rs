//! Agents and their behaviour: cycles and steps, attempts and retries, pauses and timeouts, and how
//! an operation ends.
//!
//! An agent receives an event with the event's time, counts the event, sets timers and returns the
//! next action. This module uses no socket and reads no clock, so tests can play any sequence of
//! events with plain numbers.

use std::sync::Arc;

use fastrand::Rng;
use record::events::Outcome;
use record::rows::AgentCycles;
use transport::conn_id::ConnId;
use wire::cause::AttemptCause;
use wire::protocols::ShownAnswer;
use wire::session::{Encoded, RequestContext, SessionProtocol};
use wire::values::allowed::NotSendable;
use wire::values::mix;

use super::agent_group::{AgentGroup, GroupId, LoopKind};
use super::control::LoadControl;
use super::ids::{AgentId, StepId, indexed_by};
use super::script::Script;
use super::sites::SiteConnections;
use super::thread_stats::ThreadStats;
use crate::schedules::NS_PER_S;
use crate::{Error, LoadPurpose};

mod answer_times;
pub mod answers;
pub mod auditing;
mod backlog;
mod cycles;
mod examples;
mod feeding;
pub mod lanes;
mod leaving;
mod reconnects;
mod redirects;
pub mod session_cookies;
mod timers;
mod turns;
mod values;

pub use reconnects::NextConnect;
pub use timers::AgentTimer;

use answer_times::ArrivingAnswers;
use answers::{AnswerClass, DecodedAnswer};
use auditing::AuditedAnswer;
use feeding::FeedTurn;
use lanes::Lanes;
use reconnects::ConnectionRoutes;
use timers::AgentTimers;
use turns::OpenStarts;
use values::AgentValues;

/// Interval at which a thread checks whether to stop the load, and measures its lateness if no
/// other timer is due.
pub const HEARTBEAT_NS: u64 = 10_000_000;
/// Minimum extension of a timeout after the thread was stalled, for reading answers that arrived
/// during the stall.
const REPRIEVE_NS: u64 = 1_000_000;
/// Pause after a request that could not be written.
const NOT_SENT_PAUSE_NS: u64 = 1_000_000;
/// A time that never comes. Means "not yet" in a field for a time.
pub const NEVER: u64 = u64::MAX;

/// Activity of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWork {
    /// Waits for its first operation.
    Unborn,
    /// Pauses between two operations.
    Pause,
    /// Waits for a feed record, which is not read yet, to begin a cycle.
    FeedPause,
    /// Has an open operation with an attempt in progress.
    Attempt,
    /// Has an open operation and pauses between two attempts.
    RetryPause,
    /// Sleeps while its lanes perform operations at once.
    Block,
    /// Will do nothing more.
    Done,
}

/// The service that an agent uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentService {
    pub service: u32,
    /// Index of the service's first request among the requests of all services.
    pub requests: u32,
}

pub struct Agent {
    /// The agent's number, from 1, over all threads.
    pub number: u32,
    /// Group that defines the agent's steps and pace.
    pub group: GroupId,
    /// The agent's index in its group, over all threads. The agent joins at the first start of the
    /// schedule's place with this index.
    pub place_in_group: u32,
    /// Service that receives the agent's requests.
    pub place: AgentService,
    /// Id of the agent's connection in its thread. Changes only between operations at different
    /// servers.
    pub connection: ConnId,
    /// Agents before and behind this agent in the connection's queue, if any.
    pub ahead: AgentId,
    pub behind: AgentId,
    pub work: AgentWork,
    /// Step of the current operation, or of the next operation.
    pub step: StepId,
    /// Number of the current operation, or of the next operation, among the repetitions of its
    /// step, from 1. 0 if the next operation begins a cycle.
    pub repeat: u16,
    /// Whether the agent has performed the steps that come before its cycles.
    pub has_started: bool,
    /// Whether a start of the schedule begins the current operation.
    pub is_scheduled: bool,
    /// Whether the timeout timer is set. It may be set too early, never too late.
    pub is_timer_set: bool,
    /// Whether the deadline was extended once because the thread was late.
    pub has_reprieve: bool,
    /// Whether an earlier attempt of the operation may have taken effect without an answer.
    pub is_unsure: bool,
    /// Number of attempts of the current operation.
    pub tries: u32,
    /// Id of the agent's last request on its connection; 0 before the first request.
    pub request_id: u32,
    /// Value slots filled in this cycle, one bit per slot.
    pub kept: u32,
    /// Streamed feeds from which the cycle still needs a record, one bit per feed.
    pub needs: u64,
    /// Number of the current cycle, from 1.
    pub cycle: u64,
    /// Number of complete cycles.
    pub finished_cycles: u64,
    /// End of the last complete cycle.
    pub last_cycle_ns: u64,
    /// Random number of the current operation.
    pub draw: u64,
    pub random: Rng,
    /// Intended start of the current operation. Between two operations, intended start of the next.
    pub intended_ns: u64,
    /// Place whose start the next operation takes, until the operation begins. Set only in an open
    /// loop without a backlog limit.
    pub start: AgentId,
    /// Last time that a timer woke the agent for an operation. If the operation was due earlier,
    /// the thread caused the delay.
    pub woken_ns: u64,
    /// Send time of the last attempt, or [`NEVER`] if it was not sent.
    pub sent_ns: u64,
    /// Time at which the attempt times out.
    pub deadline_ns: u64,
}

indexed_by!(AgentId, [Agent], Agent);
indexed_by!(AgentId, Vec<Agent>, Agent);

impl Agent {
    /// Creates an agent of the first group.
    pub fn new(number: u32, seed: u64, place: AgentService, connection: ConnId) -> Self {
        Self {
            number,
            group: GroupId::at(0),
            place_in_group: number - 1,
            place,
            connection,
            ahead: AgentId::NONE,
            behind: AgentId::NONE,
            work: AgentWork::Unborn,
            step: StepId::FIRST,
            repeat: 0,
            has_started: true,
            is_scheduled: false,
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

    /// Whether the next operation begins a cycle.
    pub fn begins_cycle(&self) -> bool {
        self.repeat == 0
    }

    /// Whether an operation is open.
    pub fn has_operation(&self) -> bool {
        matches!(self.work, AgentWork::Attempt | AgentWork::RetryPause)
    }

    /// Returns the send time of the last attempt, or `None` if it was not sent.
    pub fn sent(&self) -> Option<u64> {
        (self.sent_ns != NEVER).then_some(self.sent_ns)
    }
}

/// End of an operation.
pub struct OperationEnd {
    pub outcome: Outcome,
    /// Facts for the history, if the operation is audited.
    pub audited: AuditedAnswer,
}

/// Time of an event of an agent.
#[derive(Debug, Clone, Copy)]
pub struct EventTime {
    /// Current time.
    pub now_ns: u64,
    /// Earliest time at which the agent's broken connection may connect again; 0 if the connection
    /// is usable.
    pub connect_after_ns: u64,
}

/// Next action for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an agent whose request is not sent is never answered"]
pub enum AgentEffect {
    /// No action: the agent waits for a timer or is done.
    Wait,
    /// Send the agent's request on its connection.
    Send(AgentId),
    /// Time out the agent's attempt.
    TimeOut(AgentId),
    /// Close the connection, because its agents have left.
    Disconnect(ConnId),
}

/// The agents of a thread.
pub struct Agents<P: SessionProtocol> {
    pub(super) script: Arc<Script<P>>,
    control: Arc<LoadControl>,
    pub(super) list: Vec<Agent>,
    pub routes: ConnectionRoutes,
    /// Connections to sites and of lanes.
    pub(super) sites: SiteConnections,
    /// Places for operations that an agent performs at once.
    pub(super) lanes: Lanes,
    values: AgentValues<P>,
    arriving: ArrivingAnswers,
    pub timers: AgentTimers,
    /// Starts of open loops, and the end of the load.
    pub starts: OpenStarts<P>,
    /// Number of agents that are not done.
    running: usize,
    /// Error of a script or of a preparation, which ends the load early.
    pub failure: Option<Error>,
}

impl<P: SessionProtocol> Agents<P> {
    /// Creates the agents of thread `thread`.
    pub fn new(script: &Arc<Script<P>>, control: &Arc<LoadControl>, thread: u32) -> Self {
        let routes = ConnectionRoutes::new(script, thread);
        let in_turn = (0..routes.count()).map(ConnId::at).cycle();
        let new_agent = |(number, connection)| {
            let group = script.group_of(number);
            let AgentGroup { before, seed, ref steps, ref on_start, .. } = script.groups[group];
            let alone = Agent::new(number - before, seed, script.place_of(number), connection);
            let step = StepId::at(steps.start).unwrap_or(StepId::FIRST);
            Agent { number, group, step, has_started: on_start.is_empty(), ..alone }
        };
        let mut list: Vec<Agent> = script.places.agents_of(thread).zip(in_turn).map(new_agent).collect();
        let starts = OpenStarts::new(script, control, thread, &list);
        let lanes = Lanes::add(script, &mut list);
        Self {
            control: Arc::clone(control),
            values: AgentValues::new(script, control, thread, &lanes),
            arriving: ArrivingAnswers::new(script, list.len()),
            timers: AgentTimers::new(list.len(), script.is_paced),
            starts,
            sites: SiteConnections::new(script, thread, &lanes),
            running: lanes.agents(),
            lanes,
            failure: None,
            list,
            routes,
            script: Arc::clone(script),
        }
    }

    /// Sets the Unix time of load start, seconds, from which cookies expire and `{now:…}` counts.
    pub fn set_zero(&mut self, zero_s: f64) {
        self.values.zero_ns = (zero_s * NS_PER_S as f64) as u64;
        self.values.cookies.set_zero(zero_s);
    }

    /// Returns the ids of all agents, without lanes.
    pub fn ids(&self) -> impl Iterator<Item = AgentId> + use<P> {
        (0..self.lanes.agents()).map(AgentId::at)
    }

    /// Returns the ids of all agents, and of their lanes.
    fn all_ids(&self) -> impl Iterator<Item = AgentId> + use<P> {
        (0..self.list.len()).map(AgentId::at)
    }

    /// Returns all agents and their lanes, indexed by id.
    #[inline]
    pub fn all(&self) -> &[Agent] {
        &self.list
    }

    /// Returns all agents, so that the caller can put them into queues.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [Agent] {
        &mut self.list
    }

    /// Whether this thread has agent number 1.
    pub fn has_first(&self) -> bool {
        self.list.first().is_some_and(|first| first.number == 1)
    }

    /// Returns the cycles of each agent that has started.
    pub fn cycles(&self) -> Vec<AgentCycles> {
        let begun = self.list[..self.lanes.agents()].iter().filter(|agent| agent.cycle > 0);
        let cycles = |agent: &Agent| AgentCycles {
            agent: agent.number,
            cycles: agent.finished_cycles,
            last_cycle_s: (agent.finished_cycles > 0).then(|| agent.last_cycle_ns as f64 / NS_PER_S as f64),
        };
        begun.map(cycles).collect()
    }

    /// Whether all agents are done.
    pub fn are_done(&self) -> bool {
        self.running == 0
    }

    /// Returns the agent's current request.
    #[inline]
    pub fn asked(&self, id: AgentId) -> RequestContext<'_, P> {
        let agent = &self.list[id];
        RequestContext { request: self.script.request(agent), id: agent.request_id }
    }

    /// Whether an agent of the connection pauses between two operations or attempts. A connection
    /// to a site or of a lane is opened when an operation needs it.
    pub fn are_between_attempts(&self, conn: ConnId) -> bool {
        let agents = &self.list[..self.lanes.agents()];
        let mut own = agents.iter().skip(conn.index()).step_by(self.routes.count());
        own.any(|agent| matches!(agent.work, AgentWork::Pause | AgentWork::FeedPause | AgentWork::RetryPause))
    }

    /// Appends the request of the agent's step to `out`, to be sent now with id `request_id`.
    /// Returns whether the protocol takes the request now, and whether a script computed part of
    /// the request.
    ///
    /// # Errors
    /// If the request lacks a value or the protocol cannot represent one of the values. The request
    /// is then not sent.
    #[inline]
    pub fn encode(
        &mut self,
        id: AgentId,
        state: (&mut P::Session, &mut P::Memory),
        request_id: u32,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<(Encoded, bool), NotSendable> {
        let agent = &mut self.list[id];
        let encoded = self.values.encode(id, agent, state, (request_id, now_ns), out)?;
        if encoded.0 == Encoded::Done {
            (agent.request_id, agent.sent_ns) = (request_id, now_ns);
            self.arriving.reset(id);
        }
        Ok(encoded)
    }

    /// Sets the send time to `now_ns` for the queued agents from `next` to before `end`, so that a
    /// script's computing time is not service time.
    pub fn stamp_anew(&mut self, mut next: AgentId, end: AgentId, now_ns: u64) {
        while next != end {
            let agent = &mut self.list[next];
            agent.sent_ns = now_ns;
            next = agent.behind;
        }
    }

    /// Prepares to send the agent's request again. If the request was already sent and the target
    /// may have begun to execute it, the attempt may have taken effect. Returns whether the request
    /// was already sent.
    pub fn unsend(&mut self, id: AgentId, is_untouched: bool) -> bool {
        let agent = &mut self.list[id];
        let was_sent = agent.sent_ns != NEVER;
        agent.sent_ns = NEVER;
        agent.is_unsure |= was_sent && !is_untouched;
        was_sent
    }

    /// Begins the agent's operation whose intended start is `intended_ns`, or ends the agent if the
    /// load ends.
    fn begin(&mut self, id: AgentId, intended_ns: u64, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        let (kind, leaves) = (group.kind, group.presence.is_some());
        agent.is_scheduled = kind.is_scheduled(agent.begins_cycle());
        let started_ns = if agent.is_scheduled { intended_ns } else { at.now_ns };
        if started_ns >= self.starts.end_ns {
            return match kind {
                _ if self.lanes.has(id) => self.cut_lane(id, at, stats),
                LoopKind::OpenSessions if !agent.is_scheduled => self.cut_session(id, at, stats),
                _ => self.retire(id),
            };
        }
        if leaves && self.leaves_ns(id, at.now_ns) <= at.now_ns {
            return self.leave(id, at, stats);
        }
        if !self.choose_step(id) {
            self.starts.turns.spend(id);
            return self.retire(id);
        }
        match self.values.take_records(id, &mut self.list[id]) {
            FeedTurn::Has => self.begin_operation(id, intended_ns, at, stats),
            FeedTurn::Waits => self.wait_for_record(id, intended_ns, at, stats),
            FeedTurn::Ends => self.feed_ended(id),
        }
    }

    /// Ends the agent's session at the end of the load. The agent is then free for a start that was
    /// due before the end.
    fn cut_session(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        self.list[id].repeat = 0;
        self.take_next(id, at, stats)
    }

    /// Ends the pauses within sessions at the end of the load, because the rest of a session is
    /// cut.
    pub fn end_pauses(&mut self, now_ns: u64) {
        for id in self.all_ids() {
            let agent = &self.list[id];
            let is_under_way = agent.work == AgentWork::Pause && !agent.begins_cycle();
            if is_under_way && self.script.groups[agent.group].kind == LoopKind::OpenSessions {
                self.timers.set(AgentTimer::Wake(id), now_ns);
            }
        }
    }

    /// Begins an operation for which the agent has all feed records.
    fn begin_operation(
        &mut self,
        id: AgentId,
        intended_ns: u64,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let at = match self.script.changes_connections {
            false => at,
            true if self.begins_block(id) => return self.begin_block(id, at),
            true => self.change_connection(id, at),
        };
        let agent = &mut self.list[id];
        agent.draw = agent.random.u64(..);
        let counters = self.script.steps[agent.step].counters;
        if counters != 0 {
            self.values.counters.take(id, counters);
        }
        agent.intended_ns = intended_ns;
        agent.sent_ns = NEVER;
        agent.tries = 0;
        agent.is_unsure = false;
        self.values.redirects.begin(id);
        self.count_open(id, at.now_ns, stats);
        self.attempt(id, at)
    }

    /// Starts the next attempt of the agent's operation. Waits first if the agent's last connect
    /// has just failed.
    fn attempt(&mut self, id: AgentId, at: EventTime) -> AgentEffect {
        let agent = &mut self.list[id];
        if at.now_ns < at.connect_after_ns {
            agent.work = AgentWork::RetryPause;
            self.timers.set(AgentTimer::Wake(id), at.connect_after_ns);
            return AgentEffect::Wait;
        }
        agent.work = AgentWork::Attempt;
        agent.tries = agent.tries.saturating_add(1);
        agent.sent_ns = NEVER;
        self.set_deadline(id, at.now_ns);
        AgentEffect::Send(id)
    }

    /// Sets the deadline of the agent's attempt: `now_ns` plus the timeout of its group.
    pub fn set_deadline(&mut self, id: AgentId, now_ns: u64) {
        let agent = &mut self.list[id];
        agent.deadline_ns = now_ns.saturating_add(self.script.groups[agent.group].timeout_ns);
        agent.has_reprieve = false;
        if !agent.is_timer_set {
            agent.is_timer_set = true;
            let deadline_ns = agent.deadline_ns;
            self.timers.set(AgentTimer::Timeout(id), deadline_ns);
        }
    }

    /// Handles a failed attempt: the agent tries again or ends the operation.
    pub fn attempt_failed(
        &mut self,
        id: AgentId,
        cause: AttemptCause,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.is_unsure |= agent.sent().is_some() && !cause.is_harmless(P::REFUSALS) && P::about_data(cause).is_none();
        stats.attempt(self.script.steps[agent.step].name, cause);
        self.values.note_failure(id, agent, cause, None, stats);
        let group = &self.script.groups[agent.group];
        if agent.tries < group.tries {
            agent.work = AgentWork::RetryPause;
            let due_ns = at.now_ns.saturating_add(group.wait_ns);
            self.timers.set(AgentTimer::Wake(id), due_ns);
            return AgentEffect::Wait;
        }
        let outcome = if cause == AttemptCause::Timeout { Outcome::Timeout } else { Outcome::Failed };
        let mut audited = self.values.audited_failure(agent, cause);
        audited.applied = audited.applied.or((!agent.is_unsure).then_some(false));
        self.record_end(id, OperationEnd { outcome, audited }, at.now_ns, stats);
        self.end_operation(id, outcome, cause, at, stats)
    }

    /// Fails the operation of an agent whose request cannot be sent. Another attempt would send the
    /// same request, so none is made. The agent then pauses briefly, because otherwise a load of
    /// unsendable values would keep the thread busy.
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

    /// Keeps an example of the agent's failed attempt, if it is the first of its kind.
    #[inline]
    pub fn note_failure(
        &self,
        id: AgentId,
        cause: AttemptCause,
        answer: Option<ShownAnswer<'_>>,
        stats: &mut ThreadStats,
    ) {
        self.values.note_failure(id, &self.list[id], cause, answer, stats);
    }

    /// Takes the error that ends the load early, if there is one.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take().or_else(|| self.values.feeding.failure.take())
    }

    /// Whether an error ends the load early.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some() || self.values.feeding.failure.is_some()
    }

    /// Notes bytes of the answer to the agent's request, in which `messages` messages end.
    #[inline]
    pub fn answer_arrives(&mut self, id: AgentId, messages: u32, now_ns: u64, stats: &mut ThreadStats) {
        if self.arriving.are_timed() {
            let step = &self.script.steps[self.list[id].step];
            if step.times_answer {
                self.arriving.arrived(id, step.name, messages, now_ns, stats);
            }
        }
    }

    /// Handles a connect that failed or is not allowed yet, or a service that does not answer. With
    /// failover, moves the connection's agents to the next service.
    pub fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) -> NextConnect {
        // No other connection of this kind shares the draw of this connection's first agent.
        let draw = self.list[self.sites.owner(conn)].draw;
        let before = self.routes.service(conn);
        let next = self.routes.connect_failed(conn, cause, draw, now_ns);
        self.sites.set_connect_after(conn, next.after_ns);
        if next.service != before {
            let place = self.script.place_at(next.service);
            if self.script.changes_connections {
                self.move_agents(conn, place);
            } else {
                let own = self.list.iter_mut().skip(conn.index()).step_by(self.routes.count());
                own.for_each(|agent| agent.place = place);
            }
        }
        next
    }

    /// Handles a connection that the target closed during an operation. Returns the earliest time
    /// of the next connect, or `None` if the connection's agents reconnect at once.
    pub fn connection_cut(&mut self, conn: ConnId, now_ns: u64) -> Option<u64> {
        let after_ns = self.routes.connection_cut(conn, self.list[self.sites.owner(conn)].draw, now_ns)?;
        self.sites.set_connect_after(conn, after_ns);
        Some(after_ns)
    }

    /// Classifies the answer to the agent's attempt. If the operation ends as `ok` or `wrong`,
    /// records the operation and keeps the values that the step names. The caller then calls
    /// [`Self::answered`].
    pub fn take_answer(
        &mut self,
        id: AgentId,
        answer: &DecodedAnswer<'_, P>,
        now_ns: u64,
        stats: &mut ThreadStats,
    ) -> AnswerClass {
        let agent = &self.list[id];
        let step = &self.script.steps[agent.step];
        if step.keeps_cookies {
            self.values.take_cookies(id, agent, answer, now_ns, stats);
        }
        if step.follows
            && let Some(class) = self.follow(id, answer, stats)
        {
            return class;
        }
        let (agent, step) = (&self.list[id], &self.script.steps[self.list[id].step]);
        let (mut class, contradicted) = self.values.check_answer(id, agent, answer, stats);
        if class == AnswerClass::Ok && step.units.is_some() {
            class = self.values.count_units(agent, answer, stats);
        }
        let (outcome, cause) = match class {
            AnswerClass::Ok => {
                let redirect = self.values.redirect(agent, answer, stats);
                let cause = redirect.unwrap_or_else(|| match P::status_code(answer.session) {
                    None | Some(200) => AttemptCause::Ok,
                    Some(status) => AttemptCause::OkStatus(status),
                });
                (Outcome::Ok, cause)
            }
            AnswerClass::Wrong => {
                self.values.note_wrong(id, agent, answer, contradicted, stats);
                (Outcome::Wrong, AttemptCause::Wrong)
            }
            AnswerClass::Failed => {
                self.values.note_failure(id, agent, answer.result, Some(P::shown(answer.session, answer.input)), stats);
                return class;
            }
            AnswerClass::Undecidable => {
                // Another attempt would get the same answer.
                let tries = self.script.groups[agent.group].tries;
                self.list[id].tries = tries;
                return class;
            }
            AnswerClass::Followed(_) | AnswerClass::Unfollowed(_) => return class,
        };
        stats.attempt(step.name, cause);
        let is_audited = step.audit.is_some();
        let audited = if is_audited { self.values.audited_answer(agent, answer) } else { AuditedAnswer::default() };
        // The operation is recorded first, because `keep` may overwrite slots from which its
        // request was made.
        self.record_end(id, OperationEnd { outcome, audited }, now_ns, stats);
        // An unexpected refusal changes neither the data nor the kept values.
        if class == AnswerClass::Ok || answer.result == AttemptCause::Ok {
            for number in 0..step.keeps.len() {
                self.values.keep(id, &mut self.list[id], answer, number, stats);
            }
            if !step.keeps.is_empty() && self.script.purpose != LoadPurpose::Measure {
                self.values.tell_kept(id, &self.list[id], now_ns, &mut stats.history);
            }
        }
        class
    }

    /// Whether evaluating the answer to the agent's step takes more than comparing or copying
    /// bytes.
    pub fn is_answer_costly(&self, id: AgentId) -> bool {
        self.script.steps[self.list[id].step].is_costly
    }

    /// Continues after the agent's answer was taken and its connection is free. `result` is the
    /// protocol's result of the attempt.
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
            AnswerClass::Followed(_) => self.send_followed(id, at),
            AnswerClass::Unfollowed(why) => self.attempt_failed(id, AttemptCause::Unfollowed(why), at, stats),
        }
    }

    /// Continues the agent after its operation has ended and is recorded. `cause` is the result of
    /// the operation's last attempt.
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
        if self.lanes.has(id) {
            return self.lane_ended(id, outcome, at, stats);
        }
        self.go_on(id, outcome, at, stats)
    }

    /// Continues the agent with the next step of its cycle, or with the next cycle.
    fn go_on(&mut self, id: AgentId, outcome: Outcome, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let ended = self.list[id].step;
        self.advance_step(id, outcome, at.now_ns, stats);
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        // A fixed start is not moved to the next connect. The attempt waits instead, and the
        // operation is late.
        if group.kind.is_scheduled(agent.begins_cycle()) {
            return self.take_next(id, at, stats);
        }
        let next_ns = self.script.steps[ended].pause.until_ns(at.now_ns, &mut agent.random);
        let mut next_ns = next_ns.max(at.connect_after_ns);
        // After the load's end, a pause would delay the starts that still wait for an agent.
        let is_cut = group.kind.is_fixed() && at.now_ns >= self.starts.end_ns;
        if group.presence.is_some() {
            next_ns = next_ns.min(self.leaves_ns(id, at.now_ns));
        }
        let agent = &mut self.list[id];
        agent.intended_ns = next_ns;
        if next_ns <= at.now_ns || is_cut {
            return self.begin(id, next_ns, at, stats);
        }
        agent.work = AgentWork::Pause;
        self.timers.set(AgentTimer::Wake(id), next_ns);
        AgentEffect::Wait
    }

    /// Records the end of an operation.
    fn record_end(&self, id: AgentId, end: OperationEnd, now_ns: u64, stats: &mut ThreadStats) {
        let agent = &self.list[id];
        let step = &self.script.steps[agent.step];
        stats.end(step.name, end.outcome, agent.place.service, agent.intended_ns, agent.sent(), now_ns);
        if self.script.groups[agent.group].is_timed && end.outcome == Outcome::Ok {
            stats.punctual(step.name, now_ns.saturating_sub(agent.intended_ns.max(agent.woken_ns)));
        }
        if step.times_answer {
            self.arriving.record(id, agent, step.name, end.outcome, stats);
        }
        if let Some(audit) = &step.audit {
            self.values.tell_history(id, agent, audit, end, now_ns, &mut stats.history);
        }
    }

    /// Returns a time before which no audited operation was sent that is open at `now_ns` or begins
    /// later.
    pub fn open_since_ns(&self, now_ns: u64) -> u64 {
        let ids = self.all_ids().filter(|id| {
            let agent = &self.list[*id];
            agent.has_operation() && self.script.steps[agent.step].audit.is_some()
        });
        ids.filter_map(|id| self.values.earliest_sent_ns(id, &self.list[id])).fold(now_ns, u64::min)
    }

    /// Counts operations that are due before `until_ns` and before the load's end, and have not
    /// begun.
    pub fn count_due(&mut self, until_ns: u64, stats: &mut ThreadStats) {
        self.starts.count_due(&self.list[..self.lanes.agents()], until_ns, stats);
    }

    /// Records open operations as unfinished at the end of the load, and also operations that were
    /// due and never began. The operations that never began count under the agent's next step and
    /// have no history entry, because no request was sent.
    pub fn leave_unfinished(&mut self, now: u64, stats: &mut ThreadStats) {
        self.count_due(now, stats);
        let mut never_began = 0;
        for id in self.all_ids() {
            if self.list[id].has_operation() {
                let agent = &self.list[id];
                let applied = (!agent.is_unsure && agent.sent().is_none()).then_some(false);
                self.record_end(
                    id,
                    OperationEnd {
                        outcome: Outcome::Unfinished,
                        audited: AuditedAnswer { applied, ..AuditedAnswer::default() },
                    },
                    now,
                    stats,
                );
            }
            if !self.lanes.has(id) {
                never_began += self.starts.leave(id, &self.list[id], now, stats);
            }
        }
        if never_began > 0 {
            let of_sessions = self.script.groups.iter().any(|group| group.kind == LoopKind::OpenSessions);
            let (things, needed) = match of_sessions {
                true => ("sessions or operations", "a rate of sessions needs at least (rate × length of a session)"),
                false => ("operations", "a rate needs at least (rate × service time)"),
            };
            stats.notices.push(format!(
                "{never_began} {things} were due but never began, because all agents were busy. Either the target cannot \
                 keep up with this rate, or there are too few agents: {needed} agents"
            ));
        }
        self.starts.notice_dropped(stats);
    }

    /// Sets the timers for every agent's first operation, and the heartbeat.
    pub fn set_first_timers(&mut self) {
        for id in self.ids() {
            let is_fixed = self.script.groups[self.list[id].group].kind.is_fixed();
            let timer = if is_fixed { AgentTimer::Arrival(id) } else { AgentTimer::Wake(id) };
            let first_ns = self.starts.turns.place(id).next_ns;
            self.list[id].intended_ns = first_ns;
            self.timers.set(timer, first_ns);
        }
        self.timers.set(AgentTimer::Heartbeat, HEARTBEAT_NS);
    }

    /// Handles the timer that was due at `due_ns`.
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
                self.timers.set(AgentTimer::Heartbeat, (due_ns + HEARTBEAT_NS).max(at.now_ns));
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
                stats.agents += u32::from(at.now_ns < self.starts.end_ns);
                self.list[id].woken_ns = at.now_ns;
                self.begin(id, due_ns, at, stats)
            }
            AgentWork::Pause => {
                self.list[id].woken_ns = at.now_ns;
                self.begin(id, due_ns, at, stats)
            }
            AgentWork::FeedPause => self.look_for_record(id, at, stats),
            AgentWork::RetryPause => self.attempt(id, at),
            AgentWork::Attempt | AgentWork::Block | AgentWork::Done => AgentEffect::Wait,
        }
    }

    /// Handles an agent's timeout timer. The timer is not moved with each operation: it fires early
    /// and is set again.
    fn deadline_passed(&mut self, id: AgentId, now_ns: u64) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.is_timer_set = false;
        if agent.work != AgentWork::Attempt {
            return AgentEffect::Wait;
        }
        let mut due_ns = agent.deadline_ns;
        if agent.deadline_ns.saturating_add(HEARTBEAT_NS) < now_ns && !agent.has_reprieve {
            // The thread was stalled at the deadline. The answer may wait in the socket, or the
            // request may still be unsent. The target gets extra time, as long as the stall,
            // because otherwise the result would measure the generator. The deadline is extended
            // only once, because a target may send so much that the thread is always late.
            let overslept_ns = now_ns - agent.deadline_ns;
            let timeout_ns = self.script.groups[agent.group].timeout_ns;
            agent.has_reprieve = true;
            agent.deadline_ns = now_ns;
            due_ns = now_ns.saturating_add(overslept_ns.min(timeout_ns).max(REPRIEVE_NS));
        } else if agent.deadline_ns <= now_ns {
            return AgentEffect::TimeOut(id);
        }
        agent.is_timer_set = true;
        self.timers.set(AgentTimer::Timeout(id), due_ns);
        AgentEffect::Wait
    }
}

#[cfg(test)]
pub(super) mod tests;
