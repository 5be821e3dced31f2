//! Agents that finish no cycle. They are counted over the whole load and after the warm-up, for
//! claims and in the report.

use crate::sandbox::{Sandbox, json};

/// Answers take 2 s. The first agent begins at 0 s and gets one in time. The second begins at 1.5 s
/// and gets none.
const EXPERIMENT: &str = r#"
title = "A target that is too slow"
asks  = "Does every agent finish a cycle?"
[target]
use  = "echo"
with = { delay = "2s" }
[load]
agents  = 2
ramp    = "3s"
time    = "3s"
drain   = "0s"
warmup  = "2500ms"
[[load.cycle]]
call = "get"
with = { path = "/" }
[[claim]]
says   = "not even the first cycle of some agents was finished"
source = "a test"
metric = "agents_without_cycle"
holds  = { at_least = 1 }
"#;

#[test]
fn agents_that_finish_no_cycle_are_counted() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("slow.toml", EXPERIMENT);
    sandbox.run(&[&file]).exits(0);
    let run = sandbox.run_folder();
    let results = json(&run.join("analysis.json"));
    let trial = &results["trials"][0];
    assert_eq!(trial["agents_without_cycle"], 1, "{trial:#}");
    assert_eq!(trial["agents_without_measured_cycle"], 2, "the first agent's only cycle was in the warm-up");
    assert_eq!(trial["cycles"], 1);
    let rows = std::fs::read_to_string(run.join("trials/001/agents.csv")).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!((rows[0], rows.len()), ("agent,cycles,last_cycle_s", 3), "{rows:?}");
    assert!(rows[1].starts_with("1,1,2.") && rows[2] == "2,0,", "{rows:?}");
}
