//! Checks of divergence on tables whose differences are known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// `"a=x b=y@2"`: what a member holds, with versions after the `@`; `"!"`: it did not tell.
pub(in crate::audit) fn replicas(members: &[&str]) -> Vec<Replica> {
    let record = |word: &str| {
        let (key, held) = word.split_once('=').unwrap();
        let (value, version) = held.split_once('@').map_or((held, None), |(value, version)| (value, Some(version)));
        (key.to_owned(), Held { value: value.to_owned(), version: version.map(str::to_owned) })
    };
    let replica = |(index, text): (usize, &&str)| Replica {
        member: format!("n{}", index + 1),
        holds: if *text == "!" {
            Err("it is down".to_owned())
        } else {
            Ok(text.split_whitespace().map(record).collect())
        },
    };
    members.iter().enumerate().map(replica).collect()
}

/// Diverged keys, differing, missing.
fn counts(members: &[&str]) -> Option<(u64, u64, u64)> {
    divergence(&replicas(members)).map(|found| (found.keys, found.differing, found.missing))
}

#[test]
fn kinds_are_counted_apart_and_keys_once() {
    assert_eq!(counts(&["a=x b=y", "a=x b=y", "b=y a=x"]), Some((0, 0, 0)));
    assert_eq!(counts(&["", ""]), Some((0, 0, 0)));
    assert_eq!(counts(&["a=x", "a=y", "a=x"]), Some((1, 1, 0)));
    assert_eq!(counts(&["a=x", "", "a=x"]), Some((1, 0, 1)));
    assert_eq!(counts(&["a=x", "", "a=y"]), Some((1, 1, 1)));
    assert_eq!(counts(&["a=x b=1 c=1", "b=2 c=1", "a=x b=1 c=1 d=1"]), Some((3, 1, 2)));
    // The same value with another version: one of them has missed a change.
    assert_eq!(counts(&["a=x@1", "a=x@2"]), Some((1, 1, 0)));
    assert_eq!(counts(&["a=x@1", "a=x"]), Some((1, 1, 0)));
}

#[test]
fn who_did_not_tell_is_not_compared() {
    assert_eq!(counts(&["a=x", "!", "a=x"]), Some((0, 0, 0)));
    assert_eq!(counts(&["a=x", "!"]), None);
    assert_eq!(counts(&["!", "!"]), None);
    assert_eq!(counts(&["a=x"]), None);
    assert_eq!(counts(&[]), None);
}

#[test]
fn examples_say_who_holds_what() {
    let examples = |members: &[&str]| divergence(&replicas(members)).unwrap().examples;
    assert_eq!(examples(&["a=x@1", "a=x@1", "a=y@2"]), ["a: n1 and n2 version 1, n3 version 2"]);
    assert_eq!(examples(&["a=x@1", "", "a=x@1"]), ["a: n1 and n3 version 1, n2 nothing"]);
    // Versions that do not tell them apart are not shown.
    assert_eq!(examples(&["a=x@2", "a=y@2"]), ["a: n1 \"x\", n2 \"y\""]);
    let long = "é".repeat(40);
    assert_eq!(examples(&[&format!("a={long}"), ""]), [format!("a: n1 \"{}…\", n2 nothing", "é".repeat(24))]);
    let many: Vec<String> = (0..9).map(|key| format!("k{key}=x")).collect();
    assert_eq!(examples(&[&many.join(" "), ""]).len(), 5);
}
