//! Tests of what is said of wrong answers.
#![allow(clippy::unwrap_used)]

use experiment::plan::Plan;
use record::results::Results;

use crate::words::answer;
use crate::{Input, example};

fn input<'a>(results: &'a Results, plan: &'a Plan) -> Input<'a> {
    Input { results, plan, environment: None, folder: String::new(), trials: Vec::new() }
}

/// Four modes at two rates of the link: dirty ones give wrong answers, in so many of 1,000 cycles of each of two trials.
pub(crate) fn modes() -> (Plan, Results) {
    let rates: &[&str] = &["1gbit", "5mbit"];
    let modes = ["sync_dirty", "async_dirty", "transaction", "sync_transaction"];
    let plan = example::plan(&modes, &[("lab.port.distribution.rate", rates)], 2);
    let mut results = example::results(&plan);
    for trial in &mut results.trials {
        let wrong = match (trial.variant.as_deref(), trial.point["lab.port.distribution.rate"].as_str()) {
            (Some("async_dirty"), Some("5mbit")) => 20,
            (Some("async_dirty"), _) => 4,
            (Some("transaction"), Some("5mbit")) => 2,
            _ => 0,
        };
        (trial.cycles, trial.outcomes.wrong, trial.consistency.wrong) = (Some(1_000), wrong, Some(wrong));
        trial.consistency.cycles = Some(1_000);
        trial.wrong_per_1000_cycles = Some(wrong as f64);
    }
    (plan, results)
}

#[test]
fn modes_that_gave_wrong_answers_are_told_from_those_that_gave_none() {
    let (plan, mut results) = modes();
    let said = answer(&results, &plan);
    let words = "Wrong answers for 1,000 cycles: 12 with `async_dirty` and 1 with `transaction`; none with `sync_dirty` in 4,000 \
                 cycles and `sync_transaction` in 4,000 cycles.";
    assert!(said.contains(words), "{said}");
    let table = crate::tables::named("outcomes", &input(&results, &plan)).expect("a table");
    let row = &table.rows[3];
    let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
    assert_eq!(cells[..3], ["async_dirty", "5mbit", "2,000"]);
    assert_eq!((cells[6], cells[8]), ("40", "20"));
    // Without counted cycles the answers are counted.
    results.trials.iter_mut().for_each(|trial| (trial.cycles, trial.consistency.cycles) = (None, None));
    let said = answer(&results, &plan);
    assert!(
        said.contains("Wrong answers: 48 with `async_dirty` and 4 with `transaction`; none with `sync_dirty` and"),
        "{said}"
    );
    results.trials.iter_mut().for_each(|trial| (trial.outcomes.wrong, trial.consistency.wrong) = (0, Some(0)));
    assert!(
        !answer(&results, &plan).contains("rong answers")
            && crate::tables::named("outcomes", &input(&results, &plan)).is_none()
    );
}

#[test]
fn of_variants_that_nobody_looked_into_nothing_is_said() {
    let (plan, mut results) = modes();
    for trial in &mut results.trials {
        trial.consistency.diverged_keys = match trial.variant.as_deref() {
            Some("async_dirty") => Some(3),
            Some("transaction") => Some(0),
            _ => None,
        };
    }
    let said = answer(&results, &plan);
    assert!(
        said.contains(
            "Keys differed between members in the end with `async_dirty` (up to 3), none with `transaction`."
        ),
        "{said}"
    );
}
