//! Checks of Little's law on books that are right and on books that are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn known_answers() {
    let table = [
        (Books::default(), None),
        (Books { in_flight_s: 100.0, latency_s: 100.0, ..Books::default() }, Some(0.0)),
        (Books { in_flight_s: 100.0, latency_s: 90.0, ..Books::default() }, Some(10.0)),
        (Books { in_flight_s: 100.0, latency_s: 110.0, ..Books::default() }, Some(10.0)),
        (Books { in_flight_s: 100.0, latency_s: 90.0, unfinished_s: 10.0, open_s: 0.0 }, Some(0.0)),
        (Books { in_flight_s: 100.0, latency_s: 90.0, unfinished_s: 0.0, open_s: 4.0 }, Some(6.0)),
        (Books { in_flight_s: 100.0, latency_s: 99.0, unfinished_s: 0.0, open_s: 4.0 }, Some(0.0)),
    ];
    for (books, known) in table {
        assert_eq!(error_pct(books), known, "{books:?}");
    }
}

#[test]
fn any_load_that_starts_and_ends_empty_keeps_the_law() {
    let mut random = fastrand::Rng::with_seed(3);
    let operations: Vec<(f64, f64)> = (0..500).map(|_| (random.f64() * 10.0, random.f64())).collect();
    let step = 1e-4;
    let in_flight_s: f64 = (0..120_000)
        .map(|number| f64::from(number) * step)
        .map(|at_s| operations.iter().filter(|(from, long)| (*from..from + long).contains(&at_s)).count() as f64 * step)
        .sum();
    let latency_s = operations.iter().map(|(_, long)| long).sum();
    let error = error_pct(Books { in_flight_s, latency_s, ..Books::default() }).unwrap();
    assert!(error < 0.1, "{error}");
}
