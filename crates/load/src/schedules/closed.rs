//! Closed loop: each agent starts its next operation when its last operation has ended and a think
//! time has passed.

use wire::values::mix;

use super::{Schedule, joins_ns};

/// A closed loop whose agents start evenly over a ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closed {
    pub agents: u32,
    /// Time over which the agents start.
    pub ramp_ns: u64,
    /// An agent's pause between operations.
    pub think_ns: u64,
    /// Percentage by which a pause may be shorter or longer than `think_ns`, drawn evenly. Without
    /// a spread, agents that had to wait together would continue in step.
    pub spread_pct: f64,
    /// Time from which on no operation starts.
    pub end_ns: u64,
}

impl Schedule for Closed {
    fn first_ns(&self, agent: u32) -> u64 {
        joins_ns(agent, self.agents, self.ramp_ns)
    }

    fn next_ns(&self, _agent: u32, _intended_ns: u64, ended_ns: u64) -> u64 {
        if self.spread_pct == 0.0 {
            return ended_ns.saturating_add(self.think_ns);
        }
        // The end time in nanoseconds serves as random seed: it differs from agent to agent.
        ended_ns.saturating_add(spread_ns(self.think_ns, self.spread_pct, mix(ended_ns)))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

/// Returns a pause drawn evenly from `pause_ns` ± `spread_pct` percent. `draw` supplies the random
/// bits.
pub fn spread_ns(pause_ns: u64, spread_pct: f64, draw: u64) -> u64 {
    let drawn = (draw >> 11) as f64 / (1_u64 << 53) as f64;
    (pause_ns as f64 * (1.0 + spread_pct / 100.0 * (2.0 * drawn - 1.0))) as u64
}

#[cfg(test)]
mod tests {
    //! Tests of starts over the ramp, and of the pause.

    use super::*;

    #[test]
    fn agents_start_evenly() {
        let table: [(u32, u64, &[u64]); 4] =
            [(4, 100, &[0, 25, 50, 75]), (3, 100, &[0, 33, 66]), (2, 0, &[0, 0]), (1, 100, &[0])];
        for (agents, ramp_ns, expected) in table {
            let schedule = Closed { agents, ramp_ns, think_ns: 0, spread_pct: 0.0, end_ns: 1000 };
            let starts: Vec<u64> = (0..agents).map(|agent| schedule.first_ns(agent)).collect();
            assert_eq!(starts, expected, "{agents} agents over {ramp_ns}");
        }
    }

    #[test]
    fn think_time_follows_the_end_of_an_operation() {
        let schedule = Closed { agents: 1, ramp_ns: 0, think_ns: 10, spread_pct: 0.0, end_ns: 1000 };
        assert_eq!(schedule.next_ns(0, 5, 100), 110);
        assert_eq!(schedule.next_ns(0, 5, u64::MAX), u64::MAX);
    }

    #[test]
    fn pauses_are_drawn_evenly_around_the_think_time() {
        let schedule = Closed { agents: 1, ramp_ns: 0, think_ns: 1_000_000, spread_pct: 50.0, end_ns: u64::MAX };
        let pauses: Vec<u64> = (0..10_000).map(|ended_ns| schedule.next_ns(0, 0, ended_ns) - ended_ns).collect();
        assert!(pauses.iter().all(|pause| (500_000..1_500_000).contains(pause)));
        let mean = pauses.iter().sum::<u64>() as f64 / 10_000.0;
        assert!((mean - 1e6).abs() < 1e4, "{mean}");
        assert!(pauses.iter().filter(|pause| **pause < 750_000).count().abs_diff(2500) < 200);
    }
}
