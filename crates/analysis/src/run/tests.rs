//! Checks of whole runs: what makes one partial, and that records cut off anywhere still give results.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use experiment::plan::Plan;
use record::events::{Event, RunEnding, What};
use record::lines::Writer;
use record::whole::{read_json, write_json};

use super::*;
use crate::made_up;

/// A run folder of its own for one test.
struct Scratch(RunFolder);

impl Scratch {
    fn new(name: &str, trials: u32) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-analysis-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let folder = RunFolder::at(&path);
        let trial = |number: u32| plan::Trial { id: format!("{number:03}"), ..made_up::trial(made_up::load(10, 20.0)) };
        let plan = Plan {
            format: 1,
            title: "t".into(),
            asks: "a".into(),
            variants: Vec::new(),
            swept: Vec::new(),
            trials: (1..=trials).map(trial).collect(),
            requirements: Vec::new(),
            claims: Vec::new(),
            find: None,
        };
        write_json(&folder.plan(), &plan).unwrap();
        Self(folder)
    }

    fn play(&self, id: &str, how: Option<Ending>) {
        let trial = self.0.create_trial(id).unwrap();
        let mut events = Writer::create(&trial.events()).unwrap();
        events.write(&Event { at_s: 0.0, what: What::Clock { unix_s: 1.0 } }).unwrap();
        if let Some(how) = how {
            events.write(&Event { at_s: 21.0, what: What::Ended { how, reason: None } }).unwrap();
        }
    }

    fn end(&self, how: Ending, reason: Option<&str>) {
        self.0.write_ending(&RunEnding { how, reason: reason.map(str::to_owned) }).unwrap();
    }

    fn partial(&self) -> Option<String> {
        analyze(&self.0).unwrap().partial
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.path());
    }
}

#[test]
fn a_run_is_partial_until_all_of_it_is_done() {
    let run = Scratch::new("partial", 2);
    assert_eq!(
        run.partial().unwrap(),
        "the run still goes on, or was killed: 0 of 2 trials are complete, 2 have no records"
    );
    run.play("001", Some(Ending::Done));
    run.play("002", None);
    run.end(Ending::Interrupted, Some("SIGTERM"));
    assert_eq!(run.partial().unwrap(), "the run was interrupted (SIGTERM): 1 of 2 trials are complete");
    run.end(Ending::Done, None);
    assert_eq!(run.partial().unwrap(), "the run ended: 1 of 2 trials are complete");
    run.0.discard_trial("002").unwrap();
    run.play("002", Some(Ending::Done));
    assert_eq!(run.partial(), None);
    let results = analyze(&run.0).unwrap();
    assert_eq!((results.format, results.planned_trials, results.trials.len()), (1, 2, 2));
    assert_eq!(results.answer, "");
}

#[test]
fn what_is_no_run_or_of_later_says_so() {
    let run = Scratch::new("later", 1);
    std::fs::write(run.0.plan(), "{\"format\":99,\"new\":[]}").unwrap();
    let message = analyze(&run.0).unwrap_err().to_string();
    assert!(message.contains("later version of Plimsoll (format 99"), "{message}");
    std::fs::write(run.0.plan(), "{\"format\":1,\"title\":3}").unwrap();
    assert!(analyze(&run.0).unwrap_err().to_string().contains("plan.json: "));
    std::fs::remove_file(run.0.plan()).unwrap();
    assert!(analyze(&run.0).unwrap_err().to_string().contains("is not a run folder"));
}

#[test]
fn a_trial_without_any_file_has_results_without_figures() {
    let run = Scratch::new("bare", 1);
    run.0.create_trial("001").unwrap();
    let results = analyze(&run.0).unwrap();
    let trial = &results.trials[0];
    assert_eq!((trial.measured_s, trial.throughput.operations_per_s, trial.latency_us), (None, None, None));
    assert_eq!((trial.consistency.checked, trial.consistency.wrong), (None, None));
    assert_eq!(trial.generator.limit, "");
    assert!(!trial.verdict.reasons.is_empty());
}

#[test]
fn a_line_that_is_broken_in_the_middle_is_an_error_that_names_it() {
    let run = Scratch::new("broken", 1);
    let trial = run.0.create_trial("001").unwrap();
    std::fs::write(trial.attempts(), "at_s,operation,result,count\n1,save,ok\n2,save,ok,7\n").unwrap();
    let message = analyze(&run.0).unwrap_err().to_string();
    assert!(message.contains("attempts.csv:2: "), "{message}");
}

#[test]
fn records_cut_off_anywhere_give_results() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../record/golden/2026-11-20T10-31-05-a-name-server-crashes/trials/001");
    let planned: Plan = read_json(&golden.join("../../plan.json")).unwrap().unwrap();
    let run = Scratch::new("cut", 1);
    let files =
        ["load.hlog", "outcomes.csv", "attempts.csv", "samples.csv", "generator.csv", "events.jsonl", "history.jsonl"];
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..25 {
        run.0.discard_trial("001").unwrap();
        let trial = run.0.create_trial("001").unwrap();
        for file in files {
            let bytes = std::fs::read(golden.join(file)).unwrap();
            let cut = if random.bool() { random.usize(..=bytes.len()) } else { bytes.len() };
            std::fs::write(trial.path().join(file), &bytes[..cut]).unwrap();
        }
        let found = crate::trial(&planned.trials[0], &trial).unwrap();
        let all = found.outcomes;
        assert!(found.with_warmup.latency_us.is_none_or(|latency| latency.count == all.ok));
        assert!(found.measured_s.is_none_or(|[from_s, until_s]| from_s <= until_s));
    }
}

#[test]
fn a_trial_whose_folder_is_gone_from_a_run_that_ended_makes_it_void() {
    let run = Scratch::new("gone", 1);
    run.end(Ending::Interrupted, None);
    let is_lost = || analyze(&run.0).unwrap().verdict.reasons.iter().any(|reason| reason.contains("has no records"));
    assert!(!is_lost(), "nobody has played it yet");
    run.end(Ending::Done, None);
    assert!(is_lost());
    assert_eq!(analyze(&run.0).unwrap().verdict.is, record::results::Trust::Void);
}
