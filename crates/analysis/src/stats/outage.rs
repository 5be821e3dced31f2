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
//! such windows (of `n` waiting times with mean `1/λ`, the longest exceeds `ln(n/α)/λ` with probability about `α`). A real system
//! also stalls of its own accord, so where nothing failed beside it, a gap must be longer than the longest of the baseline
//! if it begins just after the fault. If it begins later it must be three times as long and as long as a window: of two equally
//! long times, either has the longer stall every other time, and what a stall costs shows in its window's throughput anyway.
//!
//! **Back to baseline**: the first moment after which, for a second, throughput stays within the bound, no gap begins and no
//! more operations go wrong than before the fault; found to the slot by maximum likelihood. If service breaks down again
//! while the fault still acts or its last timeouts come in, that was not it. What happens long after is not the fault's.

use record::results::Outage;

use super::order::{interquartile_range, mean};
use super::timeline::{Counts, Timeline};

/// The baseline is taken from this long before the fault, at most.
const BASELINE_S: f64 = 10.0;

/// Less than this is no baseline.
const SHORTEST_BASELINE_S: f64 = 0.5;

/// The spread of the baseline is that of windows this long.
const SPREAD_WINDOW_S: f64 = 0.1;

/// Throughput this much below the baseline (as a share) counts as back.
const WITHIN: f64 = 0.05;

/// … or this many standard deviations.
const DEVIATIONS: f64 = 4.5;

/// Interquartile range of a normal distribution with standard deviation 1.
const NORMAL_IQR: f64 = 1.349;

/// Shortest and longest window over which throughput is compared with the baseline.
const WINDOW_S: [f64; 2] = [0.25, 2.0];

/// Operations that such a window should hold; its Poisson noise is then 2.2 %.
const WINDOW_OPERATIONS: f64 = 2_000.0;

/// Service must hold for this long, and for two windows.
const HOLD_S: f64 = 1.0;

/// A fault's effects come to light within this time, or within the operations' timeout if that is longer.
const HORIZON_S: f64 = 10.0;

/// Chance of one gap in a baseline-long window being called an outage.
const CHANCE: f64 = 0.01;

/// A gap that begins within this time of the fault is likely to be its effect.
const AT_ONCE_S: f64 = 0.25;

/// A later gap is so many times longer than those before the fault.
const FAR_LONGER: usize = 3;

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

/// What service was like before a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Baseline {
    ok_per_s: f64,
    spread_per_s: Option<f64>,
    /// Throughput below this is an outage.
    bound_per_s: f64,
    /// Slots of a window.
    window: usize,
    /// Operations that may go wrong in [`HOLD_S`].
    failures: u64,
    /// Slots without success that chance does not explain.
    gap: usize,
    /// The longest stretch of slots without success.
    longest: usize,
}

/// What clients felt of a fault. Without a baseline, only what was counted.
pub(crate) fn outage(timeline: &Timeline, times: Times) -> Outage {
    let begin = timeline.slot_of(times.at_s);
    let end = timeline.slot_of(times.until_s).max(begin);
    let counted = timeline.slot_of(times.counted_until_s).max(end);
    let baseline = times.baseline_from_s.and_then(|from_s| baseline(timeline, from_s, times.at_s));
    let gaps = baseline.map_or_else(Vec::new, |baseline| gaps(timeline, times, [begin, end], baseline));
    let back = baseline.and_then(|baseline| back_to_baseline(timeline, times, [begin, end], &gaps, baseline));
    // Never back: everything until the next fault, or until the drain's end, is affected.
    let affected = back.unwrap_or(counted);
    // To the microsecond: the difference of two decimal fractions is none.
    let after = |slot: usize| ((timeline.at_s(slot) - times.at_s).max(0.0) * 1e6).round() / 1e6;
    let failed = timeline.failed();
    let broke_off = gaps.first().map_or(begin, |gap| gap[1]);
    Outage {
        baseline_per_s: baseline.map(|baseline| baseline.ok_per_s),
        baseline_spread_per_s: baseline.and_then(|baseline| baseline.spread_per_s),
        failed: failed.between(begin, affected),
        wrong: timeline.wrong().between(begin, affected),
        first_failure_s: failed.first_in(begin, affected).map(after),
        last_failure_s: failed.last_in(begin, affected).map(after),
        first_ok_s: timeline.ok().first_in(broke_off, counted).map(after),
        total_s: baseline.map(|_| gaps.iter().map(|gap| (gap[1] - gap[0]) as f64 * timeline.slot_s()).sum()),
        partial_s: Some(partial_s(timeline, begin, affected)),
        back_to_baseline_s: back.map(after),
        lost_operations: baseline.map(|baseline| {
            let until = back.unwrap_or(end);
            let expected = baseline.ok_per_s * (until - begin) as f64 * timeline.slot_s();
            // Not cut off at 0: over many faults that would bend the mean.
            expected - timeline.ok().between(begin, until) as f64
        }),
        memory_released_bytes: None,
        ..Outage::default()
    }
}

fn baseline(timeline: &Timeline, from_s: f64, at_s: f64) -> Option<Baseline> {
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
    let bad = (timeline.failed().between(from, until) + timeline.wrong().between(from, until)) as f64;
    let bad_in_hold = bad * HOLD_S / length_s;
    let gap_s = (ok as f64 / CHANCE).ln() / ok_per_s;
    let longest = silences(timeline.ok(), from, until).map(|silence| silence[1] - silence[0]).max().unwrap_or(0);
    Some(Baseline {
        ok_per_s,
        spread_per_s: interquartile_range(&timeline.ok_rates(from_s, at_s, SPREAD_WINDOW_S)).map(|range| range / 2.0),
        bound_per_s: ok_per_s - allowance,
        window: slots(window_s),
        failures: if bad > 0.0 { (bad_in_hold + DEVIATIONS * bad_in_hold.sqrt()).ceil() as u64 } else { 0 },
        gap: slots(gap_s),
        longest,
    })
}

/// Standard deviation of the baseline's windows: of their interquartile range, so that a single stall does not widen it, and at
/// least that of a Poisson stream.
fn deviation(timeline: &Timeline, [from_s, at_s]: [f64; 2], window_s: f64, ok_per_s: f64) -> f64 {
    let rates = timeline.ok_rates(from_s, at_s, window_s);
    let seen = interquartile_range(&rates).filter(|_| rates.len() >= 4).map_or(0.0, |range| range / NORMAL_IQR);
    let level = mean(&rates).unwrap_or(ok_per_s);
    seen.max((level / window_s).sqrt())
}

/// Stretches of slots in `from..until` without a success.
fn silences(ok: &Counts, from: usize, until: usize) -> impl Iterator<Item = [usize; 2]> {
    let mut next = from;
    std::iter::from_fn(move || {
        while next < until {
            let begin = next;
            let end = ok.first_in(begin, until).unwrap_or(until);
            next = end + 1;
            if end > begin {
                return Some([begin, end]);
            }
        }
        None
    })
}

/// Gaps in the slots since the fault.
fn gaps(timeline: &Timeline, times: Times, [begin, end]: [usize; 2], baseline: Baseline) -> Vec<[usize; 2]> {
    let effects = [Some(times.at_s), times.healed_s];
    silences(timeline.ok(), begin, end)
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
            until - from > baseline.gap.max(of_its_own)
        })
        .collect()
}

/// The first slot from which service is as before, for good.
fn back_to_baseline(
    timeline: &Timeline,
    times: Times,
    [begin, end]: [usize; 2],
    gaps: &[[usize; 2]],
    baseline: Baseline,
) -> Option<usize> {
    let signs = Signs::of(timeline, [begin, end], gaps, baseline);
    let horizon_s = times.healed_s.unwrap_or(times.at_s).max(times.at_s) + times.timeout_s.max(HORIZON_S);
    let horizon = timeline.slot_of(horizon_s).min(end);
    let mut from = begin;
    loop {
        let quiet = signs.first_quiet(from).map(|quiet| signs.sharpened(quiet))?;
        match signs.first_relapse(quiet, horizon) {
            Some(relapse) => from = relapse + 1,
            None => return Some(quiet),
        }
    }
}

/// Signs of an outage in the slots since a fault, as running sums.
struct Signs<'a> {
    timeline: &'a Timeline,
    begin: usize,
    end: usize,
    /// Windows that begin in a slot and are below the bound.
    low: Counts,
    /// Slots in gaps.
    gap: Counts,
    hold: usize,
    baseline: Baseline,
}

impl<'a> Signs<'a> {
    fn of(timeline: &'a Timeline, [begin, end]: [usize; 2], gaps: &[[usize; 2]], baseline: Baseline) -> Self {
        let slot_s = timeline.slot_s();
        let hold = ((HOLD_S / slot_s).round() as usize).max(2 * baseline.window);
        let fewest = baseline.bound_per_s * baseline.window as f64 * slot_s;
        let low = (begin..end).map(|slot| {
            let until = slot + baseline.window;
            u64::from(until <= end && (timeline.ok().between(slot, until) as f64) < fewest)
        });
        let mut in_gap = vec![0; end - begin];
        for &[from, until] in gaps {
            in_gap[from - begin..until - begin].fill(1);
        }
        Self { timeline, begin, end, low: Counts::of(low), gap: Counts::of(in_gap), hold, baseline }
    }

    fn bad(&self, from: usize, until: usize) -> u64 {
        self.timeline.failed().between(from, until) + self.timeline.wrong().between(from, until)
    }

    /// Whether too much goes wrong, or nothing succeeds, within a hold of this slot.
    fn breaks_off(&self, slot: usize) -> bool {
        let (from, until) = (slot - self.begin, slot - self.begin + self.hold);
        self.gap.between(from, until) > 0 || self.bad(slot, slot + self.hold) > self.baseline.failures
    }

    /// The first slot, `from` or later, after which service holds.
    fn first_quiet(&self, from: usize) -> Option<usize> {
        let last = self.end.checked_sub(self.hold)?;
        (from..=last).find(|&slot| {
            let (low_from, low_until) = (slot - self.begin, slot - self.begin + self.hold - self.baseline.window);
            self.low.between(low_from, low_until + 1) == 0 && !self.breaks_off(slot)
        })
    }

    /// A window that looks ahead from a quiet slot may still hold the end of the outage. The slot at which the rate changed from
    /// what it was before to the baseline's, by maximum likelihood: of two Poisson rates `r < b`, each operation speaks for
    /// `b` with `ln(b / r)` and each slot without one for `r` with `b - r`.
    fn sharpened(&self, quiet: usize) -> usize {
        let before = quiet.saturating_sub(self.baseline.window).max(self.begin);
        let slots = quiet - before;
        if slots == 0 {
            return quiet;
        }
        let ok = self.timeline.ok();
        let per_slot = self.baseline.ok_per_s * self.timeline.slot_s();
        // Nothing at all in so many slots does not mean a rate of nothing.
        let low = (ok.between(before, quiet) as f64).max(0.5) / slots as f64;
        if low >= self.baseline.bound_per_s * self.timeline.slot_s() {
            return quiet;
        }
        let (each_operation, each_slot) = ((low / per_slot).ln(), per_slot - low);
        let for_low =
            |slot: &usize| ok.between(quiet, *slot) as f64 * each_operation + (slot - quiet) as f64 * each_slot;
        let until = (quiet + self.baseline.window).min(self.end);
        (quiet..=until).max_by(|a, b| for_low(a).total_cmp(&for_low(b)).then(b.cmp(a))).unwrap_or(quiet)
    }

    /// The first slot between a quiet one and the horizon at which service breaks down again, beyond what chance does.
    fn first_relapse(&self, quiet: usize, horizon: usize) -> Option<usize> {
        let last = horizon.min(self.end.checked_sub(self.hold)?);
        let fewest = self.baseline.bound_per_s * self.hold as f64 * self.timeline.slot_s();
        (quiet..=last)
            .find(|&slot| self.breaks_off(slot) || (self.timeline.ok().between(slot, slot + self.hold) as f64) < fewest)
    }
}

/// Time in bins in which some operations failed and others succeeded.
fn partial_s(timeline: &Timeline, begin: usize, end: usize) -> f64 {
    let bin = ((PARTIAL_BIN_S / timeline.slot_s()).round() as usize).max(1);
    let both = |from: &usize| {
        let until = (from + bin).min(end);
        timeline.failed().between(*from, until) > 0 && timeline.ok().between(*from, until) > 0
    };
    (begin..end).step_by(bin).filter(both).count() as f64 * bin as f64 * timeline.slot_s()
}

#[cfg(test)]
mod tests;
