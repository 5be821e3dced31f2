//! The probes of one host, read by its runner when it is asked: the host's row, then one for each running role. It must not
//! know the trial's clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use record::rows::Sample;

use super::Setup;
use super::groups::Groups;
use crate::sampling::{Proc, Reader, Source, strangers_pct};
use crate::site::Member;

/// Reads a host.
pub struct Sampler {
    reader: Reader,
    groups: Arc<Groups>,
    /// Other machines have strangers; inside a host that Plimsoll made there are none.
    has_strangers: bool,
}

impl Sampler {
    /// Of the host that was set up so, in these control groups.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        let source = Source::of(setup, Proc::at(Path::new("/proc")));
        Self { reader: Reader::new(source), groups, has_strangers: setup.isolation.is_none() }
    }

    /// What the host and its roles did since the last time; nothing the first time. `at_s` and `host` are left for the
    /// asker to fill in.
    pub fn sample(&mut self, members: &[Member]) -> Vec<Sample> {
        self.reader.set_usage(self.groups.usage());
        let Some(mut rows) = self.reader.read(Instant::now(), members, Sample::default()) else { return Vec::new() };
        if self.has_strangers {
            let ours: Vec<Sample> = rows.roles.iter().chain(&rows.own).cloned().collect();
            rows.host.cpu_strangers_pct = strangers_pct(&rows.host, &ours);
        }
        std::iter::once(rows.host).chain(rows.roles).collect()
    }
}

#[cfg(test)]
mod tests;
