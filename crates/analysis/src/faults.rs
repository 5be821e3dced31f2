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
mod tests {
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::made_up;

    fn begun(at_s: f64, fault: &str, number: u32) -> Event {
        Event { at_s, what: What::FaultBegun { fault: fault.into(), number, kind: "kill".into(), on: "n2".into() } }
    }

    fn healed(at_s: f64, fault: &str, number: u32) -> Event {
        Event { at_s, what: What::FaultHealed { fault: fault.into(), number } }
    }

    /// 10 operations in each millisecond of 40 s, but for these times.
    fn evidence(down: &[(f64, f64)], events: Vec<Event>) -> Evidence {
        let slots = (0..40_000).map(|number| f64::from(number) / 1e3);
        let up = slots.filter(|at_s| !down.iter().any(|(from_s, until_s)| (from_s..until_s).contains(&at_s)));
        let slots = up.map(|at_s| OutcomeSlot { at_s, slot_s: 0.001, ok: 10, ..OutcomeSlot::default() }).collect();
        Evidence { slots, events, ..Evidence::default() }
    }

    fn found(evidence: &Evidence, until_s: f64) -> Vec<Fault> {
        all(evidence, until_s).faults
    }

    fn all(evidence: &Evidence, until_s: f64) -> Happened {
        let planned =
            plan::Trial { faults: vec![made_up::fault("oops", 10.0)], ..made_up::trial(made_up::load(10, 40.0)) };
        let window = LoadWindow { from_s: 2.0, until_s, first_fault_s: None, steady: None };
        happened(&planned, evidence, Timeline::of(&evidence.slots).as_ref(), Some(&window))
    }

    fn back_s(fault: &Fault) -> Option<f64> {
        fault.outage.as_ref().unwrap().back_to_baseline_s
    }

    #[test]
    fn each_occurrence_has_its_own_outage() {
        let events =
            vec![begun(10.0, "oops", 1), healed(11.0, "oops", 1), begun(20.0, "oops", 2), begun(30.0, "kill", 1)];
        let faults = found(&evidence(&[(10.0, 10.5), (20.0, 21.0), (30.0, 30.25)], events), 40.0);
        let known: Vec<_> = faults.iter().map(|fault| (fault.name.as_str(), fault.number, fault.healed_s)).collect();
        assert_eq!(known, [("oops", 1, Some(11.0)), ("oops", 2, None), ("kill", 1, None)]);
        assert_eq!(faults.iter().map(back_s).collect::<Vec<_>>(), [Some(0.5), Some(1.0), Some(0.25)]);
        assert_eq!((faults[0].kind.as_str(), faults[0].on.as_str()), ("kill", "n2"), "as the event says");
        assert_eq!((faults[0].label.as_str(), faults[0].colour.as_str()), ("a call", "#cc0000"), "as the plan says");
        assert_eq!(faults[0].outage.as_ref().unwrap().memory_released_bytes, None);
    }

    #[test]
    fn a_fault_during_another_ones_outage_has_no_baseline() {
        let events = vec![begun(10.0, "oops", 1), begun(12.0, "oops", 2)];
        let faults = found(&evidence(&[(10.0, 15.0)], events), 40.0);
        assert_eq!(back_s(&faults[0]), None);
        let second = faults[1].outage.as_ref().unwrap();
        assert_eq!((second.baseline_per_s, second.back_to_baseline_s), (None, None));
    }

    #[test]
    fn what_could_not_be_injected_has_no_outage() {
        let what = What::FaultFailed { fault: "oops".into(), number: 1, reason: "no such process".into() };
        let faults = found(&evidence(&[], vec![Event { at_s: 10.0, what }]), 40.0);
        assert_eq!(faults[0].failed.as_deref(), Some("no such process"));
        assert_eq!((faults[0].kind.as_str(), &faults[0].outage), ("call", &None));
    }

    #[test]
    fn a_fault_after_the_load_has_no_outage() {
        let faults = found(&evidence(&[], vec![begun(35.0, "oops", 1)]), 30.0);
        assert_eq!(faults[0].outage, None);
    }

    #[test]
    fn what_no_fault_explains_is_a_disturbance_and_no_baseline() {
        let down = [(6.0, 6.4), (10.0, 10.5), (15.0, 15.4), (25.0, 26.0)];
        let found = all(&evidence(&down, vec![begun(10.0, "oops", 1), begun(30.0, "oops", 2)]), 40.0);
        let at_s: Vec<f64> = found.disturbances.iter().map(|one| one.at_s).collect();
        assert_eq!(at_s, [6.0, 25.0], "what follows a fault within 10 s may be its own");
        assert_eq!(back_s(&found.faults[0]), Some(5.4));
        assert_eq!(found.disturbances[1].outage.back_to_baseline_s, Some(1.0));
        let baselines: Vec<f64> =
            found.faults.iter().filter_map(|fault| fault.outage.as_ref()?.baseline_per_s).collect();
        assert_eq!(baselines, [10_000.0, 10_000.0]);
    }
}
