//! The data that an engine thread sends at every whole second of the clock.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use hdrhistogram::Histogram;
use record::clock::Clock;
use record::events::{FailureExample, HistoryEntry, Outcome};
use record::hlog::{Tag, Time};
use record::rows::{AgentCycles, GeneratorSecond};

use crate::schedules::Due;

/// Longest recorded time: one hour, in nanoseconds. Longer times are recorded as this value.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 3;

/// The records of one thread for one second.
#[derive(Debug)]
pub struct ThreadInterval {
    /// The clock of all times in this interval.
    pub clock: Clock,
    /// Index of the thread in the whole load.
    pub thread: u32,
    /// Number of threads in the load.
    pub threads: u32,
    /// Whether the thread ends with this interval.
    pub is_last: bool,
    /// Start, seconds since load start: a whole number.
    pub start_s: f64,
    /// End, seconds since load start: one second after the start, except in a thread's last
    /// interval.
    pub end_s: f64,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
    /// Number of services of the load.
    pub services: u32,
    /// Index of the first slot, which starts at `first_slot × slot_s`.
    pub first_slot: u64,
    /// Counts of ended operations for each slot and service, slot by slot. The first slot may
    /// overlap the previous interval, and the last slot the next interval.
    pub slots: Vec<SlotCounts>,
    /// Numbers of attempts that ended.
    pub attempts: Vec<AttemptCount>,
    /// Units of work of `ok` operations.
    pub units: Vec<UnitCount>,
    /// Messages of streams that arrived: names of operations, and numbers.
    pub messages: Vec<(String, u64)>,
    /// Answers that were compared with expectations.
    pub checks: Vec<CheckCount>,
    /// Health of the thread: lateness, CPU, operations in flight.
    pub generator: GeneratorSecond,
    /// Operations on audited keys.
    pub history: Vec<HistoryEntry>,
    /// Time before which no audited operation of later intervals was sent, seconds since load
    /// start. Null unless the load stops at a violation.
    pub open_since_s: Option<f64>,
    /// Messages for the reader of the results.
    pub notices: Vec<String>,
    /// Examples of failures, one for each new kind.
    pub examples: Vec<FailureExample>,
    /// Cycles of each agent of the thread. Only in the thread's last interval.
    pub agent_cycles: Vec<AgentCycles>,
    /// Histograms of the times of operations that ended.
    pub sheet: HistogramSet,
}

/// Counts of operations that ended in a slot, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Number of operations that ended `ok`.
    pub ok: u32,
    /// Number of operations that ended `failed`.
    pub failed: u32,
    /// Number of operations that ended `timeout`.
    pub timeout: u32,
    /// Number of operations that ended `wrong`.
    pub wrong: u32,
}

/// Number of an operation's attempts with one result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptCount {
    /// Name of the operation.
    pub operation: String,
    /// Result of the attempts.
    pub result: String,
    pub count: u64,
}

/// Number of an operation's units of work, or of its answers' parts with one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCount {
    /// Name of the operation.
    pub operation: String,
    /// Status of the parts. Empty for units of work.
    pub status: String,
    pub count: u64,
}

/// Number of an operation's answers that were compared with its expectations, or of the failures of
/// one expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckCount {
    /// Name of the operation.
    pub operation: String,
    /// Field whose expectation failed. Empty for all expectations together.
    pub expectation: String,
    /// Number of compared answers. 0 for one expectation.
    pub answers: u64,
    /// Number of answers that contradict the expectation, or any expectation.
    pub failed: u64,
}

/// Histograms by operation, outcome and time. Each histogram is created at its first use. On drop,
/// the set is emptied and returned to the thread that filled it, so that a running thread allocates
/// nothing.
#[derive(Debug)]
pub struct HistogramSet {
    names: Arc<[String]>,
    cells: Vec<Option<Box<Histogram<u64>>>>,
    home: Option<SyncSender<HistogramSet>>,
}

impl HistogramSet {
    /// Makes an empty set for the named operations. `home` takes the set back on drop.
    #[must_use]
    pub fn new(names: &Arc<[String]>, home: Option<SyncSender<Self>>) -> Self {
        let mut cells = Vec::new();
        cells.resize_with(names.len() * Outcome::ALL.len() * Time::ALL.len(), || None);
        Self { names: Arc::clone(names), cells, home }
    }

    fn cell(&mut self, operation: usize, outcome: Outcome, time: Time) -> Option<&mut Option<Box<Histogram<u64>>>> {
        let place = (operation * Outcome::ALL.len() + outcome as usize) * Time::ALL.len() + time as usize;
        self.cells.get_mut(place)
    }

    /// Records a time of the operation with index `operation`.
    pub fn record(&mut self, operation: usize, outcome: Outcome, time: Time, value_ns: u64) {
        if let Some(histogram) = self.histogram(operation, outcome, time) {
            histogram.saturating_record(value_ns);
        }
    }

    /// Records the same time `count` times.
    pub fn record_n(&mut self, operation: usize, outcome: Outcome, time: Time, value_ns: u64, count: u64) {
        if let Some(histogram) = self.histogram(operation, outcome, time) {
            histogram.saturating_record_n(value_ns, count);
        }
    }

    fn histogram(&mut self, operation: usize, outcome: Outcome, time: Time) -> Option<&mut Histogram<u64>> {
        let cell = self.cell(operation, outcome, time)?;
        if cell.is_none() {
            *cell = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok().map(Box::new);
        }
        cell.as_deref_mut()
    }

    /// Inserts a histogram. Returns `false` if the operation is unknown, the set already has this
    /// histogram, or the histogram's bounds differ from the set's.
    pub(crate) fn insert(&mut self, tag: &Tag, histogram: Histogram<u64>) -> bool {
        let Some(operation) = self.names.iter().position(|name| *name == tag.operation) else { return false };
        let bounds = (histogram.low(), histogram.high(), histogram.sigfig());
        let is_ours = bounds == (1, LONGEST_NS, DIGITS);
        let empty = self.cell(operation, tag.outcome, tag.time).filter(|cell| is_ours && cell.is_none());
        empty.map(|cell| *cell = Some(Box::new(histogram))).is_some()
    }

    /// Returns the names of the operations.
    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// Records operations that were due but had not started by `end_ns`. Each operation counts as
    /// unfinished, with its age as latency. The loop makes at most one step per histogram bucket.
    pub(crate) fn record_due(&mut self, operation: usize, due: &Due, end_ns: u64) {
        let mut place = 0;
        while place < due.count {
            let age_ns = end_ns.saturating_sub(due.at_ns(place));
            let Some(histogram) = self.histogram(operation, Outcome::Unfinished, Time::Latency) else { return };
            // All operations whose ages fall into the same bucket.
            let lowest_ns = histogram.lowest_equivalent(age_ns);
            let spacing_ns = ((due.last_ns - due.first_ns) / (due.count - 1).max(1)).max(1);
            let count = ((age_ns - lowest_ns) / spacing_ns + 1).min(due.count - place);
            histogram.saturating_record_n(age_ns, count);
            place += count;
        }
    }

    /// Returns all histograms that are not empty.
    pub fn histograms(&self) -> impl Iterator<Item = (&str, Outcome, Time, &Histogram<u64>)> {
        let tags = self.names.iter().flat_map(|name| {
            Outcome::ALL.into_iter().flat_map(move |outcome| Time::ALL.map(|time| (name.as_str(), outcome, time)))
        });
        tags.zip(&self.cells)
            .filter_map(|((name, outcome, time), cell)| cell.as_deref().map(|cell| (name, outcome, time, cell)))
            .filter(|(.., histogram)| !histogram.is_empty())
    }

    /// Adds the histograms of another set of the same operations. The sums are exact.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            let Some(theirs) = theirs.as_deref().filter(|theirs| !theirs.is_empty()) else { continue };
            match mine {
                // Both histograms have the same bounds, so every value fits.
                Some(mine) => drop(mine.add(theirs)),
                None => *mine = Some(Box::new(theirs.clone())),
            }
        }
    }
}

impl Drop for HistogramSet {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        for histogram in self.cells.iter_mut().flatten().filter(|histogram| !histogram.is_empty()) {
            histogram.reset();
        }
        let emptied =
            Self { names: Arc::clone(&self.names), cells: std::mem::take(&mut self.cells), home: Some(home.clone()) };
        // If the queue is full or the thread has ended, the set is freed.
        if let Err(error) = home.try_send(emptied) {
            let (std::sync::mpsc::TrySendError::Full(mut back) | std::sync::mpsc::TrySendError::Disconnected(mut back)) =
                error;
            back.home = None;
        }
    }
}
