//! Throughput over swept loads: each variant's curve with peak, knee and scalability law, and the
//! load at which one of two variants overtakes the other. This module turns trials into curves; the
//! methods are in `stats`.

use std::collections::BTreeMap;

use experiment::plan::is_offered;
use record::results::{Crossing, Lead, Scaling, ScalingPoint, Trial, Usl};
use serde_json::Value;

use crate::load_groups::throughput_over;
use crate::stats::curve::{LoadCurve, LoadMean, crossing, interval, intervals};
use crate::stats::knee;
use crate::stats::student::quantile_of_t;
use crate::stats::usl::{self, NoLaw, TestedLaw};

/// The curve of a variant at one point of the other swept paths.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariantCurve {
    /// The variant; empty without variants.
    pub variant: String,
    /// Values of the other swept paths.
    pub point: BTreeMap<String, Value>,
    pub curve: LoadCurve,
}

/// A figure and its interval. An infinite value lies outside of the sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub value: f64,
    /// 95 % interval, if there were enough repeats.
    pub ci95: Option<[f64; 2]>,
}

/// Returns the scaling of each variant over each swept path that is a load, in the order of the
/// trials.
pub(crate) fn scaling(trials: &[&Trial], swept: &[String]) -> Vec<Scaling> {
    swept.iter().flat_map(|over| curves(trials, over).into_iter().map(move |curve| described(curve, over))).collect()
}

/// Returns the loads at which variants overtake each other, over each swept path that is a load, in
/// the order of the trials.
pub(crate) fn crossings(trials: &[&Trial], swept: &[String]) -> Vec<Crossing> {
    let mut found = Vec::new();
    for over in swept {
        let curves = curves(trials, over);
        for (index, one) in curves.iter().enumerate() {
            let others = curves[index + 1..].iter().filter(|other| other.point == one.point);
            found.extend(others.filter_map(|other| overtaking(one, other, over)));
        }
    }
    found
}

/// Whether a scalability law, which describes how load sources hinder each other, is fitted over
/// this path. An offered rate has no such law.
pub(crate) fn has_law(over: &str) -> bool {
    !is_offered(over)
}

/// Returns the curves of throughput over a path, in the order of the trials. Over a path of an
/// agent group, the throughput is that of the group. Returns an empty list if the path is not a
/// positive number in each trial that has it, or if it has only one value.
pub(crate) fn curves(trials: &[&Trial], over: &str) -> Vec<VariantCurve> {
    curves_of(trials, over, |trial| throughput_over(trial, over))
}

/// Returns the curves of `figure` over a path, as [`curves`] does for throughput.
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
            None => measured.push((VariantCurve { variant, point, curve: LoadCurve::default() }, vec![(load, rate)])),
        }
    }
    let curves = measured.into_iter().map(|(of, points)| VariantCurve { curve: LoadCurve::of(&points), ..of });
    curves.filter(|of| of.curve.points.len() > 1).collect()
}

fn described(of: VariantCurve, over: &str) -> Scaling {
    let curve = &of.curve;
    let means = curve.means();
    let law = has_law(over).then(|| usl::tested(curve));
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
        usl: law.as_ref().and_then(|law| law.as_ref().ok()).and_then(|law| described_law(curve, law)),
        usl_missing: law.and_then(Result::err).map(NoLaw::reason),
    }
}

/// Returns the mean throughput of the loads that are not distinguishable from the best. Its
/// interval is Student's, as wide as that of the best load alone, because the same data selected
/// the loads.
pub(crate) fn peak(curve: &LoadCurve) -> Option<Estimate> {
    let means = curve.means();
    let best = knee::peak(&means)?;
    let spread = curve.spread_at(best);
    let value = knee::peak_rate(&means, spread)?;
    let repeats = means[best].repeats as f64;
    let half = spread.and_then(|spread| {
        Some(quantile_of_t(0.975, spread.degrees as f64)? * spread.relative * value / repeats.sqrt())
    });
    Some(Estimate { value, ci95: half.map(|half| [(value - half).max(0.0), value + half]) })
}

/// Returns the peak of `a` divided by that of `b`, with the interval of the ratio of their best
/// points. Best points are chosen once: the best point of each resampled curve would be too high by
/// chance.
pub(crate) fn peak_ratio(a: &LoadCurve, b: &LoadCurve) -> Option<Estimate> {
    let (means_a, means_b) = (a.means(), b.means());
    let (best_a, best_b) = (knee::peak(&means_a)?, knee::peak(&means_b)?);
    let value = peak(a)?.value / peak(b).filter(|peak| peak.value > 0.0)?.value;
    let moved = value / ratio_at([best_a, best_b], &[means_a, means_b])?;
    let ci95 = interval(&[a, b], |means| ratio_at([best_a, best_b], means));
    Some(Estimate { value, ci95: ci95.map(|ends| ends.map(|end| end * moved)) })
}

/// Returns the throughput of the first curve at index `a`, divided by that of the second at `b`.
fn ratio_at([a, b]: [usize; 2], means: &[Vec<LoadMean>]) -> Option<f64> {
    let below = means[1].get(b)?.rate;
    (below > 0.0).then_some(means[0].get(a)?.rate / below)
}

/// Returns the knee; infinite if throughput still rises at the highest load. Returns `None` with
/// too few loads, or without throughput.
pub(crate) fn knee(curve: &LoadCurve) -> Option<Estimate> {
    let means = curve.means();
    if means.len() < knee::LEAST_LOADS || knee::peak(&means).is_none() {
        return None;
    }
    // Loads are split into light and level once: the split of a resampled curve depends on chance.
    let Some(bend) = knee::KneeSplit::of(&means, curve.spread()) else {
        return Some(Estimate { value: f64::INFINITY, ci95: None });
    };
    Some(Estimate { value: bend.knee(&means)?, ci95: interval(&[curve], |drawn| bend.knee(&drawn[0])) })
}

fn described_law(curve: &LoadCurve, TestedLaw { law, p }: &TestedLaw) -> Option<Usl> {
    Some(Usl {
        lambda: law.lambda,
        sigma: law.sigma,
        kappa: law.kappa,
        r2: law.r2(curve)?,
        fit_p: Some(*p),
        ci95: intervals(&[curve], |drawn| usl::fitted(&drawn[0]).map(|law| [law.lambda, law.sigma, law.kappa])),
        peak_at: law.peak_at(),
    })
}

/// Returns the load from which `a` stays ahead of `b`: minus infinity if `a` is ahead at every
/// load, infinity if it is not ahead at the highest. Returns `None` if the curves share fewer than
/// two loads.
pub(crate) fn overtakes(a: &LoadCurve, b: &LoadCurve) -> Option<Estimate> {
    let value = crossing(&a.means(), &b.means())?;
    Some(Estimate { value, ci95: interval(&[a, b], |drawn| crossing(&drawn[0], &drawn[1])) })
}

/// Returns the crossing of two curves. Its `a` is the variant that is ahead at the highest load.
fn overtaking(one: &VariantCurve, other: &VariantCurve, over: &str) -> Option<Crossing> {
    let (mut a, mut b, mut found) = (one, other, overtakes(&one.curve, &other.curve)?);
    if found.value == f64::INFINITY {
        (a, b, found) = (other, one, overtakes(&other.curve, &one.curve)?);
    }
    let ahead_at_last = found.ci95.map_or(found.value, |[_, high]| high) < f64::INFINITY;
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
        at: Some(found.value).filter(|load| load.is_finite()),
        ci95: found.ci95.map(|ends| ends.map(|load| Some(load).filter(|load| load.is_finite()))),
        peak_ratio: peaks.map(|peaks| peaks.value),
        peak_ratio_ci95: peaks.and_then(|peaks| peaks.ci95),
    })
}

#[cfg(test)]
mod tests {
    use record::results::{Throughput, Trust, counting};
    use serde_json::json;

    use super::*;
    use crate::trial_groups::counting_by_variant;

    const AGENTS: &str = "load.agents";

    fn trial(variant: Option<&str>, point: &[(&str, Value)], repeat: u32, per_s: f64) -> Trial {
        Trial {
            variant: variant.map(str::to_owned),
            point: point.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
            repeat,
            throughput: Throughput { operations_per_s: Some(per_s), ..Throughput::default() },
            ..Trial::default()
        }
    }

    /// A variant over 1, 2, 4 … 64 agents, with repeats that differ by a percent.
    fn swept(variant: Option<&str>, repeats: u32, rate: impl Fn(f64) -> f64) -> Vec<Trial> {
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            for power in 0..7 {
                let agents = 1_u32 << power;
                let off = 1.0 + 0.01 * f64::from((repeat + power) % 3) - 0.01;
                trials.push(trial(variant, &[(AGENTS, json!(agents))], repeat, rate(f64::from(agents)) * off));
            }
        }
        trials
    }

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    /// 12 slow cores and 2 fast ones.
    fn pi_and_xeon(repeats: u32) -> Vec<Trial> {
        let mut trials = swept(Some("pi"), repeats, |n| 10.0 * n.min(24.0));
        trials.extend(swept(Some("xeon"), repeats, |n| 60.0 * n.min(2.0)));
        trials
    }

    // The answer of a run in random order began with the variant that happened to run first.
    #[test]
    fn curves_are_in_the_order_of_the_plan() {
        let mut trials = pi_and_xeon(1);
        trials.reverse();
        let planned = ["pi", "xeon"].map(str::to_owned);
        let curves = scaling(&counting_by_variant(&trials, &planned), &paths(&[AGENTS]));
        assert_eq!(curves.into_iter().map(|curve| curve.variant).collect::<Vec<_>>(), planned);
    }

    #[test]
    fn a_sweep_of_agents_has_peak_knee_and_law() {
        let scaling = scaling(&counting(&swept(None, 3, |n| 100.0 * n.min(4.0))), &paths(&[AGENTS]));
        let [found] = scaling.as_slice() else { panic!("{scaling:?}") };
        assert_eq!((found.variant.as_str(), found.over.as_str(), found.points.len()), ("", AGENTS, 7));
        assert!(found.points.iter().all(|point| point.per_s.len() == 3));
        assert!((found.knee.unwrap() - 4.0).abs() < 0.1 && (found.peak_per_s.unwrap() - 400.0).abs() < 5.0);
        let ([low, high], [from, to]) = (found.knee_ci95.unwrap(), found.peak_ci95.unwrap());
        assert!(low < 4.0 && 4.0 < high && from < 400.0 && 400.0 < to, "{found:?}");
        // A sharp corner does not follow the law.
        assert!(found.usl.is_none() && found.usl_missing.as_ref().unwrap().contains("lack of fit"), "{found:?}");
        let smooth = swept(None, 3, |n| usl::FittedLaw { lambda: 100.0, sigma: 0.1, kappa: 0.001 }.at(n));
        let found = self::scaling(&counting(&smooth), &paths(&[AGENTS])).remove(0);
        let law = found.usl.as_ref().unwrap();
        assert!(law.r2 > 0.9 && law.kappa > 0.0 && law.ci95.is_some() && law.peak_at.is_some(), "{law:?}");
        assert!(law.fit_p.unwrap() > 0.05 && found.usl_missing.is_none(), "{found:?}");
    }

    #[test]
    fn one_repeat_has_no_intervals() {
        let trials = pi_and_xeon(1);
        for found in scaling(&counting(&trials), &paths(&[AGENTS])) {
            assert!(found.knee.is_some() && found.peak_per_s.is_some(), "{found:?}");
            assert_eq!((found.knee_ci95, found.peak_ci95, found.usl), (None, None, None));
            assert!(found.usl_missing.unwrap().contains("too few repeats"));
        }
        let crossings = crossings(&counting(&trials), &paths(&[AGENTS]));
        assert_eq!((crossings[0].lead, crossings[0].ci95), (Lead::Crosses, None));
    }

    #[test]
    fn the_variant_ahead_last_is_named_first() {
        let mut trials = pi_and_xeon(3);
        let found = crossings(&counting(&trials), &paths(&[AGENTS]));
        let [crossing] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((crossing.a.as_str(), crossing.b.as_str(), crossing.lead), ("pi", "xeon", Lead::Crosses));
        assert!((crossing.at.unwrap() - 12.0).abs() < 1.0, "{crossing:?}");
        let [Some(low), Some(high)] = crossing.ci95.unwrap() else { panic!("{crossing:?}") };
        assert!(8.0 < low && low < 12.5 && 11.5 < high && high < 16.0, "{crossing:?}");
        trials.retain(|trial| trial.point[AGENTS].as_u64().unwrap() >= 16);
        let ahead = &crossings(&counting(&trials), &paths(&[AGENTS]))[0];
        assert_eq!((ahead.a.as_str(), ahead.lead, ahead.at), ("pi", Lead::Throughout, None));
    }

    #[test]
    fn equal_variants_show_no_lead() {
        let mut trials = swept(Some("one"), 3, |n| n);
        trials.extend(swept(Some("other"), 3, |n| n));
        // No variant is ahead by more than a thousandth.
        trials[0].throughput.operations_per_s = trials[0].throughput.operations_per_s.map(|rate| rate * 1.001);
        assert_eq!(crossings(&counting(&trials), &paths(&[AGENTS]))[0].lead, Lead::NotShown);
    }

    #[test]
    fn void_trials_and_missing_throughputs_are_left_out() {
        let mut trials = swept(None, 3, |n| n);
        trials[0].verdict.is = Trust::Void;
        trials[1].throughput.operations_per_s = None;
        let found = &scaling(&counting(&trials), &paths(&[AGENTS]))[0];
        assert_eq!(found.points.iter().map(|point| point.per_s.len()).collect::<Vec<_>>(), [2, 2, 3, 3, 3, 3, 3]);
        trials.iter_mut().for_each(|trial| trial.verdict.is = Trust::Void);
        assert_eq!(
            scaling(&counting(&trials), &paths(&[AGENTS]))[0].points[0].per_s.len(),
            3,
            "all are void, and shown"
        );
    }

    #[test]
    fn few_loads_give_only_supported_figures() {
        let trials = swept(None, 1, |n| 100.0 * n.min(1.5));
        let [one, two, three] = [1, 2, 3].map(|count| scaling(&counting(&trials[..count]), &paths(&[AGENTS])).pop());
        assert_eq!(one, None);
        let (two, three) = (two.unwrap(), three.unwrap());
        assert!(two.peak_per_s.is_some() && two.knee.is_none() && two.usl.is_none());
        assert!(three.knee.is_some() && three.usl.is_none(), "{three:?}");
        assert!(three.usl_missing.unwrap().contains("too few loads"));
    }

    #[test]
    fn an_offered_rate_has_a_knee_and_no_law() {
        let trials: Vec<Trial> = (1..8)
            .map(|step| f64::from(step) * 1_000.0)
            .map(|rate| trial(None, &[("load.rate", json!(rate))], 1, rate.min(3_500.0)))
            .collect();
        let found = &scaling(&counting(&trials), &paths(&["load.rate"]))[0];
        assert!((found.knee.unwrap() / 3_500.0 - 1.0).abs() < 0.01 && found.usl.is_none(), "{found:?}");
        assert_eq!(found.usl_missing, None, "nobody asked for one");
    }

    #[test]
    fn each_point_of_other_paths_has_its_own_curve() {
        let mut trials = Vec::new();
        for (hosts, state) in [(1, "ets"), (1, "mnesia"), (3, "ets"), (3, "mnesia")] {
            for agents in [1, 2, 4] {
                let point = [(AGENTS, json!(agents)), ("lab.hosts", json!(hosts)), ("target.with.state", json!(state))];
                trials.push(trial(None, &point, 1, f64::from(agents * hosts)));
            }
        }
        let found = scaling(&counting(&trials), &paths(&[AGENTS, "target.with.state", "lab.hosts"]));
        let counts = [AGENTS, "lab.hosts", "target.with.state"]
            .map(|path| found.iter().filter(|scaling| scaling.over == path).count());
        assert_eq!(counts, [4, 6, 0], "a name is no load");
        let first = &found[0].at;
        assert_eq!((&first["lab.hosts"], &first["target.with.state"], first.len()), (&json!(1), &json!("ets"), 2));
    }

    const RATE: &str = "lab.port.distribution.rate";

    /// Six modes over agents and rates, which are texts: the n-th mode levels off at 4 n agents,
    /// and a slower link halves it.
    fn modes_by_agents_and_rate(repeats: u32) -> Vec<Trial> {
        let mut trials = Vec::new();
        for (rate, factor) in [("1gbit", 1.0), ("5mbit", 0.5)] {
            for mode in 1..=6 {
                for mut trial in
                    swept(Some(&format!("m{mode}")), repeats, |n| 100.0 * n.min(4.0 * factor * f64::from(mode)))
                {
                    trial.point.insert(RATE.to_owned(), json!(rate));
                    trials.push(trial);
                }
            }
        }
        trials
    }

    #[test]
    fn each_mode_and_rate_has_its_own_curve() {
        let trials = modes_by_agents_and_rate(3);
        let found = scaling(&counting(&trials), &paths(&[AGENTS, RATE]));
        assert_eq!(found.len(), 12);
        assert!(found.iter().all(|one| one.over == AGENTS && one.points.len() == 7 && one.at.len() == 1));
        assert!(found.iter().all(|one| one.points.iter().all(|point| point.per_s.len() == 3)));
        // Fifteen pairs of six modes, at each rate.
        let crossings = crossings(&counting(&trials), &paths(&[AGENTS, RATE]));
        assert_eq!(crossings.len(), 30);
        for (rate, knee) in [("1gbit", 8.0), ("5mbit", 4.0)] {
            let second = found.iter().find(|one| one.variant == "m2" && one.at[RATE] == rate).unwrap();
            assert!((second.knee.unwrap() / knee - 1.0).abs() < 0.04, "{second:?}");
            let couple = crossings.iter().find(|one| one.a == "m6" && one.b == "m1" && one.point[RATE] == rate);
            assert!((couple.unwrap().peak_ratio.unwrap() - 6.0).abs() < 0.2, "{couple:?}");
        }
    }

    #[test]
    fn a_crossing_includes_the_ratio_of_peaks() {
        let found = crossings(&counting(&pi_and_xeon(3)), &paths(&[AGENTS]));
        let [low, high] = found[0].peak_ratio_ci95.unwrap();
        assert!((found[0].peak_ratio.unwrap() - 2.0).abs() < 0.05 && low < 2.0 && 2.0 < high, "{found:?}");
        let once = crossings(&counting(&pi_and_xeon(1)), &paths(&[AGENTS]));
        assert!(once[0].peak_ratio.is_some() && once[0].peak_ratio_ci95.is_none());
    }
}
