//! Answers that are streams of Server-Sent Events, and the time to the first byte of an answer.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use experiment::plan::{Load, Step, StreamEnd};
use load::LoadOrder;
use record::events::Outcome;
use record::hlog::Time;
use wire::protocols::http::Http;
use wire::testing::TestedProtocol as _;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, play, step, try_play};

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";
const EVENTS: &str = ": a comment\n\ndata: one\n\ndata: two\r\n\r\nevent: x\rdata: thr\rdata: ee\r\rdata: [DONE]\n\n";

/// Returns the end of a stream.
fn end(messages: Option<u32>, until: Option<&str>) -> StreamEnd {
    StreamEnd { messages, until: until.map(str::to_owned) }
}

fn listen(end: StreamEnd) -> Step {
    Step { stream: Some(end), ..step("get", &["path=/events"]) }
}

/// Returns a load of two agents that ends after this number of operations.
fn counted(count: u64, step: Step) -> Load {
    Load { count: Some(count), time_s: 60.0, ..load(2, 0.1, vec![step]) }
}

fn http(service: &str, load: Load) -> LoadOrder {
    LoadOrder { protocol: "http".into(), ..orders(&format!("http://{service}/"), load) }
}

fn run(service: &str, load: Load) -> LoadRun {
    play(http(service, load))
}

fn count(run: &LoadRun, outcome: Outcome, time: Time) -> u64 {
    run.times_ns(outcome, time).len() as u64
}

/// Splits an event stream into chunks of this many bytes.
fn chunked(body: &str, length: usize) -> String {
    let chunks = body.as_bytes().chunks(length);
    let chunks = chunks.map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).unwrap()));
    format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.collect::<String>())
}

/// A server that sends pieces of an answer, each in its own packet, and then holds the connection.
/// Returns its address, and the number of connections so far.
fn piecewise(pieces: Vec<Vec<u8>>, is_endless: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (connections, pieces) = (Arc::new(AtomicUsize::new(0)), Arc::new(pieces));
    let counted = Arc::clone(&connections);
    let answer = move |mut stream: TcpStream| {
        stream.set_nodelay(true).unwrap();
        while Http::read_request(&mut stream).is_some() {
            let last = pieces.last().filter(|_| is_endless).into_iter().cycle();
            if !pieces.iter().chain(last).all(|piece| stream.write_all(piece).is_ok()) {
                return;
            }
        }
    };
    let accept = move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let (stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::Builder::new().spawn(move || answer(stream)).unwrap();
        }
    };
    std::thread::Builder::new().spawn(accept).unwrap();
    (address, connections)
}

#[test]
fn events_are_counted_in_every_framing() {
    let length = format!("{STREAM}Content-Length: {}\r\n\r\n{EVENTS}", EVENTS.len());
    let until_close = format!("{STREAM}\r\n{EVENTS}");
    for (answer, is_last) in
        [(chunked(EVENTS, 7), false), (chunked(EVENTS, 1), false), (length, false), (until_close, true)]
    {
        let server = Server::http(move |request| {
            assert!(String::from_utf8_lossy(&request.body).contains("\r\nAccept: text/event-stream\r\n"));
            let bytes = answer.clone().into_bytes();
            if is_last { Reply::Last(bytes) } else { Reply::Bytes(bytes) }
        });
        let run = run(&server.service(), counted(20, listen(StreamEnd::default())));
        assert_eq!((run.summary.ok, run.messages()), (20, [("get".to_owned(), 80)].into()), "{:?}", run.results());
        for time in [Time::FirstByte, Time::FirstByteLatency, Time::FirstMessage, Time::FirstMessageLatency] {
            assert_eq!(count(&run, Outcome::Ok, time), 20, "{time:?}");
        }
        assert_eq!(count(&run, Outcome::Ok, Time::Gap), 60);
    }
}

#[test]
fn a_stream_in_single_bytes_has_the_same_events() {
    let pieces = chunked(EVENTS, 3).bytes().map(|byte| vec![byte]).collect();
    let (address, connections) = piecewise(pieces, false);
    let run = run(&address, counted(10, listen(end(None, Some("[DONE]")))));
    assert_eq!((run.summary.ok, run.messages()), (10, [("get".to_owned(), 40)].into()), "{:?}", run.results());
    assert!(connections.load(Ordering::SeqCst) >= 2);
}

#[test]
fn an_endless_stream_ends_with_its_last_event_or_the_timeout() {
    let head = format!("{STREAM}\r\n").into_bytes();
    let (address, connections) = piecewise(vec![head, b"data: x\n\n".repeat(100)], true);
    let run_until = |end: StreamEnd, timeout_s: f64| run(&address, Load { timeout_s, ..counted(6, listen(end)) });
    let run = run_until(end(Some(250), None), 30.0);
    assert_eq!((run.summary.ok, run.messages()), (6, [("get".to_owned(), 1_500)].into()), "{:?}", run.results());
    assert!(connections.load(Ordering::SeqCst) >= 6, "the rest of a stream is not read");
    let run = run_until(StreamEnd::default(), 0.5);
    assert_eq!((run.summary.timeout, run.results()), (6, BTreeSet::from(["timeout"])));
    assert!(run.messages()["get"] > 0 && count(&run, Outcome::Timeout, Time::FirstMessage) > 0);
}

#[test]
fn a_stream_without_events_is_ok_and_has_a_first_byte() {
    let server = Server::http(|_| Reply::Bytes(chunked(": nothing\n\ndata: cut off", 5).into_bytes()));
    let run = run(&server.service(), counted(10, listen(StreamEnd::default())));
    assert_eq!((run.summary.ok, run.messages()), (10, [].into()));
    assert_eq!(count(&run, Outcome::Ok, Time::FirstByte), 10);
    assert_eq!(count(&run, Outcome::Ok, Time::FirstMessage) + count(&run, Outcome::Ok, Time::Gap), 0);
}

#[test]
fn answers_that_are_no_complete_stream_fail() {
    let chunked = chunked(EVENTS, 9);
    for (answer, end, result) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", end(None, None), "bad answer: not a text/event-stream"),
        ("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nhi", end(None, None), "status 503"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
            end(None, None),
            "bad answer: an event stream with content-encoding",
        ),
        (&chunked, end(Some(5), None), "bad answer: the stream ended before its last message"),
        (&chunked, end(None, Some("[END]")), "bad answer: the stream ended before its last message"),
    ] {
        let answer = answer.to_owned();
        let server = Server::http(move |_| Reply::Bytes(answer.clone().into_bytes()));
        let run = run(&server.service(), counted(4, listen(end)));
        assert_eq!((run.summary.failed, run.results()), (4, BTreeSet::from([result])));
        assert_eq!(count(&run, Outcome::Ok, Time::FirstByte), 0, "a failure's first byte is no success's");
        assert_eq!(count(&run, Outcome::Failed, Time::FirstByte), 4);
    }
    // A stream that is cut within a chunk.
    let server =
        Server::http(|_| Reply::Last(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n5\r\nda").into_bytes()));
    let run = run(&server.service(), counted(4, listen(StreamEnd::default())));
    assert_eq!((run.summary.failed, run.results()), (4, BTreeSet::from(["connection closed"])));
}

#[test]
fn the_first_byte_is_recorded_only_if_a_step_asks_for_it() {
    let server = Server::http(|_| Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec()));
    let asked = Step { first_byte: true, name: "asked".into(), ..step("get", &["path=/"]) };
    let run = run(
        &server.service(),
        Load { steps: vec![step("get", &["path=/"]), asked], ..counted(40, listen(end(None, None))) },
    );
    assert_eq!((run.summary.ok, run.messages()), (80, [].into()));
    assert_eq!((count(&run, Outcome::Ok, Time::FirstByte), count(&run, Outcome::Ok, Time::FirstByteLatency)), (40, 40));
    let sum = |time| run.times_ns(Outcome::Ok, time).into_iter().sum::<u64>();
    assert!(sum(Time::FirstByte) <= sum(Time::Service), "the first byte comes no later than the answer");
}

#[test]
fn protocols_without_streams_refuse_the_key() {
    let load = load(1, 0.1, vec![Step { stream: Some(StreamEnd::default()), ..step("ping", &[]) }]);
    let refused = try_play(orders("127.0.0.1:1", load)).err().unwrap().to_string();
    assert!(refused.contains("no answer to `ping` of `vsns` is a stream of messages"), "{refused}");
}

/// A server of another make, which sends five events with pauses, and prints its port.
const PYTHON: &str = r#"
import http.server, time
class Events(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in range(5):
            time.sleep(0.01)
            data = b"data: %d\n\n" % event
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Events)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct PythonServer(Child);

impl Drop for PythonServer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_slow_stream_of_another_server_is_read_to_its_end() {
    let child = Command::new("python3").args(["-c", PYTHON]).stdout(Stdio::piped()).spawn();
    let mut server = PythonServer(child.expect("scripts/need.sh python installs python3"));
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let run = run(&format!("127.0.0.1:{}", port.trim()), counted(8, listen(StreamEnd::default())));
    assert_eq!((run.summary.ok, run.messages()), (8, [("get".to_owned(), 40)].into()), "{:?}", run.results());
    assert_eq!(count(&run, Outcome::Ok, Time::Gap), 32);
}
