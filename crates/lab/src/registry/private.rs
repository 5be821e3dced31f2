//! A folder of the caller's own for what tells this program what to end, to remove or to set: nobody else can have written what is
//! read here. It must not know what that is.
//!
//! The folder is opened once and looked at, without following a link, and everything in it is opened by that. So whatever
//! somebody puts in its place meanwhile is not read.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::Error;
use crate::trusted;

/// The folder, open.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    open: File,
}

impl PrivateFolder {
    /// Opens the folder; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Distrusted`] if it is not the caller's alone, or can be swapped by others; [`Error::System`] if it cannot be
    /// opened.
    pub fn find(path: &Path) -> Result<Option<Self>, Error> {
        let is_there = path.symlink_metadata().is_ok();
        let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), is_there) else { return Ok(None) };
        let resolved = trusted::shared_folder(parent)?.join(name);
        let opening = || format!("open {}", path.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match openat(CWD, &resolved, flags, Mode::empty()) {
            Ok(open) => File::from(open),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let found = resolved.symlink_metadata().map_err(Error::system(opening()))?;
                return Err(trusted::no_such(path, &found).into());
            }
            Err(error) => {
                // Not even opened by one who is not root: whose it is matters more.
                if let Ok(found) = resolved.symlink_metadata() {
                    trusted::own(path, &found)?;
                }
                return Err(Error::system(opening())(error.into()));
            }
        };
        trusted::own(path, &open.metadata().map_err(Error::system(opening()))?)?;
        Ok(Some(Self { path: path.to_path_buf(), open }))
    }

    /// Opens the folder, and makes it if there is none. From then on only the caller may enter it.
    ///
    /// # Errors
    /// As [`Self::find`], or if it cannot be made.
    pub fn make(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            trusted::shared_folder(parent)?;
        }
        let making = || format!("make {}", path.display());
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::system(making())(error)),
            _ => {}
        }
        let gone = || Error::system(making())(io::ErrorKind::NotFound.into());
        let folder = Self::find(path)?.ok_or_else(gone)?;
        let found = folder.open.metadata().map_err(Error::system(making()))?;
        if found.mode() & 0o077 != 0 {
            let private = fs::Permissions::from_mode(0o700);
            folder.open.set_permissions(private).map_err(Error::system(format!("close {}", path.display())))?;
        }
        Ok(folder)
    }

    /// The path of an entry, for words.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of all that is in it.
    pub fn names(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.open).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").collect()
    }

    /// Whether there is such an entry, whatever it is.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// A new file. It is only appended to.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` if there is one.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.open, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Appends to a file, and has it on the disk.
    ///
    /// # Errors
    /// As [`Self::read`], or if it cannot be written.
    pub fn append(&self, name: &str, text: &str) -> Result<(), Error> {
        let writing = || format!("write {}", self.path(name).display());
        let mut file = match self.create(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.open(name, OFlags::WRONLY | OFlags::APPEND)?
            }
            created => created.map_err(Error::system(writing()))?,
        };
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(Error::system(writing()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Distrusted`] if it is a link, a pipe or a device, is not the caller's alone, has another name, or is longer than
    /// `at_most` bytes; [`Error::System`] if it cannot be read.
    pub fn read(&self, name: &str, at_most: u64) -> Result<String, Error> {
        trusted::text(&self.open(name, OFlags::RDONLY)?, &self.path(name), at_most)
    }

    /// Opens a file that is there, once it is sure that it is ours. Nobody at the other end is waited for.
    fn open(&self, name: &str, how: OFlags) -> Result<File, Error> {
        let path = self.path(name);
        let opening = || format!("open {}", path.display());
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&self.open, name, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                trusted::own(&path, &file.metadata().map_err(Error::system(opening()))?)?;
                Ok(file)
            }
            Err(Errno::LOOP) => {
                let found = path.symlink_metadata().map_err(Error::system(opening()))?;
                Err(trusted::no_such(&path, &found).into())
            }
            Err(error) => Err(Error::system(opening())(error.into())),
        }
    }

    /// Whether a file was written to within this time.
    pub fn is_young(&self, name: &str, within: Duration) -> bool {
        let written = self.open(name, OFlags::RDONLY).ok().and_then(|file| file.metadata().ok()?.modified().ok());
        written.is_some_and(|written| written.elapsed().is_ok_and(|age| age < within))
    }

    /// Gives a file another name, in the place of whatever has that.
    ///
    /// # Errors
    /// What the system says.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.open, from, &self.open, to)?)
    }

    /// Removes a file; there may be none.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.open, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }
}
