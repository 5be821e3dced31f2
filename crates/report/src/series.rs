//! What was recorded each second of a trial, read through `record`. It must not draw and not judge.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use record::events::{Event, Outcome, What};
use record::folder::TrialFolder;
use record::hlog::{self, Tag, Time};
use record::rows::{self, GeneratorSecond, OutcomeSlot, Sample};

use crate::Error;

const NS_PER_US: f64 = 1e3;

/// The records of a trial that charts are drawn from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The trial's id.
    pub trial: String,
    /// What ended in each slot of `outcomes.csv`.
    pub outcomes: Vec<OutcomeSlot>,
    /// Latency of `ok` operations, each second, all operations together.
    pub latency: Vec<LatencySecond>,
    /// Hosts and processes.
    pub samples: Vec<Sample>,
    /// The engine's threads.
    pub generator: Vec<GeneratorSecond>,
    /// What happened.
    pub events: Vec<Event>,
    /// Names of the record files whose last line was cut off.
    pub torn: Vec<&'static str>,
}

/// Latency of the `ok` operations that ended in an interval. A quantile that too few samples support is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencySecond {
    /// Start of the interval, seconds since load start.
    pub at_s: f64,
    /// Its length, seconds.
    pub length_s: f64,
    /// Median, microseconds.
    pub p50_us: Option<f64>,
    /// 90 %.
    pub p90_us: Option<f64>,
    /// 99 %.
    pub p99_us: Option<f64>,
    /// Largest.
    pub max_us: Option<f64>,
}

impl Series {
    /// Unix time of load start, seconds.
    #[must_use]
    pub fn start_unix_s(&self) -> Option<f64> {
        self.events.iter().find_map(|event| match event.what {
            What::Clock { unix_s } => Some(unix_s),
            _ => None,
        })
    }
}

/// Reads the records of a trial. What is missing is empty.
///
/// # Errors
/// If a file is there and cannot be read, or is broken elsewhere than in its last line.
pub fn read_series(trial: &TrialFolder) -> Result<Series, Error> {
    let mut latency = Latency::default();
    let log = hlog::visit(&trial.load_hlog(), |interval| latency.add(interval))?;
    let outcomes = rows::read::<OutcomeSlot>(&trial.outcomes())?;
    let samples = rows::read::<Sample>(&trial.samples())?;
    let generator = rows::read::<GeneratorSecond>(&trial.generator())?;
    let events = record::lines::read_events(&trial.events())?;
    let torn = [
        (log.torn, "load.hlog"),
        (outcomes.torn, "outcomes.csv"),
        (samples.torn, "samples.csv"),
        (generator.torn, "generator.csv"),
        (events.torn, "events.jsonl"),
    ];
    Ok(Series {
        trial: trial.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        outcomes: outcomes.items,
        latency: latency.seconds(),
        samples: samples.items,
        generator: generator.items,
        events: events.items,
        torn: torn.into_iter().filter(|(torn, _)| *torn).map(|(_, name)| name).collect(),
    })
}

/// Latency of all `ok` operations of a trial, nanoseconds, warm-up included; `None` if there were none.
///
/// # Errors
/// If the log is there and cannot be read, or is broken elsewhere than in its last line.
pub fn read_latency(trial: &TrialFolder) -> Result<Option<Histogram<u64>>, Error> {
    let mut all: Option<Histogram<u64>> = None;
    hlog::visit(&trial.load_hlog(), |interval| {
        if !is_latency_of_ok(&interval) {
            return;
        }
        match &mut all {
            // The sum may grow, so that adding cannot fail for a value that is out of its range.
            Some(all) => *all += &interval.histogram,
            None => all.insert(interval.histogram).auto(true),
        }
    })?;
    Ok(all)
}

fn is_latency_of_ok(interval: &hlog::Interval) -> bool {
    Tag::parse(&interval.tag).is_some_and(|tag| tag.outcome == Outcome::Ok && tag.time == Time::Latency)
}

/// Latency of all `ok` operations: each interval's are merged; quantiles are taken after merging, never averaged.
#[derive(Default)]
struct Latency(BTreeMap<i64, (f64, Histogram<u64>)>);

impl Latency {
    fn add(&mut self, interval: hlog::Interval) {
        if !is_latency_of_ok(&interval) {
            return;
        }
        let start_ms = (interval.start_s * 1e3).round() as i64;
        match self.0.get_mut(&start_ms) {
            // The sum may grow, so that adding cannot fail for a value that is out of its range.
            Some((_, sum)) => *sum += &interval.histogram,
            None => {
                let mut first = interval.histogram;
                first.auto(true);
                self.0.insert(start_ms, (interval.length_s, first));
            }
        }
    }

    fn seconds(self) -> Vec<LatencySecond> {
        let seconds = self.0.into_iter().filter(|(_, (_, histogram))| !histogram.is_empty());
        seconds.map(|(start_ms, (length_s, histogram))| second(start_ms as f64 / 1e3, length_s, &histogram)).collect()
    }
}

fn second(at_s: f64, length_s: f64, histogram: &Histogram<u64>) -> LatencySecond {
    let quantile = |q: f64| {
        // Below one sample beyond it, a quantile is the maximum under another name.
        let supported = histogram.len() as f64 * (1.0 - q) >= 1.0;
        supported.then(|| histogram.value_at_quantile(q) as f64 / NS_PER_US)
    };
    LatencySecond {
        at_s,
        length_s,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        max_us: Some(histogram.max() as f64 / NS_PER_US),
    }
}

#[cfg(test)]
mod tests;
