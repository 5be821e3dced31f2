//! Which part of a trial's time the load covered, and which part of that is measured. It must not compute rates.

use experiment::plan::{Load, Warmup};
use record::events::{Phase, What};

use crate::evidence::Evidence;
use crate::stats::steady_state;
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
    /// Whether throughput became steady; `None` if the warm-up was given, or the load was too short to tell.
    pub steady: Option<bool>,
}

impl LoadWindow {
    /// Finds the window; `None` if the load never started.
    pub fn of(load: &Load, evidence: &Evidence, timeline: &Timeline) -> Option<Self> {
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
        let (from_s, steady) = match load.warmup {
            Warmup::Seconds(from_s) => (from_s, None),
            Warmup::Auto => {
                let calm_until_s = first_fault_s.unwrap_or(until_s);
                steady_state::steady_from(timeline, load.ramp_s, calm_until_s)
            }
        };
        // An interruption may come before the load begins: then there is no window.
        (until_s > 0.0).then(|| Self { from_s: from_s.clamp(0.0, until_s), until_s, first_fault_s, steady })
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

#[cfg(test)]
mod tests;
