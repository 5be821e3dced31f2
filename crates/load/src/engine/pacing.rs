//! When a thread looks for events without sleeping, and when it sleeps although some may come.
//!
//! A thread that sleeps until a deadline wakes some 5 to 50 µs after it. So it sleeps until a little
//! before, and spends the rest looking at its sockets without sleeping: an answer that comes
//! meanwhile is taken at once. That costs CPU for each start. The rule: of all time at most a
//! twentieth is spent so, and what was not spent is saved up for 20 starts at most. Up to 1,600
//! starts per second and thread each gets its 30 µs; beyond, a part of them, and the more starts
//! there are the less there is to wait. A closed loop has no starts to wait for, and none of this.
//!
//! In a closed loop it is the other way round: to be woken for every answer costs more than to
//! receive it. So, where many answers are awaited, a thread that has nothing else to do sleeps until
//! some have come, at most a quarter of a microsecond for each awaited one. Where the target is what
//! limits the load this changes no mean latency, for in a closed loop that is the agents by the
//! throughput (Little's law). Elsewhere an answer is taken late by at most a quarter of a
//! microsecond times the throughput of its latency: at 20,000/s by 0.5 %.

use crate::ring::WakePolicy;

/// So much before a deadline a sleep ends.
pub const EARLY_NS: u64 = 30_000;
/// One nanosecond in so many may be spent looking.
const ONE_IN: u64 = 20;
/// What may be saved up.
const SAVED_MOST_NS: u64 = 20 * EARLY_NS;

/// One answer of so many that are awaited is gathered, and a microsecond spent on it for so many.
const GATHERED_ONE_IN: usize = 4;
/// Most answers that are gathered, …
const GATHERED_MOST: usize = 32;
/// … and most microseconds.
const GATHERED_MOST_US: usize = 50;

/// What a thread may still spend without sleeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpinBudget {
    /// Times [`ONE_IN`], so that no nanosecond is lost to rounding.
    saved: u64,
    /// Until when it has been counted.
    until_ns: u64,
}

impl SpinBudget {
    /// Whether there is enough by now to wait for a deadline.
    pub fn is_enough(&mut self, now_ns: u64) -> bool {
        let grown = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.saved = self.saved.saturating_add(grown).min(SAVED_MOST_NS * ONE_IN);
        self.saved >= EARLY_NS * ONE_IN
    }

    /// So much was spent.
    pub fn spend(&mut self, spent_ns: u64) {
        self.saved = self.saved.saturating_sub(spent_ns.saturating_mul(ONE_IN));
    }
}

/// What is gathered where so many operations are open on so many connections.
pub fn gathering(open: i64, connections: usize) -> WakePolicy {
    // Those on one connection are often answered at once.
    let awaited = usize::try_from(open).unwrap_or(0).min(connections);
    let part = awaited / GATHERED_ONE_IN;
    // At most 50: it fits.
    WakePolicy { arrivals: part.clamp(1, GATHERED_MOST), within_us: part.min(GATHERED_MOST_US) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends all it may in a time with starts so far apart; how much that was.
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
    fn no_more_than_a_twentieth_is_spent() {
        for gap_ns in [1_000, 20_000, 50_000, 100_000, 333_333, 625_000, 1_000_000, 40_000_000] {
            let second_ns = 1_000_000_000;
            let spent_ns = spent_ns(second_ns, gap_ns);
            assert!(spent_ns <= second_ns / ONE_IN, "{spent_ns} ns at a start every {gap_ns} ns");
            // What may be spent is spent, where there is enough to wait for.
            let wanted_ns = second_ns / gap_ns * EARLY_NS.min(gap_ns);
            assert!(spent_ns * 10 >= wanted_ns.min(second_ns / ONE_IN) * 9, "{spent_ns} of {wanted_ns}");
        }
    }

    #[test]
    fn the_fewer_are_awaited_the_less_is_gathered() {
        let gathered = |open, connections| {
            let WakePolicy { arrivals, within_us } = gathering(open, connections);
            (arrivals, within_us)
        };
        assert_eq!(gathered(0, 64), (1, 0));
        assert_eq!(gathered(7, 64), (1, 1));
        assert_eq!(gathered(64, 64), (16, 16));
        assert_eq!(gathered(1000, 1000), (32, 50));
        // Many on few connections are answered by few arrivals.
        assert_eq!(gathered(256, 4), (1, 1));
    }

    #[test]
    fn up_to_1600_starts_a_second_each_is_waited_for() {
        let mut spin = SpinBudget::default();
        for start in 1..=1600_u64 {
            assert!(spin.is_enough(start * 625_000), "start {start}");
            spin.spend(EARLY_NS);
        }
    }

    #[test]
    fn an_idle_hour_is_not_saved_up() {
        let mut spin = SpinBudget::default();
        let hour_ns = 3_600_000_000_000;
        assert!(spin.is_enough(hour_ns));
        for _ in 0..20 {
            assert!(spin.is_enough(hour_ns));
            spin.spend(EARLY_NS);
        }
        assert!(!spin.is_enough(hour_ns));
        // A clock that seems to stand or go back gives nothing.
        assert!(!spin.is_enough(hour_ns - 5));
    }
}
