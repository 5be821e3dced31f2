//! Interval of a ratio of sums, where each pair is one observation: wrong answers of a repeat to its cycles. Repeats differ by more
//! than counting explains, so what one of them has in common with itself must not count as many observations. Cochran, "Sampling
//! Techniques", 3rd ed. (1977), section 2.11 and chapter 6: the ratio of the sums, its variance from the residuals, Student's t.

use super::student::quantile_of_t;

/// The sum of the first numbers over that of the second, with its 95 % interval, which does not go below 0; `None` with fewer than two
/// pairs or nothing to divide by.
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

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
    }

    #[test]
    fn worked_out_by_hand() {
        // 10 + 20 + 30 of 1000 + 1000 + 2000: 0.015. Residuals -5, 5, 0, so s^2 = 25; error = sqrt(25 / 3) / (4000 / 3).
        let (ratio, [low, high]) = ratio_of_sums(&[(10.0, 1000.0), (20.0, 1000.0), (30.0, 2000.0)]).unwrap();
        let wide = 4.302_652_729_749_462 * (25.0_f64 / 3.0).sqrt() / (4000.0 / 3.0);
        assert!(close(ratio, 0.015) && close(low, 0.015 - wide) && close(high, 0.015 + wide), "{ratio} {low} {high}");
    }

    #[test]
    fn equal_shares_leave_no_doubt_and_few_pairs_all_of_it() {
        assert_eq!(ratio_of_sums(&[(1.0, 100.0), (2.0, 200.0), (3.0, 300.0)]), Some((0.01, [0.01, 0.01])));
        assert_eq!(ratio_of_sums(&[(1.0, 100.0)]), None);
        assert_eq!(ratio_of_sums(&[(0.0, 0.0), (0.0, 0.0)]), None);
        let (_, [low, _]) = ratio_of_sums(&[(0.0, 10.0), (9.0, 10.0), (0.0, 10.0)]).unwrap();
        assert_eq!(low, 0.0);
    }

    #[test]
    fn it_holds_what_it_should_nearly_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut held = 0;
        for _ in 0..2000 {
            // Repeats of 500 to 1500 cycles, of which each has a rate of its own around 2 %.
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
