//! What service was like before a fault: its level, its spread, and how sure both are. It must not look at anything that happened
//! after the fault.
//!
//! **Intervals** come from batch means: the baseline is cut into ten batches of equal length, and the spread of their means says how far
//! the mean of all can be off. Throughput of neighbouring moments is alike (a stall, a garbage collection), and a batch that is
//! long beside that makes its mean nearly independent of the next one, which single moments are not. Between 10 and 30 batches are
//! enough (B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30, 1982); of these, ten are the
//! longest. With nine degrees of freedom Student's t stands in for the normal distribution.

use crate::stats::order::{interquartile_range, mean};
use crate::stats::timeline::Timeline;

/// The baseline is taken from this long before the fault, at most.
const BASELINE_S: f64 = 10.0;

/// Less than this is no baseline.
const SHORTEST_BASELINE_S: f64 = 0.5;

/// The spread of the baseline is that of windows this long.
const SPREAD_WINDOW_S: f64 = 0.1;

/// Throughput this much below the baseline (as a share) counts as back.
pub(super) const WITHIN: f64 = 0.05;

/// … or this many standard deviations.
pub(super) const DEVIATIONS: f64 = 4.5;

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
pub(super) struct Baseline {
    /// Its slots.
    pub slots: [usize; 2],
    pub ok_per_s: f64,
    pub spread_per_s: Option<f64>,
    /// Throughput below this is an outage.
    pub bound_per_s: f64,
    /// Slots of a window.
    pub window: usize,
    /// Operations that may go wrong in [`HOLD_S`].
    pub failures: u64,
    /// Slots without success that chance does not explain.
    pub gap: usize,
    /// The longest stretch of slots without success.
    pub longest: usize,
}

impl Baseline {
    /// The baseline of a fault at `at_s`; `None` if there is too little of it.
    pub fn of(timeline: &Timeline, from_s: f64, at_s: f64) -> Option<Self> {
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
        let gap_s = (ok as f64 / CHANCE).ln() / ok_per_s;
        let longest = timeline.ok().silences(from, until).map(|silence| silence[1] - silence[0]).max().unwrap_or(0);
        Some(Self {
            slots: [from, until],
            ok_per_s,
            spread_per_s: interquartile_range(&timeline.ok_rates(from_s, at_s, SPREAD_WINDOW_S))
                .map(|range| range / 2.0),
            bound_per_s: ok_per_s - allowance,
            window: slots(window_s),
            failures: tolerated(bad * HOLD_S / length_s),
            gap: slots(gap_s),
            longest,
        })
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

#[cfg(test)]
mod tests {
    use crate::stats::made_load::{Made, near};

    /// A Poisson stream whose rate wanders around 5,000/s: noise of 10 % that is forgotten within about 200 ms.
    fn wandering(seed: u64, length_s: f64) -> Made {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let steps = (length_s / 0.01) as usize + 1;
        let kept = (-0.01_f64 / 0.2).exp();
        let mut off = 0.0;
        let rates: Vec<f64> = (0..steps)
            .map(|_| {
                let normal = (0..12).map(|_| random.f64() - 0.5).sum::<f64>();
                off = kept * off + (1.0_f64 - kept * kept).sqrt() * normal;
                5_000.0 * (1.0 + 0.1 * off)
            })
            .collect();
        Made::random(seed, length_s, |at_s| rates[(at_s / 0.01) as usize].max(0.0))
    }

    /// Of 300 loads, how many intervals of the baseline hold the true rate, and how many of the losses in an outage of so long.
    fn holding(make: impl Fn(u64) -> Made, down_s: f64) -> [usize; 2] {
        let mut holds = [0, 0];
        for seed in 0..300 {
            let mut made = make(seed);
            let mut lost = 0;
            for row in made.rows.iter_mut().filter(|row| row.at_s > 11.9995 && row.at_s < 11.9995 + down_s) {
                lost += row.ok;
                row.ok = 0;
            }
            let felt = made.failing(1, 12.0, 12.001).outage(12.0);
            let [low, high] = felt.baseline_ci95.unwrap();
            holds[0] += usize::from((low..=high).contains(&5_000.0));
            // What came before the outage's end and what it ended at are not the interval's: the truth is that of its slots.
            assert!(near(felt.total_s, down_s, 0.006), "{felt:?}");
            let [low, high] = felt.lost_operations_ci95.unwrap();
            holds[1] += usize::from((low..=high).contains(&f64::from(lost)));
        }
        holds
    }

    #[test]
    fn of_an_even_stream_the_intervals_hold_the_truth_as_often_as_they_say() {
        for down_s in [0.05, 3.0] {
            let holds = holding(|seed| Made::random(seed, 17.0, |_| 5_000.0), down_s);
            assert!(holds.iter().all(|&holds| (276..=298).contains(&holds)), "{holds:?} of 300 with {down_s} s");
        }
    }

    #[test]
    fn so_they_do_of_one_whose_rate_wanders() {
        for down_s in [0.05, 3.0] {
            let holds = holding(|seed| wandering(seed, 17.0), down_s);
            assert!(holds.iter().all(|&holds| holds >= 276), "{holds:?} of 300 with {down_s} s");
        }
    }

    #[test]
    fn without_an_outage_nothing_is_lost_for_sure() {
        let felt = Made::random(1, 20.0, |_| 5_000.0).outage(12.0);
        assert_eq!((felt.lost_operations, felt.lost_operations_ci95), (Some(0.0), Some([0.0, 0.0])));
    }

    #[test]
    fn what_never_came_back_is_counted_to_the_end_with_its_interval() {
        let felt = Made::random(2, 20.0, |at_s| if at_s < 12.0 { 5_000.0 } else { 2_000.0 }).outage(12.0);
        let [low, high] = felt.lost_operations_ci95.unwrap();
        assert!(low < 24_000.0 && 24_000.0 < high && high - low < 3_000.0, "{felt:?}");
    }
}
