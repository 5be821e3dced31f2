//! Offset between another machine's monotonic clock and this one's, from exchanged messages. No
//! clock is set, and no calendar time is read.
//!
//! Each exchange provides four times: question sent and answer received here, question received and
//! answer sent there. The true offset lies within half of the time that the messages were under
//! way, whatever the share of each direction (Cristian, "Probabilistic clock synchronization",
//! 1989). So the exchange whose messages were under way for the shortest time is the most exact.
//! Two clocks drift apart, so the bound of an exchange grows with its age.

/// Maximum drift between two clocks, as a share of time. NTP adjusts each by at most 500 ppm (RFC
/// 5905, `MAXFREQ`).
const DRIFT: f64 = 1e-3;

/// Upper limit of a machine's uptime: a century, nanoseconds. The monotonic clock counts from boot.
const LONGEST_UP_NS: u64 = 3_155_760_000_000_000_000;

/// Times of a question and its answer, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockExchange {
    /// Time here at which the question was sent.
    pub t0_ns: u64,
    /// Time there at which the question was received.
    pub t1_ns: u64,
    /// Time there at which the answer was sent.
    pub t2_ns: u64,
    /// Time here at which the answer was received.
    pub t3_ns: u64,
}

/// Offset of another machine's clock from this machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Other clock minus this one, nanoseconds.
    pub offset_ns: i128,
    /// Maximum error of the offset, nanoseconds.
    pub bound_ns: u64,
}

impl ClockOffset {
    /// Converts a time of this clock to the other's. Returns `None` if the other clock has no such
    /// time.
    #[must_use]
    pub fn there_ns(&self, here_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(here_ns) + self.offset_ns).ok()
    }
}

impl ClockExchange {
    /// Returns the offset and its bound, or `None` if the times are impossible.
    #[must_use]
    pub fn offset(&self) -> Option<ClockOffset> {
        let (here_ns, there_ns) = (self.t3_ns.checked_sub(self.t0_ns)?, self.t2_ns.checked_sub(self.t1_ns)?);
        let way_ns = here_ns.checked_sub(there_ns).filter(|_| self.t2_ns <= LONGEST_UP_NS)?;
        let (asked, answered) =
            (i128::from(self.t1_ns) - i128::from(self.t0_ns), i128::from(self.t2_ns) - i128::from(self.t3_ns));
        Some(ClockOffset { offset_ns: (asked + answered).div_euclid(2), bound_ns: way_ns / 2 + 1 })
    }
}

/// Offset of another clock, from all exchanges so far.
#[derive(Debug, Default)]
pub struct ClockComparison {
    /// Time and offset of the most exact exchange.
    best: Option<(u64, ClockOffset)>,
    longest_ns: u64,
}

impl ClockComparison {
    /// Adds an exchange. Returns false if its times are impossible.
    pub fn take(&mut self, exchange: ClockExchange) -> bool {
        let Some(offset) = exchange.offset() else { return false };
        self.longest_ns = self.longest_ns.max(exchange.t3_ns - exchange.t0_ns);
        let now_ns = exchange.t3_ns;
        if self.at(now_ns).is_none_or(|known| offset.bound_ns <= known.bound_ns) {
            self.best = Some((now_ns, offset));
        }
        true
    }

    /// Returns the offset at a time of this clock, or `None` before the first exchange.
    #[must_use]
    pub fn at(&self, now_ns: u64) -> Option<ClockOffset> {
        let (since_ns, offset) = self.best?;
        let drifted_ns = now_ns.abs_diff(since_ns) as f64 * DRIFT;
        Some(ClockOffset { bound_ns: offset.bound_ns.saturating_add(drifted_ns.ceil() as u64), ..offset })
    }

    /// Returns the longest duration of an exchange, nanoseconds.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const START_NS: u64 = 1 << 60;

    /// Makes an exchange, started at `t0_ns`, with a clock that is ahead by `ahead_ns`. The
    /// durations are of the way there, the answer and the way back.
    fn exchange(ahead_ns: i64, t0_ns: u64, (there, between, back): (u64, u64, u64)) -> ClockExchange {
        let [t1_ns, t2_ns] =
            [t0_ns + there, t0_ns + there + between].map(|ns| ns.checked_add_signed(ahead_ns).unwrap());
        ClockExchange { t0_ns, t1_ns, t2_ns, t3_ns: t0_ns + there + between + back }
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bound(
            ahead_ns in -(1_i64 << 55)..1_i64 << 55,
            ways in prop::collection::vec((0_u64..5_000_000, 0_u64..50_000_000, 0_u64..5_000_000), 1..60),
        ) {
            let mut known = ClockComparison::default();
            let mut now_ns = START_NS;
            for way in &ways {
                prop_assert!(known.take(exchange(ahead_ns, now_ns, *way)));
                now_ns += 1_000_000_000;
                let offset = known.at(now_ns).unwrap();
                let error_ns = (offset.offset_ns - i128::from(ahead_ns)).unsigned_abs();
                prop_assert!(error_ns <= u128::from(offset.bound_ns), "{error_ns} of {offset:?}");
            }
            let shortest = ways.iter().map(|(there, _, back)| there + back).min().unwrap();
            prop_assert!(known.at(START_NS).unwrap().bound_ns >= shortest / 2);
        }

        #[test]
        fn a_clock_that_drifts_stays_within_the_bound(
            ppm in -400.0..400.0_f64,
            ways in prop::collection::vec((1_u64..200_000, 0_u64..1_000_000, 1_u64..200_000), 1..120),
        ) {
            let mut known = ClockComparison::default();
            let ahead_ns = |now_ns: u64| ((now_ns - START_NS) as f64 * ppm * 1e-6) as i64;
            for (second, way) in (0_u64..).zip(&ways) {
                let now_ns = START_NS + second * 1_000_000_000;
                known.take(exchange(ahead_ns(now_ns), now_ns, *way));
                let later_ns = now_ns + 999_000_000;
                let offset = known.at(later_ns).unwrap();
                let error_ns = (offset.offset_ns - i128::from(ahead_ns(later_ns))).unsigned_abs();
                prop_assert!(error_ns <= u128::from(offset.bound_ns), "{error_ns} of {offset:?}");
            }
        }
    }

    #[test]
    fn impossible_times_are_ignored() {
        let good = exchange(5, 100, (10, 10, 10));
        for bad in [
            ClockExchange { t3_ns: 99, ..good },
            ClockExchange { t2_ns: good.t1_ns - 1, ..good },
            // The question was there for longer than the answer took.
            ClockExchange { t2_ns: good.t1_ns + 31, ..good },
            ClockExchange { t1_ns: 1 << 63, t2_ns: 1 << 63, ..good },
        ] {
            let mut known = ClockComparison::default();
            assert!(!known.take(bad), "{bad:?}");
            assert_eq!(known.at(0), None);
        }
    }

    #[test]
    fn local_times_convert_to_remote_times() {
        let offset = exchange(-40, 100, (10, 0, 10)).offset().unwrap();
        assert_eq!((offset.offset_ns, offset.there_ns(100), offset.there_ns(39)), (-40, Some(60), None));
    }
}
