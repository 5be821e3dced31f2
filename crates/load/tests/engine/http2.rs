//! Nghttpd, an independent HTTP/2 server, under the engine.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Load, Step, StreamEnd};
use fixture::{TestDir, until};
use load::LoadOrder;
use load::client;

use crate::server::nobody;
use crate::setting::{load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with the test.
struct Nghttpd {
    process: Child,
    service: String,
    _folder: TestDir,
}

impl Nghttpd {
    fn start(options: &[&str]) -> Self {
        let folder = TestDir::new();
        folder.write("small", "hello");
        folder.write("large", vec![b'x'; 3_000_000]);
        folder.write("feed.sse", "data: an event of a feed\n\n".repeat(10_000));
        let types = folder.write("types", "text/event-stream sse\n");
        let address = nobody();
        let (_, port) = address.rsplit_once(':').unwrap();
        let process = Command::new("nghttpd")
            .args(["--no-tls", "--address=127.0.0.1", "--htdocs"])
            .arg(&*folder)
            .arg(format!("--mime-types-file={}", types.display()))
            .args(options)
            .arg(port)
            .stdout(Stdio::null())
            .spawn()
            .expect("needs nghttpd: scripts/need.sh nghttpd");
        let server = Self { process, service: format!("http://{address}"), _folder: folder };
        until("nghttpd listens", || client::connect("http2", &server.service, PATIENCE).is_ok());
        server
    }

    fn orders(&self, load: Load) -> LoadOrder {
        LoadOrder { protocol: "http2".into(), ..orders(&self.service, load) }
    }
}

impl Drop for Nghttpd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a load whose agents share a connection.
fn shared(agents: u32, steps: Vec<Step>) -> Load {
    Load { connections: Connections { keep_alive: true, pipeline: agents }, ..load(agents, 0.3, steps) }
}

#[test]
fn answers_of_a_server_have_their_status_headers_and_body() {
    let server = Nghttpd::start(&[]);
    let mut client = client::connect("http2", &server.service, PATIENCE).unwrap();
    for (path, status, body) in [("/small", "200", Some("hello")), ("/absent", "404", None), ("/small", "200", None)] {
        let answer = client.call("get", &pairs(&[&format!("path={path}")])).unwrap();
        assert_eq!((answer.ok, answer.status.as_str()), (status == "200", status), "{path}");
        let found = answer.field("body").unwrap();
        assert!(body.is_none_or(|body| found == body.as_bytes()), "{found:?}");
    }
    let large = client.call("get", &pairs(&["path=/large"])).unwrap();
    assert_eq!(large.field("body").unwrap().len(), 3_000_000);
}

#[test]
fn agents_share_a_connection() {
    let server = Nghttpd::start(&[]);
    let step = Step { expect: pairs(&["body=hello", "header.content-length=5"]), ..step("get", &["path=/small"]) };
    let run = play(server.orders(shared(16, vec![step])));
    assert!(run.summary.ok > 50 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
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
