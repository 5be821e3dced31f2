//! Orders and outcomes: byte for byte, cut anywhere, and nonsense.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::frames::Order;
use super::*;
use crate::protocols::tests::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

const WANTS: [&str; 4] = ["status", "stdout", "stderr", "cut"];

fn compiled(with: &[(&str, &str)]) -> Compiled<Command> {
    compile(&Command::open("").unwrap(), "run", with, &WANTS).unwrap()
}

fn told(how: How, is_cut: bool, stdout: &str, stderr: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Outcome { how, is_cut, stdout: stdout.as_bytes(), stderr: stderr.as_bytes() }.write(&mut out);
    out
}

fn seen(result: Cause, fields: [&str; 4]) -> Seen {
    let status = fields[0].to_owned();
    let fields = fields.map(|field| Some(field.to_owned())).to_vec();
    Seen::Answer { result, reusable: true, surplus: Vec::new(), fields, status }
}

#[test]
fn orders_byte_for_byte() {
    let plain = encode(&compiled(&[("command", "true")]), 1);
    assert_eq!(plain, b"\0\0\0\x0c\0\0\0\x01\0\0\0\x04true");
    let table = [
        (&[("command", "echo 'a b' {agent}")][..], &["echo", "a b", "3"][..], None),
        (&[("command", "cat"), ("stdin", "{seq}\n")], &["cat"], Some("12\n")),
        (&[("command", "cat"), ("stdin", "")], &["cat"], Some("")),
        (&[("command", "x ''")], &["x", ""], None),
    ];
    for (with, words, stdin) in table {
        let bytes = encode(&compiled(with), 1);
        let mut rest = bytes.as_slice();
        let order = Order::read(take_measured(&mut rest).unwrap()).unwrap();
        assert!(rest.is_empty());
        assert_eq!(order.words, words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        assert_eq!(order.stdin, stdin.map(str::as_bytes));
    }
}

#[test]
fn orders_that_make_no_sense() {
    for with in [
        &[][..],
        &[("command", "")],
        &[("command", "  ")],
        &[("command", "echo 'a")],
        &[("command", "echo"), ("shell", "sh")],
    ] {
        assert!(compile(&Command::open("").unwrap(), "run", with, &[]).is_err(), "{with:?}");
    }
}

#[test]
fn outcomes() {
    let run = compiled(&[("command", "x")]);
    let table = [
        (told(How::Exited(0), false, "42\n", ""), seen(Cause::Ok, ["0", "42", "", "0"])),
        (told(How::Exited(0), true, "\n\na\nb\n\n", "e\n"), seen(Cause::Ok, ["0", "\n\na\nb", "e", "1"])),
        (told(How::Exited(0), false, "\n", ""), seen(Cause::Ok, ["0", "", "", "0"])),
        (told(How::Exited(3), false, "", "no"), seen(Cause::Answer(EXIT), ["3", "", "no", "0"])),
        (told(How::Signalled(9), false, "", ""), seen(Cause::Answer(SIGNAL), ["signal 9", "", "", "0"])),
        (told(How::NotStarted, false, "", "why"), seen(Cause::Answer(NOT_STARTED), ["not started", "", "why", "0"])),
        (b"\xff\xff\xff\xff".to_vec(), Seen::Bad(Cause::TooLong)),
        (b"\0\0\0\x01x".to_vec(), Seen::Bad(Cause::BadAnswer)),
        (b"\0\0\0\x0a\x07\0\0\0\0\0\0\0\0\0".to_vec(), Seen::Bad(Cause::BadAnswer)),
        (b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\x01".to_vec(), Seen::Bad(Cause::BadAnswer)),
    ];
    for (bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(&run, 1, &bytes, false), expected, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
        let (left, right) = bytes.split_at(cut.min(bytes.len()));
        feed(&compiled(&[("command", "x")]), &mut (), 1, &[left, right], ends);
        // What stands in an order that is none.
        let _ = Order::read(&bytes);
    }
}
