//! Targets of TLS connections: no TLS, half of a handshake, too many bytes, and every kind of wrong
//! bytes within a valid session.

use super::server::PeerAction::{
    BeginToShake, Deaf, Drip, Endless, EndlessBare, EndlessKeys, Fin, Hear, HearAnything, Part, Reset, Say, SayBare,
    Shake, Stay, Wait,
};
use super::{Case, OK, each, https};

/// An answer that ends before its length.
const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi";
/// A handshake record whose message announces 64 KiB less 16 bytes, and has 16.
const PIECE: &[u8] = b"\x16\x03\x03\x00\x10\x02\x00\xff\xf0\x03\x03\0\0\0\0\0\0\0\0\0\0";
/// A warning without meaning.
const WARNING: &[u8] = b"\x15\x03\x03\x00\x02\x01\x5a";
/// A record that looks encrypted, but not with these keys.
const FORGED: &[u8] = b"\x17\x03\x03\x00\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub static CASES: &[Case] = &[
    https("ends when it is opened", &[], &["tls: closed in the handshake"]),
    https("resets when it is opened", &[Reset], &[]).or(&["tls: closed in the handshake", "connect failed"]),
    https("hears and ends", &[HearAnything], &["tls: closed in the handshake"]),
    https("hears and ends its side", &[HearAnything, Fin, Wait], &["tls: closed in the handshake"]),
    https("hears and resets", &[HearAnything, Reset], &["tls: closed in the handshake"]),
    https("hears and is silent", &[HearAnything, Wait], &["connect timeout"]),
    https("does not hear", &[Stay], &["connect timeout"]),
    https("half a handshake, and silence", &[BeginToShake, Wait], &["connect timeout"]),
    https("half a handshake, and the end", &[BeginToShake], &["tls: closed in the handshake"]),
    https("half a handshake, and a reset", &[BeginToShake, Reset], &["tls: closed in the handshake"]),
    https("half a handshake, and garbage", &[BeginToShake, Endless(b"\xa5")], &["tls: handshake failed"]),
    https("HTTP in the clear", &[HearAnything, Say(OK), Wait], &["tls: handshake failed"]),
    https("zeros for a hello", &[HearAnything, Endless(b"\0")], &["tls: handshake failed"]),
    https("garbage for a hello", &[HearAnything, Endless(b"\xde\xad\xbe\xef")], &["tls: handshake failed"]),
    https(
        "a hello of garbage",
        &[HearAnything, Endless(b"\x16\x03\x03\x00\x04\x02\x00\x00\x00")],
        &["tls: handshake failed"],
    ),
    https("a record longer than any", &[HearAnything, Say(b"\x16\x03\x03\xff\xff"), Wait], &["tls: handshake failed"]),
    https(
        "a hello longer than any",
        &[HearAnything, Say(b"\x16\x03\x03\x00\x04\x02\xff\xff\xff"), Wait],
        &["tls: handshake failed"],
    ),
    https("a hello without end", &[HearAnything, Endless(PIECE)], &["tls: handshake failed"]),
    https("warnings without end", &[HearAnything, Endless(WARNING)], &["tls: handshake failed"])
        .or(&["tls: refused by the target: user canceled"]),
    https(
        "a change of ciphers without end",
        &[HearAnything, Endless(b"\x14\x03\x03\x00\x01\x01")],
        &["tls: handshake failed"],
    ),
    https("a hello byte by byte", &[HearAnything, Drip(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76")], &["connect timeout"]),
    https(
        "an alert",
        &[HearAnything, Say(b"\x15\x03\x03\x00\x02\x02\x28"), Wait],
        &["tls: refused by the target: handshake failure"],
    ),
    https("ends after the handshake", &[Shake], &[]).or(&["connection closed", "connection reset"]),
    https("ends its session after the handshake", &[Shake, Part, Wait], &["connection closed"]),
    https("resets after the handshake", &[Shake, Reset], &["connection reset"]).or(&["connection closed"]),
    https("is silent after the handshake", &[Shake, Wait], &["timeout"]),
    https("does not hear a long request", &[Shake, Stay], &["timeout"])
        .asked("post", &["path=/x", "body={bytes:12000000}"]),
    https("speaks first", &[Shake, Say(OK), Wait], &[]).or(&["ok", "bad answer", "timeout"]),
    https("speaks first without end", &[Shake, Endless(b"hi")], &["bad answer"]),
    https("garbage after the handshake", &[Shake, SayBare(b"\xde\xad\xbe\xef\xde\xad"), Wait], &["tls: broken"]),
    https("garbage without end", &[Shake, EndlessBare(b"\xde\xad\xbe\xef")], &["tls: broken"]),
    https("records that are forged", &[Shake, Hear, SayBare(FORGED), Wait], &["tls: broken"]),
    https("forged in the middle of an answer", &[Shake, Hear, Say(SHORT), SayBare(FORGED), Wait], &["tls: broken"]),
    https("the clear in the middle of an answer", &[Shake, Hear, Say(SHORT), SayBare(OK), Wait], &["tls: broken"]),
    https("half a record, and silence", &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0"), Wait], &["timeout"]),
    https("half a record, and the end", &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0")], &["connection closed"]),
    https(
        "half a record, and a reset",
        &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0"), Reset],
        &["connection reset"],
    ),
    https("new keys without end", &[Shake, Hear, EndlessKeys], &["tls: broken"]),
    https("cut without a word", &[Shake, Hear, Say(SHORT)], &["connection closed"]),
    https("cut with a word", &[Shake, Hear, Say(SHORT), Part], &["connection closed"]),
    https("cut by a reset", &[Shake, Hear, Say(SHORT), Reset], &["connection reset"]),
    https("cut in silence", &[Shake, Hear, Say(SHORT), Wait], &["timeout"]),
    https("half-closed in the middle of an answer", &[Shake, Hear, Say(SHORT), Fin, Wait], &["connection closed"]),
    https("no length, and a word at the end", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Part], &["ok"]),
    https("no length, and no word", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi")], &["connection closed"]),
    https("no length, and a reset", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Reset], &["connection reset"]),
    https("a byte now and then", &[Shake, Hear, Drip(OK)], &["timeout"]),
    https("does not listen", &[Shake, Hear, Deaf, Stay], &["timeout"]),
    https("a body without end", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\n"), Endless(b"hi")], &["answer too long"]),
    https(
        "a header without end",
        &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\nX: "), Endless(b"y")],
        &["answer too long: headers of more than 64 KiB"],
    ),
    https("100 without end", &[Shake, Hear, Endless(b"HTTP/1.1 100 Continue\r\n\r\n")], &["answer too long"]),
    https("more than its length without end", &[Shake, Hear, Say(OK), Endless(b"hi")], &["ok"]).or(&["bad answer"]),
    https(
        "a bad chunk",
        &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), Wait],
        &["bad answer"],
    ),
    https("an answer and the end of the session", &[Shake, Hear, Say(OK), Part, Wait], &["ok"])
        .or(&["connection closed"]),
    https("an answer and a reset", &[Shake, Hear, Say(OK), Reset], &["ok"]).or(&[
        "connection reset",
        "connection closed",
        "tls: closed in the handshake",
    ]),
];

#[test]
fn sessions() {
    each(CASES, false, Case::check);
}

#[test]
fn sessions_without_end() {
    each(CASES, true, Case::check);
}
