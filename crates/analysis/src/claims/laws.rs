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
mod tests;
