//! A real Redis server, used through `redis` and as a server of lines: kept and refused keys, and
//! keys that are lost when it is killed.

use fixture::free_address;
use serde_json::Value;

use crate::sandbox::{Sandbox, number};

const CYCLE: &str = r#"
[[load.cycle]]
call  = "set"
with  = { key = "{agent}-{seq}", value = "{bytes:40}/{seq}" }
keep  = { saved = "request.value" }
audit = true

[[load.cycle]]
call   = "get"
with   = { key = "{agent}-{seq}" }
expect = { value = "{saved}" }
audit  = true

[[load.cycle]]
name   = "count"
call   = "command"
with   = { arguments = 'HINCRBY "seen by {agent}" cycles 1' }

[[load.cycle]]
name   = "missing"
call   = "get"
with   = { key = "no such key" }
expect = { status = "not_found" }

[[load.cycle]]
name   = "many"
call   = "command"
with   = { arguments = "MGET {agent}-{seq} none" }
expect = { count = "2", value = "{saved}\n" }
"#;

/// Two thirds of the values stay in the queues.
const QUEUES: &str = r#"
[[load.cycle]]
name  = "first"
call  = "enqueue"
with  = { key = "jobs-{uniform:1..3}", value = "{agent}-{seq}-first" }
audit = true

[[load.cycle]]
name  = "second"
call  = "enqueue"
with  = { key = "jobs-{uniform:1..3}", value = "{agent}-{seq}-second" }
audit = true

[[load.cycle]]
call  = "dequeue"
with  = { key = "jobs-{uniform:1..3}" }
audit = true
"#;

/// Few operations, because each read returns a whole set.
const SETS: &str = r#"
think = "20ms"

[[load.cycle]]
name  = "add"
call  = "add_to_set"
with  = { key = "seen-{uniform:1..3}", value = "{agent}-{seq}" }
audit = true

[[load.cycle]]
call  = "members"
with  = { key = "seen-{uniform:1..3}" }
audit = true
"#;

/// A client that removes members, and whose operations are not audited.
const LOSS: &str = r#"
[[load.cycle]]
name  = "lose"
call  = "command"
with  = { arguments = "SPOP seen-{uniform:1..3}" }
every = 10
"#;

fn experiment(with: &str, cycle: &str, rest: &str) -> String {
    format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"redis\"\nwith = {with}\n[load]\nagents = 8\ntime = \"3s\"\nwarmup = \"0s\"\n\
         {cycle}\n{rest}"
    )
}

fn play(with: &str, rest: &str) -> Value {
    play_cycle(with, CYCLE, rest)
}

fn play_cycle(with: &str, cycle: &str, rest: &str) -> Value {
    let redis = std::process::Command::new("redis-server").arg("--version").status();
    assert!(redis.is_ok_and(|status| status.success()), "needs a Redis server: scripts/need.sh target:redis");
    let sandbox = Sandbox::new();
    let file = sandbox.file("redis.toml", experiment(with, cycle, rest));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_eq!(sandbox.leftovers(), [""; 0]);
    results
}

const KILL: &str = "[[fault]]\nname = \"killed\"\nkind = \"kill\"\non = \"one\"\nat = \"1s\"\nfor = \"500ms\"\n";

#[test]
fn acknowledged_keys_are_kept() {
    let results = play("{}", "");
    assert!(number(&results, "/trials/0/outcomes/ok") >= 5.0);
    for outcome in ["failed", "timeout", "wrong"] {
        assert_eq!(number(&results, &format!("/trials/0/outcomes/{outcome}")), 0.0, "{outcome}: {results:#}");
    }
    assert!(number(&results, "/trials/0/consistency/checked") > 0.0);
    assert_eq!(number(&results, "/trials/0/consistency/lost_writes"), 0.0);
}

#[test]
fn queues_are_linearizable_until_a_kill_loses_values() {
    let linearizable = |results: &Value| results["trials"][0]["consistency"]["linearizable"].clone();
    let healthy = play_cycle("{}", QUEUES, "");
    assert_eq!(linearizable(&healthy), "yes", "{healthy:#}");
    assert_eq!(number(&healthy, "/trials/0/consistency/linearizable_checked"), 3.0);
    let killed = play_cycle("{}", QUEUES, KILL);
    assert_eq!(linearizable(&killed), "no", "{killed:#}");
    assert_eq!(number(&killed, "/trials/0/consistency/not_linearizable"), 3.0);
    let proof = &killed["trials"][0]["consistency"]["proofs"][0];
    let explanation = proof["explanation"].as_str().unwrap();
    assert!(
        explanation.contains("was in the queue before") || explanation.contains("found the queue empty"),
        "{proof}"
    );
}

#[test]
fn sets_are_linearizable_until_a_member_is_lost() {
    let consistency = |results: &Value| results["trials"][0]["consistency"].clone();
    let healthy = consistency(&play_cycle("{}", SETS, ""));
    assert_eq!(healthy["linearizable"], "yes", "{healthy:#}");
    assert_eq!(number(&healthy, "/linearizable_checked"), 3.0);
    let lossy = consistency(&play_cycle("{}", SETS, LOSS));
    assert_eq!(lossy["linearizable"], "no", "{lossy:#}");
    assert_eq!(number(&lossy, "/not_linearizable"), 3.0);
    let explanation = lossy["proofs"][0]["explanation"].as_str().unwrap();
    assert!(explanation.contains(" did not") || explanation.contains(" without "), "{explanation}");
}

#[test]
fn a_lost_member_ends_the_load() {
    let sandbox = Sandbox::new();
    let cycle = format!("stop_at_violation = true\n{SETS}");
    let file = sandbox.file("redis.toml", experiment("{}", &cycle, LOSS));
    let played = sandbox.run(&[&file, "--set", "load.time=60s"]).exits(0);
    let trial = &played.json()["trials"][0];
    let key = trial["stopped"]["key"].as_str().unwrap();
    assert!(key.starts_with("seen-") && trial["consistency"]["linearizable"] == "no", "{trial:#}");
    assert!(number(trial, "/consistency/checked_beside/operations") > 0.0, "{trial:#}");
    played.says(&[&format!("stopped at the first violation: key {key} is not linearizable: agent ")]);
}

#[test]
fn a_killed_server_without_persistence_loses_keys() {
    let results = play("{}", KILL);
    assert!(number(&results, "/trials/0/consistency/lost_writes") > 0.0);
    assert!(number(&results, "/trials/0/faults/0/outage/failed") > 0.0);
}

#[test]
fn a_killed_server_that_syncs_writes_loses_no_key() {
    let results = play("{ appendonly = true, appendfsync = \"always\" }", KILL);
    assert!(number(&results, "/trials/0/consistency/checked") > 0.0);
    assert_eq!(number(&results, "/trials/0/consistency/lost_writes"), 0.0);
    assert!(number(&results, "/trials/0/faults/0/outage/failed") > 0.0, "it was killed and nobody felt it");
}

#[test]
fn the_example_printed_by_new_runs() {
    let sandbox = Sandbox::new();
    let printed = sandbox.play(&["new", "redis"]).exits(0).stdout;
    let file = sandbox.file("new.toml", printed);
    let short = ["load.time=3s", "load.ramp=0s", "load.agents=4", "fault.killed.at=1s", "fault.killed.for=200ms"];
    let short: Vec<&str> = short.iter().flat_map(|set| ["--set", set]).collect();
    let results = sandbox.run(&[&[file.as_str(), "--install"], &short[..]].concat()).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0);
}

/// Redis also takes commands as lines, and answers a simple command with a line.
#[test]
fn redis_can_be_used_as_a_line_server() {
    let sandbox = Sandbox::new();
    let port = free_address().port();
    let text = format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nstart = \"redis-server --port {port} --save '' --dir {folder}\"\n\
         url = \"tcp://127.0.0.1:{port}\"\n[load]\nagents = 4\ntime = \"2s\"\n\
         [[load.cycle]]\nname = \"set\"\ncall = \"send\"\nwith = {{ line = \"SET k{{agent}} {{seq}}\", end = \"\\r\\n\", fails = \"-\" }}\n\
         expect = {{ line = \"+OK\" }}\n\
         [[load.cycle]]\nname = \"get\"\ncall = \"send\"\n\
         with = {{ line = \"GET k{{agent}}\", end = \"\\r\\n\", until = \"0|1|2|3|4|5|6|7|8|9\", fails = \"-\" }}\n\
         expect = {{ last = \"{{seq}}\" }}\n\
         [[load.cycle]]\nname = \"odd\"\ncall = \"send\"\nevery = 10\nwith = {{ line = \"ODD\", fails = \"-\" }}\n",
        folder = sandbox.path().join("scratch").display(),
    );
    let file = sandbox.file("lines.toml", text);
    let results = sandbox.run(&[&file]).exits(0).json();
    let of = |name: &str, outcome: &str| number(&results, &format!("/trials/0/operations/{name}/outcomes/{outcome}"));
    for name in ["set", "get"] {
        assert!(of(name, "ok") > 0.0);
        assert_eq!((of(name, "failed"), of(name, "wrong")), (0.0, 0.0), "{name}");
    }
    assert!(of("odd", "failed") > 0.0 && of("odd", "ok") == 0.0);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
