//! Tests of the interval of a share, against the tails that define it and figures of others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

/// The chance of at most so many, summed up.
fn at_most(some: u64, all: u64, share: f64) -> f64 {
    let term = |k: u64| {
        let (k, n) = (k as f64, all as f64);
        (ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0) + k * share.ln() + (n - k) * (-share).ln_1p())
            .exp()
    };
    (0..=some).map(term).sum()
}

#[test]
fn the_tails_are_what_was_asked_for() {
    for (some, all) in [(1, 10), (5, 10), (9, 10), (3, 1000), (50, 200), (700, 40_000), (1, 1_000_000)] {
        let [low, high] = share_ci95(some, all).unwrap();
        assert!(close(at_most(some, all, high), TAIL, 1e-6), "{some} of {all}: {high}");
        assert!(close(1.0 - at_most(some - 1, all, low), TAIL, 1e-6), "{some} of {all}: {low}");
    }
}

#[test]
fn figures_of_others() {
    // R: binom.test(5, 10)$conf.int, binom.test(0, 10), binom.test(10, 10).
    for (some, low, high) in
        [(5, 0.187_086_028_447_3, 0.812_913_971_552_7), (0, 0.0, 0.308_497_1), (10, 0.691_502_9, 1.0)]
    {
        let found = share_ci95(some, 10).unwrap();
        assert!((found[0] - low).abs() < 1e-7 && (found[1] - high).abs() < 1e-7, "{some}: {found:?}");
    }
}

#[test]
fn none_of_many_has_a_bound_and_none_of_none_has_not() {
    // About 3.7 / n.
    let [low, high] = share_ci95(0, 16_000).unwrap();
    assert!(low == 0.0 && close(high, 3.689 / 16_000.0, 1e-3), "{high}");
    assert!(close(share_ci95(0, 1_000_000_000_000).unwrap()[1], 3.689e-12, 1e-3));
    assert_eq!((share_ci95(0, 0), share_ci95(2, 1)), (None, None));
}

#[test]
fn millions_agree_with_the_normal_law() {
    for (some, all) in [(300_000_u64, 10_000_000_u64), (5_000_000, 10_000_000), (9_990_000, 10_000_000)] {
        let [low, high] = share_ci95(some, all).unwrap();
        let share = some as f64 / all as f64;
        let wide = 1.959_964 * (share * (1.0 - share) / all as f64).sqrt();
        assert!(close(share - low, wide, 0.02) && close(high - share, wide, 0.02), "{some}: {low} {high} {wide}");
    }
}
