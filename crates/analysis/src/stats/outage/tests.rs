//! Checks of the outage against made-up loads whose outage is known to the slot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use record::rows::OutcomeSlot;

use super::*;
use crate::stats::made_load::{Made, SLOT_S, near};

#[test]
fn without_an_effect_there_is_no_outage() {
    for made in [Made::even(30.0, |_| 20_000.0), Made::random(1, 30.0, |_| 20_000.0), Made::random(2, 30.0, |_| 200.0)]
    {
        let outage = made.outage(15.0);
        assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
        assert_eq!((outage.failed, outage.wrong), (0, 0));
        assert_eq!((outage.first_failure_s, outage.last_failure_s), (None, None));
        assert_eq!((outage.total_s, outage.partial_s), (Some(0.0), Some(0.0)));
        assert_eq!(outage.lost_operations, Some(0.0));
        assert!(near(outage.first_ok_s, 0.0, 0.06), "{outage:?}");
    }
}

#[test]
fn a_crash_as_in_the_article() {
    // 99 connections break at once, nothing works for 10 ms, then half for another second.
    let rate = |at_s: f64| match at_s - 15.0 {
        after if !(0.0..1.010).contains(&after) => 20_000.0,
        after if after < 0.010 => 0.0,
        _ => 10_000.0,
    };
    for made in [Made::even(30.0, rate), Made::random(3, 30.0, rate)] {
        let outage = made.failing(99, 15.0, 15.008).outage(15.0);
        assert!(near(outage.baseline_per_s, 20_000.0, 100.0), "{outage:?}");
        assert_eq!(outage.failed, 99);
        assert_eq!(outage.first_failure_s, Some(0.0));
        assert!(near(outage.last_failure_s, 0.007, 0.0011), "{outage:?}");
        assert!(near(outage.first_ok_s, 0.010, 0.0015), "{outage:?}");
        assert!(near(outage.total_s, 0.010, 0.0015), "{outage:?}");
        assert!(near(outage.partial_s, 0.0, 0.011), "{outage:?}");
        // To a twentieth of the window of 250 ms, or what its noise hides.
        assert!(near(outage.back_to_baseline_s, 1.010, 0.05), "{outage:?}");
        assert!(near(outage.lost_operations, 10_200.0, 500.0), "{outage:?}");
    }
}

#[test]
fn a_short_outage_is_not_hidden_by_the_window() {
    let rate = |at_s: f64| if (15.0..15.008).contains(&at_s) { 0.0 } else { 20_000.0 };
    let outage = Made::random(4, 30.0, rate).outage(15.0);
    assert!(near(outage.total_s, 0.008, 0.0015), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 0.008, 0.0015), "{outage:?}");
    assert!(near(outage.first_ok_s, 0.008, 0.0015), "{outage:?}");
}

#[test]
fn failures_while_throughput_holds_are_an_outage_too() {
    let outage = Made::random(5, 30.0, |_| 20_000.0).failing(50, 15.2, 17.7).outage(15.0);
    assert_eq!(outage.failed, 50);
    assert!(near(outage.first_failure_s, 0.2, 0.0015), "{outage:?}");
    assert!(near(outage.last_failure_s, 2.65, 0.0015), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 2.651, 0.0015), "{outage:?}");
    assert!(near(outage.partial_s, 0.5, 0.011), "50 bins of 10 ms: {outage:?}");
    assert_eq!(outage.total_s, Some(0.0));
}

#[test]
fn failures_that_were_there_before_are_not_the_faults() {
    let outage = Made::random(6, 30.0, |_| 20_000.0).failing(3_000, 0.0, 30.0).outage(15.0);
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
    assert_eq!(outage.failed, 0);
}

#[test]
fn what_never_recovers_says_so() {
    let half = Made::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 10_000.0 }).outage(15.0);
    assert_eq!(half.back_to_baseline_s, None);
    assert_eq!(half.total_s, Some(0.0));
    assert!(near(half.lost_operations, 150_000.0, 1.0), "until the load ends: {half:?}");
    let dead = Made::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 0.0 }).failing(150, 15.0, 30.0).outage(15.0);
    assert_eq!(dead.back_to_baseline_s, None);
    assert_eq!(dead.first_ok_s, None);
    assert_eq!(dead.failed, 150);
    // A slot in which something failed and nothing succeeded is part of the gap.
    assert!(near(dead.total_s, 15.0, 0.001), "{dead:?}");
    assert!(near(dead.lost_operations, 300_000.0, 1.0), "{dead:?}");
}

#[test]
fn the_last_second_is_too_short_to_show_recovery() {
    let outage = Made::even(30.0, |_| 20_000.0).outage(29.5);
    assert_eq!(outage.back_to_baseline_s, None);
    assert!(near(outage.lost_operations, 0.0, 1.0), "{outage:?}");
}

#[test]
fn more_than_the_baseline_is_no_outage() {
    let outage = Made::random(7, 30.0, |at_s| if at_s < 15.0 { 10_000.0 } else { 15_000.0 }).outage(15.0);
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
}

#[test]
fn a_relapse_while_the_fault_acts_counts_and_a_later_dip_does_not() {
    let dip = |from_s: f64| move |at_s: f64| if (from_s..from_s + 2.0).contains(&at_s) { 5_000.0 } else { 20_000.0 };
    let soon = Made::random(8, 60.0, dip(18.0)).outage(15.0);
    assert!(near(soon.back_to_baseline_s, 5.0, 0.05), "{soon:?}");
    let later = Made::random(8, 60.0, dip(45.0)).outage(15.0);
    assert_eq!(later.back_to_baseline_s, Some(0.0), "{later:?}");
    let made = Made::random(8, 60.0, dip(45.0));
    let healed = Times {
        at_s: 15.0,
        healed_s: Some(44.0),
        baseline_from_s: Some(0.0),
        until_s: 60.0,
        counted_until_s: 60.0,
        timeout_s: 1.0,
    };
    let outage = made.outage_of(healed);
    assert!(near(outage.back_to_baseline_s, 32.0, 0.05), "the rejoin is the fault's: {outage:?}");
}

#[test]
fn two_faults_have_an_outage_each() {
    let rate = |at_s: f64| if (10.0..10.5).contains(&at_s) || (20.0..21.0).contains(&at_s) { 0.0 } else { 8_000.0 };
    let made = Made::random(9, 30.0, rate).failing(40, 10.0, 10.5).failing(80, 20.0, 21.0);
    let times = |at_s, baseline_from_s, until_s| Times {
        at_s,
        healed_s: None,
        baseline_from_s: Some(baseline_from_s),
        until_s,
        counted_until_s: until_s,
        timeout_s: 1.0,
    };
    let (first, second) = (made.outage_of(times(10.0, 2.0, 20.0)), made.outage_of(times(20.0, 11.5, 30.0)));
    assert_eq!((first.failed, second.failed), (40, 80));
    assert!(near(first.total_s, 0.5, 0.002) && near(second.total_s, 1.0, 0.002), "{first:?} {second:?}");
    assert!(near(first.back_to_baseline_s, 0.5, 0.02) && near(second.back_to_baseline_s, 1.0, 0.02));
    assert!(near(second.baseline_per_s, 8_000.0, 200.0), "{second:?}");
}

#[test]
fn without_a_baseline_only_what_was_counted_is_said() {
    let made = Made::even(10.0, |_| 1_000.0).failing(7, 5.0, 5.1);
    let times = |baseline_from_s| Times {
        at_s: 5.0,
        healed_s: None,
        baseline_from_s,
        until_s: 10.0,
        counted_until_s: 10.0,
        timeout_s: 1.0,
    };
    for outage in [made.outage_of(times(None)), made.outage_of(times(Some(4.8)))] {
        assert_eq!((outage.baseline_per_s, outage.back_to_baseline_s), (None, None));
        assert_eq!((outage.total_s, outage.lost_operations), (None, None));
        assert_eq!(outage.failed, 7);
    }
}

#[test]
fn a_slow_target_gets_longer_windows() {
    // 4 operations a second: 250 ms hold one, which says nothing.
    let made = Made::random(10, 120.0, |at_s| if (60.0..75.0).contains(&at_s) { 0.0 } else { 4.0 });
    let outage = made.outage(60.0);
    assert!(near(outage.total_s, 15.0, 1.0), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 15.0, 3.0), "{outage:?}");
}

#[test]
fn a_system_that_stalls_by_itself_is_not_blamed_on_the_fault() {
    let stalls = |at_s: f64| if at_s.rem_euclid(2.0) < 0.03 { 0.0 } else { 20_000.0 };
    let outage = Made::random(11, 40.0, stalls).outage(21.0);
    assert_eq!(outage.total_s, Some(0.0), "{outage:?}");
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
}

#[test]
fn a_longer_stall_than_before_is_only_the_faults_if_it_comes_at_once() {
    let stalls = |long_s: f64, at_s: f64| {
        move |now_s: f64| {
            let stalled = (8.0..8.012).contains(&now_s) || (at_s..at_s + long_s).contains(&now_s);
            if stalled { 0.0 } else { 20_000.0 }
        }
    };
    let later = Made::random(12, 40.0, stalls(0.026, 20.7)).outage(15.0);
    assert_eq!((later.total_s, later.back_to_baseline_s), (Some(0.0), Some(0.0)), "{later:?}");
    let at_once = Made::random(12, 40.0, stalls(0.026, 15.001)).outage(15.0);
    assert!(near(at_once.back_to_baseline_s, 0.027, 0.002), "{at_once:?}");
    let far_longer = Made::random(12, 40.0, stalls(0.060, 20.7)).outage(15.0);
    assert!(near(far_longer.back_to_baseline_s, 5.76, 0.002), "{far_longer:?}");
    let failing = Made::random(12, 40.0, stalls(0.010, 17.0)).failing(5, 17.0, 17.01).outage(15.0);
    assert!(near(failing.total_s, 0.010, 0.002), "{failing:?}");
}

proptest! {
    // Always the same cases: noise makes a false alarm in about one of five thousand outages, and a test must not.
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn an_outage_of_any_length_is_found(
        seed in 0_u64..1_000_000,
        rate in 2_000.0..50_000.0_f64,
        long_ms in 15_u32..3_000,
        failed in 0_u32..200,
    ) {
        let long_s = f64::from(long_ms) / 1e3;
        let made = Made::random(seed, 20.0, |at_s| if (10.0..10.0 + long_s).contains(&at_s) { 0.0 } else { rate });
        let outage = made.failing(failed, 10.0, 10.0 + long_s).outage(10.0);
        prop_assert_eq!(outage.failed, u64::from(failed));
        prop_assert!(near(outage.total_s, long_s, 0.006), "{outage:?}");
        prop_assert!(near(outage.first_ok_s, long_s, 0.006), "{outage:?}");
        prop_assert!(near(outage.back_to_baseline_s, long_s, 0.04), "{outage:?}");
        prop_assert!(near(outage.lost_operations, rate * long_s, 0.1 * rate * long_s + 0.02 * rate), "{outage:?}");
    }

    #[test]
    fn any_rows_give_an_answer(
        rows in proptest::collection::vec((0_u32..20_000, 0_u32..50, 0_u32..3, 0_u32..3), 1..400),
        at_s in -1.0..25.0_f64,
        until_s in -1.0..25.0_f64,
    ) {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(slot, ok, failed, wrong)| OutcomeSlot {
                at_s: f64::from(slot) * SLOT_S, slot_s: SLOT_S, ok, failed, timeout: 0, wrong,
            })
            .collect();
        let times = Times {
            at_s, healed_s: Some(at_s + 1.0), baseline_from_s: Some(0.0), until_s, counted_until_s: 21.0, timeout_s: 1.0,
        };
        let outage = outage(&Timeline::of(&rows).unwrap(), &LatencySeconds::default(), times);
        prop_assert!(outage.total_s.is_none_or(|total_s| total_s >= 0.0));
        prop_assert!(outage.back_to_baseline_s.is_none_or(|back_s| back_s >= 0.0));
    }
}

#[test]
fn a_time_of_ages_hence_is_not_walked_to() {
    let made = Made::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 0.0 });
    let timeline = made.timeline();
    for late_s in [4_294_967_296.0, 1e15, f64::INFINITY, f64::NAN] {
        let times = Times {
            at_s: 15.0,
            healed_s: Some(late_s),
            baseline_from_s: Some(0.0),
            until_s: late_s,
            counted_until_s: late_s,
            timeout_s: 1.0,
        };
        let outage = outage(&timeline, &LatencySeconds::default(), times);
        assert_eq!(outage.back_to_baseline_s, None, "{late_s}");
        assert_eq!(outage.failed, 0);
    }
}

/// Of a load of an hour only what is around the outage is in slots of a millisecond, and yet its figures are those of the whole in such
/// slots.
#[test]
fn narrow_slots_around_it_are_enough_to_measure_an_outage_in_a_long_load() {
    const FAULT_S: f64 = 500.0;
    let down = FAULT_S..FAULT_S + 2.345;
    let made = Made::random(11, 1_200.0, |at_s| if down.contains(&at_s) { 0.0 } else { 3_000.0 });
    let made = made.failing(40, FAULT_S + 0.004, FAULT_S + 2.3);
    let times = Times {
        at_s: FAULT_S,
        healed_s: None,
        baseline_from_s: Some(0.0),
        until_s: 1_200.0,
        counted_until_s: 1_200.0,
        timeout_s: 1.0,
    };
    let exact = outage(&Timeline::of(&made.rows).unwrap(), &LatencySeconds::default(), times);
    let mut wide: Vec<OutcomeSlot> = Vec::new();
    for row in &made.rows {
        let number = (row.at_s * 10.0 + 1e-6).floor();
        match wide.last_mut().filter(|last| (last.at_s * 10.0).round() == number) {
            Some(last) => {
                last.ok += row.ok;
                last.failed += row.failed;
            }
            None => wide.push(OutcomeSlot { at_s: number / 10.0, slot_s: 0.1, ..*row }),
        }
    }
    let near = |row: &&OutcomeSlot| (FAULT_S - 11.0..FAULT_S + 15.0).contains(&row.at_s) && row.ok + row.failed > 0;
    let narrow: Vec<OutcomeSlot> = made.rows.iter().filter(near).copied().collect();
    let timeline = Timeline::refined(&wide, &narrow).unwrap();
    assert!(timeline.whole().is_some());
    let found = outage(&timeline, &LatencySeconds::default(), times);
    assert_eq!(found, exact);
    assert!((exact.back_to_baseline_s.unwrap() - 2.345).abs() < 0.03, "{exact:?}");
    // Without them an onset is told to a wide slot.
    let coarse = outage(&Timeline::of(&wide).unwrap(), &LatencySeconds::default(), times);
    assert!(coarse.total_s != exact.total_s);
}
