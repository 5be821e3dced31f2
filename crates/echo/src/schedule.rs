//! When something recurs, as pure functions of the time since the first connection. No clock is read here.

#[cfg(test)]
mod tests;

/// Something that begins after one period, lasts a while, and begins again after each further period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The period, above 0.
    pub every_ns: u64,
    /// How long it lasts, from 1 to the period. The whole period: without end, once begun.
    pub lasts_ns: u64,
}

impl Schedule {
    /// When what goes on at `at_ns` ends; `None` if nothing goes on. It lasts from its beginning, included, to its end,
    /// excluded.
    pub fn end_ns(&self, at_ns: u64) -> Option<u64> {
        let begins_ns = at_ns - at_ns % self.every_ns;
        let on = begins_ns > 0 && at_ns - begins_ns < self.lasts_ns;
        on.then(|| begins_ns.saturating_add(self.lasts_ns))
    }

    /// Whether it goes on at `at_ns`.
    pub fn is_on(&self, at_ns: u64) -> bool {
        self.end_ns(at_ns).is_some()
    }
}
