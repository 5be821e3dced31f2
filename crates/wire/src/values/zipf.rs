//! Random numbers whose frequency falls with their rank.

use fastrand::Rng;

// Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
// from monotone discrete distributions", ACM TOMACS 6 (1996), as arranged in Apache Commons.

/// A Zipf distribution over `from..=to`.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    from: u64,
    count: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    accept: f64,
}

impl Zipf {
    /// Makes a distribution over `from..=to`. `exponent` is above 0.
    pub fn new(from: u64, to: u64, exponent: f64) -> Self {
        let count = to.saturating_sub(from).saturating_add(1);
        let mut zipf = Self { from, count, exponent, integral_first: 0.0, integral_last: 0.0, accept: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count as f64 + 0.5);
        zipf.accept = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a number.
    pub fn draw(&self, random: &mut Rng) -> u64 {
        loop {
            let u = self.integral_last + random.f64() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.count);
            let rank = k as f64;
            if rank - x <= self.accept || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return self.from + (k - 1);
            }
        }
    }

    /// Returns x^-exponent.
    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Returns an integral of [`Self::weight`]: (x^(1-exponent) - 1) / (1-exponent), or ln x if the
    /// exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let ln_x = x.ln();
        exp_m1_over((1.0 - self.exponent) * ln_x) * ln_x
    }

    fn integral_inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (ln_1p_over(t) * y).exp()
    }
}

/// Returns ln(1 + x) / x, accurate near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x)) }
}

/// Returns (e^x - 1) / x, accurate near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0 * (1.0 + 0.25 * x)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn shares_follow_the_exponent() {
        for (from, to, exponent) in [(1_u64, 10_u64, 1.0), (1, 100, 1.2), (5, 14, 0.5), (1, 3, 3.0), (7, 7, 1.0)] {
            let zipf = Zipf::new(from, to, exponent);
            let mut random = Rng::with_seed(42);
            let draws = 200_000;
            let mut counts = vec![0_u32; usize::try_from(to - from + 1).unwrap()];
            for _ in 0..draws {
                counts[usize::try_from(zipf.draw(&mut random) - from).unwrap()] += 1;
            }
            let total: f64 = (1..=counts.len()).map(|k| (k as f64).powf(-exponent)).sum();
            for (rank, count) in counts.iter().enumerate().take(10) {
                let expected = ((rank + 1) as f64).powf(-exponent) / total;
                let got = f64::from(*count) / f64::from(draws);
                let deviation = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
                assert!(
                    (got - expected).abs() <= 5.0 * deviation + 1e-9,
                    "{from}..{to}:{exponent} rank {rank}: {got} {expected}"
                );
            }
        }
    }

    #[test]
    fn huge_ranges_stay_inside() {
        let zipf = Zipf::new(10, u64::MAX, 1.1);
        let mut random = Rng::with_seed(1);
        assert!((0..10_000).all(|_| zipf.draw(&mut random) >= 10));
    }
}
