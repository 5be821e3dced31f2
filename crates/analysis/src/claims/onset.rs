//! `onset(metric, a, path)`: the first value of a swept path at which a count is above 0, such as the lag at which wrong answers begin. It
//! must not know what is counted.

use std::collections::BTreeMap;

use experiment::duration;
use experiment::quantity::Quantity;
use record::results::{Trial, Trust};
use serde_json::Value;

use super::found::{Found, Part};
use crate::metrics::metric;
use crate::stats::order::largest;

/// A value of the path.
struct Step<'a> {
    value: &'a Value,
    /// The count in each trial that can be used and has it.
    counts: Vec<f64>,
}

/// The values of the path at one point of the others, in the order of the file.
struct Steps<'a> {
    point: BTreeMap<String, Value>,
    steps: Vec<Step<'a>>,
}

/// The first value, in the order of the file, at which the count is above 0 in any trial. A void trial is not used, but where a value has
/// no other it is not known whether that was the first.
pub(super) fn onset(path: &str, variant: Option<&str>, over: &str, trials: &[&Trial]) -> Found {
    let all = steps(path, variant, over, trials);
    let judged: Vec<(Part, bool)> = all.iter().filter_map(|of| part(&of.steps)).collect();
    let lacking = judged.iter().any(|(_, lacking)| *lacking);
    Found::of(judged.into_iter().map(|(part, _)| part)).lacking(lacking)
}

fn steps<'a>(path: &str, variant: Option<&str>, over: &str, trials: &[&'a Trial]) -> Vec<Steps<'a>> {
    let mut all: Vec<Steps<'a>> = Vec::new();
    for &trial in trials.iter().filter(|trial| trial.variant.as_deref() == variant) {
        let Some(value) = trial.point.get(over) else { continue };
        let mut point = trial.point.clone();
        point.remove(over);
        let index = all.iter().position(|of| of.point == point).unwrap_or(all.len());
        if index == all.len() {
            all.push(Steps { point, steps: Vec::new() });
        }
        let steps = &mut all[index].steps;
        let place = steps.iter().position(|step| step.value == value).unwrap_or(steps.len());
        if place == steps.len() {
            steps.push(Step { value, counts: Vec::new() });
        }
        let usable = trial.verdict.is != Trust::Void;
        steps[place].counts.extend(largest(metric(trial, path)).filter(|_| usable));
    }
    all
}

/// Where it begins, and whether that is in doubt; `None` if nothing was counted at all.
fn part(steps: &[Step]) -> Option<(Part, bool)> {
    let last = steps.iter().rfind(|step| !step.counts.is_empty())?;
    let begins = steps.iter().position(|step| step.counts.iter().any(|count| *count > 0.0));
    let Some(place) = begins else {
        // Which way the list runs tells on which side of its end the onset may lie.
        let first = steps.first().and_then(|step| number(step.value));
        let span = match (first, number(last.value)) {
            (Some(first), Some(last)) if first > last => [0.0, last],
            (_, Some(last)) => [last, f64::INFINITY],
            (_, None) => [f64::NEG_INFINITY, f64::INFINITY],
        };
        let note = format!("not up to {}", plain(last.value));
        let lacking = steps.iter().any(|step| step.counts.is_empty());
        return Some((Part { value: None, ci95: None, span, note }, lacking));
    };
    let step = &steps[place];
    let hit = step.counts.iter().filter(|count| **count > 0.0).count();
    let mut note = format!("at {} in {hit} of {}", plain(step.value), step.counts.len());
    note.push_str(&match place.checked_sub(1).map(|before| &steps[before]) {
        None => ", the first value".to_owned(),
        Some(before) if before.counts.is_empty() => format!("; {} was not measured", plain(before.value)),
        Some(before) => format!(", not at {}", plain(before.value)),
    });
    let lacking = steps[..place].iter().any(|step| step.counts.is_empty());
    let value = number(step.value);
    let span = value.map_or([f64::NEG_INFINITY, f64::INFINITY], |value| [value; 2]);
    Some((Part { value, ci95: None, span, note }, lacking))
}

/// The number of a swept value: of a rate bits per second, of a size bytes, of a duration seconds. `None` of other texts.
fn number(value: &Value) -> Option<f64> {
    let text = || value.as_str();
    let quantity = |of: Quantity| text().and_then(|text| of.parse(text).ok());
    value
        .as_f64()
        .or_else(|| quantity(Quantity::BitRate))
        .or_else(|| quantity(Quantity::ByteRate))
        .or_else(|| quantity(Quantity::Size))
        .or_else(|| text().and_then(|text| duration::parse_s(text).ok()))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
