//! Whether two samples of trials differ, and by how much: Student's t for pairs, Welch's t for samples apart. It must be given one
//! number per trial, never single operations: operations of one trial share its fortune, and taking thousands of them for
//! independent finds differences everywhere.
//!
//! Student's t holds its level also where differences are not normal but symmetric about zero, as differences of
//! interleaved trials of the same thing are (B. Efron, "Student's t-test under symmetry conditions", Journal of the American
//! Statistical Association 64, 1969). Welch: B. L. Welch, "The generalization of 'Student's' problem when several different
//! population variances are involved", Biometrika 34, 1947.
//!
//! Where nothing spreads, t does not exist and a rank argument takes its place: if labels meant nothing, each pair would
//! go one way as likely as the other, so that n pairs going the same way have the chance 2^(1 − n) (Fisher's sign test).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::noncentral_t;
use super::order::mean;
use super::student::quantile_of_t;

/// Spread below this share of the values is the rounding of a processor, not of the thing measured.
const ROUNDING: f64 = 1e-12;

/// Confidence with which the spread is not larger than assumed when a detectable difference is given. R. H. Browne, "On
/// the use of a pilot sample for sample size determination", Statistics in Medicine 14, 1995: with the plain estimate the
/// promised power is missed about half of the time.
const SPREAD_CONFIDENCE: f64 = 0.8;

/// The difference b − a of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Mean of b less mean of a.
    pub estimate: f64,
    /// What is known of its error; `None` where nothing spreads.
    pub error: Option<StandardError>,
    /// Chance of so large a difference, either way, if there is none.
    pub p: f64,
    /// Whether no data of these sizes and values could have shown a difference: nothing differs at all.
    pub nothing_to_show: bool,
}

/// The standard error of a mean difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StandardError {
    /// The error itself.
    pub of_mean: f64,
    /// Degrees of freedom that it rests on.
    pub freedom: f64,
}

/// Of pairs `(a, b)`, each measured beside each other; `None` with fewer than two.
pub(crate) fn paired(pairs: &[(f64, f64)]) -> Option<Difference> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let n = differences.len();
    let size = pairs.iter().flat_map(|(a, b)| [a.abs(), b.abs()]).fold(0.0, f64::max);
    let (estimate, variance) = moments(&differences)?;
    if variance.sqrt() <= ROUNDING * size {
        let one_way = 2_f64.powi(1 - i32::try_from(n).ok()?);
        return Some(without_spread(estimate, size, one_way));
    }
    Some(student(estimate, StandardError { of_mean: (variance / n as f64).sqrt(), freedom: n as f64 - 1.0 }))
}

/// Of two samples measured apart; `None` with fewer than two in either.
pub(crate) fn apart(a: &[f64], b: &[f64]) -> Option<Difference> {
    let size = a.iter().chain(b).map(|value| value.abs()).fold(0.0, f64::max);
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (part_a, part_b) = (variance_a / a.len() as f64, variance_b / b.len() as f64);
    let estimate = mean_b - mean_a;
    if variance_a.max(variance_b).sqrt() <= ROUNDING * size {
        // Of all ways to deal the same values out to two sides, these two separate them.
        return Some(without_spread(estimate, size, 2.0 / ways(a.len() + b.len(), a.len())));
    }
    let freedom =
        (part_a + part_b).powi(2) / (part_a.powi(2) / (a.len() as f64 - 1.0) + part_b.powi(2) / (b.len() as f64 - 1.0));
    Some(student(estimate, StandardError { of_mean: (part_a + part_b).sqrt(), freedom }))
}

impl StandardError {
    /// How far from the estimate the ends of an interval lie that misses the truth with this chance.
    pub fn reach(&self, miss: f64) -> f64 {
        self.of_mean * quantile(1.0 - miss / 2.0, self.freedom)
    }
}

/// How many standard errors, as estimated, a true difference has to be so that comparisons with so many degrees of freedom, made
/// at `level`, show it in the share `power` of cases. The spread is taken to be its upper bound at
/// [`SPREAD_CONFIDENCE`], because it is estimated from few trials.
pub(crate) fn detectable_errors(level: f64, power: f64, freedom: f64) -> Option<f64> {
    let critical = quantile(1.0 - level / 2.0, freedom);
    let chi_squared = noncentral_t::chi_squared_quantile(1.0 - SPREAD_CONFIDENCE, freedom)?;
    Some((freedom / chi_squared).sqrt() * noncentral_t::shift_for(power, critical, freedom)?)
}

fn student(estimate: f64, error: StandardError) -> Difference {
    let t = estimate / error.of_mean;
    let p = StudentsT::new(0.0, 1.0, error.freedom).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()));
    Difference { estimate, error: Some(error), p: p.min(1.0), nothing_to_show: false }
}

fn without_spread(estimate: f64, size: f64, p: f64) -> Difference {
    let same = estimate.abs() <= ROUNDING * size;
    let (estimate, p) = if same { (0.0, 1.0) } else { (estimate, p.min(1.0)) };
    Difference { estimate, error: None, p, nothing_to_show: same }
}

/// Mean and variance; `None` of fewer than two values.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let centre = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((centre, squares / (values.len() as f64 - 1.0)))
}

fn quantile(share: f64, freedom: f64) -> f64 {
    quantile_of_t(share, freedom).unwrap_or(f64::INFINITY)
}

/// Ways to choose `k` of `n`.
fn ways(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| (n - k + i) as f64 / i as f64).product()
}

#[cfg(test)]
mod tests;
