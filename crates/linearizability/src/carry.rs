//! Knowledge about a key that remains when a window of its history is closed.

use crate::operation::{ABSENT, BEFORE_ALL, FORGOTTEN, Item};

/// Stands for an operation that is not known any more, or for the initial state.
pub(crate) const NO_OPERATION: usize = usize::MAX;

/// A time and the operation that gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness {
    pub at: i64,
    pub operation: usize,
}

/// A value that the key may have at the end of a window.
#[derive(Debug, Clone)]
pub(crate) struct LastValue {
    /// `None` for a value that nobody has seen yet.
    pub value: Option<u64>,
    /// Version plus one, or 0 without a version.
    pub version: u64,
    pub writer: usize,
    /// Least end and greatest start of the operations of its block.
    pub first_end: Witness,
    pub last_start: Witness,
    /// Pending operations that must have taken effect if this is the value, sorted.
    pub used: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Carry {
    /// All values that the key may have. At least one.
    pub last: Vec<LastValue>,
    /// Operations with unknown outcome that may still take effect.
    pub pending: Vec<Item>,
}

/// Value of a key before its first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialValue {
    #[default]
    Absent,
    Value(u64),
    /// Any value that no operation writes.
    Unknown,
    /// The value that the first operations saw although no operation had written it. A value that
    /// no operation names if they saw none.
    Seen,
}

impl Carry {
    pub fn of_initial(initial: InitialValue) -> Self {
        let value = match initial {
            InitialValue::Absent => Some(ABSENT),
            InitialValue::Value(value) => Some(value),
            InitialValue::Unknown => None,
            InitialValue::Seen => Some(FORGOTTEN),
        };
        Self { last: vec![LastValue::at(value, BEFORE_ALL)], pending: Vec::new() }
    }

    /// Whether the pending operations that took effect are the same for every last value.
    pub fn is_plain(&self) -> bool {
        self.last.iter().all(|last| last.used.is_empty())
    }

    /// Removes pending operations that took effect in every case.
    pub fn settle(&mut self) {
        let Some(first) = self.last.first() else { return };
        let in_all = |operation: &usize| self.last.iter().all(|last| last.used.binary_search(operation).is_ok());
        let settled: Vec<usize> = first.used.iter().copied().filter(in_all).collect();
        if !settled.is_empty() {
            self.pending.retain(|item| settled.binary_search(&item.operation).is_err());
            for last in &mut self.last {
                last.used.retain(|operation| settled.binary_search(operation).is_err());
            }
        }
    }
}

impl LastValue {
    /// Makes a value that was current at a time.
    pub fn at(value: Option<u64>, at: i64) -> Self {
        let witness = Witness { at, operation: NO_OPERATION };
        Self { value, version: 0, writer: NO_OPERATION, first_end: witness, last_start: witness, used: Vec::new() }
    }
}
