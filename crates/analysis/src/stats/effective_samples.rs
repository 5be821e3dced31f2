//! How many independent observations a series is worth whose neighbours resemble each other, and the interval of its mean that
//! follows. It must not know what the series is of.
//!
//! The variance of the mean of `n` observations is `σ²·τ/n` with `τ = 1 + 2·Σ ρ(lag)`; they are worth `n/τ`. The estimated
//! autocorrelations are noise from some lag on, so the sum must end: Geyer's initial monotone sequence adds them in pairs
//! `ρ(2k) + ρ(2k+1)`, which for a reversible chain are positive and fall, and ends where the estimates no longer do
//! (C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7, 1992, section 3.3). `τ` is not taken below 1: an
//! alternating series may be worth more than its length, but short ones look so by chance, too. The interval is Student's with one
//! degree of freedom less than the series is worth.

use super::quantiles::mean;
use super::student::quantile_of_t;

/// Fewest observations whose resemblance can be estimated.
const FEWEST: usize = 10;

/// More than this are gathered first: half an hour in bins of 100 ms. Resemblance is looked for at every distance, which would take hours
/// of a week; means of neighbours say as much of the mean of all.
pub(crate) const MOST: usize = 20_000;

/// Means of so many neighbours each that no more than `most` are left; `None` if there are no more. A rest is left out.
pub(crate) fn gathered(series: &[f64], most: usize) -> Option<Vec<f64>> {
    let of_each = series.len().div_ceil(most);
    (of_each > 1).then(|| series.chunks_exact(of_each).filter_map(mean).collect())
}

/// A mean and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanEstimate {
    /// So many independent observations would have told as much.
    pub effective_samples: f64,
    /// 95 % interval of the mean; `None` where less than two observations' worth is left.
    pub ci95: Option<[f64; 2]>,
}

/// How sure the mean of a stationary series is; `None` if it is too short to tell.
pub(crate) fn sure(series: &[f64]) -> Option<MeanEstimate> {
    let gathered = gathered(series, MOST);
    let series = gathered.as_deref().unwrap_or(series);
    let mean = mean(series).filter(|_| series.len() >= FEWEST)?;
    let count = series.len() as f64;
    let effective_samples = count / inflation(series);
    let variance = series.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = quantile_of_t(0.975, effective_samples - 1.0).filter(|_| effective_samples >= 2.0);
    let ci95 = t.map(|t| {
        let half = t * (variance / effective_samples).sqrt();
        [mean - half, mean + half]
    });
    Some(MeanEstimate { effective_samples, ci95 })
}

/// `τ`, by how much resemblance inflates the variance of the mean: from 1 to the length of the series.
pub(crate) fn inflation(series: &[f64]) -> f64 {
    let Some(mean) = mean(series) else { return 1.0 };
    let off: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let at_lag = |lag: usize| off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let squares = at_lag(0);
    if squares <= 0.0 {
        return 1.0;
    }
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for pair in 0..series.len() / 2 {
        let both = (at_lag(2 * pair) + at_lag(2 * pair + 1)) / squares;
        if both <= 0.0 {
            break;
        }
        last = both.min(last);
        sum += last;
    }
    (2.0 * sum - 1.0).clamp(1.0, series.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    /// How often the interval holds the true mean, of 400 series of 600.
    fn coverage(phi: f64) -> f64 {
        let mut random = fastrand::Rng::with_seed(20);
        let holds = |_: &u32| {
            let [low, high] = sure(&autoregressive(&mut random, 600, phi)).unwrap().ci95.unwrap();
            low <= 0.0 && 0.0 <= high
        };
        (0..400).filter(holds).count() as f64 / 400.0
    }

    #[test]
    fn the_interval_holds_the_mean_as_often_as_it_says() {
        for phi in [0.0, 0.5, 0.9] {
            let coverage = coverage(phi);
            assert!((0.90..=0.985).contains(&coverage), "φ = {phi}: {coverage}");
        }
    }

    #[test]
    fn a_series_is_worth_what_theory_says() {
        // AR(1): τ = (1 + φ) / (1 − φ).
        let mut random = fastrand::Rng::with_seed(3);
        for (phi, tau) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)] {
            let found = inflation(&autoregressive(&mut random, 20_000, phi));
            assert!((found / tau - 1.0).abs() < 0.15, "φ = {phi}: {found} and not {tau}");
        }
    }

    #[test]
    fn an_alternating_series_is_worth_no_more_than_its_length() {
        let series: Vec<f64> = (0..100).map(|number| f64::from(number % 2)).collect();
        assert_eq!(sure(&series).unwrap().effective_samples, 100.0);
    }

    #[test]
    fn what_has_no_spread_is_sure_and_what_is_short_unknown() {
        assert_eq!(sure(&[7.0; 50]).unwrap(), MeanEstimate { effective_samples: 50.0, ci95: Some([7.0, 7.0]) });
        assert_eq!(sure(&[7.0; 9]), None);
        assert_eq!(sure(&[]), None);
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(sure(&rising).unwrap().effective_samples < 5.0, "a trend is worth little");
    }
}
