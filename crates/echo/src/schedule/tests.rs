//! Schedules against tables: beginnings are included, ends are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
