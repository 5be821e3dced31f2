//! How long a plan takes. Starting and stopping a target is a guess, and said to be one.

use crate::duration::show;
use crate::plan::{Fault, Plan, Trial, When};

/// Starting a target, waiting until it is ready, and stopping it: what small targets take. Large ones take longer.
const AROUND_S: f64 = 3.0;

/// How long all trials take.
pub(super) fn total(plan: &Plan) -> String {
    let total_s: f64 = plan.trials.iter().map(trial_s).sum();
    let rounded = if total_s < 60.0 { show(total_s.ceil()) } else { show((total_s / 5.0).ceil() * 5.0) };
    let steps =
        if plan.trials.iter().any(|trial| !trial.steps.is_empty()) { ", if every step takes all its time" } else { "" };
    let search = if plan.find.is_some() { "for each step of the search" } else { "in all" };
    format!("Takes about {rounded} {search}{steps}, of which about {} for starting and stopping.", around(plan))
}

fn around(plan: &Plan) -> String {
    #[expect(clippy::cast_precision_loss, reason = "at most ten thousand trials")]
    let count = plan.trials.len() as f64;
    show(count * AROUND_S)
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
