//! Trusted files and folders: only root and the caller (the user of this process) can have written
//! them, and no other user of this machine can change or swap them.
//!
//! A path is resolved first and then checked from the top. Only root and the caller can swap an
//! entry of a folder that only they may write to. Therefore each checked folder stays valid while
//! the rest of the path is checked. sshd uses the same rule for `authorized_keys`.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::procfs;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::Error;
use crate::untrusted_path::{TrustProblem, UntrustedPath, field};

/// Sticky bit: others may make entries in the folder, but rename or remove only their own.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Resolves a folder's path. Checks that only root and the caller can write to the folder or swap
/// it.
///
/// # Errors
/// [`Error::Distrusted`] with the first untrusted folder on the path; [`Error::System`] if the
/// folder does not exist.
pub fn folder(path: &Path) -> Result<PathBuf, Error> {
    resolved(path, false)
}

/// Like [`folder`], but also accepts a folder in which others may make their own entries, such as
/// /tmp. The caller's entries in such a folder are safe.
pub fn shared_folder(path: &Path) -> Result<PathBuf, Error> {
    resolved(path, true)
}

/// Makes a folder with its parents, and checks it as [`shared_folder`] does. Makes nothing inside
/// an untrusted folder.
///
/// # Errors
/// Like [`folder`], or [`Error::System`] if the folder cannot be made.
pub fn make_shared_folder(path: &Path) -> Result<(), Error> {
    let there = path.ancestors().find(|folder| folder.exists());
    shared_folder(there.unwrap_or(Path::new(".")))?;
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(Error::on("make", path))?;
    shared_folder(path).map(drop)
}

fn resolved(path: &Path, may_be_shared: bool) -> Result<PathBuf, Error> {
    let found = path.canonicalize().map_err(Error::on("find", path))?;
    let mut above: Vec<&Path> = found.ancestors().collect();
    above.reverse();
    for step in above {
        let metadata = step.symlink_metadata().map_err(Error::on("examine", step))?;
        let is_shared = metadata.is_dir() && (may_be_shared || step != found);
        judge(step, &metadata, is_shared)?;
    }
    Ok(found)
}

/// Checks that only root and the caller can write to a path. In a shared folder, others may have
/// their own entries.
fn judge(path: &Path, found: &Metadata, is_shared: bool) -> Result<(), UntrustedPath> {
    let (mode, uid) = (found.mode(), geteuid().as_raw());
    if found.uid() != 0 && found.uid() != uid {
        return Err(UntrustedPath::of(path, found, TrustProblem::Owner));
    }
    if is_shared && mode & STICKY != 0 {
        return Ok(());
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(UntrustedPath::of(path, found, TrustProblem::Everybody));
    }
    if mode & GROUP_WRITES != 0 && !is_own_group(found.gid(), uid) {
        return Err(UntrustedPath::of(path, found, TrustProblem::Group(found.gid())));
    }
    Ok(())
}

/// Whether the caller is the only member of the group. Many systems give each user a private group
/// and a umask of 002.
fn is_own_group(gid: u32, uid: u32) -> bool {
    let [passwd, group] = ["/etc/passwd", "/etc/group"].map(|path| procfs::text(Path::new(path)).unwrap_or_default());
    is_private_group(gid, uid, &passwd, &group)
}

/// Like [`is_own_group`], from the text of `/etc/passwd` and `/etc/group`. A group that
/// `/etc/group` lacks may have unknown members.
fn is_private_group(gid: u32, uid: u32, passwd: &str, group: &str) -> bool {
    let Some(user) = passwd.lines().find(|line| field(line, 2) == Some(uid)) else { return false };
    let name = user.split(':').next();
    let others_have_it = passwd.lines().any(|line| field(line, 3) == Some(gid) && field(line, 2) != Some(uid));
    let Some(line) = group.lines().find(|line| field(line, 2) == Some(gid)) else { return false };
    let members = line.split(':').nth(3).unwrap_or_default().split(',').map(str::trim);
    field(user, 3) == Some(gid)
        && !others_have_it
        && members.filter(|member| !member.is_empty()).all(|one| Some(one) == name)
}

/// Reads a file that only root and the caller can have written.
///
/// # Errors
/// [`Error::Distrusted`] if others can have written it, or if it is not a regular file or is longer
/// than `at_most` bytes; [`Error::System`] if it cannot be read.
pub fn read(path: &Path, at_most: u64) -> Result<String, Error> {
    let found = resolved(path, false)?;
    let file = open(&found)?;
    let metadata = file.metadata().map_err(Error::on("examine", &found))?;
    judge(&found, &metadata, false)?;
    text(&file, &found, at_most)
}

/// Reads a regular file of any owner. Rejects pipes, which may never end, and devices.
pub fn read_regular(path: &Path, at_most: u64) -> Result<String, Error> {
    let file = open(path)?;
    text(&file, path, at_most)
}

/// Opens a file without blocking, even if it is a pipe.
fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    opened.map(File::from).map_err(|error| Error::on("read", path)(error.into()))
}

/// Returns the text of a regular file, up to a size limit.
pub fn text(file: &File, path: &Path, at_most: u64) -> Result<String, Error> {
    let reading = Error::on("read", path);
    let found = file.metadata().map_err(reading)?;
    if !found.is_file() {
        return Err(UntrustedPath::of(path, &found, TrustProblem::Kind(kind(&found))).into());
    }
    let mut bytes = Vec::new();
    file.take(at_most + 1).read_to_end(&mut bytes).map_err(reading)?;
    if bytes.len() as u64 > at_most {
        return Err(UntrustedPath::of(path, &found, TrustProblem::Long(at_most)).into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks that a file or folder belongs to the caller alone: no other user may write to it, and a
/// file has no second hard link.
pub fn own(path: &Path, found: &Metadata) -> Result<(), UntrustedPath> {
    let why = match found.mode() {
        _ if found.uid() != geteuid().as_raw() => TrustProblem::Owner,
        mode if mode & OTHERS_WRITE != 0 => TrustProblem::Everybody,
        mode if mode & GROUP_WRITES != 0 => TrustProblem::Group(found.gid()),
        // A file with no link was just removed.
        _ if found.is_file() && found.nlink() > 1 => TrustProblem::Links(found.nlink()),
        _ if !found.is_file() && !found.is_dir() => TrustProblem::Kind(kind(found)),
        _ => return Ok(()),
    };
    Err(UntrustedPath::of(path, found, why))
}

/// Returns the error for a path that is not the expected kind of file.
pub fn no_such(path: &Path, found: &Metadata) -> UntrustedPath {
    UntrustedPath::of(path, found, TrustProblem::Kind(kind(found)))
}

fn kind(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_symlink() => "link",
        () if kind.is_dir() => "folder",
        () if kind.is_fifo() => "pipe",
        () if kind.is_socket() => "socket",
        () if kind.is_file() => "file",
        () => "device",
    }
}

/// Checks that no other user can have written anything in a folder, or the targets of its links.
///
/// # Errors
/// [`Error::Distrusted`] with the first untrusted entry; [`Error::System`] if an entry cannot be
/// read.
pub fn tree(path: &Path) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    let mut open = vec![folder(path)?];
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let looking = Error::on("examine", &path);
        let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(looking)? {
            let path = entry.path();
            let found = path.symlink_metadata().map_err(looking)?;
            if found.is_symlink() {
                open.extend(led_to(&path, &found)?);
                continue;
            }
            judge(&path, &found, false)?;
            if found.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(())
}

/// Checks the target of a link. Returns the target if it is a folder.
fn led_to(link: &Path, found: &Metadata) -> Result<Option<PathBuf>, Error> {
    if found.uid() != 0 && found.uid() != geteuid().as_raw() {
        return Err(UntrustedPath::of(link, found, TrustProblem::Owner).into());
    }
    match resolved(link, false) {
        Ok(path) => Ok(path.is_dir().then_some(path)),
        // Editors leave dangling links next to files. They are accepted if no other user can make
        // their target.
        Err(Error::System { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            let to = fs::read_link(link).map_err(Error::on("examine", link))?;
            let parent = link.parent().map(|folder| folder.join(to)).and_then(|to| to.parent().map(Path::to_path_buf));
            let is_safe = parent.is_some_and(|parent| folder(&parent).is_ok());
            if is_safe { Ok(None) } else { Err(UntrustedPath::of(link, found, TrustProblem::Dangling).into()) }
        }
        Err(error) => Err(error),
    }
}

// A private folder of the caller. Its files tell this program which processes to end, which files
// to remove and which settings to change, so no other user can have written them.
//
// The folder is opened once, without following a link, and checked. All its entries are opened
// relative to that descriptor. If another user swaps the folder meanwhile, the new folder is not
// read.

/// An open private folder.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    open: File,
}

impl PrivateFolder {
    /// Opens the folder. `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Distrusted`] if it does not belong to the caller alone, or if others can swap it;
    /// [`Error::System`] if it cannot be opened.
    pub fn find(path: &Path) -> Result<Option<Self>, Error> {
        let is_there = path.symlink_metadata().is_ok();
        let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), is_there) else { return Ok(None) };
        let resolved = shared_folder(parent)?.join(name);
        let opening = Error::on("open", path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match openat(CWD, &resolved, flags, Mode::empty()) {
            Ok(open) => File::from(open),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let found = resolved.symlink_metadata().map_err(opening)?;
                return Err(no_such(path, &found).into());
            }
            Err(error) => {
                // If the caller may not open the folder, a wrong owner is the more useful error.
                if let Ok(found) = resolved.symlink_metadata() {
                    own(path, &found)?;
                }
                return Err(opening(error.into()));
            }
        };
        own(path, &open.metadata().map_err(opening)?)?;
        Ok(Some(Self { path: path.to_path_buf(), open }))
    }

    /// Opens the folder, or makes it. Removes access for other users.
    ///
    /// # Errors
    /// Like [`Self::find`], or if it cannot be made.
    pub fn make(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            shared_folder(parent)?;
        }
        let making = Error::on("make", path);
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(making(error)),
            _ => {}
        }
        let folder = Self::find(path)?.ok_or_else(|| making(io::ErrorKind::NotFound.into()))?;
        let found = folder.open.metadata().map_err(making)?;
        if found.mode() & 0o077 != 0 {
            let private = fs::Permissions::from_mode(0o700);
            folder.open.set_permissions(private).map_err(Error::on("close", path))?;
        }
        Ok(folder)
    }

    /// Returns the path of an entry, for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the names of all entries.
    pub fn names(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.open).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").collect()
    }

    /// Whether there is an entry of this name, of any kind.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Creates a file for appending.
    ///
    /// # Errors
    /// The system's error; `AlreadyExists` if the file exists.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.open, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Appends to a file and syncs it to disk.
    ///
    /// # Errors
    /// Like [`Self::read`], or if it cannot be written.
    pub fn append(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        let writing = Error::on("write", &path);
        let mut file = match self.create(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.open(name, OFlags::WRONLY | OFlags::APPEND)?
            }
            created => created.map_err(writing)?,
        };
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(writing)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Distrusted`] if the file is a link, a pipe or a device, does not belong to the
    /// caller alone, has a second hard link, or is longer than `at_most` bytes; [`Error::System`]
    /// if it cannot be read.
    pub fn read(&self, name: &str, at_most: u64) -> Result<String, Error> {
        text(&self.open(name, OFlags::RDONLY)?, &self.path(name), at_most)
    }

    /// Opens an existing file that belongs to the caller alone. Never blocks.
    fn open(&self, name: &str, how: OFlags) -> Result<File, Error> {
        let path = self.path(name);
        let opening = Error::on("open", &path);
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&self.open, name, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                own(&path, &file.metadata().map_err(opening)?)?;
                Ok(file)
            }
            Err(Errno::LOOP) => {
                let found = path.symlink_metadata().map_err(opening)?;
                Err(no_such(&path, &found).into())
            }
            Err(error) => Err(opening(error.into())),
        }
    }

    /// Whether a file was written within this time.
    pub fn is_young(&self, name: &str, within: Duration) -> bool {
        let written = self.open(name, OFlags::RDONLY).ok().and_then(|file| file.metadata().ok()?.modified().ok());
        written.is_some_and(|written| written.elapsed().is_ok_and(|age| age < within))
    }

    /// Renames a file. Replaces an existing one.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.open, from, &self.open, to)?)
    }

    /// Removes a file. Does nothing if it does not exist.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.open, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use fixture::TestDir;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn distrusted(error: Error) -> UntrustedPath {
        match error {
            Error::Distrusted(found) => *found,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn files_that_others_can_write_are_not_trusted() {
        let folder = TestDir::new();
        let path = folder.write("inner/file", "text");
        assert_eq!(read(&path, 10).unwrap(), "text");
        assert_eq!(distrusted(read(&path, 3).unwrap_err()).why, TrustProblem::Long(3));
        mode(&path, 0o646);
        let found = distrusted(read(&path, 10).unwrap_err());
        assert_eq!((found.path.as_path(), found.why), (&*path.canonicalize().unwrap(), TrustProblem::Everybody));
        assert!(found.to_string().contains("mode 0646: all users may write to it"), "{found}");
        mode(&path, 0o644);
        mode(&folder.join("inner"), 0o777);
        assert_eq!(distrusted(read(&path, 10).unwrap_err()).path, folder.join("inner").canonicalize().unwrap());
        assert!(super::folder(&folder.join("inner")).is_err() && tree(&folder).is_err());
        // In a sticky folder like /tmp, no other user can move our entries.
        mode(&folder.join("inner"), 0o1777);
        assert_eq!(read(&path, 10).unwrap(), "text");
        assert!(super::folder(&folder.join("inner")).is_err(), "but anybody can put more into it");
        assert!(shared_folder(&folder.join("inner")).is_ok());
    }

    #[test]
    fn pipes_and_devices_are_not_trusted() {
        let folder = TestDir::new();
        let pipe = folder.join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(distrusted(read(&pipe, 10).unwrap_err()).why, TrustProblem::Kind("pipe"));
        assert_eq!(distrusted(read_regular(&pipe, 10).unwrap_err()).why, TrustProblem::Kind("pipe"));
        let endless = distrusted(read_regular(Path::new("/dev/zero"), 10).unwrap_err());
        assert_eq!(endless.why, TrustProblem::Kind("device"));
    }

    #[test]
    fn links_are_judged_by_their_destination() {
        let (folder, other) = (TestDir::new(), TestDir::new());
        let theirs = other.write("theirs/program", "x");
        symlink(&theirs, folder.join("link")).unwrap();
        tree(&folder).unwrap();
        mode(&other.join("theirs"), 0o1777);
        tree(&folder).unwrap();
        mode(&theirs, 0o666);
        assert_eq!(distrusted(tree(&folder).unwrap_err()).path, theirs.canonicalize().unwrap());
        fs::remove_file(&theirs).unwrap();
        assert_eq!(distrusted(tree(&folder).unwrap_err()).why, TrustProblem::Dangling, "anybody can make it");
        fs::remove_file(folder.join("link")).unwrap();
        symlink("me@here.1:2", folder.join(".#file")).unwrap();
        tree(&folder).unwrap();
    }

    #[test]
    fn files_of_another_user_are_not_trusted() {
        if !geteuid().is_root() {
            // Only root can give files away.
            return;
        }
        let folder = TestDir::new();
        let path = folder.write("inner/hook", "x");
        chown(&path, Some(65534), Some(65534)).unwrap();
        let found = distrusted(tree(&folder).unwrap_err());
        assert_eq!((found.uid, found.why), (65534, TrustProblem::Owner));
        assert!(found.to_string().contains("(uid 65534) and has mode 06"), "{found}");
        assert!(found.remedy().contains("chown it to root (uid 0)"), "{}", found.remedy());
        chown(folder.join("inner"), Some(65534), None).unwrap();
        let found = distrusted(read(&path, 10).unwrap_err());
        assert_eq!(found.path, folder.join("inner").canonicalize().unwrap(), "its owner could swap what is in it");
        // A group with only this user, and a group that the user shares.
        chown(folder.join("inner"), Some(0), Some(65534)).unwrap();
        mode(&folder.join("inner"), 0o775);
        assert_eq!(distrusted(super::folder(&folder.join("inner")).unwrap_err()).why, TrustProblem::Group(65534));
    }

    #[test]
    fn a_group_without_other_members_is_private() {
        let passwd =
            "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\ncid:x:1002:100::/:\n";
        let group = "root:x:0:\nusers:x:100:\nann:x:1000:\nbob:x:1001:ann\ndan:x:1003:dan\n";
        let is_private = |gid, uid| is_private_group(gid, uid, passwd, group);
        assert!(is_private(0, 0) && is_private(1000, 1000));
        assert!(!is_private(1001, 1001), "ann is in it");
        assert!(!is_private(1000, 1001) && !is_private(1000, 0), "another's");
        assert!(!is_private(77, 1000) && !is_private(1000, 77), "not known");
        let twice = format!("{passwd}eve:x:1004:1000::/:/bin/sh\n");
        assert!(!is_private_group(1000, 1000, &twice, group), "eve's as well");
    }
}
