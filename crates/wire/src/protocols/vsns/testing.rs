//! Test data of the name service's protocol: servers that misbehave.
#![allow(clippy::unwrap_used)]

use std::io::Read;

use super::Vsns;
use crate::testing::hostile::PeerAction::{Again, Drip, Endless, Hear, Reply, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_bytes};

impl TestedProtocol for Vsns {
    const HOSTILE: &'static [HostileCase] = CASES;

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let length = u32::from_be_bytes(*read_bytes(from, 4)?.first_chunk()?);
        let frame = read_bytes(from, length as usize)?;
        let (id, rest) = frame.split_first_chunk()?;
        let (opcode, body) = rest.split_first()?;
        Some(ReceivedRequest { id: u32::from_be_bytes(*id), opcode: *opcode, body: body.to_vec() })
    }
}

/// Returns an answer.
pub fn frame(id: u32, status: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len() + 5).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&id.to_be_bytes());
    frame.push(status);
    frame.extend_from_slice(body);
    frame
}

const fn vsns(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase {
        name,
        service: "{address}",
        call: "ping",
        with: &[],
        keep: None,
        actions,
        ends,
        or: &[],
        greets: false,
        cookies: false,
        streams: false,
    }
}

/// Answer `ok` to the first request of a new connection. On an older connection, the answer is
/// unsolicited.
const FIRST: &[u8] = b"\0\0\0\x05\0\0\0\x01\0";
/// The service accepts no more connections.
const BUSY: &[u8] = b"\0\0\0\x05\0\0\0\0\x04";

/// Frames for the wrong request, without a length, of any length, cut, with an unknown status, and
/// too many.
static CASES: &[HostileCase] = &[
    vsns("answers", &[Hear, Reply(|id| frame(id, 0, b"")), Again], &["ok"]),
    vsns("answers another request", &[Hear, Reply(|id| frame(id.wrapping_add(7), 0, b"")), Wait], &["bad answer"]),
    vsns("answers nobody", &[Hear, Reply(|_| frame(0, 0, b"")), Wait], &["bad answer"]),
    vsns("answers twice", &[Hear, Reply(|id| frame(id, 0, b"").repeat(2)), Again], &["ok"]),
    vsns("answers without end", &[Hear, Endless(FIRST)], &["ok"]).or(&["bad answer"]),
    vsns("speaks first", &[Say(b"\0\0\0\x05\x7f\0\0\x77\0"), Wait], &["bad answer"]),
    vsns("refuses first", &[Say(BUSY), Wait], &["answer: busy"]),
    vsns("an unknown status", &[Hear, Reply(|id| frame(id, 9, b"")), Wait], &["bad answer"]),
    vsns("a status of 255", &[Hear, Reply(|id| frame(id, 255, b"")), Wait], &["bad answer"]),
    vsns("no length", &[Hear, Say(b"\0\0\0\0"), Wait], &["bad answer"]),
    vsns("a length without room", &[Hear, Say(b"\0\0\0\x04\0\0\0\x01"), Wait], &["bad answer"]),
    vsns("every length", &[Hear, Say(b"\xff\xff\xff\xff"), Wait], &["answer too long"]),
    vsns("a little too long", &[Hear, Say(b"\x04\0\0\x01"), Wait], &["answer too long"]),
    vsns("as long as may be", &[Hear, Say(b"\x04\0\0\0"), Endless(b"\0")], &["bad answer"]),
    vsns("zeros without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    vsns(
        "another protocol",
        &[Hear, Say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), Wait],
        &["answer too long"],
    ),
    vsns("cut in its length", &[Hear, Say(b"\0\0")], &["connection closed"]),
    vsns("cut in its body", &[Hear, Say(b"\0\0\0\x05\0\0")], &["connection closed"]),
    vsns("cut in its body, and silence", &[Hear, Say(b"\0\0\0\x05\0\0"), Wait], &["timeout"]),
    vsns("cut in its body, and a reset", &[Hear, Say(b"\0\0\0\x05\0\0"), Reset], &["connection reset"]),
    vsns("a byte now and then", &[Hear, Drip(FIRST)], &["timeout"]),
    vsns("silence", &[Hear, Wait], &["timeout"]),
    vsns("a page without its count", &[Hear, Reply(|id| frame(id, 0, b"\0")), Wait], &["bad answer"])
        .asked("load_all", &[]),
    vsns(
        "a page of fewer than it counts",
        &[Hear, Reply(|id| frame(id, 0, b"\0\xff\xff\xff\xff\0\x01k\0\0\0\x01v")), Wait],
        &["bad answer"],
    )
    .asked("load_all", &[]),
    vsns(
        "a value longer than its page",
        &[Hear, Reply(|id| frame(id, 0, b"\0\0\0\0\x01\0\x01k\xff\xff\xff\xffv")), Wait],
        &["bad answer"],
    )
    .asked("load_all", &[]),
    vsns("a removal without its count", &[Hear, Reply(|id| frame(id, 0, b"")), Wait], &["bad answer"])
        .asked("remove_all", &[]),
    // More bytes than are read from a connection in one turn.
    vsns("answers at length", &[Hear, Reply(|id| frame(id, 0, &vec![b'x'; 24 * 1024 * 1024])), Again], &["ok"])
        .asked("load", &["key=k"]),
];
