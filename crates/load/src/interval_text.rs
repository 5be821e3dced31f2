//! Text encoding of an interval, for sending it from one process to another. Counts are exact, so a
//! load has the same sums in several processes as in one.

use std::sync::Arc;

use record::clock::Clock;
use record::events::{FailureExample, HistoryEntry};
use record::hlog::{self, Tag};
use record::rows::{AgentCycles, GeneratorSecond};
use serde::{Deserialize, Serialize};

use crate::interval::{AttemptCount, CheckCount, HistogramSet, SlotCounts, ThreadInterval, UnitCount};

/// Maximum number of slots of an interval, over all services: one hour of 1 ms slots for one
/// service.
const MOST_SLOTS: usize = 3_600_000;

/// Limits of an interval: number of notices, characters of a notice, and bytes of a result's or
/// status's name.
const MOST_NOTICES: usize = 16;
const LONGEST_NOTICE: usize = 1000;
const LONGEST_NAME: usize = 1000;

/// Longest load, seconds.
const LONGEST_S: f64 = 1e9;

/// An encoded interval of a thread. The times are on the sender's clock. Every process's clock is
/// zero at load start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalText {
    /// Index of the thread in the whole load.
    pub thread: u32,
    /// Number of threads in the whole load.
    pub threads: u32,
    /// Whether the thread ends with this interval.
    pub is_last: bool,
    /// Start, seconds since load start.
    pub start_s: f64,
    /// End, seconds since load start.
    pub end_s: f64,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
    /// Number of services.
    pub services: u32,
    /// Index of the first slot.
    pub first_slot: u64,
    /// Number of slots, over all services.
    pub slot_count: usize,
    /// Slots in which operations ended: slot index, and numbers of operations that ended `ok`,
    /// `failed`, `timeout`, `wrong`.
    pub slots: Vec<(usize, [u32; 4])>,
    /// Numbers of attempts that ended: operation, result, count.
    pub attempts: Vec<(String, String, u64)>,
    /// Units of work of `ok` operations: operation, status, count.
    pub units: Vec<(String, String, u64)>,
    /// Messages of streams that arrived: operation, count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<(String, u64)>,
    /// Answers that were compared with expectations: operation, expectation, answers, failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<(String, String, u64, u64)>,
    /// Health of the thread.
    pub generator: GeneratorSecond,
    /// Operations on audited keys.
    pub history: Vec<HistoryEntry>,
    /// Messages for the reader of the results.
    pub notices: Vec<String>,
    /// Examples of failures, one for each new kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailureExample>,
    /// Cycles of each agent of the thread. Only in the thread's last interval.
    pub agent_cycles: Vec<AgentCycles>,
    /// Names of the operations, in the order of their indexes.
    pub operations: Vec<String>,
    /// Times of ended operations: tag and histogram, encoded as in `load.hlog`.
    pub histograms: Vec<(String, String)>,
}

/// Properties common to all intervals of a load. Received intervals are checked against these
/// properties.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalTerms {
    /// Names of the operations, in the order of their indexes.
    pub operations: Arc<[String]>,
    /// Number of threads in the whole load.
    pub threads: u32,
    /// Number of services.
    pub services: u32,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
}

/// A defect of a received interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntervalTextError {
    /// A time or index is out of range.
    #[error("invalid {0} in an interval")]
    Impossible(&'static str),
    /// A histogram is not valid.
    #[error("the histogram `{tag}`: {reason}")]
    Histogram {
        /// Tag of the histogram.
        tag: String,
        reason: String,
    },
    /// The operations belong to another load.
    #[error("an interval of another load: its operations are {0}")]
    Operations(String),
}

impl IntervalText {
    /// Encodes an interval.
    ///
    /// # Errors
    /// Returns an error if a histogram's counts exceed the encoding.
    pub fn of(interval: &ThreadInterval) -> Result<Self, IntervalTextError> {
        let counted = |counts: &SlotCounts| [counts.ok, counts.failed, counts.timeout, counts.wrong];
        let slots = interval.slots.iter().map(counted).enumerate();
        let histogram = |(operation, outcome, time, histogram): (&str, _, _, &_)| {
            let tag = Tag { operation: operation.to_owned(), outcome, time }.to_string();
            match hlog::payload(histogram) {
                Ok(payload) => Ok((tag, payload)),
                Err(reason) => Err(IntervalTextError::Histogram { tag, reason }),
            }
        };
        let attempts = interval.attempts.iter().cloned().map(|attempts| {
            let AttemptCount { operation, result, count } = attempts;
            (operation, result, count)
        });
        let units = interval.units.iter().cloned().map(|units| (units.operation, units.status, units.count));
        let checks = interval.checks.iter().cloned().map(|checks| {
            let CheckCount { operation, expectation, answers, failed } = checks;
            (operation, expectation, answers, failed)
        });
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
            messages: interval.messages.clone(),
            checks: checks.collect(),
            generator: interval.generator.clone(),
            history: interval.history.clone(),
            notices: interval.notices.clone(),
            examples: interval.examples.clone(),
            agent_cycles: interval.agent_cycles.clone(),
            operations: interval.sheet.names().to_vec(),
            histograms: interval.sheet.histograms().map(histogram).collect::<Result<_, _>>()?,
        })
    }

    /// Decodes the interval, on this process's clock, for a load with these terms.
    ///
    /// # Errors
    /// Returns the defect of the interval. The sender is not trusted: an interval with a defect is
    /// rejected completely.
    pub fn into_interval(self, clock: Clock, terms: &IntervalTerms) -> Result<ThreadInterval, IntervalTextError> {
        if *self.operations != *terms.operations {
            return Err(IntervalTextError::Operations(self.operations.join(", ")));
        }
        if self.thread >= self.threads || self.threads != terms.threads {
            return Err(IntervalTextError::Impossible("thread"));
        }
        let is_time = |of_s: f64| (0.0..=LONGEST_S).contains(&of_s);
        if !is_time(self.start_s) || !is_time(self.end_s) || self.end_s < self.start_s {
            return Err(IntervalTextError::Impossible("time"));
        }
        let is_ours = (self.slot_s, self.services) == (terms.slot_s, terms.services) && self.services > 0;
        let has_begun = self.first_slot as f64 * self.slot_s <= self.end_s + self.slot_s;
        if !is_ours || !has_begun || self.slot_count > MOST_SLOTS {
            return Err(IntervalTextError::Impossible("slots"));
        }
        let mut slots = vec![SlotCounts::default(); self.slot_count];
        for (place, [ok, failed, timeout, wrong]) in self.slots {
            let slot = slots.get_mut(place).ok_or(IntervalTextError::Impossible("slot"))?;
            *slot = SlotCounts { ok, failed, timeout, wrong };
        }
        let mut sheet = HistogramSet::new(&terms.operations, None);
        for (text, payload) in self.histograms {
            let wrong = |reason: &str| IntervalTextError::Histogram { tag: text.clone(), reason: reason.to_owned() };
            let tag = Tag::parse(&text).ok_or_else(|| wrong("not a tag"))?;
            let histogram = hlog::histogram_of(&payload).map_err(|reason| wrong(&reason))?;
            if !sheet.insert(&tag, histogram) {
                return Err(wrong("it belongs to another load, or occurs twice"));
            }
        }
        let names = self.attempts.iter().chain(&self.units).map(|(operation, name, _)| (operation, name));
        let names = names.chain(self.messages.iter().map(|(operation, _)| (operation, operation)));
        let mut names = names.chain(self.checks.iter().map(|(operation, field, ..)| (operation, field)));
        if names.any(|(operation, name)| operation.len().max(name.len()) > LONGEST_NAME) {
            return Err(IntervalTextError::Impossible("names"));
        }
        if self.checks.iter().any(|(_, field, answers, failed)| field.is_empty() && failed > answers) {
            return Err(IntervalTextError::Impossible("checks"));
        }
        let attempt = |(operation, result, count)| AttemptCount { operation, result, count };
        let unit = |(operation, status, count)| UnitCount { operation, status, count };
        let check = |(operation, expectation, answers, failed)| CheckCount { operation, expectation, answers, failed };
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
            messages: self.messages,
            checks: self.checks.into_iter().map(check).collect(),
            generator: self.generator,
            history: self.history,
            open_since_s: None,
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

/// Shortens the texts of an example to [`LONGEST_NOTICE`].
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
