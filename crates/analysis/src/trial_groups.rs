//! The trials of a run in groups: repeats of each other, the labels that distinguish groups, and
//! the median and range of a figure over the trials that count.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use experiment::plan::{self, Plan};
use record::results::{Fault, Outage, OutageDistribution, Results, Trial, Trust, counting};
use serde_json::Value;
use text::numbers;

use crate::stats::quantiles::{largest, mean, median};

/// Function that reads a figure of a trial.
pub type FigureOf = fn(&Trial) -> Option<f64>;

/// Trials of one variant and point, in the order of the plan.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Labels that distinguish the group: dimension (`variant`, `state`) and value, in the order of
    /// [`dimensions`].
    pub labels: Vec<(String, String)>,
    /// Repeats.
    pub trials: Vec<&'a Trial>,
    /// Repeats whose figures count.
    counting: Vec<&'a Trial>,
}

/// Median and range over repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianRange {
    pub median: f64,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
    /// Number of trials with the value.
    pub of: usize,
}

impl Group<'_> {
    /// Returns the name of the group, such as `wait, ets, agents 64`; empty for the only group of a
    /// run.
    pub fn name(&self) -> String {
        shown(&self.labels).join(", ")
    }

    /// Returns median and range over the trials that count and have the value.
    pub fn spread(&self, value: impl Fn(&Trial) -> Option<f64>) -> Option<MedianRange> {
        MedianRange::of(self.counting().filter_map(value).collect())
    }

    /// Returns the trials whose figures count, as [`counting`] decides for the run.
    pub fn counting(&self) -> impl Iterator<Item = &Trial> {
        self.counting.iter().copied()
    }

    /// Returns the worst verdict among the trials.
    pub fn trust(&self) -> Trust {
        self.trials.iter().map(|trial| trial.verdict.is).max().unwrap_or_default()
    }
}

impl MedianRange {
    /// Returns median and range of these values, or `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        Some(Self { median: median(&values)?, least, most: largest(values.iter().copied())?, of: values.len() })
    }

    /// Returns the median, formatted by `write`, with the range if there is one. A range over few
    /// trials is no confidence interval, so the caller must also give the number of trials.
    pub fn text(&self, write: impl Fn(f64) -> String) -> String {
        match self.range(&write) {
            Some(range) => format!("{} ({range})", write(self.median)),
            None => write(self.median),
        }
    }

    /// Returns the range, such as `2.71–2.95 ms`, or `None` if both ends read the same.
    pub fn range(&self, write: impl Fn(f64) -> String) -> Option<String> {
        let (least, most) = (write(self.least), write(self.most));
        (least != most).then(|| numbers::from_to(&least, &most))
    }
}

/// Trials of one variant, search condition and point.
pub(crate) struct TrialGroup<'a> {
    /// Variant, if any.
    pub variant: Option<&'a str>,
    /// Swept paths with their values.
    pub point: &'a BTreeMap<String, Value>,
    /// Trials of the group; at least one.
    pub trials: Vec<&'a Trial>,
}

impl TrialGroup<'_> {
    /// Returns the values of the trials that have the figure.
    pub fn values(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Vec<f64> {
        self.trials.iter().filter_map(|trial| figure(trial)).collect()
    }

    /// Returns the mean over the trials that have the figure.
    pub fn mean(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        mean(&self.values(figure))
    }
}

/// Groups trials that are repeats of each other, in the order in which they first appear.
pub(crate) fn repeats<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<TrialGroup<'a>> {
    let mut groups: Vec<TrialGroup<'a>> = Vec::new();
    for trial in trials {
        let own = (&trial.variant, &trial.surviving, &trial.point);
        let known = groups.iter_mut().find(|group| {
            let first = group.trials[0];
            (&first.variant, &first.surviving, &first.point) == own
        });
        match known {
            Some(group) => group.trials.push(trial),
            None => {
                groups.push(TrialGroup { variant: trial.variant.as_deref(), point: &trial.point, trials: vec![trial] });
            }
        }
    }
    groups
}

/// Returns the trials whose figures count, sorted by variant in the order of the plan. Trials run
/// in a random order.
pub(crate) fn counting_by_variant<'a>(trials: &'a [Trial], variants: &[String]) -> Vec<&'a Trial> {
    let mut counting = counting(trials);
    counting.sort_by_key(|trial| variants.iter().position(|variant| Some(variant) == trial.variant.as_ref()));
    counting
}

/// Groups the trials of a run by variant and point, in the order of the plan: variants as the file
/// lists them, numbers by size.
pub fn groups<'a>(results: &'a Results, plan: &Plan) -> Vec<Group<'a>> {
    let dimensions = dimensions(plan);
    // If no trial counts, all trials are used.
    let counting = counting(&results.trials);
    let groups = in_order(repeats(&results.trials), &dimensions, plan).into_iter().map(|group| {
        let counting = group.trials.iter().filter(|trial| counting.iter().any(|known| std::ptr::eq(*known, **trial)));
        Group {
            labels: labels_of(&dimensions, group.trials[0]),
            counting: counting.copied().collect(),
            trials: group.trials,
        }
    });
    groups.collect()
}

/// Sorts groups independently of the random order of the trials. Texts that the plan does not list
/// keep the order in which they first appear.
fn in_order<'a>(
    groups: Vec<TrialGroup<'a>>,
    dimensions: &[(Option<String>, String)],
    plan: &Plan,
) -> Vec<TrialGroup<'a>> {
    let mut places: Vec<Vec<f64>> = vec![Vec::new(); groups.len()];
    for (path, _) in dimensions {
        let values: Vec<Option<&Value>> =
            groups.iter().map(|group| path.as_ref().and_then(|path| group.point.get(path))).collect();
        let are_numbers = values.iter().flatten().all(|value| value.is_number());
        for ((group, value), places) in groups.iter().zip(&values).zip(&mut places) {
            let first = match path.as_deref() {
                None => plan.variants.iter().position(|known| Some(known.as_str()) == group.variant),
                Some(SURVIVING) => {
                    let mut conditions = plan.find.iter().flat_map(|find| &find.surviving);
                    conditions.position(|known| Some(known) == group.trials[0].surviving.as_ref())
                }
                Some(_) => values.iter().flatten().position(|known| Some(*known) == *value),
            };
            let size = value.and_then(Value::as_f64).filter(|_| are_numbers);
            places.push(size.or(first.map(|first| first as f64)).unwrap_or(f64::INFINITY));
        }
    }
    let mut placed: Vec<(Vec<f64>, TrialGroup)> = places.into_iter().zip(groups).collect();
    placed.sort_by(|(a, _), (b, _)| {
        a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    placed.into_iter().map(|(_, group)| group).collect()
}

/// Returns the dimensions that distinguish trials: `variant`, then the swept paths in file order,
/// each with the shortest unambiguous name.
pub fn dimensions(plan: &Plan) -> Vec<(Option<String>, String)> {
    let mut dimensions = Vec::new();
    if !plan.variants.is_empty() {
        dimensions.push((None, "variant".to_owned()));
    }
    let searched = plan.find.iter().filter(|find| find.surviving.len() > 1);
    dimensions.extend(searched.map(|_| (Some(SURVIVING.to_owned()), SURVIVING.to_owned())));
    for path in plan.swept.iter().chain(plan.find.as_ref().map(|find| &find.highest)) {
        let last = short(path);
        let ambiguous = last == "variant" || plan.swept.iter().filter(|other| short(other) == last).count() > 1;
        dimensions.push((Some(path.clone()), if ambiguous { path.clone() } else { last.to_owned() }));
    }
    dimensions
}

/// The dimension of a search's conditions. No path of an experiment has this name.
const SURVIVING: &str = "surviving";

fn labels_of(dimensions: &[(Option<String>, String)], trial: &Trial) -> Vec<(String, String)> {
    let mut labels = labels(dimensions, trial.variant.as_deref(), &trial.point);
    for ((path, _), label) in dimensions.iter().zip(&mut labels) {
        if path.as_deref() == Some(SURVIVING) {
            label.1 = trial.surviving.clone().unwrap_or_default();
        }
    }
    labels
}

/// Returns the labels of a variant and a point, one for each dimension.
pub fn labels(
    dimensions: &[(Option<String>, String)],
    variant: Option<&str>,
    point: &BTreeMap<String, Value>,
) -> Vec<(String, String)> {
    let labels = dimensions.iter().map(|(path, name)| {
        let value = match path {
            None => variant.unwrap_or_default().to_owned(),
            Some(path) => point.get(path).map(text::of_json).unwrap_or_default(),
        };
        (name.clone(), value)
    });
    labels.collect()
}

/// Returns labels as text: `wait`, `5mbit`, `agents 64`. Only a number needs the name of its
/// dimension.
fn shown(labels: &[(String, String)]) -> Vec<String> {
    let known = labels.iter().filter(|(_, value)| !value.is_empty());
    known
        .map(|(name, value)| match value.parse::<f64>() {
            Ok(_) => format!("{name} {value}"),
            Err(_) => value.clone(),
        })
        .collect()
}

/// Returns the name of a trial among the others, such as `wait, agents 64, repeat 2`; empty if
/// there is only one.
pub fn trial_name(trial: &Trial, results: &Results, plan: &Plan) -> String {
    let mut parts = case_parts(trial, plan);
    let repeated = results.trials.iter().any(|other| other.repeat != trial.repeat);
    if repeated {
        parts.push(format!("repeat {}", trial.repeat));
    }
    parts.join(", ")
}

/// Returns the case of the plan that a trial runs, such as `wait, agents 64`; empty if there is
/// only one.
pub(crate) fn case_name(trial: &Trial, plan: &Plan) -> String {
    case_parts(trial, plan).join(", ")
}

fn case_parts(trial: &Trial, plan: &Plan) -> Vec<String> {
    shown(&labels_of(&dimensions(plan), trial))
}

/// Returns the plan of a trial.
pub fn planned<'a>(plan: &'a Plan, id: &str) -> Option<&'a plan::Trial> {
    plan.trials.iter().find(|trial| trial.id == id)
}

/// Returns the outages of a trial's faults.
pub fn outages(trial: &Trial) -> impl Iterator<Item = (&Fault, &Outage)> {
    trial.faults.iter().filter_map(|fault| Some((fault, fault.outage.as_ref()?)))
}

/// Returns the longest `time` over a trial's outages. Returns `None` without outages, or if an
/// outage lacks the time.
pub fn longest(trial: &Trial, time: impl Fn(&Outage) -> Option<f64>) -> Option<f64> {
    let times: Option<Vec<f64>> = outages(trial).map(|(_, outage)| time(outage)).collect();
    times?.into_iter().reduce(f64::max)
}

/// Returns the number of operations that ended, with any outcome.
pub fn operations(trial: &Trial) -> u64 {
    let outcomes = &trial.outcomes;
    outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong
}

/// Returns the number of attempts beyond the first of each operation, or `None` if no operation
/// ended. The last attempt of an unfinished operation is still open and is not among the ended
/// attempts.
pub fn retried(trial: &Trial) -> Option<u64> {
    let all = operations(trial);
    (all > 0).then(|| trial.attempts.saturating_sub(all))
}

/// Whether any operation of the run ended, or any step of an exercise.
pub fn is_measured(results: &Results) -> bool {
    results.trials.iter().any(|trial| operations(trial) > 0 || trial.steps.iter().any(|step| step.ended_s.is_some()))
}

/// Returns a count of outcomes, or `None` if no operation ended, so that nothing was counted.
pub fn counted(trial: &Trial, count: impl Fn(&Trial) -> u64) -> Option<f64> {
    (operations(trial) > 0).then(|| count(trial) as f64)
}

/// Smallest number of occurrences for which a distribution is shown.
const FEWEST: u64 = 3;

/// Returns the distributions of faults that occurred often enough.
pub fn repeated(results: &Results) -> impl Iterator<Item = &OutageDistribution> {
    results.outages.iter().filter(|of| of.count >= FEWEST)
}

/// Returns the label that distinguishes a distribution from others of the same fault: variant and
/// point. Empty if there is only one case.
pub fn label(of: &OutageDistribution, plan: &Plan) -> String {
    shown(&labels(&dimensions(plan), of.variant.as_deref(), &of.point)).join(", ")
}

/// Returns the name of a curve, such as `pi, hosts 3`; `throughput` if there is only one.
pub fn curve_name(variant: &str, at: &BTreeMap<String, Value>) -> String {
    let labels = at.iter().map(|(path, value)| format!("{} {}", short(path), text::of_json(value)));
    let parts: Vec<String> =
        std::iter::once(variant.to_owned()).filter(|name| !name.is_empty()).chain(labels).collect();
    if parts.is_empty() { "throughput".to_owned() } else { parts.join(", ") }
}

/// Returns the last part of a path: `agents` for `load.agents`.
pub fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
