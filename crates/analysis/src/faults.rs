//! The faults of a trial, each with what clients felt of it, and the disturbances between them. Which numbers make an outage is said
//! in `stats`.

use experiment::plan;
use record::events::{Event, What};
use record::results::{Disturbance, Fault, Outage};

use crate::disturbances::{self, Stretch, Usual};
use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::stats::outage::{Times, horizon_s, outage};
use crate::stats::timeline::Timeline;

/// Service must have been back for so long before it serves as the baseline of the next fault, seconds.
const SETTLED_S: f64 = 1.0;

/// Memory that a fault releases is released within this time, seconds.
pub(crate) const MEMORY_WITHIN_S: f64 = 5.0;

/// What happened to service in a trial.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Every occurrence of a fault, in time order, with its outage if there was load.
    pub faults: Vec<Fault>,
    /// Outages that no fault explains, in time order.
    pub disturbances: Vec<Disturbance>,
}

/// Every occurrence of a fault with its outage, and the outages between them.
pub(crate) fn happened(
    planned: &plan::Trial,
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
) -> Happened {
    let mut faults = occurrences(&evidence.events, &planned.faults);
    let (Some(timeline), Some(window)) = (timeline, window) else { return Happened { faults, ..Happened::default() } };
    // What stands all the time is a condition of the trial: nobody felt it begin.
    let stands = |fault: &Fault| planned.faults.iter().any(|plan| plan.standing && plan.name == fault.name);
    let mut felt: Vec<&mut Fault> = faults
        .iter_mut()
        .filter(|fault| fault.failed.is_none() && fault.at_s < window.until_s && !stands(fault))
        .collect();
    let mut walk = Walk::new(planned, evidence, timeline, window, &felt);
    let begun: Vec<f64> = felt.iter().map(|fault| fault.at_s).collect();
    walk.undisturbed_until(begun.first().copied());
    for (number, fault) in felt.iter_mut().enumerate() {
        let next_s = begun.get(number + 1).copied();
        fault.outage = Some(walk.fault(fault.at_s, fault.healed_s, next_s));
        walk.undisturbed_until(next_s);
    }
    let disturbances = walk.disturbances;
    Happened { faults, disturbances }
}

/// A walk through the load, from fault to fault.
struct Walk<'a> {
    evidence: &'a Evidence,
    timeline: &'a Timeline,
    window: &'a LoadWindow,
    timeout_s: f64,
    usual: Usual,
    /// From here on no fault accounts for what happens; `None`: service is not back from the last one.
    clear_from_s: Option<f64>,
    /// From here on service serves as a baseline.
    baseline_from_s: Option<f64>,
    disturbances: Vec<Disturbance>,
}

impl<'a> Walk<'a> {
    fn new(
        planned: &plan::Trial,
        evidence: &'a Evidence,
        timeline: &'a Timeline,
        window: &'a LoadWindow,
        felt: &[&mut Fault],
    ) -> Self {
        let timeout_s = planned.load.as_ref().map_or(0.0, |load| load.timeout_s);
        let rate = planned.load.as_ref().and_then(|load| load.rate.as_ref());
        let changes = rate.is_some_and(|rate| rate.per_s().is_none());
        let faulty: Vec<[f64; 2]> =
            felt.iter().map(|fault| [fault.at_s, horizon_s(fault.at_s, fault.healed_s, timeout_s)]).collect();
        Self {
            evidence,
            timeline,
            window,
            timeout_s,
            usual: Usual::of(timeline, [window.from_s, window.until_s], &faulty, changes),
            clear_from_s: Some(window.from_s),
            baseline_from_s: Some(window.from_s),
            disturbances: Vec::new(),
        }
    }

    /// Until when an outage may last, and until when its operations are counted: the next fault's beginning, or the load's end and
    /// the drain's.
    fn until_s(&self, next_s: Option<f64>) -> [f64; 2] {
        let load_s = self.window.until_s;
        let drain_s = self.evidence.last_s().unwrap_or(load_s).max(load_s) + self.timeline.slot_s();
        next_s.map_or([load_s, drain_s], |next_s| [next_s, next_s])
    }

    fn fault(&mut self, at_s: f64, healed_s: Option<f64>, next_s: Option<f64>) -> Outage {
        let [until_s, counted_until_s] = self.until_s(next_s);
        let (baseline_from_s, timeout_s) = (self.baseline_from_s, self.timeout_s);
        let times = Times { at_s, healed_s, baseline_from_s, until_s, counted_until_s, timeout_s };
        let mut felt = outage(self.timeline, &self.evidence.load.latency, times);
        felt.memory_released_bytes = self.evidence.sampled.memory_released_bytes(at_s, MEMORY_WITHIN_S);
        // What a backlog does after an outage is no baseline either.
        let drained_s = felt.overshoot_until_s.unwrap_or(0.0);
        let over_s = felt.back_to_baseline_s.map(|back_s| back_s.max(drained_s));
        self.clear_from_s = over_s.map(|over_s| at_s + over_s);
        self.baseline_from_s = over_s.map(|over_s| at_s + over_s + SETTLED_S);
        felt
    }

    /// Goes on to the next fault, or the load's end, and notes what happens until then.
    fn undisturbed_until(&mut self, next_s: Option<f64>) {
        let (Some(from_s), Some(baseline_from_s)) = (self.clear_from_s, self.baseline_from_s) else { return };
        let [until_s, counted_until_s] = self.until_s(next_s);
        let stretch = Stretch { from_s, until_s, counted_until_s, timeout_s: self.timeout_s, settled_s: SETTLED_S };
        let (found, settled_s) =
            disturbances::between(self.timeline, self.evidence, &self.usual, &stretch, baseline_from_s);
        self.disturbances.extend(found);
        self.baseline_from_s = settled_s;
    }
}

fn occurrences(events: &[Event], planned: &[plan::Fault]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for event in events {
        match &event.what {
            What::FaultBegun { fault, number, kind, on } => {
                let occurrence = occurrence(&mut faults, planned, fault, *number, event.at_s);
                occurrence.kind.clone_from(kind);
                occurrence.on.clone_from(on);
            }
            What::FaultHealed { fault, number } => {
                occurrence(&mut faults, planned, fault, *number, event.at_s).healed_s = Some(event.at_s);
            }
            What::FaultFailed { fault, number, reason } => {
                occurrence(&mut faults, planned, fault, *number, event.at_s).failed = Some(reason.clone());
            }
            _ => {}
        }
    }
    faults.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    faults
}

/// The entry of a fault's occurrence, made at the first event that speaks of it.
fn occurrence<'a>(
    faults: &'a mut Vec<Fault>,
    planned: &[plan::Fault],
    name: &str,
    number: u32,
    at_s: f64,
) -> &'a mut Fault {
    let known = faults.iter().position(|fault| fault.name == name && fault.number == number);
    let index = known.unwrap_or_else(|| {
        let plan = planned.iter().find(|fault| fault.name == name);
        faults.push(Fault {
            name: name.to_owned(),
            kind: plan.map_or_else(String::new, |plan| plan.kind.clone()),
            on: plan.map_or_else(String::new, |plan| plan.on.clone()),
            number,
            at_s,
            label: plan.map_or_else(String::new, |plan| plan.label.clone()),
            colour: plan.map_or_else(String::new, |plan| plan.colour.clone()),
            ..Fault::default()
        });
        faults.len() - 1
    });
    &mut faults[index]
}

#[cfg(test)]
mod tests;
