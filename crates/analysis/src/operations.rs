//! Counts and latencies of operations, from the merged histograms of `load.hlog`, and counts of
//! attempts. This module must not count operations from any other source, so that the totals are
//! those of the log.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use record::events::Outcome;
use record::hlog::{Counted, HistogramCounts, Tag, Time};
use record::results::{Arrival, Operation, Outcomes, Quantiles};
use record::rows::{AgentCycles, Attempts};

use crate::latency_series::{LatencySeries, MergedSeconds};
use crate::stats::latency_seconds::LatencySeconds;
use crate::stats::quantile_batches::QuantileBatches;
use crate::stats::quantiles::{AskedPercentile, quantiles_us, quantiles_with_lost_us};

/// Contents of `load.hlog`: each operation's merged histograms, for the whole load and for the
/// measured part, and the times of its successes. Unknown tags are left out.
#[derive(Debug, Default)]
pub(crate) struct LoadLog {
    /// Totals of the whole load, by name of the operation.
    pub totals: BTreeMap<String, OperationTotals>,
    /// Totals of the measured part alone.
    measured: BTreeMap<String, OperationTotals>,
    measured_from_s: f64,
    /// Coarse `ok` latency per second.
    pub latency: LatencySeconds,
    /// `ok` latency per second for the chart.
    drawn: MergedSeconds,
    /// `ok` latency per second for the chart, by group of agents: name, operations, latency.
    drawn_groups: Vec<(String, Vec<String>, MergedSeconds)>,
    /// `ok` latency by batches of the measured part.
    pub batches: QuantileBatches,
    /// Requested percentiles beyond the standard ones.
    pub asked: Vec<AskedPercentile>,
    /// Successes of each operation, by the interval of the log in which they ended.
    succeeded: BTreeMap<String, Vec<Succeeded>>,
    /// Number of ended operations (any outcome except unfinished), by the second in which their
    /// interval begins.
    ended: BTreeMap<i64, u64>,
    last_s: Option<f64>,
}

/// `ok` operations that ended in an interval.
#[derive(Debug)]
struct Succeeded {
    start_s: f64,
    length_s: f64,
    count: u64,
}

impl LoadLog {
    /// Creates an empty log. Intervals that begin at this time or later belong to the measured
    /// part.
    pub fn measured_from(measured_from_s: f64) -> Self {
        Self { measured_from_s, ..Self::default() }
    }

    /// Adds the agent groups and their operations.
    pub fn with_groups(mut self, groups: Vec<(String, Vec<String>)>) -> Self {
        let empty = groups.into_iter().map(|(name, operations)| (name, operations, MergedSeconds::default()));
        self.drawn_groups = empty.collect();
        self
    }

    /// Adds the next interval of the log.
    pub fn add(&mut self, interval: &Counted) {
        let end_s = interval.start_s + interval.length_s;
        self.last_s = Some(self.last_s.map_or(end_s, |last_s| last_s.max(end_s)));
        let Some(tag) = Tag::parse(&interval.tag) else { return };
        if (tag.outcome, tag.time) == (Outcome::Ok, Time::Latency) {
            self.latency.add(interval.start_s, interval.length_s, &interval.counts);
            self.drawn.add(interval.start_s, interval.length_s, &interval.counts);
            let mut own = self.drawn_groups.iter_mut().filter(|(_, operations, _)| operations.contains(&tag.operation));
            own.by_ref().for_each(|(.., drawn)| drawn.add(interval.start_s, interval.length_s, &interval.counts));
            self.batches.add(interval.start_s, &interval.counts);
            let part =
                Succeeded { start_s: interval.start_s, length_s: interval.length_s, count: interval.counts.len() };
            self.succeeded.entry(tag.operation.clone()).or_default().push(part);
        }
        if tag.time == Time::Latency && tag.outcome != Outcome::Unfinished {
            // The log rounds starts to the millisecond.
            let ended = self.ended.entry((interval.start_s + 5e-4).floor() as i64).or_default();
            *ended = ended.saturating_add(interval.counts.len());
        }
        // The log rounds starts to the millisecond.
        if interval.start_s >= self.measured_from_s - 5e-4 {
            let measured = self.measured.entry(tag.operation.clone()).or_default();
            measured.count((tag.outcome, tag.time), &interval.counts);
        }
        self.totals.entry(tag.operation).or_default().count((tag.outcome, tag.time), &interval.counts);
    }

    /// Returns the histograms from which latencies are taken: those of the measured part, or of the
    /// whole load if no operation ended in the measured part.
    pub fn measured(&self) -> &BTreeMap<String, OperationTotals> {
        let ended = self.measured.values().any(|totals| totals.outcomes() != Outcomes::default());
        if ended { &self.measured } else { &self.totals }
    }

    /// Returns the latencies of `ok` operations of the measured part, or `None` if no operation
    /// succeeded.
    pub fn ok_latency(&self) -> Option<Histogram<u64>> {
        let all = OperationTotals::of_all(self.measured().values());
        all.latency(Outcome::Ok).cloned()
    }

    /// Returns the number of ended operations (any outcome except unfinished), by the second in
    /// which their interval begins.
    pub fn ended(&self) -> &BTreeMap<i64, u64> {
        &self.ended
    }

    /// Returns the end of the last interval, seconds since load start.
    pub fn last_s(&self) -> Option<f64> {
        self.last_s
    }

    /// Returns the `ok` latency over time for the chart, for a log that was not cut off.
    pub fn series(self) -> LatencySeries {
        let all = OperationTotals::of_all(self.totals.values());
        let all_ns = all.latency(Outcome::Ok).map(HistogramCounts::of).unwrap_or_default();
        let groups = self.drawn_groups.into_iter().map(|(name, _, drawn)| (name, drawn.ended()));
        LatencySeries { seconds: self.drawn.ended(), groups: groups.collect(), all_ns, torn: false }
    }

    /// Returns the successes per second of each operation in a window. An interval that lies partly
    /// in the window counts by the part inside.
    fn ok_per_s(&self, (from_s, until_s): (f64, f64)) -> BTreeMap<&str, f64> {
        let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
        let parts = self.succeeded.iter().flat_map(|(name, parts)| parts.iter().map(move |part| (name, part)));
        for (operation, part) in parts.filter(|(_, part)| part.length_s > 0.0) {
            let inside_s = (part.start_s + part.length_s).min(until_s) - part.start_s.max(from_s);
            let share = (inside_s / part.length_s).clamp(0.0, 1.0);
            *rates.entry(operation.as_str()).or_default() += part.count as f64 * share / (until_s - from_s);
        }
        rates
    }
}

/// Histograms of one operation, or of several.
#[derive(Debug, Default)]
pub(crate) struct OperationTotals {
    times: BTreeMap<(Outcome, Time), Option<Histogram<u64>>>,
}

impl OperationTotals {
    /// Returns the sum of several totals.
    pub fn of_all<'a>(each: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for totals in each {
            for (&key, histogram) in &totals.times {
                histogram.iter().for_each(|histogram| all.add(key, histogram));
            }
        }
        all
    }

    fn count(&mut self, key: (Outcome, Time), counts: &HistogramCounts) {
        counts.add_to(self.times.entry(key).or_default());
    }

    fn add(&mut self, key: (Outcome, Time), histogram: &Histogram<u64>) {
        let merged = self.times.entry(key).or_default().get_or_insert_with(|| {
            let mut empty = Histogram::new_from(histogram);
            empty.auto(true);
            empty
        });
        // This cannot fail: the sum grows as needed, and values have at most 64 bits.
        let _ = merged.add(histogram);
    }

    fn latency(&self, outcome: Outcome) -> Option<&Histogram<u64>> {
        self.times.get(&(outcome, Time::Latency))?.as_ref()
    }

    fn ok(&self, time: Time) -> Option<&Histogram<u64>> {
        self.times.get(&(Outcome::Ok, time))?.as_ref()
    }

    /// Returns the counts by outcome.
    pub fn outcomes(&self) -> Outcomes {
        let [ok, failed, timeout, wrong, unfinished] =
            [Outcome::Ok, Outcome::Failed, Outcome::Timeout, Outcome::Wrong, Outcome::Unfinished]
                .map(|outcome| self.latency(outcome).map_or(0, Histogram::len));
        Outcomes { ok, failed, timeout, wrong, unfinished }
    }

    /// Returns the latency of `ok` operations.
    pub fn latency_us(&self, asked: &[AskedPercentile]) -> Option<Quantiles> {
        quantiles_us(self.ok(Time::Latency)?, asked)
    }

    /// Returns the service time of `ok` operations.
    pub fn service_us(&self, asked: &[AskedPercentile]) -> Option<Quantiles> {
        quantiles_us(self.ok(Time::Service)?, asked)
    }

    /// Returns the times of answers while they arrived.
    pub fn arrival(&self, asked: &[AskedPercentile]) -> Arrival {
        let quantiles_us = |time| quantiles_us(self.ok(time)?, asked);
        Arrival {
            first_byte_us: quantiles_us(Time::FirstByte),
            first_byte_latency_us: quantiles_us(Time::FirstByteLatency),
            first_message_us: quantiles_us(Time::FirstMessage),
            first_message_latency_us: quantiles_us(Time::FirstMessageLatency),
            gap_us: quantiles_us(Time::Gap),
            ..Arrival::default()
        }
    }

    /// Returns the latency of the `ok` operations of several totals, without the generator's own
    /// lateness. An operation that no timer starts is never late, so its full latency counts.
    /// Returns `None` if no operation is started by a timer, or if lateness was not recorded.
    pub fn punctual_of<'a>(
        each: impl Iterator<Item = &'a Self> + Clone,
        asked: &[AskedPercentile],
    ) -> Option<Quantiles> {
        each.clone().find_map(|totals| totals.ok(Time::Punctual))?;
        let mut all = Self::default();
        for own in each.filter_map(|totals| totals.ok(Time::Punctual).or_else(|| totals.ok(Time::Latency))) {
            all.add((Outcome::Ok, Time::Punctual), own);
        }
        quantiles_us(all.ok(Time::Punctual)?, asked)
    }

    /// Returns the latency of all operations. Operations that failed, timed out or are unfinished
    /// count as longer than all others. Returns `None` if there are no such operations.
    pub fn of_all_us(&self, asked: &[AskedPercentile]) -> Option<Quantiles> {
        let outcomes = self.outcomes();
        let lost = outcomes.failed + outcomes.timeout + outcomes.unfinished;
        let mut answered = Self::default();
        for histogram in [Outcome::Ok, Outcome::Wrong].into_iter().filter_map(|outcome| self.latency(outcome)) {
            answered.add((Outcome::Ok, Time::Latency), histogram);
        }
        (lost > 0).then(|| quantiles_with_lost_us(answered.latency(Outcome::Ok), lost, asked))
    }

    /// Returns the latency of operations that were not `ok`, by outcome.
    pub fn by_outcome(&self, asked: &[AskedPercentile]) -> BTreeMap<String, Quantiles> {
        let others = Outcome::ALL.into_iter().filter(|&outcome| outcome != Outcome::Ok);
        others
            .filter_map(|outcome| Some((outcome.name().to_owned(), quantiles_us(self.latency(outcome)?, asked)?)))
            .collect()
    }

    /// Returns the total time for which unfinished operations had been open, seconds.
    pub fn unfinished_s(&self) -> f64 {
        self.latency(Outcome::Unfinished).map_or(0.0, |open| open.mean() * open.len() as f64 / 1e9)
    }
}

/// Returns the results of every operation. Rates cover `window_s`, latencies the measured part of
/// the log, and counts the whole log.
pub(crate) fn operations(
    load: &LoadLog,
    attempts: &[Attempts],
    window_s: Option<(f64, f64)>,
) -> BTreeMap<String, Operation> {
    let rates = window_s.map(|window_s| load.ok_per_s(window_s));
    let measured = load.measured();
    let mut operations = BTreeMap::new();
    for (name, totals) in &load.totals {
        let operation = Operation {
            throughput_per_s: rates.as_ref().map(|rates| rates.get(name.as_str()).copied().unwrap_or(0.0)),
            outcomes: totals.outcomes(),
            attempts: attempts.iter().filter(|row| row.operation == *name).map(|row| row.count).sum(),
            latency_us: measured.get(name).and_then(|own| own.latency_us(&load.asked)),
            service_us: measured.get(name).and_then(|own| own.service_us(&load.asked)),
            arrival: measured.get(name).map(|own| own.arrival(&load.asked)).unwrap_or_default(),
            by_outcome: totals.by_outcome(&load.asked),
            ..Operation::default()
        };
        operations.insert(name.clone(), operation);
    }
    operations
}

/// Returns the counts of attempts by result, over all operations.
pub(crate) fn attempt_results(attempts: &[Attempts]) -> BTreeMap<String, u64> {
    let mut results = BTreeMap::new();
    for row in attempts {
        *results.entry(row.result.clone()).or_default() += row.count;
    }
    results
}

/// Returns the number of agents that finished no full cycle at `from_s` or later, or `None` if
/// cycles were not recorded.
pub(crate) fn agents_without_cycle(agents: Option<&[AgentCycles]>, from_s: f64) -> Option<u64> {
    let without = agents?.iter().filter(|row| row.last_cycle_s.is_none_or(|last_s| last_s < from_s));
    Some(without.count() as u64)
}

/// Returns `100 × (failed + timeout + unfinished) / (ok + failed + timeout + wrong + unfinished)`.
/// Operations that never got an answer did not succeed.
pub(crate) fn failed_pct(outcomes: &Outcomes) -> Option<f64> {
    share_pct(outcomes.failed + outcomes.timeout + outcomes.unfinished, outcomes)
}

/// Returns `count` as a percentage of all operations, or `None` without operations.
pub(crate) fn share_pct(count: u64, of: &Outcomes) -> Option<f64> {
    let all = of.ok + of.failed + of.timeout + of.wrong + of.unfinished;
    (all > 0).then(|| 100.0 * count as f64 / all as f64)
}

#[cfg(test)]
mod tests {
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
    fn totals_match_the_log() {
        let log = log(&intervals());
        let all = OperationTotals::of_all(log.totals.values());
        assert_eq!(all.outcomes(), Outcomes { ok: 1_010, failed: 30, unfinished: 3, ..Outcomes::default() });
        assert_eq!(all.latency_us(&[]).unwrap().count, 1_010);
        assert_eq!(all.service_us(&[]).unwrap().count, 900);
        assert_eq!(all.by_outcome(&[]).keys().collect::<Vec<_>>(), ["failed", "unfinished"]);
        assert!((all.unfinished_s() - 6.0).abs() < 0.01);
        assert_eq!(failed_pct(&all.outcomes()), Some(100.0 * 33.0 / 1_043.0));
        assert_eq!(failed_pct(&Outcomes::default()), None);
        let outcomes = Outcomes { ok: 95, wrong: 3, timeout: 2, ..Outcomes::default() };
        assert_eq!(share_pct(outcomes.wrong, &outcomes), Some(3.0));
    }

    #[test]
    fn operations_without_a_timer_count_as_punctual() {
        let mut all =
            vec![interval("bulk/ok/latency", 0.0, [400_000; 600]), interval("get/ok/latency", 0.0, [1_000; 400])];
        let untimed = OperationTotals::punctual_of(log(&all).measured().values(), &[]);
        assert_eq!(untimed, None, "no timer starts any");
        all.push(interval("get/ok/punctual", 0.0, [900; 400]));
        let found = OperationTotals::punctual_of(log(&all).measured().values(), &[]).unwrap();
        assert_eq!(found.count, 1_000);
        assert!((found.p50.unwrap() - 400_000.0).abs() < 400.0, "{found:?}");
    }

    #[test]
    fn the_series_shows_latency_of_ok_operations() {
        let series = log(&intervals()).series();
        let max_us: Vec<_> = series.seconds.iter().map(|second| second.max_us.unwrap().round()).collect();
        assert_eq!((max_us[0], (max_us[1] - 5_000.0).abs() < 5.0, max_us.len()), (100.0, true, 2));
        assert_eq!(series.all_ns.len(), 1_010);
    }

    #[test]
    fn times_cover_the_measured_part_and_counts_everything() {
        let mut log = LoadLog::measured_from(1.0);
        intervals().iter().for_each(|interval| log.add(&interval.into()));
        let measured = OperationTotals::of_all(log.measured().values());
        assert_eq!(measured.latency_us(&[]).unwrap().count, 110);
        assert_eq!(measured.service_us(&[]), None, "they ended in the warm-up");
        let found = operations(&log, &[], None);
        let save = &found["save"];
        assert_eq!((save.outcomes.ok, save.latency_us.as_ref().unwrap().count), (1_000, 100));
        assert!((save.latency_us.as_ref().unwrap().p50.unwrap() - 5_000.0).abs() < 5.0);
        assert_eq!(save.by_outcome["failed"].count, 30);
        assert_eq!(
            OperationTotals::of_all(log.totals.values()).latency_us(&[]).unwrap().count,
            1_010,
            "with the warm-up"
        );

        let mut too_late = LoadLog::measured_from(9.0);
        intervals().iter().for_each(|interval| too_late.add(&interval.into()));
        let all = OperationTotals::of_all(too_late.measured().values());
        assert_eq!(all.latency_us(&[]).unwrap().count, 1_010, "rather all than nothing");
    }

    #[test]
    fn unanswered_operations_count_as_the_longest() {
        let log = log(&intervals());
        let all = OperationTotals::of_all(log.totals.values()).of_all_us(&[]).unwrap();
        assert_eq!((all.count, all.p99, all.max, all.mean), (1_043, None, None, None), "3 % were not answered");
        assert!((all.p90.unwrap() - 5_000.0).abs() < 5.0 && (all.p50.unwrap() - 100.0).abs() < 0.2, "{all:?}");
        assert_eq!(log.totals["load"].of_all_us(&[]).unwrap().count, 13);
        let answered = OperationTotals::of_all([]);
        assert_eq!(answered.of_all_us(&[]), None);
    }

    #[test]
    fn quantiles_cover_all_intervals_together() {
        let log = log(&intervals());
        let save = &log.totals["save"];
        let latency = save.latency_us(&[]).unwrap();
        assert!((latency.p50.unwrap() - 100.0).abs() < 0.2, "{latency:?}");
        assert!((latency.p99.unwrap() - 5_000.0).abs() < 5.0, "{latency:?}");
    }

    #[test]
    fn histograms_with_different_bounds_merge() {
        let mut intervals = intervals();
        let mut narrow = Histogram::new_with_bounds(1, 1_000_000, 2).unwrap();
        narrow.record(200_000).unwrap();
        intervals.insert(0, Interval { tag: "save/ok/latency".into(), start_s: 0.0, length_s: 1.0, histogram: narrow });
        let log = log(&intervals);
        let save = &log.totals["save"];
        assert_eq!(save.outcomes().ok, 1_001);
        assert!((save.latency_us(&[]).unwrap().max.unwrap() - 5_000.0).abs() < 100.0);
    }

    #[test]
    fn agents_without_a_cycle_are_counted_if_known() {
        let agents = [(1, Some(0.5)), (2, None), (3, Some(4.0)), (4, None)].map(|(agent, last_cycle_s)| AgentCycles {
            agent,
            cycles: u64::from(last_cycle_s.is_some()),
            last_cycle_s,
        });
        assert_eq!(agents_without_cycle(Some(&agents), f64::NEG_INFINITY), Some(2));
        assert_eq!(agents_without_cycle(Some(&agents), 1.0), Some(3), "one only in the warm-up");
        assert_eq!(agents_without_cycle(Some(&[]), 1.0), Some(0));
        assert_eq!(agents_without_cycle(None, 1.0), None);
    }

    #[test]
    fn rates_use_the_measured_part_of_an_interval() {
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
}
