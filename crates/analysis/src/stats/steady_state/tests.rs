//! Checks of the warm-up rule on throughput whose warm-up is known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::rows::OutcomeSlot;

use super::*;

/// A timeline of 10 ms slots whose rate at each moment is `rate`, with up to `noise` (relative) on each slot.
fn timeline(length_s: f64, noise: f64, rate: impl Fn(f64) -> f64) -> Timeline {
    let mut random = fastrand::Rng::with_seed(7);
    let slots = (length_s * 100.0) as usize;
    let row = |slot: usize| {
        let at_s = slot as f64 / 100.0;
        let ok = rate(at_s) * 0.01 * (1.0 + noise * (2.0 * random.f64() - 1.0));
        OutcomeSlot { at_s, slot_s: 0.01, ok: ok.round() as u32, ..OutcomeSlot::default() }
    };
    Timeline::of(&(0..slots).map(row).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_flat_load_is_steady_from_the_end_of_the_ramp() {
    let (from_s, steady) = steady_from(&timeline(30.0, 0.1, |_| 20_000.0), 2.0, 30.0);
    assert_eq!(steady, Some(true));
    assert!((2.0..8.0).contains(&from_s), "{from_s}");
}

#[test]
fn a_warm_up_is_cut_off() {
    for noise in [0.0, 0.05, 0.3] {
        let warm = |at_s: f64| 20_000.0 * (1.0 - 0.5 * (-at_s / 2.0).exp());
        let (from_s, steady) = steady_from(&timeline(60.0, noise, warm), 0.0, 60.0);
        assert_eq!(steady, Some(true), "noise {noise}");
        assert!((3.0..20.0).contains(&from_s), "noise {noise}: {from_s}");
        let (from_s, steady) =
            steady_from(&timeline(30.0, noise, |at_s| if at_s < 5.0 { 8_000.0 } else { 20_000.0 }), 1.0, 30.0);
        assert_eq!(steady, Some(true), "noise {noise}");
        assert!((4.9..10.0).contains(&from_s), "noise {noise}: {from_s}");
    }
}

#[test]
fn what_keeps_moving_is_not_steady() {
    for noise in [0.0, 0.05] {
        let (from_s, steady) = steady_from(&timeline(30.0, noise, |at_s| 5_000.0 + 500.0 * at_s), 0.0, 30.0);
        assert_eq!(steady, Some(false), "noise {noise}");
        assert!(from_s <= 15.0, "at most half is cut off: {from_s}");
    }
}

#[test]
fn a_short_load_is_judged_without_batches_and_a_very_short_one_not_at_all() {
    let (from_s, steady) = steady_from(&timeline(3.0, 0.05, |at_s| if at_s < 0.5 { 0.0 } else { 9_000.0 }), 0.0, 3.0);
    assert_eq!(steady, Some(true));
    assert!((0.49..1.5).contains(&from_s), "{from_s}");
    assert_eq!(steady_from(&timeline(0.9, 0.0, |_| 9_000.0), 0.0, 0.9), (0.0, None));
    assert_eq!(steady_from(&timeline(5.0, 0.0, |_| 9_000.0), 6.0, 5.0), (6.0, None));
}
