//! Checks of metric paths: each names what the format has, and every number of the format has one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use record::results::{Fault, Host, Operation, Outage, Outcomes, Quantiles};
use serde_json::json;

use super::*;

fn trial() -> Trial {
    let quantiles = Quantiles { p50: Some(80.0), p99: Some(900.0), ..Quantiles::default() };
    let fault = |name: &str, number, failed| Fault {
        name: name.into(),
        number,
        outage: Some(Outage { failed, back_to_baseline_s: (number == 1).then_some(0.5), ..Outage::default() }),
        ..Fault::default()
    };
    let save = Operation {
        latency_us: Some(quantiles),
        outcomes: Outcomes { wrong: 3, ..Outcomes::default() },
        ..Operation::default()
    };
    Trial {
        measured_s: Some([2.0, 10.0]),
        failed_pct: Some(0.5),
        latency_us: Some(quantiles),
        operations: BTreeMap::from([("save".to_owned(), save)]),
        attempt_results: BTreeMap::from([("connection closed".to_owned(), 7), ("status 503.1".to_owned(), 8)]),
        faults: vec![fault("oops", 1, 99), fault("oops", 2, 50), fault("kill", 1, 7), Fault::default()],
        hosts: vec![Host { name: "n1".into(), cpu_pct: Some(90.0), ..Host::default() }],
        ..Trial::default()
    }
}

#[test]
fn paths_name_what_is_there() {
    let table: [(&str, &[f64]); 18] = [
        ("latency_us.p99", &[900.0]),
        ("latency_us.p999", &[]),
        ("failed_pct", &[0.5]),
        ("operations.save.latency_us.p50", &[80.0]),
        ("operations.save.outcomes.wrong", &[3.0]),
        ("operations.load.outcomes.wrong", &[]),
        ("faults.outage.failed", &[99.0, 50.0, 7.0]),
        ("faults.oops.outage.failed", &[99.0, 50.0]),
        ("faults.oops.outage.back_to_baseline_s", &[0.5]),
        ("faults.none.outage.failed", &[]),
        ("hosts.cpu_pct", &[90.0]),
        ("hosts.n1.cpu_pct", &[90.0]),
        ("attempt_results.connection closed", &[7.0]),
        ("attempt_results.status 503.1", &[8.0]),
        ("measured_s", &[2.0, 10.0]),
        ("throughput.operations_per_s", &[]),
        ("", &[]),
        ("verdict.is", &[]),
    ];
    for (path, known) in table {
        assert_eq!(metric(&trial(), path), known, "{path}");
    }
}

#[test]
fn the_metrics_of_the_documentation_exist() {
    let paths = metric_paths();
    for path in [
        "latency_us.p99",
        "failed_pct",
        "operations.*.outcomes.wrong",
        "operations.*.by_outcome.*.p99",
        "throughput.before_first_fault_per_s",
        "faults.outage.failed",
        "faults.*.outage.back_to_baseline_s",
        "faults.*.outage.memory_released_bytes",
        "hosts.load1_max",
        "hosts.*.load1_max",
        "attempt_results.*",
        "consistency.lost_writes",
        "generator.late_us_p99",
        "cost.joules_per_cycle",
    ] {
        assert!(paths.iter().any(|known| known == path), "{path} is not among {paths:#?}");
    }
    assert!(!paths.iter().any(|path| path.contains("label") || path.contains("verdict")), "{paths:#?}");
}

/// Puts a number wherever a path says there is one, and looks for it there.
#[test]
fn every_path_finds_the_number_that_it_names() {
    for path in metric_paths() {
        let steps: Vec<&str> = path.split('.').collect();
        let mut trial = json!(Trial::default());
        put(&mut trial, &steps);
        let trial: Trial = serde_json::from_value(trial).unwrap_or_else(|error| panic!("{path}: {error}"));
        let asked = path.replace('*', "any");
        assert!(metric(&trial, &asked).contains(&1.0), "{path}");
    }
}

fn put(value: &mut Value, steps: &[&str]) {
    let (Some(first), rest) = (steps.first(), steps.get(1..).unwrap_or_default()) else { return };
    let name = if *first == "*" { "any" } else { first };
    let lists = ["faults", "hosts", "disturbances", "other_processes", "replicas", "said", "target_processes"];
    let list = lists.contains(first);
    let value = value.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
    if list {
        let mut element = json!({ "name": "any" });
        put(&mut element, if rest.first() == Some(&"*") { &rest[1..] } else { rest });
        *value = json!([element]);
    } else if *first == "measured_s" || first.ends_with("_ci95") {
        *value = json!([1.0, 1.0]);
    } else if rest.is_empty() {
        *value = json!(1);
    } else {
        if !value.is_object() {
            *value = json!({});
        }
        put(value, rest);
    }
}
