//! The golden run's experiment and plan. They must not change: the folder is committed.

use std::collections::BTreeMap;

use experiment::plan::{
    Claim, Fault, Load, MetricRange, Plan, Prepare, Requirement, Step, Target, TargetKind, Trial, When,
};

use crate::simulation::{AGENTS, CRASH_S, EVERY, PREPARED, RAMP_S, TIME_S};

/// Text of `experiment.toml`.
pub const EXPERIMENT: &str = r#"# How many calls fail when the name server crashes, and which names are lost?

title  = "A name server crashes"
asks   = "How many calls fail, for how long, and are any names lost?"
repeat = 2

[target]
use  = "vsns"
with = { state = "mnesia", coupling = "calls" }

[[prepare]]
call  = "save"
count = 60
with  = { space = "seed", key = "seed-{seq}", value = "v-{seq}" }
audit = true

[load]
agents = 200
ramp   = "1s"
time   = "10s"

[[load.cycle]]
call = "save"
with = { space = "agent-{agent}", key = "name-{seq}", value = "{bytes:100}" }
keep = { saved = "request.value" }

[[load.cycle]]
call   = "load"
with   = { space = "agent-{agent}", key = "name-{seq}" }
expect = { value = "{saved}" }

[[load.cycle]]
call = "remove"
with = { space = "agent-{agent}", key = "name-{seq}" }

[[load.cycle]]
name  = "save_for_good"
call  = "save"
every = 40
with  = { space = "kept-{agent}", key = "kept-{seq}", value = "v-{seq}" }
audit = true

[[fault]]
name = "oops"
at   = "5s"
kind = "call"
with = { call = "oops" }

[[require]]
metric = "faults.oops.outage.back_to_baseline_s"
below  = 2.0

[[claim]]
says   = "99 calls fail with their connection"
source = "vsns-complex-and-crash, crash"
metric = "faults.oops.outage.failed"
holds  = { at_least = 50, at_most = 200 }

[[claim]]
says   = "the service carries 13,000 calls/s before the crash"
source = "vsns-complex-and-crash, crash"
metric = "throughput.before_first_fault_per_s"
holds  = { at_least = 13000 }
"#;

/// Returns the plan of the run.
pub fn plan() -> Plan {
    let range = |at_least, at_most| MetricRange { at_least, at_most, ..MetricRange::default() };
    let claim = |says: &str, metric: &str, range| Claim {
        says: says.into(),
        source: "vsns-complex-and-crash, crash".into(),
        metric: metric.into(),
        range,
        filter: BTreeMap::new(),
        on_void: false,
    };
    let (failed, before) = ("faults.oops.outage.failed", "throughput.before_first_fault_per_s");
    Plan {
        format: 1,
        title: "A name server crashes".into(),
        asks: "How many calls fail, for how long, and are any names lost?".into(),
        variants: Vec::new(),
        swept: Vec::new(),
        stop: None,
        trials: (1..=2).map(trial).collect(),
        requirements: vec![Requirement {
            metric: "faults.oops.outage.back_to_baseline_s".into(),
            range: MetricRange { below: Some(2.0), ..MetricRange::default() },
            filter: BTreeMap::new(),
        }],
        claims: vec![
            claim("99 calls fail with their connection", failed, range(Some(50.0), Some(200.0))),
            claim("the service carries 13,000 calls/s before the crash", before, range(Some(13_000.0), None)),
        ],
        find: None,
        demand: None,
    }
}

/// Returns texts by name.
pub fn texts<T: for<'a> From<&'a str>>(pairs: &[(&str, &str)]) -> BTreeMap<String, T> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
}

fn trial(repeat: u32) -> Trial {
    let seed_key = [("space", "seed"), ("key", "seed-{seq}"), ("value", "v-{seq}")];
    Trial {
        id: format!("{repeat:03}"),
        repeat,
        seed: u64::from(repeat),
        target: Target {
            kind: TargetKind::Folder {
                name: "vsns".into(),
                with: texts(&[("state", "mnesia"), ("coupling", "calls"), ("hub", "off")]),
            },
            protocol: "vsns".into(),
            ..Default::default()
        },
        prepare: vec![Prepare { step: Step { audit: true, ..step("save", "save", &seed_key, 1) }, count: PREPARED }],
        load: Some(load()),
        faults: vec![Fault {
            name: "oops".into(),
            kind: "call".into(),
            on: "one".into(),
            with: BTreeMap::from([("call".to_owned(), "oops".into())]),
            when: When::At(CRASH_S),
            for_s: None,
            seed: 1,
            label: "call oops".into(),
            colour: "#c0392b".into(),
            standing: false,
            action: None,
            repairs: false,
        }],
        ..Trial::default()
    }
}

fn step(call: &str, name: &str, with: &[(&str, &str)], every: u32) -> Step {
    Step { call: call.into(), name: name.into(), with: texts(with), weight: 1, every, ..Step::default() }
}

fn load() -> Load {
    let key = [("space", "agent-{agent}"), ("key", "name-{seq}")];
    let saved = [key[0], key[1], ("value", "{bytes:100}")];
    let kept = [("space", "kept-{agent}"), ("key", "kept-{seq}"), ("value", "v-{seq}")];
    Load {
        agents: AGENTS,
        ramp_s: RAMP_S,
        time_s: TIME_S,
        threads: Some(1),
        steps: vec![
            Step { keep: texts(&[("saved", "request.value")]), ..step("save", "save", &saved, 1) },
            Step { expect: texts(&[("value", "{saved}")]), ..step("load", "load", &key, 1) },
            step("remove", "remove", &key, 1),
            Step { audit: true, ..step("save", "save_for_good", &kept, EVERY) },
        ],
        ..Load::default()
    }
}
