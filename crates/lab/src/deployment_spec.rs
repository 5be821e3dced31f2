//! What a deployment and its hosts are made from.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::manifest::Manifest;
use experiment::plan;

use crate::registry::Registry;

/// What a deployment is made from.
pub struct DeploymentSpec<'a> {
    /// The run it belongs to.
    pub registry: &'a Registry,
    /// The trial.
    pub trial: &'a plan::Trial,
    /// The target's manifest, for a target that comes from a folder.
    pub manifest: Option<&'a Manifest>,
    /// That folder; empty or `None` for the target that is built in.
    pub folder: Option<&'a Path>,
    /// Where the output of every process goes: `<host>.<role>.log`.
    pub logs: PathBuf,
    /// This program, for targets that are built in.
    pub plimsoll: PathBuf,
    /// Whether the storage of every host is measured first.
    pub measures_storage: bool,
    /// Set by whoever wants an end at once: from then on no host's answer is waited for.
    pub at_once: Arc<AtomicBool>,
}
