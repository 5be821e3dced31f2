//! The name service's crash on the real Erlang service, in a short form: the names that are lost
//! with each way of storing them.

use serde_json::Value;

use crate::sandbox::{Sandbox, number};

const CRASH: &str = "experiments/03-name-service-crash.toml";
/// The server stays away for a while, so that every client notices. On a busy machine it may happen
/// that no client waits for an answer when the server dies.
const SHORT: [&str; 12] = [
    "--set",
    "target.with.restart_pause_ms=100",
    "--set",
    "load.time=5s",
    "--set",
    "load.ramp=1s",
    "--set",
    "load.agents=20",
    "--set",
    "fault.oops.at=2s",
    "--set",
    "prepare.0.count=1000",
];

/// Plays the crash with names kept in `state`.
fn crash(state: &str, more: &[&str]) -> Value {
    let erlang = std::process::Command::new("erl").args(["-noshell", "-eval", "halt()."]).status();
    assert!(erlang.is_ok_and(|status| status.success()), "needs Erlang: scripts/need.sh erlang-tests");
    let sandbox = Sandbox::new();
    let state = format!("target.with.state={state}");
    sandbox.run(&[&[CRASH, "--install", "--set", &state], &SHORT[..], more].concat()).exits(0).json()
}

#[test]
fn names_stored_in_the_process_are_lost_with_it() {
    let results = crash("process", &[]);
    assert!(number(&results, "/trials/0/consistency/lost_writes") > 0.0);
    assert!(number(&results, "/trials/0/faults/0/outage/failed") > 0.0);
    assert_eq!(results["trials"][0]["faults"][0]["name"], "oops");
    let at_s = number(&results, "/trials/0/faults/0/at_s");
    assert!((2.0..5.0).contains(&at_s), "{at_s}");
    let mut claims = results["claims"].as_array().unwrap().iter();
    assert!(claims.any(|claim| claim["metric"] == "consistency.lost_writes"));
}

#[test]
fn names_stored_in_a_table_outlive_the_process() {
    let results = crash("ets", &[]);
    assert_eq!(number(&results, "/trials/0/consistency/lost_writes"), 0.0);
    assert!(number(&results, "/trials/0/consistency/checked") >= 1000.0);
}

#[test]
fn clients_that_retry_see_no_failure() {
    let results = crash("ets", &["--set", "load.retry.wait=10ms"]);
    assert_eq!(number(&results, "/trials/0/outcomes/failed"), 0.0);
    let attempts = number(&results, "/trials/0/attempts");
    let ok = number(&results, "/trials/0/outcomes/ok");
    assert!(attempts > ok, "the crash must have cost attempts: {attempts} for {ok}");
}

#[test]
fn clients_that_reconnect_late_keep_failing() {
    let late = ["load.reconnect=100ms", "load.reconnect_delay=500ms", "load.reconnect_spread_pct=100"];
    let sets: Vec<&str> = late.iter().flat_map(|set| ["--set", set]).collect();
    let results = crash("ets", &sets);
    let attempts = &results["trials"][0]["attempt_results"];
    assert!(attempts["not connected"].as_u64().unwrap() > 0, "{attempts}");
    assert_eq!(attempts["connect refused"], Value::Null, "nothing was tried in vain: {attempts}");
    let failed = number(&results, "/trials/0/outcomes/failed");
    assert!(failed > attempts["connection closed"].as_f64().unwrap_or_default(), "{failed}");
}
