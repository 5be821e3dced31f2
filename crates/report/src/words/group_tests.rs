//! Tests of the grouping of trials.
#![allow(clippy::unwrap_used)]

use analysis::trial_groups::*;
use record::results::{Fault, Outage, Trial, Trust};
use text::numbers;

use crate::example;

#[test]
fn repeats_fall_into_one_group_and_void_ones_do_not_count() {
    let plan = example::plan(&["wait", "fail fast"], &[("target.with.state", &["process", "ets"])], 2);
    let mut results = example::results(&plan);
    results.trials[0].throughput.operations_per_s = Some(1.0);
    results.trials[0].verdict.is = Trust::Void;
    let groups = groups(&results, &plan);
    assert_eq!(groups.len(), 4);
    assert_eq!(groups[0].name(), "wait, process");
    assert_eq!(groups[0].trials.len(), 2);
    let spread = groups[0].spread(|trial| trial.throughput.operations_per_s).unwrap();
    assert!((spread.of, spread.least > 1.0) == (1, true));
    assert_eq!(trial_name(&results.trials[0], &results, &plan), "wait, process, repeat 1");
}

#[test]
fn groups_are_sorted_by_swept_value() {
    let plan = example::plan(&["wait", "fail fast"], &[("load.agents", &["a"]), ("target.with.state", &["ets"])], 4);
    let mut results = example::results(&plan);
    // The seed determines a different order in each repeat.
    let played = [("fail fast", 64), ("wait", 8), ("wait", 64), ("fail fast", 8)];
    for (trial, (variant, agents)) in results.trials.iter_mut().zip(played.iter().cycle()) {
        trial.variant = Some((*variant).to_owned());
        trial.point.insert("load.agents".to_owned(), (*agents).into());
    }
    let names: Vec<String> = groups(&results, &plan).iter().map(Group::name).collect();
    let wanted =
        ["wait, agents 8, ets", "wait, agents 64, ets", "fail fast, agents 8, ets", "fail fast, agents 64, ets"];
    assert_eq!(names, wanted);
    assert_eq!(trial_name(&results.trials[0], &results, &plan), "fail fast, agents 64, ets, repeat 1");
}

#[test]
fn paths_that_end_alike_keep_their_whole_name() {
    let plan = example::plan(&[], &[("load.rate", &["1"]), ("lab.rate", &["2"]), ("load.agents", &["3"])], 1);
    let names: Vec<String> = dimensions(&plan).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["load.rate", "lab.rate", "agents"]);
}

#[test]
fn medians_are_shown_with_ranges_that_differ() {
    let spread = MedianRange::of(vec![3.0, 1.0, f64::NAN, 2.0, 10.0]).unwrap();
    assert_eq!((spread.median, spread.least, spread.most, spread.of), (2.5, 1.0, 10.0, 4));
    assert_eq!(spread.text(numbers::number), "2.5 (1–10)");
    assert_eq!(spread.text(numbers::seconds), "2.5 s (1–10 s)");
    assert_eq!(MedianRange::of(vec![5.0, 5.001]).unwrap().text(numbers::number), "5");
    assert_eq!(MedianRange::of(Vec::new()), None);
}

#[test]
fn only_attempts_beyond_the_first_are_retries() {
    let plan = example::plan(&[], &[], 1);
    let mut trial = example::results(&plan).trials.remove(0);
    assert_eq!(retried(&trial), Some(0));
    trial.attempts += 5;
    assert_eq!(retried(&trial), Some(5));
    assert_eq!(retried(&Trial::default()), None);
}

#[test]
fn one_outage_without_a_time_leaves_the_longest_unknown() {
    let faults = [1.0, 2.0].map(|back_s| {
        let outage = Some(Outage { back_to_baseline_s: Some(back_s), ..Outage::default() });
        Fault { outage, ..Fault::default() }
    });
    let mut trial = Trial { faults: faults.to_vec(), ..Trial::default() };
    assert_eq!(longest(&trial, |outage| outage.back_to_baseline_s), Some(2.0));
    trial.faults.push(Fault { outage: Some(Outage::default()), ..Fault::default() });
    assert_eq!(longest(&trial, |outage| outage.back_to_baseline_s), None);
    assert_eq!(longest(&Trial::default(), |outage| outage.back_to_baseline_s), None);
}
