//! An agent: where it is in its work, and its connection. Plain state, kept small because there may be 50,000 of them; what happens
//! to it is decided in the rooms beside this one.

use fastrand::Rng;
use rustix::fd::OwnedFd;

use crate::protocols::Protocol;
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

/// The state of an agent's connection.
#[derive(Debug)]
pub enum Link {
    /// There is none.
    Down,
    /// On its way.
    Connecting(OwnedFd),
    /// Open.
    Up(OwnedFd),
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
pub struct Agent<P: Protocol> {
    /// From 1, over all threads.
    pub number: u32,
    /// Where it goes.
    pub place: Place,
    /// What it is doing.
    pub work: Work,
    /// The step of its operation, or of the next one.
    pub step: u16,
    /// Whether its next operation begins a cycle.
    pub begins_cycle: bool,
    /// Whether its timeout timer is set. It may be set too early, never too late.
    pub is_timer_set: bool,
    /// Whether an attempt of the operation may have taken effect without our knowing.
    pub is_unsure: bool,
    /// Whether this connection has carried an answer.
    pub is_proven: bool,
    /// Attempts of this operation.
    pub tries: u32,
    /// Counts its connections, so that late events of an old one are recognised.
    pub generation: u32,
    /// Number of the last request.
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
    /// No connect before this moment.
    pub connect_after_ns: u64,
    /// Its connection.
    pub link: Link,
    /// Its decoder.
    pub decoder: P::Decoder,
    /// Bytes of an answer that is not whole.
    pub input: Vec<u8>,
    /// Bytes of a request that the socket did not take yet.
    pub output: Vec<u8>,
}

impl<P: Protocol> Agent<P> {
    /// A new agent.
    pub fn new(number: u32, seed: u64, place: Place) -> Self {
        Self {
            number,
            place,
            work: Work::Unborn,
            step: 0,
            begins_cycle: true,
            is_timer_set: false,
            is_unsure: false,
            is_proven: false,
            tries: 0,
            generation: 0,
            request_id: 0,
            kept: 0,
            cycle: 0,
            draw: 0,
            random: Rng::with_seed(mix(seed ^ mix(u64::from(number)))),
            intended_ns: 0,
            counted_ns: 0,
            sent_ns: NEVER,
            deadline_ns: NEVER,
            connect_after_ns: 0,
            link: Link::Down,
            decoder: P::Decoder::default(),
            input: Vec::new(),
            output: Vec::new(),
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
