//! When operations start. Arithmetic on nanoseconds since load start, nothing else: no clock is read and no timer is set here.

pub mod closed;
pub mod open;

use closed::Closed;
use open::Open;

/// Decides when an agent's operations are to start; latency counts from these moments.
pub trait Schedule {
    /// Agents in all.
    fn agents(&self) -> u32;

    /// The intended start of the agent's first operation; agents count from 0.
    fn first_ns(&self, agent: u32) -> u64;

    /// The intended start of the operation after the one that was intended at `intended_ns` and ended at `ended_ns`.
    fn next_ns(&self, intended_ns: u64, ended_ns: u64) -> u64;

    /// Whether an operation is only due once the one before has ended: then nothing is due that has not been begun.
    fn waits_for_answers(&self) -> bool;

    /// No operation is to start at or after this moment.
    fn end_ns(&self) -> u64;
}

/// The schedule of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// The next when the last is done.
    Closed(Closed),
    /// At a rate.
    Open(Open),
}

macro_rules! either {
    ($self:ident, $schedule:ident => $does:expr) => {
        match $self {
            Self::Closed($schedule) => $does,
            Self::Open($schedule) => $does,
        }
    };
}

impl Schedule for Pacing {
    fn agents(&self) -> u32 {
        either!(self, schedule => schedule.agents())
    }

    fn first_ns(&self, agent: u32) -> u64 {
        either!(self, schedule => schedule.first_ns(agent))
    }

    fn next_ns(&self, intended_ns: u64, ended_ns: u64) -> u64 {
        either!(self, schedule => schedule.next_ns(intended_ns, ended_ns))
    }

    fn waits_for_answers(&self) -> bool {
        either!(self, schedule => schedule.waits_for_answers())
    }

    fn end_ns(&self) -> u64 {
        either!(self, schedule => schedule.end_ns())
    }
}
