//! SIGKILL at any moment of a large lab: whatever it had made by then, `plimsoll clean` finds it and the machine is as it was.

use std::time::Duration;

use crate::machine;
use crate::stage::Stage;

/// How often, unless `PLIMSOLL_TEST_KILLS` says otherwise.
const KILLS: u64 = 6;
/// The latest moment of a kill. By then the lab is up and its faults have come and gone.
const LATEST_MS: u64 = 3_000;

/// Sixteen hosts, two of which have slow cores and a disk of their own, with a fault of each sort.
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

#[test]
#[expect(clippy::disallowed_methods, reason = "the moment of a kill is waited for")]
fn after_a_kill_at_any_moment_clean_leaves_the_machine_as_it_was() {
    let Some(_turn) = machine::turn() else { return };
    let kills = std::env::var("PLIMSOLL_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut moments = fastrand::Rng::with_seed(kills);
    let before = machine::inventory();
    let mut found_something = false;
    for kill in 1..=kills {
        let stage = Stage::new().with_shelves();
        stage.file("profiles/small.toml", SMALL);
        let file = stage.file("killed.toml", LAB);
        let moment = Duration::from_millis(moments.u64(0..LATEST_MS));
        let playing = stage.start_run(&[&file]);
        std::thread::sleep(moment);
        playing.signal("KILL");
        let played = playing.wait();
        assert_eq!(played.code, -1, "it had ended before it was killed: {}", played.stderr);
        let cleaned = stage.play(&["clean"]).exits(0);
        found_something |= cleaned.stdout.contains("cgroup") || cleaned.stdout.contains("control group");
        assert_eq!(machine::added_since(&before), [""; 0], "kill {kill} after {moment:?}:\n{}", cleaned.stdout);
        assert_eq!(stage.leftovers(), [""; 0], "kill {kill} after {moment:?}:\n{}", cleaned.stdout);
    }
    assert!(found_something, "a killed lab cannot tidy up, or else this test shows nothing");
}
