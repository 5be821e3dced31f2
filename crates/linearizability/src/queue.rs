//! Linearizability of queues whose values are enqueued once: sorting decides it.
//!
//! A queue is linearizable if no two values left it in the wrong order, and no dequeue found it
//! empty although some value must have been in it at every moment (Henzinger, Sezgin and Vafeiadis,
//! "Aspect-oriented linearizability proofs", 2013; Bouajjani, Emmi, Enea and Hamza, "On reducing
//! linearizability to state reachability", 2015). The value of a dequeue must have been enqueued,
//! and no value may be dequeued twice. For a queue without order, the first condition is left out.
//!
//! An enqueue without an answer happened if its value was dequeued; otherwise it need not have.
//! A dequeue without an answer may have taken a value. The other values are matched with these
//! dequeues in order: the k-th value by the end of its enqueue, the k-th dequeue by its start. If
//! any assignment explains the history, this one does. Proof: a value has to be taken before the
//! moment at which a later value was dequeued, or at which the queue was empty. A value whose
//! enqueue ended earlier has to be taken at that moment or earlier. So if the k-th value has to be
//! taken before a moment, the first k values have to, and k dequeues must have started by then.
//! All conditions are of this kind, and the first k dequeues meet them if any k dequeues do.

use std::collections::hash_map::Entry;

use crate::carry::NO_OPERATION;
use crate::checker::KeyMap;
use crate::explanation::{Explanation, ExplanationPart, explained};
use crate::key_history::Linearizability;
use crate::operation::{BEFORE_ALL, NEVER, Status, effect_interval};
use crate::proof::{Proof, name, operation_name};

#[cfg(test)]
mod tests;

/// An operation on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOperation {
    pub start_ns: i64,
    /// `None` if no answer came.
    pub end_ns: Option<i64>,
    pub access: QueueAccess,
    pub status: Status,
}

/// Kind of operation on a queue, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueAccess {
    Enqueue {
        value: u64,
    },
    /// `None` if the queue was empty. The value of a dequeue with unknown outcome is ignored.
    Dequeue {
        value: Option<u64>,
    },
}

/// Conditions of the check of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whether values leave the queue in the order in which they entered it.
    pub is_ordered: bool,
    /// Whether the queue was empty before the first operation. Otherwise it held, in an unknown
    /// order, the dequeued values that no operation enqueued.
    pub starts_empty: bool,
    /// Greatest difference between a client's clock and the common one.
    pub clock_error_ns: i64,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { is_ordered: true, starts_empty: true, clock_error_ns: 0 }
    }
}

/// Checks a history of one queue, in n log n. The proof of a violation refers to positions in
/// `operations`. There is no verdict if a value was enqueued twice.
pub fn check_queue(operations: &[QueueOperation], settings: QueueSettings) -> Linearizability {
    let mut queue = match QueueHistory::new(operations, settings) {
        Ok(queue) => queue,
        Err(verdict) => return verdict,
    };
    queue.match_unanswered();
    let in_order = if settings.is_ordered { queue.check_order() } else { Ok(()) };
    match in_order.and_then(|()| queue.check_empty()) {
        Ok(()) => Linearizability::Linearizable,
        Err(proof) => Linearizability::Violation(proof),
    }
}

/// Interval in which an operation took effect.
#[derive(Debug, Clone, Copy)]
struct EffectSpan {
    start: i64,
    end: i64,
    operation: usize,
}

/// A dequeue that never happens.
const NO_DEQUEUE: EffectSpan = EffectSpan { start: NEVER, end: NEVER, operation: NO_OPERATION };

/// Stay of a value in the queue.
#[derive(Debug, Clone, Copy)]
struct QueuedValue {
    value: u64,
    enqueue: EffectSpan,
    dequeue: EffectSpan,
    /// Place among the values that no known dequeue returned.
    rank: Option<usize>,
}

#[derive(Debug, Default)]
struct QueueHistory {
    values: Vec<QueuedValue>,
    /// Dequeues that found the queue empty.
    empties: Vec<EffectSpan>,
    /// Dequeues without an answer, by start.
    unanswered: Vec<EffectSpan>,
    /// Enqueues of the values that no known dequeue returned, by end.
    remaining: Vec<usize>,
}

impl QueueHistory {
    fn new(operations: &[QueueOperation], settings: QueueSettings) -> Result<Self, Linearizability> {
        let mut queue = Self::default();
        let mut places: KeyMap<usize> = KeyMap::default();
        for (place, operation) in operations.iter().enumerate() {
            let QueueAccess::Enqueue { value } = operation.access else { continue };
            let Some(enqueue) = operation.span(place, settings.clock_error_ns) else { continue };
            match places.entry(value) {
                Entry::Occupied(_) => return Err(Linearizability::Unknown { why: TWICE.to_owned() }),
                Entry::Vacant(vacant) => vacant.insert(queue.values.len()),
            };
            queue.values.push(QueuedValue { value, enqueue, dequeue: NO_DEQUEUE, rank: None });
        }
        for (place, operation) in operations.iter().enumerate() {
            let QueueAccess::Dequeue { value } = operation.access else { continue };
            let Some(dequeue) = operation.span(place, settings.clock_error_ns) else { continue };
            match (operation.status, value) {
                (Status::Unknown, _) => queue.unanswered.push(dequeue),
                (_, None) if dequeue.end == NEVER => {}
                (_, None) => queue.empties.push(dequeue),
                (_, Some(value)) => {
                    let place = *places.entry(value).or_insert_with(|| queue.add_unwritten(value, settings));
                    queue.values[place].leave(dequeue).map_err(Linearizability::Violation)?;
                }
            }
        }
        queue.values.retain(|value| value.enqueue.end != NEVER || value.dequeue.operation != NO_OPERATION);
        queue.values.iter_mut().for_each(QueuedValue::narrow);
        Ok(queue)
    }

    /// Adds a value that no operation enqueued.
    fn add_unwritten(&mut self, value: u64, settings: QueueSettings) -> usize {
        let at = if settings.starts_empty { NEVER } else { BEFORE_ALL };
        let enqueue = EffectSpan { start: at, end: at, operation: NO_OPERATION };
        self.values.push(QueuedValue { value, enqueue, dequeue: NO_DEQUEUE, rank: None });
        self.values.len() - 1
    }

    /// Assigns the dequeues without an answer to values that no known dequeue returned.
    fn match_unanswered(&mut self) {
        self.unanswered.sort_unstable_by_key(|dequeue| (dequeue.start, dequeue.operation));
        let is_remaining = |value: &QueuedValue| value.dequeue.operation == NO_OPERATION;
        let mut remaining: Vec<usize> =
            (0..self.values.len()).filter(|&place| is_remaining(&self.values[place])).collect();
        remaining.sort_unstable_by_key(|&place| (self.values[place].enqueue.end, place));
        for (rank, &place) in remaining.iter().enumerate() {
            let start = self.unanswered.get(rank).map_or(NEVER, |dequeue| dequeue.start);
            let value = &mut self.values[place];
            (value.dequeue.start, value.rank) = (start, Some(rank));
        }
        self.remaining = remaining.into_iter().map(|place| self.values[place].enqueue.operation).collect();
    }

    /// Finds two values of which the second one was enqueued after the first one, and dequeued
    /// before it. More complicated contradictions contain such a pair: enqueues and dequeues are
    /// each ordered as intervals, so a cycle of more than two values has a shorter one.
    fn check_order(&self) -> Result<(), Proof> {
        let mut by_start: Vec<&QueuedValue> = self.values.iter().collect();
        by_start.sort_unstable_by_key(|value| value.enqueue.start);
        let mut by_end: Vec<&QueuedValue> = self.values.iter().collect();
        by_end.sort_unstable_by_key(|value| value.enqueue.end);
        let mut earlier = by_end.into_iter().peekable();
        let mut last_to_leave: Option<&QueuedValue> = None;
        for second in by_start {
            while let Some(value) = earlier.next_if(|value| value.enqueue.end < second.enqueue.start) {
                if last_to_leave.is_none_or(|last| value.dequeue.start > last.dequeue.start) {
                    last_to_leave = Some(value);
                }
            }
            if let Some(first) = last_to_leave.filter(|first| second.dequeue.end < first.dequeue.start) {
                return Err(self.of_order(first, second));
            }
        }
        Ok(())
    }

    /// Finds a dequeue that found the queue empty, with a value in the queue at every moment.
    fn check_empty(&self) -> Result<(), Proof> {
        if self.empties.is_empty() {
            return Ok(());
        }
        let mut stays: Vec<&QueuedValue> =
            self.values.iter().filter(|value| value.enqueue.end < value.dequeue.start).collect();
        stays.sort_unstable_by_key(|value| value.enqueue.end);
        // Stretches of time at each moment of which a value is in the queue, without their ends.
        let mut busy: Vec<(i64, i64)> = Vec::new();
        for stay in &stays {
            match busy.last_mut() {
                Some((_, until)) if stay.enqueue.end < *until => *until = (*until).max(stay.dequeue.start),
                _ => busy.push((stay.enqueue.end, stay.dequeue.start)),
            }
        }
        for empty in &self.empties {
            let begun = busy.partition_point(|(since, _)| *since < empty.start);
            if begun.checked_sub(1).is_some_and(|last| empty.end < busy[last].1) {
                return Err(self.of_empty(empty, &chain(&stays, empty)));
            }
        }
        Ok(())
    }

    /// Returns the operations that prove when a value was in the queue.
    fn operations_of(&self, value: &QueuedValue) -> Vec<usize> {
        let mut operations = vec![value.enqueue.operation, value.dequeue.operation];
        if let Some(rank) = value.rank {
            operations.extend(&self.remaining[..rank]);
            operations.extend(self.unanswered.iter().take(rank).map(|dequeue| dequeue.operation));
        }
        operations
    }

    fn of_order(&self, first: &QueuedValue, second: &QueuedValue) -> Proof {
        let (enqueued, dequeued) = (operation_name(second.enqueue.operation), operation_name(second.dequeue.operation));
        let (before, after) = (name(first.value), name(second.value));
        let mut parts = vec![before.clone(), " was in the queue before ".into(), enqueued, " enqueued ".into(), after];
        parts.extend([", but ".into(), dequeued, " took that one before ".into()]);
        match first.rank {
            None => parts.extend([operation_name(first.dequeue.operation), " took ".into(), before]),
            Some(_) => parts.extend([before, " was taken".into()]),
        }
        parts.extend(too_few(first.rank));
        let operations = [self.operations_of(first), self.operations_of(second)];
        Proof::new(operations.into_iter().flatten(), Explanation::of(parts))
    }

    fn of_empty(&self, empty: &EffectSpan, stays: &[&QueuedValue]) -> Proof {
        let mut parts = vec![operation_name(empty.operation), " found the queue empty, but".into()];
        let mut join = if stays.len() == 1 { " " } else { " one of " };
        for stay in stays {
            parts.extend([join.into(), name(stay.value)]);
            join = ", ";
        }
        parts.push(if stays.len() == 1 { " was in it all the time" } else { " was in it at every moment" }.into());
        parts.extend(too_few(stays.iter().filter_map(|stay| stay.rank).max()));
        let proving = stays.iter().flat_map(|stay| self.operations_of(stay)).chain([empty.operation]);
        Proof::new(proving, Explanation::of(parts))
    }
}

const TWICE: &str = "a value was enqueued twice";

/// Says why dequeues without an answer do not explain a violation.
fn too_few(rank: Option<usize>) -> Vec<ExplanationPart> {
    let Some(count) = rank.filter(|rank| *rank > 0) else { return Vec::new() };
    let (dequeues, values) = (ExplanationPart::Number(count as u64), ExplanationPart::Number(count as u64 + 1));
    vec![
        ": the ".into(),
        values,
        " values up to this one were enqueued first, and dequeues without an answer can have taken only ".into(),
        dequeues,
        " of them by then".into(),
    ]
}

/// Returns values of which at least one is in the queue at each moment of an operation.
fn chain<'q>(stays: &[&'q QueuedValue], empty: &EffectSpan) -> Vec<&'q QueuedValue> {
    let mut chain = Vec::new();
    let mut reached = empty.start;
    let mut rest = stays.iter().copied().peekable();
    let mut longest: Option<&QueuedValue> = None;
    while reached <= empty.end {
        while let Some(stay) = rest.next_if(|stay| stay.enqueue.end < reached) {
            if longest.is_none_or(|longest| stay.dequeue.start > longest.dequeue.start) {
                longest = Some(stay);
            }
        }
        let Some(stay) = longest.filter(|stay| stay.dequeue.start > reached) else { break };
        chain.push(stay);
        reached = stay.dequeue.start;
    }
    chain
}

impl QueuedValue {
    /// Adds a dequeue of the value.
    fn leave(&mut self, dequeue: EffectSpan) -> Result<(), Proof> {
        let (written, taken) = (self.enqueue.operation, operation_name(dequeue.operation));
        if self.dequeue.operation != NO_OPERATION {
            let other = operation_name(self.dequeue.operation);
            let text = explained![other, " and ", taken, " both took ", name(self.value), ", which was enqueued once"];
            return Err(Proof::new([self.dequeue.operation, dequeue.operation, written], text));
        }
        if self.enqueue.start == NEVER {
            let text = explained![taken, " took ", name(self.value), ", which was never enqueued"];
            return Err(Proof::new([dequeue.operation], text));
        }
        if dequeue.end < self.enqueue.start {
            let before = " before its enqueue by ";
            let text = explained![taken, " took ", name(self.value), before, operation_name(written), " started"];
            return Err(Proof::new([dequeue.operation, written], text));
        }
        self.dequeue = dequeue;
        Ok(())
    }

    /// Narrows the intervals: a value is dequeued after it is enqueued.
    fn narrow(&mut self) {
        if self.dequeue.operation != NO_OPERATION {
            self.enqueue.end = self.enqueue.end.min(self.dequeue.end);
            self.dequeue.start = self.dequeue.start.max(self.enqueue.start);
        }
    }
}

impl QueueOperation {
    /// Returns the interval of the effect, or `None` if there was none for certain.
    fn span(&self, operation: usize, clock_error_ns: i64) -> Option<EffectSpan> {
        let (start, end) = effect_interval((self.start_ns, self.end_ns), self.status, clock_error_ns)?;
        Some(EffectSpan { start, end, operation })
    }
}
