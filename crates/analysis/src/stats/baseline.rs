//! Service before a fault: its level, the precision of that level, and the variation of throughput
//! without a fault.
//!
//! **Baseline**: the mean `ok` rate of up to 10 s before the fault. If these seconds hold too
//! little undisturbed load, another part of the load is used.
//!
//! **Bounds**: throughput of a window is low if it is below the level by more than an allowance.
//! The allowance is the largest of three values: 5 %; 4.5 standard deviations of a Poisson stream
//! (a second holds many overlapping windows, each of which could raise a false alarm); and the
//! variation without a fault. This variation is based on the lowest window of the same length in up
//! to 60 s of undisturbed load before the fault: the window's deficit, less the deficit that a
//! Poisson stream explains, times a factor. The lowest of `n` normal numbers is about `√(2 ln n)`
//! standard deviations below their mean (H. Cramér, "Mathematical Methods of Statistics", 1946,
//! section 28.6), and the factor raises this to 5.5. The factor is at least 2, because pauses are
//! not normal: two may fall into one window. A drop that the system also shows without a fault is
//! no sign of a fault.
//!
//! Each length of window has a bound; lengths double up to 4 s. The longer the window, the smaller
//! the drop that it can detect.
//!
//! **Reported bound**: the bound of the shortest window whose allowance is at most a quarter of the
//! level. If no window has such a bound, recovery of throughput cannot be determined.
//!
//! **Intervals** are computed as in [`super::sectioning`].

use super::outage::{CHANCE, FaultTimes};
use super::quantiles::{interquartile_range, mean};
use super::sectioning::{BATCHES, half_width};
use super::significance::moments;
use super::timeline::Timeline;
use super::usual_failures::excess;

/// Longest time before the fault from which the baseline is taken.
pub(crate) const BASELINE_S: f64 = 10.0;

/// Shortest baseline.
pub(crate) const SHORTEST_BASELINE_S: f64 = 0.5;

/// Longest time before the fault from which the variation of throughput is taken.
const VARIATION_S: f64 = 60.0;

/// Window length for the spread of the baseline.
const SPREAD_WINDOW_S: f64 = 0.1;

/// Smallest allowance below the baseline, as a share of it.
pub(super) const WITHIN: f64 = 0.05;

/// Smallest allowance below the baseline, in standard deviations of a Poisson stream.
pub(super) const DEVIATIONS: f64 = 4.5;

/// Interquartile range of a normal distribution with standard deviation 1.
const NORMAL_IQR: f64 = 1.349;

/// Shortest and longest usual window over which throughput is compared with the baseline. The rate
/// decides between them.
const WINDOW_S: [f64; 2] = [0.25, 2.0];

/// Number of operations that the usual window should hold; its Poisson noise is then 2.2 %.
const WINDOW_OPERATIONS: f64 = 2_000.0;

/// Number of operations that the shortest window should hold; its Poisson noise is then 10 %.
const FEWEST_OPERATIONS: f64 = 100.0;

/// Smallest factor by which the deficit of the lowest window without a fault is multiplied.
const LOWER: f64 = 2.0;

/// Standard deviations that the multiplied deficit reaches if throughput is normally distributed.
const LOWEST_DEVIATIONS: f64 = 5.5;

/// Fewest windows without a fault on which a bound is based.
const FEWEST_WINDOWS: usize = 4;

/// Longest window over which throughput is compared with the baseline.
const LONGEST_WINDOW_S: f64 = 4.0;

/// Largest allowance with which the recovery of throughput can be determined, as a share of the
/// level.
const CEILING: f64 = 0.25;

/// Shortest batch of a baseline that has an interval, seconds.
const SHORTEST_BATCH_S: f64 = 0.8;

/// The 97.5 % quantile of Student's t with nine degrees of freedom.
const DEVIATIONS_95: f64 = 2.262_157;

/// Service before a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Baseline {
    /// Slots of the baseline: first, and end (exclusive).
    pub slots: [usize; 2],
    /// Undisturbed slots that show the variation of throughput: the baseline and up to 50 s before
    /// it.
    varied: [usize; 2],
    /// Level: mean `ok` operations per second.
    pub ok_per_s: f64,
    /// Half the interquartile range of throughput in windows of [`SPREAD_WINDOW_S`].
    pub spread_per_s: Option<f64>,
    /// Length of the usual window, slots.
    pub window: usize,
    /// Bounds, from the shortest window to the longest; at least one.
    pub bounds: Vec<Bound>,
    /// Mean operations per slot that fail or answer wrongly without a fault.
    pub bad_per_slot: f64,
    /// Mean operations per slot that fail without a fault.
    pub failed_per_slot: f64,
    /// Largest number of consecutive slots without success that chance explains.
    pub gap: usize,
    /// Number of slots in the longest stretch of the baseline without success.
    pub longest: usize,
}

/// Throughput below which a window is low.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// Length of the window, slots.
    pub window: usize,
    /// `ok` per second.
    pub per_s: f64,
}

impl Bound {
    /// Whether the window that begins in this slot is low.
    pub fn is_above(&self, timeline: &Timeline, slot: usize) -> bool {
        let fewest = self.per_s * self.window as f64 * timeline.slot_s();
        (timeline.ok().between(slot, slot + self.window) as f64) < fewest
    }
}

impl Baseline {
    /// Returns the baseline of a fault, or `None` if there is too little time or no success before
    /// the fault.
    pub fn of(
        timeline: &Timeline,
        from_s: f64,
        FaultTimes { at_s, usual_failures_per_s, .. }: FaultTimes,
    ) -> Option<Self> {
        let varied = [timeline.slot_of(from_s.max(at_s - VARIATION_S)), timeline.slot_of(at_s)];
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
        let [failed_per_slot, wrong_per_slot] = [timeline.failed(), timeline.wrong()]
            .map(|counts| counts.between(from, until) as f64 / (until - from) as f64);
        // A short baseline with rare failures may have none by chance.
        let failed_per_slot = failed_per_slot.max(usual_failures_per_s * slot_s);
        let gap_s = (ok as f64 / CHANCE).ln() / ok_per_s;
        let longest = timeline.ok().silences(from, until).map(|silence| silence[1] - silence[0]).max().unwrap_or(0);
        let window_s = (WINDOW_OPERATIONS / ok_per_s).clamp(WINDOW_S[0], WINDOW_S[1]);
        let baseline = Self {
            slots: [from, until],
            varied,
            ok_per_s,
            spread_per_s: interquartile_range(&timeline.ok_rates(from_s, at_s, SPREAD_WINDOW_S))
                .map(|range| range / 2.0),
            window: 1,
            bounds: Vec::new(),
            bad_per_slot: failed_per_slot + wrong_per_slot,
            failed_per_slot,
            gap: timeline.slots_in(gap_s).max(1),
            longest,
        };
        Some(baseline.in_windows_of(timeline, timeline.slots_in(window_s).max(1)))
    }

    /// Returns the baseline with a usual window of this many slots, and with bounds for shorter and
    /// longer windows.
    pub fn in_windows_of(self, timeline: &Timeline, window: usize) -> Self {
        let varied = self.varied[1] - self.varied[0];
        let longest = timeline.slots_in(LONGEST_WINDOW_S).min(varied / FEWEST_WINDOWS);
        let shortest = timeline.slots_in(WINDOW_S[0].max(FEWEST_OPERATIONS / self.ok_per_s));
        let shorter = std::iter::successors(Some(window), |window| Some(window / 2));
        let first = shorter.take_while(|shorter| *shorter >= shortest).last().unwrap_or(window);
        let windows = std::iter::successors(Some(first), |window| Some(2 * window));
        let windows = windows.take_while(|other| *other <= window.max(longest));
        let bounds = windows.map(|window| self.bound_over(timeline, window)).collect();
        Self { window, bounds, ..self }
    }

    /// Returns the bound of the shortest window with which recovery can be determined, or else the
    /// bound of the longest window.
    pub fn told(&self) -> Bound {
        let told = self.bounds.iter().find(|bound| self.allowance(bound) <= CEILING).or(self.bounds.last());
        told.copied().unwrap_or(Bound { window: 1, per_s: 0.0 })
    }

    /// Returns the share of the level by which throughput varies without a fault, if this is too
    /// much to determine recovery.
    pub fn too_varied(&self) -> Option<f64> {
        Some(self.allowance(&self.told())).filter(|allowance| *allowance > CEILING)
    }

    /// Returns the share of the level by which a window may be lower.
    fn allowance(&self, bound: &Bound) -> f64 {
        1.0 - bound.per_s / self.ok_per_s
    }

    /// Returns the bound of throughput over a window of this many slots.
    pub fn bound_over(&self, timeline: &Timeline, window: usize) -> Bound {
        let window_s = window as f64 * timeline.slot_s();
        let level = self.ok_per_s;
        let chance = (level / window_s).sqrt();
        let windows = ((self.varied[1] - self.varied[0]) as f64 / window as f64).max(FEWEST_WINDOWS as f64);
        // The lowest of n normal numbers is about √(2 ln n) standard deviations below their mean.
        let reach = (2.0 * windows.ln()).sqrt();
        let times = (LOWEST_DEVIATIONS / reach).max(LOWER);
        let lacking = level - self.lowest_per_s(timeline, window).unwrap_or(level);
        // The deficit beyond that of the lowest window of a Poisson stream.
        let by_itself = (lacking.max(0.0).powi(2) - (reach * chance).powi(2)).max(0.0).sqrt();
        let lower = by_itself * times + 2.0 * chance;
        let allowance = lower.max(WITHIN * level).max(DEVIATIONS * chance);
        Bound { window, per_s: level - allowance - beside(timeline, level, window_s) }
    }

    /// Returns the throughput of the lowest window of this many slots, or `None` if no window fits.
    fn lowest_per_s(&self, timeline: &Timeline, window: usize) -> Option<f64> {
        let [from, until] = self.varied;
        let begins = (from..=until.checked_sub(window)?).step_by((window / 50).max(1));
        let fewest = begins.map(|begin| timeline.ok().between(begin, begin + window)).min()?;
        Some(fewest as f64 / (window as f64 * timeline.slot_s()))
    }

    /// Returns the failures in these slots beyond those that are usual without the outage.
    pub fn excess(&self, timeline: &Timeline, [begin, end]: [usize; 2]) -> f64 {
        let failed = timeline.failed().between(begin, end);
        let ended = timeline.ok().between(begin, end) + timeline.wrong().between(begin, end) + failed;
        let ok_per_slot = self.ok_per_s * timeline.slot_s();
        excess(failed, ended, self.failed_per_slot / (self.failed_per_slot + ok_per_slot))
    }

    /// Returns the largest number of operations that may go wrong in this many slots.
    pub fn tolerated(&self, slots: usize) -> u64 {
        tolerated(self.bad_per_slot * slots as f64)
    }

    /// Returns the standard deviation of windows of this many seconds. It is derived from their
    /// interquartile range, so that a single stall does not widen it, and is at least that of a
    /// Poisson stream.
    pub fn deviation_per_s(&self, timeline: &Timeline, window_s: f64) -> f64 {
        let [from_s, until_s] = self.slots.map(|slot| timeline.at_s(slot));
        let rates = timeline.ok_rates(from_s, until_s, window_s);
        let seen = interquartile_range(&rates).filter(|_| rates.len() >= 4).map_or(0.0, |range| range / NORMAL_IQR);
        let level = mean(&rates).unwrap_or(self.ok_per_s);
        seen.max((level / window_s).sqrt())
    }

    /// Returns the 95 % interval of the level, or `None` if the baseline is too short for an
    /// interval.
    pub fn ci95(&self, timeline: &Timeline) -> Option<[f64; 2]> {
        let half = self.half_width(timeline)? / timeline.slot_s();
        Some([(self.ok_per_s - half).max(0.0), self.ok_per_s + half])
    }

    /// Returns how far (95 %) the `ok` operations in this many slots without a fault may be from
    /// the baseline's level. Combines the spread of equally long stretches within the baseline with
    /// the uncertainty of its level. Returns `None` if the baseline is too short.
    ///
    /// The variance of stretches longer than a batch grows with their length, as that of the mean
    /// falls with it.
    pub fn expected_off(&self, timeline: &Timeline, slots: usize) -> Option<f64> {
        if slots == 0 {
            return Some(0.0);
        }
        let of_mean = self.half_width(timeline)?;
        let (all, slots) = ((self.slots[1] - self.slots[0]) as f64, slots as f64);
        let of_long = of_mean * (all * slots).sqrt();
        let of_stretch = match slots <= all / BATCHES as f64 {
            true => DEVIATIONS_95 * moments(&self.counts(timeline, slots as usize))?.1.sqrt(),
            false => of_long,
        };
        Some((of_mean * slots).hypot(of_stretch))
    }

    /// Returns half of the width of the 95 % interval of the mean number of successes in a slot
    /// (see [`super::sectioning`]).
    fn half_width(&self, timeline: &Timeline) -> Option<f64> {
        let all = self.slots[1] - self.slots[0];
        let batch = all / BATCHES;
        if (batch as f64 * timeline.slot_s()) < SHORTEST_BATCH_S - 1e-6 {
            return None;
        }
        let [ten, five] = [batch, 2 * batch].map(|batch| {
            let counts = self.counts(timeline, batch);
            let centre = mean(&counts).unwrap_or(0.0);
            counts.iter().rev().map(|count| (count - centre) / batch as f64).collect::<Vec<f64>>()
        });
        half_width(&ten, &five)
    }

    /// Returns the `ok` operations in consecutive stretches of this many slots. The oldest slots
    /// are left out if they do not fill a stretch.
    fn counts(&self, timeline: &Timeline, stretch: usize) -> Vec<f64> {
        let [from, until] = self.slots;
        let ends = (from..=until).rev().step_by(stretch);
        let begins = ends.filter_map(|end| end.checked_sub(stretch).filter(|&begin| begin >= from));
        begins.map(|begin| timeline.ok().between(begin, begin + stretch) as f64).collect()
    }
}

/// Returns the part of a window's throughput that clock errors may have moved into neighbouring
/// windows.
fn beside(timeline: &Timeline, ok_per_s: f64, window_s: f64) -> f64 {
    ok_per_s * (2.0 * timeline.clock_error_s() / window_s).min(1.0)
}

/// Returns the largest number of operations that may go wrong if the average is `mean`.
fn tolerated(mean: f64) -> u64 {
    if mean > 0.0 { (mean + DEVIATIONS * mean.sqrt()).ceil() as u64 } else { 0 }
}
