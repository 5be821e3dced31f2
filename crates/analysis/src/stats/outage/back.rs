//! When service was as before the fault, for good. It must not count what was lost until then.

use super::Times;
use super::baseline::{Baseline, HOLD_S};
use crate::stats::timeline::{Counts, Timeline};

/// A fault's effects come to light within this time, or within the operations' timeout if that is longer.
const HORIZON_S: f64 = 10.0;

/// Until when a breakdown may be a fault's, though service was as before in between.
pub(crate) fn horizon_s(at_s: f64, healed_s: Option<f64>, timeout_s: f64) -> f64 {
    healed_s.unwrap_or(at_s).max(at_s) + timeout_s.max(HORIZON_S)
}

/// The first slot from which service is as before, for good.
pub(super) fn back_to_baseline(signs: &Signs, times: Times) -> Option<usize> {
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

/// Signs of an outage in the slots since a fault, as running sums.
pub(super) struct Signs<'a> {
    timeline: &'a Timeline,
    begin: usize,
    end: usize,
    /// Windows that begin in a slot and are below the bound.
    low: Counts,
    /// Slots in gaps, and slots whose operations took far longer than before.
    gap: Counts,
    hold: usize,
    baseline: Baseline,
}

impl<'a> Signs<'a> {
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
        Self { timeline, begin, end, low: Counts::of(low), gap, hold, baseline }
    }

    fn bad(&self, from: usize, until: usize) -> u64 {
        self.timeline.failed().between(from, until) + self.timeline.wrong().between(from, until)
    }

    /// Whether too much goes wrong, or nothing succeeds, or all takes far too long, within a hold of this slot.
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

    /// A window that looks ahead from a quiet slot may still hold the end of the outage: the slot at which the rate changed from what
    /// it was before to the baseline's.
    fn sharpened(&self, quiet: usize) -> usize {
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
        change(self.timeline.ok(), [quiet, until], [low, self.baseline.ok_per_s * slot_s])
    }

    /// The first slot between a quiet one and the horizon at which service breaks down again, beyond what chance does.
    fn first_relapse(&self, quiet: usize, horizon: usize) -> Option<usize> {
        let last = horizon.min(self.end.checked_sub(self.hold)?);
        let fewest = self.baseline.bound_per_s * self.hold as f64 * self.timeline.slot_s();
        (quiet..=last)
            .find(|&slot| self.breaks_off(slot) || (self.timeline.ok().between(slot, slot + self.hold) as f64) < fewest)
    }
}

/// The slot at which a Poisson stream changed from the rate `a` to the rate `b` (both for each slot), by maximum likelihood: each
/// operation speaks for `a` with `ln(a / b)`, each slot for it with `b - a`.
pub(super) fn change(ok: &Counts, [from, until]: [usize; 2], [a, b]: [f64; 2]) -> usize {
    let (each_operation, each_slot) = ((a / b).ln(), b - a);
    let for_a = |slot: &usize| ok.between(from, *slot) as f64 * each_operation + (slot - from) as f64 * each_slot;
    (from..=until).max_by(|x, y| for_a(x).total_cmp(&for_a(y)).then(y.cmp(x))).unwrap_or(from)
}

/// Slots of `begin..end`, counted from `begin`, that lie in any of the stretches.
pub(super) fn marked([begin, end]: [usize; 2], stretches: impl IntoIterator<Item = [usize; 2]>) -> Counts {
    let mut marks = vec![0; end - begin];
    for [from, until] in stretches {
        let (from, until) = (from.clamp(begin, end), until.clamp(begin, end));
        marks[from - begin..until.max(from) - begin].fill(1);
    }
    Counts::of(marks)
}
