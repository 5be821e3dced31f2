//! `[[prepare]]`: operations that prepare the target before the load. They are played as an
//! unmeasured load of few agents.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use experiment::plan;
use load::{LoadOrder, ThreadInterval};
use record::clock::Clock;
use record::events::HistoryEntry;

use crate::Error;

/// Interval at which interruptions are checked.
const GLANCE: Duration = Duration::from_millis(10);
/// Number of thread intervals that may wait for the collector of the history.
pub const PENDING: usize = 16;

/// Operations of a `[[prepare]]` on audited keys, with times since its start.
pub struct Preparation {
    /// Clock whose zero is the start of the preparation.
    pub clock: Clock,
    /// Operations on audited keys.
    pub history: Vec<HistoryEntry>,
    /// Values that were kept, by slot.
    pub kept: BTreeMap<String, String>,
}

impl Preparation {
    /// Separates the kept values from the other lines of a preparation's history.
    pub fn of(clock: Clock, lines: Vec<HistoryEntry>) -> Self {
        let (kept, history): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.effect == load::KEPT);
        let kept = kept.into_iter().filter_map(|line| Some((line.key, line.value?))).collect();
        Self { clock, history, kept }
    }

    /// Returns an error if the operation has not kept a value.
    pub fn check(&self, step: &plan::Step) -> Result<(), Error> {
        match step.keep.keys().find(|slot| !self.kept.contains_key(*slot)) {
            None => Ok(()),
            Some(slot) => {
                let result = format!("its answer has no `{slot}` to keep");
                Err(load::Error::Prepare { operation: step.name.clone(), seq: 1, result }.into())
            }
        }
    }
}

/// Plays one `[[prepare]]`.
///
/// # Errors
/// An operation fails after all retries, or the engine cannot be started.
pub fn perform(orders: LoadOrder, interrupted: &dyn Fn() -> bool) -> Result<Preparation, Error> {
    let clock = Clock::starting_in(Duration::ZERO);
    let (sink, intervals) = sync_channel(PENDING);
    let running = load::start(orders, clock, sink)?;
    let history = recorded(&intervals, interrupted, &|| running.abort());
    running.join()?;
    Ok(Preparation::of(clock, history))
}

/// Collects the operations on audited keys until all senders have ended. Once `interrupted` returns
/// true, calls `abort`.
pub fn recorded(
    intervals: &Receiver<ThreadInterval>,
    interrupted: &dyn Fn() -> bool,
    abort: &dyn Fn(),
) -> Vec<HistoryEntry> {
    let mut history = Vec::new();
    // The channel ends when the engine does.
    loop {
        match intervals.recv_timeout(GLANCE) {
            Ok(interval) => history.extend(interval.history),
            Err(RecvTimeoutError::Disconnected) => return history,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupted() {
            abort();
        }
    }
}

/// Returns the history of all preparations. Times are negative: they count from load start.
pub fn history(done: Vec<Preparation>, clock: Clock) -> Vec<HistoryEntry> {
    let shifted = done.into_iter().flat_map(|preparation| {
        let shift_s = clock.at_s_of(preparation.clock.origin());
        preparation.history.into_iter().map(move |line| HistoryEntry {
            at_s: line.at_s + shift_s,
            start_s: line.start_s.map(|start_s| start_s + shift_s),
            ..line
        })
    });
    shifted.collect()
}

/// Returns a `[[prepare]]` as a load of a few agents, with the feeds and script of `load`. It
/// retries operations, because the target has just started.
pub fn load_of(prepare: &plan::Prepare, load: Option<&plan::Load>) -> plan::Load {
    const AGENTS: u64 = 16;
    plan::Load {
        agents: u32::try_from(prepare.count.min(AGENTS)).unwrap_or(1),
        from: load.map(|load| load.from.clone()).unwrap_or_default(),
        time_s: f64::from(u32::MAX),
        drain_s: 10.0,
        warmup: plan::Warmup::Seconds(0.0),
        retry: plan::Retry::Tries { tries: 5, wait_s: 0.1 },
        threads: Some(1),
        steps: vec![prepare.step.clone()],
        sites: load.map(|load| load.sites.clone()).unwrap_or_default(),
        feeds: load.map(|load| load.feeds.clone()).unwrap_or_default(),
        script: load.and_then(|load| load.script.clone()),
        proto: load.map(|load| load.proto.clone()).unwrap_or_default(),
        ..plan::Load::default()
    }
}
