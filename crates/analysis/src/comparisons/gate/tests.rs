//! Checks of the gate: it takes both, chance and size, and says where it could not have seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
