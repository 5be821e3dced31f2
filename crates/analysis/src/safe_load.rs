//! The safe load: judges each trial of a search by the limits, and all trials together.
//! `experiment::search` computes the next value and the certainty.

use std::borrow::Cow;
use std::collections::BTreeMap;

use experiment::plan::{self, Find, MetricPath, MetricRange, Plan, Requirement, percentile, samples_for};
use experiment::search::{self, End, Finished, Inconclusive, ProbeResult};
use record::events::Ending;
use record::folder::TrialFolder;
use record::results::{Outage, SafeLoad, SearchStep, Trial, Trust};
use text::numbers::by_metric;

use crate::Error;
use crate::claims::{asked, worst};
use crate::evidence::Evidence;
use crate::metrics::metric;
use crate::trial::judged;
use crate::verdict::{RuleFinding, RunContext};

/// Rules whose findings mean that the generator was at its limit, and not the target.
const GENERATOR: [&str; 5] =
    ["dropped_starts", "generator_cpu", "generator_lateness", "generator_stall", "generator_throttled"];

/// A trial of a search.
#[derive(Debug, Clone)]
pub(crate) struct SearchTrial {
    /// Result for the search; `None` if the trial did not end, so that it must run again.
    pub finished: Option<Finished>,
    /// Step of the search, for the results.
    pub step: SearchStep,
    /// Metric of the broken limit with the largest margin.
    hit: Option<String>,
    condition: (Option<String>, Option<String>),
}

/// Returns the result of the trial in this folder for its search, with the step for the results.
/// Returns `None` if the trial did not end, or if the plan has no search.
///
/// # Errors
/// If a record cannot be read, or is damaged elsewhere than at its end.
pub fn finished(
    plan: &Plan,
    planned: &plan::Trial,
    folder: &TrialFolder,
) -> Result<Option<(Finished, SearchStep)>, Error> {
    let Some(find) = &plan.find else { return Ok(None) };
    let mut evidence = Evidence::read(planned, folder)?;
    let of_run = RunContext { plan: Some(plan), ..RunContext::default() };
    let (trial, findings) = judged(planned, folder, &mut evidence, of_run)?;
    let step = step(find, &trial, &findings);
    Ok(step.finished.map(|finished| (finished, step.step)))
}

/// Judges a trial for its search.
pub(crate) fn step(find: &Find, trial: &Trial, findings: &[RuleFinding]) -> SearchTrial {
    let value = trial.point.get(&find.highest).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let trial = &*without_bunches(trial);
    let (said, broke, hit) = said(find, trial, findings);
    let held = match &said {
        Some(ProbeResult::Held(_)) => Some(true),
        Some(ProbeResult::Broke(_)) => Some(false),
        Some(ProbeResult::Nothing(_)) | None => None,
    };
    let finished = said.map(|said| Finished {
        variant: trial.variant.clone(),
        surviving: trial.surviving.clone(),
        value,
        said,
        service_us: trial.service_us.as_ref().and_then(|service| service.mean),
        waited: waited(&find.limits, trial),
    });
    SearchTrial {
        finished,
        step: SearchStep { trial: trial.id.clone(), value, held, broke, figures: figures(&find.limits, trial) },
        hit,
        condition: (trial.variant.clone(), trial.surviving.clone()),
    }
}

/// Whether all broken limits are on latency, and would hold for the time from send to answer.
fn waited(limits: &[Requirement], trial: &Trial) -> bool {
    let mut broken = limits.iter().filter(|limit| judge(limit, trial).holds == Some(false)).peekable();
    broken.peek().is_some() && broken.all(|limit| holds_from_send(limit, trial) == Some(true))
}

/// Whether a limit on latency holds for the time from send to answer; `None` for other limits.
fn holds_from_send(limit: &Requirement, trial: &Trial) -> Option<bool> {
    let mut path = limit.metric.path()?.clone();
    let part = path.0.iter_mut().find(|part| *part == "latency_us")?;
    "service_us".clone_into(part);
    worst(&metric(trial, &path), &limit.range).map(|value| limit.range.holds(value))
}

/// Metric that a search measures only outside of bunches of late starts.
const FAILURES: &str = "failed_pct";

/// Returns the trial with the failures outside of bunches of late starts only. The other failures
/// may be the generator's, whether limits hold or break.
fn without_bunches(trial: &Trial) -> Cow<'_, Trial> {
    match trial.generator.bunched_pct {
        Some(pct) if pct > 0.0 => {
            Cow::Owned(Trial { failed_pct: trial.generator.punctual_failed_pct, ..trial.clone() })
        }
        _ => Cow::Borrowed(trial),
    }
}

/// Returns the reason if a trial shows nothing about a limit on failures: late starts came in
/// bunches in more than half of its time.
fn bunched(find: &Find, trial: &Trial) -> Option<String> {
    let pct = trial.generator.bunched_pct.filter(|_| trial.failed_pct.is_none())?;
    let is_asked = find.limits.iter().any(|limit| &*limit.metric == FAILURES);
    is_asked.then(|| {
        format!(
            "operations started late and in bunches for {pct:.0} % of the time: the generator may have caused the \
             failures"
        )
    })
}

/// Returns the result of a trial, the reasons in words, and the metric of the broken limit with the
/// largest margin.
fn said(find: &Find, trial: &Trial, findings: &[RuleFinding]) -> (Option<ProbeResult>, Vec<String>, Option<String>) {
    if trial.ended != Some(Ending::Done) {
        return (None, vec!["the trial was cut off".to_owned()], None);
    }
    let void = findings.iter().find(|finding| finding.trust == Trust::Void && !find.accepts_void);
    if let Some(void) = void {
        let generator =
            findings.iter().find(|finding| finding.trust == Trust::Void && GENERATOR.contains(&finding.rule));
        let silence = generator.map_or_else(
            || Inconclusive::Void(void.reason.clone()),
            |finding| Inconclusive::Generator(finding.reason.clone()),
        );
        let reason = generator.unwrap_or(void).reason.clone();
        return (Some(ProbeResult::Nothing(silence)), vec![reason], None);
    }
    if let Some(reason) = bunched(find, trial) {
        return (Some(ProbeResult::Nothing(Inconclusive::Void(reason.clone()))), vec![reason], None);
    }
    let judged: Vec<LimitResult> = find.limits.iter().map(|limit| judge(limit, trial)).collect();
    let broken: Vec<&LimitResult> = judged.iter().filter(|limit| limit.holds == Some(false)).collect();
    // One broken limit is enough, even if others could not be measured.
    if !broken.is_empty() {
        let farthest = broken.iter().filter_map(|limit| limit.margin).reduce(f64::max);
        let hit = broken.iter().max_by(|a, b| a.margin.unwrap_or(0.0).total_cmp(&b.margin.unwrap_or(0.0)));
        let hit = hit.map(|limit| limit.metric.clone());
        return (Some(ProbeResult::Broke(farthest)), broken.iter().map(|limit| limit.words.clone()).collect(), hit);
    }
    let unmeasured: Vec<String> =
        judged.iter().filter(|limit| limit.holds.is_none()).map(|limit| limit.words.clone()).collect();
    if let Some(first) = unmeasured.first() {
        let too_few = judged.iter().all(|limit| limit.holds.is_some() || limit.takes_more);
        let silence =
            if too_few { Inconclusive::TooFew(first.clone()) } else { Inconclusive::Unmeasured(first.clone()) };
        return (Some(ProbeResult::Nothing(silence)), unmeasured, None);
    }
    let nearest = judged.iter().filter_map(|limit| limit.margin).reduce(f64::min);
    (Some(ProbeResult::Held(nearest)), Vec::new(), None)
}

/// Returns the safe load of each variant under each condition.
pub(crate) fn safe_loads(find: &Find, steps: &[SearchTrial]) -> Vec<SafeLoad> {
    let finished: Vec<Finished> = steps.iter().filter_map(|step| step.finished.clone()).collect();
    find.templates.iter().map(|template| safe_load(find, template, steps, &finished)).collect()
}

fn safe_load(find: &Find, template: &plan::Trial, steps: &[SearchTrial], finished: &[Finished]) -> SafeLoad {
    let line = search::line(find, template, finished);
    let own: Vec<&SearchTrial> = own(template, steps);
    SafeLoad {
        variant: template.variant.clone(),
        over: find.highest.clone(),
        value: line.value,
        ci95: line.ci95,
        width_pct: line.ci95[0].zip(line.ci95[1]).map(|(low, high)| 100.0 * (high / low - 1.0)),
        hold_pct: Some(find.hold_pct),
        limited_by: limited_by(find, line.end.as_ref(), line.value, &own),
        surviving: template.surviving.clone().unwrap_or_default(),
        complete: matches!(line.end, Some(End::Narrow | End::Nowhere | End::Bound)),
        steps: own.into_iter().map(|step| step.step.clone()).collect(),
    }
}

fn own<'a>(template: &plan::Trial, steps: &'a [SearchTrial]) -> Vec<&'a SearchTrial> {
    steps.iter().filter(|step| step.condition.0 == template.variant && step.condition.1 == template.surviving).collect()
}

/// Returns the limit that broke at the lowest value beyond the safe load, or the reason why the
/// search found no such limit.
fn limited_by(find: &Find, end: Option<&End>, value: Option<f64>, steps: &[&SearchTrial]) -> String {
    match end {
        Some(End::Bound) => return format!("the search: no load above {} was allowed", find.up_to.unwrap_or(0.0)),
        Some(End::Generator(reason)) => return format!("the generator: {reason}"),
        Some(End::Silent(reason)) => return format!("the search: {reason}"),
        Some(End::Narrow | End::Nowhere | End::Trials) | None => {}
    }
    let beyond = steps.iter().filter(|step| value.is_none_or(|value| step.step.value >= value));
    let nearest = beyond.filter(|step| step.hit.is_some()).min_by(|a, b| a.step.value.total_cmp(&b.step.value));
    match (nearest.and_then(|step| step.hit.clone()), end) {
        (Some(hit), _) => hit,
        (None, None) => "the search: it did not finish".to_owned(),
        (None, Some(_)) => format!("the search: no limit broke within {} trials", steps.len()),
    }
}

/// Returns the safe load with which the answer begins: the first variant's lowest over all
/// conditions.
pub(crate) fn lowest(lines: &[SafeLoad]) -> Option<SafeLoad> {
    let variant = &lines.first()?.variant;
    let of_first = lines.iter().filter(|line| line.variant == *variant);
    of_first.min_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0))).cloned()
}

/// Returns the trials at each safe load. They have the highest value up to the safe load at which
/// the limits held.
pub(crate) fn at_safe_loads(lines: &[SafeLoad], trials: &[Trial]) -> Vec<Trial> {
    let at: Vec<&str> = lines.iter().flat_map(at_safe_load).collect();
    trials.iter().filter(|trial| at.contains(&trial.id.as_str())).cloned().collect()
}

fn at_safe_load(line: &SafeLoad) -> Vec<&str> {
    let held = line.steps.iter().filter(|step| step.held == Some(true)).map(|step| step.value);
    let highest = held.filter(|held| line.value.is_some_and(|value| *held <= value)).reduce(f64::max);
    let at_it = line.steps.iter().filter(|step| step.held.is_some() && highest == Some(step.value));
    at_it.map(|step| step.trial.as_str()).collect()
}

/// Adds to a requirement that it was checked against the trials at the safe load.
pub(crate) fn said_of_it(requirement: record::results::Requirement, trials: &[Trial]) -> record::results::Requirement {
    let nowhere = trials.is_empty().then(|| "no safe load was found".to_owned());
    record::results::Requirement {
        asked: format!("{} at the safe load", requirement.asked),
        unmeasured: nowhere.or(requirement.unmeasured),
        ..requirement
    }
}

/// Returns the trials on which the safe loads are based. Void trials that were repeated are not
/// used, unless a search has no others.
pub(crate) fn used(find: &Find, steps: &[SearchTrial]) -> Vec<String> {
    let mut used = Vec::new();
    for template in &find.templates {
        let own = own(template, steps);
        let says: Vec<&&SearchTrial> = own.iter().filter(|step| step.step.held.is_some()).collect();
        let counted = if says.is_empty() { own.iter().collect() } else { says };
        used.extend(counted.into_iter().map(|step| step.step.trial.clone()));
    }
    used
}

/// Largest margin. It also applies if value and bound have no ratio, such as 0 failures against a
/// limit of 1 %.
const FAR: f64 = 5.0;

/// Result of a limit in a trial.
#[derive(Debug, Clone, PartialEq)]
struct LimitResult {
    pub metric: String,
    /// Whether the limit holds; `None` if not measured.
    pub holds: Option<bool>,
    /// Absolute natural logarithm of the ratio between the value and the nearest bound.
    pub margin: Option<f64>,
    /// Result in words: `latency_us.p99 = 71 ms, expected below 50 ms`.
    pub words: String,
    /// Whether the limit was not measured because of too few operations.
    pub takes_more: bool,
}

fn judge(limit: &Requirement, trial: &Trial) -> LimitResult {
    let metric = limit.metric.to_string();
    if let Some(words) = limit.metric.path().and_then(|path| never_back(path, trial)) {
        return LimitResult { metric, holds: Some(false), margin: Some(FAR), words, takes_more: false };
    }
    let Some(value) = worst(&values(limit, trial), &limit.range) else {
        return unmeasured(limit, trial);
    };
    LimitResult {
        metric,
        holds: Some(limit.range.holds(value)),
        margin: margin(value, &limit.range),
        words: judged_words(limit, value),
        takes_more: false,
    }
}

/// Returns a limit with its measured value: `latency_us.p99 = 71 ms, expected below 50 ms`.
#[must_use]
pub fn judged_words(limit: &Requirement, value: f64) -> String {
    let metric = &limit.metric;
    format!("{metric} = {}, expected {}", by_metric(metric, value), asked(metric, &limit.range))
}

fn values(limit: &Requirement, trial: &Trial) -> Vec<f64> {
    limit.metric.path().map(|path| metric(trial, path)).unwrap_or_default()
}

/// Returns the value of each limit's metric, if measured.
fn figures(limits: &[Requirement], trial: &Trial) -> BTreeMap<String, f64> {
    limits
        .iter()
        .filter_map(|limit| Some((limit.metric.to_string(), worst(&values(limit, trial), &limit.range)?)))
        .collect()
}

/// Judges a limit without a value. A quantile needs successful operations. If less than half of all
/// operations succeeded, the limit counts as broken.
fn unmeasured(limit: &Requirement, trial: &Trial) -> LimitResult {
    let outcomes = &trial.outcomes;
    let all = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let metric = &limit.metric;
    if outcomes.ok < all.div_ceil(2) {
        let words = format!("{metric} has no value: only {} of {all} operations succeeded", outcomes.ok);
        let (metric, margin) = (metric.to_string(), Some(FAR));
        return LimitResult { metric, holds: Some(false), margin, words, takes_more: false };
    }
    let needed = metric.path().and_then(|path| percentile(path.0.last()?)).map(samples_for);
    let words = match needed {
        Some(needed) => format!(
            "{metric} was not measured: it needs {needed} operations in the measured part, and this load has fewer"
        ),
        None => format!("{metric} was not measured"),
    };
    LimitResult { metric: metric.to_string(), holds: None, margin: None, words, takes_more: needed.is_some() }
}

/// Returns the reason if a limit on an outage's time is broken because service did not recover
/// within the trial.
fn never_back(metric: &MetricPath, trial: &Trial) -> Option<String> {
    let parts: Vec<&str> = metric.0.iter().map(String::as_str).collect();
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
    Some(format!("{metric}: no recovery from `{}` ({}) within the trial", fault.name, fault.number))
}

/// Returns a value's margin to its nearest bound, as in [`LimitResult::margin`].
fn margin(value: f64, range: &MetricRange) -> Option<f64> {
    let bounds = [range.below, range.above, range.at_most, range.at_least];
    let ratios = bounds.into_iter().flatten().filter_map(|bound| match (value > 0.0, bound > 0.0) {
        (true, true) => Some((value / bound).ln().abs().min(FAR)),
        (false, true) | (true, false) if value >= 0.0 && bound >= 0.0 => Some(FAR),
        _ => None,
    });
    ratios.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use record::results::{Fault, Outcomes, Quantiles};
    use serde_json::json;

    use super::*;
    use crate::stats::quantiles::{mean, nearest_rank};
    use crate::synthetic;

    fn limit(metric: &str, below: f64) -> Requirement {
        Requirement {
            metric: metric.into(),
            range: MetricRange { below: Some(below), ..MetricRange::default() },
            filter: BTreeMap::new(),
        }
    }

    fn find() -> Find {
        let surviving = ["nothing lost", "one member down"].map(str::to_owned);
        let templates = surviving.clone().map(|condition| plan::Trial {
            surviving: Some(condition),
            load: Some(plan::Load { rate: Some(plan::Rate::Constant(1000.0)), ..synthetic::load(10, 10.0) }),
            ..synthetic::trial(synthetic::load(10, 10.0))
        });
        Find {
            highest: "load.rate".to_owned(),
            surviving: surviving.to_vec(),
            templates: templates.to_vec(),
            ..synthetic::find(vec![limit("latency_us.p99", 50_000.0), limit("failed_pct", 0.1)])
        }
    }

    /// A search under the first condition alone, from this value on.
    fn find_from(first: f64) -> Find {
        let mut find = Find { from: Some(first), ..find() };
        find.surviving.truncate(1);
        find.templates.truncate(1);
        find
    }

    /// A trial at 1,000 operations/s with this p99.
    fn trial(p99_us: Option<f64>) -> Trial {
        Trial {
            id: "001".to_owned(),
            point: BTreeMap::from([("load.rate".to_owned(), json!(1000))]),
            surviving: Some("nothing lost".to_owned()),
            ended: Some(Ending::Done),
            outcomes: Outcomes { ok: 10_000, ..Outcomes::default() },
            failed_pct: Some(0.0),
            latency_us: Some(Quantiles { p50: Some(900.0), p99: p99_us, ..Quantiles::default() }),
            ..Trial::default()
        }
    }

    fn void(rule: &'static str) -> RuleFinding {
        RuleFinding::against_all(rule, Trust::Void, format!("because of {rule}"))
    }

    fn probe(trial: &Trial, findings: &[RuleFinding]) -> (Option<ProbeResult>, Vec<String>) {
        let step = step(&find(), trial, findings);
        (step.finished.map(|finished| finished.said), step.step.broke)
    }

    #[test]
    fn limits_hold_or_break_with_their_figures() {
        let (said, broke) = probe(&trial(Some(25_000.0)), &[]);
        assert_eq!((said, broke), (Some(ProbeResult::Held(Some(2_f64.ln()))), Vec::new()));
        let (said, broke) = probe(&trial(Some(71_000.4)), &[]);
        assert!(
            matches!(said, Some(ProbeResult::Broke(Some(margin))) if (margin - 1.42_f64.ln()).abs() < 1e-4),
            "{said:?}"
        );
        assert_eq!(broke, ["latency_us.p99 = 71 ms, expected below 50 ms"]);
    }

    #[test]
    fn a_void_trial_is_inconclusive_with_its_cause() {
        let fast = trial(Some(71_000.0));
        let (said, broke) = probe(&fast, &[void("strangers")]);
        assert_eq!(said, Some(ProbeResult::Nothing(Inconclusive::Void("because of strangers".into()))));
        assert_eq!(broke, ["because of strangers"]);
        let (said, _) = probe(&fast, &[void("steal"), void("generator_cpu")]);
        assert_eq!(said, Some(ProbeResult::Nothing(Inconclusive::Generator("because of generator_cpu".into()))));
        let suspect = RuleFinding { trust: Trust::Suspect, ..void("generator_cpu") };
        assert!(matches!(probe(&fast, &[suspect]).0, Some(ProbeResult::Broke(_))), "a suspect one counts");
        let accepting = Find { accepts_void: true, ..find() };
        assert_eq!(step(&accepting, &fast, &[void("steal")]).step.held, Some(false));
        let cut = Trial { ended: None, ..trial(Some(1.0)) };
        assert_eq!(probe(&cut, &[]).0, None, "it is played again");
    }

    /// A token bucket of 250/s with a burst of 5 had its edge at 110/s, and a search beside other
    /// programs found 95.
    #[test]
    fn failures_after_late_starts_are_not_counted() {
        for (what, bunched_pct, punctual_failed_pct, p99_us, held) in [
            ("they are the generator's", 12.0, Some(0.05), 1.0, Some(true)),
            ("no bunches", 0.0, Some(2.0), 1.0, Some(false)),
            ("it fails without them, too", 12.0, Some(1.9), 1.0, Some(false)),
            ("another limit broke", 12.0, Some(0.05), 71_000.0, Some(false)),
            ("too little is left", 80.0, None, 1.0, None),
        ] {
            let mut trial = Trial { failed_pct: Some(2.0), ..trial(Some(p99_us)) };
            trial.generator.bunched_pct = Some(bunched_pct);
            trial.generator.punctual_failed_pct = punctual_failed_pct;
            let step = step(&find(), &trial, &[]);
            assert_eq!(step.step.held, held, "{what}: {step:?}");
            if held.is_none() {
                assert!(matches!(step.finished.unwrap().said, ProbeResult::Nothing(Inconclusive::Void(_))), "{what}");
                assert!(step.step.broke[0].contains("for 80 % of the time"), "{:?}", step.step.broke);
            }
        }
    }

    #[test]
    fn an_unmeasured_limit_neither_holds_nor_breaks() {
        let (said, broke) = probe(&trial(None), &[]);
        assert!(
            matches!(&said, Some(ProbeResult::Nothing(Inconclusive::TooFew(why))) if why.contains("299 operations")),
            "{said:?}"
        );
        assert_eq!(broke.len(), 1);
        let failing = Trial { failed_pct: Some(2.0), ..trial(None) };
        assert!(matches!(probe(&failing, &[]).0, Some(ProbeResult::Broke(_))), "one broken limit is enough");
        let dead = Trial { outcomes: Outcomes { ok: 3, timeout: 9_997, ..Outcomes::default() }, ..trial(None) };
        assert!(
            matches!(probe(&dead, &[]).0, Some(ProbeResult::Broke(_))),
            "a target that answers nothing is no short trial"
        );
    }

    #[test]
    fn a_missing_recovery_breaks_a_recovery_limit() {
        let limit = limit("faults.outage.back_to_baseline_s", 2.0);
        for (backs_s, holds) in [
            (&[Some(0.5), None][..], Some(false)),
            (&[Some(0.5), Some(1.9)], Some(true)),
            (&[Some(0.5), Some(2.5)], Some(false)),
            (&[], None),
        ] {
            let faults = backs_s.iter().map(|&back_to_baseline_s| Fault {
                name: "oops".into(),
                number: 1,
                outage: Some(Outage { baseline_per_s: Some(900.0), back_to_baseline_s, ..Outage::default() }),
                ..Fault::default()
            });
            let trial = Trial { faults: faults.collect(), ..trial(Some(1.0)) };
            assert_eq!(judge(&limit, &trial).holds, holds, "{backs_s:?}");
        }
    }

    /// Runs both searches on a target with these edges.
    fn played(edges: [f64; 2], p99_us: impl Fn(f64, f64) -> f64) -> (Find, Vec<SearchTrial>) {
        played_by(find(), |trial, rate| {
            let healthy = trial.surviving.as_deref() == Some("nothing lost");
            p99_us(rate, if healthy { edges[0] } else { edges[1] })
        })
    }

    /// Runs a search to its end.
    fn played_by(find: Find, p99_us: impl Fn(&plan::Trial, f64) -> f64) -> (Find, Vec<SearchTrial>) {
        played_as(find, |next, value| trial(Some(p99_us(next, value))))
    }

    fn played_on(find: Find, mut at: impl FnMut(f64) -> Trial) -> (Find, Vec<SearchTrial>) {
        played_as(find, |_, value| at(value))
    }

    fn played_as(find: Find, mut at: impl FnMut(&plan::Trial, f64) -> Trial) -> (Find, Vec<SearchTrial>) {
        let mut plan: Plan = serde_json::from_value(json!({
            "format": 1, "title": "", "asks": "", "variants": [], "swept": [], "trials": [],
            "requirements": [], "claims": [], "find": null
        }))
        .unwrap();
        plan.find = Some(find.clone());
        let (mut steps, mut finished) = (Vec::new(), Vec::new());
        while let Some(next) = plan.next(&finished) {
            let value = next.point[&find.highest].as_f64().unwrap();
            let made = Trial {
                id: next.id.clone(),
                variant: next.variant.clone(),
                point: next.point.clone(),
                surviving: next.surviving.clone(),
                ..at(&next, value)
            };
            let step = step(&find, &made, &[]);
            finished.extend(step.finished.clone());
            steps.push(step);
        }
        (find, steps)
    }

    #[test]
    fn each_condition_has_a_line_and_the_lowest_counts() {
        let (find, steps) = played([12_030.0, 8_105.0], |rate, edge| 50_000.0 * (rate / edge).powi(4));
        let lines = safe_loads(&find, &steps);
        for (line, edge) in lines.iter().zip([12_030.0, 8_105.0]) {
            let [low, high] = line.ci95.map(Option::unwrap);
            assert!(low <= edge && edge <= high && line.complete, "{line:?}");
            assert_eq!((line.limited_by.as_str(), line.over.as_str()), ("latency_us.p99", "load.rate"));
            assert!(line.steps.iter().all(|step| step.held == Some(step.value <= edge)));
        }
        assert_eq!(lines.iter().map(|line| line.steps.len()).sum::<usize>(), steps.len());
        assert_eq!(lowest(&lines).unwrap().surviving, "one member down");
        assert_eq!(used(&find, &steps).len(), steps.len());
    }

    #[test]
    fn requirements_of_a_search_apply_to_the_safe_load() {
        let (find, steps) = played([12_030.0, 8_105.0], |rate, edge| 50_000.0 * (rate / edge).powi(4));
        let lines = safe_loads(&find, &steps);
        let trials = steps.iter().map(|step| {
            let p99_us = step.step.figures["latency_us.p99"];
            Trial { id: step.step.trial.clone(), ..trial(Some(p99_us)) }
        });
        let trials: Vec<Trial> = trials.collect();
        let gate = limit("latency_us.p99", 60_000.0);
        assert!(!crate::claims::requirement(&gate, &trials, &lines).holds, "the search overloads the target");
        let safe = at_safe_loads(&lines, &trials);
        assert!(!safe.is_empty() && safe.len() < trials.len() / 2, "{} of {}", safe.len(), trials.len());
        let found = said_of_it(crate::claims::requirement(&gate, &safe, &lines), &safe);
        assert!(found.holds && found.asked == "below 60 ms at the safe load", "{found:?}");
        let strict = limit("latency_us.p99", 30_000.0);
        assert!(!crate::claims::requirement(&strict, &safe, &lines).holds, "it is not that none is asked");
        let nowhere = said_of_it(crate::claims::requirement(&gate, &[], &lines), &[]);
        assert!(!nowhere.holds && nowhere.unmeasured.is_some(), "{nowhere:?}");
    }

    #[test]
    fn each_variant_and_condition_has_a_line() {
        let mut find = find();
        find.highest = "load.agents".to_owned();
        let templates = std::mem::take(&mut find.templates);
        for variant in ["sync", "dirty"] {
            find.templates.extend(templates.iter().map(|template| plan::Trial {
                variant: Some(variant.to_owned()),
                load: Some(plan::Load { rate: None, ..synthetic::load(16, 10.0) }),
                ..template.clone()
            }));
        }
        let (find, steps) = played_by(find, |trial, agents| {
            // The dirty variant breaks with a single agent once a member is down.
            let edge = match (trial.variant.as_deref(), trial.surviving.as_deref()) {
                (Some("dirty"), Some("one member down")) => 0.5,
                (Some("dirty"), _) => 100.5,
                _ => 40.5,
            };
            50_000.0 * (agents / edge).powi(4)
        });
        let lines = safe_loads(&find, &steps);
        let named: Vec<(&str, &str)> =
            lines.iter().map(|line| (line.variant.as_deref().unwrap(), line.surviving.as_str())).collect();
        let (healthy, down) = ("nothing lost", "one member down");
        assert_eq!(named, [("sync", healthy), ("sync", down), ("dirty", healthy), ("dirty", down)]);
        for (line, edge) in lines.iter().zip([40.5, 40.5, 100.5]) {
            let [low, high] = line.ci95.map(Option::unwrap);
            assert!(low <= edge && edge <= high, "{line:?}");
        }
        let nowhere = &lines[3];
        assert_eq!((nowhere.value, nowhere.ci95, nowhere.complete), (None, [None, Some(1.0)], true));
        assert_eq!(nowhere.limited_by, "latency_us.p99");
    }

    /// A server of known capacity, as a trial of 30 s at a rate sees it; its edge for p99 below 100
    /// ms and failures below 0.1 %.
    struct Server {
        edge: f64,
        trial: fn(f64, &mut fastrand::Rng) -> Trial,
    }

    const LONG_S: f64 = 30.0;

    /// One worker with this service time and with random or even arrivals.
    fn queue(
        random: &mut fastrand::Rng,
        gap_s: impl Fn(&mut fastrand::Rng) -> f64,
        takes_s: fn(&mut fastrand::Rng) -> f64,
    ) -> Trial {
        let (mut at_s, mut free_s, mut times_us) = (0.0, 0.0_f64, Vec::new());
        while at_s < LONG_S {
            free_s = free_s.max(at_s) + takes_s(random);
            if at_s > LONG_S / 6.0 {
                times_us.push(1e6 * (free_s - at_s));
            }
            at_s += gap_s(random);
        }
        let [p50, p99] = [0.5, 0.99].map(|share| nearest_rank(&times_us, share));
        let took = Quantiles { p50, p99, mean: mean(&times_us), ..Quantiles::default() };
        Trial { latency_us: Some(took.clone()), service_us: Some(took), ..trial(None) }
    }

    fn answered(p99_us: f64, service_us: f64, failed_pct: f64) -> Trial {
        let [latency_us, service_us] = [p99_us, 1.2 * service_us].map(|p99_us| {
            let typical_us = Some(service_us);
            Some(Quantiles { p50: typical_us, p99: Some(p99_us), mean: typical_us, ..Quantiles::default() })
        });
        Trial { latency_us, service_us, failed_pct: Some(failed_pct), ..trial(None) }
    }

    /// Factor for a share if trials differ by 2 %.
    fn about_1(random: &mut fastrand::Rng) -> f64 {
        (0.02 * synthetic::normal(random)).exp()
    }

    fn at_random(random: &mut fastrand::Rng) -> f64 {
        -random.f64().max(1e-300).ln()
    }

    /// Runs three searches on the server. Returns the number of intervals that contain its edge,
    /// and the limit that each search reports.
    fn searched(server: &Server) -> (usize, Vec<String>) {
        let (mut held, mut limits) = (0, Vec::new());
        for seed in 0..3 {
            let mut random = fastrand::Rng::with_seed(seed);
            let first = [30.0, 100.0, 600.0][seed as usize % 3];
            let asked = vec![limit("latency_us.p99", 100_000.0), limit("failed_pct", 0.1)];
            let find = Find { limits: asked, ..find_from(first) };
            let (find, steps) = played_on(find, |rate| (server.trial)(rate, &mut random));
            let line = &safe_loads(&find, &steps)[0];
            let [low, high] = line.ci95;
            held +=
                usize::from(low.is_none_or(|low| low <= server.edge) && high.is_none_or(|high| server.edge <= high));
            limits.push(line.limited_by.clone());
        }
        (held, limits)
    }

    #[test]
    fn intervals_contain_the_truth_on_five_servers() {
        let servers = [
            // A token bucket: the load beyond its rate fails.
            Server {
                edge: 250.25,
                trial: |rate, random| answered(4e3, 3e3, 100.0 * (1.0 - 250.0 * about_1(random) / rate).max(0.0)),
            },
            // Latency rises as the load approaches 300/s: ln 100 × 4 ms / (1 − rate / 300).
            Server {
                edge: 244.739,
                trial: |rate, random| {
                    let left = (1.0 - rate / (300.0 * about_1(random))).max(1e-3);
                    answered(18_421.0 / left, 4e3 / left, 0.0)
                },
            },
            // M/M/1: 203.95 in the long run (250 − ln 100 / 0.1 s); half of the trials of 30 s hold
            // at 206.
            Server {
                edge: 206.0,
                trial: |rate, random| {
                    queue(random, |random| at_random(random) / rate, |random| 0.004 * at_random(random))
                },
            },
            // M/D/1: simulated over a million operations.
            Server { edge: 227.9, trial: |rate, random| queue(random, |random| at_random(random) / rate, |_| 0.004) },
        ];
        for (number, server) in servers.iter().enumerate() {
            let (held, limits) = searched(server);
            assert!(held >= 2, "server {number}: {held} of 3; {limits:?}");
            assert!(limits.iter().all(|limit| !limit.contains("generator")), "server {number}: {limits:?}");
        }
    }

    /// Eight agents on a server that answers any number of them in 20 ms: from 400/s on they are
    /// all busy.
    #[test]
    fn waiting_for_an_agent_is_the_generators_limit() {
        // The load that the agents carry differs between trials, too: the highest that held is
        // reported.
        let endless = Server {
            edge: 425.0,
            trial: |rate, random| {
                let waited_us = 1e6 * LONG_S * (rate / (400.0 * about_1(random)) - 1.0).max(0.0);
                answered(21e3 + waited_us, 20e3 * about_1(random), 0.0)
            },
        };
        let (held, limits) = searched(&endless);
        assert!(held >= 2, "{held} of 3");
        assert!(limits.iter().all(|limit| limit.starts_with("the generator: operations waited")), "{limits:?}");
    }

    #[test]
    fn a_first_value_with_too_few_operations_is_doubled() {
        let (find, steps) =
            played_on(find_from(10.0), |rate| trial(Some(50_000.0 * (rate / 200.0).powi(4)).filter(|_| rate >= 60.0)));
        let line = &safe_loads(&find, &steps)[0];
        let [low, high] = line.ci95.map(Option::unwrap);
        assert!(low <= 200.0 && 200.0 <= high && line.complete, "{line:?}");
        let values: Vec<f64> = line.steps.iter().take(4).map(|step| step.value).collect();
        assert_eq!(values, [10.0, 20.0, 40.0, 80.0]);
    }

    #[test]
    fn void_trials_that_were_played_again_are_not_used() {
        let mut again = trial(Some(1.0));
        again.id = "002".to_owned();
        let steps = [step(&find(), &trial(Some(1.0)), &[void("steal")]), step(&find(), &again, &[])];
        assert_eq!(used(&find(), &steps), ["002"]);
        assert_eq!(used(&find(), &steps[..1]), ["001"], "where there is nothing else, they judge the run");
    }

    #[test]
    fn an_inconclusive_search_has_a_reason() {
        let unfinished = safe_loads(&find(), &[step(&find(), &trial(Some(1.0)), &[])]);
        assert_eq!((unfinished[0].value, unfinished[0].ci95[1], unfinished[0].complete), (Some(1000.0), None, false));
        assert_eq!(unfinished[0].limited_by, "the search: it did not finish");
        let three: Vec<SearchTrial> = (0..3).map(|_| step(&find(), &trial(Some(1.0)), &[void("steal")])).collect();
        let silent = &safe_loads(&find(), &three)[0];
        assert_eq!((silent.value, silent.limited_by.as_str()), (None, "the search: because of steal"));
    }
}
