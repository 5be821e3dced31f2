//! A scripted outage, on the real engine and the real server: what the analysis says of it, held against what the server itself has
//! noted.

use std::path::Path;

use serde_json::Value;

use crate::stage::{Stage, json, number};

/// The script: errors for so long, once.
const ERRORS_S: f64 = 2.3;

/// One percent of it.
const WITHIN_S: f64 = 0.023;

/// Times are also not finer than a slot of `outcomes.csv`, at either end.
const SLOTS_S: f64 = 0.002;

/// The server answers errors from 5.000 s to 7.300 s of its own clock, which begins with the check that it is ready.
const EXPERIMENT: &str = r#"
title = "A scripted outage"
asks  = "Is it measured as it was?"
[target]
use  = "echo"
with = { errors_for = "2300ms", errors_every = "5s" }
[load]
agents  = 16
time    = "9s"
think   = "4ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
"#;

/// What the server noted: how many errors, and when the first and the last, seconds since load start.
struct Noted {
    errors: u64,
    first_s: f64,
    last_s: f64,
}

impl Noted {
    fn of(trial: &Path) -> Self {
        let log = std::fs::read_to_string(trial.join("logs/n1.server.log")).unwrap();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert!(!lines.is_empty(), "no spell of errors: {log}");
        let events = std::fs::read_to_string(trial.join("events.jsonl")).unwrap();
        let clock: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        let zero_s = number(&clock, "/unix_s");
        Self {
            errors: lines.iter().map(|line| line["errors"].as_u64().unwrap()).sum(),
            first_s: number(&lines[0], "/first_unix_s") - zero_s,
            last_s: number(&lines[0], "/last_unix_s") - zero_s,
        }
    }
}

/// Plays the script until it was played on time: a machine that stalls at one of its two edges moves them, and that is not
/// what is tested here. How many failed in all must agree each time.
fn play(more: &str, holds: impl Fn(&Value, &Noted) -> Result<(), String>) {
    let mut why = Vec::new();
    for _ in 0..4 {
        let stage = Stage::new();
        let file = stage.file("scripted.toml", format!("{EXPERIMENT}{more}"));
        stage.run(&[&file]).exits(0);
        let run = stage.run_folder();
        let results = json(&run.join("analysis.json"));
        let trial = &results["trials"][0];
        let noted = Noted::of(&run.join("trials/001"));
        assert_eq!(trial["outcomes"]["failed"].as_u64(), Some(noted.errors), "all of them are in the trial: {trial:#}");
        match holds(trial, &noted) {
            Ok(()) => return,
            Err(reason) => why.push(reason),
        }
    }
    panic!("never within 1 %: {why:#?}");
}

/// Exactly. (A service that is back for a second, stalls, and fails again has two outages; so this may be played again, too.)
fn counted(felt: &Value, noted: &Noted) -> Result<(), String> {
    let failed = felt["failed"].as_u64();
    if failed == Some(noted.errors) { Ok(()) } else { Err(format!("{failed:?} failed of {}", noted.errors)) }
}

fn near(what: &str, value: f64, truth: f64) -> Result<(), String> {
    let off_s = value - truth;
    if off_s.abs() <= WITHIN_S + SLOTS_S { Ok(()) } else { Err(format!("{what} is {value}, off by {off_s}")) }
}

#[test]
fn an_outage_that_no_fault_explains_is_measured_as_it_was() {
    play("", |trial, noted| {
        let found = trial["disturbances"].as_array().unwrap();
        let [one] = found.as_slice() else { return Err(format!("{} disturbances: {found:?}", found.len())) };
        let felt = &one["outage"];
        counted(felt, noted)?;
        near("its beginning", number(one, "/at_s"), noted.first_s)?;
        near("its last failure", number(one, "/at_s") + number(felt, "/last_failure_s"), noted.last_s)?;
        for figure in ["/total_s", "/first_ok_s", "/back_to_baseline_s"] {
            let value = felt.pointer(figure).and_then(Value::as_f64).ok_or(format!("{figure} is null: {felt}"))?;
            near(figure, value, ERRORS_S)?;
        }
        Ok(())
    });
}

#[test]
fn the_same_after_a_fault_is_the_faults() {
    // A fault that does no harm, some time before the errors.
    let fault =
        "[[fault]]\nname = \"nothing\"\nkind = \"call\"\nat = \"2s\"\nwith = { call = \"get\", path = \"/\" }\n";
    play(fault, |trial, noted| {
        if trial["disturbances"].as_array().is_none_or(|found| !found.is_empty()) {
            return Err(format!("disturbances beside the fault: {}", trial["disturbances"]));
        }
        let at_s = number(trial, "/faults/0/at_s");
        let felt = &trial["faults"][0]["outage"];
        counted(felt, noted)?;
        near("its first failure", at_s + number(felt, "/first_failure_s"), noted.first_s)?;
        near("its last failure", at_s + number(felt, "/last_failure_s"), noted.last_s)?;
        near("the time without service", number(felt, "/total_s"), ERRORS_S)?;
        let back_s = felt["back_to_baseline_s"].as_f64().ok_or(format!("never back: {felt}"))?;
        near("service", at_s + back_s, noted.first_s + ERRORS_S)
    });
}
