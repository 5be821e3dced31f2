//! Student's t: its quantiles, for intervals and tests of means, and the power of its test.
//!
//! **Power**: the chance that a t test shows a true difference.
//!
//! If the true difference is λ standard errors, the test statistic is (Z + λ) / V, with Z normal
//! and V² = χ²/ν independent of Z: Student's noncentral t (N. L. Johnson and B. L. Welch,
//! "Applications of the non-central t-distribution", Biometrika 31, 1940). It is beyond ±c exactly
//! if V < |Z + λ| / c, so the power is one integral over Z.

use statrs::distribution::{ContinuousCDF as _, StudentsT};
use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_lr;

/// Returns the quantile `share` for these degrees of freedom, which need not be whole. Returns
/// `None` unless they are positive.
pub(crate) fn quantile_of_t(share: f64, freedom: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, freedom).ok().map(|student| student.inverse_cdf(share))
}

/// Standard deviations beyond which a normal variable contributes nothing to the sixth digit.
const REACH: f64 = 7.0;
/// Steps of Simpson's rule.
const STEPS: usize = 280;
/// Most steps of the search for a root, which takes about ten.
const ROOT_STEPS: usize = 100;
/// Relative precision of a root.
const ROOT_PRECISION: f64 = 1e-13;

/// Chance that the statistic is beyond ±`critical` if the true difference is `shift` standard
/// errors, with `freedom` degrees of freedom.
pub(crate) fn power(shift: f64, critical: f64, freedom: f64) -> f64 {
    let step = 2.0 * REACH / STEPS as f64;
    let integrand: [f64; STEPS + 1] = std::array::from_fn(|index| {
        let z = -REACH + step * index as f64;
        let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        density * chi_squared(freedom * ((z + shift) / critical).powi(2), freedom)
    });
    let inner: f64 = (1..STEPS).map(|index| integrand[index] * if index % 2 == 1 { 4.0 } else { 2.0 }).sum();
    // The tails of the normal variable beyond the reach, where the inner chance counts as 1.
    let beyond = erfc(REACH / std::f64::consts::SQRT_2);
    ((integrand[0] + inner + integrand[STEPS]) * step / 3.0 + beyond).min(1.0)
}

/// Returns the true difference, in standard errors, that has this power, or `None` if no finite one
/// is found.
pub(crate) fn shift_for(wanted: f64, critical: f64, freedom: f64) -> Option<f64> {
    if !critical.is_finite() {
        return None;
    }
    root(critical, |shift| power(shift, critical, freedom) - wanted)
}

/// Returns the value below which a χ² variable stays with the chance `share`.
pub(crate) fn chi_squared_quantile(share: f64, freedom: f64) -> Option<f64> {
    root(freedom, |value| chi_squared(value, freedom) - share)
}

/// Returns the chance of a larger ratio of two estimates of one variance, with these degrees of
/// freedom (R. A. Fisher 1924; by the regularised incomplete beta function).
pub(crate) fn chance_of_f(ratio: f64, above: f64, below: f64) -> f64 {
    if ratio > 0.0 {
        beta_reg(below / 2.0, above / 2.0, (below / (below + above * ratio)).clamp(0.0, 1.0))
    } else {
        1.0
    }
}

fn chi_squared(value: f64, freedom: f64) -> f64 {
    if value > 0.0 { gamma_lr(freedom / 2.0, value / 2.0) } else { 0.0 }
}

/// Returns the root of a rising function of positive numbers; `first` is a guess of its order of
/// magnitude. The method is the Illinois variant of false position (M. Dowell, P. Jarratt, "A
/// modified regula falsi method for computing the root of an equation", BIT 11, 1971).
pub(crate) fn root(first: f64, rising: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (0.0, first.max(f64::MIN_POSITIVE));
    let (mut at_low, mut at_high) = (rising(low), rising(high));
    let mut doublings = 0;
    while at_high < 0.0 {
        (low, at_low) = (high, at_high);
        high *= 2.0;
        at_high = rising(high);
        doublings += 1;
        if doublings > 60 {
            return None;
        }
    }
    let (mut root, mut moved_low) = (high, None);
    for _ in 0..ROOT_STEPS {
        let next = (low * at_high - high * at_low) / (at_high - at_low);
        if !next.is_finite() || (next - root).abs() <= ROOT_PRECISION * root {
            break;
        }
        root = next;
        let value = rising(root);
        let is_low = value < 0.0;
        // If an end stays a second time, the function's value there is halved, so that this end
        // moves, too.
        let stays = if moved_low == Some(is_low) { 0.5 } else { 1.0 };
        if is_low {
            (low, at_low, at_high) = (root, value, at_high * stays);
        } else {
            (high, at_high, at_low) = (root, value, at_low * stays);
        }
        moved_low = Some(is_low);
    }
    Some(root)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::synthetic::figures;

    fn golden() -> Value {
        serde_json::from_str(include_str!("../../tests/golden_stats/significance.json")).unwrap()
    }

    #[test]
    fn power_matches_scipy() {
        for case in golden()["powers"].as_array().unwrap() {
            let [shift, critical, freedom, wanted] = figures(case, ["shift", "critical", "freedom", "power"]);
            let now = power(shift, critical, freedom);
            assert!((now - wanted).abs() < 2e-5, "{now} and not {case}");
        }
    }

    /// Values from tables: t as the root, and F at 5 and 25 %.
    #[test]
    fn probabilities_of_f_match_tables() {
        for (ratio, above, below, chance) in
            [(2.776_445_f64.powi(2), 1.0, 4.0, 0.05), (3.837_853, 4.0, 8.0, 0.05), (1.664_2, 4.0, 8.0, 0.25)]
        {
            let now = chance_of_f(ratio, above, below);
            assert!((now - chance).abs() < 1e-4, "{now} and not {chance}");
        }
        assert_eq!((chance_of_f(0.0, 4.0, 8.0), chance_of_f(f64::INFINITY, 4.0, 8.0)), (1.0, 0.0));
    }

    #[test]
    fn chi_squared_quantiles_match_scipy() {
        for case in golden()["quantiles"].as_array().unwrap() {
            let [share, freedom, chi2] = figures(case, ["share", "freedom", "chi2"]);
            let now = chi_squared_quantile(1.0 - share, freedom).unwrap();
            assert!((now - chi2).abs() <= 1e-5 * chi2 + 1e-12, "{now} and not {case}");
        }
    }

    #[test]
    fn the_computed_shift_has_the_requested_power() {
        for freedom in [1.0, 2.0, 6.0, 40.0] {
            for critical in [2.0, 4.3, 300.0] {
                let shift = shift_for(0.9, critical, freedom).unwrap();
                assert!((power(shift, critical, freedom) - 0.9).abs() < 1e-6, "{freedom} {critical} {shift}");
            }
        }
        assert_eq!(shift_for(0.9, f64::INFINITY, 2.0), None);
    }

    #[test]
    fn the_power_without_a_shift_is_the_level() {
        // Student's t of 4 degrees of freedom is beyond 2.776 in 5 % of cases.
        assert!((power(0.0, 2.776_445_105_197_79, 4.0) - 0.05).abs() < 1e-5);
    }
}
