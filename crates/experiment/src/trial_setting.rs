//! Sweeps, and the trial settings that result from sweeps and variants.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::tree::{Node, TextSpan, TomlTable};

/// One line of `[sweep]`.
pub(crate) struct Sweep {
    pub path: String,
    pub path_place: TextSpan,
    /// Values in this run; a single value if a `--set` sets the path.
    pub values: Vec<Node>,
    /// Values in the file's list.
    pub listed: Vec<Node>,
}

/// One variant at one point of the sweep.
pub(crate) struct TrialSetting {
    pub variant: Option<String>,
    pub point: BTreeMap<String, Json>,
    pub tree: TomlTable,
}
