//! Header blocks that are invalid, never end, or are wrong, and interim answers without a final
//! one.

use super::server::PeerAction::{Again, Drip, Endless, Hear, Reset, Say, Wait};
use super::{Case, OK, each, http};

/// Answer of a TLS server to a request without TLS: an alert.
const TLS_ALERT: &[u8] = b"\x15\x03\x01\x00\x02\x02\x46";
/// The beginning of a `ServerHello`.
const TLS_HELLO: &[u8] =
    b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8";

const MANY: &str = "answer too long: more than 128 headers";
const LONG: &str = "answer too long: headers of more than 64 KiB";

pub static CASES: &[Case] = &[
    http("nonsense", &[Hear, Say(b"SSH-2.0-OpenSSH_9.2\r\n"), Wait], &["bad answer"]),
    http("HTTP/0.9", &[Hear, Say(b"<html>hi</html>\n")], &["bad answer"]),
    http("HTTP/3.7", &[Hear, Say(b"HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("frames of HTTP/2", &[Hear, Say(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80"), Wait], &["bad answer: HTTP/2"]),
    http("a TLS alert", &[Hear, Say(TLS_ALERT)], &["bad answer"]),
    http("a TLS hello", &[Hear, Say(TLS_HELLO), Wait], &["bad answer"]),
    http("status 000", &[Hear, Say(b"HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("status 999", &[Hear, Say(b"HTTP/1.1 999 Yes\r\nContent-Length: 0\r\n\r\n"), Again], &["status 999"]),
    http("status 20", &[Hear, Say(b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("NUL in a header", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), Wait], &["bad answer"]),
    http(
        "8 bits in a header",
        &[Hear, Say(b"HTTP/1.1 200 \xe9\r\nX: \xff\r\nContent-Length: 0\r\n\r\n"), Again],
        &["ok"],
    ),
    http("a header without a colon", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX\r\n\r\n"), Wait], &["bad answer"]),
    http(
        "a header on two lines",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"), Wait],
        &["bad answer: a header is folded"],
    ),
    http("lines that end in LF", &[Hear, Say(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), Again], &["ok"]),
    http("no header", &[Hear, Say(b"HTTP/1.1 204 No Content\r\n\r\n"), Again], &["ok"]),
    http("headers that end with the connection", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n")], &["connection closed"]),
    http("headers that end in silence", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n"), Wait], &["timeout"]),
    http("headers that end in a reset", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n"), Reset], &["connection reset"]),
    http("headers without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n"), Endless(b"X: y\r\n")], &[MANY]),
    http("a header without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: "), Endless(b"y")], &[LONG]),
    http("a status without end", &[Hear, Say(b"HTTP/1.1 200 "), Endless(b"OK ")], &[LONG]),
    http("empty lines without end", &[Hear, Endless(b"\r\n")], &[LONG]),
    http("NUL without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    http("a byte now and then", &[Hear, Drip(OK)], &["timeout"]),
    http(
        "two lengths",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi"), Wait],
        &["bad answer"],
    ),
    http(
        "one length twice",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi"), Again],
        &["ok"],
    ),
    http(
        "a list of lengths",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi"), Wait],
        &["bad answer"],
    ),
    http("a negative length", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi"), Wait], &["bad answer"]),
    http("a length in words", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nhi"), Wait], &["bad answer"]),
    http("a length of nothing", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi"), Wait], &["bad answer"]),
    http(
        "a length of 2^64",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n"), Wait],
        &["bad answer"],
    ),
    http(
        "a length of 2^64 - 1",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"), Wait],
        &["answer too long"],
    ),
    http("100 and the answer", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n"), Say(OK), Again], &["ok"]),
    http("100 and silence", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n"), Wait], &["timeout"]),
    http("100 and the end", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n")], &["connection closed"]),
    http("100 without end", &[Hear, Endless(b"HTTP/1.1 100 Continue\r\n\r\n")], &["answer too long"]),
    http(
        "103 without end",
        &[Hear, Endless(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")],
        &["answer too long"],
    ),
    http(
        "101",
        &[Hear, Say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), Wait],
        &["bad answer: 101, which was not asked for"],
    ),
];

#[test]
fn header_blocks() {
    each(CASES, false, Case::check);
}

#[test]
fn header_blocks_without_end() {
    each(CASES, true, Case::check);
}
