//! Exercises: steps that succeed, time out, or fail by their condition or audit; and their records.

use serde_json::{Value, json};

use crate::lab_traces;
use crate::sandbox::{Sandbox, json as read_json, marked, number, until};

const HEAD: &str = "title = \"Steps\"\nasks = \"What comes of each?\"\n[target]\nuse = \"files\"\n";

/// Steps with every kind of end, each on a fresh target.
const STEPS: &str = r#"
[[step]]
name   = "write"
do     = { action = "write", with = { file = "file", after = "0.7" } }
until  = "written"
within = "60s"
[[step]]
name   = "twice"
do     = [{ action = "write", with = { file = "other" } }, { kind = "restart" }]
audits = ["sane"]
[[step]]
name   = "never"
until  = "never"
within = "1s"
[[step]]
name   = "anew"
until  = "written"
within = "1s"
[[step]]
name   = "stain"
do     = { action = "write", with = { file = "stain" } }
[[step]]
name   = "broken"
until  = "broken"
[[step]]
name   = "fail"
do     = { action = "fail" }
[[step]]
name   = "hang"
do     = { action = "hang" }
within = "1s"
[[require]]
metric = "steps.write.time_s"
below  = 60.0
[[require]]
metric = "steps.never.failed"
equals = 1
"#;

fn steps(results: &Value) -> Vec<(String, String, bool)> {
    let of = |step: &Value| {
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("result"), step["rebuilt_s"].is_number())
    };
    results["trials"][0]["steps"].as_array().unwrap().iter().map(of).collect()
}

fn play_each(lab: &str) {
    let sandbox = Sandbox::new().with_shelves();
    let file = sandbox.file("steps.toml", format!("{HEAD}{lab}{STEPS}"));
    let checked = sandbox.play(&["check", &file]).exits(0).stdout;
    assert!(checked.contains("write: write (after 0.7, file file) on one, until written, within 1m"), "{checked}");
    let results = sandbox.run(&[&file]).exits(0).json();
    let expected = [
        ("write", "ok", false),
        ("twice", "ok", false),
        ("never", "timed_out", true),
        ("anew", "timed_out", true),
        ("stain", "audit_failed", true),
        ("broken", "condition_failed", true),
        ("fail", "action_failed", true),
        ("hang", "timed_out", false),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(name, result, anew)| ((*name).to_owned(), (*result).to_owned(), *anew)).collect();
    assert_eq!(steps(&results), expected, "{results:#}");
    let step = |index: usize| &results["trials"][0]["steps"][index];
    assert!(number(step(0), "/time_s") >= number(step(0), "/done_s"));
    let names = |index: usize| {
        let audits = step(index)["audits"].as_array().unwrap();
        audits.iter().map(|audit| (audit["name"].clone(), audit["failed"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(0), [(json!("sane"), json!(0)), (json!("spotless"), json!(0))]);
    assert_eq!(names(1), [(json!("sane"), json!(0))]);
    assert_eq!(names(4)[1], (json!("spotless"), json!(1)));
    assert!(step(4)["audits"][1]["reasons"][0].as_str().unwrap().ends_with("there is a stain"));
    let why = |index: usize| step(index)["why"].as_str().unwrap_or_default().to_owned();
    assert!(why(2).contains("`never` did not hold within 1 s: n1: not today"), "{}", why(2));
    assert!(why(5).contains("n1: no such thing"), "{}", why(5));
    assert!(why(6).contains("n1: it cannot be done"), "{}", why(6));
    assert!(results["answer"].as_str().unwrap().contains("2 of 8 steps were ok: "), "{}", results["answer"]);
    let run = sandbox.run_folder();
    let shown = sandbox.play(&["show", run.to_str().unwrap()]).exits(0).stdout;
    assert!(shown.contains("Steps") && shown.contains("1 of 2 failed: spotless"), "{shown}");
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("never timed out") && page.contains("there is no file yet"));
    assert_eq!(read_json(&run.join("analysis.json"))["trials"][0]["faults"][0]["name"], json!("write"));
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn each_step_has_a_result_and_failures_renew_the_target() {
    play_each("");
}

#[test]
fn steps_on_virtual_hosts_leave_nothing_of_the_last_target() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    play_each("[lab]\nhosts = 1\nmeasure_storage = false\n");
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn steps_run_during_and_after_a_load() {
    let sandbox = Sandbox::new().with_shelves();
    let load = "[load]\nagents = 1\ntime = \"1500ms\"\nthink = \"50ms\"\nwarmup = \"0s\"\n[[load.cycle]]\ncall = \"run\"\n\
                with = { command = \"true\" }\n";
    let steps = "[[step]]\nname = \"first\"\nat = \"500ms\"\ndo = { action = \"write\", with = { file = \"file\" } }\n\
                 until = \"written\"\n[[step]]\nname = \"late\"\nat = \"2s\"\nuntil = \"written\"\n\
                 [[step]]\nname = \"again\"\ntimes = 2\npause = \"300ms\"\nuntil = \"written\"\n";
    let file = sandbox.file("beside.toml", format!("{HEAD}{load}{steps}"));
    let results = sandbox.run(&[&file]).exits(0).json();
    let trial = &results["trials"][0];
    assert_eq!(steps_of(trial), ["ok", "ok", "ok", "ok"], "{trial:#}");
    for (before, pointer) in [(1, "/steps/2/at_s"), (2, "/steps/3/at_s")] {
        assert!(number(trial, pointer) >= number(trial, &format!("/steps/{before}/ended_s")) + 0.25, "{trial:#}");
    }
    assert!(number(trial, "/outcomes/ok") > 0.0 && number(trial, "/steps/1/at_s") >= 2.0);
    assert!(trial["faults"][0]["outage"].is_object(), "what clients felt of it: {trial:#}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

fn steps_of(trial: &Value) -> Vec<&str> {
    trial["steps"].as_array().unwrap().iter().map(|step| step["result"].as_str().unwrap()).collect()
}

#[test]
fn an_interruption_in_the_middle_of_a_step_leaves_nothing() {
    let step = "[[step]]\nname = \"hang\"\ndo = { action = \"hang\" }\nwithin = \"10m\"\n";
    for lab in ["", "[lab]\nhosts = 2\nmeasure_storage = false\n"] {
        let turn = lab_traces::turn();
        if !lab.is_empty() && turn.is_none() {
            return;
        }
        let before = lab_traces::inventory();
        let sandbox = Sandbox::new().with_shelves();
        let file = sandbox.file("hang.toml", format!("{HEAD}{lab}{step}"));
        let mut playing = sandbox.start_run(&[&file]);
        playing.wait_for_event("step_begun");
        until("it hangs", || {
            marked(&sandbox.mark()).iter().filter(|line| line.starts_with("sleep 100000")).count() > 1
        });
        playing.signal("INT");
        assert_eq!(playing.wait().code, 130);
        assert_eq!(sandbox.leftovers(), [""; 0]);
        assert_eq!(lab_traces::added_since(&before), [""; 0]);
    }
}
