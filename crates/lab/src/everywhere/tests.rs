//! Tests of doing the same everywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Barrier;

use super::*;

/// Can only be let go of together with another.
struct Together<'a>(&'a Barrier);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[test]
fn what_came_of_it_is_in_order_or_the_first_error() {
    let work = |number: u32| if number < 30 { Ok(number * 2) } else { Err(Error::Fault(number.to_string())) };
    assert_eq!(all_or_none(at_once(vec![1, 2, 3], work)).unwrap(), [2, 4, 6]);
    assert_eq!(all_or_none(at_once(vec![1, 40, 50], work)).unwrap_err().to_string(), "40");
}

#[test]
fn what_is_not_needed_after_all_is_let_go_of_at_the_same_time() {
    let both = Barrier::new(2);
    let made = vec![Ok(Together(&both)), Err(Error::NotAHost), Ok(Together(&both))];
    assert!(matches!(all_or_none(made), Err(Error::NotAHost)));
}
