//! `[fleet]` on hosts of the lab and over ssh: its plan, the victims of faults, and the output of
//! `check`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use experiment::plan::{FleetEngine, GENERATOR_ROLE};
use experiment::timeline;
use known::read;

fn file(lab: &str, fleet: &str) -> String {
    format!(
        "[target]\nuse = \"vsns\"\n[lab]\n{lab}\n[load]\nagents = 4\ntime = \"1m\"\n[[load.cycle]]\ncall = \"ping\"\n[fleet]\n{fleet}\n"
    )
}

const VIRTUAL: &str = "generators = 2\nby = \"virtual\"\nprofile = \"opteron-vm\"";

#[test]
fn virtual_generators_have_hosts_of_their_own() {
    let plan = read(&file("hosts = 2\nprofile = \"raspberry-pi-2\"", VIRTUAL), &[]).unwrap();
    let lab = &plan.trials[0].lab;
    let hosts: Vec<_> = lab
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.profile.as_deref().unwrap(), host.is_generator))
        .collect();
    let (pi, vm) = ("raspberry-pi-2", "opteron-vm");
    assert_eq!(hosts, [("n1", pi, false), ("n2", pi, false), ("gen1", vm, true), ("gen2", vm, true)]);
    assert!(lab.hosts[2..].iter().all(|host| host.roles == [GENERATOR_ROLE]));
    assert_eq!(lab.profiles.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>(), [pi, vm]);
    assert_eq!(lab.with_generators_only(true).hosts.len(), 2);
    let printed = timeline::print(&plan);
    assert!(printed.contains("2 hosts (raspberry-pi-2)"), "{printed}");
    assert!(printed.contains("by 2 generators on hosts of their own (opteron-vm)"), "{printed}");
    let again = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(plan, again);
}

#[test]
fn generators_are_not_members_but_can_be_fault_victims() {
    let fault = |kind: &str, on: &str| {
        let fault = format!("[[fault]]\nname = \"f\"\nkind = \"{kind}\"\non = \"{on}\"\nat = \"5s\"\nfor = \"5s\"\n");
        read(&format!("{}{fault}", file("hosts = 2", VIRTUAL)), &[])
    };
    fault("host_crash", "gen2").unwrap();
    let none = fault("host_crash", "gen3").unwrap_err();
    assert!(none.contains("there is no `gen3` in this lab"), "{none}");
    let few = fault("host_crash", "minority").unwrap_err();
    assert!(few.contains("2 members have no minority"), "{few}");
}

#[test]
fn ssh_generators_are_not_lab_hosts() {
    let fleet = "generators = 3\nby = \"ssh\"\nhosts = [\"a\", \"b\"]";
    let plan = read(&file("ssh = [\"pi@10.0.0.11\"]", fleet), &[]).unwrap();
    let trial = &plan.trials[0];
    assert_eq!((trial.lab.hosts.len(), trial.fleet.as_ref().unwrap().by), (1, FleetEngine::Ssh));
    assert!(timeline::print(&plan).contains("by 3 generators over ssh, on a and b"), "{}", timeline::print(&plan));
}

#[test]
fn platform_settings_are_in_the_plan() {
    let fleet = "generators = 3\nby = \"kubernetes\"\n[fleet.kubernetes]\nnamespace = \"load\"\nnodes = { pool = \"load\" }\ncpu = 2";
    let plan = read(&file("ssh = [\"pi@10.0.0.11\"]", fleet), &[]).unwrap();
    let of = plan.trials[0].fleet.as_ref().unwrap();
    let kubernetes = &of.kubernetes;
    assert_eq!((of.by, of.wait_s), (FleetEngine::Kubernetes, 120.0));
    assert_eq!((kubernetes.namespace.as_deref(), kubernetes.cpu.as_deref()), (Some("load"), Some("2")));
    assert_eq!((kubernetes.image.as_str(), kubernetes.nodes["pool"].as_str()), ("debian:12-slim", "load"));
    let printed = timeline::print(&plan);
    assert!(printed.contains("by 3 generators, pods of Kubernetes in the namespace load"), "{printed}");
    let again = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(plan, again);

    let fleet =
        "generators = 2\nby = \"slurm\"\nwait = \"30s\"\nslurm = { partition = \"load\", options = [\"--exclusive\"] }";
    let plan = read(&file("ssh = [\"pi@10.0.0.11\"]", fleet), &[]).unwrap();
    let of = plan.trials[0].fleet.as_ref().unwrap();
    assert_eq!(
        (of.by, of.wait_s, of.slurm.options.as_slice()),
        (FleetEngine::Slurm, 30.0, &["--exclusive".to_owned()][..])
    );
    assert!(timeline::print(&plan).contains("by 2 generators, jobs of Slurm in the partition load"));
}

#[test]
fn a_fleet_that_only_some_variants_have_is_listed_as_such() {
    let variants =
        "[[variant]]\nname = \"alone\"\n[[variant]]\nname = \"three\"\nfleet = { generators = 3, by = \"virtual\" }\n";
    let text = file("hosts = 1", "").replace("[fleet]\n", variants);
    let printed = timeline::print(&read(&text, &[]).unwrap());
    assert!(printed.contains("by 3 generators on hosts of their own or not"), "{printed}");
}

#[test]
fn settings_of_other_engines_and_unreachable_targets_are_refused() {
    let other =
        read(&file("ssh = [\"pi@10.0.0.11\"]", "generators = 2\nwait = \"1m\"\nslurm = { partition = \"x\" }"), &[]);
    let other = other.unwrap_err();
    assert!(other.contains("`slurm` belongs to by = \"slurm\""), "{other}");
    assert!(other.contains("there is no placement to wait for"), "{other}");
    let far = read(&file("hosts = 2", "generators = 2\nby = \"kubernetes\""), &[]).unwrap_err();
    assert!(far.contains("other machines do not reach the lab's virtual hosts"), "{far}");
}

fn pods(fault: &str) -> String {
    format!(
        "[target]\nurl = \"http://10.0.0.1:80\"\n[lab.pods]\nselector = \"app=echo\"\nimage = \"tools\"\ncount = 3\n[load]\nagents = 4\ntime = \"1m\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n[[fault]]\nname = \"f\"\non = \"pod2\"\nat = \"5s\"\nfor = \"5s\"\n{fault}\n"
    )
}

#[test]
fn pods_of_a_target_that_runs_already_are_hosts() {
    let plan = read(&pods("kind = \"slow_link\"\nwith = { rate = \"1mbit\" }"), &[]).unwrap();
    let lab = &plan.trials[0].lab;
    assert_eq!(lab.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["pod1", "pod2", "pod3"]);
    assert!(!lab.is_virtual() && lab.hosts.iter().all(experiment::plan::Host::is_real));
    assert!(timeline::print(&plan).contains("3 hosts, pods of app=echo"), "{}", timeline::print(&plan));
    let again = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(plan, again);
    read(&pods("kind = \"host_crash\""), &[]).unwrap();
}

#[test]
fn unsupported_uses_of_pods_are_refused() {
    let killed = read(&pods("kind = \"kill\""), &[]).unwrap_err();
    assert!(killed.contains("`kill` cannot be done to a pod") && killed.contains("`slow_link`"), "{killed}");
    let ours = pods("kind = \"host_crash\"").replace("url = \"http://10.0.0.1:80\"", "use = \"vsns\"");
    assert!(read(&ours, &[]).unwrap_err().contains("pods need a target that is already running"));
}
