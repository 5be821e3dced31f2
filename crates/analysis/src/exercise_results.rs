//! The steps of an exercise, from the events of a trial: their duration, their result, and the
//! results of their audits.

use std::collections::{BTreeMap, BTreeSet};

use experiment::plan::Plan;
use record::events::{Event, StepResult, What};
use record::results::{PlayedStep, Results, StepAudit};
use text::{code, listed, numbers};

use crate::trial_groups;

/// Returns every step that began, in order. A repeated step appears each time.
pub(crate) fn played(events: &[Event]) -> Vec<PlayedStep> {
    let mut steps: Vec<PlayedStep> = Vec::new();
    for event in events {
        // Steps run one after the other, so later events belong to the last step with their name.
        let step = match &event.what {
            What::StepBegun { step } => {
                steps.push(PlayedStep { name: step.clone(), at_s: event.at_s, failed: 1, ..PlayedStep::default() });
                continue;
            }
            What::StepEnded { step, .. } | What::StepAudited { step, .. } | What::TargetRebuilt { after: step } => step,
            _ => continue,
        };
        let Some(played) = steps.iter_mut().rfind(|played| played.name == *step) else { continue };
        match &event.what {
            What::StepEnded { result, done_s, why, .. } => ended(played, event.at_s, *result, *done_s, why.clone()),
            What::StepAudited { audit, host, failed, .. } => audited(played, audit, host, failed.as_ref()),
            What::TargetRebuilt { .. } => played.rebuilt_s = Some(event.at_s),
            _ => {}
        }
    }
    steps
}

fn ended(step: &mut PlayedStep, at_s: f64, result: StepResult, done_s: Option<f64>, why: Option<String>) {
    step.result = result;
    step.failed = u64::from(result != StepResult::Ok);
    step.time_s = (result == StepResult::Ok).then_some(at_s - step.at_s);
    step.done_s = done_s;
    step.ended_s = Some(at_s);
    step.why = why;
}

fn audited(step: &mut PlayedStep, audit: &str, host: &str, failed: Option<&String>) {
    let index = step.audits.iter().position(|known| known.name == audit).unwrap_or_else(|| {
        step.audits.push(StepAudit { name: audit.to_owned(), ..StepAudit::default() });
        step.audits.len() - 1
    });
    let of = &mut step.audits[index];
    of.members += 1;
    let Some(why) = failed else { return };
    of.failed += 1;
    of.reasons.push(format!("{host}: {why}"));
    step.failed = 1;
    if step.result == StepResult::Ok {
        step.result = StepResult::AuditFailed;
        step.why = Some(format!("audit `{audit}`: {host}: {why}"));
    }
}

/// Returns a sentence with the number of successful steps, and the names of the others with their
/// cases, if the run has several. Returns `None` without steps.
pub(crate) fn sentence(results: &Results, plan: &Plan) -> Option<String> {
    let mut named: BTreeMap<&str, BadStep> = BTreeMap::new();
    let (mut all, mut bad) = (0, 0);
    for trial in &results.trials {
        all += trial.steps.len() as u64;
        for step in trial.steps.iter().filter(|step| step.failed > 0) {
            bad += 1;
            let of = named
                .entry(&step.name)
                .or_insert_with(|| BadStep { result: step.result.words(), ..BadStep::default() });
            of.times += 1;
            of.cases.insert(trial_groups::case_name(trial, plan));
        }
    }
    let mut bad_ones = Vec::new();
    for (name, of) in named {
        let times = if of.times == 1 { String::new() } else { format!(" {} times", of.times) };
        // A single case has no name.
        let cases: Vec<String> = of.cases.iter().filter(|case| !case.is_empty()).map(|case| code(case)).collect();
        let at = if cases.is_empty() { String::new() } else { format!(" in {}", listed(&cases, "and")) };
        bad_ones.push(format!("{} {}{times}{at}", code(name), of.result));
    }
    match (all, bad) {
        (0, _) => None,
        (1, 0) => Some("The step was ok.".to_owned()),
        (all, 0) => Some(format!("All {} steps were ok.", numbers::count(all))),
        (all, bad) => {
            let (ok, all) = (numbers::count(all - bad), numbers::count(all));
            Some(format!("{ok} of {all} steps were ok: {}.", listed(&bad_ones, "and")))
        }
    }
}

/// A step that failed, over all trials.
#[derive(Default)]
struct BadStep {
    result: &'static str,
    times: u64,
    cases: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use record::results::Trial;

    use super::*;
    use crate::synthetic;

    fn events() -> Vec<Event> {
        let (step, audit) = ("flip".to_owned(), "one-leader".to_owned());
        let healthy =
            What::StepAudited { step: step.clone(), audit: audit.clone(), host: "n1".to_owned(), failed: None };
        let failed = Some("two leaders".to_owned());
        let done = What::StepEnded { step: step.clone(), result: StepResult::Ok, done_s: Some(1.0), why: None };
        let late = What::StepEnded {
            step: "split".to_owned(),
            result: StepResult::TimedOut,
            done_s: None,
            why: Some("not done within 10 s".to_owned()),
        };
        let events = [
            (0.5, What::StepBegun { step: step.clone() }),
            (3.0, done),
            (3.1, healthy),
            (3.1, What::StepAudited { step: step.clone(), audit, host: "n2".to_owned(), failed }),
            (5.0, What::TargetRebuilt { after: step }),
            (5.0, What::StepBegun { step: "split".to_owned() }),
            (15.0, late),
            (15.0, What::StepBegun { step: "cut".to_owned() }),
        ];
        events.map(|(at_s, what)| Event { at_s, what }).to_vec()
    }

    #[test]
    fn steps_are_put_together_from_events() {
        let steps = played(&events());
        let shape: Vec<_> = steps
            .iter()
            .map(|step| (step.name.as_str(), step.result, step.failed, step.time_s, step.rebuilt_s))
            .collect();
        let expected = [
            ("flip", StepResult::AuditFailed, 1, Some(2.5), Some(5.0)),
            ("split", StepResult::TimedOut, 1, None, None),
            ("cut", StepResult::Unfinished, 1, None, None),
        ];
        assert_eq!(shape, expected);
        assert_eq!(steps[0].why.as_deref(), Some("audit `one-leader`: n2: two leaders"));
        let [audit] = steps[0].audits.as_slice() else { panic!("{:?}", steps[0].audits) };
        assert_eq!(
            (audit.members, audit.failed, audit.reasons.as_slice()),
            (2, 1, &["n2: two leaders".to_owned()][..])
        );
        assert_eq!(steps[1].why.as_deref(), Some("not done within 10 s"));
    }

    #[test]
    fn the_answer_names_the_bad_steps() {
        let all = "0 of 3 steps were ok: `cut` unfinished, `flip` audit failed and `split` timed out.";
        for (count, expected) in [(0, None), (2, Some("The step was ok.")), (8, Some(all))] {
            let trial = Trial { steps: played(&events()[..count]), ..Trial::default() };
            let results = Results { trials: vec![trial], ..Results::default() };
            assert_eq!(sentence(&results, &synthetic::plan()).as_deref(), expected);
        }
    }

    #[test]
    fn the_answer_names_the_cases_of_bad_steps() {
        let plan = Plan { swept: vec!["lab.hosts".to_owned()], ..synthetic::plan() };
        let trials = [(8, 2), (13, 8), (16, 5)].map(|(nodes, count)| Trial {
            point: [("lab.hosts".to_owned(), nodes.into())].into(),
            steps: played(&events()[..count]),
            ..Trial::default()
        });
        let text = sentence(&Results { trials: trials.to_vec(), ..Results::default() }, &plan).unwrap();
        let expected = "1 of 5 steps were ok: `cut` unfinished in `hosts 13`, `flip` audit failed 2 times in `hosts 13` and `hosts 16` and \
                        `split` timed out in `hosts 13`.";
        assert_eq!(text, expected);
    }
}
