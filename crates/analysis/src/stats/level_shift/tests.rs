//! Checks that shifts are found and noise is not one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::made_up::autoregressive;

#[test]
fn equal_values_share_their_rank() {
    assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
}

#[test]
fn noise_is_seldom_a_shift() {
    // The limit is one of a hundred; what resembles its neighbours is judged a little too boldly.
    let mut random = fastrand::Rng::with_seed(11);
    for (phi, most) in [(0.0, 0.02), (0.5, 0.03), (0.9, 0.08)] {
        let found =
            (0..500).filter(|_| level_shift(&autoregressive(&mut random, 300, phi)).unwrap().significant).count();
        assert!(found as f64 / 500.0 <= most, "φ = {phi}: {found} of 500");
    }
}

#[test]
fn a_shift_is_found_with_its_levels() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut series = autoregressive(&mut random, 300, 0.5);
    series.iter_mut().enumerate().for_each(|(at, value)| *value = 100.0 + *value - if at < 240 { 0.0 } else { 20.0 });
    // Stalls, which would move a mean.
    (0..300).step_by(37).for_each(|at| series[at] = 10.0);
    let shift = level_shift(&series).unwrap();
    assert!(shift.significant);
    assert!((shift.before - 100.0).abs() < 1.0 && (shift.after - 80.0).abs() < 1.0, "{shift:?}");
}

#[test]
fn what_does_not_vary_has_no_shift_and_what_is_short_cannot_have_one() {
    assert!(!level_shift(&[3.0; 50]).unwrap().significant);
    assert_eq!(level_shift(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), None);
    let two_levels: Vec<f64> = (0..12).map(|at| if at < 6 { 1.0 } else { 2.0 }).collect();
    assert!(level_shift(&two_levels).unwrap().significant, "nothing but the shift");
}
