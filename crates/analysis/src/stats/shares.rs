//! Confidence intervals of shares: of a count, of clustered counts, and of a ratio of sums.
//!
//! **Count**: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
//! case of the binomial", Biometrika 26 (1934): the shares under which the observed count is not
//! too unlikely on either side. The interval has at least the promised confidence, even for a count
//! of 0, which is its purpose here. It assumes that the counted events are independent.
//!
//! **Clustered counts**: one incident may cause many events. E. L. Korn and B. I. Graubard,
//! "Confidence intervals for proportions with small expected number of positive counts estimated
//! from survey data", Survey Methodology 24 (1998): the same interval, for the number of
//! independent counts that has the observed variance between parts of the time (the design effect).
//! The number is reduced further, because that variance is itself uncertain.
//!
//! **Ratio of sums**: each pair is one observation, for example wrong answers of a repeat and its
//! cycles. Repeats differ by more than counting explains, so the events of one repeat must not
//! count as many observations. Cochran, "Sampling Techniques", 3rd ed. (1977), section 2.11 and
//! chapter 6: the ratio of the sums, its variance from the residuals, Student's t.

use statrs::function::gamma::ln_gamma;

use super::student::quantile_of_t;

/// Chance on each side of a 95 % interval.
const TAIL: f64 = 0.025;
/// The quantile of a normal variable with the chance [`TAIL`] above it.
const NORMAL: f64 = 1.959_964;
/// Most terms of the continued fraction. It takes about the square root of the count.
const TERMS: u32 = 100_000;

/// Returns the 95 % interval of a share, from `some` of `all`. Returns `None` if `all` is 0 or less
/// than `some`.
pub(crate) fn share_ci95(some: u64, all: u64) -> Option<[f64; 2]> {
    if all == 0 || some > all {
        return None;
    }
    Some(tails(some as f64, all as f64))
}

/// Returns the 95 % interval of a share of `all`, from the counts of equal parts of the time.
/// Returns `None` if `all` is 0 or less than the sum, or if there are too few parts to show their
/// variation.
pub(crate) fn clustered_share_ci95(parts: &[u64], all: u64) -> Option<[f64; 2]> {
    let some: u64 = parts.iter().sum();
    if some <= 1 || some >= all {
        return share_ci95(some, all);
    }
    let (x, n, count) = (some as f64, all as f64, parts.len() as f64);
    let squares: f64 = parts.iter().map(|part| (*part as f64 - x / count).powi(2)).sum();
    let variance = squares * count / (count - 1.0);
    let design_effect = variance / (x * (1.0 - x / n));
    // Parts with a count of 0 do not show the size of clusters.
    let freedom = parts.iter().filter(|part| **part > 0).count().saturating_sub(1).max(1);
    let uncertain = (NORMAL / quantile_of_t(1.0 - TAIL, freedom as f64)?).powi(2);
    let effective = if design_effect > 1.0 { uncertain / design_effect } else { 1.0 };
    (parts.len() > 1).then(|| tails(x * effective, n * effective))
}

/// Returns the ends of the interval of `x` of `n`, which need not be whole numbers.
fn tails(x: f64, n: f64) -> [f64; 2] {
    // For a count of 0 or `n` the tail is a power.
    let low = match x {
        0.0 => 0.0,
        x if x >= n => TAIL.powf(1.0 / n),
        _ => quantile(x, n - x + 1.0, TAIL),
    };
    let high = match x {
        x if x >= n => 1.0,
        // 1 - TAIL^(1/n), which would be rounded off if n is large.
        0.0 => -(TAIL.ln() / n).exp_m1(),
        _ => quantile(x + 1.0, n - x, 1.0 - TAIL),
    };
    [low, high]
}

/// Returns the quantile `below` of a beta distribution, by bisection.
fn quantile(a: f64, b: f64, below: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if beta_below(a, b, middle) < below { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The regularised incomplete beta function, by the continued fraction of Didonato and Morris
/// (1992) as modified by Lentz: Press et al., "Numerical Recipes", 3rd ed. (2007), section 6.4. The
/// function of `statrs` ends after 140 terms, too early for millions of operations.
fn beta_below(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn away_from_zero(value: f64) -> f64 {
    if value.abs() < 1e-300 { 1e-300 } else { value }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for step in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + step * d);
            c = away_from_zero(1.0 + step / c);
            factor = c * d;
            fraction *= factor;
        }
        if (factor - 1.0).abs() < 1e-14 {
            break;
        }
    }
    fraction
}

/// Returns the sum of the first numbers divided by the sum of the second, with the 95 % interval of
/// this ratio, which does not go below 0. Returns `None` with fewer than two pairs or a divisor of
/// 0.
pub(crate) fn ratio_of_sums(pairs: &[(f64, f64)]) -> Option<(f64, [f64; 2])> {
    let count = pairs.len() as f64;
    let (above, below): (f64, f64) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    if pairs.len() < 2 || below <= 0.0 {
        return None;
    }
    let ratio = above / below;
    let residuals: f64 = pairs.iter().map(|(above, below)| (above - ratio * below).powi(2)).sum();
    let error = (residuals / (count - 1.0) / count).sqrt() / (below / count);
    let wide = quantile_of_t(0.975, count - 1.0)? * error;
    Some((ratio, [(ratio - wide).max(0.0), ratio + wide]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * b.abs()
    }

    /// Chance of at most `some`, as a sum.
    fn at_most(some: u64, all: u64, share: f64) -> f64 {
        let n = all as f64;
        let logs = (0..=some).map(|k| k as f64).map(|k| {
            let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
            ways + k * share.ln() + (n - k) * (-share).ln_1p()
        });
        logs.map(f64::exp).sum()
    }

    /// Incidents of 50 wrong answers each. With operations as observations, one interval in seven
    /// contained the truth.
    #[test]
    fn clusters_and_not_operations_are_the_observations() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut held, mut by_count) = (0, 0);
        for _ in 0..200 {
            let mut parts = [0; 20];
            for part in &mut parts {
                // Four incidents in 20 parts, with a geometric size.
                *part = if random.f64() < 0.2 { (random.f64().ln() / 0.98_f64.ln()).ceil() as u64 } else { 0 };
            }
            for (held, ci95) in [
                (&mut held, clustered_share_ci95(&parts, 20_000)),
                (&mut by_count, share_ci95(parts.iter().sum(), 20_000)),
            ] {
                let [low, high] = ci95.unwrap();
                *held += u32::from(low <= 0.01 && 0.01 <= high);
            }
        }
        assert!(held >= 184 && by_count < 60, "{held} and {by_count} of 200");
    }

    #[test]
    fn even_counts_have_the_binomial_interval() {
        assert_eq!(clustered_share_ci95(&[5; 20], 10_000), share_ci95(100, 10_000));
        assert_eq!(clustered_share_ci95(&[0; 20], 10_000), share_ci95(0, 10_000));
        assert_eq!(clustered_share_ci95(&[30], 10_000), None, "one part shows no variance");
        // 60 of 100 in four parts: a variance of 100 × 4 / 3 of the sum, where a binomial sum has
        // 24.
        let ([low, high], effect) = (clustered_share_ci95(&[20, 10, 20, 10], 100).unwrap(), 400.0 / 3.0 / 24.0);
        let effective = (NORMAL / quantile_of_t(1.0 - TAIL, 3.0).unwrap()).powi(2) / effect;
        let expected = tails(60.0 * effective, 100.0 * effective);
        assert!(close(low, expected[0], 1e-9) && close(high, expected[1], 1e-9), "{low} {high} {expected:?}");
    }

    #[test]
    fn the_tails_have_the_requested_probability() {
        for (some, all) in [(1, 10), (5, 10), (9, 10), (3, 1000), (50, 200), (700, 40_000), (1, 1_000_000)] {
            let [low, high] = share_ci95(some, all).unwrap();
            assert!(close(at_most(some, all, high), TAIL, 1e-6), "{some} of {all}: {high}");
            assert!(close(1.0 - at_most(some - 1, all, low), TAIL, 1e-6), "{some} of {all}: {low}");
        }
    }

    #[test]
    fn intervals_match_r() {
        // R: binom.test(5, 10)$conf.int, binom.test(0, 10), binom.test(10, 10).
        for (some, low, high) in
            [(5, 0.187_086_028_447_3, 0.812_913_971_552_7), (0, 0.0, 0.308_497_1), (10, 0.691_502_9, 1.0)]
        {
            let found = share_ci95(some, 10).unwrap();
            assert!((found[0] - low).abs() < 1e-7 && (found[1] - high).abs() < 1e-7, "{some}: {found:?}");
        }
    }

    #[test]
    fn zero_of_many_has_an_upper_bound() {
        // About 3.7 / n.
        let [low, high] = share_ci95(0, 16_000).unwrap();
        assert!(low == 0.0 && close(high, 3.689 / 16_000.0, 1e-3), "{high}");
        assert!(close(share_ci95(0, 1_000_000_000_000).unwrap()[1], 3.689e-12, 1e-3));
        assert_eq!((share_ci95(0, 0), share_ci95(2, 1)), (None, None));
    }

    #[test]
    fn large_counts_match_the_normal_approximation() {
        for (some, all) in [(300_000_u64, 10_000_000_u64), (5_000_000, 10_000_000), (9_990_000, 10_000_000)] {
            let [low, high] = share_ci95(some, all).unwrap();
            let share = some as f64 / all as f64;
            let wide = 1.959_964 * (share * (1.0 - share) / all as f64).sqrt();
            assert!(close(share - low, wide, 0.02) && close(high - share, wide, 0.02), "{some}: {low} {high} {wide}");
        }
    }

    mod ratio {
        use super::super::*;

        fn close(a: f64, b: f64) -> bool {
            (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
        }

        #[test]
        fn the_ratio_matches_a_manual_calculation() {
            // 10 + 20 + 30 of 1000 + 1000 + 2000: 0.015. Residuals -5, 5, 0, so s^2 = 25; error =
            // sqrt(25 / 3) / (4000 / 3).
            let (ratio, [low, high]) = ratio_of_sums(&[(10.0, 1000.0), (20.0, 1000.0), (30.0, 2000.0)]).unwrap();
            let wide = 4.302_652_729_749_462 * (25.0_f64 / 3.0).sqrt() / (4000.0 / 3.0);
            assert!(
                close(ratio, 0.015) && close(low, 0.015 - wide) && close(high, 0.015 + wide),
                "{ratio} {low} {high}"
            );
        }

        #[test]
        fn equal_shares_have_an_interval_of_zero_width() {
            assert_eq!(ratio_of_sums(&[(1.0, 100.0), (2.0, 200.0), (3.0, 300.0)]), Some((0.01, [0.01, 0.01])));
            assert_eq!(ratio_of_sums(&[(1.0, 100.0)]), None);
            assert_eq!(ratio_of_sums(&[(0.0, 0.0), (0.0, 0.0)]), None);
            let (_, [low, _]) = ratio_of_sums(&[(0.0, 10.0), (9.0, 10.0), (0.0, 10.0)]).unwrap();
            assert_eq!(low, 0.0);
        }

        #[test]
        fn ratio_intervals_have_about_the_stated_coverage() {
            let mut random = fastrand::Rng::with_seed(7);
            let mut held = 0;
            for _ in 0..2000 {
                // Repeats of 500 to 1500 cycles, each with its own rate around 2 %.
                let pairs: Vec<(f64, f64)> = (0..8)
                    .map(|_| {
                        let (cycles, rate) = (random.u32(500..1500), 0.01 + 0.02 * random.f64());
                        ((0..cycles).filter(|_| random.f64() < rate).count() as f64, f64::from(cycles))
                    })
                    .collect();
                let (_, [low, high]) = ratio_of_sums(&pairs).unwrap();
                held += u32::from(low <= 0.02 && 0.02 <= high);
            }
            assert!((1840..=1960).contains(&held), "{held} of 2000");
        }
    }
}
