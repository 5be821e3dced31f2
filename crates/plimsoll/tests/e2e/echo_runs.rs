//! Runs against the built-in echo server: their files, their output, and that the records are
//! sufficient.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, json, number};

const FIRST: &str = "experiments/01-first-run.toml";

#[test]
fn a_run_prints_its_results_and_leaves_a_page() {
    let sandbox = Sandbox::new();
    let results = sandbox.run(&[FIRST, "--set", "load.time=2s"]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    assert!(number(&results, "/trials/0/throughput/operations_per_s") > 0.0);
    for outcome in ["failed", "timeout", "wrong", "unfinished"] {
        assert_eq!(number(&results, &format!("/trials/0/outcomes/{outcome}")), 0.0, "{outcome}");
    }
    assert!(results["answer"].as_str().is_some_and(|answer| answer.chars().any(char::is_numeric)));
    assert!(results["partial"].is_null());
    let run = sandbox.run_folder();
    assert_eq!(results, json(&run.join("analysis.json")), "stdout and analysis.json must be the same");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(outside), "the page must be self-contained: {outside}");
    }
    assert_eq!(json(&run.join("ending.json"))["how"], "done");
}

#[test]
fn the_records_suffice_to_analyze_again() {
    let sandbox = Sandbox::new();
    sandbox.run(&[FIRST, "--set", "load.time=2s"]).exits(0);
    let run = sandbox.run_folder();
    let before = json(&run.join("analysis.json"));
    fs::remove_file(run.join("analysis.json")).unwrap();
    fs::remove_file(run.join("report.html")).unwrap();
    sandbox.play(&["analyze", run.to_str().unwrap()]).exits(0);
    assert_eq!(json(&run.join("analysis.json")), before);
    assert!(run.join("report.html").exists());
    let shown = sandbox.play(&["show", run.to_str().unwrap()]).exits(0);
    // A narrow terminal wraps the same words differently.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&shown.stdout).contains(&words(before["answer"].as_str().unwrap())), "{}", shown.stdout);
}

#[test]
fn a_violated_requirement_exits_5() {
    let sandbox = Sandbox::new();
    let words = [FIRST, "--set", "load.time=2s", "--set", "require.0.below=-1"];
    let results = sandbox.run(&words).exits(5).json();
    assert_eq!(results["requirements"][0]["holds"], false);
}

#[test]
fn a_sweep_with_repeats_is_interleaved() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string(crate::sandbox::root().join(FIRST)).unwrap();
    let swept = format!("repeat = 2\n{text}\n[sweep]\n\"load.agents\" = [1, 2]\n");
    let file = sandbox.file("sweep.toml", swept);
    let results = sandbox.run(&[&file, "--set", "load.time=1500ms"]).exits(0).json();
    let trials = results["trials"].as_array().unwrap();
    let points: Vec<_> = trials.iter().map(|trial| trial["point"]["load.agents"].as_u64().unwrap()).collect();
    // The order of each repeat is drawn, and each second repeat has the order of the one before,
    // reversed.
    assert!(points == [1, 2, 2, 1] || points == [2, 1, 1, 2], "{points:?}");
}

/// Rates of at most 20 operations/s for each agent of `quick`, and 2.5 for each agent of `slow`,
/// which never reaches 100 in total.
const STOPPED: &str = r#"
repeat = 2

[target]
use = "echo"

[load]
agents = 1
time   = "1s"
warmup = "200ms"
drain  = "500ms"

[[load.cycle]]
call = "get"
with = { path = "/" }

[sweep]
"load.agents" = [4, 16, 32]
stop = { metric = "throughput.operations_per_s", at_least = 100 }

[[variant]]
name   = "quick"
target = { with = { delay = "50ms" } }

[[variant]]
name   = "slow"
target = { with = { delay = "400ms" } }
"#;

#[test]
fn a_sweep_stops_at_its_condition_even_when_resumed() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("stopped.toml", STOPPED);
    let told = sandbox.play(&["check", &file]).exits(0).stdout;
    let words = "each variant goes no higher in load.agents once throughput.operations_per_s ≥ 100";
    assert!(told.contains(words) && told.contains("Takes at most about"), "{told}");
    let played = sandbox.run(&[&file, "--plain"]).exits(0);
    let words =
        "trial 6 of 12 · quick · agents=32: not played: stopped at 16, because throughput.operations_per_s was ";
    assert!(played.stderr.contains(words), "{}", played.stderr);
    let is_stopped = |results: &Value| {
        assert!(results["partial"].is_null(), "{}", results["partial"]);
        assert_eq!((number(results, "/planned_trials"), results["sweep_stops"].as_array().unwrap().len()), (12.0, 1));
        let stop = &results["sweep_stops"][0];
        assert_eq!((&stop["variant"], &stop["point"]["load.agents"]), (&"quick".into(), &16.into()));
        assert_eq!((&stop["trial"], &stop["not_played"]), (&"003".into(), &serde_json::json!(["006", "011"])));
        let ids: Vec<_> = results["trials"].as_array().unwrap().iter().map(|trial| trial["id"].clone()).collect();
        assert_eq!(ids, ["001", "002", "003", "004", "005", "007", "008", "009", "010", "012"]);
        let reasons = results["verdict"]["reasons"].to_string();
        assert!(!reasons.contains("no records, although"), "{reasons}");
    };
    is_stopped(&played.json());
    let run = sandbox.run_folder();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Stopped sweeps") && page.contains("agents 32 (2 trials)"));
    fs::remove_file(run.join("ending.json")).unwrap();
    fs::remove_dir_all(run.join("trials/012")).unwrap();
    let resumed = sandbox.play(&["run", "--resume", run.to_str().unwrap(), "--json", "--accept"]).exits(0).json();
    is_stopped(&resumed);
}

#[test]
fn a_wrong_answer_is_wrong_and_not_failed() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string(crate::sandbox::root().join(FIRST)).unwrap();
    let expecting = text.replace("with = { path = \"/\" }", "with = { path = \"/\" }\nexpect = { status = \"201\" }");
    let file = sandbox.file("expecting.toml", expecting);
    let results = sandbox.run(&[&file, "--set", "load.time=1500ms"]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 0.0);
    assert_eq!(number(&results, "/trials/0/outcomes/failed"), 0.0);
    assert!(number(&results, "/trials/0/outcomes/wrong") > 0.0);
}
