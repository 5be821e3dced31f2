//! Checks of the order statistics against values worked out by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn of_nothing_there_is_nothing() {
    assert_eq!(median(&[]), None);
    assert_eq!(nearest_rank(&[], 0.5), None);
    assert_eq!(interquartile_range(&[]), None);
    assert_eq!(mean(&[]), None);
    assert_eq!(largest([]), None);
}

#[test]
fn known_answers() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(interquartile_range(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(2.0));
    assert_eq!(interquartile_range(&[1.0, 2.0, 3.0, 4.0]), Some(1.5));
    assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    assert_eq!(largest([1.0, 7.0, -2.0]), Some(7.0));
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(nearest_rank(&hundred, 0.95), Some(95.0));
    assert_eq!(nearest_rank(&hundred, 1.0), Some(100.0));
    assert_eq!(nearest_rank(&hundred, 0.0), Some(1.0));
    assert_eq!(nearest_rank(&[1.0, f64::NAN, 2.0], 1.0), Some(2.0));
}
