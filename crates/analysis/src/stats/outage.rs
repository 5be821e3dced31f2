//! What clients felt of a fault, from counts per slot: baseline, affected window, gaps, losses.
//!
//! **Baseline**: the mean `ok` rate of up to 10 s before the fault, or of another part of the load where these hold too little that was
//! undisturbed.
//!
//! **Bound**: throughput counts as back when it is at least the baseline less 5 %, or less 4.5 standard deviations of the
//! baseline's own windows where that is more: a drop that the system shows without a fault is no sign of one. (So many, because
//! a second holds many overlapping windows, and each would have its chance to raise a false alarm.) More than the baseline is
//! no outage. Windows are 250 ms, and longer, up to 2 s, where 250 ms hold fewer than 2,000 operations.
//!
//! **Gap**: a time without any success that a Poisson stream of the baseline's rate would show in less than one of a hundred
//! such windows (of `n` waiting times with mean `1/λ`, the longest exceeds `ln(n/α)/λ` with probability about `α`), and one of
//! the rate just before and after it: where most operations fail, the others are far apart, and that is no total outage. A real
//! system also stalls of its own accord, so where nothing failed beside it, a gap must be longer than the longest of the
//! baseline if it begins just after the fault. If it begins later it must be three times as long and as long as a window: of
//! two equally long times, either has the longer stall every other time, and what a stall costs shows in its window's
//! throughput anyway.
//!
//! **Clocks**: operations that several processes timed may each be off by the bound of their clocks. What begins so long before a fault may
//! be its own; a gap counts as shorter by twice the bound, and throughput of a window as higher by what may have ended just beside it: then
//! no clock makes an outage.
//!
//! **Back to baseline**: the first moment after which, for a second and for two windows, throughput stays within the bound, no gap
//! begins, no more operations go wrong than before the fault, and none of it is slow (see `latency_seconds`); found to the slot by
//! maximum likelihood. Where the load or the next fault leaves less than two windows after it, windows are halved until two of them fit, at
//! the price of a wider bound. If service breaks down again while the fault still acts or its last timeouts come in, that was not it. What
//! happens long after is not the fault's. While a backlog drains, latency is high although throughput is back: that is the
//! overshoot's, and only what is slow after it counts.
//!
//! What fails usually is no sign of an outage: as many failures as the baseline or the whole load has in a stretch of the same length, and what
//! chance adds to them. The last of them is told from those that follow as usual by maximum likelihood, too.
//!
//! **Lost operations** are those missing until then, or until the overshoot is over: what the backlog made up for is not lost.
//!
//! **Intervals** come from batch means: the baseline is cut into ten batches of equal length, and the spread of their means
//! says how far the mean of all can be off. Throughput of neighbouring moments is alike (a stall, a garbage collection), and a
//! batch that is long beside that makes its mean nearly independent of the next one, which single moments are not. Between 10
//! and 30 batches are enough (B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30,
//! 1982); of these, ten are the longest. With nine degrees of freedom Student's t stands in for the normal distribution.
//!
//! **Overshoot**: What comes after an outage when a backlog drains: throughput beyond the baseline.
//!
//! It is looked for in the first second after service was back, in windows of 100 ms (longer, up to 2 s, where 100 ms hold
//! fewer than 100 operations), and counts when a window holds more than any of the baseline did, and more than the baseline's
//! own spread explains: 5 %, or 4.5 standard deviations of such windows where that is more. It is over at the first window that
//! the spread does explain, found to the slot by maximum likelihood.

use record::results::Outage;

use super::latency_seconds::LatencySeconds;
use super::quantiles::{interquartile_range, mean};
use super::timeline::{CumulativeCounts, Timeline};
use super::usual_failures::excess;

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
pub(crate) struct FaultTimes {
    /// The fault began.
    pub at_s: f64,
    /// It was healed; `None` if it heals by itself.
    pub healed_s: Option<f64>,
    /// What happened before this is no baseline: warm-up, or the outage of an earlier fault. `None`: service was not
    /// back from that one.
    pub baseline_from_s: Option<f64>,
    /// The baseline where that leaves too little of one.
    pub earlier_baseline_s: Option<[f64; 2]>,
    /// The next fault began, or the load ended.
    pub until_s: f64,
    /// Nothing is counted after this: `until_s`, or the end of the drain.
    pub counted_until_s: f64,
    /// The operations' timeout.
    pub timeout_s: f64,
    /// What fails in the whole load when nothing is the matter.
    pub usual_failures_per_s: f64,
}

/// What clients felt of a fault. Without a baseline, only what was counted.
///
/// Of a long load, what follows within minutes is looked at in narrow slots. Where service was not back by then, all that follows is, in wide
/// ones; only when things first happened is then still told by the narrow ones.
pub(crate) fn outage(timeline: &Timeline, latency: &LatencySeconds, times: FaultTimes) -> Outage {
    let Some(whole) = timeline.whole().filter(|_| times.until_s - times.at_s > CLOSE_S) else {
        return outage_in(timeline, latency, times);
    };
    let horizon_s = horizon_s(times.at_s, times.healed_s, times.timeout_s);
    let close_s = (horizon_s + BEYOND_S).min(times.at_s + CLOSE_S).min(times.until_s);
    let close = outage_in(timeline, latency, FaultTimes { until_s: close_s, counted_until_s: close_s, ..times });
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

fn outage_in(timeline: &Timeline, latency: &LatencySeconds, times: FaultTimes) -> Outage {
    let begun_s = times.at_s - timeline.clock_error_s();
    let begin = timeline.slot_of(begun_s);
    let end = timeline.slot_of(times.until_s).max(begin);
    let counted = timeline.slot_of(times.counted_until_s).max(end);
    let before =
        times.baseline_from_s.and_then(|from_s| Baseline::of(timeline, from_s, FaultTimes { at_s: begun_s, ..times }));
    let earlier = || {
        let [from_s, until_s] = times.earlier_baseline_s?;
        Baseline::of(timeline, from_s, FaultTimes { at_s: until_s, ..times })
    };
    let baseline = before.or_else(earlier);
    let course = baseline.map(|baseline| Recovery::of(timeline, latency, times, [begin, end], baseline));
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
        timed_out: timeline.timeouts().between(begin, affected),
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
            failed_excess: Some(course.baseline.excess(timeline, [begin, affected])),
            ..course.beside_baseline(timeline, felt, [begin, end])
        },
        None => felt,
    }
}

/// What followed a fault that has a baseline.
struct Recovery {
    baseline: Baseline,
    gaps: Vec<[usize; 2]>,
    /// Stretches of high latency, but for those of an overshoot.
    slow: Vec<[usize; 2]>,
    back: Option<usize>,
    overshoot: Option<Overshoot>,
}

impl Recovery {
    fn of(
        timeline: &Timeline,
        latency: &LatencySeconds,
        times: FaultTimes,
        [begin, end]: [usize; 2],
        baseline: Baseline,
    ) -> Self {
        let gaps = gaps(timeline, times, [begin, end], baseline);
        let found = |slow: &[[usize; 2]]| {
            let stretches = gaps.iter().chain(slow).copied();
            let signs = |baseline| OutageSigns::of(timeline, [begin, end], stretches.clone(), baseline);
            back_to_baseline(&signs(baseline), times).or_else(|| back_near_the_end(signs, baseline, times))
        };
        let mut back = found(&[]);
        let drained = back.and_then(|back| overshoot(timeline, &baseline, [back, end]));
        // The second in which the backlog was gone is slow in part.
        let second = (1.0 / timeline.slot_s()).round() as usize;
        let explained = drained.map_or(begin, |overshoot| overshoot.until.map_or(end, |until| until + second));
        let spells = latency.slow(baseline.slots.map(|slot| timeline.at_s(slot)), [times.at_s, times.until_s]);
        let slots = spells.into_iter().map(|spell| spell.map(|edge_s| timeline.slot_of(edge_s)));
        let mut slow: Vec<[usize; 2]> = slots.filter(|spell| spell[1] > explained).collect();
        slow.iter_mut().for_each(|spell| spell[0] = spell[0].max(explained.min(end)));
        if !slow.is_empty() {
            back = found(&slow);
        }
        if slow.is_empty()
            && let Some(late) = back
            && is_unnoticed(timeline, &gaps, [begin, late], baseline)
        {
            return Self { baseline, gaps: Vec::new(), slow, back: Some(begin), overshoot: None };
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
        let degraded = degraded(timeline, &baseline, affected, &self.gaps, &self.slow);
        Outage {
            baseline_per_s: Some(baseline.ok_per_s),
            baseline_s: Some(baseline.slots.map(|slot| (timeline.at_s(slot) * 1e6).round() / 1e6)),
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

/// A fault whose first effect comes later than this after it, and is over sooner than this, had none, seconds.
const BRIEF_S: f64 = HOLD_S;

/// Whether nothing but a moment of less throughput long after the fault, in which nothing failed, keeps service from having been as before all
/// the time until `late`: a system has such moments of its own accord.
fn is_unnoticed(timeline: &Timeline, gaps: &[[usize; 2]], [begin, late]: [usize; 2], baseline: Baseline) -> bool {
    let fewest = baseline.bound_per_s * baseline.window as f64 * timeline.slot_s();
    let is_low = |slot: &usize| (timeline.ok().between(*slot, slot + baseline.window) as f64) < fewest;
    let first = gaps.iter().map(|gap| gap[0]).chain((begin..late).find(is_low)).min();
    let bad = timeline.failed().between(begin, late) + timeline.wrong().between(begin, late);
    let brief = (BRIEF_S / timeline.slot_s()).round() as usize;
    let is_short = |gap: &[usize; 2]| gap[1] - gap[0] < baseline.window;
    bad <= baseline.tolerated(late - begin)
        && gaps.iter().all(is_short)
        && first.is_some_and(|first| first >= begin + brief && late < first + brief)
}

/// Gaps in the slots since the fault.
fn gaps(timeline: &Timeline, times: FaultTimes, [begin, end]: [usize; 2], baseline: Baseline) -> Vec<[usize; 2]> {
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
            until - from > by_chance.max(of_its_own) + timeline.unsure()
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

/// The baseline is taken from this long before the fault, at most.
pub(crate) const BASELINE_S: f64 = 10.0;

/// Less than this is no baseline.
pub(crate) const SHORTEST_BASELINE_S: f64 = 0.5;

/// The spread of the baseline is that of windows this long.
const SPREAD_WINDOW_S: f64 = 0.1;

/// Throughput this much below the baseline (as a share) counts as back.
const WITHIN: f64 = 0.05;

/// … or this many standard deviations.
const DEVIATIONS: f64 = 4.5;

/// Interquartile range of a normal distribution with standard deviation 1.
const NORMAL_IQR: f64 = 1.349;

/// Shortest and longest window over which throughput is compared with the baseline.
pub(crate) const WINDOW_S: [f64; 2] = [0.25, 2.0];

/// Operations that such a window should hold; its Poisson noise is then 2.2 %.
pub(crate) const WINDOW_OPERATIONS: f64 = 2_000.0;

/// Service must hold for this long, and for two windows.
pub(crate) const HOLD_S: f64 = 1.0;

/// Chance of one gap in a baseline-long window being called an outage.
pub(crate) const CHANCE: f64 = 0.01;

/// Batches of the baseline.
const BATCHES: usize = 10;

/// The 97.5 % quantile of Student's t with [`BATCHES`] − 1 degrees of freedom.
const STUDENT: f64 = 2.262_157;

/// What service was like before a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Baseline {
    /// Its slots.
    pub slots: [usize; 2],
    pub ok_per_s: f64,
    pub spread_per_s: Option<f64>,
    /// Throughput below this is an outage.
    pub bound_per_s: f64,
    /// Slots of a window.
    pub window: usize,
    /// Operations that go wrong in a slot when nothing is the matter, …
    pub bad_per_slot: f64,
    /// … and those of them that fail.
    pub failed_per_slot: f64,
    /// Slots without success that chance does not explain.
    pub gap: usize,
    /// The longest stretch of slots without success.
    pub longest: usize,
}

impl Baseline {
    /// The baseline of a fault; `None` if there is too little of it.
    pub fn of(
        timeline: &Timeline,
        from_s: f64,
        FaultTimes { at_s, usual_failures_per_s, .. }: FaultTimes,
    ) -> Option<Self> {
        let from_s = from_s.max(at_s - BASELINE_S);
        let (from, until) = (timeline.slot_of(from_s), timeline.slot_of(at_s));
        let slot_s = timeline.slot_s();
        let length_s = until.saturating_sub(from) as f64 * slot_s;
        if length_s < SHORTEST_BASELINE_S {
            return None;
        }
        let ok = timeline.ok().between(from, until);
        if ok == 0 {
            return None;
        }
        let ok_per_s = ok as f64 / length_s;
        let slots = |long_s: f64| ((long_s / slot_s).round() as usize).max(1);
        let window_s = (WINDOW_OPERATIONS / ok_per_s).clamp(WINDOW_S[0], WINDOW_S[1]);
        let allowance = (WITHIN * ok_per_s).max(DEVIATIONS * deviation(timeline, [from_s, at_s], window_s, ok_per_s));
        let per_slot = |counts: &CumulativeCounts| counts.between(from, until) as f64 / (until - from) as f64;
        // Of few failures a short baseline may have none by chance.
        let failed_per_slot = per_slot(timeline.failed()).max(usual_failures_per_s * slot_s);
        let gap_s = (ok as f64 / CHANCE).ln() / ok_per_s;
        let longest = timeline.ok().silences(from, until).map(|silence| silence[1] - silence[0]).max().unwrap_or(0);
        Some(Self {
            slots: [from, until],
            ok_per_s,
            spread_per_s: interquartile_range(&timeline.ok_rates(from_s, at_s, SPREAD_WINDOW_S))
                .map(|range| range / 2.0),
            bound_per_s: ok_per_s - allowance - beside(timeline, ok_per_s, window_s),
            window: slots(window_s),
            bad_per_slot: failed_per_slot + per_slot(timeline.wrong()),
            failed_per_slot,
            gap: slots(gap_s),
            longest,
        })
    }

    /// The same, held against windows of so many slots.
    pub fn in_windows_of(self, timeline: &Timeline, window: usize) -> Self {
        Self { window, bound_per_s: self.bound_per_s_over(timeline, window), ..self }
    }

    /// The bound of throughput over so many slots.
    pub fn bound_per_s_over(&self, timeline: &Timeline, slots: usize) -> f64 {
        let window_s = slots as f64 * timeline.slot_s();
        let deviation = self.deviation_per_s(timeline, window_s);
        let allowance = (WITHIN * self.ok_per_s).max(DEVIATIONS * deviation);
        self.ok_per_s - allowance - beside(timeline, self.ok_per_s, window_s)
    }

    /// Of what failed in these slots, that which would not have without the outage.
    pub fn excess(&self, timeline: &Timeline, [begin, end]: [usize; 2]) -> f64 {
        let failed = timeline.failed().between(begin, end);
        let ended = timeline.ok().between(begin, end) + timeline.wrong().between(begin, end) + failed;
        let ok_per_slot = self.ok_per_s * timeline.slot_s();
        excess(failed, ended, self.failed_per_slot / (self.failed_per_slot + ok_per_slot))
    }

    /// How many operations may go wrong in so many slots.
    pub fn tolerated(&self, slots: usize) -> u64 {
        tolerated(self.bad_per_slot * slots as f64)
    }

    /// Standard deviation of windows of so many seconds, as [`deviation`].
    pub fn deviation_per_s(&self, timeline: &Timeline, window_s: f64) -> f64 {
        deviation(timeline, self.slots.map(|slot| timeline.at_s(slot)), window_s, self.ok_per_s)
    }

    /// The 95 % interval of the level; `None` where there are too few slots for batches.
    pub fn ci95(&self, timeline: &Timeline) -> Option<[f64; 2]> {
        let half = STUDENT * self.mean_variance(timeline)?.sqrt() / timeline.slot_s();
        Some([(self.ok_per_s - half).max(0.0), self.ok_per_s + half])
    }

    /// How far (95 %) the `ok` operations of so many slots without a fault may be from the baseline's level: the spread of such
    /// stretches within the baseline, and that its level is not known exactly. Stretches longer than a batch take the batches' spread, which
    /// grows with their square root.
    pub fn expected_off(&self, timeline: &Timeline, slots: usize) -> Option<f64> {
        if slots == 0 {
            return Some(0.0);
        }
        let of_mean = self.mean_variance(timeline)?;
        let batch = self.batch();
        let stretch = slots.min(batch);
        let of_stretch = variance(&self.counts(timeline, stretch))? * slots as f64 / stretch as f64;
        Some(STUDENT * (of_stretch + of_mean * (slots as f64).powi(2)).sqrt())
    }

    fn batch(&self) -> usize {
        (self.slots[1] - self.slots[0]) / BATCHES
    }

    /// Variance of the mean of a slot, from batch means.
    fn mean_variance(&self, timeline: &Timeline) -> Option<f64> {
        let batch = Some(self.batch()).filter(|&batch| batch > 0)?;
        let counts = self.counts(timeline, batch);
        Some(variance(&counts)? / (batch as f64).powi(2) / counts.len() as f64)
    }

    /// `ok` operations in consecutive stretches of so many slots; what is left over is the oldest.
    fn counts(&self, timeline: &Timeline, stretch: usize) -> Vec<f64> {
        let [from, until] = self.slots;
        let ends = (from..=until).rev().step_by(stretch);
        let begins = ends.filter_map(|end| end.checked_sub(stretch).filter(|&begin| begin >= from));
        begins.map(|begin| timeline.ok().between(begin, begin + stretch) as f64).collect()
    }
}

/// What of a window's throughput clocks may have put into its neighbours.
fn beside(timeline: &Timeline, ok_per_s: f64, window_s: f64) -> f64 {
    ok_per_s * (2.0 * timeline.clock_error_s() / window_s).min(1.0)
}

/// How many operations may go wrong where this many do on average.
pub(crate) fn tolerated(mean: f64) -> u64 {
    if mean > 0.0 { (mean + DEVIATIONS * mean.sqrt()).ceil() as u64 } else { 0 }
}

/// Standard deviation of the baseline's windows: of their interquartile range, so that a single stall does not widen it, and at
/// least that of a Poisson stream.
fn deviation(timeline: &Timeline, [from_s, at_s]: [f64; 2], window_s: f64, ok_per_s: f64) -> f64 {
    let rates = timeline.ok_rates(from_s, at_s, window_s);
    let seen = interquartile_range(&rates).filter(|_| rates.len() >= 4).map_or(0.0, |range| range / NORMAL_IQR);
    let level = mean(&rates).unwrap_or(ok_per_s);
    seen.max((level / window_s).sqrt())
}

/// Of a sample; `None` of fewer than two.
fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

/// A fault's effects come to light within this time, or within the operations' timeout if that is longer.
const HORIZON_S: f64 = 10.0;

/// Until when a breakdown may be a fault's, though service was as before in between.
pub(crate) fn horizon_s(at_s: f64, healed_s: Option<f64>, timeout_s: f64) -> f64 {
    healed_s.unwrap_or(at_s).max(at_s) + timeout_s.max(HORIZON_S)
}

/// The first slot from which service is as before, for good.
fn back_to_baseline(signs: &OutageSigns, times: FaultTimes) -> Option<usize> {
    let horizon_s = horizon_s(times.at_s, times.healed_s, times.timeout_s);
    let horizon = signs.timeline.slot_of(horizon_s).min(signs.end);
    let mut from = signs.begin;
    loop {
        let quiet = signs.first_quiet(from).map(|quiet| signs.sharpened(quiet))?;
        match signs.first_relapse(quiet, horizon) {
            Some(relapse) => from = relapse + 1,
            None => return Some(quiet),
        }
    }
}

/// The same where so little of the load is left that no hold fits after it: by the longest that does.
fn back_near_the_end<'a>(
    signs: impl Fn(Baseline) -> OutageSigns<'a>,
    baseline: Baseline,
    times: FaultTimes,
) -> Option<usize> {
    let mut longer = signs(baseline);
    loop {
        let half = (longer.baseline.window / 2).max(1);
        let shorter = signs(longer.baseline.in_windows_of(longer.timeline, half));
        if shorter.hold >= longer.hold {
            return None;
        }
        if let Some(back) = back_to_baseline(&shorter, times) {
            // After an earlier moment the longer hold would have fitted, and service did not hold.
            return (back + longer.hold > longer.end && shorter.holds_to_the_end(back)).then_some(back);
        }
        longer = shorter;
    }
}

/// Signs of an outage in the slots since a fault, as running sums.
struct OutageSigns<'a> {
    timeline: &'a Timeline,
    begin: usize,
    end: usize,
    /// Windows that begin in a slot and are below the bound.
    low: CumulativeCounts,
    /// Slots in gaps, and slots whose operations took far longer than before.
    gap: CumulativeCounts,
    hold: usize,
    /// Operations that may go wrong in a hold.
    failures: u64,
    baseline: Baseline,
}

impl<'a> OutageSigns<'a> {
    /// The signs, of which `stretches` are gaps and times of high latency.
    pub fn of(
        timeline: &'a Timeline,
        [begin, end]: [usize; 2],
        stretches: impl IntoIterator<Item = [usize; 2]>,
        baseline: Baseline,
    ) -> Self {
        let slot_s = timeline.slot_s();
        let hold = ((HOLD_S / slot_s).round() as usize).max(2 * baseline.window);
        let fewest = baseline.bound_per_s * baseline.window as f64 * slot_s;
        let low = (begin..end).map(|slot| {
            let until = slot + baseline.window;
            u64::from(until <= end && (timeline.ok().between(slot, until) as f64) < fewest)
        });
        let gap = marked([begin, end], stretches);
        let failures = baseline.tolerated(hold);
        Self { timeline, begin, end, low: CumulativeCounts::of(low), gap, hold, failures, baseline }
    }

    fn bad(&self, from: usize, until: usize) -> u64 {
        self.timeline.failed().between(from, until) + self.timeline.wrong().between(from, until)
    }

    /// Whether too much goes wrong, or nothing succeeds, or all takes far too long, within a hold of this slot.
    fn breaks_off(&self, slot: usize) -> bool {
        let (from, until) = (slot - self.begin, slot - self.begin + self.hold);
        self.gap.between(from, until) > 0 || self.bad(slot, slot + self.hold) > self.failures
    }

    /// The first slot, `from` or later, after which service holds.
    fn first_quiet(&self, from: usize) -> Option<usize> {
        let last = self.end.checked_sub(self.hold)?;
        (from..=last).find(|&slot| {
            let (low_from, low_until) = (slot - self.begin, slot - self.begin + self.hold - self.baseline.window);
            self.low.between(low_from, low_until + 1) == 0 && !self.breaks_off(slot)
        })
    }

    /// Whether all that is left from this slot on is within the bound.
    fn holds_to_the_end(&self, slot: usize) -> bool {
        let left = self.end - slot;
        let fewest = self.baseline.bound_per_s_over(self.timeline, left) * left as f64 * self.timeline.slot_s();
        self.timeline.ok().between(slot, self.end) as f64 >= fewest
    }

    /// A window that looks ahead from a quiet slot may still hold the end of the outage: the slot at which the rate changed from what
    /// it was before to the baseline's.
    fn sharpened(&self, quiet: usize) -> usize {
        self.sharpened_by_failures(self.sharpened_by_rate(quiet))
    }

    /// The same where the hold tolerates the last failures of the outage, because some are usual.
    fn sharpened_by_failures(&self, quiet: usize) -> usize {
        let before = quiet.saturating_sub(self.baseline.window).max(self.begin);
        let slots = quiet - before;
        let failed = self.bad(before, quiet);
        if self.failures == 0 || slots == 0 || failed <= self.baseline.tolerated(slots) {
            return quiet;
        }
        let until = (quiet + self.hold).min(self.end);
        let rates = [failed as f64 / slots as f64, self.baseline.bad_per_slot];
        change(|from, until| self.bad(from, until), [quiet, until], rates)
    }

    fn sharpened_by_rate(&self, quiet: usize) -> usize {
        let before = quiet.saturating_sub(self.baseline.window).max(self.begin);
        let slots = quiet - before;
        if slots == 0 {
            return quiet;
        }
        let slot_s = self.timeline.slot_s();
        // Nothing at all in so many slots does not mean a rate of nothing.
        let low = (self.timeline.ok().between(before, quiet) as f64).max(0.5) / slots as f64;
        if low >= self.baseline.bound_per_s * slot_s {
            return quiet;
        }
        let until = (quiet + self.baseline.window).min(self.end);
        change(
            |from, until| self.timeline.ok().between(from, until),
            [quiet, until],
            [low, self.baseline.ok_per_s * slot_s],
        )
    }

    /// The first slot between a quiet one and the horizon at which service breaks down again, beyond what chance does.
    fn first_relapse(&self, quiet: usize, horizon: usize) -> Option<usize> {
        let last = horizon.min(self.end.checked_sub(self.hold)?);
        let fewest = self.baseline.bound_per_s * self.hold as f64 * self.timeline.slot_s();
        (quiet..=last)
            .find(|&slot| self.breaks_off(slot) || (self.timeline.ok().between(slot, slot + self.hold) as f64) < fewest)
    }
}

/// The slot at which a Poisson stream of so many `between` two slots changed from the rate `a` to the rate `b` (both for each slot), by
/// maximum likelihood: each operation speaks for `a` with `ln(a / b)`, each slot for it with `b - a`.
pub(crate) fn change(between: impl Fn(usize, usize) -> u64, [from, until]: [usize; 2], [a, b]: [f64; 2]) -> usize {
    let (each_operation, each_slot) = ((a / b).ln(), b - a);
    let for_a = |slot: &usize| between(from, *slot) as f64 * each_operation + (slot - from) as f64 * each_slot;
    (from..=until).max_by(|x, y| for_a(x).total_cmp(&for_a(y)).then(y.cmp(x))).unwrap_or(from)
}

/// Slots of `begin..end`, counted from `begin`, that lie in any of the stretches.
fn marked([begin, end]: [usize; 2], stretches: impl IntoIterator<Item = [usize; 2]>) -> CumulativeCounts {
    let mut marks = vec![0; end - begin];
    for [from, until] in stretches {
        let (from, until) = (from.clamp(begin, end), until.clamp(begin, end));
        marks[from - begin..until.max(from) - begin].fill(1);
    }
    CumulativeCounts::of(marks)
}

/// Slots of the affected window `begin..affected` in which service was degraded: the window around them (as long as those that throughput is
/// compared in) has no more failures than the baseline, and outside of gaps either less throughput than the bound, or it lies
/// in a stretch that is `slow`.
fn degraded(
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
    let tolerated = baseline.tolerated(2 * half);
    let bad =
        |from: usize, until: usize| timeline.failed().between(from, until) + timeline.wrong().between(from, until);
    let marked = |marks: &CumulativeCounts, from: usize, until: usize| marks.between(from - begin, until - begin);
    (begin..affected)
        .filter(|&slot| {
            if marked(&in_gap, slot, slot + 1) > 0 {
                return false;
            }
            let (from, until) = (slot.saturating_sub(half).max(begin), (slot + half).min(affected));
            let served = (until - from) as u64 - marked(&in_gap, from, until);
            let low = (timeline.ok().between(from, until) as f64) < fewest * served as f64;
            (low || marked(&is_slow, slot, slot + 1) > 0) && bad(from, until) <= tolerated
        })
        .count()
}

/// The windows.
const OVERSHOOT_WINDOW_S: [f64; 2] = [0.1, 2.0];

/// Operations that a window should hold.
const OVERSHOOT_WINDOW_OPERATIONS: f64 = 100.0;

/// A backlog begins to drain so soon after service is back.
const SOON_S: f64 = 1.0;

/// A window this many standard deviations above the baseline is not yet as before.
const STILL: f64 = 2.0;

/// Throughput beyond the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Overshoot {
    /// Of the highest window, as a share of the baseline.
    pub ratio: f64,
    /// The slot at which it was over; `None`: not before the next fault or the load's end.
    pub until: Option<usize>,
}

/// The overshoot after service was back in the slot `back`, if there was one before `end`.
fn overshoot(timeline: &Timeline, baseline: &Baseline, [back, end]: [usize; 2]) -> Option<Overshoot> {
    let (ok, slot_s) = (timeline.ok(), timeline.slot_s());
    let window_s =
        (OVERSHOOT_WINDOW_OPERATIONS / baseline.ok_per_s).clamp(OVERSHOOT_WINDOW_S[0], OVERSHOOT_WINDOW_S[1]);
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
        change(
            |from, until| ok.between(from, until),
            [over, (over + window).min(end)],
            [rate, baseline.ok_per_s * slot_s],
        )
    });
    Some(Overshoot { ratio: highest / expected, until })
}

#[cfg(test)]
mod tests;
