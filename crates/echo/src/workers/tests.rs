//! What bounded workers carry.

use super::*;

#[test]
fn without_a_bound_each_takes_its_delay() {
    let mut workers = Workers::new(0, 10);
    assert_eq!([5, 5, 5, 7].map(|now_ns| workers.serve(now_ns)), [15, 15, 15, 17]);
}

#[test]
fn those_that_find_no_worker_wait_in_order() {
    let mut workers = Workers::new(2, 10);
    assert_eq!([0, 0, 0, 1, 19, 40].map(|now_ns| workers.serve(now_ns)), [10, 10, 20, 20, 30, 50]);
}

#[test]
fn the_capacity_is_workers_by_delay() {
    for (count, delay_ns) in [(1, 1000), (3, 1000), (7, 250)] {
        let mut workers = Workers::new(count, delay_ns);
        // Twice as many as they carry, all at the beginning of a million nanoseconds.
        let offered = 2 * u64::from(count) * 1_000_000 / delay_ns;
        let served = (0..offered).filter(|_| workers.serve(0) <= 1_000_000).count() as u64;
        assert_eq!(served, u64::from(count) * 1_000_000 / delay_ns, "{count} workers of {delay_ns} ns");
    }
}
