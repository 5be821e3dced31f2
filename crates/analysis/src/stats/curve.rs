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
mod tests {
    use fastrand::Rng;

    use super::super::{crossing, knee, usl};
    use super::*;

    const DOUBLING: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    /// A curve with noise; twelve uniform numbers make one that is close to normal.
    fn noisy(rate: impl Fn(f64) -> f64, noise: f64, repeats: usize, random: &mut Rng) -> Curve {
        let mut measured = Vec::new();
        for load in DOUBLING {
            for _ in 0..repeats {
                let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                measured.push((load, rate(load) * (1.0 + noise * normal)));
            }
        }
        Curve::of(&measured)
    }

    #[test]
    fn points_are_gathered_by_load() {
        let curve = Curve::of(&[(4.0, 3.0), (1.0, 1.0), (4.0, 5.0)]);
        let means = curve.means();
        assert_eq!(
            means.iter().map(|mean| (mean.load, mean.rate, mean.repeats)).collect::<Vec<_>>(),
            [(1.0, 1.0, 1), (4.0, 4.0, 2)]
        );
    }

    #[test]
    fn the_spread_is_that_of_all_loads_together() {
        // Standard deviations of 10 % each, about means of 100 and 1000.
        let ten = |mean: f64| [mean * 0.9, mean, mean * 1.1];
        let mut measured: Vec<(f64, f64)> = ten(100.0).map(|rate| (1.0, rate)).to_vec();
        measured.extend(ten(1_000.0).map(|rate| (2.0, rate)));
        let spread = Curve::of(&measured).spread().unwrap();
        assert!((spread.relative - 0.1).abs() < 1e-12 && spread.degrees == 4, "{spread:?}");
        assert_eq!(Curve::of(&measured[..3]).spread(), None, "two degrees of freedom");
        assert_eq!(Curve::of(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]).spread(), None, "no repeats");
    }

    #[test]
    fn an_interval_is_the_same_each_time_and_may_be_infinite() {
        let curve = noisy(|n| n, 0.05, 3, &mut Rng::with_seed(3));
        let first = |means: &[Vec<Mean>]| means[0].first().map(|mean| mean.rate);
        let found = interval(&[&curve], first).unwrap();
        assert_eq!(interval(&[&curve], first), Some(found));
        assert!(found[0] < 1.0 && 1.0 < found[1], "{found:?}");
        assert_eq!(interval(&[&curve], |_| Some(f64::INFINITY)), Some([f64::INFINITY; 2]));
        assert_eq!(interval(&[&curve], |_| None), None);
    }

    /// Of so many intervals that hold 95 % each, fewer than the least hold the truth once in a thousand times.
    const TRIED: usize = 60;
    const LEAST: usize = 51;

    #[test]
    fn intervals_of_the_law_hold_the_truth() {
        let (sigma, kappa) = (0.04, 6e-4);
        let mut random = Rng::with_seed(41);
        let mut held = [0; 3];
        for _ in 0..TRIED {
            let rate = |n: f64| 500.0 * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
            let curve = noisy(rate, 0.04, 3, &mut random);
            let found =
                intervals(&[&curve], |means| usl::fitted(&means[0]).map(|law| [law.lambda, law.sigma, law.kappa]));
            for (index, ([low, high], truth)) in found.unwrap().into_iter().zip([500.0, sigma, kappa]).enumerate() {
                held[index] += usize::from((low..=high).contains(&truth));
            }
        }
        assert!(held.iter().all(|held| *held >= LEAST), "of {TRIED}: {held:?}");
    }

    #[test]
    fn intervals_of_the_knee_hold_the_truth() {
        let mut random = Rng::with_seed(42);
        let held = (0..TRIED).filter(|_| {
            let curve = noisy(|n| 100.0 * n.min(6.0), 0.04, 3, &mut random);
            let bend = knee::Bend::of(&curve.means(), curve.spread()).unwrap();
            let [low, high] = interval(&[&curve], |means| bend.knee(&means[0])).unwrap();
            (low..=high).contains(&6.0)
        });
        let held = held.count();
        assert!(held >= LEAST, "{held} of {TRIED}");
    }

    #[test]
    fn intervals_of_a_crossing_hold_the_truth() {
        let mut random = Rng::with_seed(43);
        let held = (0..TRIED).filter(|_| {
            // The lead changes evenly from −1/3 at 1 to 1/3 at 64, so that it is 0 at 8.
            let lead = |n: f64| (n.log2() - 3.0) / 9.0;
            let a = noisy(|n| 100.0 * (1.0 + lead(n)), 0.05, 3, &mut random);
            let b = noisy(|n| 100.0 * (1.0 - lead(n)), 0.05, 3, &mut random);
            let [low, high] = interval(&[&a, &b], |means| crossing::crossing(&means[0], &means[1])).unwrap();
            (low..=high).contains(&8.0)
        });
        let held = held.count();
        assert!(held >= LEAST, "{held} of {TRIED}");
    }
}
