//! Planted disturbances. Each must change the verdict, for the right reason. An undisturbed run may
//! get any verdict on this machine, but only for reasons of the machine.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use fixture::{KilledAtEnd, free_address};
use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, children, json, number, root, until};

/// Rules that any other load on this machine may trigger.
const MACHINES: [&str; 8] = [
    "delayed",
    "few_operations",
    "generator_cpu",
    "generator_lateness",
    "generator_stall",
    "generator_throttled",
    "littles_law",
    // Other loads on the machine come and go.
    "no_steady_state",
];

/// Returns an experiment with a load of `agents` for six seconds on the built-in server.
fn experiment(agents: u32, more: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\nwith = {{ delay = \"1ms\" }}\n[load]\nagents = {agents}\ntime = \"6s\"\n\
         warmup = \"500ms\"\n{more}\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    )
}

/// Returns the rules that were triggered, with their reasons.
fn rules(results: &Value) -> Vec<(String, String)> {
    let texts =
        |key: &str| results["verdict"][key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
    texts("rules").zip(texts("reasons")).collect()
}

/// Returns the reason of a rule, which must have been triggered.
#[track_caller]
fn reason(results: &Value, rule: &str) -> String {
    let rules = rules(results);
    let found = rules.iter().find(|(name, _)| name == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {rules:?}")).1.clone()
}

/// Starts a busy loop on each of these CPUs, until dropped.
fn hogs_on(cpus: &[u32]) -> Vec<KilledAtEnd> {
    cpus.iter()
        .map(|cpu| {
            let mut line = Command::new("taskset");
            line.args(["--cpu-list", &cpu.to_string(), "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            KilledAtEnd(line.spawn().expect("taskset is part of every Linux"))
        })
        .collect()
}

/// Returns the CPUs that a process's threads of this name may use.
fn cpus_of(pid: u32, thread: &str) -> Option<Vec<u32>> {
    let mut tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(Result::ok).map(|task| task.path());
    let task = tasks.find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread))?;
    let status = fs::read_to_string(task.join("status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    Some(list.split(',').flat_map(range).collect())
}

#[test]
fn an_undisturbed_run_blames_only_the_machine() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("calm.toml", experiment(4, ""));
    let results = sandbox.run(&[&file]).exits(0).json();
    let rules = rules(&results);
    assert!(rules.iter().all(|(rule, _)| MACHINES.contains(&rule.as_str())), "{rules:?}");
    let generator = &results["trials"][0]["generator"];
    for figure in ["run_delay_pct", "preempted_pct", "clock_jump_s"] {
        assert!(generator[figure].is_number(), "{figure}: {generator:#}");
    }
    assert!(generator["clock_jump_s"].as_f64().unwrap() < 0.1, "nobody sets the clock: {generator:#}");
}

#[test]
fn busy_loops_on_every_cpu_delay_operations_and_are_noted() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("hogs.toml", experiment(4, ""));
    let cpus = cpus_of(std::process::id(), fs::read_to_string("/proc/self/comm").unwrap().trim()).unwrap();
    let _hogs = hogs_on(&[cpus.as_slice(), &cpus].concat());
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_ne!(results["verdict"]["is"], "valid");
    assert!(reason(&results, "delayed").contains("other processes or the hypervisor delayed the generator's threads"));
    let notes = results["verdict"]["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("other processes used ")), "{notes:?}");
    assert!(number(&results, "/trials/0/delay/generator_pct") > 0.0);
}

#[test]
fn a_busy_loop_on_the_generators_cpu_is_found() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new();
    // Without a delay and with many agents, the generator needs all of its CPU.
    let text = experiment(64, "").replace("1ms\" }", "0s\" }\n[lab]\nhosts = 1\ngenerator_cpus = 1");
    let file = sandbox.file("own.toml", text);
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_load(Duration::ZERO);
    let mut own = None;
    until("the engine has a thread", || {
        own = cpus_of(playing.pid(), "load-0");
        own.is_some()
    });
    let own = own.unwrap();
    assert_eq!(own.len(), 1, "{own:?}");
    let _hogs = hogs_on(&[own[0], own[0]]);
    let results = playing.wait().exits(0).json();
    assert_ne!(results["verdict"]["is"], "valid");
    assert!(reason(&results, "delayed").contains("other processes or the hypervisor delayed the generator's threads"));
    assert!(
        number(&results, "/trials/0/generator/preempted_pct") <= number(&results, "/trials/0/generator/run_delay_pct")
    );
}

#[test]
fn a_frozen_generator_is_not_mistaken_for_a_failing_target() {
    for pace in ["", "think = \"50ms\""] {
        let sandbox = Sandbox::new();
        let file = sandbox.file("frozen.toml", experiment(4, &format!("timeout = \"1500ms\"\n{pace}")));
        let mut playing = sandbox.start_run(&[&file]);
        playing.wait_for_load(Duration::from_secs(2));
        playing.signal("STOP");
        pause(Duration::from_secs(2));
        playing.signal("CONT");
        let results = playing.wait().exits(0).json();
        assert_eq!(results["verdict"]["is"], "void", "{:?}", rules(&results));
        let said = reason(&results, "generator_stall");
        assert!(said.contains("stalled") && said.contains("The target did not cause"), "{said}");
        assert_eq!(
            number(&results, "/trials/0/outcomes/timeout"),
            0.0,
            "the answers were there, and nobody had looked"
        );
        // On a busy machine it may lack CPU time instead.
        let limit = &results["trials"][0]["generator"]["limit"];
        assert!(limit == "lateness" || limit == "cpu", "{limit}");
    }
}

#[test]
fn a_killed_target_makes_the_result_suspect() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("killed.toml", experiment(4, ""));
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_records();
    kill(children(playing.pid())[0]);
    let results = playing.wait().exits(0).json();
    assert_ne!(results["verdict"]["is"], "valid");
    assert!(reason(&results, "lost_process").contains("signal 9"));
}

#[test]
fn a_restarted_worker_makes_the_result_suspect() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let server = format!("{} echo --listen 127.0.0.1:{port} --delay 0.001", env!("CARGO_BIN_EXE_plimsoll"));
    let target = format!("start = \"while :; do {server}; done\"\nurl = \"http://127.0.0.1:{port}/\"");
    let text = experiment(4, "").replace("use = \"echo\"\nwith = { delay = \"1ms\" }", &target);
    let file = sandbox.file("restarted.toml", text);
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_load(Duration::from_secs(3));
    let master = children(playing.pid())[0];
    kill(children(master)[0]);
    let results = playing.wait().exits(0).json();
    assert!(reason(&results, "restarted_target").contains("restarted without a fault"));
    assert!(rules(&results).iter().all(|(rule, _)| rule != "lost_process"), "its master lived on");
}

#[test]
fn a_short_run_is_reported_as_too_short() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("short.toml", experiment(4, ""));
    let results = sandbox.run(&[&file, "--set", "load.time=1s"]).exits(0).json();
    assert_ne!(results["verdict"]["is"], "valid");
    assert!(reason(&results, "short_measurement").contains("s were left to measure"));
}

#[test]
fn quantiles_with_too_few_operations_are_refused() {
    let sandbox = Sandbox::new();
    let gate = "[[require]]\nmetric = \"latency_us.p999\"\nbelow = 1e9\n";
    let file = sandbox.file("few.toml", experiment(1, "think = \"20ms\"") + gate);
    let results = sandbox.run(&[&file]).exits(5).json();
    let gate = &results["requirements"][0];
    assert!(gate["value"].is_null() && gate["holds"] == false);
    assert!(gate["unmeasured"].as_str().unwrap().contains("needs at least 2995 operations"), "{gate:#}");
    assert!(reason(&results, "quantile_refused").contains("`latency_us.p999` needs at least"));
}

#[test]
fn target_files_that_change_between_trials_are_reported() {
    let sandbox = Sandbox::new();
    let shelf = sandbox.path().join("targets/notebook");
    fs::create_dir_all(&shelf).unwrap();
    for name in ["notebook.py", "target.toml"] {
        fixture::copy_program(root().join("crates/plimsoll/tests/targets/notebook").join(name), shelf.join(name));
    }
    let sandbox = sandbox.with_targets("targets");
    let text = experiment(1, "").replace("use = \"echo\"\nwith = { delay = \"1ms\" }", "use = \"notebook\"");
    let file = sandbox.file("changed.toml", format!("repeat = 2\n{text}"));
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=2s"]);
    playing.wait_for_load(Duration::ZERO);
    let server = shelf.join("notebook.py");
    fs::write(&server, fs::read_to_string(&server).unwrap() + "# changed\n").unwrap();
    let results = playing.wait().exits(0).json();
    assert!(reason(&results, "versions_changed").contains("`notebook.py`"));
    for trial in results["trials"].as_array().unwrap() {
        let rules = trial["verdict"]["rules"].as_array().unwrap();
        assert!(rules.contains(&Value::from("versions_changed")), "{trial:#}");
    }
    let events = fs::read_to_string(sandbox.run_folder().join("trials/001/events.jsonl")).unwrap();
    assert_eq!(events.matches("\"event\":\"versions\"").count(), 2, "at its begin and at its end");
    assert!(json(&sandbox.run_folder().join("analysis.json"))["verdict"]["remedies"][0].is_string());
}

fn kill(pid: u32) {
    assert!(Command::new("sh").args(["-c", "kill -s KILL $0", &pid.to_string()]).status().unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "a test freezes another process for a while")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
