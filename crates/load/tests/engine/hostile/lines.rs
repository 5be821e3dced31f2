//! Lines that never end, too many lines, too few, or an answer without a last line.

use super::server::PeerAction::{Again, Drip, Endless, Fin, Hear, Reset, Say, Wait};
use super::{Case, each, lines};

const UNTIL: &[&str] = &["line=x", "until=END", "fails=ERR"];

/// A line that is not the last.
const MORE: [u8; 400] = {
    let mut line = [b'm'; 400];
    line[399] = b'\n';
    line
};

pub static CASES: &[Case] = &[
    lines("answers", &[Hear, Say(b"yes\r\n"), Again], &["ok"]),
    lines("an empty line", &[Hear, Say(b"\n"), Again], &["ok"]),
    lines("no text at all", &[Hear, Say(b"\0\xff\r\r\n"), Again], &["ok"]),
    lines("a line without end", &[Hear, Endless(b"x")], &["answer too long"]),
    lines("zeros without end", &[Hear, Endless(b"\0")], &["answer too long"]),
    lines("a line without its end, and silence", &[Hear, Say(b"yes"), Wait], &["timeout"]),
    lines("a line without its end, and the end", &[Hear, Say(b"yes")], &["connection closed"]),
    lines("a line without its end, and the end of its side", &[Hear, Say(b"yes"), Fin, Wait], &["connection closed"]),
    lines("a line without its end, and a reset", &[Hear, Say(b"yes"), Reset], &["connection reset"]),
    lines("half of a line's end", &[Hear, Say(b"yes\r"), Wait], &["timeout"]),
    lines("a byte now and then", &[Hear, Drip(b"yesyesyes\n")], &["timeout"]),
    lines("silence", &[Hear, Wait], &["timeout"]),
    lines("a line too many", &[Hear, Say(b"yes\nyes\n"), Again], &["ok"]),
    lines("half a line too many", &[Hear, Say(b"yes\ny"), Again], &["ok"]),
    lines("lines without end", &[Hear, Endless(b"yes\n")], &["ok"]).or(&["bad answer"]),
    lines("speaks first", &[Say(b"hello\n"), Wait], &[]).or(&["ok", "bad answer", "timeout"]),
    lines("never the last line", &[Hear, Endless(&MORE)], &["answer too long"]).asked("send", UNTIL),
    lines("not the last line, and silence", &[Hear, Say(b"more\nmore\n"), Wait], &["timeout"]).asked("send", UNTIL),
    lines("not the last line, and the end", &[Hear, Say(b"more\nmore\n")], &["connection closed"]).asked("send", UNTIL),
    lines("lines behind the last", &[Hear, Say(b"more\nEND\nmore\nmore\n"), Again], &["ok"]).asked("send", UNTIL),
    lines("fails", &[Hear, Say(b"more\nERR\n"), Again], &["answer: refused"]).asked("send", UNTIL),
    lines("fails, and goes on without end", &[Hear, Say(b"ERR\n"), Endless(b"more\n")], &["answer: refused"])
        .or(&["bad answer", "answer too long"])
        .asked("send", UNTIL),
];

#[test]
fn lines_of_text() {
    each(CASES, false, Case::check);
}

#[test]
fn lines_without_end() {
    each(CASES, true, Case::check);
}
