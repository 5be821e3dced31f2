//! The names in a run folder, and the way to each. Nothing else in the code spells one of these names.

use std::path::{Path, PathBuf};

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
    /// A row per generator thread and second.
    generator = "generator.csv",
    /// A row per operation, result and second, counting attempts.
    attempts = "attempts.csv",
    /// A row per time slot of a few milliseconds in which anything ended.
    outcomes = "outcomes.csv",
    /// What happened, on the trial's clock.
    events = "events.jsonl",
    /// Operations on audited keys.
    history = "history.jsonl",
    /// Standard output and error of every process.
    logs = "logs",
});

impl RunFolder {
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

    /// The folder of the trial with this id.
    #[must_use]
    pub fn trial(&self, id: &str) -> TrialFolder {
        TrialFolder(self.trials().join(id))
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
}
