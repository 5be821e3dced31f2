//! Catalog of the names that experiment files may use, filled from the tables of the other crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use experiment::catalog::Catalog;
use experiment::manifest::{self, Manifest};
use experiment::profile::{self, Profile};
use experiment::source::Source;
use lab::targets::UntrustedTarget;

use crate::exit::Failure;
use crate::packed;

/// A target folder with its manifest.
pub struct FoundTarget {
    /// Content of `target.toml`.
    pub manifest: Manifest,
    /// Path of the target's folder. The folder of a packed target exists only after it is written
    /// out.
    pub path: PathBuf,
    /// Whether the target is built into the program and must be written out before use.
    is_packed: bool,
}

/// Targets that were found, and the catalog of names.
pub struct TargetCatalog {
    /// Targets, sorted by name.
    pub targets: Vec<FoundTarget>,
    /// Targets that must not be run because their files are not trusted, by name.
    refused: BTreeMap<String, UntrustedTarget>,
    /// Names that an experiment may use.
    pub catalog: Catalog,
}

impl TargetCatalog {
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&FoundTarget> {
        self.targets.iter().find(|target| target.manifest.name == name)
    }

    /// Returns the target of this name and checks that its files can be trusted. Writes a packed
    /// target out.
    ///
    /// # Errors
    ///
    /// If there is no such target, or if another user can have written its files.
    pub fn trusted_target(&self, name: &str) -> Result<&FoundTarget, Failure> {
        if let Some(why) = self.refused.get(name) {
            return Err(untrusted(name, why.clone()));
        }
        let target = self.target(name).ok_or_else(|| Failure::Bad {
            what: format!("no target `{name}`"),
            remedy: "`plimsoll targets` lists them".to_owned(),
        })?;
        if target.is_packed {
            packed::write_out()?;
        }
        lab::targets::check(&target.path).map_err(|error| untrusted(name, UntrustedTarget::from(&error)))?;
        Ok(target)
    }

    /// Returns the targets that must not be run, by name, with the reasons.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &UntrustedTarget)> {
        self.refused.iter().map(|(name, why)| (name.as_str(), why))
    }
}

fn untrusted(name: &str, why: UntrustedTarget) -> Failure {
    Failure::Bad { what: format!("the target `{name}` is refused: {}", why.why), remedy: why.remedy }
}

/// Reads all profiles, also those next to the experiment file. Returns them by name.
///
/// # Errors
///
/// If a profile is invalid: a bad profile must not look like an unknown name.
pub fn profiles(experiment: Option<&Path>) -> Result<BTreeMap<String, Profile>, Failure> {
    let mut profiles = BTreeMap::new();
    for file in lab::profiles::all(experiment) {
        let source = Source { name: file.path.display().to_string(), text: file.source };
        let profile = profile::parse(&file.name, &source)
            .map_err(|problems| Failure::Problems(problems.render(crate::output::colour_on_stderr())))?;
        profiles.insert(file.name, profile);
    }
    Ok(profiles)
}

fn target(name: &str, path: PathBuf, text: String, is_packed: bool) -> Result<FoundTarget, Failure> {
    let source = Source { name: path.join("target.toml").display().to_string(), text };
    let manifest = manifest::parse(name, &source)
        .map_err(|problems| Failure::Problems(problems.render(crate::output::colour_on_stderr())))?;
    Ok(FoundTarget { manifest, path, is_packed })
}

/// Finds targets and profiles, also those next to the experiment file, and returns the catalog.
///
/// # Errors
///
/// If a `target.toml` is invalid: a bad target must not look like an unknown name.
pub fn known(experiment: Option<&Path>) -> Result<TargetCatalog, Failure> {
    let found = lab::targets::all(experiment);
    let mut targets = Vec::new();
    for folder in found.targets {
        targets.push(target(&folder.name, folder.path, folder.source, false)?);
    }
    // A target in a folder takes precedence over a packed target of the same name, even if the
    // former must not be run.
    for packed in packed::targets() {
        let is_found = targets.iter().any(|target| target.manifest.name == packed.name);
        if !is_found && !found.refused.contains_key(packed.name) {
            targets.push(target(packed.name, packed.path, packed.manifest, true)?);
        }
    }
    targets.sort_by(|a, b| a.manifest.name.cmp(&b.manifest.name));
    let catalog = Catalog {
        targets: targets.iter().map(|target| (target.manifest.name.clone(), target.manifest.clone())).collect(),
        refused_targets: found
            .refused
            .iter()
            .map(|(name, why)| (name.clone(), (why.why.clone(), why.remedy.clone())))
            .collect(),
        profiles: profiles(experiment)?,
        protocols: load::protocols::KINDS.iter().map(|kind| kind.info).collect(),
        faults: lab::faults::KINDS.iter().map(|kind| kind.info).collect(),
        metrics: analysis::metric_paths(),
    };
    Ok(TargetCatalog { targets, refused: found.refused, catalog })
}
