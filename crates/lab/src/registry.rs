//! Everything that a run makes, written down before it is made, so that whatever ends the run,
//! the next start finds what it left, and ends and removes it.

pub mod cleanup;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linux::cgroup::{self, Device};
use linux::{ProcessGroup, RunTag, mount, procfs};
use runner::{MARK, top_of};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::platforms::PlatformUse;
use crate::trusted::{self, PrivateFolder};

/// Runs begun by this process.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// A run's entry. When it goes, everything that is left of the run goes with it.
#[derive(Debug)]
pub struct Registry {
    ledger: Arc<RegistryWriter>,
}

/// What parts of the lab write into the entry.
#[derive(Debug)]
pub(crate) struct RegistryWriter {
    id: String,
    folder: PrivateFolder,
    /// The entry, in the folder.
    name: String,
    written: Mutex<EntryFile>,
    made: Mutex<MadeResource>,
}

/// The entry's file.
#[derive(Debug)]
struct EntryFile {
    file: File,
    lines: Vec<RegistryLine>,
    bytes: usize,
    /// When it is this long, what is over is left out.
    at_most: usize,
}

#[derive(Debug, Default)]
struct MadeResource {
    scratch: Option<PathBuf>,
    /// Private folders elsewhere.
    elsewhere: Vec<PathBuf>,
    groups: Vec<ProcessGroup>,
    kernel: KernelResource,
}

impl Registry {
    /// Registers a run of this process, in the first place that is there and nobody else's.
    ///
    /// # Errors
    /// If no entry can be written.
    pub fn begin(run_folder: &Path) -> Result<Self, Error> {
        let mut refused = None;
        for folder in folders() {
            match Self::begin_in(&folder, run_folder) {
                Ok(registry) => return Ok(registry),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let refused = refused.map(Error::for_private_files);
        Err(refused.unwrap_or_else(|| Error::NotYet("a registry without a folder for it".to_owned())))
    }

    pub(crate) fn begin_in(folder: &Path, run_folder: &Path) -> Result<Self, Error> {
        let folder = PrivateFolder::make(folder)?;
        let owner = RunOwner::this_process();
        let boot = owner.boot.get(..8).unwrap_or("unknown");
        // Counted per process, not per folder: two runs of one process must differ wherever they are registered.
        let numbers = std::iter::repeat_with(|| BEGUN.fetch_add(1, Ordering::Relaxed) + 1);
        let ids = numbers.map(|number| format!("{boot}-{}-{}-{number}", owner.pid, owner.started_ticks));
        let (id, name, file) = create_entry(&folder, ids)?;
        let written = EntryFile { file, lines: Vec::new(), bytes: 0, at_most: ENTRY_BYTES as usize / 2 };
        let ledger =
            RegistryWriter { id: id.clone(), folder, name, written: Mutex::new(written), made: Mutex::default() };
        ledger.note(&RegistryLine::Run { id, owner, folder: run_folder.to_path_buf() })?;
        Ok(Self { ledger: Arc::new(ledger) })
    }

    /// What tells this run from every other.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.ledger.id
    }

    /// Name and value of the variable that every process of the run must have in its environment.
    #[must_use]
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.ledger.id)
    }

    /// The run's private folder for data; removed at its end.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn scratch(&self) -> Result<PathBuf, Error> {
        self.ledger.scratch()
    }

    pub(crate) fn ledger(&self) -> Arc<RegistryWriter> {
        Arc::clone(&self.ledger)
    }

    /// Ends the run: what is left of its processes is killed, its private folder and its entry are removed.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let (_, left) = self.ledger.marks().end(false);
        let kernel = std::mem::take(&mut self.ledger.made().kernel);
        let released = kernel.remove(&self.ledger.id, &mut Vec::new()).is_ok();
        let (scratch, elsewhere) = {
            let mut made = self.ledger.made();
            (made.scratch.take(), std::mem::take(&mut made.elsewhere))
        };
        let folders_left = scratch.iter().chain(&elsewhere).filter(|folder| remove_scratch(folder).is_err()).count();
        // An entry of which something is left stays for `clean`.
        if left.is_empty() && released && folders_left == 0 {
            let _ = self.ledger.folder.remove(&self.ledger.name);
        }
    }
}

impl RegistryWriter {
    fn made(&self) -> std::sync::MutexGuard<'_, MadeResource> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: &RegistryLine) -> Result<(), Error> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let writing = || format!("write {}", self.folder.path(&self.name).display());
        written.bytes += append_lines(&written.file, line).map_err(Error::system(writing()))?;
        written.lines.push(line.clone());
        if written.bytes > written.at_most {
            self.rewrite(&mut written).map_err(Error::system(writing()))?;
        }
        Ok(())
    }

    /// Writes the entry anew without what is over: a run of many trials makes much, and what is too long is not read.
    fn rewrite(&self, written: &mut EntryFile) -> io::Result<()> {
        let lines = still_needed(std::mem::take(&mut written.lines));
        let name = rewritten(&self.name);
        self.folder.remove(&name)?;
        let file = self.folder.create(&name)?;
        let mut bytes = 0;
        for line in &lines {
            bytes += append_lines(&file, line)?;
        }
        self.folder.rename(&name, &self.name)?;
        // Where much is alive, not again with the next line.
        let at_most = written.at_most.max(2 * bytes);
        *written = EntryFile { file, lines, bytes, at_most };
        Ok(())
    }

    /// The run's id: the value of the mark.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A process is about to be started.
    pub(crate) fn announce(&self, host: &str, role: &str) -> Result<(), Error> {
        self.note(&RegistryLine::Process { host: host.to_owned(), role: role.to_owned() })
    }

    /// A process was started: it leads a process group.
    pub(crate) fn started(&self, group: &ProcessGroup) -> Result<(), Error> {
        self.made().groups.push(group.clone());
        self.note(&RegistryLine::Group(group.clone()))
    }

    /// The run's control group at the top of every hierarchy is about to be made.
    pub(crate) fn grouped(&self) -> Result<(), Error> {
        let name = top_of(&self.id);
        let mut made = self.made();
        if !made.kernel.cgroups.contains(&name) {
            self.note(&RegistryLine::Cgroups { name: name.clone() })?;
            made.kernel.cgroups.push(name);
        }
        Ok(())
    }

    /// A file is about to be attached to a loop device.
    pub(crate) fn looped(&self, device: &Path, file: &Path) -> Result<(), Error> {
        self.note(&RegistryLine::Loop { device: device.to_path_buf(), file: file.to_path_buf() })?;
        self.made().kernel.loops.push((device.to_path_buf(), file.to_path_buf()));
        Ok(())
    }

    /// A loop device of the run is about to be limited.
    pub(crate) fn throttled(&self, device: &Path) -> Result<(), Error> {
        self.note(&RegistryLine::Throttle { device: device.to_path_buf() })?;
        self.made().kernel.throttles.push(device.to_path_buf());
        Ok(())
    }

    /// A folder is about to be made on another machine.
    pub(crate) fn remote(&self, destination: &str, folder: &str) -> Result<(), Error> {
        self.note(&RegistryLine::Remote(Leftover { destination: destination.to_owned(), folder: folder.to_owned() }))
    }

    /// Something is about to be asked of a platform, for all fleets of the run.
    pub(crate) fn on_platform(&self, of: &PlatformUse) -> Result<(), Error> {
        let line = RegistryLine::Platform(of.clone());
        let is_noted = self.written.lock().unwrap_or_else(PoisonError::into_inner).lines.contains(&line);
        if is_noted { Ok(()) } else { self.note(&line) }
    }

    pub(crate) fn scratch(&self) -> Result<PathBuf, Error> {
        let mut made = self.made();
        if let Some(scratch) = &made.scratch {
            return Ok(scratch.clone());
        }
        let scratch = scratch_of(&self.id);
        self.note(&RegistryLine::Scratch { path: scratch.clone() })?;
        make_scratch(&scratch).map_err(Error::for_private_files)?;
        made.scratch = Some(scratch.clone());
        Ok(scratch)
    }

    /// The run's private folder on another file system, mounted here.
    pub(crate) fn scratch_in(&self, mount: &Path) -> Result<PathBuf, Error> {
        let scratch = mount.join(scratch_name(&self.id));
        let mut made = self.made();
        if !made.elsewhere.contains(&scratch) {
            self.note(&RegistryLine::Scratch { path: scratch.clone() })?;
            make_scratch(&scratch).map_err(Error::for_private_files)?;
            made.elsewhere.push(scratch.clone());
        }
        Ok(scratch)
    }

    /// How the run's processes are found.
    pub(crate) fn marks(&self) -> RunTag {
        RunTag { variables: vec![self.variable()], groups: self.made().groups.clone() }
    }

    /// What is in the environment of each of the run's processes.
    pub(crate) fn variable(&self) -> String {
        format!("{MARK}={}", self.id)
    }
}

// An entry of the registry: one JSON object a line, only ever appended to, and readable with its
// last line torn.

/// How the name of an entry ends.
const ENDING: &str = ".jsonl";
/// Of an entry: some ten thousand processes.
const ENTRY_BYTES: u64 = 1 << 20;
/// In which the first line of an entry comes.
const YOUNG: Duration = Duration::from_secs(60);

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "made", rename_all = "snake_case")]
pub(crate) enum RegistryLine {
    /// First line: the run.
    Run {
        /// What tells it from every other; also the value of the mark.
        id: String,
        /// The process that plays it.
        owner: RunOwner,
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
    Group(ProcessGroup),
    /// A folder on another machine, which removes it itself when the connection ends.
    Remote(Leftover),
    /// Jobs on a platform.
    Platform(PlatformUse),
}

/// A folder on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Where, as the experiment has it.
    pub destination: String,
    /// The beginning of the folder's name.
    pub folder: String,
}

/// The process that plays a run. A pid alone is no name: it is used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunOwner {
    /// Its pid.
    pub pid: u32,
    /// When it started, clock ticks since boot.
    pub started_ticks: u64,
    /// Which boot.
    pub boot: String,
    /// In which pid namespace both are true: its inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// In which time namespace it started then: its inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_namespace: Option<u64>,
}

/// State of the process that plays a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The process runs.
    Alive,
    /// The process is gone.
    Gone,
    /// The process and all others of its pid namespace are gone.
    GoneWithNamespace,
    /// The process is in another namespace of this kind, so its state is unknown.
    Elsewhere(&'static str),
}

impl RunOwner {
    /// This process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let started_ticks = procfs::stat(pid).map_or(0, |stat| stat.started_ticks);
        let (pid_namespace, time_namespace) = (procfs::pid_namespace(), procfs::time_namespace());
        Self { pid, started_ticks, boot: procfs::boot(), pid_namespace, time_namespace }
    }

    /// Whether it still runs, as far as can be seen from here.
    fn standing(&self) -> OwnerState {
        if !self.is_of_this_boot() {
            return OwnerState::Gone;
        }
        match (self.pid_namespace, procfs::pid_namespace()) {
            (Some(theirs), Some(ours)) if theirs == ours => {}
            // Written by a version that did not say.
            (None, _) => {}
            (Some(theirs), Some(procfs::FIRST_PID_NAMESPACE)) if !procfs::has_processes(theirs) => {
                return OwnerState::GoneWithNamespace;
            }
            (Some(_), _) => return OwnerState::Elsewhere("pid"),
        }
        match procfs::stat(self.pid).filter(|stat| !stat.is_dead()) {
            None => OwnerState::Gone,
            Some(stat) if stat.started_ticks == self.started_ticks => OwnerState::Alive,
            // The start time of the same process is another one where the clock since boot is.
            Some(_) if self.time_namespace != procfs::time_namespace() => OwnerState::Elsewhere("time"),
            Some(_) => OwnerState::Gone,
        }
    }

    /// Whether the machine was not started anew since.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == procfs::boot()
    }
}

/// An entry, read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegistryEntry {
    /// The run's id.
    pub id: String,
    /// Who plays it.
    pub owner: RunOwner,
    /// Where its records are.
    pub folder: PathBuf,
    /// Its private folders.
    pub scratch: Vec<PathBuf>,
    /// Its process groups.
    pub groups: Vec<ProcessGroup>,
    /// What it made in the kernel.
    pub kernel: KernelResource,
    /// Folders on other machines, each once.
    pub remotes: Vec<Leftover>,
    /// Where its jobs are.
    pub platforms: Vec<PlatformUse>,
}

/// Where entries are, the first being where new ones go.
#[must_use]
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
fn scratch_of(id: &str) -> PathBuf {
    std::env::temp_dir().join(scratch_name(id))
}

/// Whether a private folder is one that the run with this id made.
fn belongs_to(scratch: &Path, id: &str) -> bool {
    scratch.is_absolute() && scratch.file_name().is_some_and(|name| *name == *scratch_name(id))
}

fn scratch_name(id: &str) -> String {
    format!("plimsoll-run-{id}")
}

/// Makes the private folder of a run.
///
/// # Errors
/// If there is no folder for temporary files, if others can move what is in it, or if the name is taken.
fn make_scratch(scratch: &Path) -> Result<(), Error> {
    let parent = scratch.parent().unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        return Err(Error::NoTemporaryFolder { path: parent.to_path_buf() });
    }
    trusted::shared_folder(parent)?;
    let make = || DirBuilder::new().mode(0o700).create(scratch);
    make().map_err(Error::system(format!("make {}", scratch.display())))
}

/// Removes a private folder with all that is in it, also where a target took away its own permissions. One that is not ours stays.
fn remove_scratch(scratch: &Path) -> Result<bool, Error> {
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
fn create_entry(folder: &PrivateFolder, ids: impl Iterator<Item = String>) -> Result<(String, String, File), Error> {
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
fn append_lines(mut file: &File, line: &RegistryLine) -> io::Result<usize> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    Ok(text.len())
}

/// The name under which an entry is written anew, before it takes the place of the old one.
fn rewritten(name: &str) -> String {
    format!("{name}.new")
}

/// Of the lines of an entry those that there still is something to: each once, and no group that is empty.
fn still_needed(lines: Vec<RegistryLine>) -> Vec<RegistryLine> {
    let all = procfs::alive();
    let mut kept: Vec<RegistryLine> = Vec::new();
    for line in lines {
        let is_needed = match &line {
            // Found by its mark, as before.
            RegistryLine::Process { .. } => false,
            RegistryLine::Group(group) => all.iter().any(|stat| stat.group == group.pid),
            _ => true,
        };
        if is_needed && !kept.contains(&line) {
            kept.push(line);
        }
    }
    kept
}

/// The names of the entries in a folder, sorted.
pub(crate) fn entries(folder: &PrivateFolder) -> Vec<String> {
    let mut entries = folder.names();
    entries.retain(|name| name.ends_with(ENDING));
    entries.sort();
    entries
}

/// Reads an entry; `None` without a readable first line.
///
/// # Errors
/// [`Error::Distrusted`] if it is not ours alone; [`Error::System`] if it cannot be read.
fn read_entry(folder: &PrivateFolder, name: &str) -> Result<Option<RegistryEntry>, Error> {
    let text = folder.read(name, ENTRY_BYTES)?;
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<RegistryLine>(line).ok());
    let Some(RegistryLine::Run { id, owner, folder }) = lines.next() else { return Ok(None) };
    let mut record = RegistryEntry {
        id,
        owner,
        folder,
        scratch: Vec::new(),
        groups: Vec::new(),
        kernel: KernelResource::default(),
        remotes: Vec::new(),
        platforms: Vec::new(),
    };
    for line in lines {
        match line {
            RegistryLine::Scratch { path } => record.scratch.push(path),
            RegistryLine::Group(group) => record.groups.push(group),
            RegistryLine::Cgroups { name } => record.kernel.cgroups.push(name),
            RegistryLine::Loop { device, file } => record.kernel.loops.push((device, file)),
            RegistryLine::Throttle { device } => record.kernel.throttles.push(device),
            // A line for every trial.
            RegistryLine::Remote(left) if !record.remotes.contains(&left) => record.remotes.push(left),
            RegistryLine::Platform(of) => record.platforms.push(of),
            RegistryLine::Remote(_) | RegistryLine::Run { .. } | RegistryLine::Process { .. } => {}
        }
    }
    Ok(Some(record))
}

/// Removes an entry without a first line: its run ended before it made anything. The owner's pid is in the name; while
/// there is such a process, or when the entry is young (its owner may be in another pid namespace), that line may be about to come.
fn remove_unreadable(folder: &PrivateFolder, name: &str) -> Result<bool, Error> {
    let pid = name.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
    let may_come = pid.is_some_and(|pid| procfs::stat(pid).is_some()) || folder.is_young(name, YOUNG);
    if may_come {
        return Ok(false);
    }
    folder.remove(name).map_err(Error::system(format!("remove {}", folder.path(name).display()))).map(|()| true)
}

// What a run made in the kernel: control groups, loop devices, their limits. Removed only where
// it is certain that it was this run that made it.

/// What was written down before it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KernelResource {
    /// Names of groups, in whatever hierarchies there are.
    pub cgroups: Vec<String>,
    /// Device and the file that is attached to it. Another may have got the device at the last moment.
    pub loops: Vec<(PathBuf, PathBuf)>,
    /// Devices with limits.
    pub throttles: Vec<PathBuf>,
}

impl KernelResource {
    /// Removes it; a line for each thing that was there. All is tried, whatever fails.
    pub fn remove(&self, id: &str, removed: &mut Vec<String>) -> Result<(), Error> {
        let mut failed = None;
        for name in self.cgroups.iter().filter(|name| **name == top_of(id)) {
            match cgroup::remove_tree(name) {
                Ok(done) if done.folders.is_empty() => {}
                Ok(_) => removed.push(format!("control groups {name}")),
                Err(error) => {
                    failed.get_or_insert(refused(format!("remove the control groups {name}"), error));
                }
            }
        }
        // Version 2 has none outside of the groups.
        for device in self.throttles.iter().filter(|device| self.is_ours(device, id)) {
            if let Err(error) = Device::at(device).and_then(cgroup::clear_throttle) {
                failed.get_or_insert(refused(format!("take the limits off {}", device.display()), error));
            }
        }
        for (device, file) in self.loops.iter().filter(|(device, file)| can_be(device, file, id)) {
            match mount::detach_loop(device, file) {
                Ok(false) => {}
                Ok(true) => removed.push(format!("loop device {}", device.display())),
                Err(error) => {
                    failed.get_or_insert(Error::system(format!("detach {}", device.display()))(error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the limits of a device can be ours: it was, and nobody else has it now.
    fn is_ours(&self, device: &Path, id: &str) -> bool {
        let mut files = self.loops.iter().filter(|(ours, file)| ours == device && can_be(ours, file, id)).peekable();
        let now = mount::backing_file(device);
        files.peek().is_some() && now.is_none_or(|now| files.any(|(_, file)| *file == now))
    }
}

/// Whether the run can have attached this file to this device: a damaged entry must not take another's away.
fn can_be(device: &Path, file: &Path, id: &str) -> bool {
    mount::is_loop_device(device) && file.ancestors().skip(1).any(|folder| belongs_to(folder, id))
}

fn refused(doing: String, error: cgroup::CgroupError) -> Error {
    Error::System { doing, error: io::Error::other(error) }
}

#[cfg(test)]
mod tests;
