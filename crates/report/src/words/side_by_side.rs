//! The findings of variants and sweeps: who saw failures, what it costs in latency, where writes were lost. Where one
//! dimension explains a difference it is named; otherwise the worst case is.

use record::results::Trial;

use super::{capital, listed, quoted, wrong};
use crate::facts::{Figure, Group, Spread, counted, operations, outages};
use crate::numbers;

/// Names listed in a sentence at most.
const NAMED: usize = 6;

/// A sentence each for failures, for speed, unless that is told, and for losses.
pub fn findings(groups: &[Group], speed_is_told: bool) -> Vec<String> {
    let mut sentences = vec![failures(groups)];
    sentences.extend(speed(groups).into_iter().filter(|_| !speed_is_told));
    if !with_faults(groups) {
        // Where nothing was broken, speed is what was asked for.
        sentences.reverse();
    }
    for (what, value, of) in INCONSISTENCIES {
        match *what {
            WRONG => sentences.extend(wrong::sentence(groups)),
            _ => sentences.extend(where_any(groups, what, *value, *of)),
        }
    }
    sentences
}

const WRONG: &str = "answers were wrong";

/// What the checks count, and of how many.
const INCONSISTENCIES: &[(&str, Figure, Option<Figure>)] = &[
    (
        "acknowledged writes were lost",
        |trial| trial.consistency.lost_writes.map(|count| count as f64),
        Some(|trial| trial.consistency.checked.map(|count| count as f64)),
    ),
    (WRONG, |trial| trial.consistency.wrong.map(|count| count as f64), None),
    (
        "keys differed between members in the end",
        |trial| trial.consistency.diverged_keys.map(|count| count as f64),
        None,
    ),
];

/// A sentence for each kind of inconsistency that there was; none where all was well.
pub fn inconsistencies(groups: &[Group]) -> Vec<String> {
    let found = INCONSISTENCIES.iter().filter(|(_, value, _)| any(groups, *value));
    found.filter_map(|(what, value, of)| where_any(groups, what, *value, *of)).collect()
}

fn any(groups: &[Group], value: Figure) -> bool {
    groups.iter().any(|group| group.spread(value).is_some_and(|spread| spread.most > 0.0))
}

fn failed(trial: &Trial) -> Option<f64> {
    counted(trial, |trial| trial.outcomes.failed + trial.outcomes.timeout)
}

fn failures(groups: &[Group]) -> String {
    let trials: usize = groups.iter().map(|group| group.usable().count()).sum();
    let Some(worst) = Worst::of(groups, failed).filter(|worst| worst.value > 0.0) else {
        return format!("No call failed in any of {trials} trials.");
    };
    let all = numbers::count_in_words(operations(worst.trial));
    let worst = format!("the worst was {} with {} of {all} calls failed", quoted(&worst.group.name()), worst.count());
    match split(groups, failed) {
        Some(split) => format!("No call failed with {}; {worst}.", names(split.dimension, &split.clean)),
        None => {
            let clean =
                groups.iter().filter(|group| group.spread(failed).is_some_and(|spread| spread.most == 0.0)).count();
            match clean {
                0 => format!("Calls failed in all {} cases; {worst}.", groups.len()),
                clean => format!("No call failed in {clean} of {} cases; {worst}.", groups.len()),
            }
        }
    }
}

fn with_faults(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.usable().any(|trial| outages(trial).next().is_some()))
}

/// Latency by the first dimension, or throughput where no fault was played.
fn speed(groups: &[Group]) -> Option<String> {
    let p99 = range(groups, "latency at p99", |trial| trial.latency_us?.p99, numbers::micros);
    let parts = if with_faults(groups) {
        [p99, range(groups, "the slowest call", |trial| trial.latency_us?.max, numbers::micros)]
    } else {
        [range(groups, "throughput", |trial| trial.throughput.operations_per_s, numbers::rate), p99]
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; "))))
}

/// `p99 ran from 1.1 ms (‹a›) to 2.3 ms (‹b›)`: medians, by the values of the first dimension.
fn range(groups: &[Group], what: &str, value: Figure, write: fn(f64) -> String) -> Option<String> {
    let mut medians: Vec<(String, f64)> = Vec::new();
    for name in values_of(groups, 0) {
        let of_name = groups.iter().filter(|group| group.labels.first().is_some_and(|label| label.1 == name));
        let values: Vec<f64> = of_name.filter_map(|group| Some(group.spread(value)?.median)).collect();
        medians.extend(Spread::of(values).map(|spread| (name.clone(), spread.median)));
    }
    let (low, least) = medians.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (high, most) = medians.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (least, most) = (write(*least), write(*most));
    if least == most {
        return Some(format!("{what} was {least} throughout"));
    }
    let named = |name: &String| names(dimension(groups, 0), std::slice::from_ref(name));
    Some(format!("{what} ran from {least} with {} to {most} with {}", named(low), named(high)))
}

/// Where a count is above 0, and where it is not.
fn where_any(groups: &[Group], what: &str, value: Figure, of: Option<Figure>) -> Option<String> {
    let worst = Worst::of(groups, value)?;
    if worst.value == 0.0 {
        return Some(capital(&format!("no {what} in any of the cases.")));
    }
    let up_to = match of.and_then(|of| of(worst.trial)) {
        Some(all) => format!("up to {} of {}", worst.count(), numbers::median_count_in_words(all)),
        None => format!("up to {}", worst.count()),
    };
    Some(match split(groups, value) {
        Some(Split { dimension, clean, dirty, .. }) => {
            let (dirty, clean) = (names(dimension, &dirty), names("", &clean));
            capital(&format!("{what} with {dirty} ({up_to}), none with {clean}."))
        }
        None => capital(&format!("{what} in some cases ({up_to}, with {}).", quoted(&worst.group.name()))),
    })
}

/// The trial with the largest value.
struct Worst<'a, 'b> {
    group: &'b Group<'a>,
    trial: &'b Trial,
    value: f64,
}

impl<'a, 'b> Worst<'a, 'b> {
    fn of(groups: &'b [Group<'a>], value: Figure) -> Option<Self> {
        let trials = groups.iter().flat_map(|group| group.usable().map(move |trial| (group, trial)));
        let valued = trials.filter_map(|(group, trial)| Some(Self { group, trial, value: value(trial)? }));
        valued.reduce(|worst, next| if next.value > worst.value { next } else { worst })
    }

    fn count(&self) -> String {
        numbers::median_count_in_words(self.value)
    }
}

/// A dimension that tells where a count is 0 from where it is not.
pub(super) struct Split<'a> {
    /// Its place among the dimensions.
    pub index: usize,
    dimension: &'a str,
    clean: Vec<String>,
    dirty: Vec<String>,
}

/// The values of a dimension with which a count is 0 in every trial, and the others, if there are both. Of several such
/// dimensions the one that leaves least unsaid: with the most groups where the count is 0.
pub(super) fn split<'a>(groups: &'a [Group], value: Figure) -> Option<Split<'a>> {
    let mut best: Option<(usize, Split)> = None;
    for index in 0..groups.first().map_or(0, |group| group.labels.len()) {
        let (mut clean, mut dirty) = (Vec::new(), Vec::new());
        for name in values_of(groups, index) {
            let of_name = groups.iter().filter(|group| group.labels[index].1 == name);
            let counts: Vec<f64> = of_name.filter_map(|group| Some(group.spread(value)?.most)).collect();
            // Of what was not looked for nothing is said.
            if counts.is_empty() {
                continue;
            }
            if counts.iter().all(|count| *count == 0.0) { clean.push(name) } else { dirty.push(name) }
        }
        let covered = groups.iter().filter(|group| clean.contains(&group.labels[index].1)).count();
        if !clean.is_empty() && !dirty.is_empty() && best.as_ref().is_none_or(|(most, _)| covered > *most) {
            best = Some((covered, Split { index, dimension: dimension(groups, index), clean, dirty }));
        }
    }
    best.map(|(_, split)| split)
}

pub(super) fn dimension<'a>(groups: &'a [Group], index: usize) -> &'a str {
    groups.first().and_then(|group| group.labels.get(index)).map_or("", |label| label.0.as_str())
}

/// The values of a dimension, in the order of the plan.
pub(super) fn values_of(groups: &[Group], dimension: usize) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for (_, value) in groups.iter().filter_map(|group| group.labels.get(dimension)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

/// `‹wait› and ‹fail fast›`, `state ‹ets›`: a variant needs no word before its name.
pub(super) fn names(dimension: &str, names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).map(|name| quoted(name)).collect();
    if names.len() > NAMED {
        shown.push(format!("{} others", names.len() - NAMED));
    }
    let before = if matches!(dimension, "" | "variant") { String::new() } else { format!("{dimension} ") };
    before + &listed(&shown)
}
