//! What came from the target: put together, decoded, held against the step's expectations, kept. It must not retry or schedule.

use record::events::Outcome;

use super::connection::Link;
use super::expectation::{self, Keep};
use super::field::Part;
use super::operation::Ending;
use super::worker::{Worker, source};
use crate::answer_budget::{BUDGET_BYTES, FREE_BYTES, Held};
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
    /// Bytes came on a connection.
    pub(super) fn received(&mut self, number: usize, bytes: &[u8], now: u64) {
        let connection = &mut self.connections[number];
        if connection.waiting.asked().is_none() {
            match connection.link {
                Link::Greeting(_) => self.greeted(number, bytes, now),
                _ => self.unasked(number, now),
            }
            return;
        }
        if connection.input.is_empty() {
            if let Some(rest) = self.look(number, bytes, false, now).and_then(|used| bytes.get(used..)) {
                self.put_by(number, rest);
            }
            return;
        }
        let mut input = std::mem::take(&mut connection.input);
        if !connection.held.grow_to(input.len() + bytes.len()) {
            self.give_back(input);
            self.bad(number, Cause::TooLarge, now);
            return;
        }
        input.extend_from_slice(bytes);
        match self.look(number, &input, false, now) {
            // It stays where it is: a long answer must not be copied again with each of its pieces.
            Some(used) if used < input.len() => {
                input.drain(..used);
                self.connections[number].input = input;
            }
            _ => {
                self.connections[number].held = Held::default();
                self.give_back(input);
            }
        }
    }

    /// What came on a connection is no answer that could be taken.
    fn bad(&mut self, number: usize, cause: Cause, now: u64) {
        if cause == Cause::TooLarge {
            self.tell_of_budget();
        }
        self.link_lost(number, cause, now);
    }

    fn tell_of_budget(&mut self) {
        if self.control.is_first_beyond_budget() {
            self.tally.notices.push(format!(
                "the answers that expectations and `keep` look into hold more than {} MiB in all, which is the most that they may: \
                 operations fail with `answer too large`, or keep nothing; use fewer agents, or expect less of long answers",
                BUDGET_BYTES >> 20
            ));
        }
    }

    /// Tells of an answer that is only a redirect, which nobody expected; `ok` as it is.
    fn redirected(&mut self, index: usize, input: &[u8]) -> Option<Cause> {
        let agent = &self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        let decoder = &self.connections[agent.connection as usize].decoder;
        let (status, to) = P::redirect(decoder, input).filter(|_| step.status.is_none())?;
        if self.control.is_first_redirect() {
            let to = to.map_or_else(String::new, |to| {
                let to: String = String::from_utf8_lossy(to).chars().filter(|c| !c.is_control()).take(200).collect();
                format!(" to {to}")
            });
            let name = &self.script.names[step.name];
            self.tally.notices.push(format!(
                "`{name}` is answered with a redirect ({status}{to}), which is not followed: the figures are those of the redirect; \
                 give the address that it leads to, or expect the status {status} if the redirect is what is to be measured"
            ));
        }
        Some(Cause::Redirect(status))
    }

    /// The target closed the connection. Some answers end so.
    pub(super) fn ended(&mut self, number: usize, now: u64) {
        let connection = &mut self.connections[number];
        if let Some(cause) = connection.broken {
            // An answer that ends with its connection is not whole.
            self.link_lost(number, cause, now);
        } else if connection.waiting.asked().is_some() {
            let input = std::mem::take(&mut connection.input);
            self.look(number, &input, true, now);
            self.give_back(input);
        } else {
            self.link_lost(number, Cause::Closed, now);
        }
    }

    /// Nobody can say what such bytes answer, so the connection is not used again.
    fn unasked(&mut self, number: usize, now: u64) {
        self.tell_of_unasked();
        self.link_lost(number, Cause::BadAnswer, now);
    }

    pub(super) fn tell_of_unasked(&mut self) {
        if !std::mem::replace(&mut self.has_told_of_unasked, true) {
            self.tally.notices.push(
                "the target sent bytes that nobody had asked for; connections on which it did were closed".to_owned(),
            );
        }
    }

    /// Looks for answers. Where the last one is not whole: how many bytes need not be shown again.
    fn look(&mut self, number: usize, input: &[u8], ended: bool, now: u64) -> Option<usize> {
        let generation = self.connections[number].generation;
        let mut seen = 0;
        loop {
            let connection = &mut self.connections[number];
            let index = connection.waiting.asked()?;
            let agent = &self.agents[index];
            let asked = Asked { request: self.script.request(agent), id: agent.request_id };
            let rest = &input[seen..];
            match P::decode(&asked, &mut connection.decoder, &mut self.memory, rest, ended) {
                Progress::Answer(answer) => {
                    self.answered(index, rest, answer, ended, now);
                    seen = input.len().min(seen + answer.used);
                }
                Progress::Bad(cause) => {
                    self.bad(number, cause, now);
                    return None;
                }
                Progress::More { .. } if ended => {
                    self.link_lost(number, Cause::Closed, now);
                    return None;
                }
                Progress::More { used } => return Some(seen + used),
            }
            // What is left is the next one's, if the connection is still the same.
            if seen == input.len() || self.connections[number].generation != generation {
                return None;
            }
        }
    }

    /// The beginning of an answer waits for the rest of it.
    fn put_by(&mut self, number: usize, piece: &[u8]) {
        if !piece.is_empty() {
            let mut input = self.spare.pop().unwrap_or_default();
            input.extend_from_slice(piece);
            self.connections[number].input = input;
        }
    }

    /// The agent's attempt is answered, at the beginning of the input.
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
            let redirected = if outcome == Outcome::Ok { self.redirected(index, input) } else { None };
            self.tally.attempt(name, redirected.unwrap_or(cause));
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
        if judged == Judged::Moot {
            // Another try would be answered the same.
            agent.tries = self.script.tries;
        }
        self.settle(index, input.len(), answer, ended, now);
        // What looking took is the generator's time, and none of the next operation's.
        let now = if self.script.steps[step_number].looks_closely { self.now() } else { now };
        match done {
            Some((outcome, cause)) => self.go_on(index, outcome, cause, now),
            None => self.attempt_failed(index, answer.result, now),
        }
    }

    /// The agent's answer has been dealt with, in input of that length: it waits no longer, and the connection is closed if it is not
    /// sound.
    fn settle(&mut self, index: usize, length: usize, answer: Answer, ended: bool, now: u64) {
        let number = self.agents[index].connection as usize;
        let connection = &mut self.connections[number];
        connection.is_proven = true;
        connection.waiting.leave(&self.agents);
        P::rest(&mut connection.decoder, &mut self.memory);
        let has_others = connection.waiting.asked().is_some();
        // What follows an answer, or has not been sent yet, may be the others'.
        let is_surplus = answer.used < length && !has_others;
        let is_whole = !is_surplus && !ended && (has_others || !connection.has_unwritten());
        if answer.reusable && self.script.keep_alive && is_whole {
            return;
        }
        if is_surplus && !ended {
            self.tell_of_surplus();
        }
        let others = self.close(number);
        if answer.reusable {
            self.fail_those_who_asked(others, now, |_| Cause::Closed);
        } else {
            self.ask_again(others, now);
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
        let decoder = &self.connections[agent.connection as usize].decoder;
        let source = source(agent, index, &self.script, &self.slots, &self.rows);
        let mut holds = |number: usize| {
            let expectation = &step.expects[number];
            if !expectation.check.is_filled(&source) {
                return None;
            }
            let got = expectation.field.read::<P>(request, decoder, input, &mut self.scratch.found);
            Some(got.is_some_and(|got| expectation.check.holds(got, &source, &mut self.scratch.value)))
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
        let Keep { slot, what, matches } = &step.keeps[number];
        let slot = *slot;
        self.scratch.value.clear();
        match what {
            Part::Argument(place) => {
                let source = source(agent, index, &self.script, &self.slots, &self.rows);
                step.arguments[*place].template.write(&source, &mut self.scratch.value);
            }
            Part::Answer(field) => {
                let request = self.script.request(agent);
                let decoder = &self.connections[agent.connection as usize].decoder;
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
        let kept = &mut self.slots[index * self.script.slots + usize::from(slot)];
        let more = part.len().saturating_sub(kept.capacity());
        if more > 0 && part.len() > FREE_BYTES {
            if !self.kept_held.grow_to(self.kept_bytes + more) {
                agent.kept &= !(1 << slot);
                self.tell_of_budget();
                return;
            }
            self.kept_bytes += more;
        }
        kept.clear();
        kept.extend_from_slice(part);
        agent.kept |= 1 << slot;
    }
}
