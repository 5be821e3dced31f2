//! Open loop: operations start at a constant rate, whatever happened before. Agents take them in turn, the n-th goes to agent
//! n modulo their number; one that is still busy starts late, and its latency counts from when it was to start. So a target
//! that cannot keep up shows in latencies, and never in fewer of them. It must not look at how long an operation took.

use super::Schedule;

const PS_PER_NS: u128 = 1_000;
const PS_PER_S: f64 = 1e12;

/// A constant rate over all agents; over the ramp it rises from 0 in a straight line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Agents in all.
    pub agents: u32,
    /// From one operation to the next, picoseconds: fine enough that a thousand million of them are at most half a millisecond off.
    pub period_ps: u64,
    /// Over which the rate rises.
    pub ramp_ns: u64,
    /// When the last operation may start.
    pub end_ns: u64,
}

impl Open {
    /// So many operations per second, above 0.
    pub fn new(agents: u32, rate: f64, ramp_ns: u64, end_ns: u64) -> Self {
        // Saturating, as all such conversions are: one operation in half a year is as good as none. Rounded up, so that of a third
        // of a second the third does not still fall into the second.
        Self { agents: agents.max(1), period_ps: ((PS_PER_S / rate).ceil() as u64).max(1), ramp_ns, end_ns }
    }

    /// When operation `number` (from 0, over all agents) is to start. While the rate rises, `t² / (2 × ramp × period)` operations have
    /// started by the time `t`.
    fn at_ns(&self, number: u128) -> u64 {
        let (period, ramp) = (u128::from(self.period_ps), u128::from(self.ramp_ns) * PS_PER_NS);
        let work = number * period;
        let at = if 2 * work < ramp { (2 * work * ramp).isqrt() } else { work + ramp / 2 };
        u64::try_from(at / PS_PER_NS).unwrap_or(u64::MAX)
    }

    /// The number of the operation that is to start then.
    fn number(&self, at_ns: u64) -> u128 {
        let (period, ramp) = (u128::from(self.period_ps), u128::from(self.ramp_ns) * PS_PER_NS);
        // What was rounded off by whole nanoseconds is rounded back.
        let at = u128::from(at_ns) * PS_PER_NS + PS_PER_NS / 2;
        let work = if at < ramp { at * at / (2 * ramp) } else { at - ramp / 2 };
        (work + period / 2) / period
    }
}

impl Schedule for Open {
    fn agents(&self) -> u32 {
        self.agents
    }

    fn first_ns(&self, agent: u32) -> u64 {
        self.at_ns(u128::from(agent))
    }

    fn next_ns(&self, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.at_ns(self.number(intended_ns) + u128::from(self.agents))
    }

    fn waits_for_answers(&self) -> bool {
        false
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

#[cfg(test)]
mod tests;
