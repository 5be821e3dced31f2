//! The registry of runs. A run records each process, folder and kernel resource before making it.
//! However the run ends, the next start of Plimsoll finds the leftovers, and ends and removes them.

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

/// Number of runs that this process has begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// A run's entry in the registry. Dropping it removes everything that is left of the run.
#[derive(Debug)]
pub struct Registry {
    ledger: Arc<RegistryWriter>,
}

/// Writes a run's entry. All parts of the lab share it.
#[derive(Debug)]
pub(crate) struct RegistryWriter {
    id: String,
    folder: PrivateFolder,
    /// File name of the entry in `folder`.
    name: String,
    written: Mutex<EntryFile>,
    made: Mutex<MadeResource>,
}

/// The file of an entry.
#[derive(Debug)]
struct EntryFile {
    file: File,
    lines: Vec<RegistryLine>,
    bytes: usize,
    /// Size at which obsolete lines are removed, bytes.
    at_most: usize,
}

#[derive(Debug, Default)]
struct MadeResource {
    scratch: Option<PathBuf>,
    /// Private folders on file systems other than that of `scratch`.
    elsewhere: Vec<PathBuf>,
    groups: Vec<ProcessGroup>,
    kernel: KernelResource,
}

impl Registry {
    /// Registers a run of this process, in the first registry folder that exists and belongs to
    /// this user alone.
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
        Err(refused.unwrap_or_else(|| Error::NotYet("a registry without a folder".to_owned())))
    }

    pub(crate) fn begin_in(folder: &Path, run_folder: &Path) -> Result<Self, Error> {
        let folder = PrivateFolder::make(folder)?;
        let owner = RunOwner::this_process();
        let boot = owner.boot.get(..8).unwrap_or("unknown");
        // The counter is per process, not per folder: two runs of one process have different ids
        // even if they are registered in different folders.
        let numbers = std::iter::repeat_with(|| BEGUN.fetch_add(1, Ordering::Relaxed) + 1);
        let ids = numbers.map(|number| format!("{boot}-{}-{}-{number}", owner.pid, owner.started_ticks));
        let (id, name, file) = create_entry(&folder, ids)?;
        let written = EntryFile { file, lines: Vec::new(), bytes: 0, at_most: ENTRY_BYTES as usize / 2 };
        let ledger =
            RegistryWriter { id: id.clone(), folder, name, written: Mutex::new(written), made: Mutex::default() };
        ledger.note(&RegistryLine::Run { id, owner, folder: run_folder.to_path_buf() })?;
        Ok(Self { ledger: Arc::new(ledger) })
    }

    /// Returns the run's unique id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.ledger.id
    }

    /// Returns the name and value of the environment variable that every process of the run
    /// carries.
    #[must_use]
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.ledger.id)
    }

    /// Returns the run's private folder for data. It is removed at the end of the run.
    pub fn scratch(&self) -> Result<PathBuf, Error> {
        self.ledger.scratch()
    }

    pub(crate) fn ledger(&self) -> Arc<RegistryWriter> {
        Arc::clone(&self.ledger)
    }

    /// Ends the run: kills its remaining processes, and removes its private folder and its entry.
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
        // If anything is left, the entry stays for `clean`.
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
        let path = self.folder.path(&self.name);
        let writing = Error::on("write", &path);
        written.bytes += append_lines(&written.file, line).map_err(writing)?;
        written.lines.push(line.clone());
        if written.bytes > written.at_most {
            self.rewrite(&mut written).map_err(writing)?;
        }
        Ok(())
    }

    /// Rewrites the entry without obsolete lines. A run of many trials writes many lines, and an
    /// entry above `ENTRY_BYTES` is not read.
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
        // Raises the limit if most lines are needed, so that the next line does not cause another
        // rewrite.
        let at_most = written.at_most.max(2 * bytes);
        *written = EntryFile { file, lines, bytes, at_most };
        Ok(())
    }

    /// Returns the run's id, which is the value of the mark.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Records that a process is about to be started.
    pub(crate) fn announce(&self, host: &str, role: &str) -> Result<(), Error> {
        self.note(&RegistryLine::Process { host: host.to_owned(), role: role.to_owned() })
    }

    /// Records a started process, which leads a process group.
    pub(crate) fn started(&self, group: &ProcessGroup) -> Result<(), Error> {
        self.made().groups.push(group.clone());
        self.note(&RegistryLine::Group(group.clone()))
    }

    /// Records that the run's control group is about to be made, at the top of every cgroup
    /// hierarchy.
    pub(crate) fn grouped(&self) -> Result<(), Error> {
        let name = top_of(&self.id);
        let mut made = self.made();
        if !made.kernel.cgroups.contains(&name) {
            self.note(&RegistryLine::Cgroups { name: name.clone() })?;
            made.kernel.cgroups.push(name);
        }
        Ok(())
    }

    /// Records that a file is about to be attached to a loop device.
    pub(crate) fn looped(&self, device: &Path, file: &Path) -> Result<(), Error> {
        self.note(&RegistryLine::Loop { device: device.to_path_buf(), file: file.to_path_buf() })?;
        self.made().kernel.loops.push((device.to_path_buf(), file.to_path_buf()));
        Ok(())
    }

    /// Records that a loop device of the run is about to get limits.
    pub(crate) fn throttled(&self, device: &Path) -> Result<(), Error> {
        self.note(&RegistryLine::Throttle { device: device.to_path_buf() })?;
        self.made().kernel.throttles.push(device.to_path_buf());
        Ok(())
    }

    /// Records that a folder is about to be made on another machine.
    pub(crate) fn remote(&self, destination: &str, folder: &str) -> Result<(), Error> {
        self.note(&RegistryLine::Remote(Leftover { destination: destination.to_owned(), folder: folder.to_owned() }))
    }

    /// Records that a platform is about to be used, once for all fleets of the run.
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

    /// Returns the run's private folder on another file system, which is mounted at `mount`.
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

    /// Returns the marks by which the run's processes are found.
    pub(crate) fn marks(&self) -> RunTag {
        RunTag { variables: vec![self.variable()], groups: self.made().groups.clone() }
    }

    /// Returns the variable that each of the run's processes has in its environment.
    pub(crate) fn variable(&self) -> String {
        format!("{MARK}={}", self.id)
    }
}

// The entry file: one JSON object per line, appended. It stays readable if its last line is
// incomplete.

/// Suffix of an entry's file name.
const ENDING: &str = ".jsonl";
/// Size limit of an entry, bytes: room for about ten thousand processes.
const ENTRY_BYTES: u64 = 1 << 20;
/// Time within which the first line of an entry appears.
const YOUNG: Duration = Duration::from_secs(60);

/// One line of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "made", rename_all = "snake_case")]
pub(crate) enum RegistryLine {
    /// First line: the run.
    Run {
        /// Unique id, also the value of the mark.
        id: String,
        /// The process that performs the run.
        owner: RunOwner,
        /// Folder of the run's records.
        folder: PathBuf,
    },
    /// A private folder.
    Scratch {
        path: PathBuf,
    },
    /// A control group at the top of every cgroup hierarchy, with its descendants.
    Cgroups {
        name: String,
    },
    /// A loop device.
    Loop {
        device: PathBuf,
        /// The attached file.
        file: PathBuf,
    },
    /// I/O limits of a loop device.
    Throttle {
        device: PathBuf,
    },
    /// A process that is about to be started. Its environment carries the run's mark. Its process
    /// id is not known yet.
    Process {
        host: String,
        role: String,
    },
    /// The process group of a started process.
    Group(ProcessGroup),
    /// A folder on another machine. That machine removes it when the connection ends.
    Remote(Leftover),
    Platform(PlatformUse),
}

/// A folder on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The ssh destination, as in the experiment.
    pub destination: String,
    /// Prefix of the folder's name.
    pub folder: String,
}

/// The process that performs a run. The process id alone is not unique, because it is reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunOwner {
    pub pid: u32,
    /// Start time, clock ticks since boot.
    pub started_ticks: u64,
    /// Id of the boot.
    pub boot: String,
    /// Inode of the pid namespace in which the process id is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// Inode of the time namespace in which the start time is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_namespace: Option<u64>,
}

/// State of the process that performs a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The process runs.
    Alive,
    /// The process is gone.
    Gone,
    /// The process and all others of its pid namespace are gone.
    GoneWithNamespace,
    /// The process is in another namespace of the named kind, so its state is unknown.
    Elsewhere(&'static str),
}

impl RunOwner {
    /// Returns the owner for this process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let started_ticks = procfs::stat(pid).map_or(0, |stat| stat.started_ticks);
        let (pid_namespace, time_namespace) = (procfs::pid_namespace(), procfs::time_namespace());
        Self { pid, started_ticks, boot: procfs::boot(), pid_namespace, time_namespace }
    }

    /// Returns the state of the process, as far as it is visible in this process's namespaces.
    fn standing(&self) -> OwnerState {
        if !self.is_of_this_boot() {
            return OwnerState::Gone;
        }
        match (self.pid_namespace, procfs::pid_namespace()) {
            (Some(theirs), Some(ours)) if theirs == ours => {}
            // An older version of Plimsoll, without this field, wrote the entry.
            (None, _) => {}
            (Some(theirs), Some(procfs::FIRST_PID_NAMESPACE)) if !procfs::has_processes(theirs) => {
                return OwnerState::GoneWithNamespace;
            }
            (Some(_), _) => return OwnerState::Elsewhere("pid"),
        }
        match procfs::stat(self.pid).filter(|stat| !stat.is_dead()) {
            None => OwnerState::Gone,
            Some(stat) if stat.started_ticks == self.started_ticks => OwnerState::Alive,
            // In another time namespace, the start time of the same process differs.
            Some(_) if self.time_namespace != procfs::time_namespace() => OwnerState::Elsewhere("time"),
            Some(_) => OwnerState::Gone,
        }
    }

    /// Whether the owner was started in the current boot of the machine.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == procfs::boot()
    }
}

/// A parsed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegistryEntry {
    /// The run's id.
    pub id: String,
    /// The process that performs the run.
    pub owner: RunOwner,
    /// Folder of the run's records.
    pub folder: PathBuf,
    /// Private folders of the run.
    pub scratch: Vec<PathBuf>,
    /// Process groups of the run.
    pub groups: Vec<ProcessGroup>,
    /// Kernel resources of the run.
    pub kernel: KernelResource,
    /// Folders on other machines, without duplicates.
    pub remotes: Vec<Leftover>,
    /// Platforms on which the run has jobs.
    pub platforms: Vec<PlatformUse>,
}

/// Returns the folders of the registry. New entries go into the first.
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

/// Returns the private folder of the run with this id.
fn scratch_of(id: &str) -> PathBuf {
    std::env::temp_dir().join(scratch_name(id))
}

/// Whether this path has the name of the private folder of the run with this id.
fn belongs_to(scratch: &Path, id: &str) -> bool {
    scratch.is_absolute() && scratch.file_name().is_some_and(|name| *name == *scratch_name(id))
}

fn scratch_name(id: &str) -> String {
    format!("plimsoll-run-{id}")
}

/// Makes the private folder of a run.
///
/// # Errors
/// If there is no folder for temporary files, if other users can move its content, or if the name
/// is taken.
fn make_scratch(scratch: &Path) -> Result<(), Error> {
    let parent = scratch.parent().unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        return Err(Error::NoTemporaryFolder { path: parent.to_path_buf() });
    }
    trusted::shared_folder(parent)?;
    DirBuilder::new().mode(0o700).create(scratch).map_err(Error::on("make", scratch))
}

/// Removes a private folder with its content, even if a target revoked its own permissions. Does
/// not remove a folder of another user.
fn remove_scratch(scratch: &Path) -> Result<bool, Error> {
    let refused = Error::on("remove", scratch);
    let found = match scratch.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.map_err(refused)?,
    };
    // Once the run's folder is removed, any user can make one of the same name in a shared folder.
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
    removed.map_err(refused).map(|()| true)
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Makes a new file for an entry, under the first id that is not taken.
fn create_entry(folder: &PrivateFolder, ids: impl Iterator<Item = String>) -> Result<(String, String, File), Error> {
    for id in ids {
        let name = format!("{id}{ENDING}");
        match folder.create(&name) {
            Ok(file) => return Ok((id, name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::on("write", &folder.path(&name))(error)),
        }
    }
    Err(Error::on("find a free name in", &folder.path(""))(io::ErrorKind::AlreadyExists.into()))
}

/// Appends a line in one write. Returns its length.
fn append_lines(mut file: &File, line: &RegistryLine) -> io::Result<usize> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    Ok(text.len())
}

/// Returns the temporary file name of an entry while it is rewritten.
fn rewritten(name: &str) -> String {
    format!("{name}.new")
}

/// Returns the lines of an entry that are still needed. Omits duplicates, announced processes and
/// empty process groups.
fn still_needed(lines: Vec<RegistryLine>) -> Vec<RegistryLine> {
    let all = procfs::alive();
    let mut kept: Vec<RegistryLine> = Vec::new();
    for line in lines {
        let is_needed = match &line {
            // A process without a line is still found by its mark.
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

/// Returns the names of a folder's entries, sorted.
pub(crate) fn entries(folder: &PrivateFolder) -> Vec<String> {
    let mut entries = folder.names();
    entries.retain(|name| name.ends_with(ENDING));
    entries.sort();
    entries
}

/// Reads an entry. `None` if it has no readable first line.
///
/// # Errors
/// [`Error::Distrusted`] if other users can write the entry; [`Error::System`] if it cannot be
/// read.
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
            // Each trial adds such a line, so duplicates are dropped.
            RegistryLine::Remote(left) if !record.remotes.contains(&left) => record.remotes.push(left),
            RegistryLine::Platform(of) => record.platforms.push(of),
            RegistryLine::Remote(_) | RegistryLine::Run { .. } | RegistryLine::Process { .. } => {}
        }
    }
    Ok(Some(record))
}

/// Removes an entry without a first line: its run ended before it made anything. Keeps the entry
/// while its first line may still appear: if the process whose id is in the file name runs, or if
/// the entry is young. (The process may be in another pid namespace, where it cannot be seen.)
fn remove_unreadable(folder: &PrivateFolder, name: &str) -> Result<bool, Error> {
    let pid = name.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
    let may_come = pid.is_some_and(|pid| procfs::stat(pid).is_some()) || folder.is_young(name, YOUNG);
    if may_come {
        return Ok(false);
    }
    folder.remove(name).map_err(Error::system(format!("remove {}", folder.path(name).display()))).map(|()| true)
}

// A run's resources in the kernel: control groups, loop devices and their limits. A resource is
// removed only if the run certainly made it.

/// Kernel resources of a run, as registered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KernelResource {
    /// Names of control groups, in any hierarchy.
    pub cgroups: Vec<String>,
    /// Loop devices, each with its attached file. Another program may have taken the device first.
    pub loops: Vec<(PathBuf, PathBuf)>,
    /// Loop devices with I/O limits.
    pub throttles: Vec<PathBuf>,
}

impl KernelResource {
    /// Removes the resources. Adds a line to `removed` for each resource that existed. Continues
    /// after failures.
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
        // Needed for cgroup version 1 only: in version 2, a limit exists only in its group.
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
                    failed.get_or_insert(Error::on("detach", device)(error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the limits of a device can be this run's: the run used it, and no other program has
    /// it now.
    fn is_ours(&self, device: &Path, id: &str) -> bool {
        let mut files = self.loops.iter().filter(|(ours, file)| ours == device && can_be(ours, file, id)).peekable();
        let now = mount::backing_file(device);
        files.peek().is_some() && now.is_none_or(|now| files.any(|(_, file)| *file == now))
    }
}

/// Whether the run can have attached this file to this device. A damaged entry must not detach a
/// file of another program.
fn can_be(device: &Path, file: &Path, id: &str) -> bool {
    mount::is_loop_device(device) && file.ancestors().skip(1).any(|folder| belongs_to(folder, id))
}

fn refused(doing: String, error: cgroup::CgroupError) -> Error {
    Error::System { doing, error: io::Error::other(error) }
}

#[cfg(test)]
mod tests;
