//! gRPC and WebSocket from the command line, against independent servers of Python: `hit`, and
//! `new` with the methods that a server or its files describe.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use fixture::KilledAtEnd;

use crate::hit_tls::signed;
use crate::sandbox::{Sandbox, number, root};

/// Sends messages back. Says two more at once: one before an answer and one after the greeting.
const SOCKETS: &str = r#"
import asyncio, websockets

async def handle(socket, path):
    if socket.request_headers.get("X-Room") == "a b" and path == "/echo?x=1":
        await socket.send('{"news": 1}')
        try:
            async for message in socket:
                await socket.send('{"news": 2}')
                await socket.send(message)
        finally:
            print(socket.close_code, flush=True)

async def main():
    async with websockets.serve(handle, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()

asyncio.run(main())
"#;

/// A server that ends with the test, and the lines that it prints.
struct Server {
    _process: KilledAtEnd,
    lines: BufReader<std::process::ChildStdout>,
    port: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { _process: KilledAtEnd(process), lines, port: String::new() };
        server.port = server.line();
        assert!(!server.port.is_empty(), "needs Python's servers: scripts/need.sh python-grpc websockets");
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

/// Starts Google's implementation of gRPC. Returns it with its URL.
fn grpc(options: &[&str]) -> (Server, String) {
    let program = root().join("crates/load/tests/engine/grpc/server.py");
    let descriptors = root().join("crates/wire/src/protobuf/examples/both.binpb");
    let server = Server::start(&[&[program.to_str().unwrap(), descriptors.to_str().unwrap()], options].concat());
    let url = format!("grpc://127.0.0.1:{}", server.port);
    (server, url)
}

#[test]
fn new_writes_a_step_for_each_method_of_a_server() {
    let sandbox = Sandbox::new();
    let (_server, url) = grpc(&[]);
    let made = sandbox.play(&["new", &url]).exits(0).stdout;
    insta::assert_snapshot!(made.replace(&url, "grpc://HOST:PORT"));
    sandbox.play(&["check", &sandbox.file("all.toml", &made)]).exits(0);
    // The same from the file, without a server.
    let proto = root().join("crates/wire/src/protobuf/examples/kinds.proto");
    let proto = proto.to_str().unwrap();
    let by_file = sandbox.play(&["new", "grpc://h:1", "--proto", proto]).exits(0).stdout;
    assert_eq!(by_file.replace(&format!("proto  = [\"{proto}\"]\n"), ""), made.replace(&url, "grpc://h:1"));
    sandbox.play(&["check", &sandbox.file("by-file.toml", &by_file)]).exits(0);

    let say = sandbox.play(&["new", &format!("{url}/test.kinds.v1.Echo/Say")]).exits(0).stdout;
    assert_eq!(say.matches("[[load.cycle]]").count(), 1, "{say}");
    let say = sandbox.file("say.toml", &say);
    let results = sandbox.run(&[&say, "--set", "load.time=1s", "--set", "load.ramp=0s"]).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0 && number(&results, "/trials/0/outcomes/failed") == 0.0);
    let absent = format!("{url}/test.kinds.v1.Ech");
    sandbox.play(&["new", &absent]).exits(2).says(&["no method `test.kinds.v1.Ech`", "test.kinds.v1.Echo/Chat"]);
}

#[test]
fn new_needs_files_for_a_server_without_reflection() {
    let sandbox = Sandbox::new();
    let (server, url) = grpc(&["--no-reflection"]);
    sandbox.play(&["new", &url]).exits(2).says(&["it has no server reflection", "`--proto`"]);
    drop(server);
    sandbox.play(&["new", &url]).exits(2).says(&["cannot connect", "--proto FILE"]);
    sandbox.play(&["new", "http://h/", "--proto", "a.proto"]).exits(2).says(&["not a URL of gRPC"]);
}

#[test]
fn new_trusts_a_private_authority() {
    let sandbox = Sandbox::new();
    let signed = signed(&["127.0.0.1"]);
    let files =
        [("key.pem", signed.key.serialize_pem()), ("cert.pem", signed.certificate.pem()), ("ca.pem", signed.ca)];
    let [key, certificate, ca] = files.map(|(name, content)| sandbox.file(name, content));
    let (_server, url) = grpc(&["--tls", &key, &certificate]);
    let url = format!("{}/test.kinds.v1.Echo/Say", url.replace("grpc://", "grpcs://"));
    sandbox.play(&["new", &url]).exits(2).says(&["bad certificate", "--cacert FILE"]);
    let made = sandbox.play(&["new", &url, "--cacert", &ca]).exits(0).stdout;
    assert!(made.contains(&format!("tls = {{ ca = \"{ca}\" }}\n")), "{made}");
    let made = sandbox.file("sealed.toml", &made);
    let results = sandbox.run(&[&made, "--set", "load.time=1s", "--set", "load.ramp=0s"]).json();
    assert!(number(&results, "/trials/0/outcomes/ok") > 0.0 && number(&results, "/trials/0/outcomes/failed") == 0.0);
    let plain = url.replace("grpcs://", "grpc://");
    sandbox.play(&["new", &plain, "--cacert", &ca]).exits(2).says(&["--cacert without grpcs"]);
    sandbox.play(&["new", "redis", "--cacert", &ca]).exits(2).says(&["only a server of gRPC is asked"]);
}

#[test]
fn hit_shows_the_status_of_grpc() {
    let sandbox = Sandbox::new();
    let (_server, url) = grpc(&[]);
    let url = format!("{url}/test.kinds.v1.Echo/Say");
    let played = sandbox.play(&["hit", &url, "-d", "{\"aString\": \"x\"}", "-n", "20", "-c", "2", "--accept"]).exits(0);
    assert!(played.stdout.contains("status ok (20)") && !played.stdout.contains("status 200"), "{}", played.stdout);
    let line = ["hit", &url, "-d", "{\"aString\": \"fail UNAVAILABLE x\"}", "-n", "20", "--accept"];
    let played = sandbox.play(&line).exits(0);
    assert!(played.stdout.contains("status unavailable (20)"), "{}", played.stdout);
}

#[test]
fn hit_sends_messages_over_websockets() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&["-c", SOCKETS]);
    let url = format!("ws://127.0.0.1:{}/echo?x=1", server.port);
    let message = "{\"id\": \"{agent}-{seq}\"}".replace("{\"", "{{\"").replace("\"}", "\"}}");
    let line =
        ["hit", &url, "-H", "X-Room: a b", "-d", &message, "--templates", "--match", "/id", "-n", "20", "-c", "1"];
    let results = sandbox.play(&[&line[..], &["--json", "--accept"]].concat()).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 20.0, "{results:#}");
    assert_eq!(number(&results, "/trials/0/pushed_messages"), 21.0, "the greeting, and one before each answer");
    assert_eq!(server.line(), "1000", "the socket was closed in order");
    let played = sandbox.play(&[&line[..], &["--accept"]].concat()).exits(0);
    for words in ["status ok (20)", "21 that answered no operation"] {
        assert!(played.stdout.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    assert_eq!(server.line(), "1000");
    let debug = ["hit", &url, "-H", "X-Room: a b", "-d", "{\"id\": 7}", "--match", "/id", "--debug"];
    let played = sandbox.play(&debug).exits(0);
    assert!(played.stdout.starts_with("{\"id\": 7}\nstatus ok after "), "{}", played.stdout);
    assert_eq!(server.line(), "1000");
    sandbox.play(&["hit", &url, "-H", "X-Room: a b", "--debug"]).exits(0).says(&[]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
