//! Greetings, which precede the first request of a connection: answered, refused, left unanswered.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use experiment::plan::Step;
use load::LoadOrder;
use load::client::{self, CallError};

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// Requests in order, each with the number of its connection.
type Log = Arc<Mutex<Vec<(usize, String)>>>;

/// Returns a server that logs requests, answers greetings with `greeting`, and answers everything
/// else with a value.
fn redis(greeting: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> (Server, Log) {
    let log = Log::default();
    let told = Arc::clone(&log);
    let server = Server::redis(move |request| {
        let words = String::from_utf8_lossy(&request.body).into_owned();
        let reply = greeting(&words).unwrap_or_else(|| Reply::Bytes(b"$1\r\nv\r\n".to_vec()));
        told.lock().unwrap().push((request.connection, words));
        reply
    });
    (server, log)
}

fn bytes(bytes: &[u8]) -> Option<Reply> {
    Some(Reply::Bytes(bytes.to_vec()))
}

/// Returns a load of reads in database 3, as a user with a known password.
fn read(server: &Server, timeout_s: f64) -> LoadOrder {
    let get = Step { audit: true, expect: pairs(&["value=v"]), ..step("get", &["key=k"]) };
    let mut load = load(2, 0.2, vec![get]);
    load.timeout_s = timeout_s;
    LoadOrder { protocol: "redis".into(), ..orders(&format!("redis://me:{{env:PATH}}@{}/3", server.service()), load) }
}

fn connects(run: &LoadRun) -> (u64, u64) {
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    (rows().map(|row| row.connects).sum(), rows().map(|row| row.connect_failures).sum())
}

#[test]
fn a_greeting_is_answered_before_the_first_request() {
    let (server, log) = redis(|words| match words {
        "SELECT 3" => bytes(b"+OK\r\n"),
        words if words.starts_with("AUTH me ") => bytes(b"+OK\r\n"),
        _ => None,
    });
    let run = play(read(&server, 5.0));
    assert!(run.summary.ok > 2 && run.summary.failed == 0 && run.summary.wrong == 0);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    assert_eq!(connects(&run), (2, 0));
    let log = log.lock().unwrap();
    for connection in [1, 2] {
        let mut words = log.iter().filter(|(number, _)| *number == connection).map(|(_, words)| words.as_str());
        assert_eq!(words.next(), Some(format!("AUTH me {}", std::env::var("PATH").unwrap()).as_str()));
        assert_eq!(words.next(), Some("SELECT 3"));
        assert!(words.all(|words| words == "GET k"));
    }
}

#[test]
fn no_request_follows_a_refused_greeting() {
    let (server, log) = redis(|_| bytes(b"-WRONGPASS invalid username-password pair\r\n"));
    let run = play(read(&server, 5.0));
    assert_eq!(run.summary.ok, 0);
    assert_eq!(run.attempts("answer: wrongpass"), run.summary.failed);
    assert_eq!(connects(&run), (0, run.summary.failed));
    assert!(run.summary.failed > 0 && run.history().iter().all(|line| line.applied == Some(false)));
    assert!(log.lock().unwrap().iter().all(|(_, words)| !words.starts_with("GET")));
}

#[test]
fn no_request_is_sent_if_the_database_is_missing() {
    let (server, log) = redis(|words| match words {
        "SELECT 3" => bytes(b"-ERR DB index is out of range\r\n"),
        words if words.starts_with("AUTH") => bytes(b"+OK\r\n"),
        _ => None,
    });
    let run = play(read(&server, 5.0));
    assert!(run.summary.ok == 0 && run.attempts("answer: err") == run.summary.failed);
    assert!(run.history().iter().all(|line| line.applied == Some(false)), "nothing was asked");
    let notices = run.notices();
    assert!(notices.iter().any(|notice| notice.contains("ERR DB index is out of range")), "{notices:?}");
    assert!(log.lock().unwrap().iter().all(|(_, words)| !words.starts_with("GET")));
}

#[test]
fn an_unanswered_greeting_is_a_connect_timeout() {
    let (server, _) = redis(|_| Some(Reply::Silence));
    let run = play(read(&server, 0.05));
    assert!(run.summary.failed > 0 && run.summary.timeout == 0);
    assert_eq!(run.attempts("connect timeout"), run.summary.failed);
    assert!(run.history().iter().filter(|line| line.applied.is_some()).all(|line| line.applied == Some(false)));
}

#[test]
fn a_broken_greeting_is_a_failed_connect() {
    for reply in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"+OK\r\n+OK\r\n+OK\r\n", b""] {
        let (server, log) = redis(move |_| if reply.is_empty() { Some(Reply::Close) } else { bytes(reply) });
        let run = play(read(&server, 5.0));
        assert!(run.summary.ok == 0 && run.summary.failed > 0);
        assert_eq!(run.attempts("connect failed"), run.summary.failed);
        let notices = run.notices();
        let is_told = notices.iter().any(|notice| notice.contains("invalid (bad answer): `HTTP/1.1 400 Bad Request`"));
        assert_eq!(is_told, reply.starts_with(b"HTTP"), "{notices:?}");
        assert!(log.lock().unwrap().iter().all(|(_, words)| !words.starts_with("GET")));
    }
}

#[test]
fn each_new_connection_is_greeted() {
    let (server, log) = redis(|words| match words {
        "GET k" => Some(Reply::Last(b"$1\r\nv\r\n".to_vec())),
        _ => bytes(b"+OK\r\n"),
    });
    assert!(play(read(&server, 5.0)).summary.ok > 2);
    let connections = server.connections.load(Ordering::SeqCst);
    assert!(connections > 2);
    let log = log.lock().unwrap();
    for connection in 1..=connections {
        let words: Vec<&str> =
            log.iter().filter(|(number, _)| *number == connection).map(|(_, words)| words.as_str()).collect();
        let read = words.iter().position(|words| *words == "GET k").unwrap_or(2);
        assert!(
            read == 2 && words.iter().take(2).zip(["AUTH", "SELECT"]).all(|(words, start)| words.starts_with(start))
        );
    }
}

#[test]
fn single_calls_are_greeted_too() {
    let patience = Duration::from_secs(5);
    let connect =
        |server: &Server| client::connect("redis", &format!("redis://:{{env:PATH}}@{}/3", server.service()), patience);
    let (server, log) = redis(|words| if words == "GET k" { None } else { bytes(b"+OK\r\n") });
    let mut client = connect(&server).unwrap();
    assert_eq!(client.call("get", &pairs(&["key=k"])).unwrap().field("value"), Some(&b"v"[..]));
    assert_eq!(log.lock().unwrap().len(), 3);
    let (server, _) = redis(|_| bytes(b"-WRONGPASS no\r\n"));
    let Err(CallError::Connect { reason, .. }) = connect(&server) else { panic!("not refused") };
    assert_eq!(reason, "answer: wrongpass: the server sent `-WRONGPASS no`");
    let (server, _) = redis(|_| Some(Reply::Close));
    assert!(matches!(connect(&server), Err(CallError::Connect { .. })));
}
