//! Programs as operations, through the binary: their results, and that no program is left however
//! the run ends.

use std::time::Duration;

use crate::sandbox::{Sandbox, marked, number, until};

fn experiment(command: &str, rest: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nprotocol = \"command\"\n[load]\nagents = 3\ntime = \"2s\"\ntimeout = \"60s\"\n\
         [[load.cycle]]\ncall = \"run\"\nwith = {{ command = '''{command}''' }}\n{rest}"
    )
}

#[test]
fn programs_are_a_target() {
    let sandbox = Sandbox::new();
    let file =
        sandbox.file("programs.toml", experiment("echo '{agent} {seq}'", "expect = { stdout = \"{agent} {seq}\" }\n"));
    let played = sandbox.play(&["check", &file]).exits(0);
    assert!(played.stdout.contains("command"), "{}", played.stdout);
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
    for outcome in ["failed", "timeout", "wrong"] {
        assert_eq!(number(&results, &format!("/trials/0/outcomes/{outcome}")), 0.0, "{outcome}");
    }
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_missing_program_fails_and_a_bad_line_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("none.toml", experiment("no-such-program-anywhere", ""));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 0.0);
    assert!(number(&results, "/trials/0/outcomes/failed") > 0.0);
    let file = sandbox.file("open.toml", experiment("echo \"open", ""));
    let played = sandbox.run(&[&file]);
    assert_ne!(played.code, 0);
    played.says(&["quote"]);
}

#[test]
fn an_interrupted_run_leaves_no_program() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("long.toml", experiment("sh -c 'sleep 600 & wait'", ""));
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=100s"]);
    playing.wait_for_load(Duration::from_millis(300));
    playing.signal("INT");
    assert_eq!(playing.wait().code, 130);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_killed_run_leaves_no_program() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("long.toml", experiment("sleep 600", ""));
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=100s"]);
    playing.wait_for_load(Duration::ZERO);
    until("a program runs", || marked(&sandbox.mark()).iter().any(|line| line.starts_with("sleep")));
    playing.signal("KILL");
    playing.wait();
    until("all are gone", || !marked(&sandbox.mark()).iter().any(|line| line.starts_with("sleep")));
}
