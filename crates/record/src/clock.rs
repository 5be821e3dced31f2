//! A trial's clock: one monotonic zero, load start, tied to the calendar once. Everything recorded takes its times from
//! here; nothing here looks at the calendar again, so that a corrected wall clock cannot bend a record.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// What the calendar says now: for the name of a run folder and the zero of a clock, and nothing else.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that looks at the calendar")]
pub fn calendar() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests;
