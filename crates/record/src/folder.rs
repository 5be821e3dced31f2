//! The names in a run folder, and the way to each. Nothing else in the code spells one of these names.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use jiff::Zoned;

use crate::checked_file::{ReadError, read_json_up_to, refuse_later, write_json};
use crate::environment::Environment;
use crate::events::RunEnding;
use crate::private;
use crate::results::{self, Results};

/// Characters of a title that go into a folder's name.
const SLUG: usize = 60;

/// Format version of a run folder.
pub const FORMAT: u32 = 1;

/// A run folder: `runs/2026-11-20T10-31-05-vsns-crash/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

/// A trial's folder inside a run folder: `trials/001/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFolder(PathBuf);

macro_rules! names {
    ($owner:ident { $($(#[$doc:meta])* $method:ident = $name:literal,)* }) => {
        impl $owner {
            $($(#[$doc])* #[must_use] pub fn $method(&self) -> PathBuf { self.0.join($name) })*
        }
    };
}

names!(RunFolder {
    /// The experiment file as it was given, secrets redacted.
    experiment = "experiment.toml",
    /// The plan that was played.
    plan = "plan.json",
    /// Machine, kernel, versions.
    environment = "environment.json",
    /// How the run ended; missing while it runs or after it was killed.
    ending = "ending.json",
    /// The results.
    analysis = "analysis.json",
    /// The page.
    report = "report.html",
    /// One folder per trial.
    trials = "trials",
});

names!(TrialFolder {
    /// HdrHistogram V2 interval log.
    load_hlog = "load.hlog",
    /// A row per host or process and second.
    samples = "samples.csv",
    /// A row per figure that the target gives, and second; missing if it gives none.
    metrics = "metrics.csv",
    /// A row per program that the target names in a process's tree, and second; missing if it names none.
    programs = "programs.csv",
    /// A row per generator thread and second.
    generator = "generator.csv",
    /// A row per generator of a fleet and second: how its clock compares; missing where this process made the load.
    fleet = "fleet.csv",
    /// A row per agent, written when the load has ended; missing where an older version wrote.
    agents = "agents.csv",
    /// A row per operation, result and second, counting attempts.
    attempts = "attempts.csv",
    /// A row per operation and second in which it did units of work; missing if no operation counts any.
    units = "units.csv",
    /// A row per time slot of a few milliseconds in which anything ended.
    outcomes = "outcomes.csv",
    /// Of a long load, narrower slots around faults and whatever else happened; missing if the load is short.
    fine_outcomes = "outcomes-fine.csv",
    /// What happened, on the trial's clock.
    events = "events.jsonl",
    /// Operations on audited keys.
    history = "history.jsonl",
    /// What every member held after the load; missing if the target has no hook `audit`.
    replicas = "replicas.jsonl",
    /// Standard output and error of every process.
    logs = "logs",
    /// A folder for each member that clients went to; missing if all went to the same address.
    members = "members",
});

impl RunFolder {
    /// The folder at `path`; nothing is created or checked.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// Makes a new private folder in `parent` (which is made too) for a run that begins `now`, named by the local time and the
    /// experiment's title. Two that begin in the same second get different names.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn create(parent: &Path, title: &str, now: SystemTime) -> io::Result<Self> {
        let now = Zoned::try_from(now).map_err(io::Error::other)?;
        let name = format!("{}-{}", now.strftime("%Y-%m-%dT%H-%M-%S"), slug(title));
        fs::create_dir_all(parent)?;
        let mut path = parent.join(&name);
        let mut number = 1;
        while let Err(error) = private::create_folder(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            number += 1;
            path = parent.join(format!("{name}-{number}"));
        }
        let folder = Self(path);
        private::create_folder(&folder.trials())?;
        Ok(folder)
    }

    /// The run folders that `path` names, by name: itself if it is one, else those in it. Empty if there is none.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn found_at(path: &Path) -> io::Result<Vec<Self>> {
        let itself = Self::at(path);
        if itself.plan().is_file() {
            return Ok(vec![itself]);
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(path)? {
            let folder = Self::at(&entry?.path());
            if folder.plan().is_file() {
                found.push(folder);
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// Whether the folder's name fits a run with this title. Other titles may fit as well.
    #[must_use]
    pub fn is_named(&self, title: &str) -> bool {
        self.0.file_name().is_some_and(|name| name.to_string_lossy().contains(&slug(title)))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of the trial with this id.
    #[must_use]
    pub fn trial(&self, id: &str) -> TrialFolder {
        TrialFolder(self.trials().join(id))
    }

    /// Makes the folder of the trial with this id, and its `logs`.
    ///
    /// # Errors
    /// If it cannot be made; `AlreadyExists` if the trial has records (see [`Self::discard_trial`]); `InvalidInput` if that is no id.
    pub fn create_trial(&self, id: &str) -> io::Result<TrialFolder> {
        within(id)?;
        let folder = self.trial(id);
        for above in [self.path(), &self.trials()] {
            if !above.is_dir() {
                private::create_folder(above)?;
            }
        }
        private::create_folder(folder.path())?;
        private::create_folder(&folder.logs())?;
        Ok(folder)
    }

    /// Removes the records of a trial that is to be played again; it may be missing.
    ///
    /// # Errors
    /// If they cannot be removed; `InvalidInput` if that is no id.
    pub fn discard_trial(&self, id: &str) -> io::Result<()> {
        within(id)?;
        match fs::remove_dir_all(self.trial(id).path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Ids of the trials that have a folder, sorted.
    ///
    /// # Errors
    /// If the folder cannot be listed; a missing one has no trials.
    pub fn trial_ids(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.trials()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                ids.extend(entry.file_name().into_string().ok());
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// `environment.json`; `None` if it is missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_environment(&self) -> Result<Option<Environment>, ReadError> {
        read_json_up_to(&self.environment(), FORMAT)
    }

    /// Writes `environment.json` whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_environment(&self, environment: &Environment) -> io::Result<()> {
        write_json(&self.environment(), environment)
    }

    /// `ending.json`; `None` if it is missing: the run goes on, or was killed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_ending(&self) -> Result<Option<RunEnding>, ReadError> {
        read_json_up_to(&self.ending(), FORMAT)
    }

    /// Writes `ending.json` whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_ending(&self, ending: &RunEnding) -> io::Result<()> {
        write_json(&self.ending(), ending)
    }

    /// `analysis.json`; `None` if it is missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_results(&self) -> Result<Option<Results>, ReadError> {
        read_json_up_to(&self.analysis(), results::FORMAT)
    }

    /// Refuses a folder whose results a later version wrote: its records may mean what this version does not know.
    ///
    /// # Errors
    /// [`ReadError::Later`]. Results that are missing or broken are no reason, as they can be made again.
    pub fn refuse_later_results(&self) -> Result<(), ReadError> {
        refuse_later(&self.analysis(), results::FORMAT)
    }

    /// Writes `analysis.json` whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_results(&self, results: &Results) -> io::Result<()> {
        write_json(&self.analysis(), results)
    }
}

/// Whether this can be the id of a trial: letters, digits, `-` and `_`, so that it names a folder of the run and nothing else.
#[must_use]
pub fn is_trial_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '_'))
}

/// Whether this names an entry of a folder, and so nothing outside of it.
#[must_use]
pub fn is_folder_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

fn within(id: &str) -> io::Result<()> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{id}` is no name of a trial"));
    is_trial_id(id).then_some(()).ok_or_else(refused)
}

/// A title as part of a folder's name: letters and digits of any script, lower case, with single hyphens between.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for character in title.chars().flat_map(char::to_lowercase) {
        if character.is_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.chars().take(SLUG).collect();
    match slug.trim_end_matches('-') {
        "" => "run".to_owned(),
        slug => slug.to_owned(),
    }
}

impl TrialFolder {
    /// The folder at `path`; nothing is created or checked.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of a member. Of a trial's files it has `outcomes.csv` and `outcomes-fine.csv`: what ended at that member.
    #[must_use]
    pub fn member(&self, name: &str) -> Self {
        Self(self.members().join(name))
    }

    /// Names of the members that have a folder, `n2` before `n10`; empty if there is none.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn member_names(&self) -> Result<Vec<String>, ReadError> {
        let path = self.members();
        let listed = || fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
        let names = match listed() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|source| ReadError::Io { path: path.clone(), source })?,
        };
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        Ok(names)
    }

    /// Makes the folder of a member.
    ///
    /// # Errors
    /// If it cannot be made; `InvalidInput` if that is no name of a folder.
    pub fn create_member(&self, name: &str) -> io::Result<Self> {
        if !is_folder_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is no name of a member")));
        }
        if !self.members().is_dir() {
            private::create_folder(&self.members())?;
        }
        let folder = self.member(name);
        private::create_folder(folder.path())?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::checked_file::write_whole;
    use crate::events::Ending;
    use crate::tests::Scratch;

    #[test]
    fn titles_become_names() {
        let table = [
            ("A name server crashes at full load", "a-name-server-crashes-at-full-load"),
            ("  What? -- a/b\\c \"d\" ..", "what-a-b-c-d"),
            ("Étude de l'Übung", "étude-de-l-übung"),
            ("名字服务崩溃", "名字服务崩溃"),
            ("../..", "run"),
            ("", "run"),
        ];
        for (title, name) in table {
            assert_eq!(slug(title), name, "{title}");
        }
        assert_eq!(slug(&"ab ".repeat(100)).chars().count(), 59);
    }

    #[test]
    fn two_runs_of_one_second_get_two_folders() {
        let scratch = Scratch::new("folder");
        let now = UNIX_EPOCH + Duration::from_secs(1_795_170_665);
        let parent = scratch.path("runs/deep");
        let names: Vec<_> = (0..3)
            .map(|_| RunFolder::create(&parent, "A crash", now).unwrap())
            .map(|folder| folder.path().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert!(names[0].starts_with("2026-11-") && names[0].ends_with("-a-crash"), "{}", names[0]);
        assert_eq!(names[1], format!("{}-2", names[0]));
        assert_eq!(names[2], format!("{}-3", names[0]));
    }

    #[test]
    fn trials_are_listed_sorted_and_never_overwritten() {
        let scratch = Scratch::new("folder");
        let folder = RunFolder::at(&scratch.path("run"));
        assert!(folder.trial_ids().unwrap().is_empty());
        for id in ["002", "010", "001"] {
            assert!(folder.create_trial(id).unwrap_or_else(|error| panic!("{id}: {error}")).logs().is_dir());
        }
        fs::write(folder.trials().join("stray"), "").unwrap();
        assert_eq!(folder.trial_ids().unwrap(), ["001", "002", "010"]);
        assert_eq!(folder.create_trial("002").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        folder.discard_trial("002").unwrap();
        folder.discard_trial("002").unwrap();
        folder.create_trial("002").unwrap();
    }

    #[test]
    fn whole_files_are_replaced_and_leave_nothing_beside_them() {
        let scratch = Scratch::new("folder");
        let path = scratch.path("report.html");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1);
        assert!(write_whole(&scratch.path("none/report.html"), b"").is_err());
    }

    #[test]
    fn typed_files_are_read_as_written_and_may_be_missing() {
        let scratch = Scratch::new("folder");
        let folder = RunFolder::at(&scratch.path(""));
        assert_eq!(folder.read_ending().unwrap(), None);
        assert_eq!(folder.read_environment().unwrap(), None);
        assert_eq!(folder.read_results().unwrap(), None);
        let ending = RunEnding { how: Ending::Interrupted, reason: Some("SIGTERM".into()), stops: Vec::new() };
        let environment = Environment { plimsoll: Some("0.1.0".into()), ..Environment::default() };
        let results = Results { format: 1, title: "A crash".into(), ..Results::default() };
        folder.write_ending(&ending).unwrap();
        folder.write_environment(&environment).unwrap();
        folder.write_results(&results).unwrap();
        assert_eq!(folder.read_ending().unwrap(), Some(ending));
        assert_eq!(folder.read_environment().unwrap(), Some(environment));
        assert_eq!(folder.read_results().unwrap(), Some(results));
        fs::write(folder.environment(), "{\"cpu\":{\"cores\":2,\"later\":1},\"later\":{}}").unwrap();
        assert_eq!(folder.read_environment().unwrap().unwrap().cpu.cores, Some(2));
        fs::write(folder.ending(), "{\"how\":").unwrap();
        assert!(folder.read_ending().unwrap_err().to_string().contains("ending.json: "));
    }

    #[test]
    fn a_trial_is_never_outside_of_its_run() {
        let scratch = Scratch::new("outside");
        let folder = RunFolder::create(&scratch.path("runs"), "run", UNIX_EPOCH).unwrap();
        let victim = scratch.path("victim");
        fs::create_dir(&victim).unwrap();
        for id in ["../../../victim", "../../victim", victim.to_str().unwrap(), "..", ".", "", "a/b", "001\0"] {
            assert_eq!(folder.discard_trial(id).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{id}");
            assert_eq!(folder.create_trial(id).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{id}");
        }
        assert!(victim.is_dir());
        assert!(
            ["", ".", "..", "a/b", "/a", "../a"].iter().all(|name| !is_folder_name(name)) && is_folder_name("n1.a")
        );
        assert!(is_trial_id("001") && is_trial_id("edge-12_b"));
    }
}
