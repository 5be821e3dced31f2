//! Everything that a run makes, written down before it is made, so that whatever ends the run, the next start finds what
//! it left. It must not touch a run whose owner is alive.

pub(crate) mod entry;
mod kernel;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::hosts::{Leftover, remove_remote};
use crate::remains::Marks;
use crate::runner::groups::top_of;
use entry::{Line, Owner, Record};
use kernel::Kernel;

/// The variable that marks every process of a run.
pub const MARK: &str = "PLIMSOLL_RUN";

/// Runs begun by this process.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// A run's entry. When it goes, everything that is left of the run goes with it.
#[derive(Debug)]
pub struct Registry {
    ledger: Arc<Ledger>,
}

/// What parts of the lab write into the entry.
#[derive(Debug)]
pub(crate) struct Ledger {
    id: String,
    path: PathBuf,
    file: File,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    scratch: Option<PathBuf>,
    groups: Vec<(u32, u64)>,
    kernel: Kernel,
}

impl Registry {
    /// Registers a run of this process.
    ///
    /// # Errors
    /// If no entry can be written.
    pub fn begin(run_folder: &Path) -> Result<Self, Error> {
        let mut refused = None;
        for folder in entry::folders() {
            match Self::begin_in(&folder, run_folder) {
                Ok(registry) => return Ok(registry),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::NotYet("a registry without a folder for it".to_owned())))
    }

    pub(crate) fn begin_in(folder: &Path, run_folder: &Path) -> Result<Self, Error> {
        entry::make_private(folder)?;
        let owner = Owner::this_process();
        let boot = owner.boot.get(..8).unwrap_or("unknown");
        // Counted per process, not per folder: two runs of one process must differ wherever they are registered.
        let numbers = std::iter::repeat_with(|| BEGUN.fetch_add(1, Ordering::Relaxed) + 1);
        let ids = numbers.map(|number| format!("{boot}-{}-{}-{number}", owner.pid, owner.started_ticks));
        let (id, path, file) = entry::create(folder, ids)?;
        let ledger = Ledger { id: id.clone(), path, file, made: Mutex::default() };
        ledger.note(&Line::Run { id, owner, folder: run_folder.to_path_buf() })?;
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

    pub(crate) fn ledger(&self) -> Arc<Ledger> {
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
        let gone = self.ledger.made().scratch.take().is_none_or(|scratch| entry::remove_scratch(&scratch).is_ok());
        // An entry of which something is left stays for `clean`.
        if left.is_empty() && released && gone {
            let _ = fs::remove_file(&self.ledger.path);
        }
    }
}

impl Ledger {
    fn made(&self) -> std::sync::MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: &Line) -> Result<(), Error> {
        entry::append(&self.file, line).map_err(Error::system(format!("write {}", self.path.display())))
    }

    /// The run's id: the value of the mark.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A process is about to be started.
    pub(crate) fn announce(&self, host: &str, role: &str) -> Result<(), Error> {
        self.note(&Line::Process { host: host.to_owned(), role: role.to_owned() })
    }

    /// A process was started: it leads a process group.
    pub(crate) fn started(&self, pid: u32, started_ticks: u64) -> Result<(), Error> {
        self.made().groups.push((pid, started_ticks));
        self.note(&Line::Group { pid, started_ticks })
    }

    /// The run's control group at the top of every hierarchy is about to be made.
    pub(crate) fn grouped(&self) -> Result<(), Error> {
        let name = top_of(&self.id);
        let mut made = self.made();
        if !made.kernel.cgroups.contains(&name) {
            self.note(&Line::Cgroups { name: name.clone() })?;
            made.kernel.cgroups.push(name);
        }
        Ok(())
    }

    /// A file is about to be attached to a loop device.
    pub(crate) fn looped(&self, device: &Path, file: &Path) -> Result<(), Error> {
        self.note(&Line::Loop { device: device.to_path_buf(), file: file.to_path_buf() })?;
        self.made().kernel.loops.push((device.to_path_buf(), file.to_path_buf()));
        Ok(())
    }

    /// A loop device of the run is about to be limited.
    pub(crate) fn throttled(&self, device: &Path) -> Result<(), Error> {
        self.note(&Line::Throttle { device: device.to_path_buf() })?;
        self.made().kernel.throttles.push(device.to_path_buf());
        Ok(())
    }

    /// A folder is about to be made on another machine.
    pub(crate) fn remote(&self, destination: &str, folder: &str) -> Result<(), Error> {
        self.note(&Line::Remote(Leftover { destination: destination.to_owned(), folder: folder.to_owned() }))
    }

    pub(crate) fn scratch(&self) -> Result<PathBuf, Error> {
        let mut made = self.made();
        if let Some(scratch) = &made.scratch {
            return Ok(scratch.clone());
        }
        let scratch = entry::scratch_of(&self.id);
        self.note(&Line::Scratch { path: scratch.clone() })?;
        entry::make_private(&scratch)?;
        made.scratch = Some(scratch.clone());
        Ok(scratch)
    }

    /// How the run's processes are found.
    pub(crate) fn marks(&self) -> Marks {
        Marks { variables: vec![format!("{MARK}={}", self.id)], groups: self.made().groups.clone() }
    }
}

/// What [`clean`] removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// A line for each thing: a process, a loop device, a folder, a run.
    pub removed: Vec<String>,
    /// A line for each machine that could not be reached to see what is left there.
    pub unreached: Vec<String>,
}

/// Removes what abandoned runs left: their processes, control groups, loop devices, private folders and entries. A run is abandoned when the process
/// that began it is gone; live ones are not touched.
///
/// # Errors
/// If something is left that could not be removed; the rest is removed all the same.
pub fn clean() -> Result<Cleaned, Error> {
    let mut cleaned = Cleaned::default();
    let mut failed = None;
    for folder in entry::folders() {
        if let Err(error) = clean_in(&folder, &mut cleaned) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(cleaned), Err)
}

pub(crate) fn clean_in(folder: &Path, cleaned: &mut Cleaned) -> Result<(), Error> {
    let mut failed = None;
    for path in entry::entries(folder) {
        let Some(record) = entry::read(&path) else {
            entry::remove_unreadable(&path, cleaned);
            continue;
        };
        if record.owner.is_alive() {
            continue;
        }
        if let Err(error) = remove(&path, &record, cleaned) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

fn remove(path: &Path, record: &Record, cleaned: &mut Cleaned) -> Result<(), Error> {
    // Nothing survives a reboot but files.
    if record.owner.is_of_this_boot() {
        let marks = Marks { variables: vec![format!("{MARK}={}", record.id)], groups: record.groups.clone() };
        let (ended, left) = marks.end(true);
        cleaned.removed.extend(ended.iter().map(|stat| format!("process {} ({})", stat.pid, stat.name)));
        if !left.is_empty() {
            return Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() });
        }
        record.kernel.remove(&record.id, &mut cleaned.removed)?;
    }
    for scratch in &record.scratch {
        // Only what this run can have made: a damaged entry must not remove anything else.
        if entry::belongs_to(scratch, &record.id) && scratch.symlink_metadata().is_ok() {
            entry::remove_scratch(scratch).map_err(Error::system(format!("remove {}", scratch.display())))?;
            cleaned.removed.push(format!("folder {}", scratch.display()));
        }
    }
    // Nobody waits for another machine again and again: its folder is removed when it can be, or named.
    for looked in remove_remote(&record.remotes, &record.id) {
        match looked {
            Ok(removed) => cleaned.removed.extend(removed),
            Err(why) => cleaned.unreached.push(why),
        }
    }
    match fs::remove_file(path) {
        // Another that begins at the same time has been quicker.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        done => done.map_err(Error::system(format!("remove {}", path.display())))?,
    }
    cleaned.removed.push(format!("run {} ({})", record.id, record.folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests;
