//! Checks of slow seconds: what is one, and where a spell of them begins and ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::stats::made_load::{Made, near};

fn taking(seed: u64, latency_us: impl Fn(f64) -> f64) -> LatencySeconds {
    Made::even(30.0, |_| 3_000.0).taking(seed, latency_us).latency
}

#[test]
fn a_spell_is_found_with_its_edges() {
    for (seed, from_s, until_s) in [(1, 12.0, 17.0), (2, 12.3, 16.8), (3, 15.5, 19.2)] {
        let latency = taking(seed, |at_s| if (from_s..until_s).contains(&at_s) { 3_000.0 } else { 1_000.0 });
        let spells = latency.slow(2.0, 12.0, 30.0);
        let first = spells.iter().map(|spell| spell[0]).min_by(f64::total_cmp);
        let last = spells.iter().map(|spell| spell[1]).max_by(f64::total_cmp);
        assert!(near(first, from_s, 0.1) && near(last, until_s, 0.1), "{spells:?}");
    }
}

#[test]
fn what_was_so_before_or_only_once_is_no_spell() {
    assert_eq!(taking(4, |_| 1_000.0).slow(2.0, 12.0, 30.0), [[0.0; 2]; 0]);
    assert_eq!(
        taking(5, |at_s| if (14.0..15.0).contains(&at_s) { 9_000.0 } else { 1_000.0 }).slow(2.0, 12.0, 30.0),
        [[0.0; 2]; 0]
    );
    let before = |at_s: f64| if (5.0..6.0).contains(&at_s) || at_s > 20.0 { 3_000.0 } else { 1_000.0 };
    assert_eq!(taking(6, before).slow(2.0, 12.0, 30.0), [[0.0; 2]; 0]);
}

#[test]
fn with_too_little_before_nothing_is_said() {
    let latency = taking(7, |at_s| if at_s > 12.0 { 9_000.0 } else { 1_000.0 });
    assert_eq!(latency.slow(10.0, 12.0, 30.0), [[0.0; 2]; 0]);
    assert_ne!(latency.slow(9.0, 12.0, 30.0), [[0.0; 2]; 0]);
}

#[test]
fn chance_makes_no_spell() {
    // 200 loads of 50 operations a second, whose quantiles are noisy.
    for seed in 0..200 {
        let made = Made::random(seed, 30.0, |_| 50.0).taking(seed, |_| 1_000.0);
        assert_eq!(made.latency.slow(2.0, 12.0, 30.0), [[0.0; 2]; 0], "{seed}");
    }
}
