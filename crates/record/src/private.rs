//! Files and folders that only their owner can read, regardless of the umask, because records of a
//! run may contain confidential data.
//!
//! Each file is opened relative to its folder's descriptor, and links of other users are not
//! followed: other users may have put anything under the run's file names in a folder that they can
//! write to.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::checked_file::WITHOUT_WAITING;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;
/// Write permissions for users other than the owner.
const OTHERS_WRITE: u32 = 0o022;
/// Flags for a new file: an existing file or link of that name is an error.
const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The open parent folder of a path, and the path's last component.
struct FolderEntry<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
}

impl<'a> FolderEntry<'a> {
    fn of(path: &'a Path) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file");
        let name = path.file_name().ok_or_else(no_name)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: openat(CWD, parent, flags, Mode::empty())?, name })
    }

    /// Whether the existing file belongs to the caller and no other user can replace it.
    fn is_callers(&self) -> io::Result<bool> {
        let (folder, found) =
            (rustix::fs::fstat(&self.folder)?, statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)?);
        let me = geteuid().as_raw();
        Ok(folder.st_uid == me && folder.st_mode & OTHERS_WRITE == 0 && found.st_uid == me)
    }
}

/// Creates a private file. Empties an existing file and makes it private.
///
/// # Errors
/// If the file cannot be created, or another user may have made the existing file.
pub fn create(path: &Path) -> io::Result<File> {
    let entry = FolderEntry::of(path)?;
    let file = match openat(&entry.folder, entry.name, NEW, Mode::from_raw_mode(FILE)) {
        Err(Errno::EXIST) if entry.is_callers()? => {
            let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
            openat(&entry.folder, entry.name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    close_to_others(file.into())
}

/// Opens a private file for reading and appending. Creates a missing file and makes an existing
/// file private.
///
/// # Errors
/// If the file cannot be opened, is a link, has other hard links, or belongs to another user.
pub fn append(path: &Path) -> io::Result<File> {
    let entry = FolderEntry::of(path)?;
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | WITHOUT_WAITING;
    let file = File::from(openat(&entry.folder, entry.name, flags, Mode::from_raw_mode(FILE))?);
    let found = file.metadata()?;
    if found.is_file() && (found.uid() != geteuid().as_raw() || found.nlink() > 1) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user, or has other hard links",
        ));
    }
    close_to_others(file)
}

/// Sets the permissions of a file, because the umask may have removed some and an older file may
/// have too many. Does not change a device such as /dev/full.
fn close_to_others(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(FILE))?;
    }
    Ok(file)
}

/// Creates a private folder.
///
/// # Errors
/// `AlreadyExists` if the path exists.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let entry = FolderEntry::of(path)?;
    mkdirat(&entry.folder, entry.name, Mode::from_raw_mode(FOLDER))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(&entry.folder, entry.name, flags, Mode::empty())?).set_permissions(Permissions::from_mode(FOLDER))
}

/// A file that is written under a random name beside its destination and renamed to it when
/// complete. A link at the destination is replaced, not followed. Dropping it before that removes
/// the new file.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    name: OsString,
    /// Temporary name of the file, until it is complete.
    beside: OsString,
    file: File,
    is_whole: bool,
}

impl NewFile {
    /// Creates a file that only the caller can read.
    pub fn private(path: &Path) -> io::Result<Self> {
        let new = Self::with_mode(path, FILE)?;
        new.file.set_permissions(Permissions::from_mode(FILE))?;
        Ok(new)
    }

    /// Creates a file with the permissions that the umask allows.
    pub fn shown(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o666)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        let FolderEntry { folder, name } = FolderEntry::of(path)?;
        loop {
            let beside = OsString::from(format!(".plimsoll-{:016x}", RandomState::new().build_hasher().finish()));
            match openat(&folder, &beside, NEW, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => {}
                opened => {
                    let file = File::from(opened?);
                    return Ok(Self { folder, name: name.to_owned(), beside, file, is_whole: false });
                }
            }
        }
    }

    /// Syncs the file to disk and then renames it to its destination.
    ///
    /// # Errors
    /// If a step fails. The destination then keeps its old content.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        renameat(&self.folder, &self.beside, &self.folder, &self.name)?;
        self.is_whole = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // The caller reports the earlier error.
            let _ = unlinkat(&self.folder, &self.beside, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use fixture::TestDir;

    use super::*;
    use crate::checked_file::write_whole;

    fn shared() -> TestDir {
        let scratch = TestDir::new();
        fs::set_permissions(&*scratch, Permissions::from_mode(0o777)).unwrap();
        scratch.write("victim", "precious");
        scratch
    }

    #[test]
    fn links_in_place_of_records_are_not_followed() {
        let scratch = shared();
        let (victim, planted) = (scratch.join("victim"), scratch.join("events.jsonl"));
        symlink(&victim, &planted).unwrap();
        assert!(create(&planted).is_err() && append(&planted).is_err());
        fs::hard_link(&victim, scratch.join("other-name")).unwrap();
        assert!(create(&scratch.join("other-name")).is_err() && append(&scratch.join("other-name")).is_err());
        assert_eq!(create_folder(&planted).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(create(&scratch.join("new")).unwrap().metadata().unwrap().mode() & 0o777, FILE);
    }

    #[test]
    fn a_link_in_place_of_a_whole_file_is_replaced() {
        let scratch = shared();
        let (victim, page) = (scratch.join("victim"), scratch.join("report.html"));
        symlink(&victim, &page).unwrap();
        symlink(&victim, scratch.join(format!(".report.html.{}", std::process::id()))).unwrap();
        write_whole(&page, b"page").unwrap();
        assert!(!page.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&page).unwrap(), "page");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn an_unfinished_file_leaves_nothing_behind() {
        let scratch = TestDir::new();
        NewFile::shown(&scratch.join("page")).unwrap().write_all(b"half").unwrap();
        assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0);
    }
}
