//! What a group was kept from. It must not take differences: a counter is a counter.

use super::field;

/// What a quota has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub periods: u64,
    /// … and in which it was stopped by its quota.
    pub throttled_periods: u64,
}

impl Throttling {
    /// From the text of `cpu.stat`, of either version. `None` where CPU time is not controlled.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { periods: field(text, "nr_periods")?, throttled_periods: field(text, "nr_throttled")? })
    }
}
