//! Makes changes to the running kernel, and undoes them. Each change is recorded on disk before it
//! is made, so that `--undo` finds it even after a crash.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use lab::trusted::PrivateFolder;
use lab::{Error, registry};
use linux::procfs;
use runner::environment::chosen;
use serde::{Deserialize, Serialize};

use crate::checkups::Fix;

/// File name of the record. The file is in the folder of the run registry, but is not an entry of
/// it.
const RECORD: &str = "doctor.undo";
/// Maximum length of a record, bytes: enough for some thousand changes.
const RECORD_BYTES: u64 = 1 << 20;

/// A machine whose settings are changed.
#[derive(Debug, Clone)]
pub struct FixSession {
    root: PathBuf,
    /// Folders that may contain records. New records go to the first folder.
    folders: Vec<PathBuf>,
}

/// A line of the record: a change that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChangeRecord {
    /// Id of the boot. Changes do not survive a reboot.
    boot: String,
    root: PathBuf,
    path: String,
    from: String,
    to: String,
}

/// Result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The change was made.
    Done,
    /// The value has changed since it was examined. Nothing was done. Contains the current value.
    ChangedSince(String),
    /// The kernel rejected the change. Contains the reason.
    Refused(String),
}

/// Result of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The old value was restored.
    Done,
    /// The file already has the old value.
    Already,
    /// Another program has since set another value, which is kept. Contains the current value.
    ChangedSince(String),
    /// The undoing failed and can be tried again. Contains the reason.
    Failed(String),
}

impl FixSession {
    /// Starts a session for the machine whose files are below `root`. The record is in the folder
    /// of the run registry.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: registry::folders() }
    }

    #[cfg(test)]
    fn in_folder(root: &Path, folder: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: vec![folder.to_path_buf()] }
    }

    /// Makes a change if the value has not changed since it was examined.
    ///
    /// # Errors
    /// If the change cannot be recorded. The change is then not made.
    pub fn apply(&self, fix: &Fix) -> Result<Applied, Error> {
        if !is_setting(&fix.path) {
            return Ok(Applied::Refused("it is not a kernel setting".to_owned()));
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
                now => Applied::Refused(format!("the value is now {}", now.unwrap_or_default())),
            },
        })
    }

    /// Undoes the recorded changes, the last first, and removes them from the record. Calls `tell`
    /// after each.
    ///
    /// # Errors
    /// If a record cannot be read or removed.
    pub fn undo(&self, tell: &mut dyn FnMut(&Fix, Undone)) -> Result<(), Error> {
        let mut failed = None;
        for folder in &self.folders {
            // Only a record that belongs to root may direct what root writes. An invalid record
            // does not prevent undoing the changes of other records.
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
        // A torn line belongs to a change that was not made.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ChangeRecord>(line).ok());
        let (ours, mut kept): (Vec<ChangeRecord>, Vec<ChangeRecord>) = lines.partition(|line| line.root == self.root);
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

    fn undo_one(&self, line: &ChangeRecord) -> Undone {
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

    /// Rewrites the record with only the changes in `kept`: those that could not be undone, and
    /// those of other roots.
    fn keep(&self, folder: &PrivateFolder, kept: &[ChangeRecord]) -> Result<(), Error> {
        let record = folder.path(RECORD);
        if kept.is_empty() {
            return folder.remove(RECORD).map_err(Error::system(format!("remove {}", record.display())));
        }
        let mut text = String::new();
        for line in kept.iter().rev() {
            text.push_str(&in_json(line)?);
        }
        record::checked_file::write_whole(&record, text.as_bytes())
            .map_err(Error::system(format!("write {}", record.display())))
    }

    /// Records a change before it is made.
    fn note(&self, fix: &Fix) -> Result<(), Error> {
        let line = ChangeRecord {
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
        Err(refused.unwrap_or_else(|| Error::NotYet("a change without a folder for its record".to_owned())))
    }

    fn value(&self, path: &str) -> Option<String> {
        procfs::text(&self.root.join(path)).map(|text| chosen(&text))
    }

    /// Writes a value with one system call, as the kernel requires. Does not create a missing file.
    fn put(&self, path: &str, value: &str) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(self.root.join(path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }
}

fn in_json(line: &ChangeRecord) -> Result<String, Error> {
    let text = serde_json::to_string(line).map_err(io::Error::other);
    Ok(text.map_err(Error::system("record a change"))? + "\n")
}

/// Whether the path is a kernel setting. A damaged record must not cause writes to other files.
fn is_setting(path: &str) -> bool {
    (path.starts_with("proc/sys/") || path.starts_with("sys/")) && !path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fixture::TestDir;

    use super::*;
    use crate::{Measured, examine, machine};

    const QUEUE: &str = "proc/sys/net/core/somaxconn";

    fn fix(path: &str, from: &str, to: &str) -> Fix {
        Fix { path: path.to_owned(), from: from.to_owned(), to: to.to_owned() }
    }

    fn says(tree: &Path, path: &str) -> String {
        fs::read_to_string(tree.join(path)).unwrap().trim().to_owned()
    }

    fn undo(remedies: &FixSession) -> Vec<(String, Undone)> {
        let mut undone = Vec::new();
        remedies.undo(&mut |fix, came| undone.push((fix.path.clone(), came))).unwrap();
        undone
    }

    /// Makes every fix of a machine, then undoes them all.
    #[test]
    fn fixes_take_effect_and_can_be_undone() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let before = examine(&tree, &Measured::default(), None);
        let remedies = FixSession::in_folder(&tree, &registry);
        let fixes: Vec<&Fix> = before.iter().flat_map(|one| &one.finding.fixes).collect();
        assert!(fixes.len() >= 14, "{fixes:?}");
        for fix in &fixes {
            assert_eq!(remedies.apply(fix).unwrap(), Applied::Done, "{fix:?}");
            assert_eq!(says(&tree, &fix.path), fix.to);
        }
        let after = examine(&tree, &Measured::default(), None);
        assert!(after.iter().all(|one| one.finding.fixes.is_empty()), "{after:?}");
        let undone = undo(&remedies);
        assert_eq!(undone.len(), fixes.len());
        assert!(undone.iter().all(|(_, came)| *came == Undone::Done), "{undone:?}");
        // The last first.
        assert_eq!(undone[0].0, fixes.last().unwrap().path);
        for fix in &fixes {
            assert_eq!(says(&tree, &fix.path), fix.from);
        }
        assert!(undo(&remedies).is_empty() && fs::read_dir(&*registry).unwrap().next().is_none());
    }

    #[test]
    fn settings_changed_by_others_are_left_alone() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        let change = fix(QUEUE, "128", "4096");
        assert_eq!(remedies.apply(&fix(QUEUE, "100", "4096")).unwrap(), Applied::ChangedSince("128".to_owned()));
        assert_eq!(says(&tree, QUEUE), "128");
        assert_eq!(remedies.apply(&change).unwrap(), Applied::Done);
        tree.write(QUEUE, "999\n");
        assert_eq!(undo(&remedies), [(QUEUE.to_owned(), Undone::ChangedSince("999".to_owned()))]);
        assert_eq!(says(&tree, QUEUE), "999");
        assert!(undo(&remedies).is_empty());
    }

    /// Simulates a kill at three moments: before the change, after it, and within the line.
    #[test]
    fn undo_works_after_a_kill_at_any_moment() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        assert_eq!(remedies.apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        let line = says(&registry, "doctor.undo");
        assert!(line.contains(QUEUE) && line.contains("\"from\":\"128\""), "{line}");
        tree.write(QUEUE, "128\n");
        let swap = "proc/sys/vm/swappiness";
        let other = line.replace(QUEUE, swap).replace("\"128\"", "\"60\"").replace("\"4096\"", "\"1\"");
        registry.write("doctor.undo", format!("{line}\n{other}\n{}", &line[..line.len() / 2]));
        tree.write(swap, "1\n");
        assert_eq!(undo(&remedies), [(swap.to_owned(), Undone::Done), (QUEUE.to_owned(), Undone::Already)]);
        assert_eq!((says(&tree, swap), says(&tree, QUEUE)), ("60".to_owned(), "128".to_owned()));
    }

    #[test]
    fn changes_of_another_boot_or_machine_are_not_undone() {
        let (tree, other, registry) = (machine("bad"), machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        assert_eq!(FixSession::in_folder(&other, &registry).apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        assert!(undo(&remedies).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
        let line = says(&registry, "doctor.undo");
        let boot = procfs::boot();
        registry.write("doctor.undo", line.replace(&boot, "another-boot"));
        assert!(undo(&FixSession::in_folder(&other, &registry)).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
    }

    #[test]
    fn only_settings_are_written_and_nothing_is_created() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        tree.write("etc/passwd", "root\n");
        let remedies = FixSession::in_folder(&tree, &registry);
        for path in ["etc/passwd", "proc/sys/../../etc/passwd"] {
            assert!(matches!(remedies.apply(&fix(path, "root", "x")).unwrap(), Applied::Refused(_)));
        }
        assert_eq!(remedies.apply(&fix("proc/sys/new", "", "1")).unwrap(), Applied::ChangedSince(String::new()));
        assert!(!tree.join("proc/sys/new").exists() && fs::read_dir(&*registry).unwrap().next().is_none());
        assert_eq!(says(&tree, "etc/passwd"), "root");
    }

    #[test]
    fn a_change_that_cannot_be_recorded_is_not_made() {
        let tree = machine("bad");
        let nowhere = tree.join("proc/sys/net/core/somaxconn/registry");
        assert!(FixSession::in_folder(&tree, &nowhere).apply(&fix(QUEUE, "128", "4096")).is_err());
        assert_eq!(says(&tree, QUEUE), "128");
    }
}
