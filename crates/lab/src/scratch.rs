//! A folder for a test, removed when the test is over. Not for anything else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty one.
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("plimsoll-test-{name}-{}-{:x}", std::process::id(), fastrand::u64(..)));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a shell script into it.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Deref for Scratch {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
