//! Findings of several variants or points: failures and wrong answers, latency, lost writes, and
//! the length of outages. If one dimension explains a difference, it is named; otherwise the worst
//! case is.

use record::results::{OutageDistribution, Results, Trial};
use text::{capital, code, listed, numbers};

use crate::trial_groups::{FigureOf, Group, MedianRange, counted, label, operations, outages, repeated};

/// Most names in a sentence.
const NAMED: usize = 6;

/// Returns two lists of sentences. The first has one for each kind of loss or wrong answer that was
/// found. The second has one on failures, one on speed unless `speed_is_told`, and one for each
/// kind of loss that was looked for and not found.
pub fn findings(groups: &[Group], speed_is_told: bool) -> (Vec<String>, Vec<String>) {
    let mut sentences = vec![failures(groups)];
    sentences.extend(speed(groups).into_iter().filter(|_| !speed_is_told));
    if !with_faults(groups) {
        // Without faults, speed is the main question.
        sentences.reverse();
    }
    let mut inconsistent = Vec::new();
    for (what, value, of) in INCONSISTENCIES {
        let sentence = match *what {
            WRONG => wrong_answers(groups),
            _ => where_any(groups, what, *value, *of),
        };
        if any(groups, *value) { inconsistent.extend(sentence) } else { sentences.extend(sentence) }
    }
    (inconsistent, sentences)
}

const WRONG: &str = "answers were wrong";

/// Counts of the checks, each with the number checked.
const INCONSISTENCIES: &[(&str, FigureOf, Option<FigureOf>)] = &[
    (
        "acknowledged writes were lost",
        |trial| trial.consistency.lost_writes.map(|count| count as f64),
        Some(|trial| {
            let found = &trial.consistency;
            found.acknowledged_checked.or(found.checked).map(|count| count as f64)
        }),
    ),
    (WRONG, |trial| trial.consistency.wrong.map(|count| count as f64), None),
    (
        "keys differed between members in the end",
        |trial| trial.consistency.diverged_keys.map(|count| count as f64),
        None,
    ),
];

/// Returns a sentence for each kind of inconsistency that was found.
pub fn inconsistencies(groups: &[Group]) -> Vec<String> {
    let found = INCONSISTENCIES.iter().filter(|(_, value, _)| any(groups, *value));
    found.filter_map(|(what, value, of)| where_any(groups, what, *value, *of)).collect()
}

fn any(groups: &[Group], value: FigureOf) -> bool {
    groups.iter().any(|group| group.spread(value).is_some_and(|spread| spread.most > 0.0))
}

fn failed(trial: &Trial) -> Option<f64> {
    counted(trial, |trial| trial.outcomes.failed + trial.outcomes.timeout)
}

fn failures(groups: &[Group]) -> String {
    let trials: usize = groups.iter().map(|group| group.counting().count()).sum();
    let Some(worst) = WorstTrial::of(groups, failed).filter(|worst| worst.value > 0.0) else {
        return format!("No call failed in any of {trials} trials.");
    };
    let all = numbers::count_in_words(operations(worst.trial));
    let worst = format!("the worst was {} with {} of {all} calls failed", code(&worst.group.name()), worst.count());
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
    groups.iter().any(|group| group.counting().any(|trial| outages(trial).next().is_some()))
}

/// Returns latency by the first dimension, or throughput if there was no fault.
fn speed(groups: &[Group]) -> Option<String> {
    let p99 = range(groups, "latency at p99", |trial| trial.latency_us.as_ref()?.p99, numbers::micros);
    let parts = if with_faults(groups) {
        [p99, range(groups, "the slowest call", |trial| trial.latency_us.as_ref()?.max, numbers::micros)]
    } else {
        [range(groups, "throughput", |trial| trial.throughput.work_per_s(), numbers::rate), p99]
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; "))))
}

/// Returns `p99 ran from 1.1 ms (‹a›) to 2.3 ms (‹b›)`: medians, by the values of the first
/// dimension.
fn range(groups: &[Group], what: &str, value: FigureOf, write: fn(f64) -> String) -> Option<String> {
    let mut medians: Vec<(String, f64)> = Vec::new();
    let all = values_of(groups, 0);
    for name in all.clone() {
        let of_name = groups.iter().filter(|group| group.labels.first().is_some_and(|label| label.1 == name));
        let values: Vec<f64> = of_name.filter_map(|group| Some(group.spread(value)?.median)).collect();
        medians.extend(MedianRange::of(values).map(|spread| (name.clone(), spread.median)));
    }
    let (low, least) = medians.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (high, most) = medians.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (least, most) = (write(*least), write(*most));
    let named = |name: &String| names(dimension(groups, 0), std::slice::from_ref(name));
    if medians.len() == 1 && all.len() > 1 {
        return Some(format!("{what} was {least} with {}, and is not known of the others", named(low)));
    }
    if least == most {
        return Some(format!("{what} was {least} throughout"));
    }
    Some(format!("{what} ran from {least} with {} to {most} with {}", named(low), named(high)))
}

/// Returns the cases in which a count is above 0, and those in which it is 0.
fn where_any(groups: &[Group], what: &str, value: FigureOf, of: Option<FigureOf>) -> Option<String> {
    let worst = WorstTrial::of(groups, value)?;
    if worst.value == 0.0 {
        return Some(capital(&format!("no {what} in any of the cases.")));
    }
    let up_to = match of.and_then(|of| of(worst.trial)) {
        Some(all) => format!("up to {} of {}", worst.count(), numbers::median_count_in_words(all)),
        None => format!("up to {}", worst.count()),
    };
    Some(match split(groups, value) {
        Some(DimensionSplit { dimension, clean, dirty, .. }) => {
            let (dirty, clean) = (names(dimension, &dirty), names("", &clean));
            capital(&format!("{what} with {dirty} ({up_to}), none with {clean}."))
        }
        None => capital(&format!("{what} in some cases ({up_to}, with {}).", code(&worst.group.name()))),
    })
}

/// The trial with the largest value.
struct WorstTrial<'a, 'b> {
    group: &'b Group<'a>,
    trial: &'b Trial,
    value: f64,
}

impl<'a, 'b> WorstTrial<'a, 'b> {
    fn of(groups: &'b [Group<'a>], value: FigureOf) -> Option<Self> {
        let trials = groups.iter().flat_map(|group| group.counting().map(move |trial| (group, trial)));
        let valued = trials.filter_map(|(group, trial)| Some(Self { group, trial, value: value(trial)? }));
        valued.reduce(|worst, next| if next.value > worst.value { next } else { worst })
    }

    fn count(&self) -> String {
        numbers::median_count_in_words(self.value)
    }
}

/// A dimension that separates cases with a count of 0 from the others.
struct DimensionSplit<'a> {
    /// Index among the dimensions.
    pub index: usize,
    dimension: &'a str,
    clean: Vec<String>,
    dirty: Vec<String>,
}

/// Returns the values of a dimension for which a count is 0 in every trial, and the others, if
/// there are both. If several dimensions qualify, uses the one with the most groups in which the
/// count is 0.
fn split<'a>(groups: &'a [Group], value: FigureOf) -> Option<DimensionSplit<'a>> {
    let mut best: Option<(usize, DimensionSplit)> = None;
    for index in 0..groups.first().map_or(0, |group| group.labels.len()) {
        let (mut clean, mut dirty) = (Vec::new(), Vec::new());
        for name in values_of(groups, index) {
            let of_name = groups.iter().filter(|group| group.labels[index].1 == name);
            let counts: Vec<f64> = of_name.filter_map(|group| Some(group.spread(value)?.most)).collect();
            // Values without a check are left out.
            if counts.is_empty() {
                continue;
            }
            if counts.iter().all(|count| *count == 0.0) { clean.push(name) } else { dirty.push(name) }
        }
        let covered = groups.iter().filter(|group| clean.contains(&group.labels[index].1)).count();
        if !clean.is_empty() && !dirty.is_empty() && best.as_ref().is_none_or(|(most, _)| covered > *most) {
            best = Some((covered, DimensionSplit { index, dimension: dimension(groups, index), clean, dirty }));
        }
    }
    best.map(|(_, split)| split)
}

fn dimension<'a>(groups: &'a [Group], index: usize) -> &'a str {
    groups.first().and_then(|group| group.labels.get(index)).map_or("", |label| label.0.as_str())
}

/// Returns the values of a dimension, in the order of the plan.
fn values_of(groups: &[Group], dimension: usize) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for (_, value) in groups.iter().filter_map(|group| group.labels.get(dimension)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

/// Returns names such as `‹wait› and ‹fail fast›`, or `state ‹ets›`. A variant needs no word before
/// its name.
fn names(dimension: &str, names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).map(|name| code(name)).collect();
    match names.len().saturating_sub(NAMED) {
        0 => {}
        1 => shown.push("1 other".to_owned()),
        more => shown.push(format!("{more} others")),
    }
    let before = if matches!(dimension, "" | "variant") { String::new() } else { format!("{dimension} ") };
    before + &listed(&shown, "and")
}

/// Sums over the trials of one value of a dimension.
struct PooledTrials {
    name: String,
    wrong: u64,
    /// Cycles that ended, full or not; `None` if they were not counted.
    cycles: Option<u64>,
}

/// Returns wrong answers in one sentence, or `None` if no answers were checked or none was wrong.
fn wrong_answers(groups: &[Group]) -> Option<String> {
    let wrong: FigureOf = |trial| trial.consistency.wrong.map(|count| count as f64);
    groups.iter().find(|group| group.spread(wrong).is_some_and(|wrong| wrong.most > 0.0))?;
    let index = split(groups, wrong).map_or(0, |split| split.index);
    let seen: Vec<PooledTrials> = values_of(groups, index).into_iter().map(|name| seen(groups, index, name)).collect();
    let named = |one: &PooledTrials| names(dimension(groups, index), std::slice::from_ref(&one.name));
    let (mut dirty, clean): (Vec<&PooledTrials>, Vec<&PooledTrials>) = seen.iter().partition(|one| one.wrong > 0);
    dirty.sort_by(|a, b| b.per_1000().unwrap_or(0.0).total_cmp(&a.per_1000().unwrap_or(0.0)));
    let counts: Vec<String> = dirty.iter().map(|one| format!("{} with {}", one.rate(), named(one))).collect();
    let of = if dirty.iter().all(|one| one.per_1000().is_some()) { " for 1,000 cycles" } else { "" };
    let mut text = format!("wrong answers{of}: {}", listed(&counts, "and"));
    let none: Vec<String> = clean.iter().map(|one| format!("{}{}", named(one), one.in_cycles())).collect();
    if !none.is_empty() {
        text.push_str(&format!("; none with {}", listed(&none, "and")));
    }
    Some(capital(&format!("{text}.")))
}

fn seen(groups: &[Group], index: usize, name: String) -> PooledTrials {
    let own = || groups.iter().filter(|group| group.labels.get(index).is_some_and(|label| label.1 == name));
    let trials = || own().flat_map(Group::counting);
    let wrong = trials().map(|trial| trial.outcomes.wrong).sum();
    let cycles: Option<u64> = trials().map(|trial| trial.consistency.cycles).sum();
    PooledTrials { wrong, cycles, name }
}

impl PooledTrials {
    fn per_1000(&self) -> Option<f64> {
        self.cycles.filter(|cycles| *cycles > 0).map(|cycles| 1_000.0 * self.wrong as f64 / cycles as f64)
    }

    fn rate(&self) -> String {
        match self.per_1000() {
            Some(rate) => numbers::number(rate),
            None => numbers::count_in_words(self.wrong),
        }
    }

    fn in_cycles(&self) -> String {
        self.cycles.map_or_else(String::new, |cycles| format!(" in {} cycles", numbers::count_in_words(cycles)))
    }
}

/// Most distributions that are described one by one.
const WORDED: usize = 6;

const BACK: &str = "back_to_baseline_s";

/// Returns a sentence for each fault that occurred often enough with several variants or points.
pub fn recoveries(results: &Results, plan: &experiment::plan::Plan) -> Vec<String> {
    let mut faults: Vec<&str> = Vec::new();
    for of in repeated(results) {
        if !faults.contains(&of.fault.as_str()) {
            faults.push(&of.fault);
        }
    }
    let of_fault = |fault: &&str| {
        let named: Vec<(String, &OutageDistribution)> = repeated(results)
            .filter(|of| of.fault == *fault && of.figures.contains_key(BACK))
            .map(|of| (code(&label(of, plan)), of))
            .collect();
        (named.len() > 1).then(|| outages_of(fault, &named))
    };
    faults.iter().filter_map(of_fault).collect()
}

fn outages_of(fault: &str, named: &[(String, &OutageDistribution)]) -> String {
    let fault = code(fault);
    if named.len() <= WORDED {
        let parts: Vec<String> = named.iter().map(|(name, of)| format!("with {name} {}", figures(of))).collect();
        return capital(&format!("recovery after {fault}: {}.", parts.join("; ")));
    }
    // For many, only the fastest and the slowest are described.
    let never: Vec<String> = named.iter().filter(|(_, of)| of.never_back > 0).map(|(name, _)| name.clone()).collect();
    let median = |of: &OutageDistribution| of.figures.get(BACK).and_then(|back| back.p50);
    let mut medians: Vec<(&str, f64)> =
        named.iter().filter_map(|(name, of)| Some((name.as_str(), median(of)?))).collect();
    medians.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (medians.first(), medians.last()) {
        let (least, most) = (numbers::seconds(first.1), numbers::seconds(last.1));
        parts
            .push(format!("service was as before at the median in {least} with {} to {most} with {}", first.0, last.0));
    }
    match never.len() {
        0 => {}
        1..=WORDED => parts.push(format!("not always with {}", listed(&never, "and"))),
        count => parts.push(format!("not always in {count} of {} cases", named.len())),
    }
    capital(&format!("after {fault} {}.", parts.join("; ")))
}

/// Returns `1.2 s at the median (95 % interval 0.9–1.4 s) and 3.1 s at worst, of 12`. With few
/// occurrences, the best replaces the median.
fn figures(of: &OutageDistribution) -> String {
    let back = of.figures.get(BACK).cloned().unwrap_or_default();
    let usual = match (back.p50, back.min) {
        (Some(median), _) => {
            let range = back.p50_ci95.map(|ends| ends.map(numbers::seconds));
            let range = range
                .map_or_else(String::new, |[low, high]| format!(" (95 % interval {})", numbers::from_to(&low, &high)));
            Some(format!("{} at the median{range}", numbers::seconds(median)))
        }
        (None, Some(best)) => Some(format!("{} at best", numbers::seconds(best))),
        (None, None) => None,
    };
    let worst = match (of.never_back, back.max) {
        (0, most) => most.map(|most| format!("{} at worst", numbers::seconds(most))),
        (never, _) if never == of.count => Some("longer than the trial".to_owned()),
        (1, _) => Some("once longer than the trial".to_owned()),
        (never, _) => Some(format!("{never} times longer than the trial")),
    };
    let parts: Vec<String> = [usual, worst].into_iter().flatten().collect();
    format!("{}, of {}", parts.join(" and "), numbers::count(of.count))
}
