//! Fleets on separate machines: hosts of the lab, and machines behind ssh. Checks their results as
//! a whole. If a generator's host hangs or loses its power or network, the trial is void and no
//! process is left.

use std::path::Path;

use serde_json::Value;

use crate::lab_traces;
use crate::remote_machines::Machines;
use crate::sandbox::{Playing, Sandbox, json, number};

/// Writes an experiment with an open loop on the echo target, in this lab, made by this fleet.
fn experiment(sandbox: &Sandbox, lab: &str, fleet: &str, more: &str) -> String {
    let text = format!(
        "title = \"A fleet\"\nasks = \"Does the load come together?\"\n[target]\nuse = \"echo\"\n[lab]\nmeasure_storage = false\n{lab}\n\
         [load]\nagents = 12\nrate = 90\ntime = \"4s\"\nwarmup = \"0s\"\ndrain = \"60s\"\ntimeout = \"60s\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/{{seq}}\" }}\n[fleet]\n{fleet}\n{more}"
    );
    sandbox.file("fleet.toml", text)
}

const VIRTUAL: &str = "generators = 3\nby = \"virtual\"\nprofile = \"far\"";
const FAR: &str = "what = \"far\"\n[link]\nsource = \"made up\"\nrate = \"100mbit\"\n";

/// Checks that all 360 scheduled operations are recorded, and that each generator has figures and
/// each host has samples.
fn is_whole(results: &Value, run: &Path, hosts: &[&str], generators: &[&str]) {
    let outcomes = ["ok", "failed", "timeout", "wrong", "unfinished"];
    let all: f64 = outcomes.iter().map(|name| number(results, &format!("/trials/0/outcomes/{name}"))).sum();
    assert!((all - 360.0).abs() < 0.5, "{results:#}");
    let each = results["trials"][0]["generator"]["each"].as_array().unwrap();
    let names: Vec<&str> = each.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, generators);
    assert!(each.iter().all(|one| one["operations"].as_u64().unwrap() > 0), "{each:#?}");
    let samples = std::fs::read_to_string(run.join("trials/001/samples.csv")).unwrap();
    for host in hosts {
        assert!(samples.lines().any(|row| row.contains(&format!(",{host},"))), "no row of {host} in\n{samples}");
    }
}

/// Checks that the trial is void for a lost generator, with this reason. The loss must be noticed
/// soon, by the generator's silence, whose length is recorded, and not by something that takes
/// longer.
fn is_void(sandbox: &Sandbox, generator: &str, reason: &str) {
    let run = sandbox.run_folder();
    let results = json(&run.join("analysis.json"));
    assert_eq!(results["verdict"]["is"], "void", "{results:#}");
    let events = std::fs::read_to_string(run.join("trials/001/events.jsonl")).unwrap();
    let lost: Vec<Value> = (events.lines().map(|line| serde_json::from_str(line).unwrap()))
        .filter(|event: &Value| event["event"] == "generator_lost")
        .collect();
    let [lost] = lost.as_slice() else { panic!("{events}") };
    assert_eq!(lost["generator"], generator, "{lost}");
    assert!(lost["reason"].as_str().unwrap().contains(reason), "{lost}");
    let verdict = results["verdict"].to_string();
    assert!(verdict.contains("was lost at") && verdict.contains(generator), "{verdict}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

const SILENT: &str = "it sent nothing for 3 s";
const ENDED: &str = "its stream ended";

/// Plays a long load in a lab with three virtual generators.
fn virtual_fleet(sandbox: &Sandbox, more: &str) -> Playing {
    sandbox.file("profiles/far.toml", FAR);
    let file = experiment(sandbox, "hosts = 1", VIRTUAL, more);
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    playing.wait_for_records();
    playing
}

#[test]
fn virtual_generators_share_one_load() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    sandbox.file("profiles/far.toml", FAR);
    let results = sandbox.run(&[&experiment(&sandbox, "hosts = 1", VIRTUAL, "")]).exits(0).json();
    is_whole(&results, &sandbox.run_folder(), &["n1", "gen1", "gen2", "gen3"], &["gen1", "gen2", "gen3"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_frozen_or_crashed_generator_host_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for (kind, reason) in [("host_freeze", SILENT), ("host_crash", ENDED)] {
        let sandbox = Sandbox::new().with_shelves();
        let fault =
            format!("[[fault]]\nname = \"hit\"\nkind = \"{kind}\"\non = \"gen2\"\nat = \"1500ms\"\nfor = \"5m\"\n");
        virtual_fleet(&sandbox, &fault).wait();
        is_void(&sandbox, "gen2", reason);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn no_virtual_generator_outlives_its_conductor() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for by in ["INT", "KILL"] {
        let sandbox = Sandbox::new().with_shelves();
        let playing = virtual_fleet(&sandbox, "");
        playing.signal(by);
        playing.wait();
        sandbox.play(&["clean"]).exits(0);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Makes three machines, with the target on the first.
fn over_ssh() -> Option<(Sandbox, Machines, String)> {
    let mut sandbox = Sandbox::new();
    let machines = Machines::make(&sandbox, 3)?;
    sandbox.beside(&machines);
    let fleet = "generators = 3\nby = \"ssh\"\nhosts = [\"10.84.0.2\", \"root@10.84.0.3\"]";
    let file = experiment(&sandbox, "ssh = [\"10.84.0.1\"]", fleet, "");
    Some((sandbox, machines, file))
}

#[test]
fn generators_over_ssh_share_one_load() {
    let Some((sandbox, machines, file)) = over_ssh() else { return };
    let results = sandbox.run(&[&file]).exits(0).json();
    is_whole(&results, &sandbox.run_folder(), &["n1"], &["g1", "g2", "g3"]);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// A generator plays the operations that break the target, beside its load, and reads the keys
/// back.
#[test]
fn generators_over_ssh_play_faults_and_read_keys_back() {
    let Some((sandbox, machines, _)) = over_ssh() else { return };
    let text = "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"redis\"\n[lab]\nssh = [\"10.84.0.1\"]\n[load]\nagents = 9\nrate = 60\n\
                time = \"3s\"\nwarmup = \"0s\"\n[[load.cycle]]\ncall = \"set\"\naudit = true\n\
                with = { key = \"{agent}-{seq}\", value = \"{seq}\" }\n[fleet]\ngenerators = 3\nby = \"ssh\"\n\
                hosts = [\"10.84.0.2\", \"root@10.84.0.3\"]\n[[fault]]\nname = \"forgets\"\nkind = \"call\"\nat = \"2s\"\n\
                with = { call = \"command\", arguments = \"FLUSHALL\" }\n";
    let results = sandbox.run(&[&sandbox.file("redis.toml", text)]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/consistency/checked"), 180.0, "{results:#}");
    assert!(number(&results, "/trials/0/consistency/lost_writes") > 0.0, "{results:#}");
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn an_unplugged_generator_machine_voids_the_trial_and_cleans_up() {
    let Some((sandbox, machines, file)) = over_ssh() else { return };
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    playing.wait_for_records();
    // This machine has the second generator; the first and the third are on the other machine.
    machines.unplug(3);
    playing.wait();
    is_void(&sandbox, "g2", SILENT);
    // Its sshd still has records of the generator to send, and so does not check its client. The
    // generator ends by itself before.
    assert_eq!(machines.leftovers(), [""; 0]);
}

#[test]
fn no_remote_generator_outlives_its_conductor() {
    for by in ["KILL", "INT"] {
        let Some((sandbox, machines, file)) = over_ssh() else { return };
        let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
        playing.wait_for_records();
        let is_one = |line: &String| line.contains("plimsoll generator");
        assert_eq!(
            [2, 3].map(|number| machines.of(number).processes().iter().filter(|line| is_one(line)).count()),
            [2, 1]
        );
        playing.signal(by);
        playing.wait();
        assert_eq!(machines.leftovers(), [""; 0]);
        sandbox.play(&["clean"]).exits(0);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn a_killed_remote_generator_voids_the_trial() {
    let Some((sandbox, machines, file)) = over_ssh() else { return };
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    playing.wait_for_records();
    machines
        .of(3)
        .play("for p in $(grep -lz ^generato[r] /proc/[0-9]*/cmdline | cut -d / -f 3); do kill -9 $p; done; true");
    playing.wait();
    is_void(&sandbox, "g2", ENDED);
    assert_eq!(machines.leftovers(), [""; 0]);
}

#[test]
fn an_unreachable_generator_machine_is_reported() {
    let Some((sandbox, machines, file)) = over_ssh() else { return };
    let elsewhere = "fleet.hosts=[\"10.84.0.2\", \"10.84.0.3:23\"]";
    sandbox.run(&[&file, "--set", elsewhere]).exits(3).says(&["g2", "Connection refused", "ssh -v -p 23 10.84.0.3"]);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn hit_checks_its_options_for_remote_generators() {
    let sandbox = Sandbox::new();
    let hit = |more: &[&str]| sandbox.play(&[&["hit", "http://10.0.0.1/", "--generators", "3"], more].concat());
    let printed = hit(&["--by", "ssh=a,b@c", "--print"]).exits(0);
    assert!(printed.stdout.contains("generators = 3\nby = \"ssh\"\nhosts = [\"a\", \"b@c\"]\n"), "{}", printed.stdout);
    let printed = hit(&["--by", "command=ssh gen{number} plimsoll generator", "--print"]).exits(0);
    let start = "by = \"command\"\nstart = [\"ssh\", \"gen{number}\", \"plimsoll\", \"generator\"]\n";
    assert!(printed.stdout.contains(start), "{}", printed.stdout);
    let printed = hit(&["--by", "local", "--print"]).exits(0);
    assert!(!printed.stdout.contains("by ="), "{}", printed.stdout);
    hit(&["--by", "ssh=a,b,c,d"]).exits(2).says(&["--generators 4"]);
    hit(&["--by", "ssh="]).exits(2).says(&["--by ssh"]);
    hit(&["--by", "carrier=pigeon"]).exits(2).says(&["--by ssh=HOST"]);
}

#[test]
fn invalid_places_of_generators_are_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    for (lab, fleet, words) in [
        ("hosts = 1", "generators = 2\nby = \"ssh\"\nhosts = [\"a\"]", &["virtual hosts", "lab.ssh"][..]),
        ("", "generators = 2\nby = \"ssh\"\nhosts = [\"a\"]", &["127.0.0.1", "lab.ssh"]),
        ("", "generators = 2\nby = \"virtual\"", &["[lab] with hosts = 1"]),
        ("ssh = [\"a\"]", "generators = 2\nby = \"virtual\"", &["virtual hosts", "by = \"local\""]),
        (
            "hosts = 1",
            "generators = 2\nby = \"virtual\"\nprofile = \"opteron\"",
            &["no profile `opteron`", "opteron-vm"],
        ),
        ("hosts = 1", "generators = 2\nprofile = \"opteron-vm\"", &["by = \"virtual\""]),
        ("ssh = [\"a\"]", "generators = 2\nby = \"ssh\"", &["hosts = [\"user@"]),
        ("ssh = [\"a\"]", "generators = 1\nby = \"ssh\"\nhosts = [\"a\", \"b\"]", &["generators = 2"]),
        ("[[lab.host]]\nname = \"gen1\"", "generators = 2\nby = \"virtual\"", &["`gen1`", "another name"]),
    ] {
        let file = experiment(&sandbox, lab, fleet, "");
        sandbox.play(&["check", &file]).exits(2).says(words);
    }
}
