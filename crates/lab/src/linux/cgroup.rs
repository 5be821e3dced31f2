//! Verbs over control groups, of version 1, 2 and both at once: which controllers there are; make, fill, limit, freeze, kill,
//! read and remove a group. It must not know what a run, a host or a target is.
//!
//! A [`Group`] is one name in every hierarchy, such as `plimsoll-x/n1/target`: who uses it need not know that version 1 has a
//! tree for each controller. The documents behind it are the kernel's `cgroup-v1/*.rst` and `cgroup-v2.rst`.

mod group;
mod hierarchies;
mod limits;
mod own;
mod readings;
mod remains;
mod shrinking;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use group::Group;
#[cfg(test)]
pub use hierarchies::tests as recorded;
pub use hierarchies::{Controller, Hierarchies, Version};
pub use limits::{Quota, Throttle};
pub use own::Own;
pub use readings::{CpuTime, Memory, Resource, Stall, Throttling};
#[cfg(test)]
pub use remains::tests::leftovers;
pub use remains::{clear_throttle, remove_tree};

/// Why something could not be done with a group.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A controller is not there.
    #[error("{needed_for} needs the control group controller `{controller}`, {why}")]
    Missing {
        /// Which.
        controller: Controller,
        /// What was to be done.
        needed_for: &'static str,
        /// Why it is not there, and what would help.
        why: &'static str,
    },
    /// Not ours to change.
    #[error("cannot {doing}: {error} (control groups need root and a writable /sys/fs/cgroup)")]
    Denied {
        /// What.
        doing: String,
        /// What the system said.
        error: io::Error,
    },
    /// Version 1 takes no limit below what is in use.
    #[error(
        "memory cannot be limited to {asked_bytes} bytes: {used_bytes} bytes are in use, and this kernel (control groups of \
         version 1) could not free enough of them"
    )]
    MemoryInUse {
        /// The limit.
        asked_bytes: u64,
        /// In use.
        used_bytes: u64,
    },
    /// Processes that do not die.
    #[error("{count} processes of {name} are still there after being killed")]
    Undying {
        /// The group.
        name: String,
        /// How many.
        count: usize,
    },
    /// The system refused.
    #[error("cannot {doing}: {error}")]
    System {
        /// What.
        doing: String,
        /// What it said.
        error: io::Error,
    },
}

impl Error {
    fn of(doing: String, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { doing, error },
            _ => Self::System { doing, error },
        }
    }
}

/// A block device by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// 7 for loop devices.
    pub major: u32,
    /// Which of them.
    pub minor: u32,
}

impl Device {
    /// The device of which this is the node: `/dev/loop3`.
    ///
    /// # Errors
    /// If there is no such file, or it is no block device.
    pub fn at(node: &Path) -> Result<Self, Error> {
        let doing = || format!("look at {}", node.display());
        let found = fs::metadata(node).map_err(|error| Error::of(doing(), error))?;
        if rustix::fs::FileType::from_raw_mode(found.mode()) != rustix::fs::FileType::BlockDevice {
            return Err(Error::of(doing(), io::Error::other("it is no block device")));
        }
        let number = found.rdev();
        Ok(Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) })
    }

    /// From `7:3`.
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Writes a control file in one write, as the kernel wants it. A file that is not there is not made.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

fn write_or(path: &Path, text: &str) -> Result<(), Error> {
    write(path, text).map_err(|error| Error::of(format!("write {text} to {}", path.display()), error))
}

/// A number that is all of a file's text. `None` also for `max`.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `key` and a space, in a file of such lines.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The folders in a folder: the groups in a group.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// A folder and all below it, the deepest first.
fn deepest_first(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = children(folder).iter().flat_map(|child| deepest_first(child)).collect();
    found.push(folder.to_path_buf());
    found
}
