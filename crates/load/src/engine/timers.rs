//! A thread's timers: what is due, and what follows from it. They must not read or write a socket.

use super::agent::Work;
use super::events::BATCH;
use super::worker::{HEARTBEAT_NS, Worker};
use crate::protocols::Protocol;

/// After a stall, time to take the answers that came in it before they are given up.
const LOOK_NS: u64 = 1_000_000;

/// What a timer is for; its number follows from it and from the agent.
enum Timer {
    Wake(usize),
    Timeout(usize),
    Heartbeat,
    /// The agent's next operation is due; only where what waits is bounded.
    Arrival(usize),
}

impl<P: Protocol> Worker<P> {
    /// Every agent's first operation, and the heartbeat.
    pub(super) fn set_first_timers(&mut self) {
        for index in 0..self.agents.len() {
            let first = self.script.schedule.first_ns(self.agents[index].number - 1);
            self.agents[index].intended_ns = first;
            let timer = if self.queue.is_some() { Timer::Arrival(index) } else { Timer::Wake(index) };
            self.set_timer(&timer, first);
        }
        self.set_timer(&Timer::Heartbeat, HEARTBEAT_NS);
    }

    pub(super) fn fire_timers(&mut self) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some((number, due)) = self.wheel.pop(now) else { return };
            match self.timer(number) {
                Timer::Heartbeat => {
                    self.tally.late(now - due);
                    self.set_timer(&Timer::Heartbeat, (due + HEARTBEAT_NS).max(now));
                }
                Timer::Wake(index) => {
                    self.tally.late(now - due);
                    self.count_late(index, due, now);
                    self.woken(index, due, now);
                }
                Timer::Timeout(index) => self.timed_out(index, now),
                Timer::Arrival(index) => self.arrived(index, now),
            }
        }
    }

    fn woken(&mut self, index: usize, due: u64, now: u64) {
        match self.agents[index].work {
            Work::Unborn => {
                if !self.is_ending(now) {
                    self.tally.agents += 1;
                }
                self.begin(index, due, now);
            }
            Work::Pause => self.begin(index, due, now),
            Work::RetryPause => self.attempt(index, now),
            Work::Attempt | Work::Done => {}
        }
    }

    /// An agent's timeout is not moved with each operation: it fires early and is set again.
    fn timed_out(&mut self, index: usize, now: u64) {
        let agent = &mut self.agents[index];
        agent.is_timer_set = false;
        if agent.work != Work::Attempt {
            return;
        }
        if agent.deadline_ns.saturating_add(HEARTBEAT_NS) < now && !agent.has_looked {
            // The thread stood still at the deadline. The answer may be waiting in the socket, so there is one more look at it: or
            // else it is the generator that is measured. One: a target may send so much that the thread is always late.
            agent.has_looked = true;
            agent.deadline_ns = now;
            agent.is_timer_set = true;
            self.set_timer(&Timer::Timeout(index), now + LOOK_NS);
        } else if agent.deadline_ns <= now {
            self.give_up(index, now);
        } else {
            let deadline = agent.deadline_ns;
            agent.is_timer_set = true;
            self.set_timer(&Timer::Timeout(index), deadline);
        }
    }

    /// The agent is woken at that moment.
    pub(super) fn wake_at(&mut self, index: usize, due: u64) {
        self.set_timer(&Timer::Wake(index), due);
    }

    /// The agent's next operation is due at that moment.
    pub(super) fn expect_arrival(&mut self, index: usize, due: u64) {
        self.set_timer(&Timer::Arrival(index), due);
    }

    /// The agent's attempt times out at its deadline.
    pub(super) fn arm_timeout(&mut self, index: usize) {
        let agent = &mut self.agents[index];
        if !agent.is_timer_set {
            agent.is_timer_set = true;
            let deadline = agent.deadline_ns;
            self.set_timer(&Timer::Timeout(index), deadline);
        }
    }

    fn set_timer(&mut self, timer: &Timer, due: u64) {
        let number = match timer {
            Timer::Wake(index) => index * 2,
            Timer::Timeout(index) => index * 2 + 1,
            Timer::Heartbeat => self.agents.len() * 2,
            Timer::Arrival(index) => self.agents.len() * 2 + 1 + index,
        };
        self.wheel.set(u32::try_from(number).unwrap_or(u32::MAX), due);
    }

    fn timer(&self, number: u32) -> Timer {
        let number = number as usize;
        if let Some(index) = number.checked_sub(self.agents.len() * 2 + 1) {
            return Timer::Arrival(index);
        }
        match (number / 2, number % 2) {
            (index, _) if index == self.agents.len() => Timer::Heartbeat,
            (index, 0) => Timer::Wake(index),
            (index, _) => Timer::Timeout(index),
        }
    }
}
