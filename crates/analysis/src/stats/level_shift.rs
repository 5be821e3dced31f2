//! A shift in the level of a series: the split at which the two sides differ most, whether the
//! difference is more than chance, and its size. This module must not judge whether the size
//! matters.
//!
//! The statistic is that of A. N. Pettitt ("A non-parametric approach to the change-point problem",
//! Applied Statistics 28, 1979): the ranks of the observations, summed up to each split. With
//! ranks, a long stall has no more weight than any other observation. Neighbours resemble each
//! other, so the sum is scaled by the long-run variance of the ranks about the two levels (H.
//! Dehling, R. Fried, "Asymptotic distribution of two-sample empirical U-quantiles with
//! applications to robust tests for shifts in location", Journal of Multivariate Analysis 105,
//! 2012), estimated as in [`super::effective_samples`]. The result is the largest of many
//! correlated χ²; its critical values are those of D. W. K. Andrews ("Tests for parameter
//! instability and structural change with unknown change point", Econometrica 61, 1993). The size
//! of the shift is that of the medians.

use super::effective_samples::inflation;
use super::quantiles::median;

/// Smallest share of the observations on each side of a split.
const SIDE: f64 = 0.1;

/// Fewest observations on each side of a split, so that a stall does not move the median.
const FEWEST: usize = 5;

/// Critical value for one parameter, 10 % on each side, and a level of 1 %. (The golden script
/// simulates it: 12.55 for series of 1,000, and rising.)
const CRITICAL: f64 = 12.69;

/// The split at which the levels differ most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelShift {
    /// Number of observations before the split.
    pub split: usize,
    /// Median before the split.
    pub before: f64,
    /// Median after the split.
    pub after: f64,
    /// Whether chance shows so large a shift in less than one of a hundred series.
    pub significant: bool,
}

/// Returns the largest shift of a series, or `None` if the series is too short.
pub(crate) fn level_shift(series: &[f64]) -> Option<LevelShift> {
    let count = series.len();
    let side = ((count as f64 * SIDE).ceil() as usize).max(FEWEST);
    if count < 2 * side {
        return None;
    }
    let ranks = ranks(series);
    let middle = (count as f64 + 1.0) / 2.0;
    let mut sum = 0.0;
    let mut best = (side, 0.0, 0.0);
    for (split, rank) in (1..).zip(&ranks).take(count - side) {
        sum += rank - middle;
        let share = split as f64 / count as f64;
        let weighed = sum * sum / (count as f64 * share * (1.0 - share));
        if split >= side && weighed > best.1 {
            best = (split, weighed, sum);
        }
    }
    let (split, weighed, sum) = best;
    // The residuals about the two levels show how much the ranks wander without a shift.
    let levels = [sum / split as f64, -sum / (count - split) as f64];
    let residuals: Vec<f64> =
        ranks.iter().enumerate().map(|(at, rank)| rank - middle - levels[usize::from(at >= split)]).collect();
    let variance = residuals.iter().map(|residual| residual * residual).sum::<f64>() / (count - 2) as f64;
    Some(LevelShift {
        split,
        before: median(&series[..split])?,
        after: median(&series[split..])?,
        significant: weighed > CRITICAL * variance * inflation(&residuals),
    })
}

/// Returns ranks from 1. Equal values share their rank.
fn ranks(series: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|&a, &b| series[a].total_cmp(&series[b]));
    let mut ranks = vec![0.0; series.len()];
    let mut begin = 0;
    for tied in order.chunk_by(|&a, &b| series[a] == series[b]) {
        let shared = begin as f64 + (tied.len() as f64 + 1.0) / 2.0;
        tied.iter().for_each(|&at| ranks[at] = shared);
        begin += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    #[test]
    fn equal_values_share_their_rank() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
    }

    #[test]
    fn noise_is_seldom_a_shift() {
        // The limit is one of a hundred. Series whose neighbours resemble each other are flagged a
        // little too often.
        let mut random = fastrand::Rng::with_seed(11);
        for (phi, most) in [(0.0, 0.03), (0.5, 0.04), (0.9, 0.12)] {
            let found =
                (0..200).filter(|_| level_shift(&autoregressive(&mut random, 300, phi)).unwrap().significant).count();
            assert!(found as f64 / 200.0 <= most, "φ = {phi}: {found} of 200");
        }
    }

    #[test]
    fn a_shift_is_found_with_its_levels() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut series = autoregressive(&mut random, 300, 0.5);
        series
            .iter_mut()
            .enumerate()
            .for_each(|(at, value)| *value = 100.0 + *value - if at < 240 { 0.0 } else { 20.0 });
        // Stalls, which would move a mean.
        (0..300).step_by(37).for_each(|at| series[at] = 10.0);
        let shift = level_shift(&series).unwrap();
        assert!(shift.significant);
        assert!((shift.before - 100.0).abs() < 1.0 && (shift.after - 80.0).abs() < 1.0, "{shift:?}");
    }

    #[test]
    fn constant_and_short_series_have_no_shift() {
        assert!(!level_shift(&[3.0; 50]).unwrap().significant);
        assert_eq!(level_shift(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), None);
        let two_levels: Vec<f64> = (0..12).map(|at| if at < 6 { 1.0 } else { 2.0 }).collect();
        assert!(level_shift(&two_levels).unwrap().significant, "nothing but the shift");
    }
}
