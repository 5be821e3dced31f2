//! The life of an operation: begun, attempted, failed and retried, ended, and the step that follows. It must not read or write a
//! socket.

use experiment::plan::Order;
use record::events::Outcome;

use super::agent::{NEVER, Work};
use super::worker::Worker;
use crate::protocols::{Cause, Protocol};
use crate::{Error, Purpose};

/// How an operation ended.
pub struct Ending {
    /// What became of it.
    pub outcome: Outcome,
    /// What an audited read found.
    pub read: Option<String>,
    /// Whether it took effect, if that is known.
    pub applied: Option<bool>,
}

impl<P: Protocol> Worker<P> {
    /// The agent's next operation, which was to start at `intended`.
    pub(super) fn begin(&mut self, index: usize, intended: u64, now: u64) {
        let is_too_late = if self.script.schedule.is_fixed() { intended >= self.end_ns } else { self.is_ending(now) };
        if is_too_late || !self.next_step(index) {
            self.agents[index].work = Work::Done;
            self.agents[index].intended_ns = NEVER;
            self.living -= 1;
            return;
        }
        let agent = &mut self.agents[index];
        agent.draw = agent.random.u64(..);
        agent.intended_ns = intended;
        agent.sent_ns = NEVER;
        agent.tries = 0;
        agent.is_unsure = false;
        self.count_open(index);
        self.attempt(index, now);
    }

    /// The next attempt of the agent's operation; waits if its last connect failed only just now.
    pub(super) fn attempt(&mut self, index: usize, now: u64) {
        let agent = &mut self.agents[index];
        let connection = &self.connections[agent.connection as usize];
        if connection.is_down() && now < connection.connect_after_ns {
            agent.work = Work::RetryPause;
            let due = connection.connect_after_ns;
            self.wake_at(index, due);
            return;
        }
        agent.work = Work::Attempt;
        agent.tries = agent.tries.saturating_add(1);
        agent.sent_ns = NEVER;
        agent.deadline_ns = now.saturating_add(self.script.timeout_ns);
        agent.has_looked = false;
        self.arm_timeout(index);
        self.send(index, now);
    }

    /// The agent's attempt has failed: tries again, or ends the operation.
    pub(super) fn attempt_failed(&mut self, index: usize, cause: Cause, now: u64) {
        let agent = &mut self.agents[index];
        agent.is_unsure |= !cause.is_harmless(P::REFUSALS) && P::about_data(cause).is_none();
        self.tally.attempt(self.script.steps[usize::from(agent.step)].name, cause);
        if agent.tries < self.script.tries {
            agent.work = Work::RetryPause;
            let due = now.saturating_add(self.script.wait_ns);
            self.wake_at(index, due);
            return;
        }
        let outcome = if cause == Cause::Timeout { Outcome::Timeout } else { Outcome::Failed };
        let applied = (!agent.is_unsure).then_some(false);
        self.close_books(index, Ending { outcome, read: None, applied }, now);
        self.go_on(index, outcome, cause, now);
    }

    /// The agent's operation has ended, and its books are closed; `cause` is what became of its last attempt.
    pub(super) fn go_on(&mut self, index: usize, outcome: Outcome, cause: Cause, now: u64) {
        if matches!(self.script.purpose, Purpose::Prepare { .. }) && outcome != Outcome::Ok {
            let agent = &self.agents[index];
            let name = self.script.steps[usize::from(agent.step)].name;
            self.failure.get_or_insert(Error::Prepare {
                operation: self.script.names[name].clone(),
                seq: agent.cycle,
                result: cause.text(P::REFUSALS),
            });
        }
        self.move_on(index, outcome);
        if self.queue.is_some() {
            self.take_next(index, now);
            return;
        }
        let agent = &mut self.agents[index];
        let mut next = self.script.schedule.next_ns(agent.number - 1, agent.intended_ns, now);
        // Where the starts are fixed it is the attempt that waits, and the operation is late.
        let connection = &self.connections[agent.connection as usize];
        if connection.is_down() && !self.script.schedule.is_fixed() {
            next = next.max(connection.connect_after_ns);
        }
        agent.intended_ns = next;
        if next <= now {
            self.begin(index, next, now);
        } else {
            agent.work = Work::Pause;
            self.wake_at(index, next);
        }
    }

    /// Everything that is recorded at the end of an operation.
    pub(super) fn close_books(&mut self, index: usize, ending: Ending, now: u64) {
        let agent = &self.agents[index];
        let step = &self.script.steps[usize::from(agent.step)];
        self.tally.end(step.name, ending.outcome, agent.intended_ns, agent.sent(), now);
        let line = self.history(index, ending, now);
        self.tally.history.extend(line);
    }

    /// After the end of an operation: to the next step of the cycle, or to its end.
    fn move_on(&mut self, index: usize, outcome: Outcome) {
        let agent = &mut self.agents[index];
        agent.begins_cycle = true;
        let goes_on = match outcome {
            Outcome::Ok => true,
            Outcome::Wrong => !self.script.wrong_ends_cycle,
            _ => false,
        };
        if !goes_on {
            return;
        }
        if self.script.order == Order::Cycle
            && let Some(step) = step_from(&self.script.steps, usize::from(agent.step) + 1, agent.cycle)
        {
            agent.step = step;
            agent.begins_cycle = false;
            return;
        }
        self.tally.cycle();
    }

    /// Settles the step of the operation that begins; false if there is none left.
    fn next_step(&mut self, index: usize) -> bool {
        if !self.agents[index].begins_cycle {
            return true;
        }
        // Where every step has an `every` above 1, some cycles have no step at all.
        let shortest = self.script.steps.iter().map(|step| step.every).min().unwrap_or(1);
        for _ in 0..shortest {
            if !self.next_cycle(index) {
                return false;
            }
            let agent = &mut self.agents[index];
            let step = match self.script.order {
                Order::Cycle => step_from(&self.script.steps, 0, agent.cycle),
                Order::Mix => {
                    let total = self.script.weights.last().copied().unwrap_or(1);
                    let drawn = agent.random.u64(..total);
                    u16::try_from(self.script.weights.partition_point(|sum| *sum <= drawn)).ok()
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
    fn next_cycle(&mut self, index: usize) -> bool {
        let agent = &mut self.agents[index];
        match self.script.purpose {
            Purpose::Measure => agent.cycle += 1,
            Purpose::Prepare { count } => {
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
            self.rows[index * self.script.feeds.len() + number] = row;
        }
        true
    }
}

/// The first step from `from` on that this cycle does.
fn step_from(steps: &[super::script::Step], from: usize, cycle: u64) -> Option<u16> {
    let place = steps.iter().enumerate().skip(from).find(|(_, step)| cycle.is_multiple_of(step.every))?.0;
    u16::try_from(place).ok()
}
