//! The life of an operation: where its agent is in its work, begun, attempted, failed and retried, its
//! answer held against the step's expectations, its line in the history, ended, and the step that follows.

use experiment::catalog::{Effect, Operation};
use experiment::plan::{AuditAs, AuditEffect, StepOrder};
use fastrand::Rng;
use record::events::{By, HistoryEntry, Outcome};

use super::connection::SocketState;
use super::expectation::{self, CaptureSlot, CompiledField, OperationPart, WantedFields};
use super::ids::{AgentId, ConnId, StepId};
use super::script::NS_PER_S;
use super::worker::{Worker, source};
use crate::answer_budget::{BUDGET_BYTES, BudgetShare, FREE_BYTES};
use crate::protocols::{AboutData, Answer, AttemptCause, Progress, Protocol, RequestContext};
use crate::values::{Argument, CompiledTemplate, mix};
use crate::{Error, LoadPurpose};

/// "Not yet", for a moment.
pub const NEVER: u64 = u64::MAX;

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWork {
    /// Waits for its first operation.
    Unborn,
    /// Between two operations.
    Pause,
    /// An operation is open, and an attempt of it goes on.
    Attempt,
    /// An operation is open, between two attempts.
    RetryPause,
    /// Will do nothing more.
    Done,
}

/// Which service an agent goes to. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentService {
    /// Number of the service.
    pub service: u32,
    /// Where the requests to it begin among all.
    pub requests: u32,
}

/// An agent.
pub struct Agent {
    /// From 1, over all threads.
    pub number: u32,
    /// Where it goes.
    pub place: AgentService,
    /// Which of the thread's connections it goes by. It never changes.
    pub connection: ConnId,
    /// Who comes behind it in the line of those who wait on its connection, if anybody does.
    pub behind: AgentId,
    /// What it is doing.
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
    /// Its cycle, from 1.
    pub cycle: u64,
    /// The operation's random number.
    pub draw: u64,
    /// Where its random numbers come from.
    pub random: Rng,
    /// When its operation was to start, or between two operations the next one.
    pub intended_ns: u64,
    /// In an open loop: all that is due before this moment has been counted as open.
    pub counted_ns: u64,
    /// When the last attempt was sent; [`NEVER`] if it was not.
    pub sent_ns: u64,
    /// When the attempt times out.
    pub deadline_ns: u64,
}

impl Agent {
    /// A new agent.
    pub fn new(number: u32, seed: u64, place: AgentService, connection: ConnId) -> Self {
        Self {
            number,
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
            cycle: 0,
            draw: 0,
            random: Rng::with_seed(mix(seed ^ mix(u64::from(number)))),
            intended_ns: 0,
            counted_ns: 0,
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
}

impl<P: Protocol> Worker<P> {
    /// The agent's next operation, which was to start at `intended`.
    pub(super) fn begin(&mut self, id: AgentId, intended: u64, now: u64) {
        let is_too_late = if self.script.schedule.is_fixed() { intended >= self.end_ns } else { self.is_ending(now) };
        if is_too_late || !self.next_step(id) {
            self.agents[id].work = AgentWork::Done;
            self.agents[id].intended_ns = NEVER;
            self.running_agents -= 1;
            return;
        }
        let agent = &mut self.agents[id];
        agent.draw = agent.random.u64(..);
        agent.intended_ns = intended;
        agent.sent_ns = NEVER;
        agent.tries = 0;
        agent.is_unsure = false;
        self.count_open(id);
        self.attempt(id, now);
    }

    /// The next attempt of the agent's operation; waits if its last connect failed only just now.
    pub(super) fn attempt(&mut self, id: AgentId, now: u64) {
        let agent = &mut self.agents[id];
        let connection = &self.connections[agent.connection];
        if connection.is_down() && now < connection.connect_after_ns {
            agent.work = AgentWork::RetryPause;
            let due = connection.connect_after_ns;
            self.wake_at(id, due);
            return;
        }
        agent.work = AgentWork::Attempt;
        agent.tries = agent.tries.saturating_add(1);
        agent.sent_ns = NEVER;
        agent.deadline_ns = now.saturating_add(self.script.timeout_ns);
        agent.has_reprieve = false;
        self.arm_timeout(id);
        self.send(id, now);
    }

    /// The agent's attempt has failed: tries again, or ends the operation.
    pub(super) fn attempt_failed(&mut self, id: AgentId, cause: AttemptCause, now: u64) {
        let agent = &mut self.agents[id];
        agent.is_unsure |= !cause.is_harmless(P::REFUSALS) && P::about_data(cause).is_none();
        self.stats.attempt(self.script.steps[agent.step].name, cause);
        if agent.tries < self.script.tries {
            agent.work = AgentWork::RetryPause;
            let due = now.saturating_add(self.script.wait_ns);
            self.wake_at(id, due);
            return;
        }
        let outcome = if cause == AttemptCause::Timeout { Outcome::Timeout } else { Outcome::Failed };
        let applied = (!agent.is_unsure).then_some(false);
        self.record_end(id, OperationEnd { outcome, read: None, applied }, now);
        self.end_operation(id, outcome, cause, now);
    }

    /// The agent's operation has ended, and its books are closed; `cause` is what became of its last attempt.
    pub(super) fn end_operation(&mut self, id: AgentId, outcome: Outcome, cause: AttemptCause, now: u64) {
        if matches!(self.script.purpose, LoadPurpose::Prepare { .. }) && outcome != Outcome::Ok {
            let agent = &self.agents[id];
            let name = self.script.steps[agent.step].name;
            self.failure.get_or_insert(Error::Prepare {
                operation: self.script.names[name].clone(),
                seq: agent.cycle,
                result: cause.text(P::REFUSALS),
            });
        }
        self.advance_step(id, outcome);
        if self.queue.is_some() {
            self.take_next(id, now);
            return;
        }
        let agent = &mut self.agents[id];
        let mut next = self.script.schedule.next_ns(agent.number - 1, agent.intended_ns, now);
        // Where the starts are fixed it is the attempt that waits, and the operation is late.
        let connection = &self.connections[agent.connection];
        if connection.is_down() && !self.script.schedule.is_fixed() {
            next = next.max(connection.connect_after_ns);
        }
        agent.intended_ns = next;
        if next <= now {
            self.begin(id, next, now);
        } else {
            agent.work = AgentWork::Pause;
            self.wake_at(id, next);
        }
    }

    /// Everything that is recorded at the end of an operation.
    pub(super) fn record_end(&mut self, id: AgentId, ending: OperationEnd, now: u64) {
        let agent = &self.agents[id];
        let step = &self.script.steps[agent.step];
        self.stats.end(step.name, ending.outcome, agent.intended_ns, agent.sent(), now);
        let line = self.history(id, ending, now);
        self.stats.history.extend(line);
    }

    /// After the end of an operation: to the next step of the cycle, or to its end.
    fn advance_step(&mut self, id: AgentId, outcome: Outcome) {
        let agent = &mut self.agents[id];
        agent.begins_cycle = true;
        let goes_on = match outcome {
            Outcome::Ok => true,
            Outcome::Wrong => !self.script.wrong_ends_cycle,
            _ => false,
        };
        if !goes_on {
            return;
        }
        if self.script.order == StepOrder::Cycle
            && let Some(step) = step_from(&self.script.steps, agent.step.index() + 1, agent.cycle)
        {
            agent.step = step;
            agent.begins_cycle = false;
            return;
        }
        self.stats.cycle();
    }

    /// Settles the step of the operation that begins; false if there is none left.
    fn next_step(&mut self, id: AgentId) -> bool {
        if !self.agents[id].begins_cycle {
            return true;
        }
        // Where every step has an `every` above 1, some cycles have no step at all.
        let shortest = self.script.steps.iter().map(|step| step.every).min().unwrap_or(1);
        for _ in 0..shortest {
            if !self.next_cycle(id) {
                return false;
            }
            let agent = &mut self.agents[id];
            let step = match self.script.order {
                StepOrder::Cycle => step_from(&self.script.steps, 0, agent.cycle),
                StepOrder::Mix => {
                    let total = self.script.weights.last().copied().unwrap_or(1);
                    let drawn = agent.random.u64(..total);
                    StepId::at(self.script.weights.partition_point(|sum| *sum <= drawn))
                }
            };
            if let Some(step) = step {
                agent.step = step;
                agent.begins_cycle = false;
                return true;
            }
        }
        false
    }

    /// Counts on, forgets what was kept, takes feed rows; false if all cycles of a preparation are taken.
    fn next_cycle(&mut self, id: AgentId) -> bool {
        let agent = &mut self.agents[id];
        match self.script.purpose {
            LoadPurpose::Measure => agent.cycle += 1,
            LoadPurpose::Prepare { count } => {
                let next = match agent.cycle {
                    0 => u64::from(agent.number),
                    cycle => cycle + u64::from(self.script.agents),
                };
                if next > count {
                    return false;
                }
                agent.cycle = next;
            }
        }
        agent.kept = 0;
        for (number, feed) in self.script.feeds.iter().enumerate() {
            let row = if feed.is_random() {
                agent.random.u32(..feed.rows())
            } else {
                // Dealt out: each thread takes every n-th row, so that none has to ask another.
                let row = self.next_rows[number];
                self.next_rows[number] = row.wrapping_add(self.script.threads);
                row % feed.rows()
            };
            self.rows[id.index() * self.script.feeds.len() + number] = row;
        }
        true
    }
}

/// The first step from `from` on that this cycle does.
fn step_from(steps: &[super::script::CompiledStep], from: usize, cycle: u64) -> Option<StepId> {
    let place = steps.iter().enumerate().skip(from).find(|(_, step)| cycle.is_multiple_of(step.every))?.0;
    StepId::at(place)
}

/// What an answer is to its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerClass {
    /// As it should be.
    Ok,
    /// It contradicts the step's expectations.
    Wrong,
    /// It fails the attempt.
    Failed,
    /// It fails the operation, and nobody can say whether it contradicts anything.
    Undecidable,
}

impl<P: Protocol> Worker<P> {
    /// Bytes came on a connection.
    pub(super) fn received(&mut self, conn: ConnId, bytes: &[u8], now: u64) {
        let connection = &mut self.connections[conn];
        if connection.waiting.asked().is_none() {
            match connection.state {
                SocketState::Greeting(_) => self.greeted(conn, bytes, now),
                _ => self.unsolicited(conn, now),
            }
            return;
        }
        if connection.input.is_empty() {
            if let Some(rest) = self.decode_answers(conn, bytes, false, now).and_then(|used| bytes.get(used..)) {
                self.stash_partial(conn, rest);
            }
            return;
        }
        let mut input = std::mem::take(&mut connection.input);
        if !connection.held.grow_to(input.len() + bytes.len()) {
            self.recycle(input);
            self.reject_answer(conn, AttemptCause::TooLarge, now);
            return;
        }
        input.extend_from_slice(bytes);
        match self.decode_answers(conn, &input, false, now) {
            // It stays where it is: a long answer must not be copied again with each of its pieces.
            Some(used) if used < input.len() => {
                input.drain(..used);
                self.connections[conn].input = input;
            }
            _ => {
                self.connections[conn].held = BudgetShare::default();
                self.recycle(input);
            }
        }
    }

    /// What came on a connection is no answer that could be taken.
    fn reject_answer(&mut self, conn: ConnId, cause: AttemptCause, now: u64) {
        if cause == AttemptCause::TooLarge {
            self.notice_budget();
        }
        self.connection_lost(conn, cause, now);
    }

    fn notice_budget(&mut self) {
        if self.control.is_first_beyond_budget() {
            self.stats.notices.push(format!(
                "the answers that expectations and `keep` look into hold more than {} MiB in all, which is the most that they may: \
                 operations fail with `answer too large`, or keep nothing; use fewer agents, or expect less of long answers",
                BUDGET_BYTES >> 20
            ));
        }
    }

    /// Tells of an answer that is only a redirect, which nobody expected; `ok` as it is.
    fn redirected(&mut self, id: AgentId, input: &[u8]) -> Option<AttemptCause> {
        let agent = &self.agents[id];
        let step = &self.script.steps[agent.step];
        let decoder = &self.connections[agent.connection].decoder;
        let (status, to) = P::redirect(decoder, input).filter(|_| step.status.is_none())?;
        if self.control.is_first_redirect() {
            let to = to.map_or_else(String::new, |to| {
                let to: String = String::from_utf8_lossy(to).chars().filter(|c| !c.is_control()).take(200).collect();
                format!(" to {to}")
            });
            let name = &self.script.names[step.name];
            self.stats.notices.push(format!(
                "`{name}` is answered with a redirect ({status}{to}), which is not followed: the figures are those of the redirect; \
                 give the address that it leads to, or expect the status {status} if the redirect is what is to be measured"
            ));
        }
        Some(AttemptCause::Redirect(status))
    }

    /// The target closed the connection. Some answers end so.
    pub(super) fn ended(&mut self, conn: ConnId, now: u64) {
        let connection = &mut self.connections[conn];
        if let Some(cause) = connection.broken {
            // An answer that ends with its connection is not whole.
            self.connection_lost(conn, cause, now);
        } else if connection.waiting.asked().is_some() {
            let input = std::mem::take(&mut connection.input);
            self.decode_answers(conn, &input, true, now);
            self.recycle(input);
        } else {
            self.connection_lost(conn, AttemptCause::Closed, now);
        }
    }

    /// Nobody can say what such bytes answer, so the connection is not used again.
    fn unsolicited(&mut self, conn: ConnId, now: u64) {
        self.notice_unsolicited();
        self.connection_lost(conn, AttemptCause::BadAnswer, now);
    }

    pub(super) fn notice_unsolicited(&mut self) {
        if !std::mem::replace(&mut self.has_noticed_unsolicited, true) {
            self.stats.notices.push(
                "the target sent bytes that nobody had asked for; connections on which it did were closed".to_owned(),
            );
        }
    }

    /// Looks for answers. Where the last one is not whole: how many bytes need not be shown again.
    fn decode_answers(&mut self, conn: ConnId, input: &[u8], ended: bool, now: u64) -> Option<usize> {
        let generation = self.connections[conn].generation;
        let mut seen = 0;
        loop {
            let connection = &mut self.connections[conn];
            let id = connection.waiting.asked()?;
            let agent = &self.agents[id];
            let asked = RequestContext { request: self.script.request(agent), id: agent.request_id };
            let rest = &input[seen..];
            match P::decode(&asked, &mut connection.decoder, &mut self.memory, rest, ended) {
                Progress::Answer(answer) => {
                    self.answered(id, rest, answer, ended, now);
                    seen = input.len().min(seen + answer.used);
                }
                Progress::Bad(cause) => {
                    self.reject_answer(conn, cause, now);
                    return None;
                }
                Progress::More { .. } if ended => {
                    self.connection_lost(conn, AttemptCause::Closed, now);
                    return None;
                }
                Progress::More { used } => return Some(seen + used),
            }
            // What is left is the next one's, if the connection is still the same.
            if seen == input.len() || self.connections[conn].generation != generation {
                return None;
            }
        }
    }

    /// The beginning of an answer waits for the rest of it.
    fn stash_partial(&mut self, conn: ConnId, piece: &[u8]) {
        if !piece.is_empty() {
            let mut input = self.spare.pop().unwrap_or_default();
            input.extend_from_slice(piece);
            self.connections[conn].input = input;
        }
    }

    /// The agent's attempt is answered, at the beginning of the input.
    fn answered(&mut self, id: AgentId, input: &[u8], answer: Answer, ended: bool, now: u64) {
        let step_number = self.agents[id].step;
        let name = self.script.steps[step_number].name;
        let class = self.check_answer(id, input, answer.result);
        let done = match class {
            AnswerClass::Ok => Some((Outcome::Ok, AttemptCause::Ok)),
            AnswerClass::Wrong => Some((Outcome::Wrong, AttemptCause::Wrong)),
            AnswerClass::Failed | AnswerClass::Undecidable => None,
        };
        if let Some((outcome, cause)) = done {
            let redirected = if outcome == Outcome::Ok { self.redirected(id, input) } else { None };
            self.stats.attempt(name, redirected.unwrap_or(cause));
            let read = self.audited_value(id, input, answer.result);
            let applied = self.applied(id, answer.result);
            // What was sent is told before slots that it was made of are filled anew.
            self.record_end(id, OperationEnd { outcome, read, applied }, now);
            // A refusal that nobody expected leaves what is kept as it was, as it left the data.
            if class == AnswerClass::Ok || answer.result == AttemptCause::Ok {
                for number in 0..self.script.steps[step_number].keeps.len() {
                    self.keep(id, input, number);
                }
            }
        }
        let agent = &mut self.agents[id];
        if class == AnswerClass::Undecidable {
            // Another try would be answered the same.
            agent.tries = self.script.tries;
        }
        self.finish_exchange(id, input.len(), answer, ended, now);
        // What looking took is the generator's time, and none of the next operation's.
        let now = if self.script.steps[step_number].is_costly { self.now() } else { now };
        match done {
            Some((outcome, cause)) => self.end_operation(id, outcome, cause, now),
            None => self.attempt_failed(id, answer.result, now),
        }
    }

    /// The agent's answer has been dealt with, in input of that length: it waits no longer, and the connection is closed if it is not
    /// sound.
    fn finish_exchange(&mut self, id: AgentId, length: usize, answer: Answer, ended: bool, now: u64) {
        let conn = self.agents[id].connection;
        let connection = &mut self.connections[conn];
        connection.is_proven = true;
        connection.waiting.leave(&self.agents);
        P::rest(&mut connection.decoder, &mut self.memory);
        let has_others = connection.waiting.asked().is_some();
        // What follows an answer, or has not been sent yet, may be the others'.
        let is_surplus = answer.used < length && !has_others;
        let is_whole = !is_surplus && !ended && (has_others || !connection.has_unsent());
        if answer.reusable && self.script.keep_alive && is_whole {
            return;
        }
        if is_surplus && !ended {
            self.notice_surplus();
        }
        let others = self.close(conn);
        if answer.reusable {
            self.fail_sent(others, now, |_| AttemptCause::Closed);
        } else {
            self.resend(others, now);
        }
    }

    fn notice_surplus(&mut self) {
        if !std::mem::replace(&mut self.has_noticed_unsolicited, true) {
            self.stats.notices.push(
                "the target sent more than one answer to a request; connections on which it did were closed".to_owned(),
            );
        }
    }

    /// Holds the answer against the step's expectations. An expectation whose slot this cycle did not fill says nothing.
    fn check_answer(&mut self, id: AgentId, input: &[u8], result: AttemptCause) -> AnswerClass {
        let agent = &self.agents[id];
        let step = &self.script.steps[agent.step];
        if step.expects.is_empty() {
            return if result == AttemptCause::Ok { AnswerClass::Ok } else { AnswerClass::Failed };
        }
        let request = self.script.request(agent);
        let decoder = &self.connections[agent.connection].decoder;
        let source = source(agent, id, &self.script, &self.slots, &self.rows);
        let mut holds = |number: usize| {
            let expectation = &step.expects[number];
            if !expectation.check.is_filled(&source) {
                return None;
            }
            let got = expectation.field.read::<P>(request, decoder, input, &mut self.scratch.found);
            Some(got.is_some_and(|got| expectation.check.holds(got, &source, &mut self.scratch.value)))
        };
        let is_expected = result == AttemptCause::Ok || step.status.and_then(&mut holds) == Some(true);
        let is_contradicted = (0..step.expects.len()).any(|number| holds(number) == Some(false));
        match (is_expected, is_contradicted) {
            (true, false) => AnswerClass::Ok,
            (true, true) => AnswerClass::Wrong,
            (false, true) if P::about_data(result).is_some() => {
                // What contradicts may be what an earlier attempt of this very operation has done.
                if agent.is_unsure && P::may_change(request) { AnswerClass::Undecidable } else { AnswerClass::Wrong }
            }
            // A failure counts as an answer only where the step expects that very status.
            (false, _) => AnswerClass::Failed,
        }
    }

    fn keep(&mut self, id: AgentId, input: &[u8], number: usize) {
        let agent = &mut self.agents[id];
        let step = &self.script.steps[agent.step];
        let CaptureSlot { slot, what, matches } = &step.keeps[number];
        let slot = *slot;
        self.scratch.value.clear();
        match what {
            OperationPart::Argument(place) => {
                let source = source(agent, id, &self.script, &self.slots, &self.rows);
                step.arguments[*place].template.write(&source, &mut self.scratch.value);
            }
            OperationPart::Answer(field) => {
                let request = self.script.request(agent);
                let decoder = &self.connections[agent.connection].decoder;
                let Some(found) = field.read::<P>(request, decoder, input, &mut self.scratch.found) else {
                    agent.kept &= !(1 << slot);
                    return;
                };
                self.scratch.value.extend_from_slice(found);
            }
        }
        let part = match matches {
            None => Some(self.scratch.value.as_slice()),
            Some(pattern) => expectation::part(pattern, &self.scratch.value),
        };
        let Some(part) = part else {
            agent.kept &= !(1 << slot);
            return;
        };
        let kept = &mut self.slots[id.index() * self.script.slots + usize::from(slot)];
        let more = part.len().saturating_sub(kept.capacity());
        if more > 0 && part.len() > FREE_BYTES {
            if !self.kept_held.grow_to(self.kept_bytes + more) {
                agent.kept &= !(1 << slot);
                self.notice_budget();
                return;
            }
            self.kept_bytes += more;
        }
        kept.clear();
        kept.extend_from_slice(part);
        agent.kept |= 1 << slot;
    }
}

/// Streams of random numbers; arguments and expectations have those before.
const STREAM: u64 = 2000;

/// What of an audited operation is written down.
#[derive(Debug, Clone)]
pub struct Audit {
    /// The word for what it does.
    pub effect: &'static str,
    /// The empty one without.
    pub space: Option<CompiledTemplate>,
    /// None where it acts on a whole space.
    pub key: Option<CompiledTemplate>,
    /// What was written or read.
    pub value: Option<OperationPart>,
}

/// What is known of the operation.
pub fn known_audit(operation: &Operation, arguments: &[Argument], wants: &mut WantedFields) -> Result<Audit, String> {
    let place = |name: &str| arguments.iter().position(|argument| argument.name == name);
    // The same template gives the same text again.
    let text = |name: &str| place(name).map(|place| arguments[place].template.clone());
    let (effect, value) = match operation.effect {
        Effect::Read => ("read", Some(OperationPart::Answer(CompiledField::compile("value", wants)?))),
        Effect::Write => ("write", place("value").map(OperationPart::Argument)),
        Effect::Remove => ("remove", None),
        Effect::RemoveAll => ("remove_all", None),
        Effect::None => return Err(format!("`{}` cannot be audited: it does nothing to a key", operation.name)),
    };
    Ok(Audit { effect, space: text("space"), key: text("key"), value })
}

/// What the step tells of an operation whose protocol does not know; `text` compiles a template of that stream.
pub fn told_audit(
    told: &AuditAs,
    arguments: &[Argument],
    wants: &mut WantedFields,
    text: impl Fn(&str, u64) -> Result<CompiledTemplate, String>,
) -> Result<Audit, String> {
    let value = told.value.as_deref().map(|what| OperationPart::compile(what, arguments, wants)).transpose()?;
    let effect = match (told.effect, &value) {
        (AuditEffect::Write, Some(OperationPart::Argument(_))) => "write",
        (AuditEffect::Read, Some(OperationPart::Answer(_))) => "read",
        (AuditEffect::Remove, None) => "remove",
        _ => return Err("an audited write has a value of its request, a read one of its answer, a removal none".into()),
    };
    Ok(Audit { effect, space: Some(text(&told.space, STREAM)?), key: Some(text(&told.key, STREAM + 1)?), value })
}

impl<P: Protocol> Worker<P> {
    /// The line of the agent's operation, if it is audited.
    pub(super) fn history(&self, id: AgentId, ending: OperationEnd, now: u64) -> Option<HistoryEntry> {
        let agent = &self.agents[id];
        let step = &self.script.steps[agent.step];
        let audit = step.audit.as_ref()?;
        let source = source(agent, id, &self.script, &self.slots, &self.rows);
        let text = |template: &CompiledTemplate| {
            let mut value = Vec::new();
            template.write(&source, &mut value);
            String::from_utf8_lossy(&value).into_owned()
        };
        let is_measured = self.script.purpose == LoadPurpose::Measure;
        Some(HistoryEntry {
            at_s: now as f64 / NS_PER_S as f64,
            by: if is_measured { By::Load } else { By::Prepare },
            agent: is_measured.then_some(agent.number),
            effect: audit.effect.to_owned(),
            space: audit.space.as_ref().map(text).unwrap_or_default(),
            key: audit.key.as_ref().map(text).unwrap_or_default(),
            value: match &audit.value {
                Some(OperationPart::Argument(place)) => Some(text(&step.arguments[*place].template)),
                Some(OperationPart::Answer(_)) => ending.read,
                None => None,
            },
            outcome: ending.outcome,
            applied: ending.applied,
        })
    }

    /// What an audited read found: the text of a failure is no value.
    fn audited_value(&mut self, id: AgentId, input: &[u8], result: AttemptCause) -> Option<String> {
        let agent = &self.agents[id];
        let step = &self.script.steps[agent.step];
        let Some(OperationPart::Answer(field)) = &step.audit.as_ref()?.value else { return None };
        if result != AttemptCause::Ok {
            return None;
        }
        let request = self.script.request(agent);
        let decoder = &self.connections[agent.connection].decoder;
        let value = field.read::<P>(request, decoder, input, &mut self.scratch.found)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Whether an operation that was answered took effect: a definite refusal did not, whether the step expected it or not. A read
    /// takes effect by telling a value, or that there is none.
    pub(super) fn applied(&self, id: AgentId, result: AttemptCause) -> Option<bool> {
        if result == AttemptCause::Ok {
            return Some(true);
        }
        let agent = &self.agents[id];
        let audit = self.script.steps[agent.step].audit.as_ref();
        let about_data = P::about_data(result);
        if audit.is_some_and(|audit| matches!(audit.value, Some(OperationPart::Answer(_)))) {
            return (about_data == Some(AboutData::Missing)).then_some(true);
        }
        let is_refusal = result.is_harmless(P::REFUSALS) || about_data.is_some();
        (is_refusal && !agent.is_unsure).then_some(false)
    }
}
