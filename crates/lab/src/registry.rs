//! Everything that a run makes, written down before it is made, so that whatever ends the run, the next start finds what
//! it left. It must not touch a run whose owner is alive.

pub(crate) mod entry;
mod kernel;
pub(crate) mod private;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::hosts::{Leftover, remove_remote};
use crate::remains::{Group, Marks};
use crate::runner::groups::top_of;
use entry::{Line, Owner, Record, Standing};
use kernel::Kernel;
use private::PrivateFolder;

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
    folder: PrivateFolder,
    /// The entry, in the folder.
    name: String,
    written: Mutex<Written>,
    made: Mutex<Made>,
}

/// The entry's file.
#[derive(Debug)]
struct Written {
    file: File,
    lines: Vec<Line>,
    bytes: usize,
    /// When it is this long, what is over is left out.
    at_most: usize,
}

#[derive(Debug, Default)]
struct Made {
    scratch: Option<PathBuf>,
    groups: Vec<Group>,
    kernel: Kernel,
}

impl Registry {
    /// Registers a run of this process, in the first place that is there and nobody else's.
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
        let refused = refused.map(Error::for_private_files);
        Err(refused.unwrap_or_else(|| Error::NotYet("a registry without a folder for it".to_owned())))
    }

    pub(crate) fn begin_in(folder: &Path, run_folder: &Path) -> Result<Self, Error> {
        let folder = PrivateFolder::make(folder)?;
        let owner = Owner::this_process();
        let boot = owner.boot.get(..8).unwrap_or("unknown");
        // Counted per process, not per folder: two runs of one process must differ wherever they are registered.
        let numbers = std::iter::repeat_with(|| BEGUN.fetch_add(1, Ordering::Relaxed) + 1);
        let ids = numbers.map(|number| format!("{boot}-{}-{}-{number}", owner.pid, owner.started_ticks));
        let (id, name, file) = entry::create(&folder, ids)?;
        let written = Written { file, lines: Vec::new(), bytes: 0, at_most: entry::ENTRY_BYTES as usize / 2 };
        let ledger = Ledger { id: id.clone(), folder, name, written: Mutex::new(written), made: Mutex::default() };
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
            let _ = self.ledger.folder.remove(&self.ledger.name);
        }
    }
}

impl Ledger {
    fn made(&self) -> std::sync::MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: &Line) -> Result<(), Error> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let writing = || format!("write {}", self.folder.path(&self.name).display());
        written.bytes += entry::append(&written.file, line).map_err(Error::system(writing()))?;
        written.lines.push(line.clone());
        if written.bytes > written.at_most {
            self.rewrite(&mut written).map_err(Error::system(writing()))?;
        }
        Ok(())
    }

    /// Writes the entry anew without what is over: a run of many trials makes much, and what is too long is not read.
    fn rewrite(&self, written: &mut Written) -> std::io::Result<()> {
        let lines = entry::still_needed(std::mem::take(&mut written.lines));
        let name = entry::rewritten(&self.name);
        self.folder.remove(&name)?;
        let file = self.folder.create(&name)?;
        let mut bytes = 0;
        for line in &lines {
            bytes += entry::append(&file, line)?;
        }
        self.folder.rename(&name, &self.name)?;
        // Where much is alive, not again with the next line.
        let at_most = written.at_most.max(2 * bytes);
        *written = Written { file, lines, bytes, at_most };
        Ok(())
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
    pub(crate) fn started(&self, group: &Group) -> Result<(), Error> {
        self.made().groups.push(group.clone());
        self.note(&Line::Group(group.clone()))
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
        entry::make_scratch(&scratch).map_err(Error::for_private_files)?;
        made.scratch = Some(scratch.clone());
        Ok(scratch)
    }

    /// How the run's processes are found.
    pub(crate) fn marks(&self) -> Marks {
        Marks { variables: vec![self.variable()], groups: self.made().groups.clone() }
    }

    /// What is in the environment of each of the run's processes.
    pub(crate) fn variable(&self) -> String {
        format!("{MARK}={}", self.id)
    }
}

/// What came of [`clean`].
#[derive(Debug, Default)]
pub struct Cleaned {
    /// A line for each thing that was removed: a process, a loop device, a folder, a run.
    pub removed: Vec<String>,
    /// A line for each machine that could not be reached to see what is left there.
    pub unreached: Vec<String>,
    /// A line for each thing that is not ours to judge: what another user can have written, a run of another pid namespace.
    pub left_alone: Vec<String>,
    /// What is ours and could not be removed.
    pub failed: Vec<Error>,
}

impl Cleaned {
    /// What another can have written is named, and neither obeyed nor removed.
    fn failed(&mut self, error: Error) {
        match error {
            Error::Distrusted(found) => {
                self.left_alone.push(format!("{found}; nothing in there is obeyed or removed"));
            }
            error => self.failed.push(error),
        }
    }
}

/// Removes what abandoned runs left: their processes, control groups, loop devices, private folders and entries. A run is abandoned
/// when the process that began it is gone; live ones are not touched, nor are those of which that cannot be seen from here. All is
/// tried, whatever fails.
#[must_use]
pub fn clean() -> Cleaned {
    let mut cleaned = Cleaned::default();
    for folder in entry::folders() {
        clean_in(&folder, &mut cleaned);
    }
    cleaned
}

pub(crate) fn clean_in(folder: &Path, cleaned: &mut Cleaned) {
    let folder = match PrivateFolder::find(folder) {
        Ok(Some(folder)) => folder,
        Ok(None) => return,
        Err(error) => return cleaned.failed(error),
    };
    for name in entry::entries(&folder) {
        let tidied = match entry::read(&folder, &name) {
            Ok(Some(record)) => tidy(&folder, &name, record, cleaned),
            Ok(None) => entry::remove_unreadable(&folder, &name).map(|removed| {
                let gone = removed.then(|| format!("entry {}", folder.path(&name).display()));
                cleaned.removed.extend(gone);
            }),
            // Another that begins at the same time has been quicker.
            Err(Error::System { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = tidied {
            cleaned.failed(error);
        }
    }
}

/// Removes what a run left, if it is over.
fn tidy(folder: &PrivateFolder, name: &str, mut record: Record, cleaned: &mut Cleaned) -> Result<(), Error> {
    match record.owner.standing() {
        Standing::Alive => return Ok(()),
        Standing::Gone => {}
        // Its numbers mean other processes here.
        Standing::GoneWithNamespace => record.groups.clear(),
        Standing::Elsewhere => {
            cleaned.left_alone.push(format!(
                "run {} ({}) began in another pid namespace, so that it cannot be seen from here whether it goes on; `plimsoll clean` \
                 looks after it there, or as root outside of all containers; its entry is {}",
                record.id,
                record.folder.display(),
                folder.path(name).display()
            ));
            return Ok(());
        }
    }
    remove(folder, name, &record, cleaned)
}

fn remove(folder: &PrivateFolder, name: &str, record: &Record, cleaned: &mut Cleaned) -> Result<(), Error> {
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
        if entry::belongs_to(scratch, &record.id) && entry::remove_scratch(scratch)? {
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
    // Another that begins at the same time has been quicker.
    let is_there = folder.has(name);
    let _ = folder.remove(&entry::rewritten(name));
    folder.remove(name).map_err(Error::system(format!("remove {}", folder.path(name).display())))?;
    if is_there {
        cleaned.removed.push(format!("run {} ({})", record.id, record.folder.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
