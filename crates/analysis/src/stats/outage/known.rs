//! Thirty outages of every shape, with the truth known: times to within 1 % (or a slot, or what chance hides), counts exactly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use record::rows::OutcomeSlot;

use crate::stats::latency_seconds::LatencySeconds;
use crate::stats::made_load::{Made, SLOT_S, near};

/// An outage as it is scripted.
#[derive(Debug, Clone)]
struct Script {
    seed: u64,
    /// Operations per second, all told.
    rate: f64,
    /// It begins.
    at_s: f64,
    /// Nothing succeeds, everything fails.
    total_s: f64,
    /// Then this share fails for so long.
    partial: (f64, f64),
    /// Then nothing fails, and throughput is this share of what it was, for so long.
    slow: (f64, f64),
}

impl Script {
    fn end_s(&self) -> f64 {
        self.total_s + self.partial.1 + self.slow.1
    }

    /// Plays it; also gives how many operations failed, and the first and the last slot in which one did.
    fn play(&self) -> (Made, u64, [Option<f64>; 2]) {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut failed = 0;
        let mut slots: [Option<f64>; 2] = [None, None];
        let all = Made::random(self.seed ^ 0xbeef, 30.0, |_| self.rate);
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
        (Made { rows, latency: LatencySeconds::default() }, failed, slots)
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
    let slots = |at_s: f64| (at_s / SLOT_S).round() * SLOT_S;
    (0_u64..1_000_000, 5_000.0..20_000.0_f64, 11.0..15.0_f64, kinds).prop_map(
        move |(seed, rate, at_s, (total_s, partial, slow))| Script {
            seed,
            rate,
            at_s: slots(at_s),
            total_s: slots(total_s),
            partial: (partial.0, slots(partial.1)),
            slow: (slow.0, slots(slow.1)),
        },
    )
}

proptest! {
    // Always the same cases: chance may move an edge further than it does here, and a test must not fail of chance.
    #![proptest_config(ProptestConfig { cases: 30, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn any_outage_is_measured_as_it_was(script in script()) {
        let (made, failed, [first_s, last_s]) = script.play();
        let felt = made.outage(script.at_s);
        let within = |truth_s: f64| (0.01 * truth_s).max(2.0 * SLOT_S) + 1e-9;
        let same = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-5);
        prop_assert_eq!(felt.failed, failed);
        prop_assert!(same(felt.first_failure_s, first_s) && same(felt.last_failure_s, last_s), "{felt:?}");
        let end_s = script.end_s();
        prop_assert!(near(felt.back_to_baseline_s, end_s, within(end_s)), "{end_s}: {felt:?}");
        prop_assert!(near(felt.total_s, script.total_s, within(script.total_s)), "{felt:?}");
        if script.total_s > 0.0 {
            prop_assert!(near(felt.first_ok_s, script.total_s, within(script.total_s)), "{felt:?}");
        }
        let (slow_s, partial_s) = (script.slow.1, script.partial.1);
        // Bins of 10 ms, and where it borders on something else half a window.
        let borders = script.total_s + partial_s > 0.0;
        prop_assert!(near(felt.partial_s, partial_s, within(partial_s) + 0.011), "{felt:?}");
        prop_assert!(near(felt.degraded_s, slow_s, within(slow_s) + if borders { 0.2 } else { 0.0 }), "{felt:?}");
        let lost = script.rate * (script.total_s + script.partial.0 * partial_s + (1.0 - script.slow.0) * slow_s);
        let [low, high] = felt.lost_operations_ci95.unwrap();
        prop_assert!((low - 0.01 * lost..=high + 0.01 * lost).contains(&lost), "{lost}: {felt:?}");
    }
}
