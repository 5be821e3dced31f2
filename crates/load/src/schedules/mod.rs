//! When operations start. Arithmetic on nanoseconds since load start, nothing else: no clock is read and no timer is set here.
//!
//! In an open loop the starts of all agents together are one sequence, and agents take them in turn: each start has its agent before
//! anything is known of how fast answers come. So no agent has to ask another, and two starts that lie close together are
//! different agents', which do not wait for each other. Any start can be worked out by itself: none is held in memory but those of
//! a recorded schedule.

use std::path::Path;

use experiment::plan::{Load, Rate};

use crate::Error;

pub mod closed;
pub mod constant;
pub mod poisson;
pub mod replay;
pub mod stages;

/// Decides when an agent's operations are to start; latency counts from these moments. Agents count from 0.
pub trait Schedule: Send + Sync {
    /// The intended start of the agent's first operation.
    fn first_ns(&self, agent: u32) -> u64;

    /// The intended start of the agent's operation after the one that was intended at `intended_ns` and ended at `ended_ns`; later
    /// than any moment if there is none.
    fn next_ns(&self, agent: u32, intended_ns: u64, ended_ns: u64) -> u64;

    /// No operation is intended at or after this moment.
    fn end_ns(&self) -> u64;

    /// Whether the starts are fixed beforehand, so that an operation is due even if its agent is busy.
    fn is_fixed(&self) -> bool {
        false
    }

    /// Hands over the agent's operations that are intended from `from_ns` on and before `until_ns`, whatever became of those before, in
    /// order and in rows that are evenly spaced. None where an agent decides only when it is free.
    fn due(&self, _agent: u32, _from_ns: u64, _until_ns: u64, _take: &mut dyn FnMut(Due)) {}

    /// What a reader has to know of it.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// The schedule of a load; `closed` is what it would be without a rate, and has its agents, ramp and end. A recorded schedule is
/// read from `files`.
///
/// # Errors
/// If a recorded schedule cannot be read.
pub fn of(load: &Load, closed: closed::Closed, seed: u64, files: &Path) -> Result<Box<dyn Schedule>, Error> {
    let closed::Closed { agents, ramp_ns, end_ns, .. } = closed;
    Ok(match &load.rate {
        None => Box::new(closed),
        Some(Rate::Constant(per_s)) => Box::new(constant::Constant::new(agents, *per_s, ramp_ns, end_ns)),
        Some(Rate::Poisson { poisson }) => Box::new(poisson::Poisson::new(agents, *poisson, ramp_ns, end_ns, seed)),
        Some(Rate::Replay { replay, stretch }) => {
            Box::new(replay::Replay::read(&files.join(replay), *stretch, agents, end_ns)?)
        }
        Some(Rate::Stages(given)) => Box::new(stages::Stages::new(agents, given, end_ns)),
    })
}

/// Where agents take starts in turn: the first start from `number` on that is the agent's.
fn own_from(agent: u32, agents: u32, number: u128) -> u128 {
    let (agent, agents) = (u128::from(agent), u128::from(agents));
    agent + number.saturating_sub(agent).div_ceil(agents) * agents
}

/// When an agent joins, of so many over a ramp.
fn joins_ns(agent: u32, agents: u32, ramp_ns: u64) -> u64 {
    let share = u128::from(ramp_ns) * u128::from(agent) / u128::from(agents.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Operations of an agent, evenly spaced in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// How many.
    pub count: u64,
    /// Intended start of the first.
    pub first_ns: u64,
    /// Intended start of the last.
    pub last_ns: u64,
}

impl Due {
    /// A single operation.
    pub fn one(at_ns: u64) -> Self {
        Self { count: 1, first_ns: at_ns, last_ns: at_ns }
    }

    /// Intended start of the operation at that place, from 0; true to 2 ns.
    pub fn at_ns(&self, place: u64) -> u64 {
        let length = u128::from(self.last_ns - self.first_ns);
        let share = length * u128::from(place) / u128::from(self.count.saturating_sub(1).max(1));
        self.first_ns + u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// For how long they have been due by `now_ns`, nanoseconds in all; true to 2 ns for each.
    pub fn waited_ns(&self, now_ns: u64) -> i64 {
        let by_pairs = 2 * i128::from(now_ns) - i128::from(self.first_ns) - i128::from(self.last_ns);
        let waited = i128::from(self.count) * by_pairs / 2;
        i64::try_from(waited).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests;
