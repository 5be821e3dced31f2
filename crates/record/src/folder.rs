//! Names and paths of the files in a run folder. No other source file contains these names.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use jiff::Zoned;

use crate::checked_file::{ReadError, read_json_up_to, refuse_later, write_json};
use crate::environment::Environment;
use crate::events::RunEnding;
use crate::private;
use crate::results::{self, Results};

/// Maximum length of the title's part in a run folder's name, characters.
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
    /// The experiment file as given, with secrets redacted.
    experiment = "experiment.toml",
    /// The plan of the run.
    plan = "plan.json",
    /// Machine, kernel and versions of the run.
    environment = "environment.json",
    /// Ending of the run. Missing while the run goes on, or if it was killed.
    ending = "ending.json",
    /// The results of the analysis.
    analysis = "analysis.json",
    /// The report page.
    report = "report.html",
    /// One folder per trial.
    trials = "trials",
});

names!(TrialFolder {
    /// Latencies, as an HdrHistogram V2 interval log.
    load_hlog = "load.hlog",
    /// Resource samples: one row per second for each host and each process.
    samples = "samples.csv",
    /// One row per second for each metric of the target. Missing if the target has no metrics.
    metrics = "metrics.csv",
    /// One row per second for each program that the target's manifest names, in a role's process
    /// tree. Missing if the manifest names no programs.
    programs = "programs.csv",
    /// One row per second for each generator thread.
    generator = "generator.csv",
    /// Clock differences: one row per second for each generator of a fleet. Missing if there is no
    /// fleet.
    fleet = "fleet.csv",
    /// One row per agent, written at the end of the load. Missing if an older version wrote the
    /// folder.
    agents = "agents.csv",
    /// Numbers of attempts: one row per second for each operation and result.
    attempts = "attempts.csv",
    /// One row per operation for each second in which the operation did units of work. Missing if
    /// no operation counts units.
    units = "units.csv",
    /// One row per operation for each second in which messages of its streams arrived. Missing if
    /// no answer is a stream.
    messages = "messages.csv",
    /// One row per operation with expectations for each second in which it was answered, and one
    /// row per expectation that failed. Missing if no operation has expectations.
    checks = "checks.csv",
    /// One row per slot of a few milliseconds in which an operation ended.
    outcomes = "outcomes.csv",
    /// Rows as in `outcomes.csv`, but in narrower slots, around faults and other events of a long
    /// load. Missing if the load is short.
    fine_outcomes = "outcomes-fine.csv",
    /// Events, on the trial's clock.
    events = "events.jsonl",
    /// Operations on audited keys.
    history = "history.jsonl",
    /// Data that each member holds after the load. Missing if the target has no hook `audit`.
    replicas = "replicas.jsonl",
    /// Standard output and error of every process.
    logs = "logs",
    /// One folder for each member that clients used. Missing if all clients used the same address.
    members = "members",
});

impl RunFolder {
    /// Returns the folder at `path`, without creating or checking anything.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// Creates a private run folder in `parent`, and `parent` if it is missing. The folder's name
    /// consists of the local time `now` and the experiment's title. Two runs that start in the same
    /// second get different names.
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

    /// Returns the run folders at `path`, sorted by name: `path` itself if it is a run folder,
    /// otherwise the run folders directly in `path`.
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

    /// Whether the folder's name fits a run with this title. It may fit runs with other titles too.
    #[must_use]
    pub fn is_named(&self, title: &str) -> bool {
        self.0.file_name().is_some_and(|name| name.to_string_lossy().contains(&slug(title)))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder of the trial with this id.
    #[must_use]
    pub fn trial(&self, id: &str) -> TrialFolder {
        TrialFolder(self.trials().join(id))
    }

    /// Creates the folder of the trial with this id, and its `logs`.
    ///
    /// # Errors
    /// `AlreadyExists` if the trial has records (see [`Self::discard_trial`]); `InvalidInput` if
    /// `id` is not a trial id.
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

    /// Removes the records, if any, of a trial that will be played again.
    ///
    /// # Errors
    /// `InvalidInput` if `id` is not a trial id.
    pub fn discard_trial(&self, id: &str) -> io::Result<()> {
        within(id)?;
        match fs::remove_dir_all(self.trial(id).path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the ids of the trials that have a folder, sorted. Empty if the folder `trials` is
    /// missing.
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

    /// Reads `environment.json`; `None` if it is missing.
    pub fn read_environment(&self) -> Result<Option<Environment>, ReadError> {
        read_json_up_to(&self.environment(), FORMAT)
    }

    /// Writes `environment.json` as a whole.
    pub fn write_environment(&self, environment: &Environment) -> io::Result<()> {
        write_json(&self.environment(), environment)
    }

    /// Reads `ending.json`; `None` if it is missing: the run goes on, or was killed.
    pub fn read_ending(&self) -> Result<Option<RunEnding>, ReadError> {
        read_json_up_to(&self.ending(), FORMAT)
    }

    /// Writes `ending.json` as a whole.
    pub fn write_ending(&self, ending: &RunEnding) -> io::Result<()> {
        write_json(&self.ending(), ending)
    }

    /// Reads `analysis.json`; `None` if it is missing.
    pub fn read_results(&self) -> Result<Option<Results>, ReadError> {
        read_json_up_to(&self.analysis(), results::FORMAT)
    }

    /// Refuses a folder whose results a later version wrote, because this version may misread its
    /// records.
    ///
    /// # Errors
    /// [`ReadError::Later`]. Missing or broken results are not an error, because they can be
    /// computed again.
    pub fn refuse_later_results(&self) -> Result<(), ReadError> {
        refuse_later(&self.analysis(), results::FORMAT)
    }

    /// Writes `analysis.json` as a whole.
    pub fn write_results(&self, results: &Results) -> io::Result<()> {
        write_json(&self.analysis(), results)
    }
}

/// Whether the text can be the id of a trial: only letters, digits, `-` and `_`, so that it cannot
/// name a folder outside the run.
#[must_use]
pub fn is_trial_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '_'))
}

/// Whether the text names an entry of a folder, and nothing outside that folder.
#[must_use]
pub fn is_folder_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

fn within(id: &str) -> io::Result<()> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{id}` is not a trial name"));
    is_trial_id(id).then_some(()).ok_or_else(refused)
}

/// Returns the title as part of a folder's name: letters and digits of any script, in lower case,
/// with single hyphens between words.
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
    /// Returns the folder at `path`, without creating or checking anything.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder of a member. It has only `outcomes.csv` and `outcomes-fine.csv`, for the
    /// operations that ended at that member.
    #[must_use]
    pub fn member(&self, name: &str) -> Self {
        Self(self.members().join(name))
    }

    /// Returns the names of the members that have a folder, `n2` before `n10`. Empty if there are
    /// none.
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

    /// Creates the folder of a member.
    ///
    /// # Errors
    /// `InvalidInput` if `name` is not the name of a folder.
    pub fn create_member(&self, name: &str) -> io::Result<Self> {
        if !is_folder_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is not a member name")));
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

    use fixture::TestDir;

    use super::*;
    use crate::checked_file::write_whole;
    use crate::events::Ending;

    #[test]
    fn titles_become_folder_names() {
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
    fn runs_in_the_same_second_get_different_folders() {
        let scratch = TestDir::new();
        let now = UNIX_EPOCH + Duration::from_secs(1_795_170_665);
        let parent = scratch.join("runs/deep");
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
        let scratch = TestDir::new();
        let folder = RunFolder::at(&scratch.join("run"));
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
    fn replacing_a_file_leaves_no_temporary_file() {
        let scratch = TestDir::new();
        let path = scratch.join("report.html");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(scratch.join("")).unwrap().count(), 1);
        assert!(write_whole(&scratch.join("none/report.html"), b"").is_err());
    }

    #[test]
    fn typed_files_are_read_as_written_and_may_be_missing() {
        let scratch = TestDir::new();
        let folder = RunFolder::at(&scratch.join(""));
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
    fn trial_ids_cannot_leave_the_run_folder() {
        let scratch = TestDir::new();
        let folder = RunFolder::create(&scratch.join("runs"), "run", UNIX_EPOCH).unwrap();
        let victim = scratch.join("victim");
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
