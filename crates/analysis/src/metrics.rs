//! Metric paths: finds the numbers of a trial that a path such as `operations.save.latency_us.p99`
//! names. This module must not know any field by name: the fields come from the format of the
//! results, so that paths and results cannot diverge.

use experiment::catalog::ANY_PERCENTILE;
use experiment::plan::MetricPath;
use record::results::{PERCENTILE, Trial};
use serde_json::Value;

/// Returns the values that a path names in a trial; a list on the path gives one value per element.
/// Empty if the path names nothing, or nothing that was measured.
#[must_use]
pub fn metric(trial: &Trial, path: &MetricPath) -> Vec<f64> {
    let mut values = Vec::new();
    if let Ok(trial) = serde_json::to_value(trial) {
        collect(&trial, &path.0, &mut values);
    }
    values
}

fn collect(value: &Value, steps: &[String], values: &mut Vec<f64>) {
    match (value, steps) {
        (Value::Number(number), []) => values.extend(number.as_f64()),
        (Value::Array(elements), []) => elements.iter().for_each(|element| collect(element, &[], values)),
        (Value::Array(elements), [first, rest @ ..]) => {
            let picked = elements.iter().filter(|element| element.get("name").is_some_and(|name| name == first));
            let picked: Vec<&Value> = picked.collect();
            let (picked, steps) = if picked.is_empty() { (elements.iter().collect(), steps) } else { (picked, rest) };
            picked.into_iter().for_each(|element| collect(element, steps, values));
        }
        // A name may contain dots; the longest match counts.
        (Value::Object(fields), _) => {
            let fits = (1..=steps.len()).rev().find_map(|count| Some((fields.get(&steps[..count].join("."))?, count)));
            if let Some((field, count)) = fits {
                collect(field, &steps[count..], values);
            }
        }
        _ => {}
    }
}

/// Returns every path that names a number in a trial. `*` is a placeholder, for example for the
/// name of an operation, and `p*` for any percentile. The name of a fault or a host may be left
/// out, so each of their figures has two paths.
#[must_use]
pub fn metric_paths() -> Vec<String> {
    let schema = schemars::schema_for!(Trial).to_value();
    let mut paths = Vec::new();
    walk(&schema, &schema, "", &mut paths);
    paths.sort();
    paths.dedup();
    paths
}

fn walk(schema: &Value, root: &Value, path: &str, paths: &mut Vec<String>) {
    // The numbers in such a field are details, and no figures of the trial.
    if schema.get("x-figures") == Some(&Value::Bool(false)) {
        return;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        if let Some(target) = root.pointer(reference.trim_start_matches('#')) {
            walk(target, root, path, paths);
        }
        return;
    }
    for choice in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        walk(choice, root, path, paths);
    }
    let types = match schema.get("type") {
        Some(Value::Array(any)) => any.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    if types.iter().any(|one| one == "number" || one == "integer") {
        paths.push(path.to_owned());
    }
    if let Some(items) = schema.get("items") {
        walk(items, root, path, paths);
        if is_named(items, root) {
            walk(items, root, &joined(path, "*"), paths);
        }
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(field, root, &joined(path, name), paths);
    }
    if schema.get("patternProperties").is_some_and(|named| named.get(PERCENTILE).is_some()) {
        paths.push(joined(path, ANY_PERCENTILE));
    }
    if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        walk(values, root, &joined(path, "*"), paths);
    }
}

/// Whether the elements of a list can be selected by name.
fn is_named(items: &Value, root: &Value) -> bool {
    let reference = items.get("$ref").and_then(Value::as_str).unwrap_or_default();
    let target = root.pointer(reference.trim_start_matches('#')).unwrap_or(items);
    target.pointer("/properties/name").is_some()
}

fn joined(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::results::{Fault, Host, Operation, Outage, Outcomes, Quantiles};
    use serde_json::json;

    use super::*;

    fn trial() -> Trial {
        let others = BTreeMap::from([("p99.95".to_owned(), Some(990.0)), ("p97".to_owned(), None)]);
        let quantiles = Quantiles { p50: Some(80.0), p99: Some(900.0), others, ..Quantiles::default() };
        let faults = [("oops", 1, 99), ("oops", 2, 50), ("kill", 1, 7)].map(|(name, number, failed)| Fault {
            name: name.into(),
            number,
            outage: Some(Outage { failed, back_to_baseline_s: (number == 1).then_some(0.5), ..Outage::default() }),
            ..Fault::default()
        });
        let save = Operation {
            latency_us: Some(quantiles.clone()),
            outcomes: Outcomes { wrong: 3, ..Outcomes::default() },
            ..Operation::default()
        };
        Trial {
            measured_s: Some([2.0, 10.0]),
            failed_pct: Some(0.5),
            latency_us: Some(quantiles),
            operations: BTreeMap::from([("save".to_owned(), save)]),
            attempt_results: BTreeMap::from([("connection closed".to_owned(), 7), ("status 503.1".to_owned(), 8)]),
            faults: faults.into_iter().chain([Fault::default()]).collect(),
            hosts: vec![Host { name: "n1".into(), cpu_pct: Some(90.0), ..Host::default() }],
            ..Trial::default()
        }
    }

    #[test]
    fn paths_resolve_to_values() {
        let table: [(&str, &[f64]); 21] = [
            ("latency_us.p99", &[900.0]),
            ("latency_us.p99.95", &[990.0]),
            ("operations.save.latency_us.p99.95", &[990.0]),
            ("latency_us.p97", &[]),
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
            assert_eq!(metric(&trial(), &path.into()), known, "{path}");
        }
    }

    #[test]
    fn the_metrics_of_the_documentation_exist() {
        let paths = metric_paths();
        for path in [
            "latency_us.p99",
            "latency_us.p95",
            "latency_us.p*",
            "operations.*.service_us.p*",
            "failed_pct",
            "timeout_pct",
            "wrong_pct",
            "groups.*.wrong_pct",
            "operations.*.outcomes.wrong",
            "operations.*.by_outcome.*.p99",
            "throughput.before_first_fault_per_s",
            "faults.outage.failed",
            "faults.*.outage.back_to_baseline_s",
            "faults.*.outage.memory_released_bytes",
            "faults.*.members.*.outage.total_s",
            "members.*.disturbances.outage.failed",
            "steps.failed",
            "steps.*.time_s",
            "steps.*.audits.*.failed",
            "hosts.load1_max",
            "hosts.*.load1_max",
            "attempt_results.*",
            "consistency.lost_writes",
            "generator.late_us_p99",
            "cost.joules_per_cycle",
            "metrics.*.max",
            "metrics.*.hosts.*.per_s",
        ] {
            assert!(paths.iter().any(|known| known == path), "{path} is not among {paths:#?}");
        }
        assert!(!paths.iter().any(|path| path.contains("label") || path.contains("verdict")), "{paths:#?}");
    }

    /// Sets a number at every path, and looks it up there.
    #[test]
    fn every_path_finds_the_number_that_it_names() {
        for path in metric_paths() {
            let path = path.replace(".p*", ".p97");
            let steps: Vec<&str> = path.split('.').collect();
            let mut trial = json!(Trial::default());
            put(&mut trial, &steps);
            let trial: Trial = serde_json::from_value(trial).unwrap_or_else(|error| panic!("{path}: {error}"));
            let asked = path.replace('*', "any");
            assert!(metric(&trial, &asked.as_str().into()).contains(&1.0), "{path}");
        }
    }

    fn put(value: &mut Value, steps: &[&str]) {
        let (Some(first), rest) = (steps.first(), steps.get(1..).unwrap_or_default()) else { return };
        let name = if *first == "*" { "any" } else { first };
        let lists = [
            "actions",
            "audits",
            "disturbances",
            "each",
            "faults",
            "hosts",
            "members",
            "other_processes",
            "programs",
            "replicas",
            "said",
            "steps",
            "target_processes",
        ];
        let list = lists.contains(first) && !rest.is_empty();
        let value = value.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        if list {
            let mut element = json!({ "name": "any" });
            put(&mut element, if rest.first() == Some(&"*") { &rest[1..] } else { rest });
            *value = json!([element]);
        } else if ["measured_s", "baseline_s", "wrong_by_part"].contains(first)
            || first.ends_with("_ci95")
            || first.ends_with("_ci90")
        {
            *value = json!([1, 1]);
        } else if rest.is_empty() {
            *value = json!(1);
        } else {
            if !value.is_object() {
                *value = json!({});
            }
            put(value, rest);
        }
    }
}
