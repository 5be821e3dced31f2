//! Rules about the faults of a trial: whether each was what was asked for, and could be measured. How hard it hit is not looked at.

use experiment::plan::When;
use record::events::{Ending, What};

use super::generator::stalls;
use super::{Facts, Weighed};

pub(super) fn failed_fault(facts: &Facts<'_>) -> Weighed {
    let (name, reason) = facts.trial.faults.iter().find_map(|fault| Some((&fault.name, fault.failed.as_ref()?)))?;
    Some((1.0, format!("fault `{name}` could not be injected: {reason}")))
}

pub(super) fn missing_fault(facts: &Facts<'_>) -> Weighed {
    // Where the trial was cut short, that is reason enough.
    let ended = matches!(facts.evidence.ending(), Some((Ending::Done, _)));
    let missing = facts.planned.faults.iter().find(|planned| {
        let scheduled = !planned.standing && matches!(planned.when, When::At(_) | When::Every { .. });
        scheduled && !facts.trial.faults.iter().any(|fault| fault.name == planned.name)
    });
    let name = &missing.filter(|_| ended)?.name;
    Some((1.0, format!("fault `{name}` never began")))
}

pub(super) fn no_baseline(facts: &Facts<'_>) -> Weighed {
    let without = |outage: &record::results::Outage| outage.baseline_per_s.is_none();
    let fault = facts.trial.faults.iter().find(|fault| fault.outage.as_ref().is_some_and(without))?;
    let (name, number) = (&fault.name, fault.number);
    Some((1.0, format!("fault `{name}` ({number}) began when there was no steady service to compare with")))
}

pub(super) fn stall_in_outage(facts: &Facts<'_>) -> Weighed {
    let felt = |at_s: f64| {
        facts.trial.faults.iter().any(|fault| {
            let back_s = fault.outage.as_ref().and_then(|outage| outage.back_to_baseline_s);
            at_s > fault.at_s && at_s - 1.0 <= fault.at_s + back_s.unwrap_or(f64::INFINITY)
        })
    };
    let stall = stalls(facts).into_iter().find(|stall| felt(stall.at_s))?;
    let (at_s, late_ms) = (stall.at_s, stall.late_us / 1e3);
    Some((
        1.0,
        format!(
            "the generator stood still for {late_ms:.0} ms near {at_s:.0} s, while a fault was felt: its outage may be shorter"
        ),
    ))
}

pub(super) fn unhealed_fault(facts: &Facts<'_>) -> Weighed {
    let said = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if text.contains("could not be healed") => Some(text),
        _ => None,
    })?;
    Some((1.0, said.clone()))
}
