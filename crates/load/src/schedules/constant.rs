//! Open loop with a constant rate: operations start regardless of the progress of earlier
//! operations.
//!
//! The k-th operation of agent i (both from 0) is intended at `(i + k × agents) / rate`. Together
//! the agents start one operation every 1 / rate, and each agent's starts are evenly spaced. If no
//! agent is free at an intended start, the operation starts late, but its latency counts from the
//! intended start. So the delay by a slow target shows as latency, and the load does not slow down
//! with the target (G. Tene, "How NOT to measure latency", 2013; wrk2). With a ramp, agent i joins
//! at `ramp × i / agents` and from then on keeps the same start times, so the rate rises linearly.

use super::{Due, Schedule, joins_ns, own_from};

/// Nanoseconds in 10⁹ seconds. Rates are whole numbers of operations per 10⁹ seconds, so that no
/// sum of rounded intervals drifts.
const NS_PER_GS: u128 = 1_000_000_000_000_000_000;

/// Range of rates, in operations per second. Consecutive operations are at least a nanosecond
/// apart, so that a time identifies its operation.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// Evenly spaced times, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvenTimes {
    /// Number of times in 10⁹ seconds.
    per_gs: u64,
}

impl EvenTimes {
    /// Creates `per_s` times per second.
    pub fn new(per_s: f64) -> Self {
        Self { per_gs: (per_s.clamp(*RATES.start(), *RATES.end()) * 1e9).round() as u64 }
    }

    /// Returns the time with index `number`.
    pub fn at_ns(self, number: u128) -> u64 {
        u64::try_from(number.saturating_mul(NS_PER_GS) / u128::from(self.per_gs)).unwrap_or(u64::MAX)
    }

    /// Returns the index of the first time at `from_ns` or later.
    pub fn number_from(self, from_ns: u64) -> u128 {
        (u128::from(from_ns) * u128::from(self.per_gs)).div_ceil(NS_PER_GS)
    }
}

/// An open loop of evenly spaced starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    agents: u32,
    /// Starts of all agents.
    starts: EvenTimes,
    ramp_ns: u64,
    end_ns: u64,
}

impl Constant {
    /// Creates a schedule with `rate_per_s` operations per second over all agents, which join over
    /// the ramp.
    pub fn new(agents: u32, rate_per_s: f64, ramp_ns: u64, end_ns: u64) -> Self {
        Self { agents: agents.max(1), starts: EvenTimes::new(rate_per_s), ramp_ns, end_ns }
    }
}

impl Schedule for Constant {
    fn first_ns(&self, agent: u32) -> u64 {
        let joins_ns = joins_ns(agent, self.agents, self.ramp_ns);
        self.starts.at_ns(own_from(agent, self.agents, self.starts.number_from(joins_ns)))
    }

    fn next_ns(&self, _agent: u32, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.starts.at_ns(self.starts.number_from(intended_ns) + u128::from(self.agents))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn due(&self, agent: u32, from_ns: u64, until_ns: u64, take: &mut dyn FnMut(Due)) {
        let from_ns = from_ns.max(joins_ns(agent, self.agents, self.ramp_ns));
        let first = own_from(agent, self.agents, self.starts.number_from(from_ns));
        let count = self.starts.number_from(until_ns).saturating_sub(first).div_ceil(u128::from(self.agents));
        if count > 0 {
            let last = first + (count - 1) * u128::from(self.agents);
            take(Due {
                count: u64::try_from(count).unwrap_or(u64::MAX),
                first_ns: self.starts.at_ns(first),
                last_ns: self.starts.at_ns(last),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{S, all_starts, due, starts};
    use super::*;

    #[test]
    fn agents_start_in_turn() {
        let table: [(u32, f64, u64, u32, &[u64]); 6] = [
            (1, 10.0, S / 2, 0, &[0, 100_000_000, 200_000_000, 300_000_000, 400_000_000]),
            (2, 10.0, S / 2, 0, &[0, 200_000_000, 400_000_000]),
            (2, 10.0, S / 2, 1, &[100_000_000, 300_000_000]),
            (3, 3.0, 3 * S, 2, &[666_666_666, 1_666_666_666, 2_666_666_666]),
            (5, 2.0, S, 3, &[]),
            (1, 0.25, 9 * S, 0, &[0, 4 * S, 8 * S]),
        ];
        for (agents, rate, end_ns, agent, expected) in table {
            let constant = Constant::new(agents, rate, 0, end_ns);
            assert_eq!(starts(&constant, agent), expected, "agent {agent} of {agents} at {rate}/s");
        }
    }

    #[test]
    fn a_ramp_only_delays_when_agents_join() {
        let (all, ramped) = (Constant::new(4, 8.0, 0, 2 * S), Constant::new(4, 8.0, S, 2 * S));
        for agent in 0..4 {
            let joins_ns = S * u64::from(agent) / 4;
            let expected: Vec<u64> = starts(&all, agent).into_iter().filter(|at| *at >= joins_ns).collect();
            assert_eq!(starts(&ramped, agent), expected, "agent {agent}");
        }
        assert_eq!(ramped.first_ns(3), 875_000_000);
    }

    #[test]
    fn rate_times_time_and_no_drift() {
        for (agents, rate, time_s, expected) in
            [(7, 1000.0, 10, 10_000), (3, 333.3, 10, 3333), (200, 13_000.0, 3, 39_000), (16, 0.5, 10, 5)]
        {
            let all = all_starts(&Constant::new(agents, rate, 0, time_s * S), agents);
            assert_eq!(all.len(), expected, "{rate}/s by {agents}");
            for (number, at) in all.iter().enumerate() {
                assert!((number as f64 / rate * 1e9 - *at as f64).abs() <= 1.0, "number {number} of {rate}/s at {at}");
            }
        }
    }

    #[test]
    fn starts_are_exact_after_a_year_at_any_rate() {
        let year_ns = 365 * 86_400 * S;
        for rate in [1e-6, 0.3, 1.0, 7.7, 99_999.9, 1e9] {
            let constant = Constant::new(13, rate, 0, u64::MAX);
            let mut at = due(&constant, 5, year_ns, u64::MAX)[0].first_ns;
            for _ in 0..100 {
                let next = constant.next_ns(5, at, 0);
                assert!(((next - at) as f64 - 13e9 / rate).abs() <= 1.0, "{at} and {next} at {rate}/s");
                assert_eq!(due(&constant, 5, at + 1, next), []);
                assert_eq!(due(&constant, 5, at + 1, next + 1)[0].first_ns, next);
                at = next;
            }
        }
    }

    #[test]
    fn a_second_is_one_row_at_any_rate() {
        let constant = Constant::new(3, 5e8, 0, 100 * S);
        assert_eq!(due(&constant, 1, 7 * S, 8 * S).iter().map(|due| due.count).collect::<Vec<_>>(), [166_666_666]);
    }
}
