//! The functions of the scalability law that a claim may name: `usl(parameter, a, path)` and `usl_difference(parameter, a, b, path)`. It
//! must not fit anything itself.

use record::results::Trial;

use super::curves::{couples, of_variant};
use super::found::{Found, Part};
use crate::scaling::{VariantCurve, curves, has_law};
use crate::stats::curve::{Curve, Mean, interval};
use crate::stats::usl::{self, Law};

/// A law that explains less of the variance than this is named beside its parameters.
const EXPLAINS: f64 = 0.9;

/// The parameter of this name.
fn parameter(name: &str) -> Option<fn(&Law) -> f64> {
    match name {
        "lambda" => Some(|law| law.lambda),
        "sigma" => Some(|law| law.sigma),
        "kappa" => Some(|law| law.kappa),
        _ => None,
    }
}

/// A parameter of the law fitted to a variant's curve.
pub(super) fn law(name: &str, variant: Option<&str>, over: &str, trials: &[&Trial]) -> Found {
    let Some(parameter) = parameter(name).filter(|_| has_law(over)) else { return Found::default() };
    let part = |of: VariantCurve| {
        let curve = of.curve;
        let value = |means: &[Vec<Mean>]| usl::fitted(&means[0]).map(|law| parameter(&law));
        let part = Part::of_curves(value(&[curve.means()])?, interval(&[&curve], value), &[&curve]);
        Some(explained(part, &[&curve]))
    };
    Found::of(of_variant(variant, curves(trials, over)).into_iter().filter_map(part))
}

/// A parameter of `a`'s law less that of `b`'s.
pub(super) fn difference(name: &str, names: [&str; 2], over: &str, trials: &[&Trial]) -> Found {
    let Some(parameter) = parameter(name).filter(|_| has_law(over)) else { return Found::default() };
    let part = |(a, b): (Curve, Curve)| {
        let value = |means: &[Vec<Mean>]| {
            let (a, b) = (usl::fitted(&means[0])?, usl::fitted(&means[1])?);
            Some(parameter(&a) - parameter(&b))
        };
        let part = Part::of_curves(value(&[a.means(), b.means()])?, interval(&[&a, &b], value), &[&a, &b]);
        Some(explained(part, &[&a, &b]))
    };
    Found::of(couples(names, curves(trials, over)).into_iter().filter_map(part))
}

/// With what the law leaves unexplained, if that is much.
fn explained(part: Part, curves: &[&Curve]) -> Part {
    let r2 = |curve: &&Curve| usl::fitted(&curve.means())?.r2(curve);
    let least = curves.iter().filter_map(r2).reduce(f64::min).filter(|r2| *r2 < EXPLAINS);
    let Some(least) = least else { return part };
    let note = format!("the law explains only {:.0} % of the variance", 100.0 * least);
    Part { note: if part.note.is_empty() { note } else { format!("{}; {note}", part.note) }, ..part }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use experiment::plan::Range;
    use record::results::{Holds, Throughput};
    use serde_json::json;

    use super::*;
    use crate::made_up::normal;

    fn trials(variant: &str, [lambda, sigma, kappa]: [f64; 3], repeats: u32, noise: f64) -> Vec<Trial> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            for agents in [1, 2, 4, 8, 16, 32, 64] {
                let rate = Law { lambda, sigma, kappa }.at(f64::from(agents)) * (1.0 + noise * normal(&mut random));
                trials.push(Trial {
                    variant: Some(variant.to_owned()),
                    point: BTreeMap::from([("load.agents".to_owned(), json!(agents))]),
                    repeat,
                    throughput: Throughput { operations_per_s: Some(rate), ..Throughput::default() },
                    ..Trial::default()
                });
            }
        }
        trials
    }

    fn serial_and_plain(repeats: u32, noise: f64) -> Vec<Trial> {
        let mut both = trials("serial", [100.0, 0.2, 0.0], repeats, noise);
        both.extend(trials("plain", [100.0, 0.05, 0.0005], repeats, noise));
        both
    }

    const OVER: &str = "load.agents";

    fn above(bound: f64) -> Range {
        Range { above: Some(bound), ..Range::default() }
    }

    #[test]
    fn contention_rises_with_a_serial_part() {
        let trials = serial_and_plain(3, 0.02);
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = difference("sigma", ["serial", "plain"], OVER, &trials);
        let [low, high] = found.range.unwrap();
        assert!(low < 0.15 && 0.15 < high && low > 0.05, "{found:?}");
        assert_eq!(found.holds(&above(0.0)), Holds::Yes);
        let back = difference("sigma", ["plain", "serial"], OVER, &trials);
        assert!((back.value.unwrap() + found.value.unwrap()).abs() < 1e-9);
        assert_eq!(back.holds(&above(0.0)), Holds::No, "a negative difference stays negative");
        let sigma = law("sigma", Some("serial"), OVER, &trials);
        assert!((sigma.value.unwrap() - 0.2).abs() < 0.03 && sigma.range.is_some(), "{sigma:?}");
    }

    #[test]
    fn the_same_twice_shows_no_difference() {
        let mut both = trials("a", [100.0, 0.1, 0.0], 3, 0.03);
        // Another seed of the same.
        both.extend(
            trials("b", [100.0, 0.1, 0.0], 6, 0.03)
                .into_iter()
                .skip(21)
                .map(|trial| Trial { repeat: trial.repeat - 3, ..trial }),
        );
        let both: Vec<&Trial> = both.iter().collect();
        assert_eq!(difference("sigma", ["a", "b"], OVER, &both).holds(&above(0.0)), Holds::NotShown);
    }

    #[test]
    fn exact_curves_give_back_their_parameters() {
        let trials = serial_and_plain(1, 0.0);
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = difference("sigma", ["serial", "plain"], OVER, &trials);
        assert!((found.value.unwrap() - 0.15).abs() < 1e-6, "{found:?}");
        assert_eq!(found.note, "one trial each: no interval");
        let kappa = law("kappa", Some("plain"), OVER, &trials).value.unwrap();
        assert!((kappa - 0.0005).abs() < 1e-7, "{kappa}");
        assert_eq!(law("kappa", Some("plain"), "load.rate", &trials), Found::default());
        assert_eq!(law("kapa", Some("plain"), OVER, &trials), Found::default());
    }

    #[test]
    fn a_law_that_explains_little_says_so() {
        let mut trials = trials("a", [100.0, 0.0, 0.0], 1, 0.0);
        for (trial, rate) in trials.iter_mut().zip([100.0, 150.0, 90.0, 180.0, 100.0, 190.0, 120.0]) {
            trial.throughput.operations_per_s = Some(rate);
        }
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = law("sigma", Some("a"), OVER, &trials);
        assert!(found.note.starts_with("one trial each: no interval; the law explains only "), "{found:?}");
    }
}
