//! SIGKILL at a random moment of a large lab. `plimsoll clean` finds everything that the run had
//! made, restores the machine, and the run folder can be analysed.

use std::time::Duration;

use crate::lab_traces;
use crate::sandbox::{Played, Playing, Sandbox};

/// Number of kills, unless `PLIMSOLL_TEST_KILLS` is set.
const KILLS: u64 = 6;
/// Latest moment of a kill. By then the lab is up, and its faults have come and gone.
const LATEST_MS: u64 = 3_000;

/// Lab of sixteen hosts, two of which have slow cores and a separate disk, with a fault of each
/// sort.
const LAB: &str = r#"
title = "killed"
asks  = "Is everything found again?"
[target]
use = "notebook"
[lab]
measure_storage = false
[[lab.host]]
name  = "plain"
count = 14
[[lab.host]]
name    = "small"
count   = 2
profile = "small"
[load]
agents  = 16
time    = "1m"
timeout = "300ms"
think   = "20ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/write" }
[[fault]]
name = "partition"
kind = "partition"
on   = "minority"
at   = "200ms"
for  = "1s"
[[fault]]
name  = "crash"
kind  = "host_crash"
on    = "one"
every = "700ms"
for   = "300ms"
[[fault]]
name = "disk"
kind = "slow_disk"
on   = "small1"
at   = "300ms"
for  = "500ms"
with = { write_iops = 50 }
[[fault]]
name = "full"
kind = "full_disk"
on   = "small2"
at   = "400ms"
for  = "500ms"
[[fault]]
name = "freeze"
kind = "host_freeze"
on   = "plain3"
at   = "500ms"
for  = "500ms"
[[fault]]
name = "squeeze"
kind = "squeeze"
on   = "small1"
at   = "600ms"
for  = "500ms"
with = { cpu = 0.5 }
[[fault]]
name = "loss"
kind = "lossy_link"
on   = "plain4"
at   = "700ms"
for  = "500ms"
with = { loss_pct = 20 }
"#;

const SMALL: &str = r#"
what = "small"
[cpu]
source = "made up"
cores  = 2
speed  = 0.1
[disk]
source     = "made up"
size       = "64MiB"
write_iops = 500
[memory]
source = "made up"
size   = "256MiB"
"#;

/// Processes that are killed. They take turns.
#[derive(Debug, Clone, Copy)]
enum Victim {
    /// The run, while its lab comes up, under load or in the middle of its faults.
    Run,
    /// The run, while it takes its lab down after an interruption.
    EndingRun,
    /// The run, and then `clean` as well, three times over.
    RunAndClean,
}

#[test]
fn clean_restores_the_machine_after_a_kill_at_any_moment() {
    let Some(_turn) = lab_traces::turn_alone() else { return };
    let kills = std::env::var("PLIMSOLL_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut moments = fastrand::Rng::with_seed(kills);
    let before = lab_traces::inventory();
    let (mut found_something, mut folders, mut cleans_killed) = (false, 0, 0);
    for kill in 1..=kills {
        let sandbox = Sandbox::new().with_shelves();
        sandbox.file("profiles/small.toml", SMALL);
        let file = sandbox.file("killed.toml", LAB);
        let victim = [Victim::Run, Victim::EndingRun, Victim::RunAndClean][(kill % 3) as usize];
        let moment = kill_one(&sandbox, &file, victim, &mut moments);
        if matches!(victim, Victim::RunAndClean) {
            for _ in 0..3 {
                kill_after(sandbox.start(&["clean"]), moments.u64(0..300));
                cleans_killed += 1;
            }
        }
        let cleaned = sandbox.play(&["clean"]).exits(0);
        found_something |= cleaned.stdout.contains("cgroup") || cleaned.stdout.contains("control group");
        assert_eq!(
            lab_traces::added_since(&before),
            [""; 0],
            "kill {kill} of {victim:?} {moment}:\n{}",
            cleaned.stdout
        );
        assert_eq!(sandbox.leftovers(), [""; 0], "kill {kill} of {victim:?} {moment}:\n{}", cleaned.stdout);
        folders += u64::from(folder_can_be_analysed(&sandbox));
    }
    assert!(found_something, "a killed lab cannot tidy up, or else this test shows nothing");
    assert!(folders > 0, "no kill left a folder to read");
    println!("campaign: kills={kills} cleans_killed={cleans_killed} leaks=0 folders={folders} unreadable=0");
}

/// Kills a run, and returns a description of the moment.
fn kill_one(sandbox: &Sandbox, file: &str, victim: Victim, moments: &mut fastrand::Rng) -> String {
    let mut playing = sandbox.start_run(&[file]);
    match victim {
        Victim::Run | Victim::RunAndClean => {
            let after_ms = moments.u64(0..LATEST_MS);
            let killed = kill_after(playing, after_ms);
            assert_eq!(killed.code, -1, "it had ended before it was killed: {}", killed.stderr);
            format!("after {after_ms} ms")
        }
        Victim::EndingRun => {
            playing.wait_for_event("\"phase\":\"load\"");
            playing.signal("INT");
            let after_ms = moments.u64(0..600);
            // The run may have ended by then, which is also a valid moment.
            kill_after(playing, after_ms);
            format!("{after_ms} ms after its interruption")
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the moment of a kill is waited for")]
fn kill_after(playing: Playing, after_ms: u64) -> Played {
    std::thread::sleep(Duration::from_millis(after_ms));
    playing.signal("KILL");
    playing.wait()
}

/// Whether there is a run folder. Asserts that it can be read.
fn folder_can_be_analysed(sandbox: &Sandbox) -> bool {
    let Some(folder) = sandbox.any_run_folder() else { return false };
    let analysed = sandbox.play(&["analyze", folder.to_str().unwrap(), "--json"]).exits(0);
    assert!(analysed.json()["verdict"]["is"].is_string(), "{}", analysed.stdout);
    assert!(folder.join("report.html").is_file());
    true
}
