//! Loads for the tests, and what they came to.

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use experiment::plan::{Load, Order, Retry, Step, Warmup};
use load::{Error, Interval, Orders, Purpose, Summary};
use record::clock::Clock;
use record::events::History;

/// What a load came to.
pub struct Came {
    pub summary: Summary,
    pub intervals: Vec<Interval>,
}

impl Came {
    /// Attempts that ended with this result.
    pub fn attempts(&self, result: &str) -> u64 {
        let all = self.intervals.iter().flat_map(|interval| &interval.attempts);
        all.filter(|attempts| attempts.result == result).map(|attempts| attempts.count).sum()
    }

    /// Every line of the history.
    pub fn history(&self) -> Vec<&History> {
        self.intervals.iter().flat_map(|interval| &interval.history).collect()
    }

    /// Every notice.
    pub fn notices(&self) -> Vec<&str> {
        self.intervals.iter().flat_map(|interval| &interval.notices).map(String::as_str).collect()
    }
}

/// A step: `with`, `expect` and `keep` as `key=value` pairs.
pub fn step(call: &str, with: &[&str]) -> Step {
    Step { call: call.into(), name: call.into(), with: pairs(with), weight: 1, every: 1, ..Step::default() }
}

/// `key=value` pairs as a map.
pub fn pairs(pairs: &[&str]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key.into(), value.into())).collect()
}

/// A short load of these steps.
pub fn load(agents: u32, time_s: f64, steps: Vec<Step>) -> Load {
    Load {
        agents,
        ramp_s: 0.0,
        time_s,
        timeout_s: 5.0,
        drain_s: 2.0,
        think_s: 0.0,
        warmup: Warmup::Seconds(0.0),
        retry: Retry::FailFast,
        reconnect_s: 0.1,
        rate: None,
        threads: Some(1),
        order: Order::Cycle,
        steps,
        feeds: Vec::new(),
    }
}

/// Orders to put the load on a name service.
pub fn orders(service: &str, load: Load) -> Orders {
    Orders {
        protocol: "vsns".into(),
        services: vec![service.into()],
        load,
        purpose: Purpose::Measure,
        seed: 42,
        files: std::env::temp_dir(),
        slot_s: 0.001,
    }
}

/// Plays the orders to their end.
pub fn try_play(orders: Orders) -> Result<Came, Error> {
    let (sink, intervals) = sync_channel(1000);
    let running = load::start(orders, Clock::starting_in(Duration::from_millis(1)), sink)?;
    let summary = running.join()?;
    Ok(Came { summary, intervals: intervals.iter().collect() })
}

/// Plays the orders to their end, which has to be a good one.
pub fn play(orders: Orders) -> Came {
    try_play(orders).unwrap()
}
