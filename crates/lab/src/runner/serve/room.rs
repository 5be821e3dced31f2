//! The host's private folders. It must not remove anything outside of the host's folder.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use crate::runner::{Refusal, Setup};

/// Where the host's folders are.
pub struct Room {
    folder: PathBuf,
    /// It goes with the host.
    is_temporary: bool,
}

impl Room {
    /// The folder that the setup names, or a temporary one. One that is there already holds the data of the host, which was
    /// cut off and is made again.
    pub fn make(setup: &Setup) -> Result<Self, String> {
        if !setup.folder.as_os_str().is_empty() {
            let folder = setup.folder.clone();
            fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            return Ok(Self { folder, is_temporary: false });
        }
        // With the host's name: two hosts of a run may be on one machine.
        let folder = std::env::temp_dir().join(format!("plimsoll-run-{}.{}", setup.run, setup.host));
        let made = DirBuilder::new().mode(0o700).create(&folder).or_else(|error| {
            let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
            let there = error.kind() == ErrorKind::AlreadyExists;
            // In a folder that all may write, somebody may have been here first.
            if there && folder.symlink_metadata().is_ok_and(is_ours) { Ok(()) } else { Err(error) }
        });
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder, is_temporary: true })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// An empty folder of that name.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, Refusal> {
        let path = self.named(name)?;
        let made = remove(&path).and_then(|()| fs::create_dir_all(&path));
        made.map_err(|error| Refusal::system(format!("make {}", path.display()), &error))?;
        Ok(path)
    }

    pub fn remove_folder(&self, name: &str) -> Result<(), Refusal> {
        let path = self.named(name)?;
        remove(&path).map_err(|error| Refusal::system(format!("remove {}", path.display()), &error))
    }

    fn named(&self, name: &str) -> Result<PathBuf, Refusal> {
        let mut parts = Path::new(name).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(_)), None) => Ok(self.folder.join(name)),
            _ => Err(Refusal::system(format!("use the folder `{name}`"), &"that is no name of a folder")),
        }
    }

    /// Removes what it made.
    pub fn end(&self) {
        if self.is_temporary {
            let _ = remove(&self.folder);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
