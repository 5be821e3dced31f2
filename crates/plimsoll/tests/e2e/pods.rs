//! Pods that another program started. A runner is brought into them, a deleted pod is replaced by
//! another, and nothing is left behind. A stand-in for Kubernetes plays here; with a cluster, `make
//! test-fleet` plays on it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::hit::echo;
use crate::sandbox::{Sandbox, json, number, until};

fn experiment(sandbox: &Sandbox, url: &str, pods: &str, faults: &str) -> String {
    let text = format!(
        "title = \"Pods\"\nasks = \"What do clients feel?\"\n[target]\nurl = \"{url}\"\n[lab.pods]\n{pods}\n[load]\nagents = 8\nrate = 100\n\
         time = \"12s\"\nwarmup = \"0s\"\ntimeout = \"2s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n{faults}\n"
    );
    sandbox.file("pods.toml", text)
}

const DELETED: &str = "[[fault]]\nname = \"deleted\"\nkind = \"host_crash\"\non = \"pod1\"\nat = \"3s\"\nfor = \"2s\"";

fn events(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("trials/001/events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_replacement_of_a_deleted_pod_gets_a_runner() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network of its own needs root");
        return;
    }
    let (sandbox, platform) = crate::fleets_on_platforms::sandbox();
    fs::write(platform.join("running"), "echo-a echo-b").unwrap();
    let (server, url) = echo(&sandbox, &[]);
    let few = experiment(&sandbox, &url, "selector = \"app=echo\"\nimage = \"tools\"\ncount = 3", DELETED);
    sandbox.run(&[&few]).exits(3).says(&["the lab needs 3 pods, but 2 with the labels app=echo are ready"]);

    let file = experiment(&sandbox, &url, "selector = \"app=echo\"\nimage = \"tools\"\ncount = 2", DELETED);
    let runs = sandbox.path().join("again");
    let words = ["run", &file, "--out", runs.to_str().unwrap(), "--json", "--accept"];
    let results = sandbox.play(&words).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 1200.0);
    assert_eq!(results["trials"][0]["faults"][0]["on"], "pod1", "{}", results["trials"][0]["faults"]);
    let asked = fs::read_to_string(platform.join("kubectl")).unwrap();
    assert!(asked.contains("delete pod echo-a "), "{asked}");
    for pod in ["echo-a", "echo-b", "echo-a-anew"] {
        assert!(asked.contains(&format!("patch pod {pod} ")), "{pod} in {asked}");
    }
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Needs a cluster: a server with at least two pods, and an image with a shell and this machine's C
/// library.
#[test]
#[ignore = "needs a cluster: PLIMSOLL_TEST_PODS=URL,NAMESPACE,SELECTOR,IMAGE; make test-fleet plays it where that is set"]
fn real_pods_are_slowed_deleted_and_healed() {
    let named = std::env::var("PLIMSOLL_TEST_PODS").expect("PLIMSOLL_TEST_PODS=URL,NAMESPACE,SELECTOR,IMAGE");
    let [url, namespace, selector, image] = named.split(',').collect::<Vec<_>>()[..] else { panic!("{named}") };
    let pods = format!("namespace = \"{namespace}\"\nselector = \"{selector}\"\nimage = \"{image}\"\ncount = 2");
    let sandbox = Sandbox::new();
    let results = sandbox.run(&[&experiment(&sandbox, url, &pods, DELETED)]).exits(0).json();
    println!("deleted: {}", results["trials"][0]["faults"][0]["outage"]);
    assert!(
        events(&sandbox.run_folder()).iter().any(|event| event["event"] == "fault_healed"),
        "another took its place"
    );
    assert_eq!(sandbox.leftovers(), [""; 0]);

    // The link is so slow that a request and its answer take seconds.
    let thin = "[[fault]]\nname = \"thin\"\nkind = \"slow_link\"\non = \"all\"\nat = \"3s\"\nfor = \"10m\"\nwith = { rate = \"8kbit\" }";
    let ask = |within_s: u32| {
        let words = ["--silent", "--output", "/dev/null", "--max-time", &within_s.to_string(), url];
        std::process::Command::new("curl").args(words).status().unwrap().success()
    };
    let sandbox = Sandbox::new();
    let mut playing = sandbox.start_run(&[&experiment(&sandbox, url, &pods, thin), "--set", "load.time=10m"]);
    playing.wait_for_event("fault_begun");
    until("the link is thin", || !ask(1));
    playing.signal("KILL");
    playing.wait();
    until("it is healed without its conductor", || ask(1) && ask(1) && ask(1));
    println!("healed after SIGKILL");
    sandbox.play(&["clean"]).exits(0);
    let ended = json(&sandbox.run_folder().join("plan.json"));
    assert!(ended.is_object());
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
