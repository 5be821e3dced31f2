//! Checks of the outage analysis against synthetic loads whose outage is known to the slot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use record::rows::OutcomeSlot;

use super::{FaultTimes, *};
use crate::synthetic::{SLOT_S, SyntheticLoad, autoregressive, fault_times, near, normal};

/// A rate that changes to `during` between two times.
fn changed(from_s: f64, until_s: f64, during: f64, usual: f64) -> impl Fn(f64) -> f64 {
    move |at_s| if (from_s..until_s).contains(&at_s) { during } else { usual }
}

#[test]
fn a_fault_without_effect_has_no_outage() {
    for made in [
        SyntheticLoad::even(30.0, |_| 20_000.0),
        SyntheticLoad::random(1, 30.0, |_| 20_000.0),
        SyntheticLoad::random(2, 30.0, |_| 200.0),
    ] {
        let outage = made.outage(15.0);
        assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
        assert_eq!((outage.failed, outage.wrong), (0, 0));
        assert_eq!((outage.first_failure_s, outage.last_failure_s), (None, None));
        assert_eq!((outage.total_s, outage.partial_s), (Some(0.0), Some(0.0)));
        assert_eq!(outage.lost_operations, Some(0.0));
        assert!(near(outage.first_ok_s, 0.0, 0.06), "{outage:?}");
    }
}

/// The rate of a crash at 15 s: nothing works for 10 ms, then half works for another second.
fn crashed(at_s: f64) -> f64 {
    match at_s - 15.0 {
        after if !(0.0..1.010).contains(&after) => 20_000.0,
        after if after < 0.010 => 0.0,
        _ => 10_000.0,
    }
}

#[test]
fn a_crash_with_partial_recovery_is_measured() {
    // 99 connections break at once.
    for made in [SyntheticLoad::even(30.0, crashed), SyntheticLoad::random(3, 30.0, crashed)] {
        let outage = made.failing(99, 15.0, 15.008).outage(15.0);
        assert!(near(outage.baseline_per_s, 20_000.0, 100.0), "{outage:?}");
        assert_eq!(outage.failed, 99);
        assert_eq!(outage.first_failure_s, Some(0.0));
        assert!(near(outage.last_failure_s, 0.007, 0.0011), "{outage:?}");
        assert!(near(outage.first_ok_s, 0.010, 0.0015), "{outage:?}");
        assert!(near(outage.total_s, 0.010, 0.0015), "{outage:?}");
        assert!(near(outage.partial_s, 0.0, 0.011), "{outage:?}");
        // Within a twentieth of the window of 250 ms, or the noise.
        assert!(near(outage.back_to_baseline_s, 1.010, 0.05), "{outage:?}");
        assert!(near(outage.lost_operations, 10_200.0, 500.0), "{outage:?}");
    }
}

#[test]
fn a_short_outage_is_not_hidden_by_the_window() {
    let outage = SyntheticLoad::random(4, 30.0, changed(15.0, 15.008, 0.0, 20_000.0)).outage(15.0);
    assert!(near(outage.total_s, 0.008, 0.0015), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 0.008, 0.0015), "{outage:?}");
    assert!(near(outage.first_ok_s, 0.008, 0.0015), "{outage:?}");
}

#[test]
fn a_stall_long_after_an_unnoticed_fault_is_unrelated() {
    // A stall just after the fault likely belongs to the fault; so does a stall that lasts, and one
    // with failures.
    for (from_s, until_s, failed, back_s) in
        [(21.0, 21.018, 0, 0.0), (15.2, 15.218, 0, 0.218), (21.0, 21.4, 0, 6.4), (21.0, 21.018, 5, 6.018)]
    {
        let made = SyntheticLoad::random(7, 40.0, changed(from_s, until_s, 0.0, 20_000.0));
        let outage = made.failing(failed, 21.0, 21.01).outage(15.0);
        assert!(near(outage.back_to_baseline_s, back_s, 0.002), "{outage:?}");
        assert_eq!(outage.is_noticed(), back_s > 0.0, "{outage:?}");
        assert!(back_s > 0.0 || (outage.back_to_baseline_s, outage.total_s) == (Some(0.0), Some(0.0)), "{outage:?}");
    }
}

#[test]
fn a_short_stall_long_after_an_outage_is_not_its_relapse() {
    let made = SyntheticLoad::random(7, 40.0, |at_s| {
        if (15.0..16.0).contains(&at_s) || (21.0..21.1).contains(&at_s) { 0.0 } else { 20_000.0 }
    });
    assert!(near(made.outage(15.0).back_to_baseline_s, 1.0, 0.002));
    let healed = FaultTimes { healed_s: Some(21.0), ..fault_times(15.0, 40.0) };
    assert!(near(made.outage_of(healed).back_to_baseline_s, 6.1, 0.002), "the end of the fault may be its cause");
}

#[test]
fn failures_at_full_throughput_are_an_outage() {
    let outage = SyntheticLoad::random(5, 30.0, |_| 20_000.0).failing(50, 15.2, 17.7).outage(15.0);
    assert_eq!(outage.failed, 50);
    assert!(near(outage.first_failure_s, 0.2, 0.0015), "{outage:?}");
    assert!(near(outage.last_failure_s, 2.65, 0.0015), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 2.651, 0.0015), "{outage:?}");
    assert!(near(outage.partial_s, 0.5, 0.011), "50 bins of 10 ms: {outage:?}");
    assert_eq!(outage.total_s, Some(0.0));
}

#[test]
fn usual_failures_are_not_blamed_on_the_fault() {
    let outage = SyntheticLoad::random(6, 30.0, |_| 20_000.0).failing(3_000, 0.0, 30.0).outage(15.0);
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
    assert_eq!(outage.failed, 0);
}

#[test]
fn a_missing_recovery_is_reported() {
    let half = SyntheticLoad::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 10_000.0 }).outage(15.0);
    assert_eq!(half.back_to_baseline_s, None);
    assert_eq!(half.total_s, Some(0.0));
    assert!(near(half.lost_operations, 150_000.0, 1.0), "until the load ends: {half:?}");
    let dead = SyntheticLoad::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 0.0 })
        .failing(150, 15.0, 30.0)
        .outage(15.0);
    assert_eq!(dead.back_to_baseline_s, None);
    assert_eq!(dead.first_ok_s, None);
    assert_eq!(dead.failed, 150);
    // A slot with failures and no success is part of the gap.
    assert!(near(dead.total_s, 15.0, 0.001), "{dead:?}");
    assert!(near(dead.lost_operations, 300_000.0, 1.0), "{dead:?}");
}

#[test]
fn the_last_second_is_too_short_to_show_recovery() {
    let outage = SyntheticLoad::even(30.0, |_| 20_000.0).outage(29.5);
    assert_eq!(outage.back_to_baseline_s, None);
    assert!(near(outage.lost_operations, 0.0, 1.0), "{outage:?}");
}

/// The windows of 500 operations per second are 2 s long, and two of them do not fit.
#[test]
fn recovery_shortly_before_the_end_is_found() {
    for left_s in [1.1, 1.7, 2.4, 3.2, 3.9] {
        let end_s = 10.3 + left_s;
        let down = || changed(8.0, 10.3, 0.0, 500.0);
        for made in [SyntheticLoad::even(end_s, down()), SyntheticLoad::random(12, end_s, down())] {
            let outage = made.failing(1_150, 8.0, 10.3).outage(8.0);
            assert!(near(outage.back_to_baseline_s, 2.3, 0.02), "{left_s}: {outage:?}");
        }
        let weak = SyntheticLoad::even(end_s + 3.0, |at_s| match at_s {
            at_s if (8.0..10.3).contains(&at_s) => 0.0,
            at_s if at_s >= 10.3 => 400.0,
            _ => 500.0,
        });
        assert_eq!(weak.outage(8.0).back_to_baseline_s, None, "four fifths is not all, {left_s}");
    }
    let late = SyntheticLoad::even(11.0, changed(8.0, 10.3, 0.0, 500.0));
    assert_eq!(late.outage(8.0).back_to_baseline_s, None, "0.7 s say nothing");
}

#[test]
fn an_earlier_baseline_is_used_if_needed() {
    let made = SyntheticLoad::even(30.0, changed(10.0, 14.0, 0.0, 8_000.0));
    let times = FaultTimes { baseline_from_s: None, earlier_baseline_s: Some([2.0, 10.0]), ..fault_times(12.0, 30.0) };
    let outage = made.outage_of(times);
    assert_eq!((outage.baseline_s, outage.back_to_baseline_s), (Some([2.0, 10.0]), Some(2.0)), "{outage:?}");
    let own = made.outage_of(FaultTimes { at_s: 20.0, baseline_from_s: Some(15.0), ..times });
    assert_eq!(own.baseline_s, Some([15.0, 20.0]), "its own comes first");
}

#[test]
fn throughput_above_the_baseline_is_no_outage() {
    let outage = SyntheticLoad::random(7, 30.0, |at_s| if at_s < 15.0 { 10_000.0 } else { 15_000.0 }).outage(15.0);
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
}

#[test]
fn a_relapse_counts_and_a_later_dip_does_not() {
    let soon = SyntheticLoad::random(8, 60.0, changed(18.0, 20.0, 5_000.0, 20_000.0)).outage(15.0);
    assert!(near(soon.back_to_baseline_s, 5.0, 0.05), "{soon:?}");
    let made = SyntheticLoad::random(8, 60.0, changed(45.0, 47.0, 5_000.0, 20_000.0));
    let later = made.outage(15.0);
    assert_eq!(later.back_to_baseline_s, Some(0.0), "{later:?}");
    let outage = made.outage_of(FaultTimes { healed_s: Some(44.0), ..fault_times(15.0, 60.0) });
    assert!(near(outage.back_to_baseline_s, 32.0, 0.05), "the rejoin is the fault's: {outage:?}");
}

#[test]
fn two_faults_have_an_outage_each() {
    let made = SyntheticLoad::random(9, 30.0, |at_s| {
        if (10.0..10.5).contains(&at_s) || (20.0..21.0).contains(&at_s) { 0.0 } else { 8_000.0 }
    });
    let made = made.failing(40, 10.0, 10.5).failing(80, 20.0, 21.0);
    let [first, second] = [(10.0, 2.0, 20.0), (20.0, 11.5, 30.0)].map(|(at_s, from_s, until_s)| {
        made.outage_of(FaultTimes { baseline_from_s: Some(from_s), ..fault_times(at_s, until_s) })
    });
    assert_eq!((first.failed, second.failed), (40, 80));
    assert!(near(first.total_s, 0.5, 0.002) && near(second.total_s, 1.0, 0.002), "{first:?} {second:?}");
    assert!(near(first.back_to_baseline_s, 0.5, 0.02) && near(second.back_to_baseline_s, 1.0, 0.02));
    assert!(near(second.baseline_per_s, 8_000.0, 200.0), "{second:?}");
}

#[test]
fn an_outage_without_a_baseline_has_only_counts() {
    let made = SyntheticLoad::even(10.0, |_| 1_000.0).failing(7, 5.0, 5.1);
    for baseline_from_s in [None, Some(4.8)] {
        let outage = made.outage_of(FaultTimes { baseline_from_s, ..fault_times(5.0, 10.0) });
        assert_eq!((outage.baseline_per_s, outage.back_to_baseline_s), (None, None));
        assert_eq!((outage.total_s, outage.lost_operations), (None, None));
        assert_eq!(outage.failed, 7);
    }
}

#[test]
fn a_slow_target_gets_longer_windows() {
    // 4 operations per second: 250 ms hold one, which proves nothing.
    let outage = SyntheticLoad::random(10, 120.0, changed(60.0, 75.0, 0.0, 4.0)).outage(60.0);
    assert!(near(outage.total_s, 15.0, 1.0), "{outage:?}");
    assert!(near(outage.back_to_baseline_s, 15.0, 3.0), "{outage:?}");
}

#[test]
fn regular_stalls_are_not_blamed_on_the_fault() {
    let outage = SyntheticLoad::random(11, 40.0, |at_s| 20_000.0 * paused(at_s, 2.0, 0.03, 0.0)).outage(21.0);
    assert_eq!(outage.total_s, Some(0.0), "{outage:?}");
    assert_eq!(outage.back_to_baseline_s, Some(0.0), "{outage:?}");
}

#[test]
fn a_slightly_longer_stall_must_follow_the_fault_closely() {
    let [later, at_once, far_longer, failing] =
        [(0.026, 20.7, 0), (0.026, 15.001, 0), (0.300, 20.7, 0), (0.010, 17.0, 5)].map(|(long_s, from_s, failed)| {
            let made = SyntheticLoad::random(12, 40.0, |at_s| {
                let stalled = (8.0..8.012).contains(&at_s) || (from_s..from_s + long_s).contains(&at_s);
                if stalled { 0.0 } else { 20_000.0 }
            });
            made.failing(failed, 17.0, 17.01).outage(15.0)
        });
    assert_eq!((later.total_s, later.back_to_baseline_s), (Some(0.0), Some(0.0)), "{later:?}");
    assert!(near(at_once.back_to_baseline_s, 0.027, 0.002), "{at_once:?}");
    assert!(near(far_longer.back_to_baseline_s, 6.0, 0.002), "{far_longer:?}");
    assert!(near(failing.total_s, 0.010, 0.002), "{failing:?}");
}

proptest! {
    // Always the same cases: noise causes a false alarm in about one of five thousand outages, and
    // a test must not fail by chance.
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn an_outage_of_any_length_is_found(
        seed in 0_u64..1_000_000,
        rate in 2_000.0..50_000.0_f64,
        long_ms in 15_u32..3_000,
        failed in 0_u32..200,
    ) {
        let long_s = f64::from(long_ms) / 1e3;
        let made = SyntheticLoad::random(seed, 20.0, changed(10.0, 10.0 + long_s, 0.0, rate));
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
        let times = FaultTimes {
            healed_s: Some(at_s + 1.0), earlier_baseline_s: Some([1.0, 3.0]), counted_until_s: 21.0,
            ..fault_times(at_s, until_s)
        };
        let outage = outage(&Timeline::of(&rows).unwrap(), &LatencySeconds::default(), times);
        prop_assert!(outage.total_s.is_none_or(|total_s| total_s >= 0.0));
        prop_assert!(outage.back_to_baseline_s.is_none_or(|back_s| back_s >= 0.0));
    }
}

#[test]
fn very_late_times_cause_no_endless_loop() {
    let made = SyntheticLoad::even(30.0, |at_s| if at_s < 15.0 { 20_000.0 } else { 0.0 });
    let timeline = made.timeline();
    for late_s in [4_294_967_296.0, 1e15, f64::INFINITY, f64::NAN] {
        let times = FaultTimes { healed_s: Some(late_s), ..fault_times(15.0, late_s) };
        let outage = outage(&timeline, &LatencySeconds::default(), times);
        assert_eq!(outage.back_to_baseline_s, None, "{late_s}");
        assert_eq!(outage.failed, 0);
    }
}

/// In a load of an hour only the time around the outage is in slots of a millisecond, and the
/// figures are still those of a load that is entirely in such slots.
#[test]
fn narrow_slots_around_an_outage_suffice() {
    const FAULT_S: f64 = 250.0;
    let made = SyntheticLoad::random(11, 600.0, changed(FAULT_S, FAULT_S + 2.345, 0.0, 3_000.0));
    let made = made.failing(40, FAULT_S + 0.004, FAULT_S + 2.3);
    let times = fault_times(FAULT_S, 600.0);
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
    let around = (FAULT_S - 11.0)..(FAULT_S + 15.0);
    let narrow = made.rows.iter().filter(|row| around.contains(&row.at_s) && row.ok + row.failed > 0);
    let narrow: Vec<OutcomeSlot> = narrow.copied().collect();
    let timeline = Timeline::refined(&wide, &narrow).unwrap();
    assert!(timeline.whole().is_some());
    let found = outage(&timeline, &LatencySeconds::default(), times);
    assert_eq!(found, exact);
    assert!((exact.back_to_baseline_s.unwrap() - 2.345).abs() < 0.03, "{exact:?}");
    // Without narrow slots an onset is known only to a wide slot.
    let coarse = outage(&Timeline::of(&wide).unwrap(), &LatencySeconds::default(), times);
    assert!(coarse.total_s != exact.total_s);
}

/// A scripted outage.
#[derive(Debug, Clone)]
struct Script {
    seed: u64,
    /// Operations per second, in total.
    rate: f64,
    /// Start of the outage.
    at_s: f64,
    /// Time in which no operation succeeds and all fail.
    total_s: f64,
    /// Share of operations that fail next, and for how long.
    partial: (f64, f64),
    /// Share of throughput that follows without failures, and for how long.
    slow: (f64, f64),
}

impl Script {
    fn end_s(&self) -> f64 {
        self.total_s + self.partial.1 + self.slow.1
    }

    /// Runs the script. Also returns the number of failed operations, and the first and the last
    /// slot with a failure.
    fn play(&self) -> (SyntheticLoad, u64, [Option<f64>; 2]) {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut failed = 0;
        let mut slots: [Option<f64>; 2] = [None, None];
        let all = SyntheticLoad::random(self.seed ^ 0xbeef, 30.0, |_| self.rate);
        let mut rows: Vec<OutcomeSlot> = all.rows;
        for row in &mut rows {
            let after_s = row.at_s + SLOT_S / 2.0 - self.at_s;
            let [until_partial_s, until_slow_s] = [self.total_s, self.total_s + self.partial.1];
            let fails = match after_s {
                s if s < 0.0 || s >= self.end_s() => continue,
                s if s < until_partial_s => row.ok,
                s if s < until_slow_s => share(&mut random, row.ok, self.partial.0),
                _ => {
                    row.ok -= share(&mut random, row.ok, 1.0 - self.slow.0);
                    0
                }
            };
            row.ok -= fails;
            row.failed = fails;
            failed += u64::from(fails);
            if fails > 0 {
                slots = [slots[0].or(Some(row.at_s - self.at_s)), Some(row.at_s - self.at_s)];
            }
        }
        (SyntheticLoad { rows, latency: LatencySeconds::default() }, failed, slots)
    }
}

fn share(random: &mut fastrand::Rng, of: u32, share: f64) -> u32 {
    (0..of).filter(|_| random.f64() < share).count() as u32
}

fn script() -> impl Strategy<Value = Script> {
    let kinds = prop_oneof![
        (0.3..5.0_f64).prop_map(|total_s| (total_s, (0.0, 0.0), (1.0, 0.0))),
        (0.2..0.9_f64, 0.5..5.0_f64).prop_map(|partial| (0.0, partial, (1.0, 0.0))),
        (0.1..0.7_f64, 1.0..5.0_f64).prop_map(|slow| (0.0, (0.0, 0.0), slow)),
        (0.3..3.0_f64, (0.2..0.9_f64, 0.5..2.0_f64), (0.1..0.7_f64, 1.0..4.0_f64))
            .prop_map(|(total_s, partial, slow)| (total_s, partial, slow)),
    ];
    (0_u64..1_000_000, 5_000.0..20_000.0_f64, 11.0..15.0_f64, kinds).prop_map(
        |(seed, rate, at_s, (total_s, partial, slow))| {
            let times_s = [at_s, total_s, partial.1, slow.1];
            let [at_s, total_s, partial_s, slow_s] = times_s.map(|time_s| (time_s / SLOT_S).round() * SLOT_S);
            Script { seed, rate, at_s, total_s, partial: (partial.0, partial_s), slow: (slow.0, slow_s) }
        },
    )
}

proptest! {
    // Always the same cases: chance may move an edge further than it does here, and a test must not
    // fail by chance.
    #![proptest_config(ProptestConfig { cases: 16, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn any_outage_is_measured_accurately(script in script()) {
        let (made, failed, [first_s, last_s]) = script.play();
        let felt = made.outage(script.at_s);
        let within = |truth_s: f64| (0.01 * truth_s).max(2.0 * SLOT_S) + 1e-9;
        prop_assert_eq!(felt.failed, failed);
        for (found_s, truth_s) in [(felt.first_failure_s, first_s), (felt.last_failure_s, last_s)] {
            prop_assert!(found_s == truth_s || near(found_s, truth_s.unwrap(), 1e-5), "{felt:?}");
        }
        let end_s = script.end_s();
        prop_assert!(near(felt.back_to_baseline_s, end_s, within(end_s)), "{end_s}: {felt:?}");
        prop_assert!(near(felt.total_s, script.total_s, within(script.total_s)), "{felt:?}");
        if script.total_s > 0.0 {
            prop_assert!(near(felt.first_ok_s, script.total_s, within(script.total_s)), "{felt:?}");
        }
        let (slow_s, partial_s) = (script.slow.1, script.partial.1);
        // Bins of 10 ms, and half a window at a border with another part of the script.
        let borders = script.total_s + partial_s > 0.0;
        prop_assert!(near(felt.partial_s, partial_s, within(partial_s) + 0.011), "{felt:?}");
        prop_assert!(near(felt.degraded_s, slow_s, within(slow_s) + if borders { 0.2 } else { 0.0 }), "{felt:?}");
        let lost = script.rate * (script.total_s + script.partial.0 * partial_s + (1.0 - script.slow.0) * slow_s);
        let [low, high] = felt.lost_operations_ci95.unwrap();
        prop_assert!((low - 0.01 * lost..=high + 0.01 * lost).contains(&lost), "{lost}: {felt:?}");
    }
}

/// A Poisson stream whose rate wanders around 5,000/s: noise of 10 % with a correlation time of
/// about 200 ms.
fn wandering(seed: u64, length_s: f64) -> SyntheticLoad {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let steps = (length_s / 0.01) as usize + 1;
    let kept = (-0.01_f64 / 0.2).exp();
    let mut off = 0.0;
    let rates: Vec<f64> = (0..steps)
        .map(|_| {
            let normal = (0..12).map(|_| random.f64() - 0.5).sum::<f64>();
            off = kept * off + (1.0_f64 - kept * kept).sqrt() * normal;
            5_000.0 * (1.0 + 0.1 * off)
        })
        .collect();
    SyntheticLoad::random(seed, length_s, |at_s| rates[(at_s / 0.01) as usize].max(0.0))
}

/// Counts, over 25 loads, the intervals of the baseline that contain the true rate, and the
/// intervals of the losses that contain the true loss in an outage of `down_s`.
fn holding(make: impl Fn(u64) -> SyntheticLoad, down_s: f64) -> [usize; 2] {
    let mut holds = [0, 0];
    for seed in 0..25 {
        let mut made = make(seed);
        let mut lost = 0;
        for row in made.rows.iter_mut().filter(|row| row.at_s > 11.9995 && row.at_s < 11.9995 + down_s) {
            lost += row.ok;
            row.ok = 0;
        }
        let felt = made.failing(1, 12.0, 12.001).outage(12.0);
        let [low, high] = felt.baseline_ci95.unwrap();
        holds[0] += usize::from((low..=high).contains(&5_000.0));
        // The true loss is that of the outage's slots, so the found outage must have nearly these
        // slots.
        assert!(near(felt.total_s, down_s, 0.006), "{felt:?}");
        let [low, high] = felt.lost_operations_ci95.unwrap();
        holds[1] += usize::from((low..=high).contains(&f64::from(lost)));
    }
    holds
}

#[test]
fn loss_intervals_have_coverage_at_a_constant_rate() {
    for down_s in [0.05, 3.0] {
        let holds = holding(|seed| SyntheticLoad::random(seed, 17.0, |_| 5_000.0), down_s);
        assert!(holds.iter().all(|&holds| holds >= 21), "{holds:?} of 25 with {down_s} s");
    }
}

#[test]
fn loss_intervals_have_coverage_at_a_wandering_rate() {
    for down_s in [0.05, 3.0] {
        let holds = holding(|seed| wandering(seed, 17.0), down_s);
        assert!(holds.iter().all(|&holds| holds >= 21), "{holds:?} of 25 with {down_s} s");
    }
}

#[test]
fn a_load_without_an_outage_loses_exactly_nothing() {
    let felt = SyntheticLoad::random(1, 20.0, |_| 5_000.0).outage(12.0);
    assert_eq!((felt.lost_operations, felt.lost_operations_ci95), (Some(0.0), Some([0.0, 0.0])));
}

#[test]
fn losses_without_recovery_count_to_the_end() {
    let felt = SyntheticLoad::random(3, 20.0, |at_s| if at_s < 12.0 { 5_000.0 } else { 2_000.0 }).outage(12.0);
    let [low, high] = felt.lost_operations_ci95.unwrap();
    assert!(low < 24_000.0 && 24_000.0 < high && high - low < 3_000.0, "{felt:?}");
}

/// Returns the outage of a fault at 12 s that was healed at `healed_s`.
fn healed(made: &SyntheticLoad, healed_s: f64) -> Outage {
    made.outage_of(FaultTimes { healed_s: Some(healed_s), ..fault_times(12.0, 40.0) })
}

#[test]
fn a_slow_processor_costs_throughput() {
    let made = SyntheticLoad::random(1, 40.0, changed(12.0, 18.5, 4_000.0, 10_000.0));
    let felt = healed(&made, 18.5);
    assert!(near(felt.back_to_baseline_s, 6.5, 0.02), "{felt:?}");
    assert!(near(felt.degraded_s, 6.5, 0.02), "{felt:?}");
    assert_eq!((felt.failed, felt.total_s, felt.partial_s), (0, Some(0.0), Some(0.0)));
    assert!(near(felt.lost_operations, 39_000.0, 1_500.0), "{felt:?}");
}

#[test]
fn a_slow_disk_acts_late_and_beyond_its_healing() {
    let made = SyntheticLoad::random(2, 40.0, changed(15.0, 21.0, 1_000.0, 10_000.0));
    let felt = healed(&made, 20.0);
    assert!(near(felt.back_to_baseline_s, 9.0, 0.02), "{felt:?}");
    assert!(near(felt.degraded_s, 6.0, 0.125), "what was well before is not degraded: {felt:?}");
}

#[test]
fn a_slow_link_under_a_fixed_rate_shows_in_latency_alone() {
    for (healed_s, seed) in [(17.0, 3), (17.4, 4), (17.8, 5), (14.6, 6)] {
        let made = SyntheticLoad::even(40.0, |_| 2_000.0).taking(seed, changed(12.0, healed_s, 5_000.0, 800.0));
        let felt = healed(&made, healed_s);
        assert!(near(felt.back_to_baseline_s, healed_s - 12.0, 0.1), "{healed_s}: {felt:?}");
        assert!(near(felt.degraded_s, healed_s - 12.0, 0.1), "{healed_s}: {felt:?}");
        assert!(near(felt.lost_operations, 0.0, 10.0), "{felt:?}");
    }
}

#[test]
fn a_lossy_link_shows_in_the_tail() {
    // Three of a hundred operations wait for a retransmission.
    let made = SyntheticLoad::even(40.0, |_| 2_000.0).taking(7, |at_s| {
        let slow = (12.0..20.0).contains(&at_s) && (at_s * 1e3).round().rem_euclid(33.0) < 1.0;
        if slow { 200_000.0 } else { 800.0 }
    });
    let felt = healed(&made, 20.0);
    assert!(near(felt.back_to_baseline_s, 8.0, 0.3), "{felt:?}");
    assert!(near(felt.degraded_s, 8.0, 0.3), "{felt:?}");
}

#[test]
fn occasional_slow_seconds_are_no_degradation() {
    // Stalls of 80 ms, during which a fixed rate piles up: many in the seconds after the fault,
    // none before it.
    let made = SyntheticLoad::even(40.0, |_| 2_000.0).taking(8, |at_s| {
        let stall = [13.2, 13.6, 16.4].into_iter().find(|from_s| (*from_s..from_s + 0.08).contains(&at_s));
        stall.map_or(800.0, |from_s| 800.0 + (from_s + 0.08 - at_s) * 1e6)
    });
    let felt = healed(&made, 14.0);
    assert_eq!((felt.back_to_baseline_s, felt.degraded_s), (Some(0.0), Some(0.0)), "{felt:?}");
}

/// The rate of an outage of 2 s from 12 s on, after which a backlog drains for 4 s.
fn backlog(at_s: f64, draining: f64, usual: f64) -> f64 {
    match at_s {
        at_s if (12.0..14.0).contains(&at_s) => 0.0,
        at_s if (14.0..18.0).contains(&at_s) => draining,
        _ => usual,
    }
}

#[test]
fn latency_of_a_backlog_is_no_degradation() {
    // No success for 2 s, then a backlog for 4 s: operations in it wait for up to 2 s.
    let made = SyntheticLoad::random(9, 40.0, |at_s| backlog(at_s, 3_000.0, 2_000.0))
        .taking(9, |at_s| if (14.0..18.0).contains(&at_s) { 2e6 - (at_s - 14.0) * 0.5e6 + 800.0 } else { 800.0 });
    let felt = healed(&made, 14.0);
    assert!(near(felt.back_to_baseline_s, 2.0, 0.02), "{felt:?}");
    assert!(near(felt.overshoot_until_s, 6.0, 0.1), "{felt:?}");
    assert_eq!(felt.degraded_s, Some(0.0), "{felt:?}");
}

#[test]
fn partial_failures_are_no_degradation() {
    let made = SyntheticLoad::random(10, 40.0, changed(12.0, 15.0, 5_000.0, 10_000.0));
    let felt = made.failing(150, 12.0, 15.0).outage(12.0);
    assert!(near(felt.back_to_baseline_s, 3.0, 0.03), "{felt:?}");
    assert!(near(felt.degraded_s, 0.0, 0.001), "{felt:?}");
    let total = SyntheticLoad::random(11, 40.0, changed(12.0, 12.2, 0.0, 10_000.0));
    assert_eq!(total.outage(12.0).degraded_s, Some(0.0));
}

#[test]
fn a_draining_backlog_offsets_the_losses() {
    // 20,000 operations drain.
    let rate = |at_s| backlog(at_s, 15_000.0, 10_000.0);
    for made in [SyntheticLoad::even(30.0, rate), SyntheticLoad::random(3, 30.0, rate)] {
        let felt = made.outage(12.0);
        assert!(near(felt.back_to_baseline_s, 2.0, 0.005), "{felt:?}");
        // The highest of many windows is higher than their mean.
        assert!(felt.overshoot_ratio.is_some_and(|ratio| (1.49..1.7).contains(&ratio)), "{felt:?}");
        assert!(near(felt.overshoot_until_s, 6.0, 0.02), "{felt:?}");
        let [low, high] = felt.lost_operations_ci95.unwrap();
        assert!(low <= 0.0 && (0.0..3_000.0).contains(&high), "nothing was lost in the end: {felt:?}");
    }
}

#[test]
fn an_overshoot_to_the_end_has_no_end() {
    let felt = SyntheticLoad::random(4, 18.0, |at_s| backlog(at_s, 15_000.0, 10_000.0)).outage(12.0);
    assert!(felt.overshoot_ratio.is_some() && felt.overshoot_until_s.is_none(), "{felt:?}");
    assert!(near(felt.lost_operations, 20_000.0, 500.0), "until service was back: {felt:?}");
}

#[test]
fn bursts_of_the_baseline_are_no_overshoot() {
    // Stalls of 50 ms every second, each followed within 50 ms by the delayed operations.
    for burst_until_s in [15.05, 15.25] {
        let felt = SyntheticLoad::random(5, 30.0, |at_s| match at_s.rem_euclid(1.0) {
            _ if (15.05..burst_until_s).contains(&at_s) => 20_000.0,
            within if within < 0.05 => 0.0,
            within if within < 0.1 => 20_000.0,
            _ => 10_000.0,
        });
        let felt = felt.outage(15.0);
        assert_eq!(felt.overshoot_ratio.is_some(), burst_until_s > 15.1, "{felt:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    #[test]
    fn chance_causes_no_overshoot(seed in 0_u64..1_000_000, rate in 20.0..20_000.0_f64, down_s in 0.0..2.0_f64) {
        let made = SyntheticLoad::random(seed, 17.0, changed(12.0, 12.0 + down_s, 0.0, rate));
        prop_assert_eq!(made.outage(12.0).overshoot_ratio, None);
    }
}

/// Share of the rate at a moment. Takes the moment and random numbers that are drawn beforehand,
/// one for each 100 ms.
type Noise = fn(f64, &[f64]) -> f64;

/// Kinds of noise.
const NOISES: [Noise; 10] = [
    |_, _| 1.0,
    |at_s, ar| 1.0 + 0.04 * ar[(at_s / 0.1) as usize],
    |at_s, ar| 1.0 + 0.15 * ar[(at_s / 0.1) as usize],
    |at_s, ar| 1.0 + 0.06 * (std::f64::consts::TAU * (at_s / 8.0 + ar[0])).sin(),
    |at_s, ar| paused(at_s + ar[0].abs(), 1.0, 0.05, 0.0),
    |at_s, ar| paused(at_s + ar[0].abs(), 2.0, 0.1, 0.0),
    |at_s, ar| paused(at_s + ar[0].abs(), 5.0, 0.1, 0.0),
    |at_s, ar| if ar[(at_s / 0.1) as usize] < -1.8 { 0.0 } else { 1.0 },
    |at_s, ar| paused(at_s + ar[0].abs(), 3.0, 0.25, 0.6),
    |at_s, ar| paused(at_s + 5.0 * ar[0].abs(), 12.0, 2.0, 0.7),
];

/// Returns `left` for `long_s` once per period, and otherwise 1.
fn paused(at_s: f64, period_s: f64, long_s: f64, left: f64) -> f64 {
    if at_s.rem_euclid(period_s) < long_s { left } else { 1.0 }
}

/// Returns the outage in 27 s of 10,000/s with this noise, in slots of 10 ms. The share `left`
/// remains from 15 s on for `long_s`.
fn noisy(seed: u64, noise: Noise, left: f64, long_s: f64) -> Outage {
    const WIDE_S: f64 = 0.01;
    let mut random = fastrand::Rng::with_seed(seed);
    let ar = autoregressive(&mut random, 270, 0.6);
    let rows = (0..2_700).map(f64::from).map(|slot| {
        let middle_s = (slot + 0.5) * WIDE_S;
        let felt = if (15.0..15.0 + long_s).contains(&middle_s) { left } else { 1.0 };
        let mean = 100.0 * noise(middle_s, &ar).max(0.02) * felt;
        let ok = (mean + mean.sqrt() * normal(&mut random)).round().max(0.0) as u32;
        OutcomeSlot { at_s: slot * WIDE_S, slot_s: WIDE_S, ok, ..OutcomeSlot::default() }
    });
    let rows: Vec<OutcomeSlot> = rows.filter(|row| row.ok > 0).collect();
    outage(&Timeline::of(&rows).unwrap(), &LatencySeconds::default(), fault_times(15.0, 27.0))
}

#[test]
fn a_harmless_fault_has_no_outage_in_noise() {
    let right =
        NOISES.map(|noise| (0..5).filter(|seed| noisy(*seed, noise, 1.0, 0.0).back_to_baseline_s == Some(0.0)).count());
    println!("{right:?}");
    assert!(right.iter().sum::<usize>() >= 49 && right.iter().all(|right| *right >= 4), "of 5 each: {right:?}");
}

#[test]
fn an_outage_is_found_among_pauses_of_the_load() {
    let mut found = 0;
    for noise in NOISES {
        for (left, long_s) in [(0.0, 1.0), (0.3, 5.0)] {
            found += u32::from(near(noisy(7, noise, left, long_s).back_to_baseline_s, long_s, 0.1));
        }
    }
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn a_drop_within_the_baselines_variation_is_inconclusive() {
    let varied: Noise = |at_s, ar| 1.0 + 0.5 * ar[(at_s / 0.1) as usize];
    let felt = noisy(1, varied, 0.8, 5.0);
    assert_eq!((felt.recovered, felt.back_to_baseline_s), (None, Some(0.0)), "{felt:?}");
    assert_eq!(felt.recovery_by, ["failures", "gaps"]);
    let why = felt.cannot_tell.unwrap();
    assert!(
        why.starts_with("the baseline varies by ±") && why.ends_with("a smaller drop of throughput is not detectable"),
        "{why}"
    );
    let told = noisy(1, NOISES[0], 0.8, 5.0);
    assert_eq!((told.recovered, told.cannot_tell, told.recovery_by.len()), (Some(true), None, 3));
    let bound = told.bound_per_s.unwrap() / told.baseline_per_s.unwrap();
    assert!((0.8..=0.95).contains(&bound) && told.bound_window_s == Some(0.25), "{bound}");
    let down = noisy(1, varied, 0.0, 12.0);
    assert!(down.is_never_back() && down.recovered == Some(false), "far less is an outage all the same: {down:?}");
}

#[test]
fn recovery_is_unknown_if_the_load_ends_too_soon() {
    let [well, ill] = [9_000.0, 2_700.0]
        .map(|rate| SyntheticLoad::even(16.0, |at_s| if at_s < 15.5 { 9_000.0 } else { rate }).outage(15.3));
    assert_eq!((well.recovered, well.cannot_tell.as_deref()), (None, Some("too little of the load was left after it")));
    assert_eq!((ill.recovered, ill.is_never_back()), (Some(false), true), "{ill:?}");
}

#[test]
fn a_shallow_tail_belongs_to_the_outage() {
    let steady = noisy(3, |at_s, _| tail_of(at_s), 0.0, 1.0);
    assert!(near(steady.back_to_baseline_s, 4.0, 0.1), "{steady:?}");
    let pausing = noisy(3, |at_s, _| tail_of(at_s) * paused(at_s + 0.3, 5.0, 0.1, 0.0), 0.0, 1.0);
    assert!(near(pausing.back_to_baseline_s, 4.0, 0.5), "{pausing:?}");
}

/// A fifth less for 3 s after an outage of one second.
fn tail_of(at_s: f64) -> f64 {
    if (16.0..19.0).contains(&at_s) { 0.8 } else { 1.0 }
}

#[test]
fn a_backlog_that_drains_does_not_hide_a_relapse() {
    let felt = SyntheticLoad::random(5, 30.0, |at_s| match at_s {
        at_s if (15.0..16.0).contains(&at_s) => 0.0,
        at_s if (16.0..18.0).contains(&at_s) => 15_000.0,
        at_s if (18.0..20.0).contains(&at_s) => 6_000.0,
        _ => 10_000.0,
    });
    let felt = felt.outage(15.0);
    assert!(near(felt.back_to_baseline_s, 5.0, 0.02), "{felt:?}");
}
