//! The files that a load names: feeds, scripts, recorded schedules and certificates. They are in a
//! folder. If the folder is on another machine, the files' contents are transferred and kept in
//! memory, so that nothing has to be written to disk or removed later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

/// Locations of a load's files.
#[derive(Debug, Clone, Default)]
pub struct InputFiles {
    folder: PathBuf,
    handed_over: BTreeMap<String, Arc<File>>,
}

impl InputFiles {
    /// Uses the files below a folder.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), handed_over: BTreeMap::new() }
    }

    /// Returns the same transferred files, with another folder for all other files.
    #[must_use]
    pub fn with_folder(&self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), handed_over: self.handed_over.clone() }
    }

    /// Returns the absolute path of the folder, for other processes.
    #[must_use]
    pub fn absolute_folder(&self) -> PathBuf {
        std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone())
    }

    /// Returns the path to open for the file `name` of the load.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        match self.handed_over.get(name) {
            Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            None => self.folder.join(name),
        }
    }

    /// Stores the first or the next bytes of a transferred file. A first piece replaces an earlier
    /// file of the same name; clones of this value keep the earlier file.
    pub fn take(&mut self, name: &str, is_first: bool, bytes: &[u8]) -> io::Result<()> {
        if is_first {
            self.handed_over
                .insert(name.to_owned(), Arc::new(memfd_create("plimsoll-input", MemfdFlags::CLOEXEC)?.into()));
        }
        let file = self.handed_over.get(name).ok_or(io::ErrorKind::NotFound)?;
        (&**file).write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::read_to_string;

    use fixture::TestDir;

    use super::*;

    #[test]
    fn received_files_take_precedence_over_the_folder() {
        let folder = TestDir::new();
        folder.write("feeds/a.csv", "here");
        folder.write("b.csv", "here, too");
        let mut files = InputFiles::below(&*folder);
        files.take("feeds/a.csv", true, b"handed ").unwrap();
        files.take("feeds/a.csv", false, b"over").unwrap();
        // Each reader starts at the beginning of the file.
        for _ in 0..2 {
            assert_eq!(read_to_string(files.path("feeds/a.csv")).unwrap(), "handed over");
        }
        assert_eq!(read_to_string(files.path("b.csv")).unwrap(), "here, too");
        let elsewhere = files.with_folder("/nowhere");
        assert_eq!(read_to_string(elsewhere.path("feeds/a.csv")).unwrap(), "handed over");
        assert_eq!(elsewhere.path("b.csv"), PathBuf::from("/nowhere/b.csv"));
        files.take("feeds/a.csv", true, b"anew").unwrap();
        assert_eq!(read_to_string(files.path("feeds/a.csv")).unwrap(), "anew");
        assert_eq!(read_to_string(elsewhere.path("feeds/a.csv")).unwrap(), "handed over");
        assert!(files.take("never begun", false, b"x").is_err());
    }
}
