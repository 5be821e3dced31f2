//! Checks of quantiles against distributions whose quantiles are known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn of(values: impl IntoIterator<Item = u64>) -> Option<Quantiles> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for value in values {
        histogram.record(value).unwrap();
    }
    quantiles_us(&histogram)
}

fn near(value: Option<f64>, known: f64) -> bool {
    value.is_some_and(|value| (value - known).abs() <= known * 0.001)
}

#[test]
fn enough_samples_are_those_of_wilks() {
    assert_eq!([0.5, 0.75, 0.9, 0.99, 0.999].map(samples_for), [5, 11, 29, 299, 2_995]);
}

#[test]
fn of_a_uniform_distribution() {
    let quantiles = of((1..=10_000).map(|us| us * 1_000)).unwrap();
    assert_eq!(quantiles.count, 10_000);
    assert!(near(quantiles.p50, 5_000.0) && near(quantiles.p90, 9_000.0), "{quantiles:?}");
    assert!(near(quantiles.p99, 9_900.0) && near(quantiles.p999, 9_990.0), "{quantiles:?}");
    assert!(near(quantiles.max, 10_000.0) && near(quantiles.mean, 5_000.5), "{quantiles:?}");
}

#[test]
fn a_quantile_that_too_few_samples_support_is_null() {
    assert_eq!(of([]), None);
    for (count, given) in [(1, 0), (4, 0), (5, 1), (28, 1), (29, 2), (298, 2), (299, 3), (2_994, 3), (2_995, 4)] {
        let quantiles = of((1..=count).map(|us| us * 1_000)).unwrap();
        let all = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999];
        assert_eq!(all.iter().flatten().count(), given, "{count} samples: {quantiles:?}");
        assert!(quantiles.max.is_some() && quantiles.mean.is_some());
    }
}
