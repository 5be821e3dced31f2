//! Whether a load was steady, and from when on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the warm-up of a trial ends, and whether the rest is steady.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Steady {
    /// End of the warm-up, seconds since load start.
    pub from_s: f64,
    /// How it was found: `MSER-5`, `given`, `too short to tell`; `MSER-5, before the disturbance at 3.0 s` where more would have been cut.
    pub method: String,
    /// Whether the rest is steady. `true`: the 90 % intervals of the changes lie within ±8 % of throughput and within a factor of 1.5 of
    /// the mean latency. `false`: `unsteady` says which figure changes. Null: the load is too short or too noisy to tell, and `cannot_tell` has
    /// the reason; or the rate was to change, and nothing was tested.
    pub is: Option<bool>,
    /// What is not steady, if so: `throughput`, `latency`.
    pub unsteady: Option<String>,
    /// Why it cannot be told whether the load is steady, in words and with the 90 % interval of the change; null if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_tell: Option<String>,
    /// Trend of throughput from the end of the ramp to the load's end, or to the first fault: percent that it changed by. Null if too short.
    pub throughput_change_pct: Option<f64>,
    /// 95 % interval of that change, percent.
    pub throughput_change_ci95: Option<[f64; 2]>,
    /// 90 % interval of that change, percent: steady is what lies within ±8 % with all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_change_ci90: Option<[f64; 2]>,
    /// Trend of the mean latency of a second over the same time: percent that it changed by. Null in less than 20 s.
    pub latency_change_pct: Option<f64>,
    /// 95 % interval of that change, percent.
    pub latency_change_ci95: Option<[f64; 2]>,
    /// 90 % interval of that change, percent: steady is what lies from −33 to +50 % with all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_change_ci90: Option<[f64; 2]>,
    /// A slow beginning of throughput that was left in, because it moves the mean by less than 1 % and by less than half of the width of the
    /// mean's 95 % interval: percent of the mean, positive. `operations_per_s_ci95` includes it. Null: nothing was left in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerated_bias_pct: Option<f64>,
    /// By how much the long-run throughput may be higher than the mean because the warm-up may not be over: the last third of the measured part
    /// less its first third, percent of the mean. `operations_per_s_ci95` includes it. Null: no sign of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_bias_pct: Option<f64>,
    /// A beginning that was better than the rest. It is no warm-up, and is measured with the rest. Null: there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster_start: Option<FasterStart>,
}

/// A beginning of the load that was better than the rest of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FasterStart {
    /// The figure that was better: `throughput` or `latency`.
    pub of: String,
    /// Length of the beginning, from the end of the ramp, seconds.
    pub long_s: f64,
    /// By how much the mean throughput was higher, or the mean latency lower, than in the rest, percent of the rest; positive.
    pub pct: f64,
}
