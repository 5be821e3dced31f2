//! Faults on machines that are reached over ssh. Clients feel them as on virtual hosts, ssh to the
//! machine stays open, and no fault is left on it after the lab. The tests never use `clock_skew`:
//! these machines share this machine's clock.

use crate::faults_felt::{breaking, experiment, felt_and_healed};
use crate::lab_traces;
use crate::remote_machines::Machines;
use crate::sandbox::{Sandbox, until};

const LAB: &str = "ssh = [\"10.84.0.1\", \"10.84.0.2\"]";

/// Faults that leave something in the machine's kernel, for longer than the test lasts.
const LASTING: [(&str, &str, &str); 5] = [
    ("partition", "5m", "on = \"n1\"\nwith = { clients = \"majority\" }"),
    ("lossy_link", "5m", "on = \"n1\"\nwith = { loss_pct = 10 }"),
    ("slow_link", "5m", "on = \"n1\"\nwith = { rate = \"1mbit\" }"),
    ("slow_port", "5m", "on = \"n1\"\nwith = { port = \"http\", rate = \"1mbit\" }"),
    ("host_freeze", "5m", "on = \"n1\""),
];

/// Plays the lasting faults until all of them act.
fn broken(sandbox: &Sandbox) -> crate::sandbox::Playing {
    let file = experiment(sandbox, LAB, "/", &LASTING, 0.1);
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    for (name, ..) in LASTING {
        playing.wait_for_event(&format!("\"fault\":\"{name}\""));
    }
    playing
}

#[test]
fn faults_over_ssh_are_felt_and_healed() {
    let sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    let before = [1, 2].map(|number| machines.of(number).network());
    let faults = breaking(&[
        ("partition", 0.8, "on = \"n1\"\nwith = { clients = \"majority\" }"),
        ("host_freeze", 0.8, "on = \"n1\""),
        ("pause", 0.8, "on = \"n1\""),
        ("lossy_link", 0.8, "on = \"n1\"\nwith = { loss_pct = 60 }"),
        ("slow_link", 0.8, "on = \"n1\"\nwith = { rate = \"64kbit\" }"),
        ("slow_port", 0.8, "on = \"n1\"\nwith = { port = \"http\", rate = \"64kbit\" }"),
        ("kill", 0.5, "on = \"n1\""),
        // Longer than the pause of a client without a connection. A client with no operation in
        // flight would notice nothing.
        ("restart", 0.0, "on = \"n1\"\nwith = { wait = \"500ms\" }"),
        ("command", 0.8, "on = \"n1\"\nwith = { run = \"touch /tmp/closed\", heal = \"rm /tmp/closed\" }"),
    ]);
    let beside = || {
        let mut sandbox = Sandbox::new().with_shelves();
        sandbox.beside(&machines);
        sandbox
    };
    felt_and_healed(beside, LAB, "/", &faults, 3.0);
    assert_eq!([1, 2].map(|number| machines.of(number).network()), before);
    assert_eq!(machines.leftovers(), [""; 0]);
}

#[test]
fn ending_a_run_keeps_another_runs_faults() {
    let (mut sandbox, mut other) = (Sandbox::new().with_shelves(), Sandbox::new().with_shelves());
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    other.beside(&machines);
    let machine = machines.of(1);
    let before = machine.network();
    let slow = ("slow_link", "5m", "on = \"n1\"\nwith = { rate = \"20mbit\" }");
    let cut = ("partition", "5m", "on = \"n1\"");
    let begin = |sandbox: &Sandbox, faults: &[(&str, &str, &str)]| {
        let file = experiment(sandbox, LAB, "/", faults, 0.1);
        sandbox.start_run(&[&file, "--set", "load.time=10m"])
    };
    let mut first = begin(&sandbox, &[slow]);
    first.wait_for_event("\"fault_begun\"");
    // The second run cannot shape a link that is shaped already, and says so. Its packet filter is
    // separate.
    let mut second = begin(&other, &[slow, cut]);
    second.wait_for_event("\"fault_begun\"");
    second.wait_for_event("another run of Plimsoll");
    let ours = machine.network();
    assert!(ours.contains("htb") && ours.matches("table inet plimsoll-run-").count() == 1, "{ours}");
    second.signal("INT");
    second.wait().exits(130);
    let left = machine.network();
    assert!(left.contains("htb") && left.contains("20Mbit") && !left.contains("table inet"), "{left}");
    // A killed run cannot undo its faults, but its guard does.
    let mut third = begin(&other, &[cut]);
    third.wait_for_event("\"fault_begun\"");
    third.signal("KILL");
    third.wait();
    until("the guard has removed what the killed one left", || machine.network() == left);
    first.signal("INT");
    first.wait().exits(130);
    assert_eq!(machine.network(), before);
    assert_eq!(machines.leftovers(), [""; 0]);
}

#[test]
fn machines_over_ssh_are_healed_after_a_kill() {
    let mut sandbox = Sandbox::new().with_shelves();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    let here = lab_traces::inventory();
    let before = machines.of(1).network();
    let playing = broken(&sandbox);
    assert_ne!(machines.of(1).network(), before, "or else this test shows nothing");
    // ssh accepts connections; other ports drop them without an answer.
    machines.on_the_wire(
        "bash -c 'read -r -t 9 banner </dev/tcp/10.84.0.1/22' && \
         { timeout 1 bash -c '</dev/tcp/10.84.0.1/9' 2>/dev/null; [ $? = 124 ]; }",
    );
    playing.signal("KILL");
    playing.wait();
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(machines.of(1).network(), before);
    sandbox.play(&["clean"]).exits(0);
    assert_eq!(lab_traces::added_since(&here), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn faults_of_a_killed_runner_are_undone() {
    let mut sandbox = Sandbox::new().with_shelves();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    let here = lab_traces::inventory();
    let machine = machines.of(1);
    let before = machine.network();
    let playing = broken(&sandbox);
    // The guard lives, and undoes the faults instead of the runner.
    machine.play("for p in $(grep -lz runner$ /proc/[0-9]*/cmdline | cut -d / -f 3); do kill -9 $p; done; true");
    until("its runner is gone", || !machine.processes().iter().any(|line| line.contains("plimsoll runner")));
    assert_ne!(machine.network(), before, "or else this test shows nothing");
    playing.signal("INT");
    playing.wait();
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(machine.network(), before);
    assert_eq!(lab_traces::added_since(&here), [""; 0]);
}

/// A service that another program started, on a machine that is named next to its URL. Its network
/// breaks like that of any host; the service itself is broken by commands of the program that
/// started it.
#[test]
fn a_running_target_is_broken_and_watched_over_ssh() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 1) else { return };
    sandbox.beside(&machines);
    let machine = machines.of(1);
    let before = machine.network();
    machine.play(
        "redis-server --daemonize yes --port 7000 --bind 10.84.0.1 --protected-mode no --save '' --dir /tmp \
         --pidfile /tmp/redis.pid >/dev/null; until [ -s /tmp/redis.pid ]; do sleep 0.1; done",
    );
    let text = |faults: &str| {
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nurl = \"redis://10.84.0.1:7000\"\n[lab]\nssh = [\"10.84.0.1\"]\n[load]\nagents = 4\n\
             rate = 200\ntime = \"6s\"\nwarmup = \"0s\"\ntimeout = \"500ms\"\n[[load.cycle]]\ncall = \"set\"\n\
             with = {{ key = \"k{{agent}}\", value = \"{{seq}}\" }}\n{faults}"
        )
    };
    let killed = sandbox.file("killed.toml", text("[[fault]]\nname = \"killed\"\nkind = \"kill\"\nat = \"1s\"\n"));
    let refused = sandbox.play(&["check", &killed]).exits(2);
    refused.says(&["on which the target runs already", "`command`", "`slow_link`"]);
    let faults = "[[fault]]\nname = \"thin\"\nkind = \"slow_link\"\non = \"n1\"\nat = \"1s\"\nfor = \"1s\"\nwith = { rate = \"8kbit\" }\n\
                  [[fault]]\nname = \"stopped\"\nkind = \"command\"\non = \"n1\"\nat = \"3s\"\nfor = \"1500ms\"\n\
                  with = { run = \"kill -STOP $(cat /tmp/redis.pid)\", heal = \"kill -CONT $(cat /tmp/redis.pid)\" }\n";
    let results = sandbox.run(&[&sandbox.file("broken.toml", text(faults))]).exits(0).json();
    machine.play("kill -9 $(cat /tmp/redis.pid); rm /tmp/redis.pid");
    for place in [0, 1] {
        let fault = &results["trials"][0]["faults"][place];
        assert_eq!((fault["on"].as_str(), fault["failed"].is_null()), (Some("n1"), true), "{fault:#}");
    }
    assert!(crate::sandbox::number(&results, "/trials/0/faults/1/outage/failed") > 0.0, "{results:#}");
    assert_eq!(results["trials"][0]["hosts"][0]["name"], "n1", "{results:#}");
    assert_eq!(machine.network(), before);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
