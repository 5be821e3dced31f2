//! Number of independent observations to which a series with correlated neighbours is equivalent.
//! This module must not know what the series measures.
//!
//! The variance of the mean of `n` observations is `σ²·τ/n` with `τ = 1 + 2·Σ ρ(lag)`; they are
//! worth `n/τ`. The estimated autocorrelations are noise from some lag on, so the sum must end.
//! Geyer's initial monotone sequence adds them in pairs `ρ(2k) + ρ(2k+1)`, which for a reversible
//! chain are positive and fall, and ends where the estimates no longer do (C. J. Geyer, "Practical
//! Markov chain Monte Carlo", Statistical Science 7, 1992, section 3.3). `τ` is at least 1: an
//! alternating series may be worth more than its length, but short ones look like this by chance,
//! too. If a series is not many times as long as its correlation time, `τ` is too low, so intervals
//! of a mean are computed as in [`super::sectioning`].

use super::quantiles::mean;

/// Fewest observations whose correlation can be estimated.
const FEWEST: usize = 10;

/// Most observations that are analyzed singly: half an hour in bins of 100 ms. Longer series are
/// first reduced to means of neighbours. Correlation is computed at every distance, which would
/// take hours for a week; means of neighbours say as much about the mean of all.
pub(crate) const MOST: usize = 20_000;

/// Returns means of equally many neighbours, at most `most` of them. Returns `None` if the series
/// is no longer than `most`. An incomplete last group is left out.
pub(crate) fn gathered(series: &[f64], most: usize) -> Option<Vec<f64>> {
    let of_each = series.len().div_ceil(most);
    (of_each > 1).then(|| series.chunks_exact(of_each).filter_map(mean).collect())
}

/// Returns the number of independent observations that would determine the mean as well. Returns
/// `None` if the series is too short to tell.
pub(crate) fn effective_samples(series: &[f64]) -> Option<f64> {
    let gathered = gathered(series, MOST);
    let series = gathered.as_deref().unwrap_or(series);
    (series.len() >= FEWEST).then(|| series.len() as f64 / inflation(series))
}

/// Returns `τ`, the factor by which correlation inflates the variance of the mean: from 1 to the
/// length of the series.
pub(crate) fn inflation(series: &[f64]) -> f64 {
    let Some(mean) = mean(series) else { return 1.0 };
    let off: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let squares = lagged_products(&off, 0);
    if squares <= 0.0 {
        return 1.0;
    }
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for pair in 0..series.len() / 2 {
        let both = (lagged_products(&off, 2 * pair) + lagged_products(&off, 2 * pair + 1)) / squares;
        if both <= 0.0 {
            break;
        }
        last = both.min(last);
        sum += last;
    }
    (2.0 * sum - 1.0).clamp(1.0, series.len() as f64)
}

fn lagged_products(deviations: &[f64], lag: usize) -> f64 {
    deviations.iter().zip(&deviations[lag..]).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    #[test]
    fn the_inflation_matches_theory() {
        // AR(1): τ = (1 + φ) / (1 − φ).
        let mut random = fastrand::Rng::with_seed(3);
        for (phi, tau) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)] {
            let found = inflation(&autoregressive(&mut random, 20_000, phi));
            assert!((found / tau - 1.0).abs() < 0.15, "φ = {phi}: {found} and not {tau}");
        }
    }

    #[test]
    fn effective_samples_never_exceed_the_length() {
        let series: Vec<f64> = (0..100).map(|number| f64::from(number % 2)).collect();
        assert_eq!(effective_samples(&series), Some(100.0));
    }

    #[test]
    fn a_trend_has_few_effective_samples() {
        assert_eq!([50, 9, 0].map(|count| effective_samples(&vec![7.0; count])), [Some(50.0), None, None]);
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(effective_samples(&rising).unwrap() < 5.0);
    }
}
