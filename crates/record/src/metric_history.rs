//! What `plimsoll history` found over many runs of an experiment, a public format beside `analysis.json`: fields are
//! only ever added.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Figures of an experiment over its runs, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MetricHistory {
    /// Version of this format: 1.
    pub format: u32,
    /// The experiment's title.
    pub title: String,
    /// The runs, oldest first.
    pub runs: Vec<CourseRun>,
    /// A figure of one variant at one point, over the runs.
    pub series: Vec<FigureSeries>,
}

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CourseRun {
    /// Its folder, as it was found.
    pub folder: String,
    /// When the load of its first trial began, Unix time in seconds; null: nobody wrote that down, and its folder's name
    /// tells its place.
    pub start_unix_s: Option<f64>,
    /// Trials with records.
    pub trials: u32,
    /// Trials that are void; they are left out, unless they were accepted.
    pub void: u32,
    /// Void trials that are taken all the same, as `--accept` asks.
    pub accepted: u32,
    /// In what its environment differs from that of the run before; empty for the first.
    pub changed: Vec<Changed>,
}

/// A field of the environment that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Changed {
    /// Its path: `kernel`, `targets.vsns`.
    pub field: String,
    /// What it was; null: not known.
    pub from: Option<String>,
    /// What it became.
    pub to: Option<String>,
}

/// A figure over the runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FigureSeries {
    /// Its path inside a trial.
    pub metric: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Swept path to value.
    pub point: BTreeMap<String, Value>,
    /// For each run the median over its usable trials; null: it has none.
    pub values: Vec<Option<f64>>,
    /// Where it changed, oldest first.
    pub changes: Vec<FigureChange>,
}

/// A change of a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FigureChange {
    /// The first run after it, from 0.
    pub run: u32,
    /// Median over the runs since the change before.
    pub before: f64,
    /// Median over the runs until the change after.
    pub after: f64,
    /// `100 × (after − before) / before`; null where `before` is 0.
    pub change_pct: Option<f64>,
    /// Chance of so clear a change in a series without any.
    pub p: f64,
    /// What changed in the environment since the last run before it that has the figure.
    pub environment: Vec<Changed>,
}
