//! Interruptions: however a run ends, its records are kept, its report says how far it got, and no
//! process is left running.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::sandbox::{Played, Sandbox, json, marked, number};

const FIRST: &str = "experiments/01-first-run.toml";
/// Pause of its agents, which leaves the machine to other tests.
const THINK: &str = "load.think=10ms";

/// Checks that the run folder is marked as interrupted and has results up to the interruption.
pub fn is_partial(played: &Played, run: &Path) {
    let results = json(&run.join("analysis.json"));
    assert!(results["partial"].is_string(), "{}\n{results:#}", played.stderr);
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    assert!(run.join("report.html").exists());
}

#[test]
fn interrupted_runs_keep_their_records() {
    for signals in [&["INT"][..], &["INT", "INT"], &["TERM"], &["HUP"], &["HUP", "HUP", "HUP", "HUP", "HUP"]] {
        let sandbox = Sandbox::new();
        let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=10m"]);
        playing.wait_for_records();
        for signal in signals {
            playing.signal(signal);
        }
        let played = playing.wait().exits(130);
        let run = sandbox.run_folder();
        is_partial(&played, &run);
        assert_eq!(json(&run.join("ending.json"))["how"], "interrupted", "{signals:?}");
        assert_eq!(sandbox.leftovers(), [""; 0], "{signals:?}");
    }
}

#[test]
fn clean_and_analyze_work_after_a_kill() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=10m"]);
    playing.wait_for_records();
    playing.signal("KILL");
    playing.wait();
    assert_ne!(sandbox.leftovers_now(), [""; 0], "a killed run cannot tidy up, or else this test shows nothing");
    sandbox.play(&["clean"]).exits(0);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    let run = sandbox.run_folder();
    assert!(!run.join("ending.json").exists());
    let played = sandbox.play(&["analyze", run.to_str().unwrap()]).exits(0);
    is_partial(&played, &run);
    assert_eq!(json(&run.join("analysis.json")).pointer("/trials/0/ended"), Some(&serde_json::Value::Null));
}

#[test]
fn the_next_run_cleans_up_after_a_killed_run() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    assert!(marked(&sandbox.mark()).len() > 1, "the target carries the mark");
    playing.signal("KILL");
    playing.wait();
    sandbox.run(&[FIRST, "--set", THINK, "--set", "load.time=1500ms"]).exits(0);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn clean_leaves_a_live_run_alone() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    let before = marked(&sandbox.mark()).len();
    sandbox.play(&["clean"]).exits(0);
    assert_eq!(marked(&sandbox.mark()).len(), before, "`clean` must not touch a run that is alive");
    playing.signal("INT");
    playing.wait().exits(130);
}

#[test]
fn an_interrupted_run_can_be_resumed() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=3s", "--set", "repeat=2"]);
    playing.wait_for_load(Duration::ZERO);
    playing.signal("INT");
    playing.wait().exits(130);
    let run = sandbox.run_folder();
    let resumed = sandbox.play(&["run", "--resume", run.to_str().unwrap(), "--json", "--accept"]).exits(0).json();
    assert!(resumed["partial"].is_null(), "{resumed:#}");
    let trials = resumed["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    assert!(trials.iter().all(|trial| trial["ended"] == "done"));
}

#[test]
fn a_resumed_run_finds_the_files_beside_its_experiment() {
    let sandbox = Sandbox::new();
    sandbox.file("paths.csv", "path\n/a\n/b\n");
    // The tests run in another working folder.
    let experiment = sandbox.file(
        "fed.toml",
        r#"
title  = "Fed"
asks   = "Are the rows found?"
repeat = 2

[target]
use = "echo"

[load]
agents = 2
time   = "3s"

[[load.feed]]
name = "paths"
file = "paths.csv"

[[load.cycle]]
call = "get"
with = { path = "{feed.paths.path}" }
"#,
    );
    let mut playing = sandbox.start_run(&[&experiment]);
    playing.wait_for_load(Duration::ZERO);
    playing.signal("INT");
    playing.wait().exits(130);
    let run = sandbox.run_folder();
    let resumed = sandbox.play(&["run", "--resume", run.to_str().unwrap(), "--json", "--accept"]).exits(0).json();
    assert!(resumed["trials"].as_array().unwrap().iter().all(|trial| trial["ended"] == "done"));
}

#[test]
fn truncated_records_are_read_up_to_the_cut() {
    let sandbox = Sandbox::new();
    sandbox.run(&[FIRST, "--set", THINK, "--set", "load.time=3s"]).exits(0);
    let run = sandbox.run_folder();
    let trial = run.join("trials/001");
    for name in ["load.hlog", "outcomes.csv", "samples.csv", "events.jsonl", "generator.csv", "attempts.csv"] {
        let path = trial.join(name);
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - length / 10 - 3).unwrap();
    }
    let played = sandbox.play(&["analyze", run.to_str().unwrap()]).exits(0);
    is_partial(&played, &run);
}

#[test]
fn a_broken_record_is_reported_with_its_line() {
    let sandbox = Sandbox::new();
    sandbox.run(&[FIRST, "--set", THINK, "--set", "load.time=2s"]).exits(0);
    let run = sandbox.run_folder();
    let path = run.join("trials/001/outcomes.csv");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let middle = lines.len() / 2;
    lines[middle] = "what,is,this";
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let played = sandbox.play(&["analyze", run.to_str().unwrap()]);
    assert_ne!(played.code, 0);
    played.says(&["outcomes.csv", &(middle + 1).to_string()]);
}

#[test]
fn folders_without_a_run_are_refused() {
    let sandbox = Sandbox::new();
    for command in ["analyze", "show"] {
        sandbox.play(&[command, sandbox.path().to_str().unwrap()]).exits(2);
        sandbox.play(&[command, "no-such-folder"]).exits(2).says(&["no-such-folder"]);
    }
}

/// Plays a long experiment on a disk of this size, in a separate mount namespace. `script` replaces
/// the run: its `$1` is the disk, `$2` the program and `$3` the experiment. If no disk can be
/// mounted, prints the reason and returns `None`.
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
pub fn on_a_disk_of(size: &str, sandbox: &Sandbox, script: &str, experiment: &str) -> Option<Output> {
    let script = format!("mkdir -p \"$1\" && mount -t tmpfs -o size={size} none \"$1\" || exit 77; {script}");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(sandbox.path().join("small"))
        .args([env!("CARGO_BIN_EXE_plimsoll"), experiment])
        .current_dir(crate::sandbox::root())
        .env("PLIMSOLL_TEST_STAGE", sandbox.path())
        .env("XDG_RUNTIME_DIR", sandbox.path().join("registry"))
        .env("TMPDIR", sandbox.path().join("scratch"))
        .output()
        .expect("unshare is part of every Linux");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        eprintln!("NOT TESTED: this machine lets us make no mount namespace: {said}");
        return None;
    }
    Some(output)
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let script = "\"$2\" run \"$3\" --set load.time=3m --out \"$1\" --accept";
    let Some(output) = on_a_disk_of("64k", &sandbox, script, FIRST) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left"), "{said}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// The disk is almost full while a load runs. The run ends as if interrupted, with a report, before
/// a record is lost.
#[test]
fn a_filling_disk_ends_the_run_with_a_report() {
    let sandbox = Sandbox::new();
    // An eighth of the disk is kept free. This leaves slightly more.
    let script = "head -c 21700000 /dev/zero > \"$1/filled\"; \"$2\" run \"$3\" --set load.time=3m --set load.think=10ms --out \"$1\" --accept; \
        code=$?; cat \"$1\"/*/ending.json; ls \"$1\"/*/; exit $code";
    let Some(output) = on_a_disk_of("24m", &sandbox, script, FIRST) else { return };
    let (said, found) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}{found}");
    assert!(found.contains("interrupted") && found.contains("nearly full") && found.contains("report.html"), "{found}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Regression: a trial without a load waited forever for the records of a load.
#[test]
fn a_trial_without_load_ends() {
    let Some(_turn) = crate::lab_traces::turn() else { return };
    let sandbox = Sandbox::new();
    let file = sandbox.file(
        "exercise.toml",
        r#"
title = "a lab exercise"
asks  = "Does it end?"
[target]
use = "echo"
[lab]
hosts = 2
[[fault]]
name = "pause"
kind = "pause"
on   = "n1"
at   = "100ms"
for  = "200ms"
"#,
    );
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_eq!(results["trials"][0]["ended"], "done");
    assert_eq!(results["trials"][0]["faults"][0]["on"], "n1");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// A container may share the registry's folder, but other processes have the same numbers there.
#[test]
fn clean_in_a_container_leaves_a_live_run_alone() {
    if !crate::local_attacks::is_root() {
        eprintln!("skipped: a pid namespace needs root");
        return;
    }
    let mut sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[FIRST, "--set", THINK, "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    let before = sandbox.leftovers_now();
    let here = sandbox.path().to_path_buf();
    sandbox.within("exec unshare --pid --fork --mount-proc \"$@\"", &here);
    let cleaned = sandbox.play(&["clean"]).exits(0).says(&["began in another pid namespace"]);
    assert_eq!(cleaned.stdout, "nothing was left\n");
    assert_eq!(sandbox.leftovers_now(), before);
    playing.signal("INT");
    playing.wait().exits(130);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_missing_tmpdir_is_reported_and_not_created() {
    let sandbox = Sandbox::new();
    let missing = sandbox.path().join("no/such");
    let variable = ("TMPDIR", missing.to_str().unwrap());
    let runs = sandbox.path().join("runs");
    let run = ["run", FIRST, "--set", THINK, "--set", "load.time=2s", "--accept", "--out", runs.to_str().unwrap()];
    sandbox.play_with(variable, &run).exits(3).says(&["no/such", "TMPDIR"]);
    sandbox.play_with(variable, &["clean"]).exits(0);
    assert!(!sandbox.path().join("no").exists());
}

#[test]
fn a_resumed_run_stays_within_its_folder() {
    let sandbox = Sandbox::new();
    sandbox.run(&[FIRST, "--set", THINK, "--set", "load.time=2s"]).exits(0);
    let run = sandbox.run_folder();
    let victim = sandbox.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "").unwrap();
    let plan = fs::read_to_string(run.join("plan.json")).unwrap();
    let resume = ["run", "--resume", run.to_str().unwrap(), "--accept"];
    for id in ["../../../victim", victim.to_str().unwrap(), ".."] {
        fs::write(run.join("plan.json"), plan.replacen("\"id\": \"001\"", &format!("\"id\": \"{id}\""), 1)).unwrap();
        assert!(fs::read_to_string(run.join("plan.json")).unwrap().contains(id));
        sandbox.play(&resume).exits(2).says(&["is not a trial name", id]);
        assert!(victim.join("precious").exists() && run.join("trials/001/events.jsonl").exists());
    }
    // A plan can start programs, so a plan that every user can write is not trusted.
    fs::write(run.join("plan.json"), &plan).unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(run.join("plan.json"), mode(0o666)).unwrap();
    sandbox.play(&resume).exits(2).says(&["plan.json", "all users may write to it", "chmod"]);
    fs::set_permissions(run.join("plan.json"), mode(0o644)).unwrap();
    sandbox.play(&resume).exits(0);
}
