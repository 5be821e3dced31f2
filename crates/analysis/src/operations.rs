//! Counts and times of operations: the histograms of `load.hlog`, merged exactly, and the attempts. It must not use any other
//! source for a count, so that the totals are those of the log.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use record::events::Outcome;
use record::hlog::{Counted, Counts, Tag, Time};
use record::results::{Operation, Outcomes, Quantiles};
use record::rows::Attempts;

use crate::stats::latency_seconds::LatencySeconds;
use crate::stats::quantiles::quantiles_us;

/// What is kept of `load.hlog`: each operation's histograms merged, once for the whole load and once for the measured part, and how
/// many succeeded when. Tags that are not ours are left out.
#[derive(Debug, Default)]
pub(crate) struct LoadLog {
    /// By name of the operation.
    pub totals: BTreeMap<String, Totals>,
    /// The same of the measured part alone.
    measured: BTreeMap<String, Totals>,
    measured_from_s: f64,
    /// `ok` latency second by second, coarsely.
    pub latency: LatencySeconds,
    /// Of each operation, the `ok` ones that ended in each interval.
    succeeded: BTreeMap<String, Vec<Succeeded>>,
    /// Operations that ended, any outcome but unfinished, by the second that their interval begins in.
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
    /// An empty one. Intervals that begin at this time or later are of the measured part.
    pub fn measured_from(measured_from_s: f64) -> Self {
        Self { measured_from_s, ..Self::default() }
    }

    /// Takes in the next interval.
    pub fn add(&mut self, interval: &Counted) {
        let end_s = interval.start_s + interval.length_s;
        self.last_s = Some(self.last_s.map_or(end_s, |last_s| last_s.max(end_s)));
        let Some(tag) = Tag::parse(&interval.tag) else { return };
        if (tag.outcome, tag.time) == (Outcome::Ok, Time::Latency) {
            self.latency.add(interval.start_s, interval.length_s, &interval.counts);
            let part =
                Succeeded { start_s: interval.start_s, length_s: interval.length_s, count: interval.counts.len() };
            match self.succeeded.get_mut(&tag.operation) {
                Some(parts) => parts.push(part),
                None => drop(self.succeeded.insert(tag.operation.clone(), vec![part])),
            }
        }
        if tag.time == Time::Latency && tag.outcome != Outcome::Unfinished {
            // Starts are written to the millisecond.
            let ended = self.ended.entry((interval.start_s + 5e-4).floor() as i64).or_default();
            *ended = ended.saturating_add(interval.counts.len());
        }
        // Starts are written to the millisecond.
        if interval.start_s >= self.measured_from_s - 5e-4 {
            let measured = self.measured.entry(tag.operation.clone()).or_default();
            measured.count((tag.outcome, tag.time), &interval.counts);
        }
        self.totals.entry(tag.operation).or_default().count((tag.outcome, tag.time), &interval.counts);
    }

    /// What latencies are taken from: each operation's histograms of the measured part, or of the whole load where nothing at all
    /// ended in that.
    pub fn measured(&self) -> &BTreeMap<String, Totals> {
        let ended = self.measured.values().any(|totals| totals.outcomes() != Outcomes::default());
        if ended { &self.measured } else { &self.totals }
    }

    /// Operations that ended, any outcome but unfinished, by the second that their interval begins in.
    pub fn ended(&self) -> &BTreeMap<i64, u64> {
        &self.ended
    }

    /// End of the last interval, seconds since load start.
    pub fn last_s(&self) -> Option<f64> {
        self.last_s
    }

    /// `ok` per second of each operation; an interval that lies only partly in the window counts by its part.
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

/// What a log says of one operation, or of all.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    times: BTreeMap<(Outcome, Time), Option<Histogram<u64>>>,
}

impl Totals {
    /// All of these together.
    pub fn of_all<'a>(each: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for totals in each {
            for (&key, histogram) in &totals.times {
                histogram.iter().for_each(|histogram| all.add(key, histogram));
            }
        }
        all
    }

    fn count(&mut self, key: (Outcome, Time), counts: &Counts) {
        counts.add_to(self.times.entry(key).or_default());
    }

    fn add(&mut self, key: (Outcome, Time), histogram: &Histogram<u64>) {
        let merged = self.times.entry(key).or_default().get_or_insert_with(|| {
            let mut empty = Histogram::new_from(histogram);
            empty.auto(true);
            empty
        });
        // Cannot fail: the sum grows with what is added, and values have at most 64 bits.
        let _ = merged.add(histogram);
    }

    fn latency(&self, outcome: Outcome) -> Option<&Histogram<u64>> {
        self.times.get(&(outcome, Time::Latency))?.as_ref()
    }

    /// How many ended how.
    pub fn outcomes(&self) -> Outcomes {
        let count = |outcome| self.latency(outcome).map_or(0, Histogram::len);
        Outcomes {
            ok: count(Outcome::Ok),
            failed: count(Outcome::Failed),
            timeout: count(Outcome::Timeout),
            wrong: count(Outcome::Wrong),
            unfinished: count(Outcome::Unfinished),
        }
    }

    /// Latency of `ok` ones.
    pub fn latency_us(&self) -> Option<Quantiles> {
        self.latency(Outcome::Ok).and_then(quantiles_us)
    }

    /// Service time of `ok` ones.
    pub fn service_us(&self) -> Option<Quantiles> {
        self.times.get(&(Outcome::Ok, Time::Service))?.as_ref().and_then(quantiles_us)
    }

    /// Latency of the others, by outcome.
    pub fn by_outcome(&self) -> BTreeMap<String, Quantiles> {
        let others = Outcome::ALL.into_iter().filter(|&outcome| outcome != Outcome::Ok);
        others
            .filter_map(|outcome| Some((outcome.name().to_owned(), self.latency(outcome).and_then(quantiles_us)?)))
            .collect()
    }

    /// Time that the unfinished ones had been open, seconds in all.
    pub fn unfinished_s(&self) -> f64 {
        self.latency(Outcome::Unfinished).map_or(0.0, |open| open.mean() * open.len() as f64 / 1e9)
    }
}

/// Every operation of the load. Rates are over `window_s`, times of the measured part of the log, counts of all of it.
pub(crate) fn operations(
    load: &LoadLog,
    attempts: &[Attempts],
    window_s: Option<(f64, f64)>,
) -> BTreeMap<String, Operation> {
    let rates = window_s.map(|window_s| load.ok_per_s(window_s));
    let measured = load.measured();
    let operation = |(name, totals): (&String, &Totals)| {
        let operation = Operation {
            throughput_per_s: rates.as_ref().map(|rates| rates.get(name.as_str()).copied().unwrap_or(0.0)),
            outcomes: totals.outcomes(),
            attempts: attempts.iter().filter(|row| row.operation == *name).map(|row| row.count).sum(),
            latency_us: measured.get(name).and_then(Totals::latency_us),
            service_us: measured.get(name).and_then(Totals::service_us),
            by_outcome: totals.by_outcome(),
        };
        (name.clone(), operation)
    };
    load.totals.iter().map(operation).collect()
}

/// Results of attempts to counts, over all operations.
pub(crate) fn attempt_results(attempts: &[Attempts]) -> BTreeMap<String, u64> {
    let mut results = BTreeMap::new();
    for row in attempts {
        *results.entry(row.result.clone()).or_default() += row.count;
    }
    results
}

/// `100 × (failed + timeout) / (ok + failed + timeout + wrong)`.
pub(crate) fn failed_pct(outcomes: &Outcomes) -> Option<f64> {
    let failed = outcomes.failed + outcomes.timeout;
    let all = outcomes.ok + failed + outcomes.wrong;
    (all > 0).then(|| 100.0 * failed as f64 / all as f64)
}

#[cfg(test)]
mod tests;
