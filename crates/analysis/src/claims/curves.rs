//! The functions of whole curves that a claim may name: `knee(a, path)`, `crossing(a, b, path)`, `peak(a)`, `flat_until(a, path)`,
//! `retained(metric, a, path, value)`, and the ratios of two variants' knees, peaks and flat stretches. It must not know how they
//! are found.

use std::collections::BTreeMap;

use record::results::Trial;
use serde_json::Value;

use super::found::{Found, Part};
use crate::metrics::metric;
use crate::scaling::{Estimate, VariantCurve, curves, curves_of, knee, overtakes, peak, peak_ratio};
use crate::stats::curve::{Curve, Mean, interval, intervals};
use crate::stats::flat::flat_until;
use crate::stats::knee;

/// A figure of a curve's means, with what was decided once for all curves drawn from it.
type Reading = Box<dyn Fn(&[Mean]) -> Option<f64>>;

/// The curves of a variant; without one, of trials that have none.
pub(super) fn of_variant(variant: Option<&str>, mut curves: Vec<VariantCurve>) -> Vec<VariantCurve> {
    curves.retain(|of| of.variant == variant.unwrap_or_default());
    curves
}

/// The curves of two variants, those of one point beside each other.
pub(super) fn couples([a, b]: [&str; 2], curves: Vec<VariantCurve>) -> Vec<(Curve, Curve)> {
    let (a, others): (Vec<_>, Vec<_>) =
        curves.into_iter().filter(|of| of.variant == a || of.variant == b).partition(|of| of.variant == a);
    let couple = |of: VariantCurve| {
        let other = others.iter().find(|other| other.point == of.point)?;
        Some((of.curve, other.curve.clone()))
    };
    a.into_iter().filter_map(couple).collect()
}

fn reach(curve: &Curve) -> Option<[f64; 2]> {
    Some([curve.points.first()?.load, curve.points.last()?.load])
}

/// Where the curve bends.
pub(super) fn knees(variant: Option<&str>, over: &str, trials: &[&Trial]) -> Found {
    let part = |of: VariantCurve| {
        let reach = reach(&of.curve)?;
        let rises = |_| format!("throughput still rises at {}", reach[1]);
        Some(Part::of_load(&knee(&of.curve)?, reach, &[&of.curve], rises))
    };
    Found::of(of_variant(variant, curves(trials, over)).into_iter().filter_map(part))
}

/// The load from which `a` is ahead of `b` for good.
pub(super) fn crossings([a, b]: [&str; 2], over: &str, trials: &[&Trial]) -> Found {
    let part = |(of, other): (Curve, Curve)| {
        let ([from, to], [other_from, other_to]) = (reach(&of)?, reach(&other)?);
        let [lowest, highest] = [from.max(other_from), to.min(other_to)];
        let beyond = |value: f64| match value > 0.0 {
            true => format!("{a} is not ahead at {highest}"),
            false => format!("{a} is ahead from {lowest} on"),
        };
        Some(Part::of_load(&overtakes(&of, &other)?, [lowest, highest], &[&of, &other], beyond))
    };
    Found::of(couples([a, b], curves(trials, over)).into_iter().filter_map(part))
}

/// The best point of all that a variant has, whatever is swept.
pub(super) fn peaks(variant: Option<&str>, trials: &[&Trial]) -> Found {
    let curve = all_points(variant, trials);
    Found::of(peak(&curve).map(|found| Part::of_curves(found.value, found.ci95, &[&curve])))
}

/// The best point of `a` over that of `b`.
pub(super) fn peak_ratios([a, b]: [&str; 2], trials: &[&Trial]) -> Found {
    let (a, b) = (all_points(Some(a), trials), all_points(Some(b), trials));
    Found::of(peak_ratio(&a, &b).map(|found| Part::of_curves(found.value, found.ci95, &[&a, &b])))
}

/// Every point of a variant as if they were loads, in the order of the trials.
fn all_points(variant: Option<&str>, trials: &[&Trial]) -> Curve {
    let mut points: Vec<&BTreeMap<String, Value>> = Vec::new();
    let mut measured = Vec::new();
    for trial in trials.iter().filter(|trial| trial.variant.as_deref() == variant) {
        let Some(rate) = trial.throughput.operations_per_s else { continue };
        let place = points.iter().position(|point| **point == trial.point).unwrap_or(points.len());
        if place == points.len() {
            points.push(&trial.point);
        }
        measured.push((place as f64, rate));
    }
    Curve::of(&measured)
}

/// The highest load at which each unit of it still gets four fifths of what it gets at the lightest.
pub(super) fn flats(variant: Option<&str>, over: &str, trials: &[&Trial]) -> Found {
    let part = |of: VariantCurve| {
        let reach = reach(&of.curve)?;
        let value = flat_until(&of.curve.means())?;
        let found = Estimate { value, ci95: interval(&[&of.curve], |drawn| flat_until(&drawn[0])) };
        let flat = |_| format!("still as much for each at {}", reach[1]);
        Some(Part::of_load(&found, reach, &[&of.curve], flat))
    };
    Found::of(of_variant(variant, cycles(trials, over)).into_iter().filter_map(part))
}

/// Curves of full cycles, as an agent counts them; of operations where cycles were not counted.
fn cycles(trials: &[&Trial], over: &str) -> Vec<VariantCurve> {
    let counted = trials.iter().all(|trial| trial.throughput.cycles_per_s.is_some());
    match counted {
        true => curves_of(trials, over, |trial| trial.throughput.cycles_per_s),
        false => curves(trials, over),
    }
}

/// The knee of `a` over that of `b`.
pub(super) fn knee_ratio(names: [&str; 2], over: &str, trials: &[&Trial]) -> Found {
    let reading = |curve: &Curve| -> Option<Reading> {
        knee(curve)?;
        // As for a single knee, the bend is decided once.
        let bend = knee::Bend::of(&curve.means(), curve.spread());
        Some(Box::new(move |means| bend.as_ref().map_or(Some(f64::INFINITY), |bend| bend.knee(means))))
    };
    let beyond = |name: &str, highest: f64| format!("throughput of {name} still rises at {highest}");
    ratios(names, curves(trials, over), reading, beyond)
}

/// The load up to which the units of `a` get as much as at the lightest, over that of `b`.
pub(super) fn flat_ratio(names: [&str; 2], over: &str, trials: &[&Trial]) -> Found {
    let reading = |_: &Curve| -> Option<Reading> { Some(Box::new(flat_until)) };
    let beyond = |name: &str, highest: f64| format!("{name} still has as much for each at {highest}");
    ratios(names, cycles(trials, over), reading, beyond)
}

/// The ratio of a load of `a` to that of `b`, each of which may lie beyond its sweep.
fn ratios(
    names: [&str; 2],
    curves: Vec<VariantCurve>,
    reading: impl Fn(&Curve) -> Option<Reading>,
    beyond: impl Fn(&str, f64) -> String,
) -> Found {
    let part = |(a, b): (Curve, Curve)| {
        let readings = [reading(&a)?, reading(&b)?];
        let highest = [reach(&a)?[1], reach(&b)?[1]];
        let loads = |means: &[Vec<Mean>]| Some([readings[0](&means[0])?, readings[1](&means[1])?]);
        let found = loads(&[a.means(), b.means()])?;
        let [low, high] = bounds(found, highest);
        // The low end of what it is at least, the high end of what it is at most.
        let ends = intervals(&[&a, &b], |means| loads(means).map(|found| bounds(found, highest)));
        let ci95 = ends.map(|[least, most]| [least[0], most[1]]);
        let open = (0..2).find(|&side| found[side].is_infinite());
        let known = low == high;
        let mut part = Part::of_curves(low, ci95.filter(|_| known), &[&a, &b]);
        match open {
            Some(side) => part.note = beyond(names[side], highest[side]),
            None if ci95.is_some_and(|[_, high]| high.is_infinite()) => {
                part.note = format!("perhaps {}", beyond(names[0], highest[0]));
            }
            None => {}
        }
        Some(Part { value: part.value.filter(|_| known), span: ci95.unwrap_or([low, high]), ..part })
    };
    Found::of(couples(names, curves).into_iter().filter_map(part))
}

/// Between what the ratio of two loads lies; an infinite load is one beyond the highest of its sweep.
fn bounds([a, b]: [f64; 2], [highest_a, highest_b]: [f64; 2]) -> [f64; 2] {
    let low = if b.is_infinite() { 0.0 } else { a.min(highest_a) / b };
    let high = if a.is_infinite() { f64::INFINITY } else { a / b.min(highest_b) };
    if a.is_finite() && b.is_finite() { [a / b; 2] } else { [low, high] }
}

/// What a metric has at one load, as a share of the best load's.
pub(super) fn retained(path: &str, variant: Option<&str>, [of, at]: [&str; 2], trials: &[&Trial]) -> Found {
    let Ok(load) = at.parse::<f64>() else { return Found::default() };
    let least = |trial: &Trial| metric(trial, path).into_iter().min_by(f64::total_cmp);
    let part = |curve: VariantCurve| {
        let curve = curve.curve;
        let means = curve.means();
        let best = knee::peak(&means)?;
        let place = means.iter().position(|mean| mean.load == load)?;
        let share = |means: &[Mean]| over(means.get(place)?.rate, means.get(best)?.rate);
        let ci95 = interval(&[&curve], |drawn| share(&drawn[0]));
        Some(Part::of_curves(share(&means)?, ci95, &[&curve]))
    };
    Found::of(of_variant(variant, curves_of(trials, of, least)).into_iter().filter_map(part))
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

#[cfg(test)]
mod tests;
