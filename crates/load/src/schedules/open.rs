//! Open loop: operations start at a constant rate, whatever became of those before. It must not depend on how fast answers come.
//!
//! Of `agents` agents, number i has its k-th operation intended at `(i + k × agents) / rate`: together they start one every
//! 1 / rate, and each starts evenly. An agent that is still busy then starts it as soon as it is free, and the operation's
//! latency counts from the intended start: what a slow target makes wait shows as latency, and not as a load that slowed down
//! with it (G. Tene, "How NOT to measure latency", 2013; wrk2). With a ramp, agent i joins at `ramp × i / agents` and from then
//! on keeps to the same moments, so that the rate rises in a straight line.

use super::{Due, Schedule};

/// Operations per second are held as operations per so many nanoseconds, in whole numbers: no sum of rounded intervals drifts.
const NS_PER_GS: u128 = 1_000_000_000_000_000_000;

/// The slowest and the fastest rate, operations per second. One operation at least is a nanosecond after the other, so that a moment
/// tells which operation it is.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// An open loop of evenly spaced starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    agents: u32,
    /// Operations in 10⁹ seconds, of all agents.
    per_gs: u64,
    ramp_ns: u64,
    end_ns: u64,
}

impl Open {
    /// So many operations per second in all; agents join over the ramp.
    pub fn new(agents: u32, rate_per_s: f64, ramp_ns: u64, end_ns: u64) -> Self {
        let per_gs = (rate_per_s.clamp(*RATES.start(), *RATES.end()) * 1e9).round() as u64;
        Self { agents: agents.max(1), per_gs, ramp_ns, end_ns }
    }

    /// The intended start of operation `number` of all agents together.
    fn start_ns(&self, number: u128) -> u64 {
        u64::try_from(number * NS_PER_GS / u128::from(self.per_gs)).unwrap_or(u64::MAX)
    }

    /// The first operation of all that is intended at `from_ns` or later.
    fn number_from(&self, from_ns: u64) -> u128 {
        (u128::from(from_ns) * u128::from(self.per_gs)).div_ceil(NS_PER_GS)
    }

    /// The agent's first operation from `number` on.
    fn own_from(&self, agent: u32, number: u128) -> u128 {
        let (agent, agents) = (u128::from(agent), u128::from(self.agents));
        agent + number.saturating_sub(agent).div_ceil(agents) * agents
    }

    fn joins_ns(&self, agent: u32) -> u64 {
        let share = u128::from(self.ramp_ns) * u128::from(agent) / u128::from(self.agents);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl Schedule for Open {
    fn first_ns(&self, agent: u32) -> u64 {
        self.start_ns(self.own_from(agent, self.number_from(self.joins_ns(agent))))
    }

    fn next_ns(&self, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.start_ns(self.number_from(intended_ns) + u128::from(self.agents))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn is_fixed(&self) -> bool {
        true
    }

    fn due(&self, agent: u32, from_ns: u64, until_ns: u64) -> Due {
        let first = self.own_from(agent, self.number_from(from_ns.max(self.joins_ns(agent))));
        let count = self.number_from(until_ns).saturating_sub(first).div_ceil(u128::from(self.agents));
        if count == 0 {
            return Due::default();
        }
        let last = first + (count - 1) * u128::from(self.agents);
        Due {
            count: u64::try_from(count).unwrap_or(u64::MAX),
            first_ns: self.start_ns(first),
            last_ns: self.start_ns(last),
        }
    }
}

#[cfg(test)]
mod tests;
