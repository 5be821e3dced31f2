//! Labs that end early: interrupted, with a lost host, or with a full disk. Everything is removed,
//! and measurements are kept.
#![allow(clippy::disallowed_methods, reason = "the moment of a signal is waited for")]

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::lab_setup::{played, sandbox};
use crate::lab_traces;
use crate::sandbox::{Played, signal};

/// Sixteen hosts, two of them with a separate disk, and faults that heal only at the end of the
/// trial.
const MANY: &str =
    "[[lab.host]]\nname = \"plain\"\ncount = 14\n[[lab.host]]\nname = \"small\"\ncount = 2\nprofile = \"small\"\n";
const LASTING: &str = "[[fault]]\nname = \"cut\"\nkind = \"partition\"\non = \"minority\"\nat = \"100ms\"\n\
    [[fault]]\nname = \"freeze\"\nkind = \"host_freeze\"\non = \"plain3\"\nat = \"150ms\"\n\
    [[fault]]\nname = \"disk\"\nkind = \"slow_disk\"\non = \"small1\"\nat = \"150ms\"\nwith = { write_iops = 20 }\n\
    [[fault]]\nname = \"crash\"\nkind = \"host_crash\"\non = \"plain5\"\nat = \"200ms\"\n";

#[test]
fn a_large_lab_is_removed_at_any_interrupt() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for (words, signals) in [
        ("starting 16 hosts", &["INT"][..]),
        ("starting 16 hosts", &["INT", "INT"]),
        ("all 16 hosts are up", &["TERM"]),
        ("preparing", &["INT"]),
        ("preparing", &["TERM", "INT"]),
        ("fault crash", &["INT"]),
        ("fault crash", &["HUP"]),
        ("fault crash", &["INT", "TERM"]),
    ] {
        let prepare = "[[prepare]]\ncall = \"get\"\ncount = 400\nwith = { path = \"/\" }\n";
        let (sandbox, file) = sandbox(MANY, &format!("{LASTING}{prepare}"));
        let mut playing = sandbox.start_run(&[&file, "--set", "load.time=1m"]);
        playing.wait_for_words(words);
        for signal in signals {
            playing.signal(signal);
            std::thread::sleep(Duration::from_millis(30));
        }
        let done = playing.wait().exits(130);
        let results = done.json();
        let partial = results["partial"].as_str().unwrap_or_default();
        assert!(partial.contains("interrupted"), "{words} {signals:?}: {partial}");
        assert!(sandbox.run_folder().join("report.html").exists(), "{words} {signals:?}");
        assert_eq!(sandbox.leftovers(), [""; 0], "{words} {signals:?}");
        assert_eq!(lab_traces::added_since(&before), [""; 0], "{words} {signals:?}");
    }
}

#[test]
fn an_interrupt_during_teardown_starts_no_further_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let (sandbox, file) = sandbox("hosts = 2", "");
    let mut playing = sandbox.start_run(&[&file, "--set", "repeat=3"]);
    playing.wait_for_words("stopping the target");
    playing.signal("INT");
    let done = playing.wait().exits(130);
    assert!(!done.stderr.contains("trial 2"), "{}", done.stderr);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn an_interrupt_while_hosts_start_ends_the_run() {
    let Some(_turn) = lab_traces::turn() else { return };
    let (sandbox, file) = sandbox("hosts = 3", "");
    let mut playing = sandbox.start_run(&[&file, "--set", "lab.measure_storage=true"]);
    playing.wait_for_words("starting 3 hosts");
    playing.signal("INT");
    playing.wait().exits(130);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_host_killed_at_the_start_ends_the_run_cleanly() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for wait_ms in [0, 30, 60, 120, 200] {
        let (sandbox, file) = sandbox("hosts = 6", "");
        let mut playing = sandbox.start_run(&[&file, "--set", "load.time=1m"]);
        playing.wait_for_words("starting 6 hosts");
        // The first shim is the switch.
        let mut runners = Vec::new();
        crate::sandbox::until("a shim", || {
            runners = shims(playing.pid());
            runners.len() > 1
        });
        std::thread::sleep(Duration::from_millis(wait_ms));
        signal("KILL", runners[1]);
        // If all hosts were up before the kill, the load goes on without the killed one.
        std::thread::sleep(Duration::from_millis(300));
        playing.signal("INT");
        let done = playing.wait();
        assert!([3, 130].contains(&done.code), "{wait_ms}: {} {}", done.code, done.stderr);
        assert!(done.code == 130 || done.stderr.contains("plimsoll: host n"), "{wait_ms}: {}", done.stderr);
        assert_eq!(sandbox.leftovers(), [""; 0], "{wait_ms}");
        assert_eq!(lab_traces::added_since(&before), [""; 0], "{wait_ms}");
    }
}

/// Kills some of the processes that hold a lab while its load runs. The first of them is the
/// switch. Returns the output, after checking that the trial is void.
fn killed(hosts: usize, which: std::ops::Range<usize>) -> Played {
    let (sandbox, file) = sandbox(&format!("hosts = {hosts}"), "");
    let runs = sandbox.path().join("runs");
    let mut playing =
        sandbox.start(&["run", &file, "--set", "load.time=4s", "--json", "--out", runs.to_str().unwrap()]);
    playing.wait_for_load(Duration::ZERO);
    let shims = shims(playing.pid());
    assert_eq!(shims.len(), hosts + 1, "a switch, and one for each host");
    let pids: Vec<String> = shims[which].iter().map(u32::to_string).collect();
    let killed = Command::new("sh").args(["-c", "kill -s KILL \"$@\"", "sh"]).args(&pids).status().unwrap();
    assert!(killed.success());
    let played = playing.wait().exits(6);
    let trial = &played.json()["trials"][0];
    assert_eq!((&trial["ended"], &trial["verdict"]["is"]), (&"done".into(), &"void".into()), "{trial:#}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    played
}

/// Whether a rule was triggered in the trial.
fn has_rule(played: &Played, rule: &str) -> bool {
    played.json()["trials"][0]["verdict"]["rules"].as_array().unwrap().contains(&rule.into())
}

#[test]
fn a_killed_switch_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let played = killed(2, 0..1).says(&["the switch between the hosts was lost without a fault"]);
    assert!(has_rule(&played, "lost_switch") && !has_rule(&played, "lost_host"), "{}", played.stdout);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_killed_shim_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let played = killed(3, 2..3).says(&["was lost without a fault"]);
    assert!(has_rule(&played, "lost_host") && !has_rule(&played, "lost_switch"), "{}", played.stdout);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn killing_all_shims_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let played = killed(3, 1..4).says(&["host n1 was lost", "host n2 was lost", "host n3 was lost"]);
    assert!(has_rule(&played, "lost_host"), "{}", played.stdout);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Returns the processes that hold the hosts of a run.
fn shims(of: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let mut children: Vec<u32> =
        children.flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    children
        .retain(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("\0runner")));
    children.sort_unstable();
    children
}

/// Limits the disk under TMPDIR, in a separate mount namespace.
#[test]
fn a_full_disk_under_a_lab_is_reported_and_nothing_is_left() {
    let Some(_turn) = lab_traces::turn() else { return };
    const FULL: &str = "mount --make-rprivate / && mount -t tmpfs -o size=$0 none \"$TMPDIR\" && \"$@\"; code=$?; ls -A \"$TMPDIR\"; exit $code";
    let before = lab_traces::inventory();
    for (size, code, words) in
        [("16k", 3, ["hosts/n1/volume", "TMPDIR"]), ("3m", 0, ["the disks of the hosts", "is free"])]
    {
        let (sandbox, file) = sandbox("hosts = 1\nprofile = \"small\"", "");
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            FULL,
            size,
            env!("CARGO_BIN_EXE_plimsoll"),
            "run",
            &file,
            "--accept",
            "--json",
        ]);
        let done = played(command.arg("--out").arg(sandbox.path().join("runs")), &sandbox).exits(code).says(&words);
        assert!(!done.stdout.contains("plimsoll-run"), "left on the disk: {}", done.stdout);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}
