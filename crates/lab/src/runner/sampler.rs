//! The probes of a host.

use std::sync::Arc;

use record::rows::Sample;

use super::Setup;
use super::groups::Groups;
use crate::site::Member;

/// Reads them, once a second.
#[derive(Debug)]
pub struct Sampler {}

impl Sampler {
    /// Nothing read yet.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        let _ = (setup, groups);
        Self {}
    }

    /// The host's row, then one for each role; empty the first time.
    pub fn sample(&mut self, members: &[Member]) -> Vec<Sample> {
        let _ = members;
        Vec::new()
    }
}
