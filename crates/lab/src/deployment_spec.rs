//! Specification of a deployment and its hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::manifest::Manifest;
use experiment::plan;
use record::events::HostFigures;

use crate::registry::Registry;

/// Specification of a deployment.
pub struct DeploymentSpec<'a> {
    /// The run to which the deployment belongs.
    pub registry: &'a Registry,
    pub trial: &'a plan::Trial,
    /// Manifest of the target, if the target comes from a folder.
    pub manifest: Option<&'a Manifest>,
    /// Folder of the target. Empty or `None` for a built-in target.
    pub folder: Option<&'a Path>,
    /// Folder for the output of every process: `<host>.<role>.log`.
    pub logs: PathBuf,
    /// Path of this program, for built-in targets.
    pub plimsoll: PathBuf,
    /// Source of the storage figures of the hosts.
    pub storage: StorageFigures,
    /// Whether the user wants to end at once. If set, no host's reply is awaited.
    pub at_once: Arc<AtomicBool>,
}

/// Source of the storage figures of hosts.
#[derive(Debug, Clone, PartialEq)]
pub enum StorageFigures {
    /// The figures are not needed.
    NotAsked,
    /// Every host's storage is measured before the target starts.
    Measured,
    /// An earlier trial on the same hosts measured the storage. Figures by host name.
    Known(BTreeMap<String, HostFigures>),
}
