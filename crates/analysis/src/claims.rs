//! Claims and requirements held against the trials. It must not know where a metric comes from.

use std::collections::BTreeMap;

use experiment::plan::{self, Range};
use record::results::{Claim, Holds, Requirement, Trial, Trust};
use serde_json::Value;

use crate::cost;
use crate::metrics::metric;
use crate::refusals::refusal;
use crate::stats::order::{largest, median};

mod curves;
mod found;
mod laws;
mod onset;
mod ratio;

use found::Found;

/// What a source says, held against this run. A void trial is not used.
pub(crate) fn claim(claim: &plan::Claim, trials: &[Trial]) -> Claim {
    let matching: Vec<&Trial> = matching(&claim.filter, trials).collect();
    let (value, range, holds, note) = match of_function(&claim.metric, &claim.range, &matching) {
        Some(found) => (found.value, found.range, found.holds(&claim.range), found.note),
        None => {
            let usable = usable(&matching);
            let measured = measured(&claim.metric, &claim.range, &usable);
            let values: Vec<f64> = measured.iter().copied().flatten().collect();
            let smallest = largest(values.iter().map(|value| -value)).map(|value| -value);
            let range = smallest.zip(largest(values.iter().copied())).map(|(low, high)| [low, high]);
            let note = if values.is_empty() { cost::unknown(&claim.metric, &usable) } else { None };
            (median(&values), range, held(&measured, &claim.range), note.unwrap_or_default())
        }
    };
    Claim {
        says: claim.says.clone(),
        source: claim.source.clone(),
        metric: claim.metric.clone(),
        value,
        range,
        note,
        holds,
    }
}

/// Whether all values are in range, or none.
fn held(measured: &[Option<f64>], range: &Range) -> Holds {
    let values: Vec<f64> = measured.iter().copied().flatten().collect();
    let inside = values.iter().filter(|&&value| range.holds(value)).count();
    match (values.len(), inside) {
        (0, _) => Holds::NotMeasured,
        (all, _) if all < measured.len() => Holds::NotShown,
        (all, inside) if inside == all => Holds::Yes,
        (_, 0) => Holds::No,
        _ => Holds::NotShown,
    }
}

/// A gate: every matching trial must have the metric, and in range.
pub(crate) fn requirement(requirement: &plan::Requirement, trials: &[Trial]) -> Requirement {
    let matching: Vec<&Trial> = matching(&requirement.filter, trials).collect();
    if let Some(found) = of_function(&requirement.metric, &requirement.range, &matching) {
        return Requirement {
            metric: requirement.metric.clone(),
            asked: asked(&requirement.range),
            value: found.value,
            holds: found.holds(&requirement.range) == Holds::Yes,
            unmeasured: match found.value {
                None => matching.iter().find_map(|trial| refusal(trial, &requirement.metric)),
                Some(_) => None,
            },
        };
    }
    let measured = measured(&requirement.metric, &requirement.range, &matching);
    let values: Vec<f64> = measured.iter().copied().flatten().collect();
    let all_hold = !measured.is_empty() && values.len() == measured.len();
    Requirement {
        metric: requirement.metric.clone(),
        asked: asked(&requirement.range),
        value: worst(&values, &requirement.range),
        holds: all_hold && values.iter().all(|&value| requirement.range.holds(value)),
        unmeasured: if all_hold {
            None
        } else {
            let refused = matching.iter().find_map(|trial| refusal(trial, &requirement.metric));
            refused.or_else(|| cost::unknown(&requirement.metric, &matching))
        },
    }
}

/// Trials that a `where` leaves.
fn matching<'a>(filter: &'a BTreeMap<String, Value>, trials: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
    trials.iter().filter(|trial| matches(filter, trial))
}

/// Whether a `where` leaves this trial.
pub(crate) fn matches(filter: &BTreeMap<String, Value>, trial: &Trial) -> bool {
    filter.iter().all(|(key, wanted)| match (key.as_str(), trial.point.get(key)) {
        ("variant", _) => wanted.as_str() == trial.variant.as_deref(),
        (_, Some(has)) => same(has, wanted),
        _ => false,
    })
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

/// A metric's value in each trial that should have one.
fn measured(path: &str, range: &Range, trials: &[&Trial]) -> Vec<Option<f64>> {
    trials.iter().map(|trial| worst(&metric(trial, path), range)).collect()
}

/// The trials that are not void.
fn usable<'a>(trials: &[&'a Trial]) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| trial.verdict.is != Trust::Void).collect()
}

/// The value of a function over these trials; `None` if the metric is a path. Where there are no variants, none is named.
fn of_function(metric: &str, range: &Range, matching: &[&Trial]) -> Option<Found> {
    let (function, arguments) = call(metric)?;
    let trials = &usable(matching);
    Some(match (function, arguments.as_slice()) {
        ("crossing", [a, b, over]) => curves::crossings([a, b], over, trials),
        ("flat_ratio", [a, b, over]) => curves::flat_ratio([a, b], over, trials),
        ("flat_until", [over]) => curves::flats(None, over, trials),
        ("flat_until", [a, over]) => curves::flats(Some(a), over, trials),
        ("knee", [over]) => curves::knees(None, over, trials),
        ("knee", [a, over]) => curves::knees(Some(a), over, trials),
        ("knee_ratio", [a, b, over]) => curves::knee_ratio([a, b], over, trials),
        ("onset", [path, over]) => onset::onset(path, None, over, matching),
        ("onset", [path, a, over]) => onset::onset(path, Some(a), over, matching),
        ("peak", []) => curves::peaks(None, trials),
        ("peak", [a]) => curves::peaks(Some(a), trials),
        ("peak_ratio", [a, b]) => curves::peak_ratios([a, b], trials),
        ("ratio", [path, a, b]) => ratio::ratio(path, [a, b], range, trials),
        ("retained", [path, over, at]) => curves::retained(path, None, [over, at], trials),
        ("retained", [path, a, over, at]) => curves::retained(path, Some(a), [over, at], trials),
        ("usl", [parameter, over]) => laws::law(parameter, None, over, trials),
        ("usl", [parameter, a, over]) => laws::law(parameter, Some(a), over, trials),
        ("usl_difference", [parameter, a, b, over]) => laws::difference(parameter, [a, b], over, trials),
        _ => Found::default(),
    })
}

/// A function's name and its arguments, if the metric is one.
pub(crate) fn call(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = text.trim().split_once('(')?;
    let inside = rest.strip_suffix(')')?;
    let arguments = if inside.trim().is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() };
    Some((name.trim(), arguments))
}

/// The value that is furthest out of range, or nearest to being so.
pub(crate) fn worst(values: &[f64], range: &Range) -> Option<f64> {
    let excess = |value: f64| {
        let over = [range.below, range.at_most].into_iter().flatten().map(|bound| value - bound);
        let under = [range.above, range.at_least].into_iter().flatten().map(|bound| bound - value);
        let off = range.equals.map(|wanted| (value - wanted).abs());
        largest(over.chain(under).chain(off)).unwrap_or(value)
    };
    values.iter().copied().max_by(|&a, &b| excess(a).total_cmp(&excess(b)))
}

/// A range in words: `at least 5 and at most 20`.
fn asked(range: &Range) -> String {
    asked_as(range, |bound| bound.to_string())
}

/// The same, its bounds written in this way.
pub(crate) fn asked_as(range: &Range, write: fn(f64) -> String) -> String {
    let bounds = [
        ("below", range.below),
        ("above", range.above),
        ("at least", range.at_least),
        ("at most", range.at_most),
        ("equal to", range.equals),
    ];
    let words: Vec<String> =
        bounds.iter().filter_map(|(word, bound)| bound.map(|bound| format!("{word} {}", write(bound)))).collect();
    words.join(" and ")
}

#[cfg(test)]
mod tests;
