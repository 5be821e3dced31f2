//! Test data of lines: servers that misbehave.

use std::io::Read;

use super::Lines;
use crate::testing::hostile::PeerAction::{Again, Drip, Endless, Fin, Hear, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_line};

impl TestedProtocol for Lines {
    const HOSTILE: &'static [HostileCase] = CASES;
    const GREETED: Option<&'static str> = Some("tcp://127.0.0.1:1?banner=2");
    /// Marks of the last line of an answer with several lines.
    const OPTIONAL: &'static [(&'static str, &'static str)] = &[("until", "END|."), ("fails", "ERR|-")];

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        Some(ReceivedRequest { body: read_line(from)?, ..ReceivedRequest::default() })
    }
}

const fn lines(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "send", with: &["line=x"], keep: Some("answer.text"), ..HostileCase::new(name, actions, ends) }
}

/// A server that first sends two lines.
const fn banner(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "tcp://{address}?banner=2", ..lines(name, actions, ends) }
}

const UNTIL: &[&str] = &["line=x", "until=END", "fails=ERR"];

/// A line that is not the last line of an answer.
const MORE: [u8; 400] = {
    let mut line = [b'm'; 400];
    line[399] = b'\n';
    line
};

static CASES: &[HostileCase] = &[
    // Lines that never end, too many lines, too few, or an answer without a last line.
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
    // Wrong banners. After a wrong banner, no request is sent, so no operation takes effect.
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
