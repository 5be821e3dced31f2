//! Checks of the thread's account. How long this machine lets a test wait is not looked at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn the_second_figure_is_the_wait() {
    assert_eq!(run_delay_ns(b"1054779845 1001350686 283\n"), Some(1_001_350_686));
    assert_eq!(run_delay_ns(b"5 0 1\n"), Some(0));
    assert_eq!(run_delay_ns(b"0 0 0\n"), None, "no account is kept");
    assert_eq!(run_delay_ns(b""), None);
    assert_eq!(run_delay_ns(b"1 x 2\n"), None);
}

#[test]
fn what_is_not_known_stays_so() {
    assert_eq!(RunDelay::default().take_ns(), None);
}

#[test]
fn a_thread_has_an_account_where_the_kernel_keeps_one() {
    // A thread that has never been off its CPU may still have an account of zeros.
    (0..1000).for_each(|_| std::thread::yield_now());
    let known = std::fs::read("/proc/thread-self/schedstat").is_ok_and(|text| run_delay_ns(&text).is_some());
    let mut delay = RunDelay::of_this_thread();
    assert_eq!(delay.take_ns().is_some(), known);
    assert_eq!(delay.take_ns().is_some(), known, "again and again");
}
