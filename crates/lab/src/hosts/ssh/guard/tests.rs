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
    let soon = || Instant::now() + Duration::from_millis(50);
    assert_eq!(line(&mut reader, soon()).unwrap().as_deref(), Some("first"));
    let mut rest = [0; 6];
    reader.read_exact(&mut rest).unwrap();
    assert_eq!(&rest, b"second");
    assert_eq!(line(&mut reader, soon()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(writer);
    assert_eq!(line(&mut reader, soon()).unwrap(), None);
}
