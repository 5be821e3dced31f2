//! Tests of the faults on real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod catalog;
mod hosts;
mod members;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use experiment::plan::{TargetKind, When};
use record::events::What;
use serde_json::{Value, json};

use super::*;
use crate::fixture::stage::Stage;
use crate::fixture::{Bench, is_alive, manifest, server, trial, until};

fn fault(kind: &str, with: &[(&str, &str)]) -> plan::Fault {
    plan::Fault {
        name: "it".to_owned(),
        kind: kind.to_owned(),
        on: "one".to_owned(),
        with: with.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect(),
        when: When::At(0.0),
        for_s: None,
        seed: 1,
        label: String::new(),
        colour: String::new(),
        standing: false,
    }
}

fn downs(site: &mut Site) -> Vec<(String, bool)> {
    let observed = site.poll().into_iter().filter_map(|observed| match observed.what {
        What::ProcessDown { how, expected, .. } => Some((how, expected)),
        _ => None,
    });
    observed.collect()
}

#[test]
fn kinds_are_sorted_and_found() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.info.name));
    for kind in KINDS {
        assert_eq!(find(kind.info.name).unwrap().info.help, kind.info.help);
    }
    assert!(find("earthquake").is_none());
}

#[test]
fn a_killed_process_comes_back_with_the_same_port_and_data() {
    let bench = Bench::new();
    let mut site = bench.up(&manifest(vec![server("server")])).unwrap();
    let (first, service) = (site.members()[0].pid, site.service());
    let kill = find("kill").unwrap();
    assert_eq!((kill.begin)(&fault("kill", &[]), 1, &mut site).unwrap(), Begun { on: "n1".to_owned() });
    let mut seen = Vec::new();
    until("its end is seen", || {
        seen.extend(downs(&mut site));
        !seen.is_empty()
    });
    assert_eq!(seen, [("signal 9".to_owned(), true)]);
    assert!(!is_alive(first) && site.members().is_empty());

    (kill.heal)(&fault("kill", &[]), 1, &mut site).unwrap();
    until("it answers again", || site.caller().call(&service, "ping", &BTreeMap::new()).is_ok());
    assert_ne!(site.members()[0].pid, first);
    let mut stream = TcpStream::connect(&service).unwrap();
    stream.write_all(b"starts\n").unwrap();
    let mut starts = String::new();
    stream.read_to_string(&mut starts).unwrap();
    assert_eq!(starts.lines().count(), 2, "the data folder is the same: {starts}");
    assert!(matches!(site.poll().first().unwrap().what, What::ProcessUp { .. }));

    // The end of the one that came back is not meant.
    site.caller().provoke(&service, "crash", &BTreeMap::new()).unwrap();
    until("its end is seen", || {
        seen.extend(downs(&mut site));
        seen.len() == 2
    });
    assert_eq!(seen[1], ("exit 101".to_owned(), false));
}

#[test]
fn healing_twice_or_without_a_fault_does_nothing() {
    let bench = Bench::new();
    let mut site = bench.up(&manifest(vec![server("server")])).unwrap();
    let pid = site.members()[0].pid;
    (find("kill").unwrap().heal)(&fault("kill", &[]), 1, &mut site).unwrap();
    assert_eq!(site.members()[0].pid, pid);
}

#[test]
fn what_kill_cannot_do_is_said() {
    let bench = Bench::new();
    let mut site = bench.up(&manifest(vec![server("server")])).unwrap();
    let mut refused = |with: &[(&str, &str)]| {
        (find("kill").unwrap().begin)(&fault("kill", with), 1, &mut site).err().unwrap().to_string()
    };
    assert_eq!(refused(&[("signal", "STOP")]), "`STOP` is no signal that it sends");
    assert_eq!(refused(&[("process", "hub")]), "n1 has no process `hub`");
}

#[test]
fn a_call_reaches_the_target_also_if_it_dies_of_it() {
    let bench = Bench::new();
    let mut site = bench.up(&manifest(vec![server("server")])).unwrap();
    let call = find("call").unwrap();
    assert_eq!((call.begin)(&fault("call", &[("call", "ping")]), 1, &mut site).unwrap().on, "n1");
    let refused = (call.begin)(&fault("call", &[("call", "refuse")]), 2, &mut site).err().unwrap();
    assert!(refused.to_string().ends_with("answered no"), "{refused}");
    (call.begin)(&fault("call", &[("call", "crash")]), 3, &mut site).unwrap();
    let mut seen = Vec::new();
    until("its end is seen", || {
        seen.extend(downs(&mut site));
        !seen.is_empty()
    });
    // Crashed by a call, not by us: the events say so, whoever asked.
    assert_eq!(seen, [("exit 101".to_owned(), false)]);
}

#[test]
fn what_the_experiment_did_not_start_is_not_broken() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut site = bench.up_with(&trial(TargetKind::Running { url }), None, &AtomicBool::new(false)).unwrap();
    for kind in KINDS {
        let name = kind.info.name;
        let error = (kind.begin)(&fault(name, &[("call", "ping")]), 1, &mut site).err().unwrap();
        assert!(matches!(&error, Error::NotOurs { kind } if kind == name), "{error}");
    }
}

fn with(kind: &str, on: &str, with: Value) -> plan::Fault {
    let with = with.as_object().unwrap().clone().into_iter().collect();
    plan::Fault { on: on.to_owned(), with, for_s: Some(1.0), ..fault(kind, &[]) }
}

impl Stage {
    fn begin(&mut self, fault: &plan::Fault, number: u32) -> Result<String, Error> {
        (find(&fault.kind).unwrap().begin)(fault, number, &mut self.site).map(|begun| begun.on)
    }

    fn heal(&mut self, fault: &plan::Fault, number: u32) -> Result<(), Error> {
        (find(&fault.kind).unwrap().heal)(fault, number, &mut self.site)
    }
}

#[test]
fn states_of_hosts_reach_their_hosts_and_are_lifted() {
    let link = r#""control":"link","link":"#;
    let table = [
        ("clock_skew", json!({"offset": "-5s"}), r#"{"control":"clock","offset_s":-5.0}"#.to_owned()),
        ("full_disk", json!({}), r#"{"control":"full_disk","leave_bytes":0}"#.to_owned()),
        ("full_disk", json!({"leave": "4KiB"}), r#"{"control":"full_disk","leave_bytes":4096}"#.to_owned()),
        ("host_freeze", json!({}), r#"{"control":"freeze"}"#.to_owned()),
        ("link_flap", json!({}), r#"{"control":"link_flap","down_s":0.5,"up_s":2.0}"#.to_owned()),
        (
            "lossy_link",
            json!({"loss_pct": 5}),
            format!(r#"{{{link}{{"rate_bits_per_s":null,"delay_s":null,"loss_pct":5.0}},"peers":null}}"#),
        ),
        ("memory_limit", json!({"size": "1MiB"}), r#"{"control":"memory","bytes":1048576}"#.to_owned()),
        (
            "slow_link",
            json!({"rate": "10mbit", "delay": "50ms"}),
            format!(r#"{{{link}{{"rate_bits_per_s":10000000.0,"delay_s":0.05,"loss_pct":null}},"peers":null}}"#),
        ),
        ("squeeze", json!({"cpu": 0.25}), r#"{"control":"cpu","of_profile":0.25}"#.to_owned()),
    ];
    let mut stage = Stage::of(3);
    for (kind, arguments, control) in table {
        let fault = with(kind, "n2", arguments);
        assert_eq!(stage.begin(&fault, 7).unwrap(), "n2", "{kind}");
        assert_eq!(stage.done(), [format!("n2 impose it#7 {control}")], "{kind}");
        stage.heal(&fault, 6).unwrap();
        assert_eq!(stage.done(), [] as [&str; 0], "{kind}: another occurrence has nothing to heal");
        stage.heal(&fault, 7).unwrap();
        assert_eq!(stage.done(), ["n2 lift it#7"], "{kind}");
    }
}

#[test]
fn a_group_of_hosts_is_hit_together_or_not_at_all() {
    let mut stage = Stage::of(3);
    let all = with("squeeze", "all", json!({"cpu": 0.5}));
    assert_eq!(stage.begin(&all, 1).unwrap(), "n1, n2, n3");
    stage.done();
    stage.heal(&all, 1).unwrap();
    assert_eq!(stage.done(), ["n1 lift it#1", "n2 lift it#1", "n3 lift it#1"]);
    stage.refuse(Some("n3 impose"));
    assert_eq!(stage.begin(&all, 2).err().unwrap().to_string(), "n3: it cannot");
    let mut lifted: Vec<_> = stage.done().into_iter().filter(|line| line.contains("lift")).collect();
    lifted.sort();
    assert_eq!(
        lifted,
        ["n1 lift it#2", "n2 lift it#2", "n3 lift it#2"],
        "also where it was refused: nobody knows how far it came"
    );
    stage.heal(&all, 2).unwrap();
    assert_eq!(stage.done(), [] as [&str; 0]);
    let error = stage.begin(&with("squeeze", "n9", json!({"cpu": 0.5})), 3).err().unwrap();
    assert_eq!(error.hint().unwrap(), "there are: n1, n2, n3");
}

#[test]
fn figures_follow_the_speed_of_the_lab() {
    let lab = plan::Lab { speed: 0.5, ..plan::Lab::default() };
    let mut stage = Stage::with(1, lab, |_| {});
    stage.begin(&with("slow_link", "n1", json!({"rate": "10mbit", "delay": "50ms"})), 1).unwrap();
    stage.begin(&with("slow_disk", "n1", json!({"write_iops": 100})), 1).unwrap();
    stage.begin(&with("link_flap", "n1", json!({"down": "1s", "up": "1s"})), 1).unwrap();
    let done = stage.done().join("\n");
    for expected in ["5000000.0", r#""delay_s":0.1"#, r#""write_iops":50.0"#, r#""down_s":2.0"#] {
        assert!(done.contains(expected), "{expected}: {done}");
    }
}

#[test]
fn a_slow_disk_goes_by_its_profile_or_by_what_was_measured() {
    let by = with("slow_disk", "n1", json!({"factor": 0.1}));
    let mut stage = Stage::of(1);
    assert!(stage.begin(&by, 1).err().unwrap().to_string().contains("nobody knows what the disk of n1 does"));

    let mut stage = Stage::with(1, plan::Lab::default(), |host| {
        host.storage = Some(record::events::HostFigures { storage_write_per_s: Some(500.0), ..Default::default() });
    });
    stage.begin(&by, 1).unwrap();
    assert!(stage.done()[0].contains(r#""write_iops":50.0"#));

    let disk = experiment::profile::Disk { write_iops: Some(200.0), ..Default::default() };
    let profile = experiment::profile::Profile { name: "pi".to_owned(), disk, ..Default::default() };
    let host = plan::Host { name: "n1".to_owned(), profile: Some("pi".to_owned()), ..plan::Host::default() };
    let lab = plan::Lab { speed: 0.5, hosts: vec![host], profiles: vec![profile], ..plan::Lab::default() };
    let mut stage = Stage::with(1, lab, |_| {});
    stage.begin(&by, 1).unwrap();
    assert!(stage.done()[0].contains(r#""write_iops":10.0"#));
}

#[test]
fn a_partition_cuts_every_host_as_its_shape_says() {
    let mut stage = Stage::of(3);
    let cut = |host: &str, from: &[&str], to: &[&str]| {
        format!("{host} impose it#1 {}", json!({"control": "cut", "from": from, "to": to}))
    };
    let halves = with("partition", "n2", json!({}));
    assert_eq!(stage.begin(&halves, 1).unwrap(), "n2");
    let (n1, n2, n3) = ("127.0.0.1", "127.0.0.2", "127.0.0.3");
    assert_eq!(stage.done(), [cut("n1", &[n2], &[]), cut("n2", &[n1, n3], &[]), cut("n3", &[n2], &[])]);
    stage.heal(&halves, 1).unwrap();
    assert_eq!(stage.done(), ["n1 lift it#1", "n2 lift it#1", "n3 lift it#1"]);

    stage.begin(&with("partition", "n2", json!({"shape": "one_way"})), 1).unwrap();
    assert_eq!(stage.done(), [cut("n1", &[n2], &[]), cut("n3", &[n2], &[])]);

    // Toward 127.0.0.2 this machine has the address 127.0.0.1, as the clients do here.
    stage.begin(&with("partition", "n2", json!({"clients": "majority"})), 1).unwrap();
    assert_eq!(stage.done()[1], cut("n2", &[n1, n3, n1], &[n1]));

    let refused = stage.begin(&with("partition", "n1", json!({"shape": "ring"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "in a ring of 3 hosts all are neighbours: it takes 4");
}

#[test]
fn a_crashed_host_comes_back_only_if_asked() {
    let mut stage = Stage::of(2);
    let mut crash = with("host_crash", "n2", json!({}));
    stage.begin(&crash, 1).unwrap();
    assert!(stage.begin(&crash, 2).err().unwrap().to_string().contains("n2 is down already"));
    assert_eq!(stage.done(), ["n2 crash"]);
    stage.heal(&crash, 1).unwrap();
    assert_eq!(stage.done(), ["n2 boot", "n2 start server", "n2 start agent"]);
    crash.for_s = None;
    stage.begin(&crash, 3).unwrap();
    stage.heal(&crash, 3).unwrap();
    assert_eq!(stage.done(), ["n2 crash"]);
}

#[test]
fn processes_are_paused_and_restarted() {
    let mut stage = Stage::of(2);
    let pause = with("pause", "all", json!({"process": "agent"}));
    assert_eq!(stage.begin(&pause, 1).unwrap(), "n1, n2");
    stage.heal(&pause, 1).unwrap();
    let group = |host: &str, signal: u8| format!("{host} agent group signal {signal}");
    assert_eq!(stage.done(), [group("n1", 19), group("n2", 19), group("n1", 18), group("n2", 18)]);

    assert_eq!(stage.begin(&with("restart", "n1", json!({})), 1).unwrap(), "n1");
    stage.site.poll();
    assert_eq!(stage.done(), ["n1 server signal 15", "n1 start server"]);
    let refused = stage.begin(&with("restart", "n1", json!({"process": "hub"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "n1 has no process `hub`");
}

#[test]
fn a_command_is_run_and_undone() {
    let mut stage = Stage::of(2);
    let command = with("command", "n2", json!({"run": "break it", "heal": "mend it", "within": "3s"}));
    assert_eq!(stage.begin(&command, 1).unwrap(), "n2");
    stage.heal(&command, 1).unwrap();
    stage.heal(&command, 1).unwrap();
    assert_eq!(stage.done(), ["n2 run `break it` within 3 s", "n2 run `mend it` within 3 s"]);
    let refused = stage.begin(&with("command", "n1", json!({"run": "fail"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "`run` on n1: exit 1: it is broken");
}

#[test]
fn this_machine_is_not_broken_as_a_host() {
    let mut stage = Stage::with(1, plan::Lab::default(), |host| host.kind = "local");
    let of_hosts = [
        "clock_skew",
        "full_disk",
        "host_crash",
        "host_freeze",
        "link_flap",
        "lossy_link",
        "memory_limit",
        "partition",
        "slow_disk",
        "slow_link",
        "squeeze",
    ];
    for kind in of_hosts {
        let error = stage.begin(&with(kind, "n1", json!({})), 1).err().unwrap();
        assert!(matches!(error, Error::NotAHost), "{kind}: {error}");
        assert!(error.hint().unwrap().contains("hosts = 3"));
    }
    assert_eq!(stage.done(), [] as [&str; 0]);
    stage.begin(&with("pause", "n1", json!({})), 1).unwrap();
}
