//! Differences between variants, swept values and runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Comparison of a figure between two variants, points or runs. Void trials are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// Dimension in which the two sides differ: `variant`, a swept path, or `run`.
    pub over: String,
    /// The baseline.
    pub a: String,
    /// The side that is compared with the baseline.
    pub b: String,
    /// Point of the sweep: values of the swept paths.
    pub at: BTreeMap<String, Value>,
    /// Path of the metric.
    pub metric: String,
    /// Mean of `a` over the compared trials. The geometric mean if there is a ratio.
    pub a_value: Option<f64>,
    /// Mean of `b`, likewise.
    pub b_value: Option<f64>,
    /// `b / a`. Null if one of them can be 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio that very many such trials would give. Null with too few trials.
    pub ci95: Option<[f64; 2]>,
    /// Interval of the ratio at the level at which the difference is tested. The level is corrected
    /// for all comparisons made together (Holm), so that the interval is consistent with
    /// `p_adjusted`: the interval excludes 1 exactly if the difference is significant. These
    /// intervals are not simultaneous.
    pub ci95_adjusted: Option<[f64; 2]>,
    /// `b − a`, for figures that can be 0.
    pub difference: Option<f64>,
    /// 95 % interval of the difference that very many such trials would give. Null with too few
    /// trials, or if nothing varies.
    pub difference_ci95: Option<[f64; 2]>,
    /// Interval of the difference at the level at which it is tested; see `ci95_adjusted`.
    pub difference_ci95_adjusted: Option<[f64; 2]>,
    /// Probability of a difference at least this large if there is none. Null with too few trials.
    pub p: Option<f64>,
    /// `p`, corrected for all comparisons of this kind in the run.
    pub p_adjusted: Option<f64>,
    /// Whether the sides differ significantly: `p_adjusted` is below 0.05.
    pub significant: bool,
    /// Smallest difference, percent of `a`, that nine of ten such comparisons would show. Null with
    /// too few trials, or if nothing varies.
    pub detectable_pct: Option<f64>,
    /// Smallest such difference in the unit of the metric, for figures that can be 0.
    pub detectable: Option<f64>,
    /// Machine conditions that the comparison is adjusted for: `steal`, `strangers`. The difference
    /// is the one at equal amounts of them. Empty if they did not differ, or if there are too few
    /// trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adjusted_for: Vec<String>,
    /// `b / a` without the adjustment. Left out if the comparison is not adjusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_ratio: Option<f64>,
    /// Interval of `raw_ratio` at the level at which it is tested; see `ci95_adjusted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_ci95_adjusted: Option<[f64; 2]>,
    /// Machine conditions that differ between the sides by more than chance. The comparison is not
    /// adjusted for them, because `b` may cause the difference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_adjusted_for: Vec<UnadjustedCovariate>,
    /// Number of sweep points whose errors were pooled for the interval and the probability,
    /// moderated by how much the errors differ. Left out if only the error of this point was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_points: Option<u32>,
    /// Pairs of trials that were played next to each other. If 0, the difference includes the
    /// machine's drift.
    pub pairs: u32,
    /// Number of trials of `a` and of `b` that have the figure.
    pub trials: [u32; 2],
    /// Number of usable trials of `a` and of `b` that lack the figure. Example: a service that
    /// never recovered has no recovery time.
    pub without: [u32; 2],
    /// The better side, if the sides differ.
    pub better: Option<String>,
}

/// CPU time taken by others that differs between the sides of a comparison by more than chance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnadjustedCovariate {
    /// `steal` or `strangers`.
    pub name: String,
    /// Excess at `b` over `a`, in percentage points of the machine's CPU.
    pub difference: f64,
    /// Probability of a difference at least this large if neither side causes it (F-test).
    pub p: f64,
}
