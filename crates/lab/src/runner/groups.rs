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

    /// Its cores do this much of what the profile says.
    pub fn set_cpu(&self, _of_profile: Option<f64>) -> Result<(), super::Refusal> {
        Ok(())
    }

    /// It has this much memory.
    pub fn set_memory(&self, _bytes: Option<u64>) -> Result<(), super::Refusal> {
        Ok(())
    }

    /// Its disk is like this.
    pub fn set_disk(&self, _disk: Option<&experiment::profile::Disk>) -> Result<(), super::Refusal> {
        Ok(())
    }

    /// All of the target stands still, or goes on.
    pub fn freeze(&self, _frozen: bool) -> Result<(), super::Refusal> {
        Ok(())
    }

    /// Removes them.
    pub fn remove(&self) {}
}
