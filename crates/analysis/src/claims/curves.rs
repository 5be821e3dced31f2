//! Functions of whole curves that a claim may use: `knee(a, path)`, `level_from(a, path)`,
//! `crossing(a, b, path)`, `peak(a)`, `flat_until(a, path)`, `retained(metric, a, path, value)`,
//! the ratios of two variants' knees, peaks and flat stretches, and the scalability law's
//! `usl(parameter, a, path)` and `usl_difference(parameter, a, b, path)`.

use std::collections::BTreeMap;

use experiment::plan::{LawParameter, MetricPath};
use record::results::Trial;
use serde_json::Value;

use super::{FunctionPart, FunctionValue};
use crate::metrics::metric;
use crate::scaling::{Estimate, VariantCurve, curves, curves_of, has_law, knee, overtakes, peak, peak_ratio};
use crate::stats::curve::{LoadCurve, LoadMean, flat_until, interval, intervals};
use crate::stats::usl::{self, FittedLaw, NoLaw};
use crate::stats::{knee, level};

/// Function that computes a figure from a curve's means. It captures what is decided once for all
/// resampled curves.
type CurveReading = Box<dyn Fn(&[LoadMean]) -> Option<f64>>;

/// Applies a function to each curve of a variant, or of trials without variants.
fn of_each(
    variant: Option<&str>,
    curves: Vec<VariantCurve>,
    part: impl Fn(&LoadCurve) -> Option<FunctionPart>,
) -> FunctionValue {
    let own = curves.iter().filter(|of| of.variant == variant.unwrap_or_default());
    FunctionValue::of(own.filter_map(|of| part(&of.curve)))
}

/// Pairs the curves of two variants by their points.
fn couples([a, b]: [&str; 2], curves: Vec<VariantCurve>) -> Vec<(LoadCurve, LoadCurve)> {
    let (of_b, others): (Vec<_>, Vec<_>) = curves.into_iter().partition(|of| of.variant == b);
    let mut couples = Vec::new();
    for of_a in others.into_iter().filter(|of| of.variant == a) {
        if let Some(of_b) = of_b.iter().find(|of_b| of_b.point == of_a.point) {
            couples.push((of_a.curve, of_b.curve.clone()));
        }
    }
    couples
}

fn reach(curve: &LoadCurve) -> Option<[f64; 2]> {
    Some([curve.points.first()?.load, curve.points.last()?.load])
}

/// Returns the loads at which the curves bend.
pub(super) fn knees(variant: Option<&str>, over: &str, trials: &[&Trial]) -> FunctionValue {
    of_each(variant, curves(trials, over), |curve| {
        let reach = reach(curve)?;
        let beyond = |_| format!("throughput still rises at {}", reach[1]);
        Some(FunctionPart::of_load(&knee(curve)?, reach, &[curve], beyond))
    })
}

/// Returns the lowest load from which throughput stays near the peak.
pub(super) fn levels(variant: Option<&str>, over: &str, trials: &[&Trial]) -> FunctionValue {
    let share = 100.0 * (1.0 - level::LEVEL);
    of_each(variant, curves(trials, over), |curve| {
        let reach = reach(curve)?;
        let beyond = |_| format!("only the highest load, {}, has {share:.0} % of the peak", reach[1]);
        Some(FunctionPart::of_load(&level::level_from(curve)?, reach, &[curve], beyond))
    })
}

/// Returns the load from which `a` stays ahead of `b`.
pub(super) fn crossings([a, b]: [&str; 2], over: &str, trials: &[&Trial]) -> FunctionValue {
    let mut parts = Vec::new();
    for (of, other) in couples([a, b], curves(trials, over)) {
        let (Some([from, to]), Some([other_from, other_to])) = (reach(&of), reach(&other)) else { continue };
        let [lowest, highest] = [from.max(other_from), to.min(other_to)];
        let Some(found) = overtakes(&of, &other) else { continue };
        parts.push(FunctionPart::of_load(&found, [lowest, highest], &[&of, &other], |value| match value > 0.0 {
            true => format!("{a} is not ahead at {highest}"),
            false => format!("{a} is ahead from {lowest} on"),
        }));
    }
    FunctionValue::of(parts)
}

/// Returns the peak throughput over all points of a variant, whichever paths are swept.
pub(super) fn peaks(variant: Option<&str>, trials: &[&Trial]) -> FunctionValue {
    let curve = all_points(variant, trials);
    FunctionValue::of(peak(&curve).map(|found| FunctionPart::of_curves(found.value, found.ci95, &[&curve])))
}

/// Returns the peak throughput of `a` divided by that of `b`.
pub(super) fn peak_ratios([a, b]: [&str; 2], trials: &[&Trial]) -> FunctionValue {
    let (a, b) = (all_points(Some(a), trials), all_points(Some(b), trials));
    FunctionValue::of(peak_ratio(&a, &b).map(|found| FunctionPart::of_curves(found.value, found.ci95, &[&a, &b])))
}

/// Returns every point of a variant as if it were a load, in the order of the trials.
fn all_points(variant: Option<&str>, trials: &[&Trial]) -> LoadCurve {
    let mut points: Vec<&BTreeMap<String, Value>> = Vec::new();
    let mut measured = Vec::new();
    for trial in trials.iter().filter(|trial| trial.variant.as_deref() == variant) {
        let Some(rate) = trial.throughput.work_per_s() else { continue };
        let place = points.iter().position(|point| **point == trial.point).unwrap_or(points.len());
        if place == points.len() {
            points.push(&trial.point);
        }
        measured.push((place as f64, rate));
    }
    LoadCurve::of(&measured)
}

/// Returns the highest load at which the throughput per unit of load is at least four fifths of
/// that at the lightest load.
pub(super) fn flats(variant: Option<&str>, over: &str, trials: &[&Trial]) -> FunctionValue {
    of_each(variant, cycles(trials, over), |curve| {
        let reach = reach(curve)?;
        let value = flat_until(&curve.means())?;
        let found = Estimate { value, ci95: interval(&[curve], |drawn| flat_until(&drawn[0])) };
        let beyond = |_| format!("throughput per unit of load has not fallen at {}", reach[1]);
        Some(FunctionPart::of_load(&found, reach, &[curve], beyond))
    })
}

/// Returns curves of full cycles. Returns curves of operations if cycles were not counted, or if
/// `over` belongs to one group of agents.
fn cycles(trials: &[&Trial], over: &str) -> Vec<VariantCurve> {
    let of_all = experiment::plan::group_of(over).is_none();
    let counted = of_all && trials.iter().all(|trial| trial.throughput.cycles_per_s.is_some());
    match counted {
        true => curves_of(trials, over, |trial| trial.throughput.cycles_per_s),
        false => curves(trials, over),
    }
}

/// Returns the knee of `a` divided by that of `b`.
pub(super) fn knee_ratio(names: [&str; 2], over: &str, trials: &[&Trial]) -> FunctionValue {
    ratios(names, curves(trials, over), knee_reading, |name, highest| {
        format!("throughput of {name} still rises at {highest}")
    })
}

/// Finds the bend once for all resampled curves, as for a single knee.
fn knee_reading(curve: &LoadCurve) -> Option<CurveReading> {
    knee(curve)?;
    let bend = knee::KneeSplit::of(&curve.means(), curve.spread());
    Some(Box::new(move |means| bend.as_ref().map_or(Some(f64::INFINITY), |bend| bend.knee(means))))
}

/// Returns the load from [`flats`] of `a` divided by that of `b`.
pub(super) fn flat_ratio(names: [&str; 2], over: &str, trials: &[&Trial]) -> FunctionValue {
    ratios(
        names,
        cycles(trials, over),
        |_| Some(Box::new(flat_until)),
        |name, highest| format!("throughput per unit of load of {name} has not fallen at {highest}"),
    )
}

/// Returns the ratio of two variants' loads. Each load may lie beyond its sweep.
fn ratios(
    names: [&str; 2],
    curves: Vec<VariantCurve>,
    reading: fn(&LoadCurve) -> Option<CurveReading>,
    beyond: fn(&str, f64) -> String,
) -> FunctionValue {
    let parts = couples(names, curves).into_iter().filter_map(|(a, b)| {
        let readings = [reading(&a)?, reading(&b)?];
        let highest = [reach(&a)?[1], reach(&b)?[1]];
        let found = loads(&readings, &[a.means(), b.means()])?;
        let [low, high] = bounds(found, highest);
        // Combines the low end of the lower bound with the high end of the upper bound.
        let ends = intervals(&[&a, &b], |means| loads(&readings, means).map(|found| bounds(found, highest)));
        let ci95 = ends.map(|[least, most]| [least[0], most[1]]);
        let known = low == high;
        let mut part = FunctionPart::of_curves(low, ci95.filter(|_| known), &[&a, &b]);
        match (0..2).find(|&side| found[side].is_infinite()) {
            Some(side) => part.note = beyond(names[side], highest[side]),
            None if ci95.is_some_and(|[_, high]| high.is_infinite()) => {
                part.note = format!("perhaps {}", beyond(names[0], highest[0]));
            }
            None => {}
        }
        Some(FunctionPart { value: part.value.filter(|_| known), span: ci95.unwrap_or([low, high]), ..part })
    });
    FunctionValue::of(parts)
}

fn loads(readings: &[CurveReading; 2], means: &[Vec<LoadMean>]) -> Option<[f64; 2]> {
    Some([readings[0](&means[0])?, readings[1](&means[1])?])
}

/// Returns the bounds of the ratio of two loads. An infinite load lies beyond the highest load of
/// its sweep.
fn bounds([a, b]: [f64; 2], [highest_a, highest_b]: [f64; 2]) -> [f64; 2] {
    let low = if b.is_infinite() { 0.0 } else { a.min(highest_a) / b };
    let high = if a.is_infinite() { f64::INFINITY } else { a / b.min(highest_b) };
    if a.is_finite() && b.is_finite() { [a / b; 2] } else { [low, high] }
}

/// Returns a metric at `load`, as a share of its largest value over all loads.
pub(super) fn retained(
    path: &MetricPath,
    variant: Option<&str>,
    of: &str,
    load: f64,
    trials: &[&Trial],
) -> FunctionValue {
    let curves = curves_of(trials, of, |trial| metric(trial, path).into_iter().min_by(f64::total_cmp));
    of_each(variant, curves, |curve| {
        let means = curve.means();
        let best = knee::peak(&means)?;
        let place = means.iter().position(|mean| mean.load == load)?;
        let share = |means: &[LoadMean]| over(means.get(place)?.rate, means.get(best)?.rate);
        let ci95 = interval(&[curve], |drawn| share(&drawn[0]));
        Some(FunctionPart::of_curves(share(&means)?, ci95, &[curve]))
    })
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn parameter(of: LawParameter) -> fn(&FittedLaw) -> f64 {
    match of {
        LawParameter::Lambda => |law| law.lambda,
        LawParameter::Sigma => |law| law.sigma,
        LawParameter::Kappa => |law| law.kappa,
    }
}

/// Returns a parameter of the scalability law fitted to a variant's curve, if the curve follows it.
pub(super) fn law(of: LawParameter, variant: Option<&str>, over: &str, trials: &[&Trial]) -> FunctionValue {
    if !has_law(over) {
        return FunctionValue::default();
    }
    let parameter = parameter(of);
    let own = curves(trials, over).into_iter().filter(|of| of.variant == variant.unwrap_or_default());
    of_laws(own.map(|VariantCurve { curve, .. }| {
        let found = parameter(&usl::tested(&curve)?.law);
        let ci95 = interval(&[&curve], |means| usl::fitted(&means[0]).map(|law| parameter(&law)));
        Ok(FunctionPart::of_curves(found, ci95, &[&curve]))
    }))
}

/// Returns a parameter of the scalability law of `a` minus that of `b`.
pub(super) fn difference(of: LawParameter, names: [&str; 2], over: &str, trials: &[&Trial]) -> FunctionValue {
    if !has_law(over) {
        return FunctionValue::default();
    }
    let parameter = parameter(of);
    of_laws(couples(names, curves(trials, over)).into_iter().map(|(a, b)| {
        let found = parameter(&usl::tested(&a)?.law) - parameter(&usl::tested(&b)?.law);
        let ci95 = interval(&[&a, &b], |means| {
            Some(parameter(&usl::fitted(&means[0])?) - parameter(&usl::fitted(&means[1])?))
        });
        Ok(FunctionPart::of_curves(found, ci95, &[&a, &b]))
    }))
}

/// Combines the parts. If a curve does not follow the scalability law, returns only the reason.
fn of_laws(parts: impl Iterator<Item = Result<FunctionPart, NoLaw>>) -> FunctionValue {
    match parts.collect::<Result<Vec<FunctionPart>, NoLaw>>() {
        Ok(parts) => FunctionValue::of(parts),
        Err(why) => FunctionValue::default().noted(&why.reason()),
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::MetricRange;
    use record::results::{Holds, Throughput};
    use serde_json::json;

    use super::*;

    /// Loads doubled from 1 to 64, `repeats` times, off by up to a share of `off`.
    fn trials(variant: Option<&str>, repeats: u32, off: f64, per_s: impl Fn(f64) -> f64) -> Vec<Trial> {
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            for power in 0..7_u32 {
                let agents = 1 << power;
                let off = 1.0 + off * (f64::from((repeat + power) % 3) - 1.0);
                let rate = per_s(f64::from(agents)) * off;
                trials.push(Trial {
                    variant: variant.map(str::to_owned),
                    point: BTreeMap::from([("load.agents".to_owned(), json!(agents))]),
                    repeat,
                    throughput: Throughput {
                        operations_per_s: Some(rate),
                        cycles_per_s: Some(rate / 6.0),
                        ..Throughput::default()
                    },
                    ..Trial::default()
                });
            }
        }
        trials
    }

    /// 24 slow cores with a capacity of 240, and 2 fast cores with a capacity of 120.
    fn two(repeats: u32, off: f64) -> Vec<Trial> {
        let mut both = trials(Some("pi"), repeats, off, |n| 10.0 * n.min(24.0));
        both.extend(trials(Some("xeon"), repeats, off, |n| 60.0 * n.min(2.0)));
        both
    }

    fn each(trials: &[Trial]) -> Vec<&Trial> {
        trials.iter().collect()
    }

    fn at_least(bound: f64) -> MetricRange {
        MetricRange { at_least: Some(bound), ..MetricRange::default() }
    }

    fn above(bound: f64) -> MetricRange {
        MetricRange { above: Some(bound), ..MetricRange::default() }
    }

    const OVER: &str = "load.agents";
    const RATE: &str = "throughput.operations_per_s";

    #[test]
    fn the_ratio_of_peaks_has_an_interval() {
        let trials = two(3, 0.02);
        let found = peak_ratios(["pi", "xeon"], &each(&trials));
        let [low, high] = found.range.unwrap();
        assert!(
            (found.value.unwrap() - 2.0).abs() < 0.1 && low > 1.8 && low < 2.0 && high > 2.0 && high < 2.2,
            "{found:?}"
        );
        assert_eq!((found.holds(&at_least(1.7)), found.holds(&at_least(2.0))), (Holds::Yes, Holds::NotShown));
        assert_eq!(found.holds(&at_least(2.5)), Holds::No);
        let back = peak_ratios(["xeon", "pi"], &each(&trials));
        assert!((found.value.unwrap() * back.value.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_of_single_trials_has_no_interval() {
        let trials = two(1, 0.0);
        let found = peak_ratios(["pi", "xeon"], &each(&trials));
        assert_eq!((found.value, found.range, found.note.as_str()), (Some(2.0), None, "one trial each: no interval"));
        assert_eq!(found.holds(&at_least(2.0)), Holds::Yes);
        assert_eq!(peak_ratios(["pi", "none"], &each(&trials)), FunctionValue::default());
    }

    #[test]
    fn cycles_per_agent_stay_flat_longer_on_more_cores() {
        // Throughput per agent is 60 up to 2 agents and 120 / N beyond: four fifths at 2.5. With 24
        // slow cores it is 1 at 16 and 3/4 at 32: four fifths lie between them, at 16 · 2^(ln 0.8 /
        // ln 0.75).
        let trials = two(3, 0.01);
        let xeon = flats(Some("xeon"), OVER, &each(&trials));
        assert!((xeon.value.unwrap() - 2.5).abs() < 0.1, "{xeon:?}");
        let pi = flats(Some("pi"), OVER, &each(&trials));
        assert!((pi.value.unwrap() - 16.0 * 2_f64.powf(0.8_f64.ln() / 0.75_f64.ln())).abs() < 0.1, "{pi:?}");
        let ratio = flat_ratio(["pi", "xeon"], OVER, &each(&trials));
        assert!((ratio.value.unwrap() - 10.96).abs() < 0.2 && ratio.range.unwrap()[0] > 10.0, "{ratio:?}");
        assert_eq!(ratio.holds(&above(1.0)), Holds::Yes);
    }

    #[test]
    fn a_curve_that_never_falls_gives_a_bound() {
        let mut trials = trials(Some("linear"), 3, 0.01, |n| n);
        trials.extend(two(3, 0.01));
        let found = flat_ratio(["linear", "xeon"], OVER, &each(&trials));
        assert_eq!(
            (found.value, found.note.as_str()),
            (None, "throughput per unit of load of linear has not fallen at 64")
        );
        assert_eq!((found.holds(&above(1.0)), found.holds(&above(20.0))), (Holds::Yes, Holds::Yes));
        assert_eq!(found.holds(&above(30.0)), Holds::NotShown, "64 / 2.5 is 25.6, and it may be more");
        let back = flat_ratio(["xeon", "linear"], OVER, &each(&trials));
        assert_eq!((back.holds(&above(1.0)), back.holds(&above(0.01))), (Holds::No, Holds::NotShown));
        let both = flat_ratio(["linear", "linear2"], OVER, &each(&trials));
        assert_eq!(both.holds(&above(1.0)), Holds::NotMeasured);
    }

    #[test]
    fn knees_are_compared_as_a_ratio() {
        let trials = two(3, 0.01);
        let found = knee_ratio(["pi", "xeon"], OVER, &each(&trials));
        assert!((found.value.unwrap() - 12.0).abs() < 0.6 && found.range.is_some(), "{found:?}");
    }

    #[test]
    fn retained_throughput_is_a_share_of_the_peak() {
        // Falls to three quarters of the peak at 64.
        let trials =
            trials(
                None,
                3,
                0.01,
                |n| {
                    if n <= 16.0 { 100.0 * n } else { 1_600.0 * (1.0 - 0.25 * (n / 16.0).log2() / 2.0) }
                },
            );
        let [low, peak, found] =
            [48.0, 16.0, 64.0].map(|load| retained(&RATE.into(), None, OVER, load, &each(&trials)));
        assert!((found.value.unwrap() - 0.75).abs() < 0.02, "{found:?}");
        assert_eq!((found.holds(&at_least(0.7)), found.holds(&at_least(0.9))), (Holds::Yes, Holds::No));
        assert_eq!((peak.value, peak.range), (Some(1.0), Some([1.0, 1.0])));
        assert_eq!(low.holds(&at_least(0.0)), Holds::NotMeasured);
        let cycles = retained(&"throughput.cycles_per_s".into(), None, OVER, 64.0, &each(&trials));
        assert!((cycles.value.unwrap() - found.value.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn curves_without_variants_need_no_name() {
        let trials = trials(None, 3, 0.01, |n| 60.0 * n.min(2.0));
        let knee = knees(None, OVER, &each(&trials));
        assert!((knee.value.unwrap() - 2.0).abs() < 0.1, "{knee:?}");
        assert!((peaks(None, &each(&trials)).value.unwrap() - 120.0).abs() < 2.0);
        assert_eq!(knees(Some("pi"), OVER, &each(&trials)), FunctionValue::default());
    }

    #[test]
    fn all_points_of_another_swept_path_count() {
        // The slower link halves the throughput of 2 fast cores, but not the knee. The texts of the
        // link's rates are no loads.
        let at = |rate: &str, factor: f64, cores: f64| {
            let mut trials = trials(Some("xeon"), 3, 0.01, |n| 60.0 * factor * n.min(cores));
            for trial in &mut trials {
                trial.point.insert("lab.port.distribution.rate".to_owned(), json!(rate));
            }
            trials
        };
        let mut all = [at("100mbit", 1.0, 2.0), at("5mbit", 0.5, 2.0)].concat();
        let knee = knees(Some("xeon"), OVER, &each(&all));
        assert!((knee.value.unwrap() - 2.0).abs() < 0.1, "{knee:?}");
        assert!((peaks(Some("xeon"), &each(&all)).value.unwrap() - 120.0).abs() < 2.0);
        assert_eq!(knees(Some("xeon"), "lab.port.distribution.rate", &each(&all)), FunctionValue::default());
        all.extend(at("1mbit", 1.0, 16.0));
        let at_most = |bound| MetricRange { at_most: Some(bound), ..MetricRange::default() };
        let knee = knees(Some("xeon"), OVER, &each(&all));
        assert_eq!((knee.holds(&at_most(4.0)), knee.holds(&at_most(20.0))), (Holds::NotShown, Holds::Yes));
    }

    /// Curves of 24 and 6 cores with a smooth knee.
    fn smooth_curves(noise: f64, random: &mut fastrand::Rng) -> Vec<Trial> {
        let curves = [("a", 24.0), ("b", 6.0)]
            .map(|(variant, cores)| trials(Some(variant), 3, 0.0, |n| 10.0 * n / (1.0 + (n / cores).powi(3)).cbrt()));
        let mut both = curves.concat();
        for trial in &mut both {
            let off = 1.0 + noise * crate::synthetic::normal(random);
            let throughput = &mut trial.throughput;
            for rate in [&mut throughput.operations_per_s, &mut throughput.cycles_per_s] {
                *rate = rate.map(|rate| rate * off);
            }
        }
        both
    }

    /// In 40 sweeps with repeats that differ by 4 %, counts the intervals that contain the value of
    /// curves without noise.
    #[test]
    fn intervals_have_about_the_stated_coverage() {
        let mut random = fastrand::Rng::with_seed(11);
        type Asked = fn(&[&Trial]) -> FunctionValue;
        let asked: [(&str, Asked); 4] = [
            ("peak_ratio", |trials| peak_ratios(["a", "b"], trials)),
            ("flat_until", |trials| flats(Some("a"), OVER, trials)),
            ("flat_ratio", |trials| flat_ratio(["a", "b"], OVER, trials)),
            ("retained", |trials| retained(&RATE.into(), Some("a"), OVER, 16.0, trials)),
        ];
        let exact = smooth_curves(0.0, &mut random);
        let truths: Vec<f64> = asked.iter().map(|(_, of)| of(&each(&exact)).value.unwrap()).collect();
        let mut held = [0; 4];
        for _ in 0..40 {
            let noisy = smooth_curves(0.04, &mut random);
            for (index, (_, of)) in asked.iter().enumerate() {
                let [low, high] = of(&each(&noisy)).range.unwrap();
                held[index] += u32::from((low..=high).contains(&truths[index]));
            }
        }
        let names = asked.map(|(name, _)| name);
        assert!(held.iter().all(|held| *held >= 33), "{names:?}: {held:?} of 40");
    }

    mod laws {
        use super::*;

        /// Repeats of each load are off by less, nothing and more, so that their means are on the
        /// law.
        fn serial_and_plain(repeats: u32, noise: f64) -> Vec<Trial> {
            let laws = [("serial", 0.2, 0.0), ("plain", 0.05, 0.0005)];
            let curves = laws.map(|(variant, sigma, kappa)| {
                trials(Some(variant), repeats, noise, |n| FittedLaw { lambda: 100.0, sigma, kappa }.at(n))
            });
            curves.concat()
        }

        #[test]
        fn contention_rises_with_a_serial_part() {
            let trials = serial_and_plain(3, 0.02);
            let trials = each(&trials);
            let found = difference(LawParameter::Sigma, ["serial", "plain"], OVER, &trials);
            let [low, high] = found.range.unwrap();
            assert!(low < 0.15 && 0.15 < high && low > 0.05, "{found:?}");
            assert_eq!(found.holds(&above(0.0)), Holds::Yes);
            let back = difference(LawParameter::Sigma, ["plain", "serial"], OVER, &trials);
            assert!((back.value.unwrap() + found.value.unwrap()).abs() < 1e-9);
            assert_eq!(back.holds(&above(0.0)), Holds::No, "a negative difference stays negative");
            let sigma = law(LawParameter::Sigma, Some("serial"), OVER, &trials);
            assert!((sigma.value.unwrap() - 0.2).abs() < 0.03 && sigma.range.is_some(), "{sigma:?}");
        }

        #[test]
        fn equal_curves_show_no_difference() {
            let law = FittedLaw { lambda: 100.0, sigma: 0.1, kappa: 0.0 };
            let both = ["a", "b"].map(|variant| trials(Some(variant), 3, 0.03, |n| law.at(n))).concat();
            let found = difference(LawParameter::Sigma, ["a", "b"], OVER, &each(&both));
            assert_eq!(found.holds(&above(0.0)), Holds::NotShown);
        }

        #[test]
        fn exact_curves_yield_their_parameters() {
            let trials = serial_and_plain(3, 1e-6);
            let trials = each(&trials);
            let found = difference(LawParameter::Sigma, ["serial", "plain"], OVER, &trials);
            assert!((found.value.unwrap() - 0.15).abs() < 1e-4, "{found:?}");
            let kappa = law(LawParameter::Kappa, Some("plain"), OVER, &trials).value.unwrap();
            assert!((kappa - 0.0005).abs() < 1e-5, "{kappa}");
            assert_eq!(law(LawParameter::Kappa, Some("plain"), "load.rate", &trials), FunctionValue::default());
        }

        #[test]
        fn a_missing_law_has_a_reason() {
            let once = serial_and_plain(1, 0.01);
            let once = each(&once);
            let found = law(LawParameter::Sigma, Some("plain"), OVER, &once);
            assert_eq!((found.value, found.holds(&above(0.0))), (None, Holds::NotMeasured));
            assert!(found.note.contains("too few repeats"), "{found:?}");
            let mut corner = serial_and_plain(3, 0.01);
            for trial in &mut corner {
                let agents = trial.point[OVER].as_f64().unwrap();
                let off = trial.throughput.operations_per_s.unwrap() % 1.0;
                trial.throughput.operations_per_s = Some(100.0 * agents.min(8.0) * (1.0 + 0.01 * off));
            }
            let corner = each(&corner);
            let found = difference(LawParameter::Kappa, ["serial", "plain"], OVER, &corner);
            assert!(found.value.is_none() && found.note.contains("does not follow the law"), "{found:?}");
        }
    }
}
