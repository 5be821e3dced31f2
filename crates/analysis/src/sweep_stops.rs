//! The stop rule of a sweep: whether a finished trial meets its condition, in words for the
//! records.

use experiment::plan::{self, Plan, StopRule};
use record::folder::TrialFolder;
use record::results::Trial;
use text::numbers::by_metric;

use crate::Error;
use crate::claims::asked;
use crate::evidence::Evidence;
use crate::metrics::metric;
use crate::trial::judged;
use crate::verdict::RunContext;

/// Returns, in words, the figure with which the trial in this folder ends its sweep. Returns `None`
/// if the sweep continues, or if the plan has no stop rule. A void trial ends the sweep only if
/// void trials are accepted.
///
/// # Errors
/// If a record cannot be read, or is damaged elsewhere than at its end.
pub fn stops_sweep(plan: &Plan, planned: &plan::Trial, folder: &TrialFolder) -> Result<Option<String>, Error> {
    let Some(rule) = &plan.stop else { return Ok(None) };
    let mut evidence = Evidence::read(planned, folder)?;
    let of_run = RunContext { plan: Some(plan), ..RunContext::default() };
    let (trial, _) = judged(planned, folder, &mut evidence, of_run)?;
    Ok(because(rule, &trial))
}

fn because(rule: &StopRule, trial: &Trial) -> Option<String> {
    if !trial.counts() && !rule.accepts_void {
        return None;
    }
    let value = metric(trial, rule.metric.path()?).into_iter().find(|value| rule.range.holds(*value))?;
    Some(format!("{} was {} ({})", rule.metric, by_metric(&rule.metric, value), asked(&rule.metric, &rule.range)))
}

#[cfg(test)]
mod tests {
    use experiment::plan::MetricRange;
    use record::results::{Outcomes, Trust, Verdict};

    use super::*;

    #[test]
    fn a_void_trial_does_not_stop_a_sweep() {
        let range = MetricRange { above: Some(0.0), ..MetricRange::default() };
        let rule = StopRule { metric: "outcomes.timeout".into(), range, ..StopRule::default() };
        let trial = |timeout| Trial { outcomes: Outcomes { timeout, ..Outcomes::default() }, ..Trial::default() };
        assert_eq!(because(&rule, &trial(0)), None);
        assert_eq!(because(&rule, &trial(12)).as_deref(), Some("outcomes.timeout was 12 (above 0)"));
        let void = Trial { verdict: Verdict { is: Trust::Void, ..Verdict::default() }, ..trial(12) };
        assert_eq!(because(&rule, &void), None);
        assert!(because(&StopRule { accepts_void: true, ..rule.clone() }, &void).is_some());
        let unmeasured = StopRule { metric: "latency_us.p99".into(), ..rule };
        assert_eq!(because(&unmeasured, &trial(12)), None);
    }
}
