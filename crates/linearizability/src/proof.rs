//! Proofs of violations: a few operations, and a sentence about them.

use crate::carry::{NO_OPERATION, Witness};
use crate::cluster::Cluster;
use crate::operation::ABSENT;

/// A set of operations that cannot all be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Positions of the operations in the order of `push`, sorted.
    pub core: Vec<usize>,
    pub explanation: String,
}

/// Reason to stop the check of a window.
#[derive(Debug)]
pub(crate) enum Objection {
    Violation(Proof),
    /// The quick method does not apply. Holds the reason.
    Undecided(&'static str),
}

impl From<Proof> for Objection {
    fn from(proof: Proof) -> Self {
        Self::Violation(proof)
    }
}

impl Proof {
    pub(crate) fn new(operations: impl IntoIterator<Item = usize>, explanation: String) -> Self {
        let mut core: Vec<usize> = operations.into_iter().filter(|operation| *operation != NO_OPERATION).collect();
        core.sort_unstable();
        core.dedup();
        Self { core, explanation }
    }

    pub(crate) fn add(&mut self, operation: usize) {
        if operation != NO_OPERATION
            && let Err(place) = self.core.binary_search(&operation)
        {
            self.core.insert(place, operation);
        }
    }

    /// A value was seen that could not be there.
    pub(crate) fn of_unwritten(value: u64, reader: usize) -> Self {
        let value = name(value);
        Self::new(
            [reader],
            format!("operation {reader} saw {value}, which was not written, or had been overwritten earlier"),
        )
    }

    pub(crate) fn of_versions(reader: usize, cluster: &Cluster) -> Self {
        let (value, written) = (name(cluster.value), cluster.version.saturating_sub(1));
        Self::new(
            [reader, cluster.writer],
            format!("operation {reader} saw {value} with another version than {written}, its version elsewhere"),
        )
    }

    pub(crate) fn of_fork(from: u64, first: usize, second: usize) -> Self {
        let value = name(from);
        Self::new(
            [first, second],
            format!("operations {first} and {second} both replaced {value}, which was written only once"),
        )
    }

    /// Values were seen in an order that contradicts `late`, which started after `early` ended.
    pub(crate) fn of_order(early: (Witness, &Cluster), late: (Witness, &Cluster), reason: &str) -> Self {
        let ((early, before), (late, after)) = (early, late);
        let early_name = operation_name(early.operation);
        let late_name = operation_name(late.operation);
        let (first, second) = (name(before.value), name(after.value));
        let explanation = if before.writer == after.writer && before.value == after.value {
            format!("{early_name} saw {first} before {late_name} started to write it")
        } else {
            format!("{early_name} ended with {first} before {late_name} on {second} started, but {reason}")
        };
        Self::new([early.operation, before.writer, late.operation, after.writer], explanation)
    }
}

pub(crate) fn operation_name(operation: usize) -> String {
    if operation == NO_OPERATION { "an earlier operation".to_owned() } else { format!("operation {operation}") }
}

pub(crate) fn name(value: u64) -> String {
    if value == ABSENT { "the absent key".to_owned() } else { format!("value {value}") }
}
