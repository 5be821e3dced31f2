//! Checks of the rates of wrong answers over repeats.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::results::{Consistency, Outcomes, Trust, Verdict};

use super::*;

fn trial(variant: &str, wrong: Option<u64>, cycles: u64, diverged_keys: Option<u64>) -> Trial {
    let lost_writes = diverged_keys.map(|keys| keys / 2);
    Trial {
        variant: Some(variant.to_owned()),
        outcomes: Outcomes { ok: 6 * cycles - wrong.unwrap_or(0), wrong: wrong.unwrap_or(0), ..Outcomes::default() },
        consistency: Consistency { wrong, cycles: Some(cycles), diverged_keys, lost_writes, ..Consistency::default() },
        ..Trial::default()
    }
}

#[test]
fn repeats_of_a_variant_are_taken_together() {
    let mut void = trial("dirty", Some(999), 1000, Some(999));
    void.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
    let trials = [
        trial("dirty", Some(10), 1000, Some(4)),
        trial("sync", Some(0), 16_000, Some(0)),
        trial("dirty", Some(20), 1000, Some(6)),
        void,
        trial("dirty", Some(30), 2000, None),
        trial("sync", Some(0), 0, Some(0)),
    ];
    let [dirty, sync] = pooled(&trials).try_into().unwrap();
    assert_eq!((dirty.variant.as_deref(), dirty.repeats), (Some("dirty"), 3));
    assert_eq!((dirty.wrong, dirty.cycles, dirty.operations), (Some(60), Some(4000), 24_000));
    assert_eq!((dirty.wrong_per_1000_cycles, dirty.wrong_per_1000_operations), (Some(15.0), Some(2.5)));
    assert_eq!(dirty.method, "ratio");
    let [low, high] = dirty.ci95.unwrap();
    assert!(low < 15.0 - 5.0 && high > 15.0 + 5.0 && ((low + high) / 2.0 - 15.0).abs() < 1e-9, "{low} {high}");
    assert_eq!((dirty.diverged_keys, dirty.lost_writes), (vec![Some(4), Some(6), None], vec![Some(2), Some(3), None]));

    assert_eq!((sync.wrong, sync.wrong_per_1000_cycles, sync.method.as_str()), (Some(0), Some(0.0), "Clopper-Pearson"));
    let [low, high] = sync.ci95.unwrap();
    assert!(low == 0.0 && (high - 0.2306).abs() < 1e-3, "at most {high} in 1,000");
}

#[test]
fn few_repeats_and_equal_ones_are_counted() {
    let method = |wrongs: &[u64]| {
        let trials: Vec<Trial> = wrongs.iter().map(|wrong| trial("a", Some(*wrong), 1000, None)).collect();
        let found = pooled(&trials).remove(0);
        (found.method, found.ci95.unwrap())
    };
    assert_eq!(method(&[10, 90]).0, "Clopper-Pearson");
    let (equal, [low, high]) = method(&[1, 1, 1]);
    assert!(equal == "Clopper-Pearson" && low < 0.3 && high > 2.0, "{equal} {low} {high}");
    assert_eq!(method(&[10, 90, 20]).0, "ratio");
}

#[test]
fn what_was_not_checked_has_no_figures() {
    assert_eq!(pooled(&[trial("a", None, 1000, None)]), []);
    assert_eq!(pooled(&[]), []);
    let found = pooled(&[trial("a", None, 1000, Some(3))]).remove(0);
    assert_eq!((found.wrong, found.wrong_per_1000_cycles, found.ci95, found.method.as_str()), (None, None, None, ""));
    // More wrong answers than cycles: cycles of which several answers are wrong are no independent draws of one.
    let found = pooled(&[trial("a", Some(20), 10, None)]).remove(0);
    assert_eq!((found.wrong_per_1000_cycles, found.ci95), (Some(2000.0), None));
    assert!(found.operations_ci95.is_some());
}

#[test]
fn where_all_are_void_all_are_shown() {
    let void = |wrong| Trial {
        verdict: Verdict { is: Trust::Void, ..Verdict::default() },
        ..trial("a", Some(wrong), 1000, None)
    };
    let found = pooled(&[void(1), void(2)]).remove(0);
    assert_eq!((found.repeats, found.wrong), (2, Some(3)));
}
