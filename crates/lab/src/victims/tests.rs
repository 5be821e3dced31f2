//! Tests of the choice of victims.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn members(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("n{number}")).collect()
}

#[test]
fn counts_are_as_the_words_say() {
    for (count, minority, majority) in [(1, 0, 1), (2, 0, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3), (16, 7, 9)] {
        let chosen = |on: &str| among(on, 7, &members(count)).map_or(0, |chosen| chosen.len());
        assert_eq!((chosen("one"), chosen("all")), (1, count));
        assert_eq!((chosen("minority"), chosen("majority")), (minority, majority), "of {count}");
    }
}

#[test]
fn the_seed_decides() {
    let chosen = |seed| among("one", seed, &members(5)).unwrap();
    assert_eq!(chosen(3), chosen(3));
    let all: std::collections::BTreeSet<_> = (0..100).map(chosen).collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn names_are_members_or_errors() {
    assert_eq!(among("n2", 1, &members(3)).unwrap(), ["n2"]);
    let error = among("n9", 1, &members(2)).err().unwrap();
    assert_eq!((error.to_string().as_str(), error.hint().unwrap().as_str()), ("no member `n9`", "there are: n1, n2"));
    assert!(among("minority", 1, &members(2)).err().unwrap().hint().unwrap().contains("none are a minority"));
}
