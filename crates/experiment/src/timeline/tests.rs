//! Words of the timeline; whole pages are snapshots beside the golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{listing, thousands};

#[test]
fn numbers_are_grouped() {
    assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn ids_are_run_together() {
    assert_eq!(listing::runs(&["001", "002", "003", "007", "009", "010"]), "001–003, 007 and 009–010");
}
