//! Where a run folder of `plimsoll hit` is: in a folder that the user named, or in a private one that goes with this value. It must not
//! know what is in it.

use std::path::{Path, PathBuf};

use lab::registry::Registry;

use crate::exit::Failure;

/// A place for run folders.
pub struct Home {
    path: PathBuf,
    /// Removes the private folder when it goes, on every way out; after a kill, the next start does.
    _private: Option<Registry>,
}

impl Home {
    /// The folder that was asked for, or a private one.
    ///
    /// # Errors
    /// If none can be made.
    pub fn of(asked: Option<&Path>) -> Result<Self, Failure> {
        if let Some(asked) = asked {
            return Ok(Self { path: asked.to_path_buf(), _private: None });
        }
        let private = Registry::begin(&std::env::temp_dir())?;
        Ok(Self { path: private.scratch()?, _private: Some(private) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
