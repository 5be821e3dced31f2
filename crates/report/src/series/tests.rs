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
    intervals.iter().for_each(|interval| latency.add(&interval.into()));
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

/// What lasts a quarter of a second in a day is still a point of the chart, whatever is left out.
#[test]
fn a_spike_of_a_quarter_of_a_second_in_a_day_survives() {
    const DAY_S: u32 = 86_400;
    const SPIKE_S: u32 = 51_234;
    let mut latency = Latency::default();
    let (calm, mut spike) =
        (interval("get/ok/latency", 0.0, &[100_000; 30]), interval("get/ok/latency", 0.0, &[100_000; 30]));
    spike.histogram.record(250_000).unwrap();
    let (mut calm, mut spike) = (hlog::Counted::from(&calm), hlog::Counted::from(&spike));
    for second in 0..DAY_S {
        let now = if second == SPIKE_S { &mut spike } else { &mut calm };
        now.start_s = f64::from(second);
        latency.add(now);
        assert!(latency.open.len() <= OPEN, "what is over is kept as quantiles alone");
    }
    let highest: Vec<_> = latency.seconds().iter().map(|second| (second.at_s, second.max_us)).collect();
    let drawn = crate::drawing::thinning::thinned(&highest, 1_000);
    assert!(drawn.len() <= 1_010);
    assert!(drawn.iter().any(|point| point.0 == f64::from(SPIKE_S) && point.1.is_some_and(|us| us > 249.0)));

    let mut samples = Samples::of(f64::from(DAY_S));
    for second in 0..DAY_S {
        for (host, process) in [("n1", ""), ("n1", "server"), ("n2", "")] {
            let busy = if second == SPIKE_S && host == "n2" { 97.0 } else { 3.0 };
            let (at_s, host, process) = (f64::from(second), host.to_owned(), process.to_owned());
            samples.add(Sample {
                at_s,
                host,
                process,
                cpu_user_pct: Some(busy),
                rss_bytes: Some(7),
                ..Sample::default()
            });
        }
    }
    let kept = samples.ended();
    assert!(kept.len() <= 3 * 2 * (STRETCHES as usize + 1), "{}", kept.len());
    let peak = kept.iter().find(|row| row.cpu_user_pct == Some(97.0)).unwrap();
    assert!(peak.host == "n2" && (peak.at_s - f64::from(SPIKE_S)).abs() < 44.0, "{peak:?}");
    assert_eq!(kept.iter().filter(|row| row.cpu_user_pct == Some(97.0)).count(), 1);
}
