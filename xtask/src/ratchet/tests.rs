//! Tests of the ratchet: it turns one way only.

use super::judge;

fn offences(length: usize, list: &str) -> Vec<String> {
    judge("file", 10, &[("a.rs".to_owned(), 1, length)], list).into_iter().map(|offence| offence.what).collect()
}

#[test]
fn a_new_offender_fails() {
    assert_eq!(offences(11, ""), ["file of 11 lines; 10 are allowed"]);
    assert_eq!(offences(10, ""), [""; 0]);
}

#[test]
fn an_old_offender_may_stay_but_not_grow() {
    assert_eq!(offences(12, "# why\nfile 12 a.rs\n"), [""; 0]);
    assert_eq!(offences(13, "file 12 a.rs\n"), ["file of 13 lines; 12 are allowed"]);
}

#[test]
fn the_list_follows_what_shrinks() {
    assert_eq!(offences(11, "file 12 a.rs\n"), ["a.rs has shrunk to 11: lower its number"]);
    assert_eq!(offences(9, "file 12 a.rs\n"), ["a.rs is within the limit now: remove its line"]);
    assert_eq!(offences(9, "file 12 gone.rs\n"), ["gone.rs is within the limit now: remove its line"]);
}

#[test]
fn a_line_of_another_form_is_named() {
    assert_eq!(offences(9, "file many a.rs\n").len(), 1);
}
