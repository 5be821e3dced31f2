//! Loads for the tests, and their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use experiment::plan::{Load, Step, Warmup};
use load::{Error, LoadOrder, LoadPurpose, Summary, ThreadInterval};
use record::clock::Clock;
use record::events::{HistoryEntry, Outcome};
use record::hlog::Time;

/// Results of a load.
pub struct LoadRun {
    pub summary: Summary,
    pub intervals: Vec<ThreadInterval>,
}

impl LoadRun {
    /// Counts attempts with this result.
    pub fn attempts(&self, result: &str) -> u64 {
        let all = self.intervals.iter().flat_map(|interval| &interval.attempts);
        all.filter(|attempts| [attempts.result.as_str(), plain(&attempts.result)].contains(&result))
            .map(|attempts| attempts.count)
            .sum()
    }

    /// Returns all results of attempts.
    pub fn results(&self) -> BTreeSet<&str> {
        self.intervals.iter().flat_map(|interval| &interval.attempts).map(|attempts| plain(&attempts.result)).collect()
    }

    /// Returns all times of this kind for operations with this outcome, in nanoseconds, sorted.
    pub fn times_ns(&self, outcome: Outcome, time: Time) -> Vec<u64> {
        let sheets = self.intervals.iter().flat_map(|interval| interval.sheet.histograms());
        let mut times = Vec::new();
        for (.., histogram) in sheets.filter(|(_, of, is, _)| (*of, *is) == (outcome, time)) {
            for step in histogram.iter_recorded() {
                times.extend(std::iter::repeat_n(step.value_iterated_to(), step.count_at_value() as usize));
            }
        }
        times.sort_unstable();
        times
    }

    /// Returns the numbers of messages of streams, by operation.
    pub fn messages(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (operation, count) in self.intervals.iter().flat_map(|interval| &interval.messages) {
            *sums.entry(operation.clone()).or_default() += count;
        }
        sums
    }

    /// Returns the time integral of the number of open operations, in seconds.
    pub fn in_flight_s(&self) -> f64 {
        let rows = self.intervals.iter().map(|interval| &interval.generator);
        rows.map(|row| row.in_flight_mean * row.interval_s).sum()
    }

    /// Returns the deviation from Little's law in percent: open operations compared with their
    /// latencies.
    pub fn books_error_pct(&self) -> f64 {
        let ended_s: f64 = self.intervals.iter().map(|interval| interval.generator.latency_sum_s).sum();
        let unfinished = self.times_ns(Outcome::Unfinished, Time::Latency);
        let open_s = unfinished.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>();
        100.0 * (self.in_flight_s() - ended_s - open_s).abs() / self.in_flight_s()
    }

    /// Returns all lines of the history.
    pub fn history(&self) -> Vec<&HistoryEntry> {
        self.intervals.iter().flat_map(|interval| &interval.history).collect()
    }

    /// Returns all notices.
    pub fn notices(&self) -> Vec<&str> {
        self.intervals.iter().flat_map(|interval| &interval.notices).map(String::as_str).collect()
    }
}

/// Returns a step. Fields such as `expect` and `keep` are set with [`pairs`].
pub fn step(call: &str, with: &[&str]) -> Step {
    Step { call: call.into(), name: call.into(), with: pairs(with), ..Step::default() }
}

/// Returns `key=value` pairs as a map.
pub fn pairs<T: for<'a> From<&'a str>>(pairs: &[&str]) -> BTreeMap<String, T> {
    pairs.iter().map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key.into(), value.into())).collect()
}

/// Longest nominal time of a load that only has to run at all.
const MOMENT_S: f64 = 0.3;

/// Extends the nominal time according to the machine's load, which may have grown since. On a
/// starved machine nothing may happen for a tenth of a second.
pub fn moment(time_s: f64) -> f64 {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let waiting: f64 = averages.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    time_s * (2.0 + waiting / cores).min(10.0)
}

/// Returns a short load of these steps.
pub fn load(agents: u32, time_s: f64, steps: Vec<Step>) -> Load {
    let time_s = if time_s <= MOMENT_S { moment(time_s) } else { time_s };
    Load {
        agents,
        time_s,
        timeout_s: 5.0,
        drain_s: 2.0,
        warmup: Warmup::Seconds(0.0),
        threads: Some(1),
        steps,
        ..Load::default()
    }
}

/// Returns orders for a load on a name service.
pub fn orders(service: &str, load: Load) -> LoadOrder {
    LoadOrder {
        protocol: "vsns".into(),
        services: vec![service.into()],
        load,
        purpose: LoadPurpose::Measure,
        seed: 42,
        tls: Default::default(),
        files: load::InputFiles::below(std::env::temp_dir()),
        slot_s: 0.001,
        tether: None,
        hosts: Vec::new(),
        // All tests run twice: `make test` sets this variable the second time.
        without_ring: std::env::var_os("WITHOUT_RING").is_some(),
        slice: None,
    }
}

/// Plays the orders to their end.
pub fn try_play(orders: LoadOrder) -> Result<LoadRun, Error> {
    let (sink, intervals) = sync_channel(1000);
    let running = load::start(orders, Clock::starting_in(Duration::from_millis(1)), sink)?;
    let summary = running.join()?;
    Ok(LoadRun { summary, intervals: intervals.iter().collect() })
}

/// Plays the orders to their end, which must succeed.
pub fn play(orders: LoadOrder) -> LoadRun {
    try_play(orders).unwrap()
}

/// Returns the result without the status of an answer that was `ok`.
fn plain(result: &str) -> &str {
    if result.starts_with("ok ") { "ok" } else { result }
}
