//! Test data of Redis: servers that misbehave.

use std::io::Read;

use super::Redis;
use crate::testing::hostile::PeerAction::{Again, Drip, Endless, Fin, Hear, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_bytes, read_line};

impl TestedProtocol for Redis {
    const HOSTILE: &'static [HostileCase] = CASES;
    const GREETED: Option<&'static str> = Some("redis://127.0.0.1:1/3");

    /// The body holds the words, separated by blanks.
    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let mut words = Vec::new();
        for _ in 0..read_number(from, b'*')? {
            let length = read_number(from, b'$')?;
            let mut word = read_bytes(from, length + 2)?;
            word.truncate(length);
            words.push(word);
        }
        Some(ReceivedRequest { body: words.join(&b' '), ..ReceivedRequest::default() })
    }
}

fn read_number(from: &mut dyn Read, kind: u8) -> Option<usize> {
    String::from_utf8_lossy(read_line(from)?.strip_prefix(&[kind])?).parse().ok()
}

const fn redis(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "get", with: &["key=k"], keep: Some("answer.value"), ..HostileCase::new(name, actions, ends) }
}

/// A server with a database that is selected before the first request.
const fn greeted(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "redis://{address}/3", greets: true, ..redis(name, actions, ends) }
}

const VALUE: &[u8] = b"$1\r\nv\r\n";

/// A text in a list.
const ELEMENT: [u8; 4000] = {
    let mut element = [b'e'; 4000];
    (element[0], element[3998], element[3999]) = (b'+', b'\r', b'\n');
    element
};

static CASES: &[HostileCase] = &[
    // Invalid replies of every kind: wrong lengths, no length, too deep, too many, of unknown type,
    // and errors within values.
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
    // Bug: a thread that was late for a timeout looked for the answer again, each time that it was
    // late. It is always late if a target sends faster than it reads. Pushed messages are skipped,
    // and are not answers.
    redis("pushes without end", &[Hear, Endless(b">2\r\n+a\r\n+b\r\n")], &["timeout"]),
    // Wrong answers to the greeting. After a wrong answer, no request is sent, so no operation
    // takes effect.
    greeted("refuses to be greeted", &[Hear, Say(b"-NOAUTH who are you\r\n"), Wait], &["answer: noauth"]),
    greeted("refuses in words of its own", &[Hear, Say(b"-SORRY no\r\n"), Wait], &["answer: sorry"]),
    greeted("answers a greeting with garbage", &[Hear, Say(b"\xde\xad\xbe\xef\r\n"), Wait], &["connect failed"]),
    greeted("answers a greeting without end", &[Hear, Say(b"+"), Endless(b"x")], &["connect failed"]),
    greeted("answers a greeting at length", &[Hear, Say(b"$67108864\r\n"), Endless(b"x")], &["connect failed"]),
    greeted("answers a greeting in lists without end", &[Hear, Endless(b"*1\r\n")], &["connect failed"]),
    greeted("answers a greeting twice", &[Hear, Say(b"+OK\r\n+OK\r\n"), Wait], &["connect failed"]),
    greeted("hears a greeting and ends", &[Hear], &["connect failed"]),
    greeted("hears a greeting and ends its side", &[Hear, Fin, Wait], &["connect failed"]),
    greeted("hears a greeting and resets", &[Hear, Reset], &["connect failed"]),
    greeted("half an answer to a greeting, and silence", &[Hear, Say(b"+O"), Wait], &["connect timeout"]),
    greeted("half an answer to a greeting, and the end", &[Hear, Say(b"+O")], &["connect failed"]),
    greeted("hears a greeting and is silent", &[Hear, Wait], &["connect timeout"]),
    greeted("a byte of it now and then", &[Hear, Drip(b"$9\r\nvaluevalu\r\n")], &["connect timeout"]),
    greeted("takes a greeting and no request", &[Hear, Say(b"+OK\r\n"), Hear, Wait], &["timeout"]),
    greeted("takes a greeting and answers garbage", &[Hear, Say(b"+OK\r\n"), Hear, Say(b"\0"), Wait], &["bad answer"]),
];
