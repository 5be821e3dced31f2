//! In what two sides of a comparison differ before anything was measured: machine, versions, and what was played. It must not say
//! which of it matters; a reader of the comparison has to see all of it first.

use std::collections::{BTreeMap, BTreeSet};

use experiment::plan::{self, Plan};
use record::compared::Surrounding;
use record::environment::Environment;
use serde_json::Value;

/// Stands where a field is missing or was not found out.
const UNKNOWN: &str = "unknown";

/// Fields that differ from run to run on any machine, by the last step of their path.
const EVER_CHANGING: [&str; 8] =
    ["free_bytes", "available_bytes", "uptime_s", "load1", "load5", "load15", "boot_id", "temperature_c"];

/// What tells trials of one experiment apart by design, or hangs on that.
const OF_THE_TRIAL: [&str; 5] = ["id", "repeat", "variant", "point", "seed"];

/// What a difference is of: what was played.
pub(crate) const PLAN: &str = "plan";

type Fields = BTreeMap<String, BTreeSet<String>>;

/// Whether this field of an environment differs from run to run on any machine.
pub(crate) fn is_ever_changing(path: &str) -> bool {
    EVER_CHANGING.contains(&path.rsplit('.').next().unwrap_or(path))
}

/// Fields of the machine that differ, each side being one or several runs; a run that wrote nothing down knows nothing.
pub(crate) fn environments(a: &[Option<Environment>], b: &[Option<Environment>]) -> Vec<Surrounding> {
    let of = |runs: &[Option<Environment>]| {
        let mut fields = Fields::new();
        for run in runs.iter().flatten() {
            collect(&serde_json::to_value(run).unwrap_or_default(), "", &mut fields);
        }
        fields.retain(|path, _| !is_ever_changing(path));
        fields
    };
    differing("environment", &of(a), &of(b))
}

/// Fields of what was played that differ: of trials of the same variant and point, each path once.
pub(crate) fn plans(a: &[Plan], b: &[Plan]) -> Vec<Surrounding> {
    let (of_a, of_b) = (by_point(a), by_point(b));
    let mut found: Vec<Surrounding> = Vec::new();
    for (point, fields) in &of_a {
        let Some(others) = of_b.get(point) else { continue };
        for one in differing(PLAN, fields, others) {
            if !found.iter().any(|known| known.field == one.field) {
                found.push(one);
            }
        }
    }
    found
}

fn by_point(plans: &[Plan]) -> BTreeMap<String, Fields> {
    let mut points: BTreeMap<String, Fields> = BTreeMap::new();
    for trial in plans.iter().flat_map(|plan| &plan.trials) {
        collect(&stripped(trial), "", points.entry(point(trial)).or_default());
    }
    points
}

fn point(trial: &plan::Trial) -> String {
    serde_json::to_string(&(&trial.variant, &trial.point)).unwrap_or_default()
}

fn stripped(trial: &plan::Trial) -> Value {
    let mut value = serde_json::to_value(trial).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        OF_THE_TRIAL.iter().for_each(|name| {
            fields.remove(*name);
        });
    }
    // A fault's seed follows from the trial's.
    for fault in value.get_mut("faults").and_then(Value::as_array_mut).into_iter().flatten() {
        fault.as_object_mut().and_then(|fields| fields.remove("seed"));
    }
    value
}

/// Every path with what is written there; an array of tables is entered by the name of each.
fn collect(value: &Value, path: &str, fields: &mut Fields) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| collect(value, &below(key), fields)),
        Value::Array(elements) if elements.iter().any(Value::is_object) => {
            for (index, element) in elements.iter().enumerate() {
                let name = element.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
                collect(element, &below(&name), fields);
            }
        }
        Value::Null => {}
        Value::String(text) => insert(fields, path, text.clone()),
        other => insert(fields, path, other.to_string()),
    }
}

fn insert(fields: &mut Fields, path: &str, text: String) {
    fields.entry(path.to_owned()).or_default().insert(text);
}

fn differing(of: &str, a: &Fields, b: &Fields) -> Vec<Surrounding> {
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let said = |fields: &Fields, path: &String| {
        let texts = fields.get(path).map(|values| values.iter().cloned().collect::<Vec<_>>().join(", "));
        texts.unwrap_or_else(|| UNKNOWN.to_owned())
    };
    paths
        .into_iter()
        .filter(|path| a.get(*path) != b.get(*path))
        .map(|path| Surrounding {
            side: String::new(),
            of: of.to_owned(),
            field: path.clone(),
            a: said(a, path),
            b: said(b, path),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use experiment::plan::{TargetKind, Trial};
    use record::environment::{Cpu, Disk};
    use serde_json::json;

    use super::*;
    use crate::made_up;

    fn environment(kernel: &str, turbo: Option<bool>, free_bytes: u64) -> Option<Environment> {
        Some(Environment {
            kernel: Some(kernel.to_owned()),
            cpu: Cpu { turbo, ..Cpu::default() },
            disk: Disk { free_bytes: Some(free_bytes), ..Disk::default() },
            ..Environment::default()
        })
    }

    fn said(found: &[Surrounding]) -> Vec<(&str, &str, &str)> {
        found.iter().map(|one| (one.field.as_str(), one.a.as_str(), one.b.as_str())).collect()
    }

    #[test]
    fn machines_that_are_the_same_differ_in_nothing() {
        let one = [environment("6.1.0", Some(true), 1)];
        assert_eq!(environments(&one, &[environment("6.1.0", Some(true), 2)]), Vec::new());
    }

    #[test]
    fn each_field_that_differs_is_named() {
        let a = [environment("6.1.0", Some(true), 1), environment("6.2.0", Some(true), 1)];
        let found = environments(&a, &[environment("6.1.0", None, 1)]);
        assert_eq!(said(&found), [("cpu.turbo", "true", "unknown"), ("kernel", "6.1.0, 6.2.0", "6.1.0")]);
        assert!(environments(&a, &[None]).iter().any(|one| one.field == "kernel" && one.b == "unknown"));
    }

    fn plan(agents: u32, state: &str, seed: u64) -> Plan {
        let load = made_up::load(agents, 10.0);
        let with = BTreeMap::from([("state".to_owned(), state.to_owned())]);
        let mut fault = made_up::fault("oops", 2.0);
        fault.seed = seed;
        let trial = |repeat| Trial {
            id: format!("{repeat:03}"),
            repeat,
            seed: seed + u64::from(repeat),
            target: plan::Target {
                kind: TargetKind::Folder { name: "vsns".into(), with: with.clone() },
                protocol: "vsns".into(),
                tls: Default::default(),
            },
            faults: vec![fault.clone()],
            ..made_up::trial(load.clone())
        };
        Plan {
            format: 1,
            title: "t".into(),
            asks: "a".into(),
            variants: Vec::new(),
            swept: Vec::new(),
            trials: (1..=2).map(trial).collect(),
            requirements: Vec::new(),
            claims: Vec::new(),
            find: None,
        }
    }

    #[test]
    fn what_was_played_is_compared_too() {
        assert_eq!(plans(&[plan(8, "ets", 1)], &[plan(8, "ets", 7)]), Vec::new());
        let found = plans(&[plan(8, "ets", 1)], &[plan(16, "mnesia", 1)]);
        assert_eq!(said(&found), [("load.agents", "8", "16"), ("target.with.state", "ets", "mnesia")]);
    }

    #[test]
    fn only_trials_of_one_point_are_held_against_each_other() {
        let at = |agents: u32| {
            let mut plan = plan(agents, "ets", 1);
            plan.trials.iter_mut().for_each(|trial| {
                trial.point.insert("load.agents".into(), json!(agents));
            });
            plan
        };
        assert_eq!(plans(&[at(8)], &[at(16)]), Vec::new());
        assert_eq!(plans(&[at(8), at(16)], &[at(16)]), Vec::new());
    }
}
