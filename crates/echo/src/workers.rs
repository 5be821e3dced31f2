//! How many requests are served at a time: a bound on work in progress, with one queue for all. Pure: it is told the time.

use std::collections::VecDeque;

/// Workers that each take so long for a request. Those that find none free wait in the order in which they came, so `workers / delay`
/// requests per second are served, and never more.
#[derive(Debug)]
pub(crate) struct Workers {
    delay_ns: u64,
    /// When each is done with its last request, soonest first. Empty: there is one for everybody.
    done_ns: VecDeque<u64>,
}

impl Workers {
    /// So many of them, idle; 0: as many as it takes.
    pub fn new(count: u32, delay_ns: u64) -> Self {
        Self { delay_ns, done_ns: std::iter::repeat_n(0, count as usize).collect() }
    }

    /// When a request that came at `now_ns` has been served. A worker goes on to the next request at the very moment at which it was to be done,
    /// however late anybody looks: a server that was kept from running loses no capacity.
    pub fn serve(&mut self, now_ns: u64) -> u64 {
        let free_ns = self.done_ns.pop_front();
        let due_ns = free_ns.unwrap_or(0).max(now_ns).saturating_add(self.delay_ns);
        if free_ns.is_some() {
            // All take equally long, so whoever begins last is done last.
            self.done_ns.push_back(due_ns);
        }
        due_ns
    }
}

#[cfg(test)]
mod tests {
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
}
