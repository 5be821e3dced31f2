//! Closed loop: each agent starts its next operation when its last operation has ended. A pause
//! after the operation follows from its step.

use super::{Schedule, joins_ns};

/// A closed loop whose agents start evenly over a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    pub agents: u32,
    /// Time over which the agents start.
    pub ramp_ns: u64,
    /// Time from which on no operation starts.
    pub end_ns: u64,
}

impl Schedule for Closed {
    fn first_ns(&self, agent: u32) -> u64 {
        joins_ns(agent, self.agents, self.ramp_ns)
    }

    fn next_ns(&self, _agent: u32, _intended_ns: u64, ended_ns: u64) -> u64 {
        ended_ns
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_start_evenly() {
        let table: [(u32, u64, &[u64]); 4] =
            [(4, 100, &[0, 25, 50, 75]), (3, 100, &[0, 33, 66]), (2, 0, &[0, 0]), (1, 100, &[0])];
        for (agents, ramp_ns, expected) in table {
            let schedule = Closed { agents, ramp_ns, end_ns: 1000 };
            let starts: Vec<u64> = (0..agents).map(|agent| schedule.first_ns(agent)).collect();
            assert_eq!(starts, expected, "{agents} agents over {ramp_ns}");
        }
    }
}
