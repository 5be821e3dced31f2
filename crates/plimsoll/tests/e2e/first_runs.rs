//! Runs against the built-in echo server: what a run leaves, what it prints, and that the records are enough.

use std::fs;

use crate::stage::{Stage, json, number};

const FIRST: &str = "experiments/01-first-run.toml";

#[test]
fn a_run_prints_its_results_and_leaves_a_page() {
    let stage = Stage::new();
    let results = stage.run(&[FIRST, "--set", "load.time=2s"]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    assert!(number(&results, "/trials/0/throughput/operations_per_s") > 0.0);
    for outcome in ["failed", "timeout", "wrong", "unfinished"] {
        assert_eq!(number(&results, &format!("/trials/0/outcomes/{outcome}")), 0.0, "{outcome}");
    }
    assert!(results["answer"].as_str().is_some_and(|answer| answer.chars().any(char::is_numeric)));
    assert!(results["partial"].is_null());
    let run = stage.run_folder();
    assert_eq!(results, json(&run.join("analysis.json")), "stdout and analysis.json must be the same");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(outside), "the page must be self-contained: {outside}");
    }
    assert_eq!(json(&run.join("ending.json"))["how"], "done");
}

#[test]
fn the_records_are_enough() {
    let stage = Stage::new();
    stage.run(&[FIRST, "--set", "load.time=2s"]).exits(0);
    let run = stage.run_folder();
    let before = json(&run.join("analysis.json"));
    fs::remove_file(run.join("analysis.json")).unwrap();
    fs::remove_file(run.join("report.html")).unwrap();
    stage.play(&["analyze", run.to_str().unwrap()]).exits(0);
    assert_eq!(json(&run.join("analysis.json")), before);
    assert!(run.join("report.html").exists());
    let shown = stage.play(&["show", run.to_str().unwrap()]).exits(0);
    // A terminal is narrow: the same words, in other lines.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&shown.stdout).contains(&words(before["answer"].as_str().unwrap())), "{}", shown.stdout);
}

#[test]
fn a_violated_requirement_exits_5() {
    let stage = Stage::new();
    let words = [FIRST, "--set", "load.time=2s", "--set", "require.0.below=-1"];
    let results = stage.run(&words).exits(5).json();
    assert_eq!(results["requirements"][0]["holds"], false);
}

#[test]
fn a_sweep_with_repeats_is_interleaved() {
    let stage = Stage::new();
    let text = fs::read_to_string(crate::stage::root().join(FIRST)).unwrap();
    let swept = format!("repeat = 2\n{text}\n[sweep]\n\"load.agents\" = [1, 2]\n");
    let file = stage.file("sweep.toml", swept);
    let results = stage.run(&[&file, "--set", "load.time=1500ms"]).exits(0).json();
    let trials = results["trials"].as_array().unwrap();
    let points: Vec<_> = trials.iter().map(|trial| trial["point"]["load.agents"].as_u64().unwrap()).collect();
    assert_eq!(points, [1, 2, 1, 2]);
}

#[test]
fn a_wrong_answer_is_wrong_and_not_failed() {
    let stage = Stage::new();
    let text = fs::read_to_string(crate::stage::root().join(FIRST)).unwrap();
    let expecting = text.replace("with = { path = \"/\" }", "with = { path = \"/\" }\nexpect = { status = \"201\" }");
    let file = stage.file("expecting.toml", expecting);
    let results = stage.run(&[&file, "--set", "load.time=1500ms"]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 0.0);
    assert_eq!(number(&results, "/trials/0/outcomes/failed"), 0.0);
    assert!(number(&results, "/trials/0/outcomes/wrong") > 0.0);
}
