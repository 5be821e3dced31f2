//! Checks of power: against SciPy, and that the shift is where the power is the one asked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden_stats/significance.json")).unwrap()
}

#[test]
fn power_is_that_of_scipy() {
    let golden = golden();
    for case in golden["powers"].as_array().unwrap() {
        let get = |name: &str| case[name].as_f64().unwrap();
        let now = power(get("shift"), get("critical"), get("freedom"));
        assert!((now - get("power")).abs() < 2e-5, "{now} and not {case}");
    }
}

#[test]
fn quantiles_of_chi_squared_are_those_of_scipy() {
    for case in golden()["quantiles"].as_array().unwrap() {
        let get = |name: &str| case[name].as_f64().unwrap();
        let now = chi_squared_quantile(1.0 - get("share"), get("freedom")).unwrap();
        assert!((now - get("chi2")).abs() <= 1e-5 * get("chi2") + 1e-12, "{now} and not {case}");
    }
}

#[test]
fn the_shift_has_the_power() {
    for freedom in [1.0, 2.0, 6.0, 40.0] {
        for critical in [2.0, 4.3, 300.0] {
            let shift = shift_for(0.9, critical, freedom).unwrap();
            assert!((power(shift, critical, freedom) - 0.9).abs() < 1e-6, "{freedom} {critical} {shift}");
        }
    }
    assert_eq!(shift_for(0.9, f64::INFINITY, 2.0), None);
}

#[test]
fn without_a_shift_the_power_is_the_level() {
    // Student's t of 4 degrees of freedom is beyond 2.776 in 5 % of cases.
    assert!((power(0.0, 2.776_445_105_197_79, 4.0) - 0.05).abs() < 1e-5);
}
