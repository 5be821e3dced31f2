//! Test data of memcached: servers that misbehave.
#![allow(clippy::unwrap_used)]

use std::io::Read;

use super::Memcached;
use crate::testing::hostile::PeerAction::{Again, Drip, Endless, Fin, Hear, Reply, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_bytes};

impl TestedProtocol for Memcached {
    const HOSTILE: &'static [HostileCase] = CASES;
    const OPTIONAL: &'static [(&'static str, &'static str)] = &[("expires", "60"), ("by", "2")];

    /// The body holds extras, key and value.
    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let header = read_bytes(from, super::HEADER)?;
        let length = u32::from_be_bytes(*header[8..].first_chunk()?);
        let id = u32::from_be_bytes(*header[12..].first_chunk()?);
        Some(ReceivedRequest { id, opcode: header[1], body: read_bytes(from, length as usize)? })
    }
}

/// Returns a packet.
fn packet(opcode: u8, id: u32, status: u16, extras: &[u8], value: &[u8]) -> Vec<u8> {
    let mut packet = vec![super::ANSWER, opcode, 0, 0, u8::try_from(extras.len()).unwrap(), 0];
    packet.extend_from_slice(&status.to_be_bytes());
    packet.extend_from_slice(&u32::try_from(extras.len() + value.len()).unwrap().to_be_bytes());
    packet.extend_from_slice(&id.to_be_bytes());
    packet.extend_from_slice(&[0; 8]);
    packet.extend_from_slice(extras);
    packet.extend_from_slice(value);
    packet
}

/// Returns an answer with flags and a value, as to `get`.
pub fn answer(opcode: u8, id: u32, value: &[u8]) -> Vec<u8> {
    packet(opcode, id, 0, &[0; 4], value)
}

/// Returns an answer without flags.
pub fn text(opcode: u8, id: u32, status: u16, text: &str) -> Vec<u8> {
    packet(opcode, id, status, b"", text.as_bytes())
}

const fn memcached(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "get", with: &["key=k"], keep: Some("answer.value"), ..HostileCase::new(name, actions, ends) }
}

/// Answer `ok` to the first `get` of a new connection. On an older connection, the answer is
/// unsolicited.
const FIRST: &[u8] = b"\x81\0\0\0\x04\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0v";

/// An answer to no operation.
const UNASKED: &[u8] = b"\x81\x7f\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0";

static CASES: &[HostileCase] = &[
    // Packets for the wrong request, of impossible lengths, cut, with an unknown status, too many.
    memcached("answers", &[Hear, Reply(|id| answer(0, id, b"v")), Again], &["ok"]),
    memcached("has nothing", &[Hear, Reply(|id| text(0, id, 1, "Not found")), Again], &["ok"]),
    memcached(
        "answers another request",
        &[Hear, Reply(|id| answer(0, id.wrapping_add(7), b"v")), Wait],
        &["bad answer"],
    ),
    memcached("answers another operation", &[Hear, Reply(|id| answer(1, id, b"v")), Wait], &["bad answer"]),
    memcached("answers twice", &[Hear, Reply(|id| answer(0, id, b"v").repeat(2)), Again], &["ok"]),
    memcached("answers without end", &[Hear, Endless(FIRST)], &["ok"]).or(&["bad answer"]),
    memcached("speaks first", &[Say(UNASKED), Wait], &["bad answer"]),
    memcached("refuses first", &[Say(super::TOO_MANY), Wait], &["answer: too_many_connections"]),
    memcached("half a refusal, and silence", &[Hear, Say(b"ERROR Too"), Wait], &["timeout"]),
    memcached("half a refusal, and the end", &[Hear, Say(b"ERROR Too")], &["connection closed"]),
    memcached("an error in text", &[Hear, Say(b"ERROR\r\n"), Wait], &["bad answer"]),
    memcached("an invalid request", &[Hear, Reply(|id| text(0, id, 4, "")), Wait], &["answer: invalid"]),
    memcached("no memory", &[Hear, Reply(|id| text(0, id, 0x82, "")), Again], &["answer: out_of_memory"]),
    memcached("an unknown status", &[Hear, Reply(|id| text(0, id, 0x77, "")), Wait], &["bad answer"]),
    memcached("a request", &[Hear, Say(b"\x80"), Wait], &["bad answer"]),
    memcached("zeros without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    memcached("answers' first bytes without end", &[Hear, Endless(b"\x81")], &["bad answer"]),
    memcached("another protocol", &[Hear, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait], &["bad answer"]),
    memcached(
        "a key longer than the packet",
        &[Hear, Reply(|id| [b"\x81\0\x01\0", &answer(0, id, b"v")[4..]].concat()), Wait],
        &["bad answer"],
    ),
    memcached(
        "every length",
        &[Hear, Reply(|id| [&answer(0, id, b"")[..8], &[0xff; 4], &id.to_be_bytes(), &[0; 8]].concat()), Wait],
        &["answer too long"],
    ),
    memcached(
        "as long as may be, and then no end",
        &[
            Hear,
            Reply(|id| [&text(0, id, 0x77, "")[..8], b"\x04\0\0\0", &id.to_be_bytes(), &[0; 8]].concat()),
            Endless(b"x"),
        ],
        &["bad answer"],
    ),
    memcached("cut in its header", &[Hear, Say(&[0x81])], &["connection closed"]),
    memcached("cut in its value", &[Hear, Reply(|id| answer(0, id, b"v")[..28].to_vec())], &["connection closed"]),
    memcached(
        "cut in its value, and the end of its side",
        &[Hear, Reply(|id| answer(0, id, b"v")[..28].to_vec()), Fin, Wait],
        &["connection closed"],
    ),
    memcached(
        "cut in its value, and a reset",
        &[Hear, Reply(|id| answer(0, id, b"v")[..28].to_vec()), Reset],
        &["connection reset"],
    ),
    memcached(
        "cut in its value, and silence",
        &[Hear, Reply(|id| answer(0, id, b"v")[..28].to_vec()), Wait],
        &["timeout"],
    ),
    memcached("a byte now and then", &[Hear, Drip(FIRST)], &["timeout"]),
    memcached("silence", &[Hear, Wait], &["timeout"]),
    memcached("a sum without its number", &[Hear, Reply(|id| text(5, id, 0, "12")), Wait], &["bad answer"])
        .asked("incr", &["key=k"]),
    memcached("a sum of text", &[Hear, Reply(|id| text(5, id, 6, "Non-numeric")), Again], &["answer: not_a_number"])
        .asked("incr", &["key=k"]),
];
