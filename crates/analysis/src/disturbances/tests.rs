//! Checks of outages that no fault explains: planted ones are found with their figures, and noise and stalls are none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::stats::made_load::{Made, near};

fn found(made: &Made, from_s: f64) -> Vec<Disturbance> {
    found_at(made, from_s, false)
}

/// The same of a load whose rate was to change, or not.
fn found_at(made: &Made, from_s: f64, changes: bool) -> Vec<Disturbance> {
    let timeline = made.timeline();
    let until_s = made.rows.len() as f64 * timeline.slot_s();
    let usual = Usual::of(&timeline, [from_s, until_s], &[], changes);
    let stretch = Stretch { from_s, until_s, counted_until_s: until_s, timeout_s: 1.0, settled_s: 1.0 };
    between(&timeline, &Evidence::default(), &usual, &stretch, from_s).0
}

#[test]
fn errors_for_a_while_are_one_disturbance_with_the_figures_of_an_outage() {
    let made = Made::random(1, 9.0, |at_s| if (5.0..7.3).contains(&at_s) { 0.0 } else { 4_000.0 });
    let found = found(&made.failing(9_200, 5.0, 7.3), 0.0);
    assert_eq!(found.len(), 1, "{found:?}");
    let felt = &found[0].outage;
    assert!((found[0].at_s - 5.0).abs() <= 0.0011, "{found:?}");
    assert_eq!((felt.failed, felt.wrong), (9_200, 0));
    assert!(near(felt.total_s, 2.3, 0.003) && near(felt.back_to_baseline_s, 2.3, 0.003), "{felt:?}");
    assert!(near(felt.lost_operations, 9_200.0, 300.0), "{felt:?}");
}

#[test]
fn a_single_failure_is_one_and_each_spell_is_one() {
    let made =
        Made::random(2, 60.0, |_| 4_000.0).failing(1, 20.0, 20.001).failing(30, 40.0, 41.0).failing(7, 41.5, 41.6);
    let found = found(&made, 5.0);
    let seen: Vec<(f64, u64)> = found.iter().map(|one| (one.at_s, one.outage.failed)).collect();
    assert_eq!(seen, [(20.0, 1), (40.0, 37)], "half a second apart is not over: {found:?}");
}

#[test]
fn a_freeze_is_one_from_its_beginning_though_its_timeouts_come_later() {
    let made = Made::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
    for made in [
        made.failing(16, 13.0, 13.1),
        Made::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 }),
    ] {
        let found = found(&made, 2.0);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].at_s - 12.0).abs() < 0.002 && near(found[0].outage.total_s, 2.0, 0.004), "{found:?}");
    }
}

#[test]
fn a_silence_that_may_have_been_asked_for_is_none_without_a_failure() {
    let made = Made::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
    assert_eq!((found_at(&made, 2.0, false).len(), found_at(&made, 2.0, true).len()), (1, 0));
    let failing = Made::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
    assert_eq!(found_at(&failing.failing(16, 13.0, 13.1), 2.0, true).len(), 1);
}

#[test]
fn one_that_comes_too_early_for_a_baseline_is_counted_all_the_same() {
    let found = found(&Made::random(4, 20.0, |_| 4_000.0).failing(50, 2.2, 2.7).failing(3, 9.0, 9.1), 2.0);
    let seen: Vec<(f64, u64, Option<f64>)> =
        found.iter().map(|one| (one.at_s, one.outage.failed, one.outage.baseline_per_s)).collect();
    assert_eq!((seen[0], seen.len()), ((2.2, 50, None), 2), "{found:?}");
    assert!(seen[1].1 == 3 && seen[1].2.is_some(), "{found:?}");
}

#[test]
fn one_that_is_not_over_at_the_end_goes_on_to_it() {
    let made = Made::random(5, 20.0, |at_s| if at_s < 15.0 { 4_000.0 } else { 0.0 }).failing(5_000, 15.0, 20.0);
    let found = found(&made, 2.0);
    assert_eq!((found.len(), found[0].outage.failed, found[0].outage.back_to_baseline_s), (1, 5_000, None));
}

#[test]
fn what_always_fails_a_little_is_not_disturbed_all_the_time() {
    let usual = Made::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0);
    assert_eq!(found(&usual, 2.0), []);
    let more = Made::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0).failing(400, 30.0, 31.0);
    let found = found(&more, 2.0);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn what_the_load_shows_again_and_again_is_no_disturbance() {
    let every_s = |at_s: f64| if at_s.rem_euclid(10.0) < 0.5 { 0.0 } else { 4_000.0 };
    assert_eq!(found(&Made::random(7, 60.0, every_s), 2.0), []);
    let longer = |at_s: f64| if (33.0..35.0).contains(&at_s) { 0.0 } else { every_s(at_s) };
    let found = found(&Made::random(7, 60.0, longer), 2.0);
    assert_eq!(found.len(), 1, "four times as long is another thing: {found:?}");
}

#[test]
fn stalls_of_a_machine_and_chance_raise_no_alarm() {
    // 200 loads of 40 s, from 3 to 3,000 operations a second; half of them have a stall of 60 to 80 ms every 3 s or so, half a single
    // one.
    let mut alarms = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rate = 10_f64.powf(0.5 + 3.0 * random.f64());
        let stalls: Vec<(f64, f64)> = (0..if seed % 2 == 0 { 13 } else { 1 })
            .map(|_| (40.0 * random.f64(), 0.06 + 0.02 * random.f64()))
            .collect();
        let stalled = |at_s: f64| stalls.iter().any(|(from_s, long_s)| (0.0..*long_s).contains(&(at_s - from_s)));
        let made = Made::random(seed, 40.0, |at_s| if stalled(at_s) { 0.0 } else { rate });
        alarms += found(&made, 2.0).len();
    }
    // Chance makes such a silence in one of a hundred loads, and it counts only if it is no usual one.
    assert!(alarms <= 2, "{alarms} false alarms in 200 loads");
}

/// The end of the silence was looked for beyond the end of the stretch, for ever.
#[test]
fn a_silence_that_outlasts_its_stretch_ends_with_it() {
    let made = Made::random(5, 6.0, |at_s| if at_s < 0.3 { 1_500.0 } else { 0.0 });
    let timeline = made.timeline();
    let usual = Usual::of(&timeline, [0.0, 6.0], &[[2.0, 12.5]], false);
    let stretch = Stretch { from_s: 0.0, until_s: 2.0, counted_until_s: 2.0, timeout_s: 1.0, settled_s: 1.0 };
    let (found, settled_s) = between(&timeline, &Evidence::default(), &usual, &stretch, 0.0);
    assert_eq!((found.len(), settled_s), (1, None), "{found:?}");
    assert!(found[0].at_s < 0.4, "{found:?}");
}
