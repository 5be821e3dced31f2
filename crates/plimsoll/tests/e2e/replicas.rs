//! Members behind a proxy on separate hosts. Faults hit members and not the proxy, each member
//! reports its keys after the load, and no trial finds keys of the trial before. Needs root.
use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::Sandbox;

fn experiment(members: u32, more: &str) -> String {
    format!(
        "title = \"copies\"\nasks = \"do members agree?\"\n{more}\n[target]\nuse = \"copies\"\n[lab]\nmeasure_storage = false\n\
         [[lab.host]]\nname = \"front\"\nrole = \"proxy\"\n[[lab.host]]\nname = \"m\"\nrole = \"member\"\ncount = {members}\n\
         [load]\nagents = 4\ntime = \"2s\"\nthink = \"20ms\"\ntimeout = \"500ms\"\nwarmup = \"0s\"\n\
         [[load.cycle]]\ncall = \"put\"\nwith = {{ path = \"/records/{{agent}}-{{seq}}\", body = \"of {{agent}}\" }}\n\
         expect = {{ status = \"200\" }}\n"
    )
}

/// Returns the lines of a record file.
fn lines(sandbox: &Sandbox, trial: &str, name: &str) -> Vec<Value> {
    let path = sandbox.run_folder().join("trials").join(trial).join(name);
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn trials(results: &Value) -> &[Value] {
    results["trials"].as_array().unwrap()
}

#[test]
fn members_are_compared_and_each_trial_starts_empty() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let variants = "[[variant]]\nname = \"all\"\ntarget = { with = { copies = \"all\" } }\n\
                    [[variant]]\nname = \"one\"\ntarget = { with = { copies = \"one\" } }\n";
    let file = sandbox.file("copies.toml", format!("{}{variants}", experiment(2, "repeat = 2")));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert_eq!(trials(&results).len(), 4);
    for trial in trials(&results) {
        let (id, found) = (trial["id"].as_str().unwrap(), &trial["consistency"]);
        let replicas = lines(&sandbox, id, "replicas.jsonl");
        let asked: BTreeSet<&str> = replicas.iter().map(|line| line["member"].as_str().unwrap()).collect();
        assert_eq!(asked, BTreeSet::from(["m1", "m2"]), "the proxy holds nothing");
        let keys: BTreeSet<&str> = replicas.iter().filter_map(|line| line["key"].as_str()).collect();
        assert!(keys.len() > 4, "{keys:?}");
        assert!(!keys.contains("left-over"), "trial {id} found what another one has left");
        let diverged = found["diverged_keys"].as_u64().unwrap();
        match trial["variant"].as_str() {
            Some("all") => assert_eq!(diverged, 0, "{found}"),
            // A member never gets the keys that were given to the other.
            _ => assert_eq!(
                (diverged, &found["diverged_missing"]),
                (keys.len() as u64, &Value::from(diverged)),
                "{found}"
            ),
        }
        assert!(trial["verdict"]["rules"].as_array().unwrap().iter().all(|rule| rule != "unaudited_member"));
    }
    // On a busy machine a trial may be void. It is then left out, unless all are void.
    let is_void = |trial: &Value| trial["verdict"]["is"] == "void";
    let all_void = trials(&results).iter().all(is_void);
    let repeats = |variant: &str| {
        trials(&results).iter().filter(|trial| trial["variant"] == variant && (all_void || !is_void(trial))).count()
    };
    let pooled = results["consistencies"].as_array().unwrap();
    for variant in ["all", "one"] {
        let found: Vec<&Value> = pooled.iter().filter(|found| found["variant"] == variant).collect();
        assert_eq!(found.len(), usize::from(repeats(variant) > 0), "{pooled:?}");
        for found in found {
            assert!(found["repeats"] == repeats(variant) && found["wrong"] == 0, "{pooled:?}");
            assert_eq!(found["ci95"][0], 0.0, "{pooled:?}");
        }
    }
    let answer = results["answer"].as_str().unwrap();
    assert_eq!(answer.contains("differed"), repeats("one") > 0, "{answer}");
    assert!(repeats("one") == 0 || answer.contains("`one`"), "the answer names the variant that differed: {answer}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_crashed_member_is_not_compared() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let crash = "[[fault]]\nname = \"dies\"\nkind = \"host_crash\"\non = \"one\"\nat = \"1s\"\n";
    let file = sandbox.file("copies.toml", format!("{}{crash}", experiment(3, "")));
    let results = sandbox.run(&[&file]).exits(0).json();
    let [trial] = trials(&results) else { panic!("{results}") };
    let on = trial["faults"][0]["on"].as_str().unwrap();
    assert!(["m1", "m2", "m3"].contains(&on), "{on}");
    let events = lines(&sandbox, "001", "events.jsonl");
    let told = |event: &str| {
        let before = events.iter().take_while(|line| line["phase"] != "stopping");
        let of_kind = before.filter(|line| line["event"] == event);
        of_kind.map(|line| line["host"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((told("host_down"), told("process_down")), (vec![on.to_owned()], vec![on.to_owned()]));
    let found = &trial["consistency"];
    let down: Vec<&Value> =
        found["replicas"].as_array().unwrap().iter().filter(|table| table["records"].is_null()).collect();
    assert_eq!(down.len(), 1, "{found}");
    assert_eq!((&down[0]["name"], &down[0]["failed"]), (&Value::from(on), &Value::from("its host is down")));
    assert!(found["diverged_keys"].is_u64(), "the other two were compared: {found}");
    assert!(
        trial["verdict"]["rules"].as_array().unwrap().iter().all(|rule| rule != "unaudited_member"),
        "it was meant to go"
    );
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
