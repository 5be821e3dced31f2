//! The golden run folder (`crates/record/golden`), made by hand and committed. Its records must
//! stay readable forever, and its `analysis.json` is the analysis's result for them. An unintended
//! change of these results is a bug.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use record::folder::RunFolder;
use record::results::{Holds, Trust};
use serde_json::Value;

mod plan;
mod records;
mod simulation;

fn folder() -> RunFolder {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../record/golden");
    RunFolder::at(&golden.join("2026-11-20T10-31-05-a-name-server-crashes"))
}

/// Asserts that two JSON values are equal except for the last digits of numbers, which another
/// machine may round differently.
fn assert_same(now: &Value, then: &Value, path: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            assert_eq!(now.keys().collect::<Vec<_>>(), then.keys().collect::<Vec<_>>(), "{path}");
            now.iter().for_each(|(key, value)| assert_same(value, &then[key], &format!("{path}.{key}")));
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{path}");
            now.iter().zip(then).for_each(|(now, then)| assert_same(now, then, path));
        }
        (Value::Number(now), Value::Number(then)) => {
            let (now, then) = (now.as_f64().unwrap(), then.as_f64().unwrap());
            assert!((now - then).abs() <= 1e-9 * then.abs(), "{path}: {now} and not {then}");
        }
        _ => assert_eq!(now, then, "{path}"),
    }
}

#[test]
fn the_results_of_the_golden_records_have_not_changed() {
    let now = serde_json::to_value(analysis::analyze(&folder()).unwrap()).unwrap();
    let then = serde_json::from_slice(&std::fs::read(folder().analysis()).unwrap()).unwrap();
    assert_same(&now, &then, "");
}

#[test]
fn committed_results_are_readable() {
    let committed = folder().read_results().unwrap().expect("an analysis.json");
    assert_eq!((committed.format, committed.trials.len()), (1, 2));
    let again = serde_json::to_value(&committed).unwrap();
    assert_same(&again, &serde_json::from_slice(&std::fs::read(folder().analysis()).unwrap()).unwrap(), "");
}

#[test]
fn results_match_the_simulated_values() {
    let results = analysis::analyze(&folder()).unwrap();
    assert_eq!((results.planned_trials, results.trials.len()), (2, 2));
    let [first, second] = &results.trials[..] else { panic!("two trials") };

    let outage = first.faults[0].outage.as_ref().unwrap();
    assert_eq!((first.faults.len(), outage.failed), (1, simulation::ABORTED));
    assert_eq!(first.outcomes.failed, simulation::ABORTED);
    let near = |value: Option<f64>, known: f64, by: f64| assert!((value.unwrap() - known).abs() <= by, "{outage:#?}");
    near(outage.baseline_per_s, simulation::RATE_PER_S, 0.05 * simulation::RATE_PER_S);
    near(outage.total_s, simulation::DOWN_S, 0.003);
    near(outage.first_ok_s, simulation::DOWN_S, 0.003);
    near(outage.last_failure_s, simulation::ABORTING_S, 0.002);
    near(outage.partial_s, simulation::ABORTING_S - simulation::DOWN_S, 0.011);
    near(outage.back_to_baseline_s, simulation::SLOW_S, 0.1);
    let missed_s = simulation::DOWN_S + (1.0 - simulation::SLOW) * (simulation::SLOW_S - simulation::DOWN_S);
    near(outage.lost_operations, simulation::RATE_PER_S * missed_s, 100.0);
    assert_eq!(outage.memory_released_bytes, Some(records::RELEASED_BYTES));

    assert_eq!(first.consistency.lost_writes, Some(0));
    assert!(first.consistency.checked.unwrap() > 150);
    assert!(first.generator.littles_law_error_pct.unwrap() < 1.0, "{:#?}", first.generator);
    assert_eq!(first.verdict.is, Trust::Valid, "{:#?}", first.verdict);

    assert!(second.consistency.lost_writes.unwrap() > 0);
    assert_eq!(second.ended, None, "it was killed");
    assert_eq!(second.verdict.is, Trust::Suspect);
    assert!(results.partial.is_some());
    assert!(results.claims.iter().any(|claim| claim.holds == Holds::Yes));
    assert!(results.requirements.iter().all(|gate| gate.value.is_some()));
}

#[test]
fn totals_match_the_log() {
    let results = analysis::analyze(&folder()).unwrap();
    for trial in &results.trials {
        let log = record::hlog::read(&folder().trial(&trial.id).load_hlog()).unwrap();
        let count = |wanted: &dyn Fn(&str) -> bool| -> u64 {
            log.intervals.iter().filter(|interval| wanted(&interval.tag)).map(|interval| interval.histogram.len()).sum()
        };
        assert_eq!(trial.outcomes.ok, count(&|tag| tag.ends_with("/ok/latency")));
        assert_eq!(trial.outcomes.failed, count(&|tag| tag.ends_with("/failed/latency")));
        assert_eq!(trial.with_warmup.latency_us.as_ref().unwrap().count, trial.outcomes.ok);
        assert_eq!(trial.with_warmup.service_us.as_ref().unwrap().count, count(&|tag| tag.ends_with("/ok/service")));
        let measured = |tag: &str| -> u64 {
            let from_s = trial.steady.as_ref().unwrap().from_s.ceil();
            let inside = log.intervals.iter().filter(|interval| interval.start_s >= from_s);
            inside.filter(|interval| interval.tag.ends_with(tag)).map(|interval| interval.histogram.len()).sum()
        };
        assert_eq!(trial.latency_us.as_ref().unwrap().count, measured("/ok/latency"));
        assert!(trial.latency_us.as_ref().unwrap().count < trial.outcomes.ok, "the warm-up is cut off");
        for (name, operation) in &trial.operations {
            assert_eq!(operation.outcomes.ok, count(&|tag| tag == format!("{name}/ok/latency")), "{name}");
        }
        assert_eq!(trial.operations.len(), 4);
    }
}

/// Renews the golden results after an intended change; the records stay. Command:
/// `cargo test -p plimsoll-analysis --test golden -- --ignored renew_the_golden_results`.
#[test]
#[ignore = "writes the golden results"]
fn renew_the_golden_results() {
    folder().write_results(&analysis::analyze(&folder()).unwrap()).unwrap();
}

/// Makes the golden folder, only if the format itself is extended; the old folder must then be kept
/// beside the new one. Command:
/// `cargo test -p plimsoll-analysis --test golden -- --ignored make_the_golden_folder`.
#[test]
#[ignore = "writes the golden folder"]
fn make_the_golden_folder() {
    records::make(&folder());
    let results = analysis::analyze(&folder()).unwrap();
    folder().write_results(&results).unwrap();
}
