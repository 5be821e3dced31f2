//! What clients felt of a fault, from counts per slot: baseline, affected window, gaps, losses. It must not know what a
//! fault is; it is told when one began.
//!
//! **Baseline**: the mean `ok` rate of up to 10 s before the fault.
//!
//! **Bound**: throughput counts as back when it is at least the baseline less 5 %, or less 4.5 standard deviations of the
//! baseline's own windows where that is more: a drop that the system shows without a fault is no sign of one. (So many, because a
//! second holds many overlapping windows, and each would have its chance to raise a false alarm.) More than the baseline
//! is no outage. Windows are 250 ms, and longer, up to 2 s, where 250 ms hold fewer than 2,000 operations.
//!
//! **Gap**: a time without any success that a Poisson stream of the baseline's rate would show in less than one of a hundred
//! such windows (of `n` waiting times with mean `1/λ`, the longest exceeds `ln(n/α)/λ` with probability about `α`), and one of the
//! rate just before and after it: where most operations fail, the others are far apart, and that is no total outage. A real system
//! also stalls of its own accord, so where nothing failed beside it, a gap must be longer than the longest of the baseline
//! if it begins just after the fault. If it begins later it must be three times as long and as long as a window: of two equally
//! long times, either has the longer stall every other time, and what a stall costs shows in its window's throughput anyway.
//!
//! **Back to baseline**: the first moment after which, for a second, throughput stays within the bound, no gap begins, no
//! more operations go wrong than before the fault, and none of it is slow (see `latency_seconds`); found to the slot by maximum
//! likelihood. If service breaks down again while the fault still acts or its last timeouts come in, that was not it. What happens
//! long after is not the fault's. While a backlog drains, latency is high although throughput is back: that is the overshoot's, and
//! only what is slow after it counts.
//!
//! **Lost operations** are those missing until then, or until the overshoot is over: what the backlog made up for is not lost.

mod back;
mod baseline;
mod degraded;
mod overshoot;

use record::results::Outage;

use super::latency_seconds::LatencySeconds;
use super::timeline::Timeline;
use back::{Signs, back_to_baseline};
use baseline::Baseline;
use overshoot::{Overshoot, overshoot};

pub(crate) use back::horizon_s;
pub(crate) use baseline::{CHANCE, HOLD_S, WINDOW_OPERATIONS, WINDOW_S, tolerated};

/// A gap that begins within this time of the fault is likely to be its effect.
const AT_ONCE_S: f64 = 0.25;

/// A later gap is so many times longer than those before the fault.
pub(crate) const FAR_LONGER: usize = 3;

/// Fewest operations that say at which rate they succeed.
const RATE_OPERATIONS: u64 = 30;

/// In a long load, an outage is looked at closely for so long at most …
const CLOSE_S: f64 = 400.0;

/// … and for so long after its effects are to have come to light.
const BEYOND_S: f64 = 120.0;

/// In bins of this length, failures and successes count as simultaneous.
const PARTIAL_BIN_S: f64 = 0.01;

/// The times of a fault that its outage depends on, seconds since load start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    /// The fault began.
    pub at_s: f64,
    /// It was healed; `None` if it heals by itself.
    pub healed_s: Option<f64>,
    /// What happened before this is no baseline: warm-up, or the outage of an earlier fault. `None`: service was not
    /// back from that one.
    pub baseline_from_s: Option<f64>,
    /// The next fault began, or the load ended.
    pub until_s: f64,
    /// Nothing is counted after this: `until_s`, or the end of the drain.
    pub counted_until_s: f64,
    /// The operations' timeout.
    pub timeout_s: f64,
}

/// What clients felt of a fault. Without a baseline, only what was counted.
///
/// Of a long load, what follows within minutes is looked at in narrow slots. Where service was not back by then, all that follows is, in wide
/// ones; only when things first happened is then still told by the narrow ones.
pub(crate) fn outage(timeline: &Timeline, latency: &LatencySeconds, times: Times) -> Outage {
    let Some(whole) = timeline.whole().filter(|_| times.until_s - times.at_s > CLOSE_S) else {
        return outage_in(timeline, latency, times);
    };
    let horizon_s = horizon_s(times.at_s, times.healed_s, times.timeout_s);
    let close_s = (horizon_s + BEYOND_S).min(times.at_s + CLOSE_S).min(times.until_s);
    let close = outage_in(timeline, latency, Times { until_s: close_s, counted_until_s: close_s, ..times });
    let drained = close.overshoot_ratio.is_none() || close.overshoot_until_s.is_some();
    if horizon_s <= close_s && close.back_to_baseline_s.is_some() && drained {
        return close;
    }
    let long = outage_in(whole, latency, times);
    Outage {
        first_failure_s: close.first_failure_s.or(long.first_failure_s),
        first_ok_s: close.first_ok_s.or(long.first_ok_s),
        ..long
    }
}

fn outage_in(timeline: &Timeline, latency: &LatencySeconds, times: Times) -> Outage {
    let begin = timeline.slot_of(times.at_s);
    let end = timeline.slot_of(times.until_s).max(begin);
    let counted = timeline.slot_of(times.counted_until_s).max(end);
    let baseline = times.baseline_from_s.and_then(|from_s| Baseline::of(timeline, from_s, times.at_s));
    let course = baseline.map(|baseline| Course::of(timeline, latency, times, [begin, end], baseline));
    let back = course.as_ref().and_then(|course| course.back);
    // Never back: everything until the next fault, or until the drain's end, is affected.
    let affected = back.unwrap_or(counted);
    // To the microsecond: the difference of two decimal fractions is none.
    let after = |slot: usize| ((timeline.at_s(slot) - times.at_s).max(0.0) * 1e6).round() / 1e6;
    let failed = timeline.failed();
    let first_gap = course.as_ref().and_then(|course| course.gaps.first());
    let broke_off = first_gap.map_or(begin, |gap| gap[1]);
    let felt = Outage {
        failed: failed.between(begin, affected),
        wrong: timeline.wrong().between(begin, affected),
        first_failure_s: failed.first_in(begin, affected).map(after),
        last_failure_s: failed.last_in(begin, affected).map(after),
        first_ok_s: timeline.ok().first_in(broke_off, counted).map(after),
        partial_s: Some(partial_s(timeline, begin, affected)),
        back_to_baseline_s: back.map(after),
        ..Outage::default()
    };
    match course {
        Some(course) => Outage {
            overshoot_until_s: course.overshoot.and_then(|overshoot| overshoot.until).map(after),
            ..course.beside_baseline(timeline, felt, [begin, end])
        },
        None => felt,
    }
}

/// What followed a fault that has a baseline.
struct Course {
    baseline: Baseline,
    gaps: Vec<[usize; 2]>,
    /// Stretches of high latency, but for those of an overshoot.
    slow: Vec<[usize; 2]>,
    back: Option<usize>,
    overshoot: Option<Overshoot>,
}

impl Course {
    fn of(
        timeline: &Timeline,
        latency: &LatencySeconds,
        times: Times,
        [begin, end]: [usize; 2],
        baseline: Baseline,
    ) -> Self {
        let gaps = gaps(timeline, times, [begin, end], baseline);
        let found = |slow: &[[usize; 2]]| {
            let stretches = gaps.iter().chain(slow).copied();
            back_to_baseline(&Signs::of(timeline, [begin, end], stretches, baseline), times)
        };
        let mut back = found(&[]);
        let drained = back.and_then(|back| overshoot(timeline, &baseline, [back, end]));
        // The second in which the backlog was gone is slow in part.
        let second = (1.0 / timeline.slot_s()).round() as usize;
        let explained = drained.map_or(begin, |overshoot| overshoot.until.map_or(end, |until| until + second));
        let spells = latency.slow(timeline.at_s(baseline.slots[0]), times.at_s, times.until_s);
        let slots = spells.into_iter().map(|spell| spell.map(|edge_s| timeline.slot_of(edge_s)));
        let mut slow: Vec<[usize; 2]> = slots.filter(|spell| spell[1] > explained).collect();
        slow.iter_mut().for_each(|spell| spell[0] = spell[0].max(explained.min(end)));
        if !slow.is_empty() {
            back = found(&slow);
        }
        let overshoot = match back {
            Some(back) if !slow.is_empty() => overshoot(timeline, &baseline, [back, end]).or(drained),
            _ => drained,
        };
        Self { baseline, gaps, slow, back, overshoot }
    }

    /// The figures that take a baseline, added to the others.
    fn beside_baseline(&self, timeline: &Timeline, felt: Outage, [begin, end]: [usize; 2]) -> Outage {
        let (baseline, slot_s) = (self.baseline, timeline.slot_s());
        let drained = self.overshoot.and_then(|overshoot| overshoot.until);
        let until = self.back.map_or(end, |back| drained.map_or(back, |drained| drained.max(back)));
        let expected = baseline.ok_per_s * (until - begin) as f64 * slot_s;
        // Not cut off at 0: over many faults that would bend the mean.
        let lost = expected - timeline.ok().between(begin, until) as f64;
        let affected = [begin, self.back.unwrap_or(end)];
        let degraded = degraded::degraded(timeline, &baseline, affected, &self.gaps, &self.slow);
        Outage {
            baseline_per_s: Some(baseline.ok_per_s),
            baseline_ci95: baseline.ci95(timeline),
            baseline_spread_per_s: baseline.spread_per_s,
            total_s: Some(self.gaps.iter().map(|gap| gap[1] - gap[0]).sum::<usize>() as f64 * slot_s),
            degraded_s: Some(degraded as f64 * slot_s),
            lost_operations: Some(lost),
            lost_operations_ci95: baseline.expected_off(timeline, until - begin).map(|off| [lost - off, lost + off]),
            overshoot_ratio: self.overshoot.map(|overshoot| overshoot.ratio),
            ..felt
        }
    }
}

/// Gaps in the slots since the fault.
fn gaps(timeline: &Timeline, times: Times, [begin, end]: [usize; 2], baseline: Baseline) -> Vec<[usize; 2]> {
    let effects = [Some(times.at_s), times.healed_s];
    timeline
        .ok()
        .silences(begin, end)
        .filter(|&[from, until]| {
            let failures_beside = timeline.failed().between(from.saturating_sub(1), until + 1) > 0;
            let after_s = |effect_s: f64| timeline.at_s(from) - effect_s;
            let at_once =
                effects.into_iter().flatten().any(|effect_s| (-AT_ONCE_S..=AT_ONCE_S).contains(&after_s(effect_s)));
            let of_its_own = match (failures_beside, at_once) {
                (true, _) => 0,
                (false, true) => baseline.longest,
                (false, false) => baseline.window.max(FAR_LONGER * baseline.longest),
            };
            let by_chance = baseline.gap.max(by_chance_there(timeline, [from, until], end, baseline));
            until - from > by_chance.max(of_its_own)
        })
        .collect()
}

/// The longest gap that chance explains at the rate at which operations succeed just before this one or just after it, whichever is lower:
/// while nine of ten fail, the others are far apart.
fn by_chance_there(timeline: &Timeline, [from, until]: [usize; 2], end: usize, baseline: Baseline) -> usize {
    let around = baseline.window / 2;
    let [begun, ended] = baseline.slots;
    let sides = [[from.saturating_sub(around), from], [until, (until + around).min(end)]];
    let counts = sides.map(|[begin, end]| (timeline.ok().between(begin, end), end.saturating_sub(begin)));
    // Of so many as there would be in a time as long as the baseline.
    let longest = |(ok, slots): (u64, usize)| {
        let slots_of_each = slots as f64 / ok as f64;
        (slots_of_each * ((ended - begun) as f64 / slots_of_each / CHANCE).ln()) as usize
    };
    match counts.into_iter().filter(|(ok, _)| *ok >= RATE_OPERATIONS).map(longest).max() {
        Some(longest) => longest,
        None => match (counts[0].0 + counts[1].0, counts[0].1 + counts[1].1) {
            (0, _) => 0,
            both => longest(both),
        },
    }
}

/// Time in bins in which some operations failed and others succeeded.
fn partial_s(timeline: &Timeline, begin: usize, end: usize) -> f64 {
    let bin = ((PARTIAL_BIN_S / timeline.slot_s()).round() as usize).max(1);
    // Beyond the last slot nothing ended, whatever happened there.
    let end = end.min(timeline.slots());
    let both = |from: &usize| {
        let until = (from + bin).min(end);
        timeline.failed().between(*from, until) > 0 && timeline.ok().between(*from, until) > 0
    };
    (begin..end).step_by(bin).filter(both).count() as f64 * bin as f64 * timeline.slot_s()
}

#[cfg(test)]
mod known;
#[cfg(test)]
mod tests;
