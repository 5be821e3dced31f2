//! Words: where a text is cut, that a value never is, and that both ways of writing draw the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::values::tests::{names, source};

fn compile(text: &str) -> Template {
    Template::compile(text, 0, &names()).unwrap()
}

fn said(text: &str) -> Vec<String> {
    let words = Words::cut(&compile(text)).unwrap();
    let source = source(3, 12);
    let mut saying = words.say(&source);
    let mut next = || {
        let mut out = Vec::new();
        saying.next_into(&mut out);
        String::from_utf8(out).unwrap()
    };
    (0..words.count()).map(|_| next()).collect()
}

#[test]
fn texts_are_cut_at_blanks() {
    for (text, expected) in [
        ("", &[][..]),
        (" \t\n ", &[]),
        ("PING", &["PING"]),
        ("  SET  k v\n", &["SET", "k", "v"]),
        ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
        ("a'b c'd\"\"", &["ab cd"]),
        ("'' \"\"", &["", ""]),
        (r"a\ b \' \\ \n", &["a b", "'", r"\", "n"]),
        (r#"'a\' "b\"c" "d\e""#, &[r"a\", "b\"c", "de"]),
        ("'é ü' ß", &["é ü", "ß"]),
        ("'a\"b' \"c'd\"", &["a\"b", "c'd"]),
    ] {
        assert_eq!(said(text), expected, "{text:?}");
    }
}

#[test]
fn values_are_not_cut() {
    assert_eq!(said("SET k{agent} {seq}{seq}"), ["SET", "k3", "1212"]);
    assert_eq!(said("'{agent} {seq}'x {{}}"), ["3 12x", "{}"]);
    // What comes from the environment may have blanks and quotes in it.
    let path = std::env::var("PATH").unwrap();
    assert_eq!(said("AUTH {env:PATH} x"), ["AUTH".to_owned(), path, "x".to_owned()]);
    let slots = [b"a b 'c".to_vec()];
    let names = ["kept".to_owned()];
    let names =
        crate::values::Names { slots: &names, feeds: &[], own: std::collections::BTreeMap::new(), program: None };
    let words = Words::cut(&Template::compile("x {kept}", 0, &names).unwrap()).unwrap();
    let source = Source { slots: &slots, kept: 1, ..source(1, 1) };
    let (mut saying, mut out) = (words.say(&source), Vec::new());
    saying.next_into(&mut out);
    out.push(b'|');
    saying.next_into(&mut out);
    saying.next_into(&mut out);
    assert_eq!(out, b"x|a b 'c");
}

#[test]
fn what_cannot_be_cut_is_refused() {
    for (text, why) in [("'a", "quote '"), ("a \"b", "quote \""), ("a\\", "at the end"), ("a\\{seq}", "placeholder")] {
        let refused = Words::cut(&compile(text)).unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn both_ways_of_writing_draw_the_same() {
    let text = "a {uniform:1..1000000} {bytes:20} x{uniform:1..1000000}";
    let mut whole = Vec::new();
    compile(text).write(&source(3, 12), &mut whole);
    assert_eq!(said(text).join(" "), String::from_utf8(whole).unwrap());
}

#[test]
fn words_that_never_change_are_known() {
    let constant = |text: &str| Words::cut(&compile(text)).unwrap().as_constant();
    assert_eq!(constant("a 'b c' {env:PATH}").unwrap()[1], b"b c");
    assert_eq!(constant("a {seq}"), None);
}
