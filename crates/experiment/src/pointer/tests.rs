//! Pointers: the way down, escapes, and what is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Pointer, index, split};

fn steps(text: &str) -> Vec<String> {
    Pointer::parse(text).unwrap().steps
}

#[test]
fn the_way_down() {
    assert_eq!(steps("/items/0/id"), ["items", "0", "id"]);
    assert_eq!(steps("/"), [""], "the member without a name");
    assert_eq!(steps("/a~1b/m~0n/~01"), ["a/b", "m~n", "~1"]);
    assert_eq!(steps("/é.x/ "), ["é.x", " "]);
}

#[test]
fn what_is_no_pointer_is_underlined() {
    for (text, underlined) in [("", ""), ("items", "items"), ("/é~2", "~"), ("/a~", "~"), ("/~0~~1", "~")] {
        let error = Pointer::parse(text).unwrap_err();
        assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
    }
}

#[test]
fn fields_and_pointers() {
    assert_eq!(split("body/items/0"), ("body", Some("/items/0")));
    assert_eq!(split("header.etag"), ("header.etag", None));
    assert_eq!(split("body/"), ("body", Some("/")));
}

#[test]
fn numbers_of_elements() {
    for (step, number) in [("0", Some(0)), ("10", Some(10)), ("01", None), ("-", None), ("+1", None), ("", None)] {
        assert_eq!(index(step), number, "{step}");
    }
    assert_eq!(index("99999999999999999999999"), None);
}
