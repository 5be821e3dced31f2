//! Checks that a trial's clock is signed and exact. It must not assert how fast anything is.

use super::*;

#[test]
fn times_before_zero_are_negative() {
    let now = Instant::now();
    let clock = Clock::new(now + Duration::from_millis(1500), 1_000.0);
    assert_eq!(clock.at_s_of(now), -1.5);
    assert_eq!(clock.at_s_of(clock.origin()), 0.0);
    assert_eq!(clock.at_s_of(now + Duration::from_millis(1750)), 0.25);
    assert_eq!(clock.unix_s(), 1_000.0);
}

#[test]
fn a_clock_may_start_in_the_future() {
    let clock = Clock::starting_in(Duration::from_secs(3600));
    assert!(clock.at_s() < -3500.0);
    let now = calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    assert!(clock.unix_s() > now + 3500.0);
}

#[test]
fn a_calendar_that_was_set_shows() {
    let now = Instant::now();
    let unix_s = calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    // As if it had been an hour behind when the clock was tied to it.
    let ahead_s = Clock::new(now, unix_s - 3600.0).calendar_ahead_s();
    assert!((ahead_s - 3600.0).abs() < 60.0, "{ahead_s}");
    assert!(Clock::new(now, unix_s).calendar_ahead_s().abs() < 60.0);
}
