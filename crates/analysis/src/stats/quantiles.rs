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
mod tests;
