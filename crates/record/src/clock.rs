//! A trial's clock: one monotonic zero, load start, tied to the calendar once. Everything recorded takes its times from
//! here; nothing here takes a time from the calendar again, so that a corrected wall clock cannot bend a record.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Readings of both clocks, of which the best counts.
const TRIES: usize = 3;

/// A trial's clock. Zero is load start and may lie in the future: times before it are negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    origin: Instant,
    unix_s: f64,
}

impl Clock {
    /// A clock whose zero is `origin`, which is the Unix time `unix_s` in seconds.
    #[must_use]
    pub fn new(origin: Instant, unix_s: f64) -> Self {
        Self { origin, unix_s }
    }

    /// A clock whose zero is `delay` from now.
    #[must_use]
    pub fn starting_in(delay: Duration) -> Self {
        let now = calendar().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now() + delay, unix_s: (now + delay).as_secs_f64() }
    }

    /// Seconds since zero, now; negative before it.
    #[must_use]
    pub fn at_s(&self) -> f64 {
        self.at_s_of(Instant::now())
    }

    /// Seconds from zero to `instant`; negative before it.
    #[must_use]
    pub fn at_s_of(&self, instant: Instant) -> f64 {
        match instant.checked_duration_since(self.origin) {
            Some(after) => after.as_secs_f64(),
            None => -self.origin.duration_since(instant).as_secs_f64(),
        }
    }

    /// How far the calendar is ahead now of where it would be if nobody had set it since this clock was tied to it, seconds. Slewing
    /// moves both alike, and is not in it.
    #[must_use]
    pub fn calendar_ahead_s(&self) -> f64 {
        // The two cannot be read at one moment; of a few tries the one with the least between counts.
        let tries = (0..TRIES).map(|_| {
            let before = Instant::now();
            let unix_s = calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let between = before.elapsed();
            (between, unix_s - self.unix_s - self.at_s_of(before + between / 2))
        });
        tries.min_by_key(|(between, _)| *between).map_or(0.0, |(_, ahead_s)| ahead_s)
    }

    /// Zero as an instant of this machine's monotonic clock.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Zero as Unix time, seconds.
    #[must_use]
    pub fn unix_s(&self) -> f64 {
        self.unix_s
    }
}

/// What the calendar says now: for the name of a run folder, the zero of a clock, and whether it was set, and nothing else.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that looks at the calendar")]
pub fn calendar() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
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
}
