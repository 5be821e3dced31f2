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
mod tests;
