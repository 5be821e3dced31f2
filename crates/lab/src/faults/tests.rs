//! Tests of the faults on real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use experiment::plan::{TargetKind, When};
use record::events::What;
use serde_json::Value;

use super::*;
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
    assert_eq!(refused(&[("signal", "STOP")]), "fault `it`: `STOP` is no signal that it sends");
    assert_eq!(refused(&[("process", "hub")]), "fault `it`: n1 has no process `hub`");
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
