//! `[[prepare]]`: brings a target into the state that the trial starts from, by the load engine. Nothing of it is measured.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use experiment::plan;
use load::Orders;
use record::clock::Clock;
use record::events::History;

use crate::Error;

/// How often an interruption is looked for.
const GLANCE: Duration = Duration::from_millis(10);

/// What a `[[prepare]]` did to audited keys, on the clock of its own start.
pub struct Preparation {
    clock: Clock,
    history: Vec<History>,
}

/// Carries out the orders of one `[[prepare]]`.
///
/// # Errors
/// If an operation fails for good, or the engine cannot be started.
pub fn perform(orders: Orders, interrupted: &dyn Fn() -> bool) -> Result<Preparation, Error> {
    let clock = Clock::starting_in(Duration::ZERO);
    let (sink, intervals) = sync_channel(16);
    let running = load::start(orders, clock, sink)?;
    let mut history = Vec::new();
    // The channel ends when the engine does.
    loop {
        match intervals.recv_timeout(GLANCE) {
            Ok(interval) => history.extend(interval.history),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupted() {
            running.abort();
        }
    }
    running.join()?;
    Ok(Preparation { clock, history })
}

/// The history of all preparations on the trial's clock, where it lies before zero.
pub fn history(done: Vec<Preparation>, clock: Clock) -> Vec<History> {
    let shifted = done.into_iter().flat_map(|preparation| {
        let shift_s = clock.at_s_of(preparation.clock.origin());
        preparation.history.into_iter().map(move |line| History { at_s: line.at_s + shift_s, ..line })
    });
    shifted.collect()
}

/// A `[[prepare]]` as a load: a few agents, the load's feeds and script, and patience with a target that has only just come up.
pub fn load(prepare: &plan::Prepare, load: Option<&plan::Load>) -> plan::Load {
    const AGENTS: u64 = 16;
    plan::Load {
        agents: u32::try_from(prepare.count.min(AGENTS)).unwrap_or(1),
        from: load.map(|load| load.from.clone()).unwrap_or_default(),
        ramp_s: 0.0,
        time_s: f64::from(u32::MAX),
        timeout_s: 10.0,
        drain_s: 10.0,
        think_s: 0.0,
        think_spread_pct: 0.0,
        warmup: plan::Warmup::Seconds(0.0),
        retry: plan::Retry::Tries { tries: 5, wait_s: 0.1 },
        reconnect_s: 0.1,
        connections: Default::default(),
        rate: None,
        backlog: None,
        threads: Some(1),
        order: plan::Order::Cycle,
        when_failed: plan::WhenFailed::GoOn,
        steps: vec![prepare.step.clone()],
        feeds: load.map(|load| load.feeds.clone()).unwrap_or_default(),
        script: load.and_then(|load| load.script.clone()),
    }
}
