//! Checks against series whose resemblance is known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::made_up::autoregressive;

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
    assert_eq!(sure(&[7.0; 50]).unwrap(), Sure { effective_samples: 50.0, ci95: Some([7.0, 7.0]) });
    assert_eq!(sure(&[7.0; 9]), None);
    assert_eq!(sure(&[]), None);
    let rising: Vec<f64> = (0..40).map(f64::from).collect();
    assert!(sure(&rising).unwrap().effective_samples < 5.0, "a trend is worth little");
}
