//! `[sweep] stop`: a condition that ends the sweep of a variant early, and the trials that are left
//! out then.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::keys::section;
use crate::plan::gates::{self, MetricNames, MetricRange, RANGE};
use crate::plan::metric::{MetricExpression, MetricTerm};
use crate::plan::trial::Trial;
use crate::problem::{Problem, join_words};
use crate::section::Section;
use crate::tree::Node;
use crate::trial_setting::Sweep;

section! {
    /// `[sweep] stop`: a variant goes no higher after the metric of one of its trials is in the
    /// range.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct StopRule = STOP_RULE {
        metric = required: Text => MetricExpression, "Path inside a trial of analysis.json, such as outcomes.timeout";
        ..RANGE: below, above, at_most, at_least, equals;
        => range: MetricRange = |stop| MetricRange::in_unit_of(stop, stop.text("metric")), "Range that ends the sweep";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => accepts_void: bool, "Whether void trials stop it as well (`run --accept`)";
        over: Text => over: String, "Path whose higher values are left out; default: the only one that is swept";
    }
}

impl StopRule {
    /// Whether a trial is left out after another trial met the condition. It is left out if it has
    /// the same variant, the same values of all other swept paths, and a higher value. The repeat
    /// does not matter: if one repeat met the condition, later repeats go no higher either.
    #[must_use]
    pub fn leaves_out(&self, trial: &Trial, met: &Trial) -> bool {
        let is_other = |(path, _): &(&String, &Json)| **path != self.over;
        trial.variant == met.variant
            && trial.point.iter().filter(is_other).eq(met.point.iter().filter(is_other))
            && self.value(trial).zip(self.value(met)).is_some_and(|(value, last)| value > last)
    }

    /// Returns the trial's value of the rising path.
    #[must_use]
    pub fn value(&self, trial: &Trial) -> Option<f64> {
        trial.point.get(&self.over)?.as_f64()
    }
}

pub(super) fn read(root: &Section<'_>, names: &MetricNames<'_>, problems: &mut Vec<Problem>) -> Option<StopRule> {
    let section = root.section("sweep")?.section("stop")?;
    let rule = StopRule::read(&section);
    let metric = gates::check_named(&section, names, problems);
    gates::check_range(&section, &rule.range, metric, section.place("metric"), problems);
    if matches!(rule.metric.term(), MetricTerm::Function(_)) {
        let problem = Problem::new(section.place("metric"), "a sweep is stopped by a metric of one trial");
        problems.push(problem.expected("a function over trials").hint("name a metric of a trial: outcomes.timeout"));
    }
    let over = risen(&section, names, problems)?;
    problems.extend(falls(over, &section));
    Some(StopRule { over: over.path.clone(), ..rule })
}

/// Returns the sweep that the rule stops.
fn risen<'a>(section: &Section<'_>, names: &MetricNames<'a>, problems: &mut Vec<Problem>) -> Option<&'a Sweep> {
    if let Some(path) = section.text("over") {
        problems.extend(gates::swept(path, section.place("over"), names));
        return names.sweeps.iter().find(|sweep| sweep.path == path);
    }
    if let [only] = names.sweeps {
        return Some(only);
    }
    let paths: Vec<String> = names.sweeps.iter().map(|sweep| format!("over = \"{}\"", sweep.path)).collect();
    problems.push(if paths.is_empty() {
        Problem::absent(section.place, "there is nothing to stop").expected("no path is swept")
    } else {
        let problem = Problem::absent(section.place, "several paths are swept");
        problem.expected("`over` is missing").hint(format!("add {}", join_words(&paths, "or")))
    });
    None
}

/// Returns the problem of a sweep that does not rise. Higher values are left out, so all values
/// must be numbers, and lower values must come first.
fn falls(sweep: &Sweep, section: &Section<'_>) -> Option<Problem> {
    let numbers: Vec<f64> = sweep.values.iter().filter_map(Node::number).collect();
    let (what, expected) = if numbers.len() < sweep.values.len() {
        (format!("the sweep of `{}` cannot be stopped", sweep.path), "not all of its values are numbers")
    } else if !numbers.is_sorted() {
        (format!("the values of `{}` do not rise", sweep.path), "a higher value is played before a lower one")
    } else {
        return None;
    };
    let problem = Problem::new(&sweep.path_place, what).expected(expected).related(section.place, "stopped here");
    Some(problem.hint("`stop` leaves out what is higher than the value at which its condition was met"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{StopRule, Trial};

    fn trial(variant: &str, agents: u32, rate: u32, repeat: u32) -> Trial {
        let point = BTreeMap::from([("load.agents".to_owned(), json!(agents)), ("load.rate".to_owned(), json!(rate))]);
        Trial { variant: Some(variant.to_owned()), point, repeat, ..Trial::default() }
    }

    #[test]
    fn higher_loads_are_left_out_in_every_repeat() {
        let rule = StopRule { over: "load.agents".to_owned(), ..StopRule::default() };
        let met = trial("pi", 64, 10, 1);
        for (other, is_out) in [
            (trial("pi", 128, 10, 1), true),
            (trial("pi", 128, 10, 2), true),
            (trial("pi", 64, 10, 2), false),
            (trial("pi", 32, 10, 2), false),
            (trial("devx", 128, 10, 1), false),
            (trial("pi", 128, 20, 1), false),
        ] {
            assert_eq!(rule.leaves_out(&other, &met), is_out, "{other:?}");
        }
        let elsewhere = Trial { point: BTreeMap::new(), ..met.clone() };
        assert!(!rule.leaves_out(&elsewhere, &met) && rule.value(&elsewhere).is_none());
    }
}
