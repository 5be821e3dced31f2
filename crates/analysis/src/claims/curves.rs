//! The functions of whole curves that a claim may name: `knee(a, path)`, `crossing(a, b, path)`, `peak(a)`. It must not know how they
//! are found.

use std::collections::BTreeMap;

use experiment::plan::Range;
use record::results::{Holds, Trial};
use serde_json::Value;

use super::call;
use crate::scaling::{Estimate, VariantCurve, curves, knee, overtakes, peak};
use crate::stats::curve::Curve;
use crate::stats::order::{largest, median};

/// What a function comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Found {
    /// Its value; of several curves, because other paths are swept too, the median. Null where one of them has none.
    pub value: Option<f64>,
    /// From the lowest to the highest end of their intervals, where they have ends.
    pub range: Option<[f64; 2]>,
    /// Why there is no value, or an interval has no end.
    pub note: String,
    /// Between what each lies; an end may be infinite.
    spans: Vec<[f64; 2]>,
}

/// The value of a function of curves; `None` if the metric is something else.
pub(super) fn of_curves(metric: &str, trials: &[&Trial]) -> Option<Found> {
    let (function, arguments) = call(metric)?;
    match (function, arguments.as_slice()) {
        ("knee", [variant, over]) => Some(knees(variant, over, trials)),
        ("crossing", [a, b, over]) => Some(crossings([a, b], over, trials)),
        ("peak", [variant]) => Some(peaks(variant, trials)),
        _ => None,
    }
}

impl Found {
    /// Whether it is in range: `yes` if all that it may be is, `no` if nothing of it is.
    pub(super) fn holds(&self, range: &Range) -> Holds {
        let inside = |[low, high]: &[f64; 2]| range.holds(*low) && range.holds(*high);
        if self.spans.is_empty() {
            Holds::NotMeasured
        } else if self.spans.iter().all(inside) {
            Holds::Yes
        } else if self.spans.iter().any(|span| meets(range, *span)) {
            Holds::NotShown
        } else {
            Holds::No
        }
    }

    /// Of estimates, each with the loads that its curves reach from and to, and with what to say of a missing value.
    fn of(estimates: Vec<(Estimate, [f64; 2])>, note: impl Fn(f64, [f64; 2]) -> String) -> Self {
        let values: Vec<f64> = estimates.iter().map(|(found, _)| found.value).collect();
        let ends = || estimates.iter().flat_map(|(found, _)| found.ci95.into_iter().flatten());
        let spans = estimates.iter().map(|(found, reach)| span(found, *reach)).collect();
        let low = largest(ends().map(|end| -end)).map(|end| -end);
        let range = low.zip(largest(ends())).map(|(low, high)| [low, high]);
        let notes: Vec<String> = estimates
            .iter()
            .filter_map(|(found, reach)| {
                let ends = found.ci95.into_iter().flatten();
                let open = std::iter::once(found.value).chain(ends).find(|value| value.is_infinite())?;
                let word = if found.value.is_infinite() { "" } else { "perhaps " };
                Some(format!("{word}{}", note(open, *reach)))
            })
            .collect();
        Self {
            value: median(&values).filter(|_| values.iter().all(|value| value.is_finite())),
            range: range.filter(|range| range.iter().all(|end| end.is_finite())),
            note: notes.first().cloned().unwrap_or_default(),
            spans,
        }
    }
}

/// Between what an estimate lies. What is infinite was not met within the loads of the sweep, so it lies beyond them.
fn span(found: &Estimate, [lowest, highest]: [f64; 2]) -> [f64; 2] {
    let [low, high] = found.ci95.unwrap_or([found.value; 2]);
    let low = if low == f64::INFINITY { highest } else { low.max(0.0) };
    let high = if high == f64::NEG_INFINITY { lowest } else { high };
    [low, high]
}

/// Whether anything of a span is in range.
fn meets(range: &Range, [low, high]: [f64; 2]) -> bool {
    let above = range.above.is_none_or(|bound| high > bound) && range.at_least.is_none_or(|bound| high >= bound);
    let below = range.below.is_none_or(|bound| low < bound) && range.at_most.is_none_or(|bound| low <= bound);
    above && below && range.equals.is_none_or(|wanted| (low..=high).contains(&wanted))
}

fn of_variant(variant: &str, over: &str, trials: &[&Trial]) -> Vec<VariantCurve> {
    curves(trials, over).into_iter().filter(|of| of.variant == variant).collect()
}

fn reach(curve: &Curve) -> Option<[f64; 2]> {
    Some([curve.points.first()?.load, curve.points.last()?.load])
}

fn knees(variant: &str, over: &str, trials: &[&Trial]) -> Found {
    let curves = of_variant(variant, over, trials);
    let estimates = curves.iter().filter_map(|of| Some((knee(&of.curve)?, reach(&of.curve)?)));
    Found::of(estimates.collect(), |_, [_, highest]| format!("throughput still rises at {highest}"))
}

fn crossings([a, b]: [&str; 2], over: &str, trials: &[&Trial]) -> Found {
    let others = of_variant(b, over, trials);
    let estimate = |of: VariantCurve| {
        let other = others.iter().find(|other| other.point == of.point)?;
        let ([from, to], [other_from, other_to]) = (reach(&of.curve)?, reach(&other.curve)?);
        Some((overtakes(&of.curve, &other.curve)?, [from.max(other_from), to.min(other_to)]))
    };
    let estimates = of_variant(a, over, trials).into_iter().filter_map(estimate);
    Found::of(estimates.collect(), |value, [lowest, highest]| match value > 0.0 {
        true => format!("{a} is not ahead at {highest}"),
        false => format!("{a} is ahead from {lowest} on"),
    })
}

/// The best point of all that a variant has, whatever is swept.
fn peaks(variant: &str, trials: &[&Trial]) -> Found {
    let mut points: Vec<&BTreeMap<String, Value>> = Vec::new();
    let mut measured = Vec::new();
    for trial in trials.iter().filter(|trial| trial.variant.as_deref() == Some(variant)) {
        let Some(rate) = trial.throughput.operations_per_s else { continue };
        let place = points.iter().position(|point| **point == trial.point).unwrap_or(points.len());
        if place == points.len() {
            points.push(&trial.point);
        }
        measured.push((place as f64, rate));
    }
    let found = peak(&Curve::of(&measured)).map(|found| (found, [0.0, 0.0]));
    Found::of(found.into_iter().collect(), |_, _| String::new())
}
