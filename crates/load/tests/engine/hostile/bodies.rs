//! Bodies that are too short or too long, never end, or are not allowed, and invalid chunks of
//! every kind.

use super::server::PeerAction::{Again, Endless, Hear, Reset, Say, Wait};
use super::{Case, OK, each, http};

/// The header block of a chunked answer.
macro_rules! chunked {
    ($body:literal) => {{
        const ANSWER: &[u8] = concat!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", $body).as_bytes();
        ANSWER
    }};
}

/// A chunk of four kilobytes.
const CHUNK: &[u8] = {
    const LENGTH: usize = 6 + 0x1000 + 2;
    const CHUNK: [u8; LENGTH] = {
        let mut chunk = [b'x'; LENGTH];
        let (head, mut place) = (b"1000\r\n", 0);
        while place < head.len() {
            chunk[place] = head[place];
            place += 1;
        }
        chunk[LENGTH - 2] = b'\r';
        chunk[LENGTH - 1] = b'\n';
        chunk
    };
    &CHUNK
};

/// A chunk of one byte, with almost four kilobytes of extensions.
const EXTENDED: &[u8] = {
    const LENGTH: usize = 4000;
    const CHUNK: [u8; LENGTH] = {
        let mut chunk = [b'e'; LENGTH];
        (chunk[0], chunk[1]) = (b'1', b';');
        let (tail, mut place) = (b"\r\nx\r\n", 0);
        while place < tail.len() {
            chunk[LENGTH - tail.len() + place] = tail[place];
            place += 1;
        }
        chunk
    };
    &CHUNK
};

pub static CASES: &[Case] = &[
    http(
        "less than its length",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi")],
        &["connection closed"],
    ),
    http(
        "less than its length, and silence",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), Wait],
        &["timeout"],
    ),
    http(
        "less than its length, and a reset",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), Reset],
        &["connection reset"],
    ),
    http("no length and no end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Wait], &["timeout"]),
    http("no length", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi")], &["ok"]),
    http("no length, and a reset", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Reset], &["connection reset"]),
    http("identity", &[Hear, Say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhi")], &["ok"]),
    http("a body behind 204", &[Hear, Say(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi"), Again], &["ok"]),
    http(
        "a body behind 304",
        &[Hear, Say(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi"), Again],
        &["ok"],
    ),
    http("a body behind HEAD", &[Hear, Say(OK), Again], &["ok"]).asked("head", &["path=/x"]),
    http(
        "two answers",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho"),
            Again,
        ],
        &["ok"],
    ),
    http(
        "an answer behind the last",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n"),
            Wait,
        ],
        &["ok"],
    ),
    http("more than its length without end", &[Hear, Say(OK), Endless(b"hi")], &["ok"]).or(&["bad answer"]),
    http("a body without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\n"), Endless(b"hi")], &["answer too long"]),
    http(
        "a length above what is taken",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), Endless(b"hi")],
        &["answer too long"],
    ),
    http(
        "a length beside chunks",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
            Again,
        ],
        &["ok"],
    ),
    http("a size in letters", &[Hear, Say(chunked!("xyz\r\n")), Wait], &["bad answer"]),
    http("a negative size", &[Hear, Say(chunked!("-2\r\nhi\r\n")), Wait], &["bad answer"]),
    http("no size", &[Hear, Say(chunked!("\r\nhi\r\n")), Wait], &["bad answer"]),
    http("a size that overflows", &[Hear, Say(chunked!("FFFFFFFFFFFFFFFFF\r\n")), Wait], &["bad answer"]),
    http("the largest size", &[Hear, Say(chunked!("FFFFFFFFFFFFFFFF\r\n")), Wait], &["answer too long"]),
    http("a chunk longer than it says", &[Hear, Say(chunked!("2\r\nhigh\r\n0\r\n\r\n")), Wait], &["bad answer"]),
    http("a chunk without end", &[Hear, Say(chunked!("5\r\nhi")), Wait], &["timeout"]),
    http("a chunk that ends with the connection", &[Hear, Say(chunked!("5\r\nhi"))], &["connection closed"]),
    http("a chunk that ends in a reset", &[Hear, Say(chunked!("5\r\nhi")), Reset], &["connection reset"]),
    http("chunks without the last", &[Hear, Say(chunked!("2\r\nhi\r\n"))], &["connection closed"]),
    http("a last chunk without its line", &[Hear, Say(chunked!("2\r\nhi\r\n0\r\n")), Wait], &["timeout"]),
    http("chunks and trailers", &[Hear, Say(chunked!("2;a=b\r\nhi\r\n0\r\nT: t\r\n\r\n")), Again], &["ok"]),
    http("a size without end", &[Hear, Say(chunked!("")), Endless(b"0")], &["bad answer"]),
    http("an extension without end", &[Hear, Say(chunked!("2;")), Endless(b"e")], &["bad answer"]),
    http("extensions without end", &[Hear, Say(chunked!("")), Endless(EXTENDED)], &["answer too long"]),
    http("chunks without end", &[Hear, Say(chunked!("")), Endless(CHUNK)], &["answer too long"]),
    http("trailers without end", &[Hear, Say(chunked!("0\r\n")), Endless(b"T: t\r\n")], &["answer too long"]),
    http("a trailer without end", &[Hear, Say(chunked!("0\r\nT: ")), Endless(b"t")], &["answer too long"]),
];

#[test]
fn answers_with_bodies() {
    each(CASES, false, Case::check);
}

#[test]
fn bodies_without_end() {
    each(CASES, true, Case::check);
}
