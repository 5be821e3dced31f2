//! Spinning before deadlines, and gathering of answers before a wake-up.
//!
//! A thread that sleeps until a deadline wakes some 5 to 50 µs late. So the thread wakes 30 µs
//! before the deadline and polls its sockets until the deadline; an answer that arrives during
//! polling is taken at once. Polling costs CPU time for each start. Polling is limited to a
//! twentieth of all time, and unused polling time is saved for at most 20 starts. At up to 1,600
//! starts per second and thread, each start gets its 30 µs. At higher rates, only some starts get
//! 30 µs, but the waits are shorter then. A closed loop has no starts to wait for and does not
//! poll.
//!
//! In a closed loop, a wake-up for every answer costs more than receiving the answer. So a thread
//! that awaits many answers and has nothing else to do sleeps until several have arrived, for at
//! most a quarter of a microsecond per awaited answer. If the target limits the load, the mean
//! latency does not change: in a closed loop, the mean latency is the number of agents divided by
//! the throughput (Little's law). Otherwise an answer is taken late. The delay is at most this
//! share of the answer's latency: a quarter of a microsecond times the throughput, which is 0.5 %
//! at 20,000/s.

use transport::ring::WakePolicy;

/// Time from the end of a sleep to the deadline, nanoseconds.
pub const EARLY_NS: u64 = 30_000;
/// Divisor of the polling budget: one nanosecond in 20 may be spent polling.
const ONE_IN: u64 = 20;
/// Maximum polling time that may be saved, nanoseconds.
const SAVED_MOST_NS: u64 = 20 * EARLY_NS;

/// Number of awaited answers per gathered answer, and per microsecond of gathering.
const GATHERED_ONE_IN: usize = 4;
/// Maximum number of gathered answers.
const GATHERED_MOST: usize = 32;
/// Maximum gathering time in microseconds.
const GATHERED_MOST_US: usize = 50;

/// Time that a thread may still spend polling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpinBudget {
    /// Saved polling time, nanoseconds times [`ONE_IN`], so that rounding loses nothing.
    saved: u64,
    /// Time up to which the budget has grown.
    until_ns: u64,
}

impl SpinBudget {
    /// Adds the time since the last call. Returns whether the budget covers the wait for one
    /// deadline.
    pub fn is_enough(&mut self, now_ns: u64) -> bool {
        let grown = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.saved = self.saved.saturating_add(grown).min(SAVED_MOST_NS * ONE_IN);
        self.saved >= EARLY_NS * ONE_IN
    }

    pub fn spend(&mut self, spent_ns: u64) {
        self.saved = self.saved.saturating_sub(spent_ns.saturating_mul(ONE_IN));
    }
}

/// Returns how many answers to gather, and for how long, if `open` operations are open on
/// `connections` connections.
pub fn gathering(open: i64, connections: usize) -> WakePolicy {
    // Operations on one connection are often answered together.
    let awaited = usize::try_from(open).unwrap_or(0).min(connections);
    let part = awaited / GATHERED_ONE_IN;
    // `within_us` is at most 50, which fits into a u32.
    WakePolicy { arrivals: part.clamp(1, GATHERED_MOST), within_us: part.min(GATHERED_MOST_US) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends as much as allowed within `length_ns`, with a start every `gap_ns`. Returns the time
    /// spent.
    fn spent_ns(length_ns: u64, gap_ns: u64) -> u64 {
        let (mut spin, mut spent_ns) = (SpinBudget::default(), 0);
        for now_ns in (0..length_ns).step_by(usize::try_from(gap_ns).unwrap()) {
            if spin.is_enough(now_ns) {
                spin.spend(EARLY_NS.min(gap_ns));
                spent_ns += EARLY_NS.min(gap_ns);
            }
        }
        spent_ns
    }

    #[test]
    fn spinning_takes_at_most_a_twentieth_of_the_time() {
        for gap_ns in [1_000, 20_000, 50_000, 100_000, 333_333, 625_000, 1_000_000, 40_000_000] {
            let second_ns = 1_000_000_000;
            let spent_ns = spent_ns(second_ns, gap_ns);
            assert!(spent_ns <= second_ns / ONE_IN, "{spent_ns} ns at a start every {gap_ns} ns");
            // The budget is used if there are enough starts to wait for.
            let wanted_ns = second_ns / gap_ns * EARLY_NS.min(gap_ns);
            assert!(spent_ns * 10 >= wanted_ns.min(second_ns / ONE_IN) * 9, "{spent_ns} of {wanted_ns}");
        }
    }

    #[test]
    fn fewer_open_operations_gather_fewer_arrivals() {
        let gathered = |open, connections| {
            let WakePolicy { arrivals, within_us } = gathering(open, connections);
            (arrivals, within_us)
        };
        assert_eq!(gathered(0, 64), (1, 0));
        assert_eq!(gathered(7, 64), (1, 1));
        assert_eq!(gathered(64, 64), (16, 16));
        assert_eq!(gathered(1000, 1000), (32, 50));
        // A few arrivals answer many operations on few connections.
        assert_eq!(gathered(256, 4), (1, 1));
    }

    #[test]
    fn up_to_1600_starts_per_second_are_waited_for() {
        let mut spin = SpinBudget::default();
        for start in 1..=1600_u64 {
            assert!(spin.is_enough(start * 625_000), "start {start}");
            spin.spend(EARLY_NS);
        }
    }

    #[test]
    fn idle_time_does_not_add_to_the_full_budget() {
        let mut spin = SpinBudget::default();
        let hour_ns = 3_600_000_000_000;
        assert!(spin.is_enough(hour_ns));
        for _ in 0..20 {
            assert!(spin.is_enough(hour_ns));
            spin.spend(EARLY_NS);
        }
        assert!(!spin.is_enough(hour_ns));
        // A clock that stands still or goes back adds nothing.
        assert!(!spin.is_enough(hour_ns - 5));
    }
}
