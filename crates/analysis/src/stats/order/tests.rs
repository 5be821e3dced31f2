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

#[test]
fn the_intervals_of_the_median_are_those_of_the_tables() {
    let ends = |count: u32| median_ci95(&(1..=count).map(f64::from).collect::<Vec<_>>());
    assert_eq!(ends(5), None);
    // Ranks for 95 %: W. J. Conover, "Practical Nonparametric Statistics", and scipy.stats.binom.ppf(0.025, n, 0.5).
    for (count, low, high) in
        [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (15, 4, 12), (20, 6, 15), (25, 8, 18), (100, 40, 61)]
    {
        assert_eq!(ends(count), Some([f64::from(low), f64::from(high)]), "{count}");
    }
    assert_eq!(ends(5_000), Some([2_431.0, 2_570.0]));
}
