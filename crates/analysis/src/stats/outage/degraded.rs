//! Time in which nothing failed and yet service was not as before. It must not look beyond the affected window.

use super::back::marked;
use super::baseline::Baseline;
use crate::stats::timeline::{Counts, Timeline};

/// Slots of the affected window `begin..affected` in which service was degraded: the window around them (as long as those that throughput is
/// compared in) has no more failures than the baseline, and outside of gaps either less throughput than the bound, or it lies
/// in a stretch that is `slow`.
pub(super) fn degraded(
    timeline: &Timeline,
    baseline: &Baseline,
    [begin, affected]: [usize; 2],
    gaps: &[[usize; 2]],
    slow: &[[usize; 2]],
) -> usize {
    let around = [begin, affected];
    let (in_gap, is_slow) = (marked(around, gaps.iter().copied()), marked(around, slow.iter().copied()));
    let half = (baseline.window / 2).max(1);
    let fewest = baseline.bound_per_s * timeline.slot_s();
    let bad =
        |from: usize, until: usize| timeline.failed().between(from, until) + timeline.wrong().between(from, until);
    let marked = |marks: &Counts, from: usize, until: usize| marks.between(from - begin, until - begin);
    (begin..affected)
        .filter(|&slot| {
            if marked(&in_gap, slot, slot + 1) > 0 {
                return false;
            }
            let (from, until) = (slot.saturating_sub(half).max(begin), (slot + half).min(affected));
            let served = (until - from) as u64 - marked(&in_gap, from, until);
            let low = (timeline.ok().between(from, until) as f64) < fewest * served as f64;
            (low || marked(&is_slow, slot, slot + 1) > 0) && bad(from, until) <= baseline.failures
        })
        .count()
}

#[cfg(test)]
mod tests {
    use record::results::Outage;

    use crate::stats::made_load::{Made, near};
    use crate::stats::outage::Times;

    /// What was felt of a fault from 12 s on that was healed at `healed_s`.
    fn healed(made: &Made, healed_s: f64) -> Outage {
        made.outage_of(Times {
            at_s: 12.0,
            healed_s: Some(healed_s),
            baseline_from_s: Some(0.0),
            until_s: 40.0,
            counted_until_s: 40.0,
            timeout_s: 1.0,
        })
    }

    #[test]
    fn a_slow_processor_costs_throughput() {
        let made = Made::random(1, 40.0, |at_s| if (12.0..18.5).contains(&at_s) { 4_000.0 } else { 10_000.0 });
        let felt = healed(&made, 18.5);
        assert!(near(felt.back_to_baseline_s, 6.5, 0.02), "{felt:?}");
        assert!(near(felt.degraded_s, 6.5, 0.02), "{felt:?}");
        assert_eq!((felt.failed, felt.total_s, felt.partial_s), (0, Some(0.0), Some(0.0)));
        assert!(near(felt.lost_operations, 39_000.0, 1_500.0), "{felt:?}");
    }

    #[test]
    fn a_slow_disk_whose_cache_fills_up_first_is_felt_late_and_beyond_its_healing() {
        let made = Made::random(2, 40.0, |at_s| if (15.0..21.0).contains(&at_s) { 1_000.0 } else { 10_000.0 });
        let felt = healed(&made, 20.0);
        assert!(near(felt.back_to_baseline_s, 9.0, 0.02), "{felt:?}");
        assert!(near(felt.degraded_s, 6.0, 0.125), "what was well before is not degraded: {felt:?}");
    }

    #[test]
    fn a_slow_link_under_a_fixed_rate_shows_in_latency_alone() {
        for (healed_s, made) in [(17.0, 3), (17.4, 4), (17.8, 5), (14.6, 6)].map(|(healed_s, seed)| {
            let made = Made::even(40.0, |_| 2_000.0);
            (healed_s, made.taking(seed, |at_s| if (12.0..healed_s).contains(&at_s) { 5_000.0 } else { 800.0 }))
        }) {
            let felt = healed(&made, healed_s);
            assert!(near(felt.back_to_baseline_s, healed_s - 12.0, 0.1), "{healed_s}: {felt:?}");
            assert!(near(felt.degraded_s, healed_s - 12.0, 0.1), "{healed_s}: {felt:?}");
            assert!(near(felt.lost_operations, 0.0, 10.0), "{felt:?}");
        }
    }

    #[test]
    fn a_lossy_link_shows_in_the_slowest_few() {
        // Three of a hundred operations wait for a second sending.
        let made = Made::even(40.0, |_| 2_000.0).taking(7, |at_s| {
            let slow = (12.0..20.0).contains(&at_s) && (at_s * 1e3).round().rem_euclid(33.0) < 1.0;
            if slow { 200_000.0 } else { 800.0 }
        });
        let felt = healed(&made, 20.0);
        assert!(near(felt.back_to_baseline_s, 8.0, 0.3), "{felt:?}");
        assert!(near(felt.degraded_s, 8.0, 0.3), "{felt:?}");
    }

    #[test]
    fn a_slow_second_now_and_then_is_none() {
        // Stalls of 80 ms, in which a fixed rate piles up: many in the second after the fault's, none before it.
        let made = Made::even(40.0, |_| 2_000.0).taking(8, |at_s| {
            let stall = [13.2, 13.6, 16.4].into_iter().find(|from_s| (*from_s..from_s + 0.08).contains(&at_s));
            stall.map_or(800.0, |from_s| 800.0 + (from_s + 0.08 - at_s) * 1e6)
        });
        let felt = healed(&made, 14.0);
        assert_eq!((felt.back_to_baseline_s, felt.degraded_s), (Some(0.0), Some(0.0)), "{felt:?}");
    }

    #[test]
    fn a_backlogs_latency_is_the_overshoots() {
        // Nothing for 2 s, then the backlog for 4 s: who waits in it waits for up to 2 s.
        let rate = |at_s: f64| match at_s {
            at_s if (12.0..14.0).contains(&at_s) => 0.0,
            at_s if (14.0..18.0).contains(&at_s) => 3_000.0,
            _ => 2_000.0,
        };
        let made = Made::random(9, 40.0, rate)
            .taking(9, |at_s| if (14.0..18.0).contains(&at_s) { 2e6 - (at_s - 14.0) * 0.5e6 + 800.0 } else { 800.0 });
        let felt = healed(&made, 14.0);
        assert!(near(felt.back_to_baseline_s, 2.0, 0.02), "{felt:?}");
        assert!(near(felt.overshoot_until_s, 6.0, 0.1), "{felt:?}");
        assert_eq!(felt.degraded_s, Some(0.0), "{felt:?}");
    }

    #[test]
    fn partial_failures_are_not_called_degraded() {
        let made = Made::random(10, 40.0, |at_s| if (12.0..15.0).contains(&at_s) { 5_000.0 } else { 10_000.0 });
        let felt = made.failing(150, 12.0, 15.0).outage(12.0);
        assert!(near(felt.back_to_baseline_s, 3.0, 0.03), "{felt:?}");
        assert!(near(felt.degraded_s, 0.0, 0.001), "{felt:?}");
        let total = Made::random(11, 40.0, |at_s| if (12.0..12.2).contains(&at_s) { 0.0 } else { 10_000.0 });
        assert_eq!(total.outage(12.0).degraded_s, Some(0.0));
    }
}
