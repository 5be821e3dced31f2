//! A file for what is read from files. It must not know what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file for one input.
pub struct Place(PathBuf);

impl Place {
    /// A new one.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("plimsoll-fuzzing-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // In memory, where there is such a place.
        let memory = Path::new("/dev/shm");
        Self(if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) })
    }

    /// Writes the bytes to it.
    pub fn hold(&self, bytes: &[u8]) -> &Path {
        fs::write(&self.0, bytes).unwrap();
        &self.0
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
