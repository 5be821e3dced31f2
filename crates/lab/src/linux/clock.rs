//! Whether the kernel takes its wall clock for right. It must not set it.

use std::ffi::c_int;

/// `TIME_ERROR` of adjtimex(2): the clock is not synchronised.
const UNSYNCHRONISED: c_int = 5;

/// As large as `struct timex` on any architecture, and larger; all zero asks and changes nothing.
#[repr(C, align(8))]
struct Timex([u8; 512]);

#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
mod call {
    use super::{Timex, c_int};
    unsafe extern "C" {
        pub fn adjtimex(timex: *mut Timex) -> c_int;
    }
}

/// Whether the kernel says that its clock is synchronised; none where it does not answer.
#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
pub fn is_synchronised() -> Option<bool> {
    let mut timex = Timex([0; 512]);
    // SAFETY: the kernel writes a `struct timex`, of 208 bytes at most, into a buffer of 512. `modes`, its first field, is 0:
    // nothing is set.
    let state = unsafe { call::adjtimex(&raw mut timex) };
    (state >= 0).then_some(state != UNSYNCHRONISED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_answers() {
        assert!(is_synchronised().is_some());
    }
}
