//! Checks that counts are exact and times merged, not averaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::hlog::Interval;

use super::*;

fn interval(tag: &str, start_s: f64, values_us: impl IntoIterator<Item = u64>) -> Interval {
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    values_us.into_iter().for_each(|us| histogram.record(us * 1_000).unwrap());
    Interval { tag: tag.into(), start_s, length_s: 1.0, histogram }
}

fn intervals() -> Vec<Interval> {
    vec![
        interval("save/ok/latency", 0.0, [100; 900]),
        interval("save/ok/service", 0.0, [90; 900]),
        interval("save/ok/latency", 1.0, [5_000; 100]),
        interval("save/failed/latency", 1.0, [7; 30]),
        interval("load/ok/latency", 1.0, [50; 10]),
        interval("load/unfinished/latency", 1.0, [2_000_000; 3]),
        interval("of another program", 1.0, [1; 99]),
    ]
}

fn log(intervals: &[Interval]) -> LoadLog {
    let mut log = LoadLog::default();
    intervals.iter().for_each(|interval| log.add(&interval.into()));
    log
}

#[test]
fn totals_are_those_of_the_log() {
    let log = log(&intervals());
    let all = Totals::of_all(log.totals.values());
    assert_eq!(all.outcomes(), Outcomes { ok: 1_010, failed: 30, unfinished: 3, ..Outcomes::default() });
    assert_eq!(all.latency_us().unwrap().count, 1_010);
    assert_eq!(all.service_us().unwrap().count, 900);
    assert_eq!(all.by_outcome().keys().collect::<Vec<_>>(), ["failed", "unfinished"]);
    assert!((all.unfinished_s() - 6.0).abs() < 0.01);
    assert_eq!(failed_pct(&all.outcomes()), Some(100.0 * 30.0 / 1_040.0));
    assert_eq!(failed_pct(&Outcomes::default()), None);
}

#[test]
fn times_are_of_the_measured_part_and_counts_of_all() {
    let mut log = LoadLog::measured_from(1.0);
    intervals().iter().for_each(|interval| log.add(&interval.into()));
    let measured = Totals::of_all(log.measured().values());
    assert_eq!(measured.latency_us().unwrap().count, 110);
    assert_eq!(measured.service_us(), None, "they ended in the warm-up");
    let found = operations(&log, &[], None);
    let save = &found["save"];
    assert_eq!((save.outcomes.ok, save.latency_us.unwrap().count), (1_000, 100));
    assert!((save.latency_us.unwrap().p50.unwrap() - 5_000.0).abs() < 5.0);
    assert_eq!(save.by_outcome["failed"].count, 30);
    assert_eq!(Totals::of_all(log.totals.values()).latency_us().unwrap().count, 1_010, "with the warm-up");

    let mut too_late = LoadLog::measured_from(9.0);
    intervals().iter().for_each(|interval| too_late.add(&interval.into()));
    let all = Totals::of_all(too_late.measured().values());
    assert_eq!(all.latency_us().unwrap().count, 1_010, "rather all than nothing");
}

#[test]
fn quantiles_are_of_all_intervals_together() {
    let log = log(&intervals());
    let save = &log.totals["save"];
    let latency = save.latency_us().unwrap();
    assert!((latency.p50.unwrap() - 100.0).abs() < 0.2, "{latency:?}");
    assert!((latency.p99.unwrap() - 5_000.0).abs() < 5.0, "{latency:?}");
}

#[test]
fn histograms_of_other_bounds_merge_too() {
    let mut intervals = intervals();
    let mut narrow = Histogram::new_with_bounds(1, 1_000_000, 2).unwrap();
    narrow.record(200_000).unwrap();
    intervals.insert(0, Interval { tag: "save/ok/latency".into(), start_s: 0.0, length_s: 1.0, histogram: narrow });
    let log = log(&intervals);
    let save = &log.totals["save"];
    assert_eq!(save.outcomes().ok, 1_001);
    assert!((save.latency_us().unwrap().max.unwrap() - 5_000.0).abs() < 100.0);
}

#[test]
fn rates_take_the_part_of_an_interval_that_is_measured() {
    let log = log(&intervals());
    let attempts = [
        Attempts { at_s: 1.0, operation: "save".into(), result: "ok".into(), count: 7 },
        Attempts { at_s: 2.0, operation: "save".into(), result: "connection closed".into(), count: 2 },
        Attempts { at_s: 2.0, operation: "load".into(), result: "ok".into(), count: 1 },
    ];
    let found = operations(&log, &attempts, Some((0.5, 2.0)));
    let rate = found["save"].throughput_per_s.unwrap();
    assert!((rate - (450.0 + 100.0) / 1.5).abs() < 1e-9, "{rate}");
    assert_eq!((found["save"].attempts, found["load"].attempts), (9, 1));
    assert_eq!(operations(&log, &attempts, None)["save"].throughput_per_s, None);
    assert_eq!(attempt_results(&attempts), BTreeMap::from([("connection closed".into(), 2), ("ok".into(), 8)]));
}
