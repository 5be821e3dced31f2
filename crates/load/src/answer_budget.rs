//! A budget for what answers hold in memory until they are whole, all connections of the process together: a target
//! that sends long ones on many connections must not take the machine's memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all answers and all that is kept of them may hold.
pub const BUDGET_BYTES: usize = 1024 * 1024 * 1024;
/// Up to here an answer costs nothing, and nothing is counted.
pub const FREE_BYTES: usize = 64 * 1024;
/// What is taken from the budget at a time.
const STEP_BYTES: usize = 1024 * 1024;

static ANSWERS: Budget = Budget::of(BUDGET_BYTES);

/// Bytes that may be held.
#[derive(Debug)]
pub struct Budget {
    held: AtomicUsize,
    most: usize,
}

impl Budget {
    /// Of so many bytes.
    pub const fn of(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most }
    }
}

/// What one of them has taken. Dropped, it has given it back.
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
    /// Nothing yet, of that budget.
    pub const fn of(budget: &'static Budget) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes what it needs for so many bytes in all; false if that is not there.
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
    fn what_all_hold_together_is_bounded_and_given_back() {
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
