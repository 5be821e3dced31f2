//! A gate over comparisons: only what is both shown to be worse and worse by enough fails. It must not decide what happens then.

use record::compared::Gated;
use record::results::Comparison;

use super::figures::Figure;

/// Holds a comparison against a gate of so many percent.
pub(crate) fn gated(comparison: &Comparison, gate_pct: f64) -> Gated {
    let worse = worse_pct(comparison);
    // Not one value differs from another: there is no spread from which to say what would have been shown.
    let same = worse == Some(0.0)
        && comparison.p == Some(1.0)
        && comparison.detectable.or(comparison.detectable_pct).is_none();
    if comparison.significant {
        if worse.is_some_and(|worse| worse >= gate_pct) { Gated::Fails } else { Gated::Passes }
    } else if same || comparison.detectable_pct.is_some_and(|pct| pct <= gate_pct) {
        Gated::Passes
    } else {
        Gated::CannotTell
    }
}

/// By how many percent of `a` the other is worse; negative if it is better. Infinite where `a` is 0 and `b` is not.
pub(crate) fn worse_pct(comparison: &Comparison) -> Option<f64> {
    let (a, b) = comparison.a_value.zip(comparison.b_value)?;
    let more = if a == b { 0.0 } else { 100.0 * (b - a) / a.abs() };
    Some(if Figure::of(&comparison.metric).more_is_better { -more } else { more })
}

#[cfg(test)]
mod tests;
