//! How throughput grows with the load or the cluster, and where one curve overtakes another.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Scaling of one variant over a swept load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Scaling {
    /// Variant; empty without variants.
    pub variant: String,
    /// Swept path.
    pub over: String,
    /// Values of the other swept paths.
    pub at: BTreeMap<String, Value>,
    /// What was measured, by rising load.
    pub points: Vec<ScalingPoint>,
    /// Where more load stops paying: the load at which the line of the lightest loads meets the plateau around the peak. Null with
    /// fewer than three loads, or where throughput still rises at the highest.
    pub knee: Option<f64>,
    /// 95 % interval of the knee that very many trials would give, by bootstrap over trials; null with too few repeats.
    pub knee_ci95: Option<[f64; 2]>,
    /// Highest throughput: the mean of the loads that cannot be told from the best; without repeats, that of the best.
    pub peak_per_s: Option<f64>,
    /// 95 % interval of the peak that very many trials would give, by Student's t and as wide as that of the best load alone; null with too
    /// few repeats.
    pub peak_ci95: Option<[f64; 2]>,
    /// The load of the best point.
    pub peak_at: Option<f64>,
    /// Universal Scalability Law; null with fewer than four loads, over an offered rate, and where a test of its fit was not passed.
    pub usl: Option<Usl>,
    /// Why it has no law; null if it has one, and over an offered rate.
    pub usl_missing: Option<String>,
}

/// A load and what it achieved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScalingPoint {
    /// The load.
    pub load: f64,
    /// `ok` operations per second of each usable repeat.
    pub per_s: Vec<f64>,
}

/// Parameters of the Universal Scalability Law, `X(N) = λN / (1 + σ(N − 1) + κN(N − 1))`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usl {
    /// Throughput of one.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
    /// Share of the variance that it explains.
    pub r2: f64,
    /// Chance of so large a lack of fit if the law were true; 0.05 at least. Null in results of earlier versions.
    pub fit_p: Option<f64>,
    /// 95 % intervals of λ, σ, κ by bootstrap over trials; null with too few repeats.
    pub ci95: Option<[[f64; 2]; 3]>,
    /// The load at which the curve itself peaks, `√((1 − σ) / κ)`, which may lie far beyond what was measured; null where κ is 0.
    pub peak_at: Option<f64>,
}

/// How two variants' curves lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Lead {
    /// One overtakes the other for good.
    #[serde(rename = "crosses")]
    Crosses,
    /// One is ahead at every load.
    #[serde(rename = "throughout")]
    Throughout,
    /// Repeats differ too much to tell who is ahead at the highest load.
    #[default]
    #[serde(rename = "not shown")]
    NotShown,
}

/// Where one variant overtakes another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Crossing {
    /// The variant that is ahead at the highest load.
    pub a: String,
    /// The other.
    pub b: String,
    /// Swept path.
    pub over: String,
    /// Values of the other swept paths.
    pub point: BTreeMap<String, Value>,
    /// How they lie.
    pub lead: Lead,
    /// The load from which `a` is ahead for good; null: at every load.
    pub at: Option<f64>,
    /// 95 % interval by bootstrap over trials; an end is null where it lies outside of the sweep. Null with too few repeats.
    pub ci95: Option<[Option<f64>; 2]>,
    /// The peak of `a` over that of `b`.
    pub peak_ratio: Option<f64>,
    /// 95 % interval of it by bootstrap over trials; null with too few repeats.
    pub peak_ratio_ci95: Option<[f64; 2]>,
}
