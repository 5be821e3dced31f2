//! Checks of disturbances against synthetic loads whose outages and slow times are known to the
//! slot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use hdrhistogram::Histogram;
use record::hlog::HistogramCounts;

use super::*;
use crate::synthetic::{SLOT_S, SyntheticLoad, near, poisson};

fn found(made: &SyntheticLoad, from_s: f64) -> Vec<Disturbance> {
    found_at(made, from_s, false)
}

/// Returns the disturbances of a load whose rate the plan changes, or not.
fn found_at(made: &SyntheticLoad, from_s: f64, changes: bool) -> Vec<Disturbance> {
    let until_s = made.rows.len() as f64 * SLOT_S;
    let timeline = made.timeline();
    let usual = NormalLoad::of(&timeline, &made.latency, [from_s, until_s], &[], changes);
    found_in(&timeline, &usual, [from_s, until_s]).0
}

/// Returns the disturbances between two times, and the time from which service is usual again.
fn found_in(timeline: &Timeline, usual: &NormalLoad, [from_s, until_s]: [f64; 2]) -> (Vec<Disturbance>, Option<f64>) {
    let stretch = FaultlessStretch { from_s, until_s, counted_until_s: until_s, timeout_s: 1.0, settled_s: 1.0 };
    between(timeline, &Evidence::default(), usual, &stretch, from_s)
}

/// A random load of 30 s with 4,000 operations per second, and none between two times.
fn silent(from_s: f64, until_s: f64) -> SyntheticLoad {
    SyntheticLoad::random(3, 30.0, |at_s| if (from_s..until_s).contains(&at_s) { 0.0 } else { 4_000.0 })
}

#[test]
fn a_spell_of_errors_is_one_disturbance() {
    let made = SyntheticLoad::random(1, 9.0, |at_s| if (5.0..7.3).contains(&at_s) { 0.0 } else { 4_000.0 });
    let found = found(&made.failing(9_200, 5.0, 7.3), 0.0);
    assert_eq!(found.len(), 1, "{found:?}");
    let felt = &found[0].outage;
    assert!((found[0].at_s - 5.0).abs() <= 0.0011, "{found:?}");
    assert_eq!((felt.failed, felt.wrong), (9_200, 0));
    assert!(near(felt.total_s, 2.3, 0.003) && near(felt.back_to_baseline_s, 2.3, 0.003), "{felt:?}");
    assert!(near(felt.lost_operations, 9_200.0, 300.0), "{felt:?}");
}

#[test]
fn nearby_failures_are_one_disturbance() {
    let made = SyntheticLoad::random(2, 60.0, |_| 4_000.0)
        .failing(1, 20.0, 20.001)
        .failing(30, 40.0, 41.0)
        .failing(7, 41.5, 41.6);
    let found = found(&made, 5.0);
    let seen: Vec<(f64, u64)> = found.iter().map(|one| (one.at_s, one.outage.failed)).collect();
    assert_eq!(seen, [(20.0, 1), (40.0, 37)], "half a second apart is not over: {found:?}");
}

#[test]
fn a_freeze_starts_before_its_timeouts() {
    for made in [silent(12.0, 14.0).failing(16, 13.0, 13.1), silent(12.0, 14.0)] {
        let found = found(&made, 2.0);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].at_s - 12.0).abs() < 0.002 && near(found[0].outage.total_s, 2.0, 0.004), "{found:?}");
    }
}

/// 60 operations per second, of which the last ends 20 ms before a fault: nothing is disturbed
/// before the fault. If the last ends 2 s before the fault, there is a disturbance.
#[test]
fn a_silence_into_a_fault_is_no_disturbance() {
    let [briefly, before] = [19.98, 18.0].map(|from_s| {
        let made = SyntheticLoad::even(40.0, |at_s| if (from_s..26.0).contains(&at_s) { 0.0 } else { 60.0 });
        let timeline = made.timeline();
        let usual = NormalLoad::of(&timeline, &made.latency, [0.0, 40.0], &[[20.0, 30.0]], false);
        found_in(&timeline, &usual, [1.0, 20.0]).0
    });
    assert_eq!(briefly, []);
    assert!(before.len() == 1 && (before[0].at_s - 18.0).abs() < 0.02, "{before:?}");
}

/// Silences of 240 ms that two generators see one after the other, as recorded by clocks that are 3
/// ms off.
#[test]
fn a_silence_explained_by_clock_error_is_ignored() {
    // 260 ms are long enough by any clock.
    for (until_s, clock_error_s, count) in [(12.243, 0.0, 1), (12.243, 0.003, 0), (12.260, 0.003, 1)] {
        let made = silent(12.0, until_s);
        let timeline = made.timeline().with_clock_error(clock_error_s);
        let usual = NormalLoad::of(&timeline, &made.latency, [2.0, 30.0], &[], false);
        assert_eq!(found_in(&timeline, &usual, [2.0, 30.0]).0.len(), count, "{until_s} {clock_error_s}");
    }
}

#[test]
fn a_silence_of_a_changing_load_needs_a_failure() {
    let made = silent(12.0, 14.0);
    assert_eq!((found_at(&made, 2.0, false).len(), found_at(&made, 2.0, true).len()), (1, 0));
    assert_eq!(found_at(&made.failing(16, 13.0, 13.1), 2.0, true).len(), 1);
}

/// 64 queries that share two cores begin together and end together, about 2.7 s later: nothing is
/// broken in between.
#[test]
fn a_silence_shorter_than_an_operation_needs_a_failure() {
    // Two lumps, so that the silence is not usual for the load.
    let [usual, short, failing] = [(2_700_000.0, 0), (50_000.0, 0), (2_700_000.0, 1)].map(|(latency_us, failed)| {
        let is_silent = |at_s: f64| at_s < 5.4 && (at_s / 2.7).fract() >= 0.55;
        let made = SyntheticLoad::even(8.0, |at_s| if is_silent(at_s) { 0.0 } else { 43.0 });
        found(&made.taking(1, |_| latency_us).failing(failed, 2.0, 2.001), 0.0).len()
    });
    assert_eq!((usual, failing), (0, 1), "one call failed");
    assert!(short > 0, "nobody waits so long otherwise");
}

#[test]
fn an_early_disturbance_counts_without_a_baseline() {
    let found = found(&SyntheticLoad::random(4, 20.0, |_| 4_000.0).failing(50, 2.2, 2.7).failing(3, 9.0, 9.1), 2.0);
    let seen: Vec<(f64, u64, Option<f64>)> =
        found.iter().map(|one| (one.at_s, one.outage.failed, one.outage.baseline_per_s)).collect();
    assert_eq!((seen[0], seen.len()), ((2.2, 50, None), 2), "{found:?}");
    assert!(seen[1].1 == 3 && seen[1].2.is_some(), "{found:?}");
}

#[test]
fn a_disturbance_may_last_to_the_end() {
    let made =
        SyntheticLoad::random(5, 20.0, |at_s| if at_s < 15.0 { 4_000.0 } else { 0.0 }).failing(5_000, 15.0, 20.0);
    let found = found(&made, 2.0);
    assert_eq!((found.len(), found[0].outage.failed, found[0].outage.back_to_baseline_s), (1, 5_000, None));
}

#[test]
fn a_constant_failure_rate_is_no_disturbance() {
    let usual = SyntheticLoad::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0);
    assert_eq!(found(&usual, 2.0), []);
    let more = SyntheticLoad::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0).failing(400, 30.0, 31.0);
    let found = found(&more, 2.0);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn recurring_pauses_are_no_disturbance() {
    // Four times as long is another thing.
    for (until_s, count) in [(33.0, 0), (35.0, 1)] {
        let made = SyntheticLoad::random(7, 60.0, |at_s| {
            let pauses = at_s.rem_euclid(10.0) < 0.5 || (33.0..until_s).contains(&at_s);
            if pauses { 0.0 } else { 4_000.0 }
        });
        let found = found(&made, 2.0);
        assert_eq!(found.len(), count, "{found:?}");
    }
}

#[test]
fn stalls_of_a_machine_and_chance_raise_no_alarm() {
    // 40 loads of 40 s, from 3 to 3,000 operations per second. Half of them have a stall of 60 to
    // 80 ms about every 3 s, the others a single one.
    let mut alarms = 0;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rate = 10_f64.powf(0.5 + 3.0 * random.f64());
        let stalls: Vec<(f64, f64)> = (0..if seed % 2 == 0 { 13 } else { 1 })
            .map(|_| (40.0 * random.f64(), 0.06 + 0.02 * random.f64()))
            .collect();
        let made = SyntheticLoad::random(seed, 40.0, |at_s| {
            let stalled = stalls.iter().any(|(from_s, long_s)| (0.0..*long_s).contains(&(at_s - from_s)));
            if stalled { 0.0 } else { rate }
        });
        alarms += found(&made, 2.0).len();
    }
    // Chance causes such a silence in one of a hundred loads, and it counts only if it is not
    // usual.
    assert!(alarms <= 1, "{alarms} false alarms in 40 loads");
}

/// A regression test: the search for the end of the silence went beyond the end of the stretch and
/// never ended.
#[test]
fn a_silence_longer_than_its_stretch_is_found() {
    let made = SyntheticLoad::random(5, 6.0, |at_s| if at_s < 0.3 { 1_500.0 } else { 0.0 });
    let timeline = made.timeline();
    let usual = NormalLoad::of(&timeline, &made.latency, [0.0, 6.0], &[[2.0, 12.5]], false);
    let (found, settled_s) = found_in(&timeline, &usual, [0.0, 2.0]);
    assert_eq!((found.len(), settled_s), (1, None), "{found:?}");
    assert!(found[0].at_s < 0.4, "{found:?}");
}

/// Counts, for 8 loads at each rate with a stall of 250 ms, those with exactly one disturbance at
/// the stall.
#[test]
fn a_quarter_second_stall_is_found_at_any_rate() {
    for rate in [50.0, 100.0, 400.0, 1_600.0, 5_000.0] {
        let found = (0..8).filter(|&seed| {
            let begin_s = 6.0 + 1.85 * f64::from(seed as u32);
            let stall = begin_s..begin_s + 0.25;
            let made = SyntheticLoad::random(seed, 25.0, |at_s| if stall.contains(&at_s) { 0.0 } else { rate });
            let found = found(&made, 2.0);
            found.len() == 1 && (found[0].at_s - begin_s).abs() < 0.003 + 6.0 / rate
        });
        let found = found.count();
        assert!(found >= 7, "{found} of 8 at {rate}/s");
    }
}

#[test]
fn a_stall_that_catches_up_is_found() {
    // 400/s evenly, nothing for 1.5 s, and then all delayed operations.
    let made = SyntheticLoad::even(20.0, |at_s| match at_s {
        8.0..9.5 => 0.0,
        9.5..10.5 => 1_000.0,
        _ => 400.0,
    });
    let found = found(&made, 0.0);
    assert_eq!((found.len(), found[0].kind), (1, DisturbanceKind::Outage), "{found:?}");
    assert!((found[0].at_s - 8.0).abs() < 0.004 && near(found[0].outage.total_s, 1.5, 0.006), "{found:?}");
}

/// A load with a share of failures at any time, and only failures between two times.
fn with_usual_failures(seed: u64, rate: f64, share: f64, [from_s, until_s]: [f64; 2]) -> SyntheticLoad {
    let down = from_s..until_s;
    let mut made =
        SyntheticLoad::random(seed, 20.0, |at_s| if down.contains(&at_s) { 0.0 } else { rate * (1.0 - share) });
    let mut random = fastrand::Rng::with_seed(seed + 1_000);
    for row in &mut made.rows {
        let failing = if down.contains(&(row.at_s + SLOT_S / 2.0)) { rate } else { rate * share };
        row.failed = poisson(&mut random, failing * SLOT_S);
    }
    made
}

#[test]
fn an_outage_amid_usual_failures_is_located() {
    for share in [0.002, 0.005, 0.02, 0.1] {
        let mut right = 0;
        for seed in 0..6 {
            let made = with_usual_failures(seed, 400.0, share, [8.001, 10.299]);
            let found = found(&made, 0.0);
            let Some(one) = found.iter().find(|one| (7.0..9.0).contains(&one.at_s)) else { continue };
            let felt = &one.outage;
            let back_s = felt.back_to_baseline_s.map_or(f64::INFINITY, |back_s| one.at_s + back_s);
            let truth: u64 = made.rows[8_001..10_299].iter().map(|row| u64::from(row.failed)).sum();
            let is_right = (one.at_s - 8.001).abs() < 0.03
                && (back_s - 10.299).abs() < 0.1
                && near(felt.failed_excess, truth as f64, 10.0);
            right += u32::from(is_right);
        }
        assert!(right >= 5, "{right} of 6 with {share}");
    }
}

#[test]
fn usual_failures_raise_no_alarm() {
    let mut disturbed = 0;
    for seed in 0..32 {
        let share = [0.003, 0.005, 0.02, 0.1][seed as usize % 4];
        disturbed += u32::from(!found(&with_usual_failures(seed, 400.0, share, [0.0; 2]), 0.0).is_empty());
    }
    assert!(disturbed <= 1, "{disturbed} of 32");
}

#[test]
fn usual_failures_are_excluded_from_a_partial_outage() {
    // 30 % fail for 4 s, in addition to the usual 2 %.
    let mut made = with_usual_failures(7, 1_000.0, 0.02, [0.0; 2]);
    let mut random = fastrand::Rng::with_seed(8);
    let mut planted = 0;
    for row in &mut made.rows[8_000..12_000] {
        let lost = (0..row.ok).filter(|_| random.f64() < 0.3).count() as u32;
        (row.ok, row.failed, planted) = (row.ok - lost, row.failed + lost, planted + lost);
    }
    let found = found(&made, 0.0);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!((found[0].at_s - 8.0).abs() < 0.03, "{found:?}");
    assert!(near(found[0].outage.failed_excess, f64::from(planted), 60.0), "{planted}: {found:?}");
    assert!(found[0].outage.failed > u64::from(planted));
}

/// Returns the disturbances of a load, including slow times.
fn with_slow(made: &SyntheticLoad, faults: &[Fault]) -> Vec<Disturbance> {
    let (timeline, until_s) = (made.timeline(), made.rows.len() as f64 * SLOT_S);
    let mut evidence = Evidence::default();
    evidence.load.latency = made.latency.clone();
    let window = LoadWindow { from_s: 0.0, until_s, first_fault_s: None, steady: None, is_over: false };
    with_slow_phases(found(made, 0.0), faults, &evidence, &timeline, &window, 1.0)
}

#[test]
fn half_of_the_throughput_for_five_seconds_is_a_slow_time() {
    for seed in 0..10 {
        let slow = 8.3..13.3;
        let made = SyntheticLoad::random(seed, 20.0, |at_s| if slow.contains(&at_s) { 500.0 } else { 1_000.0 });
        let found = with_slow(&made.taking(seed, |at_s| if slow.contains(&at_s) { 16_000.0 } else { 8_000.0 }), &[]);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!(one.kind, DisturbanceKind::Slow);
        assert!((one.at_s - 8.3).abs() < 0.05 && near(one.outage.back_to_baseline_s, 5.0, 0.1), "{one:?}");
        assert!(near(one.throughput_ratio, 0.5, 0.04) && near(one.latency_ratio, 2.0, 0.2), "{one:?}");
        assert!(near(one.outage.lost_operations, 2_500.0, 250.0), "{one:?}");
    }
}

#[test]
fn a_spell_of_high_latency_is_a_slow_time() {
    let made = SyntheticLoad::random(1, 20.0, |_| 200.0);
    let made = made.taking(2, |at_s| if (9.0..14.0).contains(&at_s) { 25_000.0 } else { 5_000.0 });
    let found = with_slow(&made, &[]);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!((one.at_s - 9.0).abs() < 0.2 && near(one.outage.degraded_s, 5.0, 0.3), "{one:?}");
    assert!(near(one.latency_ratio, 5.0, 0.5) && near(one.throughput_ratio, 1.0, 0.1), "{one:?}");
    assert_eq!(one.outage.failed, 0);
}

/// A load in which a share of the operations takes one time, and the others another. The share is
/// larger for 8 s.
fn mixed(seed: u64, [usual, larger]: [f64; 2], [some_us, others_us]: [f64; 2]) -> SyntheticLoad {
    let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
    SyntheticLoad::random(seed, 40.0, |_| 1_000.0).taking(seed, |at_s| {
        let share = if (20.0..28.0).contains(&at_s) { larger } else { usual };
        if random.borrow_mut().f64() < share { some_us } else { others_us }
    })
}

#[test]
fn a_small_mix_shift_is_no_slow_time() {
    for seed in 0..4 {
        assert_eq!(with_slow(&mixed(seed, [0.21, 0.28], [250_000.0, 9_000.0]), &[]), []);
    }
}

#[test]
fn a_slow_time_names_the_quantile_that_shows_it() {
    for seed in 0..4 {
        let found = with_slow(&mixed(seed, [0.0, 0.3], [64_000.0, 8_000.0]), &[]);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!((one.at_s - 20.0).abs() < 0.3 && near(one.outage.degraded_s, 8.0, 0.5), "{one:?}");
        assert_eq!(one.latency_quantile, Some(0.75));
        let text = crate::answer::slow_by(one);
        assert!(text.starts_with("the p75 latency was ") && text.ends_with(" times as high"), "{text}");
    }
}

#[test]
fn a_slow_time_may_last_to_the_end() {
    let made = SyntheticLoad::random(3, 30.0, |at_s| if at_s < 22.0 { 1_000.0 } else { 600.0 });
    let found = with_slow(&made, &[]);
    assert_eq!((found.len(), found[0].outage.back_to_baseline_s), (1, None), "{found:?}");
    let declining = SyntheticLoad::random(4, 40.0, |at_s| 1_000.0 * (1.0 - 0.4 * at_s / 40.0));
    assert_eq!(with_slow(&declining, &[]), []);
}

#[test]
fn slowness_after_a_fault_is_no_slow_time() {
    let made = SyntheticLoad::random(5, 30.0, |at_s| if (10.0..14.0).contains(&at_s) { 400.0 } else { 1_000.0 });
    let outage = Outage { back_to_baseline_s: Some(4.0), baseline_per_s: Some(1_000.0), ..Outage::default() };
    let fault = Fault { at_s: 10.0, outage: Some(outage), ..Fault::default() };
    assert_eq!(with_slow(&made, &[fault]), []);
    assert_eq!(with_slow(&made, &[]).len(), 1);
}

#[test]
fn a_slow_time_ends_at_the_next_fault() {
    let made = SyntheticLoad::random(6, 40.0, |at_s| match at_s {
        16.1..20.0 => 600.0,
        20.0..20.4 => 0.0,
        _ => 1_000.0,
    });
    let made = made.failing(200, 20.0, 20.3);
    let outage = Outage { back_to_baseline_s: Some(0.4), baseline_per_s: Some(1_000.0), ..Outage::default() };
    let found = with_slow(&made, &[Fault { at_s: 20.0, outage: Some(outage), ..Fault::default() }]);
    let found: Vec<&Disturbance> = found.iter().filter(|one| one.kind == DisturbanceKind::Slow).collect();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!((one.at_s - 16.1).abs() < 0.1 && one.at_s + one.outage.degraded_s.unwrap() <= 20.001, "{one:?}");
    assert_eq!(one.outage.failed, 0);
}

/// Response times of a queue with one server and random arrivals, which wander without a cause.
#[test]
fn a_wandering_queue_is_no_slow_time() {
    for load in [0.5, 0.7, 0.9] {
        let mut alarms = 0;
        for seed in 0..4 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut made = SyntheticLoad::each(60.0, |_| 0);
            let (mut at_s, mut free_s) = (0.0_f64, 0.0_f64);
            let mut times = Vec::new();
            loop {
                at_s -= random.f64().max(1e-12).ln() / (250.0 * load);
                free_s = free_s.max(at_s) - random.f64().max(1e-12).ln() / 250.0;
                if free_s >= 60.0 {
                    break;
                }
                made.rows[(free_s / SLOT_S) as usize].ok += 1;
                times.push((free_s, free_s - at_s));
            }
            for (second, times) in times.chunk_by(|a, b| a.0.floor() == b.0.floor()).enumerate() {
                let mut histogram = Histogram::<u64>::new(3).unwrap();
                times.iter().for_each(|(_, long_s)| histogram.record((long_s * 1e9) as u64).unwrap());
                made.latency.add(second as f64, 1.0, &HistogramCounts::of(&histogram));
            }
            alarms += with_slow(&made, &[]).iter().filter(|one| one.kind == DisturbanceKind::Slow).count();
        }
        assert_eq!(alarms, 0, "in 4 loads of {load}");
    }
}
