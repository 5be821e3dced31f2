//! Checks of the correction: against statsmodels and by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use super::*;

#[test]
fn corrected_chances_are_those_of_statsmodels() {
    let golden: Value = serde_json::from_str(include_str!("../../../tests/golden_stats/significance.json")).unwrap();
    for case in golden["holm"].as_array().unwrap() {
        let numbers = |name: &str| -> Vec<f64> {
            case[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        for (now, then) in adjusted(&numbers("p")).iter().zip(numbers("adjusted")) {
            assert!((now - then).abs() < 1e-12, "{now} and not {then} in {case}");
        }
    }
}

#[test]
fn the_smallest_counts_for_all() {
    assert_eq!(adjusted(&[]), Vec::<f64>::new());
    assert_eq!(adjusted(&[0.03]), [0.03]);
    assert_eq!(adjusted(&[0.5, 0.01, 0.6]), [1.0, 0.03, 1.0]);
}
