//! Little's law as a check of the generator's own bookkeeping: operations in flight = rate × latency. It must not know what
//! is done about an error.
//!
//! Over a stretch that begins and ends with nothing in flight, the time integral of the operations in flight equals
//! the sum of their latencies exactly, whatever the load did (J. D. C. Little, "A proof for the queuing formula L = λW",
//! Operations Research 9, 1961; for finite stretches: Little's Law as viewed on its 50th anniversary, Operations Research 59,
//! 2011). So the whole load with its drain is compared, and not a part of it whose ends would count as errors.

/// What a load's seconds say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Books {
    /// Time integral of the operations in flight, seconds.
    pub in_flight_s: f64,
    /// Sum of the latencies of those that ended, seconds.
    pub latency_s: f64,
    /// Time that those which never ended had been open, seconds.
    pub unfinished_s: f64,
    /// What may be missing because the records end in the middle, seconds.
    pub open_s: f64,
}

/// How far the two sides of the law are apart, percent of what was in flight; `None` if nothing was.
pub(crate) fn error_pct(books: Books) -> Option<f64> {
    let apart = (books.in_flight_s - books.latency_s - books.unfinished_s).abs();
    (books.in_flight_s > 0.0).then(|| 100.0 * (apart - books.open_s).max(0.0) / books.in_flight_s)
}

#[cfg(test)]
mod tests {
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
            .map(|at_s| {
                operations.iter().filter(|(from, long)| (*from..from + long).contains(&at_s)).count() as f64 * step
            })
            .sum();
        let latency_s = operations.iter().map(|(_, long)| long).sum();
        let error = error_pct(Books { in_flight_s, latency_s, ..Books::default() }).unwrap();
        assert!(error < 0.1, "{error}");
    }
}
