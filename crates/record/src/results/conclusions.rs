//! What a run shows beyond its single trials: claims, gates, the safe load, scaling, comparisons. It must not hold anything that
//! one trial alone can say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether something holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Holds {
    /// It does, in every matching trial.
    #[serde(rename = "yes")]
    Yes,
    /// It does not.
    #[serde(rename = "no")]
    No,
    /// The trials disagree or cannot tell.
    #[serde(rename = "not shown")]
    NotShown,
    /// This run does not measure it.
    #[default]
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// A claim held against this run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Claim {
    /// In words.
    pub says: String,
    /// Where.
    pub source: String,
    /// The metric.
    pub metric: String,
    /// Its value here: the median over the matching trials.
    pub value: Option<f64>,
    /// Smallest and largest over the matching trials.
    pub range: Option<[f64; 2]>,
    /// Whether the claim holds here.
    pub holds: Holds,
}

/// A gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Requirement {
    /// The metric.
    pub metric: String,
    /// What was asked, in words: `below 2`.
    pub asked: String,
    /// Its worst value over the matching trials.
    pub value: Option<f64>,
    /// Whether every matching trial holds. What was not measured does not hold.
    pub holds: bool,
}

/// The Plimsoll line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SafeLoad {
    /// The path that was raised.
    pub over: String,
    /// Highest value at which the limits held.
    pub value: f64,
    /// 95 % interval.
    pub ci95: [f64; 2],
    /// The limit that was hit.
    pub limited_by: String,
    /// Under which condition.
    pub surviving: String,
}

/// Scaling over a swept load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Scaling {
    /// Variant.
    pub variant: String,
    /// Swept path.
    pub over: String,
    /// Where more load stops paying.
    pub knee: Option<f64>,
    /// Highest throughput.
    pub peak_per_s: Option<f64>,
    /// Universal Scalability Law.
    pub usl: Option<Usl>,
}

/// Parameters of the Universal Scalability Law.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usl {
    /// Throughput of one.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
    /// Fit.
    pub r2: f64,
}

/// Two variants or points beside each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// One.
    pub a: String,
    /// The other.
    pub b: String,
    /// At which point.
    pub at: BTreeMap<String, Value>,
    /// Of which metric.
    pub metric: String,
    /// b / a.
    pub ratio: f64,
    /// 95 % interval.
    pub ci95: [f64; 2],
    /// Whether they differ.
    pub significant: bool,
}
