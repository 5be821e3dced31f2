//! `[find]` as a user sees it. Trials are played one after the other, each chosen by the results
//! before it and recorded before it is played, and an interruption loses nothing. Other tests check
//! how well it finds an edge: this machine may be busy.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, json, number};

/// Search for a bound of 150/s. With 20 operations/s for each agent, throughput passes it between 7
/// and 8 agents.
const SEARCH: &str = r#"
title = "Agents against a bound"

[target]
use  = "echo"
with = { delay = "50ms" }

[load]
agents = 4
time   = "1s"
warmup = "200ms"
drain  = "1s"

[[load.cycle]]
call = "get"
with = { path = "/" }

[find]
highest       = "load.agents"
while         = [{ metric = "throughput.operations_per_s", below = 150 }]
up_to         = 64
precision_pct = 50
trials        = 8
"#;

fn steps(results: &Value) -> Vec<Value> {
    results["safe_loads"][0]["steps"].as_array().unwrap().clone()
}

#[test]
fn a_search_is_played_trial_by_trial() {
    let sandbox = Sandbox::new();
    let claim = |holds: &str| {
        format!("[[claim]]\nsays = \"s\"\nsource = \"a\"\nmetric = \"safe_load()\"\nholds = {{ {holds} }}\n")
    };
    let file = sandbox.file("search.toml", format!("{SEARCH}{}{}", claim("at_most = 1000"), claim("above = 1000")));
    let played = sandbox.run(&[&file, "--plain"]).exits(0);
    let results = played.json();
    let steps = steps(&results);
    assert!(steps.len() >= 3 && steps.len() <= 8, "{steps:?}");
    assert_eq!(number(&steps[0], "/value"), 4.0, "it begins with what [load] says");
    for (step, trial) in steps.iter().zip(results["trials"].as_array().unwrap()) {
        assert_eq!(step["trial"], trial["id"]);
        assert_eq!(trial["point"]["load.agents"], number(step, "/value") as u64);
        let rate = number(trial, "/throughput/operations_per_s");
        assert_eq!(step["held"], rate < 150.0, "{rate}");
        assert_eq!(number(step, "/figures/throughput.operations_per_s"), rate);
        let words = if rate < 150.0 { "held" } else { "broke: throughput.operations_per_s = " };
        assert!(played.stderr.contains(&format!("agents {}: {words}", number(step, "/value"))), "{}", played.stderr);
    }
    assert_eq!(
        (&results["safe_load"]["over"], &results["safe_load"]["surviving"]),
        (&"load.agents".into(), &"nothing lost".into())
    );
    let (found, claims) = (&results["safe_loads"][0], &results["claims"]);
    assert_eq!((&claims[0]["value"], &claims[0]["range"]), (&found["value"], &found["ci95"]));
    assert_eq!((&claims[0]["holds"], &claims[1]["holds"]), (&"yes".into(), &"no".into()));
    let plan = json(&sandbox.run_folder().join("plan.json"));
    assert_eq!(plan["trials"].as_array().unwrap().len(), steps.len());
    assert!(results["answer"].as_str().unwrap().contains(" agents"), "{}", results["answer"]);
    let page = fs::read_to_string(sandbox.run_folder().join("report.html")).unwrap();
    assert!(page.contains("The Plimsoll line") && page.contains("search-1") && page.contains("at most 1,000 agents"));
}

#[test]
fn clients_of_a_member_down_from_the_start_use_the_other() {
    let sandbox = Sandbox::new();
    let text = SEARCH.replace("[load]", "[lab]\nhosts = 2\n\n[load]").replace("trials        = 8", "trials        = 3");
    let file = sandbox.file("search.toml", format!("{text}surviving = [\"one member down\"]\n"));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_eq!(results["safe_load"]["surviving"], "one member down");
    for trial in results["trials"].as_array().unwrap() {
        let fault = &trial["faults"][0];
        assert!(number(fault, "/at_s") < 0.0 && fault["outage"].is_null(), "{fault}");
        assert!(trial["throughput"]["before_first_fault_per_s"].is_null(), "it is no event of the load");
        assert!(number(trial, "/outcomes/ok") > 0.0);
        assert_eq!(number(trial, "/outcomes/failed") + number(trial, "/outcomes/timeout"), 0.0);
    }
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn an_interrupted_search_can_be_resumed() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("search.toml", SEARCH);
    let mut playing = sandbox.start_run(&[&file, "--plain"]);
    playing.wait_for_words("trial 2");
    playing.signal("INT");
    let partial = playing.wait().exits(130).json();
    let before = steps(&partial);
    assert!(!partial["partial"].is_null() && partial["safe_loads"][0]["complete"] == false);
    let run = sandbox.run_folder();
    let first = fs::read(run.join("trials/001/load.hlog")).unwrap();
    let resumed =
        sandbox.play(&["run", "--resume", run.to_str().unwrap(), "--json", "--accept", "--plain"]).exits(0).json();
    let after = steps(&resumed);
    assert!(resumed["partial"].is_null() && after.len() >= 3, "{after:?}");
    assert_eq!(after[0], before[0], "what was finished stays");
    assert_eq!(fs::read(run.join("trials/001/load.hlog")).unwrap(), first);
}

#[test]
fn check_describes_the_search() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("search.toml", SEARCH);
    let told = sandbox.play(&["check", &file]).exits(0).stdout;
    for words in
        ["highest load.agents while throughput.operations_per_s < 150", "from 4 agents, up to 64", "at most 8 trials"]
    {
        assert!(told.contains(words), "{told}");
    }
}
