//! What a deployment and its hosts are made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::manifest::Manifest;
use experiment::plan;
use record::events::HostFigures;

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
    /// Where it is known from how fast the storage of its hosts is.
    pub storage: StorageFigures,
    /// Set by whoever wants an end at once: from then on no host's answer is waited for.
    pub at_once: Arc<AtomicBool>,
}

/// Where it is known from how fast the storage of hosts is.
#[derive(Debug, Clone, PartialEq)]
pub enum StorageFigures {
    /// Nobody asks.
    NotAsked,
    /// Every host's is measured before the target is started.
    Measured,
    /// It was measured at an earlier trial on the same hosts: what that got, by host.
    Known(BTreeMap<String, HostFigures>),
}
