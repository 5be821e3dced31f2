//! Tests of the glance: what it says of loads of every shape, within 80 columns.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use record::folder::RunFolder;
use record::results::{Outcomes, Trust, Verdict};

use super::*;
use crate::{example, read_latency};

fn golden() -> RunFolder {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/golden/2026-11-20T10-31-05-a-name-server-crashes");
    RunFolder::at(Path::new(folder))
}

fn glance(plan: &Plan, results: &Results, latency_ns: Option<&Histogram<u64>>) -> String {
    let text = at_a_glance(results, plan, latency_ns, false);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
        assert_eq!(line.trim_end(), line);
    }
    assert!(!text.contains('\x1b'), "no colours where none were asked for");
    text
}

fn one() -> (Plan, Results) {
    let plan = example::plan(&[], &[], 1);
    let results = example::results(&plan);
    (plan, results)
}

#[test]
fn the_golden_run() {
    let folder = golden();
    let results = folder.read_results().unwrap().unwrap();
    let latency_ns = read_latency(&folder.trial("001")).unwrap().unwrap();
    assert_eq!(latency_ns.len(), results.trials[0].outcomes.ok, "none is left out");
    insta::assert_snapshot!(glance(&example::plan_of(&folder), &results, Some(&latency_ns)));
}

#[test]
fn a_load_of_which_some_failed() {
    let (plan, mut results) = one();
    let trial = &mut results.trials[0];
    trial.outcomes = Outcomes { ok: 1_834_567, failed: 1_234, timeout: 3, wrong: 17, unfinished: 64 };
    trial.attempt_results.extend([
        ("timeout".to_owned(), 3),
        ("status 503".to_owned(), 1_000),
        ("connect refused".to_owned(), 234),
        ("wrong".to_owned(), 17),
    ]);
    trial.throughput.operations_per_s_ci95 = Some([62_900.0, 63_900.0]);
    insta::assert_snapshot!(glance(&plan, &results, None));
}

#[test]
fn a_void_load_at_a_rate_with_too_few_for_its_quantiles() {
    let (mut plan, mut results) = one();
    plan.trials[0].load.as_mut().unwrap().rate = Some(experiment::plan::Rate::Constant(20.0));
    let trial = &mut results.trials[0];
    trial.outcomes = Outcomes { ok: 40, ..Outcomes::default() };
    trial.measured_s = Some([0.0, 2.0]);
    let latency = trial.latency_us.as_mut().unwrap();
    (latency.p99, latency.p999, latency.count) = (None, None, 40);
    trial.service_us = trial.latency_us;
    trial.generator.limit = "cpu".to_owned();
    results.verdict = Verdict {
        is: Trust::Void,
        reasons: vec![
            "the busiest engine thread used 99 % of its core, so that it is the generator that was measured".to_owned(),
        ],
        remedies: vec!["Give the generator more `load.threads` or cores of its own, or lower the load".to_owned()],
        rules: vec!["generator_cpu".to_owned()],
    };
    insta::assert_snapshot!(glance(&plan, &results, None));
}

#[test]
fn a_target_cannot_steer_the_terminal() {
    let (plan, mut results) = one();
    results.trials[0].attempt_results.insert("\x1b[2Jbad".to_owned(), 3);
    assert!(glance(&plan, &results, None).contains("[2Jbad (3)"));
}

#[test]
fn nothing_measured() {
    let (plan, mut results) = one();
    results.trials.clear();
    results.partial = Some("the target failed to start".to_owned());
    insta::assert_snapshot!(glance(&plan, &results, None));
}

#[test]
fn each_thing_is_said_once() {
    let (plan, mut results) = one();
    let reasons = ["it was interrupted at 6.4 s", "other processes used 53 % of the CPU"];
    results.verdict = Verdict {
        is: Trust::Void,
        reasons: reasons.map(str::to_owned).to_vec(),
        rules: ["cut_off", "strangers"].map(str::to_owned).to_vec(),
        ..Verdict::default()
    };
    results.partial = Some("the run was interrupted: 0 of 1 trials are complete".to_owned());
    // As analysis writes it into the results, for whoever reads no more than that.
    results.answer = answer(&results, &plan);
    let text = glance(&plan, &results, None);
    assert!(
        text.starts_with("  This result must not be used, for 2 reasons below. This is a partial result."),
        "{text}"
    );
    for once in ["interrupted", "other processes"] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
    }
    results.verdict.reasons.pop();
    results.verdict.rules = vec!["strangers".to_owned()];
    let text = glance(&plan, &results, None);
    assert!(text.contains("for the reason below") && text.contains("partial: the run was interrupted"), "{text}");
}

#[test]
fn only_the_verdict_has_a_colour() {
    let (plan, results) = one();
    let coloured = at_a_glance(&results, &plan, None, true);
    assert_eq!(coloured.matches('\x1b').count(), 2, "{coloured}");
}
