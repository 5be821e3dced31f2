//! Tests of the distribution of recoveries: every occurrence is a step, and what was never back leaves the line short.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::example;

#[test]
fn each_occurrence_is_a_step_and_what_was_never_back_none() {
    let plan = example::plan(&[], &[], 4);
    let mut results = example::results(&plan);
    for (trial, back_s) in results.trials.iter_mut().zip([Some(0.3), Some(0.1), None, Some(0.2)]) {
        example::crash(trial);
        trial.faults[0].outage.as_mut().unwrap().back_to_baseline_s = back_s;
    }
    results.trials[3].verdict.is = Trust::Void;
    let point = results.trials[0].point.clone();
    results.outages = vec![example::distribution(None, &point, 3)];
    let input = Input { results: &results, plan: &plan, environment: None, folder: String::new(), trials: Vec::new() };
    let charts = charts(&input);
    assert_eq!(charts.len(), 1);
    let line = &charts[0].panels[0].lines[0];
    assert_eq!(line.name, "oops (3)");
    let third = 100.0 / 3.0;
    let steps = [(0.0, 0.0), (0.1, 0.0), (0.1, third), (0.3, third), (0.3, 2.0 * third), (1.05 * 0.3, 2.0 * third)];
    assert_eq!(line.points, steps.map(|(at, share)| (at, Some(share))));
    assert!(charts[0].note.contains("does not reach 100 %"), "{}", charts[0].note);
    results.outages[0].count = 2;
    let input = Input { results: &results, plan: &plan, environment: None, folder: String::new(), trials: Vec::new() };
    assert_eq!(super::charts(&input), []);
}
