//! Trials made up by hand: what each says to its search, and what all of them come to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::results::{Fault, Outcomes, Quantiles};
use serde_json::json;

use super::*;
use crate::made_up;

fn limit(metric: &str, below: f64) -> Requirement {
    Requirement {
        metric: metric.to_owned(),
        range: Range { below: Some(below), ..Range::default() },
        filter: BTreeMap::new(),
    }
}

fn find() -> Find {
    let template = |condition: &str| plan::Trial {
        surviving: Some(condition.to_owned()),
        load: Some(plan::Load { rate: Some(plan::Rate::Constant(1000.0)), ..made_up::load(10, 10.0) }),
        lab: plan::Lab { speed: 1.0, ..plan::Lab::default() },
        ..made_up::trial(made_up::load(10, 10.0))
    };
    Find {
        highest: "load.rate".to_owned(),
        surviving: vec!["nothing lost".to_owned(), "one member down".to_owned()],
        templates: vec![template("nothing lost"), template("one member down")],
        ..made_up::find(vec![limit("latency_us.p99", 50_000.0), limit("failed_pct", 0.1)])
    }
}

/// A trial at 1,000 operations/s with this p99.
fn trial(p99_us: Option<f64>) -> Trial {
    Trial {
        id: "001".to_owned(),
        point: BTreeMap::from([("load.rate".to_owned(), json!(1000))]),
        surviving: Some("nothing lost".to_owned()),
        ended: Some(Ending::Done),
        outcomes: Outcomes { ok: 10_000, ..Outcomes::default() },
        failed_pct: Some(0.0),
        latency_us: Some(Quantiles { p50: Some(900.0), p99: p99_us, ..Quantiles::default() }),
        ..Trial::default()
    }
}

fn void(rule: &'static str) -> Finding {
    Finding { rule, trust: Trust::Void, reason: format!("because of {rule}") }
}

fn says(trial: &Trial, findings: &[Finding]) -> (Option<Said>, Vec<String>) {
    let step = step(&find(), trial, findings);
    (step.finished.map(|finished| finished.said), step.step.broke)
}

#[test]
fn limits_hold_or_break_with_their_figures() {
    let (said, broke) = says(&trial(Some(25_000.0)), &[]);
    assert_eq!((said, broke), (Some(Said::Held(Some(2_f64.ln()))), Vec::new()));
    let (said, broke) = says(&trial(Some(71_000.4)), &[]);
    assert!(matches!(said, Some(Said::Broke(Some(margin))) if (margin - 1.42_f64.ln()).abs() < 1e-4), "{said:?}");
    assert_eq!(broke, ["latency_us.p99 = 71,000, asked below 50,000"]);
}

#[test]
fn a_void_trial_says_nothing_and_whether_it_was_the_generator() {
    let fast = trial(Some(71_000.0));
    let (said, broke) = says(&fast, &[void("strangers")]);
    assert_eq!(said, Some(Said::Nothing(Silence::Void("because of strangers".into()))));
    assert_eq!(broke, ["because of strangers"]);
    let (said, _) = says(&fast, &[void("steal"), void("generator_cpu")]);
    assert_eq!(said, Some(Said::Nothing(Silence::Generator("because of generator_cpu".into()))));
    let suspect = Finding { trust: Trust::Suspect, ..void("generator_cpu") };
    assert!(matches!(says(&fast, &[suspect]).0, Some(Said::Broke(_))), "a suspect one counts");
    let accepting = Find { accepts_void: true, ..find() };
    assert_eq!(step(&accepting, &fast, &[void("steal")]).step.held, Some(false));
    let cut = Trial { ended: None, ..trial(Some(1.0)) };
    assert_eq!(says(&cut, &[]).0, None, "it is played again");
}

#[test]
fn what_was_not_measured_neither_holds_nor_breaks() {
    let (said, broke) = says(&trial(None), &[]);
    assert!(
        matches!(&said, Some(Said::Nothing(Silence::Unmeasured(why))) if why.contains("299 operations")),
        "{said:?}"
    );
    assert_eq!(broke.len(), 1);
    let failing = Trial { failed_pct: Some(2.0), ..trial(None) };
    assert!(matches!(says(&failing, &[]).0, Some(Said::Broke(_))), "one broken limit is enough");
    let dead = Trial { outcomes: Outcomes { ok: 3, timeout: 9_997, ..Outcomes::default() }, ..trial(None) };
    assert!(matches!(says(&dead, &[]).0, Some(Said::Broke(_))), "a target that answers nothing is no short trial");
}

#[test]
fn a_service_that_never_came_back_breaks_a_limit_on_when_it_is_back() {
    let felt = |back_to_baseline_s| Fault {
        name: "oops".into(),
        number: 1,
        outage: Some(Outage { baseline_per_s: Some(900.0), back_to_baseline_s, ..Outage::default() }),
        ..Fault::default()
    };
    let limit = limit("faults.outage.back_to_baseline_s", 2.0);
    let judge = |faults| judge(&limit, &Trial { faults, ..trial(Some(1.0)) }).holds;
    assert_eq!(judge(vec![felt(Some(0.5)), felt(None)]), Some(false));
    assert_eq!(judge(vec![felt(Some(0.5)), felt(Some(1.9))]), Some(true));
    assert_eq!(judge(vec![felt(Some(0.5)), felt(Some(2.5))]), Some(false));
    assert_eq!(judge(Vec::new()), None);
}

/// Plays both searches on a target with these edges.
fn played(edges: [f64; 2], p99_us: impl Fn(f64, f64) -> f64) -> (Find, Vec<Step>) {
    played_by(find(), |trial, rate| {
        let healthy = trial.surviving.as_deref() == Some("nothing lost");
        p99_us(rate, if healthy { edges[0] } else { edges[1] })
    })
}

/// Plays a search to its end.
fn played_by(find: Find, p99_us: impl Fn(&plan::Trial, f64) -> f64) -> (Find, Vec<Step>) {
    let mut plan: Plan = serde_json::from_value(json!({
        "format": 1, "title": "", "asks": "", "variants": [], "swept": [], "trials": [],
        "requirements": [], "claims": [], "find": null
    }))
    .unwrap();
    plan.find = Some(find.clone());
    let (mut steps, mut finished) = (Vec::new(), Vec::new());
    while let Some(next) = plan.next(&finished) {
        let value = next.point[&find.highest].as_f64().unwrap();
        let made = Trial {
            id: next.id.clone(),
            variant: next.variant.clone(),
            point: next.point.clone(),
            surviving: next.surviving.clone(),
            ..trial(Some(p99_us(&next, value)))
        };
        let step = step(&find, &made, &[]);
        finished.extend(step.finished.clone());
        steps.push(step);
    }
    (find, steps)
}

#[test]
fn each_condition_has_its_line_and_the_lowest_is_the_answer() {
    let (find, steps) = played([12_030.0, 8_105.0], |rate, edge| 50_000.0 * (rate / edge).powi(4));
    let lines = safe_loads(&find, &steps);
    for (line, edge) in lines.iter().zip([12_030.0, 8_105.0]) {
        let [low, high] = line.ci95.map(Option::unwrap);
        assert!(low <= edge && edge <= high && line.complete, "{line:?}");
        assert_eq!((line.limited_by.as_str(), line.over.as_str()), ("latency_us.p99", "load.rate"));
        assert!(line.steps.iter().all(|step| step.held == Some(step.value <= edge)));
    }
    assert_eq!(lines.iter().map(|line| line.steps.len()).sum::<usize>(), steps.len());
    assert_eq!(lowest(&lines).unwrap().surviving, "one member down");
    assert_eq!(used(&find, &steps).len(), steps.len());
}

#[test]
fn each_variant_has_its_line_under_each_condition_also_where_it_holds_nowhere() {
    let mut find = find();
    find.highest = "load.agents".to_owned();
    let of = |variant: &str| -> Vec<plan::Trial> {
        let with = |template: &plan::Trial| plan::Trial {
            variant: Some(variant.to_owned()),
            load: Some(plan::Load { rate: None, ..made_up::load(16, 10.0) }),
            ..template.clone()
        };
        find.templates.iter().map(with).collect()
    };
    find.templates = ["sync", "dirty"].into_iter().flat_map(of).collect();
    // The dirty variant breaks with a single agent once a member is down.
    let edge = |trial: &plan::Trial| match (trial.variant.as_deref(), trial.surviving.as_deref()) {
        (Some("dirty"), Some("one member down")) => 0.5,
        (Some("dirty"), _) => 100.5,
        _ => 40.5,
    };
    let (find, steps) = played_by(find, |trial, agents| 50_000.0 * (agents / edge(trial)).powi(4));
    let lines = safe_loads(&find, &steps);
    let named: Vec<(&str, &str)> =
        lines.iter().map(|line| (line.variant.as_deref().unwrap(), line.surviving.as_str())).collect();
    let (healthy, down) = ("nothing lost", "one member down");
    assert_eq!(named, [("sync", healthy), ("sync", down), ("dirty", healthy), ("dirty", down)]);
    for (line, edge) in lines.iter().zip([40.5, 40.5, 100.5]) {
        let [low, high] = line.ci95.map(Option::unwrap);
        assert!(low <= edge && edge <= high, "{line:?}");
    }
    let nowhere = &lines[3];
    assert_eq!((nowhere.value, nowhere.ci95, nowhere.complete), (None, [None, Some(1.0)], true));
    assert_eq!(nowhere.limited_by, "latency_us.p99");
}

#[test]
fn void_trials_that_were_played_again_are_not_used() {
    let mut again = trial(Some(1.0));
    again.id = "002".to_owned();
    let steps = [step(&find(), &trial(Some(1.0)), &[void("steal")]), step(&find(), &again, &[])];
    assert_eq!(used(&find(), &steps), ["002"]);
    assert_eq!(used(&find(), &steps[..1]), ["001"], "where there is nothing else, they judge the run");
}

#[test]
fn what_kept_a_search_from_an_edge_is_said() {
    let unfinished = safe_loads(&find(), &[step(&find(), &trial(Some(1.0)), &[])]);
    assert_eq!((unfinished[0].value, unfinished[0].ci95[1], unfinished[0].complete), (Some(1000.0), None, false));
    assert_eq!(unfinished[0].limited_by, "the search: it was not finished");
    let three: Vec<Step> = (0..3).map(|_| step(&find(), &trial(Some(1.0)), &[void("steal")])).collect();
    let silent = &safe_loads(&find(), &three)[0];
    assert_eq!((silent.value, silent.limited_by.as_str()), (None, "the search: because of steal"));
}
