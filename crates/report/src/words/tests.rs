//! Tests of answers and summaries for results of every shape.
#![allow(clippy::unwrap_used)]

use analysis::answer::{answer, further, sweeps};
use experiment::plan::Plan;
use record::results::{Crossing, Fault, Lead, Results, SafeLoad, Scaling, ScalingPoint, Trust, Verdict};

use super::comparison_tests::found;
use super::*;
use crate::{ReportInput, example};

fn input<'a>(results: &'a Results, plan: &'a Plan) -> ReportInput<'a> {
    ReportInput::without_records(results, plan)
}

fn one() -> (Plan, Results) {
    let plan = example::plan(&[], &[], 1);
    let results = example::results(&plan);
    (plan, results)
}

fn one_crash() -> (Plan, Results) {
    let (plan, mut results) = one();
    example::crash(&mut results.trials[0]);
    (plan, results)
}

/// Returns answer and summary, after checking the width of their lines.
fn words(plan: &Plan, results: &Results) -> String {
    let summary = summary(results, plan, false);
    for line in summary.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert_eq!(line.trim_end(), line);
    }
    format!("{}\n----\n{summary}", answer(results, plan))
}

#[test]
fn a_plain_load() {
    let (plan, results) = one();
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn a_plain_load_with_failures_at_a_rate() {
    let (mut plan, mut results) = one();
    plan.trials[0].load.as_mut().unwrap().rate = Some(experiment::plan::Rate::Constant(5_000.0));
    results.trials[0].outcomes.failed = 1_234;
    results.trials[0].outcomes.timeout = 3;
    results.trials[0].consistency.wrong = Some(17);
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn failed_expectations_have_a_line_each() {
    let (mut plan, mut results) = one();
    let login = experiment::plan::Step {
        name: "login".to_owned(),
        expect: [("status".to_owned(), "200".into()), ("body".to_owned(), "{token}".into())].into(),
        ..Default::default()
    };
    plan.trials[0].load.as_mut().unwrap().steps.push(login);
    results.trials[0].checks = example::failed_checks();
    let words = summary(&results, &plan, false);
    let checks: Vec<&str> = words.lines().filter(|line| line.starts_with("  check ")).collect();
    assert_eq!(
        checks,
        [
            "  check login: `body = {token}` does not hold in 12 of 1,000 answers (1.2 %)",
            "  check login: `header.x-token` does not hold in 1 of 1,000 answers (0.1 %)"
        ]
    );
}

#[test]
fn a_crash() {
    let (plan, results) = one_crash();
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn a_crash_that_loses_names_and_never_recovers() {
    let (plan, mut results) = one_crash();
    results.trials[0].consistency.lost_writes = Some(2_003);
    results.trials[0].faults[0].outage.as_mut().unwrap().back_to_baseline_s = None;
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn a_crash_without_failures() {
    let (plan, mut results) = one_crash();
    results.trials[0].outcomes.failed = 0;
    let outage = results.trials[0].faults[0].outage.as_mut().unwrap();
    outage.failed = 0;
    (outage.first_failure_s, outage.last_failure_s, outage.back_to_baseline_s) = (None, None, None);
    outage.baseline_per_s = None;
    insta::assert_snapshot!(answer(&results, &plan));
}

#[test]
fn a_crash_three_times_over() {
    let plan = example::plan(&[], &[], 3);
    let mut results = example::results(&plan);
    for (index, trial) in results.trials.iter_mut().enumerate() {
        example::crash(trial);
        trial.throughput.before_first_fault_per_s = Some(61_000.0 + 2_000.0 * index as f64);
        trial.faults[0].outage.as_mut().unwrap().failed = 90 + index as u64;
    }
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn policies_side_by_side() {
    let (plan, results) = example::policies();
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn findings_beyond_two_sentences_are_in_the_summary() {
    let (plan, results) = example::policies();
    let (answer, others) = (answer(&results, &plan), further(&results, &plan));
    assert!(answer.matches(". ").count() < 2, "{answer}");
    let summary = summary(&results, &plan, false);
    assert!(!others.is_empty() && others.iter().all(|other| summary.contains(&format!("  - {}", &other[..20]))));
}

#[test]
fn a_sweep_without_faults() {
    let plan = example::plan(&[], &[("load.agents", &["1", "8", "64"])], 1);
    let mut results = example::results(&plan);
    for (trial, rate) in results.trials.iter_mut().zip([9_000.0, 41_000.0, 63_000.0]) {
        trial.throughput.operations_per_s = Some(rate);
        trial.latency_us = Some(example::quantiles(rate / 63_000.0));
    }
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn failures_that_no_dimension_explains_name_the_worst() {
    let plan = example::plan(&["a", "b"], &[("target.with.state", &["x", "y"])], 1);
    let mut results = example::results(&plan);
    results.trials[0].outcomes.failed = 5;
    results.trials[3].outcomes.failed = 9;
    insta::assert_snapshot!(answer(&results, &plan));
}

#[test]
fn a_void_result_begins_with_a_warning() {
    let (plan, mut results) = one_crash();
    let reasons = vec!["The generator was at the end of its core (98 %)".to_owned()];
    results.verdict = Verdict { is: Trust::Void, reasons, ..Verdict::default() };
    results.trials[0].verdict = results.verdict.clone();
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn a_partial_result_is_marked() {
    let (plan, mut results) = one_crash();
    results.partial = Some("the run was interrupted".to_owned());
    results.planned_trials = 12;
    insta::assert_snapshot!(words(&plan, &results));
}

#[test]
fn nothing_measured() {
    let (plan, mut results) = one();
    results.partial = Some("the target failed to start: exit 1".to_owned());
    results.trials.clear();
    insta::assert_snapshot!(words(&plan, &results));
}

fn safe_load(surviving: &str, value: Option<f64>, ci95: [Option<f64>; 2], limited_by: &str) -> SafeLoad {
    SafeLoad {
        over: "load.rate".to_owned(),
        value,
        ci95,
        limited_by: limited_by.to_owned(),
        surviving: surviving.to_owned(),
        complete: true,
        ..SafeLoad::default()
    }
}

#[test]
fn the_safe_load_of_a_search() {
    let (plan, mut results) = one();
    results.safe_loads = vec![
        safe_load("nothing lost", Some(12_300.0), [Some(11_900.0), Some(12_700.0)], "latency_us.p99"),
        safe_load("one member down", Some(8100.0), [Some(8000.0), Some(8350.0)], "latency_us.p99"),
    ];
    let healthy = answer(&results, &plan);
    results.safe_loads = vec![
        safe_load(
            "nothing lost",
            Some(16_000.0),
            [Some(15_800.0), None],
            "the generator: its busiest thread used 99 % of a core",
        ),
        safe_load("oops", None, [None, Some(4.0)], "failed_pct"),
        SafeLoad { complete: false, ..safe_load("", Some(900.0), [Some(500.0), Some(1800.0)], "latency_us.p99") },
        safe_load("one member down", None, [None, None], "the search: the machine was busy"),
    ];
    let hindered = answer(&results, &plan);
    results.safe_loads = vec![SafeLoad {
        variant: Some("tuned".to_owned()),
        over: "load.agents".to_owned(),
        ..safe_load("nothing lost", Some(7.0), [Some(7.0), Some(7.0)], "failed_pct")
    }];
    insta::assert_snapshot!([healthy, hindered, answer(&results, &plan)].join("\n"));
}

#[test]
fn a_search_has_its_tables_and_its_chart() {
    let (mut plan, mut results) = one();
    let steps = [
        ("001", 8000.0, Some(true), None),
        ("002", 16_000.0, None, Some("the trial was cut off")),
        ("003", 16_000.0, Some(false), Some("latency_us.p99 = 64,000, expected below 50,000")),
    ];
    let steps = steps.map(|(trial, value, held, broke)| record::results::SearchStep {
        trial: trial.to_owned(),
        value,
        held,
        broke: broke.into_iter().map(str::to_owned).collect(),
        figures: [("latency_us.p99".to_owned(), value * 4.0)].into(),
    });
    let found = safe_load("nothing lost", Some(12_300.0), [Some(11_900.0), Some(12_700.0)], "latency_us.p99");
    results.safe_loads = vec![SafeLoad { steps: steps.to_vec(), ..found }];
    let text = summary(&results, &plan, false);
    assert!(text.contains("12,300") && text.contains("no result") && text.contains("64,000"), "{text}");
    plan.find = Some(
        serde_json::from_value(serde_json::json!({
            "highest": "load.rate", "surviving": ["nothing lost"],
            "limits": [{ "metric": "latency_us.p99", "range": { "below": 50_000.0 }, "filter": {} }],
        }))
        .unwrap(),
    );
    let input = ReportInput::without_records(&results, &plan);
    let charts = crate::run_charts::searches(&input);
    assert_eq!((charts.len(), charts[0].panels[0].lines.len()), (1, 3));
    let mark = &charts[0].marks[0];
    assert_eq!((mark.at, mark.since, mark.until), (12_300.0, Some(11_900.0), Some(12_700.0)));
    assert!(crate::page(&input).unwrap().contains("search-1"));
}

#[test]
fn unmeasured_figures_are_not_named() {
    let (plan, mut results) = one_crash();
    let trial = &mut results.trials[0];
    trial.throughput = record::results::Throughput::default();
    trial.latency_us = None;
    trial.consistency = record::results::Consistency::default();
    let outage = trial.faults[0].outage.as_mut().unwrap();
    *outage = record::results::Outage { failed: 99, ..Default::default() };
    assert_eq!(answer(&results, &plan), "The fault `oops` made 99 of 1,834,666 operations fail.");
}

#[test]
fn a_fault_that_no_client_noticed_has_no_recovery() {
    let (plan, mut results) = one_crash();
    results.trials[0].faults[0].outage.as_mut().unwrap().failed = 0;
    assert!(answer(&results, &plan).contains("throughput recovered after 120 ms"));
    let outage = results.trials[0].faults[0].outage.as_mut().unwrap();
    outage.back_to_baseline_s = Some(0.0);
    (outage.baseline_per_s, outage.bound_per_s) = (Some(60_000.0), Some(48_000.0));
    let text = answer(&results, &plan);
    assert!(text.contains("no client noticed the fault `oops`") && !text.contains("recovered"), "{text}");
    assert!(text.contains("(a drop of throughput by less than 20 % is not detectable)"), "{text}");
}

#[test]
fn only_faults_that_happened_are_counted_and_the_others_are_named() {
    let (plan, mut results) = one_crash();
    let refused = Fault { name: "promote".into(), failed: Some("exit 2".into()), ..Fault::default() };
    results.trials[0].faults.push(refused);
    let text = answer(&results, &plan);
    assert!(text.contains("the fault `oops` made") && text.contains("; not carried out: `promote`;"), "{text}");
}

#[test]
fn timeouts_are_not_called_failures() {
    let (plan, mut results) = one_crash();
    let outage = results.trials[0].faults[0].outage.as_mut().unwrap();
    (outage.failed, outage.timed_out) = (43, 32);
    assert!(answer(&results, &plan).contains("made 11 of 1,834,666 operations fail and 32 time out over 12 ms"));
    let consistency = &mut results.trials[0].consistency;
    (consistency.acknowledged, consistency.acknowledged_checked) = (Some(4_000), Some(4_000));
    assert!(
        answer(&results, &plan).contains("no acknowledged write was lost (4,000 checked)"),
        "refused ones are none"
    );
}

#[test]
fn busy_agents_in_an_open_loop_are_reported() {
    let (plan, mut results) = one_crash();
    results.trials[0].outcomes.timeout = 32;
    results.trials[0].generator.all_busy_s = Some(5.0);
    assert!(answer(&results, &plan).contains("For 5 s all agents waited for answers"));
}

#[test]
fn summaries_have_optional_colour_and_no_control_characters() {
    let (plan, mut results) = one_crash();
    results.title = "\u{1b}[2Jtitle\u{7}".to_owned();
    results.trials[0].faults[0].name = "\u{1b}]0;oops\u{7}".to_owned();
    let text = summary(&results, &plan, false);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    assert!(summary(&results, &plan, true).contains("\u{1b}[32mvalid\u{1b}[0m"));
}

/// Returns a curve over agents with a knee, or one that still rises.
fn curve(variant: &str, knee: Option<f64>) -> Scaling {
    Scaling {
        variant: variant.to_owned(),
        over: "load.agents".to_owned(),
        points: vec![ScalingPoint { load: 1.0, per_s: vec![12_000.0; 2] }; 7],
        knee,
        knee_ci95: knee.map(|knee| [knee - 1.0, knee + 1.0]),
        peak_per_s: Some(12_345.0),
        peak_ci95: Some([12_000.0, 12_700.0]),
        peak_at: Some(64.0),
        ..Scaling::default()
    }
}

#[test]
fn a_sweep_reports_knees_and_crossings() {
    let plan = example::plan(&["pi", "xeon"], &[("load.agents", &["1", "2", "4"])], 2);
    let mut results = example::results(&plan);
    results.scaling = vec![curve("pi", Some(24.0)), curve("xeon", None)];
    let crossing = Crossing {
        a: "pi".to_owned(),
        b: "xeon".to_owned(),
        over: "load.agents".to_owned(),
        lead: Lead::Crosses,
        at: Some(12.0),
        ci95: Some([Some(11.0), None]),
        peak_ratio: Some(1.51),
        peak_ratio_ci95: Some([1.42, 1.6]),
        ..Crossing::default()
    };
    results.crossings = vec![crossing];
    insta::assert_snapshot!(words(&plan, &results));
    let once = "Each of these points is one trial, so no difference was tested.";
    assert!(!found(&results, &plan).contains(once));
    for (lead, says) in [
        (
            Lead::Throughout,
            "`pi` is ahead of `xeon` throughout, and its peak is 1.51 times that of `xeon` (95 % interval 1.42–1.6).",
        ),
        (
            Lead::NotShown,
            "Whether `xeon` or `pi` is ahead at the highest load is not shown; the peak of `pi` is 1.51 times that of `xeon`",
        ),
    ] {
        results.crossings[0].lead = lead;
        let answer = answer(&results, &plan);
        assert!(answer.contains(says), "{answer}");
    }
    results.scaling.iter_mut().flat_map(|scaling| &mut scaling.points).for_each(|point| point.per_s.truncate(1));
    assert!(found(&results, &plan).contains(once));
}

#[test]
fn a_search_that_never_holds_is_reported() {
    let (plan, mut results) = one();
    let lines = [
        ("async_dirty", "nothing lost", None, [None, Some(1.0)]),
        ("sync_dirty", "nothing lost", Some(40.0), [Some(36.0), Some(44.0)]),
        ("sync_dirty", "one member down", None, [None, Some(1.0)]),
    ];
    let lines = lines.map(|(variant, surviving, value, ci95)| SafeLoad {
        variant: Some(variant.to_owned()),
        over: "load.agents".to_owned(),
        ..safe_load(surviving, value, ci95, "wrong_per_1000_cycles")
    });
    results.safe_loads = lines.to_vec();
    let text = answer(&results, &plan);
    let words = "`async_dirty` carries not even 1 agent when healthy; `wrong_per_1000_cycles` breaks at that load. `sync_dirty` carries at least \
                 36 agents (95 %; edge near 40, interval 36–44) when healthy and not even 1 agent with one member down; `wrong_per_1000_cycles` breaks above that load.";
    assert!(text.starts_with(words), "{text}");
    let table = crate::tables::sweeps::safe_loads(&input(&results, &plan)).expect("a table");
    assert_eq!(table.rows[0].cells[2].text, "not even 1");
}

#[test]
fn disturbances_are_in_the_answer() {
    let (plan, mut results) = one_crash();
    results.trials[0].disturbances = vec![example::disturbance()];
    insta::assert_snapshot!(words(&plan, &results));
    let mut only_wrong = example::disturbance();
    (only_wrong.outage.failed, only_wrong.outage.wrong) = (0, 3);
    results.trials[0].disturbances = vec![only_wrong];
    assert!(!answer(&results, &plan).contains("broke off"), "wrong answers alone break nothing off");
    let (plan, mut results) = example::policies();
    results.trials[0].disturbances = vec![example::disturbance()];
    results.trials[1].disturbances = vec![example::disturbance(), example::disturbance()];
    assert_eq!(
        further(&results, &plan).last().unwrap(),
        "Service was interrupted 3 times in 2 of 35 trials, and no fault explains it: 120 operations failed."
    );
}

#[test]
fn two_variants_with_a_cost_have_a_sentence() {
    let mut results = Results { costs: example::costs(), ..Results::default() };
    assert_eq!(
        sweeps::cost_sentence(&results).unwrap(),
        "At their peaks a cycle takes 188 mJ with `pi2c` and 417 mJ with `devx`; \
         a million cycles cost EUR 0.013 with `pi2c` and EUR 0.053 with `devx` (modelled)."
    );
    results.costs[3].price_per_million_cycles = None;
    let energy = "At their peaks a cycle takes 188 mJ with `pi2c` and 417 mJ with `devx` (modelled).";
    assert_eq!(sweeps::cost_sentence(&results).unwrap(), energy);
    results.costs[3].joules_per_cycle = None;
    assert_eq!(sweeps::cost_sentence(&results), None, "nothing to hold it against");
    results.costs = example::costs().into_iter().filter(|cost| cost.variant == "pi2c").collect();
    assert_eq!(sweeps::cost_sentence(&results), None, "one alone is in the table");
}

#[test]
fn keys_that_members_differ_on_are_reported() {
    let (plan, mut results) = one();
    results.trials[0].consistency.diverged_keys = Some(0);
    assert!(!answer(&results, &plan).contains("differed"), "{}", answer(&results, &plan));
    results.trials[0].consistency.diverged_keys = Some(17);
    assert!(
        answer(&results, &plan).ends_with("; 17 keys differed between members at the end."),
        "{}",
        answer(&results, &plan)
    );

    let (plan, mut results) = example::policies();
    for trial in &mut results.trials {
        trial.consistency.diverged_keys = Some(0);
    }
    let clean = "No keys differed between members at the end in any of the cases.";
    assert!(further(&results, &plan).iter().any(|finding| finding == clean));
    for trial in results.trials.iter_mut().filter(|trial| trial.variant.as_deref() == Some("wait")) {
        trial.consistency.diverged_keys = Some(5);
    }
    let says = found(&results, &plan);
    assert!(says.contains("Keys differed between members at the end with `wait` (up to 5), none with "), "{says}");

    // A search also reports it, but only then.
    results.safe_loads = vec![SafeLoad::default()];
    let says = found(&results, &plan);
    assert!(says.contains("Keys differed between members at the end with `wait`"), "{says}");
    results.trials.iter_mut().for_each(|trial| trial.consistency.diverged_keys = Some(0));
    assert!(!found(&results, &plan).contains("differed"));
}

#[test]
fn a_figure_of_a_single_case_is_not_generalised() {
    let plan = example::plan(&["a", "b", "c"], &[], 1);
    let mut results = example::results(&plan);
    for trial in &mut results.trials[1..] {
        trial.latency_us = trial.latency_us.take().map(|latency| record::results::Quantiles { p99: None, ..latency });
    }
    let text = answer(&results, &plan);
    assert!(text.contains("p99 latency was 6.87 ms with `a`, and was not measured for the others"), "{text}");
    assert!(!text.contains("p99 was 6.87 ms throughout"), "{text}");
}

#[test]
fn an_exercise_without_a_load_is_judged() {
    let (plan, mut results) = one();
    results.trials[0] = record::results::Trial { id: results.trials[0].id.clone(), ..Default::default() };
    assert!(summary(&results, &plan, false).contains("not judged"));
    let step = record::results::PlayedStep { ended_s: Some(3.0), ..Default::default() };
    results.trials[0].steps = vec![step];
    assert!(!summary(&results, &plan, false).contains("not judged"));
}

#[test]
fn an_exercise_without_a_load_has_no_client_effects() {
    let (mut plan, mut results) = one_crash();
    assert!(summary(&results, &plan, false).contains("Effect of each fault on clients"));
    plan.trials[0].load = None;
    results.trials[0].faults.iter_mut().for_each(|fault| fault.outage = None);
    assert!(!summary(&results, &plan, false).contains("Effect of each fault on clients"));
}
