//! Test that the kernel is asked rightly.

use super::*;

#[test]
fn every_kernel_answers() {
    assert!(is_synchronised().is_some());
}
