//! The court's case register: members with Mnesia on separate hosts behind a real balancer. Needs
//! root.
use std::fs;
use std::process::Command;

use record::events::{HistoryEntry, Outcome, What};
use record::folder::RunFolder;
use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, root};

/// Returns an experiment with clerks who create, browse, modify and delete. `with` are the target's
/// parameters, and `more` is appended.
fn experiment(with: &str, time: &str, more: &str) -> String {
    let case = "/cases/case-{agent}-{seq}";
    let document = "{{\"party\":\"party-{agent}-{seq}\",\"text\":\"{bytes:50}\"}}";
    format!(
        "title = \"court\"\nasks = \"do clerks read what they wrote?\"\n[target]\nuse = \"docket\"\nwith = {{ {with} }}\n\
         [lab]\nmeasure_storage = false\nhost = [{{ name = \"front\", role = \"proxy\" }}, {{ name = \"m\", role = \"member\", count = 3 }}]\n\
         [load]\nagents = 8\ntime = \"{time}\"\ntimeout = \"3s\"\ndrain = \"4s\"\nwarmup = \"0s\"\nthink = \"20ms\"\nwhen_failed = \"next cycle\"\n\
         [[load.cycle]]\nname = \"create\"\ncall = \"post\"\nwith = {{ path = \"{case}\", body = '{document}' }}\n\
         expect = {{ status = \"201\" }}\nkeep = {{ sent = \"request.body\", version = \"answer.header.etag\" }}\n\
         [[load.cycle]]\nname = \"browse\"\ncall = \"get\"\nwith = {{ path = \"{case}\" }}\nexpect = {{ body = \"{{sent}}\" }}\n\
         [[load.cycle]]\nname = \"search\"\ncall = \"get\"\nwith = {{ path = \"/cases?party=party-{{agent}}-{{seq}}\" }}\n\
         expect = {{ body = '[\"case-{{agent}}-{{seq}}\"]' }}\n\
         [[load.cycle]]\nname = \"modify\"\ncall = \"put\"\nwith = {{ path = \"{case}\", \"header.if-match\" = \"{{version}}\", body = '{document}' }}\n\
         expect = {{ status = \"200\" }}\n\
         [[load.cycle]]\nname = \"delete\"\ncall = \"delete\"\nwith = {{ path = \"{case}\" }}\nexpect = {{ status = \"204\" }}\n\
         [[load.cycle]]\nname = \"browse_deleted\"\ncall = \"get\"\nwith = {{ path = \"{case}\" }}\nexpect = {{ status = \"404\" }}\n\
         [[load.cycle]]\nname = \"file\"\ncall = \"post\"\nevery = 5\nwith = {{ path = \"/cases/kept-{{agent}}-{{seq}}\", body = '{document}' }}\n\
         expect = {{ status = \"201\" }}\n\
         audit = {{ effect = \"write\", key = \"kept-{{agent}}-{{seq}}\", value = \"request.body\" }}\n{more}"
    )
}

/// Returns an experiment whose steps on a case are audited, so that their answers are checked for
/// linearizability.
fn audited(with: &str, time: &str) -> String {
    let key = "key = \"case-{agent}-{seq}\"";
    let after = |text: String, name: &str, audit: &str| {
        let step = format!("name = \"{name}\"\n");
        assert_eq!(text.matches(&step).count(), 1, "{name}");
        text.replace(&step, &format!("{step}audit = {{ {audit}, {key} }}\n"))
    };
    let mut text = experiment(with, time, "");
    for (name, audit) in [
        ("create", "effect = \"write\", value = \"request.body\""),
        ("browse", "effect = \"read\", value = \"answer.body\""),
        ("modify", "effect = \"write\", value = \"request.body\""),
        ("delete", "effect = \"remove\""),
        ("browse_deleted", "effect = \"read\", value = \"answer.body\""),
    ] {
        text = after(text, name, audit);
    }
    text
}

#[track_caller]
fn only_trial(results: &Value) -> &Value {
    let trials = results["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 1);
    &trials[0]
}

#[test]
fn synchronous_writes_are_never_read_stale() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for proxy in ["apache", "haproxy"] {
        let sandbox = Sandbox::new();
        let with =
            format!("write = \"sync_transaction\", read = \"async_dirty\", copies = \"ram\", proxy = \"{proxy}\"");
        let file = sandbox.file("court.toml", audited(&with, "3s"));
        let results = sandbox.run(&[&file, "--install"]).exits(0).json();
        let trial = only_trial(&results);
        let outcomes = &trial["outcomes"];
        assert!(outcomes["ok"].as_u64().unwrap() > 40, "{proxy}: {outcomes}");
        assert_eq!(
            (&outcomes["failed"], &outcomes["wrong"]),
            (&Value::from(0), &Value::from(0)),
            "{proxy}: {outcomes}"
        );
        let found = &trial["consistency"];
        assert!(found["checked"].as_u64().unwrap() > 0, "{proxy}: {found}");
        assert_eq!(found["linearizable"], "yes", "{proxy}: {found}");
        assert_eq!(
            (&found["lost_writes"], &found["diverged_keys"]),
            (&Value::from(0), &Value::from(0)),
            "{proxy}: {found}"
        );
        assert_eq!(found["replicas"].as_array().unwrap().len(), 3, "the balancer holds nothing");
        // The balancer sends each request to the next member.
        // A host without CPU time for its samples has no figures.
        let (least, most) = ["m1", "m2", "m3"]
            .into_iter()
            .filter_map(|name| {
                let hosts = trial["hosts"].as_array().unwrap();
                hosts.iter().find(|host| host["name"] == name).and_then(|host| host["net_bytes"].as_f64())
            })
            .fold((f64::MAX, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
        assert!(most < 2.0 * least, "{proxy}: one member was asked far more than another: {least} and {most} bytes");
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn stale_reads_are_wrong_and_not_failed() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new();
    let with = "write = \"async_dirty\", read = \"async_dirty\", copies = \"ram\"";
    // At this rate, members fall behind.
    let text = audited(with, "4s").replace("think = \"20ms\"", "think = \"5ms\"");
    let text = text.replace("[lab]\n", "[lab]\nport = [{ name = \"distribution\", rate = \"200kbit\" }]\n");
    let file = sandbox.file("court.toml", text);
    let results = sandbox.run(&[&file, "--install"]).exits(0).json();
    let outcomes = &only_trial(&results)["outcomes"];
    assert!(outcomes["wrong"].as_u64().unwrap() > 0, "{outcomes}");
    assert_eq!(outcomes["failed"], Value::from(0), "{outcomes}");
    let found = &only_trial(&results)["consistency"];
    assert_eq!(found["linearizable"], "no", "{found}");
    assert!(results["answer"].as_str().unwrap().contains("wrong"), "{}", results["answer"]);
}

#[test]
fn a_split_brain_is_reported_from_the_members_logs() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new();
    // Longer than the 10 s after which Erlang declares a silent node down.
    let cut = "[[fault]]\nname = \"cut\"\nkind = \"partition\"\non = \"m1\"\nat = \"1s\"\nfor = \"13s\"\n";
    let with = "write = \"transaction\", read = \"async_dirty\", copies = \"ram\"";
    let file = sandbox.file("court.toml", experiment(with, "19s", cut));
    let results = sandbox.run(&[&file, "--install"]).exits(0).json();
    let trial = only_trial(&results);
    let said = trial["said"].as_array().unwrap();
    assert!(said.iter().any(|said| said["text"] == "inconsistent_database" && said["alarming"] == true), "{said:?}");
    // On a busy machine the trial may also be void.
    assert!(trial["verdict"]["rules"].to_string().contains("alarming_log"), "{}", trial["verdict"]);
    let reasons = trial["verdict"]["reasons"].to_string();
    assert!(reasons.contains("logged") && reasons.contains("inconsistent_database"), "{reasons}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Returns a sandbox whose register has no balancer: clients use the members directly.
fn without_balancer() -> Sandbox {
    let sandbox = Sandbox::new().with_targets("targets");
    let targets = sandbox.path().join("targets");
    fs::create_dir(&targets).unwrap();
    let copied = Command::new("cp").arg("-r").arg(root().join("targets/docket")).arg(&targets).status();
    assert!(copied.unwrap().success());
    let file = targets.join("docket/target.toml");
    let text = fs::read_to_string(&file).unwrap().replace("\"proxy.http\"", "\"member.http\"");
    let (begins, ends) = (text.find("[[process]]\nrole  = \"proxy\"").unwrap(), text.find("[metrics]").unwrap());
    fs::write(&file, format!("{}{}", &text[..begins], &text[ends..])).unwrap();
    sandbox
}

#[test]
fn failover_moves_clients_of_a_killed_member() {
    let Some(_turn) = lab_traces::turn() else { return };
    // Clerks without failover must outlast the member's restart, which takes seconds on a busy
    // machine.
    for (failover, time) in [("none", "20s"), ("next", "7s")] {
        let sandbox = without_balancer();
        let file = sandbox.file(
            "court.toml",
            format!(
                "title = \"court\"\nasks = \"who goes on?\"\n[target]\nuse = \"docket\"\n\
                 with = {{ write = \"async_dirty\", read = \"async_dirty\", copies = \"ram\" }}\n\
                 [lab]\nmeasure_storage = false\nhost = [{{ name = \"m\", count = 3 }}]\n\
                 [load]\nagents = 6\ntime = \"{time}\"\ntimeout = \"3s\"\nwarmup = \"0s\"\nthink = \"40ms\"\n\
                 failover = \"{failover}\"\n[[load.cycle]]\nname = \"file\"\ncall = \"post\"\n\
                 with = {{ path = \"/cases/kept-{{agent}}-{{seq}}\", body = '{{{{\"party\":\"{{agent}}\"}}}}' }}\n\
                 expect = {{ status = \"201\" }}\n\
                 audit = {{ effect = \"write\", key = \"kept-{{agent}}-{{seq}}\", value = \"request.body\" }}\n\
                 [[fault]]\nname = \"dies\"\nkind = \"kill\"\non = \"m2\"\nat = \"2s\"\nfor = \"3s\"\n"
            ),
        );
        let results = sandbox.run(&[&file, "--install"]).exits(0).json();
        let trial = only_trial(&results);
        let folder = RunFolder::at(&sandbox.run_folder()).trial("001");
        let events = record::lines::read_events(&folder.events()).unwrap().items;
        let at = |is: fn(&What) -> bool| events.iter().find(|event| is(&event.what)).unwrap().at_s;
        let begun_s = at(|what| matches!(what, What::FaultBegun { .. }));
        let healed_s = at(|what| matches!(what, What::FaultHealed { .. }));
        let history = record::lines::read::<HistoryEntry>(&folder.history()).unwrap().items;
        // Every third agent uses the second member.
        let of_dead = |line: &&HistoryEntry| line.agent.is_some_and(|agent| agent % 3 == 2);
        let (theirs, others): (Vec<_>, Vec<_>) =
            history.iter().filter(|line| line.at_s > begun_s + 1.0 && line.at_s < healed_s).partition(of_dead);
        let ok = |lines: &[&HistoryEntry]| lines.iter().filter(|line| line.outcome == Outcome::Ok).count();
        assert!(ok(&others) > 20, "{failover}: the others go on: {}", trial["outcomes"]);
        let refused = trial["attempt_results"]["connect refused"].as_u64().unwrap_or(0);
        if failover == "none" {
            assert_eq!(ok(&theirs), 0, "{}", trial["outcomes"]);
            assert!(refused > 4, "they try again and again: {}", trial["attempt_results"]);
        } else {
            assert!(ok(&theirs) > 10, "{}", trial["outcomes"]);
            assert!(refused <= 2, "each goes on at once: {}", trial["attempt_results"]);
        }
        // Agents that stayed are served again.
        let is_served = |line: &HistoryEntry| line.at_s > healed_s && line.outcome == Outcome::Ok;
        assert!(history.iter().filter(of_dead).any(is_served), "{failover}: {}", trial["outcomes"]);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn a_shared_start_resets_data_between_loads() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new();
    let with = "write = \"sync_transaction\", read = \"async_dirty\", copies = \"ram\"";
    let text = experiment(with, "2s", "[sweep]\n\"load.agents\" = [4, 8]\n");
    let text = text.replacen("use = \"docket\"", "use = \"docket\"\nstart = \"once\"", 1);
    let file = sandbox.file("court.toml", text);
    let results = sandbox.run(&[&file, "--install"]).exits(0).json();
    let trials = results["trials"].as_array().unwrap();
    let shared = |trial: &Value| trial.get("shared_start").cloned();
    assert_eq!(shared(&trials[0]), None);
    assert_eq!(shared(&trials[1]), Some(serde_json::json!({ "of": "001", "reset": true })));
    for trial in trials {
        // Each load makes cases with the same names.
        let (outcomes, found) = (&trial["outcomes"], &trial["consistency"]);
        assert!(outcomes["ok"].as_u64().unwrap() > 0, "{outcomes}");
        assert_eq!((&outcomes["failed"], &outcomes["wrong"]), (&Value::from(0), &Value::from(0)), "{outcomes}");
        assert!(found["checked"].as_u64().unwrap() > 0, "{found}");
        assert_eq!((&found["lost_writes"], &found["diverged_keys"]), (&Value::from(0), &Value::from(0)), "{found}");
    }
    let folder = RunFolder::at(&sandbox.run_folder());
    let pids = |id: &str| {
        let events = record::lines::read_events(&folder.trial(id).events()).unwrap().items;
        let up = events.into_iter().filter_map(|event| match event.what {
            What::ProcessUp { host, pid, .. } => Some((host, pid)),
            _ => None,
        });
        up.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((pids("001").len(), pids("001")), (4, pids("002")));
    assert!(folder.trial("002").logs().join("m1.member.log").is_file());
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
