//! A memory budget for incomplete answers, shared by all connections of the process. Without the
//! budget, a target that sends long answers on many connections could exhaust the machine's memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit for the total size of all incomplete answers and all kept values, bytes.
pub const BUDGET_BYTES: usize = 1024 * 1024 * 1024;
/// Largest size of an answer that is not counted, bytes.
pub const FREE_BYTES: usize = 64 * 1024;
/// Number of bytes taken from the budget in one step.
const STEP_BYTES: usize = 1024 * 1024;

static ANSWERS: Budget = Budget::of(BUDGET_BYTES);

/// A limit on bytes, and the bytes held now.
#[derive(Debug)]
pub struct Budget {
    held: AtomicUsize,
    most: usize,
}

impl Budget {
    /// Makes a budget of `most` bytes.
    pub const fn of(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most }
    }
}

/// A part of the budget held by one answer. Dropping the share returns its bytes.
#[derive(Debug)]
pub struct BudgetShare {
    budget: &'static Budget,
    bytes: usize,
}

impl Default for BudgetShare {
    fn default() -> Self {
        Self::of(&ANSWERS)
    }
}

impl BudgetShare {
    /// Makes an empty share of the budget.
    pub const fn of(budget: &'static Budget) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Grows the share to `bytes` in all. Returns false if the budget does not suffice.
    #[inline]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        bytes <= FREE_BYTES.max(self.bytes) || self.take(bytes)
    }

    #[cold]
    fn take(&mut self, bytes: usize) -> bool {
        let more = (bytes - self.bytes).next_multiple_of(STEP_BYTES);
        let before = self.budget.held.fetch_add(more, Ordering::Relaxed);
        let is_there = before + more <= self.budget.most;
        if is_there {
            self.bytes += more;
        } else {
            self.budget.held.fetch_sub(more, Ordering::Relaxed);
        }
        is_there
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn shares_are_bounded_together_and_given_back() {
        static BUDGET: Budget = Budget::of(4 * STEP_BYTES);
        let (mut one, mut other) = (BudgetShare::of(&BUDGET), BudgetShare::of(&BUDGET));
        assert!(one.grow_to(FREE_BYTES));
        assert_eq!(BUDGET.held.load(Ordering::Relaxed), 0, "short answers are not counted");
        assert!(one.grow_to(3 * STEP_BYTES) && one.grow_to(3 * STEP_BYTES));
        assert!(!other.grow_to(2 * STEP_BYTES));
        assert!(other.grow_to(STEP_BYTES));
        drop(one);
        assert!(other.grow_to(4 * STEP_BYTES));
        drop(other);
        assert_eq!(BUDGET.held.load(Ordering::Relaxed), 0);
    }
}
