//! Proof that the running engine allocates nothing per operation. All allocations of this process
//! are counted, and its server makes none. The few that remain are too few to belong to operations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::System;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use experiment::plan::{Backlog, Connections, Load, Overflow, Pause, Rate, RateStage, Step, Warmup};
use load::{LoadOrder, LoadPurpose};
use record::clock::Clock;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::http2::frames::{FrameHead, HEAD, PREFACE, flag, kind};
use wire::protocols::websocket::Websocket;
use wire::protocols::websocket::testing::welcome;
use wire::testing::TestedProtocol as _;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const AGENTS: u32 = 8;

/// Serves a connection from a preallocated buffer.
type Service = fn(&mut TcpStream, &mut [u8]) -> Option<()>;

/// Answers a frame with `ok` and the bytes `found`.
fn answer_name(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    stream.read_exact(&mut buffer[..4]).ok()?;
    let length = u32::from_be_bytes(*buffer.first_chunk::<4>()?) as usize;
    stream.read_exact(&mut buffer[..length]).ok()?;
    let mut answer = *b"\0\0\0\x0a????\0found";
    answer[4..8].copy_from_slice(&buffer[..4]);
    stream.write_all(&answer).ok()
}

/// Answers a request with a message and the end of a stream, and pings in between.
fn answer_in_parts(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    stream.read_exact(&mut buffer[..7]).ok()?;
    let length = usize::from(u16::from_be_bytes(*buffer.first_chunk::<2>()?));
    stream.read_exact(&mut buffer[7..7 + length]).ok()?;
    if buffer[2] == b'o' {
        return Some(());
    }
    let mut answer = *b"\0\x03m????fou\0\0i\0\0\0\0\0\x02a????nd";
    answer[3..7].copy_from_slice(&buffer[3..7]);
    answer[20..24].copy_from_slice(&buffer[3..7]);
    stream.write_all(&answer).ok()
}

fn serve(service: Service) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let acceptor = move || {
        for stream in listener.incoming().take(AGENTS as usize) {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let answer_all = move || {
                let mut buffer = [0; 4096];
                while service(&mut stream, &mut buffer).is_some() {}
            };
            std::thread::Builder::new().spawn(answer_all).unwrap();
        }
    };
    std::thread::Builder::new().spawn(acceptor).unwrap();
    address
}

fn pairs<T: for<'a> From<&'a str>>(pairs: &[(&str, &str)]) -> BTreeMap<String, T> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
}

fn steps() -> Vec<Step> {
    let blank = Step { ..Step::default() };
    vec![
        Step {
            call: "save".into(),
            name: "save".into(),
            with: pairs(&[
                ("key", "{agent}-{seq%100}"),
                ("value", "{bytes:100}{zipf:1..1000}{base64:{agent}:{pad:8:{seq}}}"),
            ]),
            keep: pairs(&[("saved", "request.value")]),
            ..blank.clone()
        },
        Step {
            call: "load".into(),
            name: "load".into(),
            with: pairs(&[("key", "{agent}-{seq%100}")]),
            expect: pairs(&[("value", "{saved}")]),
            keep: pairs(&[("found", "answer.value")]),
            ..blank
        },
    ]
}

/// Makes a load of four and a half seconds, with agents that pause or with a rate.
fn load(think_s: f64, rate: Option<Rate>) -> Load {
    Load {
        agents: AGENTS,
        time_s: 4.5,
        timeout_s: 0.5,
        drain_s: 1.0,
        think_s,
        warmup: Warmup::Seconds(0.0),
        rate,
        threads: Some(1),
        steps: steps(),
        ..Load::default()
    }
}

/// Returns sessions with drawn pauses, and with steps that are repeated or done by chance.
fn sessions() -> Load {
    let rate = Rate::Sessions { sessions: Box::new(Rate::Poisson { poisson: 1_000.0 }) };
    let mut load = Load { agents: 200, ..load(0.0, Some(rate)) };
    load.think = Some(Pause::Normal { normal: [0.002, 0.001] });
    load.steps[0].repeat = 2;
    load.steps[1].probability_pct = Some(50.0);
    load.steps[1].think = Some(Pause::Exponential { exponential: 0.001 });
    load
}

/// A load and the server that answers it.
struct Trial {
    name: &'static str,
    protocol: &'static str,
    service: Service,
    load: Load,
}

impl Trial {
    fn orders(&self) -> LoadOrder {
        LoadOrder {
            protocol: self.protocol.into(),
            services: vec![serve(self.service)],
            load: self.load.clone(),
            purpose: LoadPurpose::Measure,
            seed: 1,
            tls: Default::default(),
            files: load::InputFiles::below("."),
            slot_s: 0.001,
            tether: None,
            hosts: Vec::new(),
            without_ring: std::env::var_os("WITHOUT_RING").is_some(),
            slice: None,
        }
    }
}

/// Plays the loads at the same time. Returns the number of operations of each load, and the number
/// of all allocations, in the third and fourth second.
fn count(trials: &[Trial]) -> (Vec<u64>, usize) {
    let start = |trial: &Trial| {
        let (sink, intervals) = sync_channel(16);
        (load::start(trial.orders(), Clock::starting_in(Duration::from_millis(1)), sink).unwrap(), intervals)
    };
    let running: Vec<_> = trials.iter().map(start).collect();
    // Two seconds of warm-up: after that, both histogram sets have been used.
    for (_, intervals) in &running {
        intervals.iter().take(2).for_each(drop);
    }
    let region = Region::new(ALLOCATOR);
    let mut operations = vec![0; trials.len()];
    for _ in 0..2 {
        for (count, (_, intervals)) in operations.iter_mut().zip(&running) {
            *count += intervals.recv().unwrap().generator.operations;
        }
    }
    let change = region.change();
    running.into_iter().for_each(|(load, _)| load.abort());
    (operations, change.allocations + change.reallocations)
}

fn trials() -> Vec<Trial> {
    let at = |rate: Rate| load(0.0, Some(rate));
    let ramp = vec![RateStage { from: 500.0, to: 3_000.0, over_s: 3.0 }];
    let bounded = Backlog { most: 1_000, overflow: Overflow::Drop };
    let shared = Load { connections: Connections { keep_alive: true, pipeline: 4 }, ..load(0.0001, None) };
    let of_names = [
        ("pauses", load(0.0001, None)),
        ("a rate", at(Rate::Constant(2_000.0))),
        // The rate is higher than any machine reaches, so that millions of operations are overdue.
        ("a rate out of reach", at(Rate::Constant(5_000_000.0))),
        ("a Poisson rate", at(Rate::Poisson { poisson: 2_000.0 })),
        ("a ramp", at(Rate::Stages(ramp))),
        ("a bounded backlog", Load { backlog: Some(bounded), ..at(Rate::Constant(2_000.0)) }),
        ("shared connections", shared),
        ("sessions", sessions()),
    ];
    let of_names = of_names.map(|(name, load)| Trial { name, protocol: "vsns", service: answer_name, load });
    let mut trials = Vec::from(of_names);
    trials.push(Trial { name: "cookies", protocol: "http", service: answer_page, load: with_cookies() });
    trials.push(Trial { name: "multiplexed", protocol: "multiplexed", service: answer_in_parts, load: multiplexed() });
    trials.push(Trial { name: "pages by HTTP/2", protocol: "http2", service: answer_http2, load: pages() });
    trials.push(Trial { name: "calls of gRPC", protocol: "grpc", service: answer_grpc, load: calls() });
    trials.push(Trial { name: "keys of etcd", protocol: "etcd", service: answer_etcd, load: keys() });
    trials.push(Trial { name: "messages", protocol: "websocket", service: answer_message, load: messages() });
    trials
}

/// Whether the loads, played together, make no more allocations than usual. A load that makes 64 by
/// itself always makes too many.
fn are_usual(trials: &[Trial]) -> bool {
    const USUAL: usize = 20;
    const MORE: usize = 40;
    let (operations, allocations) = count(trials);
    for (trial, operations) in trials.iter().zip(operations) {
        assert!(operations > 1000, "{operations} operations with {} are too few to tell", trial.name);
    }
    allocations < USUAL * trials.len() + MORE
}

/// Every allocation of this process is counted, whatever load it belongs to. The loads are first
/// played together, twice if the machine is busy. If they allocate more than usual, each load is
/// played alone.
#[test]
fn an_operation_allocates_nothing() {
    let trials = trials();
    if (0..2).any(|_| are_usual(&trials)) {
        return;
    }
    for trial in trials {
        let name = trial.name;
        let (operations, allocations) = count(&[trial]);
        // Sending an interval allocates a list of slots and a few rows each second.
        assert!(allocations < 64, "{allocations} allocations for {operations:?} operations with {name}");
    }
}

/// Answers a request without a body. An answer to `/login` sets two cookies.
fn answer_page(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    const LOGIN: &[u8] = b"HTTP/1.1 200 OK\r\nSet-Cookie: lang=en; Path=/; Max-Age=60\r\nSet-Cookie: sid=1; Path=/\r\n\
        Content-Length: 0\r\n\r\n";
    let mut length = 0;
    while !buffer[..length].ends_with(b"\r\n\r\n") {
        let more = stream.read(&mut buffer[length..]).ok().filter(|more| *more > 0)?;
        length += more;
    }
    let answer: &[u8] = match buffer[..length].starts_with(b"GET /login ") {
        true => LOGIN,
        false if memchr::memmem::find(&buffer[..length], b"\r\nCookie: lang=en; sid=1\r\n").is_some() => {
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        }
        false => b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
    };
    stream.write_all(answer).ok()
}

/// Returns sessions with a cookie jar.
fn with_cookies() -> Load {
    let get = |name: &str, path: &str| Step {
        call: "get".into(),
        name: name.into(),
        with: pairs(&[("path", path)]),
        expect: pairs(&[("status", "200")]),
        ..Step::default()
    };
    let steps = vec![get("login", "/login"), get("page", "/page/{seq}")];
    Load { cookies: true, steps, ..load(0.0001, None) }
}

/// Returns operations that share connections of a protocol that answers in any order and in parts.
fn multiplexed() -> Load {
    let ask = |call: &str| Step {
        call: call.into(),
        name: call.into(),
        with: pairs(&[("text", "{agent}-{seq}")]),
        keep: pairs(&[("found", "answer.text")]),
        expect: pairs(&[("text", "found")]),
        ..Step::default()
    };
    let connections = Connections { keep_alive: true, pipeline: 4 };
    Load { connections, steps: vec![ask("echo"), ask("listen")], ..load(0.0001, None) }
}

/// Frames of an answer: kind, flags and body.
type AnswerFrames<'a> = &'a [(u8, u8, &'a [u8])];

/// Headers of an answer: `:status: 200` and `content-type: application/grpc`.
const GRPC_HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// Trailers of a call that has succeeded: `grpc-status: 0`.
const GRPC_END: &[u8] = b"\0\x0bgrpc-status\x010";

/// Answers a request of HTTP/2.
fn answer_stream(stream: &mut TcpStream, buffer: &mut [u8], answer: AnswerFrames<'_>) -> Option<()> {
    stream.read_exact(&mut buffer[..HEAD]).ok()?;
    if PREFACE.starts_with(&buffer[..HEAD]) {
        stream.read_exact(&mut buffer[HEAD..PREFACE.len()]).ok()?;
        return stream.write_all(&FrameHead { length: 0, kind: kind::SETTINGS, flags: 0, stream: 0 }.bytes()).ok();
    }
    let asked = FrameHead::read(buffer)?;
    stream.read_exact(&mut buffer[..asked.length]).ok()?;
    if !(matches!(asked.kind, kind::HEADERS | kind::DATA) && asked.has(flag::END_STREAM)) {
        return Some(());
    }
    let mut length = 0;
    let mut say = |kind: u8, flags: u8, stream: u32, body: &[u8]| {
        let head = FrameHead { length: body.len(), kind, flags, stream };
        buffer[length..length + HEAD].copy_from_slice(&head.bytes());
        buffer[length + HEAD..length + HEAD + body.len()].copy_from_slice(body);
        length += HEAD + body.len();
    };
    if asked.kind == kind::DATA && asked.length > 0 {
        // Window for as many bytes again.
        say(kind::WINDOW_UPDATE, 0, 0, &(asked.length as u32).to_be_bytes());
    }
    answer.iter().for_each(|(kind, flags, body)| say(*kind, *flags, asked.stream, body));
    stream.write_all(&buffer[..length]).ok()
}

fn answer_http2(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    answer_stream(
        stream,
        buffer,
        &[(kind::HEADERS, flag::END_HEADERS, b"\x88"), (kind::DATA, flag::END_STREAM, b"hello")],
    )
}

/// Answers a call of gRPC with a message, which follows its prefix.
fn answer_call(stream: &mut TcpStream, buffer: &mut [u8], message: &[u8]) -> Option<()> {
    let answer = [
        (kind::HEADERS, flag::END_HEADERS, GRPC_HEAD),
        (kind::DATA, 0, message),
        (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, GRPC_END),
    ];
    answer_stream(stream, buffer, &answer)
}

fn answer_grpc(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    answer_call(stream, buffer, b"\0\0\0\0\x02\x08\x01")
}

/// Answers with the store's revision 9 and the key `k`, which revision 5 has set to `v`.
fn answer_etcd(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    answer_call(stream, buffer, b"\0\0\0\0\x0e\x0a\x02\x18\x09\x12\x08\x0a\x01k\x18\x05\x2a\x01v")
}

/// Welcomes a connection of WebSocket, and then sends each message back.
fn answer_message(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<()> {
    const MASK: usize = 4;
    stream.read_exact(&mut buffer[..2]).ok()?;
    if buffer[0] == b'G' {
        let handshake = Websocket::read_request(&mut (&buffer[..2]).chain(&*stream))?;
        return stream.write_all(&welcome(handshake.id)).ok();
    }
    let length = usize::from(buffer[1] & 0x7f);
    stream.read_exact(&mut buffer[2..2 + MASK + length]).ok()?;
    let mask = *buffer[2..].first_chunk::<MASK>()?;
    buffer[1] = length as u8;
    for place in 0..length {
        buffer[2 + place] = buffer[2 + MASK + place] ^ mask[place % MASK];
    }
    stream.write_all(&buffer[..2 + length]).ok()
}

/// Returns operations on streams of shared connections.
fn on_streams(steps: Vec<Step>) -> Load {
    Load { connections: Connections { keep_alive: true, pipeline: 4 }, steps, ..load(0.0001, None) }
}

fn step(call: &str, with: &[(&str, &str)], keep: &[(&str, &str)], expect: &[(&str, &str)]) -> Step {
    let (name, call) = (call.into(), call.into());
    Step { call, name, with: pairs(with), keep: pairs(keep), expect: pairs(expect), ..Step::default() }
}

fn pages() -> Load {
    let body = &[("path", "/{agent}/{seq}"), ("header.x-own", "{seq}"), ("body", "{bytes:100}")];
    let post = step("post", body, &[("found", "answer.body")], &[("status", "200"), ("body", "hello")]);
    on_streams(vec![step("get", &[("path", "/{seq}")], &[], &[]), post])
}

fn calls() -> Load {
    let with = &[("method", "grpc.health.v1.Health/Check"), ("message", r#"{{"service": "{agent}-{seq}"}}"#)];
    on_streams(vec![step("rpc", with, &[("found", "answer.message.status")], &[("message.status", "SERVING")])])
}

fn keys() -> Load {
    let put = step("put", &[("key", "{agent}"), ("value", "{seq}")], &[("seen", "answer.version")], &[]);
    on_streams(vec![put, step("get", &[("key", "{agent}")], &[], &[("value", "v"), ("version", "5")])])
}

fn messages() -> Load {
    let send = step("send", &[("message", "{agent}-{seq}")], &[], &[("message", "{agent}-{seq}")]);
    Load { steps: vec![send], ..load(0.0001, None) }
}
