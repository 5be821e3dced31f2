//! Control of a running load: orders to its threads, and notices that are given once per load.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use wire::answer_budget::BUDGET_BYTES;

const GO_ON: u8 = 0;
const STOP: u8 = 1;
const ABORT: u8 = 2;

/// Orders to the threads. Each thread checks its orders at least every 10 ms.
#[derive(Debug, Default)]
pub struct LoadControl {
    orders: AtomicU8,
    is_flooded: AtomicBool,
    has_noticed_redirects: AtomicBool,
    has_noticed_budget: AtomicBool,
    has_noticed_untold: AtomicBool,
    has_advised: AtomicBool,
}

impl LoadControl {
    pub fn stop(&self) {
        self.orders.fetch_max(STOP, Ordering::Relaxed);
    }

    pub fn abort(&self) {
        self.orders.fetch_max(ABORT, Ordering::Relaxed);
    }

    /// Stops the load because the backlog exceeds its limit.
    pub fn flood(&self) {
        self.is_flooded.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether this is the first redirect of the load. Later calls return false.
    pub fn is_first_redirect(&self) -> bool {
        !self.has_noticed_redirects.swap(true, Ordering::Relaxed)
    }

    /// Whether this is the first advice of the load. Later calls return false.
    pub fn is_first_advice(&self) -> bool {
        !self.has_advised.swap(true, Ordering::Relaxed)
    }

    /// Whether this is the first answer without the fields from which units are counted. Later
    /// calls return false.
    pub fn is_first_untold(&self) -> bool {
        !self.has_noticed_untold.swap(true, Ordering::Relaxed)
    }

    /// Returns the notice that answers exceed their memory budget, or `None` after the first call.
    pub fn budget_notice(&self) -> Option<String> {
        let is_first = !self.has_noticed_budget.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            format!(
                "the answers read by expectations and `keep` exceed their limit of {} MiB in total: operations fail \
                 with `answer too large`, or keep nothing; use fewer agents, or check less of long answers",
                BUDGET_BYTES >> 20
            )
        })
    }

    pub fn is_flooded(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }

    pub fn is_stopped(&self) -> bool {
        self.orders.load(Ordering::Relaxed) != GO_ON
    }

    pub fn is_aborted(&self) -> bool {
        self.orders.load(Ordering::Relaxed) == ABORT
    }
}
