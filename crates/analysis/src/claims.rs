//! Claims and requirements, checked against the trials. This includes the functions over trials
//! that they may use (functions of whole curves are in `curves`): `ratio(metric, a, b)`, the metric
//! in variant `a` divided by that in `b`, trial by trial; `onset(metric, a, path)`, the first value
//! of a swept path at which a count is above 0; and `safe_load(a, condition)` of a search. The
//! module also finds requested quantiles for which there are too few operations.

mod curves;

use std::borrow::Cow;
use std::collections::BTreeMap;

use experiment::duration;
use experiment::plan::{
    self, MetricExpression, MetricFunction, MetricPath, MetricRange, MetricTerm, Plan, percentile, samples_for,
};
use experiment::quantity::Quantity;
use record::events::Ending;
use record::results::{Claim, Holds, Requirement, SafeLoad, Trial, Trust, Verdict};
use record::rows::MetricKind;
use serde_json::Value;
use text::numbers::by_metric;

use crate::cost;
use crate::metrics::metric;
use crate::scaling::Estimate;
use crate::stats::curve::LoadCurve;
use crate::stats::moderated::{Variance, moderated};
use crate::stats::quantiles::{largest, mean, median};
use crate::stats::significance::{ROUNDING, StandardError, moments, of_error, paired};
use crate::verdict::figures::class_of;

/// Checks a claim of a source against this run. Trials whose verdict voids the claim's class of
/// figures are used only if the claim allows it. Trials that are void for other figures are used.
pub(crate) fn claim(claim: &plan::Claim, trials: &[Trial], safe_loads: &[SafeLoad]) -> Claim {
    let class = class_of(&claim.metric);
    let is_void = |trial: &Trial| trial.verdict.of(class) == Trust::Void;
    let void = claim.on_void && matching(&claim.filter, trials).any(is_void);
    let trials: Cow<'_, [Trial]> = if trials.iter().all(Trial::counts) {
        trials.into()
    } else {
        trials.iter().map(|trial| if void || !is_void(trial) { as_counting(trial) } else { trial.clone() }).collect()
    };
    let matching: Vec<&Trial> = matching(&claim.filter, &trials).collect();
    let (value, range, holds, note, read) =
        match of_function(&claim.metric, &claim.range, (&matching, &trials), safe_loads) {
            Some(found) => (found.value, found.range, found.holds(&claim.range), found.note, 0),
            None => {
                let usable = usable(&matching);
                let measured = measured(&claim.metric, &claim.range, &usable);
                let values: Vec<f64> = measured.iter().copied().flatten().collect();
                let note = if values.is_empty() { unmeasured(&claim.metric, &usable) } else { None };
                let held = held(&measured, &claim.range);
                (median(&values), extremes(&values), held, note.unwrap_or_default(), values.len() as u64)
            }
        };
    Claim {
        says: claim.says.clone(),
        source: claim.source.clone(),
        metric: claim.metric.to_string(),
        value,
        range,
        note,
        holds,
        trials: read,
        on_void: void,
    }
}

/// Returns the smallest and the largest value.
fn extremes(values: &[f64]) -> Option<[f64; 2]> {
    let smallest = values.iter().copied().min_by(f64::total_cmp);
    smallest.zip(largest(values.iter().copied())).map(|(low, high)| [low, high])
}

/// Returns the trial as if it were not void.
fn as_counting(trial: &Trial) -> Trial {
    let verdict = Verdict { is: trial.verdict.is.min(Trust::Suspect), ..trial.verdict.clone() };
    Trial { verdict, ..trial.clone() }
}

/// Returns the reason why no trial has a metric, if it is known.
fn unmeasured(asked: &MetricExpression, trials: &[&Trial]) -> Option<String> {
    cost::unknown(asked, trials).or_else(|| never_reported(asked, trials))
}

/// Returns the reason if no trial has the target's metric, or if the metric is a gauge, which has
/// no rate.
fn never_reported(asked: &MetricExpression, trials: &[&Trial]) -> Option<String> {
    let path = asked.measured()?;
    let name = path.0.get(1).filter(|_| path.0[0] == "metrics")?;
    let mut reported = trials.iter().filter_map(|trial| trial.metrics.get(name));
    let Some(first) = reported.next() else {
        return (!trials.is_empty()).then(|| format!("no host reported `{name}`"));
    };
    let figure = path.0.last().filter(|figure| ["increase", "per_s"].contains(&figure.as_str()))?;
    let is_gauge = std::iter::once(first).chain(reported).all(|reported| reported.kind == MetricKind::Gauge);
    is_gauge.then(|| format!("`{name}` is a gauge, which has no `{figure}`"))
}

/// Names the trials without the figure, if there are any: a value in range alone does not show that
/// the requirement holds.
fn lacking(trials: &[&Trial], measured: &[Option<f64>]) -> Option<String> {
    let without = trials.iter().zip(measured).filter(|(_, value)| value.is_none());
    let without: Vec<&Trial> = without.map(|(trial, _)| *trial).collect();
    let (first, others) = without.split_first()?;
    let how = match first.ended {
        Some(Ending::Interrupted) => "was interrupted",
        Some(Ending::Failed) => "failed",
        None => "has no end",
        Some(Ending::Done) => "does not have the figure",
    };
    let more = match others.len() {
        0 => String::new(),
        more => format!("; {more} more of {} trials lack it", trials.len()),
    };
    Some(format!("trial {} {how}{more}", first.id))
}

/// Returns `Yes` if every trial has a value in range, and `No` if every trial has a value out of
/// range.
fn held(measured: &[Option<f64>], range: &MetricRange) -> Holds {
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

/// Checks a gate: every matching trial must have the metric, in range.
pub(crate) fn requirement(requirement: &plan::Requirement, trials: &[Trial], safe_loads: &[SafeLoad]) -> Requirement {
    let matching: Vec<&Trial> = matching(&requirement.filter, trials).collect();
    let (metric, range) = (&requirement.metric, &requirement.range);
    let refused = || matching.iter().find_map(|trial| refusal(trial, metric));
    let (value, holds, trials, unmeasured) = match of_function(metric, range, (&matching, trials), safe_loads) {
        Some(found) => {
            let unmeasured = if found.value.is_none() { refused() } else { None };
            (found.value, found.holds(range) == Holds::Yes, 0, unmeasured)
        }
        None => {
            let measured = measured(metric, range, &matching);
            let values: Vec<f64> = measured.iter().copied().flatten().collect();
            let is_measured = !measured.is_empty() && values.len() == measured.len();
            let why = || refused().or_else(|| unmeasured(metric, &matching)).or_else(|| lacking(&matching, &measured));
            let holds = is_measured && values.iter().all(|&value| range.holds(value));
            (worst(&values, range), holds, values.len() as u64, if is_measured { None } else { why() })
        }
    };
    Requirement { metric: metric.to_string(), asked: asked(metric, range), value, holds, trials, unmeasured }
}

/// Returns the trials that match a `where` filter.
fn matching<'a>(filter: &'a BTreeMap<String, Value>, trials: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
    trials.iter().filter(|trial| matches(filter, trial))
}

/// Whether the trial matches a `where` filter.
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

/// Returns the metric's value in each trial.
fn measured(asked: &MetricExpression, range: &MetricRange, trials: &[&Trial]) -> Vec<Option<f64>> {
    trials.iter().map(|trial| worst(&metric(trial, asked.path()?), range)).collect()
}

/// Returns the trials that are not void.
fn usable<'a>(trials: &[&'a Trial]) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| trial.counts()).collect()
}

/// Returns the value of a function over the matching trials, or of a search. Returns `None` if the
/// metric is a path. A function names no variant if the plan has none. `all` also has trials that
/// do not match, which help to estimate the error.
fn of_function(
    metric: &MetricExpression,
    range: &MetricRange,
    (matching, all): (&[&Trial], &[Trial]),
    safe_loads: &[SafeLoad],
) -> Option<FunctionValue> {
    let trials = &usable(matching);
    let function = match metric.term() {
        MetricTerm::Path(_) => return None,
        MetricTerm::Unknown => return Some(FunctionValue::default()),
        MetricTerm::Function(function) => function,
    };
    Some(match function {
        MetricFunction::Crossing(names, over) => curves::crossings(strs(names), over, trials),
        MetricFunction::FlatRatio(names, over) => curves::flat_ratio(strs(names), over, trials),
        MetricFunction::FlatUntil(a, over) => curves::flats(a.as_deref(), over, trials),
        MetricFunction::Knee(a, over) => curves::knees(a.as_deref(), over, trials),
        MetricFunction::KneeRatio(names, over) => curves::knee_ratio(strs(names), over, trials),
        MetricFunction::LevelFrom(a, over) => curves::levels(a.as_deref(), over, trials),
        MetricFunction::Onset(path, a, over) => onset(path, a.as_deref(), over, matching),
        MetricFunction::Peak(a) => curves::peaks(a.as_deref(), trials),
        MetricFunction::PeakRatio(names) => curves::peak_ratios(strs(names), trials),
        MetricFunction::Ratio(path, names) => ratio(path, strs(names), range, (trials, all)),
        MetricFunction::Retained(path, a, over, at) => curves::retained(path, a.as_deref(), over, *at, trials),
        MetricFunction::SafeLoad(names) => safe_load(names, safe_loads),
        MetricFunction::Usl(parameter, a, over) => curves::law(*parameter, a.as_deref(), over, trials),
        MetricFunction::UslDifference(parameter, names, over) => {
            curves::difference(*parameter, strs(names), over, trials)
        }
    })
}

fn strs(names: &[String; 2]) -> [&str; 2] {
    names.each_ref().map(String::as_str)
}

/// Returns the value that is furthest out of range or, if all are in range, nearest to a bound.
pub(crate) fn worst(values: &[f64], range: &MetricRange) -> Option<f64> {
    values.iter().copied().max_by(|&a, &b| excess(a, range).total_cmp(&excess(b, range)))
}

/// Returns how far a value is out of range; negative within it.
fn excess(value: f64, range: &MetricRange) -> f64 {
    let over = [range.below, range.at_most].into_iter().flatten().map(|bound| value - bound);
    let under = [range.above, range.at_least].into_iter().flatten().map(|bound| bound - value);
    let off = range.equals.map(|wanted| (value - wanted).abs());
    largest(over.chain(under).chain(off)).unwrap_or(value)
}

/// Returns a range in words: `at least 5 ms and at most 20 ms`.
pub(crate) fn asked(metric: &str, range: &MetricRange) -> String {
    let words: Vec<String> =
        range.bounds().map(|(word, bound)| format!("{word} {}", by_metric(metric, bound))).collect();
    words.join(" and ")
}

/// A function at one point of the other swept paths.
#[derive(Debug, Clone, Default, PartialEq)]
struct FunctionPart {
    /// Value; `None` if it lies beyond the sweep, so that only its bounds are known.
    pub value: Option<f64>,
    /// 95 % interval, if there were enough repeats.
    pub ci95: Option<[f64; 2]>,
    /// Bounds of the value; they may be infinite.
    pub span: [f64; 2],
    /// Reason why there is no value, no interval, or an interval without an end; empty if there is
    /// nothing to say.
    pub note: String,
}

/// Result of a function over trials.
#[derive(Debug, Clone, Default, PartialEq)]
struct FunctionValue {
    /// Value. If other paths are swept too, the median over their points; `None` if a point has no
    /// value.
    pub value: Option<f64>,
    /// Range from the lowest to the highest end of the intervals, if both ends are finite.
    pub range: Option<[f64; 2]>,
    /// Reason why there is no value, or why an interval has no end.
    pub note: String,
    /// Bounds at each point; they may be infinite.
    spans: Vec<[f64; 2]>,
    /// Whether some trials lack the figure, so that the others are not enough to judge.
    lacking: bool,
}

impl FunctionPart {
    /// Builds the part from a figure with its interval.
    pub fn of(value: f64, ci95: Option<[f64; 2]>) -> Self {
        Self { value: Some(value), ci95, span: ci95.unwrap_or([value; 2]), note: String::new() }
    }

    /// Builds the part from a figure of `curves`. If there is no interval, the note gives the
    /// reason.
    pub fn of_curves(value: f64, ci95: Option<[f64; 2]>, curves: &[&LoadCurve]) -> Self {
        let note = if ci95.is_none() { no_interval(curves) } else { String::new() };
        Self { note, ..Self::of(value, ci95) }
    }

    /// Builds the part from a load at which something happens. An infinite load lies outside of the
    /// sweep, which goes from `lowest` to `highest`; `beyond` returns the text for this case.
    pub fn of_load(
        found: &Estimate,
        [lowest, highest]: [f64; 2],
        curves: &[&LoadCurve],
        beyond: impl Fn(f64) -> String,
    ) -> Self {
        let [low, high] = found.ci95.unwrap_or([found.value; 2]);
        let ends = found.ci95.into_iter().flatten();
        let open = std::iter::once(found.value).chain(ends).find(|value| value.is_infinite());
        let perhaps = if found.value.is_infinite() { "" } else { "perhaps " };
        let note = match open {
            Some(open) => format!("{perhaps}{}", beyond(open)),
            None if found.ci95.is_none() => no_interval(curves),
            None => String::new(),
        };
        let low_end = if low == f64::INFINITY { highest } else { low.max(0.0) };
        let high_end = if high == f64::NEG_INFINITY { lowest } else { high };
        Self {
            value: Some(found.value).filter(|value| value.is_finite()),
            ci95: found.ci95,
            span: [low_end, high_end],
            note,
        }
    }
}

/// Returns the reason why curves have no interval.
fn no_interval(curves: &[&LoadCurve]) -> String {
    let once = curves.iter().flat_map(|curve| &curve.points).all(|point| point.rates.len() == 1);
    if once { "one trial each: no interval".to_owned() } else { "too few repeats: no interval".to_owned() }
}

impl FunctionValue {
    /// Combines the parts, in the order of the trials.
    pub fn of(parts: impl IntoIterator<Item = FunctionPart>) -> Self {
        let parts: Vec<FunctionPart> = parts.into_iter().collect();
        let values: Vec<f64> = parts.iter().filter_map(|part| part.value).collect();
        let ends: Vec<f64> = parts.iter().flat_map(|part| part.ci95.into_iter().flatten()).collect();
        Self {
            value: median(&values).filter(|_| values.len() == parts.len()),
            range: extremes(&ends).filter(|range| range.iter().all(|end| end.is_finite())),
            note: parts.iter().map(|part| part.note.clone()).find(|note| !note.is_empty()).unwrap_or_default(),
            spans: parts.iter().map(|part| part.span).collect(),
            lacking: false,
        }
    }

    /// Sets whether some trials lack the figure.
    pub fn lacking(self, lacking: bool) -> Self {
        Self { lacking, ..self }
    }

    /// Sets the note, unless there is one.
    pub fn noted(self, note: &str) -> Self {
        if self.note.is_empty() { Self { note: note.to_owned(), ..self } } else { self }
    }

    /// Whether the result is in range: `yes` if all possible values are, `no` if none is.
    pub fn holds(&self, range: &MetricRange) -> Holds {
        if self.spans.is_empty() {
            Holds::NotMeasured
        } else if self.lacking {
            Holds::NotShown
        } else if self.spans.iter().flatten().all(|end| range.holds(*end)) {
            Holds::Yes
        } else if self.spans.iter().any(|span| meets(range, *span)) {
            Holds::NotShown
        } else {
            Holds::No
        }
    }
}

/// Whether a part of the span is in range.
fn meets(range: &MetricRange, [low, high]: [f64; 2]) -> bool {
    let above = range.above.is_none_or(|bound| high > bound) && range.at_least.is_none_or(|bound| high >= bound);
    let below = range.below.is_none_or(|bound| low < bound) && range.at_most.is_none_or(|bound| low <= bound);
    above && below && range.equals.is_none_or(|wanted| (low..=high).contains(&wanted))
}

/// Share of intervals that may miss the true value.
const MISS: f64 = 0.05;

/// Pairs of trials of two variants at one point: the figure of each trial, if it has one.
struct Pairs<'a> {
    point: &'a BTreeMap<String, Value>,
    values: Vec<[Option<f64>; 2]>,
}

/// Returns the metric in variant `a` divided by that in `b` at each point. Trials of the same
/// repeat form a pair, because they ran next to each other. The result is the geometric mean of the
/// pairs' ratios, with Student's interval of their logarithms. The error is moderated by the errors
/// of all points that have both variants, including points that the claim does not ask for.
fn ratio(
    path: &MetricPath,
    names: [&str; 2],
    range: &MetricRange,
    (trials, all): (&[&Trial], &[Trial]),
) -> FunctionValue {
    let asked = pairs(path, names, range, trials);
    let everywhere = pairs(path, names, range, &usable(&all.iter().collect::<Vec<_>>()));
    let errors = pooled_errors(&everywhere);
    let (mut lacking, mut undefined, mut parts) = (false, false, Vec::new());
    for Pairs { point, values } in &asked {
        let place = everywhere.iter().position(|other| other.point == *point);
        let part = ratio_part(values, place.and_then(|place| errors.get(place).copied().flatten()));
        lacking |= values.iter().any(|both| both.contains(&None));
        undefined |= part.is_none() && !values.iter().all(|both| both.contains(&None));
        parts.extend(part);
    }
    let found = FunctionValue::of(parts).lacking(lacking || undefined);
    if undefined { found.noted(&format!("{} is 0: no ratio", names[1])) } else { found }
}

/// Variance of a point's differences, estimated from several points.
#[derive(Clone, Copy)]
struct PooledError {
    variance: Variance,
    /// Number of points of the sweep that the estimate uses.
    points: usize,
}

/// Returns the variance of the logarithms' differences at each point. It is `None` if a figure is
/// 0, if no pair is complete, or if no second point has a spread.
fn pooled_errors(points: &[Pairs<'_>]) -> Vec<Option<PooledError>> {
    let own = points.iter().map(|point| {
        let differences: Vec<f64> = log_ratios(&point.values)?;
        let (_, value) = moments(&differences).unwrap_or_default();
        let freedom = differences.len().checked_sub(1)? as f64;
        Some(Variance { value: if value.sqrt() > ROUNDING { value } else { 0.0 }, freedom })
    });
    let own: Vec<Option<Variance>> = own.collect();
    let known: Vec<Variance> = own.iter().copied().flatten().collect();
    let helping = known.iter().filter(|variance| variance.freedom > 0.0 && variance.value > 0.0).count();
    let mut moderated = moderated(&known).into_iter().flatten();
    let pooled = own.into_iter().map(|own| {
        let variance = own.and_then(|_| moderated.next())?;
        (variance.value > 0.0).then_some(PooledError { variance, points: helping })
    });
    pooled.collect()
}

/// Returns the logarithm of each complete pair's ratio, or `None` if a figure is 0.
fn log_ratios(values: &[[Option<f64>; 2]]) -> Option<Vec<f64>> {
    let both = values.iter().filter_map(|[a, b]| (*a).zip(*b));
    both.map(|(a, b)| (a > 0.0 && b > 0.0).then(|| (a / b).ln())).collect()
}

fn pairs<'a>(path: &MetricPath, [a, b]: [&str; 2], range: &MetricRange, trials: &[&'a Trial]) -> Vec<Pairs<'a>> {
    let mut found: Vec<Pairs<'a>> = Vec::new();
    let of_b: Vec<&Trial> = trials.iter().filter(|trial| trial.variant.as_deref() == Some(b)).copied().collect();
    for one in trials.iter().filter(|trial| trial.variant.as_deref() == Some(a)) {
        let partner = of_b.iter().find(|other| other.point == one.point && other.repeat == one.repeat);
        let Some(other) = partner else { continue };
        let values = [one, other].map(|trial| worst(&metric(trial, path), range));
        match found.iter_mut().find(|pairs| *pairs.point == one.point) {
            Some(pairs) => pairs.values.push(values),
            None => found.push(Pairs { point: &one.point, values: vec![values] }),
        }
    }
    found
}

/// Returns the ratio at one point, or `None` without a pair or if the second figure is 0.
fn ratio_part(values: &[[Option<f64>; 2]], pooled: Option<PooledError>) -> Option<FunctionPart> {
    let Some(logarithms) = log_ratios(values) else {
        let (a, b): (Vec<f64>, Vec<f64>) = values.iter().filter_map(|[a, b]| (*a).zip(*b)).unzip();
        let below = mean(&b).filter(|below| *below > 0.0)?;
        let note = "a figure is 0, so the ratio has no interval".to_owned();
        return Some(FunctionPart { note, ..FunctionPart::of(mean(&a)? / below, None) });
    };
    let (value, pairs) = (mean(&logarithms)?, logarithms.len() as f64);
    let difference = match pooled {
        Some(PooledError { variance: Variance { value: variance, freedom }, .. }) => {
            Some(of_error(value, StandardError { of_mean: (variance / pairs).sqrt(), freedom, resolution: 0.0 }))
        }
        None => paired(&logarithms.iter().map(|logarithm| (0.0, *logarithm)).collect::<Vec<_>>()),
    };
    let ci95 = difference.and_then(|difference| difference.interval(MISS)).map(|ends| ends.map(f64::exp));
    let note = match (pooled, ci95) {
        (Some(PooledError { variance, points }), Some(_)) => {
            format!("error pooled over {points} points: {:.0} degrees of freedom", variance.freedom)
        }
        (_, Some(_)) => String::new(),
        (_, None) if logarithms.len() == 1 => "one trial each: no interval".to_owned(),
        (_, None) => "the ratio is the same in every pair: no interval".to_owned(),
    };
    Some(FunctionPart { note, ..FunctionPart::of(value.exp(), ci95) })
}

/// Returns the lowest of the safe loads with these names. `names` has the variant, if the plan has
/// variants, and then the condition.
fn safe_load(names: &[String], found: &[SafeLoad]) -> FunctionValue {
    let named = found.iter().filter(|load| {
        let own = load.variant.iter().chain([&load.surviving]);
        names.iter().zip(own).all(|(name, own)| name == own)
    });
    let lowest = named.map(safe_load_part).reduce(|lowest, part| {
        let [first, lowest_first] = [&part, &lowest].map(|part| part.value.unwrap_or(part.span[0]));
        if first < lowest_first { part } else { lowest }
    });
    FunctionValue::of(lowest.filter(|part| part.value.is_some() || part.span[1].is_finite()))
}

/// Converts a safe load. If an end was not found, loads below the lowest or above the highest tried
/// load are possible.
fn safe_load_part(found: &SafeLoad) -> FunctionPart {
    let [low, high] = found.ci95;
    let note = match (low, high) {
        (Some(_), Some(_)) if found.complete => String::new(),
        (None, Some(least)) if found.value.is_none() => format!("not even {least}: {}", found.limited_by),
        _ => found.limited_by.clone(),
    };
    let span = [low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)];
    FunctionPart { value: found.value, ci95: low.zip(high).map(|(low, high)| [low, high]), span, note }
}

/// A value of the swept path.
struct PathValue<'a> {
    value: &'a Value,
    /// The count in each usable trial that has one.
    counts: Vec<f64>,
}

/// The values of the path at one point of the other paths, in the order of the file.
struct Steps<'a> {
    point: BTreeMap<String, Value>,
    steps: Vec<PathValue<'a>>,
}

/// Returns the first value, in the order of the file, at which the count is above 0 in any trial.
/// Void trials are not used. If a value has only void trials, it is unknown whether that value was
/// the first.
fn onset(path: &MetricPath, variant: Option<&str>, over: &str, trials: &[&Trial]) -> FunctionValue {
    let all = steps(path, variant, over, trials);
    let judged: Vec<(FunctionPart, bool)> = all.iter().filter_map(|of| onset_part(&of.steps)).collect();
    let lacking = judged.iter().any(|(_, lacking)| *lacking);
    FunctionValue::of(judged.into_iter().map(|(part, _)| part)).lacking(lacking)
}

fn steps<'a>(path: &MetricPath, variant: Option<&str>, over: &str, trials: &[&'a Trial]) -> Vec<Steps<'a>> {
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
            steps.push(PathValue { value, counts: Vec::new() });
        }
        let usable = trial.counts();
        steps[place].counts.extend(largest(metric(trial, path)).filter(|_| usable));
    }
    all
}

/// Returns the onset, and whether it is in doubt. Returns `None` if no trial has the count.
fn onset_part(steps: &[PathValue]) -> Option<(FunctionPart, bool)> {
    let last = steps.iter().rfind(|step| !step.counts.is_empty())?;
    let begins = steps.iter().position(|step| step.counts.iter().any(|count| *count > 0.0));
    let Some(place) = begins else {
        // The onset may lie beyond the end of the list: above an ascending list, below a descending
        // one.
        let first = steps.first().and_then(|step| number(step.value));
        let span = match (first, number(last.value)) {
            (Some(first), Some(last)) if first > last => [0.0, last],
            (_, Some(last)) => [last, f64::INFINITY],
            (_, None) => [f64::NEG_INFINITY, f64::INFINITY],
        };
        let note = format!("none up to {}", text::of_json(last.value));
        let lacking = steps.iter().any(|step| step.counts.is_empty());
        return Some((FunctionPart { value: None, ci95: None, span, note }, lacking));
    };
    let step = &steps[place];
    let hit = step.counts.iter().filter(|count| **count > 0.0).count();
    let mut note = format!("at {} in {hit} of {} trials", text::of_json(step.value), step.counts.len());
    note.push_str(&match place.checked_sub(1).map(|before| &steps[before]) {
        None => ", the first value".to_owned(),
        Some(before) if before.counts.is_empty() => format!("; {} was not measured", text::of_json(before.value)),
        Some(before) => format!(", none at {}", text::of_json(before.value)),
    });
    let lacking = steps[..place].iter().any(|step| step.counts.is_empty());
    let value = number(step.value);
    let span = value.map_or([f64::NEG_INFINITY, f64::INFINITY], |value| [value; 2]);
    Some((FunctionPart { value, ci95: None, span, note }, lacking))
}

/// Returns the number of a swept value: bits per second for a bit rate, bytes per second for a byte
/// rate, bytes for a size, seconds for a duration. Returns `None` for other texts.
fn number(value: &Value) -> Option<f64> {
    let Some(text) = value.as_str() else { return value.as_f64() };
    let quantities = [Quantity::BitRate, Quantity::ByteRate, Quantity::Size];
    quantities.into_iter().find_map(|of| of.parse(text).ok()).or_else(|| duration::parse_s(text).ok())
}

/// Returns a sentence for each quantile that the plan requests and this trial cannot give.
pub(crate) fn asked_in_vain(plan: &Plan, trial: &Trial) -> Vec<String> {
    // In a search, requirements and claims apply only to trials at the safe load. These trials are
    // not known yet.
    let required = plan.requirements.iter().map(|gate| (&gate.metric, &gate.filter));
    let claimed = plan.claims.iter().map(|claim| (&claim.metric, &claim.filter));
    let asked = required.chain(claimed).filter(|(metric, _)| plan.find.is_none() || metric.path().is_none());
    let searched = plan.find.iter().flat_map(|find| &find.limits).map(|limit| (&limit.metric, &limit.filter));
    let mut refused: Vec<String> = Vec::new();
    for (metric, filter) in asked.chain(searched) {
        if matches(filter, trial) {
            refused.extend(refusal(trial, metric));
        }
    }
    refused.sort();
    refused.dedup();
    refused
}

/// Returns the reason if a metric has no value in this trial because of too few operations. For a
/// function over trials, checks the metric that it uses.
pub(crate) fn refusal(trial: &Trial, asked: &MetricExpression) -> Option<String> {
    let path = asked.measured()?;
    let (name, of) = path.0.split_last()?;
    let needed = samples_for(percentile(name)?);
    let counts = metric(trial, &MetricPath([of, &["count".to_owned()]].concat()));
    let fewest = counts.into_iter().min_by(f64::total_cmp)?;
    let is_refused = fewest < needed as f64 && metric(trial, path).is_empty();
    is_refused.then(|| format!("`{path}` needs at least {needed} operations (got {fewest:.0})"))
}

#[cfg(test)]
mod tests;
