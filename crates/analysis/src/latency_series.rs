//! Latency of `ok` operations for charts: quantiles of each second, and the distribution of all
//! operations. The series is built while the latency log is read, so that nothing else decodes the
//! log.

use std::collections::BTreeMap;

use experiment::plan::samples_for;
use record::hlog::{Bucket, HistogramCounts};

const NS_PER_US: f64 = 1e3;

/// Latency of the `ok` operations of a trial, all operations together, warm-up included.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LatencySeries {
    /// Intervals of the log in time order, without those in which no operation ended.
    pub seconds: Vec<LatencySecond>,
    /// Intervals of each group of agents, in the order of the plan.
    pub groups: Vec<(String, Vec<LatencySecond>)>,
    /// Latencies of the whole trial, nanoseconds.
    pub all_ns: HistogramCounts,
    /// Whether the last line of the log was cut off.
    pub torn: bool,
}

/// Latency of the `ok` operations that ended in an interval. A quantile that too few samples
/// support is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencySecond {
    /// Start of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub length_s: f64,
    /// Number of operations that ended in the interval.
    pub count: u64,
    /// Median, microseconds.
    pub p50_us: Option<f64>,
    /// 90th percentile, microseconds.
    pub p90_us: Option<f64>,
    /// 95th percentile, microseconds.
    pub p95_us: Option<f64>,
    /// 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// Maximum, microseconds.
    pub max_us: Option<f64>,
}

/// Number of latest seconds that may still get counts: the log is in time order, but each second
/// has an interval for each operation.
const OPEN: usize = 4;

/// Builder that merges the operations of each interval. Quantiles are computed after merging, never
/// averaged. A finished second holds only quantiles.
#[derive(Debug, Default)]
pub(crate) struct MergedSeconds {
    open: BTreeMap<i64, (f64, Vec<Bucket>)>,
    over: Vec<LatencySecond>,
}

impl MergedSeconds {
    /// Adds the `ok` latencies of an operation's interval.
    pub fn add(&mut self, start_s: f64, length_s: f64, counts: &HistogramCounts) {
        if counts.is_empty() {
            return;
        }
        let start_ms = (start_s * 1e3).round() as i64;
        let (_, buckets) = self.open.entry(start_ms).or_insert_with(|| (length_s, Vec::new()));
        buckets.extend_from_slice(&counts.buckets);
        if self.open.len() > OPEN
            && let Some((start_ms, (length_s, buckets))) = self.open.pop_first()
        {
            self.over.push(second(start_ms, length_s, buckets));
        }
    }

    /// Returns every second, in time order.
    pub fn ended(mut self) -> Vec<LatencySecond> {
        let open = self.open.into_iter().map(|(start_ms, (length_s, buckets))| second(start_ms, length_s, buckets));
        self.over.extend(open);
        self.over.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.over
    }
}

fn second(start_ms: i64, length_s: f64, mut buckets: Vec<Bucket>) -> LatencySecond {
    buckets.sort_by_key(|bucket| bucket.highest);
    let count = buckets.iter().map(|bucket| bucket.count).fold(0, u64::saturating_add);
    let quantile = |q: f64| {
        let supported = count >= samples_for(q);
        let rank = ((count as f64 * q).ceil() as u64).max(1);
        let mut seen: u64 = 0;
        let found = buckets.iter().find(|bucket| {
            seen = seen.saturating_add(bucket.count);
            seen >= rank
        });
        found.filter(|_| supported).map(|bucket| bucket.highest as f64 / NS_PER_US)
    };
    LatencySecond {
        at_s: start_ms as f64 / 1e3,
        length_s,
        count,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        max_us: buckets.last().map(|bucket| bucket.highest as f64 / NS_PER_US),
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn counts(high: u64, values: &[u64]) -> HistogramCounts {
        let mut histogram = Histogram::new_with_bounds(1, high, 3).unwrap();
        values.iter().for_each(|value| histogram.saturating_record(*value));
        HistogramCounts::of(&histogram)
    }

    fn merged(intervals: &[(f64, &[u64])]) -> Vec<LatencySecond> {
        let mut merged = MergedSeconds::default();
        intervals.iter().for_each(|(start_s, values)| merged.add(*start_s, 1.0, &counts(1_000_000, values)));
        merged.ended()
    }

    #[test]
    fn operations_of_a_second_are_merged() {
        let (fast, slow) = ([100_000; 296], [200_000, 200_000, 200_000, 300_000]);
        let seconds = merged(&[(0.0, &fast), (0.0, &slow), (1.0, &[100_000]), (2.0, &[])]);
        assert_eq!(seconds.len(), 2);
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < wanted * 0.002;
        assert!(near(seconds[0].p50_us, 100.0) && near(seconds[0].p99_us, 200.0) && near(seconds[0].max_us, 300.0));
        // A single sample has a maximum, but no quantiles.
        assert_eq!((seconds[1].p50_us, seconds[1].p99_us), (None, None));
        assert!(near(seconds[1].max_us, 100.0));
    }

    #[test]
    fn a_second_needs_299_operations_for_p99() {
        let p99 = |count: usize| merged(&[(0.0, &vec![100_000; count])])[0].p99_us;
        assert_eq!((p99(298), p99(299).is_some()), (None, true));
    }

    #[test]
    fn values_beyond_the_first_histogram_are_kept() {
        let mut merged = MergedSeconds::default();
        merged.add(0.0, 1.0, &counts(1_000_000, &[1_000]));
        merged.add(0.0, 1.0, &counts(10_000_000_000, &[5_000_000_000]));
        assert!((merged.ended()[0].max_us.unwrap() - 5_000_000.0).abs() < 5_000.0);
    }

    /// An event of a quarter of a second in a day still shows.
    #[test]
    fn finished_seconds_keep_only_their_quantiles() {
        const DAY_S: u32 = 86_400;
        const SPIKE_S: u32 = 51_234;
        let (calm, spike) = (counts(1_000_000, &[100_000; 30]), counts(1_000_000, &[100_000, 250_000]));
        let mut merged = MergedSeconds::default();
        for second in 0..DAY_S {
            merged.add(f64::from(second), 1.0, if second == SPIKE_S { &spike } else { &calm });
            assert!(merged.open.len() <= OPEN);
        }
        let seconds = merged.ended();
        assert_eq!(seconds.len(), DAY_S as usize);
        assert!(seconds[SPIKE_S as usize].max_us.is_some_and(|us| us > 249.0));
    }
}
