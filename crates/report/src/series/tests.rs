//! Tests of reading a trial's records.
#![allow(clippy::unwrap_used)]

use super::*;

fn interval(tag: &str, start_s: f64, values: &[u64]) -> hlog::Interval {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
    for value in values {
        histogram.saturating_record(*value);
    }
    hlog::Interval { tag: tag.to_owned(), start_s, length_s: 1.0, histogram }
}

fn latency(intervals: Vec<hlog::Interval>) -> Vec<LatencySecond> {
    let mut latency = Latency::default();
    intervals.into_iter().for_each(|interval| latency.add(interval));
    latency.seconds()
}

#[test]
fn operations_of_a_second_are_merged_and_only_ok_latencies_count() {
    let fast: Vec<u64> = vec![100_000; 99];
    let log = vec![
        interval("save/ok/latency", 0.0, &fast),
        interval("load/ok/latency", 0.0, &[200_000, 300_000]),
        interval("save/failed/latency", 0.0, &[900_000]),
        interval("save/ok/service", 0.0, &[900_000]),
        interval("not ours", 0.0, &[900_000]),
        interval("save/ok/latency", 1.0, &[100_000]),
        interval("save/ok/latency", 2.0, &[]),
    ];
    let seconds = latency(log);
    assert_eq!(seconds.len(), 2);
    let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < wanted * 0.002;
    assert!(near(seconds[0].p50_us, 100.0) && near(seconds[0].p99_us, 200.0) && near(seconds[0].max_us, 300.0));
    // One sample has a maximum, and no quantiles.
    assert_eq!((seconds[1].p50_us, seconds[1].p99_us), (None, None));
    assert!(near(seconds[1].max_us, 100.0));
}

#[test]
fn values_beyond_the_first_histogram_are_kept() {
    let mut larger = interval("load/ok/latency", 0.0, &[]);
    larger.histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap();
    larger.histogram.saturating_record(5_000_000_000);
    let seconds = latency(vec![interval("save/ok/latency", 0.0, &[1_000]), larger]);
    assert!((seconds[0].max_us.unwrap() - 5_000_000.0).abs() < 5_000.0);
}

#[test]
fn a_folder_without_records_is_an_empty_series() {
    let series = read_series(&TrialFolder::at(std::path::Path::new("/nowhere/007"))).unwrap();
    assert_eq!(series, Series { trial: "007".to_owned(), ..Series::default() });
}
