//! Quantiles of times from a merged histogram: counts are exact, values as fine as the histogram's buckets. It must never
//! average quantiles.
//!
//! A quantile is given when the samples can tell anything about it: when, with 95 % confidence, at least one of them
//! lies above it. Of `n` independent samples all lie below the quantile `q` with probability `q^n`, so that takes
//! `n ≥ ln 0.05 / ln q`: 5 samples for the median, 11 for p75, 29 for p90, 299 for p99 and 2,995 for p99.9 (S. S. Wilks,
//! "Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12, 1941). With
//! fewer, the "p99" would merely be another name for the maximum.

use hdrhistogram::Histogram;
use record::results::Quantiles;

/// Confidence that a sample lies above a quantile that is given.
const CONFIDENCE: f64 = 0.95;

const NS_PER_US: f64 = 1e3;

/// The quantiles of the results, as their fields are called there.
const NAMES: [(&str, f64); 5] = [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// The quantile that a field of the results holds, if that is what it is for.
pub(crate) fn named(field: &str) -> Option<f64> {
    NAMES.into_iter().find(|(name, _)| *name == field).map(|(_, q)| q)
}

/// Fewest samples that support the quantile `q`.
pub(crate) fn samples_for(q: f64) -> u64 {
    ((1.0 - CONFIDENCE).ln() / q.ln()).ceil() as u64
}

/// Quantiles in microseconds of a histogram in nanoseconds; `None` if it is empty.
pub(crate) fn quantiles_us(histogram: &Histogram<u64>) -> Option<Quantiles> {
    if histogram.is_empty() {
        return None;
    }
    let count = histogram.len();
    let quantile = |q| (count >= samples_for(q)).then(|| histogram.value_at_quantile(q) as f64 / NS_PER_US);
    Some(Quantiles {
        p50: quantile(0.5),
        p75: quantile(0.75),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: Some(histogram.max() as f64 / NS_PER_US),
        mean: Some(histogram.mean() / NS_PER_US),
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Option<Quantiles> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        quantiles_us(&histogram)
    }

    fn near(value: Option<f64>, known: f64) -> bool {
        value.is_some_and(|value| (value - known).abs() <= known * 0.001)
    }

    #[test]
    fn enough_samples_are_those_of_wilks() {
        assert_eq!([0.5, 0.75, 0.9, 0.99, 0.999].map(samples_for), [5, 11, 29, 299, 2_995]);
    }

    #[test]
    fn of_a_uniform_distribution() {
        let quantiles = of((1..=10_000).map(|us| us * 1_000)).unwrap();
        assert_eq!(quantiles.count, 10_000);
        assert!(near(quantiles.p50, 5_000.0) && near(quantiles.p90, 9_000.0), "{quantiles:?}");
        assert!(near(quantiles.p99, 9_900.0) && near(quantiles.p999, 9_990.0), "{quantiles:?}");
        assert!(near(quantiles.max, 10_000.0) && near(quantiles.mean, 5_000.5), "{quantiles:?}");
    }

    #[test]
    fn a_quantile_that_too_few_samples_support_is_null() {
        assert_eq!(of([]), None);
        for (count, given) in [(1, 0), (4, 0), (5, 1), (28, 1), (29, 2), (298, 2), (299, 3), (2_994, 3), (2_995, 4)] {
            let quantiles = of((1..=count).map(|us| us * 1_000)).unwrap();
            let all = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999];
            assert_eq!(all.iter().flatten().count(), given, "{count} samples: {quantiles:?}");
            assert!(quantiles.max.is_some() && quantiles.mean.is_some());
        }
    }
}
