//! An entry of the registry: one JSON object a line, only ever appended to, and readable with its last line torn. It must not end or
//! remove anything but files of its own.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::kernel::Kernel;
use super::private::PrivateFolder;
use crate::Error;
use crate::hosts::Leftover;
use crate::linux::procfs;
use crate::remains::Group;
use crate::trusted;

/// How the name of an entry ends.
const ENDING: &str = ".jsonl";
/// Of an entry: some ten thousand processes.
pub const ENTRY_BYTES: u64 = 1 << 20;
/// In which the first line of an entry comes.
const YOUNG: Duration = Duration::from_secs(60);

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
    Group(Group),
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
    /// In which pid namespace both are true: its inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// What can be said of the process that plays a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It runs.
    Alive,
    /// It is gone.
    Gone,
    /// It is gone, and so is every process of its pid namespace.
    GoneWithNamespace,
    /// It is in a pid namespace that cannot be seen from here.
    Elsewhere,
}

impl Owner {
    /// This process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let started_ticks = procfs::stat(pid).map_or(0, |stat| stat.started_ticks);
        Self { pid, started_ticks, boot: procfs::boot(), pid_namespace: procfs::pid_namespace() }
    }

    /// Whether it still runs, as far as can be seen from here.
    pub fn standing(&self) -> Standing {
        if !self.is_of_this_boot() {
            return Standing::Gone;
        }
        match (self.pid_namespace, procfs::pid_namespace()) {
            (Some(theirs), Some(ours)) if theirs == ours => {}
            // Written by a version that did not say.
            (None, _) => {}
            (Some(theirs), Some(procfs::FIRST_PID_NAMESPACE)) if !procfs::has_processes(theirs) => {
                return Standing::GoneWithNamespace;
            }
            (Some(_), _) => return Standing::Elsewhere,
        }
        let now = procfs::stat(self.pid).filter(|stat| !stat.is_dead());
        let is_alive = now.is_some_and(|stat| stat.started_ticks == self.started_ticks);
        if is_alive { Standing::Alive } else { Standing::Gone }
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
    pub groups: Vec<Group>,
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

/// Makes the private folder of a run.
///
/// # Errors
/// If there is no folder for temporary files, if others can move what is in it, or if the name is taken.
pub fn make_scratch(scratch: &Path) -> Result<(), Error> {
    let parent = scratch.parent().unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        return Err(Error::NoTemporaryFolder { path: parent.to_path_buf() });
    }
    trusted::shared_folder(parent)?;
    let make = || DirBuilder::new().mode(0o700).create(scratch);
    make().map_err(Error::system(format!("make {}", scratch.display())))
}

/// Removes a private folder with all that is in it, also where a target took away its own permissions. One that is not ours stays.
pub fn remove_scratch(scratch: &Path) -> Result<bool, Error> {
    let refused = || format!("remove {}", scratch.display());
    let found = match scratch.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.map_err(Error::system(refused()))?,
    };
    // Once a run is over, anybody can take its folder's name where everybody may write.
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Ok(false);
    }
    let removed = match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(scratch);
            fs::remove_dir_all(scratch)
        }
        done => done,
    };
    removed.map_err(Error::system(refused())).map(|()| true)
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
pub fn create(folder: &PrivateFolder, ids: impl Iterator<Item = String>) -> Result<(String, String, File), Error> {
    for id in ids {
        let name = format!("{id}{ENDING}");
        match folder.create(&name) {
            Ok(file) => return Ok((id, name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Error::System { doing: format!("write {}", folder.path(&name).display()), error });
            }
        }
    }
    Err(Error::System {
        doing: format!("find a name in {}", folder.path("").display()),
        error: io::ErrorKind::AlreadyExists.into(),
    })
}

/// Appends a line in one write, and says how long it is.
pub fn append(mut file: &File, line: &Line) -> io::Result<usize> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    Ok(text.len())
}

/// The name under which an entry is written anew, before it takes the place of the old one.
pub fn rewritten(name: &str) -> String {
    format!("{name}.new")
}

/// Of the lines of an entry those that there still is something to: each once, and no group that is empty.
pub fn still_needed(lines: Vec<Line>) -> Vec<Line> {
    let all = procfs::alive();
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        let is_needed = match &line {
            // Found by its mark, as before.
            Line::Process { .. } => false,
            Line::Group(group) => all.iter().any(|stat| stat.group == group.pid),
            _ => true,
        };
        if is_needed && !kept.contains(&line) {
            kept.push(line);
        }
    }
    kept
}

/// The names of the entries in a folder, sorted.
pub fn entries(folder: &PrivateFolder) -> Vec<String> {
    let mut entries = folder.names();
    entries.retain(|name| name.ends_with(ENDING));
    entries.sort();
    entries
}

/// Reads an entry; `None` without a readable first line.
///
/// # Errors
/// [`Error::Distrusted`] if it is not ours alone; [`Error::System`] if it cannot be read.
pub fn read(folder: &PrivateFolder, name: &str) -> Result<Option<Record>, Error> {
    let text = folder.read(name, ENTRY_BYTES)?;
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let Some(Line::Run { id, owner, folder }) = lines.next() else { return Ok(None) };
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
            Line::Group(group) => record.groups.push(group),
            Line::Cgroups { name } => record.kernel.cgroups.push(name),
            Line::Loop { device, file } => record.kernel.loops.push((device, file)),
            Line::Throttle { device } => record.kernel.throttles.push(device),
            // A line for every trial.
            Line::Remote(left) if !record.remotes.contains(&left) => record.remotes.push(left),
            Line::Remote(_) | Line::Run { .. } | Line::Process { .. } => {}
        }
    }
    Ok(Some(record))
}

/// Removes an entry without a first line: its run ended before it made anything. The owner's pid is in the name; while
/// there is such a process, or when the entry is young (its owner may be in another pid namespace), that line may be about to come.
pub fn remove_unreadable(folder: &PrivateFolder, name: &str) -> Result<bool, Error> {
    let pid = name.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
    let may_come = pid.is_some_and(|pid| procfs::stat(pid).is_some()) || folder.is_young(name, YOUNG);
    if may_come {
        return Ok(false);
    }
    folder.remove(name).map_err(Error::system(format!("remove {}", folder.path(name).display()))).map(|()| true)
}
