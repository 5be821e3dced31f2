//! Scaling of throughput with the load or the cluster size, and crossings of variants.

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
    /// Measured points, ordered by load.
    pub points: Vec<ScalingPoint>,
    /// Knee of the curve, from which more load brings little: the load at which the line through
    /// the lightest loads meets the plateau around the peak. Null with fewer than three loads, or
    /// if throughput still rises at the highest load.
    pub knee: Option<f64>,
    /// 95 % interval of the knee that very many trials would give, by bootstrap over trials. Null
    /// with too few repeats.
    pub knee_ci95: Option<[f64; 2]>,
    /// Highest throughput: the mean of the loads that are not distinguishable from the best load.
    /// Without repeats, the throughput of the best load.
    pub peak_per_s: Option<f64>,
    /// 95 % interval of the peak that very many trials would give, by Student's t, as wide as that
    /// of the best load alone. Null with too few repeats.
    pub peak_ci95: Option<[f64; 2]>,
    /// Load of the best point.
    pub peak_at: Option<f64>,
    /// Fit of the Universal Scalability Law. Null with fewer than four loads, over an offered rate,
    /// and if the test of the fit failed.
    pub usl: Option<Usl>,
    /// Reason why there is no fit of the law. Null if there is a fit, and over an offered rate.
    pub usl_missing: Option<String>,
}

/// A load and its throughput.
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
    /// Throughput at load 1.
    pub lambda: f64,
    /// Contention coefficient.
    pub sigma: f64,
    /// Coherency coefficient.
    pub kappa: f64,
    /// Share of the variance that the law explains.
    pub r2: f64,
    /// Probability of a lack of fit at least this large if the law is true; at least 0.05. Null in
    /// results of earlier versions.
    pub fit_p: Option<f64>,
    /// 95 % intervals of λ, σ and κ by bootstrap over trials. Null with too few repeats.
    pub ci95: Option<[[f64; 2]; 3]>,
    /// Load at the curve's own peak, `√((1 − σ) / κ)`, which can be far beyond the measured loads.
    /// Null if κ is 0.
    pub peak_at: Option<f64>,
}

/// Relation of two variants' curves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Lead {
    /// One variant overtakes the other for good.
    #[serde(rename = "crosses")]
    Crosses,
    /// One variant is ahead at every load.
    #[serde(rename = "throughout")]
    Throughout,
    /// Repeats differ too much to tell which variant is ahead at the highest load.
    #[default]
    #[serde(rename = "not shown")]
    NotShown,
}

/// Comparison of two variants' curves: the load at which one overtakes the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Crossing {
    /// The variant that is ahead at the highest load.
    pub a: String,
    /// The other variant.
    pub b: String,
    /// Swept path.
    pub over: String,
    /// Values of the other swept paths.
    pub point: BTreeMap<String, Value>,
    /// Relation of the two curves.
    pub lead: Lead,
    /// Load from which `a` is ahead for good. Null if `a` is ahead at every load.
    pub at: Option<f64>,
    /// 95 % interval of `at` by bootstrap over trials. An end is null if it is outside the sweep.
    /// Null with too few repeats.
    pub ci95: Option<[Option<f64>; 2]>,
    /// Peak of `a` divided by the peak of `b`.
    pub peak_ratio: Option<f64>,
    /// 95 % interval of `peak_ratio` by bootstrap over trials. Null with too few repeats.
    pub peak_ratio_ci95: Option<[f64; 2]>,
}
