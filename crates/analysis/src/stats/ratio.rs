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
mod tests;
