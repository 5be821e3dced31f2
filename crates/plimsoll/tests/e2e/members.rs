//! Clients that are spread over several members, one of which dies: the results of that member's
//! clients, which the total hides.

use record::folder::RunFolder;
use record::rows::{self, AgentCycles, OutcomeSlot};

use crate::lab_traces;
use crate::sandbox::{Sandbox, json, number};

const EXPERIMENT: &str = r#"
title = "One of three members dies"
asks  = "What do its clients see?"
[target]
use = "notebook"
[lab]
hosts           = 3
measure_storage = false
[load]
agents  = 6
time    = "8s"
think   = "5ms"
timeout = "1500ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[[fault]]
name = "crash"
kind = "host_crash"
on   = "n2"
at   = "3s"
for  = "1500ms"
[[require]]
metric = "faults.crash.members.n2.outage.total_s"
above  = 1.0
[[require]]
metric = "members.n1.failed"
equals = 0
"#;

fn ended(slots: &[OutcomeSlot]) -> [u32; 2] {
    slots.iter().fold([0; 2], |[ok, not_ok], slot| [ok + slot.ok, not_ok + slot.failed + slot.timeout + slot.wrong])
}

#[test]
fn clients_of_a_dead_member_have_their_own_outage() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let file = sandbox.file("members.toml", EXPERIMENT);
    sandbox.run(&[&file]).exits(0);
    let run = sandbox.run_folder();
    let shown = sandbox.play(&["show", run.to_str().unwrap()]).exits(0).stdout;
    assert!(shown.contains("Outages by member"), "{shown}");
    let trial = RunFolder::at(&run).trial("001");
    assert_eq!(trial.member_names().unwrap(), ["n1", "n2", "n3"]);
    let read = |path: &std::path::Path| rows::read::<OutcomeSlot>(path).unwrap().items;
    let each = ["n1", "n2", "n3"].map(|name| ended(&read(&trial.member(name).outcomes())));
    let sum = each.iter().fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert_eq!(ended(&read(&trial.outcomes())), sum, "{each:?}");
    assert!(each[1][1] > 0 && each[0][1] + each[2][1] == 0, "only its own clients failed: {each:?}");

    let results = json(&run.join("analysis.json"));
    let fault = &results["trials"][0]["faults"][0];
    let total_s = |member: usize| number(fault, &format!("/members/{member}/outage/total_s"));
    assert!(total_s(1) > 1.0 && total_s(1) > number(fault, "/outage/total_s"), "{fault:#}");
    assert_eq!([0, 2].map(|member| fault["members"][member]["outage"]["failed"].as_u64()), [Some(0); 2], "{fault:#}");
    let agents = rows::read::<AgentCycles>(&trial.agents()).unwrap().items;
    assert_eq!(agents.iter().map(|row| row.agent).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(results["trials"][0]["agents_without_cycle"].as_u64(), Some(0));
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Outages by member") && page.contains("Operations by member"));

    // An older version left the folder like this.
    std::fs::remove_dir_all(trial.members()).unwrap();
    std::fs::remove_file(trial.agents()).unwrap();
    sandbox.play(&["analyze", run.to_str().unwrap()]).exits(0);
    let older = json(&run.join("analysis.json"));
    assert_eq!(older["trials"][0]["faults"][0]["members"], serde_json::json!([]));
    assert_eq!(older["trials"][0]["agents_without_cycle"], serde_json::Value::Null);
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}
