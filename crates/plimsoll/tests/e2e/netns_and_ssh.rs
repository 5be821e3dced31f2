//! One experiment file on virtual hosts and on machines over ssh. Records and results have the same
//! shape, so that a reader need not know their origin.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::remote_machines::Machines;
use crate::sandbox::{Sandbox, json};

const EXPERIMENT: &str = r#"
title = "one file"
asks  = "Does it matter where the hosts are?"
[target]
use = "notebook"
[lab]
[load]
agents  = 4
time    = "6s"
timeout = "300ms"
think   = "10ms"
warmup  = "1s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[[fault]]
name = "partition"
kind = "partition"
on   = "n1"
at   = "1s"
for  = "500ms"
with = { clients = "majority" }
[[fault]]
name = "loss"
kind = "lossy_link"
on   = "n2"
at   = "2s"
for  = "500ms"
with = { loss_pct = 30 }
[[fault]]
name = "kill"
kind = "kill"
on   = "n1"
at   = "3s"
for  = "500ms"
[[require]]
metric = "outcomes.wrong"
at_most = 0
"#;

/// Fields whose content depends on chance. Their keys are errors that clients happened to get (a
/// connection that is cut at one moment is reset, and at another it hangs), or other events and
/// processes, such as a machine that stalled.
const BY_CHANCE: [&str; 3] = ["attempt_results", "disturbances", "other_processes"];

/// Ends of paths that exist only in some trials: figures that could not be determined, causes of
/// delay or disturbance, and failed operations.
const AT_TIMES: [&str; 10] = [
    ".steady",
    ".cannot_tell",
    ".delay",
    ".effective_samples",
    ".examples",
    ".findings",
    ".programs",
    ".short_lived_cpu_pct",
    ".without_ci95",
    ".verdict.figures",
];

/// Columns that only a whole machine has: waits for its disk and its hypervisor, and other
/// processes.
const OF_MACHINES: [&str; 3] = ["cpu_iowait_pct", "cpu_steal_pct", "cpu_strangers_pct"];
/// Columns of a control group: its quota, and sums over processes that are all known.
const OF_GROUPS: [&str; 5] = ["busiest_thread_pct", "cpu_throttled_pct", "fds", "run_delay_pct", "threads"];

/// Shape of a run's records, without values.
#[derive(Debug, PartialEq)]
struct Shape {
    /// Whether the verdict lets the trial count. Results over all trials leave out a void trial.
    counts: bool,
    /// Paths of all keys in `analysis.json`.
    keys: BTreeSet<String>,
    /// Columns of `samples.csv`.
    columns: String,
    /// Host and process of all rows.
    rows: BTreeSet<String>,
    /// Host, process and column of all measured values.
    measured: BTreeSet<String>,
    /// Kinds of events, each with its fields.
    events: BTreeSet<String>,
}

impl Shape {
    fn of(run: &Path) -> Self {
        let (mut keys, mut events) = (BTreeSet::new(), BTreeSet::new());
        let results = json(&run.join("analysis.json"));
        let counts = results["trials"][0]["verdict"]["is"] != "void";
        gather(&results, "", &mut keys);
        let trial = run.join("trials/001");
        for line in fs::read_to_string(trial.join("events.jsonl")).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let mut fields = BTreeSet::new();
            gather(&event, "", &mut fields);
            events.insert(format!("{} {fields:?}", event["what"]));
        }
        let samples = fs::read_to_string(trial.join("samples.csv")).unwrap();
        let (columns, samples) = samples.split_once('\n').unwrap();
        assert!(columns.starts_with("at_s,host,process,"), "{columns}");
        let (mut rows, mut measured) = (BTreeSet::new(), BTreeSet::new());
        for line in samples.lines() {
            let cells: Vec<&str> = line.split(',').collect();
            let whose = format!("{} {}", cells[1], cells[2]);
            let filled = columns.split(',').zip(&cells).filter(|(_, cell)| !cell.is_empty());
            measured.extend(filled.map(|(column, _)| format!("{whose} {column}")));
            rows.insert(whose);
        }
        Self { counts, keys, columns: columns.to_owned(), rows, measured, events }
    }
}

/// Collects the paths of all keys. List elements with names keep them; all other elements share one
/// path.
fn gather(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                if AT_TIMES.iter().any(|end| path.ends_with(end)) {
                    continue;
                }
                if !BY_CHANCE.contains(&key.as_str()) {
                    gather(value, &path, keys);
                }
                keys.insert(path);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                let name = element["name"].as_str().unwrap_or_default();
                gather(element, &format!("{path}[{name}]"), keys);
            }
        }
        _ => {}
    }
}

#[test]
fn virtual_and_ssh_hosts_give_results_of_the_same_shape() {
    let mut over_ssh = Sandbox::new().with_shelves();
    let Some(machines) = Machines::make(&over_ssh, 2) else { return };
    over_ssh.beside(&machines);
    let virtually = Sandbox::new().with_shelves();
    let shape = |sandbox: &Sandbox, lab: &str| {
        sandbox.run(&[&sandbox.file("one-file.toml", EXPERIMENT), "--set", lab]).exits(0);
        Shape::of(&sandbox.run_folder())
    };
    let (mut there, mut here) =
        (shape(&over_ssh, "lab.ssh=[\"10.84.0.1\", \"10.84.0.2\"]"), shape(&virtually, "lab.hosts=2"));
    let differ = |there: &BTreeSet<String>, here: &BTreeSet<String>| -> Vec<String> {
        there.symmetric_difference(here).cloned().collect()
    };
    if !there.counts || !here.counts {
        // The machine may be too busy for only one of the two runs.
        let is_of_the_trial = |key: &String| !key.starts_with(".outages");
        there.keys.retain(is_of_the_trial);
        here.keys.retain(is_of_the_trial);
    }
    // This figure uses the run delay of a control group's processes.
    let of_groups = ["n1", "n2"].map(|host| format!(".trials[].hosts[{host}].load1_own_max"));
    assert_eq!(differ(&there.keys, &here.keys), of_groups, "keys of analysis.json");
    assert_eq!(there.columns, here.columns);
    assert_eq!(differ(&there.rows, &here.rows), [""; 0], "hosts and processes in samples.csv");
    let names = |columns: &[&str]| -> BTreeSet<String> {
        columns.iter().flat_map(|column| ["n1", "n2"].map(|host| format!("{host}  {column}"))).collect()
    };
    let only = |one: &Shape, other: &Shape| -> BTreeSet<String> {
        one.measured.difference(&other.measured).cloned().collect()
    };
    assert_eq!(only(&there, &here), names(&OF_MACHINES), "measured over ssh only");
    let mut of_virtual = names(&OF_GROUPS);
    if fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|counts| counts.trim() == "1") {
        of_virtual.extend(names(&["io_delay_pct"]));
    }
    // With virtual hosts, the clients have separate CPUs, on which all other processes count as
    // strangers.
    of_virtual.insert("local generator cpu_strangers_pct".to_owned());
    assert_eq!(only(&here, &there), of_virtual, "measured on virtual hosts only");
    assert_eq!(differ(&there.events, &here.events), [""; 0], "events");
}
