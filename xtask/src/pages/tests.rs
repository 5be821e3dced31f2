//! Tests of the reference pages: every page has something to say, in tables that hold together.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{KINDS, cell};

#[test]
fn pages_are_sorted_and_say_something() {
    assert!(KINDS.is_sorted_by_key(|page| page.name));
    for page in KINDS {
        let text = (page.text)();
        assert!(text.starts_with("# "), "{}", page.name);
        assert!(text.lines().filter(|line| line.starts_with('|')).count() > 3, "{} has no table", page.name);
    }
}

#[test]
fn rows_have_as_many_cells_as_their_heading() {
    for page in KINDS {
        let mut cells = 0;
        for line in (page.text)().lines() {
            let here = line.replace("\\|", "").matches('|').count();
            assert!(cells == 0 || here == 0 || cells == here, "{}: {line}", page.name);
            cells = here;
        }
    }
}

#[test]
fn bars_and_lines_stay_inside_a_cell() {
    assert_eq!(cell("a | b\nc"), "a \\| b c");
}

/// What the doctor says that a verdict would see, some rule of that name does see.
#[test]
fn the_doctor_names_rules_that_exist() {
    for rule in lab::checkups::KINDS.iter().flat_map(|kind| kind.caught_by) {
        assert!(analysis::rules().iter().any(|known| known.name == *rule), "no rule `{rule}`");
    }
}
