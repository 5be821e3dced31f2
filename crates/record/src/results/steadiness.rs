//! Steadiness of a load and the end of its warm-up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// End of a trial's warm-up, and steadiness of the rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Steady {
    /// End of the warm-up, seconds since load start.
    pub from_s: f64,
    /// Method that found the end of the warm-up: `MSER-5`, `given` or `too short to tell`.
    /// `MSER-5, before the disturbance at 3.0 s` if the method would otherwise have cut more.
    pub method: String,
    /// Whether the rest is steady. `true`: the 90 % intervals of the changes lie within ±8 % of
    /// throughput and within a factor of 1.5 of the mean latency. `false`: `unsteady` names the
    /// figure that changes. Null: the load is too short or too noisy to tell, for the reason in
    /// `cannot_tell`; or the rate changed by plan, and there was no test.
    pub is: Option<bool>,
    /// Figure that is not steady: `throughput` or `latency`. Null if there is none.
    pub unsteady: Option<String>,
    /// Reason why steadiness is unknown, with the 90 % interval of the change. Null if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_tell: Option<String>,
    /// Trend of throughput from the end of the ramp to the load's end, or to the first fault:
    /// change in percent. Null if that time is too short.
    pub throughput_change_pct: Option<f64>,
    /// 95 % interval of that change, percent.
    pub throughput_change_ci95: Option<[f64; 2]>,
    /// 90 % interval of that change, percent. The load is steady if the whole interval is within ±8
    /// %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_change_ci90: Option<[f64; 2]>,
    /// Trend of the mean latency per second over the same time: change in percent. Null in less
    /// than 20 s.
    pub latency_change_pct: Option<f64>,
    /// 95 % interval of that change, percent.
    pub latency_change_ci95: Option<[f64; 2]>,
    /// 90 % interval of that change, percent. The load is steady if the whole interval is from −33
    /// to +50 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_change_ci90: Option<[f64; 2]>,
    /// Slow start of throughput that was not cut, percent of the mean, positive. It changes the
    /// mean by less than 1 % and by less than half of the width of the mean's 95 % interval.
    /// `operations_per_s_ci95` includes it. Null if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerated_bias_pct: Option<f64>,
    /// Possible excess of the long-run throughput over the mean because the warm-up may not be
    /// over, percent of the mean: the last third of the measured part minus its first third.
    /// `operations_per_s_ci95` includes it. Null if there is no sign of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_bias_pct: Option<f64>,
    /// Start of the load that was better than the rest. It is not a warm-up and is measured with
    /// the rest. Null if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster_start: Option<FasterStart>,
}

/// A start of the load that was better than the rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FasterStart {
    /// The figure that was better: `throughput` or `latency`.
    pub of: String,
    /// Length of that start, from the end of the ramp, seconds.
    pub long_s: f64,
    /// Difference from the rest, percent of the rest, positive: higher mean throughput or lower
    /// mean latency.
    pub pct: f64,
}
