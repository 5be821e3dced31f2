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
mod tests {
    use super::*;

    fn comparison(metric: &str, a: f64, b: f64, significant: bool, detectable_pct: Option<f64>) -> Comparison {
        let (a_value, b_value, p) = (Some(a), Some(b), Some(if a == b { 1.0 } else { 0.2 }));
        Comparison { metric: metric.into(), a_value, b_value, p, significant, detectable_pct, ..Comparison::default() }
    }

    #[test]
    fn it_fails_what_is_shown_and_large() {
        let (rate, p99, lost) = ("throughput.operations_per_s", "latency_us.p99", "consistency.lost_writes");
        for (metric, a, b, significant, detectable, known) in [
            (rate, 100.0, 94.0, true, Some(3.0), Gated::Fails),
            (rate, 100.0, 95.0, true, Some(3.0), Gated::Fails),
            (rate, 100.0, 96.0, true, Some(3.0), Gated::Passes),
            (rate, 100.0, 120.0, true, Some(3.0), Gated::Passes),
            (rate, 100.0, 80.0, false, Some(30.0), Gated::CannotTell),
            (rate, 100.0, 97.0, false, Some(4.0), Gated::Passes),
            (rate, 100.0, 97.0, false, Some(8.0), Gated::CannotTell),
            (rate, 100.0, 97.0, false, None, Gated::CannotTell),
            (p99, 100.0, 106.0, true, Some(3.0), Gated::Fails),
            (p99, 100.0, 90.0, true, Some(3.0), Gated::Passes),
            (lost, 0.0, 2.0, true, None, Gated::Fails),
            (lost, 0.0, 0.0, false, None, Gated::Passes),
            (lost, 0.0, 2.0, false, None, Gated::CannotTell),
        ] {
            let comparison = comparison(metric, a, b, significant, detectable);
            assert_eq!(gated(&comparison, 5.0), known, "{comparison:?}");
        }
    }

    #[test]
    fn worse_has_a_sign() {
        assert_eq!(worse_pct(&comparison("latency_us.p99", 100.0, 90.0, true, None)), Some(-10.0));
        assert_eq!(worse_pct(&comparison("throughput.cycles_per_s", 100.0, 90.0, true, None)), Some(10.0));
        assert_eq!(worse_pct(&comparison("failed_pct", 0.0, 1.0, true, None)), Some(f64::INFINITY));
        assert_eq!(worse_pct(&Comparison::default()), None);
    }
}
