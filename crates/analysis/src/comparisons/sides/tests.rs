//! Checks of pairs between runs: runs played in turn are paired, others are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::tests::trial;
use super::super::{Played, Side, between};
use super::*;

/// A side whose runs began at these times, each of so many trials.
fn side<'a>(name: &str, trials: &'a [Trial], begun: &[f64], repeats: usize) -> Side<'a> {
    let played = begun.iter().enumerate().flat_map(|(run, begun)| {
        (0..repeats).map(move |repeat| Played {
            trial: &trials[run * repeats + repeat],
            run,
            started_unix_s: Some(begun + repeat as f64),
        })
    });
    Side { name: name.to_owned(), trials: played.collect() }
}

fn trials(rates: &[f64]) -> Vec<Trial> {
    rates.iter().zip(1..).map(|(rate, repeat)| trial("", repeat, *rate)).collect()
}

const A: [f64; 4] = [1_000.0, 1_200.0, 900.0, 1_100.0];

#[test]
fn runs_in_turn_are_pairs() {
    let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05 + rate.sqrt() / 100.0)));
    for begun in [[10.0, 30.0, 50.0, 70.0], [10.0, 35.0, 50.0, 75.0]] {
        let sides = [side("a", &a, &[0.0, 20.0, 40.0, 60.0], 1), side("b", &b, &begun, 1)];
        let found = between(&sides, &[]);
        assert_eq!((found[0].pairs, found[0].significant, found[0].over.as_str()), (4, true, "run"));
    }
    // A B B A A B B A.
    let sides = [side("a", &a, &[0.0, 30.0, 40.0, 70.0], 1), side("b", &b, &[10.0, 20.0, 50.0, 60.0], 1)];
    assert_eq!(between(&sides, &[])[0].pairs, 4);
    // The last has no partner.
    let sides = [side("a", &a, &[0.0, 30.0, 40.0, 70.0], 1), side("b", &b, &[10.0, 20.0, 50.0], 1)];
    assert_eq!(between(&sides, &[])[0].pairs, 3);
}

#[test]
fn runs_one_after_the_other_are_none() {
    let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05)));
    let sides = [side("a", &a, &[0.0, 10.0, 20.0, 30.0], 1), side("b", &b, &[40.0, 50.0, 60.0, 70.0], 1)];
    let found = between(&sides, &[]);
    // The spread among the trials hides what the pairs would have shown.
    assert_eq!((found[0].pairs, found[0].significant, found[0].trials), (0, false, [4, 4]));
    assert!(found[0].p.is_some() && found[0].detectable_pct.is_some());
    // Nor where nobody knows when they began.
    let mut sides = [side("a", &a, &[0.0, 20.0, 40.0, 60.0], 1), side("b", &b, &[10.0, 30.0, 50.0, 70.0], 1)];
    sides[1].trials[0].started_unix_s = None;
    assert_eq!(between(&sides, &[])[0].pairs, 0);
}

/// Of runs that have repeats of their own, the run is the observation: its repeats share a moment of the machine.
#[test]
fn repeats_of_a_run_in_turn_count_once() {
    let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05)));
    let sides = [side("a", &a, &[0.0, 40.0], 2), side("b", &b, &[20.0, 60.0], 2)];
    let found = between(&sides, &[]);
    assert_eq!((found[0].pairs, found[0].trials), (2, [2, 2]));
    assert!((found[0].a_value.unwrap().ln() - A.iter().map(|rate| rate.ln()).sum::<f64>() / 4.0).abs() < 1e-9);
}

#[test]
fn only_points_of_both_are_compared() {
    let at = |rate, agents: i64| Trial {
        point: BTreeMap::from([("load.agents".to_owned(), Value::from(agents))]),
        ..trial("v", 1, rate)
    };
    let (a, b) = ([at(10.0, 1), at(20.0, 2)], [at(21.0, 2), at(30.0, 3)]);
    let sides = [side("a", &a, &[0.0], 2), side("b", &b, &[5.0], 2)];
    let found = between(&sides, &[]);
    assert!(found.iter().all(|found| found.at["load.agents"] == 2 && found.at["variant"] == "v"), "{found:#?}");
    assert!((found[0].ratio.unwrap() - 1.05).abs() < 1e-9);
    assert_eq!(between(&sides[..1], &[]), Vec::new());
}

#[test]
fn every_side_is_held_against_the_first() {
    let (a, b, c) = (trials(&A), trials(&A), trials(&A));
    let sides = [side("a", &a, &[0.0], 4), side("b", &b, &[10.0], 4), side("c", &c, &[20.0], 4)];
    let found = between(&sides, &["throughput.operations_per_s".to_owned()]);
    let of: Vec<(&str, &str)> = found.iter().map(|found| (found.a.as_str(), found.b.as_str())).collect();
    assert_eq!(of, [("a", "b"), ("a", "c")]);
}
