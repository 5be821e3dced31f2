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
    /// Its value here: the median over the matching trials; of a function of curves, the function's.
    pub value: Option<f64>,
    /// Smallest and largest over the matching trials; of a function of curves, its 95 % interval.
    pub range: Option<[f64; 2]>,
    /// Why a function has no value or no end of its range, in words: that curves do not cross, or a knee was not reached; or why a cost is
    /// not known. Empty otherwise.
    pub note: String,
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
    /// Why it could not be measured, where that is known; null if it was.
    pub unmeasured: Option<String>,
}

/// The Plimsoll line of one variant under one condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SafeLoad {
    /// Variant, if any.
    pub variant: Option<String>,
    /// The path that was raised.
    pub over: String,
    /// Highest value at which the limits hold, in the terms of the experiment file: the median of what the trials leave possible, or
    /// the highest that held where they never broke. Null if they held at no value, or nothing is known.
    pub value: Option<f64>,
    /// 95 % interval; an end is null where the search met none: the limits broke at the lowest value tried, or held at the highest
    /// that the generator or the search allowed.
    pub ci95: [Option<f64>; 2],
    /// The limit that was hit, or what kept the search from hitting one.
    pub limited_by: String,
    /// Under which condition: `nothing lost`, `one member down`, or the name of a fault.
    pub surviving: String,
    /// Whether the interval became as narrow as was asked for.
    pub complete: bool,
    /// Each trial of the search, in order.
    pub steps: Vec<SearchStep>,
}

/// A trial of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchStep {
    /// Its id.
    pub trial: String,
    /// The value it had.
    pub value: f64,
    /// Whether the limits held; null: void or unfinished, so that it says nothing.
    pub held: Option<bool>,
    /// The limits that did not hold, each with its figure; or why it says nothing.
    pub broke: Vec<String>,
    /// Metric of each limit to its value, where it was measured.
    pub figures: BTreeMap<String, f64>,
}

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
    /// 95 % interval of it by bootstrap over trials; null with too few repeats.
    pub knee_ci95: Option<[f64; 2]>,
    /// Highest throughput: the mean of the best point.
    pub peak_per_s: Option<f64>,
    /// 95 % interval of it; null with too few repeats.
    pub peak_ci95: Option<[f64; 2]>,
    /// The load of the best point.
    pub peak_at: Option<f64>,
    /// Universal Scalability Law; null with fewer than four loads, over an offered rate, or where it explains nothing.
    pub usl: Option<Usl>,
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
    /// Fit.
    pub r2: f64,
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

/// A figure of two variants, points or runs beside each other. Void trials are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// What tells the two apart: `variant`, a swept path, or `run`.
    pub over: String,
    /// One: the baseline.
    pub a: String,
    /// The other.
    pub b: String,
    /// At which point.
    pub at: BTreeMap<String, Value>,
    /// Of which metric.
    pub metric: String,
    /// Mean of `a` over the trials compared; the geometric one where there is a ratio.
    pub a_value: Option<f64>,
    /// … of `b`.
    pub b_value: Option<f64>,
    /// b / a; null where one of them can be 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; null with too few trials.
    pub ci95: Option<[f64; 2]>,
    /// b − a, for figures that can be 0.
    pub difference: Option<f64>,
    /// 95 % interval of the difference; null with too few trials, or where nothing spreads.
    pub difference_ci95: Option<[f64; 2]>,
    /// Chance of so large a difference if there is none; null with too few trials.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons of this kind in the run.
    pub p_adjusted: Option<f64>,
    /// Whether they differ: `p_adjusted` is below 0.05.
    pub significant: bool,
    /// Smallest difference, percent of `a`, that nine of ten such comparisons would show; null with too few trials, or where nothing
    /// spreads.
    pub detectable_pct: Option<f64>,
    /// The same in the unit of the metric, for figures that can be 0.
    pub detectable: Option<f64>,
    /// Pairs of trials that were played beside each other; 0: they were not, and the machine's drift is in the difference.
    pub pairs: u32,
    /// Trials of `a` and of `b` that have the figure.
    pub trials: [u32; 2],
    /// Trials of `a` and of `b` that can be used and lack the figure: a service that never came back has no time until then.
    pub without: [u32; 2],
    /// Which of the two is better, if they differ.
    pub better: Option<String>,
}
