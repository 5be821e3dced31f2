//! WebSocket under the engine, against an independent server: Python's `websockets`.

use std::io::{BufRead as _, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use experiment::plan::{Connections, Step};
use fixture::KilledAtEnd;
use load::LoadOrder;
use load::client;

use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// Behaviour by path. The server pings every client five times per second, and sends
/// long messages in frames.
const SERVER: &str = r##"
import asyncio, http, json, websockets

async def echo(socket):
    async for message in socket:
        await socket.send([message[:1], message[1:]] if len(message) > 1 else message)

# Answers two requests at a time, the later one first, with other messages between.
async def swap(socket):
    held = None
    async for message in socket:
        if held is None:
            held = message
            continue
        await socket.send("news")
        await socket.send(json.dumps({"result": 1, **json.loads(message)}))
        await socket.send(json.dumps({"result": 1, **json.loads(held)}))
        held = None

async def ticker(socket):
    for number in range(1_000_000):
        await socket.send(f"tick {number}")
        await asyncio.sleep(0.001)

async def third(socket):
    for _ in range(2):
        await socket.send(await socket.recv())
    await socket.recv()
    await socket.close(1012, "restart")

async def posts(socket):
    async for message in socket:
        assert isinstance(message, bytes)

async def codes(socket):
    try:
        await echo(socket)
    finally:
        print(socket.close_code, flush=True)

async def handle(socket, path):
    await globals()[path.strip("/")](socket)

async def admit(path, headers):
    if headers.get("Authorization") != "Basic bWU6cHc=" or headers.get("X-Room") != "a b":
        return http.HTTPStatus.UNAUTHORIZED, [], b"who are you?\n"

async def main():
    async with websockets.serve(handle, "127.0.0.1", 0, process_request=admit, ping_interval=0.2,
                                subprotocols=["chat"], max_size=2 ** 26) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()

asyncio.run(main())
"##;

/// A server that ends with the test.
struct Websockets {
    _process: KilledAtEnd,
    printed: BufReader<ChildStdout>,
    port: u16,
}

impl Websockets {
    fn start() -> Self {
        let mut process = Command::new("/usr/bin/python3")
            .args(["-c", SERVER])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("needs websockets: scripts/need.sh websockets");
        let mut line = String::new();
        let mut printed = BufReader::new(process.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("needs websockets: scripts/need.sh websockets");
        Self { _process: KilledAtEnd(process), printed, port }
    }

    fn url(&self, path: &str) -> String {
        format!("ws://me:pw@127.0.0.1:{}/{path}#x-room=a%20b&sec-websocket-protocol=chat", self.port)
    }

    fn orders(&self, path: &str, agents: u32, steps: Vec<Step>) -> LoadOrder {
        LoadOrder { protocol: "websocket".into(), ..orders(&self.url(path), load(agents, 0.3, steps)) }
    }
}

fn is_all_ok(run: &LoadRun) {
    let summary = &run.summary;
    assert!(summary.ok > 10 && summary.failed == 0 && summary.wrong == 0, "{summary:?} {:?}", run.results());
}

#[test]
fn messages_of_all_lengths_are_answered() {
    let server = Websockets::start();
    let of_length = |length: &u32| Step {
        name: format!("of {length} bytes"),
        keep: pairs(&[&format!("sent_{length}=request.message")]),
        expect: pairs(&[&format!("message={{sent_{length}}}"), "kind=text"]),
        ..step("send", &[&format!("message={{bytes:{length}}}")])
    };
    let mut steps: Vec<Step> = [1, 125, 126, 65_535, 65_536, 1_000_000].iter().map(of_length).collect();
    steps.push(Step { expect: pairs(&["kind=binary"]), ..step("send", &["message=\u{fe}x", "kind=binary"]) });
    is_all_ok(&play(server.orders("echo", 2, steps)));
}

#[test]
fn answers_in_another_order_find_their_requests() {
    let server = Websockets::start();
    for rule in ["match=/id", "contains=\"{agent}-{seq}\""] {
        let id = Step {
            expect: pairs(&["message/id={agent}-{seq}"]),
            ..step("send", &[r#"message={{"id": "{agent}-{seq}", "x": [1]}}"#, rule])
        };
        let mut orders = server.orders("swap", 8, vec![id]);
        orders.load.connections = Connections { keep_alive: true, pipeline: 4 };
        let run = play(orders);
        assert!(run.summary.ok > 10 && run.summary.wrong == 0, "{rule}: {:?} {:?}", run.summary, run.results());
    }
}

#[test]
fn posts_and_pushed_messages() {
    let server = Websockets::start();
    let post = step("post", &["message=x{seq}", "kind=binary"]);
    is_all_ok(&play(server.orders("posts", 4, vec![post])));
    let three = Step { keep: pairs(&["last=answer.message"]), ..step("receive", &["messages=3"]) };
    let run = play(server.orders("ticker", 2, vec![three]));
    is_all_ok(&run);
    assert!(run.messages()["receive"] >= 3 * run.summary.ok, "{:?}", run.messages());
}

#[test]
fn messages_that_answer_nothing_are_counted() {
    let server = Websockets::start();
    let post = step("post", &["message=x"]);
    let run = play(server.orders("echo", 2, vec![post]));
    is_all_ok(&run);
    let pushed: u64 = run.intervals.iter().filter_map(|second| second.generator.pushed_messages).sum();
    // A post ends with the server's pong. The last message of each agent may arrive after the end.
    assert!(pushed + 2 >= run.summary.ok, "every post was sent back: {pushed} {:?}", run.summary);
}

#[test]
fn a_socket_that_is_not_kept_is_closed_with_a_frame() {
    let mut server = Websockets::start();
    let mut orders = server.orders("codes", 1, vec![step("send", &["message=x"])]);
    orders.load.connections = Connections { keep_alive: false, pipeline: 1 };
    let run = play(orders);
    assert!(run.summary.ok > 2 && run.summary.failed == 0, "{:?} {:?}", run.summary, run.results());
    for _ in 0..run.summary.ok {
        let mut code = String::new();
        server.printed.read_line(&mut code).unwrap();
        assert_eq!(code, "1000\n");
    }
}

#[test]
fn a_close_is_reported_with_its_code() {
    let server = Websockets::start();
    let run = play(server.orders("third", 2, vec![step("send", &["message=x"])]));
    let closed = run.attempts("closed by the target: 1012 service restart");
    assert!(run.summary.ok > 2 && closed == run.summary.failed && closed > 0, "{:?} {:?}", run.summary, run.results());
}

#[test]
fn a_refused_handshake_has_a_status() {
    let server = Websockets::start();
    let url = format!("ws://127.0.0.1:{}/echo", server.port);
    let send = step("send", &["message=x"]);
    let run = play(LoadOrder { protocol: "websocket".into(), ..orders(&url, load(1, 0.2, vec![send])) });
    assert!(run.summary.failed > 0 && run.attempts("answer: http-401") == run.summary.failed, "{:?}", run.results());
    let mut client = client::connect("websocket", &server.url("echo"), Duration::from_secs(20)).unwrap();
    let answer = client.call("send", &pairs(&["message=hello"])).unwrap();
    assert_eq!((answer.ok, answer.field("message")), (true, Some(&b"hello"[..])));
    let refusal = client::connect("websocket", &url, Duration::from_secs(20)).unwrap_err();
    assert!(refusal.to_string().contains("http-401"), "{refusal}");
}
