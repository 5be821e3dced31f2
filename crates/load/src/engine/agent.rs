//! An agent: where it is in its work. Plain state, kept small because there may be 50,000 of them; what happens to it is decided in
//! the rooms beside this one. It must not know a socket: that is its connection's.

use fastrand::Rng;

use super::connection::NOBODY;
use crate::values::mix;

/// "Not yet", for a moment.
pub const NEVER: u64 = u64::MAX;

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
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
pub struct Place {
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
    pub place: Place,
    /// Which of the thread's connections it goes by. It never changes.
    pub connection: u32,
    /// Who comes behind it in the line of those who wait on its connection, or [`NOBODY`].
    pub behind: u32,
    /// What it is doing.
    pub work: Work,
    /// The step of its operation, or of the next one.
    pub step: u16,
    /// Whether its next operation begins a cycle.
    pub begins_cycle: bool,
    /// Whether its timeout timer is set. It may be set too early, never too late.
    pub is_timer_set: bool,
    /// Whether its answer was looked for once more after the deadline, because the thread was late.
    pub has_looked: bool,
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
    /// A new agent; `connection` is the number of its connection in its thread.
    pub fn new(number: u32, seed: u64, place: Place, connection: u32) -> Self {
        Self {
            number,
            place,
            connection,
            behind: NOBODY,
            work: Work::Unborn,
            step: 0,
            begins_cycle: true,
            is_timer_set: false,
            has_looked: false,
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
        matches!(self.work, Work::Attempt | Work::RetryPause)
    }

    /// When the last attempt was sent, if it was.
    pub fn sent(&self) -> Option<u64> {
        (self.sent_ns != NEVER).then_some(self.sent_ns)
    }
}
