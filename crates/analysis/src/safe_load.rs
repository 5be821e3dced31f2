//! The safe load: what each trial of a search says of its limits, and what all of them say together. Which value comes next, and how
//! sure it all is, is worked out in `experiment::search`.

use experiment::plan::{self, Find, Plan};
use experiment::search::{self, End, Finished, Said, Silence};
use record::events::Ending;
use record::folder::TrialFolder;
use record::results::{SafeLoad, SearchStep, Trial, Trust};

use crate::Error;
use crate::evidence::Evidence;
use crate::trial::judged;
use crate::verdict::{Finding, OfRun};

mod limits;

/// Rules whose voice means that the generator, and not the target, was at its limit.
const GENERATOR: [&str; 5] =
    ["dropped_starts", "generator_cpu", "generator_lateness", "generator_stall", "generator_throttled"];

/// A trial of a search.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// For the search; `None` if the trial did not end, so that it is still to be played.
    pub finished: Option<Finished>,
    /// For a reader.
    pub step: SearchStep,
    /// The metric of the limit that broke by most.
    hit: Option<String>,
    condition: (Option<String>, Option<String>),
}

/// What the trial in this folder says to its search, and in which words; `None` if it did not end, or the plan does not search.
///
/// # Errors
/// If a record cannot be read, or is broken elsewhere than at its end.
pub fn finished(
    plan: &Plan,
    planned: &plan::Trial,
    folder: &TrialFolder,
) -> Result<Option<(Finished, SearchStep)>, Error> {
    let Some(find) = &plan.find else { return Ok(None) };
    let mut evidence = Evidence::read(planned, folder)?;
    let of_run = OfRun { plan: Some(plan), ..OfRun::default() };
    let (trial, findings) = judged(planned, folder, &mut evidence, of_run)?;
    let step = step(find, &trial, &findings);
    Ok(step.finished.map(|finished| (finished, step.step)))
}

/// A trial as its search sees it.
pub(crate) fn step(find: &Find, trial: &Trial, findings: &[Finding]) -> Step {
    let value = trial.point.get(&find.highest).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let (said, broke, hit) = said(find, trial, findings);
    let held = match &said {
        Some(Said::Held(_)) => Some(true),
        Some(Said::Broke(_)) => Some(false),
        Some(Said::Nothing(_)) | None => None,
    };
    let finished =
        said.map(|said| Finished { variant: trial.variant.clone(), surviving: trial.surviving.clone(), value, said });
    Step {
        finished,
        step: SearchStep { trial: trial.id.clone(), value, held, broke, figures: limits::figures(&find.limits, trial) },
        hit,
        condition: (trial.variant.clone(), trial.surviving.clone()),
    }
}

/// What it says, the words to it, and the limit that broke by most.
fn said(find: &Find, trial: &Trial, findings: &[Finding]) -> (Option<Said>, Vec<String>, Option<String>) {
    if trial.ended != Some(Ending::Done) {
        return (None, vec!["it was cut off".to_owned()], None);
    }
    let void = findings.iter().find(|finding| finding.trust == Trust::Void && !find.accepts_void);
    if let Some(void) = void {
        let generator =
            findings.iter().find(|finding| finding.trust == Trust::Void && GENERATOR.contains(&finding.rule));
        let silence = generator
            .map_or_else(|| Silence::Void(void.reason.clone()), |finding| Silence::Generator(finding.reason.clone()));
        let reason = generator.unwrap_or(void).reason.clone();
        return (Some(Said::Nothing(silence)), vec![reason], None);
    }
    let judged: Vec<limits::Judged> = find.limits.iter().map(|limit| limits::judge(limit, trial)).collect();
    let broken: Vec<&limits::Judged> = judged.iter().filter(|limit| limit.holds == Some(false)).collect();
    let margins = |limits: &[&limits::Judged]| -> Vec<f64> { limits.iter().filter_map(|limit| limit.margin).collect() };
    // Whatever else could not be measured: one limit that is known to be broken is enough.
    if !broken.is_empty() {
        let farthest = margins(&broken).into_iter().reduce(f64::max);
        let hit = broken.iter().max_by(|a, b| a.margin.unwrap_or(0.0).total_cmp(&b.margin.unwrap_or(0.0)));
        let hit = hit.map(|limit| limit.metric.clone());
        return (Some(Said::Broke(farthest)), broken.iter().map(|limit| limit.words.clone()).collect(), hit);
    }
    let unmeasured: Vec<String> =
        judged.iter().filter(|limit| limit.holds.is_none()).map(|limit| limit.words.clone()).collect();
    if let Some(first) = unmeasured.first() {
        return (Some(Said::Nothing(Silence::Unmeasured(first.clone()))), unmeasured, None);
    }
    let nearest = margins(&judged.iter().collect::<Vec<_>>()).into_iter().reduce(f64::min);
    (Some(Said::Held(nearest)), Vec::new(), None)
}

/// The line of each variant under each condition.
pub(crate) fn safe_loads(find: &Find, steps: &[Step]) -> Vec<SafeLoad> {
    let finished: Vec<Finished> = steps.iter().filter_map(|step| step.finished.clone()).collect();
    find.templates.iter().map(|template| safe_load(find, template, steps, &finished)).collect()
}

fn safe_load(find: &Find, template: &plan::Trial, steps: &[Step], finished: &[Finished]) -> SafeLoad {
    let line = search::line(find, template, finished);
    let own: Vec<&Step> = own(template, steps);
    SafeLoad {
        variant: template.variant.clone(),
        over: find.highest.clone(),
        value: line.value,
        ci95: line.ci95,
        limited_by: limited_by(find, line.end.as_ref(), line.value, &own),
        surviving: template.surviving.clone().unwrap_or_default(),
        complete: matches!(line.end, Some(End::Narrow | End::Nowhere | End::Bound)),
        steps: own.into_iter().map(|step| step.step.clone()).collect(),
    }
}

fn own<'a>(template: &plan::Trial, steps: &'a [Step]) -> Vec<&'a Step> {
    steps.iter().filter(|step| step.condition.0 == template.variant && step.condition.1 == template.surviving).collect()
}

/// The limit that broke at the lowest value beyond the line; or what kept the search from meeting one.
fn limited_by(find: &Find, end: Option<&End>, value: Option<f64>, steps: &[&Step]) -> String {
    match end {
        Some(End::Bound) => return format!("the search: nothing above {} was to be tried", find.up_to.unwrap_or(0.0)),
        Some(End::Generator(reason)) => return format!("the generator: {reason}"),
        Some(End::Silent(reason)) => return format!("the search: {reason}"),
        Some(End::Narrow | End::Nowhere | End::Trials) | None => {}
    }
    let beyond = steps.iter().filter(|step| value.is_none_or(|value| step.step.value >= value));
    let nearest = beyond.filter(|step| step.hit.is_some()).min_by(|a, b| a.step.value.total_cmp(&b.step.value));
    match (nearest.and_then(|step| step.hit.clone()), end) {
        (Some(hit), _) => hit,
        (None, None) => "the search: it was not finished".to_owned(),
        (None, Some(_)) => format!("the search: no limit broke within {} trials", steps.len()),
    }
}

/// The line that the answer begins with: of the first variant, the lowest.
pub(crate) fn lowest(lines: &[SafeLoad]) -> Option<SafeLoad> {
    let variant = &lines.first()?.variant;
    let of_first = lines.iter().filter(|line| line.variant == *variant);
    of_first.min_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0))).cloned()
}

/// The trials that the lines rest on: void ones that were played again are not used. A search that has no other is judged by
/// them.
pub(crate) fn used(find: &Find, steps: &[Step]) -> Vec<String> {
    let mut used = Vec::new();
    for template in &find.templates {
        let own = own(template, steps);
        let says: Vec<&&Step> = own.iter().filter(|step| step.step.held.is_some()).collect();
        let counted = if says.is_empty() { own.iter().collect() } else { says };
        used.extend(counted.into_iter().map(|step| step.step.trial.clone()));
    }
    used
}

#[cfg(test)]
mod tests;
