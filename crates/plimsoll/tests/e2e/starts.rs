//! Targets that do not come up: exit code 4, the reason, the last lines of their log, and nothing left.

use std::net::TcpListener;

use crate::stage::Stage;

/// An experiment whose target is started by `command` and expected at `port`.
fn experiment(command: &str, port: u16, more: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nstart = '''{command}'''\nurl = \"http://127.0.0.1:{port}/\"\n{more}\n\
         [load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    )
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn echo(port: u16) -> String {
    format!("{} echo --listen 127.0.0.1:{port}", env!("CARGO_BIN_EXE_plimsoll"))
}

#[test]
fn a_command_is_a_target() {
    let stage = Stage::new();
    let port = free_port();
    let file = stage.file("started.toml", experiment(&echo(port), port, ""));
    let results = stage.run(&[&file]).exits(0).json();
    assert!(results["trials"][0]["outcomes"]["ok"].as_u64().unwrap() > 0);
    assert_eq!(stage.leftovers(), [""; 0]);
}

#[test]
fn a_target_that_dies_at_start_exits_4_and_shows_its_last_words() {
    let stage = Stage::new();
    let file = stage.file("dies.toml", experiment("echo my config is broken >&2; exit 3", free_port(), ""));
    stage.run(&[&file]).exits(4).says(&["my config is broken", "3"]);
    assert_eq!(stage.leftovers(), [""; 0]);
}

#[test]
fn a_target_that_never_gets_ready_exits_4() {
    let stage = Stage::new();
    let file = stage.file("never.toml", experiment("sleep 600", free_port(), "within = \"500ms\""));
    stage.run(&[&file]).exits(4);
    assert_eq!(stage.leftovers(), [""; 0]);
}

#[test]
fn a_port_already_taken_is_not_mistaken_for_the_target() {
    let stage = Stage::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = stage.file("taken.toml", experiment(&echo(port), port, ""));
    let played = stage.run(&[&file]);
    assert!(matches!(played.code, 3 | 4), "{}: {}", played.code, played.stderr);
    played.says(&[&port.to_string()]);
}
