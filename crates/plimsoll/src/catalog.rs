//! Fills the catalog of names that experiment files are checked against, from the tables of the live crates.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiment::catalog::Catalog;
use experiment::manifest::{self, Manifest};
use experiment::profile::{self, Profile};
use experiment::source::Source;
use lab::profiles::ProfileFile;

use crate::exit::Failure;

/// A target folder with its manifest.
pub struct Target {
    /// What `target.toml` says.
    pub manifest: Manifest,
    /// Where the folder is.
    pub path: PathBuf,
}

/// Every target found, and the catalog.
pub struct Known {
    /// Sorted by name.
    pub targets: Vec<Target>,
    /// What an experiment may name.
    pub catalog: Catalog,
}

impl Known {
    /// The target of that name.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.manifest.name == name)
    }
}

/// Every profile found, by name.
///
/// # Errors
/// If one is wrong: a bad profile must not pass for an unknown one.
pub fn profiles() -> Result<BTreeMap<String, Profile>, Failure> {
    let read = |file: ProfileFile| {
        let source = Source { name: file.path.display().to_string(), text: file.source };
        profile::parse(&file.name, &source)
            .map(|profile| (file.name, profile))
            .map_err(|problems| Failure::Problems(problems.render(crate::output::colour_on_stderr())))
    };
    lab::profiles::all().into_iter().map(read).collect()
}

/// Looks for targets and reads every table.
///
/// # Errors
/// If a `target.toml` is wrong: a bad target must not pass for an unknown one.
pub fn known() -> Result<Known, Failure> {
    let mut targets = Vec::new();
    for folder in lab::targets::all() {
        let source =
            Source { name: folder.path.join("target.toml").display().to_string(), text: folder.source.clone() };
        let manifest = manifest::parse(&folder.name, &source)
            .map_err(|problems| Failure::Problems(problems.render(crate::output::colour_on_stderr())))?;
        targets.push(Target { manifest, path: folder.path });
    }
    let catalog = Catalog {
        targets: targets.iter().map(|target| (target.manifest.name.clone(), target.manifest.clone())).collect(),
        profiles: profiles()?,
        protocols: load::protocols::KINDS.iter().map(|kind| kind.info).collect(),
        faults: lab::faults::KINDS.iter().map(|kind| kind.info).collect(),
        metrics: analysis::metric_paths(),
    };
    Ok(Known { targets, catalog })
}
