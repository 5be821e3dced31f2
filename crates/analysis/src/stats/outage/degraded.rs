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
mod tests;
