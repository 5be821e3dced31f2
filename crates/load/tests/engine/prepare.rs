//! Preparation: every repetition runs once, and the first failure ends it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use experiment::plan::{Retry, Step};
use load::{Error, LoadOrder, LoadPurpose};
use record::events::{By, HistoryEntry};

use crate::server::{Reply, Server, text};
use crate::setting::{load, orders, pairs, play, step, try_play};

fn preparing(server: &Server, agents: u32, count: u64) -> LoadOrder {
    let save = Step { audit: true, ..step("save", &["key={seq}", "value=v"]) };
    let mut load = load(agents, 1.0, vec![save]);
    load.threads = Some(2);
    LoadOrder { purpose: LoadPurpose::Prepare { count }, ..orders(&server.service(), load) }
}

fn key(body: &[u8]) -> u64 {
    let (_, rest) = text(body);
    String::from_utf8_lossy(text(rest).0).parse().unwrap()
}

#[test]
fn every_repetition_runs_once() {
    for (agents, count) in [(7, 100), (16, 5), (1, 1)] {
        let keys: Arc<Mutex<Vec<u64>>> = Arc::default();
        let seen = Arc::clone(&keys);
        let server = Server::frames(move |request| {
            seen.lock().unwrap().push(key(&request.body));
            Reply::Frame(0, Vec::new())
        });
        let run = play(preparing(&server, agents, count));
        let keys = keys.lock().unwrap();
        assert_eq!(keys.iter().copied().collect::<BTreeSet<u64>>(), (1..=count).collect());
        assert_eq!((keys.len() as u64, run.summary.ok), (count, count));
        assert!(run.history().iter().all(|line| line.by == By::Prepare && line.agent.is_none()));
        assert_eq!(run.history().len() as u64, count);
    }
}

#[test]
fn kept_values_are_told_beside_the_history() {
    for (answer, expected) in [(&b"t1"[..], Some("t1")), (b"", Some("")), (b"\xff", None)] {
        let server = Server::frames(move |_| Reply::Frame(0, answer.to_vec()));
        let mut read = Step { audit: true, ..step("load", &["key=k"]) };
        read.keep = pairs(&["token=answer.value"]);
        let purpose = LoadPurpose::Prepare { count: 1 };
        let run = play(LoadOrder { purpose, ..orders(&server.service(), load(1, 1.0, vec![read.clone()])) });
        let is_kept = |line: &&HistoryEntry| line.effect == load::KEPT;
        let (kept, others): (Vec<_>, Vec<_>) = run.history().into_iter().partition(is_kept);
        assert_eq!(others.len(), 1);
        let kept: Vec<_> = kept.iter().map(|line| (line.key.as_str(), line.value.as_deref())).collect();
        assert_eq!(kept, expected.map(|value| ("token", Some(value))).into_iter().collect::<Vec<_>>());
        let run = play(orders(&server.service(), load(1, 0.05, vec![read])));
        assert!(run.history().iter().all(|line| line.effect == "read"), "a load tells only its operations");
    }
}

#[test]
fn a_failure_is_an_error_naming_the_operation() {
    let server = Server::frames(|request| Reply::Frame(if key(&request.body) == 13 { 3 } else { 0 }, Vec::new()));
    let error = try_play(preparing(&server, 4, 1000)).err().unwrap();
    assert!(
        matches!(&error, Error::Prepare { operation, seq: 13, result }
        if operation == "save" && result == "answer: unavailable"),
        "{error}"
    );
}

#[test]
fn a_temporary_failure_is_retried() {
    let failures = Mutex::new(3);
    let server = Server::frames(move |_| {
        let mut left = failures.lock().unwrap();
        if *left == 0 {
            return Reply::Frame(0, Vec::new());
        }
        *left -= 1;
        Reply::Close
    });
    let mut orders = preparing(&server, 1, 10);
    orders.load.retry = Retry::Tries { tries: 5, wait_s: 0.001 };
    let run = play(orders);
    assert_eq!((run.summary.ok, run.summary.attempts), (10, 13));
}
