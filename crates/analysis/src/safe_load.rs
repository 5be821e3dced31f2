//! The safe load: what each trial of a search says of its limits, and what all of them say together. Which value comes next,
//! and how sure it all is, is worked out in `experiment::search`.

use std::collections::BTreeMap;

use experiment::plan::{self, Find, Plan, Range, Requirement};
use experiment::quantity::grouped;
use experiment::search::{self, End, Finished, Said, Silence};
use record::events::Ending;
use record::folder::TrialFolder;
use record::results::{Outage, SafeLoad, SearchStep, Trial, Trust};

use crate::Error;
use crate::claims::{asked_as, worst};
use crate::evidence::Evidence;
use crate::metrics::metric;
use crate::stats::quantiles::{named, samples_for};
use crate::trial::judged;
use crate::verdict::{Finding, OfRun};

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
        step: SearchStep { trial: trial.id.clone(), value, held, broke, figures: figures(&find.limits, trial) },
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
    let judged: Vec<Judged> = find.limits.iter().map(|limit| judge(limit, trial)).collect();
    let broken: Vec<&Judged> = judged.iter().filter(|limit| limit.holds == Some(false)).collect();
    let margins = |limits: &[&Judged]| -> Vec<f64> { limits.iter().filter_map(|limit| limit.margin).collect() };
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

/// So far from its bound is what has no ratio to it: nothing failed where a share was allowed.
const FAR: f64 = 5.0;

/// How a limit fares in a trial.
#[derive(Debug, Clone, PartialEq)]
struct Judged {
    pub metric: String,
    /// `None`: not measured.
    pub holds: Option<bool>,
    /// The natural logarithm of its ratio to the nearest bound, without sign.
    pub margin: Option<f64>,
    /// `latency_us.p99 = 71,000, asked below 50,000`.
    pub words: String,
}

fn judge(limit: &Requirement, trial: &Trial) -> Judged {
    let judged = |holds, margin, words: String| Judged { metric: limit.metric.clone(), holds, margin, words };
    if let Some(words) = never_back(&limit.metric, trial) {
        return judged(Some(false), Some(FAR), words);
    }
    let Some(value) = worst(&metric(trial, &limit.metric), &limit.range) else {
        return unmeasured(limit, trial);
    };
    let words = format!("{} = {}, asked {}", limit.metric, figure(value), asked_as(&limit.range, figure));
    judged(Some(limit.range.holds(value)), margin(value, &limit.range), words)
}

/// The value of each limit's metric, where it was measured.
fn figures(limits: &[Requirement], trial: &Trial) -> BTreeMap<String, f64> {
    let value = |limit: &Requirement| Some((limit.metric.clone(), worst(&metric(trial, &limit.metric), &limit.range)?));
    limits.iter().filter_map(value).collect()
}

/// A quantile needs operations that succeeded. Where most did not, it is the target that failed and not the measurement.
fn unmeasured(limit: &Requirement, trial: &Trial) -> Judged {
    let outcomes = &trial.outcomes;
    let all = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let metric = &limit.metric;
    if outcomes.ok < all.div_ceil(2) {
        let words = format!("{metric} has no value: only {} of {all} operations succeeded", outcomes.ok);
        return Judged { metric: metric.clone(), holds: Some(false), margin: Some(FAR), words };
    }
    let needed = metric.rsplit('.').next().and_then(named).map(samples_for);
    let words = match needed {
        Some(needed) => format!(
            "{metric} was not measured: it takes {needed} operations within the measured part, more than this load makes in its time"
        ),
        None => format!("{metric} was not measured"),
    };
    Judged { metric: metric.clone(), holds: None, margin: None, words }
}

/// Times of an outage that are missing because they never came to an end within the trial: worse than any bound.
fn never_back(metric: &str, trial: &Trial) -> Option<String> {
    let parts: Vec<&str> = metric.split('.').collect();
    let time: fn(&Outage) -> Option<f64> = match *parts.last()? {
        "back_to_baseline_s" => |outage| outage.back_to_baseline_s,
        "first_ok_s" => |outage| outage.first_ok_s,
        _ => return None,
    };
    let ["faults", names @ .., "outage", _] = parts.as_slice() else { return None };
    let name = names.join(".");
    let meant = trial.faults.iter().filter(|fault| name.is_empty() || fault.name == name);
    let mut felt = meant.filter_map(|fault| Some((fault, fault.outage.as_ref()?)));
    let (fault, _) = felt.find(|(_, felt)| felt.baseline_per_s.is_some() && time(felt).is_none())?;
    Some(format!("{metric}: after `{}` ({}), not within the trial", fault.name, fault.number))
}

/// How far a value is from the nearest of its bounds.
fn margin(value: f64, range: &Range) -> Option<f64> {
    let bounds = [range.below, range.above, range.at_most, range.at_least];
    let ratios = bounds.into_iter().flatten().filter_map(|bound| match (value > 0.0, bound > 0.0) {
        (true, true) => Some((value / bound).ln().abs().min(FAR)),
        (false, true) | (true, false) if value >= 0.0 && bound >= 0.0 => Some(FAR),
        _ => None,
    });
    ratios.reduce(f64::min)
}

/// A figure for a reader: `71,000`, `0.12`.
fn figure(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{}", (value * 1000.0).round() / 1000.0);
    }
    let text = grouped(&format!("{:.0}", value.abs()));
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests;
