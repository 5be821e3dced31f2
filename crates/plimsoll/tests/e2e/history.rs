//! `plimsoll history` on run folders that the test makes: copies of the golden run with other
//! figures.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, json as read, number, root};

const GOLDEN: &str = "crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes";

/// Makes a run folder with the files that `history` reads: plan, environment, results, and the
/// first trial's events.
fn made(parent: &Path, day: u32, slower: f64, kernel: &str, title: &str) {
    let golden = root().join(GOLDEN);
    let folder = parent.join(format!("2026-12-{day:02}T03-00-00-nightly"));
    fs::create_dir_all(folder.join("trials/001")).unwrap();
    fs::copy(golden.join("plan.json"), folder.join("plan.json")).unwrap();
    // Each run has the clock of another day. The folders' names do not define their order.
    let events = fs::read_to_string(golden.join("trials/001/events.jsonl")).unwrap();
    let (clock, rest) = events.split_once('\n').unwrap();
    let mut clock: Value = serde_json::from_str(clock).unwrap();
    clock["unix_s"] = json!(number(&clock, "/unix_s") + f64::from(day) * 86_400.0);
    fs::write(folder.join("trials/001/events.jsonl"), format!("{clock}\n{rest}")).unwrap();
    let mut results = read(&golden.join("analysis.json"));
    results["title"] = json!(title);
    for trial in results["trials"].as_array_mut().unwrap() {
        let rate = number(trial, "/throughput/operations_per_s") * (1.0 + 0.001 * f64::from(day * 7 % 5)) / slower;
        trial["throughput"]["operations_per_s"] = json!(rate);
    }
    fs::write(folder.join("analysis.json"), results.to_string()).unwrap();
    let mut environment = read(&golden.join("environment.json"));
    environment["kernel"] = json!(kernel);
    fs::write(folder.join("environment.json"), environment.to_string()).unwrap();
}

fn nights(sandbox: &Sandbox) -> std::path::PathBuf {
    let nights = sandbox.path().join("nights");
    for day in 1..=12 {
        let (slower, kernel) = if day < 8 { (1.0, "6.1.0-18-amd64") } else { (1.25, "6.1.0-25-amd64") };
        made(&nights, day, slower, kernel, "A name server crashes");
    }
    nights
}

#[test]
fn a_change_is_found_with_its_kernel_update() {
    let sandbox = Sandbox::new();
    let nights = nights(&sandbox);
    let course = sandbox.play(&["history", nights.to_str().unwrap(), "--json"]).exits(0).json();
    assert_eq!(course["runs"].as_array().unwrap().len(), 12);
    let series = course["series"].as_array().unwrap();
    let metrics: Vec<&str> = series.iter().map(|series| series["metric"].as_str().unwrap()).collect();
    let usual = ["throughput.operations_per_s", "latency_us.p50", "latency_us.p99", "faults.outage.back_to_baseline_s"];
    assert_eq!(metrics, usual);
    assert_eq!(series[0]["changes"].as_array().unwrap().len(), 1, "{:#}", series[0]);
    assert_eq!(series[0]["changes"][0]["run"], 7);
    assert!((number(&series[0], "/changes/0/change_pct") + 20.0).abs() < 1.0);
    assert_eq!(series[0]["changes"][0]["environment"][0]["field"], "kernel");
    assert!(series[1..].iter().all(|series| series["changes"] == json!([])), "the others are as they were");

    let printed =
        sandbox.play(&["history", nights.to_str().unwrap(), "--metric", "throughput.operations_per_s"]).exits(0);
    let line = printed.stdout.lines().find(|line| line.contains("2026-12-08")).unwrap();
    assert!(line.contains("→") && line.contains('−'), "{line}");
    let words = printed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("1 change point") && words.contains("6.1.0-25-amd64"), "{words}");
}

#[test]
fn void_runs_are_left_out_unless_they_are_accepted() {
    let sandbox = Sandbox::new();
    let nights = sandbox.path().join("nights");
    for day in 1..=3 {
        made(&nights, day, 1.0, "6.1.0-18-amd64", "A name server crashes");
    }
    let void = nights.join("2026-12-02T03-00-00-nightly/analysis.json");
    let mut results = read(&void);
    for trial in results["trials"].as_array_mut().unwrap() {
        trial["verdict"]["is"] = json!("void");
    }
    fs::write(&void, results.to_string()).unwrap();
    let words = ["history", nights.to_str().unwrap(), "--metric", "throughput.operations_per_s"];
    let without = sandbox.play(&[&words[..], &["--json"]].concat()).exits(0).json();
    assert!(without["series"][0]["values"][1].is_null() && without["runs"][1]["accepted"] == 0, "{without:#}");
    let with = sandbox.play(&[&words[..], &["--json", "--accept"]].concat()).exits(0).json();
    assert!(with["series"][0]["values"][1].is_number(), "{with:#}");
    assert_eq!(with["runs"][1]["accepted"], with["runs"][1]["void"]);
    let printed = sandbox.play(&[&words[..], &["--accept"]].concat()).exits(0);
    let line = printed.stdout.lines().find(|line| line.contains("2026-12-02")).unwrap();
    assert!(line.contains("void"), "{line}");
}

#[test]
fn mixed_experiments_and_unknown_figures_are_refused() {
    let sandbox = Sandbox::new();
    let nights = nights(&sandbox);
    made(&nights, 13, 1.0, "6.1.0-25-amd64", "Something else");
    let folder = nights.to_str().unwrap();
    sandbox.play(&["history", folder]).exits(2).says(&[
        "2 experiments",
        "`Something else`",
        "2026-12-13",
        "2026-12-01",
    ]);
    let one = nights.join("2026-12-02T03-00-00-nightly");
    let unknown = sandbox.play(&["history", one.to_str().unwrap(), "--metric", "latency_us.p98"]).exits(2);
    unknown.says(&["latency_us.p98", "path inside a trial"]);
    sandbox
        .play(&["history", sandbox.path().join("registry").to_str().unwrap()])
        .exits(2)
        .says(&["plan.json is missing"]);
    sandbox.play(&["history"]).exits(2).says(&["Usage"]);
}
