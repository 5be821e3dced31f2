//! What a run is made of, for those who play it. It must not do anything itself.

use std::path::PathBuf;

use experiment::manifest::Manifest;
use experiment::plan::Plan;
use experiment::secrets::Secrets;
use record::folder::RunFolder;

/// Everything needed to play a plan.
#[derive(Clone)]
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its folder, with `experiment.toml`, `plan.json` and `environment.json` already in it.
    pub folder: &'a RunFolder,
    /// The target's manifest and folder, by name.
    pub targets: &'a dyn Fn(&str) -> Option<(Manifest, PathBuf)>,
    /// The folder that feed files are relative to.
    pub files: PathBuf,
    /// What no record may have.
    pub secrets: &'a Secrets,
    /// This program, for targets that are built in.
    pub plimsoll: PathBuf,
}
