//! Tests of what the table of consistency says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Plan;

use super::*;
use crate::example;

fn table(results: &Results, plan: &Plan) -> Table {
    fill(&Input { results, plan, environment: None, folder: String::new(), trials: Vec::new() }).unwrap()
}

fn cell<'a>(table: &'a Table, head: &str) -> &'a Cell {
    &table.rows[0].cells[table.columns.iter().position(|column| column.head == head).unwrap()]
}

fn replica(name: &str, records: Option<u64>) -> ReplicaTable {
    let failed = records.is_none().then(|| "its host is down".to_owned());
    ReplicaTable { name: name.to_owned(), records, failed }
}

#[test]
fn rates_have_intervals_and_none_has_a_bound() {
    let plan = example::plan(&[], &[], 1);
    let mut results = example::results(&plan);
    results.trials[0].consistency.cycles = Some(16_000);
    assert_eq!(cell(&table(&results, &plan), "wrong in 1,000").text, numbers::NONE, "not pooled");
    let found = PooledConsistency {
        wrong: Some(0),
        wrong_per_1000_cycles: Some(0.0),
        ci95: Some([0.0, 0.2306]),
        ..Default::default()
    };
    results.consistencies = vec![found];
    assert_eq!(cell(&table(&results, &plan), "wrong in 1,000"), &Cell::new("0").with("at most 0.231"));
    let found = PooledConsistency {
        wrong: Some(160),
        wrong_per_1000_cycles: Some(10.0),
        ci95: Some([8.5, 11.5]),
        ..Default::default()
    };
    results.consistencies = vec![found];
    assert_eq!(cell(&table(&results, &plan), "wrong in 1,000"), &Cell::new("10").with("8.5–11.5"));
    // Where no cycles are counted there is no such column.
    results.trials[0].consistency.cycles = None;
    assert!(table(&results, &plan).columns.iter().all(|column| column.head != "wrong in 1,000"));
}

#[test]
fn members_that_differ_are_shown_with_their_records() {
    let plan = example::plan(&[], &[], 1);
    let mut results = example::results(&plan);
    let found = &mut results.trials[0].consistency;
    (found.diverged_keys, found.diverged_differing, found.diverged_missing) = (Some(6), Some(2), Some(5));
    found.diverged_examples = vec!["a: n1 version 1, n2 version 2".to_owned(), "b: n1 \"x\", n2 nothing".to_owned()];
    found.replicas = vec![replica("n2", Some(1_176)), replica("n3", Some(1_180)), replica("n4", None)];
    let shown = table(&results, &plan);
    assert_eq!(
        cell(&shown, "diverged keys"),
        &Cell::new("6").with("2 differing, 5 missing somewhere").toned(Tone::Bad)
    );
    assert_eq!(cell(&shown, "records by member").text, format!("n2 1,176, n3 1,180, n4 {}", numbers::NONE));
    let note = "Not asked, and in no count: n4 in trial 001 (its host is down). Some of the diverged: a: n1 version 1, n2 version 2; \
                b: n1 \"x\", n2 nothing.";
    assert_eq!(shown.note, note, "a column of its own was squeezed to nothing");

    let found = &mut results.trials[0].consistency;
    found.replicas = vec![replica("n2", Some(1_180)), replica("n3", Some(1_180))];
    (found.diverged_keys, found.diverged_differing, found.diverged_missing) = (Some(0), Some(0), Some(0));
    found.diverged_examples.clear();
    let shown = table(&results, &plan);
    assert_eq!(cell(&shown, "diverged keys"), &Cell::new("0").toned(Tone::Good));
    assert_eq!((cell(&shown, "records by member").text.as_str(), shown.note.as_str()), ("2 × 1,180", ""));
}
