//! Hosts over ssh, with real sshds: a run from start to end, the message if a machine cannot be
//! reached, and that nothing is left there after the run.

use std::fs;
use std::time::Duration;

use crate::remote_machines::Machines;
use crate::sandbox::{Sandbox, until};

/// Writes an experiment on these hosts, with echo on each.
fn experiment(sandbox: &Sandbox, hosts: &[&str]) -> String {
    let list = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[lab]\nssh = [{list}]\n\
         [load]\nagents = 2\ntime = \"3s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    );
    sandbox.file("over-ssh.toml", text)
}

#[test]
fn a_run_over_ssh_leaves_nothing_there() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    machines.configure("Host inner\n  HostName 10.84.0.2\n  ProxyJump 10.84.0.1\n");
    let file = experiment(&sandbox, &["ssh://root@10.84.0.1:22", "inner"]);
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(results["trials"][0]["outcomes"]["ok"].as_u64().unwrap() > 0, "{results:#}");
    let trial = sandbox.run_folder().join("trials/001");
    let samples = fs::read_to_string(trial.join("samples.csv")).unwrap();
    for host in ["n1", "n2"] {
        assert!(samples.lines().any(|row| row.contains(&format!(",{host},"))), "no row of {host} in\n{samples}");
    }
    let events = fs::read_to_string(trial.join("events.jsonl")).unwrap();
    assert!(events.contains("10.84.0.2"), "where the others reach it:\n{events}");
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_killed_run_over_ssh_leaves_nothing_there() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 1) else { return };
    sandbox.beside(&machines);
    let file = experiment(&sandbox, &["10.84.0.1"]);
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    assert!(machines.of(1).processes().iter().any(|line| line.contains("plimsoll echo")));
    playing.signal("KILL");
    playing.wait();
    assert_eq!(machines.leftovers(), [""; 0]);
    sandbox.play(&["clean"]).exits(0);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn clean_removes_remote_files_of_a_killed_guard() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 1) else { return };
    sandbox.beside(&machines);
    let mut playing = sandbox.start_run(&[&experiment(&sandbox, &["10.84.0.1"]), "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    let machine = machines.of(1);
    // All processes there die, as at a power cut, and only files are left.
    machine.play("for p in $(grep -l plimsoll-ru[n]- /proc/[0-9]*/cmdline | cut -d / -f 3); do kill -9 $p; done; true");
    playing.signal("KILL");
    playing.wait();
    until("its processes are gone", || machine.processes().is_empty());
    assert_ne!(machine.files(), [""; 0], "or else this test shows nothing");
    let said = sandbox.play(&["clean"]).exits(0).stdout;
    assert!(said.contains("on 10.84.0.1"), "{said}");
    assert_eq!(machines.leftovers(), [""; 0]);
}

#[test]
fn unreachable_machines_are_reported_with_the_reason() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    let play_all = |hosts: &[&str]| sandbox.run(&[&experiment(&sandbox, hosts)]).exits(3);
    let play = |destination: &str| play_all(&[destination]);

    play_all(&["10.84.0.2", "10.84.0.1:23"]).says(&["n2", "Connection refused", "ssh -v -p 23 10.84.0.1"]);
    play("nowhere.invalid").says(&["n1", "nowhere.invalid", "ssh -v"]);
    play("nobody@10.84.0.1").says(&["n1", "login shell", "currently not available"]);
    play("10.84.0.1:x").says(&["`x` in `10.84.0.1:x` is not a port"]);
    let known = fs::read_to_string(machines.known()).unwrap();
    let without: String =
        known.lines().filter(|line| !line.starts_with("10.84.0.1 ")).map(|line| format!("{line}\n")).collect();
    fs::write(machines.known(), &without).unwrap();
    play("10.84.0.1").says(&["n1", "host key is not known", "Host key verification failed"]);
    let other = without.replace("10.84.0.2 ", "10.84.0.1 ") + &without;
    fs::write(machines.known(), other).unwrap();
    play("10.84.0.1").says(&["n1", "its host key has changed"]);
    fs::write(machines.known(), &known).unwrap();
    machines.of(1).play("rm /run/here/authorized");
    play("10.84.0.1").says(&["n1", "without a password", "Permission denied (publickey)"]);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn unsuitable_machines_are_reported_with_the_reason() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 1) else { return };
    sandbox.beside(&machines);
    let file = experiment(&sandbox, &["10.84.0.1"]);
    let machine = machines.of(1);

    machine.pretend("uname", "echo Linux armv7l");
    sandbox.run(&[&file]).exits(3).says(&["n1", "Linux armv7l", "this machine is Linux"]);
    machine.play("rm /run/here/bin/uname");
    machine.pretend("df", "echo head; echo /dev/sda 9 9 2048 1% /");
    sandbox.run(&[&file]).exits(3).says(&["n1", "2 MiB are free", "TMPDIR"]);
    machine.play("rm /run/here/bin/df && mount -o remount,bind,ro /tmp && mount -o remount,bind,ro /var/tmp && mount -o remount,bind,ro /root");
    sandbox.run(&[&file]).exits(3).says(&["n1", "is writable"]);
    machine.play("mount -o remount,bind,rw,noexec /var/tmp && mount -o remount,bind,rw,noexec /tmp");
    sandbox.run(&[&file]).exits(3).says(&["n1", "do not allow programs", "/var/tmp"]);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn an_unplugged_machine_is_noticed_and_cleans_up() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 2) else { return };
    sandbox.beside(&machines);
    let file = experiment(&sandbox, &["10.84.0.1", "10.84.0.2"]);
    let mut playing = sandbox.start_run(&[&file, "--set", "load.time=10m"]);
    playing.wait_for_load(Duration::ZERO);
    machines.unplug(2);
    playing.wait_for_event("host_down");
    playing.signal("INT");
    playing.wait();
    // Its sshd checks whether its client is alive, so the machine need not be on the network again.
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_machine_is_measured_over_ssh() {
    let mut sandbox = Sandbox::new();
    let Some(machines) = Machines::make(&sandbox, 1) else { return };
    sandbox.beside(&machines);
    let measured = sandbox.play(&["profile", "measure", "ssh://root@10.84.0.1:22/"]).exits(0);
    let profile = sandbox.file("profiles/measured.toml", &measured.stdout);
    for section in ["[cpu]", "score", "[memory]", "[disk]"] {
        assert!(measured.stdout.contains(section), "no {section} in {profile}:\n{}", measured.stdout);
    }
    sandbox.play(&["profile", "measure", "ssh://10.84.0.1:23"]).exits(3).says(&["10.84.0.1:23", "Connection refused"]);
    assert_eq!(machines.leftovers(), [""; 0]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
