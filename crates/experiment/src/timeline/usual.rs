//! Usual durations of trials: measured in an earlier run of the same experiment, or else estimated
//! from the target's `around` and the steps' `usual`.

use std::collections::BTreeMap;

use super::{AROUND_S, RESET_S, load_s, paused_s, steps_s};
use crate::plan::{Plan, TargetKind, Trial};
use crate::search;

/// Known durations of trials.
#[derive(Debug, Clone, Default)]
pub struct UsualTimes {
    /// Trials of an earlier run, each with the seconds from its start to the start of the next one.
    pub played: Vec<(Trial, f64)>,
    /// Seconds for starting and stopping each target, by name, if `lab.speed` is 1.
    pub around_s: BTreeMap<String, f64>,
}

impl UsualTimes {
    /// Returns the seconds that all trials usually take, and the part of them for starting and
    /// stopping.
    pub(super) fn of_plan(&self, plan: &Plan) -> (f64, f64) {
        if let Some(find) = &plan.find {
            let mut sum = (0.0, 0.0);
            for template in &find.templates {
                let trials = f64::from(search::typical_trials(find, template));
                let is_shared = plan.shares_start(template, template) && find.templates.len() == 1;
                let again = trials - 1.0;
                let (first_s, later_s) = (self.around_s(template, false), self.around_s(template, is_shared));
                sum.0 += trials * played_s(template) + first_s + again * later_s;
                sum.1 += first_s + again * later_s;
            }
            return sum;
        }
        let mut before: Option<&Trial> = None;
        plan.trials.iter().fold((0.0, 0.0), |(total_s, all_around_s), trial| {
            let is_shared = before.replace(trial).is_some_and(|before| plan.shares_start(trial, before));
            let around_s = self.around_s(trial, is_shared);
            let measured_s = self.measured_beyond_load_s(trial);
            let trial_s = measured_s.map_or(around_s + played_s(trial), |beyond_s| beyond_s + load_s(trial));
            (total_s + trial_s, all_around_s + measured_s.filter(|_| trial.steps.is_empty()).unwrap_or(around_s))
        })
    }

    /// Whether some steps have no known duration, only a bound.
    pub(super) fn has_unknown_steps(&self, plan: &Plan) -> bool {
        plan.possible().iter().any(|trial| {
            trial.steps.iter().any(|step| step.usual_s.is_none()) && self.measured_beyond_load_s(trial).is_none()
        })
    }

    /// Returns the seconds that starting and stopping the target usually take. A slowed lab starts
    /// and stops more slowly, too, unless it has `quick_start`.
    fn around_s(&self, trial: &Trial, is_shared: bool) -> f64 {
        let around_s = match &trial.target.kind {
            _ if is_shared => RESET_S,
            TargetKind::Folder { name, .. } => self.around_s.get(name).copied().unwrap_or(AROUND_S),
            TargetKind::Running { .. } | TargetKind::Started { .. } => AROUND_S,
        };
        if trial.lab.quick_start { around_s } else { around_s / trial.lab.speed }
    }

    /// Returns the mean time that trials of the earlier run took beyond their load, in seconds.
    /// Counts trials of the same variant at the same point, whatever their load.
    fn measured_beyond_load_s(&self, trial: &Trial) -> Option<f64> {
        let outer = |trial: &Trial| {
            let point = trial.point.iter().filter(|(path, _)| !path.starts_with("load."));
            point.map(|(path, value)| (path.clone(), value.clone())).collect::<Vec<_>>()
        };
        let is_alike = |other: &Trial| {
            (&other.variant, &other.steps.len()) == (&trial.variant, &trial.steps.len())
                && outer(other) == outer(trial)
                && other.target.start == trial.target.start
                && steps_s(other).total_cmp(&steps_s(trial)).is_eq()
        };
        let alike = self.played.iter().filter(|(other, _)| is_alike(other));
        let beyond: Vec<f64> = alike.map(|(other, wall_s)| wall_s - load_s(other)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
        (!beyond.is_empty()).then(|| beyond.iter().sum::<f64>() / beyond.len() as f64)
    }
}

/// Returns the usual seconds of the load, or of the steps if the steps take longer.
fn played_s(trial: &Trial) -> f64 {
    let after =
        |ends_s: f64, step: &crate::plan::Exercise| paused_s(ends_s, step, step.usual_s.unwrap_or(step.within_s));
    load_s(trial).max(trial.steps.iter().fold(0.0, after))
}
