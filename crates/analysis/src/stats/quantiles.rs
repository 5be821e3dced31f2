//! Quantiles. Those of a list of numbers are order statistics (median, quantiles, interquartile
//! range, mean). Those of times come from a merged histogram, whose counts are exact and whose
//! values are as fine as its buckets. Quantiles are never averaged. A quantile is given only if
//! [`samples_for`] says that the samples support it.

use std::collections::BTreeSet;

use experiment::plan::{MetricPath, percentile, samples_for};
use hdrhistogram::Histogram;
use record::results::Quantiles;

/// Returns the value at `share` (0..=1) of the sorted list by nearest rank, so that it is one of
/// the values. NaN is left out.
pub(crate) fn nearest_rank(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns the median. For an even number of values, it is the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    interpolated(&sorted(values), 0.5)
}

/// Returns the 95 % interval of the median of the distribution behind the values, whatever its
/// shape. The number of the `n` values below the median is distributed like heads in `n` throws of
/// a coin. The interval runs from the `k`-th smallest to the `k`-th largest value for the largest
/// `k` that leaves at most 2.5 % on each side (W. R. Thompson, "On confidence ranges for the median
/// and other expectation distributions for populations of unknown distribution form", Annals of
/// Mathematical Statistics 7, 1936). Returns `None` with fewer than six values.
pub(crate) fn median_ci95(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values);
    let count = sorted.len();
    // Logarithms, because 2^-n is 0 for a thousand values.
    let mut heads = -(count as f64) * std::f64::consts::LN_2;
    let (mut below, mut rank) = (0.0, 0);
    while rank < count / 2 {
        below += heads.exp();
        if below > 0.025 {
            break;
        }
        heads += ((count - rank) as f64 / (rank + 1) as f64).ln();
        rank += 1;
    }
    Some([*sorted.get(rank.checked_sub(1)?)?, *sorted.get(count - rank)?])
}

pub(crate) fn interquartile_range(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    Some(interpolated(&sorted, 0.75)? - interpolated(&sorted, 0.25)?)
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().max_by(f64::total_cmp)
}

/// Returns the values in ascending order, without NaN.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the quantile `share` of sorted values, interpolated linearly (Hyndman and Fan 1996, type
/// 7).
pub(super) fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)? as f64);
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    let between = low + (high - low) * at.fract();
    // Interpolation towards infinity is impossible, so the nearer value counts.
    let nearer = if at.fract() < 0.5 { low } else { high };
    Some(if between.is_finite() { between } else { nearer })
}

const NS_PER_US: f64 = 1e3;

/// Percentiles that the results always have.
const STANDARD: [&str; 6] = ["p50", "p75", "p90", "p95", "p99", "p999"];

/// A percentile that the results have because the plan asks for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AskedPercentile {
    name: String,
    share: f64,
}

/// Returns the percentiles beyond the standard ones that these metrics name.
pub(crate) fn asked_percentiles<'a>(metrics: impl IntoIterator<Item = &'a MetricPath>) -> Vec<AskedPercentile> {
    let names: BTreeSet<&str> = metrics.into_iter().filter_map(|path| path.0.last()).map(String::as_str).collect();
    let others = names.into_iter().filter(|name| !STANDARD.contains(name));
    others.filter_map(|name| Some(AskedPercentile { name: name.to_owned(), share: percentile(name)? })).collect()
}

/// Returns quantiles in microseconds of a histogram in nanoseconds, or `None` if it is empty.
pub(crate) fn quantiles_us(histogram: &Histogram<u64>, asked: &[AskedPercentile]) -> Option<Quantiles> {
    if histogram.is_empty() {
        return None;
    }
    Some(Quantiles {
        max: Some(histogram.max() as f64 / NS_PER_US),
        mean: Some(histogram.mean() / NS_PER_US),
        ..quantiles_with_lost_us(Some(histogram), 0, asked)
    })
}

/// Returns the quantiles of a histogram and of `lost` more samples, which are longer than all of
/// the histogram by an unknown time. Maximum and mean are left out, and so is each quantile that
/// the samples do not support.
pub(crate) fn quantiles_with_lost_us(
    histogram: Option<&Histogram<u64>>,
    lost: u64,
    asked: &[AskedPercentile],
) -> Quantiles {
    let known = histogram.map_or(0, Histogram::len);
    let count = known.saturating_add(lost);
    let quantile = |q: f64| {
        let rank = (q * count as f64).ceil() as u64;
        let histogram = histogram.filter(|_| rank <= known && count >= samples_for(q))?;
        let share = if lost == 0 { q } else { rank as f64 / known as f64 };
        Some(histogram.value_at_quantile(share) as f64 / NS_PER_US)
    };
    let [p50, p75, p90, p95, p99, p999] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999].map(quantile);
    let others = asked.iter().map(|one| (one.name.clone(), quantile(one.share))).collect();
    Quantiles { p50, p75, p90, p95, p99, p999, max: None, mean: None, count, others }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_gives_none() {
        assert_eq!(median(&[]), None);
        assert_eq!(nearest_rank(&[], 0.5), None);
        assert_eq!(interquartile_range(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(largest([]), None);
    }

    #[test]
    fn known_answers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(interquartile_range(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(2.0));
        assert_eq!(interquartile_range(&[1.0, 2.0, 3.0, 4.0]), Some(1.5));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(largest([1.0, 7.0, -2.0]), Some(7.0));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(nearest_rank(&hundred, 0.95), Some(95.0));
        assert_eq!(nearest_rank(&hundred, 1.0), Some(100.0));
        assert_eq!(nearest_rank(&hundred, 0.0), Some(1.0));
        assert_eq!(nearest_rank(&[1.0, f64::NAN, 2.0], 1.0), Some(2.0));
    }

    #[test]
    fn median_intervals_match_published_tables() {
        let numbers: Vec<f64> = (1..=5_000).map(f64::from).collect();
        assert_eq!(median_ci95(&numbers[..5]), None);
        // Ranks for 95 %: W. J. Conover, "Practical Nonparametric Statistics", and
        // scipy.stats.binom.ppf(0.025, n, 0.5).
        for (count, low, high) in
            [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (15, 4, 12), (20, 6, 15), (25, 8, 18), (100, 40, 61)]
        {
            assert_eq!(median_ci95(&numbers[..count]), Some([f64::from(low), f64::from(high)]), "{count}");
        }
        assert_eq!(median_ci95(&numbers), Some([2_431.0, 2_570.0]));
    }

    /// A histogram of the times from 1 µs to this many, one of each.
    fn uniform(longest_us: u64) -> Histogram<u64> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        (1..=longest_us).for_each(|us| histogram.record(us * 1_000).unwrap());
        histogram
    }

    fn near(value: Option<f64>, known: f64) -> bool {
        value.is_some_and(|value| (value - known).abs() <= known * 0.001)
    }

    #[test]
    fn requested_percentiles_are_listed_by_name() {
        let histogram = uniform(1_000);
        let paths =
            ["latency_us.p97", "operations.a.latency_us.p99.95", "latency_us.p99", "failed_pct", "latency_us.p5"];
        let asked = asked_percentiles(&paths.map(MetricPath::from));
        let found = quantiles_us(&histogram, &asked).unwrap();
        assert_eq!(found.others.keys().collect::<Vec<_>>(), ["p5", "p97", "p99.95"]);
        assert!(
            near(found.others["p97"], 970.0) && near(found.others["p5"], 50.0) && near(found.p95, 950.0),
            "{found:?}"
        );
        assert_eq!(found.others["p99.95"], None, "1,000 samples do not support it");
        let with_lost = quantiles_with_lost_us(Some(&histogram), 20, &asked);
        assert!(near(with_lost.others["p97"], 990.0) && with_lost.p99.is_none(), "{with_lost:?}");
    }

    #[test]
    fn a_uniform_distribution_has_known_quantiles() {
        let quantiles = quantiles_us(&uniform(10_000), &[]).unwrap();
        assert_eq!(quantiles.count, 10_000);
        assert!(near(quantiles.p50, 5_000.0) && near(quantiles.p90, 9_000.0), "{quantiles:?}");
        assert!(near(quantiles.p99, 9_900.0) && near(quantiles.p999, 9_990.0), "{quantiles:?}");
        assert!(near(quantiles.max, 10_000.0) && near(quantiles.mean, 5_000.5), "{quantiles:?}");
    }

    #[test]
    fn lost_operations_count_as_the_longest() {
        let with_lost = quantiles_with_lost_us(Some(&uniform(9_000)), 1_000, &[]);
        assert_eq!((with_lost.count, with_lost.p99, with_lost.max), (10_000, None, None));
        assert!(near(with_lost.p50, 5_000.0) && near(with_lost.p90, 9_000.0), "{with_lost:?}");
        let few = quantiles_with_lost_us(None, 4, &[]);
        assert_eq!((few.p50, few.count), (None, 4));
    }

    #[test]
    fn a_quantile_of_too_few_samples_is_null() {
        assert_eq!(quantiles_us(&uniform(0), &[]), None);
        for (count, given) in [(1, 0), (4, 0), (5, 1), (28, 1), (29, 2), (298, 2), (299, 3), (2_994, 3), (2_995, 4)] {
            let quantiles = quantiles_us(&uniform(count), &[]).unwrap();
            let all = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999];
            assert_eq!(all.iter().flatten().count(), given, "{count} samples: {quantiles:?}");
            assert!(quantiles.max.is_some() && quantiles.mean.is_some());
        }
    }
}
