//! Tests of the scripts, played by this machine's own shell, as a login shell would.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::fixture::{Scratch, is_alive, until};

const RUN: &str = "test-1";
const NAME: &str = "plimsoll-run-test-1-n1";

fn login(script: &str, temporary: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("TMPDIR", temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Plays the guard until it says where its folder is.
fn guarded(temporary: &Path) -> (Child, Vec<String>, PathBuf) {
    let mut guard = login(&guard(RUN, "n1"), temporary).spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(guard.stdout.as_mut().unwrap()).lines() {
        lines.push(line.unwrap());
        if let Some(folder) = lines.last().unwrap().strip_prefix("plimsoll folder ") {
            let folder = PathBuf::from(folder);
            return (guard, lines, folder);
        }
    }
    panic!("the guard ended ({:?}): {lines:?}", guard.wait())
}

#[test]
fn any_login_shell_passes_them_on() {
    let scripts =
        [guard(RUN, "n1"), clean(RUN, NAME), runner("/t/x"), receive_program("/t/x", "cat"), receive_folder("/t/x")];
    for script in scripts {
        assert_eq!(script.matches('\'').count(), 2, "{script}");
        assert!(!script.contains(['\n', '!']), "{script}");
    }
}

#[test]
fn the_guard_makes_a_private_folder_and_removes_it_when_its_input_ends() {
    use std::os::unix::fs::PermissionsExt as _;
    let temporary = Scratch::new();
    let (mut guard, lines, folder) = guarded(&temporary);
    assert!(folder.starts_with(&*temporary) && folder.join("data").is_dir() && !folder.join("try").exists());
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(lines.iter().any(|line| line.starts_with("plimsoll system Linux ")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.strip_prefix("plimsoll free ").is_some_and(|free| free.parse::<u64>().is_ok()))
    );
    drop(guard.stdin.take());
    assert!(guard.wait().unwrap().success());
    assert!(!folder.exists());
}

#[test]
fn what_was_started_from_the_folder_ends_with_it_and_nothing_else() {
    let temporary = Scratch::new();
    let (mut guard, _, folder) = guarded(&temporary);
    let start = |mark: &str| Command::new("sleep").arg("1000").env(MARK, mark).spawn().unwrap();
    let mut ours = start(&folder.display().to_string());
    let mut other = start(&format!("{}x", folder.display()));
    drop(guard.stdin.take());
    guard.wait().unwrap();
    until("it is killed", || !is_alive(ours.id()));
    assert!(is_alive(other.id()) && !folder.exists());
    other.kill().unwrap();
    let _ = (ours.wait(), other.wait());
}

#[test]
fn clean_finds_what_a_killed_guard_left() {
    let temporary = Scratch::new();
    let (mut guard, _, folder) = guarded(&temporary);
    guard.kill().unwrap();
    guard.wait().unwrap();
    let precious = temporary.join(format!("{NAME}0.abcdef"));
    fs::create_dir(&precious).unwrap();
    assert!(folder.is_dir());
    let output = login(&clean(RUN, NAME), &temporary).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("plimsoll removed {}\n", folder.display()));
    assert!(!folder.exists() && precious.is_dir());
}

#[test]
fn names_are_safe_in_a_shell() {
    assert_eq!(folder_name("ab-1-2-3", "web $(1)"), "plimsoll-run-ab-1-2-3-web---1-");
    assert!(is_plain("/var/tmp/plimsoll-run-1-n1.Xy_0"));
    for folder in ["/my files/x", "/a;b", "relative", "", "/a'b"] {
        assert!(!is_plain(folder), "{folder}");
    }
}
