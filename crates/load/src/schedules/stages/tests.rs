//! Starts of rates that change: against tables, against the integral of the rate, and to the nanosecond.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fastrand::Rng;

use super::super::constant::Constant;
use super::super::tests::{S, all_starts, due, stage, starts};
use super::*;

/// Operations due by then, by the integral of the rate.
fn integral(stages: &[Stage], until_s: f64) -> f64 {
    let (mut begun_s, mut due) = (0.0, 0.0);
    for stage in stages {
        let long_s = (until_s - begun_s).clamp(0.0, stage.over_s);
        due += stage.from * long_s + (stage.to - stage.from) * long_s * long_s / (2.0 * stage.over_s);
        begun_s += stage.over_s;
    }
    due + stages.last().unwrap().to * (until_s - begun_s).max(0.0)
}

#[test]
fn a_ramp_a_hold_and_a_fall() {
    // 0 to 8/s in a second is 4 operations, the k-th at the root of k / 4; then 8 in a second, then 8 to 0 in one: 4 again.
    let stages = [stage(0.0, 8.0, 1.0), stage(8.0, 8.0, 1.0), stage(8.0, 0.0, 1.0)];
    let schedule = Stages::new(1, &stages, 10 * S);
    let expected_s: [f64; 16] = [
        0.0,
        0.5,
        0.5_f64.sqrt(),
        0.75_f64.sqrt(),
        1.0,
        1.125,
        1.25,
        1.375,
        1.5,
        1.625,
        1.75,
        1.875,
        2.0,
        3.0 - 0.75_f64.sqrt(),
        3.0 - 0.5_f64.sqrt(),
        2.5,
    ];
    let got = starts(&schedule, 0);
    assert_eq!(got.len(), 16, "after the end at rate 0 nothing starts any more: {got:?}");
    for (at, expected_s) in got.iter().zip(expected_s) {
        assert!((*at as f64 - expected_s * 1e9).abs() <= 1.0, "{at} and {expected_s}");
    }
    assert_eq!(schedule.next_ns(0, 2_500_000_000, 0), u64::MAX);
}

#[test]
fn the_last_rate_holds_and_a_pause_is_one() {
    let stages = [stage(10.0, 10.0, 1.0), stage(0.0, 0.0, 1.0), stage(20.0, 20.0, 0.5)];
    let schedule = Stages::new(3, &stages, 4 * S);
    let all = all_starts(&schedule, 3);
    let inside =
        |from_s: f64, until_s: f64| all.iter().filter(|at| (from_s..until_s).contains(&(**at as f64 / 1e9))).count();
    assert_eq!([inside(0.0, 1.0), inside(1.0, 2.0), inside(2.0, 2.5), inside(2.5, 4.0)], [10, 0, 10, 30]);
    assert_eq!(all[10], 2 * S, "what would be due as the pause begins is due when it ends");
}

#[test]
fn a_stage_that_stays_is_a_constant_rate() {
    let (staged, constant) = (Stages::new(7, &[stage(333.0, 333.0, 2.0)], 5 * S), Constant::new(7, 333.0, 0, 5 * S));
    for agent in 0..7 {
        assert_eq!(starts(&staged, agent), starts(&constant, agent));
    }
}

#[test]
fn counts_over_any_window_are_the_integral_of_the_rate() {
    let mut random = Rng::with_seed(8);
    for _ in 0..200 {
        let mut rate = || if random.u8(0..4) == 0 { 0.0 } else { random.f64() * 3000.0 };
        let mut rates: Vec<(f64, f64)> = (0..5).map(|_| (rate(), rate())).collect();
        // Some follow on, some jump.
        rates[2].0 = rates[1].1;
        rates[3].1 = rates[3].0;
        let stages: Vec<Stage> =
            rates.into_iter().map(|(from, to)| stage(from, to, random.f64() * 3.0 + 0.001)).collect();
        let agents = random.u32(1..9);
        let schedule = Stages::new(agents, &stages, 20 * S);
        for _ in 0..20 {
            let (one, other) = (random.u64(0..16 * S), random.u64(0..16 * S));
            let (from, until) = (one.min(other), one.max(other));
            let counted: u64 =
                (0..agents).flat_map(|agent| due(&schedule, agent, from, until)).map(|due| due.count).sum();
            // The k-th is due when the integral reaches k, so that the first is due at once.
            let by = |at_ns: u64| integral(&stages, at_ns as f64 / 1e9);
            let expected = by(until).ceil() - by(from).ceil();
            // Rates are held in millionths, and sums of floating point numbers end up beside a whole number.
            assert!((counted as f64 - expected).abs() <= 1.0, "{counted} and {expected} for {stages:?}");
        }
    }
}

#[test]
fn each_start_is_the_last_nanosecond_at_which_no_more_has_become_due() {
    let mut random = Rng::with_seed(9);
    let hour = 3600.0;
    for (low, high, over_s) in [
        (0.0, 100.0, 10.0),
        (0.0, 1e9, 1.0),
        (0.3, 0.300_001, 1e6),
        (1e6, 1.000_001e6, hour),
        (0.0, 1.0, 90.0 * 86_400.0),
    ] {
        for (from, to) in [(low, high), (high, low)] {
            let schedule = Stages::new(1, &[stage(from, to, over_s)], u64::MAX);
            let stretch = &schedule.stretches[0];
            let most = u64::try_from(stretch.total() / OPERATION).unwrap();
            for number in (0..50).map(|_| random.u64(0..=most)).chain([0, most]) {
                let at_ns = schedule.start_ns(u128::from(number));
                if at_ns == u64::MAX {
                    assert_eq!((to, number), (0.0, most), "only where it ends at 0 the last is never due");
                    continue;
                }
                assert_eq!(schedule.number_from(at_ns), u128::from(number), "{from} to {to} in {over_s} s");
                assert_eq!(schedule.number_from(at_ns + 1), u128::from(number) + 1, "{from} to {to} in {over_s} s");
            }
        }
    }
}

#[test]
fn rows_are_long_where_operations_follow_each_other_fast() {
    let slow = Stages::new(8, &[stage(0.0, 1000.0, 10.0)], 10 * S);
    let fast = Stages::new(8, &[stage(0.0, 5e6, 10.0)], 10 * S);
    let rows = |schedule: &Stages| {
        let rows = due(schedule, 3, 7 * S, 8 * S);
        (rows.len(), rows.iter().map(|due| due.count).sum::<u64>())
    };
    let ((slow_rows, slow_count), (fast_rows, fast_count)) = (rows(&slow), rows(&fast));
    assert!(slow_count.abs_diff(750 / 8) <= 1 && fast_count.abs_diff(3_750_000 / 8) <= 1, "{slow_count} {fast_count}");
    assert!(slow_rows <= 94 && fast_rows < 20_000, "{slow_rows} and {fast_rows}");
    // Where it stays, a second is one row.
    let flat = Stages::new(8, &[stage(0.0, 5e6, 1.0), stage(5e6, 5e6, 1.0)], 10 * S);
    assert_eq!(due(&flat, 3, 2 * S, 3 * S).len(), 1);
}
