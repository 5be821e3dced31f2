//! Counts of compared answers and of failed expectations.

use std::collections::BTreeMap;
use std::time::Duration;

use experiment::plan::{Expected, Load, Step};
use load::LoadOrder;
use load::recorder::Recorder;
use record::clock::Clock;
use record::folder::RunFolder;
use record::rows::{self, CheckSecond};

use crate::server::{Reply, Request, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// Answers by path. `/right` has everything that the steps expect, `/half` only the status, `/down`
/// nothing. `/cut` gets no answer.
fn site(request: &Request) -> Reply {
    let is = |path: &str| request.body.starts_with(format!("GET {path} ").as_bytes());
    Reply::Bytes(if is("/right") {
        b"HTTP/1.1 200 OK\r\nx: 1\r\ncontent-length: 5\r\n\r\nhello".to_vec()
    } else if is("/half") {
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_vec()
    } else if is("/down") {
        b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec()
    } else if is("/moved") {
        b"HTTP/1.1 301 Moved\r\nlocation: /right\r\nx: 1\r\ncontent-length: 0\r\n\r\n".to_vec()
    } else {
        return Reply::Close;
    })
}

fn get(path: &str, expect: &[&str]) -> Step {
    let with = format!("path=/{path}");
    Step { name: path.to_owned(), expect: pairs::<Expected>(expect), ..step("get", &[&with]) }
}

fn played() -> LoadRun {
    let all = ["status=200", "header.x=1", "body=hello"];
    let steps = vec![
        get("right", &all),
        get("half", &all),
        get("moved", &["header.x=1"]),
        Step { name: "unchecked".to_owned(), ..step("get", &["path=/half"]) },
        // A failed operation ends its cycle.
        Step { every: 2, ..get("cut", &all) },
        get("down", &all),
    ];
    let server = Server::http(site);
    let load = Load { count: Some(20), ..load(2, 5.0, steps) };
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    assert!(run.summary.attempts > 0, "{:?}", run.summary);
    run
}

/// Returns compared answers and failures by operation and expectation.
fn counted(run: &LoadRun) -> BTreeMap<(String, String), (u64, u64)> {
    let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for check in run.intervals.iter().flat_map(|interval| &interval.checks) {
        let sum = counts.entry((check.operation.clone(), check.expectation.clone())).or_default();
        *sum = (sum.0 + check.answers, sum.1 + check.failed);
    }
    counts
}

/// Returns the number of attempts of an operation.
fn attempts(run: &LoadRun, operation: &str) -> u64 {
    let attempts = run.intervals.iter().flat_map(|interval| &interval.attempts);
    attempts.filter(|attempts| attempts.operation == operation).map(|attempts| attempts.count).sum()
}

#[test]
fn each_failed_expectation_of_an_answer_is_counted() {
    let run = played();
    let [right, half, down, moved] = ["right", "half", "down", "moved"].map(|name| attempts(&run, name));
    let expected = [
        ("right", "", right, 0),
        ("half", "", half, half),
        ("half", "body", 0, half),
        ("half", "header.x", 0, half),
        ("down", "", down, down),
        ("down", "body", 0, down),
        ("down", "header.x", 0, down),
        ("down", "status", 0, down),
        ("moved", "", moved, 0),
    ];
    let expected = expected
        .map(|(operation, field, answers, failed)| ((operation.to_owned(), field.to_owned()), (answers, failed)));
    assert_eq!(counted(&run), expected.into(), "`cut` has no answers, and `unchecked` no expectations");
}

#[test]
fn recorded_checks_equal_counted_checks() {
    let run = played();
    let counts = counted(&run);
    let parent = fixture::TestDir::new();
    let folder = RunFolder::create(&parent, "checks", std::time::SystemTime::UNIX_EPOCH).unwrap();
    let trial = folder.create_trial("001").unwrap();
    let mut recorder = Recorder::create(&trial, Clock::starting_in(Duration::ZERO), 1.0).unwrap();
    assert!(!trial.checks().exists(), "loads without expectations have no such file");
    run.intervals.into_iter().for_each(|interval| drop(recorder.take(interval).unwrap()));
    recorder.finish().unwrap();
    let rows: Vec<CheckSecond> = rows::read(&trial.checks()).unwrap().items;
    assert!(rows.iter().all(|row| row.answers.is_some() == row.expectation.is_empty() && row.at_s > 0.0));
    let mut read: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let sum = read.entry((row.operation, row.expectation)).or_default();
        *sum = (sum.0 + row.answers.unwrap_or(0), sum.1 + row.failed);
    }
    assert_eq!(read, counts);
}
