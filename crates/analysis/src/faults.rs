//! The faults of a trial, each with what clients felt of it. Which numbers make an outage is said in `stats`.

use experiment::plan;
use record::events::{Event, What};
use record::results::Fault;

use crate::evidence::Evidence;
use crate::hosts::memory_released_bytes;
use crate::load_window::LoadWindow;
use crate::stats::outage::{Times, outage};
use crate::stats::timeline::Timeline;

/// Service must have been back for so long before it serves as the baseline of the next fault, seconds.
const SETTLED_S: f64 = 1.0;

/// Memory that a fault releases is released within this time, seconds.
const MEMORY_WITHIN_S: f64 = 5.0;

/// Every occurrence of a fault, in time order, with its outage if there was load.
pub(crate) fn faults(
    planned: &plan::Trial,
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
) -> Vec<Fault> {
    let mut faults = occurrences(&evidence.events, &planned.faults);
    let timeout_s = planned.load.as_ref().map_or(0.0, |load| load.timeout_s);
    let (Some(timeline), Some(window)) = (timeline, window) else { return faults };
    let counted_until_s = evidence.last_s().unwrap_or(window.until_s).max(window.until_s) + timeline.slot_s();
    let mut baseline_from_s = Some(window.from_s);
    // What stands all the time is a condition of the trial: nobody felt it begin.
    let stands = |fault: &Fault| planned.faults.iter().any(|plan| plan.standing && plan.name == fault.name);
    let nothing_began = |fault: &Fault| fault.failed.is_some() || stands(fault);
    let begun: Vec<f64> = faults.iter().map(|fault| if nothing_began(fault) { f64::NAN } else { fault.at_s }).collect();
    for (number, fault) in faults.iter_mut().enumerate() {
        if begun[number].is_nan() || fault.at_s >= window.until_s {
            continue;
        }
        let next_s =
            begun[number + 1..].iter().copied().find(|next_s| !next_s.is_nan()).filter(|&s| s < window.until_s);
        let times = Times {
            at_s: fault.at_s,
            healed_s: fault.healed_s,
            baseline_from_s,
            until_s: next_s.unwrap_or(window.until_s),
            counted_until_s: next_s.unwrap_or(counted_until_s),
            timeout_s,
        };
        let mut felt = outage(timeline, times);
        felt.memory_released_bytes = memory_released_bytes(&evidence.samples, fault.at_s, MEMORY_WITHIN_S);
        baseline_from_s = felt.back_to_baseline_s.map(|back_s| fault.at_s + back_s + SETTLED_S);
        fault.outage = Some(felt);
    }
    faults
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
