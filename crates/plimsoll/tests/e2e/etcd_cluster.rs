//! A real cluster of etcd on virtual hosts: its leader is killed, and its answers are still those
//! of a single copy; a member that is cut off answers serializable reads from old data, and is
//! caught.

use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, number};

fn experiment(reads: &str, fault: &str) -> String {
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
time     = "7s"
timeout  = "1s"
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

/// Plays a load on the cluster. Returns the consistency of its answers.
fn play(reads: &str, fault: &str) -> Option<Value> {
    let _turn = lab_traces::turn()?;
    let etcd = std::process::Command::new("etcdctl").arg("version").output();
    assert!(etcd.is_ok(), "needs etcd: scripts/need.sh target:etcd");
    let sandbox = Sandbox::new();
    let file = sandbox.file("etcd.toml", experiment(reads, fault));
    let results = sandbox.run(&[&file]).exits(0).json();
    let trial = &results["trials"][0];
    for operation in ["put", "get", "cas", "read", "delete"] {
        assert!(number(trial, &format!("/operations/{operation}/outcomes/ok")) > 0.0, "{operation}: {trial:#}");
    }
    assert_eq!(number(trial, "/outcomes/wrong"), 0.0);
    assert!(number(trial, "/faults/0/outage/failed") > 0.0, "the leader was lost and nobody felt it: {trial:#}");
    let consistency = trial["consistency"].clone();
    assert_eq!(number(&consistency, "/lost_writes"), 0.0, "{consistency:#}");
    assert_eq!(number(&consistency, "/diverged_keys"), 0.0, "{consistency:#}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    Some(consistency)
}

#[test]
fn answers_are_linearizable_while_the_leader_is_killed() {
    let Some(consistency) = play("linearizable", "kill") else { return };
    assert_eq!(consistency["linearizable"], "yes", "{consistency:#}");
}

#[test]
fn serializable_reads_of_a_leader_that_is_cut_off_are_caught() {
    let Some(consistency) = play("serializable", "partition") else { return };
    assert_eq!(consistency["linearizable"], "no", "{consistency:#}");
    assert!(number(&consistency, "/not_linearizable") > 0.0);
}
