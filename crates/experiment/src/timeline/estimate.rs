//! How long a plan takes. Starting and stopping a target is a guess, and said to be one.

use crate::duration::show;
use crate::plan::{Fault, Find, Plan, Trial, When};
use crate::search;

/// Starting a target, waiting until it is ready, and stopping it: what small targets take. Large ones take longer.
const AROUND_S: f64 = 3.0;

/// How long all trials take.
pub(super) fn total(plan: &Plan) -> String {
    if let Some(find) = &plan.find {
        return of_searches(find);
    }
    let total_s: f64 = plan.trials.iter().map(trial_s).sum();
    let steps =
        if plan.trials.iter().any(|trial| !trial.steps.is_empty()) { ", if every step takes all its time" } else { "" };
    let around = show(plan.trials.iter().map(|_| AROUND_S).sum());
    format!("Takes about {} in all{steps}, of which about {around} for starting and stopping.", rounded(total_s))
}

/// What a search takes depends on what it finds: what is usual, and what is possible.
fn of_searches(find: &Find) -> String {
    let (mut usual, mut usual_s, mut most, mut most_s) = (0, 0.0, 0, 0.0);
    for template in &find.templates {
        let trials = search::typical_trials(find, template);
        usual += trials;
        most += find.trials_max;
        usual_s += f64::from(trials) * trial_s(template);
        most_s += f64::from(find.trials_max) * trial_s(template);
    }
    let trial = find.templates.first().map_or(0.0, trial_s);
    format!(
        "Takes about {usual} trials of about {}, {} in all; at most {most} trials, {}.",
        rounded(trial),
        rounded(usual_s),
        rounded(most_s)
    )
}

fn rounded(total_s: f64) -> String {
    if total_s < 60.0 { show(total_s.ceil()) } else { show((total_s / 5.0).ceil() * 5.0) }
}

fn trial_s(trial: &Trial) -> f64 {
    let steps_s: f64 = trial.steps.iter().map(|step| step.within_s).sum();
    AROUND_S + load_s(trial) + steps_s
}

/// The load's time; of faults alone, until the last is healed.
pub(super) fn load_s(trial: &Trial) -> f64 {
    if let Some(load) = &trial.load {
        return load.time_s;
    }
    let end = |fault: &Fault| {
        let last_s = moments(fault, &trial.faults, f64::INFINITY).last().copied().unwrap_or(0.0);
        last_s + fault.for_s.unwrap_or(0.0)
    };
    trial.faults.iter().map(end).fold(0.0, f64::max)
}

/// When a fault begins, before `end_s`; of one that comes back for ever, the first thousand times.
pub(super) fn moments(fault: &Fault, faults: &[Fault], end_s: f64) -> Vec<f64> {
    moments_within(fault, faults, end_s, faults.len())
}

fn moments_within(fault: &Fault, faults: &[Fault], end_s: f64, depth: usize) -> Vec<f64> {
    let moments: Vec<f64> = match &fault.when {
        When::At(at_s) => vec![*at_s],
        When::Every { first_s, every_s } => {
            let next = |at_s: &f64| Some(at_s + every_s).filter(|next_s| *next_s < end_s);
            std::iter::successors(Some(*first_s), next).take(1000).collect()
        }
        When::After { fault: name, healed, plus_s } => {
            let Some(other) = faults.iter().find(|other| other.name == *name).filter(|_| depth > 0) else {
                return Vec::new();
            };
            let lasts_s = if *healed { other.for_s.unwrap_or(0.0) } else { 0.0 };
            let others = moments_within(other, faults, end_s, depth - 1);
            others.into_iter().map(|at_s| at_s + lasts_s + plus_s).collect()
        }
    };
    moments.into_iter().filter(|at_s| *at_s < end_s).collect()
}
