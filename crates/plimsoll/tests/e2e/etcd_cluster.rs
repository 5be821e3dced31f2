//! A real cluster of etcd on virtual hosts: its leader is killed, and its answers are still those
//! of a single copy; a member that is cut off answers serializable reads from old data, and is
//! caught. Old answers can end the load.

use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, number};

/// Returns an experiment with these reads. `load` are further keys of the load.
fn experiment(reads: &str, fault: &str, load: &str) -> String {
    format!(
        r#"
title = "etcd"
asks  = "are its answers those of a single copy?"
[target]
use  = "etcd"
with = {{ heartbeat = "50ms", election = "500ms" }}
[lab]
hosts           = 3
measure_storage = false
[load]
agents   = 9
timeout  = "1s"
{load}
think    = "10ms"
warmup   = "0s"
failover = "next"
[[load.cycle]]
name  = "read"
call  = "get"
with  = {{ key = "k{{uniform:0..2}}", consistency = "{reads}" }}
audit = true
[[load.cycle]]
call  = "put"
with  = {{ key = "k{{seq%3}}", value = "{{agent}}-{{seq}}" }}
audit = true
[[load.cycle]]
call  = "get"
with  = {{ key = "k{{seq%3}}" }}
keep  = {{ seen = "answer.value" }}
audit = true
[[load.cycle]]
call  = "cas"
with  = {{ key = "k{{seq%3}}", from = "{{seen}}", value = "{{agent}}-{{seq}}-cas" }}
audit = true
[[load.cycle]]
call  = "delete"
every = 7
with  = {{ key = "d{{uniform:0..2}}" }}
audit = true
[[load.cycle]]
name  = "again"
call  = "put"
every = 7
with  = {{ key = "d{{uniform:0..2}}", value = "{{agent}}-{{seq}}" }}
audit = true
[[load.cycle]]
name  = "there"
call  = "get"
every = 7
with  = {{ key = "d{{uniform:0..2}}" }}
audit = true
[[fault]]
name = "lost"
kind = "{fault}"
on   = "leader"
at   = "2s"
for  = "2500ms"
"#
    )
}

/// Plays a load on the cluster. Returns the trial.
fn play(reads: &str, fault: &str, load: &str) -> Option<Value> {
    let _turn = lab_traces::turn()?;
    let etcd = std::process::Command::new("etcdctl").arg("version").output();
    assert!(etcd.is_ok(), "needs etcd: scripts/need.sh target:etcd");
    let sandbox = Sandbox::new();
    let file = sandbox.file("etcd.toml", experiment(reads, fault, load));
    let played = sandbox.run(&[&file]).exits(0);
    let results = played.json();
    let trial = &results["trials"][0];
    if let Some(key) = trial["stopped"]["key"].as_str() {
        played.says(&[&format!("stopped at the first violation: key {key} is not linearizable"), ": agent "]);
    }
    assert_eq!(number(trial, "/outcomes/wrong"), 0.0);
    let consistency = &trial["consistency"];
    assert_eq!(number(consistency, "/lost_writes"), 0.0, "{consistency:#}");
    assert_eq!(number(consistency, "/diverged_keys"), 0.0, "{consistency:#}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    Some(trial.clone())
}

/// Asserts that all operations were played, and that the fault was felt.
fn assert_is_whole(trial: &Value) {
    for operation in ["put", "get", "cas", "read", "delete"] {
        assert!(number(trial, &format!("/operations/{operation}/outcomes/ok")) > 0.0, "{operation}: {trial:#}");
    }
    assert!(number(trial, "/faults/0/outage/failed") > 0.0, "the leader was lost and nobody felt it: {trial:#}");
}

#[test]
fn answers_are_linearizable_while_the_leader_is_killed() {
    let Some(trial) = play("linearizable", "kill", "time = \"7s\"\nstop_at_violation = true") else { return };
    assert_is_whole(&trial);
    let consistency = &trial["consistency"];
    assert_eq!(consistency["linearizable"], "yes", "{consistency:#}");
    assert_eq!(trial.get("stopped"), None);
    assert!(number(consistency, "/checked_beside/operations") > 100.0, "{consistency:#}");
    assert!(consistency["checked_beside"]["gave_up"].is_null(), "{consistency:#}");
}

#[test]
fn serializable_reads_of_a_leader_that_is_cut_off_are_caught() {
    let Some(trial) = play("serializable", "partition", "time = \"7s\"") else { return };
    assert_is_whole(&trial);
    let consistency = &trial["consistency"];
    assert_eq!(consistency["linearizable"], "no", "{consistency:#}");
    assert!(number(consistency, "/not_linearizable") > 0.0);
}

#[test]
fn an_old_answer_ends_the_load() {
    let Some(trial) = play("serializable", "partition", "time = \"60s\"\nstop_at_violation = true") else { return };
    assert_eq!(trial["consistency"]["linearizable"], "no", "{:#}", trial["consistency"]);
    let stop = &trial["stopped"];
    assert!(stop["key"].as_str().is_some_and(|key| key.starts_with(['k', 'd'])), "{stop}");
    assert_eq!(trial["ended"], "done");
    let until_s = number(&trial, "/measured_s/1");
    assert!(until_s >= number(stop, "/at_s") && until_s < 55.0, "{stop} {until_s}");
    // The first old answer may come before the fault.
    let reasons = trial["verdict"]["reasons"].to_string();
    assert!(!reasons.contains("never began"), "{reasons}");
}
