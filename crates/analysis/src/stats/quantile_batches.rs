//! Confidence intervals of the latency quantiles of a trial.
//!
//! Neighbouring operations wait in the same queue, so they are worth far fewer independent
//! operations. Intervals from order statistics assume independence and are many times too narrow.
//! So the measured part is cut into ten batches with a quantile each. The differences between the
//! logarithms of these quantiles and that of the whole give a standard error (M. K. Nakayama,
//! "Confidence intervals for quantiles using sectioning when applying variance-reduction
//! techniques", ACM Transactions on Modeling and Computer Simulation 24, 2014), which counts the
//! bias of short batches as spread. The interval is computed as in [`super::sectioning`].

use experiment::plan::samples_for;
use hdrhistogram::Histogram;
use record::hlog::HistogramCounts;
use record::results::QuantileIntervals;

use super::sectioning::{BATCHES, SHORTEST_S, half_width};

/// Latencies in nanoseconds, by the batch of the measured part in which they ended.
#[derive(Debug, Default)]
pub(crate) struct QuantileBatches {
    from_s: f64,
    until_s: f64,
    batches: [Option<Histogram<u64>>; BATCHES],
}

impl QuantileBatches {
    /// Creates batches for the time between two times, which are whole seconds. They stay empty if
    /// there are fewer seconds than batches.
    pub fn over([from_s, until_s]: [f64; 2]) -> Self {
        Self { from_s, until_s, batches: Default::default() }
    }

    /// Adds an interval of one second.
    pub fn add(&mut self, start_s: f64, counts: &HistogramCounts) {
        let long_s = self.until_s - self.from_s;
        // The log rounds starts to the millisecond.
        let share = (start_s + 5e-4 - self.from_s) / long_s;
        if long_s >= SHORTEST_S && (0.0..1.0).contains(&share) {
            counts.add_to(&mut self.batches[(share * BATCHES as f64) as usize]);
        }
    }

    /// Returns the intervals for the results, microseconds, or `None` if there is none.
    pub fn intervals_us(&self) -> Option<QuantileIntervals> {
        let sections = self.sections()?;
        let mut all = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999]
            .map(|quantile| sections.ci95(quantile).map(|ends| ends.map(|ns| ns / 1e3)));
        // Bounds of a quantile are not below those of a lower quantile, nor above those of a higher
        // one.
        let mut least = 0.0_f64;
        for [low, _] in all.iter_mut().flatten() {
            least = least.max(*low);
            *low = least;
        }
        let mut most = f64::INFINITY;
        for [_, high] in all.iter_mut().rev().flatten() {
            most = most.min(*high);
            *high = most;
        }
        let [p50_ci95, p75_ci95, p90_ci95, p95_ci95, p99_ci95, p999_ci95] = all;
        p50_ci95.map(|_| QuantileIntervals { p50_ci95, p75_ci95, p90_ci95, p95_ci95, p99_ci95, p999_ci95 })
    }

    /// Returns the batches of both lengths, or `None` if a batch has no operation.
    fn sections(&self) -> Option<Sections> {
        let ten: Vec<Histogram<u64>> = self.batches.iter().cloned().collect::<Option<_>>()?;
        let five: Vec<Histogram<u64>> = ten.chunks(2).map(summed).collect::<Option<_>>()?;
        Some(Sections { all: summed(&five)?, ten, five })
    }
}

/// Batches of two lengths, and all of them together.
struct Sections {
    ten: Vec<Histogram<u64>>,
    five: Vec<Histogram<u64>>,
    all: Histogram<u64>,
}

impl Sections {
    /// Returns the 95 % interval of a quantile, nanoseconds. Returns `None` if a batch has too few
    /// operations for the quantile.
    fn ci95(&self, quantile: f64) -> Option<[f64; 2]> {
        if self.ten.iter().any(|batch| batch.len() < samples_for(quantile)) {
            return None;
        }
        let centre = log_quantile(&self.all, quantile);
        let [ten, five] = [&self.ten, &self.five]
            .map(|batches| batches.iter().map(|batch| log_quantile(batch, quantile) - centre).collect::<Vec<f64>>());
        let half = half_width(&ten, &five)?;
        Some([(centre - half).exp(), (centre + half).exp()])
    }
}

fn log_quantile(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    (histogram.value_at_quantile(quantile) as f64).max(1.0).ln()
}

fn summed(histograms: &[Histogram<u64>]) -> Option<Histogram<u64>> {
    let (first, others) = histograms.split_first()?;
    let mut sum = first.clone();
    others.iter().try_for_each(|other| sum.add(other)).ok()?;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates 40 trials of 10 s of a queue with one server and random arrivals, and counts the
    /// intervals of its median and p90 that contain the truth. The time in such a queue is
    /// exponential.
    fn coverage(load: f64) -> [u32; 2] {
        let mut random = fastrand::Rng::with_seed(1);
        let (serves_per_s, mut held) = (120.0, [0; 2]);
        for _ in 0..40 {
            let mut batches = QuantileBatches::over([0.0, 10.0]);
            let (mut at_s, mut free_s, mut second) = (0.0_f64, 0.0_f64, 0.0);
            let mut histogram = Histogram::<u64>::new(2).unwrap();
            while second < 10.0 {
                at_s -= random.f64().max(1e-12).ln() / (serves_per_s * load);
                free_s = free_s.max(at_s) - random.f64().max(1e-12).ln() / serves_per_s;
                while free_s >= second + 1.0 {
                    batches.add(second, &HistogramCounts::of(&histogram));
                    histogram.reset();
                    second += 1.0;
                }
                histogram.record(((free_s - at_s) * 1e9) as u64).unwrap();
            }
            let sections = batches.sections().unwrap();
            for (held, quantile) in held.iter_mut().zip([0.5, 0.9]) {
                let truth_ns = -(1.0_f64 - quantile).ln() / (serves_per_s * (1.0 - load)) * 1e9;
                let [low, high] = sections.ci95(quantile).unwrap();
                *held += u32::from(low <= truth_ns && truth_ns <= high);
            }
        }
        held
    }

    #[test]
    fn intervals_contain_the_quantiles_of_a_queue() {
        for load in [0.5, 0.9] {
            let held = coverage(load);
            // 90 to 100 %, less two standard errors of a share of 40.
            assert!(held.iter().all(|held| *held >= 33), "load {load}: {held:?} of 40");
        }
    }

    #[test]
    fn too_few_operations_or_seconds_give_no_interval() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1_000_000, 298).unwrap();
        let counts = HistogramCounts::of(&histogram);
        let [nine, ten, twenty] = [9, 10, 20].map(|seconds: u32| {
            let mut batches = QuantileBatches::over([2.0, 2.0 + f64::from(seconds)]);
            (0..seconds + 5).for_each(|second| batches.add(2.0 + f64::from(second), &counts));
            batches.sections()
        });
        assert!(nine.is_none());
        let ten = ten.unwrap();
        let [low, high] = ten.ci95(0.5).unwrap();
        assert!((low / 1e6 - 1.0).abs() < 0.001 && (high / 1e6 - 1.0).abs() < 0.001, "{low} {high}");
        assert_eq!(ten.ci95(0.99), None, "298 in a batch");
        assert!(twenty.unwrap().ci95(0.99).is_some());
    }

    #[test]
    fn interval_bounds_rise_with_the_quantile() {
        let mut batches = QuantileBatches::over([0.0, 10.0]);
        for second in 0..10_u32 {
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.record_n(1_000_000 + u64::from(second % 3) * 1_000, 980).unwrap();
            // The tail is a hundred times as long in one second of three.
            histogram.record_n(if second % 3 == 0 { 200_000_000 } else { 2_000_000 }, 20).unwrap();
            batches.add(f64::from(second), &HistogramCounts::of(&histogram));
        }
        let found = batches.intervals_us().unwrap();
        let (median, tail) = (found.p50_ci95.unwrap(), found.p99_ci95.unwrap());
        let alone = batches.sections().unwrap().ci95(0.99).unwrap();
        assert!(alone[0] / 1e3 < median[0], "by itself it would be lower: {alone:?}");
        assert!(tail[0] >= median[0] && tail[1] > tail[0] && median[1] < tail[1], "{found:?}");
    }
}
