//! Test data of HTTP/2: hostile servers.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;

use super::Http2;
use crate::http2::frames::{FrameHead, HEAD, LONGEST, PREFACE, flag, kind};
use crate::testing::hostile::PeerAction::{Again, Hear, Reply, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_bytes};

impl TestedProtocol for Http2 {
    const HOSTILE: &'static [HostileCase] = CASES;
    /// Largest incomplete frame.
    const HELD_BYTES: usize = HEAD + LONGEST;
    const GREETED: Option<&'static str> = Some("http://127.0.0.1:1");

    /// Reads up to the end of a request's stream.
    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let mut block = Vec::new();
        loop {
            let head = read_bytes(from, HEAD)?;
            if PREFACE.starts_with(&head) {
                read_bytes(from, PREFACE.len() - HEAD)?;
                continue;
            }
            let head = FrameHead::read(&head)?;
            let body = read_bytes(from, head.length)?;
            if head.kind == kind::HEADERS {
                block = body;
            }
            if matches!(head.kind, kind::HEADERS | kind::DATA) && head.has(flag::END_STREAM) {
                return Some(ReceivedRequest { id: head.stream, opcode: head.kind, body: block });
            }
        }
    }
}

const fn case(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "get", with: &["path=/x"], keep: Some("answer.body"), ..HostileCase::new(name, actions, ends) }
}

/// Settings without an entry.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// Returns a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    crate::http2::frames::write(kind, flags, stream, body, &mut frame);
    frame
}

/// An answer with the status 200 and a body.
fn ok(stream: u32) -> Vec<u8> {
    [frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]), frame(kind::DATA, flag::END_STREAM, stream, b"hi")]
        .concat()
}

static CASES: &[HostileCase] = &[
    case("answers", &[Say(SETTINGS), Hear, Reply(ok), Again], &["ok"]),
    case("is silent", &[Say(SETTINGS), Hear, Wait], &["timeout"]),
    case("says nothing", &[Hear, Wait], &["connect timeout"]),
];
