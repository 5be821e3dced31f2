//! Which part of a trial's time the load covered, and which part of that is measured. It must not compute rates.

use std::collections::BTreeMap;

use experiment::plan::{Load, Warmup};
use record::events::{Phase, What};
use record::results::Steady;
use record::rows::GeneratorSecond;

use crate::evidence::Evidence;
use crate::stats::steady_state::{self, MeanLatency};
use crate::stats::timeline::Timeline;

/// The load's time, seconds since load start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadWindow {
    /// From here on rates are taken.
    pub from_s: f64,
    /// The last new operation; the drain comes after it.
    pub until_s: f64,
    /// When the first fault began, if one did while the load ran.
    pub first_fault_s: Option<f64>,
    /// Whether it became steady; `None` if the warm-up was given, or the load was too short to tell.
    pub steady: Option<bool>,
}

impl LoadWindow {
    /// Finds the window, and how the end of the warm-up was found; `None` if the load never started.
    pub fn of(load: &Load, evidence: &Evidence, timeline: &Timeline) -> Option<(Self, Steady)> {
        let last_s = evidence.last_s().filter(|&last_s| last_s > 0.0)?;
        let drained_s = evidence.entered_s(Phase::Draining).unwrap_or(f64::INFINITY);
        let until_s = load.time_s.min(drained_s).min(last_s);
        let first_fault_s = evidence
            .events
            .iter()
            // What was broken before the load began is a condition of it.
            .filter(|event| matches!(event.what, What::FaultBegun { .. }) && (0.0..until_s).contains(&event.at_s))
            .map(|event| event.at_s)
            .min_by(f64::total_cmp);
        let mut steady = match load.warmup {
            Warmup::Seconds(from_s) => Steady { from_s, method: "given".to_owned(), is: None, unsteady: None },
            // A rate that is to change is not waited for to become steady.
            Warmup::Auto if load.rate.as_ref().is_some_and(|rate| rate.per_s().is_none()) => {
                Steady { from_s: 0.0, method: "none, as the rate is to change".to_owned(), is: None, unsteady: None }
            }
            Warmup::Auto => {
                let calm_until_s = first_fault_s.unwrap_or(until_s);
                steady_state::steady_from(timeline, &mean_latency(&evidence.generator), load.ramp_s, calm_until_s)
            }
        };
        steady.from_s = steady.from_s.clamp(0.0, until_s.max(0.0));
        let window = Self { from_s: steady.from_s, until_s, first_fault_s, steady: steady.is };
        // An interruption may come before the load begins: then there is no window.
        (until_s > 0.0).then_some((window, steady))
    }

    /// From when on latencies are taken: they are logged by whole seconds, so from the first that begins in the measured part; from the
    /// one that it begins in, where no whole one would be left.
    pub fn latency_from_s(&self) -> f64 {
        // Bins of 100 ms are multiples that a decimal fraction only approximates.
        let whole_s = (self.from_s - 1e-6).ceil();
        if self.until_s - whole_s >= 1.0 - 1e-6 { whole_s } else { self.from_s.floor() }
    }

    /// Length of the measured part, seconds.
    pub fn length_s(&self) -> f64 {
        self.until_s - self.from_s
    }

    /// The measured part up to the first fault, or all of it without one; `None` if nothing is left.
    pub fn calm(&self) -> Option<(f64, f64)> {
        let until_s = self.first_fault_s.unwrap_or(self.until_s);
        (until_s > self.from_s).then_some((self.from_s, until_s))
    }
}

/// The mean latency of each whole second in which operations ended, over all threads, in order.
fn mean_latency(rows: &[GeneratorSecond]) -> Vec<MeanLatency> {
    let mut seconds: BTreeMap<i64, (f64, u64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| (row.interval_s - 1.0).abs() < 0.25) {
        let (latency_s, operations) = seconds.entry(row.at_s.round() as i64 - 1).or_default();
        *latency_s += row.latency_sum_s;
        *operations += row.operations;
    }
    let ended = seconds.into_iter().filter(|(_, (_, operations))| *operations > 0);
    ended
        .map(|(second, (latency_s, operations))| MeanLatency {
            at_s: second as f64,
            mean_s: latency_s / operations as f64,
        })
        .collect()
}

#[cfg(test)]
mod tests;
