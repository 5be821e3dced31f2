//! Frames of the name service: for the wrong request, without a length, of any length, cut, with an
//! unknown status, and too many.

use super::server::PeerAction::{Again, Drip, Endless, Hear, Reply, Reset, Say, Wait};
use super::{Case, each, vsns};
use crate::server::frame;

/// `ok` for the first request of a new connection. Unsolicited on any other.
const FIRST: &[u8] = b"\0\0\0\x05\0\0\0\x01\0";
/// The service accepts no more connections.
const BUSY: &[u8] = b"\0\0\0\x05\0\0\0\0\x04";

pub static CASES: &[Case] = &[
    vsns("answers", &[Hear, Reply(|id| frame(id, 0, b"")), Again], &["ok"]),
    vsns("answers another request", &[Hear, Reply(|id| frame(id.wrapping_add(7), 0, b"")), Wait], &["bad answer"]),
    vsns("answers nobody", &[Hear, Reply(|_| frame(0, 0, b"")), Wait], &["bad answer"]),
    vsns("answers twice", &[Hear, Reply(|id| frame(id, 0, b"").repeat(2)), Again], &["ok"]),
    vsns("answers without end", &[Hear, Endless(FIRST)], &["ok"]).or(&["bad answer"]),
    vsns("speaks first", &[Say(b"\0\0\0\x05\0\0\0\x77\0"), Wait], &["bad answer"]),
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
];

#[test]
fn frames() {
    each(CASES, false, Case::check);
}

#[test]
fn frames_without_end() {
    each(CASES, true, Case::check);
}
