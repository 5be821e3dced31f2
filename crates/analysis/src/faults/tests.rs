//! Checks of how a trial's faults are put together from its events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
    let planned = plan::Trial { faults: vec![made_up::fault("oops", 10.0)], ..made_up::trial(made_up::load(10, 40.0)) };
    let window = LoadWindow { from_s: 2.0, until_s, first_fault_s: None, steady: None };
    happened(&planned, evidence, Timeline::of(&evidence.slots).as_ref(), Some(&window))
}

fn back_s(fault: &Fault) -> Option<f64> {
    fault.outage.as_ref().unwrap().back_to_baseline_s
}

#[test]
fn each_occurrence_has_its_own_outage() {
    let events = vec![begun(10.0, "oops", 1), healed(11.0, "oops", 1), begun(20.0, "oops", 2), begun(30.0, "kill", 1)];
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
    let baselines: Vec<f64> = found.faults.iter().filter_map(|fault| fault.outage.as_ref()?.baseline_per_s).collect();
    assert_eq!(baselines, [10_000.0, 10_000.0]);
}
