//! Cleanup after abandoned runs: ends their processes and removes everything they left.

use std::io;
use std::path::Path;

use linux::RunTag;
use runner::MARK;

use super::{
    OwnerState, RegistryEntry, belongs_to, entries, folders, read_entry, remove_scratch, remove_unreadable, rewritten,
};
use crate::Error;
use crate::hosts::remove_remote;
use crate::trusted::PrivateFolder;

/// Result of [`clean`].
#[derive(Debug, Default)]
pub struct CleanupReport {
    /// One line for each removed item: a process, a loop device, a folder, a run.
    pub removed: Vec<String>,
    /// One line for each machine that could not be reached, so that its leftovers are unknown.
    pub unreached: Vec<String>,
    /// One line for each item that Plimsoll must not remove: files that another user can write,
    /// runs of another pid namespace.
    pub left_alone: Vec<String>,
    /// Errors for Plimsoll's own items that could not be removed.
    pub failed: Vec<Error>,
}

impl CleanupReport {
    /// Records an error. Files that another user can write are listed, but neither used nor
    /// removed.
    fn failed(&mut self, error: Error) {
        match error {
            Error::Distrusted(found) => {
                self.left_alone.push(format!("{found}; its content is neither used nor removed"));
            }
            error => self.failed.push(error),
        }
    }
}

/// Removes the leftovers of abandoned runs: processes, control groups, loop devices, private
/// folders and entries. A run is abandoned if the process that began it is gone. Does not touch
/// runs that are alive or whose state is not visible from here. Continues after failures.
#[must_use]
pub fn clean() -> CleanupReport {
    let mut cleaned = CleanupReport::default();
    for folder in folders() {
        clean_in(&folder, &mut cleaned);
    }
    cleaned
}

pub(crate) fn clean_in(folder: &Path, cleaned: &mut CleanupReport) {
    let folder = match PrivateFolder::find(folder) {
        Ok(Some(folder)) => folder,
        Ok(None) => return,
        Err(error) => return cleaned.failed(error),
    };
    for name in entries(&folder) {
        let tidied = match read_entry(&folder, &name) {
            Ok(Some(record)) => tidy(&folder, &name, record, cleaned),
            Ok(None) => remove_unreadable(&folder, &name).map(|removed| {
                let gone = removed.then(|| format!("entry {}", folder.path(&name).display()));
                cleaned.removed.extend(gone);
            }),
            // Another process cleaned up at the same time.
            Err(Error::System { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = tidied {
            cleaned.failed(error);
        }
    }
}

/// Removes a run's leftovers, if the run is over.
fn tidy(
    folder: &PrivateFolder,
    name: &str,
    mut record: RegistryEntry,
    cleaned: &mut CleanupReport,
) -> Result<(), Error> {
    match record.owner.standing() {
        OwnerState::Alive => return Ok(()),
        OwnerState::Gone => {}
        // In this pid namespace, the recorded ids belong to other processes.
        OwnerState::GoneWithNamespace => record.groups.clear(),
        OwnerState::Elsewhere(namespace) => {
            cleaned.left_alone.push(format!(
                "run {} ({}) began in another {namespace} namespace, so whether it still runs is unknown here; run \
                 `plimsoll clean` in that namespace, or as root outside of all containers; its entry is {}",
                record.id,
                record.folder.display(),
                folder.path(name).display()
            ));
            return Ok(());
        }
    }
    remove(folder, name, &record, cleaned)
}

fn remove(
    folder: &PrivateFolder,
    name: &str,
    record: &RegistryEntry,
    cleaned: &mut CleanupReport,
) -> Result<(), Error> {
    // Only files survive a reboot, so the rest is skipped after a reboot.
    if record.owner.is_of_this_boot() {
        let marks = RunTag { variables: vec![format!("{MARK}={}", record.id)], groups: record.groups.clone() };
        let (ended, left) = marks.end(true);
        cleaned.removed.extend(ended.iter().map(|stat| format!("process {} ({})", stat.pid, stat.name)));
        if !left.is_empty() {
            return Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() });
        }
        record.kernel.remove(&record.id, &mut cleaned.removed)?;
    }
    for scratch in &record.scratch {
        // Only folders that this run can have made: a damaged entry must not remove others.
        if belongs_to(scratch, &record.id) && remove_scratch(scratch)? {
            cleaned.removed.push(format!("folder {}", scratch.display()));
        }
    }
    // Each machine is tried once: its folders are either removed or reported.
    for looked in remove_remote(&record.remotes, &record.id) {
        match looked {
            Ok(removed) => cleaned.removed.extend(removed),
            Err(why) => cleaned.unreached.push(why),
        }
    }
    for platform in &record.platforms {
        match platform.remove(&record.id) {
            Ok(removed) => cleaned.removed.extend(removed),
            Err(why) => cleaned.unreached.push(why),
        }
    }
    // Another process may clean up at the same time.
    let is_there = folder.has(name);
    let _ = folder.remove(&rewritten(name));
    folder.remove(name).map_err(Error::on("remove", &folder.path(name)))?;
    if is_there {
        cleaned.removed.push(format!("run {} ({})", record.id, record.folder.display()));
    }
    Ok(())
}
