//! Invalid replies of Redis of every kind: wrong lengths, no length, too deep, too many, of unknown
//! type, and errors within values.

use super::server::PeerAction::{Again, Drip, Endless, Fin, Hear, Reset, Say, Wait};
use super::{Case, each, redis};

const VALUE: &[u8] = b"$1\r\nv\r\n";

/// A text in a list.
const ELEMENT: [u8; 4000] = {
    let mut element = [b'e'; 4000];
    (element[0], element[3998], element[3999]) = (b'+', b'\r', b'\n');
    element
};

pub static CASES: &[Case] = &[
    redis("answers", &[Hear, Say(VALUE), Again], &["ok"]),
    redis("has nothing", &[Hear, Say(b"$-1\r\n"), Again], &["ok"]),
    redis("an error", &[Hear, Say(b"-ERR no\r\n"), Again], &["answer: err"]),
    redis("an error without a word", &[Hear, Say(b"-\r\n"), Again], &["answer: other"]),
    redis("an error without end", &[Hear, Say(b"-ERR "), Endless(b"no ")], &["answer too long"]),
    redis("another type than was asked for", &[Hear, Say(b":1\r\n"), Wait], &["bad answer"]),
    redis("no type", &[Hear, Say(b"v\r\n"), Wait], &["bad answer"]),
    redis("another protocol", &[Hear, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait], &["bad answer"]),
    redis("zeros without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    redis("a line feed alone", &[Hear, Say(b"+OK\n"), Wait], &["bad answer"]),
    redis("a line without end", &[Hear, Say(b"+"), Endless(b"x")], &["answer too long"]),
    redis("a length without end", &[Hear, Say(b"$"), Endless(b"1")], &["answer too long"]),
    redis("a length of nothing", &[Hear, Say(b"$\r\n"), Wait], &["bad answer"]),
    redis("a length in words", &[Hear, Say(b"$two\r\n"), Wait], &["bad answer"]),
    redis("a negative length", &[Hear, Say(b"$-2\r\n"), Wait], &["bad answer"]),
    redis("a length with a sign", &[Hear, Say(b"$+1\r\nv\r\n"), Wait], &["bad answer"]),
    redis("a length of 2^64", &[Hear, Say(b"$18446744073709551616\r\n"), Wait], &["answer too long"]),
    redis("a length above what is taken", &[Hear, Say(b"$99999999999\r\n"), Endless(b"x")], &["answer too long"]),
    redis("as long as may be, and then no end", &[Hear, Say(b"$67108000\r\n"), Endless(b"x")], &["bad answer"]),
    redis("longer than its length", &[Hear, Say(b"$1\r\nvalue\r\n"), Wait], &["bad answer"]),
    redis("shorter than its length", &[Hear, Say(b"$5\r\nv\r\n"), Wait], &["timeout"]),
    redis("shorter than its length, and the end", &[Hear, Say(b"$5\r\nv\r\n")], &["connection closed"]),
    redis(
        "shorter than its length, and the end of its side",
        &[Hear, Say(b"$5\r\nv\r\n"), Fin, Wait],
        &["connection closed"],
    ),
    redis("shorter than its length, and a reset", &[Hear, Say(b"$5\r\nv\r\n"), Reset], &["connection reset"]),
    redis("cut in its head", &[Hear, Say(b"$1")], &["connection closed"]),
    redis("a byte now and then", &[Hear, Drip(b"$9\r\nvaluevalu\r\n")], &["timeout"]),
    redis("two answers", &[Hear, Say(b"$1\r\nv\r\n$1\r\nw\r\n"), Again], &["ok"]),
    redis("answers without end", &[Hear, Endless(VALUE)], &["ok"]).or(&["bad answer"]),
    redis("speaks first", &[Say(b"+OK\r\n"), Wait], &[]).or(&["ok", "bad answer", "timeout"]),
    redis("lists in lists without end", &[Hear, Endless(b"*1\r\n")], &["answer too long"])
        .asked("command", &["arguments=X"]),
    redis("a list longer than any", &[Hear, Say(b"*4294967295\r\n"), Wait], &["answer too long"])
        .asked("command", &["arguments=X"]),
    redis("a list of a negative length", &[Hear, Say(b"*-7\r\n"), Wait], &["bad answer"])
        .asked("command", &["arguments=X"]),
    redis("a map longer than any", &[Hear, Say(b"%9223372036854775808\r\n"), Wait], &["answer too long"])
        .asked("command", &["arguments=X"]),
    redis("elements without end", &[Hear, Say(b"*20000000\r\n"), Endless(&ELEMENT)], &["answer too long"])
        .asked("command", &["arguments=X"]),
    redis("fewer elements than it says", &[Hear, Say(b"*3\r\n:1\r\n:2\r\n"), Wait], &["timeout"])
        .asked("command", &["arguments=X"]),
    redis("an element of no type", &[Hear, Say(b"*3\r\n:1\r\nx\r\n"), Wait], &["bad answer"])
        .asked("command", &["arguments=X"]),
    redis("pushes and the answer", &[Hear, Say(b">2\r\n+a\r\n+b\r\n>1\r\n+c\r\n$1\r\nv\r\n"), Again], &["ok"]),
    redis("attributes of attributes without end", &[Hear, Endless(b"|1\r\n")], &["answer too long"]),
    redis("attributes of nothing", &[Hear, Say(b"|1\r\n+a\r\n+b\r\n"), Wait], &["timeout"]),
];

#[test]
fn replies() {
    each(CASES, false, Case::check);
}

#[test]
fn replies_without_end() {
    each(CASES, true, Case::check);
}
