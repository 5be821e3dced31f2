//! Targets that answer a greeting wrongly, or whose own greeting never ends. No request is sent
//! then, so no operation takes effect.

use super::server::PeerAction::{Drip, Endless, Fin, Hear, Reset, Say, Wait};
use super::{Case, Dialect, each, lines, redis};

const fn greeted(name: &'static str, actions: &'static [super::PeerAction], ends: &'static [&'static str]) -> Case {
    Case { dialect: Dialect::Greeted, ..redis(name, actions, ends) }
}

const fn banner(name: &'static str, actions: &'static [super::PeerAction], ends: &'static [&'static str]) -> Case {
    Case { dialect: Dialect::Banner, ..lines(name, actions, ends) }
}

pub static CASES: &[Case] = &[
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
    banner("says one line of two", &[Say(b"hello\n"), Wait], &["connect timeout"]),
    banner("says one line of two and ends", &[Say(b"hello\n")], &["connect failed"]),
    banner("says one line of two and resets", &[Say(b"hello\n"), Reset], &["connect failed"]),
    banner("says nothing", &[Wait], &["connect timeout"]),
    banner("says a line without end", &[Endless(b"x")], &["connect failed"]),
    banner("says lines without end", &[Endless(b"x\n")], &["connect failed"]),
    banner("says a line too many", &[Say(b"1\n2\n3\n"), Wait], &["connect failed"]),
    banner("says what it should, and no more", &[Say(b"1\n2\n"), Hear, Wait], &["timeout"]),
    banner("says what it should, and answers", &[Say(b"1\n2\n"), Hear, Say(b"yes\n"), Hear, Say(b"yes\n")], &["ok"])
        .or(&["connection closed", "connection reset"]),
];

#[test]
fn greetings() {
    each(CASES, false, Case::check);
}

#[test]
fn greetings_without_end() {
    each(CASES, true, Case::check);
}
