//! Thread that checks audited keys beside the load, and reports the first one that is not
//! linearizable. It takes operations from the thread that records them, never from the agents'
//! threads, and gives up before it needs much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use analysis::LiveConsistency;
use record::events::HistoryEntry;

use crate::Error;
use crate::recording::RecordingEvent;

/// Largest number of operations that may wait for the thread. One takes about 300 bytes.
const MOST_WAITING: usize = 1_000_000;

/// Largest number of keys, operations and values in the check. One takes about 150 bytes.
const MOST_IN_CHECK: usize = 4_000_000;

/// The check of a load.
pub struct LiveCheck {
    /// Sender of operations; `None` once the check has given up.
    ended: Option<Sender<EndedOperations>>,
    /// Number of operations that wait for the thread.
    waiting: Arc<AtomicUsize>,
    /// Largest number of operations that waited.
    most_waiting: usize,
    /// Number of operations that the thread was given.
    operations: u64,
    /// Reason why not all operations were checked.
    gave_up: Option<String>,
    thread: JoinHandle<Option<String>>,
}

/// Result of the check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveCheckReport {
    /// Number of operations that were handed to the check.
    pub operations: u64,
    /// Largest number of operations that waited for it.
    pub most_waiting: u64,
    /// Reason why it did not check all operations.
    pub gave_up: Option<String>,
}

/// Audited operations of a generator thread that have ended since its last report.
#[derive(Debug, Default)]
pub struct EndedOperations {
    pub lines: Vec<HistoryEntry>,
    /// Index of the generator thread.
    pub thread: u32,
    /// Number of generator threads.
    pub threads: u32,
    /// Time before which no operation of later reports was sent, seconds since load start. Infinite
    /// in the thread's last report.
    pub open_since_s: f64,
}

impl LiveCheck {
    /// Starts the thread. `before` are the operations of the preparation.
    pub fn begin(seed: u64, before: Vec<HistoryEntry>, heard: Sender<RecordingEvent>) -> Result<Self, Error> {
        let (ended, reports) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let body = move || check(LiveConsistency::new(seed), before, &reports, &left, &heard);
        let thread = std::thread::Builder::new().name("check-history".to_owned()).spawn(body).map_err(Error::Record)?;
        Ok(Self { ended: Some(ended), waiting, most_waiting: 0, operations: 0, gave_up: None, thread })
    }

    /// Hands operations to the thread, without waiting for it.
    pub fn take(&mut self, report: EndedOperations) {
        let Some(ended) = &self.ended else { return };
        let count = report.lines.len();
        let waiting = self.waiting.fetch_add(count, Ordering::Relaxed) + count;
        self.most_waiting = self.most_waiting.max(waiting);
        if waiting > MOST_WAITING {
            self.gave_up = Some(format!("it fell behind by {waiting} operations"));
            self.ended = None;
            return;
        }
        self.operations += count as u64;
        // Once the thread has found a violation, it needs no more operations.
        if ended.send(report).is_err() {
            self.ended = None;
        }
    }

    /// Waits until all operations are checked.
    pub fn end(self) -> LiveCheckReport {
        drop(self.ended);
        let ended = self.thread.join().unwrap_or_else(|_| Some("its thread panicked".to_owned()));
        LiveCheckReport {
            operations: self.operations,
            most_waiting: self.most_waiting as u64,
            gave_up: self.gave_up.or(ended),
        }
    }
}

/// Checks operations until all have come or a key is not linearizable. Returns the reason if it
/// gave up before.
fn check(
    mut consistency: LiveConsistency,
    before: Vec<HistoryEntry>,
    reports: &Receiver<EndedOperations>,
    waiting: &AtomicUsize,
    heard: &Sender<RecordingEvent>,
) -> Option<String> {
    before.into_iter().for_each(|line| consistency.take(line, f64::NEG_INFINITY));
    let mut open_since_s: Vec<f64> = Vec::new();
    for report in reports {
        let threads = report.threads.max(report.thread + 1) as usize;
        open_since_s.resize(threads.max(open_since_s.len()), f64::NEG_INFINITY);
        let own = &mut open_since_s[report.thread as usize];
        let count = report.lines.len();
        report.lines.into_iter().for_each(|line| consistency.take(line, *own));
        *own = own.max(report.open_since_s);
        waiting.fetch_sub(count, Ordering::Relaxed);
        consistency.check(open_since_s.iter().copied().fold(f64::INFINITY, f64::min));
        if let Some(violation) = consistency.violation() {
            // The receiver may be gone; the check after the load finds the violation, too.
            let _ = heard.send(RecordingEvent::Violation(violation));
            return None;
        }
        if consistency.size() > MOST_IN_CHECK {
            return Some(format!("{} keys and operations are too many for its memory", consistency.size()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(effect: &str, value: &str, start_s: f64) -> HistoryEntry {
        HistoryEntry {
            at_s: start_s + 0.01,
            start_s: Some(start_s),
            agent: Some(1),
            effect: effect.to_owned(),
            key: "k".to_owned(),
            value: Some(value.to_owned()),
            applied: Some(true),
            ..HistoryEntry::default()
        }
    }

    /// Checks reports of two threads, and returns the violated key and the result.
    fn checked(reports: Vec<EndedOperations>) -> (Option<String>, LiveCheckReport) {
        let (heard_in, heard) = channel();
        let mut check = LiveCheck::begin(7, vec![line("write", "a", -1.0)], heard_in).unwrap();
        reports.into_iter().for_each(|report| check.take(report));
        let report = check.end();
        let violated = heard.try_iter().find_map(|event| match event {
            RecordingEvent::Violation(violation) => Some(violation.key),
            _ => None,
        });
        (violated, report)
    }

    fn of(thread: u32, lines: Vec<HistoryEntry>, open_since_s: f64) -> EndedOperations {
        EndedOperations { lines, thread, threads: 2, open_since_s }
    }

    #[test]
    fn a_stale_read_of_another_thread_is_reported() {
        let written = || of(0, vec![line("write", "b", 0.5)], 1.0);
        let stale = of(1, vec![line("read", "a", 0.8)], 1.0);
        let (violated, report) = checked(vec![written(), stale]);
        assert_eq!((violated.as_deref(), report.operations, report.gave_up), (Some("k"), 2, None));
        let current = of(1, vec![line("read", "b", 0.8)], 1.0);
        assert_eq!(checked(vec![written(), current]).0, None);
    }

    #[test]
    fn a_write_that_is_still_open_excuses_what_others_read() {
        let early = of(1, vec![line("read", "b", 0.7), line("read", "b", 0.9)], 1.0);
        let open = of(0, Vec::new(), 0.5);
        let written = HistoryEntry { at_s: 1.5, ..line("write", "b", 0.5) };
        let (violated, report) = checked(vec![early, open, of(0, vec![written], f64::INFINITY)]);
        assert_eq!((violated, report.operations, report.gave_up), (None, 3, None));
    }

    #[test]
    fn a_thread_that_has_not_reported_delays_the_check() {
        let written = of(0, vec![line("write", "b", 0.5), line("read", "a", 0.8)], 1.0);
        assert_eq!(checked(vec![written]).0, None, "the other thread may have written \"a\" again");
    }

    #[test]
    fn a_check_that_falls_behind_gives_up() {
        let lines = vec![line("read", "a", 0.5); MOST_WAITING / 2];
        let (heard_in, _heard) = channel();
        let mut check = LiveCheck::begin(7, Vec::new(), heard_in).unwrap();
        // The thread counts them as done only when it has checked them.
        check.waiting.fetch_add(MOST_WAITING, Ordering::Relaxed);
        check.take(of(0, lines, 1.0));
        check.take(of(0, Vec::new(), 2.0));
        let report = check.end();
        assert_eq!((report.operations, report.gave_up.as_deref()), (0, Some("it fell behind by 1500000 operations")));
    }
}
