//! `load.agents` in stages: its plan, and mistakes in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{AgentStage, Load, Plan};
use experiment::timeline;
use known::read;

const UP_AND_DOWN: &str = "agents = [{ to = 50, over = \"1m\" }, { at = 50, for = \"3m\" }, { at = 20, for = \"1m\" }, { to = 0, over = \"30s\" }]";

fn file(load: &str, more: &str) -> String {
    format!("[target]\nuse = \"vsns\"\n[load]\ntime = \"6m\"\n{load}\n[[load.cycle]]\ncall = \"ping\"\n{more}")
}

fn plan(load: &str, more: &str, sets: &[&str]) -> Plan {
    read(&file(load, more), sets).unwrap_or_else(|problems| panic!("{problems}"))
}

fn load(load: &str, more: &str, sets: &[&str]) -> Load {
    plan(load, more, sets).trials[0].load.clone().unwrap()
}

fn stage(from: u32, to: u32, over_s: f64) -> AgentStage {
    AgentStage { from, to, over_s }
}

#[test]
fn agents_are_the_largest_number_of_the_stages() {
    let staged = load(UP_AND_DOWN, "", &[]);
    let stages = [stage(0, 50, 60.0), stage(50, 50, 180.0), stage(20, 20, 60.0), stage(20, 0, 30.0)];
    assert_eq!((staged.agents, staged.agent_stages.as_slice()), (50, &stages[..]));
    assert!(staged.changes_agents());
    // 25 × 60 s + 50 × 180 s + 20 × 60 s + 10 × 30 s, of 360 s.
    assert!((staged.mean_agents() - 12_000.0 / 360.0).abs() < 1e-9, "{}", staged.mean_agents());
    assert!((staged.joins_per_s() - 50.0 / 60.0).abs() < 1e-9);
    let jump = load("agents = [{ from = 30, to = 10, over = \"1m\" }]", "", &[]);
    assert_eq!((jump.agents, jump.agent_stages.as_slice()), (30, &[stage(30, 10, 60.0)][..]));
    assert!((jump.joins_per_s() - 30.0).abs() < 1e-9);
    let plain = load("agents = 7\nramp = \"2s\"", "", &[]);
    assert_eq!((plain.agents, plain.changes_agents(), plain.mean_agents(), plain.joins_per_s()), (7, false, 7.0, 3.5));
    assert!(!serde_json::to_string(&plain).unwrap().contains("agent_stages"));
}

#[test]
fn copies_sets_and_a_slow_lab_change_stages() {
    let copies = load(UP_AND_DOWN, "", &["load.copies=3"]);
    assert_eq!(
        (copies.agents, copies.agent_stages[0], copies.agent_stages[2]),
        (150, stage(0, 150, 60.0), stage(60, 60, 60.0))
    );
    let slow = load(UP_AND_DOWN, "[lab]\nhosts = 1\nspeed = 0.5\n", &[]);
    assert_eq!((slow.agents, slow.agent_stages[3]), (50, stage(20, 0, 60.0)));
    let set = load(UP_AND_DOWN, "", &["load.agents.1.at=70", "load.agents.0.over=30s"]);
    assert_eq!((set.agents, set.agent_stages[0].over_s, set.agent_stages[1].to), (70, 30.0, 70));
    assert_eq!(load(UP_AND_DOWN, "", &["load.agents=4"]).agent_stages, []);
    let swept = plan("agents = 3", "[sweep]\n\"load.agents\" = [10, 20]\n", &[]);
    assert_eq!(swept.trials.len(), 2);
}

#[test]
fn a_group_has_stages_of_its_own() {
    let file = "[target]\nuse = \"vsns\"\n[load]\ntime = \"1m\"\n[[load.group]]\nname = \"a\"\nagents = 5\n[[load.group.cycle]]\n\
                call = \"ping\"\n[[load.group]]\nname = \"b\"\nagents = [{ to = 8, over = \"10s\" }]\n[[load.group.cycle]]\n\
                call = \"load\"\nwith = { space = \"s\", key = \"k\" }\n";
    let plan = read(file, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let load = plan.trials[0].load.as_ref().unwrap();
    assert_eq!((load.agents, load.groups[1].agents, load.groups[0].agent_stages.len()), (13, 8, 0));
    assert!(load.changes_agents());
    let shown = timeline::print(&plan);
    assert!(shown.contains("up to 13 agents") && shown.contains("0 to 8 agents in 10s"), "{shown}");
}

#[test]
fn the_plan_shows_the_stages() {
    let shown = timeline::print(&plan(UP_AND_DOWN, "", &[]));
    let words = "0 to 50 agents in 1m, then 50 agents for 3m, then 20 agents for 1m, then 20 to 0 agents in 30s";
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(words), "{shown}");
}

#[test]
fn mistakes_in_stages_are_reported_with_their_place() {
    let find = "[find]\nhighest = \"load.agents\"\nwhile = [{ metric = \"latency_us.p99\", below = \"50ms\" }]\n";
    let table = [
        ("agents = []", "", "`agents` has no stage"),
        ("agents = [{ to = 5 }]", "", "this stage needs `over`"),
        ("agents = [{ to = 5, for = \"1s\" }]", "", "a stage either goes to a number of agents or stays at one"),
        ("agents = [{ at = 0, for = \"1s\" }]", "", "no agent ever starts"),
        ("agents = [{ to = 1.5, over = \"1s\" }]", "", "a whole number"),
        ("agents = [{ to = -1, over = \"1s\" }]", "", "load.agents"),
        ("agents = [{ target = 5, over = \"1s\" }]", "", "it is called `to` here"),
        ("agents = [{ to = 5, over = \"1h\" }]", "", "the stages are longer than the load"),
        ("agents = [{ to = 5, over = \"1s\" }]\nramp = \"1s\"", "", "`ramp` and stages of `agents` exclude each other"),
        ("agents = [{ to = 5, over = \"1s\" }]\nrate = 5", "", "rate = { sessions = [{ to = 40"),
        ("agents = [{ to = 5, over = \"1s\" }]\ncount = 5", "", "`count` and stages of `agents` exclude each other"),
        ("agents = [{ to = 5, over = \"1s\" }]\niterations = 5", "", "`iterations` and stages of `agents` exclude"),
        ("agents = [{ to = 5, over = \"1s\" }]", find, "a search raises a plain number of agents"),
        ("stages = [{ to = 5, over = \"1s\" }]", "", "it is called `agents` here"),
        ("agents = \"5\"", "", "or stages in a closed loop"),
    ];
    for (load, more, expected) in table {
        let told = read(&file(load, more), &[]).unwrap_err().to_string();
        assert!(told.contains(expected), "{load}: {told}");
    }
}
