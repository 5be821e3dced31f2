//! What came from the target: put together, decoded, held against the step's expectations, kept. It must not retry or schedule.

use record::events::Outcome;

use super::agent::{NEVER, Work};
use super::operation::Ending;
use super::script::{Keep, Part};
use super::worker::{Worker, source};
use crate::protocols::{Answer, Asked, Cause, Progress, Protocol};

/// What an answer is to its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// As it should be.
    Ok,
    /// It contradicts the step's expectations.
    Wrong,
    /// It fails the attempt.
    Failed,
    /// It fails the operation, and nobody can say whether it contradicts anything.
    Moot,
}

impl<P: Protocol> Worker<P> {
    /// Bytes came on the agent's connection.
    pub(super) fn received(&mut self, index: usize, bytes: &[u8], now: u64) {
        if !self.is_asked(index) {
            self.unasked(index, now);
            return;
        }
        if self.agents[index].input.is_empty() {
            self.look(index, bytes, false, now);
        } else {
            let mut input = std::mem::take(&mut self.agents[index].input);
            input.extend_from_slice(bytes);
            self.look(index, &input, false, now);
            self.give_back(input);
        }
    }

    /// The target closed the agent's connection. Some answers end so.
    pub(super) fn ended(&mut self, index: usize, now: u64) {
        if self.is_asked(index) {
            let input = std::mem::take(&mut self.agents[index].input);
            self.look(index, &input, true, now);
            self.give_back(input);
        } else {
            self.link_lost(index, Cause::Closed, now);
        }
    }

    fn is_asked(&self, index: usize) -> bool {
        self.agents[index].work == Work::Attempt && self.agents[index].sent_ns != NEVER
    }

    /// Nobody can say what such bytes answer, so the connection is not used again.
    fn unasked(&mut self, index: usize, now: u64) {
        if !std::mem::replace(&mut self.has_told_of_unasked, true) {
            self.tally.notices.push(
                "the target sent bytes that nobody had asked for; connections on which it did were closed".to_owned(),
            );
        }
        self.link_lost(index, Cause::BadAnswer, now);
    }

    fn look(&mut self, index: usize, input: &[u8], ended: bool, now: u64) {
        let agent = &mut self.agents[index];
        let asked = Asked { request: self.script.request(agent), id: agent.request_id };
        match P::decode(&asked, &mut agent.decoder, &mut self.memory, input, ended) {
            Progress::Answer(answer) => self.answered(index, input, answer, ended, now),
            Progress::Bad(cause) => self.link_lost(index, cause, now),
            Progress::More { .. } if ended => self.link_lost(index, Cause::Closed, now),
            Progress::More { used } => {
                if used < input.len() {
                    let mut rest = self.spare.pop().unwrap_or_default();
                    rest.extend_from_slice(&input[used..]);
                    self.agents[index].input = rest;
                }
            }
        }
    }

    fn answered(&mut self, index: usize, input: &[u8], answer: Answer, ended: bool, now: u64) {
        let step_number = usize::from(self.agents[index].step);
        let name = self.script.steps[step_number].name;
        let judged = self.judge(index, input, answer.result);
        let done = match judged {
            Judged::Ok => Some((Outcome::Ok, Cause::Ok)),
            Judged::Wrong => Some((Outcome::Wrong, Cause::Wrong)),
            Judged::Failed | Judged::Moot => None,
        };
        if let Some((outcome, cause)) = done {
            self.tally.attempt(name, cause);
            let read = self.audited_value(index, input, answer.result);
            let applied = self.applied(index, answer.result);
            // What was sent is told before slots that it was made of are filled anew.
            self.close_books(index, Ending { outcome, read, applied }, now);
            // A refusal that nobody expected leaves what is kept as it was, as it left the data.
            if judged == Judged::Ok || answer.result == Cause::Ok {
                for number in 0..self.script.steps[step_number].keeps.len() {
                    self.keep(index, input, number);
                }
            }
        }
        let agent = &mut self.agents[index];
        agent.is_proven = true;
        if judged == Judged::Moot {
            // Another try would be answered the same.
            agent.tries = self.script.tries;
        }
        P::rest(&mut agent.decoder, &mut self.memory);
        let is_sound = answer.reusable && answer.used == input.len() && !ended && agent.output.is_empty();
        if answer.used < input.len() && !ended {
            self.tell_of_surplus();
        }
        if !is_sound {
            self.close(index);
        }
        match done {
            Some((outcome, cause)) => self.go_on(index, outcome, cause, now),
            None => self.attempt_failed(index, answer.result, now),
        }
    }

    fn tell_of_surplus(&mut self) {
        if !std::mem::replace(&mut self.has_told_of_unasked, true) {
            self.tally.notices.push(
                "the target sent more than one answer to a request; connections on which it did were closed".to_owned(),
            );
        }
    }

    /// Holds the answer against the step's expectations. An expectation whose slot this cycle did not fill says nothing.
    fn judge(&mut self, index: usize, input: &[u8], result: Cause) -> Judged {
        let agent = &self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        if step.expects.is_empty() {
            return if result == Cause::Ok { Judged::Ok } else { Judged::Failed };
        }
        let request = self.script.request(agent);
        let source = source(agent, index, &self.script, &self.slots, &self.rows);
        let mut holds = |number: usize| {
            let expectation = &step.expects[number];
            if !expectation.value.is_filled(&source) {
                return None;
            }
            self.scratch.field.clear();
            let got = P::field(request, &agent.decoder, expectation.want, input, &mut self.scratch.field);
            if let Some(expected) = expectation.value.as_slot(&source) {
                return Some(got == Some(expected));
            }
            self.scratch.value.clear();
            expectation.value.write(&source, &mut self.scratch.value);
            Some(got == Some(self.scratch.value.as_slice()))
        };
        let is_expected = result == Cause::Ok || step.status.and_then(&mut holds) == Some(true);
        let is_contradicted = (0..step.expects.len()).any(|number| holds(number) == Some(false));
        match (is_expected, is_contradicted) {
            (true, false) => Judged::Ok,
            (true, true) => Judged::Wrong,
            (false, true) if P::about_data(result).is_some() => {
                // What contradicts may be what an earlier attempt of this very operation has done.
                if agent.is_unsure && P::may_change(request) { Judged::Moot } else { Judged::Wrong }
            }
            // A failure counts as an answer only where the step expects that very status.
            (false, _) => Judged::Failed,
        }
    }

    fn keep(&mut self, index: usize, input: &[u8], number: usize) {
        let agent = &mut self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        let Keep { slot, what } = step.keeps[number];
        self.scratch.value.clear();
        self.scratch.field.clear();
        match what {
            Part::Argument(place) => {
                let source = source(agent, index, &self.script, &self.slots, &self.rows);
                step.arguments[place].template.write(&source, &mut self.scratch.value);
            }
            Part::Answer(want) => {
                let request = self.script.request(agent);
                let Some(field) = P::field(request, &agent.decoder, want, input, &mut self.scratch.field) else {
                    agent.kept &= !(1 << slot);
                    return;
                };
                self.scratch.value.extend_from_slice(field);
            }
        }
        let kept = &mut self.slots[index * self.script.slots + usize::from(slot)];
        kept.clear();
        kept.extend_from_slice(&self.scratch.value);
        agent.kept |= 1 << slot;
    }
}
