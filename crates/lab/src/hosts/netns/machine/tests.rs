//! Tests of what is said of a virtual host.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn cpus_are_named_by_ranges() {
    assert_eq!(ranges(&[0, 1, 2, 6, 8, 9]), "0-2,6,8-9");
    assert_eq!(ranges(&[3]), "3");
}
