//! Targets that do not start: exit code 4, the reason, the last lines of their log, and no
//! leftovers.

use std::fs;
use std::net::TcpListener;

use fixture::free_address;

use crate::sandbox::Sandbox;

/// Returns an experiment whose target is started by `command` and expected at `port`.
fn experiment(command: &str, port: u16, more: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nstart = '''{command}'''\nurl = \"http://127.0.0.1:{port}/\"\n{more}\n\
         [load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    )
}

fn echo(port: u16) -> String {
    format!("{} echo --listen 127.0.0.1:{port}", env!("CARGO_BIN_EXE_plimsoll"))
}

#[test]
fn a_command_can_start_the_target() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let file = sandbox.file("started.toml", experiment(&echo(port), port, ""));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(results["trials"][0]["outcomes"]["ok"].as_u64().unwrap() > 0);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_target_that_dies_at_start_exits_4_with_its_log() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("dies.toml", experiment("echo my config is broken >&2; exit 3", free_address().port(), ""));
    sandbox.run(&[&file]).exits(4).says(&["my config is broken", "3"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_target_that_never_gets_ready_exits_4() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("never.toml", experiment("sleep 600", free_address().port(), "within = \"500ms\""));
    sandbox.run(&[&file]).exits(4);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Returns a server that fails at these starts, counted from 1.
fn failing_at(sandbox: &Sandbox, starts: &str, port: u16) -> String {
    let count = sandbox.path().join("starts");
    let (count, echo) = (count.display(), echo(port));
    format!("echo >> {count}; case $(wc -l < {count}) in {starts}) echo not now >&2; exit 1;; esac; exec {echo}")
}

fn with_search(text: &str) -> String {
    let find =
        "[find]\nhighest = \"load.agents\"\nwhile = [{ metric = \"failed_pct\", below = 50 }]\nup_to = 2\ntrials = 4\n";
    format!("{text}{find}")
}

/// Regression: a server needed ten seconds until it could start again, and the search ended after
/// its first trial.
#[test]
fn a_search_retries_a_failed_start() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let text = experiment(&failing_at(&sandbox, "1|3|4", port), port, "");
    let file = sandbox.file("search.toml", with_search(&text));
    let played = sandbox.run(&[&file, "--plain"]).exits(0);
    assert!(played.json()["trials"].as_array().unwrap().len() > 1, "{}", played.stderr);
    played.says(&["not now", "the target is started again (2 of 3)", "the target is started again (3 of 3)"]);
    let events = fs::read_to_string(sandbox.run_folder().join("trials/002/events.jsonl")).unwrap();
    assert!(events.contains("the target is started again (3 of 3)"), "{events}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_search_reports_partial_results_if_retries_fail() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let file = sandbox.file("search.toml", with_search(&experiment(&failing_at(&sandbox, "2|3|4", port), port, "")));
    let played = sandbox.run(&[&file, "--plain"]).exits(4);
    let results = played.json();
    assert_eq!((&results["trials"][0]["ended"], &results["trials"][1]["ended"]), (&"done".into(), &"failed".into()));
    assert!(results["partial"].as_str().unwrap().contains("1 of 2 trials"), "{}", results["partial"]);
}

#[test]
fn a_start_is_retried_only_after_a_first_success() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let text = |starts: &str| format!("repeat = 2\n{}", experiment(&failing_at(&sandbox, starts, port), port, ""));
    let file = sandbox.file("first.toml", text("1"));
    assert!(!sandbox.run(&[&file, "--plain"]).exits(4).stderr.contains("started again"));
    fs::remove_dir_all(sandbox.runs()).unwrap();
    fs::remove_file(sandbox.path().join("starts")).unwrap();
    let file = sandbox.file("second.toml", text("2"));
    sandbox.run(&[&file, "--plain"]).exits(0).says(&["the target is started again (2 of 3)"]);
}

#[test]
fn a_port_already_taken_is_not_mistaken_for_the_target() {
    let sandbox = Sandbox::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = sandbox.file("taken.toml", experiment(&echo(port), port, ""));
    let played = sandbox.run(&[&file]);
    assert!(matches!(played.code, 3 | 4), "{}: {}", played.code, played.stderr);
    played.says(&[&port.to_string()]);
}
