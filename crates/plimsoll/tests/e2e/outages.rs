//! A scripted outage, on the real engine and the real server: what the analysis says of it, held against what the server itself has
//! noted. Where the machine stood still at an edge of it, the records show a time in which nothing ended, and the edge is known to
//! that and no better.

use std::path::Path;

use record::rows::OutcomeSlot;
use serde_json::Value;

use crate::stage::{Stage, json, number};

/// The script: errors for so long, once.
const ERRORS_S: f64 = 2.3;

/// One percent of it.
const WITHIN_S: f64 = 0.023;

/// Times are also not finer than a slot of `outcomes.csv`, at either end.
const SLOTS_S: f64 = 0.002;

/// The server answers errors from 6.000 s to 8.300 s of its own clock, which begins with the check that it is ready. At a rate that
/// a busy machine keeps up, too: what comes after the errors is as much as what came before.
const EXPERIMENT: &str = r#"
title = "A scripted outage"
asks  = "Is it measured as it was?"
[target]
use  = "echo"
with = { errors_for = "2300ms", errors_every = "6s" }
[load]
agents  = 16
rate    = 500
threads = 1
time    = "10s"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
"#;

/// What the server noted: how many errors in all and in its first spell of them, and when the first and the last of that, seconds
/// since load start; and what the clients did.
struct Noted {
    all: u64,
    errors: u64,
    first_s: f64,
    last_s: f64,
    slots: Vec<OutcomeSlot>,
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
            all: lines.iter().map(|line| line["errors"].as_u64().unwrap()).sum(),
            errors: lines[0]["errors"].as_u64().unwrap(),
            first_s: number(&lines[0], "/first_unix_s") - zero_s,
            last_s: number(&lines[0], "/last_unix_s") - zero_s,
            slots: record::rows::read(&trial.join("outcomes.csv")).unwrap().items,
        }
    }

    /// How well a moment can be known: the longest time around it in which nothing ended. The clients are one thread.
    fn blur_s(&self, at_s: f64) -> f64 {
        let near = self.slots.iter().map(|slot| slot.at_s).filter(|slot_s| (slot_s - at_s).abs() < 1.0);
        let near: Vec<f64> = std::iter::once(at_s - 1.0).chain(near).chain([at_s + 1.0]).collect();
        near.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
    }

    /// Whether operations ended all the time from then on, successfully or not: the machine did not stand still.
    fn is_smooth(&self, from_s: f64) -> bool {
        let after = self.slots.iter().map(|slot| slot.at_s).filter(|slot_s| *slot_s >= from_s);
        let after: Vec<f64> = std::iter::once(from_s).chain(after).collect();
        after.windows(2).all(|pair| pair[1] - pair[0] < WITHIN_S)
    }

    /// The time without service, of an outage that began to be looked for at `from_s`, and when service was back for good. Where the
    /// machine stood still beside the errors, the first may be longer, and the second later, or never.
    #[track_caller]
    fn is_over(&self, felt: &Value, from_s: f64) {
        let (total_s, end_s) = (number(felt, "/total_s"), self.first_s + ERRORS_S);
        let back_s = felt["back_to_baseline_s"].as_f64().map(|back_s| from_s + back_s);
        if self.is_smooth(from_s) {
            self.is_as_long("the time without service", total_s, ERRORS_S, &[self.first_s, end_s]);
            self.is_near("the first success", from_s + number(felt, "/first_ok_s"), end_s);
            self.is_near("service", back_s.expect("service is back"), end_s);
        } else {
            let blur_s = WITHIN_S + SLOTS_S + self.blur_s(self.first_s) + self.blur_s(end_s);
            assert!(total_s >= ERRORS_S - blur_s, "without service for {total_s}, blurred by {blur_s}");
            assert!(back_s.is_none_or(|back_s| back_s >= end_s - blur_s), "service at {back_s:?}, before {end_s}");
        }
    }

    /// A moment that the analysis tells is this one.
    #[track_caller]
    fn is_near(&self, what: &str, value_s: f64, truth_s: f64) {
        self.is_as_long(what, value_s, truth_s, &[truth_s]);
    }

    /// A time between such moments is so long.
    #[track_caller]
    fn is_as_long(&self, what: &str, value_s: f64, truth_s: f64, edges_s: &[f64]) {
        let off_s = value_s - truth_s;
        let blur_s = edges_s.iter().map(|edge_s| self.blur_s(*edge_s)).sum::<f64>();
        assert!(
            off_s.abs() <= WITHIN_S + SLOTS_S + blur_s,
            "{what} is {value_s}, off by {off_s}, and blurred by {blur_s}"
        );
    }
}

/// Plays the script. All errors are in the trial, whatever becomes of them.
fn play(more: &str) -> (Value, Noted) {
    let stage = Stage::new();
    let file = stage.file("scripted.toml", format!("{EXPERIMENT}{more}"));
    stage.run(&[&file]).exits(0);
    let run = stage.run_folder();
    let trial = json(&run.join("analysis.json"))["trials"][0].clone();
    let noted = Noted::of(&run.join("trials/001"));
    assert_eq!(trial["outcomes"]["failed"].as_u64(), Some(noted.all), "all of them are in the trial: {trial:#}");
    (trial, noted)
}

/// Disturbances in which anything failed. A machine that stands still makes others.
fn failing(trial: &Value) -> Vec<&Value> {
    let all = trial["disturbances"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(|one| one["outage"]["failed"].as_u64().is_some_and(|failed| failed > 0)).collect()
}

#[test]
fn an_outage_that_no_fault_explains_is_measured_as_it_was() {
    let (trial, noted) = play("");
    let one = failing(&trial)[0];
    let felt = &one["outage"];
    assert_eq!(felt["failed"].as_u64(), Some(noted.errors), "{one:#}");
    let at_s = number(one, "/at_s");
    noted.is_near("its first failure", at_s + number(felt, "/first_failure_s"), noted.first_s);
    noted.is_near("its last failure", at_s + number(felt, "/last_failure_s"), noted.last_s);
    if noted.is_smooth(at_s - 1.0) {
        noted.is_near("its beginning", at_s, noted.first_s);
    }
    noted.is_over(felt, at_s);
}

#[test]
fn the_same_after_a_fault_is_the_faults() {
    // A fault that does no harm, some time before the errors.
    let fault =
        "[[fault]]\nname = \"nothing\"\nkind = \"call\"\nat = \"3s\"\nwith = { call = \"get\", path = \"/\" }\n";
    let (trial, noted) = play(fault);
    let at_s = number(&trial, "/faults/0/at_s");
    let felt = &trial["faults"][0]["outage"];
    assert_eq!(felt["failed"].as_u64(), Some(noted.errors), "{felt:#}");
    assert!(failing(&trial).iter().all(|one| number(one, "/at_s") > noted.last_s), "beside the fault: {trial:#}");
    noted.is_near("its first failure", at_s + number(felt, "/first_failure_s"), noted.first_s);
    noted.is_near("its last failure", at_s + number(felt, "/last_failure_s"), noted.last_s);
    noted.is_over(felt, at_s);
}
