//! `ratio(metric, a, b)`: a figure of one variant over that of another, trial by trial. It must not know what the figure is.

use std::collections::BTreeMap;

use experiment::plan::Range;
use record::results::Trial;
use serde_json::Value;

use super::found::{Found, Part};
use super::worst;
use crate::metrics::metric;
use crate::stats::order::mean;
use crate::stats::significance::paired;

/// An interval misses the truth in this share of cases.
const MISS: f64 = 0.05;

/// Trials of a variant and their partners: the figure of both, each if it is there.
struct Pairs<'a> {
    point: &'a BTreeMap<String, Value>,
    values: Vec<[Option<f64>; 2]>,
}

/// The metric in variant `a` over that in variant `b` at each point, paired by repeat because these were played beside each other: the
/// geometric mean of the ratios, with Student's interval of their logarithms.
pub(super) fn ratio(path: &str, names: [&str; 2], range: &Range, trials: &[&Trial]) -> Found {
    let pairs = pairs(path, names, range, trials);
    let lacks = |values: &[Option<f64>; 2]| values.contains(&None);
    let lacking = pairs.iter().flat_map(|pairs| &pairs.values).any(lacks);
    let parts: Vec<Option<Part>> = pairs.iter().map(|pairs| part(&pairs.values)).collect();
    let undefined = parts.iter().zip(&pairs).any(|(part, pairs)| part.is_none() && !pairs.values.iter().all(lacks));
    let found = Found::of(parts.into_iter().flatten()).lacking(lacking || undefined);
    if undefined { found.noted(&format!("{} is 0: no ratio", names[1])) } else { found }
}

fn pairs<'a>(path: &str, [a, b]: [&str; 2], range: &Range, trials: &[&'a Trial]) -> Vec<Pairs<'a>> {
    let figure = |trial: &Trial| worst(&metric(trial, path), range);
    let is = |trial: &&&Trial, name: &str| trial.variant.as_deref() == Some(name);
    let mut found: Vec<Pairs<'a>> = Vec::new();
    for one in trials.iter().filter(|trial| is(trial, a)) {
        let same = |other: &&&Trial| is(other, b) && other.point == one.point && other.repeat == one.repeat;
        let Some(other) = trials.iter().find(same) else { continue };
        let values = [figure(one), figure(other)];
        match found.iter_mut().find(|pairs| *pairs.point == one.point) {
            Some(pairs) => pairs.values.push(values),
            None => found.push(Pairs { point: &one.point, values: vec![values] }),
        }
    }
    found
}

/// The ratio at one point; `None` without a pair, or where the second figure is 0.
fn part(values: &[[Option<f64>; 2]]) -> Option<Part> {
    let both: Vec<(f64, f64)> = values.iter().filter_map(|[a, b]| (*a).zip(*b)).collect();
    if !both.iter().all(|(a, b)| *a > 0.0 && *b > 0.0) {
        let (a, b): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
        let below = mean(&b).filter(|below| *below > 0.0)?;
        let note = "a figure that is 0 has no ratio to be sure of: no interval".to_owned();
        return Some(Part { note, ..Part::of(mean(&a)? / below, None) });
    }
    if let [(a, b)] = both.as_slice() {
        return Some(Part { note: "one trial each: no interval".to_owned(), ..Part::of(a / b, None) });
    }
    let logarithms: Vec<(f64, f64)> = both.iter().map(|(a, b)| (b.ln(), a.ln())).collect();
    let value = mean(&logarithms.iter().map(|(b, a)| a - b).collect::<Vec<_>>())?.exp();
    let ci95 = paired(&logarithms).and_then(|difference| {
        let reach = difference.error?.reach(MISS);
        Some([difference.estimate - reach, difference.estimate + reach].map(f64::exp))
    });
    let note = if ci95.is_none() { "the same in every pair: no interval" } else { "" };
    Some(Part { note: note.to_owned(), ..Part::of(value, ci95) })
}

#[cfg(test)]
mod tests {
    use record::results::{Holds, Outcomes, Throughput};
    use serde_json::json;

    use super::*;

    fn trial(variant: &str, agents: u32, repeat: u32, per_s: Option<f64>) -> Trial {
        Trial {
            variant: Some(variant.to_owned()),
            point: BTreeMap::from([("load.agents".to_owned(), json!(agents))]),
            repeat,
            throughput: Throughput { operations_per_s: per_s, ..Throughput::default() },
            outcomes: Outcomes { wrong: per_s.map_or(0, |rate| rate as u64 / 1_000), ..Outcomes::default() },
            ..Trial::default()
        }
    }

    const RATE: &str = "throughput.operations_per_s";

    fn of(path: &str, trials: &[Trial]) -> Found {
        ratio(path, ["a", "b"], &Range::default(), &trials.iter().collect::<Vec<_>>())
    }

    fn at_least(bound: f64) -> Range {
        Range { at_least: Some(bound), ..Range::default() }
    }

    /// Ratios of 2, 2.2 and 1.8181…: logarithms ln 2 and ln 2 ± ln 1.1, so the mean is ln 2 and the standard error ln 1.1 / √3.
    fn three() -> Vec<Trial> {
        let pairs = [(200.0, 100.0), (242.0, 110.0), (180.0, 99.0)];
        let both = |((a, b), repeat)| [trial("a", 8, repeat, Some(a)), trial("b", 8, repeat, Some(b))];
        pairs.into_iter().zip(1..).flat_map(both).collect()
    }

    #[test]
    fn three_pairs_have_students_interval_of_their_logarithms() {
        let found = of(RATE, &three());
        assert!((found.value.unwrap() - 2.0).abs() < 1e-9);
        // t of 2 degrees of freedom is 4.302653.
        let reach = (4.302_652_7 * 1.1_f64.ln() / 3_f64.sqrt()).exp();
        let [low, high] = found.range.unwrap();
        assert!((low - 2.0 / reach).abs() < 1e-6 && (high - 2.0 * reach).abs() < 1e-6, "{found:?}");
        assert_eq!((found.holds(&at_least(1.5)), found.holds(&at_least(1.9))), (Holds::Yes, Holds::NotShown));
        assert_eq!(found.holds(&at_least(3.0)), Holds::No);
    }

    #[test]
    fn one_pair_is_held_by_its_value() {
        let found = of(RATE, &three()[..2]);
        assert_eq!((found.range, found.note.as_str()), (None, "one trial each: no interval"));
        assert_eq!((found.value, found.holds(&at_least(2.0))), (Some(2.0), Holds::Yes));
    }

    #[test]
    fn a_figure_that_is_missing_leaves_it_unshown() {
        let mut trials = three();
        trials[5].throughput.operations_per_s = None;
        let found = of(RATE, &trials);
        assert!(found.value.is_some());
        assert_eq!(found.holds(&at_least(0.0)), Holds::NotShown);
        trials.iter_mut().for_each(|trial| trial.throughput.operations_per_s = None);
        assert_eq!(of(RATE, &trials).holds(&at_least(0.0)), Holds::NotMeasured);
    }

    #[test]
    fn counts_that_can_be_0_have_no_interval() {
        let mut trials = three();
        trials.iter_mut().for_each(|trial| trial.outcomes.wrong = u64::from(trial.variant.as_deref() == Some("b")));
        let found = of("outcomes.wrong", &trials);
        assert_eq!((found.value, found.range), (Some(0.0), None));
        trials.iter_mut().for_each(|trial| trial.outcomes.wrong = u64::from(trial.variant.as_deref() == Some("a")));
        let found = of("outcomes.wrong", &trials);
        assert_eq!((found.value, found.note.as_str()), (None, "b is 0: no ratio"));
        assert_eq!(found.holds(&at_least(0.0)), Holds::NotMeasured);
    }
}
