//! Load from several processes: its results as a whole. A lost generator makes the trial void,
//! however it is connected.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Played, Playing, Sandbox, json, number, signal};

/// Writes an experiment with an open loop on the echo target, made by three generators.
fn experiment(sandbox: &Sandbox, fleet: &str) -> String {
    let text = format!(
        r#"
title = "A fleet"
asks  = "Does the load come together?"

[target]
use = "echo"

[load]
agents = 12
rate   = 90
time   = "4s"
warmup = "0s"
drain  = "60s"
timeout = "60s"

[[load.cycle]]
call = "get"
with = {{ path = "/{{seq}}" }}

[fleet]
generators = 3
{fleet}"#
    );
    sandbox.file("fleet.toml", text)
}

/// Returns the threads with rows in the records, and the last time of each.
fn threads(run: &Path) -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(run.join("trials/001/generator.csv")).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (at, thread) = (column("at_s"), column("thread"));
    let mut last = std::collections::BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        last.insert(cells[thread].to_owned(), cells[at].parse().unwrap());
    }
    last.into_iter().collect()
}

/// Checks the clock comparisons of each generator in each second. All share this machine's clock,
/// so that each offset is within its bound, and each bound within the reported error.
fn clocks_are_compared(results: &Value, run: &Path) {
    let text = std::fs::read_to_string(run.join("trials/001/fleet.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("at_s,generator,offset_us,bound_us,error_us"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for name in ["g1", "g2", "g3"] {
        let own: Vec<_> = rows.iter().filter(|row| row[1] == name).collect();
        assert!(own.len() >= 4, "{text}");
        for row in own {
            let [offset_us, bound_us, error_us] = [2, 3, 4].map(|column| row[column].parse::<f64>().unwrap());
            assert!(offset_us.abs() <= bound_us && bound_us <= error_us, "{row:?}");
        }
    }
    assert_eq!(results["trials"][0]["generator"]["fleet"]["generators"], 3);
    assert!(number(results, "/trials/0/generator/fleet/began_within_us") > 0.0);
    assert!(number(results, "/trials/0/generator/fleet/clock_error_us") > 0.0);
}

/// Checks that all 360 scheduled operations are recorded, from three threads.
fn is_whole(results: &Value, run: &Path) {
    let outcomes = ["ok", "failed", "timeout", "wrong", "unfinished"];
    let all: f64 = outcomes.iter().map(|name| number(results, &format!("/trials/0/outcomes/{name}"))).sum();
    assert!((all - 360.0).abs() < 0.5, "{results:#}");
    assert_eq!(threads(run).into_iter().map(|(thread, _)| thread).collect::<Vec<_>>(), ["0", "1", "2"]);
}

/// Returns the process ids of the generators of this sandbox.
fn generators(of: &Playing) -> Vec<u32> {
    let mut all = crate::sandbox::children(of.pid());
    let mut place = 0;
    while let Some(pid) = all.get(place) {
        all.extend(crate::sandbox::children(*pid));
        place += 1;
    }
    all.into_iter()
        .filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            words.len() == 3 && words[0].ends_with(b"plimsoll") && words[1] == b"generator"
        })
        .collect()
}

/// Checks that the trial is void, and that the reason names the lost generator.
fn is_void(sandbox: &Sandbox, played: &Played, reason: &str) {
    let run = sandbox.run_folder();
    let results = json(&run.join("analysis.json"));
    let verdict = results["verdict"].to_string();
    assert_eq!(results["verdict"]["is"], "void", "{verdict}\n{}", played.stderr);
    assert!(verdict.contains("was lost at") && verdict.contains(reason), "{verdict}");
    let events = std::fs::read_to_string(run.join("trials/001/events.jsonl")).unwrap();
    assert!(events.contains("generator_lost"), "{events}");
    // The other generators' records end with the same second.
    let last: Vec<f64> = threads(&run).into_iter().map(|(_, last_s)| last_s).collect();
    assert!(last.len() == 3 && last.iter().all(|last_s| (last_s - last[0]).abs() < 0.5), "{last:?}");
    assert!(last[0].fract().abs() < 0.01, "{last:?}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

const BY_COMMAND: &str = "by = \"command\"\nstart = [\"sh\", \"-c\", \"exec {plimsoll} generator\", \"g{number}\"]\n";

#[test]
fn three_generators_share_one_load() {
    for fleet in ["", BY_COMMAND] {
        let sandbox = Sandbox::new();
        let results = sandbox.run(&[&experiment(&sandbox, fleet)]).exits(0).json();
        is_whole(&results, &sandbox.run_folder());
        clocks_are_compared(&results, &sandbox.run_folder());
        let run = sandbox.run_folder();
        let shown = sandbox.play(&["show", run.to_str().unwrap()]).exits(0);
        assert!(shown.stdout.contains("fleet: 3 generators, which began within"), "{}", shown.stdout);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

/// Audits of a fleet were refused, because the order of reads and writes seemed to depend on
/// clocks. It does not: an agent has one clock.
#[test]
fn audited_keys_of_a_fleet_are_checked() {
    let redis = Command::new("redis-server").arg("--version").status();
    assert!(redis.is_ok_and(|status| status.success()), "needs a Redis server: scripts/need.sh target:redis");
    let cycle = r#"
[[load.cycle]]
call  = "set"
with  = { key = "{agent}-{seq}", value = "{bytes:40}/{seq}" }
audit = true
"#;
    let killed = "[[fault]]\nname = \"killed\"\nkind = \"kill\"\non = \"one\"\nat = \"1s\"\nfor = \"500ms\"\n";
    for (fault, loses) in [("", false), (killed, true)] {
        let sandbox = Sandbox::new();
        let text = format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"redis\"\n[load]\nagents = 9\nrate = 300\ntime = \"3s\"\n\
             warmup = \"0s\"\n{cycle}\n[fleet]\ngenerators = 3\n{fault}"
        );
        let results = sandbox.run(&[&sandbox.file("redis.toml", text)]).exits(0).json();
        assert!(number(&results, "/trials/0/consistency/checked") > 0.0, "{results:#}");
        assert_eq!(number(&results, "/trials/0/consistency/lost_writes") > 0.0, loses, "{results:#}");
        let history = std::fs::read_to_string(sandbox.run_folder().join("trials/001/history.jsonl")).unwrap();
        assert!((1..=9).all(|agent| history.contains(&format!("\"agent\":{agent},"))), "of all generators");
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

/// The disk of the conductor becomes too full for its records while generators play.
#[test]
fn a_full_disk_at_the_conductor_ends_the_fleet() {
    let sandbox = Sandbox::new();
    let file = experiment(&sandbox, "");
    // The results and the page need more space than the records had.
    let script = "\"$2\" run \"$3\" --set load.time=10m --set load.rate=300 --out \"$1\" --accept; code=$?; \
        mount -o remount,size=64m \"$1\"; \"$2\" analyze \"$1\"/* --json; exit $code";
    let Some(output) = crate::interruptions::on_a_disk_of("256k", &sandbox, script, &file) else { return };
    let (said, found) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{said}{found}");
    assert!(said.contains("No space left"), "{said}");
    assert!(found.contains("the disk of the run folder was full"), "{found}");
    // The generators are not reported as lost, because the disk was the cause.
    assert!(!said.contains("was lost") && !found.contains("generator_lost"), "{said}{found}");
    assert!(found.contains("\"is\":\"void\"") || found.contains("\"is\": \"void\""), "{found}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// The run ends in good order before the disk is full, with some space left.
#[test]
fn a_filling_disk_at_the_conductor_ends_the_fleet_with_a_report() {
    let sandbox = Sandbox::new();
    let file = experiment(&sandbox, "");
    let script = "head -c 21700000 /dev/zero > \"$1/filled\"; \"$2\" run \"$3\" --set load.time=10m --set load.rate=300 \
        --out \"$1\" --accept; code=$?; cat \"$1\"/*/ending.json; ls \"$1\"/*/; exit $code";
    let Some(output) = crate::interruptions::on_a_disk_of("24m", &sandbox, script, &file) else { return };
    let (said, found) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}{found}");
    assert!(found.contains("interrupted") && found.contains("nearly full") && found.contains("report.html"), "{found}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn hit_checks_its_generator_options() {
    let sandbox = Sandbox::new();
    let printed = sandbox.play(&["hit", "http://127.0.0.1:1/", "--generators", "3", "--print"]).exits(0);
    assert!(printed.stdout.contains("[fleet]\ngenerators = 3\n"), "{}", printed.stdout);
    sandbox
        .play(&["hit", "http://127.0.0.1:1/", "--generators", "3", "-n", "10"])
        .exits(2)
        .says(&["--generators 3", "--rate"]);
    sandbox
        .play(&["hit", "http://127.0.0.1:1/", "--generators", "3", "-c", "2"])
        .exits(2)
        .says(&["write --generators 2"]);
}

#[test]
fn a_killed_generator_voids_the_trial() {
    for fleet in ["", BY_COMMAND] {
        let sandbox = Sandbox::new();
        let mut playing = sandbox.start_run(&[&experiment(&sandbox, fleet), "--set", "load.time=10m"]);
        playing.wait_for_records();
        let pids = generators(&playing);
        assert_eq!(pids.len(), 3);
        signal("KILL", pids[1]);
        let played = playing.wait();
        is_void(&sandbox, &played, "its stream ended");
    }
}

#[test]
fn a_stopped_generator_voids_the_trial() {
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[&experiment(&sandbox, ""), "--set", "load.time=10m"]);
    playing.wait_for_records();
    let pids = generators(&playing);
    assert_eq!(pids.len(), 3);
    signal("STOP", pids[2]);
    let played = playing.wait();
    is_void(&sandbox, &played, "it sent nothing for 3 s");
}

#[test]
fn a_truncated_generator_stream_voids_the_trial() {
    let sandbox = Sandbox::new();
    // Only this many bytes of the second generator come through: its answers to the setup and to
    // the pings, and some intervals.
    let fleet = "by = \"command\"\nstart = [\"sh\", \"-c\", \
                 \"if [ {number} = 2 ]; then {plimsoll} generator | dd bs=1 count=10001 status=none; else exec {plimsoll} generator; fi\"]\n";
    let played = sandbox.start_run(&[&experiment(&sandbox, fleet), "--set", "load.time=10m"]).wait();
    is_void(&sandbox, &played, "its stream ended");
    let events = std::fs::read_to_string(sandbox.run_folder().join("trials/001/events.jsonl")).unwrap();
    assert!(events.contains(r#""generator":"g2""#), "{events}");
}

#[test]
fn no_generator_outlives_its_conductor() {
    for by in ["INT", "KILL"] {
        let sandbox = Sandbox::new();
        let mut playing = sandbox.start_run(&[&experiment(&sandbox, ""), "--set", "load.time=10m"]);
        playing.wait_for_records();
        let pids = generators(&playing);
        assert_eq!(pids.len(), 3);
        // A stopped process does not notice that its input ends.
        if by == "KILL" {
            signal("STOP", pids[0]);
        }
        playing.signal(by);
        playing.wait();
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        crate::sandbox::until("all generators are gone", || pids.iter().all(is_gone));
        sandbox.play(&["clean"]).exits(0);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn invalid_fleets_are_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    for (fleet, sets, words) in [
        ("by = \"command\"\n", &[][..], &["start", "[\"ssh\""][..]),
        ("start = [\"true\"]\n", &[], &["by = \"command\""]),
        ("", &["--set", "load.threads=2"], &["threads", "[fleet]"]),
        ("", &["--set", "load.count=10"], &["count", "without [fleet]"]),
    ] {
        let file = experiment(&sandbox, fleet);
        sandbox.play(&[&["check", &file], sets].concat()).exits(2).says(words);
    }
    let none = experiment(&sandbox, "by = \"command\"\nstart = [\"/there/is/none\"]\n");
    sandbox.run(&[&none]).exits(2).says(&["g1", "/there/is/none", "[fleet] start"]);
    let sandbox = Sandbox::new();
    let deaf = experiment(&sandbox, "by = \"command\"\nstart = [\"sh\", \"-c\", \"echo no route to {number} >&2\"]\n");
    sandbox.run(&[&deaf]).exits(2).says(&["generator g", "no route to"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    let sandbox = Sandbox::new();
    let many = experiment(&sandbox, "threads = 5\n");
    sandbox.run(&[&many]).exits(2).says(&["fewer generators"]);
}
