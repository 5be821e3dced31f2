//! How sure a quantile of a trial's latencies is.
//!
//! Neighbouring operations wait in the same queue, so they are worth far fewer than they are, and intervals from order statistics, which take
//! them for independent, are many times too narrow. So the measured part is cut into ten batches, each has its own quantile, and the
//! logarithms of these, off that of the quantile of all, give a standard error: sectioning (M. K. Nakayama, "Confidence intervals for
//! quantiles using sectioning when applying variance-reduction techniques", ACM Transactions on Modeling and Computer Simulation 24,
//! 2014), which counts the bias of short batches as spread. Student's t has nine degrees of freedom. Where a queue is long, a batch is like
//! the next one: the error grows with their autocorrelation, as the mean's of an autoregressive series does. Of ten values it comes out too
//! low on average, by (1 + 4ρ) / 10 (F. H. C. Marriott and J. A. Pope, "Bias in the estimation of autocorrelations", Biometrika 41, 1954),
//! which is put back. The interval from five batches twice as long holds where it is wider all the same.

use experiment::plan::samples_for;
use hdrhistogram::Histogram;
use record::hlog::HistogramCounts;
use record::results::QuantileIntervals;

/// Batches.
const BATCHES: usize = 10;

/// The 97.5 % quantile of Student's t with [`BATCHES`] − 1 degrees of freedom.
const STUDENT: f64 = 2.262_157;

/// … and with half as many.
const STUDENT_OF_PAIRS: f64 = 2.776_445;

/// The highest autocorrelation of batches that is allowed for: ten values tell no more.
const MOST_ALIKE: f64 = 0.8;

/// Latencies in nanoseconds, by the batch of the measured part that they ended in.
#[derive(Debug, Default)]
pub(crate) struct QuantileBatches {
    from_s: f64,
    until_s: f64,
    batches: [Option<Histogram<u64>>; BATCHES],
}

impl QuantileBatches {
    /// Of the time between these, in whole seconds; nothing where they are fewer than batches.
    pub fn over([from_s, until_s]: [f64; 2]) -> Self {
        Self { from_s, until_s, batches: Default::default() }
    }

    /// Takes in an interval of a second.
    pub fn add(&mut self, start_s: f64, counts: &HistogramCounts) {
        let long_s = self.until_s - self.from_s;
        // Starts are written to the millisecond.
        let share = (start_s + 5e-4 - self.from_s) / long_s;
        if long_s >= BATCHES as f64 && (0.0..1.0).contains(&share) {
            counts.add_to(&mut self.batches[(share * BATCHES as f64) as usize]);
        }
    }

    /// Those of the results, microseconds; `None` where there is none at all.
    pub fn intervals_us(&self) -> Option<QuantileIntervals> {
        let ci95 = |quantile| self.ci95(quantile).map(|ends| ends.map(|ns| ns / 1e3));
        let found = QuantileIntervals {
            p50_ci95: ci95(0.5),
            p75_ci95: ci95(0.75),
            p90_ci95: ci95(0.9),
            p95_ci95: ci95(0.95),
            p99_ci95: ci95(0.99),
            p999_ci95: ci95(0.999),
        };
        found.p50_ci95.map(|_| found)
    }

    /// The 95 % interval of a quantile, nanoseconds; `None` where a batch has too few operations to have it.
    pub fn ci95(&self, quantile: f64) -> Option<[f64; 2]> {
        let (centre, short) = self.deviations(quantile, 1)?;
        let (_, long) = self.deviations(quantile, 2)?;
        let alike = autocorrelation(&short);
        let short_error = standard_error(&short) * ((1.0 + alike) / (1.0 - alike)).sqrt();
        let half = (STUDENT * short_error).max(STUDENT_OF_PAIRS * standard_error(&long));
        Some([(centre - half).exp(), (centre + half).exp()])
    }

    /// The logarithm of a quantile, and how far off it that of each batch is; so many batches are taken together.
    fn deviations(&self, quantile: f64, together: usize) -> Option<(f64, Vec<f64>)> {
        let value = |histogram: &Histogram<u64>| (histogram.value_at_quantile(quantile) as f64).max(1.0).ln();
        let (mut all, mut logs) = (Histogram::<u64>::new(3).ok()?, Vec::with_capacity(BATCHES));
        for batches in self.batches.chunks(together) {
            let mut sum = Histogram::<u64>::new(3).ok()?;
            for batch in batches {
                let batch = batch.as_ref().filter(|batch| batch.len() >= samples_for(quantile))?;
                sum.add(batch).ok()?;
            }
            logs.push(value(&sum));
            all.add(&sum).ok()?;
        }
        let centre = value(&all);
        Some((centre, logs.into_iter().map(|log| log - centre).collect()))
    }
}

fn standard_error(deviations: &[f64]) -> f64 {
    let count = deviations.len() as f64;
    let squares: f64 = deviations.iter().map(|off| off * off).sum();
    (squares / (count * (count - 1.0))).sqrt()
}

/// Of each with the next, from 0 to [`MOST_ALIKE`].
fn autocorrelation(deviations: &[f64]) -> f64 {
    let squares: f64 = deviations.iter().map(|off| off * off).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let count = deviations.len() as f64;
    let found = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
    ((count * found + 1.0) / (count - 4.0)).clamp(0.0, MOST_ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 200 trials of a queue with one server and random arrivals, how many intervals of its median, p90 and p99 hold the truth. The time in
    /// such a queue is exponential.
    fn coverage(load: f64, seconds: u32, seed: u64) -> [u32; 3] {
        let mut random = fastrand::Rng::with_seed(seed);
        let (serves_per_s, mut held) = (1_000.0, [0; 3]);
        for _ in 0..200 {
            let mut batches = QuantileBatches::over([0.0, f64::from(seconds)]);
            let (mut at_s, mut free_s, mut second) = (0.0_f64, 0.0_f64, 0.0);
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            while second < f64::from(seconds) {
                at_s -= random.f64().max(1e-12).ln() / (serves_per_s * load);
                free_s = free_s.max(at_s) - random.f64().max(1e-12).ln() / serves_per_s;
                while free_s >= second + 1.0 {
                    batches.add(second, &HistogramCounts::of(&histogram));
                    histogram.reset();
                    second += 1.0;
                }
                histogram.record(((free_s - at_s) * 1e9) as u64).unwrap();
            }
            for (held, quantile) in held.iter_mut().zip([0.5, 0.9, 0.99]) {
                let truth_ns = -(1.0_f64 - quantile).ln() / (serves_per_s * (1.0 - load)) * 1e9;
                let [low, high] = batches.ci95(quantile).unwrap();
                *held += u32::from(low <= truth_ns && truth_ns <= high);
            }
        }
        held
    }

    #[test]
    fn intervals_hold_the_quantiles_of_a_queue() {
        for (load, seconds) in [(0.5, 10), (0.9, 20)] {
            let held = coverage(load, seconds, 1);
            println!("load {load}, {seconds} s: {held:?} of 200");
            // 90 to 98 %, give or take two standard errors of a share of 200.
            assert!(held.iter().all(|held| (174..=199).contains(held)), "load {load}, {seconds} s: {held:?} of 200");
        }
    }

    #[test]
    fn too_few_operations_or_seconds_have_none() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1_000_000, 298).unwrap();
        let counts = HistogramCounts::of(&histogram);
        let of = |seconds: u32| {
            let mut batches = QuantileBatches::over([2.0, 2.0 + f64::from(seconds)]);
            (0..seconds + 5).for_each(|second| batches.add(2.0 + f64::from(second), &counts));
            batches
        };
        assert_eq!(of(9).ci95(0.5), None);
        let [low, high] = of(10).ci95(0.5).unwrap();
        assert!((low / 1e6 - 1.0).abs() < 0.001 && (high / 1e6 - 1.0).abs() < 0.001, "{low} {high}");
        assert_eq!(of(10).ci95(0.99), None, "298 in a batch");
        assert!(of(20).ci95(0.99).is_some());
    }
}
