//! What words and tables both need of the results: trials that differ only in their repeat, and their medians.

use std::collections::BTreeMap;

use experiment::plan::{self, Plan};
use record::results::{Fault, Outage, Results, Trial, Trust, counting};
use serde_json::Value;

use text::numbers;

/// A figure of a trial, where it has it.
pub type FigureOf = fn(&Trial) -> Option<f64>;

/// Trials of one variant and point, in the order of the plan.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// What tells it from other groups: dimension (`variant`, `state`) and value, in the order of [`dimensions`].
    pub labels: Vec<(String, String)>,
    /// Its repeats.
    pub trials: Vec<&'a Trial>,
    /// Those of them whose figures count.
    counting: Vec<&'a Trial>,
}

/// Median and range over repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianRange {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Trials that had the value.
    pub of: usize,
}

impl Group<'_> {
    /// `wait, ets, calls`; empty for the only group of a run.
    pub fn name(&self) -> String {
        self.labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Median and range over the trials that count and have the value.
    pub fn spread(&self, value: impl Fn(&Trial) -> Option<f64>) -> Option<MedianRange> {
        MedianRange::of(self.counting().filter_map(value).collect())
    }

    /// The trials whose figures count, as [`counting`] of the run has it.
    pub fn counting(&self) -> impl Iterator<Item = &Trial> {
        self.counting.iter().copied()
    }

    /// The worst verdict among its trials.
    pub fn trust(&self) -> Trust {
        self.trials.iter().map(|trial| trial.verdict.is).max().unwrap_or_default()
    }
}

impl MedianRange {
    /// Of these values; `None` without any.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, least, most, of: values.len() })
    }

    /// The median, written by `write`, and the range where there is one.
    pub fn text(&self, write: impl Fn(f64) -> String) -> String {
        match self.range(&write) {
            Some(range) => format!("{} ({range})", write(self.median)),
            None => write(self.median),
        }
    }

    /// `2.71–2.95 ms`; `None` where both ends read the same.
    pub fn range(&self, write: impl Fn(f64) -> String) -> Option<String> {
        let (least, most) = (write(self.least), write(self.most));
        (least != most).then(|| numbers::from_to(&least, &most))
    }
}

/// The trials of a run by variant and point, in the order of the plan.
pub fn groups<'a>(results: &'a Results, plan: &Plan) -> Vec<Group<'a>> {
    let dimensions = dimensions(plan);
    let mut groups: Vec<Group<'a>> = Vec::new();
    // In the same order.
    let mut counting = counting(&results.trials).into_iter().peekable();
    for trial in &results.trials {
        let labels = labels_of(&dimensions, trial);
        let counts = counting.next_if(|next| std::ptr::eq(*next, trial));
        match groups.iter_mut().find(|group| group.labels == labels) {
            Some(group) => {
                group.trials.push(trial);
                group.counting.extend(counts);
            }
            None => groups.push(Group { labels, trials: vec![trial], counting: counts.into_iter().collect() }),
        }
    }
    groups
}

/// What tells trials apart: `variant`, then the swept paths in file order, each with a name as short as is unambiguous.
pub fn dimensions(plan: &Plan) -> Vec<(Option<String>, String)> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let mut dimensions = Vec::new();
    if !plan.variants.is_empty() {
        dimensions.push((None, "variant".to_owned()));
    }
    let searched = plan.find.iter().filter(|find| find.surviving.len() > 1);
    dimensions.extend(searched.map(|_| (Some(SURVIVING.to_owned()), SURVIVING.to_owned())));
    for path in plan.swept.iter().chain(plan.find.as_ref().map(|find| &find.highest)) {
        let short = last(path);
        let ambiguous = short == "variant" || plan.swept.iter().filter(|other| last(other) == short).count() > 1;
        dimensions.push((Some(path.clone()), if ambiguous { path.clone() } else { short }));
    }
    dimensions
}

/// The dimension of a search's conditions; no path of an experiment is called so.
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

/// A variant and a point, told by these dimensions.
pub fn labels(
    dimensions: &[(Option<String>, String)],
    variant: Option<&str>,
    point: &BTreeMap<String, Value>,
) -> Vec<(String, String)> {
    let value = |path: &Option<String>| match path {
        None => variant.unwrap_or_default().to_owned(),
        Some(path) => point.get(path).map(text::of_json).unwrap_or_default(),
    };
    dimensions.iter().map(|(path, name)| (name.clone(), value(path))).collect()
}

/// How one trial is told from the others: `wait, ets, repeat 2`; empty if there is only one.
pub fn trial_name(trial: &Trial, results: &Results, plan: &Plan) -> String {
    let mut parts: Vec<String> = labels_of(&dimensions(plan), trial).into_iter().map(|(_, value)| value).collect();
    let repeated = results.trials.iter().any(|other| other.repeat != trial.repeat);
    if repeated {
        parts.push(format!("repeat {}", trial.repeat));
    }
    parts.join(", ")
}

/// A trial as it was planned.
pub fn planned<'a>(plan: &'a Plan, id: &str) -> Option<&'a plan::Trial> {
    plan.trials.iter().find(|trial| trial.id == id)
}

/// The outages of a trial's faults.
pub fn outages(trial: &Trial) -> impl Iterator<Item = (&Fault, &Outage)> {
    trial.faults.iter().filter_map(|fault| Some((fault, fault.outage.as_ref()?)))
}

/// The longest of a time over a trial's outages; `None` if there is none or one of them does not have it.
pub fn longest(trial: &Trial, time: impl Fn(&Outage) -> Option<f64>) -> Option<f64> {
    let times: Option<Vec<f64>> = outages(trial).map(|(_, outage)| time(outage)).collect();
    times?.into_iter().reduce(f64::max)
}

/// Operations that ended, whatever their outcome.
pub fn operations(trial: &Trial) -> u64 {
    let outcomes = &trial.outcomes;
    outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong
}

/// Attempts beyond the first of each operation; `None` if nothing ended. An operation that is unfinished had its last attempt
/// still open, which is not among the attempts that ended.
pub fn retried(trial: &Trial) -> Option<u64> {
    let all = operations(trial);
    (all > 0).then(|| trial.attempts.saturating_sub(all))
}

/// Whether any operation of the run ended.
pub fn is_measured(results: &Results) -> bool {
    results.trials.iter().any(|trial| operations(trial) > 0)
}

/// A count of outcomes; `None` if no operation ended, so that nothing was counted.
pub fn counted(trial: &Trial, count: impl Fn(&Trial) -> u64) -> Option<f64> {
    (operations(trial) > 0).then(|| count(trial) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn repeats_fall_into_one_group_and_void_ones_do_not_count() {
        let plan = example::plan(&["wait", "fail fast"], &[("target.with.state", &["process", "ets"])], 2);
        let mut results = example::results(&plan);
        results.trials[0].throughput.operations_per_s = Some(1.0);
        results.trials[0].verdict.is = Trust::Void;
        let groups = groups(&results, &plan);
        assert_eq!(groups.len(), 4);
        assert_eq!(groups[0].name(), "wait, process");
        assert_eq!(groups[0].trials.len(), 2);
        let spread = groups[0].spread(|trial| trial.throughput.operations_per_s).unwrap();
        assert!((spread.of, spread.least > 1.0) == (1, true));
        assert_eq!(trial_name(&results.trials[0], &results, &plan), "wait, process, repeat 1");
    }

    #[test]
    fn paths_that_end_alike_keep_their_whole_name() {
        let plan = example::plan(&[], &[("load.rate", &["1"]), ("lab.rate", &["2"]), ("load.agents", &["3"])], 1);
        let names: Vec<String> = dimensions(&plan).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["load.rate", "lab.rate", "agents"]);
    }

    #[test]
    fn a_median_lies_between_and_ranges_that_read_the_same_are_not_shown() {
        let spread = MedianRange::of(vec![3.0, 1.0, f64::NAN, 2.0, 10.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most, spread.of), (2.5, 1.0, 10.0, 4));
        assert_eq!(spread.text(numbers::number), "2.5 (1–10)");
        assert_eq!(spread.text(numbers::seconds), "2.5 s (1–10 s)");
        assert_eq!(MedianRange::of(vec![5.0, 5.001]).unwrap().text(numbers::number), "5");
        assert_eq!(MedianRange::of(Vec::new()), None);
    }

    #[test]
    fn only_attempts_beyond_the_first_are_retries() {
        let plan = example::plan(&[], &[], 1);
        let mut trial = example::results(&plan).trials.remove(0);
        assert_eq!(retried(&trial), Some(0));
        trial.attempts += 5;
        assert_eq!(retried(&trial), Some(5));
        assert_eq!(retried(&Trial::default()), None);
    }

    #[test]
    fn one_outage_without_a_time_leaves_the_longest_unknown() {
        let outage = |back| Some(Outage { back_to_baseline_s: back, ..Outage::default() });
        let fault = |back| Fault { outage: outage(back), ..Fault::default() };
        let mut trial = Trial { faults: vec![fault(Some(1.0)), fault(Some(2.0))], ..Trial::default() };
        assert_eq!(longest(&trial, |outage| outage.back_to_baseline_s), Some(2.0));
        trial.faults.push(fault(None));
        assert_eq!(longest(&trial, |outage| outage.back_to_baseline_s), None);
        assert_eq!(longest(&Trial::default(), |outage| outage.back_to_baseline_s), None);
    }
}
