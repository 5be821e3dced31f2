//! Lost outputs: a closed terminal, a full disk, a reader that has ended. A run ends like an
//! interrupted run, and a command that only prints ends quietly.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::hit::echo;
use crate::interruptions::is_partial;
use crate::sandbox::{Playing, Sandbox, json, until};

const FIRST: &str = "experiments/01-first-run.toml";

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Returns the two ends of a terminal: the end that shows it, and the end to which programs write.
fn terminal() -> (OwnedFd, File) {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&shown).unwrap();
    unlockpt(&shown).unwrap();
    let name = ptsname(&shown, Vec::new()).unwrap();
    let no_ctty = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
    let written = File::options().read(true).write(true).custom_flags(no_ctty).open(name.to_str().unwrap()).unwrap();
    (shown, written)
}

/// Returns the arguments of a run that is too long to wait for.
fn long_run(sandbox: &Sandbox) -> Vec<String> {
    let runs = sandbox.runs().display().to_string();
    ["run", FIRST, "--set", "load.time=10m", "--out", &runs, "--accept"].map(str::to_owned).to_vec()
}

fn begin(sandbox: &Sandbox, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Playing {
    let words = long_run(sandbox);
    sandbox.start_with(&words.iter().map(String::as_str).collect::<Vec<_>>(), stdout, stderr)
}

/// Checks that the run was interrupted under load and ended in good order.
fn ended_in_order(sandbox: &Sandbox, playing: Playing) {
    let played = playing.wait().exits(130);
    let run = sandbox.run_folder();
    is_partial(&played, &run);
    assert_eq!(json(&run.join("ending.json"))["how"], "interrupted");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn an_exceeded_file_size_limit_is_reported() {
    let mut sandbox = Sandbox::new();
    sandbox.within("ulimit -f 2 && exec \"$@\"", std::path::Path::new("sh"));
    sandbox.run(&[FIRST]).exits(1).says(&["cannot write the run folder", "ulimit -f"]);
}

#[test]
fn a_run_whose_stderr_is_a_full_disk_is_interrupted() {
    let sandbox = Sandbox::new();
    begin(&sandbox, Stdio::piped(), full()).wait().exits(130);
    let run = sandbox.run_folder();
    assert_eq!(json(&run.join("ending.json"))["how"], "interrupted");
    assert!(json(&run.join("analysis.json"))["partial"].is_string() && run.join("report.html").exists());
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_run_whose_stderr_loses_its_reader_is_interrupted() {
    let sandbox = Sandbox::new();
    let mut playing = begin(&sandbox, Stdio::piped(), Stdio::piped());
    playing.wait_for_records();
    playing.close_stderr();
    ended_in_order(&sandbox, playing);
}

#[test]
fn a_run_whose_stdout_loses_its_reader_is_interrupted() {
    let sandbox = Sandbox::new();
    let mut playing = begin(&sandbox, Stdio::piped(), Stdio::piped());
    playing.wait_for_records();
    playing.close_stdout();
    ended_in_order(&sandbox, playing);
}

#[test]
fn a_run_piped_into_head_is_interrupted() {
    let sandbox = Sandbox::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut playing = begin(&sandbox, writer.try_clone().unwrap(), writer);
    // Read the line with the path of the run folder.
    let mut first = [0; 1];
    while first != *b"\n" {
        reader.read_exact(&mut first).unwrap();
    }
    playing.wait_for_records();
    drop(reader);
    ended_in_order(&sandbox, playing);
}

#[test]
fn a_run_whose_terminal_is_closed_is_interrupted() {
    let sandbox = Sandbox::new();
    let (shown, written) = terminal();
    let mut playing = begin(&sandbox, written.try_clone().unwrap(), written);
    playing.wait_for_records();
    drop(shown);
    ended_in_order(&sandbox, playing);
}

#[test]
fn a_run_that_loses_its_controlling_terminal_is_interrupted() {
    let mut sandbox = Sandbox::new();
    // As in a shell, the kernel sends SIGHUP when the terminal closes.
    sandbox.within("exec setsid --ctty --wait \"$@\" <&2", std::path::Path::new("/"));
    let (shown, written) = terminal();
    let mut playing = begin(&sandbox, written.try_clone().unwrap(), written);
    playing.wait_for_records();
    drop(shown);
    ended_in_order(&sandbox, playing);
}

#[test]
fn a_run_under_nohup_outlives_a_hangup() {
    let mut sandbox = Sandbox::new();
    sandbox.within("trap '' HUP; exec \"$@\"", std::path::Path::new("/"));
    let mut playing = begin(&sandbox, Stdio::piped(), Stdio::piped());
    playing.wait_for_load(Duration::ZERO);
    playing.signal("HUP");
    playing.signal("INT");
    // If the hangup counted as a request, the interrupt would end the run at once.
    playing.wait().exits(130).says(&["stopping gracefully"]);
}

#[test]
fn a_hit_whose_terminal_is_closed_is_interrupted() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let (shown, written) = terminal();
    let playing = sandbox.start_with(&["hit", &url, "-c", "2", "-t", "10m"], written.try_clone().unwrap(), written);
    // The live view has begun.
    let mut shown = File::from(shown);
    let mut seen = Vec::new();
    until("the view is drawn", || {
        let mut piece = [0; 512];
        let count = shown.read(&mut piece).unwrap();
        seen.extend(&piece[..count]);
        String::from_utf8_lossy(&seen).contains("ok in the last second")
    });
    drop(shown);
    playing.wait().exits(130);
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn printing_commands_end_quietly_without_a_reader() {
    let sandbox = Sandbox::new();
    for words in [
        &["schema", "experiment"][..],
        &["schema", "results"],
        &["targets"],
        &["profiles"],
        &["faults"],
        &["protocols"],
        &["completions", "bash"],
        &["man"],
        &["new"],
        &["check", FIRST],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let played = sandbox.start_with(words, writer, Stdio::piped()).wait().exits(0);
        assert_eq!(played.stderr, "", "{words:?}");
    }
}

#[test]
fn printing_to_a_full_disk_exits_1() {
    let sandbox = Sandbox::new();
    for words in [&["schema", "experiment"][..], &["targets"], &["check", FIRST]] {
        let played = sandbox.start_with(words, full(), Stdio::piped()).wait().exits(1);
        played.says(&["cannot write to standard output", "No space left"]);
    }
}

#[test]
fn errors_keep_their_exit_code_if_stderr_is_full() {
    let sandbox = Sandbox::new();
    sandbox.start_with(&["check", "no-such-file.toml"], Stdio::piped(), full()).wait().exits(2);
    sandbox.start_with(&["hit", "ftp://nowhere"], Stdio::piped(), full()).wait().exits(2);
}
