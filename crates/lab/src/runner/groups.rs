//! A host's cgroups.

use std::path::PathBuf;

use super::Setup;

/// A host's cgroups.
#[derive(Debug)]
pub struct Groups {}

impl Groups {
    /// Makes them, with what the envelope limits; also what a user should know.
    pub fn make(setup: &Setup) -> Result<(Self, Vec<String>), String> {
        let _ = setup;
        Ok((Self {}, Vec::new()))
    }

    /// Files into which a process of the target writes itself.
    pub fn join_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes them.
    pub fn remove(&self) {}
}
