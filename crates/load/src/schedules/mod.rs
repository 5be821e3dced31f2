//! When operations start. Arithmetic on nanoseconds since load start, nothing else: no clock is read and no timer is set here.

pub mod closed;
pub mod open;

/// Decides when an agent's operations are to start; latency counts from these moments. Agents count from 0.
pub trait Schedule: Send + Sync {
    /// The intended start of the agent's first operation.
    fn first_ns(&self, agent: u32) -> u64;

    /// The intended start of the operation after the one that was intended at `intended_ns` and ended at `ended_ns`.
    fn next_ns(&self, intended_ns: u64, ended_ns: u64) -> u64;

    /// No operation is intended at or after this moment.
    fn end_ns(&self) -> u64;

    /// Whether the starts are fixed beforehand, so that an operation is due even if its agent is busy.
    fn is_fixed(&self) -> bool {
        false
    }

    /// The agent's operations that are intended from `from_ns` on and before `until_ns`, whatever became of those before. None
    /// where an agent decides only when it is free.
    fn due(&self, _agent: u32, _from_ns: u64, _until_ns: u64) -> Due {
        Due::default()
    }
}

/// An open loop at this rate, operations per second; without one, the closed loop. Both have the same agents, ramp and end.
pub fn of(rate_per_s: Option<f64>, closed: closed::Closed) -> Box<dyn Schedule> {
    match rate_per_s {
        Some(rate_per_s) => Box::new(open::Open::new(closed.agents, rate_per_s, closed.ramp_ns, closed.end_ns)),
        None => Box::new(closed),
    }
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
    /// Intended start of the operation at that place, from 0; true to 1 ns.
    pub fn at_ns(&self, place: u64) -> u64 {
        let length = u128::from(self.last_ns - self.first_ns);
        let share = length * u128::from(place) / u128::from(self.count.saturating_sub(1).max(1));
        self.first_ns + u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// For how long they have been due by `now_ns`, nanoseconds in all; true to 1 ns for each.
    pub fn waited_ns(&self, now_ns: u64) -> i64 {
        let by_pairs = 2 * i128::from(now_ns) - i128::from(self.first_ns) - i128::from(self.last_ns);
        let waited = i128::from(self.count) * by_pairs / 2;
        i64::try_from(waited).unwrap_or(i64::MAX)
    }
}
