//! Checks against other programs' results (`tests/golden_stats/`), and that noise has no change points.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use super::*;
use crate::made_up::normal;

fn places(found: &[ChangePoint]) -> Vec<usize> {
    found.iter().map(|change| change.at).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
}

#[test]
fn statistic_and_changes_are_those_of_another_program() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../tests/golden_stats/change_points.json")).unwrap();
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let series = numbers(&case["series"]);
        for (found, known) in energies(&series).iter().zip(numbers(&case["statistic"])) {
            assert!((found - known).abs() <= 1e-5 * known.abs().max(1.0), "{}: {found} and not {known}", case["name"]);
        }
        let found = change_points(&series, 1);
        assert_eq!(places(&found), indices(&case["e_divisive"]), "{}: {found:?}", case["name"]);
        assert!(found.iter().all(|change| change.p < 0.05));
    }
}

#[test]
fn the_nile_fell_in_1899_and_least_squares_agree_on_all_steps() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../tests/golden_stats/change_points.json")).unwrap();
    assert_eq!(1871 + places(&change_points(&numbers(&cases[0]["series"]), 7))[0], 1899);
    for case in &cases {
        // Of noise that looks like a step by chance least squares, told how many there are, know nothing.
        let found = places(&change_points(&numbers(&case["series"]), 3));
        for step in indices(&case["least_squares"]) {
            assert!(found.contains(&step), "{}: {step} is not in {found:?}", case["name"]);
        }
    }
}

#[test]
fn noise_seldom_changes() {
    let mut random = fastrand::Rng::with_seed(4);
    let series = |random: &mut fastrand::Rng| (0..20).map(|_| normal(random)).collect::<Vec<f64>>();
    let alarms = (0..100).filter(|&seed| !change_points(&series(&mut random), seed).is_empty()).count();
    assert!(alarms <= 10, "5 of 100 are meant, 10 are rare: {alarms}");
}

#[test]
fn few_values_show_nothing_and_the_same_ones_neither() {
    assert_eq!(change_points(&[], 1), []);
    assert_eq!(change_points(&[1.0, 1.1, 9.0, 9.1], 1), [], "one order in three looks like this");
    assert_eq!(change_points(&[5.0; 30], 1), []);
    let step = [1.0, 1.1, 1.05, 1.02, 9.0, 9.1, 9.05, 9.02];
    assert_eq!(change_points(&step[..7], 1), [], "2 · 4! · 3! of 7! orders, which is more than one in twenty");
    assert_eq!(places(&change_points(&step, 1)), [4], "2 · 4! · 4! of 8! are less");
}
