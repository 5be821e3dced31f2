//! Makes changes to the running kernel and undoes them. Each is written down, and that is on the disk, before it is made: so
//! whatever ends this program, `--undo` finds it. It must not decide what is changed, nor overwrite what somebody else has
//! changed since.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::checkups::{Fix, chosen};
use crate::linux::procfs;
use crate::registry::entry;
use crate::registry::private::PrivateFolder;

/// Beside the entries of runs, and not one of them.
const RECORD: &str = "doctor.undo";
/// Of a record: some thousand changes.
const RECORD_BYTES: u64 = 1 << 20;

/// A machine whose settings are changed.
#[derive(Debug, Clone)]
pub struct Remedies {
    root: PathBuf,
    /// Where records may be, the first being where new ones go.
    folders: Vec<PathBuf>,
}

/// A line of the record: a change that was about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// Which boot: nothing of it outlives the next one.
    boot: String,
    root: PathBuf,
    path: String,
    from: String,
    to: String,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was made.
    Done,
    /// The value is not what it was when it was looked at; nothing was done.
    ChangedSince(String),
    /// The kernel did not take it, and why.
    Refused(String),
}

/// What came of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The old value is back.
    Done,
    /// It was back already.
    Already,
    /// Somebody else has set another value since, which stays.
    ChangedSince(String),
    /// It could not be done, and why; it can be tried again.
    Failed(String),
}

impl Remedies {
    /// For the machine whose files are below `root`; the record is where the registry of runs is.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: entry::folders() }
    }

    #[cfg(test)]
    pub(super) fn in_folder(root: &Path, folder: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: vec![folder.to_path_buf()] }
    }

    /// Makes a change, if the value is still what it was when it was looked at.
    ///
    /// # Errors
    /// If it cannot be written down; then it is not made.
    pub fn apply(&self, fix: &Fix) -> Result<Applied, Error> {
        if !is_setting(&fix.path) {
            return Ok(Applied::Refused("it is no setting of the kernel".to_owned()));
        }
        match self.value(&fix.path) {
            Some(now) if now == fix.from => {}
            now => return Ok(Applied::ChangedSince(now.unwrap_or_default())),
        }
        self.note(fix)?;
        Ok(match self.put(&fix.path, &fix.to) {
            Err(error) => Applied::Refused(error.to_string()),
            Ok(()) => match self.value(&fix.path) {
                Some(now) if now == fix.to => Applied::Done,
                now => Applied::Refused(format!("it says {} now", now.unwrap_or_default())),
            },
        })
    }

    /// Puts back what was changed, the last first, and forgets it. `tell` hears of each.
    ///
    /// # Errors
    /// If a record cannot be read or forgotten.
    pub fn undo(&self, tell: &mut dyn FnMut(&Fix, Undone)) -> Result<(), Error> {
        let mut failed = None;
        for folder in &self.folders {
            // What tells root what to write must be root's own. What another wrote keeps nobody from undoing the rest.
            let undone = match PrivateFolder::find(folder) {
                Ok(Some(folder)) if folder.has(RECORD) => self.undo_in(&folder, tell),
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = undone {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn undo_in(&self, folder: &PrivateFolder, tell: &mut dyn FnMut(&Fix, Undone)) -> Result<(), Error> {
        let text = folder.read(RECORD, RECORD_BYTES)?;
        // A torn line is of a change that was not made yet.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let (ours, mut kept): (Vec<Line>, Vec<Line>) = lines.partition(|line| line.root == self.root);
        for line in ours.into_iter().rev().filter(|line| line.boot == procfs::boot() && is_setting(&line.path)) {
            let fix = Fix { path: line.path.clone(), from: line.from.clone(), to: line.to.clone() };
            let undone = self.undo_one(&line);
            if matches!(undone, Undone::Failed(_)) {
                kept.push(line);
            }
            tell(&fix, undone);
        }
        self.keep(folder, &kept)
    }

    fn undo_one(&self, line: &Line) -> Undone {
        match self.value(&line.path) {
            None => Undone::Failed("it cannot be read".to_owned()),
            Some(now) if now == line.from => Undone::Already,
            Some(now) if now != line.to => Undone::ChangedSince(now),
            Some(_) => match self.put(&line.path, &line.from) {
                Ok(()) => Undone::Done,
                Err(error) => Undone::Failed(error.to_string()),
            },
        }
    }

    /// What is still to be undone stays on record, in its order.
    fn keep(&self, folder: &PrivateFolder, kept: &[Line]) -> Result<(), Error> {
        let record = folder.path(RECORD);
        if kept.is_empty() {
            return folder.remove(RECORD).map_err(Error::system(format!("remove {}", record.display())));
        }
        let mut text = String::new();
        for line in kept.iter().rev() {
            text.push_str(&in_json(line)?);
        }
        record::whole::write_whole(&record, text.as_bytes())
            .map_err(Error::system(format!("write {}", record.display())))
    }

    /// Writes a change down before it is made.
    fn note(&self, fix: &Fix) -> Result<(), Error> {
        let line = Line {
            boot: procfs::boot(),
            root: self.root.clone(),
            path: fix.path.clone(),
            from: fix.from.clone(),
            to: fix.to.clone(),
        };
        let mut refused = None;
        for folder in &self.folders {
            match PrivateFolder::make(folder).and_then(|folder| folder.append(RECORD, &in_json(&line)?)) {
                Ok(()) => return Ok(()),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::NotYet("a change without a folder to write it down".to_owned())))
    }

    fn value(&self, path: &str) -> Option<String> {
        procfs::text(&self.root.join(path)).map(|text| chosen(&text))
    }

    /// In one write, as the kernel wants it; nothing is created.
    fn put(&self, path: &str, value: &str) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(self.root.join(path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }
}

fn in_json(line: &Line) -> Result<String, Error> {
    let text = serde_json::to_string(line).map_err(io::Error::other);
    Ok(text.map_err(Error::system("write a change down"))? + "\n")
}

/// Whether it is a file of the kernel's settings: a damaged record must not have anything else written.
fn is_setting(path: &str) -> bool {
    (path.starts_with("proc/sys/") || path.starts_with("sys/")) && !path.split('/').any(|part| part == "..")
}
