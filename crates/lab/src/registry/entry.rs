//! An entry of the registry as a file: one JSON object a line, only ever appended to, and readable with its last line torn.
//! It must not end or remove anything but files of its own.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::Cleaned;
use super::kernel::Kernel;
use crate::Error;
use crate::hosts::Leftover;
use crate::linux::procfs;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "made", rename_all = "snake_case")]
pub enum Line {
    /// First line: the run.
    Run {
        /// What tells it from every other; also the value of the mark.
        id: String,
        /// The process that plays it.
        owner: Owner,
        /// Where its records are.
        folder: PathBuf,
    },
    /// A private folder.
    Scratch {
        /// Where.
        path: PathBuf,
    },
    /// A control group at the top of every hierarchy, with what is below it.
    Cgroups {
        /// Its name.
        name: String,
    },
    /// A loop device.
    Loop {
        /// Which.
        device: PathBuf,
        /// What is attached to it.
        file: PathBuf,
    },
    /// Limits of a loop device.
    Throttle {
        /// Which.
        device: PathBuf,
    },
    /// A process that is about to be started. It carries the mark; its pid is not known yet.
    Process {
        /// Where.
        host: String,
        /// What.
        role: String,
    },
    /// A process group: that of a process that was started.
    Group {
        /// Its leader.
        pid: u32,
        /// When that started, clock ticks since boot.
        started_ticks: u64,
    },
    /// A folder on another machine, which removes it itself when the connection ends.
    Remote(Leftover),
}

/// The process that plays a run. A pid alone is no name: it is used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// When it started, clock ticks since boot.
    pub started_ticks: u64,
    /// Which boot.
    pub boot: String,
}

impl Owner {
    /// This process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let started_ticks = procfs::stat(pid).map_or(0, |stat| stat.started_ticks);
        Self { pid, started_ticks, boot: procfs::boot() }
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let now = procfs::stat(self.pid).filter(|stat| !stat.is_dead());
        self.is_of_this_boot() && now.is_some_and(|stat| stat.started_ticks == self.started_ticks)
    }

    /// Whether the machine was not started anew since.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == procfs::boot()
    }
}

/// An entry, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The run's id.
    pub id: String,
    /// Who plays it.
    pub owner: Owner,
    /// Where its records are.
    pub folder: PathBuf,
    /// Its private folders.
    pub scratch: Vec<PathBuf>,
    /// Its process groups.
    pub groups: Vec<(u32, u64)>,
    /// What it made in the kernel.
    pub kernel: Kernel,
    /// Folders on other machines, each once.
    pub remotes: Vec<Leftover>,
}

/// Where entries are, the first being where new ones go.
pub fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        folders.push(PathBuf::from(runtime).join("plimsoll"));
    }
    let user = geteuid();
    if user.is_root() {
        folders.push(PathBuf::from("/run/plimsoll"));
    }
    folders.push(std::env::temp_dir().join(format!("plimsoll-{}", user.as_raw())));
    folders
}

/// Makes a folder that only its owner may enter, or finds that it is one.
pub fn make_private(folder: &Path) -> Result<(), Error> {
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(folder);
    make().map_err(Error::system(format!("make {}", folder.display())))?;
    let found = folder.symlink_metadata().map_err(Error::system(format!("look at {}", folder.display())))?;
    // In a folder that all may write, somebody may have been here first.
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Err(Error::NotPrivate { path: folder.to_path_buf() });
    }
    if found.mode() & 0o077 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder, private).map_err(Error::system(format!("close {}", folder.display())))?;
    }
    Ok(())
}

/// The private folder of the run with this id.
pub fn scratch_of(id: &str) -> PathBuf {
    std::env::temp_dir().join(scratch_name(id))
}

/// Whether a private folder is one that the run with this id made.
pub fn belongs_to(scratch: &Path, id: &str) -> bool {
    scratch.is_absolute() && scratch.file_name().is_some_and(|name| *name == *scratch_name(id))
}

fn scratch_name(id: &str) -> String {
    format!("plimsoll-run-{id}")
}

/// Removes a private folder with all that is in it, also where a target took away its own permissions.
pub fn remove_scratch(scratch: &Path) -> io::Result<()> {
    match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(scratch);
            fs::remove_dir_all(scratch)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// A new file for an entry, under the first of the ids that is not taken.
pub fn create(folder: &Path, ids: impl Iterator<Item = String>) -> Result<(String, PathBuf, File), Error> {
    for id in ids {
        let path = folder.join(format!("{id}.jsonl"));
        match File::options().create_new(true).append(true).open(&path) {
            Ok(file) => return Ok((id, path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::System { doing: format!("write {}", path.display()), error }),
        }
    }
    Err(Error::System {
        doing: format!("find a name in {}", folder.display()),
        error: io::ErrorKind::AlreadyExists.into(),
    })
}

/// Appends a line in one write.
pub fn append(mut file: &File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

/// The entries in a folder, sorted by name.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<_> = found.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    entries.sort();
    entries
}

/// Reads an entry; `None` without a readable first line.
pub fn read(path: &Path) -> Option<Record> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let Some(Line::Run { id, owner, folder }) = lines.next() else { return None };
    let mut record = Record {
        id,
        owner,
        folder,
        scratch: Vec::new(),
        groups: Vec::new(),
        kernel: Kernel::default(),
        remotes: Vec::new(),
    };
    for line in lines {
        match line {
            Line::Scratch { path } => record.scratch.push(path),
            Line::Group { pid, started_ticks } => record.groups.push((pid, started_ticks)),
            Line::Cgroups { name } => record.kernel.cgroups.push(name),
            Line::Loop { device, file } => record.kernel.loops.push((device, file)),
            Line::Throttle { device } => record.kernel.throttles.push(device),
            // A line for every trial.
            Line::Remote(left) if !record.remotes.contains(&left) => record.remotes.push(left),
            Line::Remote(_) | Line::Run { .. } | Line::Process { .. } => {}
        }
    }
    Some(record)
}

/// Removes an entry without a first line: its run ended before it made anything. The owner's pid is in the name; while
/// there is such a process, it may be about to write that line.
pub fn remove_unreadable(path: &Path, cleaned: &mut Cleaned) {
    let pid = path.file_stem().and_then(|name| name.to_str()?.split('-').nth(1)?.parse::<u32>().ok());
    if pid.is_none_or(|pid| procfs::stat(pid).is_none()) && fs::remove_file(path).is_ok() {
        cleaned.removed.push(format!("entry {}", path.display()));
    }
}
