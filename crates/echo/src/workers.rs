//! How many requests are served at a time: a bound on work in progress, with one queue for all. Pure: it is told the time.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

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
