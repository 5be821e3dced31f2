//! When something recurs, as pure functions of the time since the first connection. No clock is read here.

/// Something that begins after one period, lasts a while, and begins again after each further period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The period, above 0.
    pub every_ns: u64,
    /// How long it lasts, from 1 to the period. The whole period: without end, once begun.
    pub lasts_ns: u64,
}

impl Schedule {
    /// When what goes on at `at_ns` ends; `None` if nothing goes on. It lasts from its beginning, included, to its end,
    /// excluded.
    pub fn end_ns(&self, at_ns: u64) -> Option<u64> {
        let begins_ns = at_ns - at_ns % self.every_ns;
        let on = begins_ns > 0 && at_ns - begins_ns < self.lasts_ns;
        on.then(|| begins_ns.saturating_add(self.lasts_ns))
    }

    /// Whether it goes on at `at_ns`.
    pub fn is_on(&self, at_ns: u64) -> bool {
        self.end_ns(at_ns).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_stall_of_one_second_every_ten() {
        let stall = Schedule { every_ns: 10_000 * MS, lasts_ns: 1_000 * MS };
        let table = [
            (0, None),
            (500, None),
            (1_000, None),
            (9_999, None),
            (10_000, Some(11_000)),
            (10_500, Some(11_000)),
            (10_999, Some(11_000)),
            (11_000, None),
            (19_999, None),
            (20_000, Some(21_000)),
            (3_600_999, Some(3_601_000)),
        ];
        for (at_ms, end_ms) in table {
            assert_eq!(stall.end_ns(at_ms * MS), end_ms.map(|end: u64| end * MS), "at {at_ms} ms");
            assert_eq!(stall.is_on(at_ms * MS), end_ms.is_some(), "at {at_ms} ms");
        }
        assert_eq!(stall.end_ns(10_000 * MS - 1), None);
        assert_eq!(stall.end_ns(11_000 * MS - 1), Some(11_000 * MS));
    }

    #[test]
    fn as_long_as_its_period_it_never_ends() {
        let errors = Schedule { every_ns: 2_000 * MS, lasts_ns: 2_000 * MS };
        let table = [(0, false), (1_999, false), (2_000, true), (3_999, true), (4_000, true), (1_000_001, true)];
        for (at_ms, on) in table {
            assert_eq!(errors.is_on(at_ms * MS), on, "at {at_ms} ms");
        }
    }

    #[test]
    fn the_far_end_of_time_is_no_accident() {
        let schedule = Schedule { every_ns: 1, lasts_ns: 1 };
        assert_eq!(schedule.end_ns(0), None);
        assert_eq!(schedule.end_ns(u64::MAX), Some(u64::MAX));
    }
}
