//! Checks of surroundings: every field that differs is named, and nothing that differs anyway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
