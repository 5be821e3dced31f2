//! Checks of the intervals: that they hold what they say they hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
        let found = intervals(&[&curve], |means| usl::fitted(&means[0]).map(|law| [law.lambda, law.sigma, law.kappa]));
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
