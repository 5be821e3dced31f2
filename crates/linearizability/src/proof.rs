//! Proofs of violations: a few operations, and a sentence about them.

use crate::carry::{NO_OPERATION, Witness};
use crate::cluster::Cluster;
use crate::explanation::{Explanation, ExplanationPart, explained};

/// A set of operations that cannot all be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Positions of the operations in the order of `push`, sorted.
    pub core: Vec<usize>,
    pub explanation: Explanation,
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
    pub(crate) fn new(operations: impl IntoIterator<Item = usize>, explanation: Explanation) -> Self {
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
        let reason = ", which was not written, or had been overwritten earlier";
        Self::new([reader], explained![operation_name(reader), " saw ", name(value), reason])
    }

    pub(crate) fn of_versions(reader: usize, cluster: &Cluster) -> Self {
        let written = ExplanationPart::Number(cluster.version.saturating_sub(1));
        let (reader_name, value) = (operation_name(reader), name(cluster.value));
        Self::new(
            [reader, cluster.writer],
            explained![reader_name, " saw ", value, " with another version than ", written, ", its version elsewhere"],
        )
    }

    pub(crate) fn of_fork(from: u64, first: usize, second: usize) -> Self {
        let (one, other) = (operation_name(first), operation_name(second));
        Self::new(
            [first, second],
            explained![one, " and ", other, " both replaced ", name(from), ", which was written only once"],
        )
    }

    /// Values were seen in an order that contradicts `late`, which started after `early` ended.
    pub(crate) fn of_order(early: (Witness, &Cluster), late: (Witness, &Cluster), reason: &'static str) -> Self {
        let ((early, before), (late, after)) = (early, late);
        let early_name = operation_name(early.operation);
        let late_name = operation_name(late.operation);
        let (first, second) = (name(before.value), name(after.value));
        let explanation = if before.writer == after.writer && before.value == after.value {
            explained![early_name, " saw ", first, " before ", late_name, " started to write it"]
        } else {
            let (ended, on) = (" ended with ", " on ");
            explained![early_name, ended, first, " before ", late_name, on, second, " started, but ", reason]
        };
        Self::new([early.operation, before.writer, late.operation, after.writer], explanation)
    }
}

pub(crate) fn operation_name(operation: usize) -> ExplanationPart {
    ExplanationPart::Operation(operation)
}

pub(crate) fn name(value: u64) -> ExplanationPart {
    ExplanationPart::Value(value)
}
