//! Checks of the fit against published coefficients and SciPy's, which `tests/golden_stats/usl.py` wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use super::*;

fn golden() -> Vec<Value> {
    let text = include_str!("../../../tests/golden_stats/usl.json");
    serde_json::from_str::<Value>(text).unwrap()["curves"].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn measured(curve: &Value) -> Curve {
    Curve::of(&numbers(&curve["loads"]).into_iter().zip(numbers(&curve["rates"])).collect::<Vec<_>>())
}

fn of(points: &[(f64, f64)]) -> Option<Law> {
    fitted(&Curve::of(points).means())
}

/// Within `relative` of each other, or both as good as 0.
fn close(found: f64, wanted: f64, relative: f64) -> bool {
    (found - wanted).abs() <= relative * wanted.abs().max(1e-7)
}

#[test]
fn fits_are_those_of_scipy() {
    let curves = golden();
    assert_eq!(curves.len(), 12);
    for curve in curves {
        let (measured, scipy) = (measured(&curve), &curve["scipy"]);
        let law = fitted(&measured.means()).unwrap();
        let r2 = law.r2(&measured).unwrap();
        for (name, found) in [("lambda", law.lambda), ("sigma", law.sigma), ("kappa", law.kappa), ("r2", r2)] {
            let wanted = scipy[name].as_f64().unwrap();
            assert!(close(found, wanted, 1e-4), "{}: {name} is {found}, SciPy has {wanted}", curve["name"]);
        }
        let squares: f64 = measured
            .points
            .iter()
            .flat_map(|point| point.rates.iter().map(|rate| (rate - law.at(point.load)).powi(2)))
            .sum();
        assert!(squares <= scipy["residual"].as_f64().unwrap() * (1.0 + 1e-9), "{}: a worse fit", curve["name"]);
    }
}

#[test]
fn fits_are_those_published() {
    let curves = golden();
    let curve = curves.iter().find(|curve| !curve["published"].is_null()).unwrap();
    let law = fitted(&measured(curve).means()).unwrap();
    let published = |name: &str| curve["published"][name].as_f64().unwrap();
    assert!(close(law.lambda, published("lambda"), 1e-5), "{law:?}");
    assert!(close(law.sigma, published("sigma"), 1e-5), "{law:?}");
    assert!(close(law.kappa, published("kappa"), 1e-3), "printed with four digits: {law:?}");
    // Of the published coefficients.
    assert!(close(law.peak_at().unwrap(), 96.50, 1e-3), "{law:?}");
}

#[test]
fn a_curve_that_follows_the_law_is_found_exactly() {
    for (sigma, kappa) in [(0.0, 0.0), (0.05, 0.0), (0.0, 1e-3), (0.02, 5e-4), (0.9, 0.1), (0.3, 1e-8)] {
        let law = Law { lambda: 123.0, sigma, kappa };
        let points: Vec<(f64, f64)> = (0..8).map(|power| 2_f64.powi(power)).map(|load| (load, law.at(load))).collect();
        let found = of(&points).unwrap();
        assert!(close(found.lambda, 123.0, 1e-6), "{found:?}");
        assert!((found.sigma - sigma).abs() < 1e-6 && (found.kappa - kappa).abs() < 1e-8, "{law:?} {found:?}");
    }
}

#[test]
fn what_is_no_curve_has_no_law() {
    let line = |loads: &[f64]| -> Vec<(f64, f64)> { loads.iter().map(|&load| (load, 10.0 * load)).collect() };
    assert_eq!(of(&line(&[1.0, 2.0, 2.0, 4.0])), None, "three loads");
    assert!(of(&line(&[1.0, 2.0, 3.0, 4.0])).is_some());
    assert_eq!(of(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)]), None, "no throughput");
    assert_eq!(of(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (4.0, 5.0)]), None, "nothing to explain");
    assert_eq!(of(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]), None, "a load of 0");
    assert_eq!(of(&[]), None);
}

#[test]
fn a_rising_curve_without_coherency_has_no_peak() {
    assert_eq!(Law { lambda: 1.0, sigma: 0.1, kappa: 0.0 }.peak_at(), None);
    assert_eq!(Law { lambda: 1.0, sigma: 0.0, kappa: 9.0 }.peak_at(), Some(1.0));
}
