//! Checks of ratios by hand.
#![allow(clippy::unwrap_used)]

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
