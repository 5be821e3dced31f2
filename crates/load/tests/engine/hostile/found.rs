//! Regression tests for bugs found with hostile targets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use load::TlsTrust;
use load::client::{self, CallError};

use wire::protocols::http::Http;
use wire::testing::TestedProtocol as _;
use wire::testing::hostile::PeerAction::{self, Hear, Reset, Say, Wait};

use super::server::Hostile;
use super::{IMPATIENCE_S, PATIENCE_S, balance, begun, in_time};
use crate::secret::{Authority, Secret};
use crate::setting::{load, orders, pairs, play, step};

/// A plain answer.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Bug: a greeting was taken for the answer to the first request. Most of these agents receive the
/// greeting before they can send a request.
#[test]
fn unsolicited_bytes_are_no_answer() {
    let target = Hostile::start("http", &[Say(OK), Wait]);
    let service = target.address();
    let run = begun(|time_s| {
        let mut load = load(64, time_s, vec![step("get", &["path=/x"])]);
        (load.timeout_s, load.drain_s, load.think_s) = (30.0, 30.0, 10.0);
        let orders = load::LoadOrder { protocol: "http".into(), ..orders(&service, load) };
        in_time("greets", move || play(orders))
    });
    balance("greets", &run);
    assert!(run.results().iter().all(|word| ["ok", "bad answer"].contains(word)), "{:?}", run.results());
    let greeted = run.attempts("bad answer");
    assert_eq!(run.summary.ok + greeted, run.summary.attempts);
    assert_eq!(
        run.notices().iter().filter(|notice| notice.contains("unsolicited bytes")).count(),
        usize::from(greeted > 0)
    );
}

/// Bug: the system reports a reset only once. If a write reported it, a later read saw an orderly
/// end: `connection closed`. A partial answer that ends with its connection would have counted as
/// complete.
#[test]
fn a_reset_found_by_a_write_is_no_orderly_end() {
    let target = Hostile::start("http", &[Reset]);
    let service = target.address();
    let run = begun(|time_s| {
        let mut load = load(16, time_s + 0.5, vec![step("get", &["path=/x"])]);
        load.reconnect_s = 0.0005;
        let orders = load::LoadOrder { protocol: "http".into(), ..orders(&service, load) };
        in_time("resets", move || play(orders))
    });
    balance("resets", &run);
    let words = run.results();
    assert!(words.iter().all(|word| ["connect failed", "connection reset"].contains(word)), "{words:?}");
}

/// Bug: if the target sends first, bytes that arrived before the first look at the connection
/// counted as unsolicited.
#[test]
fn an_early_banner_is_read_completely() {
    let target = Hostile::start("lines", &[Say(b"1\n2\n"), Hear, Say(b"yes\n"), Wait]);
    let service = format!("tcp://{}?banner=2", target.address());
    let run = begun(|time_s| {
        let mut load = load(64, time_s, vec![step("send", &["line=x"])]);
        (load.timeout_s, load.drain_s, load.think_s) = (30.0, 30.0, 10.0);
        let orders = load::LoadOrder { protocol: "lines".into(), ..orders(&service, load) };
        in_time("says its banner", move || play(orders))
    });
    balance("says its banner", &run);
    assert_eq!(run.results().into_iter().collect::<Vec<_>>(), ["ok"]);
}

/// Bug: the second of two answers to one request was taken for the answer to the next.
#[test]
fn a_second_answer_is_not_taken_for_the_next_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = listener.local_addr().unwrap().to_string();
    let ((asks, asked), (says, said)) = (channel(), channel());
    let server = std::thread::Builder::new().spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        Http::read_request(&mut first).unwrap();
        first.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none").unwrap();
        // Sent only after the first answer was read, so that it is not surplus of that answer.
        asked.recv().unwrap();
        first.write_all(OK).unwrap();
        says.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        Http::read_request(&mut second).unwrap();
        second.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo").unwrap();
    });
    let (first, second) = in_time("answers twice", move || {
        let mut client = client::connect("http", &service, Duration::from_secs(30)).unwrap();
        let get = pairs(&["path=/x"]);
        let first = client.call("get", &get).unwrap();
        asks.send(()).unwrap();
        said.recv().unwrap();
        (first, client.call("get", &get).unwrap())
    });
    assert_eq!((first.field("body"), second.field("body")), (Some(&b"one"[..]), Some(&b"two"[..])));
    server.unwrap().join().unwrap();
}

/// The same bug by TLS, for which there was no check. Tickets for session resumption arrive
/// unsolicited too, and are not answers.
#[test]
fn a_second_answer_by_tls_is_not_taken_for_the_next_call() {
    let authority = Authority::new();
    let (says, said) = (Mutex::new(None), Arc::new(Barrier::new(2)));
    let told = Arc::clone(&said);
    let server = Secret::serve(authority.vouch(&["127.0.0.1"], |_| {}), move |stream, _| {
        let mut times = says.lock().unwrap();
        let time = times.get_or_insert(0);
        *time += 1;
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{time}").as_bytes()).unwrap();
        stream.flush().unwrap();
        if *time == 2 {
            told.wait();
            stream.write_all(OK).unwrap();
            stream.flush().unwrap();
            told.wait();
        }
        true
    });
    let (service, trust) = (server.service(), TlsTrust { tls: authority.trusted(), ..TlsTrust::default() });
    let bodies = in_time("answers twice by TLS", move || {
        let mut client = client::connect_trusting("http", &service, &trust, Duration::from_secs(30)).unwrap();
        let mut get = || client.call("get", &pairs(&["path=/x"])).unwrap().field("body").unwrap().to_vec();
        let mut bodies = vec![get(), get()];
        // The second answer is sent after the first was read, so that it is not surplus of the
        // first.
        said.wait();
        said.wait();
        bodies.push(get());
        bodies
    });
    assert_eq!(bodies, [b"1", b"2", b"3"]);
    assert_eq!(server.handshakes.lock().unwrap().len(), 2, "one for the first two calls");
}

/// Bug: timeouts of a greeting, and several answers to it, were reported as ends of an operation
/// that may have taken effect. But no request was sent yet.
#[test]
fn a_failed_greeting_is_a_failed_connect() {
    static SILENT: &[PeerAction] = &[Hear, Wait];
    static TWICE: &[PeerAction] = &[Hear, Say(b"+OK\r\n+OK\r\n"), Wait];
    for (actions, timeout_s) in [(SILENT, IMPATIENCE_S), (TWICE, PATIENCE_S)] {
        let target = Hostile::start("redis", actions);
        let service = format!("redis://{}/3", target.address());
        let connected = in_time("greets badly", move || {
            client::connect("redis", &service, Duration::from_secs_f64(timeout_s)).map(drop)
        });
        assert!(matches!(connected, Err(CallError::Connect { .. })), "{connected:?}");
    }
}

/// Bug: the timeout applied to each piece that the target took, and not to the whole operation.
#[test]
fn a_slowly_reading_target_does_not_extend_the_timeout() {
    const BODY: usize = 64 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = listener.local_addr().unwrap().to_string();
    let server = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut taken, mut buffer) = (0, vec![0; 256 * 1024]);
        let (_never, pause) = channel::<()>();
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            taken += count;
            let _ = pause.recv_timeout(Duration::from_millis(20));
        }
        taken
    });
    let word = in_time("takes little", move || {
        let mut client = client::connect("http", &service, Duration::from_millis(300)).unwrap();
        client.call("post", &pairs(&["path=/x", &format!("body={}", "x".repeat(BODY))]))
    });
    assert!(matches!(word, Err(CallError::Timeout(_))), "{word:?}");
    let taken = server.unwrap().join().unwrap();
    assert!(taken < BODY, "all of it was sent");
}
