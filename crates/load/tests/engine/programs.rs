//! Programs under the engine: what becomes of each kind of end, and that a load leaves none behind.

use std::time::Duration;

use experiment::plan::Step;
use load::LoadOrder;
use load::client::{CallError, Client};
use record::events::Outcome;

use crate::setting::{Came, load, orders, pairs, play, step};

fn programs(time_s: f64, timeout_s: f64, steps: Vec<Step>) -> LoadOrder {
    let mut load = load(2, time_s, steps);
    load.timeout_s = timeout_s;
    LoadOrder { protocol: "command".into(), ..orders("", load) }
}

fn run(command: &str) -> Step {
    step("run", &[&format!("command={command}")])
}

fn ok(came: &Came) -> bool {
    came.summary.ok > 0 && came.summary.failed + came.summary.wrong + came.summary.timeout == 0
}

#[test]
fn words_inputs_and_outputs() {
    let echo = Step {
        expect: pairs(&["stdout=agent {agent}, 'cycle' {seq}", "status=0", "stderr=", "cut=0"]),
        keep: pairs(&["said=answer.stdout"]),
        ..run("printf '%s, %s\\n' 'agent {agent}' \"'cycle' {seq}\"")
    };
    let cat = Step { expect: pairs(&["stdout={said}"]), ..step("run", &["command=cat", "stdin={said}\n\n"]) };
    assert!(ok(&play(programs(0.3, 30.0, vec![echo, cat]))));
}

#[test]
fn an_end_that_is_expected_is_ok() {
    let expected = Step { expect: pairs(&["status=3", "stderr=no"]), ..run("sh -c 'echo no >&2; exit 3'") };
    assert!(ok(&play(programs(0.2, 30.0, vec![expected]))));
}

#[test]
fn ends_of_each_kind_are_told_apart() {
    for (command, result) in [
        ("false", "answer: exit"),
        ("sh -c 'kill -KILL $$'", "answer: signal"),
        ("no-such-program-anywhere", "answer: not started"),
    ] {
        let came = play(programs(0.2, 30.0, vec![run(command)]));
        assert!(came.summary.failed > 0 && came.summary.ok == 0);
        assert_eq!(came.attempts(result), came.summary.failed, "{command}");
    }
}

#[test]
fn a_program_that_takes_too_long_is_killed() {
    let note = std::env::temp_dir().join(format!("plimsoll-late-{}", std::process::id()));
    let mut orders = programs(0.2, 2.0, vec![run(&format!("sh -c 'echo $$ >> {}; sleep 600'", note.display()))]);
    orders.load.drain_s = 30.0;
    let came = play(orders);
    assert!(came.summary.timeout > 0 && came.summary.ok == 0);
    let pids = std::fs::read_to_string(&note).unwrap();
    std::fs::remove_file(&note).unwrap();
    assert!(!pids.is_empty());
    all_go(&pids);
}

#[test]
fn none_outlives_the_load() {
    let note = std::env::temp_dir().join(format!("plimsoll-open-{}", std::process::id()));
    let mut orders = programs(0.3, 60.0, vec![run(&format!("sh -c 'echo $$ >> {}; sleep 600'", note.display()))]);
    orders.load.drain_s = 3.0;
    let came = play(orders);
    assert_eq!(came.summary.unfinished, 2);
    assert_eq!(came.times_ns(Outcome::Ok, record::hlog::Time::Latency), [0; 0]);
    let pids = std::fs::read_to_string(&note).unwrap();
    std::fs::remove_file(&note).unwrap();
    assert_eq!(pids.lines().count(), 2, "{pids}");
    all_go(&pids);
}

/// Waits until none of these processes is left.
fn all_go(pids: &str) {
    for pid in pids.lines() {
        fixture::until("it goes", || !fixture::is_alive(pid.parse().unwrap()));
    }
}

#[test]
fn there_are_no_single_calls() {
    let refused = Client::connect("command", "", Duration::from_secs(1)).err().unwrap();
    assert!(matches!(refused, CallError::Invalid(_)));
}
