//! What comes after an outage when a backlog drains: throughput beyond the baseline. It must not decide when service was back.
//!
//! It is looked for in the first second after service was back, in windows of 100 ms (longer, up to 2 s, where 100 ms hold fewer than
//! 100 operations), and counts when a window holds more than any of the baseline did, and more than the baseline's own spread
//! explains: 5 %, or 4.5 standard deviations of such windows where that is more. It is over at the first window that the spread does
//! explain, found to the slot by maximum likelihood.

use super::back::change;
use super::baseline::{Baseline, DEVIATIONS, WITHIN};
use crate::stats::timeline::Timeline;

/// The windows.
const WINDOW_S: [f64; 2] = [0.1, 2.0];

/// Operations that a window should hold.
const WINDOW_OPERATIONS: f64 = 100.0;

/// A backlog begins to drain so soon after service is back.
const SOON_S: f64 = 1.0;

/// A window this many standard deviations above the baseline is not yet as before.
const STILL: f64 = 2.0;

/// Throughput beyond the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overshoot {
    /// Of the highest window, as a share of the baseline.
    pub ratio: f64,
    /// The slot at which it was over; `None`: not before the next fault or the load's end.
    pub until: Option<usize>,
}

/// The overshoot after service was back in the slot `back`, if there was one before `end`.
pub(super) fn overshoot(timeline: &Timeline, baseline: &Baseline, [back, end]: [usize; 2]) -> Option<Overshoot> {
    let (ok, slot_s) = (timeline.ok(), timeline.slot_s());
    let window_s = (WINDOW_OPERATIONS / baseline.ok_per_s).clamp(WINDOW_S[0], WINDOW_S[1]);
    let window = ((window_s / slot_s).round() as usize).max(1);
    let count = |slot: usize| ok.between(slot, slot + window) as f64;
    let expected = baseline.ok_per_s * window as f64 * slot_s;
    let deviation = baseline.deviation_per_s(timeline, window_s) * window as f64 * slot_s;
    let above = |deviations: f64| expected + (WITHIN * expected).max(deviations * deviation);
    let [from, until] = baseline.slots;
    let usual = (from..=until.saturating_sub(window)).map(count).fold(above(DEVIATIONS), f64::max);
    let last = end.checked_sub(window)?;
    let soon = (back + (SOON_S / slot_s).round() as usize).min(last);
    let first = (back..=soon).find(|&slot| count(slot) > usual)?;
    let still = above(STILL);
    let over = (first..=last).find(|&slot| count(slot) <= still);
    let highest = (first..=over.unwrap_or(last)).map(count).fold(0.0, f64::max);
    let until = over.map(|over| {
        let rate = ok.between(first, over) as f64 / (over - first) as f64;
        change(ok, [over, (over + window).min(end)], [rate, baseline.ok_per_s * slot_s])
    });
    Some(Overshoot { ratio: highest / expected, until })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use crate::stats::made_load::{Made, near};

    #[test]
    fn a_backlog_that_drains_is_seen_and_made_up_for() {
        // 2 s without an answer, 20,000 operations of backlog drain within 4 s.
        let rate = |at_s: f64| match at_s {
            at_s if (12.0..14.0).contains(&at_s) => 0.0,
            at_s if (14.0..18.0).contains(&at_s) => 15_000.0,
            _ => 10_000.0,
        };
        for made in [Made::even(30.0, rate), Made::random(3, 30.0, rate)] {
            let felt = made.outage(12.0);
            assert!(near(felt.back_to_baseline_s, 2.0, 0.005), "{felt:?}");
            // The highest of many windows is higher than what they are around.
            assert!(felt.overshoot_ratio.is_some_and(|ratio| (1.49..1.7).contains(&ratio)), "{felt:?}");
            assert!(near(felt.overshoot_until_s, 6.0, 0.02), "{felt:?}");
            let [low, high] = felt.lost_operations_ci95.unwrap();
            assert!(low <= 0.0 && (0.0..3_000.0).contains(&high), "nothing was lost in the end: {felt:?}");
        }
    }

    #[test]
    fn one_that_goes_on_to_the_end_has_no_end() {
        let rate = |at_s: f64| match at_s {
            at_s if (12.0..14.0).contains(&at_s) => 0.0,
            at_s if at_s >= 14.0 => 15_000.0,
            _ => 10_000.0,
        };
        let felt = Made::random(4, 18.0, rate).outage(12.0);
        assert!(felt.overshoot_ratio.is_some() && felt.overshoot_until_s.is_none(), "{felt:?}");
        assert!(near(felt.lost_operations, 20_000.0, 500.0), "until service was back: {felt:?}");
    }

    #[test]
    fn what_the_baseline_does_too_is_none() {
        // Stalls of 50 ms every second, each followed by what was held up, within 50 ms.
        let rate = |at_s: f64| match at_s.rem_euclid(1.0) {
            within if within < 0.05 => 0.0,
            within if within < 0.1 => 20_000.0,
            _ => 10_000.0,
        };
        let felt = Made::random(5, 30.0, rate).outage(15.0);
        assert_eq!(felt.overshoot_ratio, None, "{felt:?}");
        let once = |at_s: f64| if (15.05..15.25).contains(&at_s) { 20_000.0 } else { rate(at_s) };
        assert!(Made::random(5, 30.0, once).outage(15.0).overshoot_ratio.is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 80, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

        #[test]
        fn chance_makes_none(seed in 0_u64..1_000_000, rate in 20.0..20_000.0_f64, down_s in 0.0..2.0_f64) {
            let made = Made::random(seed, 17.0, |at_s| if (12.0..12.0 + down_s).contains(&at_s) { 0.0 } else { rate });
            prop_assert_eq!(made.outage(12.0).overshoot_ratio, None);
        }
    }
}
