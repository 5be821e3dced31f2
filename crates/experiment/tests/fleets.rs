//! `[fleet]` on hosts of the lab and over ssh: what becomes of it in the plan, whom faults may hit, and what `check` prints.
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
    assert!(lab.hosts[2..].iter().all(|host| host.role.as_deref() == Some(GENERATOR_ROLE)));
    assert_eq!(lab.profiles.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>(), [pi, vm]);
    assert_eq!(lab.with_generators_only(true).hosts.len(), 2);
    let printed = timeline::print(&plan);
    assert!(printed.contains("2 hosts (raspberry-pi-2)"), "{printed}");
    assert!(printed.contains("by 2 generators on hosts of their own (opteron-vm)"), "{printed}");
    let again = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(plan, again);
}

#[test]
fn faults_hit_a_generators_host_where_it_is_named_and_no_generator_is_a_member() {
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
fn machines_over_ssh_are_no_hosts_of_the_lab() {
    let fleet = "generators = 3\nby = \"ssh\"\nhosts = [\"a\", \"b\"]";
    let plan = read(&file("ssh = [\"pi@10.0.0.11\"]", fleet), &[]).unwrap();
    let trial = &plan.trials[0];
    assert_eq!((trial.lab.hosts.len(), trial.fleet.as_ref().unwrap().by), (1, FleetEngine::Ssh));
    assert!(timeline::print(&plan).contains("by 3 generators over ssh, on a and b"), "{}", timeline::print(&plan));
}
