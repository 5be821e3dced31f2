//! Lines: requests byte for byte, answers of one line and of many cut anywhere, and nonsense.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::protocols::tests::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

const WANTS: [&str; 4] = ["line", "last", "text", "status"];

fn lines() -> Lines {
    Lines::open("tcp://127.0.0.1:11211").unwrap()
}

fn compiled(with: &[(&str, &str)]) -> Compiled<Lines> {
    compile(&lines(), "send", with, &WANTS).unwrap()
}

fn seen(line: &str, last: &str, text: &str) -> Seen {
    let fields = [line, last, text, "ok"].map(|field| Some(field.to_owned())).to_vec();
    Seen::Answer { result: Cause::Ok, reusable: true, surplus: Vec::new(), fields, status: "ok".to_owned() }
}

fn refused(line: &str, last: &str, text: &str) -> Seen {
    let fields = [line, last, text, "refused"].map(|field| Some(field.to_owned())).to_vec();
    let result = Cause::Answer(REFUSED);
    Seen::Answer { result, reusable: true, surplus: Vec::new(), fields, status: "refused".to_owned() }
}

#[test]
fn services() {
    for (service, authority, banner) in [
        ("127.0.0.1:25", "127.0.0.1:25", None),
        ("tcp://host:25", "host:25", None),
        ("tcp://[::1]:25/", "[::1]:25", None),
        ("tcp://host:25?banner=1", "host:25", Some(1)),
        ("tcp://host:25/?banner=3", "host:25", Some(3)),
    ] {
        let lines = Lines::open(service).unwrap();
        assert_eq!((lines.authority(), lines.greeting().map(|greeting| greeting.answers)), (authority, banner));
    }
    for service in [
        "",
        "host",
        "tcp://host",
        "tcp://:25",
        "host:70000",
        "http://host:1",
        "tcp://host:25/mail",
        "tcp://host:25?banner=0",
        "tcp://host:25?banner=1001",
        "tcp://host:25?banner",
        "tcp://host:25?greet=1",
    ] {
        assert!(Lines::open(service).is_err(), "{service}");
    }
}

#[test]
fn requests_byte_for_byte() {
    for (with, expected) in [
        (&[("line", "version")][..], "version\n"),
        (&[("line", "get k{agent}"), ("end", "\r\n")], "get k3\r\n"),
        (&[("line", "set k 0 0 2\r\n{seq}"), ("end", "\r\n")], "set k 0 0 2\r\n12\r\n"),
        (&[("line", ""), ("end", "")], ""),
    ] {
        assert_eq!(String::from_utf8(encode(&compiled(with), 1)).unwrap(), expected);
    }
}

#[test]
fn requests_that_make_no_sense() {
    for with in [
        &[][..],
        &[("line", "x"), ("path", "/")],
        &[("line", "x"), ("end", "{seq}")],
        &[("line", "x"), ("until", "{agent}")],
        &[("line", "x"), ("until", "")],
        &[("line", "x"), ("fails", "ERROR|")],
    ] {
        assert!(compile(&lines(), "send", with, &[]).is_err(), "{with:?}");
    }
    assert!(compile(&lines(), "send", &[("line", "x")], &["value"]).is_err());
}

#[test]
fn answers() {
    let one = compiled(&[("line", "x")]);
    let failing = compiled(&[("line", "x"), ("fails", "ERROR|SERVER_ERROR")]);
    let many = compiled(&[("line", "x"), ("until", "END|OK"), ("fails", "ERROR")]);
    let mail = compiled(&[("line", "EHLO x"), ("until", "250 ")]);
    let table = [
        (&one, "STORED\r\n", seen("STORED", "STORED", "STORED")),
        (&one, "STORED\n", seen("STORED", "STORED", "STORED")),
        (&one, "\n", seen("", "", "")),
        (&one, "\r\n", seen("", "", "")),
        (&one, "a\rb\r\r\n", seen("a\rb\r", "a\rb\r", "a\rb\r")),
        (&one, "ERROR\r\n", seen("ERROR", "ERROR", "ERROR")),
        (&failing, "STORED\r\n", seen("STORED", "STORED", "STORED")),
        (&failing, "SERVER_ERROR out\r\n", refused("SERVER_ERROR out", "SERVER_ERROR out", "SERVER_ERROR out")),
        (&many, "END\r\n", seen("END", "END", "END")),
        (&many, "VALUE k 0 2\r\nhi\r\nEND\r\n", seen("VALUE k 0 2", "END", "VALUE k 0 2\r\nhi\r\nEND")),
        (&many, "a\n\nOK then\n", seen("a", "OK then", "a\n\nOK then")),
        (&many, "a\nERROR b\r\n", refused("a", "ERROR b", "a\nERROR b")),
        (&mail, "250-one\r\n250-two\r\n250 three\r\n", seen("250-one", "250 three", "250-one\r\n250-two\r\n250 three")),
    ];
    for (request, bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(request, 1, bytes.as_bytes(), false), expected, "{bytes:?}");
    }
}

#[test]
fn what_follows_an_answer_is_left() {
    let one = compiled(&[("line", "x")]);
    let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&one, 1, b"a\nb\n", false) else { panic!("no answer") };
    assert_eq!(surplus, b"b\n");
}

#[test]
fn what_never_ends_is_too_long() {
    let many = compiled(&[("line", "x"), ("until", "END")]);
    let line = vec![b'x'; LINE_LIMIT];
    assert_eq!(feed(&many, &mut (), 1, &[&line], false), Seen::Bad(Cause::TooLong));
    assert_eq!(feed(&many, &mut (), 1, &[&line[1..], b"\n", b"END\n"], false), {
        let text = "x".repeat(LINE_LIMIT - 1);
        seen(&text, "END", &format!("{text}\nEND"))
    });
    let short = [&line[..1023], b"\n"].concat();
    let pieces: Vec<&[u8]> = std::iter::repeat_n(short.as_slice(), ANSWER_LIMIT / 1024 + 1).collect();
    assert_eq!(feed(&many, &mut (), 1, &pieces, false), Seen::Bad(Cause::TooLong));
}

#[test]
fn answers_that_are_cut_off() {
    let many = compiled(&[("line", "x"), ("until", "END")]);
    for bytes in ["", "a", "a\n", "a\r\nEND", "a\r\nEND\r"] {
        assert_eq!(is_the_same_in_pieces(&many, 1, bytes.as_bytes(), true), Seen::More, "{bytes:?}");
    }
}

#[test]
fn a_banner_has_so_many_lines() {
    let greeting = Greeting { bytes: Vec::new(), answers: 2 };
    let greeted = |input: &[u8]| Lines::greeted(&greeting, input);
    for not_whole in [&b""[..], b"220-a\r\n", b"220-a\r\n220 b\r"] {
        assert_eq!(greeted(not_whole), Progress::More { used: 0 });
    }
    let used = |used| Progress::Answer(Answer { used, result: Cause::Ok, reusable: true });
    assert_eq!(greeted(b"220-a\r\n220 b\r\n"), used(14));
    assert_eq!(greeted(b"\n\nx"), used(2));
    assert_eq!(greeted(&vec![b'x'; LINE_LIMIT]), Progress::Bad(Cause::TooLong));
}

proptest! {
    #[test]
    fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
        let (left, right) = bytes.split_at(cut.min(bytes.len()));
        for with in [&[("line", "x")][..], &[("line", "x"), ("until", "E|F"), ("fails", "G")]] {
            feed(&compiled(with), &mut (), 1, &[left, right], ends);
        }
    }

    #[test]
    fn lines_come_back(texts in prop::collection::vec("[a-z]{0,10}", 1..20)) {
        let many = compiled(&[("line", "x"), ("until", "END")]);
        let text = texts.join("\r\n");
        let expected = seen(&texts[0], "END", &format!("{text}\r\nEND"));
        prop_assert_eq!(is_the_same_in_pieces(&many, 1, format!("{text}\r\nEND\r\n").as_bytes(), false), expected);
    }
}
