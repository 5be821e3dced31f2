//! Nghttpd, an independent HTTP/2 server, under the engine.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Failover, Load, Step, StreamEnd, Tls};
use fixture::{KilledAtEnd, TestDir, free_address, until};
use load::client::{self, CallError, Client};
use load::{LoadOrder, TlsTrust};
use wire::protocols::http2::testing::frame;

use crate::secret::Authority;
use crate::setting::{LoadRun, load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with the test.
struct Nghttpd {
    _process: KilledAtEnd,
    service: String,
    _folder: TestDir,
}

impl Nghttpd {
    fn start(options: &[&str]) -> Self {
        Self::start_by("http", &[&["--no-tls"], options].concat(), &[])
    }

    fn start_with_tls() -> Self {
        let (certificate, key) = Authority::new().identity();
        let folder = TestDir::new();
        let files = [folder.write("key.pem", key), folder.write("certificate.pem", certificate)];
        Self::start_by("https", &[], &files)
    }

    fn start_by(scheme: &str, options: &[&str], identity: &[PathBuf]) -> Self {
        let folder = TestDir::new();
        folder.write("small", "hello");
        folder.write("large", vec![b'x'; 3_000_000]);
        folder.write("feed.sse", "data: an event of a feed\n\n".repeat(10_000));
        let types = folder.write("types", "text/event-stream sse\n");
        let address = free_address();
        let process = Command::new("nghttpd")
            .args(["--address=127.0.0.1", "--htdocs"])
            .arg(&*folder)
            .arg(format!("--mime-types-file={}", types.display()))
            .args(options)
            .arg(address.port().to_string())
            .args(identity)
            .stdout(Stdio::null())
            .spawn()
            .expect("needs nghttpd: scripts/need.sh nghttpd");
        let server = Self { _process: KilledAtEnd(process), service: format!("{scheme}://{address}"), _folder: folder };
        until("nghttpd listens", || server.connect().is_ok());
        server
    }

    fn connect(&self) -> Result<Client, CallError> {
        let trust = TlsTrust { tls: insecure(), ..TlsTrust::default() };
        client::connect_trusting("http2", &self.service, &trust, PATIENCE)
    }

    fn orders(&self, load: Load) -> LoadOrder {
        LoadOrder { protocol: "http2".into(), tls: insecure(), ..orders(&self.service, load) }
    }
}

fn insecure() -> Tls {
    Tls { insecure: true, ..Tls::default() }
}

/// Returns a load whose agents share a connection.
fn shared(agents: u32, steps: Vec<Step>) -> Load {
    Load { connections: Connections { keep_alive: true, pipeline: agents }, ..load(agents, 0.3, steps) }
}

fn get() -> Step {
    Step { expect: pairs(&["status=200", "body=hello", "header.content-length=5"]), ..step("get", &["path=/small"]) }
}

fn is_all_ok(run: &LoadRun) -> bool {
    run.summary.ok > 8 && run.results().into_iter().eq(["ok"])
}

fn connects(run: &LoadRun) -> u64 {
    run.intervals.iter().map(|interval| interval.generator.connects).sum()
}

#[test]
fn answers_of_a_server_have_their_status_headers_and_body() {
    let server = Nghttpd::start(&["--trailer=x-end: yes"]);
    let mut client = server.connect().unwrap();
    for (path, status, body) in [("/small", "200", Some("hello")), ("/absent", "404", None), ("/small", "200", None)] {
        let answer = client.call("get", &pairs(&[&format!("path={path}")])).unwrap();
        assert_eq!((answer.ok, answer.status.as_str()), (status == "200", status), "{path}");
        let found = answer.field("body").unwrap();
        assert!(body.is_none_or(|body| found == body.as_bytes()), "{found:?}");
    }
    let large = client.call("get", &pairs(&["path=/large"])).unwrap();
    assert_eq!(large.field("body").unwrap().len(), 3_000_000);
    let head = client.call("head", &pairs(&["path=/large"])).unwrap();
    assert!(head.ok && head.field("body") == Some(b""), "{head:?}");
}

#[test]
fn agents_share_a_connection() {
    let server = Nghttpd::start(&[]);
    let run = play(server.orders(shared(64, vec![get()])));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), 1);
}

#[test]
fn agents_share_a_connection_with_tls() {
    let server = Nghttpd::start_with_tls();
    let run = play(server.orders(shared(8, vec![get()])));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), 1);
}

#[test]
fn a_stream_limit_is_waited_for() {
    let server = Nghttpd::start(&["--max-concurrent-streams=2"]);
    let run = play(server.orders(shared(16, vec![get()])));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), 1);
}

#[test]
fn a_connection_for_each_request() {
    let server = Nghttpd::start(&[]);
    let mut load = load(2, 0.3, vec![get()]);
    load.connections.keep_alive = false;
    let run = play(server.orders(load));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert!(connects(&run) >= run.summary.ok, "{}", connects(&run));
}

/// The server's windows of 64 KiB are smaller than the bodies.
#[test]
fn long_uploads_come_back() {
    let server = Nghttpd::start(&["--echo-upload", "--window-bits=16", "--connection-window-bits=16"]);
    let text: String = (0..1_000_000).map(|number: u32| char::from(b'a' + (number % 23) as u8)).collect();
    let mut client = server.connect().unwrap();
    for _ in 0..2 {
        let answer = client.call("post", &pairs(&["path=/x", &format!("body={text}")])).unwrap();
        assert!(answer.ok && answer.field("body") == Some(text.as_bytes()));
    }
    let body = format!("body={{agent}}-{{seq}}-{}", &text[..200_000]);
    let post = Step { expect: pairs(&[&body]), ..step("post", &["path=/x", &body]) };
    let run = play(server.orders(shared(8, vec![post])));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), 1);
}

#[test]
fn an_answer_before_the_end_of_the_body_is_taken() {
    let server = Nghttpd::start(&["--early-response", "--window-bits=16"]);
    let post = Step { expect: pairs(&["body=hello"]), ..step("post", &["path=/small", "body={bytes:300000}"]) };
    let run = play(server.orders(shared(4, vec![post])));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
}

#[test]
fn a_timeout_resets_the_stream_and_keeps_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::Builder::new().spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&frame(4, 0, 0, b"")).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut load = shared(4, vec![step("get", &["path=/"])]);
    load.timeout_s = 0.05;
    let run = play(LoadOrder { protocol: "http2".into(), ..orders(&service, load) });
    assert!(run.results().into_iter().eq(["timeout"]), "{:?}", run.results());
    assert_eq!(connects(&run), 1);
    let sent = server.unwrap().join().unwrap();
    let resets = sent.windows(5).filter(|window| window == b"\0\0\x04\x03\0").count();
    assert_eq!(resets as u64, run.summary.timeout);
    assert!(sent.ends_with(&frame(7, 0, 0, &[0; 8])), "the connection ends with GOAWAY");
}

/// Starts a server that sends its settings and nothing more.
fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let play = move || {
                let mut buffer = [0; 4096];
                drop(stream.write_all(&frame(4, 0, 0, b"")));
                while let Ok(1..) = stream.read(&mut buffer) {}
            };
            std::thread::Builder::new().spawn(play).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    service
}

#[test]
fn failover_leaves_a_connection_that_is_silent_for_two_timeouts() {
    let server = Nghttpd::start(&[]);
    let mut load = shared(4, vec![get()]);
    (load.timeout_s, load.time_s, load.think_s) = (0.2, 1.0, 0.001);
    load.reconnects.failover = Failover::Next;
    let run = play(LoadOrder { services: vec![silent(), server.service.clone()], ..server.orders(load) });
    // Two agents share the silent connection. The first timeout of the second round ends it.
    let others = run.attempts("connection closed");
    assert!(run.summary.ok > 4 && others < 2, "{:?} {:?}", run.summary, run.results());
    assert_eq!(run.summary.timeout + others, 4, "{:?}", run.results());
    assert_eq!(connects(&run), 3, "the next member is tried once");
}

#[test]
fn streams_of_events_are_counted_and_the_rest_is_cancelled() {
    let server = Nghttpd::start(&[]);
    for (messages, expected) in [(None, 10_000), (Some(30), 30)] {
        let stream = Some(StreamEnd { messages, until: None });
        let load = Load { count: Some(40), ..shared(4, vec![Step { stream, ..step("get", &["path=/feed.sse"]) }]) };
        let run = play(server.orders(load));
        assert_eq!((run.summary.ok, run.messages()["get"]), (40, 40 * expected), "{:?}", run.results());
        let connects: u64 = run.intervals.iter().map(|interval| interval.generator.connects).sum();
        assert_eq!(connects, 1, "a cancelled stream keeps the connection");
    }
}
