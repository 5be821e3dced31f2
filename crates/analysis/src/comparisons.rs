//! Variants, swept values and runs beside each other: ratio or difference with its interval, whether it is more than chance, and how
//! small a difference would have shown. One figure per trial is what is compared; who is compared with whom is in `sides`,
//! of what in `figures`. It must not look at a trial's records, nor word anything.
//!
//! Ratios are taken of logarithms, so that b over a and a over b give the same answer. Chances are corrected over all
//! comparisons made together (Holm); those where not one value differs from another could not have shown anything and do not
//! count among them (R. E. Tarone, "A modified Bonferroni method for discrete data", Biometrics 46, 1990).

use experiment::plan::Plan;
use record::results::{Comparison, Trial};

use crate::stats::holm;
use crate::stats::order::mean;
use crate::stats::significance::{Difference, apart, detectable_errors, paired};

mod figures;
mod gate;
mod sides;

pub(crate) use gate::{gated, worse_pct};
pub(crate) use sides::{Played, Side};

use figures::Figure;
use sides::{Couple, Unit, Units};

/// Chance of calling something a difference that is none, over all comparisons made together.
const LEVEL: f64 = 0.05;
/// Share of comparisons that show a difference of the size given as detectable.
const POWER: f64 = 0.9;

/// Each variant beside the first, at each point; without variants, each value of a swept choice beside its first.
pub(crate) fn within(plan: &Plan, trials: &[Trial]) -> Vec<Comparison> {
    let played: Vec<Played> = trials.iter().map(|trial| Played { trial, run: 0, started_unix_s: None }).collect();
    compared(&sides::within(&plan.variants, &plan.swept, &played), &[])
}

/// The same of runs of one experiment, their repeats taken together. `metrics` instead of the usual ones, unless it is empty.
pub(crate) fn within_runs(plan: &Plan, played: &[Played<'_>], metrics: &[String]) -> Vec<Comparison> {
    compared(&sides::within(&plan.variants, &plan.swept, played), metrics)
}

/// Every side beside the first, at each variant and point that both have. `metrics` as in [`within_runs`].
pub(crate) fn between(sides: &[Side<'_>], metrics: &[String]) -> Vec<Comparison> {
    compared(&sides::between(sides), metrics)
}

fn compared(couples: &[Couple<'_>], metrics: &[String]) -> Vec<Comparison> {
    let figures: Vec<Figure> = if metrics.is_empty() {
        figures::usual(couples.iter().flat_map(Couple::trials))
    } else {
        metrics.iter().map(|path| Figure::of(path)).collect()
    };
    let of_couple = |couple| figures.iter().filter_map(move |figure| weighed(couple, figure));
    let mut weighed: Vec<Weighed> = couples.iter().flat_map(of_couple).collect();
    correct(&mut weighed);
    weighed.into_iter().map(|weighed| weighed.comparison).collect()
}

/// A comparison whose chance is not yet corrected for the others.
struct Weighed {
    comparison: Comparison,
    difference: Option<Difference>,
    more_is_better: bool,
}

/// One figure of a couple; `None` if neither has it.
fn weighed(couple: &Couple<'_>, figure: &Figure) -> Option<Weighed> {
    let sample = Sample::of(&couple.units, figure);
    let all = || sample.a.iter().chain(&sample.b);
    all().next()?;
    let as_ratio = !figure.can_be_zero && all().all(|value| *value > 0.0);
    let scaled = |value: f64| if as_ratio { value.ln() } else { value };
    let a: Vec<f64> = sample.a.iter().copied().map(scaled).collect();
    let b: Vec<f64> = sample.b.iter().copied().map(scaled).collect();
    let difference = if sample.pairs > 0 {
        paired(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>())
    } else {
        apart(&a, &b)
    };
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let estimate = mean_a.zip(mean_b).map(|(a, b)| b - a);
    let interval = difference.and_then(|difference| {
        let reach = difference.error?.reach(LEVEL);
        Some([difference.estimate - reach, difference.estimate + reach])
    });
    let unscaled = |value: f64| if as_ratio { value.exp() } else { value };
    let comparison = Comparison {
        over: couple.over.clone(),
        a: couple.a.clone(),
        b: couple.b.clone(),
        at: couple.at.clone(),
        metric: figure.path.clone(),
        a_value: mean_a.map(unscaled),
        b_value: mean_b.map(unscaled),
        ratio: estimate.filter(|_| as_ratio).map(f64::exp),
        ci95: interval.filter(|_| as_ratio).map(|ends| ends.map(f64::exp)),
        difference: estimate.filter(|_| !as_ratio),
        difference_ci95: interval.filter(|_| !as_ratio),
        p: difference.map(|difference| difference.p),
        pairs: sample.pairs,
        trials: [sample.a.len(), sample.b.len()].map(|count| count as u32),
        without: sample.without,
        ..Comparison::default()
    };
    Some(Weighed { comparison, difference, more_is_better: figure.more_is_better })
}

/// The values that are compared: of pairs, one of each for every pair that has both.
struct Sample {
    a: Vec<f64>,
    b: Vec<f64>,
    pairs: u32,
    without: [u32; 2],
}

impl Sample {
    fn of(units: &Units<'_>, figure: &Figure) -> Self {
        let value = |unit: &Unit<'_>| unit.value(figure);
        let missing = |values: &[Option<f64>]| values.iter().filter(|value| value.is_none()).count() as u32;
        match units {
            Units::Paired(pairs) => {
                let (a, b): (Vec<_>, Vec<_>) = pairs.iter().map(|(a, b)| (value(a), value(b))).unzip();
                let without = [missing(&a), missing(&b)];
                let both: Vec<(f64, f64)> = a.iter().zip(&b).filter_map(|(a, b)| (*a).zip(*b)).collect();
                if both.is_empty() {
                    // One of them is there to be shown, though with nothing beside it.
                    return Self { a: flat(a), b: flat(b), pairs: 0, without };
                }
                let pairs = both.len() as u32;
                let (a, b) = both.into_iter().unzip();
                Self { a, b, pairs, without }
            }
            Units::Apart(a, b) => {
                let (a, b): (Vec<_>, Vec<_>) = (a.iter().map(value).collect(), b.iter().map(value).collect());
                let without = [missing(&a), missing(&b)];
                Self { a: flat(a), b: flat(b), pairs: 0, without }
            }
        }
    }
}

fn flat(values: Vec<Option<f64>>) -> Vec<f64> {
    values.into_iter().flatten().collect()
}

/// Corrects the chances for their number, and draws the conclusions that hang on it.
fn correct(weighed: &mut [Weighed]) {
    let counts = |weighed: &&mut Weighed| weighed.difference.is_some_and(|difference| !difference.nothing_to_show);
    let family: Vec<&mut Weighed> = weighed.iter_mut().filter(counts).collect();
    let chances: Vec<f64> = family.iter().filter_map(|weighed| weighed.comparison.p).collect();
    let level = LEVEL / chances.len().max(1) as f64;
    let mut known: Vec<(f64, Option<f64>)> = Vec::new();
    for (Weighed { comparison, difference, more_is_better }, adjusted) in
        family.into_iter().zip(holm::adjusted(&chances))
    {
        comparison.p_adjusted = Some(adjusted);
        comparison.significant = adjusted < LEVEL;
        let Some(difference) = difference else { continue };
        if comparison.significant {
            let b_is_better = (difference.estimate > 0.0) == *more_is_better;
            comparison.better = Some(if b_is_better { comparison.b.clone() } else { comparison.a.clone() });
        }
        let smallest =
            difference.error.and_then(|error| Some(error.of_mean * errors(error.freedom, level, &mut known)?));
        if comparison.ratio.is_some() {
            comparison.detectable_pct = smallest.map(|smallest| 100.0 * smallest.exp_m1());
        } else {
            comparison.detectable = smallest;
            let of_a = comparison.a_value.filter(|a| *a != 0.0);
            comparison.detectable_pct = smallest.zip(of_a).map(|(smallest, a)| 100.0 * smallest / a.abs());
        }
    }
    for Weighed { comparison, difference, .. } in weighed.iter_mut() {
        if difference.is_some_and(|difference| difference.nothing_to_show) {
            comparison.p_adjusted = Some(1.0);
        }
    }
}

/// [`detectable_errors`], worked out once for each number of degrees of freedom: most comparisons of a run have the same.
fn errors(freedom: f64, level: f64, known: &mut Vec<(f64, Option<f64>)>) -> Option<f64> {
    if let Some((_, errors)) = known.iter().find(|(other, _)| *other == freedom) {
        return *errors;
    }
    let errors = detectable_errors(level, POWER, freedom);
    known.push((freedom, errors));
    errors
}

#[cfg(test)]
mod tests;
