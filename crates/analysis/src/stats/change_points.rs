//! Changes in the level or the spread of a short series: E-Divisive with means.
//!
//! D. S. Matteson, N. A. James, "A nonparametric approach for multiple change point analysis of
//! multivariate data", Journal of the American Statistical Association 109, 2014: the series is
//! split where the energy distance between its two sides is largest. Each side is then split again,
//! as long as a permutation test shows that the best split is larger than chance. As in D. Daly and
//! others, who use it on benchmarks ("The use of change point detection to identify software
//! performance regressions in a continuous integration system", ICPE 2020), both sides of a split
//! reach to the ends of their stretch.
//!
//! A permutation test assumes that values are exchangeable. It takes neighbours that resemble each
//! other, such as runs of one machine in one week, for steps. So changes are searched for twice.
//! The second time each split must be larger by the factor by which resemblance inflates the
//! variance of a mean: `(1 + ρ) / (1 − ρ)` for an autoregression, with ρ estimated about the levels
//! of the first search. In simulations of 400 series of 20 values with ρ of 0, 0.3, 0.5 and 0.7,
//! two searches find a change in 5, 8, 13 and 20 of 100 series, and a single search in 5, 18, 32
//! and 54. With 40 values the figures are 4, 5, 8 and 13, and 5, 22, 41 and 70. A step of three or
//! five standard deviations is found after the same two or three values in half of all series, and
//! after six values instead of four in 90 of 100.
//!
//! The number of possible orders limits the p-value of a permutation test: for seven values, `2 ·
//! 4! · 3!` of `7!` orders, more than one in twenty, show as clear a step as the clearest.

use super::quantiles::mean;

/// Fewest values on either side: a single value has no spread to compare with.
const SIDE: usize = 2;

/// Fewest values of a series: with fewer, no step is clear enough.
const FEWEST: usize = 8;

/// Number of permutations for a split, unless [`AS_CLEAR`] of them end the test earlier; more for
/// many series.
const PERMUTATIONS: usize = 999;

/// Number of permutations as clear as the series after which no more are made, because the decision
/// is certain (J. Besag, P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991).
const AS_CLEAR: u32 = 10;

/// Largest autocorrelation ρ that is assumed.
const RESEMBLANCE: f64 = 0.8;

/// Smallest p-value at which a split does not count.
const CHANCE: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Chance of so large a split in a series without any.
    pub p: f64,
}

/// The best split of a stretch.
#[derive(Debug, Clone, Copy)]
struct BestSplit {
    at: usize,
    energy: f64,
}

/// Returns all changes of a series, in its order. The same seed gives the same p-values. The
/// p-values are corrected for `together` series, so the number of permutations grows with it.
pub(crate) fn change_points(series: &[f64], seed: u64, together: usize) -> Vec<ChangePoint> {
    // The smallest p-value is a quarter of the level of the first step of Holm's procedure.
    let most = PERMUTATIONS.max((4.0 * together as f64 / CHANCE) as usize);
    let found = divided(series, 1.0, seed, most);
    match inflation(series, &found) {
        inflation if inflation > 1.0 && !found.is_empty() => divided(series, inflation, seed, most),
        _ => found,
    }
}

/// Searches once, for values whose means vary more than those of independent values by the factor
/// `inflation`. Makes at most `most` permutations for each change.
fn divided(series: &[f64], inflation: f64, seed: u64, most: usize) -> Vec<ChangePoint> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found: Vec<ChangePoint> = Vec::new();
    while series.len() >= FEWEST {
        let ends = ends(series, &found);
        let Some(candidate) = best_split_between(&ends, series) else { break };
        let mut shuffled = series.to_vec();
        let (mut as_large, mut made) = (0, 0);
        while made < most && as_large < AS_CLEAR {
            // Each stretch is shuffled by itself, so that the changes found so far stay.
            ends.windows(2).for_each(|ends| random.shuffle(&mut shuffled[ends[0]..ends[1]]));
            // Sums in another order differ in their last digits.
            let largest = best_split_between(&ends, &shuffled).map_or(0.0, |split| split.energy);
            as_large += u32::from(largest * inflation >= candidate.energy * (1.0 - 1e-9));
            made += 1;
        }
        // The series itself counts as one order, unless the last permutation ended the count.
        let own = if as_large < AS_CLEAR { 1.0 } else { 0.0 };
        let p = (f64::from(as_large) + own) / (made as f64 + own);
        if p >= CHANCE {
            break;
        }
        found.push(ChangePoint { at: candidate.at, p });
    }
    found.sort_by_key(|change| change.at);
    found
}

/// Returns the ends of the stretches between the changes.
fn ends(series: &[f64], found: &[ChangePoint]) -> Vec<usize> {
    let mut ends: Vec<usize> = found.iter().map(|change| change.at).chain([0, series.len()]).collect();
    ends.sort_unstable();
    ends
}

/// Returns the factor by which the resemblance of neighbours inflates the variance of a mean, about
/// the levels between these changes.
fn inflation(series: &[f64], found: &[ChangePoint]) -> f64 {
    let ends = ends(series, found);
    let stretches = ends.windows(2).map(|ends| &series[ends[0]..ends[1]]);
    let levels = stretches.filter_map(|stretch| Some((stretch, mean(stretch)?)));
    let off: Vec<f64> = levels.flat_map(|(stretch, level)| stretch.iter().map(move |value| value - level)).collect();
    let squares: f64 = off.iter().map(|off| off * off).sum();
    if squares <= f64::EPSILON * series.iter().map(|value| value * value).sum::<f64>() {
        return 1.0;
    }
    let products: f64 = off.windows(2).map(|two| two[0] * two[1]).sum();
    // Each level that is subtracted lowers the estimate by about 1/n.
    let levels = (ends.len() - 1) as f64;
    let resemblance = (products / squares + levels / series.len() as f64).clamp(0.0, RESEMBLANCE);
    (1.0 + resemblance) / (1.0 - resemblance)
}

/// Returns the best split of the stretches with these ends.
fn best_split_between(ends: &[usize], values: &[f64]) -> Option<BestSplit> {
    let splits = ends.windows(2).filter_map(|ends| {
        let split = best_split(&values[ends[0]..ends[1]])?;
        Some(BestSplit { at: ends[0] + split.at, ..split })
    });
    splits.max_by(|a, b| a.energy.total_cmp(&b.energy))
}

fn best_split(values: &[f64]) -> Option<BestSplit> {
    let energies = energies(values);
    let last = values.len().checked_sub(SIDE)?;
    let splits = (SIDE..=last).map(|at| BestSplit { at, energy: energies[at] });
    splits.max_by(|a, b| a.energy.total_cmp(&b.energy).then(b.at.cmp(&a.at)))
}

/// Returns, for each split into `n` and `m` values, `nm/(n+m)` times their energy distance: twice
/// the mean distance between the sides minus the mean distances within them.
fn energies(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    let (mut between, mut left) = (0.0, 0.0);
    let mut right: f64 = (0..count).map(|at| distances(values[at], &values[at..])).sum();
    let mut energies = vec![0.0; count];
    for at in 0..count {
        if at > 0 {
            let (n, m) = (at as f64, (count - at) as f64);
            let energy = 2.0 * between / (n * m) - 2.0 * left / (n * n) - 2.0 * right / (m * m);
            energies[at] = energy * n * m / (n + m);
        }
        // The value at the split moves to the left.
        let (to_left, to_right) = values.split_at(at);
        let [to_left, to_right] = [to_left, to_right].map(|side| distances(values[at], side));
        between += to_right - to_left;
        left += to_left;
        right -= to_right;
    }
    energies
}

/// Returns the sum of the distances of a value from others.
fn distances(value: f64, others: &[f64]) -> f64 {
    others.iter().map(|other| (value - other).abs()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::synthetic::{autoregressive, normal, numbers};

    fn places(found: &[ChangePoint]) -> Vec<usize> {
        found.iter().map(|change| change.at).collect()
    }

    fn indices(value: &Value) -> Vec<usize> {
        numbers(value).into_iter().map(|number| number as usize).collect()
    }

    #[test]
    fn statistic_and_changes_match_a_reference_program() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/golden_stats/change_points.json")).unwrap();
        assert_eq!(cases.len(), 5);
        for case in &cases {
            let series = numbers(&case["series"]);
            for (found, known) in energies(&series).iter().zip(numbers(&case["statistic"])) {
                assert!(
                    (found - known).abs() <= 1e-5 * known.abs().max(1.0),
                    "{}: {found} and not {known}",
                    case["name"]
                );
            }
            let found = change_points(&series, 1, 1);
            assert_eq!(places(&found), indices(&case["e_divisive"]), "{}: {found:?}", case["name"]);
            assert!(found.iter().all(|change| change.p < 0.05));
            // Least squares, with the number of steps given, find no other steps.
            for step in indices(&case["least_squares"]) {
                assert!(places(&found).contains(&step), "{}: {step} is not in {found:?}", case["name"]);
            }
        }
        assert_eq!(1871 + indices(&cases[0]["e_divisive"])[0], 1899, "the year in which the Nile fell");
    }

    #[test]
    fn noise_seldom_has_change_points() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut alarms = 0;
        for seed in 0..60 {
            let series: Vec<f64> = (0..12).map(|_| normal(&mut random)).collect();
            alarms += u32::from(!change_points(&series, seed, 1).is_empty());
        }
        assert!(alarms <= 7, "3 of 60 are meant, 7 are rare: {alarms}");
    }

    /// Series of similar runs from day to day were taken for changes in a quarter to a half of all
    /// cases.
    #[test]
    fn autocorrelated_runs_seldom_have_change_points() {
        let mut random = fastrand::Rng::with_seed(10);
        let alarms =
            (0..60).filter(|&seed| !change_points(&autoregressive(&mut random, 20, 0.5), seed, 1).is_empty()).count();
        assert!(alarms <= 12, "about 7 of 60 are meant, 19 without allowing for it: {alarms}");
    }

    /// A regression test: none of 5,000 orders is rare enough for the first step of Holm's
    /// procedure over 250 series.
    #[test]
    fn a_clear_step_is_found_among_300_series() {
        let mut random = fastrand::Rng::with_seed(2);
        let step: Vec<f64> = (0..20).map(|at| normal(&mut random) + if at < 12 { 0.0 } else { 20.0 }).collect();
        let found = change_points(&step, 1, 300);
        assert!(places(&found) == [12] && found[0].p * 300.0 < CHANCE, "{found:?}");
        assert_eq!(change_points(&step, 1, 1)[0].p, 0.001, "of a single series that is sure enough");
    }

    #[test]
    fn few_or_equal_values_have_no_change_points() {
        assert_eq!(change_points(&[], 1, 1), []);
        assert_eq!(change_points(&[1.0, 1.1, 9.0, 9.1], 1, 1), [], "one order in three looks like this");
        assert_eq!(change_points(&[5.0; 30], 1, 1), []);
        let step = [1.0, 1.1, 1.05, 1.02, 9.0, 9.1, 9.05, 9.02];
        assert_eq!(change_points(&step[..7], 1, 1), [], "2 · 4! · 3! of 7! orders, which is more than one in twenty");
        assert_eq!(places(&change_points(&step, 1, 1)), [4], "2 · 4! · 4! of 8! are less");
    }
}
