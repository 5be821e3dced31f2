//! Trend of a series over time, with its certainty.
//!
//! The series is cut into ten batches (as in [`super::sectioning`]), and the slope is the median of
//! the slopes between each two batches (P. K. Sen, "Estimates of the regression coefficient based
//! on Kendall's tau", Journal of the American Statistical Association 63, 1968). A warm-up or a
//! stall in one batch of ten does not move it. Sen's interval is given by the ranks of these 45
//! slopes: for ten independent batches, ranks 12 to 34 give 95.3 %, ranks 9 to 37 give 99.1 %, and
//! ranks 13 to 33 give 92.8 %, the narrowest of at least 90 %. Batches are not independent if they
//! are short relative to the correlation time: with `b` observations per batch and the correlation
//! time `t`, neighbouring means are correlated by about `t / b`. The interval is widened by the
//! factor by which the standard error of the mean grows.

use super::effective_samples::{MOST, gathered, inflation};
use super::quantiles::{mean, median};
use super::sectioning::{BATCHES, batches};

/// Ranks of the 95 % interval's ends among the sorted slopes, from 0.
const RANKS: [usize; 2] = [11, 33];

/// Ranks of the 99 % interval's ends.
const SURE_RANKS: [usize; 2] = [8, 36];

/// Ranks of the 90 % interval's ends, by which two one-sided tests at 5 % decide.
const EQUIVALENCE_RANKS: [usize; 2] = [12, 32];

/// Fewest observations in a batch.
const FEWEST: usize = 2;

/// Change of a series per unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub slope: f64,
    /// 95 % interval of the slope.
    pub ci95: [f64; 2],
    /// 90 % interval of the slope.
    pub ci90: [f64; 2],
    /// Whether the 99 % interval excludes 0.
    pub is_sure: bool,
}

/// Returns the trend of observations in time order, or `None` if there are too few.
pub(crate) fn trend(times: &[f64], values: &[f64]) -> Option<Trend> {
    let count = times.len().min(values.len());
    if count < BATCHES * FEWEST {
        return None;
    }
    let [at, level] =
        [times, values].map(|series| batches(&series[..count], BATCHES).filter_map(mean).collect::<Vec<f64>>());
    let means: Vec<(f64, f64)> = at.into_iter().zip(level).collect();
    let mut slopes = Vec::with_capacity(BATCHES * (BATCHES - 1) / 2);
    for (number, one) in means.iter().enumerate() {
        slopes.extend(means[number + 1..].iter().map(|other| (other.1 - one.1) / (other.0 - one.0)));
    }
    let slope = median(&slopes)?;
    slopes.sort_by(f64::total_cmp);
    let rest: Vec<f64> = values.iter().zip(times).map(|(value, time)| value - slope * time).collect();
    let gathered = gathered(&rest, MOST);
    let rest = gathered.as_deref().unwrap_or(&rest);
    let alike = ((inflation(rest) - 1.0) / 2.0 / (rest.len() / BATCHES) as f64).min(1.0);
    // The square root of 1 + 2 t / b, and half as much again: a short series underestimates its
    // correlation.
    let wider = 1.0 + 1.5 * alike;
    let [[low, high], ci95, ci90] =
        [SURE_RANKS, RANKS, EQUIVALENCE_RANKS].map(|ranks| ranks.map(|rank| slope + wider * (slopes[rank] - slope)));
    Some(Trend { slope, ci95, ci90, is_sure: low > 0.0 || high < 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    fn times(count: usize) -> Vec<f64> {
        (0..count).map(|at| at as f64 * 0.1).collect()
    }

    /// Returns how many of 100 intervals contain the slope, and how many are certain that there is
    /// a slope.
    fn coverage(count: usize, noise: f64, phi: f64, slope: f64) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(1);
        let times = times(count);
        let (mut held, mut sure) = (0, 0);
        for _ in 0..100 {
            let off = autoregressive(&mut random, count, phi);
            let values: Vec<f64> = off.iter().zip(&times).map(|(off, time)| noise * off + slope * time).collect();
            let found = trend(&times, &values).unwrap();
            held += u32::from(found.ci95[0] <= slope && slope <= found.ci95[1]);
            sure += u32::from(found.is_sure);
        }
        (f64::from(held) / 100.0, f64::from(sure) / 100.0)
    }

    #[test]
    fn slope_intervals_have_about_the_stated_coverage() {
        for (count, noise, phi, slope) in
            [(100, 0.03, 0.0, 0.0), (100, 0.01, 0.5, -0.003), (300, 0.1, 0.5, -0.003), (300, 0.05, 0.9, 0.0)]
        {
            let (held, sure) = coverage(count, noise, phi, slope);
            println!("{count} of noise {noise}, φ = {phi}: {held} held, {sure} sure");
            assert!(slope != 0.0 || sure <= 0.05, "{count} of noise {noise}, φ = {phi}: {sure} sure of nothing");
            // A share of 0.95 of 100 series has a standard error of 0.022.
            assert!(held >= 0.88, "{count} of noise {noise}, φ = {phi}: {held}");
        }
    }

    #[test]
    fn a_straight_line_has_its_exact_slope() {
        let values: Vec<f64> = times(200).iter().map(|time| 3.0 - 0.02 * time).collect();
        let found = trend(&times(200), &values).unwrap();
        assert!((found.slope + 0.02).abs() < 1e-9 && found.is_sure, "{found:?}");
        let flat = trend(&times(200), &[5.0; 200]).unwrap();
        assert!(flat.slope == 0.0 && !flat.is_sure, "{flat:?}");
        assert_eq!(trend(&times(19), &[5.0; 19]), None);
    }

    #[test]
    fn a_stall_and_a_short_warm_up_are_no_trend() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut values = autoregressive(&mut random, 300, 0.0);
        values[..20].iter_mut().for_each(|value| *value -= 30.0);
        values[200] = -100.0;
        assert!(!trend(&times(300), &values).unwrap().is_sure);
    }

    #[test]
    fn the_90_percent_interval_lies_within_the_95() {
        let mut random = fastrand::Rng::with_seed(4);
        let found = trend(&times(100), &autoregressive(&mut random, 100, 0.0)).unwrap();
        let inside = found.ci95[0] < found.ci90[0] && found.ci90[1] < found.ci95[1];
        assert!(inside && found.ci90[0] < found.slope && found.slope < found.ci90[1], "{found:?}");
    }
}
