//! Test data of etcd: members that misbehave.
#![allow(clippy::unwrap_used)]

use std::io::Read;

use super::Etcd;
use crate::http2::frames::{self, flag, kind};
use crate::http2::hpack;
use crate::protobuf::{BYTES, VARINT, write_varint};
use crate::protocols::http2::Http2;
use crate::testing::hostile::PeerAction::{Again, Endless, Fin, Hear, Reply, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol};

impl TestedProtocol for Etcd {
    const HOSTILE: &'static [HostileCase] = CASES;
    const HELD_BYTES: usize = Http2::HELD_BYTES;
    const GREETED: Option<&'static str> = Some("etcd://127.0.0.1:1");
    const OPTIONAL: &'static [(&'static str, &'static str)] = &[
        ("consistency", "serializable"),
        ("events", "2"),
        ("from", "/"),
        ("keys_only", "true"),
        ("lease", "1"),
        ("limit", "1"),
        ("start", "1"),
    ];

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        Http2::read_request(from)
    }
}

/// Returns a field of a message with a number.
pub fn number(field: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![field << 3 | VARINT];
    write_varint(value, &mut bytes);
    bytes
}

/// Returns a field of a message with bytes or a message.
pub fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | BYTES];
    write_varint(value.len() as u64, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}

/// Returns the header of an answer's message.
pub fn header(revision: u64) -> Vec<u8> {
    bytes(1, &[number(1, 77), number(2, 88), number(3, revision), number(4, 2)].concat())
}

/// Returns a key with its value.
pub fn pair(key: &str, version: u64, value: &str) -> Vec<u8> {
    [bytes(1, key.as_bytes()), number(2, 1), number(3, version), number(4, 1), bytes(5, value.as_bytes())].concat()
}

/// Returns the message behind gRPC's prefix.
pub fn prefixed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

/// Returns a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frames::write(kind, flags, stream, body, &mut frame);
    frame
}

/// Returns a header block as a frame.
pub fn block(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::write_field(name, value.as_bytes(), &mut block));
    frame(kind::HEADERS, flags | flag::END_HEADERS, stream, &block)
}

/// Returns the beginning of an answer.
pub fn begin(stream: u32) -> Vec<u8> {
    block(stream, 0, &[(":status", "200"), ("content-type", "application/grpc")])
}

/// Returns an answer with the status 0.
pub fn answer(stream: u32, message: &[u8]) -> Vec<u8> {
    let trailers = block(stream, flag::END_STREAM, &[("grpc-status", "0"), ("grpc-message", "")]);
    [begin(stream), frame(kind::DATA, 0, stream, &prefixed(message)), trailers].concat()
}

/// Returns a failure, whose status is in its only header block.
pub fn failure(stream: u32, code: &str, text: &str) -> Vec<u8> {
    let fields =
        [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", code), ("grpc-message", text)];
    block(stream, flag::END_STREAM, &fields)
}

fn found(stream: u32) -> Vec<u8> {
    answer(stream, &[header(9), bytes(2, &pair("k", 5, "v")), number(4, 1)].concat())
}

/// Returns an answer with other bytes in place of its message.
fn odd(stream: u32, data: &[u8]) -> Vec<u8> {
    let trailers = block(stream, flag::END_STREAM, &[("grpc-status", "0")]);
    [begin(stream), frame(kind::DATA, 0, stream, data), trailers].concat()
}

const fn case(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase {
        service: "etcd://{address}",
        call: "get",
        with: &["key=k"],
        keep: Some("answer.value"),
        ..HostileCase::new(name, actions, ends)
    }
}

/// Settings without an entry.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

static CASES: &[HostileCase] = &[
    case("answers", &[Say(SETTINGS), Hear, Reply(found), Again], &["ok"]),
    case("has nothing", &[Say(SETTINGS), Hear, Reply(|id| answer(id, &header(9))), Again], &["ok"]),
    case(
        "fails at once",
        &[Say(SETTINGS), Hear, Reply(|id| failure(id, "14", "etcdserver: request timed out")), Again],
        &["answer: timed_out"],
    ),
    case("an unknown code", &[Say(SETTINGS), Hear, Reply(|id| failure(id, "99", "?")), Again], &["answer: unknown"]),
    case(
        "a code that is none",
        &[Say(SETTINGS), Hear, Reply(|id| failure(id, "-1", "?")), Again],
        &["answer: unknown"],
    ),
    case(
        "a status of HTTP",
        &[Say(SETTINGS), Hear, Reply(|id| block(id, flag::END_STREAM, &[(":status", "503")])), Again],
        &["status 503"],
    ),
    case(
        "no status of gRPC",
        &[Say(SETTINGS), Hear, Reply(|id| block(id, flag::END_STREAM, &[(":status", "200")])), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "ends without trailers",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [begin(id), frame(kind::DATA, flag::END_STREAM, id, &prefixed(&header(9)))].concat()),
            Again,
        ],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "no message",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [begin(id), block(id, flag::END_STREAM, &[("grpc-status", "0")])].concat()),
            Again,
        ],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "two messages",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, &prefixed(&header(9)).repeat(2))), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "a compressed message",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, b"\x01\0\0\0\x01x")), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "a message that is cut off",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, b"\0\0\0\0\x09x")), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "a message as long as can be",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, b"\0\xff\xff\xff\xffx")), Again],
        &["answer too long"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "a message longer than the limit",
        &[Say(SETTINGS), Hear, Reply(|id| [begin(id), frame(kind::DATA, 0, id, b"\0\x04\0\0\x01x")].concat()), Again],
        &["answer too long"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "messages without end",
        &[Say(SETTINGS), Hear, Reply(begin), Endless(b"\0\0\x07\0\0\0\0\0\x01\0\0\0\0\x02\x20\x01")],
        &["bad answer"],
    )
    .or(&["answer: bad_answer", "bad answer: HTTP/2: too many frames without an answer"]),
    case(
        "a broken message",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, &prefixed(b"\x0a\x7f"))), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case(
        "a key that is no message",
        &[Say(SETTINGS), Hear, Reply(|id| odd(id, &prefixed(b"\x12\x01\x07"))), Again],
        &["bad answer"],
    )
    .or(&["answer: bad_answer"]),
    case("begins, and is silent", &[Say(SETTINGS), Hear, Reply(begin), Wait], &["timeout"]),
    case("begins, and ends its side", &[Say(SETTINGS), Hear, Reply(begin), Fin, Wait], &["connection closed"]),
    case("begins, and resets", &[Say(SETTINGS), Hear, Reply(begin), Reset], &["connection reset"]),
    case(
        "another protocol",
        &[Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait],
        &["connect: the target does not speak HTTP/2"],
    )
    .or(&["not connected"]),
    HostileCase {
        keep: Some("answer.version"),
        ..case(
            "a comparison that does not hold",
            &[Say(SETTINGS), Hear, Reply(|id| answer(id, &header(9))), Again],
            &["answer: changed"],
        )
        .asked("update", &["key=k", "version=3", "value=v"])
    },
];
