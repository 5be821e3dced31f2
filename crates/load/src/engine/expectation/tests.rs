//! Comparisons: each way, together, with slots, and what a part of a text is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Comparison;

use super::*;
use crate::values::tests::{names, source};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn texts(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

fn not(expected: Expected) -> Option<Box<Expected>> {
    Some(Box::new(expected))
}

fn compile(expected: &Expected) -> Result<Check, String> {
    Check::compile(expected, Compiler { template: &mut |text| Template::compile(text, 0, &names()), program: None })
}

fn holds(expected: &Expected, text: &[u8]) -> bool {
    compile(expected).unwrap().holds(text, &source(3, 12), &mut b"left over".to_vec())
}

#[test]
fn each_way() {
    let compared = Expected::Compared;
    let matches = |pattern: &str| Comparison { matches: text(pattern), ..Comparison::default() };
    let contains = |part: &str| Comparison { contains: text(part), ..Comparison::default() };
    let one_of = |list: &[&str]| Comparison { one_of: texts(list), ..Comparison::default() };
    let unlike = |expected: Expected| Comparison { not: not(expected), ..Comparison::default() };
    let table: &[(Expected, &[&str], &[&str])] = &[
        ("ok".into(), &["ok"], &["", "ok ", "o"]),
        ("{agent}-{seq}".into(), &["3-12"], &["3-1", "3-122"]),
        (compared(matches("^ok")), &["ok", "okay"], &["", "not ok"]),
        (compared(matches(r"^\d{3}$")), &["200"], &["2000", "20", "٢٠٠"]),
        (compared(contains("rr")), &["error", "rr"], &["", "r r"]),
        (compared(contains("<{seq}>")), &["a<12>b"], &["a<1>2b"]),
        (compared(one_of(&["200", "2{agent}1"])), &["200", "231"], &["201", ""]),
        (compared(unlike("0".into())), &["", "00"], &["0"]),
        (compared(unlike(compared(contains("error")))), &["", "fine"], &["an error"]),
        (compared(unlike(compared(matches("^$")))), &["x"], &[""]),
        (compared(unlike(compared(one_of(&["a", "b"])))), &["c"], &["a", "b"]),
    ];
    for (expected, right, wrong) in table {
        assert!(right.iter().all(|text| holds(expected, text.as_bytes())), "{expected:?}");
        assert!(wrong.iter().all(|text| !holds(expected, text.as_bytes())), "{expected:?}");
    }
    assert!(holds(&compared(matches(r"(?s)a.\xff$")), b"a\n\xff"), "answers are bytes");
}

#[test]
fn all_that_is_given_holds_and_nothing_that_it_must_not_be() {
    let bad = Comparison { contains: text("bad"), matches: text("[0-9]"), ..Comparison::default() };
    let expected = Expected::Compared(Comparison {
        contains: text("good"),
        one_of: texts(&["good", "good bad", "good 1", "goods"]),
        not: not(Expected::Compared(bad)),
        ..Comparison::default()
    });
    for (text, is_right) in [("good", true), ("goods", true), ("good bad", false), ("good 1", false), ("good x", false)]
    {
        assert_eq!(holds(&expected, text.as_bytes()), is_right, "{text}");
    }
}

#[test]
fn slots_that_were_not_filled() {
    let slots = vec!["a".to_owned(), "b".to_owned()];
    let names = || crate::values::Names { slots: &slots, feeds: &[], program: None, own: Default::default() };
    let kept = [b"x".to_vec(), b"y".to_vec()];
    let source = |kept_bits| Source { slots: &kept, kept: kept_bits, ..source(1, 1) };
    let comparisons = [
        Comparison { one_of: texts(&["{a}", "{b}"]), ..Comparison::default() },
        Comparison { contains: text("{a}"), not: not("{b}".into()), ..Comparison::default() },
        Comparison {
            contains: text("{a}"),
            not: not(Expected::Compared(Comparison { contains: text("{b}"), ..Comparison::default() })),
            ..Comparison::default()
        },
    ];
    for comparison in comparisons {
        let expected = Expected::Compared(comparison);
        let compiler = Compiler { template: &mut |text| Template::compile(text, 0, &names()), program: None };
        let check = Check::compile(&expected, compiler).unwrap();
        assert!(check.is_filled(&source(3)) && !check.is_filled(&source(1)) && !check.is_filled(&source(2)));
        assert!(check.holds(b"x", &source(3), &mut Vec::new()), "{expected:?}");
    }
}

#[test]
fn what_says_what_it_is() {
    let of = |comparison| compile(&Expected::Compared(comparison)).unwrap().is_positive();
    assert!(compile(&"404".into()).unwrap().is_positive());
    assert!(of(Comparison { one_of: texts(&["404"]), ..Comparison::default() }));
    assert!(of(Comparison { matches: text("^4"), not: not("404".into()), ..Comparison::default() }));
    assert!(!of(Comparison { not: not("304".into()), ..Comparison::default() }));
}

#[test]
fn patterns_that_are_none() {
    let of = |comparison| compile(&Expected::Compared(comparison)).err().unwrap();
    assert!(of(Comparison { matches: text("("), ..Comparison::default() }).starts_with("`(`: "));
    assert!(of(Comparison { one_of: texts(&["{"]), ..Comparison::default() }).starts_with("`{`: "));
}

#[test]
fn parts() {
    let of = |pattern_text: &str, text: &str| {
        let pattern = pattern(pattern_text).unwrap();
        part(&pattern, text.as_bytes()).map(|part| String::from_utf8(part.to_vec()).unwrap())
    };
    assert_eq!(of("id=([0-9]+)", "a id=7, id=8").as_deref(), Some("7"));
    assert_eq!(of("[0-9]+", "a id=17").as_deref(), Some("17"));
    assert_eq!(of("id=([0-9]+)", "id=x"), None);
    assert_eq!(of("a(b)?", "ac"), None, "a group that took no part");
}
