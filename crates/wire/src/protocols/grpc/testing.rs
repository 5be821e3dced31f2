//! Test data of gRPC: hostile servers, and answers for fuzzing.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;

use super::Grpc;
use crate::http2::frames::{self, flag, kind};
use crate::http2::hpack;
use crate::protobuf;
use crate::protocols::http2::Http2;
use crate::testing::hostile::PeerAction::{Again, Endless, Hear, Reply, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{FuzzTarget, ReceivedRequest, TestedProtocol};

impl TestedProtocol for Grpc {
    const HOSTILE: &'static [HostileCase] = CASES;
    const HELD_BYTES: usize = <Http2 as TestedProtocol>::HELD_BYTES;
    const GREETED: Option<&'static str> = Some("grpc://127.0.0.1:1");
    const REQUIRED: &'static [(&'static str, &'static str)] = &[("method", CHECK)];
    const FUZZ: &'static [FuzzTarget] = &[
        FuzzTarget { name: "descriptors", body: protobuf::testing::descriptor, mutants: 2000 },
        FuzzTarget { name: "proto", body: protobuf::testing::proto, mutants: 3000 },
        FuzzTarget { name: "protobuf", body: protobuf::testing::message, mutants: 4000 },
    ];

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        Http2::read_request(from)
    }
}

/// A method whose messages are known without a file.
const CHECK: &str = "grpc.health.v1.Health/Check";
const STREAM: &[&str] = &["method=grpc.health.v1.Health/Watch"];

const fn case(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    // Loads take braces as placeholders, and single calls do not, so there is no message.
    let with = &["method=grpc.health.v1.Health/Check"];
    let (service, keep) = ("grpc://{address}", Some("answer.message.status"));
    HostileCase { service, call: "rpc", with, keep, ..HostileCase::new(name, actions, ends) }
}

/// Settings without an entry.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// A message: `status` is SERVING.
const SERVING: &[u8] = b"\0\0\0\0\x02\x08\x01";

/// Returns a header block.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::write_field(name, value.as_bytes(), &mut block);
    }
    block
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frames::write(kind, flags, stream, body, &mut frame);
    frame
}

/// Returns an answer: headers, data and trailers.
pub fn answer(stream: u32, headers: &[(&str, &str)], data: &[u8], trailers: &[(&str, &str)]) -> Vec<u8> {
    let head = [&[(":status", "200"), ("content-type", "application/grpc")], headers].concat();
    [
        frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&head)),
        frame(kind::DATA, 0, stream, data),
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(trailers)),
    ]
    .concat()
}

/// Returns an answer that is only a header block.
pub fn only_headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(fields))
}

const OK: &[(&str, &str)] = &[("grpc-status", "0")];

static CASES: &[HostileCase] = &[
    case("answers", &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], SERVING, OK)), Again], &["ok"]),
    case("is silent", &[Say(SETTINGS), Hear, Wait], &["timeout"]),
    case(
        "a status in the only header block",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                only_headers(
                    id,
                    &[(":status", "200"), ("content-type", "application/grpc+proto"), ("grpc-status", "14")],
                )
            }),
            Wait,
        ],
        &["answer: unavailable"],
    )
    .or(&["timeout"]),
    case(
        "no trailers",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                let answer = answer(id, &[], SERVING, OK);
                [&answer[..answer.len() - 9 - block(OK).len()], &frame(kind::DATA, flag::END_STREAM, id, b"")].concat()
            }),
            Wait,
        ],
        &["answer: no grpc-status"],
    )
    .or(&["timeout", "answer: unknown"]),
    case(
        "two statuses",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], SERVING, &[OK, OK].concat())), Wait],
        &["answer: two statuses"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "a status that does not exist",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], SERVING, &[("grpc-status", "ok")])), Wait],
        &["answer: unknown"],
    )
    .or(&["timeout"]),
    case("no message", &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"", OK)), Wait], &["answer: no message"])
        .or(&["timeout", "answer: internal"]),
    case(
        "two messages",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], &SERVING.repeat(2), OK)), Wait],
        &["answer: more than one message"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "a message longer than the answer",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"\0\0\0\0\x09\x08\x01", OK)), Wait],
        &["answer: a message is cut off"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "a message of 4 GiB",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"\0\xff\xff\xff\xff\x08\x01", OK)), Wait],
        &["answer too long"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "a flag that does not exist",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"\x02\0\0\0\x02\x08\x01", OK)), Wait],
        &["answer: a message is not framed"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "compressed without an encoding",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"\x01\0\0\0\x02\x08\x01", OK)), Wait],
        &["answer: a message is not framed"],
    )
    .or(&["timeout", "answer: internal"]),
    case(
        "a broken gzip",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| answer(id, &[("grpc-encoding", "gzip")], b"\x01\0\0\0\x02\x08\x01", OK)),
            Wait,
        ],
        &[],
    )
    .or(&["timeout", "ok", "answer: internal", "bad answer: gzip is broken or cut off"]),
    case(
        "an unknown encoding",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| answer(id, &[("grpc-encoding", "snappy")], b"\x01\0\0\0\x02\x08\x01", OK)),
            Wait,
        ],
        &[],
    )
    .or(&["timeout", "ok", "answer: internal", "answer: unknown grpc-encoding"]),
    case(
        "a message that is no protobuf",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], b"\0\0\0\0\x02\x0f\xff", OK)), Again],
        &["ok"],
    ),
    case(
        "a page of a proxy",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                [
                    frame(
                        kind::HEADERS,
                        flag::END_HEADERS,
                        id,
                        &block(&[(":status", "503"), ("content-type", "text/html")]),
                    ),
                    frame(kind::DATA, flag::END_STREAM, id, b"<html>"),
                ]
                .concat()
            }),
            Wait,
        ],
        &["status 503"],
    )
    .or(&["timeout", "answer: unavailable"]),
    case(
        "a page without an error",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| only_headers(id, &[(":status", "200"), ("content-type", "text/html")])),
            Wait,
        ],
        &["answer: not gRPC"],
    )
    .or(&["timeout", "answer: unknown"]),
    case(
        "a stream without end",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                let answer = answer(id, &[], SERVING, OK);
                answer[..answer.len() - 9 - block(OK).len()].to_vec()
            }),
            Endless(b"\0\0\x07\0\0\0\0\0\x01\0\0\0\0\x02\x08\x01"),
        ],
        &["timeout"],
    )
    .asked("rpc", STREAM)
    .or(&["connection closed", "connection reset"]),
    case(
        "a stream with a status at its end",
        &[Say(SETTINGS), Hear, Reply(|id| answer(id, &[], &SERVING.repeat(3), &[("grpc-status", "5")])), Wait],
        &["answer: not_found"],
    )
    .asked("rpc", STREAM)
    .or(&["timeout"]),
    case(
        "another protocol",
        &[Say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), Wait],
        &["connect: the target does not speak HTTP/2"],
    )
    .or(&["not connected"]),
];
