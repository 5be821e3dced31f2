//! Events of a run for an observer: a progress line, a live view, a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use experiment::plan;
use hdrhistogram::Histogram;
use record::events::{Ending, SweepStop, What};
use record::results::SearchStep;

/// An event of a run.
#[derive(Debug)]
pub enum ProgressEvent<'a> {
    /// A trial begins.
    TrialBegins {
        trial: &'a plan::Trial,
        /// Position of the trial among those to be played, from 1.
        number: usize,
        /// Number of trials to be played; `None` in a search, which cannot know it.
        of: Option<usize>,
    },
    /// A trial is skipped because a stop rule excludes it from its sweep.
    NotPlayed {
        trial: &'a plan::Trial,
        /// Position of the trial among those to be played, from 1.
        number: usize,
        /// Number of trials to be played; `None` in a search.
        of: Option<usize>,
        /// The stop: the trial that caused it, and the reason.
        stop: &'a SweepStop,
    },
    /// An event of a trial.
    Happened {
        /// Seconds since load start; `None` before the load.
        at_s: Option<f64>,
        /// The event.
        what: &'a What,
    },
    /// A second of load has passed.
    Second(SecondTotals),
    /// A trial ended.
    TrialEnds {
        /// Outcome of the trial.
        how: Ending,
        /// Reason for the outcome, if the trial was not completed.
        reason: Option<&'a str>,
    },
    /// A trial of a search has been analysed.
    Answered {
        trial: &'a plan::Trial,
        /// Verdict on whether the trial kept the limits.
        step: &'a SearchStep,
        /// The limits of the search.
        limits: &'a [plan::Requirement],
    },
}

/// Operations that ended in a second of load, as counted by one generator thread. Each thread
/// reports the second separately.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SecondTotals {
    /// End of the second, since load start.
    pub at_s: f64,
    /// Length of the load, seconds.
    pub of_s: f64,
    /// Operations that ended `ok`.
    pub ok: u64,
    /// Operations that ended `failed`.
    pub failed: u64,
    /// Operations that ended `timeout`.
    pub timeout: u64,
    /// Operations that ended `wrong`.
    pub wrong: u64,
    /// Latencies of the `ok` operations, nanoseconds, to two digits; `None` if there were no such
    /// operations.
    pub latency_ns: Option<Box<Histogram<u64>>>,
}

impl SecondTotals {
    /// Returns the number of operations that were not `ok`.
    #[must_use]
    pub fn not_ok(&self) -> u64 {
        self.failed + self.timeout + self.wrong
    }
}

/// Receiver of a run's events.
pub trait Observer {
    /// Handles an event.
    fn tell(&mut self, event: &ProgressEvent<'_>);
}

/// Interruptions by the user. The signal thread sets them, and all threads read them.
#[derive(Debug, Default)]
pub struct Interrupts {
    asked: AtomicU8,
    any: AtomicBool,
    at_once: Arc<AtomicBool>,
}

impl Interrupts {
    /// Returns a state without any interruption.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an interruption by the user. Returns the number of interruptions so far.
    pub fn ask(&self) -> u8 {
        self.any.store(true, Ordering::SeqCst);
        let asked = self.asked.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.at_once.store(asked > 1, Ordering::SeqCst);
        asked
    }

    /// Requests an orderly end, unless an end was requested before. Used if the output is closed,
    /// or if a defect makes the run unreliable. Repeated requests do not make the end more urgent.
    pub fn ask_once(&self) {
        self.any.store(true, Ordering::SeqCst);
        let _ = self.asked.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Returns the number of interruptions.
    #[must_use]
    pub fn asked(&self) -> u8 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns a flag that is set by the second interruption, which cuts the orderly end short.
    #[must_use]
    pub fn at_once(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.at_once)
    }

    /// Returns a flag that is set by the first interruption, for work that can stop in the middle.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.any
    }
}
