//! Results of `plimsoll history` over many runs of an experiment, a public format beside
//! `analysis.json`: fields are only ever added.

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
    /// Series of figures over the runs, one per variant and point.
    pub series: Vec<FigureSeries>,
}

/// A run in the history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CourseRun {
    /// Folder of the run, as found.
    pub folder: String,
    /// Start of the first trial's load, Unix time in seconds. Null if it was not recorded; the run
    /// is then ordered by its folder's name.
    pub start_unix_s: Option<f64>,
    /// Number of trials with records.
    pub trials: u32,
    /// Number of void trials. They are left out unless they were accepted.
    pub void: u32,
    /// Number of void trials that are used because of `--accept`.
    pub accepted: u32,
    /// Changes of the environment since the previous run. Empty for the first run.
    pub changed: Vec<Changed>,
}

/// A field of the environment that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Changed {
    /// Path of the field: `kernel`, `targets.vsns`.
    pub field: String,
    /// Value before. Null if unknown.
    pub from: Option<String>,
    /// Value after. Null if unknown.
    pub to: Option<String>,
}

/// A figure over the runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FigureSeries {
    /// Path of the figure inside a trial.
    pub metric: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Values of the swept paths.
    pub point: BTreeMap<String, Value>,
    /// Median over the usable trials of each run. Null if a run has none.
    pub values: Vec<Option<f64>>,
    /// Changes of the figure, oldest first.
    pub changes: Vec<FigureChange>,
}

/// A change of a figure between two runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FigureChange {
    /// Index of the first run after the change, from 0.
    pub run: u32,
    /// Median over the runs since the previous change.
    pub before: f64,
    /// Median over the runs until the next change.
    pub after: f64,
    /// `100 × (after − before) / before`. Null if `before` is 0.
    pub change_pct: Option<f64>,
    /// Probability of a change at least this clear in a series without any change.
    pub p: f64,
    /// Changes of the environment since the last run before this one that has the figure.
    pub environment: Vec<Changed>,
}
