//! Checks of where a count begins to be above 0.
#![allow(clippy::unwrap_used)]

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
    let trials = trials(&[("1gbit", [0, 0, 0]), ("100mbit", [0, 0, 0]), ("20mbit", [0, 3, 0]), ("5mbit", [7, 9, 8])]);
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
