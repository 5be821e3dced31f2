//! Checks of claims and requirements on synthetic trials.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::results::{Fault, FigureClass, FigureVerdict, Outage, Throughput, Trust, Verdict};
use serde_json::json;

use super::*;

fn trial(variant: &str, agents: u32, repeat: u32, per_s: Option<f64>, back_s: &[Option<f64>]) -> Trial {
    let faults = back_s.iter().map(|&back_to_baseline_s| Fault {
        name: "oops".into(),
        outage: Some(Outage { back_to_baseline_s, ..Outage::default() }),
        ..Fault::default()
    });
    Trial {
        variant: Some(variant.to_owned()),
        point: BTreeMap::from([("load.agents".to_owned(), json!(agents))]),
        repeat,
        throughput: Throughput { operations_per_s: per_s, ..Throughput::default() },
        faults: faults.collect(),
        ..Trial::default()
    }
}

fn trials() -> Vec<Trial> {
    vec![
        trial("pi", 1, 1, Some(100.0), &[Some(0.5), Some(2.5)]),
        trial("xeon", 1, 1, Some(400.0), &[Some(1.0)]),
        trial("pi", 32, 1, Some(900.0), &[Some(1.0)]),
        trial("xeon", 32, 1, Some(600.0), &[None]),
        trial("pi", 1, 2, Some(120.0), &[]),
        trial("xeon", 1, 2, Some(300.0), &[]),
    ]
}

fn held(metric: &str, range: MetricRange, filter: &[(&str, Value)], trials: &[Trial]) -> (Option<f64>, Holds) {
    let filter = filter.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let claim = claim(&plan::Claim { filter, ..planned(metric, range) }, trials, &[]);
    (claim.value, claim.holds)
}

fn planned(metric: &str, range: MetricRange) -> plan::Claim {
    let filter = BTreeMap::new();
    plan::Claim { says: "s".into(), source: "a".into(), metric: metric.into(), range, filter, on_void: false }
}

fn at_most(bound: f64) -> MetricRange {
    MetricRange { at_most: Some(bound), ..MetricRange::default() }
}

fn gate(metric: &str, range: MetricRange, filter: &[(&str, Value)]) -> Requirement {
    let filter = filter.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    requirement(&plan::Requirement { metric: metric.into(), range, filter }, &trials(), &[])
}

fn gate_on(metric: &str, range: MetricRange) -> plan::Requirement {
    plan::Requirement { metric: metric.into(), range, filter: BTreeMap::new() }
}

fn at_least(bound: f64) -> MetricRange {
    MetricRange { at_least: Some(bound), ..MetricRange::default() }
}

fn below(bound: f64) -> MetricRange {
    MetricRange { below: Some(bound), ..MetricRange::default() }
}

const RATE: &str = "throughput.operations_per_s";

#[test]
fn a_claim_takes_the_median_and_holds_if_every_trial_does() {
    let pi = [("variant", json!("pi"))];
    assert_eq!(held(RATE, at_least(100.0), &pi, &trials()), (Some(120.0), Holds::Yes));
    assert_eq!(held(RATE, at_least(110.0), &pi, &trials()), (Some(120.0), Holds::NotShown));
    assert_eq!(held(RATE, at_least(1_000.0), &pi, &trials()), (Some(120.0), Holds::No));
    assert_eq!(held(RATE, at_least(100.0), &[], &trials()), (Some(350.0), Holds::Yes));
    assert_eq!(held("latency_us.p99", below(1.0), &[], &trials()), (None, Holds::NotMeasured));
    assert_eq!(held(RATE, below(1.0), &[("variant", json!("none"))], &trials()), (None, Holds::NotMeasured));
    let point = [("load.agents", json!(32.0)), ("variant", json!("pi"))];
    assert_eq!(held(RATE, at_least(900.0), &point, &trials()), (Some(900.0), Holds::Yes));
}

#[test]
fn a_list_takes_its_worst_element() {
    let here = [("load.agents", json!(1)), ("variant", json!("pi"))];
    let back = "faults.oops.outage.back_to_baseline_s";
    let first = &trials()[..1];
    assert_eq!(held(back, below(2.0), &here, first), (Some(2.5), Holds::No));
    assert_eq!(held(back, at_least(1.0), &here, first), (Some(0.5), Holds::No));
    let between = MetricRange { at_least: Some(1.0), at_most: Some(2.0), ..MetricRange::default() };
    assert_eq!(held(back, between, &here, first), (Some(2.5), Holds::No));
}

#[test]
fn a_trial_without_the_value_leaves_a_claim_unshown() {
    let xeon = [("variant", json!("xeon")), ("load.agents", json!(32))];
    let back = "faults.oops.outage.back_to_baseline_s";
    assert_eq!(held(back, below(9.0), &xeon, &trials()), (None, Holds::NotMeasured));
    assert_eq!(held(back, below(9.0), &[], &trials()).1, Holds::NotShown);
}

#[test]
fn a_void_trial_is_not_used_for_a_claim() {
    let mut trials = trials();
    trials[0].verdict = Verdict { is: Trust::Void, ..Verdict::default() };
    let pi = [("variant", json!("pi")), ("load.agents", json!(1))];
    assert_eq!(held(RATE, at_least(1.0), &pi, &trials), (Some(120.0), Holds::Yes));
}

#[test]
fn a_claim_uses_trials_that_are_void_for_other_figures() {
    let mut trials = trials();
    let figures = [(FigureClass::Throughput, Trust::Void), (FigureClass::Counts, Trust::Suspect)];
    let figures = figures.map(|(figure, is)| FigureVerdict { figure, is, reasons: Vec::new() });
    let verdict = Verdict { is: Trust::Void, figures: figures.to_vec(), ..Verdict::default() };
    trials.iter_mut().for_each(|trial| trial.verdict = verdict.clone());
    let failed = claim(&planned("outcomes.failed", at_least(0.0)), &trials, &[]);
    assert_eq!((failed.holds, failed.on_void), (Holds::Yes, false));
    assert_eq!(claim(&planned(RATE, at_least(1.0)), &trials, &[]).holds, Holds::NotMeasured);
}

#[test]
fn a_claim_on_void_trials_is_marked() {
    let mut trials = trials();
    let on_void = plan::Claim { on_void: true, ..planned(RATE, at_least(100.0)) };
    assert!(!claim(&on_void, &trials, &[]).on_void, "none is void");
    trials.iter_mut().for_each(|trial| trial.verdict = Verdict { is: Trust::Void, ..Verdict::default() });
    let found = claim(&planned(RATE, at_least(100.0)), &trials, &[]);
    assert_eq!((found.value, found.holds, found.on_void), (None, Holds::NotMeasured, false));
    let found = claim(&on_void, &trials, &[]);
    assert_eq!((found.value, found.holds, found.on_void), (Some(350.0), Holds::Yes, true));
    let metric = format!("ratio({RATE}, xeon, pi)").as_str().into();
    assert!(claim(&plan::Claim { metric, ..on_void.clone() }, &trials, &[]).value.is_some());
    trials[0].verdict = Verdict::default();
    let none_void = plan::Claim { filter: [("variant".to_owned(), json!("pi"))].into(), ..on_void };
    assert!(!claim(&none_void, &trials[..1], &[]).on_void);
}

#[test]
fn a_safe_load_is_judged_by_its_interval() {
    let lines = [
        ("pi", "nothing lost", Some(1_000.0), [Some(900.0), Some(1_100.0)]),
        ("pi", "one member down", Some(600.0), [Some(500.0), Some(700.0)]),
        ("xeon", "nothing lost", Some(2_000.0), [Some(1_900.0), None]),
        ("xeon", "one member down", None, [None, Some(16.0)]),
        ("other", "nothing lost", None, [None, None]),
    ];
    let lines = lines.map(|(variant, surviving, value, ci95)| SafeLoad {
        variant: Some(variant.to_owned()),
        surviving: surviving.to_owned(),
        value,
        ci95,
        complete: true,
        limited_by: "latency_us.p99".to_owned(),
        ..SafeLoad::default()
    });
    let held = |metric: &str, range| {
        let found = claim(&planned(metric, range), &[], &lines);
        (found.value, found.range, found.holds)
    };
    for (bound, holds) in [(900.0, Holds::Yes), (1_000.0, Holds::NotShown), (1_200.0, Holds::No)] {
        let found = held("safe_load(pi, nothing lost)", at_least(bound));
        assert_eq!(found, (Some(1_000.0), Some([900.0, 1_100.0]), holds), "{bound}");
    }
    assert_eq!(held("safe_load(pi)", at_least(500.0)), (Some(600.0), Some([500.0, 700.0]), Holds::Yes));
    let xeon = "safe_load(xeon, nothing lost)";
    assert_eq!(held(xeon, at_least(1_900.0)), (Some(2_000.0), None, Holds::Yes), "it held as far as was tried");
    assert_eq!(held(xeon, at_most(3_000.0)).2, Holds::NotShown);
    assert_eq!(held("safe_load(xeon)", at_least(16.5)), (None, None, Holds::No), "not even the lowest that was tried");
    let note = claim(&planned("safe_load(xeon)", at_least(16.5)), &[], &lines).note;
    assert_eq!(note, "not even 16: latency_us.p99");
    assert_eq!(held("safe_load(other)", at_least(1.0)).2, Holds::NotMeasured);
    assert_eq!(held("safe_load(none)", at_least(1.0)).2, Holds::NotMeasured);
    let alone = [SafeLoad { variant: None, value: Some(7.0), ci95: [Some(7.0), Some(8.0)], ..lines[0].clone() }];
    for metric in ["safe_load()", "safe_load(nothing lost)"] {
        assert_eq!(claim(&planned(metric, at_least(7.0)), &[], &alone).holds, Holds::Yes, "{metric}");
        assert!(requirement(&gate_on(metric, at_least(7.0)), &[], &alone).holds);
    }
}

#[test]
fn a_claim_notes_a_missing_target_metric() {
    let queue = record::results::TargetMetric { max: Some(7.0), ..Default::default() };
    let told = Trial { metrics: BTreeMap::from([("queue".to_owned(), queue)]), ..Trial::default() };
    let found = claim(&planned("metrics.queue.max", at_least(5.0)), std::slice::from_ref(&told), &[]);
    assert_eq!((found.value, found.holds, found.note.as_str()), (Some(7.0), Holds::Yes, ""));
    let found = claim(&planned("metrics.depth.max", at_least(5.0)), std::slice::from_ref(&told), &[]);
    assert_eq!((found.holds, found.note.as_str()), (Holds::NotMeasured, "no host reported `depth`"));
    for (metric, why) in [
        ("metrics.depth.max", "no host reported `depth`"),
        ("metrics.queue.per_s", "`queue` is a gauge, which has no `per_s`"),
    ] {
        let found = requirement(&gate_on(metric, at_least(5.0)), std::slice::from_ref(&told), &[]);
        assert_eq!(found.unmeasured.as_deref(), Some(why));
    }
}

#[test]
fn a_gate_names_interrupted_trials() {
    let whole = Trial { id: "001".into(), failed_pct: Some(0.0), ended: Some(Ending::Done), ..Trial::default() };
    let interrupted = Trial { id: "002".into(), failed_pct: None, ended: Some(Ending::Interrupted), ..whole.clone() };
    let failed = Trial { id: "003".into(), ended: Some(Ending::Failed), ..interrupted.clone() };
    let all = [whole, interrupted, failed];
    let found = [1, 2, 3].map(|count| requirement(&gate_on("failed_pct", below(1.0)), &all[..count], &[]));
    assert_eq!(
        found.each_ref().map(|found| (found.value, found.holds)),
        [1, 2, 3].map(|count| (Some(0.0), count == 1))
    );
    let why = found.each_ref().map(|found| found.unmeasured.as_deref());
    assert_eq!(
        why,
        [None, Some("trial 002 was interrupted"), Some("trial 002 was interrupted; 1 more of 3 trials lack it")]
    );
}

#[test]
fn a_ratio_compares_trials_of_one_point_and_repeat() {
    let ratio = format!("ratio({RATE}, pi, xeon)");
    // 1.5 at 32 agents, once; at 1 agent the root of 0.25 × 0.4, and two pairs show next to
    // nothing.
    let (value, holds) = held(&ratio, below(2.0), &[], &trials());
    assert!((value.unwrap() - (1.5 + 0.1_f64.sqrt()) / 2.0).abs() < 1e-12 && holds == Holds::NotShown, "{value:?}");
    let at_32 = [("load.agents", json!(32))];
    assert_eq!(held(&ratio, at_least(1.5), &at_32, &trials()), (Some(1.5), Holds::Yes));
}

fn between(low: f64, high: f64) -> MetricRange {
    MetricRange { at_least: Some(low), at_most: Some(high), ..MetricRange::default() }
}

/// 24 slow cores and 2 fast ones over 1 to 64 agents: knees at 24 and 2, peaks of 240 and 120, and
/// the curves meet at 12.
fn curves(repeats: u32, off: f64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        for power in 0..7 {
            let agents = 1 << power;
            let n = f64::from(agents);
            let off = 1.0 + off * (f64::from((repeat + power) % 3) - 1.0);
            trials.push(trial("pi", agents, repeat, Some(10.0 * n.min(24.0) * off), &[]));
            trials.push(trial("xeon", agents, repeat, Some(60.0 * n.min(2.0) * off), &[]));
        }
    }
    trials
}

fn holds(metric: &str, range: MetricRange, trials: &[Trial]) -> Holds {
    held(metric, range, &[], trials).1
}

#[test]
fn a_function_of_curves_is_judged_by_its_interval() {
    let trials = curves(3, 0.01);
    let (knee, crossing) = ("knee(xeon, load.agents)", "crossing(pi, xeon, load.agents)");
    assert_eq!(holds(knee, at_most(4.0), &trials), Holds::Yes);
    assert_eq!(holds(knee, at_most(2.0), &trials), Holds::NotShown, "the edge lies inside the interval");
    assert_eq!(holds(knee, at_least(4.0), &trials), Holds::No);
    assert_eq!(holds(crossing, between(8.0, 16.0), &trials), Holds::Yes);
    assert_eq!(holds(crossing, at_most(12.0), &trials), Holds::NotShown);
    assert_eq!(holds(crossing, at_most(8.0), &trials), Holds::No);
    assert_eq!(holds("peak(pi)", between(230.0, 250.0), &trials), Holds::Yes);
    assert_eq!(holds("peak(pi)", at_least(300.0), &trials), Holds::No);
}

#[test]
fn a_single_repeat_is_judged_by_its_value() {
    let trials = curves(1, 0.0);
    let (value, holds) = held("knee(xeon, load.agents)", at_most(2.0), &[], &trials);
    assert!((value.unwrap() - 2.0).abs() < 1e-9 && holds == Holds::Yes, "{value:?}");
    let (value, holds) = held("peak(xeon)", at_least(121.0), &[], &trials);
    assert!((value.unwrap() - 120.0).abs() < 1e-9 && holds == Holds::No, "{value:?}");
}

#[test]
fn values_beyond_the_sweep_give_bounds() {
    let few: Vec<Trial> =
        curves(1, 0.0).into_iter().filter(|trial| trial.point["load.agents"].as_u64().unwrap() <= 8).collect();
    let knee = "knee(pi, load.agents)";
    assert_eq!(held(knee, at_most(4.0), &[], &few), (None, Holds::No), "it is beyond 8");
    assert_eq!(held(knee, at_least(8.0), &[], &few), (None, Holds::Yes));
    assert_eq!(held(knee, at_most(32.0), &[], &few), (None, Holds::NotShown));
    let overtaken = "crossing(pi, xeon, load.agents)";
    assert_eq!(held(overtaken, at_most(8.0), &[], &few), (None, Holds::NotShown), "8 is where the sweep ends");
    assert_eq!(held(overtaken, at_most(4.0), &[], &few), (None, Holds::No));
    let ahead = "crossing(xeon, pi, load.agents)";
    assert_eq!(held(ahead, at_most(2.0), &[], &few), (None, Holds::Yes), "it is ahead throughout");
    let claim = claim(&planned(knee, at_most(4.0)), &few, &[]);
    assert_eq!((claim.note.as_str(), claim.range), ("throughput still rises at 8", None));
}

#[test]
fn a_function_without_data_is_not_measured() {
    let trials = curves(1, 0.0);
    for metric in
        ["knee(pi, lab.hosts)", "knee(none, load.agents)", "crossing(pi, none, load.agents)", "peak(none)", "peak(pi"]
    {
        assert_eq!(held(metric, at_most(64.0), &[], &trials), (None, Holds::NotMeasured), "{metric}");
    }
}

#[test]
fn a_gate_on_a_function_needs_all_of_its_interval() {
    let trials = curves(3, 0.01);
    for (metric, bound, holds) in [
        ("peak(pi)", 230.0, true),
        // It may be less.
        ("peak(pi)", 240.0, false),
        ("knee(pi, lab.hosts)", 0.0, false),
    ] {
        assert_eq!(requirement(&gate_on(metric, at_least(bound)), &trials, &[]).holds, holds, "{metric} {bound}");
    }
}

#[test]
fn a_gate_needs_every_matching_trial() {
    let pi = [("variant", json!("pi"))];
    let held = gate(RATE, at_least(100.0), &pi);
    assert_eq!((held.asked.as_str(), held.value, held.holds), ("at least 100/s", Some(100.0), true));
    let violated = gate(RATE, at_least(110.0), &pi);
    assert_eq!((violated.value, violated.holds), (Some(100.0), false));
    let unmeasured = gate("faults.oops.outage.back_to_baseline_s", below(9.0), &pi);
    assert!(!unmeasured.holds, "what was not measured does not hold");
    assert!(!gate(RATE, below(1e9), &[("variant", json!("none"))]).holds);
}

#[test]
fn a_range_is_put_into_words() {
    let range = MetricRange { at_least: Some(5.0), at_most: Some(20.5), ..MetricRange::default() };
    assert_eq!(asked("latency_us.p99", &range), "at least 5 µs and at most 20.5 µs");
    assert_eq!(asked("outcomes.failed", &MetricRange { equals: Some(0.0), ..MetricRange::default() }), "equal to 0");
    assert_eq!(asked("failed_pct", &below(2.0)), "below 2 %");
}

mod ratio {
    use super::*;

    fn of(path: &str, trials: &[Trial]) -> FunctionValue {
        ratio(&path.into(), ["a", "b"], &MetricRange::default(), (&trials.iter().collect::<Vec<_>>(), trials))
    }

    /// Ratios of 2, 2.2 and 1.8181…: logarithms ln 2 and ln 2 ± ln 1.1, so the mean is ln 2 and the
    /// standard error ln 1.1 / √3.
    fn three() -> Vec<Trial> {
        let pairs = [(200.0, 100.0), (242.0, 110.0), (180.0, 99.0)];
        let mut trials = Vec::new();
        for ((a, b), repeat) in pairs.into_iter().zip(1..) {
            trials.extend([trial("a", 8, repeat, Some(a), &[]), trial("b", 8, repeat, Some(b), &[])]);
        }
        trials
    }

    #[test]
    fn three_pairs_have_students_interval_of_their_logarithms() {
        let found = of(RATE, &three());
        assert!((found.value.unwrap() - 2.0).abs() < 1e-9);
        // t of 2 degrees of freedom is 4.302653.
        let reach = (4.302_652_7 * 1.1_f64.ln() / 3_f64.sqrt()).exp();
        let [low, high] = found.range.unwrap();
        assert!((low - 2.0 / reach).abs() < 1e-6 && (high - 2.0 * reach).abs() < 1e-6, "{found:?}");
        assert_eq!((found.holds(&at_least(1.5)), found.holds(&at_least(1.9))), (Holds::Yes, Holds::NotShown));
        assert_eq!(found.holds(&at_least(3.0)), Holds::No);
    }

    /// Seven loads with two repeats each, whose ratios are off by up to 10 %. Alone, two pairs have
    /// a t of 12.7.
    fn swept(ratio: f64) -> Vec<Trial> {
        let mut trials = Vec::new();
        for (agents, off) in [1, 2, 4, 8, 16, 32, 64].into_iter().zip([0.04, -0.1, 0.07, 0.02, -0.06, 0.09, -0.05]) {
            for (repeat, off) in [(1, off), (2, -off)] {
                trials.push(trial("a", agents, repeat, Some(1_000.0 * ratio * (1.0 + off)), &[]));
                trials.push(trial("b", agents, repeat, Some(1_000.0), &[]));
            }
        }
        trials
    }

    #[test]
    fn two_repeats_at_each_of_seven_points_show_a_ratio() {
        let trials = swept(0.7);
        let alone: Vec<Trial> = trials.iter().filter(|trial| trial.point["load.agents"] == 2).cloned().collect();
        assert_eq!(of(RATE, &alone).holds(&below(1.0)), Holds::NotShown);
        let filter = BTreeMap::from([("load.agents".to_owned(), json!(2))]);
        let asked = plan::Claim { filter, ..planned(&format!("ratio({RATE}, a, b)"), below(1.0)) };
        let found = claim(&asked, &trials, &[]);
        assert_eq!(
            (found.holds, found.note.as_str()),
            (Holds::Yes, "error pooled over 7 points: 7 degrees of freedom")
        );
        assert!(found.range.unwrap()[1] < 0.9, "{found:?}");
        assert_eq!(of(RATE, &swept(1.0)).holds(&below(1.0)), Holds::NotShown);
    }

    #[test]
    fn a_point_with_one_pair_borrows_the_error_of_the_others() {
        let mut trials = swept(0.7);
        trials.retain(|trial| trial.point["load.agents"] != 2 || trial.repeat == 1);
        let filter = BTreeMap::from([("load.agents".to_owned(), json!(2))]);
        let asked = plan::Claim { filter, ..planned(&format!("ratio({RATE}, a, b)"), at_least(0.6)) };
        let found = claim(&asked, &trials, &[]);
        assert!(found.holds == Holds::NotShown && found.range.is_some(), "{found:?}");
    }

    #[test]
    fn one_pair_is_judged_by_its_value() {
        let found = of(RATE, &three()[..2]);
        assert_eq!((found.range, found.note.as_str()), (None, "one trial each: no interval"));
        assert_eq!((found.value, found.holds(&at_least(2.0))), (Some(2.0), Holds::Yes));
    }

    #[test]
    fn a_missing_figure_leaves_the_ratio_unshown() {
        let mut trials = three();
        trials[5].throughput.operations_per_s = None;
        let found = of(RATE, &trials);
        assert!(found.value.is_some());
        assert_eq!(found.holds(&at_least(0.0)), Holds::NotShown);
        trials.iter_mut().for_each(|trial| trial.throughput.operations_per_s = None);
        assert_eq!(of(RATE, &trials).holds(&at_least(0.0)), Holds::NotMeasured);
    }

    #[test]
    fn counts_that_can_be_0_have_no_interval() {
        let mut trials = three();
        trials.iter_mut().for_each(|trial| trial.outcomes.wrong = u64::from(trial.variant.as_deref() == Some("b")));
        let found = of("outcomes.wrong", &trials);
        assert_eq!((found.value, found.range), (Some(0.0), None));
        trials.iter_mut().for_each(|trial| trial.outcomes.wrong = u64::from(trial.variant.as_deref() == Some("a")));
        let found = of("outcomes.wrong", &trials);
        assert_eq!((found.value, found.note.as_str()), (None, "b is 0: no ratio"));
        assert_eq!(found.holds(&at_least(0.0)), Holds::NotMeasured);
    }
}

mod onset {
    use record::results::Outcomes;

    use super::*;

    const OVER: &str = "lab.port.distribution.rate";
    const WRONG: &str = "outcomes.wrong";

    /// Three repeats at each rate, with these wrong answers in each.
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

    fn found(trials: &[Trial]) -> FunctionValue {
        onset(&WRONG.into(), Some("dirty"), OVER, &trials.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_first_rate_with_a_wrong_answer_is_the_onset() {
        let trials =
            trials(&[("1gbit", [0, 0, 0]), ("100mbit", [0, 0, 0]), ("20mbit", [0, 3, 0]), ("5mbit", [7, 9, 8])]);
        let found = found(&trials);
        assert_eq!((found.value, found.note.as_str()), (Some(2e7), "at 20mbit in 1 of 3 trials, none at 100mbit"));
        assert_eq!((found.holds(&at_most(2e7)), found.holds(&at_most(5e6))), (Holds::Yes, Holds::No));
        assert_eq!(
            onset(&WRONG.into(), Some("sync"), OVER, &trials.iter().collect::<Vec<_>>()),
            FunctionValue::default()
        );
    }

    #[test]
    fn an_onset_not_reached_lies_beyond_the_list() {
        let none = trials(&[("100mbit", [0; 3]), ("5mbit", [0; 3])]);
        let found_none = found(&none);
        assert_eq!((found_none.value, found_none.note.as_str()), (None, "none up to 5mbit"));
        assert_eq!(found_none.holds(&at_most(5e6)), Holds::Yes, "if it begins, then below 5 Mbit/s");
        assert_eq!(found_none.holds(&at_most(1e6)), Holds::NotShown);
        let rising = trials(&[("1ms", [0; 3]), ("50ms", [0; 3])]);
        let range = MetricRange { below: Some(0.05), ..MetricRange::default() };
        assert_eq!(found(&rising).holds(&range), Holds::No, "a list that rises leaves what is beyond its last value");
    }

    #[test]
    fn an_onset_at_the_first_value_is_unknown() {
        let all = trials(&[("off", [1, 0, 2]), ("5mbit", [7, 9, 8])]);
        let found = found(&all);
        assert_eq!((found.value, found.note.as_str()), (None, "at off in 2 of 3 trials, the first value"));
        assert_eq!(found.holds(&at_most(5e6)), Holds::NotShown, "`off` is no number");
    }

    #[test]
    fn an_onset_after_an_unmeasured_value_is_unshown() {
        let mut all = trials(&[("100mbit", [0; 3]), ("20mbit", [0; 3]), ("5mbit", [1; 3])]);
        for trial in all.iter_mut().filter(|trial| trial.point[OVER] == "20mbit") {
            trial.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        }
        let found = found(&all);
        assert_eq!(
            (found.value, found.note.as_str()),
            (Some(5e6), "at 5mbit in 3 of 3 trials; 20mbit was not measured")
        );
        assert_eq!(found.holds(&at_most(5e6)), Holds::NotShown);
    }

    #[test]
    fn each_point_of_other_paths_has_its_own_onset() {
        let mut all = trials(&[("100mbit", [0; 3]), ("5mbit", [1; 3])]);
        let mut more = trials(&[("100mbit", [0, 0, 1]), ("5mbit", [9; 3])]);
        more.iter_mut().for_each(|trial| _ = trial.point.insert("load.agents".to_owned(), json!(64)));
        all.append(&mut more);
        let found = found(&all);
        assert_eq!((found.holds(&at_most(5e6)), found.holds(&at_most(1e8))), (Holds::NotShown, Holds::Yes));
        assert_eq!(found.value, Some((5e6 + 1e8) / 2.0));
    }
}

mod refusals {
    use record::results::{Operation, Quantiles};

    use super::*;
    use crate::synthetic;

    fn trial(count: u64, p99: Option<f64>) -> Trial {
        let latency_us = Some(Quantiles { count, p99, ..Quantiles::default() });
        let save = Operation { latency_us: latency_us.clone(), ..Operation::default() };
        Trial { latency_us, operations: [("save".to_owned(), save)].into(), ..Trial::default() }
    }

    #[test]
    fn a_missing_quantile_names_the_operations_it_needs() {
        let few = trial(298, None);
        assert_eq!(
            refusal(&few, &"latency_us.p99".into()).unwrap(),
            "`latency_us.p99` needs at least 299 operations (got 298)"
        );
        let of_one = refusal(&few, &"operations.save.latency_us.p999".into()).unwrap();
        assert!(of_one.contains("`operations.save.latency_us.p999`") && of_one.contains("2995"), "{of_one}");
        assert!(refusal(&few, &"ratio(latency_us.p99, a, b)".into()).is_some());
    }

    #[test]
    fn present_and_unmeasured_figures_are_not_refused() {
        assert_eq!(refusal(&trial(299, Some(1.0)), &"latency_us.p99".into()), None);
        assert_eq!(refusal(&trial(0, None), &"latency_us.max".into()), None);
        assert_eq!(refusal(&trial(298, None), &"throughput.operations_per_s".into()), None);
        assert_eq!(
            refusal(&Trial::default(), &"latency_us.p99".into()),
            None,
            "nothing succeeded: that is another matter"
        );
        assert_eq!(refusal(&trial(298, None), &"failed_pct".into()), None);
    }

    #[test]
    fn refused_metrics_are_listed_once_for_matching_trials() {
        let mut plan = synthetic::plan();
        let of_other = [("variant".to_owned(), json!("other"))].into();
        let any = MetricRange::default();
        plan.requirements = vec![
            gate_on("latency_us.p99", any.clone()),
            plan::Requirement { filter: of_other, ..gate_on("latency_us.p999", any.clone()) },
        ];
        plan.claims = vec![planned("latency_us.p99", any.clone())];
        let asked = asked_in_vain(&plan, &trial(10, None));
        assert_eq!(asked, ["`latency_us.p99` needs at least 299 operations (got 10)"]);
        // In a search, requirements apply to the safe load, and only limits apply to each trial.
        plan.find = Some(synthetic::find(vec![gate_on("operations.save.latency_us.p97.5", any)]));
        let asked = asked_in_vain(&plan, &trial(10, None));
        assert_eq!(asked, ["`operations.save.latency_us.p97.5` needs at least 119 operations (got 10)"]);
    }
}
