//! Tests of hooks with real scripts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::hosts::{FakeHost, Strings};
use crate::fixture::{Bench, Scratch, is_alive, until};

fn hook(folder: &Scratch, script: &str) -> Hook {
    Hook {
        name: "inspect".to_owned(),
        folder: folder.to_path_buf(),
        path: folder.script("hooks/inspect", script),
        arguments: vec!["one".to_owned()],
        environment: BTreeMap::from([("PLIMSOLL_HOST".to_owned(), "here".into())]),
        within: Duration::from_secs(20),
        answer_bytes: ANSWER_BYTES,
        in_foreground: false,
    }
}

#[test]
fn a_hook_answers_with_an_object() {
    let folder = Scratch::new();
    let answer = hook(
        &folder,
        r#"echo noise >&2; printf '{"at": "%s", "n": "%s",' "$PLIMSOLL_HOST" "$1"; echo '"in": "'$PWD'"}'"#,
    );
    let answer = answer.ask().unwrap();
    assert_eq!((answer["at"].as_str(), answer["n"].as_str()), (Some("here"), Some("one")));
    assert_eq!(answer["in"].as_str().map(PathBuf::from), Some(folder.canonicalize().unwrap()));
}

#[test]
fn its_failures_are_told_apart() {
    let folder = Scratch::new();
    let fails = |script: &str| hook(&folder, script).ask().err().unwrap().to_string();
    assert_eq!(fails("echo first >&2; echo no >&2; exit 3"), "hook `inspect` failed: exit status: 3: no");
    assert_eq!(fails("exit 1"), "hook `inspect` failed: exit status: 1: it wrote nothing");
    assert_eq!(fails("echo '[1]'"), "hook `inspect` failed: its answer is not a JSON object");
    assert!(fails("echo yes").contains("its answer is not JSON: "));
    let mut missing = hook(&folder, "");
    missing.path = folder.join("hooks/none");
    assert!(missing.ask().err().unwrap().to_string().contains("cannot start "));
}

#[test]
fn a_hook_that_takes_too_long_is_killed_with_what_it_started() {
    let folder = Scratch::new();
    let note = folder.join("pid");
    let mut slow = hook(&folder, &format!("sleep 1000 & echo $! > {}; wait", note.display()));
    slow.within = Duration::from_millis(500);
    assert!(slow.ask().err().unwrap().to_string().contains("not done within"));
    if let Ok(pid) = std::fs::read_to_string(note).unwrap_or_default().trim().parse() {
        until("it is gone", || !is_alive(pid));
    }
}

#[test]
fn what_it_leaves_in_the_background_does_not_hold_us_up() {
    let folder = Scratch::new();
    let note = folder.join("pid");
    let leaves = hook(&folder, &format!("sleep 1000 & echo $! > {}; echo '{{}}'", note.display()));
    assert!(leaves.ask().unwrap().is_object());
    let pid: u32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
    let stat = crate::linux::procfs::stat(pid).unwrap();
    assert!(pidfd::signal(&stat, Signal::KILL));
}

#[test]
fn variables_are_in_capitals() {
    assert_eq!(variable("PLIMSOLL_PORT_", "http"), "PLIMSOLL_PORT_HTTP");
    assert_eq!(variable("PLIMSOLL_WITH_", "hub-wait.ms"), "PLIMSOLL_WITH_HUB_WAIT_MS");
}

#[test]
fn a_hook_is_asked_on_another_host_the_same_way() {
    let bench = Bench::new();
    let host = FakeHost::new(2, &bench.registry, Strings::default());
    let folder = Scratch::new();
    let answering = r#"printf '{"at": "%s", "n": "%s", "in": "%s"}' "$PLIMSOLL_HOST" "$1" "$PWD""#;
    let answer = hook(&folder, answering).ask_on(&host).unwrap();
    assert_eq!((answer["at"].as_str(), answer["n"].as_str()), (Some("here"), Some("one")));
    assert_eq!(answer["in"].as_str().map(PathBuf::from), Some(folder.canonicalize().unwrap()));
    let fails = |script: &str| hook(&folder, script).ask_on(&host).err().unwrap().to_string();
    assert_eq!(fails("echo no >&2; exit 3"), "hook `inspect` failed: exit 3 on n2: no");
    assert_eq!(fails("echo '[1]'"), "hook `inspect` failed: its answer is not a JSON object");
}
