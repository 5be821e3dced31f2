//! Regular expressions: what is one, what it captures, and where the mistakes are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::groups;

#[test]
fn what_it_captures() {
    for (text, count) in
        [("^ok", 0), ("id=([0-9]+)", 1), ("(?:a|b)(?P<n>c)", 1), ("(a)(b)", 2), (r"\d\w\s(?i)é\xff", 0), ("", 0)]
    {
        assert_eq!(groups(text), Ok(count), "{text}");
    }
}

#[test]
fn mistakes_are_underlined() {
    for (text, underlined) in [("é(a", "("), ("[z-a]", "z-a"), (r"a\y", r"\y")] {
        let error = groups(text).unwrap_err();
        assert_eq!(text.get(error.at.clone()), Some(underlined), "{text}: {error}");
        assert!(!error.what.is_empty());
    }
}
