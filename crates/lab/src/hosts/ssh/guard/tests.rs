//! Tests of what a guard says, and of reading no more than a line.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use super::*;

fn heard(lines: &[&str]) -> (Facts, bool) {
    let mut facts = Facts::default();
    let is_last = lines.iter().fold(false, |_, line| facts.hear(line));
    (facts, is_last)
}

#[test]
fn a_guard_is_heard_through_what_a_login_says() {
    let lines = [
        "Welcome to pi1",
        "plimsoll system Linux armv7l",
        "plimsoll from 10.0.0.1 50000 10.0.0.11 22",
        "plimsoll noexec /tmp",
        "plimsoll free 4096",
        "plimsoll gzip",
        "plimsoll folder /var/tmp/plimsoll-run-1-n1.abc",
    ];
    let (facts, is_last) = heard(&lines);
    assert!(is_last);
    assert_eq!((facts.system.as_str(), facts.free_kib, facts.has_gzip), ("Linux armv7l", Some(4096), true));
    assert_eq!(facts.folder, "/var/tmp/plimsoll-run-1-n1.abc");
    assert!(!heard(&lines[..6]).1);
}

#[test]
fn without_a_place_it_says_why() {
    let (facts, is_last) = heard(&["plimsoll system Linux x86_64", "plimsoll nowhere"]);
    assert!(is_last && nowhere(&facts).contains("can be written"));
    let (facts, _) = heard(&["plimsoll noexec /tmp", "plimsoll nowhere"]);
    assert!(nowhere(&facts).contains("must not run") && nowhere(&facts).contains("/tmp"));
}

#[test]
fn no_more_than_a_line_is_read() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"first\r\nsecond").unwrap();
    let line = |reader: &mut io::PipeReader, ms| LoginLines::of(reader, Duration::from_millis(ms), &never).next_line();
    assert_eq!(line(&mut reader, 10_000).unwrap().as_deref(), Some("first"));
    let mut rest = [0; 6];
    reader.read_exact(&mut rest).unwrap();
    assert_eq!(&rest, b"second");
    assert_eq!(line(&mut reader, 50).unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(writer);
    assert_eq!(line(&mut reader, 10_000).unwrap(), None);
}

/// Writes without an end, from a thread, until nobody reads.
fn chatter(text: &'static [u8]) -> io::PipeReader {
    let (reader, mut writer) = io::pipe().unwrap();
    std::thread::Builder::new().spawn(move || while writer.write_all(text).is_ok() {}).unwrap();
    reader
}

#[test]
fn a_host_that_never_stops_talking_is_not_heard_for_ever() {
    for text in [&b"x"[..], b"hello\n"] {
        let mut reader = chatter(text);
        let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &never);
        let error = std::iter::repeat_with(|| greeting.next_line()).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("more than 256 KiB"), "{error}");
    }
    // Within the budget, the clock decides, though there is always more to read.
    let mut reader = chatter(b"hello\n");
    let mut greeting = LoginLines::of(&mut reader, Duration::ZERO, &never);
    assert_eq!(greeting.next_line().unwrap_err().kind(), io::ErrorKind::TimedOut);
    let mut greeting = LoginLines::of(&mut reader, Duration::from_secs(600), &|| true);
    assert!(greeting.next_line().unwrap_err().to_string().contains("wants an end"));
}

#[test]
fn what_a_guard_says_can_be_shown() {
    let (facts, _) = heard(&["\u{1b}[2Jhello", "plimsoll system Linux\u{7}", "plimsoll folder /tmp/\u{202e}x"]);
    assert_eq!((facts.aside.as_str(), facts.system.as_str()), ("\\u{1b}[2Jhello", "Linux\\u{7}"));
    assert!(!scripts::is_plain(&facts.folder), "{}", facts.folder);
}
