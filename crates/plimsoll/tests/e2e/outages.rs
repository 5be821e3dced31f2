//! A scripted outage on the real engine and server. The analysis is compared with the server's own
//! notes.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, json, number};

/// Length of the scripted errors, seconds.
const ERRORS_S: f64 = 2.3;

/// Error of times from the records: a slot of `outcomes.csv` at either end.
const SLOTS_S: f64 = 0.002;

/// Time that a busy machine may add between the server's action and its clients. The benchmark
/// checks the accuracy on a quiet machine.
const BUSY_S: f64 = 1.0;

/// The server answers with errors from 8.000 s to 10.300 s on its own clock, which begins with the
/// check that it is ready, and again from 16.000 s. That is after the load, even if the load begins
/// seconds late.
const EXPERIMENT: &str = r#"
title = "A scripted outage"
asks  = "Is it measured as it was?"
[target]
use  = "echo"
with = { errors_for = "2300ms", errors_every = "8s" }
[load]
agents  = 16
time    = "13500ms"
think   = "4ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
"#;

/// The server's notes: number of errors, and time of the first and the last, in seconds since load
/// start.
struct Noted {
    errors: u64,
    first_s: f64,
    last_s: f64,
}

impl Noted {
    fn of(trial: &Path) -> Self {
        let log = std::fs::read_to_string(trial.join("logs/n1.server.log")).unwrap();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(lines.len(), 1, "one spell of errors: {log}");
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

/// Times at clients, from the records alone, in seconds since load start: the first and the last
/// failed operation, and the longest period without success. At both ends of the period, clients
/// may still read an earlier answer than others.
struct Seen {
    first_s: f64,
    last_s: f64,
    silence_s: [f64; 2],
}

impl Seen {
    fn of(trial: &Path) -> Self {
        let text = std::fs::read_to_string(trial.join("outcomes.csv")).unwrap();
        let slots: Vec<[f64; 3]> = text
            .lines()
            .skip(1)
            .map(|line| {
                let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
                [cells[0], cells[2], cells[3]]
            })
            .collect();
        let failed = |slot: &&[f64; 3]| slot[2] > 0.0;
        let [first_s, last_s] = [slots.iter().find(failed), slots.iter().rfind(failed)].map(|slot| slot.unwrap()[0]);
        let ok: Vec<f64> = slots.iter().filter(|slot| slot[1] > 0.0).map(|slot| slot[0]).collect();
        let silences = ok.windows(2).map(|pair| [pair[0], pair[1]]);
        let silence_s = silences.max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
        Self { first_s, last_s, silence_s }
    }

    fn silent_s(&self) -> f64 {
        self.silence_s[1] - self.silence_s[0]
    }
}

fn play(more: &str) -> (Value, Noted, Seen) {
    play_text(&format!("{EXPERIMENT}{more}"))
}

fn play_text(text: &str) -> (Value, Noted, Seen) {
    let sandbox = Sandbox::new();
    let file = sandbox.file("scripted.toml", text);
    sandbox.run(&[&file]).exits(0);
    let run = sandbox.run_folder();
    let trial = json(&run.join("analysis.json"))["trials"][0].clone();
    let (noted, seen) = (Noted::of(&run.join("trials/001")), Seen::of(&run.join("trials/001")));
    assert_eq!(trial["outcomes"]["failed"].as_u64(), Some(noted.errors), "all of them are in the trial: {trial:#}");
    // A client sees a failure after the server caused it.
    later("the first failure", seen.first_s, noted.first_s);
    later("the last failure", seen.last_s, noted.last_s);
    (trial, noted, seen)
}

fn later(what: &str, seen_s: f64, truth_s: f64) {
    let late_s = seen_s - truth_s;
    assert!(late_s > -SLOTS_S && late_s < BUSY_S, "{what} is at {seen_s}, {late_s} after the server's");
}

fn same(what: &str, value: f64, truth: f64) {
    assert!((value - truth).abs() <= SLOTS_S, "{what} is {value}, in the records it is {truth}");
}

/// Checks that an outage with these errors, which began at `at_s`, agrees with the records.
fn felt_as_seen(felt: &Value, at_s: f64, noted: &Noted, seen: &Seen) {
    assert_eq!(felt["failed"].as_u64(), Some(noted.errors), "{felt}");
    same("its last failure", at_s + number(felt, "/last_failure_s"), seen.last_s);
    // It contains that whole silence, and perhaps silences of a machine that stalls.
    let total_s = number(felt, "/total_s");
    assert!(total_s > seen.silent_s() - SLOTS_S && total_s < ERRORS_S + BUSY_S, "silent {:?}: {felt}", seen.silence_s);
    assert!((seen.silent_s() - ERRORS_S).abs() < BUSY_S, "silent {:?}", seen.silence_s);
    // Service is back at the first success or later, or the results say that the machine was slower
    // from then on.
    match felt["back_to_baseline_s"].as_f64() {
        Some(back_s) => assert!(at_s + back_s > seen.silence_s[1] - SLOTS_S, "{felt}"),
        None => assert!(number(felt, "/degraded_s") > 0.0, "{felt}"),
    }
}

/// Returns the disturbances with failed operations. A machine that stalls may cause others.
fn failing(trial: &Value) -> Vec<&Value> {
    let found = trial["disturbances"].as_array().unwrap();
    found.iter().filter(|one| one["outage"]["failed"].as_u64() != Some(0)).collect()
}

#[test]
fn an_unplanned_outage_is_measured_correctly() {
    let (trial, noted, seen) = play("");
    let found = failing(&trial);
    let [one] = found.as_slice() else { panic!("{} disturbances: {found:?}", found.len()) };
    let at_s = number(one, "/at_s");
    // It begins with the silence before the first errors, or with the errors.
    let [silent_s, ok_s] = seen.silence_s;
    let from_s = silent_s.min(seen.first_s) - SLOTS_S;
    assert!((from_s..=seen.first_s + SLOTS_S).contains(&at_s), "it begins at {at_s}, the errors at {}", seen.first_s);
    same("the first success", at_s + number(one, "/outage/first_ok_s"), ok_s);
    felt_as_seen(&one["outage"], at_s, &noted, &seen);
}

/// Low rate, at which two windows are longer than the rest of the load after the errors.
#[test]
fn recovery_near_the_end_is_seen_at_a_fixed_rate() {
    let (trial, noted, seen) = play_text(&EXPERIMENT.replace("think   = \"4ms\"", "rate    = 500"));
    let found = failing(&trial);
    let [one] = found.as_slice() else { panic!("{} disturbances: {found:?}", found.len()) };
    felt_as_seen(&one["outage"], number(one, "/at_s"), &noted, &seen);
}

#[test]
fn an_outage_after_a_fault_belongs_to_the_fault() {
    // A fault without effect, some time before the errors.
    let fault =
        "[[fault]]\nname = \"nothing\"\nkind = \"call\"\nat = \"2s\"\nwith = { call = \"get\", path = \"/\" }\n";
    let (trial, noted, seen) = play(fault);
    assert!(failing(&trial).is_empty(), "disturbances beside the fault: {}", trial["disturbances"]);
    let at_s = number(&trial, "/faults/0/at_s");
    let felt = &trial["faults"][0]["outage"];
    same("its first failure", at_s + number(felt, "/first_failure_s"), seen.first_s);
    felt_as_seen(felt, at_s, &noted, &seen);
}

/// The server stops for 1.5 s at 8 s, and loses nothing.
const STANDSTILL: &str = r#"
title = "A standstill without a failure"
asks  = "Is it seen?"
[target]
use  = "echo"
with = { stall = "1500ms", stall_every = "8s" }
[load]
agents = 800
rate   = 400
time   = "12s"
warmup = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
"#;

#[test]
fn a_stall_without_failures_is_a_disturbance() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("standstill.toml", STANDSTILL);
    sandbox.run(&[&file]).exits(0);
    let run = sandbox.run_folder();
    let trial = json(&run.join("analysis.json"))["trials"][0].clone();
    let text = std::fs::read_to_string(run.join("trials/001/outcomes.csv")).unwrap();
    let ended_s: Vec<f64> = text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    let silences = ended_s.windows(2).map(|pair| [pair[0], pair[1]]);
    let [from_s, until_s] = silences.max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
    assert!(until_s - from_s > 1.4, "the server stood still: {from_s} to {until_s}");
    // A machine that stalls adds others.
    let found = trial["disturbances"].as_array().unwrap();
    let outages = found.iter().filter(|one| one["kind"] == "outage");
    let longest = outages.max_by(|a, b| number(a, "/outage/total_s").total_cmp(&number(b, "/outage/total_s")));
    let longest = longest.expect("it is a disturbance");
    let at_s = number(longest, "/at_s");
    assert!(at_s <= from_s + 2.0 * SLOTS_S && at_s > from_s - BUSY_S, "it begins at {at_s}, the silence at {from_s}");
    assert!(number(longest, "/outage/total_s") > until_s - from_s - 2.0 * SLOTS_S, "{longest}");
    assert_eq!(longest["outage"]["failed"].as_u64(), Some(0), "{longest}");
}

/// A server that stops until an operator lets it go on, and a second step of the operator that
/// fails.
const REPAIRED: &str = r#"
title = "A standstill that an operator ends"
asks  = "Is it one outage?"
[target]
use = "echo"
[load]
agents  = 4
rate    = 2000
time    = "6s"
timeout = "300ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[[fault]]
name = "stuck"
kind = "pause"
at   = "2s"
[[action]]
name  = "go-on"
kind  = "command"
after = "fault.stuck.begun + 1s"
with  = { run = "test $PLIMSOLL_PORT_SERVICE = {port.service} && kill -CONT $PLIMSOLL_PID_SERVER" }
[[action]]
name  = "in-vain"
kind  = "command"
after = "action.go-on.done + 100ms"
with  = { run = "echo no replica >&2; exit 3" }
"#;

#[test]
fn an_operators_action_belongs_to_the_outage_of_its_fault() {
    let sandbox = Sandbox::new();
    let results = sandbox.run(&[&sandbox.file("repaired.toml", REPAIRED)]).exits(0).json();
    let trial = &results["trials"][0];
    let names =
        |list: &str| -> Vec<Value> { trial[list].as_array().unwrap().iter().map(|one| one["name"].clone()).collect() };
    assert_eq!((names("faults"), names("actions")), (vec!["stuck".into()], vec!["go-on".into(), "in-vain".into()]));
    assert_eq!(trial["actions"][0]["failed"], Value::Null);
    assert_eq!(trial["actions"][1]["failed"], "`run` on n1: exit 3: no replica");
    // The outage lasts until the action and ends after it. It belongs to the fault.
    let outage = &trial["faults"][0]["outage"];
    let acted_s = number(trial, "/actions/0/at_s") - number(trial, "/faults/0/at_s");
    assert!(number(outage, "/first_ok_s") >= acted_s, "{outage:#}");
    assert!(number(outage, "/timed_out") > 0.0 && outage["back_to_baseline_s"].is_number(), "{outage:#}");
    let reasons = results["verdict"]["reasons"].to_string();
    assert!(reasons.contains("action `in-vain` failed: `run` on n1: exit 3: no replica"), "{reasons}");
}
