//! A trial's clock: monotonic, with its zero at load start. All recorded times come from this
//! clock. The Unix time of zero is read from the calendar once, so that setting the wall clock
//! later cannot distort a record.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of times that both clocks are read; the best reading counts.
const TRIES: usize = 3;

/// A trial's clock. Zero is load start and may be in the future: times before zero are negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    origin: Instant,
    unix_s: f64,
}

impl Clock {
    /// Returns a clock whose zero is `origin`, at Unix time `unix_s` in seconds.
    #[must_use]
    pub fn new(origin: Instant, unix_s: f64) -> Self {
        Self { origin, unix_s }
    }

    /// Returns a clock whose zero is `delay` from now.
    #[must_use]
    pub fn starting_in(delay: Duration) -> Self {
        let now = calendar().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now() + delay, unix_s: (now + delay).as_secs_f64() }
    }

    /// Returns the current time in seconds since zero; negative before zero.
    #[must_use]
    pub fn at_s(&self) -> f64 {
        self.at_s_of(Instant::now())
    }

    /// Returns the seconds from zero to `instant`; negative before zero.
    #[must_use]
    pub fn at_s_of(&self, instant: Instant) -> f64 {
        match instant.checked_duration_since(self.origin) {
            Some(after) => after.as_secs_f64(),
            None => -self.origin.duration_since(instant).as_secs_f64(),
        }
    }

    /// Returns how far the calendar is ahead of this clock, seconds; about 0 if the calendar was
    /// not set since the start of this clock. Slewing moves both clocks alike, so it has no effect.
    #[must_use]
    pub fn calendar_ahead_s(&self) -> f64 {
        // The two clocks cannot be read at the same moment. Of a few tries, the one with the
        // shortest time between the readings counts.
        let tries = (0..TRIES).map(|_| {
            let before = Instant::now();
            let unix_s = calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let between = before.elapsed();
            (between, unix_s - self.unix_s - self.at_s_of(before + between / 2))
        });
        tries.min_by_key(|(between, _)| *between).map_or(0.0, |(_, ahead_s)| ahead_s)
    }

    /// Returns zero as an instant of this machine's monotonic clock.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Returns zero as Unix time, seconds.
    #[must_use]
    pub fn unix_s(&self) -> f64 {
        self.unix_s
    }
}

/// Returns the calendar time. Only for the name of a run folder, the zero of a clock, and the check
/// whether the calendar was set.
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
    fn a_changed_system_clock_is_detected() {
        let now = Instant::now();
        let unix_s = calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        // As if the calendar had been an hour behind when the clock was created.
        let ahead_s = Clock::new(now, unix_s - 3600.0).calendar_ahead_s();
        assert!((ahead_s - 3600.0).abs() < 60.0, "{ahead_s}");
        assert!(Clock::new(now, unix_s).calendar_ahead_s().abs() < 60.0);
    }
}
