//! Tests of how long members are asked, on members that only say what they are told to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::replicas::Held;

use super::*;

/// `"a b"`: a member that holds the keys `a` and `b`; `"!"`: one that fails; `"-"`: one that is down.
fn told(says: &[&str]) -> Vec<Told> {
    let table = |keys: &str| keys.split_whitespace().map(|key| (key.to_owned(), Held::default())).collect();
    let told = |(index, says): (usize, &&str)| Told {
        replica: Replica {
            member: format!("n{}", index + 1),
            holds: if matches!(*says, "!" | "-") { Err((*says).to_owned()) } else { Ok(table(says)) },
        },
        is_up: *says != "-",
    };
    says.iter().enumerate().map(told).collect()
}

/// Plays rounds, the last of them again and again, for at most so many: the last one asked, how many there were, whether it settled.
fn play(rounds: &[&[&str]], at_most: u32) -> (Vec<Told>, u32, bool) {
    let (mut asked, mut left) = (0, at_most);
    let mut ask = || {
        asked += 1;
        told(rounds[(asked - 1).min(rounds.len() - 1)])
    };
    let mut goes_on = || {
        left -= 1;
        left > 0
    };
    settled(&mut ask, &mut goes_on)
}

#[test]
fn two_rounds_that_tell_the_same_are_enough() {
    assert_eq!(play(&[&["a", "a"]], 10), (told(&["a", "a"]), 2, true));
    // That members differ from each other is no reason to go on: only that they still change.
    assert_eq!(play(&[&["a", "a b"]], 10), (told(&["a", "a b"]), 2, true));
    assert_eq!(play(&[&["a", ""], &["a b", "a"], &["a b", "a b"]], 10), (told(&["a b", "a b"]), 4, true));
}

#[test]
fn what_goes_on_changing_is_taken_as_it_is_at_last() {
    assert_eq!(play(&[&["a"], &["b"], &["c"], &["d"]], 3), (told(&["c"]), 3, false));
    assert_eq!(play(&[&["a"]], 1), (told(&["a"]), 1, false), "the user wants an end");
}

#[test]
fn one_that_fails_is_asked_again_and_one_that_is_down_is_not() {
    assert_eq!(play(&[&["a", "!"], &["a", "!"], &["a", "!"], &["a", "a"]], 10), (told(&["a", "a"]), 5, true));
    assert_eq!(play(&[&["a", "!"]], 4), (told(&["a", "!"]), 4, true));
    assert_eq!(play(&[&["a", "-"]], 10), (told(&["a", "-"]), 2, true));
}
