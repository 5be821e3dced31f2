//! Checks of the course of figures over made-up runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::results::{Fault, Outage, Quantiles, Throughput, Verdict};

use super::*;

/// A run on this day, with a trial for each of these rates.
fn run(day: u32, kernel: &str, rates: &[f64]) -> Run {
    let trial = |(index, rate): (usize, &f64)| Trial {
        id: format!("{:03}", index + 1),
        throughput: Throughput { operations_per_s: Some(*rate), ..Throughput::default() },
        latency_us: Some(Quantiles { p50: Some(1e6 / rate), ..Quantiles::default() }),
        ..Trial::default()
    };
    Run {
        folder: format!("runs/2026-11-{day:02}T03-00-00-nightly"),
        start_unix_s: Some(1e9 + f64::from(day) * 86_400.0),
        results: Results {
            title: "Nightly".into(),
            trials: rates.iter().enumerate().map(trial).collect(),
            ..Results::default()
        },
        environment: Some(Environment { kernel: Some(kernel.into()), ..Environment::default() }),
    }
}

/// Twelve nights of about 1,000/s, and with another kernel from the ninth on 900/s; out of order.
fn nights() -> Vec<Run> {
    let mut runs: Vec<Run> = (1..=12)
        .map(|day| {
            let (kernel, rate) = if day < 9 { ("6.1.0-18", 1_000.0) } else { ("6.1.0-19", 900.0) };
            let wobble = f64::from(day * 7 % 5);
            run(day, kernel, &[rate + wobble, rate - 3.0, rate + 500.0])
        })
        .collect();
    runs.rotate_left(5);
    runs
}

#[test]
fn a_slower_kernel_is_found_with_its_night() {
    let course = course(nights(), &[]).unwrap();
    assert_eq!((course.title.as_str(), course.runs.len()), ("Nightly", 12));
    assert!(course.runs.is_sorted_by(|a, b| a.start_unix_s < b.start_unix_s));
    let metrics: Vec<&str> = course.series.iter().map(|series| series.metric.as_str()).collect();
    assert_eq!(metrics, ["throughput.operations_per_s", "latency_us.p50"], "what no run has is left out");
    let [change] = &course.series[0].changes[..] else { panic!("{:?}", course.series[0]) };
    assert_eq!(change.run, 8);
    assert!((change.before - 1_002.0).abs() < 2.0 && (change.after - 902.0).abs() < 3.0, "{change:?}");
    assert!((change.change_pct.unwrap() + 10.0).abs() < 0.5 && change.p < 0.05);
    let kernel = Changed { field: "kernel".into(), from: Some("6.1.0-18".into()), to: Some("6.1.0-19".into()) };
    assert_eq!(change.environment, std::slice::from_ref(&kernel));
    assert_eq!(course.runs[8].changed, [kernel]);
    assert!(course.runs.iter().enumerate().all(|(index, run)| index == 8 || run.changed.is_empty()));
    assert_eq!(course.series[1].changes.len(), 1, "latency tells the same");
}

#[test]
fn void_trials_are_left_out_and_runs_without_any_other_are_gaps() {
    let mut runs = nights();
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    for trial in &mut runs[8].results.trials {
        trial.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
    }
    runs[0].results.trials[0].verdict.is = Trust::Void;
    let course = course(runs, &[]).unwrap();
    let rates = &course.series[0];
    assert_eq!(rates.values[0], Some((997.0 + 1_500.0) / 2.0));
    assert_eq!(rates.values[8], None);
    assert_eq!((course.runs[0].void, course.runs[8].void, course.runs[8].trials), (1, 3, 3));
    assert_eq!(rates.changes.last().map(|change| change.run), Some(9), "the first that was usable");
    assert_eq!(rates.changes.last().unwrap().environment[0].field, "kernel", "changed in the run that was void");
}

#[test]
fn each_variant_and_point_has_a_series_and_faults_have_one_value() {
    let mut runs = vec![run(1, "6", &[10.0, 20.0]), run(2, "6", &[11.0, 21.0])];
    for run in &mut runs {
        run.results.trials[1].variant = Some("other".into());
        let fault = |back_s| Fault {
            name: "oops".into(),
            outage: Some(Outage { back_to_baseline_s: Some(back_s), ..Outage::default() }),
            ..Fault::default()
        };
        run.results.trials[1].faults = vec![fault(1.0), fault(2.0), fault(9.0)];
    }
    let course = course(runs, &["throughput.operations_per_s".into(), "faults.oops.outage.back_to_baseline_s".into()]);
    let series = course.unwrap().series;
    let found: Vec<_> = series.iter().map(|series| (series.variant.as_deref(), series.values.clone())).collect();
    let expected = [
        (None, vec![Some(10.0), Some(11.0)]),
        (Some("other"), vec![Some(20.0), Some(21.0)]),
        (Some("other"), vec![Some(2.0), Some(2.0)]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn different_experiments_are_listed_and_an_unknown_metric_is_named() {
    let mut runs = nights();
    runs[3].results.title = "Another".into();
    let message = course(runs.clone(), &[]).unwrap_err().to_string();
    assert!(message.contains("2 experiments") && message.contains("`Another`: runs/") && message.contains("`Nightly`"));
    let message = course(nights(), &["latency_us.p98".into()]).unwrap_err().to_string();
    assert!(message.contains("no usable trial has a figure `latency_us.p98`"), "{message}");
    let twice = [nights(), nights()].concat();
    assert_eq!(course(twice, &[]).unwrap().runs.len(), 12, "named twice, counted once");
}
