//! Effects of a fault on clients, from counts per slot: baseline, affected window, gaps and losses.
//!
//! **Baseline** and the bounds of throughput are defined in [`super::baseline`]. Throughput above
//! the baseline is no outage.
//!
//! **Gap**: a time without any success that chance does not explain. A Poisson stream of the
//! baseline's rate has so long a gap in less than one of a hundred periods as long as the baseline
//! (of `n` waiting times with mean `1/λ`, the longest exceeds `ln(n/α)/λ` with probability about
//! `α`), and so has a stream of the rate just before and after the gap: if most operations fail,
//! successes are far apart, which is no total outage. A real system also stalls without a fault. So
//! if nothing failed near a gap that begins just after the fault, the gap must be longer than the
//! longest gap of the baseline. A later gap must be three times as long as that, and as long as a
//! window: of two equally long periods, each has the longer stall in half of all cases, and the
//! cost of a stall shows in the throughput of its window anyway.
//!
//! **Clocks**: if several processes timed the operations, each time may be off by the error bound
//! of their clocks. An effect that begins before a fault by up to this bound may belong to the
//! fault. A gap counts as shorter by twice the bound, and throughput of a window as higher by the
//! operations that may have ended just outside the window. So clock errors cannot cause an outage.
//!
//! **Back to baseline**: the first time after which, for a second and for two windows, no window of
//! any length is below its bound, no gap begins, no more operations go wrong than before the fault,
//! and no second is slow (see `latency_seconds`). Maximum likelihood locates this time to the slot.
//! Bins of operations have a bounded influence, so that a stall nearby does not move the result (P.
//! J. Huber, "A robust version of the probability ratio test", Annals of Mathematical Statistics
//! 36, 1965). If less than two windows are left before the next fault or the load's end, windows
//! are halved until two fit, which widens the bound. If service breaks down again while the fault
//! still acts or its last timeouts arrive, service was not back, unless the breakdown is one brief
//! stall. Later breakdowns do not belong to the fault. While a backlog drains, latency is high
//! although throughput is back. This latency belongs to the overshoot; only slow seconds after it
//! count.
//!
//! **Three answers**: service recovered; or it is still bad at the end; or neither can be
//! determined, because the baseline varies too much for a bound or too little of the load is left.
//!
//! Usual failures are no sign of an outage: as many as the baseline or the whole load has in a
//! stretch of the same length, plus those that chance adds. The last failure of the outage is
//! separated from later usual failures by maximum likelihood, too.
//!
//! **Lost operations** are those missing until service is back, or until the overshoot is over:
//! operations that are only delayed by the backlog are not lost.
//!
//! **Overshoot**: throughput above the baseline when a backlog drains after an outage.
//!
//! The search covers the first second after service was back, in windows of 100 ms (longer, up to 2
//! s, if 100 ms hold fewer than 100 operations). An overshoot counts if a window has more
//! operations than any window of the baseline, and more than the baseline's spread explains: 5 %,
//! or 4.5 standard deviations of such windows if that is more. The overshoot is over at the first
//! window that the spread does explain. Maximum likelihood locates this end to the slot.

use record::results::Outage;

use super::baseline::{Baseline, DEVIATIONS, WITHIN};
use super::latency_seconds::LatencySeconds;
use super::timeline::{CumulativeCounts, Timeline};

/// Time around a fault within which a gap is likely to be its effect.
const AT_ONCE_S: f64 = 0.25;

/// Factor by which a later gap must exceed the longest gap before the fault.
pub(crate) const FAR_LONGER: usize = 3;

/// Fewest successes from which their rate next to a gap is estimated.
const RATE_OPERATIONS: u64 = 30;

/// In a long load, longest time after the fault that is analyzed in narrow slots.
const CLOSE_S: f64 = 400.0;

/// In a long load, time after the last expected effect that is analyzed in narrow slots.
const BEYOND_S: f64 = 120.0;

/// Number of operations that distinguish two nearly equal rates.
const TELLING: f64 = 50.0;

/// Length of the bins in which failures and successes count as simultaneous.
const PARTIAL_BIN_S: f64 = 0.01;

/// Times that define the outage of a fault, seconds since load start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FaultTimes {
    /// Start of the fault.
    pub at_s: f64,
    /// Time at which the fault was healed; `None` if it heals by itself.
    pub healed_s: Option<f64>,
    /// Start of the time that may serve as baseline, after the warm-up and the outage of an earlier
    /// fault. `None` if service was not back from the earlier fault.
    pub baseline_from_s: Option<f64>,
    /// Baseline to use if `baseline_from_s` leaves too little time for one.
    pub earlier_baseline_s: Option<[f64; 2]>,
    /// Start of the next fault, or end of the load.
    pub until_s: f64,
    /// End of counting: `until_s`, or the end of the drain.
    pub counted_until_s: f64,
    /// Timeout of the operations.
    pub timeout_s: f64,
    /// Failures per second in the whole load without a fault.
    pub usual_failures_per_s: f64,
}

/// Returns the effects of a fault on clients. Without a baseline, only counts are known.
///
/// In a long load, the first minutes are analyzed in narrow slots. If service is not back by then,
/// everything is analyzed in wide slots, and only the times of the first failure and the first
/// success still come from narrow slots.
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
    let baselines_s = [times.baseline_from_s.map(|from_s| [from_s, begun_s]), times.earlier_baseline_s];
    let baseline = baselines_s
        .into_iter()
        .flatten()
        .find_map(|[from_s, until_s]| Baseline::of(timeline, from_s, FaultTimes { at_s: until_s, ..times }));
    let course = baseline.map(|baseline| Recovery::of(timeline, latency, times, [begin, end], baseline));
    let back = course.as_ref().and_then(|course| course.back);
    // If service is never back, everything until the next fault, or until the end of the drain, is
    // affected.
    let affected = back.unwrap_or(counted);
    let after = |slot: usize| rounded_s((timeline.at_s(slot) - times.at_s).max(0.0));
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
        None => Outage { cannot_tell: Some("there is no baseline".to_owned()), ..felt },
    }
}

/// Rounds a time to the microsecond, because the difference of two decimal fractions is not exact.
fn rounded_s(time_s: f64) -> f64 {
    (time_s * 1e6).round() / 1e6
}

/// Recovery after a fault, relative to the baseline before it.
struct Recovery {
    baseline: Baseline,
    /// Whether latency before the fault is known.
    by_latency: bool,
    gaps: Vec<[usize; 2]>,
    /// Stretches of high latency, except those that an overshoot explains.
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
        let gaps = gaps(timeline, times, [begin, end], &baseline);
        let mut signs = OutageSigns::of(timeline, [begin, end], &gaps, baseline.clone());
        let mut quiet = signs.back_to_baseline(times);
        let drained = quiet.and_then(|[_, back]| overshoot(timeline, &baseline, [back, end]));
        // The second in which the backlog ends is still partly slow.
        let second = timeline.slots_in(1.0);
        let explained = drained.map_or(begin, |overshoot| overshoot.until.map_or(end, |until| until + second));
        let baseline_s = baseline.slots.map(|slot| timeline.at_s(slot));
        let by_latency = latency.is_known(baseline_s);
        let spells = latency.slow(baseline_s, [times.at_s, times.until_s]);
        let slots = spells.into_iter().map(|spell| spell.map(|edge_s| timeline.slot_of(edge_s)));
        let mut slow: Vec<[usize; 2]> = slots.filter(|spell| spell[1] > explained).collect();
        slow.iter_mut().for_each(|spell| spell[0] = spell[0].max(explained.min(end)));
        if !slow.is_empty() {
            signs.gap = marked([begin, end], gaps.iter().chain(&slow));
            quiet = signs.back_to_baseline(times);
        } else if let Some([earlier, late]) = quiet
            && is_brief(timeline, &gaps, [earlier, late], &baseline, times.healed_s)
        {
            let gaps = gaps.into_iter().filter(|gap| gap[0] < earlier).collect();
            let overshoot = overshoot(timeline, &baseline, [earlier, end]).filter(|_| earlier > begin);
            return Self { baseline, by_latency, gaps, slow, back: Some(earlier), overshoot };
        }
        let back = quiet.map(|[_, back]| back);
        let overshoot = match back {
            Some(back) if !slow.is_empty() => overshoot(timeline, &baseline, [back, end]).or(drained),
            _ => drained,
        };
        Self { baseline, by_latency, gaps, slow, back, overshoot }
    }

    /// Returns the reason if it cannot be determined whether service recovered.
    fn cannot_tell(&self, timeline: &Timeline, [begin, end]: [usize; 2]) -> Option<String> {
        if self.back.is_some() {
            let varied = 100.0 * self.baseline.too_varied()?.min(1.0);
            return Some(format!(
                "the baseline varies by ±{varied:.0} %, so a smaller drop of throughput is not detectable"
            ));
        }
        let hold = timeline.slots_in(HOLD_S).min(end - begin);
        let last = end - hold;
        let is_down = timeline.bad_between(last, end) > self.baseline.tolerated(hold)
            || self.gaps.iter().chain(&self.slow).any(|stretch| stretch[1] > last)
            || hold > 0 && self.baseline.bound_over(timeline, hold).is_above(timeline, last);
        (!is_down).then(|| "too little of the load was left after it".to_owned())
    }

    /// Returns the signs by which recovery was determined.
    fn signs(&self) -> Vec<String> {
        let known = [
            ("throughput", self.baseline.too_varied().is_none()),
            ("failures", true),
            ("gaps", true),
            ("latency", self.by_latency),
        ];
        known.into_iter().filter(|(_, is_known)| *is_known).map(|(sign, _)| sign.to_owned()).collect()
    }

    /// Adds the figures that need a baseline.
    fn beside_baseline(&self, timeline: &Timeline, felt: Outage, [begin, end]: [usize; 2]) -> Outage {
        let (baseline, slot_s) = (&self.baseline, timeline.slot_s());
        let drained = self.overshoot.and_then(|overshoot| overshoot.until);
        let until = self.back.map_or(end, |back| drained.map_or(back, |drained| drained.max(back)));
        let expected = baseline.ok_per_s * (until - begin) as f64 * slot_s;
        // Not limited to 0: over many faults, that would bias the mean.
        let lost = expected - timeline.ok().between(begin, until) as f64;
        let bound = baseline.told();
        let cannot_tell = self.cannot_tell(timeline, [begin, end]);
        let affected = [begin, self.back.unwrap_or(end)];
        let degraded = degraded(timeline, baseline, affected, &self.gaps, &self.slow);
        Outage {
            baseline_per_s: Some(baseline.ok_per_s),
            baseline_s: Some(baseline.slots.map(|slot| rounded_s(timeline.at_s(slot)))),
            baseline_ci95: baseline.ci95(timeline),
            baseline_spread_per_s: baseline.spread_per_s,
            bound_per_s: Some(bound.per_s.max(0.0)),
            bound_window_s: Some(bound.window as f64 * slot_s),
            total_s: Some(self.gaps.iter().map(|gap| gap[1] - gap[0]).sum::<usize>() as f64 * slot_s),
            degraded_s: Some(degraded as f64 * slot_s),
            lost_operations: Some(lost),
            lost_operations_ci95: baseline.expected_off(timeline, until - begin).map(|off| [lost - off, lost + off]),
            recovered: cannot_tell.is_none().then_some(self.back.is_some()),
            cannot_tell,
            recovery_by: self.signs(),
            overshoot_ratio: self.overshoot.map(|overshoot| overshoot.ratio),
            ..felt
        }
    }
}

/// A stall does not belong to the fault if it begins later than this after service was back, and
/// ends within this time. Seconds.
const BRIEF_S: f64 = HOLD_S;

/// Whether the only disturbance between two slots is a brief stall: low throughput without
/// failures. It must begin at least [`BRIEF_S`] after the first slot, and not when the fault is
/// healed: systems stall briefly without a fault, too.
fn is_brief(
    timeline: &Timeline,
    gaps: &[[usize; 2]],
    [earlier, late]: [usize; 2],
    baseline: &Baseline,
    healed_s: Option<f64>,
) -> bool {
    // The shortest window that shows the stall locates its start best.
    let low = baseline.bounds.iter().find_map(|bound| (earlier..late).find(|slot| bound.is_above(timeline, *slot)));
    let gaps = gaps.iter().filter(|gap| gap[0] >= earlier);
    let Some(first) = gaps.clone().map(|gap| gap[0]).chain(low).min() else { return false };
    let healed = healed_s.map(|healed_s| timeline.slot_of(healed_s));
    let brief = timeline.slots_in(BRIEF_S);
    timeline.bad_between(earlier, late) <= baseline.tolerated(late - earlier)
        && gaps.clone().all(|gap| gap[1] - gap[0] < baseline.window)
        && first >= earlier + brief
        && late < first + brief
        && healed.is_none_or(|healed| first.abs_diff(healed) > timeline.slots_in(AT_ONCE_S))
}

/// Returns the gaps in the slots since the fault.
fn gaps(timeline: &Timeline, times: FaultTimes, [begin, end]: [usize; 2], baseline: &Baseline) -> Vec<[usize; 2]> {
    timeline
        .ok()
        .silences(begin, end)
        .filter(|&[from, until]| {
            let failures_beside = timeline.failed().between(from.saturating_sub(1), until + 1) > 0;
            let mut after_s =
                [Some(times.at_s), times.healed_s].into_iter().flatten().map(|effect_s| timeline.at_s(from) - effect_s);
            let at_once = after_s.any(|after_s| (-AT_ONCE_S..=AT_ONCE_S).contains(&after_s));
            let of_its_own = match (failures_beside, at_once) {
                (true, _) => 0,
                (false, true) => baseline.longest + baseline.gap,
                (false, false) => baseline.window.max(FAR_LONGER * baseline.longest),
            };
            let by_chance = baseline.gap.max(by_chance_there(timeline, [from, until], end, baseline));
            until - from > by_chance.max(of_its_own) + timeline.unsure()
        })
        .collect()
}

/// Returns the longest gap that chance explains at the rate of success just before this gap or just
/// after it, whichever is lower. While nine of ten operations fail, successes are far apart.
fn by_chance_there(timeline: &Timeline, [from, until]: [usize; 2], end: usize, baseline: &Baseline) -> usize {
    let around = baseline.window / 2;
    let [begun, ended] = baseline.slots;
    let sides = [[from.saturating_sub(around), from], [until, (until + around).min(end)]];
    let sides = sides.map(|[begin, end]| (timeline.ok().between(begin, end), end.saturating_sub(begin)));
    let mut counts: Vec<(u64, usize)> = sides.into_iter().filter(|(ok, _)| *ok >= RATE_OPERATIONS).collect();
    if counts.is_empty() {
        counts.push((sides[0].0 + sides[1].0, sides[0].1 + sides[1].1));
    }
    // The longest gap by chance in a time as long as the baseline.
    let longest = counts.into_iter().filter(|(ok, _)| *ok > 0).map(|(ok, slots)| {
        let slots_of_each = slots as f64 / ok as f64;
        (slots_of_each * ((ended - begun) as f64 / slots_of_each / CHANCE).ln()) as usize
    });
    longest.max().unwrap_or(0)
}

/// Returns the time in bins in which some operations failed and others succeeded.
fn partial_s(timeline: &Timeline, begin: usize, end: usize) -> f64 {
    let bin = timeline.slots_in(PARTIAL_BIN_S).max(1);
    // No operation ended beyond the last slot.
    let end = end.min(timeline.slots());
    let bins = (begin..end).step_by(bin).map(|from| (from, (from + bin).min(end)));
    let both = bins
        .filter(|&(from, until)| timeline.failed().between(from, until) > 0 && timeline.ok().between(from, until) > 0);
    both.count() as f64 * bin as f64 * timeline.slot_s()
}

/// Time for which service must hold to be back; it must also hold for two windows.
pub(crate) const HOLD_S: f64 = 1.0;

/// Chance that a gap in a window as long as the baseline is wrongly called an outage.
pub(crate) const CHANCE: f64 = 0.01;

/// A fault's effects show within this time, or within the operations' timeout if that is longer.
const HORIZON_S: f64 = 10.0;

/// Returns the time until which a breakdown may belong to a fault, even if service was back in
/// between.
pub(crate) fn horizon_s(at_s: f64, healed_s: Option<f64>, timeout_s: f64) -> f64 {
    healed_s.unwrap_or(at_s).max(at_s) + timeout_s.max(HORIZON_S)
}

/// Signs of an outage in the slots since a fault, as running sums.
struct OutageSigns<'a> {
    timeline: &'a Timeline,
    begin: usize,
    end: usize,
    /// Number of windows below each bound, by the slot in which they begin.
    low: Vec<CumulativeCounts>,
    /// Slots in gaps, and slots whose operations took far longer than before.
    gap: CumulativeCounts,
    hold: usize,
    /// Largest number of operations that may go wrong in a hold.
    failures: u64,
    baseline: Baseline,
}

impl<'a> OutageSigns<'a> {
    fn of(timeline: &'a Timeline, [begin, end]: [usize; 2], gaps: &[[usize; 2]], baseline: Baseline) -> Self {
        let gap = marked([begin, end], gaps);
        Self { timeline, begin, end, low: Vec::new(), gap, hold: 0, failures: 0, baseline }.in_its_windows()
    }

    /// Derives the low windows and the hold from the baseline.
    fn in_its_windows(self) -> Self {
        let Self { timeline, begin, end, baseline, .. } = &self;
        let hold = timeline.slots_in(HOLD_S).max(2 * baseline.window);
        let low = baseline.bounds.iter().map(|bound| {
            let begins = *begin..(end + 1).saturating_sub(bound.window).max(*begin);
            CumulativeCounts::of(begins.map(|slot| u64::from(bound.is_above(timeline, slot))))
        });
        Self { low: low.collect(), hold, failures: baseline.tolerated(hold), ..self }
    }

    /// Returns two slots: the slot from which service was back before the last relapse, and the
    /// slot from which it is back for good. If the load leaves too little time for a hold, the
    /// longest hold that fits is used.
    fn back_to_baseline(&self, times: FaultTimes) -> Option<[usize; 2]> {
        self.back_for_good(times).or_else(|| {
            let half = (self.baseline.window / 2).max(1);
            let baseline = self.baseline.clone().in_windows_of(self.timeline, half);
            let shorter = Self { low: Vec::new(), gap: self.gap.clone(), baseline, ..*self }.in_its_windows();
            if shorter.hold >= self.hold {
                return None;
            }
            let [_, back] = shorter.back_to_baseline(times)?;
            // After an earlier slot the longer hold would have fitted, so service did not hold
            // there.
            (back + self.hold > self.end && shorter.holds_to_the_end(back)).then_some([back, back])
        })
    }

    /// Returns the slots of [`Self::back_to_baseline`], or `None` if the load leaves too little
    /// time for a full hold. Without a relapse, the two are equal.
    fn back_for_good(&self, times: FaultTimes) -> Option<[usize; 2]> {
        let horizon_s = horizon_s(times.at_s, times.healed_s, times.timeout_s);
        let horizon = self.timeline.slot_of(horizon_s).min(self.end);
        let (mut from, mut earlier) = (self.begin, None);
        loop {
            let quiet = self.first_quiet(from).map(|quiet| self.sharpened(quiet))?;
            if quiet + self.hold > self.end {
                return None;
            }
            match self.first_relapse(quiet, horizon) {
                Some(relapse) => (from, earlier) = (relapse + 1, Some(quiet)),
                None => return Some([earlier.unwrap_or(quiet), quiet]),
            }
        }
    }

    /// Whether a hold from this slot on contains a gap, high latency, or too many failures.
    fn breaks_off(&self, slot: usize) -> bool {
        let (from, until) = (slot - self.begin, slot - self.begin + self.hold);
        self.gap.between(from, until) > 0 || self.timeline.bad_between(slot, slot + self.hold) > self.failures
    }

    /// Returns the first slot, `from` or later, after which service holds.
    fn first_quiet(&self, from: usize) -> Option<usize> {
        let last = self.end.checked_sub(self.hold)?;
        (from..=last).find(|&slot| {
            let from = slot - self.begin;
            let until = from + self.hold - self.baseline.bounds[0].window + 1;
            self.low.iter().all(|low| low.between(from, until) == 0) && !self.breaks_off(slot)
        })
    }

    /// Whether the throughput of all slots from this slot on is within the bound.
    fn holds_to_the_end(&self, slot: usize) -> bool {
        let left = self.end - slot;
        let bound = self.baseline.bound_over(self.timeline, left);
        !bound.is_above(self.timeline, slot)
    }

    /// Returns the slot at which the rate changed to the baseline's. A window that looks ahead from
    /// a quiet slot may still contain the end of the outage.
    fn sharpened(&self, quiet: usize) -> usize {
        self.sharpened_by_failures(self.sharpened_by_rate(quiet))
    }

    /// Corrects the slot if the hold tolerates the last failures of the outage, because some
    /// failures are usual.
    fn sharpened_by_failures(&self, quiet: usize) -> usize {
        let before = quiet.saturating_sub(self.baseline.window).max(self.begin);
        let slots = quiet - before;
        let failed = self.timeline.bad_between(before, quiet);
        if self.failures == 0 || slots == 0 || failed <= self.baseline.tolerated(slots) {
            return quiet;
        }
        let until = (quiet + self.hold).min(self.end);
        let rates = [failed as f64 / slots as f64, self.baseline.bad_per_slot];
        change(|from, until| self.timeline.bad_between(from, until), [quiet, until], rates)
    }

    fn sharpened_by_rate(&self, quiet: usize) -> usize {
        if quiet == self.begin {
            return quiet;
        }
        let slot_s = self.timeline.slot_s();
        let bounds = &self.baseline.bounds;
        let last = quiet - 1 - self.begin;
        // The sign of an outage just before the slot: low throughput in a window, or only a gap or
        // failures.
        let low = self.low.iter().rposition(|low| low.between(last, last + 1) > 0);
        let limited = if low.is_some() { &bounds[..] } else { &bounds[..1] };
        let limit = limited.iter().map(|bound| bound.per_s).fold(f64::NEG_INFINITY, f64::max) * slot_s;
        let longest = low.unwrap_or(0);
        let ok = self.timeline.ok();
        // The highest of the low windows before the slot. A lower one contains a stall, or a deeper
        // part of the outage.
        let rates = bounds[..=longest].iter().map(|bound| {
            let slots = bound.window.min(quiet - self.begin);
            // No operation in this many slots does not mean a rate of 0.
            (ok.between(quiet - slots, quiet) as f64).max(0.5) / slots as f64
        });
        let Some(low) = rates.filter(|rate| *rate < limit).max_by(f64::total_cmp) else { return quiet };
        let until = (quiet + bounds[longest].window).min(self.end);
        bounded_change(|from, until| ok.between(from, until), [quiet, until], [low, self.baseline.ok_per_s * slot_s])
    }

    /// Returns the first slot between a quiet slot and the horizon at which service breaks down
    /// again, by more than chance.
    fn first_relapse(&self, quiet: usize, horizon: usize) -> Option<usize> {
        let last = horizon.min(self.end.checked_sub(self.hold)?);
        let low = self.low.iter().filter_map(|low| low.first_in(quiet - self.begin, last + 1 - self.begin)).min();
        let low = low.map(|slot| slot + self.begin);
        (quiet..=low.unwrap_or(last)).find(|&slot| Some(slot) == low || self.breaks_off(slot))
    }
}

/// Returns the slot at which a Poisson stream changed from the rate `a` to the rate `b` (both per
/// slot), by maximum likelihood. `between` counts its operations between two slots. Each operation
/// adds `ln(a / b)` to the evidence for `a`, and each slot adds `b - a`.
pub(crate) fn change(between: impl Fn(usize, usize) -> u64, [from, until]: [usize; 2], [a, b]: [f64; 2]) -> usize {
    let (each_operation, each_slot) = ((a / b).ln(), b - a);
    let (mut most, mut at) = (0.0, from);
    for slot in from..=until {
        let for_a = between(from, slot) as f64 * each_operation + (slot - from) as f64 * each_slot;
        if for_a > most {
            (most, at) = (for_a, slot);
        }
    }
    at
}

/// Returns the slot of [`change`], found by bins. The influence of a bin is limited to that of a
/// bin with rate `a` or `b`, so that a stall moves the change by no more than its own length.
/// Closer rates need more operations to be distinguished, and so longer bins.
fn bounded_change(between: impl Fn(usize, usize) -> u64, [from, until]: [usize; 2], [a, b]: [f64; 2]) -> usize {
    let bin = ((TELLING * (a / b).powi(2) / b).ceil() as usize).max(1);
    let (each_operation, each_slot) = ((a / b).ln(), b - a);
    let (mut sum, mut most, mut at) = (0.0, 0.0, from);
    for end in (from + bin..=until).step_by(bin) {
        let rate = (between(end - bin, end) as f64 / bin as f64).clamp(a, b);
        sum += bin as f64 * (rate * each_operation + each_slot);
        if sum > most {
            (most, at) = (sum, end);
        }
    }
    at
}

/// Marks the slots of `begin..end` that lie in a stretch. Slots are counted from `begin`.
fn marked<'a>([begin, end]: [usize; 2], stretches: impl IntoIterator<Item = &'a [usize; 2]>) -> CumulativeCounts {
    let mut marks = vec![0; end - begin];
    for stretch in stretches {
        let [from, until] = stretch.map(|slot| slot.clamp(begin, end));
        marks[from - begin..until.max(from) - begin].fill(1);
    }
    CumulativeCounts::of(marks)
}

/// Returns the number of slots of the affected window `begin..affected` in which service was
/// degraded. A degraded slot lies in no gap. The window around it (as long as the windows of the
/// bound) has no more failures than the baseline, and its throughput is below the bound or the slot
/// lies in a `slow` stretch.
fn degraded(
    timeline: &Timeline,
    baseline: &Baseline,
    [begin, affected]: [usize; 2],
    gaps: &[[usize; 2]],
    slow: &[[usize; 2]],
) -> usize {
    let (in_gap, is_slow) = (marked([begin, affected], gaps), marked([begin, affected], slow));
    let bound = baseline.told();
    let half = (bound.window / 2).max(1);
    let fewest = bound.per_s * timeline.slot_s();
    let tolerated = baseline.tolerated(2 * half);
    let mut degraded = 0;
    for slot in begin..affected {
        let (from, until) = (slot.saturating_sub(half).max(begin), (slot + half).min(affected));
        let served = (until - from) as u64 - in_gap.between(from - begin, until - begin);
        let is_low = (timeline.ok().between(from, until) as f64) < fewest * served as f64;
        let [is_in_gap, is_slow] = [&in_gap, &is_slow].map(|marks| marks.between(slot - begin, slot + 1 - begin) > 0);
        let counts = !is_in_gap && (is_low || is_slow) && timeline.bad_between(from, until) <= tolerated;
        degraded += usize::from(counts);
    }
    degraded
}

/// Shortest and longest window of an overshoot.
const OVERSHOOT_WINDOW_S: [f64; 2] = [0.1, 2.0];

/// Number of operations that an overshoot's window should contain.
const OVERSHOOT_WINDOW_OPERATIONS: f64 = 100.0;

/// Time after service is back within which a backlog begins to drain.
const SOON_S: f64 = 1.0;

/// Standard deviations above the baseline at which a window still belongs to the overshoot.
const STILL: f64 = 2.0;

/// Throughput above the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Overshoot {
    /// Throughput of the highest window, as a share of the baseline.
    pub ratio: f64,
    /// End slot; `None` if the overshoot lasts until the next fault or the load's end.
    pub until: Option<usize>,
}

/// Returns the overshoot after service was back in the slot `back`, if there was one before `end`.
fn overshoot(timeline: &Timeline, baseline: &Baseline, [back, end]: [usize; 2]) -> Option<Overshoot> {
    let (ok, slot_s) = (timeline.ok(), timeline.slot_s());
    let window_s =
        (OVERSHOOT_WINDOW_OPERATIONS / baseline.ok_per_s).clamp(OVERSHOOT_WINDOW_S[0], OVERSHOOT_WINDOW_S[1]);
    let window = timeline.slots_in(window_s).max(1);
    let count = |slot: usize| ok.between(slot, slot + window) as f64;
    let expected = baseline.ok_per_s * window as f64 * slot_s;
    let deviation = baseline.deviation_per_s(timeline, window_s) * window as f64 * slot_s;
    let [usual, still] =
        [DEVIATIONS, STILL].map(|deviations| expected + (WITHIN * expected).max(deviations * deviation));
    let [from, until] = baseline.slots;
    let usual = (from..=until.saturating_sub(window)).map(count).fold(usual, f64::max);
    let last = end.checked_sub(window)?;
    let soon = (back + timeline.slots_in(SOON_S)).min(last);
    let first = (back..=soon).find(|&slot| count(slot) > usual)?;
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
