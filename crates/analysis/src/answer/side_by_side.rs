//! Findings of several variants or points: failures, speed, and the length of outages.

use experiment::plan::Plan;
use record::results::{OutageDistribution, Results};
use text::{capital, code, listed, numbers};

use super::{counts, has_outages};
use crate::stats::quantiles::largest;
use crate::trial_groups::{FigureOf, Group, MedianRange, label, repeated};

/// Largest number of names in a sentence.
const NAMED: usize = 6;

/// Returns a sentence on failures, one on speed unless `speed_is_told`, and one for each kind of
/// loss that was looked for and not found.
pub fn findings(groups: &[Group], speed_is_told: bool) -> Vec<String> {
    let with_faults = groups.iter().any(has_outages);
    let mut sentences: Vec<String> = counts::FAILURES.over(groups).into_iter().collect();
    sentences.extend(speed(groups, with_faults).filter(|_| !speed_is_told));
    if !with_faults {
        // Without faults, speed is the main question.
        sentences.reverse();
    }
    sentences.extend(counts::consistencies(groups));
    sentences
}

/// Returns a sentence on p99 by the first dimension. It adds the slowest call with faults, and
/// throughput without them.
fn speed(groups: &[Group], with_faults: bool) -> Option<String> {
    let p99 = range(groups, "p99 latency", |trial| trial.latency_us.as_ref()?.p99, numbers::micros);
    let parts = if with_faults {
        [p99, range(groups, "the maximum latency", |trial| trial.latency_us.as_ref()?.max, numbers::micros)]
    } else {
        [range(groups, "throughput", |trial| trial.throughput.work_per_s(), numbers::rate), p99]
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; "))))
}

/// Returns `p99 ran from 1.1 ms (‹a›) to 2.3 ms (‹b›)`: medians, by the values of the first
/// dimension.
fn range(groups: &[Group], what: &str, figure: FigureOf, write: fn(f64) -> String) -> Option<String> {
    let values = by_value(groups, 0);
    let mut medians = Vec::new();
    for (value, of_value) in &values {
        let of_groups = of_value.iter().filter_map(|group| Some(group.spread(figure)?.median)).collect();
        let named = names(dimension(groups, 0), &[value]);
        medians.extend(MedianRange::of(of_groups).map(|spread| (spread.median, named)));
    }
    let (least, low) = medians.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (most, high) = medians.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (least, most) = (write(*least), write(*most));
    Some(if medians.len() == 1 && values.len() > 1 {
        format!("{what} was {least} with {low}, and was not measured for the others")
    } else if least == most {
        format!("{what} was {least} throughout")
    } else {
        format!("{what} ranged from {least} with {low} to {most} with {high}")
    })
}

/// A dimension that separates cases with a count of 0 from the others.
pub(super) struct DimensionSplit<'g> {
    /// Index of the dimension in a group's labels.
    pub index: usize,
    pub dimension: &'g str,
    /// Values for which the count is 0 in every trial.
    pub clean: Vec<&'g str>,
    pub dirty: Vec<&'g str>,
    /// Number of groups whose value is in `clean`.
    covered: usize,
}

impl<'g> DimensionSplit<'g> {
    /// Returns the split with the most groups in which the count is 0, or `None` if no dimension
    /// separates the cases.
    pub fn best(groups: &'g [Group], figure: FigureOf) -> Option<Self> {
        let dimensions = 0..groups.first()?.labels.len();
        let splits = dimensions.filter_map(|index| Self::of(groups, index, figure));
        splits.reduce(|best, next| if next.covered > best.covered { next } else { best })
    }

    fn of(groups: &'g [Group], index: usize, figure: FigureOf) -> Option<Self> {
        let mut split =
            Self { index, dimension: dimension(groups, index), clean: Vec::new(), dirty: Vec::new(), covered: 0 };
        for (value, of_value) in by_value(groups, index) {
            match largest(of_value.iter().filter_map(|group| Some(group.spread(figure)?.most))) {
                // Values for which nothing was checked are left out.
                None => {}
                Some(0.0) => {
                    split.clean.push(value);
                    split.covered += of_value.len();
                }
                Some(_) => split.dirty.push(value),
            }
        }
        (!split.clean.is_empty() && !split.dirty.is_empty()).then_some(split)
    }
}

pub(super) fn dimension<'g>(groups: &'g [Group], index: usize) -> &'g str {
    groups.first().and_then(|group| group.labels.get(index)).map_or("", |label| label.0.as_str())
}

/// Returns the values of a dimension in the order of the plan, each with its groups.
pub(super) fn by_value<'g, 'a>(groups: &'g [Group<'a>], dimension: usize) -> Vec<(&'g str, Vec<&'g Group<'a>>)> {
    let mut values: Vec<(&str, Vec<&Group>)> = Vec::new();
    for group in groups {
        let Some((_, value)) = group.labels.get(dimension) else { continue };
        match values.iter_mut().find(|(known, _)| known == value) {
            Some((_, of_value)) => of_value.push(group),
            None => values.push((value, vec![group])),
        }
    }
    values
}

/// Returns names such as `‹wait› and ‹fail fast›`, or `state ‹ets›`. A variant needs no word before
/// its name.
pub(super) fn names(dimension: &str, names: &[&str]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).map(|name| code(name)).collect();
    if names.len() > NAMED {
        shown.push(numbers::plural(names.len() - NAMED, "other"));
    }
    let before = if matches!(dimension, "" | "variant") { String::new() } else { format!("{dimension} ") };
    before + &listed(&shown, "and")
}

/// Largest number of distributions that a sentence describes one by one.
const WORDED: usize = 6;

const BACK: &str = "back_to_baseline_s";

/// Returns a sentence for each fault that occurred often enough with several variants or points.
pub fn recoveries(results: &Results, plan: &Plan) -> Vec<String> {
    let known: Vec<&OutageDistribution> = repeated(results).filter(|of| of.figures.contains_key(BACK)).collect();
    let mut sentences = Vec::new();
    for fault in text::distinct(known.iter().map(|of| &of.fault)) {
        let of_fault = known.iter().filter(|of| of.fault == *fault);
        let named: Vec<(String, &OutageDistribution)> = of_fault.map(|of| (code(&label(of, plan)), *of)).collect();
        if named.len() > 1 {
            sentences.push(capital(&outages_of(&code(fault), &named)));
        }
    }
    sentences
}

fn outages_of(fault: &str, named: &[(String, &OutageDistribution)]) -> String {
    if named.len() <= WORDED {
        let parts: Vec<String> = named.iter().map(|(name, of)| format!("with {name} {}", figures(of))).collect();
        return format!("recovery after {fault}: {}.", parts.join("; "));
    }
    // Only the fastest and the slowest of more distributions are described.
    let medians = named.iter().filter_map(|(name, of)| Some((of.figures.get(BACK)?.p50?, name)));
    let mut medians: Vec<(f64, &String)> = medians.collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut parts = Vec::new();
    if let (Some((least, first)), Some((most, last))) = (medians.first(), medians.last()) {
        let (least, most) = (numbers::seconds(*least), numbers::seconds(*most));
        parts.push(format!("the median recovery ranged from {least} with {first} to {most} with {last}"));
    }
    let never = named.iter().filter(|(_, of)| of.never_back > 0).map(|(name, _)| name.clone());
    let never: Vec<String> = never.collect();
    match never.len() {
        0 => {}
        1..=WORDED => parts.push(format!("service did not always recover with {}", listed(&never, "and"))),
        count => parts.push(format!("service did not always recover in {count} of {} cases", named.len())),
    }
    format!("after {fault} {}.", parts.join("; "))
}

/// Returns `1.2 s at the median (95 % interval 0.9–1.4 s) and 3.1 s at worst, of 12`. With few
/// occurrences, the best replaces the median.
fn figures(of: &OutageDistribution) -> String {
    let back = of.figures.get(BACK).cloned().unwrap_or_default();
    let usual = match (back.p50, back.min) {
        (Some(median), _) => {
            let range = numbers::interval(back.p50_ci95, numbers::seconds);
            let range = range.map(|range| format!(" (95 % interval {range})")).unwrap_or_default();
            Some(format!("median {}{range}", numbers::seconds(median)))
        }
        (None, Some(best)) => Some(format!("minimum {}", numbers::seconds(best))),
        (None, None) => None,
    };
    let worst = match (of.never_back, back.max) {
        (0, most) => most.map(|most| format!("maximum {}", numbers::seconds(most))),
        (never, _) if never == of.count => Some("none within the trial".to_owned()),
        (1, _) => Some("1 not within the trial".to_owned()),
        (never, _) => Some(format!("{never} not within the trial")),
    };
    let parts: Vec<String> = [usual, worst].into_iter().flatten().collect();
    format!("{} ({})", parts.join(", "), numbers::plural(of.count as usize, "occurrence"))
}
