//! A load that runs: how it is told to stop, and what it came to. It must not touch what the threads measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;

use super::tally::Totals;
use crate::Error;

const GO_ON: u8 = 0;
const STOP: u8 = 1;
const ABORT: u8 = 2;

/// What the threads are told. They look at it at least every 10 ms.
#[derive(Debug, Default)]
pub struct Control {
    orders: AtomicU8,
    is_flooded: AtomicBool,
    has_told_of_redirects: AtomicBool,
    has_told_of_budget: AtomicBool,
}

impl Control {
    pub fn stop(&self) {
        self.orders.fetch_max(STOP, Ordering::Relaxed);
    }

    pub fn abort(&self) {
        self.orders.fetch_max(ABORT, Ordering::Relaxed);
    }

    /// Stops because more is due than may wait.
    pub fn flood(&self) {
        self.is_flooded.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether nobody has told of redirects yet; from now on somebody has.
    pub fn is_first_redirect(&self) -> bool {
        !self.has_told_of_redirects.swap(true, Ordering::Relaxed)
    }

    /// The same of the budget of answers.
    pub fn is_first_beyond_budget(&self) -> bool {
        !self.has_told_of_budget.swap(true, Ordering::Relaxed)
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

/// What a load came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations that ended `ok`.
    pub ok: u64,
    /// … `failed`.
    pub failed: u64,
    /// … `timeout`.
    pub timeout: u64,
    /// … `wrong`.
    pub wrong: u64,
    /// Operations that were open at the end.
    pub unfinished: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Full cycles.
    pub cycles: u64,
    /// Operations that were due and were dropped: the backlog was full.
    pub dropped: u64,
}

/// A load that runs. Dropping it aborts the load and waits for the threads.
#[derive(Debug)]
pub struct Running {
    control: Arc<Control>,
    threads: Vec<JoinHandle<Result<Totals, Error>>>,
}

impl Running {
    pub(super) fn new(control: Arc<Control>, threads: Vec<JoinHandle<Result<Totals, Error>>>) -> Self {
        Self { control, threads }
    }

    /// No new operations from now on; open ones are given the load's drain.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Ends now; what is open is unfinished.
    pub fn abort(&self) {
        self.control.abort();
    }

    /// Whether every thread has ended and handed over its last interval.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end. The intervals must be taken meanwhile, by another thread if the channel can fill up.
    ///
    /// # Errors
    /// The first thing that ended a thread early; that nobody takes the records only if there is no other.
    pub fn join(mut self) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let mut first = Ok(());
        for thread in self.threads.drain(..) {
            match thread.join().unwrap_or(Err(Error::Panicked)) {
                Ok(totals) => summary.add(&totals),
                Err(error) if matches!(first, Ok(()) | Err(Error::RecorderGone)) => first = Err(error),
                Err(_) => {}
            }
        }
        first.map(|()| summary)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.abort();
        for thread in self.threads.drain(..) {
            // Whoever drops a load does not want to know what it came to.
            drop(thread.join());
        }
    }
}

impl Summary {
    fn add(&mut self, totals: &Totals) {
        let [ok, failed, timeout, wrong, unfinished] = totals.outcomes;
        self.ok += ok;
        self.failed += failed;
        self.timeout += timeout;
        self.wrong += wrong;
        self.unfinished += unfinished;
        self.attempts += totals.attempts;
        self.cycles += totals.cycles;
        self.dropped += totals.dropped;
    }
}
