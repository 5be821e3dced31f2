//! What the conductor tells whoever watches: a progress line, a live view, a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use experiment::plan;
use hdrhistogram::Histogram;
use record::events::{Ending, SweepStop, What};
use record::results::SearchStep;

/// Something worth telling while a run goes on.
#[derive(Debug)]
pub enum ProgressEvent<'a> {
    /// A trial begins: the `number`-th of `of`, counting from 1.
    TrialBegins {
        /// The trial.
        trial: &'a plan::Trial,
        /// Its place among those to be done.
        number: usize,
        /// How many are to be done; `None`: a search does not know.
        of: Option<usize>,
    },
    /// A trial is not played: its sweep went no higher.
    NotPlayed {
        /// The trial.
        trial: &'a plan::Trial,
        /// Its place, as above.
        number: usize,
        /// How many are to be done, as above.
        of: Option<usize>,
        /// Where the sweep stopped, and why.
        stop: &'a SweepStop,
    },
    /// Something happened, `at_s` from load start (before the load: null).
    Happened {
        /// Seconds since load start.
        at_s: Option<f64>,
        /// What.
        what: &'a What,
    },
    /// A second of load went by.
    Second(SecondTotals),
    /// A trial ended.
    TrialEnds {
        /// How.
        how: Ending,
        /// Why, if not done.
        reason: Option<&'a str>,
    },
    /// A trial of a search has been analysed.
    Answered {
        /// The trial.
        trial: &'a plan::Trial,
        /// What it says of the limits.
        step: &'a SearchStep,
        /// The limits.
        limits: &'a [plan::Requirement],
    },
}

/// What ended in a second of load, by the books of one generator thread. Threads tell of the same second one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SecondTotals {
    /// End of the second, since load start.
    pub at_s: f64,
    /// Length of the load, seconds.
    pub of_s: f64,
    /// Operations that ended `ok`.
    pub ok: u64,
    /// … `failed`.
    pub failed: u64,
    /// … `timeout`.
    pub timeout: u64,
    /// … `wrong`.
    pub wrong: u64,
    /// Latency of those that ended `ok`, nanoseconds, to two digits; `None` if there were none.
    pub latency_ns: Option<Box<Histogram<u64>>>,
}

impl SecondTotals {
    /// Operations that ended otherwise than `ok`.
    #[must_use]
    pub fn not_ok(&self) -> u64 {
        self.failed + self.timeout + self.wrong
    }
}

/// Whoever watches.
pub trait Observer {
    /// Is told.
    fn tell(&mut self, event: &ProgressEvent<'_>);
}

/// How often the user asked for an end: set from a signal's thread, read everywhere.
#[derive(Debug, Default)]
pub struct Interrupts {
    asked: AtomicU8,
    any: AtomicBool,
    at_once: Arc<AtomicBool>,
}

impl Interrupts {
    /// Nobody asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The user asks (again). Returns how often by now.
    pub fn ask(&self) -> u8 {
        self.any.store(true, Ordering::SeqCst);
        let asked = self.asked.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.at_once.store(asked > 1, Ordering::SeqCst);
        asked
    }

    /// Nobody can watch any more, or something broke that the run cannot be trusted after: an end in good order, unless one is asked for
    /// already. Asking so again and again never becomes more urgent.
    pub fn ask_once(&self) {
        self.any.store(true, Ordering::SeqCst);
        let _ = self.asked.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// How often the user asked.
    #[must_use]
    pub fn asked(&self) -> u8 {
        self.asked.load(Ordering::SeqCst)
    }

    /// A flag that is true once the user has asked twice: then not even an end in good order is waited for.
    #[must_use]
    pub fn at_once(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.at_once)
    }

    /// A flag that is true once the user has asked, for work that can stop in the middle.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.any
    }
}
