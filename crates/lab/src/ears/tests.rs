//! Tests of what is heard.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn ears() -> Ears {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Ears::of(&LogTexts { notable: texts(&["waits for", "cannot"]), alarming: texts(&["inconsistent_database"]) })
}

#[test]
fn only_lines_with_a_text_are_heard_and_each_once() {
    let ears = ears();
    ears.hear(b"all is well");
    ears.hear(b"\tit waits for n2 since it cannot start\x1b[0m");
    ears.hear("cannot: {inconsistent_database, 'n2@h\u{f6}st'}".as_bytes());
    let heard: Vec<_> = ears.take().into_iter().map(|one| (one.text, one.alarming, one.line)).collect();
    let expected = [
        ("waits for", false, " it waits for n2 since it cannot start\\u{1b}[0m"),
        ("inconsistent_database", true, "cannot: {inconsistent_database, 'n2@höst'}"),
    ];
    assert_eq!(heard, expected.map(|(text, alarming, line)| (text.to_owned(), alarming, line.to_owned())));
    assert!(ears.take().is_empty() && ears.take_left_out().is_empty());
    assert!(!Ears::default().listens() && ears.listens());
    Ears::default().hear(b"cannot");
}

#[test]
fn what_is_said_too_often_is_counted() {
    let ears = ears();
    for number in 1..=50 {
        ears.hear(format!("cannot {number}").as_bytes());
    }
    ears.hear(b"waits for it");
    let heard = ears.take();
    assert_eq!((heard.len(), heard[19].line.as_str(), heard[20].text.as_str()), (21, "cannot 20", "waits for"));
    let left = ears.take_left_out();
    assert_eq!((left.len(), left[0].left_out, left[0].line.as_str()), (1, 30, "cannot 50"));
    ears.hear(b"cannot any more");
    assert!(ears.take().is_empty());
    assert_eq!((ears.take_left_out()[0].left_out, ears.take_left_out().len()), (1, 0));
}

#[test]
fn a_long_line_is_cut_around_its_text() {
    let ears = ears();
    ears.hear(format!("cannot {}", "x".repeat(2000)).as_bytes());
    ears.hear(format!("{} cannot {}", "é".repeat(2000), "y".repeat(2000)).as_bytes());
    for line in ears.take().into_iter().map(|heard| heard.line) {
        assert!(line.contains("cannot") && line.len() <= 520 && line.ends_with('…'), "{line}");
    }
}
