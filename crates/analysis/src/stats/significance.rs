//! Difference between two samples of trials, with its significance: Student's t for pairs, Welch's
//! t for separate samples. The input must be one number per trial, never single operations:
//! operations of one trial are correlated, and treating thousands of them as independent finds
//! differences everywhere.
//!
//! Student's t also keeps its level for differences that are not normal but symmetric about zero,
//! such as those of interleaved trials of the same system (B. Efron, "Student's t-test under
//! symmetry conditions", Journal of the American Statistical Association 64, 1969). Welch: B. L.
//! Welch, "The generalization of 'Student's' problem when several different population variances
//! are involved", Biometrika 34, 1947.
//!
//! Without any spread, t does not exist and a rank argument replaces it: if labels meant nothing,
//! each pair would go either way with equal chance, so that n pairs in the same direction have the
//! chance 2^(1 − n) (Fisher's sign test).
//!
//! **Many tests (Holm)**: five of a hundred comparisons without a difference are below 0.05 by
//! chance. After the correction, the chance that any is flagged stays below 0.05.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::quantiles::mean;
use super::student::{self, quantile_of_t};

/// Largest spread, as a share of the values, that is floating-point rounding and not measured.
pub(crate) const ROUNDING: f64 = 1e-12;

/// Confidence that the true spread is at most the spread assumed for a detectable difference. R. H.
/// Browne, "On the use of a pilot sample for sample size determination", Statistics in Medicine 14,
/// 1995: with the plain estimate the promised power is missed about half of the time.
const SPREAD_CONFIDENCE: f64 = 0.8;

/// The difference b − a of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Mean of b minus mean of a.
    pub estimate: f64,
    /// Standard error; `None` if the values have no spread.
    pub error: Option<StandardError>,
    /// Chance of so large a difference, in either direction, if there is no true difference.
    pub p: f64,
    /// Whether the values do not differ at all, so that no difference can be shown.
    pub nothing_to_show: bool,
}

/// The standard error of a mean difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StandardError {
    /// Standard error of the mean.
    pub of_mean: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// Error that all values may share, such as the width of a histogram's bucket. Differences up
    /// to this size are not shown.
    pub resolution: f64,
}

/// Compares pairs `(a, b)` that were measured together. Returns `None` with fewer than two.
pub(crate) fn paired(pairs: &[(f64, f64)]) -> Option<Difference> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let n = differences.len();
    let size = pairs.iter().flat_map(|(a, b)| [a.abs(), b.abs()]).fold(0.0, f64::max);
    let (estimate, variance) = moments(&differences)?;
    if variance.sqrt() <= ROUNDING * size {
        let one_way = 2_f64.powi(1 - i32::try_from(n).ok()?);
        return Some(without_spread(estimate, size, one_way));
    }
    Some(of_error(
        estimate,
        StandardError { of_mean: (variance / n as f64).sqrt(), freedom: n as f64 - 1.0, resolution: 0.0 },
    ))
}

/// Compares two samples that were measured separately. Returns `None` with fewer than two values in
/// either.
pub(crate) fn apart(a: &[f64], b: &[f64]) -> Option<Difference> {
    let size = a.iter().chain(b).map(|value| value.abs()).fold(0.0, f64::max);
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (part_a, part_b) = (variance_a / a.len() as f64, variance_b / b.len() as f64);
    let estimate = mean_b - mean_a;
    if variance_a.max(variance_b).sqrt() <= ROUNDING * size {
        // Two of all ways to divide the values between two sides separate the samples.
        return Some(without_spread(estimate, size, 2.0 / ways(a.len() + b.len(), a.len())));
    }
    let freedom =
        (part_a + part_b).powi(2) / (part_a.powi(2) / (a.len() as f64 - 1.0) + part_b.powi(2) / (b.len() as f64 - 1.0));
    Some(of_error(estimate, StandardError { of_mean: (part_a + part_b).sqrt(), freedom, resolution: 0.0 }))
}

impl Difference {
    /// Returns the interval that misses the truth with the chance `miss`, or `None` if the values
    /// have no spread.
    pub fn interval(&self, miss: f64) -> Option<[f64; 2]> {
        let error = self.error?;
        let reach = error.of_mean * quantile(1.0 - miss / 2.0, error.freedom) + error.resolution;
        Some([self.estimate - reach, self.estimate + reach])
    }

    /// Returns the difference for values that may share an error of this size.
    pub fn resolved(self, resolution: f64) -> Self {
        match self.error {
            Some(error) => of_error(self.estimate, StandardError { resolution, ..error }),
            None if self.estimate.abs() <= resolution => Self { p: 1.0, nothing_to_show: true, ..self },
            None => self,
        }
    }
}

/// Returns the size of a true difference, in estimated standard errors, that comparisons at `level`
/// show in the share `power` of cases. The spread is taken to be its upper bound at
/// [`SPREAD_CONFIDENCE`], because it is estimated from few trials.
pub(crate) fn detectable_errors(level: f64, power: f64, freedom: f64) -> Option<f64> {
    let critical = quantile(1.0 - level / 2.0, freedom);
    let chi_squared = student::chi_squared_quantile(1.0 - SPREAD_CONFIDENCE, freedom)?;
    Some((freedom / chi_squared).sqrt() * student::shift_for(power, critical, freedom)?)
}

/// Returns the difference with this estimate and standard error.
pub(crate) fn of_error(estimate: f64, error: StandardError) -> Difference {
    let t = (estimate.abs() - error.resolution).max(0.0) / error.of_mean;
    let p = StudentsT::new(0.0, 1.0, error.freedom).map_or(1.0, |student| 2.0 * student.cdf(-t));
    Difference { estimate, error: Some(error), p: p.min(1.0), nothing_to_show: false }
}

fn without_spread(estimate: f64, size: f64, p: f64) -> Difference {
    let same = estimate.abs() <= ROUNDING * size;
    let (estimate, p) = if same { (0.0, 1.0) } else { (estimate, p.min(1.0)) };
    Difference { estimate, error: None, p, nothing_to_show: same }
}

/// Returns mean and variance, or `None` with fewer than two values.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let centre = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((centre, squares / (values.len() as f64 - 1.0)))
}

fn quantile(share: f64, freedom: f64) -> f64 {
    quantile_of_t(share, freedom).unwrap_or(f64::INFINITY)
}

/// Returns the smallest possible p-value of `n` trials on each side if the values have no spread.
pub(crate) fn rarest_chance(n: u32, are_paired: bool) -> f64 {
    let n = n.min(1_000);
    if are_paired { 2_f64.powi(1 - n as i32) } else { 2.0 / ways(2 * n as usize, n as usize) }
}

/// Number of ways to choose `k` of `n`.
fn ways(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| (n - k + i) as f64 / i as f64).product()
}

/// Returns p-values corrected for their number, in the given order: S. Holm, "A simple sequentially
/// rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979. Valid for any
/// dependence between the tests.
pub(crate) fn holm(chances: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; chances.len()];
    let mut highest: f64 = 0.0;
    for (rank, index) in ascending(chances).into_iter().enumerate() {
        highest = highest.max((chances.len() - rank) as f64 * chances[index]).min(1.0);
        adjusted[index] = highest;
    }
    adjusted
}

/// Returns the level at which Holm's procedure decides on each p-value, for `level` over all. An
/// interval at this level excludes "no difference" exactly if the corrected p-value is below
/// `level`.
pub(crate) fn holm_levels(chances: &[f64], level: f64) -> Vec<f64> {
    let mut levels = vec![level; chances.len()];
    let (mut left, mut rejects) = (chances.len(), true);
    for index in ascending(chances) {
        levels[index] = level / left as f64;
        // The first p-value that is not rejected ends the procedure and decides all later ones.
        rejects &= chances[index] < levels[index];
        left -= usize::from(rejects);
    }
    levels
}

/// Returns the indices of the p-values, in ascending order.
fn ascending(chances: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    order
}

#[cfg(test)]
mod tests {
    //! Checks of the tests: against SciPy, without spread, and by simulation. The simulations count
    //! how often equal samples are flagged, and how often a planted difference of the printed size
    //! is found.

    use fastrand::Rng;
    use serde_json::Value;

    use super::*;
    use crate::synthetic::{figures, normal, numbers};

    fn golden() -> Value {
        serde_json::from_str(include_str!("../../tests/golden_stats/significance.json")).unwrap()
    }

    #[track_caller]
    fn assert_matches_scipy(now: Difference, case: &Value) {
        let (error, [low, high]) = (now.error.unwrap(), now.interval(0.05).unwrap());
        let ours = [now.estimate / error.of_mean, error.freedom, now.p, low, high];
        let theirs = figures(case, ["t", "freedom", "p"]).into_iter().chain(numbers(&case["interval"]));
        for (now, then) in ours.into_iter().zip(theirs) {
            assert!((now - then).abs() <= 1e-6 * then.abs().max(1e-6), "{now} and not {then} in {case}");
        }
    }

    #[test]
    fn paired_tests_match_scipy() {
        for case in golden()["paired"].as_array().unwrap() {
            let pairs: Vec<(f64, f64)> = numbers(&case["a"]).into_iter().zip(numbers(&case["b"])).collect();
            assert_matches_scipy(paired(&pairs).unwrap(), case);
        }
    }

    #[test]
    fn unpaired_tests_match_scipy() {
        for case in golden()["apart"].as_array().unwrap() {
            assert_matches_scipy(apart(&numbers(&case["a"]), &numbers(&case["b"])).unwrap(), case);
        }
    }

    #[test]
    fn quantiles_match_scipy() {
        for case in golden()["quantiles"].as_array().unwrap() {
            let [share, freedom, t] = figures(case, ["share", "freedom", "t"]);
            let now = quantile(share, freedom);
            assert!((now - t).abs() <= 1e-6 * t, "{now} and not {case}");
        }
    }

    #[test]
    fn single_observations_show_nothing() {
        assert_eq!(paired(&[(1.0, 2.0)]), None);
        assert_eq!(paired(&[]), None);
        assert_eq!(apart(&[1.0], &[2.0, 3.0]), None);
    }

    #[test]
    fn equal_values_show_no_difference() {
        for same in [0.0, 7.5] {
            let now = paired(&[(same, same); 3]).unwrap();
            assert_eq!((now.estimate, now.p, now.nothing_to_show, now.error), (0.0, 1.0, true, None));
            assert_eq!(apart(&[same; 3], &[same; 4]).unwrap(), now);
        }
    }

    /// Two thousand lost writes in each repeat of one variant and none in the other: the certainty
    /// depends on the number of repeats alone.
    #[test]
    fn the_number_of_repeats_decides_without_spread() {
        for (n, chance) in [(2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125)] {
            let now = paired(&vec![(0.0, 2_000.0); n]).unwrap();
            assert_eq!((now.estimate, now.p, now.error), (2_000.0, chance, None));
        }
        // 2 of the 70 ways to divide eight values.
        assert!((apart(&[0.0; 4], &[2_000.0; 4]).unwrap().p - 2.0 / 70.0).abs() < 1e-12);
    }

    /// The state of a machine, trial after trial: mostly the previous state, plus a new part.
    /// `memory` 1 is a random walk.
    fn machine(random: &mut Rng, memory: f64, trials: usize) -> Vec<f64> {
        let mut state = normal(random);
        let step = if memory < 1.0 { (1.0 - memory * memory).sqrt() } else { 1.0 };
        (0..trials)
            .map(|_| {
                state = memory * state + step * normal(random);
                state
            })
            .collect()
    }

    /// Share of 2,000 comparisons of a system with itself, `n` trials each, that are below 0.05: as
    /// pairs of neighbours, and as two blocks in sequence.
    fn false_alarms(n: usize, memory: f64) -> (f64, f64) {
        let mut random = Rng::with_seed(n as u64 * 1_000 + (memory * 100.0) as u64);
        let (mut interleaved, mut blocks) = (0, 0);
        for _ in 0..2_000 {
            let drift = machine(&mut random, memory, 2 * n);
            let trials: Vec<f64> = drift.iter().map(|drift| 10.0 + 0.02 * drift + 0.01 * normal(&mut random)).collect();
            let pairs: Vec<(f64, f64)> = trials.chunks(2).map(|pair| (pair[0], pair[1])).collect();
            interleaved += u32::from(paired(&pairs).unwrap().p < 0.05);
            blocks += u32::from(apart(&trials[..n], &trials[n..]).unwrap().p < 0.05);
        }
        (f64::from(interleaved) / 2_000.0, f64::from(blocks) / 2_000.0)
    }

    #[test]
    fn interleaving_keeps_the_false_alarm_level_under_drift() {
        for n in [3, 5, 7, 10] {
            for memory in [0.0, 0.5, 0.9, 1.0] {
                let (interleaved, _) = false_alarms(n, memory);
                // Three standard errors of a share of 5 % of 2,000.
                assert!(interleaved <= 0.065, "n = {n}, memory = {memory}: {interleaved}");
            }
        }
    }

    /// A counter-example: the problem that interleaving solves exists, and the simulation can show
    /// it.
    #[test]
    fn trials_in_blocks_mistake_drift_for_a_difference() {
        let (_, blocks) = false_alarms(7, 0.9);
        assert!(blocks > 0.2, "{blocks}");
    }

    /// Share of 2,000 comparisons that find a difference as large as another comparison, of other
    /// trials, printed as the smallest that nine of ten would show.
    fn found(n: usize, level: f64) -> f64 {
        found_of(1.0, n, level)
    }

    /// The same share for a difference of `of_printed` times the printed one.
    fn found_of(of_printed: f64, n: usize, level: f64) -> f64 {
        let mut random = Rng::with_seed(n as u64);
        let mut compared = |difference: f64| {
            let pairs = (0..n).map(|_| (10.0 + normal(&mut random), 10.0 + difference + normal(&mut random)));
            paired(&pairs.collect::<Vec<_>>()).unwrap()
        };
        let errors = detectable_errors(level, 0.9, n as f64 - 1.0).unwrap();
        let mut found = 0;
        for _ in 0..2_000 {
            let printed = errors * compared(0.0).error.unwrap().of_mean;
            found += u32::from(compared(of_printed * printed).p < level);
        }
        f64::from(found) / 2_000.0
    }

    #[test]
    fn the_printed_detectable_difference_is_detected() {
        let shares = [2, 3, 5, 7, 10, 20].map(|n| found(n, 0.05));
        assert!(shares.iter().all(|share| *share >= 0.8), "{shares:?}");
        let corrected = [3, 5, 10].map(|n| found(n, 0.05 / 12.0));
        assert!(corrected.iter().all(|share| *share >= 0.8), "{corrected:?}");
    }

    /// A counter-example: the printed figure is not larger than necessary.
    #[test]
    fn half_the_detectable_difference_is_often_missed() {
        let found = found_of(0.5, 5, 0.05);
        assert!(found < 0.7, "{found}");
    }

    #[test]
    fn corrected_p_values_match_statsmodels() {
        for case in golden()["holm"].as_array().unwrap() {
            for (now, then) in holm(&numbers(&case["p"])).iter().zip(numbers(&case["adjusted"])) {
                assert!((now - then).abs() < 1e-12, "{now} and not {then} in {case}");
            }
        }
    }

    /// The level of each test and its corrected p-value always agree.
    #[test]
    fn corrected_levels_and_p_values_agree() {
        let mut random = Rng::with_seed(3);
        for _ in 0..2_000 {
            let chances: Vec<f64> = (0..random.usize(1..8)).map(|_| random.f64().powi(4)).collect();
            let levels = holm_levels(&chances, 0.05);
            for ((adjusted, chance), level) in holm(&chances).iter().zip(&chances).zip(&levels) {
                assert_eq!(*adjusted < 0.05, chance < level, "{chances:?}");
            }
        }
        assert_eq!(holm_levels(&[0.5, 0.01, 0.6], 0.06), [0.03, 0.02, 0.03]);
        assert_eq!(holm_levels(&[], 0.05), Vec::<f64>::new());
    }

    #[test]
    fn holm_multiplies_the_smallest_by_the_count() {
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[0.5, 0.01, 0.6]), [1.0, 0.03, 1.0]);
    }
}
