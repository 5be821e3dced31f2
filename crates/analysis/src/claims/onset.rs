//! `onset(metric, a, path)`: the first value of a swept path at which a count is above 0, such as the lag at which wrong answers begin. It
//! must not know what is counted.

use std::collections::BTreeMap;

use experiment::duration;
use experiment::quantity::Quantity;
use record::results::{Trial, Trust};
use serde_json::Value;

use super::found::{Found, Part};
use crate::metrics::metric;
use crate::stats::order::largest;

/// A value of the path.
struct Step<'a> {
    value: &'a Value,
    /// The count in each trial that can be used and has it.
    counts: Vec<f64>,
}

/// The values of the path at one point of the others, in the order of the file.
struct Steps<'a> {
    point: BTreeMap<String, Value>,
    steps: Vec<Step<'a>>,
}

/// The first value, in the order of the file, at which the count is above 0 in any trial. A void trial is not used, but where a value has
/// no other it is not known whether that was the first.
pub(super) fn onset(path: &str, variant: Option<&str>, over: &str, trials: &[&Trial]) -> Found {
    let all = steps(path, variant, over, trials);
    let judged: Vec<(Part, bool)> = all.iter().filter_map(|of| part(&of.steps)).collect();
    let lacking = judged.iter().any(|(_, lacking)| *lacking);
    Found::of(judged.into_iter().map(|(part, _)| part)).lacking(lacking)
}

fn steps<'a>(path: &str, variant: Option<&str>, over: &str, trials: &[&'a Trial]) -> Vec<Steps<'a>> {
    let mut all: Vec<Steps<'a>> = Vec::new();
    for &trial in trials.iter().filter(|trial| trial.variant.as_deref() == variant) {
        let Some(value) = trial.point.get(over) else { continue };
        let mut point = trial.point.clone();
        point.remove(over);
        let index = all.iter().position(|of| of.point == point).unwrap_or(all.len());
        if index == all.len() {
            all.push(Steps { point, steps: Vec::new() });
        }
        let steps = &mut all[index].steps;
        let place = steps.iter().position(|step| step.value == value).unwrap_or(steps.len());
        if place == steps.len() {
            steps.push(Step { value, counts: Vec::new() });
        }
        let usable = trial.verdict.is != Trust::Void;
        steps[place].counts.extend(largest(metric(trial, path)).filter(|_| usable));
    }
    all
}

/// Where it begins, and whether that is in doubt; `None` if nothing was counted at all.
fn part(steps: &[Step]) -> Option<(Part, bool)> {
    let last = steps.iter().rfind(|step| !step.counts.is_empty())?;
    let begins = steps.iter().position(|step| step.counts.iter().any(|count| *count > 0.0));
    let Some(place) = begins else {
        // Which way the list runs tells on which side of its end the onset may lie.
        let first = steps.first().and_then(|step| number(step.value));
        let span = match (first, number(last.value)) {
            (Some(first), Some(last)) if first > last => [0.0, last],
            (_, Some(last)) => [last, f64::INFINITY],
            (_, None) => [f64::NEG_INFINITY, f64::INFINITY],
        };
        let note = format!("not up to {}", plain(last.value));
        let lacking = steps.iter().any(|step| step.counts.is_empty());
        return Some((Part { value: None, ci95: None, span, note }, lacking));
    };
    let step = &steps[place];
    let hit = step.counts.iter().filter(|count| **count > 0.0).count();
    let mut note = format!("at {} in {hit} of {}", plain(step.value), step.counts.len());
    note.push_str(&match place.checked_sub(1).map(|before| &steps[before]) {
        None => ", the first value".to_owned(),
        Some(before) if before.counts.is_empty() => format!("; {} was not measured", plain(before.value)),
        Some(before) => format!(", not at {}", plain(before.value)),
    });
    let lacking = steps[..place].iter().any(|step| step.counts.is_empty());
    let value = number(step.value);
    let span = value.map_or([f64::NEG_INFINITY, f64::INFINITY], |value| [value; 2]);
    Some((Part { value, ci95: None, span, note }, lacking))
}

/// The number of a swept value: of a rate bits per second, of a size bytes, of a duration seconds. `None` of other texts.
fn number(value: &Value) -> Option<f64> {
    let text = || value.as_str();
    let quantity = |of: Quantity| text().and_then(|text| of.parse(text).ok());
    value
        .as_f64()
        .or_else(|| quantity(Quantity::BitRate))
        .or_else(|| quantity(Quantity::ByteRate))
        .or_else(|| quantity(Quantity::Size))
        .or_else(|| text().and_then(|text| duration::parse_s(text).ok()))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use experiment::plan::Range;
    use record::results::{Holds, Outcomes, Verdict};
    use serde_json::json;

    use super::*;

    const OVER: &str = "lab.port.distribution.rate";
    const WRONG: &str = "outcomes.wrong";

    /// Three repeats at each rate, with so many wrong answers in each.
    fn trials(wrong: &[(&str, [u64; 3])]) -> Vec<Trial> {
        let mut trials = Vec::new();
        for repeat in 0..3 {
            for (rate, wrong) in wrong {
                trials.push(Trial {
                    variant: Some("dirty".to_owned()),
                    point: BTreeMap::from([(OVER.to_owned(), json!(rate)), ("load.agents".to_owned(), json!(16))]),
                    repeat: repeat as u32 + 1,
                    outcomes: Outcomes { ok: 100, wrong: wrong[repeat], ..Outcomes::default() },
                    ..Trial::default()
                });
            }
        }
        trials
    }

    fn found(trials: &[Trial]) -> Found {
        onset(WRONG, Some("dirty"), OVER, &trials.iter().collect::<Vec<_>>())
    }

    fn at_most(bound: f64) -> Range {
        Range { at_most: Some(bound), ..Range::default() }
    }

    #[test]
    fn the_first_rate_with_a_wrong_answer_is_the_onset() {
        let trials =
            trials(&[("1gbit", [0, 0, 0]), ("100mbit", [0, 0, 0]), ("20mbit", [0, 3, 0]), ("5mbit", [7, 9, 8])]);
        let found = found(&trials);
        assert_eq!((found.value, found.note.as_str()), (Some(2e7), "at 20mbit in 1 of 3, not at 100mbit"));
        assert_eq!((found.holds(&at_most(2e7)), found.holds(&at_most(5e6))), (Holds::Yes, Holds::No));
        assert_eq!(onset(WRONG, Some("sync"), OVER, &trials.iter().collect::<Vec<_>>()), Found::default());
    }

    #[test]
    fn what_never_begins_lies_beyond_the_end_of_the_list() {
        let none = trials(&[("100mbit", [0; 3]), ("5mbit", [0; 3])]);
        let found_none = found(&none);
        assert_eq!((found_none.value, found_none.note.as_str()), (None, "not up to 5mbit"));
        assert_eq!(found_none.holds(&at_most(5e6)), Holds::Yes, "if it begins, then below 5 Mbit/s");
        assert_eq!(found_none.holds(&at_most(1e6)), Holds::NotShown);
        let rising = trials(&[("1ms", [0; 3]), ("50ms", [0; 3])]);
        let range = Range { below: Some(0.05), ..Range::default() };
        assert_eq!(found(&rising).holds(&range), Holds::No, "a list that rises leaves what is beyond its last value");
    }

    #[test]
    fn at_the_first_value_nobody_knows_what_was_before() {
        let all = trials(&[("off", [1, 0, 2]), ("5mbit", [7, 9, 8])]);
        let found = found(&all);
        assert_eq!((found.value, found.note.as_str()), (None, "at off in 2 of 3, the first value"));
        assert_eq!(found.holds(&at_most(5e6)), Holds::NotShown, "`off` is no number");
    }

    #[test]
    fn a_value_without_a_trial_that_can_be_used_leaves_it_open() {
        let mut all = trials(&[("100mbit", [0; 3]), ("20mbit", [0; 3]), ("5mbit", [1; 3])]);
        for trial in all.iter_mut().filter(|trial| trial.point[OVER] == "20mbit") {
            trial.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        }
        let found = found(&all);
        assert_eq!((found.value, found.note.as_str()), (Some(5e6), "at 5mbit in 3 of 3; 20mbit was not measured"));
        assert_eq!(found.holds(&at_most(5e6)), Holds::NotShown);
    }

    #[test]
    fn of_other_paths_each_point_has_its_own() {
        let mut all = trials(&[("100mbit", [0; 3]), ("5mbit", [1; 3])]);
        let mut more = trials(&[("100mbit", [0, 0, 1]), ("5mbit", [9; 3])]);
        more.iter_mut().for_each(|trial| _ = trial.point.insert("load.agents".to_owned(), json!(64)));
        all.append(&mut more);
        let found = found(&all);
        assert_eq!((found.holds(&at_most(5e6)), found.holds(&at_most(1e8))), (Holds::NotShown, Holds::Yes));
        assert_eq!(found.value, Some((5e6 + 1e8) / 2.0));
    }
}
