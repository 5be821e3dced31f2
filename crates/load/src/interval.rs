//! What an engine thread hands over at every whole second of the clock.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use hdrhistogram::Histogram;
use record::clock::Clock;
use record::events::{FailureExample, HistoryEntry, Outcome};
use record::hlog::{Tag, Time};
use record::rows::{AgentCycles, GeneratorSecond};

use crate::schedules::Due;

/// The longest time that is told apart from longer ones: an hour, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 3;

/// A thread's second.
#[derive(Debug)]
pub struct ThreadInterval {
    /// The clock that every time here counts on.
    pub clock: Clock,
    /// Number of the thread, from 0.
    pub thread: u32,
    /// Threads in all.
    pub threads: u32,
    /// Whether the thread ends with this interval.
    pub is_last: bool,
    /// Start, seconds since load start: a whole number.
    pub start_s: f64,
    /// End, seconds since load start: a whole second later, but for a thread's last interval.
    pub end_s: f64,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
    /// Services that agents go to, in the order of the load's.
    pub services: u32,
    /// Number of the first slot, which starts at `first_slot × slot_s`.
    pub first_slot: u64,
    /// What ended in each slot at each service: first those of the first slot. The first slot and the last may be shared with the
    /// intervals before and after.
    pub slots: Vec<SlotCounts>,
    /// Attempts that ended.
    pub attempts: Vec<AttemptCount>,
    /// What `ok` operations did.
    pub units: Vec<UnitCount>,
    /// The thread's own health.
    pub generator: GeneratorSecond,
    /// Operations on audited keys.
    pub history: Vec<HistoryEntry>,
    /// What a reader must know.
    pub notices: Vec<String>,
    /// Failures of a kind that the thread has not met before.
    pub examples: Vec<FailureExample>,
    /// Of each agent of the thread, with its last interval.
    pub agent_cycles: Vec<AgentCycles>,
    /// Times of the operations that ended.
    pub sheet: HistogramSet,
}

/// What ended in a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Operations that ended `ok`.
    pub ok: u32,
    /// … `failed`.
    pub failed: u32,
    /// … `timeout`.
    pub timeout: u32,
    /// … `wrong`.
    pub wrong: u32,
}

/// Attempts of an operation that ended with a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptCount {
    /// Name of the operation.
    pub operation: String,
    /// Their result.
    pub result: String,
    /// How many.
    pub count: u64,
}

/// Units of work that an operation did, or parts of its answers that had a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCount {
    /// Name of the operation.
    pub operation: String,
    /// The parts' status; empty: units.
    pub status: String,
    /// How many.
    pub count: u64,
}

/// Histograms by operation, outcome and time, each made when it is first needed. When it is dropped it goes back, emptied, to the
/// thread that filled it, so that a running thread allocates nothing.
#[derive(Debug)]
pub struct HistogramSet {
    names: Arc<[String]>,
    cells: Vec<Option<Box<Histogram<u64>>>>,
    home: Option<SyncSender<HistogramSet>>,
}

const TIMES: [Time; 3] = [Time::Latency, Time::Service, Time::Punctual];

impl HistogramSet {
    /// An empty sheet for operations of these names, to be sent `home` when done with.
    #[must_use]
    pub fn new(names: &Arc<[String]>, home: Option<SyncSender<Self>>) -> Self {
        let mut cells = Vec::new();
        cells.resize_with(names.len() * Outcome::ALL.len() * TIMES.len(), || None);
        Self { names: Arc::clone(names), cells, home }
    }

    fn cell(&mut self, operation: usize, outcome: Outcome, time: Time) -> Option<&mut Option<Box<Histogram<u64>>>> {
        let place = (operation * Outcome::ALL.len() + outcome as usize) * TIMES.len() + time as usize;
        self.cells.get_mut(place)
    }

    /// Counts a time of the operation of that number.
    pub fn record(&mut self, operation: usize, outcome: Outcome, time: Time, value_ns: u64) {
        if let Some(histogram) = self.histogram(operation, outcome, time) {
            histogram.saturating_record(value_ns);
        }
    }

    fn histogram(&mut self, operation: usize, outcome: Outcome, time: Time) -> Option<&mut Histogram<u64>> {
        let cell = self.cell(operation, outcome, time)?;
        if cell.is_none() {
            *cell = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok().map(Box::new);
        }
        cell.as_deref_mut()
    }

    /// Puts a histogram into its empty place; `false` if there is no such place, it is taken, or the histogram has not the bounds that all
    /// have here.
    pub(crate) fn insert(&mut self, tag: &Tag, histogram: Histogram<u64>) -> bool {
        let Some(operation) = self.names.iter().position(|name| *name == tag.operation) else { return false };
        let bounds = (histogram.low(), histogram.high(), histogram.sigfig());
        let is_ours = bounds == (1, LONGEST_NS, DIGITS);
        let empty = self.cell(operation, tag.outcome, tag.time).filter(|cell| is_ours && cell.is_none());
        empty.map(|cell| *cell = Some(Box::new(histogram))).is_some()
    }

    /// Names of its operations.
    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// Counts operations that were due and had not begun by `end_ns`, as open for so long; at most as many steps as there are
    /// buckets.
    pub(crate) fn record_due(&mut self, operation: usize, due: &Due, end_ns: u64) {
        let mut place = 0;
        while place < due.count {
            let age_ns = end_ns.saturating_sub(due.at_ns(place));
            let Some(histogram) = self.histogram(operation, Outcome::Unfinished, Time::Latency) else { return };
            // All that fall into the bucket of this one.
            let lowest_ns = histogram.lowest_equivalent(age_ns);
            let spacing_ns = ((due.last_ns - due.first_ns) / (due.count - 1).max(1)).max(1);
            let count = ((age_ns - lowest_ns) / spacing_ns + 1).min(due.count - place);
            histogram.saturating_record_n(age_ns, count);
            place += count;
        }
    }

    /// Every histogram that holds something.
    pub fn histograms(&self) -> impl Iterator<Item = (&str, Outcome, Time, &Histogram<u64>)> {
        let tags = self.names.iter().flat_map(|name| {
            Outcome::ALL.into_iter().flat_map(move |outcome| TIMES.map(|time| (name.as_str(), outcome, time)))
        });
        tags.zip(&self.cells)
            .filter_map(|((name, outcome, time), cell)| cell.as_deref().map(|cell| (name, outcome, time, cell)))
            .filter(|(.., histogram)| !histogram.is_empty())
    }

    /// Adds what another sheet of the same operations holds: exactly, no count is lost.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            let Some(theirs) = theirs.as_deref().filter(|theirs| !theirs.is_empty()) else { continue };
            match mine {
                // Both have the same bounds, so that nothing can fall outside.
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
        // A full queue or a thread that has ended: then nobody needs it.
        if let Err(error) = home.try_send(emptied) {
            let (std::sync::mpsc::TrySendError::Full(mut back) | std::sync::mpsc::TrySendError::Disconnected(mut back)) =
                error;
            back.home = None;
        }
    }
}
