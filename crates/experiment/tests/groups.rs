//! `[[load.group]]`: groups in the plan, in sweeps and searches, and in the output of `check`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{Load, Plan, Rate, Retry, StepOrder, WhenFailed};
use experiment::timeline;
use known::read;

const FILE: &str = r#"
[target]
use = "vsns"

[load]
time    = "1m"
timeout = "2s"
ramp    = "5s"
retry   = "wait"

[[load.group]]
name   = "writers"
agents = 8
think  = "10ms"

[[load.group.cycle]]
call = "save"
with = { space = "a", key = "{agent}-{seq}", value = "v" }
keep = { key = "request.key" }

[[load.group.cycle]]
call = "load"
with = { space = "a", key = "{key}" }

[[load.group]]
name        = "readers"
agents      = 4
rate        = 200
ramp        = "10s"
timeout     = "500ms"
retry       = "fail-fast"
when_failed = "next cycle"

[[load.group.mix]]
call   = "ping"
weight = 3

[[load.group.mix]]
call = "load_all"
with = { space = "a" }
"#;

fn plan(more: &str, sets: &[&str]) -> Plan {
    read(&format!("{FILE}{more}"), sets).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(plan: &Plan) -> &Load {
    plan.trials[0].load.as_ref().unwrap()
}

fn agents(load: &Load) -> (u32, Vec<u32>) {
    (load.agents, load.groups.iter().map(|group| group.agents).collect())
}

#[test]
fn copies_multiply_the_agents_of_every_group_and_can_be_swept() {
    let plan = plan("[sweep]\n\"load.copies\" = [1, 3]\n", &[]);
    let all: Vec<(u32, Vec<u32>)> = plan.trials.iter().map(|trial| agents(trial.load.as_ref().unwrap())).collect();
    assert_eq!(all, [(12, vec![8, 4]), (36, vec![24, 12])]);
    let load = plan.trials[1].load.as_ref().unwrap();
    assert!(load.copies == 3 && load.groups.iter().all(|group| group.copies == 3));
    assert!(serde_json::to_string(plan.trials[0].load.as_ref().unwrap()).is_ok_and(|json| !json.contains("copies")));
}

#[test]
fn groups_inherit_and_override_the_loads_settings() {
    let plan = plan("", &[]);
    let load = load(&plan);
    assert_eq!((agents(load), load.ramp_s, load.steps.len()), ((12, vec![8, 4]), 10.0, 0));
    let [writers, readers] = load.groups.as_slice() else { panic!("{load:?}") };
    assert_eq!((writers.name.as_deref(), writers.order, writers.steps.len()), (Some("writers"), StepOrder::Cycle, 2));
    assert_eq!((writers.think_s, writers.ramp_s, writers.timeout_s, writers.time_s), (0.01, 5.0, 2.0, 60.0));
    assert_eq!(writers.retry, Retry::Wait { wait_s: 0.05 });
    assert_eq!((readers.order, &readers.rate, readers.timeout_s), (StepOrder::Mix, &Some(Rate::Constant(200.0)), 0.5));
    assert_eq!((readers.retry, readers.when_failed, readers.ramp_s), (Retry::FailFast, WhenFailed::NextCycle, 10.0));
    let names: Vec<&str> = load.all_steps().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["save", "load", "ping", "load_all"]);
    // A plan survives writing and reading.
    let written = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
}

#[test]
fn sweeps_sets_and_variants_reach_one_group() {
    let swept = plan("[sweep]\n\"load.group.readers.agents\" = [1, 50]\n", &["load.group.writers.agents=3"]);
    let all: Vec<_> = swept.trials.iter().map(|trial| agents(trial.load.as_ref().unwrap())).collect();
    assert_eq!(all, [(4, vec![3, 1]), (53, vec![3, 50])]);
    let more = "[[variant]]\nname = \"calm\"\nload = { group = { writers = { think = \"1s\" } } }\n";
    assert_eq!(load(&plan(more, &[])).groups[0].think_s, 1.0);
    let set = plan("", &["load.group.readers.rate.poisson=7", "load.timeout=3s"]);
    let timeouts: Vec<f64> = load(&set).groups.iter().map(|group| group.timeout_s).collect();
    assert_eq!((&load(&set).groups[1].rate, timeouts), (&Some(Rate::Poisson { poisson: 7.0 }), vec![3.0, 0.5]));
}

#[test]
fn a_search_raises_one_group() {
    let find = |highest: &str| {
        let more = format!("[find]\nhighest = \"{highest}\"\nwhile = [{{ metric = \"failed_pct\", below = 1 }}]\n");
        let plan = plan(&more, &[]);
        let next = plan.next(&[]).unwrap();
        let load = next.load.unwrap();
        (next.point[highest].as_f64().unwrap(), agents(&load), load.groups[1].rate.clone())
    };
    let (first, agents, rate) = find("load.group.readers.rate");
    assert_eq!((first, agents, rate), (200.0, (12, vec![8, 4]), Some(Rate::Poisson { poisson: 200.0 })));
    let (first, agents, rate) = find("load.group.writers.agents");
    assert_eq!((first, agents, rate), (8.0, (12, vec![8, 4]), Some(Rate::Constant(200.0))));
}

#[test]
fn a_slow_lab_slows_groups_too() {
    let slow = plan("[lab]\nhosts = 1\nspeed = 0.5\n", &[]);
    let [writers, readers] = load(&slow).groups.as_slice() else { panic!() };
    assert_eq!((load(&slow).ramp_s, load(&slow).time_s), (20.0, 120.0));
    assert_eq!((writers.think_s, writers.ramp_s, writers.timeout_s), (0.02, 10.0, 4.0));
    assert_eq!((readers.ramp_s, &readers.rate), (20.0, &Some(Rate::Constant(100.0))));
}

#[test]
fn the_plan_shows_each_group() {
    insta::assert_snapshot!(timeline::print(&plan("[sweep]\n\"load.group.readers.agents\" = [1, 50]\n", &[])));
}
