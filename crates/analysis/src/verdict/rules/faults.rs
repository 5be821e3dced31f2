//! Rules about faults and actions: whether they happened, when they began, and how long they acted.

use experiment::plan::{self, When};
use record::events::Ending;
use record::results::Fault;
use text::numbers;

use super::{Evaluation, RuleInput};

/// Largest deviation that injecting a fault usually causes, seconds.
const USUAL_S: f64 = 0.05;

pub(super) fn failed_fault(facts: &RuleInput<'_>) -> Evaluation {
    let mut faults = facts.trial.faults.iter().filter_map(|fault| Some((&fault.name, fault.failed.as_ref()?)));
    let mut actions = facts.trial.actions.iter().filter_map(|action| Some((&action.name, action.failed.as_ref()?)));
    let fault = faults.next().map(|(name, reason)| format!("fault `{name}` could not be injected: {reason}"));
    let text = fault.or_else(|| actions.next().map(|(name, reason)| format!("action `{name}` failed: {reason}")))?;
    Some((1.0, text))
}

pub(super) fn missing_fault(facts: &RuleInput<'_>) -> Evaluation {
    // A trial that was cut short is not judged: its early end explains missing faults.
    let ended = matches!(facts.evidence.ending(), Some((Ending::Done, _)));
    let missing = facts.planned.faults.iter().find(|planned| {
        let scheduled = !planned.standing && matches!(planned.when, When::At(_) | When::Every { .. });
        let faults = facts.trial.faults.iter().map(|fault| &fault.name);
        scheduled
            && !faults.chain(facts.trial.actions.iter().map(|action| &action.name)).any(|name| *name == planned.name)
    });
    let missing = missing.filter(|_| ended && facts.trial.stopped.is_none())?;
    let what = if missing.repairs { "action" } else { "fault" };
    Some((1.0, format!("{what} `{}` never began", missing.name)))
}

pub(super) fn no_baseline(facts: &RuleInput<'_>) -> Evaluation {
    // An action of a step may run before there is steady service.
    let mut faults =
        facts.trial.faults.iter().filter(|fault| facts.planned.steps.iter().all(|step| step.name != fault.name));
    let fault = faults.find(|fault| fault.outage.as_ref().is_some_and(|outage| outage.baseline_per_s.is_none()))?;
    let (name, number) = (&fault.name, fault.number);
    Some((1.0, format!("fault `{name}` ({number}) began without steady service before it as a baseline")))
}

pub(super) fn late_fault(facts: &RuleInput<'_>) -> Evaluation {
    let late = begun(facts).filter_map(|(fault, planned)| {
        let due_s = due_s(fault, planned, facts)?;
        let late_s = fault.at_s - due_s;
        let of_s = planned.for_s.or_else(|| Some(planned_end_s(facts)? - due_s))?;
        let text = format!("{} began {} later than planned", named(fault), numbers::seconds(late_s));
        (late_s > USUAL_S && of_s > 0.0).then(|| (100.0 * late_s / of_s, text))
    });
    late.max_by(|a, b| a.0.total_cmp(&b.0))
}

pub(super) fn fault_duration(facts: &RuleInput<'_>) -> Evaluation {
    // A trial that was cut short is not judged: its faults may end early, too.
    let is_whole = matches!(facts.evidence.ending(), Some((Ending::Done, _))) && facts.trial.stopped.is_none();
    let off = begun(facts).filter(|_| is_whole).filter_map(|(fault, planned)| {
        let (for_s, healed_s) = planned.for_s.zip(fault.healed_s)?;
        // The end of the load heals faults that would last longer.
        if planned_end_s(facts).is_some_and(|end_s| fault.at_s + for_s >= end_s) {
            return None;
        }
        let off_s = (healed_s - fault.at_s - for_s).abs();
        let (lasted, for_s_text) = (numbers::seconds(healed_s - fault.at_s), numbers::seconds(for_s));
        let text = format!("{} lasted {lasted} instead of {for_s_text}", named(fault));
        (off_s > USUAL_S).then(|| (100.0 * off_s / for_s, text))
    });
    off.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the injected faults that are not standing, each with its plan.
fn begun<'a>(facts: &RuleInput<'a>) -> impl Iterator<Item = (&'a Fault, &'a plan::Fault)> + use<'a> {
    let planned = &facts.planned.faults;
    facts.trial.faults.iter().filter(|fault| fault.failed.is_none()).filter_map(|fault| {
        planned.iter().find(|plan| plan.name == fault.name && !plan.standing).map(|plan| (fault, plan))
    })
}

/// Returns the planned start of an occurrence, seconds since load start.
fn due_s(fault: &Fault, planned: &plan::Fault, facts: &RuleInput<'_>) -> Option<f64> {
    match &planned.when {
        When::At(at_s) => Some(*at_s),
        When::Every { first_s, every_s } => Some(first_s + f64::from(fault.number.saturating_sub(1)) * every_s),
        When::After { fault: other, healed, plus_s } => {
            let others = facts.trial.faults.iter().filter(|one| one.name == *other && one.failed.is_none());
            let moments = others.map(|one| one.healed_s.filter(|_| *healed).unwrap_or(one.at_s) + plus_s);
            moments.filter(|due_s| *due_s <= fault.at_s).max_by(f64::total_cmp)
        }
    }
}

fn planned_end_s(facts: &RuleInput<'_>) -> Option<f64> {
    facts.planned.load.as_ref().map(|load| load.time_s)
}

fn named(fault: &Fault) -> String {
    let times = if fault.number > 1 { format!(" ({})", fault.number) } else { String::new() };
    format!("fault `{}`{times}", fault.name)
}
