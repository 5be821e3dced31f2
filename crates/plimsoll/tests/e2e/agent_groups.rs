//! Loads of several groups of agents on the built-in echo server: their records, results, summary
//! and page.

use std::fs;

use crate::sandbox::{Sandbox, number};

/// 20 operations/s for each writer, and 50/s in total scheduled for the readers.
const GROUPS: &str = r#"
title = "Writers beside readers"

[target]
use  = "echo"
with = { delay = "50ms" }

[load]
time   = "1500ms"
warmup = "500ms"
drain  = "2s"

[[load.group]]
name   = "writers"
agents = 2

[[load.group.cycle]]
call = "post"
with = { path = "/", body = "{agent}-{seq}" }

[[load.group]]
name   = "readers"
agents = 8
rate   = 50

[[load.group.cycle]]
call = "get"
with = { path = "/" }

[sweep]
"load.group.writers.agents" = [2, 4]

[[require]]
metric = "groups.readers.throughput_per_s"
above  = 5

[[require]]
metric = "groups.writers.latency_us.p50"
above  = "40ms"
"#;

#[test]
fn a_sweep_of_one_group_leaves_the_other_groups_unchanged() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("groups.toml", GROUPS);
    let told = sandbox.play(&["check", &file]).exits(0).stdout;
    for words in
        ["2 of load.group.writers.agents", "writers, 2 agents or 4 agents", "readers, 8 agents, 50 operations/s"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    let played = sandbox.run(&[&file]).exits(0);
    let results = played.json();
    for (index, writers) in [(0, 2.0), (1, 4.0)] {
        let of = |path: &str| number(&results, &format!("/trials/{index}/{path}"));
        assert_eq!((of("groups/writers/agents"), of("groups/readers/agents")), (writers, 8.0));
        // Writers reach at most the rate that their delay allows; readers reach the scheduled rate.
        assert!(of("groups/writers/throughput_per_s") <= 20.0 * writers + 1.0);
        assert_eq!(of("groups/readers/outcomes/ok"), 75.0, "50/s for 1.5 s");
        let sum: f64 = ["writers", "readers"].map(|name| of(&format!("groups/{name}/outcomes/ok"))).iter().sum();
        assert_eq!(sum, of("outcomes/ok"));
        assert_eq!(of("operations/post/outcomes/ok"), of("groups/writers/outcomes/ok"));
        assert_eq!(results["trials"][index]["operations"]["get"]["group"], "readers");
        assert_eq!(of("groups/readers/cycles"), 75.0);
    }
    // On a busy machine one of the two trials may be void. Then there is no curve.
    let curve = results["scaling"].get(0);
    if let Some(scaling) = curve {
        assert_eq!(scaling["over"], "load.group.writers.agents");
        let points = scaling["points"].as_array().unwrap().iter();
        let rates: Vec<f64> = points.map(|point| number(point, "/per_s/0")).collect();
        assert!(rates[0] <= 41.0 && rates[1] <= 81.0, "of the writers alone: {rates:?}");
    }
    let shown = sandbox.play(&["show", sandbox.run_folder().to_str().unwrap()]).exits(0).stdout;
    assert!(shown.contains("Groups of agents") && shown.contains("readers"), "{shown}");
    let page = fs::read_to_string(sandbox.run_folder().join("report.html")).unwrap();
    let over_agents = curve.map(|_| "Groups of agents over load.group.writers.agents");
    for title in ["Throughput by group", "Latency by group"].into_iter().chain(over_agents) {
        assert!(page.contains(title), "{title}");
    }
}
