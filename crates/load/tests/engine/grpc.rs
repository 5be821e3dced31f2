//! Google's implementation of gRPC under the engine: calls of each kind, statuses, metadata,
//! compression, and types by reflection and by files.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Load, Step};
use fixture::{KilledAtEnd, TestDir};
use load::client::{self, CallError};
use load::{InputFiles, LoadOrder, TlsTrust};

use crate::secret::Authority;
use crate::setting::{load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);
const SAY: &str = "method=test.kinds.v1.Echo/Say";
/// Descriptors of the server's messages, and the same as text.
const DESCRIPTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/src/protobuf/examples/both.binpb");
const PROTO: &str = "kinds.proto";

/// A server that ends with the test.
struct GrpcServer {
    _process: KilledAtEnd,
    service: String,
}

impl GrpcServer {
    fn start(options: &[&str]) -> Self {
        let mut process = Command::new("/usr/bin/python3")
            .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/grpc/server.py"), DESCRIPTORS])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        assert!(!port.is_empty(), "needs Python's gRPC: scripts/need.sh python-grpc");
        Self { _process: KilledAtEnd(process), service: format!("grpc://127.0.0.1:{}", port.trim()) }
    }

    fn orders(&self, load: Load) -> LoadOrder {
        LoadOrder { protocol: "grpc".into(), ..orders(&self.service, load) }
    }
}

/// Returns a load whose agents share a connection.
fn shared(agents: u32, steps: Vec<Step>) -> Load {
    Load { connections: Connections { keep_alive: true, pipeline: agents }, ..load(agents, 0.3, steps) }
}

fn expecting(step: Step, expect: &[&str]) -> Step {
    Step { expect: pairs(expect), ..step }
}

#[test]
fn calls_of_each_kind() {
    let server = GrpcServer::start(&[]);
    let mut client = client::connect("grpc", &server.service, PATIENCE).unwrap();
    let mut call = |method: &str, message: &str| {
        let with = pairs(&[&format!("method=test.kinds.v1.Echo/{method}"), &format!("message={message}")]);
        let answer = client.call("rpc", &with).unwrap();
        let text = |name: &str| answer.field(name).map(|field| String::from_utf8(field.to_vec()).unwrap());
        (answer.status.clone(), text("message"), text("messages").unwrap(), text("text"))
    };
    let ok = |message: &str, messages: &str| ("ok".to_owned(), Some(message.to_owned()), messages.to_owned(), None);
    let kinds = r#"{"anInt64":"-5","aString":"é","colour":"COLOUR_RED","numbers":[1,300],"counts":{"a":1}}"#;
    assert_eq!(call("Say", kinds), ok(kinds, "1"));
    assert_eq!(call("Say", "{}"), ok("{}", "1"));
    assert_eq!(call("Count", r#"{"name":"n","count":3}"#), ok(r#"{"name":"n","count":2}"#, "3"));
    assert_eq!(call("Count", "{}"), ("ok".to_owned(), None, "0".to_owned(), None));
    assert_eq!(
        call("Sum", r#"[{"name":"a","count":3},{"name":"b","count":4}]"#),
        ok(r#"{"name":"a b","count":7}"#, "1")
    );
    assert_eq!(call("Sum", "[]"), ok("{}", "1"));
    assert_eq!(call("Chat", r#"[{"name":"a"},{"name":"b"}]"#), ok(r#"{"name":"b"}"#, "2"));
    assert_eq!(call("Say", r#"{"aString":"gzip"}"#), ok(r#"{"aString":"gzip"}"#, "1"));
    let (status, message, _, text) = call("Say", r#"{"aString":"fail NOT_FOUND no such é%"}"#);
    assert_eq!((status.as_str(), message, text.as_deref()), ("not_found", None, Some("no such é%")));
    let (status, _, messages, text) = call("Count", r#"{"name":"fail","count":2}"#);
    assert_eq!((status.as_str(), messages.as_str(), text.as_deref()), ("data_loss", "2", Some("at the end")));
    let (status, ..) = call("Nothing", "{}");
    assert_eq!(status, "unimplemented");
}

#[test]
fn agents_share_a_connection_and_send_their_own_values() {
    let server = GrpcServer::start(&[]);
    let message = r#"message={{"aString": "a{agent}-{seq}", "anInt32": {seq}, "inner": {{"name": "{uuid}"}}}}"#;
    let step = Step { set: pairs(&["id={uuid}"]), ..step("rpc", &[SAY, &message.replace("{uuid}", "{id}")]) };
    let expect = ["message.a_string=a{agent}-{seq}", "message.anInt32={seq}", "message.inner.name={id}"];
    let run = play(server.orders(shared(8, vec![expecting(step, &expect)])));
    assert!(run.summary.ok > 20 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
}

#[test]
fn statuses_decide_the_outcome() {
    let server = GrpcServer::start(&[]);
    let fail = |code: &str| step("rpc", &[SAY, &format!(r#"message={{{{"aString": "fail {code} text"}}}}"#)]);
    let mut expected = expecting(fail("NOT_FOUND"), &["status=not_found", "text=text"]);
    "expected".clone_into(&mut expected.name);
    let run = play(server.orders(load(1, 0.2, vec![expected])));
    assert!(run.summary.ok > 0 && run.summary.failed == 0, "{:?} {:?}", run.summary, run.results());
    let run = play(server.orders(load(2, 0.2, vec![fail("UNAVAILABLE")])));
    assert!(run.summary.ok == 0 && run.results().into_iter().eq(["answer: unavailable"]), "{:?}", run.results());
}

#[test]
fn metadata_deadlines_and_compression_reach_the_server() {
    let server = GrpcServer::start(&[]);
    let ask = |text: &str| format!(r#"message={{{{"aString": "{text}"}}}}"#);
    let metadata = step("rpc", &[SAY, &ask("metadata x-kind"), "metadata.X-Kind=k{agent}"]);
    let binary = step("rpc", &[SAY, &ask("metadata x-kind"), "metadata.x-kind=a b", "compression=gzip"]);
    let left = step("rpc", &[SAY, &ask("left"), "deadline=30s"]);
    let steps = vec![
        expecting(metadata, &["message.aString=k{agent}"]),
        expecting(binary, &["message.aString=a b"]),
        expecting(left, &["message.aString=some"]),
        expecting(step("rpc", &[SAY, &ask("left")]), &["message.aString=much"]),
        expecting(step("rpc", &[SAY, &ask("gzip")]), &["message.aString=gzip"]),
    ];
    let run = play(server.orders(load(1, 0.3, steps)));
    assert!(run.summary.ok > 5 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
    let late = step("rpc", &[SAY, &ask("sleep 0.5"), "deadline=50ms"]);
    let run = play(server.orders(load(1, 0.2, vec![late])));
    let is_late =
        |result: &str| ["answer: deadline_exceeded", "answer: cancelled", "stream reset: CANCEL"].contains(&result);
    assert!(run.summary.ok == 0 && run.results().into_iter().all(is_late), "{:?}", run.results());
}

#[test]
fn streams_are_read_to_their_end() {
    let server = GrpcServer::start(&[]);
    let count = step("rpc", &["method=test.kinds.v1.Echo/Count", r#"message={{"count": 100, "name": "{agent}"}}"#]);
    let sum = step(
        "rpc",
        &["method=test.kinds.v1.Echo/Sum", r#"message=[{{"count": {agent}}}, {{"count": 1}}]"#, "messages=5"],
    );
    let steps = vec![
        expecting(count, &["messages=100", "message.count=99", "message.name={agent}"]),
        expecting(sum, &["message.count=10"]),
    ];
    let run = play(server.orders(shared(1, steps)));
    assert!(run.summary.ok > 2 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
}

#[test]
fn types_come_from_files_if_there_is_no_reflection() {
    let server = GrpcServer::start(&["--no-reflection"]);
    let steps = vec![expecting(step("rpc", &[SAY, r#"message={{"texts": ["x"]}}"#]), &["message.texts.0=x"])];
    let refused = load::start(
        server.orders(load(1, 0.1, steps.clone())),
        record::clock::Clock::starting_in(Duration::ZERO),
        std::sync::mpsc::sync_channel(1).0,
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("no server reflection") && refused.contains("load.proto"), "{refused}");
    for proto in [PROTO, "both.binpb"] {
        let load = Load { proto: vec![proto.to_owned()], ..load(1, 0.1, steps.clone()) };
        let files = InputFiles::below(DESCRIPTORS.trim_end_matches("both.binpb"));
        let run = play(LoadOrder { files, ..server.orders(load) });
        assert!(run.summary.ok > 0 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
    }
}

#[test]
fn calls_by_tls_trust_the_authority_of_the_server() {
    let authority = Authority::new();
    let (certificate, key) = authority.identity_of("127.0.0.1");
    let folder = TestDir::new();
    let files = [folder.write("key.pem", key), folder.write("certificate.pem", certificate)];
    let [key, certificate] = files.each_ref().map(|file| file.to_str().unwrap());
    let mut server = GrpcServer::start(&["--tls", key, certificate]);
    server.service = server.service.replace("grpc://", "grpcs://");
    let say = expecting(step("rpc", &[SAY, r#"message={{"aString": "{agent}"}}"#]), &["message.a_string={agent}"]);
    let run = play(LoadOrder { tls: authority.trusted(), ..server.orders(shared(4, vec![say])) });
    assert!(run.summary.ok > 4 && run.results().into_iter().eq(["ok"]), "{:?} {:?}", run.summary, run.results());
    for (authority, is_trusted) in [(&authority, true), (&Authority::new(), false)] {
        let trust = TlsTrust { tls: authority.trusted(), ..TlsTrust::default() };
        let client = client::connect_trusting("grpc", &server.service, &trust, PATIENCE);
        assert_eq!(!matches!(client, Err(CallError::Connect { .. })), is_trusted);
        assert!(client.is_err() || client.unwrap().call("rpc", &pairs(&[SAY])).unwrap().ok);
    }
}
