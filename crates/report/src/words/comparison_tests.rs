//! Tests of the answer when variants or points are compared.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;

use analysis::answer::{answer, further};
use experiment::plan::Plan;
use record::results::{OutageDistribution, Results};
use serde_json::json;

use crate::{ReportInput, example};

fn input<'a>(results: &'a Results, plan: &'a Plan) -> ReportInput<'a> {
    ReportInput::without_records(results, plan)
}

/// Returns the answer and the further findings.
pub(crate) fn found(results: &Results, plan: &Plan) -> String {
    [vec![answer(results, plan)], further(results, plan)].concat().join(" ")
}

/// Returns four modes at two rates of the link. The asynchronous dirty mode and the transaction
/// mode give wrong answers in the listed numbers of 1,000 cycles in each of two trials.
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
fn modes_with_and_without_wrong_answers_are_listed() {
    let (plan, mut results) = modes();
    let text = answer(&results, &plan);
    let words = "Wrong answers per 1,000 cycles: 12 with `async_dirty` and 1 with `transaction`; none with `sync_dirty` in 4,000 \
             cycles and `sync_transaction` in 4,000 cycles.";
    assert!(text.contains(words), "{text}");
    let table = crate::tables::operations::outcomes(&input(&results, &plan)).expect("a table");
    let row = &table.rows[3];
    let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
    assert_eq!(cells[..3], ["async_dirty", "5mbit", "2,000"]);
    assert_eq!((cells[6], cells[8]), ("40", "20"));
    // Without counted cycles, wrong answers are counted instead.
    results.trials.iter_mut().for_each(|trial| (trial.cycles, trial.consistency.cycles) = (None, None));
    let text = answer(&results, &plan);
    assert!(
        text.contains("Wrong answers: 48 with `async_dirty` and 4 with `transaction`; none with `sync_dirty` and"),
        "{text}"
    );
    results.trials.iter_mut().for_each(|trial| (trial.outcomes.wrong, trial.consistency.wrong) = (0, Some(0)));
    assert!(
        !answer(&results, &plan).contains("rong answers")
            && crate::tables::operations::outcomes(&input(&results, &plan)).is_none()
    );
}

#[test]
fn variants_without_a_check_are_not_mentioned() {
    let (plan, mut results) = modes();
    for trial in &mut results.trials {
        trial.consistency.diverged_keys = match trial.variant.as_deref() {
            Some("async_dirty") => Some(3),
            Some("transaction") => Some(0),
            _ => None,
        };
    }
    let text = found(&results, &plan);
    assert!(
        text.contains(
            "Keys differed between members at the end with `async_dirty` (up to 3), none with `transaction`."
        ),
        "{text}"
    );
}

#[test]
fn outages_of_each_mode_are_reported_separately() {
    let (plan, mut results) = modes();
    let point = |rate: &str| BTreeMap::from([("lab.port.distribution.rate".to_owned(), json!(rate))]);
    results.outages = vec![
        example::distribution(Some("sync_dirty"), &point("1gbit"), 10),
        OutageDistribution { never_back: 2, ..example::distribution(Some("async_dirty"), &point("1gbit"), 12) },
    ];
    let text = found(&results, &plan);
    let words = "Recovery after `oops`: with `sync_dirty, 1gbit` median 120 ms (95 % interval 80–200 ms), maximum 400 \
                 ms (10 occurrences); with `async_dirty, 1gbit` median 120 ms (95 % interval 80–200 ms), 2 not within \
                 the trial (12 occurrences).";
    assert!(text.contains(words), "{text}");
    results.outages = (1..=8)
        .map(|seconds| {
            let mut of = example::distribution(Some("sync_dirty"), &point(&format!("{seconds}mbit")), 10);
            of.figures.values_mut().for_each(|spread| spread.p50 = Some(f64::from(seconds)));
            OutageDistribution { never_back: u64::from(seconds == 8), ..of }
        })
        .collect();
    let text = found(&results, &plan);
    let words = "After `oops` the median recovery ranged from 1 s with `sync_dirty, 1mbit` to 8 s with `sync_dirty, \
                 8mbit`; service did not always recover with `sync_dirty, 8mbit`.";
    assert!(text.contains(words), "{text}");
    results.outages.truncate(1);
    assert!(!answer(&results, &plan).contains("median recovery"), "one is no side by side");
}
