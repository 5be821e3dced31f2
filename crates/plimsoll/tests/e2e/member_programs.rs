//! A target with several programs and folders on each host. Its operations are programs on the
//! members' hosts.

use record::folder::RunFolder;
use record::rows::{self, ProgramSample};
use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, json, number};

const HEAD: &str = "title = \"crew\"\nasks = \"what runs where?\"\n[target]\nuse = \"crew\"\n";
const LAB: &str = "[lab]\nhosts = 2\nmeasure_storage = false\n";
const NOTES: &str = r#"
[load]
agents  = 2
time    = "6s"
think   = "20ms"
timeout = "5s"
warmup  = "0s"
[[load.cycle]]
call   = "note"
with   = { key = "{agent} '$x'", value = "{seq} \"a\" {bytes:5}" }
keep   = { said = "request.value" }
expect = { stdout = { contains = 'hello {seq} "a" ' } }
[[load.cycle]]
call   = "note"
with   = { key = "again-{agent}", value = "{said}" }
expect = { stdout = { contains = "hello {said}" } }
"#;

const IDLE: &str = r#"
[load]
agents = 1
time   = "1s"
think  = "200ms"
warmup = "0s"
[[load.cycle]]
call = "run"
with = { command = "true" }
"#;

fn events(sandbox: &Sandbox) -> Vec<Value> {
    let text = std::fs::read_to_string(RunFolder::at(&sandbox.run_folder()).trial("001").events()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the answer of the hook `inspect` after the load.
fn inspected(sandbox: &Sandbox) -> Value {
    let said = events(sandbox).into_iter().rfind(|event| event["event"] == "inspected").unwrap();
    said["says"].clone()
}

#[test]
fn folders_of_a_host_are_private_and_survive_its_crash() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let crash = "[[fault]]\nname = \"crash\"\nkind = \"host_crash\"\non = \"n1\"\nat = \"1s\"\nfor = \"1s\"\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}{LAB}{NOTES}{crash}"));
    sandbox.run(&[&file]).exits(0);
    let said = inspected(&sandbox);
    assert_eq!((said["starts"].as_str(), said["deep"].as_str()), (Some("hello 0.2;hello 0.2;"), Some("deep;deep;")));
    assert_eq!((said["default"].as_str(), said["passwd"].as_str()), (Some("0"), Some("1")), "{said}");
    let mode = std::process::Command::new("stat").args(["-c", "%a:%U", "/etc/default"]).output().unwrap();
    assert_eq!(said["mode"].as_str(), Some(String::from_utf8_lossy(&mode.stdout).trim()));
    for left in ["/etc/plimsoll-crew", "/var/lib/plimsoll-crew", "/etc/default/plimsoll-crew"] {
        assert!(!std::path::Path::new(left).exists(), "{left} is on the machine");
    }
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn operations_run_on_the_agents_member() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let on_its_host = "[[load.cycle]]\ncall = \"note\"\nwith = { key = \"where\", value = \"x\" }\n\
                       expect = { stdout = { matches = '^(n1 n1 n1|n2 n2 n2) hello x$' }, status = \"0\" }\n";
    let here = "[[load.cycle]]\ncall = \"run\"\nwith = { command = \"hostname\" }\n\
                expect = { stdout = { not = { matches = '^n[12]$' } } }\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}{LAB}{NOTES}{on_its_host}{here}"));
    let results = sandbox.run(&[&file, "--set", "load.time=3s"]).exits(0).json();
    assert!(number(&results, "/trials/0/operations/note/outcomes/ok") > 0.0);
    for outcome in ["failed", "timeout", "wrong"] {
        assert_eq!(number(&results, &format!("/trials/0/outcomes/{outcome}")), 0.0, "{outcome}");
    }
    let members: Vec<String> = std::fs::read_dir(RunFolder::at(&sandbox.run_folder()).trial("001").members())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(members.len(), 2, "both members had clients: {members:?}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn timed_out_operations_are_killed_on_their_host() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let hang =
        "[load]\nagents = 2\ntime = \"2s\"\ntimeout = \"300ms\"\nwarmup = \"0s\"\n[[load.cycle]]\ncall = \"hang\"\n";
    let look = "[[fault]]\nname = \"look\"\nkind = \"command\"\non = \"n1\"\nat = \"1900ms\"\n\
                with = { run = \"test $(pgrep -c -f '^sleep 1000') -le 2\" }\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}{LAB}{hang}{look}"));
    let results = sandbox.run(&[&file]).exits(0).json();
    assert!(number(&results, "/trials/0/outcomes/timeout") > 4.0);
    assert!(!events(&sandbox).iter().any(|event| event["event"] == "fault_failed"), "programs pile up");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_fault_kills_one_program_and_its_replacement_is_counted() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let fault = "[[fault]]\nname = \"kill\"\nkind = \"kill\"\non = \"one\"\nat = \"3s\"\n\
                 with = { program = \"crew-with-a-long-name\" }\n\
                 [[require]]\nmetric = \"hosts.n1.programs.crew-with-a-long-name.replaced\"\nequals = 1\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}[lab]\nhosts = 1\nmeasure_storage = false\n{IDLE}{fault}"));
    sandbox.run(&[&file, "--set", "load.time=7s"]).exits(0);
    let results = json(&sandbox.run_folder().join("analysis.json"));
    let programs = results["trials"][0]["hosts"][0]["programs"].as_array().unwrap().clone();
    let of = |name: &str| programs.iter().find(|program| program["name"] == name).unwrap().clone();
    let (hit, spared) = (of("crew-with-a-long-name"), of("crew-fast"));
    assert_eq!((hit["replaced"].as_u64(), spared["replaced"].as_u64()), (Some(1), Some(0)), "{programs:#?}");
    assert_eq!((hit["process"].as_str(), hit["processes_last"].as_u64()), (Some("node"), Some(1)));
    assert!(hit["rss_max_bytes"].as_u64() > Some(100_000) && hit["pss_max_bytes"].as_u64() > Some(10_000), "{hit}");
    let rows =
        rows::read::<ProgramSample>(&RunFolder::at(&sandbox.run_folder()).trial("001").programs()).unwrap().items;
    assert!(rows.iter().all(|row| row.host == "n1" && row.process == "node"));
    let page = std::fs::read_to_string(sandbox.run_folder().join("report.html")).unwrap();
    assert!(page.contains("crew-with-a-long-name") && page.contains("load 5 min"));
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn an_unknown_program_is_reported_with_the_running_programs() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let fault = "[[fault]]\nname = \"kill\"\nkind = \"kill\"\nat = \"300ms\"\nwith = { program = \"crew-slow\" }\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}{LAB}{IDLE}{fault}"));
    sandbox.run(&[&file]);
    let failed = events(&sandbox).into_iter().find(|event| event["event"] == "fault_failed").unwrap().to_string();
    assert!(
        failed.contains("`crew-slow` does not run in the process tree") && failed.contains("`crew-fast`"),
        "{failed}"
    );
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn durations_are_scaled_by_the_labs_speed() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let lab = "[lab]\nhosts = 1\nspeed = 0.5\nmeasure_storage = false\n";
    let file = sandbox.file("crew.toml", format!("{HEAD}{lab}{NOTES}"));
    sandbox.run(&[&file, "--set", "load.time=1s"]).exits(0);
    assert_eq!(inspected(&sandbox)["starts"].as_str(), Some("hello 0.4;"));
}
