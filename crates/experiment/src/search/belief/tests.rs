//! Tests of the posterior against what can be worked out by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn agents(from: f64, to: f64) -> Belief {
    Belief::new(Span { from, to, whole: true, precision: 0.05 })
}

#[test]
fn an_answer_multiplies_its_side_by_one_minus_e_and_the_other_by_e() {
    let before = agents(1.0, 4.0);
    let mut after = Belief { unsure: 1e-6, ..before.clone() };
    after.learn(2.0, true, 0.1);
    let share = |belief: &Belief, from: f64| -> f64 {
        belief.cells.iter().filter(|cell| cell.low >= from).map(|cell| cell.likely).sum()
    };
    let (above, below) = (share(&before, 2.0) * 0.9, (1.0 - share(&before, 2.0)) * 0.1);
    assert!((share(&after, 2.0) - above / (above + below)).abs() < 1e-12);
    assert!((after.cells.iter().map(|cell| cell.likely).sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn equal_octaves_are_equally_likely() {
    let belief = Belief::new(Span { from: 100.0, to: 400.0, whole: false, precision: 0.05 });
    assert!((belief.median() - 200.0).abs() < 2.0, "{}", belief.median());
    assert_eq!(belief.quantile(0.01).low, 0.0, "it may be below");
    assert!(belief.quantile(0.999).high.is_infinite(), "or above");
}

#[test]
fn every_number_of_agents_has_its_cell() {
    let lows: Vec<f64> = agents(1.0, 6.0).cells.iter().map(|cell| cell.low).collect();
    assert_eq!(lows, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn what_is_far_from_its_bound_is_trusted_more() {
    assert!(wrong(Some(2.0)) < wrong(Some(0.05)) && wrong(Some(0.05)) < wrong(Some(0.0)));
    assert!(wrong(Some(-2.0)) < 0.031 && wrong(Some(0.0)) <= 0.1001 && (wrong(None) - 0.1).abs() < 1e-12);
}
