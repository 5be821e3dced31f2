//! Random numbers and series of known distributions, for simulations with a known truth.

/// Returns an autoregressive series of order 1 with mean 0 and standard deviation 1: each value is
/// `phi` times the previous one, plus noise.
#[must_use]
pub fn autoregressive(random: &mut fastrand::Rng, length: usize, phi: f64) -> Vec<f64> {
    let mut last = normal(random);
    let values = std::iter::repeat_with(|| {
        let value = last;
        last = phi * last + (1.0 - phi * phi).sqrt() * normal(random);
        value
    });
    values.take(length).collect()
}

/// Returns a standard normal number (G. E. P. Box, M. E. Muller 1958).
#[must_use]
pub fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * random.f64().max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Returns a Poisson number by D. E. Knuth's method. A large mean is split, and the numbers for its
/// parts are added.
#[must_use]
pub fn poisson(random: &mut fastrand::Rng, mean: f64) -> u32 {
    let part = mean.min(500.0);
    let (limit, mut product, mut count) = ((-part).exp(), random.f64(), 0);
    while product > limit {
        product *= random.f64();
        count += 1;
    }
    if mean > part { count + poisson(random, mean - part) } else { count }
}
