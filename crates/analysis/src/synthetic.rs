//! Synthetic plans, series and loads for tests: a trial with a closed loop, noise with a known
//! distribution, and loads whose outages are known to the slot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::{self, Fault, Find, Load, Plan, Requirement, Step, Target, TargetKind, Trial, Warmup, When};
use hdrhistogram::Histogram;
use record::hlog::HistogramCounts;
use record::results::Outage;
use record::rows::OutcomeSlot;
use serde_json::Value;

pub(crate) use crate::noise::{autoregressive, normal, poisson};
use crate::stats::latency_seconds::LatencySeconds;
use crate::stats::outage::{FaultTimes, outage};
use crate::stats::timeline::Timeline;

/// A trial with this load.
pub(crate) fn trial(load: Load) -> Trial {
    Trial {
        id: "001".into(),
        repeat: 1,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://127.0.0.1:1".into() },
            protocol: "http".into(),
            ..Default::default()
        },
        load: Some(load),
        ..Trial::default()
    }
}

/// A closed loop of agents without ramp.
pub(crate) fn load(agents: u32, time_s: f64) -> Load {
    Load {
        agents,
        time_s,
        timeout_s: 1.0,
        drain_s: 1.0,
        warmup: Warmup::Seconds(0.0),
        steps: vec![Step { call: "get".into(), name: "get".into(), ..Step::default() }],
        ..Load::default()
    }
}

/// A fault that is planned for this time.
pub(crate) fn fault(name: &str, at_s: f64) -> Fault {
    Fault {
        name: name.into(),
        kind: "call".into(),
        when: When::At(at_s),
        seed: 1,
        label: "a call".into(),
        colour: "#cc0000".into(),
        ..Fault::default()
    }
}

/// An empty plan.
pub(crate) fn plan() -> Plan {
    Plan {
        format: plan::FORMAT,
        title: String::new(),
        asks: String::new(),
        variants: Vec::new(),
        swept: Vec::new(),
        stop: None,
        trials: Vec::new(),
        requirements: Vec::new(),
        claims: Vec::new(),
        find: None,
        demand: None,
    }
}

/// A search for a number of agents within these limits, without templates.
pub(crate) fn find(limits: Vec<Requirement>) -> Find {
    Find {
        highest: "load.agents".into(),
        starts: "even".into(),
        limits,
        surviving: Vec::new(),
        from: None,
        up_to: None,
        precision_pct: 5.0,
        hold_pct: 50.0,
        trials_max: 24,
        accepts_void: false,
        templates: Vec::new(),
    }
}

/// The times of a fault that heals by itself, in a load that ends at `until_s` without a drain.
pub(crate) fn fault_times(at_s: f64, until_s: f64) -> FaultTimes {
    FaultTimes {
        at_s,
        healed_s: None,
        baseline_from_s: Some(0.0),
        earlier_baseline_s: None,
        until_s,
        counted_until_s: until_s,
        timeout_s: 1.0,
        usual_failures_per_s: 0.0,
    }
}

/// Length of a slot, seconds.
pub(crate) const SLOT_S: f64 = 0.001;

/// A load in slots of 1 ms. Its `ok` operations have a given rate over time, and arrive evenly or
/// as a Poisson stream.
pub(crate) struct SyntheticLoad {
    pub rows: Vec<OutcomeSlot>,
    pub latency: LatencySeconds,
}

impl SyntheticLoad {
    pub fn even(length_s: f64, ok_per_s: impl Fn(f64) -> f64) -> Self {
        let mut owed = 0.0;
        Self::each(length_s, |at_s| {
            owed += ok_per_s(at_s) * SLOT_S;
            let now = f64::floor(owed + 1e-9);
            owed -= now;
            now as u32
        })
    }

    pub fn random(seed: u64, length_s: f64, ok_per_s: impl Fn(f64) -> f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self::each(length_s, |at_s| poisson(&mut random, ok_per_s(at_s) * SLOT_S))
    }

    pub fn each(length_s: f64, mut ok: impl FnMut(f64) -> u32) -> Self {
        let starts_s = (0..(length_s / SLOT_S).round() as usize).map(|slot| slot as f64 * SLOT_S);
        let rows = starts_s.map(|at_s| OutcomeSlot {
            at_s,
            slot_s: SLOT_S,
            ok: ok(at_s + SLOT_S / 2.0),
            ..OutcomeSlot::default()
        });
        Self { rows: rows.collect(), latency: LatencySeconds::default() }
    }

    /// Sets the latency of operations by the time of their end, in microseconds. Half of the
    /// latencies are within a fifth of the given one.
    pub fn taking(mut self, seed: u64, latency_us: impl Fn(f64) -> f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let slots_in_second = (1.0 / SLOT_S).round() as usize;
        for (second, rows) in self.rows.chunks(slots_in_second).enumerate() {
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            for row in rows {
                for _ in 0..row.ok {
                    // The sum of four uniform numbers is sufficiently normal.
                    let off = (0..4).map(|_| random.f64() - 0.5).sum::<f64>();
                    histogram.record((latency_us(row.at_s) * 1e3 * (0.5 * off).exp()) as u64).unwrap();
                }
            }
            self.latency.add(second as f64, 1.0, &HistogramCounts::of(&histogram));
        }
        self
    }

    /// Adds failures, spread evenly between these times.
    pub fn failing(mut self, count: u32, from_s: f64, until_s: f64) -> Self {
        for number in 0..count {
            let at_s = from_s + (until_s - from_s) * f64::from(number) / f64::from(count);
            self.rows[(at_s / SLOT_S + 1e-6) as usize].failed += 1;
        }
        self
    }

    pub fn outage(&self, at_s: f64) -> Outage {
        self.outage_of(fault_times(at_s, self.rows.len() as f64 * SLOT_S))
    }

    pub fn outage_of(&self, times: FaultTimes) -> Outage {
        outage(&self.timeline(), &self.latency, times)
    }

    /// Returns the timeline as it is read from records: slots in which no operation ended have no
    /// row.
    pub fn timeline(&self) -> Timeline {
        let rows: Vec<_> =
            self.rows.iter().copied().filter(|row| row.ok + row.failed + row.timeout + row.wrong > 0).collect();
        Timeline::of(&rows).unwrap()
    }
}

/// Returns the numbers of a JSON list.
pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Returns the numbers with these names of a JSON object.
pub(crate) fn figures<const N: usize>(object: &Value, names: [&str; N]) -> [f64; N] {
    names.map(|name| object[name].as_f64().unwrap())
}

/// Whether a value exists and is off by no more than `by`.
pub(crate) fn near(value: Option<f64>, known: f64, by: f64) -> bool {
    value.is_some_and(|value| (value - known).abs() <= by)
}
