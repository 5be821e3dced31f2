//! Output of the binary that needs no load: lists, schemas, plans, usage.

use serde_json::Value;

use crate::sandbox::{Sandbox, root};

#[test]
fn lists_show_known_names() {
    let sandbox = Sandbox::new();
    for (list, names) in [
        ("targets", ["echo", "vsns"]),
        ("profiles", ["raspberry-pi-2", "xeon-vm-2core"]),
        ("faults", ["call", "kill"]),
        ("protocols", ["http", "vsns"]),
    ] {
        let played = sandbox.play(&[list]).exits(0);
        for name in names {
            assert!(played.stdout.lines().any(|line| line.starts_with(name)), "{list}: {}", played.stdout);
            let told = sandbox.play(&[list, name]).exits(0);
            assert!(told.stdout.contains(name), "{list} {name}: {}", told.stdout);
        }
        sandbox.play(&[list, "nonsense"]).exits(2).says(&["nonsense"]);
    }
}

#[test]
fn schemas_are_json_schemas() {
    let sandbox = Sandbox::new();
    for of in ["experiment", "results"] {
        let schema = sandbox.play(&["schema", of]).exits(0).json();
        assert!(schema["$schema"].as_str().is_some_and(|url| url.contains("json-schema.org")), "{of}");
        assert!(schema["properties"].is_object(), "{of}");
    }
}

#[test]
fn usage_errors_exit_2() {
    let sandbox = Sandbox::new();
    sandbox.play(&[]).exits(2).says(&["Usage"]);
    sandbox.play(&["sink"]).exits(2).says(&["sink"]);
    sandbox.play(&["run"]).exits(2);
    sandbox.play(&["run", "no-such-file.toml"]).exits(2).says(&["no-such-file.toml"]);
    sandbox.play(&["run", "experiments/01-first-run.toml", "--set", "load.time"]).exits(2).says(&["load.time"]);
}

#[test]
fn manual_and_completions_are_printed() {
    let sandbox = Sandbox::new();
    assert!(sandbox.play(&["man"]).exits(0).stdout.contains("plimsoll"));
    assert!(sandbox.play(&["completions", "bash"]).exits(0).stdout.contains("plimsoll"));
}

#[test]
fn every_bundled_experiment_has_a_plan() {
    let sandbox = Sandbox::new();
    let mut files: Vec<_> = std::fs::read_dir(root().join("experiments")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert!(files.len() >= 4);
    for file in files {
        let played = sandbox.play(&["check", file.to_str().unwrap()]).exits(0);
        assert!(played.stdout.contains("trial"), "{}", played.stdout);
    }
}

#[test]
fn check_shows_the_hosts_of_a_lab() {
    let sandbox = Sandbox::new();
    let check = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let words: Vec<&str> = ["check", "experiments/03-name-service-crash.toml"].into_iter().chain(sets).collect();
        sandbox.play(&words).exits(0).stdout
    };
    let boards = check(&["lab.hosts=2", "lab.profile=raspberry-pi-2", "lab.speed=0.25", "lab.generator_cpus=0"]);
    assert!(boards.contains("n2  raspberry-pi-2  4 × 0.025 core, 1GiB, 25mbit"), "{boards}");
    assert!(boards.contains("at a quarter of the speed") && boards.contains("load to 4m"), "{boards}");
    let many = check(&["lab.hosts=200", "lab.profile=xeon-vm-4core"]);
    assert!(many.contains("this machine cannot run these hosts") && many.contains("memory"), "{many}");
    sandbox
        .play(&["check", "experiments/03-name-service-crash.toml", "--set", "lab.profile=pi"])
        .exits(2)
        .says(&["pi"]);
    sandbox.play(&["profile", "measure", "telnet://pi"]).exits(2).says(&["ssh://"]);
}

#[test]
fn overrides_reach_the_plan() {
    let sandbox = Sandbox::new();
    let experiment = "experiments/03-name-service-crash.toml";
    let plan = sandbox.play(&["check", experiment, "--json", "--set", "fault.oops.at=15s"]).exits(0).json();
    assert_eq!(plan.pointer("/trials/0/faults/0/when/at").and_then(Value::as_f64), Some(15.0));
    assert_eq!(plan.pointer("/trials/0/load/time_s").and_then(Value::as_f64), Some(60.0));
    sandbox.play(&["check", experiment, "--set", "fault.oops.at=4m"]).exits(2).says(&["oops"]);
}

#[test]
fn new_prints_a_valid_experiment() {
    let sandbox = Sandbox::new();
    for target in [&[][..], &["echo"], &["vsns"], &["http://127.0.0.1:8080/health"]] {
        let printed = sandbox.play(&[&["new"], target].concat()).exits(0).stdout;
        let file = sandbox.file("new.toml", &printed);
        sandbox.play(&["check", &file]).exits(0);
        assert!(printed.contains('#'), "{target:?}: no comments");
    }
    sandbox.play(&["new", "nonsense"]).exits(2).says(&["nonsense"]);
}
