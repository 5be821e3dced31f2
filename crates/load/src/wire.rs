//! An interval as text that goes from one process to another. Counts arrive as they were, so that what a recorder adds up from several
//! processes is what it would have added up from their threads.

use std::sync::Arc;

use record::clock::Clock;
use record::events::{FailureExample, HistoryEntry};
use record::hlog::{self, Tag};
use record::rows::{AgentCycles, GeneratorSecond};
use serde::{Deserialize, Serialize};

use crate::interval::{AttemptCount, HistogramSet, SlotCounts, ThreadInterval, UnitCount};

/// The longest interval that is taken, in slots of all services: an hour of milliseconds at one.
const MOST_SLOTS: usize = 3_600_000;

/// Notices of an interval that are kept, and characters of each; bytes of a result's or status's name.
const MOST_NOTICES: usize = 16;
const LONGEST_NOTICE: usize = 1000;
const LONGEST_NAME: usize = 1000;

/// No load lasts so long, seconds.
const LONGEST_S: f64 = 1e9;

/// A thread's second, as it is handed over: times count on the sender's clock, whose zero is load start as is that of all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireInterval {
    /// Number of the thread, from 0 over the whole load.
    pub thread: u32,
    /// Threads of the whole load.
    pub threads: u32,
    /// Whether the thread ends with this interval.
    pub is_last: bool,
    /// Start, seconds since load start.
    pub start_s: f64,
    /// End, seconds since load start.
    pub end_s: f64,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
    /// Services that agents go to.
    pub services: u32,
    /// Number of the first slot.
    pub first_slot: u64,
    /// How many slots there are, those of all services counted.
    pub slot_count: usize,
    /// Those in which something ended: place, and how many `ok`, `failed`, `timeout`, `wrong`.
    pub slots: Vec<(usize, [u32; 4])>,
    /// Attempts that ended: operation, result, how many.
    pub attempts: Vec<(String, String, u64)>,
    /// What `ok` operations did: operation, status, how many.
    pub units: Vec<(String, String, u64)>,
    /// The thread's own health.
    pub generator: GeneratorSecond,
    /// Operations on audited keys.
    pub history: Vec<HistoryEntry>,
    /// What a reader must know.
    pub notices: Vec<String>,
    /// Failures of a kind that the thread has not met before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailureExample>,
    /// Of each agent of the thread, with its last interval.
    pub agent_cycles: Vec<AgentCycles>,
    /// Names of the operations, in the order in which they are counted.
    pub operations: Vec<String>,
    /// What ended, as in `load.hlog`: the tag, and the histogram in the log's encoding.
    pub histograms: Vec<(String, String)>,
}

/// What all intervals of a load have in common: what comes is held against it.
#[derive(Debug, Clone, PartialEq)]
pub struct WireTerms {
    /// Names of the operations, in the order in which they are counted.
    pub operations: Arc<[String]>,
    /// Threads of the whole load.
    pub threads: u32,
    /// Services that agents go to.
    pub services: u32,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
}

/// What is wrong with an interval that came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Times or places that cannot be.
    #[error("an interval whose {0} cannot be")]
    Impossible(&'static str),
    /// A histogram.
    #[error("the histogram `{tag}`: {reason}")]
    Histogram {
        /// What it is of.
        tag: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Operations of another load.
    #[error("an interval of another load: it counts {0}")]
    Operations(String),
}

impl WireInterval {
    /// What is handed over of an interval.
    ///
    /// # Errors
    /// If a histogram holds more than its encoding can say.
    pub fn of(interval: &ThreadInterval) -> Result<Self, WireError> {
        let counted = |counts: &SlotCounts| [counts.ok, counts.failed, counts.timeout, counts.wrong];
        let slots = interval.slots.iter().map(counted).enumerate();
        let histogram = |(operation, outcome, time, histogram): (&str, _, _, &_)| {
            let tag = Tag { operation: operation.to_owned(), outcome, time }.to_string();
            match hlog::payload(histogram) {
                Ok(payload) => Ok((tag, payload)),
                Err(reason) => Err(WireError::Histogram { tag, reason }),
            }
        };
        let attempts = interval.attempts.iter().cloned().map(|attempts| {
            let AttemptCount { operation, result, count } = attempts;
            (operation, result, count)
        });
        let units = interval.units.iter().cloned().map(|units| (units.operation, units.status, units.count));
        Ok(Self {
            thread: interval.thread,
            threads: interval.threads,
            is_last: interval.is_last,
            start_s: interval.start_s,
            end_s: interval.end_s,
            slot_s: interval.slot_s,
            services: interval.services,
            first_slot: interval.first_slot,
            slot_count: interval.slots.len(),
            slots: slots.filter(|(_, counts)| *counts != [0; 4]).collect(),
            attempts: attempts.collect(),
            units: units.collect(),
            generator: interval.generator.clone(),
            history: interval.history.clone(),
            notices: interval.notices.clone(),
            examples: interval.examples.clone(),
            agent_cycles: interval.agent_cycles.clone(),
            operations: interval.sheet.names().to_vec(),
            histograms: interval.sheet.histograms().map(histogram).collect::<Result<_, _>>()?,
        })
    }

    /// The interval, on this process's clock, of a load like that.
    ///
    /// # Errors
    /// What is wrong with what came: it is not trusted, and nothing of it counts then.
    pub fn into_interval(self, clock: Clock, terms: &WireTerms) -> Result<ThreadInterval, WireError> {
        if *self.operations != *terms.operations {
            return Err(WireError::Operations(self.operations.join(", ")));
        }
        if self.thread >= self.threads || self.threads != terms.threads {
            return Err(WireError::Impossible("thread"));
        }
        let is_time = |of_s: f64| (0.0..=LONGEST_S).contains(&of_s);
        if !is_time(self.start_s) || !is_time(self.end_s) || self.end_s < self.start_s {
            return Err(WireError::Impossible("time"));
        }
        let is_ours = (self.slot_s, self.services) == (terms.slot_s, terms.services) && self.services > 0;
        let has_begun = self.first_slot as f64 * self.slot_s <= self.end_s + self.slot_s;
        if !is_ours || !has_begun || self.slot_count > MOST_SLOTS {
            return Err(WireError::Impossible("slots"));
        }
        let mut slots = vec![SlotCounts::default(); self.slot_count];
        for (place, [ok, failed, timeout, wrong]) in self.slots {
            let slot = slots.get_mut(place).ok_or(WireError::Impossible("slot"))?;
            *slot = SlotCounts { ok, failed, timeout, wrong };
        }
        let mut sheet = HistogramSet::new(&terms.operations, None);
        for (text, payload) in self.histograms {
            let wrong = |reason: &str| WireError::Histogram { tag: text.clone(), reason: reason.to_owned() };
            let tag = Tag::parse(&text).ok_or_else(|| wrong("not a tag"))?;
            let histogram = hlog::histogram_of(&payload).map_err(|reason| wrong(&reason))?;
            if !sheet.insert(&tag, histogram) {
                return Err(wrong("of another load, or there twice"));
            }
        }
        let names = self.attempts.iter().chain(&self.units).map(|(operation, name, _)| operation.len().max(name.len()));
        if names.max().unwrap_or(0) > LONGEST_NAME {
            return Err(WireError::Impossible("names"));
        }
        let attempt = |(operation, result, count)| AttemptCount { operation, result, count };
        let unit = |(operation, status, count)| UnitCount { operation, status, count };
        Ok(ThreadInterval {
            clock,
            thread: self.thread,
            threads: self.threads,
            is_last: self.is_last,
            start_s: self.start_s,
            end_s: self.end_s,
            slot_s: self.slot_s,
            services: self.services,
            first_slot: self.first_slot,
            slots,
            attempts: self.attempts.into_iter().map(attempt).collect(),
            units: self.units.into_iter().map(unit).collect(),
            generator: self.generator,
            history: self.history,
            notices: self.notices.into_iter().take(MOST_NOTICES).map(shortened).collect(),
            examples: self.examples.into_iter().take(MOST_NOTICES).map(short_example).collect(),
            agent_cycles: self.agent_cycles,
            sheet,
        })
    }
}

fn shortened(notice: String) -> String {
    notice.chars().take(LONGEST_NOTICE).collect()
}

/// An example whose texts are no longer than a notice.
fn short_example(example: FailureExample) -> FailureExample {
    FailureExample {
        operation: shortened(example.operation),
        result: shortened(example.result),
        request: shortened(example.request),
        expectation: example.expectation.map(shortened),
        got: example.got.map(shortened),
        answer: example.answer.map(shortened),
    }
}

#[cfg(test)]
mod tests;
