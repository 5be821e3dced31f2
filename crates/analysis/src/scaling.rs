//! Throughput over swept loads: for each variant its curve with peak, knee and scalability law, and for each two where one overtakes
//! the other. The methods are in `stats`; here trials become curves. A void trial is on no curve, unless all are: then the run is void,
//! says so first, and shows what it has.

use std::collections::BTreeMap;

use experiment::plan::is_offered;
use record::results::{Crossing, Lead, Scaling, ScalingPoint, Trial, Usl};
use serde_json::Value;

use crate::groups::usable;
use crate::stats::crossing::crossing;
use crate::stats::curve::{Curve, Mean, interval, intervals};
use crate::stats::student::quantile_of_t;
use crate::stats::{knee, usl};

/// The curve of a variant at one point of the other swept paths.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariantCurve {
    /// The variant; empty without variants.
    pub variant: String,
    /// Values of the other swept paths.
    pub point: BTreeMap<String, Value>,
    /// Its curve.
    pub curve: Curve,
}

/// A figure and its interval; an infinite one lies outside of the sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its 95 % interval, if there were repeats enough.
    pub ci95: Option<[f64; 2]>,
}

/// The scaling of each variant over each swept path that is a load.
pub(crate) fn scaling(trials: &[Trial], swept: &[String]) -> Vec<Scaling> {
    let of_path = |over: &String| -> Vec<Scaling> {
        curves(&usable(trials), over).into_iter().map(|curve| described(curve, over)).collect()
    };
    swept.iter().flat_map(of_path).collect()
}

/// Where variants overtake each other, over each swept path that is a load.
pub(crate) fn crossings(trials: &[Trial], swept: &[String]) -> Vec<Crossing> {
    let mut found = Vec::new();
    for over in swept {
        let curves = curves(&usable(trials), over);
        for (index, one) in curves.iter().enumerate() {
            let others = curves[index + 1..].iter().filter(|other| other.point == one.point);
            found.extend(others.filter_map(|other| overtaking(one, other, over)));
        }
    }
    found
}

/// Whether a law of how those that make the load hinder each other is fitted over this path.
pub(crate) fn has_law(over: &str) -> bool {
    !is_offered(over)
}

/// The curves over a path, in the order of the trials. None over a path that is not a positive number in each trial that has it, or
/// that has one value only.
pub(crate) fn curves(trials: &[&Trial], over: &str) -> Vec<VariantCurve> {
    curves_of(trials, over, |trial| trial.throughput.operations_per_s)
}

/// The same of another figure than `ok` operations per second.
pub(crate) fn curves_of(trials: &[&Trial], over: &str, figure: impl Fn(&Trial) -> Option<f64>) -> Vec<VariantCurve> {
    let mut measured: Vec<(VariantCurve, Vec<(f64, f64)>)> = Vec::new();
    for trial in trials {
        let Some(value) = trial.point.get(over) else { continue };
        let Some(load) = value.as_f64().filter(|load| *load > 0.0) else { return Vec::new() };
        let Some(rate) = figure(trial) else { continue };
        let mut point = trial.point.clone();
        point.remove(over);
        let variant = trial.variant.clone().unwrap_or_default();
        match measured.iter_mut().find(|(of, _)| of.variant == variant && of.point == point) {
            Some((_, points)) => points.push((load, rate)),
            None => measured.push((VariantCurve { variant, point, curve: Curve::default() }, vec![(load, rate)])),
        }
    }
    let curves = measured.into_iter().map(|(of, points)| VariantCurve { curve: Curve::of(&points), ..of });
    curves.filter(|of| of.curve.points.len() > 1).collect()
}

fn described(of: VariantCurve, over: &str) -> Scaling {
    let curve = &of.curve;
    let means = curve.means();
    let (peak, knee) = (peak(curve), knee(curve).filter(|knee| knee.value.is_finite()));
    Scaling {
        variant: of.variant,
        over: over.to_owned(),
        at: of.point,
        points: curve
            .points
            .iter()
            .map(|point| ScalingPoint { load: point.load, per_s: point.rates.clone() })
            .collect(),
        knee: knee.map(|knee| knee.value),
        knee_ci95: knee.and_then(|knee| knee.ci95),
        peak_per_s: peak.map(|peak| peak.value),
        peak_ci95: peak.and_then(|peak| peak.ci95),
        peak_at: knee::peak(&means).map(|best| means[best].load),
        usl: if has_law(over) { law(curve) } else { None },
    }
}

/// The best point's mean. Its interval is Student's, with the spread of all loads together.
pub(crate) fn peak(curve: &Curve) -> Option<Estimate> {
    let means = curve.means();
    let best = means[knee::peak(&means)?];
    let half = curve.spread().and_then(|spread| {
        Some(quantile_of_t(0.975, spread.degrees as f64)? * spread.relative * best.rate / (best.repeats as f64).sqrt())
    });
    Some(Estimate { value: best.rate, ci95: half.map(|half| [(best.rate - half).max(0.0), best.rate + half]) })
}

/// The best point of `a` over that of `b`. Which points are the best is decided once: of curves drawn at random the highest would be
/// too high by chance.
pub(crate) fn peak_ratio(a: &Curve, b: &Curve) -> Option<Estimate> {
    let (means_a, means_b) = (a.means(), b.means());
    let (best_a, best_b) = (knee::peak(&means_a)?, knee::peak(&means_b)?);
    let ratio = |means: &[Vec<Mean>]| {
        let below = means[1].get(best_b)?.rate;
        (below > 0.0).then_some(means[0].get(best_a)?.rate / below)
    };
    Some(Estimate { value: ratio(&[means_a, means_b])?, ci95: interval(&[a, b], ratio) })
}

/// The knee; infinite where throughput still rises at the highest load. `None` with too few loads, or without throughput.
pub(crate) fn knee(curve: &Curve) -> Option<Estimate> {
    let means = curve.means();
    if means.len() < knee::LEAST_LOADS || knee::peak(&means).is_none() {
        return None;
    }
    // Which loads are light and which level is decided once: curves drawn at random would decide by chance.
    let Some(bend) = knee::Bend::of(&means, curve.spread()) else {
        return Some(Estimate { value: f64::INFINITY, ci95: None });
    };
    Some(Estimate { value: bend.knee(&means)?, ci95: interval(&[curve], |drawn| bend.knee(&drawn[0])) })
}

fn law(curve: &Curve) -> Option<Usl> {
    let law = usl::fitted(&curve.means())?;
    let parameters = |drawn: &[Vec<Mean>]| usl::fitted(&drawn[0]).map(|law| [law.lambda, law.sigma, law.kappa]);
    Some(Usl {
        lambda: law.lambda,
        sigma: law.sigma,
        kappa: law.kappa,
        r2: law.r2(curve)?,
        ci95: intervals(&[curve], parameters),
        peak_at: law.peak_at(),
    })
}

/// The load from which `a` is ahead of `b` for good: minus infinity if at every load, infinity if not at the highest. `None` with
/// fewer than two loads that both have.
pub(crate) fn overtakes(a: &Curve, b: &Curve) -> Option<Estimate> {
    let value = crossing(&a.means(), &b.means())?;
    Some(Estimate { value, ci95: interval(&[a, b], |drawn| crossing(&drawn[0], &drawn[1])) })
}

/// The same in the order in which it is an answer: `a` is ahead at the highest load.
fn overtaking(one: &VariantCurve, other: &VariantCurve, over: &str) -> Option<Crossing> {
    let (mut a, mut b, mut found) = (one, other, overtakes(&one.curve, &other.curve)?);
    if found.value == f64::INFINITY {
        (a, b, found) = (other, one, overtakes(&other.curve, &one.curve)?);
    }
    let ahead_at_last = found.ci95.map_or(found.value, |[_, high]| high) < f64::INFINITY;
    let inside = |load: f64| load.is_finite().then_some(load);
    let peaks = peak_ratio(&a.curve, &b.curve);
    Some(Crossing {
        a: a.variant.clone(),
        b: b.variant.clone(),
        over: over.to_owned(),
        point: a.point.clone(),
        lead: match ahead_at_last {
            false => Lead::NotShown,
            true if found.value.is_finite() => Lead::Crosses,
            true => Lead::Throughout,
        },
        at: inside(found.value),
        ci95: found.ci95.map(|ends| ends.map(inside)),
        peak_ratio: peaks.map(|peaks| peaks.value),
        peak_ratio_ci95: peaks.and_then(|peaks| peaks.ci95),
    })
}

#[cfg(test)]
mod tests;
