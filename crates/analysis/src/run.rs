//! A run: its plan and every trial that has records, put together into results. It writes nothing; the `answer` is left to
//! whoever words it.

use experiment::plan::{self, Plan};
use record::events::Ending;
use record::folder::RunFolder;
use record::results::{FORMAT, Results, Trial};
use record::whole::read_json_up_to;

use crate::audit::pooled::pooled;
use crate::evidence::Evidence;
use crate::safe_load::{self, Step};
use crate::trial::judged;
use crate::verdict::{Finding, OfRun, lost_trial, of_used, run_verdict};
use crate::versions::Earlier;
use crate::{Error, claims, comparisons, cost, outages, scaling, sound};

/// The results of a run, as far as its records go. `answer` is empty.
///
/// # Errors
/// If it has no plan, a later version wrote it, or a record is broken elsewhere than at its end.
pub fn analyze(folder: &RunFolder) -> Result<Results, Error> {
    let plan = plan_of(folder)?;
    folder.refuse_later_results()?;
    let ids = folder.trial_ids().map_err(Error::List)?;
    let is_over = folder.read_ending()?.is_some_and(|ending| ending.how == Ending::Done);
    let mut trials: Vec<Trial> = Vec::new();
    let mut findings: Vec<(String, Vec<Finding>)> = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    let mut earlier = Earlier::default();
    for planned in plan.trials.iter().filter(|planned| ids.contains(&planned.id)) {
        let trial_folder = folder.trial(&planned.id);
        let mut evidence = Evidence::read(planned, &trial_folder)?;
        let of_run = OfRun { plan: Some(&plan), earlier: Some(&earlier), is_over };
        let (trial, found) = judged(planned, &trial_folder, &mut evidence, of_run)?;
        earlier.add(planned, &evidence);
        steps.extend(plan.find.as_ref().map(|find| safe_load::step(find, &trial, &found)));
        findings.push((trial.id.clone(), found));
        trials.push(trial);
    }
    let partial = partial(folder, &plan, &trials)?;
    let safe_loads = plan.find.as_ref().map(|find| safe_load::safe_loads(find, &steps)).unwrap_or_default();
    if let Some(find) = &plan.find {
        let used = safe_load::used(find, &steps);
        findings.retain(|(id, _)| used.contains(id));
    } else {
        findings = of_used(&trials, findings);
    }
    let lost = plan.trials.iter().filter(|planned| is_over && !ids.contains(&planned.id));
    findings.extend(lost.map(|planned| (planned.id.clone(), vec![lost_trial()])));
    Ok(Results {
        format: FORMAT,
        partial,
        verdict: run_verdict(&findings),
        planned_trials: u32::try_from(plan.trials.len()).unwrap_or(u32::MAX),
        claims: plan.claims.iter().map(|claim| claims::claim(claim, &trials)).collect(),
        requirements: plan.requirements.iter().map(|gate| claims::requirement(gate, &trials)).collect(),
        safe_load: safe_load::lowest(&safe_loads),
        safe_loads,
        // Trials of a search differ in what it makes of them.
        comparisons: if plan.find.is_some() { Vec::new() } else { comparisons::within(&plan, &trials) },
        scaling: scaling::scaling(&trials, &plan.swept),
        crossings: scaling::crossings(&trials, &plan.swept),
        outages: outages::distributions(&trials),
        // Nor has a search points whose repeats could be put together.
        costs: if plan.find.is_some() { Vec::new() } else { cost::points(&trials) },
        // Of a search each trial has a load of its own, and the last ones are beyond the edge.
        consistencies: if plan.find.is_some() { Vec::new() } else { pooled(&trials) },
        title: plan.title,
        asks: plan.asks,
        trials,
        ..Results::default()
    })
}

pub(crate) fn plan_of(folder: &RunFolder) -> Result<Plan, Error> {
    let plan = read_json_up_to(&folder.plan(), plan::FORMAT)?;
    let plan = plan.ok_or_else(|| Error::NotARun(folder.path().to_path_buf()))?;
    sound::plan(&folder.plan(), &plan)?;
    Ok(plan)
}

/// Why the results are not those of the whole plan, if so.
fn partial(folder: &RunFolder, plan: &Plan, trials: &[Trial]) -> Result<Option<String>, Error> {
    let (planned, done) = (plan.trials.len(), trials.iter().filter(|trial| trial.ended == Some(Ending::Done)).count());
    let because = |reason: Option<String>| reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let ending = folder.read_ending()?;
    let how = match ending {
        Some(ending) if ending.how == Ending::Done && done == planned => return Ok(None),
        Some(ending) => match ending.how {
            Ending::Done => "the run ended".to_owned(),
            Ending::Interrupted => format!("the run was interrupted{}", because(ending.reason)),
            Ending::Failed => format!("the run failed{}", because(ending.reason)),
        },
        None => "the run still goes on, or was killed".to_owned(),
    };
    let without = planned - trials.len().min(planned);
    Ok(Some(match without {
        0 => format!("{how}: {done} of {planned} trials are complete"),
        _ => format!("{how}: {done} of {planned} trials are complete, {without} have no records"),
    }))
}

#[cfg(test)]
mod tests;
