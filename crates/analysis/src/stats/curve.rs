//! A curve of throughput over load, with repeats: how much they differ, and how far a figure of the curve would differ if all were
//! measured again. It must not know what figure.
//!
//! Repeats are few (two or three of a load is usual), and too few to tell the spread at each load. So it is taken from all loads
//! together, as a share of the mean there: it is assumed to be about the same share everywhere. What is drawn again are these
//! residuals (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 6.2), enlarged by `√(n / (n − 1))`, because
//! residuals about a mean of n are smaller than errors. Its percentiles are Hesterberg's expanded ones (What Teachers Should Know
//! About the Bootstrap, 2015, section 5.3): plain ones of few repeats are too narrow by what Student's t makes up for.

use statrs::distribution::{ContinuousCDF, Normal};

use super::bootstrap::{RESAMPLES, percentile, replicates};
use super::order::mean;
use super::student::quantile_of_t;

/// Repeats beyond the first of each load that an interval needs. Below, Student's t is wider than anybody could use.
const LEAST_DEGREES: usize = 3;

/// Always the same: the same records give the same interval.
const SEED: u64 = 1;

/// A load and the throughput of each repeat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// The load.
    pub load: f64,
    /// Per second; at least one.
    pub rates: Vec<f64>,
}

/// By rising load, each load once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Curve {
    /// Its points.
    pub points: Vec<Point>,
}

/// The mean of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    /// The load.
    pub load: f64,
    /// Mean throughput of its repeats.
    pub rate: f64,
    /// How many there were.
    pub repeats: usize,
}

/// How much repeats differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Standard deviation as a share of the mean, over all loads.
    pub relative: f64,
    /// Degrees of freedom: repeats beyond the first of each load.
    pub degrees: usize,
}

impl Curve {
    /// Of loads and throughputs in any order.
    pub(crate) fn of(measured: &[(f64, f64)]) -> Self {
        let mut points: Vec<Point> = Vec::new();
        for &(load, rate) in measured {
            match points.iter_mut().find(|point| point.load == load) {
                Some(point) => point.rates.push(rate),
                None => points.push(Point { load, rates: vec![rate] }),
            }
        }
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        Self { points }
    }

    /// The mean of each load.
    pub(crate) fn means(&self) -> Vec<Mean> {
        let means = self
            .points
            .iter()
            .filter_map(|point| Some(Mean { load: point.load, rate: mean(&point.rates)?, repeats: point.rates.len() }));
        means.collect()
    }

    /// How much repeats differ; `None` with too few to tell.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let residuals = self.residuals();
        let degrees: usize = self.points.iter().map(|point| point.rates.len().saturating_sub(1)).sum();
        // Each residual is enlarged so that the mean of the squares of a load's is their variance.
        let variance = mean(&residuals.iter().map(|residual| residual * residual).collect::<Vec<_>>())?;
        (degrees >= LEAST_DEGREES).then(|| Spread { relative: variance.sqrt(), degrees })
    }

    /// What differs from the mean of its load, as a share of it, enlarged to the size of an error.
    fn residuals(&self) -> Vec<f64> {
        let of_point = |point: &Point| -> Vec<f64> {
            let (count, mean) = (point.rates.len() as f64, mean(&point.rates).unwrap_or(0.0));
            let enlarged = (count / (count - 1.0)).sqrt();
            let residual = |rate: &f64| (rate / mean - 1.0) * enlarged;
            if count < 2.0 || mean <= 0.0 { Vec::new() } else { point.rates.iter().map(residual).collect() }
        };
        self.points.iter().flat_map(of_point).collect()
    }

    /// As many residuals as there are trials; those of loads with one trial, which have none, are made up for by the others'.
    fn errors(&self) -> Vec<f64> {
        let trials = self.points.iter().map(|point| point.rates.len()).sum();
        self.residuals().into_iter().cycle().take(trials).collect()
    }
}

/// The 95 % interval of a figure of one curve or several: what it would be if every trial were repeated. The figure may be infinite.
/// `None` with too few repeats, or if it could not be worked out for most of the curves drawn.
pub(crate) fn interval(curves: &[&Curve], figure: impl Fn(&[Vec<Mean>]) -> Option<f64>) -> Option<[f64; 2]> {
    intervals(curves, |means| figure(means).map(|value| [value])).map(|[interval]| interval)
}

/// The same for several figures at once.
pub(crate) fn intervals<const N: usize>(
    curves: &[&Curve],
    figures: impl Fn(&[Vec<Mean>]) -> Option<[f64; N]>,
) -> Option<[[f64; 2]; N]> {
    let spreads: Option<Vec<Spread>> = curves.iter().map(|curve| curve.spread()).collect();
    // Of several curves the one with least to go by counts.
    let degrees = spreads?.iter().map(|spread| spread.degrees).min()?;
    let means: Vec<Vec<Mean>> = curves.iter().map(|curve| curve.means()).collect();
    let errors: Vec<Vec<f64>> = curves.iter().map(|curve| curve.errors()).collect();
    let drawn = replicates(&errors, SEED, |errors| {
        let redrawn: Vec<Vec<Mean>> = means.iter().zip(errors).map(|(means, errors)| redrawn(means, errors)).collect();
        figures(&redrawn)
    });
    let tail = Normal::standard().cdf(-quantile_of_t(0.975, degrees as f64)?);
    let mut ends = [[0.0; 2]; N];
    for (figure, ends) in ends.iter_mut().enumerate() {
        let values: Vec<f64> = drawn.iter().map(|figures| figures[figure]).collect();
        *ends = percentile(&values, tail).filter(|_| values.len() >= RESAMPLES / 2)?;
    }
    Some(ends)
}

/// The curve as it might have been measured, with an error for each of its trials.
fn redrawn(means: &[Mean], errors: &[f64]) -> Vec<Mean> {
    let mut errors = errors.iter();
    let mut redraw = |mean: &Mean| {
        let sum: f64 = errors.by_ref().take(mean.repeats).sum();
        Mean { rate: (mean.rate * (1.0 + sum / mean.repeats as f64)).max(0.0), ..*mean }
    };
    means.iter().map(&mut redraw).collect()
}

#[cfg(test)]
mod tests;
