//! Checks that the intervals of the baseline, and of what is lost against it, hold the truth as often as they say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::stats::made_load::{Made, near};

/// A Poisson stream whose rate wanders around 5,000/s: noise of 10 % that is forgotten within about 200 ms.
fn wandering(seed: u64, length_s: f64) -> Made {
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
    Made::random(seed, length_s, |at_s| rates[(at_s / 0.01) as usize].max(0.0))
}

/// Of 300 loads, how many intervals of the baseline hold the true rate, and how many of the losses in an outage of so long.
fn holding(make: impl Fn(u64) -> Made, down_s: f64) -> [usize; 2] {
    let mut holds = [0, 0];
    for seed in 0..300 {
        let mut made = make(seed);
        let mut lost = 0;
        for row in made.rows.iter_mut().filter(|row| row.at_s > 11.9995 && row.at_s < 11.9995 + down_s) {
            lost += row.ok;
            row.ok = 0;
        }
        let felt = made.failing(1, 12.0, 12.001).outage(12.0);
        let [low, high] = felt.baseline_ci95.unwrap();
        holds[0] += usize::from((low..=high).contains(&5_000.0));
        // What came before the outage's end and what it ended at are not the interval's: the truth is that of its slots.
        assert!(near(felt.total_s, down_s, 0.006), "{felt:?}");
        let [low, high] = felt.lost_operations_ci95.unwrap();
        holds[1] += usize::from((low..=high).contains(&f64::from(lost)));
    }
    holds
}

#[test]
fn of_an_even_stream_the_intervals_hold_the_truth_as_often_as_they_say() {
    for down_s in [0.05, 3.0] {
        let holds = holding(|seed| Made::random(seed, 17.0, |_| 5_000.0), down_s);
        assert!(holds.iter().all(|&holds| (276..=298).contains(&holds)), "{holds:?} of 300 with {down_s} s");
    }
}

#[test]
fn so_they_do_of_one_whose_rate_wanders() {
    for down_s in [0.05, 3.0] {
        let holds = holding(|seed| wandering(seed, 17.0), down_s);
        assert!(holds.iter().all(|&holds| holds >= 276), "{holds:?} of 300 with {down_s} s");
    }
}

#[test]
fn without_an_outage_nothing_is_lost_for_sure() {
    let felt = Made::random(1, 20.0, |_| 5_000.0).outage(12.0);
    assert_eq!((felt.lost_operations, felt.lost_operations_ci95), (Some(0.0), Some([0.0, 0.0])));
}

#[test]
fn what_never_came_back_is_counted_to_the_end_with_its_interval() {
    let felt = Made::random(2, 20.0, |at_s| if at_s < 12.0 { 5_000.0 } else { 2_000.0 }).outage(12.0);
    let [low, high] = felt.lost_operations_ci95.unwrap();
    assert!(low < 24_000.0 && 24_000.0 < high && high - low < 3_000.0, "{felt:?}");
}
