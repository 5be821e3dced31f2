//! Outages and disturbances as clients saw them: a part of `analysis.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One occurrence of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fault {
    /// Name in the experiment.
    pub name: String,
    /// Kind of the fault.
    pub kind: String,
    /// The member that the fault hit.
    pub on: String,
    /// Occurrence, from 1.
    pub number: u32,
    /// Start, seconds since load start.
    pub at_s: f64,
    /// Time of healing, seconds since load start. Null if the fault heals by itself.
    pub healed_s: Option<f64>,
    /// Reason why the fault could not be injected. Null if it was injected.
    pub failed: Option<String>,
    /// Label in charts.
    pub label: String,
    /// Colour in charts.
    pub colour: String,
    /// Effect on clients. Null without load.
    pub outage: Option<Outage>,
    /// Effect on the clients of each member, as far as it was recorded. Empty if all clients used
    /// the same address.
    pub members: Vec<MemberOutage>,
}

/// One occurrence of an operator's action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperatorAction {
    /// Name in the experiment.
    pub name: String,
    /// Kind of the action.
    pub kind: String,
    /// The members that the action was for.
    pub on: String,
    /// Occurrence, from 1.
    pub number: u32,
    /// Start, seconds since load start.
    pub at_s: f64,
    /// Reason why the action failed. Null if it succeeded.
    pub failed: Option<String>,
}

/// Effect of a fault on the clients of one member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberOutage {
    /// Name of the member.
    pub name: String,
    /// Figures from this member's own counts and baseline. Latency and memory are not included.
    pub outage: Outage,
}

/// Results of the clients of one member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberFigures {
    /// Name of the member's host.
    pub name: String,
    /// `ok` operations per second over `measured_s`.
    pub operations_per_s: Option<f64>,
    /// Operations that ended `ok`, over the whole load.
    pub ok: u64,
    /// Operations that ended `failed` or `timeout`, over the whole load.
    pub failed: u64,
    /// Operations that ended `wrong`, over the whole load.
    pub wrong: u64,
    /// Outages of the member's clients that no fault explains, in time order. The sum over all
    /// members need not show them.
    pub disturbances: Vec<Disturbance>,
}

/// Effect of a fault or a disturbance on clients. Times are seconds after its start, with the
/// resolution of the slots in `outcomes.csv`. With several members, the figures cover all of them,
/// except in a [`MemberOutage`]. `docs/outages.md` draws each figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Outage {
    /// `ok` operations per second before the fault.
    pub baseline_per_s: Option<f64>,
    /// Part of the load that the baseline is taken from, seconds since load start: up to 10 s that
    /// end with the fault. If service was not undisturbed for half a second there, the longest
    /// earlier undisturbed part.
    pub baseline_s: Option<[f64; 2]>,
    /// 95 % interval of the load's long-run rate before the fault, from ten batches. Null if the
    /// baseline is shorter than 8 s.
    pub baseline_ci95: Option<[f64; 2]>,
    /// Half of the interquartile range of the baseline, over windows of 100 ms.
    pub baseline_spread_per_s: Option<f64>,
    /// Limit of `ok` operations per second: lower throughput over `bound_window_s` counts as below
    /// the baseline. Null without a baseline.
    pub bound_per_s: Option<f64>,
    /// Length of the window that `bound_per_s` applies to, seconds. Null without a baseline.
    pub bound_window_s: Option<f64>,
    /// Operations that ended `failed` or `timeout` in the affected window.
    pub failed: u64,
    /// Operations that ended `timeout` in the affected window.
    pub timed_out: u64,
    /// Operations that ended `failed` or `timeout` in the affected window, less the number that the
    /// usual share of failures explains. Null without a baseline.
    pub failed_excess: Option<f64>,
    /// Operations that ended `wrong` in the affected window.
    pub wrong: u64,
    /// Time of the first failure after the fault. Null if there is none.
    pub first_failure_s: Option<f64>,
    /// Time of the last failure in the affected window. Null if there is none.
    pub last_failure_s: Option<f64>,
    /// Time of the first `ok` answer after service was interrupted, or after the fault if service
    /// was never interrupted.
    pub first_ok_s: Option<f64>,
    /// Time in which no operation succeeded, if longer than chance or the baseline's own stalls
    /// explain.
    pub total_s: Option<f64>,
    /// Time in which some operations failed and others succeeded.
    pub partial_s: Option<f64>,
    /// Time until service was back to the baseline for good: throughput within its bounds, no more
    /// failures than in the baseline, latency not far above the baseline. Null if that did not
    /// happen within the trial, or before the next fault. `recovery_by` lists the signs used.
    pub back_to_baseline_s: Option<f64>,
    /// Whether service was back to the baseline within the trial, or before the next fault. Null if
    /// unknown, for the reason in `cannot_tell`.
    pub recovered: Option<bool>,
    /// Reason why `recovered` is null.
    pub cannot_tell: Option<String>,
    /// Signs that determined `back_to_baseline_s`: `throughput`, `failures`, `gaps`, `latency`.
    /// Throughput is missing if the baseline varies too much, latency if too little latency was
    /// recorded before the fault. Empty without a baseline.
    pub recovery_by: Vec<String>,
    /// `ok` operations missing relative to the baseline, until service was back or an overshoot was
    /// over. If service never came back: until the next fault or the load's end. Negative if there
    /// were more operations than expected.
    pub lost_operations: Option<f64>,
    /// 95 % interval of the operations that the fault cost, from the spread of the baseline over
    /// periods of the same length. Null if the baseline is shorter than 8 s.
    pub lost_operations_ci95: Option<[f64; 2]>,
    /// Time in which nothing failed, but throughput was below the bound or latency was high. High
    /// latency is at least 1.5 times that of the baseline's slowest second, for seconds.
    pub degraded_s: Option<f64>,
    /// Highest throughput over 100 ms (longer for a slow target) after service was back, as a share
    /// of the baseline. The cause is the drained backlog. Null if throughput did not exceed the
    /// baseline's own range.
    pub overshoot_ratio: Option<f64>,
    /// End of the overshoot. Null if there was none, or if it lasted until the next fault or the
    /// load's end.
    pub overshoot_until_s: Option<f64>,
    /// Largest drop of the target's resident memory within 5 s.
    pub memory_released_bytes: Option<u64>,
}

impl Outage {
    /// Whether clients noticed anything, as far as the records show.
    #[must_use]
    pub fn is_noticed(&self) -> bool {
        let is_back_at_once = self.back_to_baseline_s == Some(0.0) || self.baseline_per_s.is_none();
        self.failed + self.wrong > 0 || !is_back_at_once
    }

    /// Whether service stayed below its baseline to the end, so that it certainly did not recover.
    #[must_use]
    pub fn is_never_back(&self) -> bool {
        self.baseline_per_s.is_some() && self.back_to_baseline_s.is_none() && self.cannot_tell.is_none()
    }

    /// Returns the number of operations that ended with a definite error.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.failed.saturating_sub(self.timed_out)
    }
}

/// Kind of a disturbance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DisturbanceKind {
    /// Operations failed, or none succeeded.
    #[default]
    Outage,
    /// Service was slower for seconds: lower throughput or higher latency.
    Slow,
}

/// An outage, or a time of slow service, that no fault explains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// Start, seconds since load start: the first failure, the start of the time without any
    /// success, or the start of slow service.
    pub at_s: f64,
    /// Whether service was interrupted or slow.
    pub kind: DisturbanceKind,
    /// Throughput while service was slow, as a share of the usual throughput. Null for an outage.
    pub throughput_ratio: Option<f64>,
    /// Latency while service was slow, as a multiple of the usual latency: of the median, or of a
    /// higher quantile if the median did not rise. Null for an outage, and with too few operations.
    pub latency_ratio: Option<f64>,
    /// The quantile of `latency_ratio`: 0.5 or 0.75. Null if `latency_ratio` is null.
    pub latency_quantile: Option<f64>,
    /// Effect on clients. Times count from `at_s`.
    pub outage: Outage,
}

/// Effect of one fault on clients, over all its occurrences and repeats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutageDistribution {
    /// Name of the fault.
    pub fault: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Values of the swept paths.
    pub point: BTreeMap<String, Value>,
    /// Number of occurrences in usable trials.
    pub count: u64,
    /// Number of occurrences after which service was not back before the next fault or the load's
    /// end.
    pub never_back: u64,
    /// Distribution of each figure: `first_ok_s`, `back_to_baseline_s`, `failed`,
    /// `lost_operations`, …. Only figures that at least one occurrence has.
    pub figures: BTreeMap<String, Spread>,
    /// The same distributions for the clients of each member, by the member's name. Empty if all
    /// clients used the same address.
    pub members: BTreeMap<String, BTreeMap<String, Spread>>,
}

/// Quantiles of a figure over occurrences. A quantile that too few occurrences support is null. A
/// time that had not ended when observation ended counts as longer than all others. A quantile that
/// falls among such times is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spread {
    /// Number of occurrences that have the figure, including times of unknown length.
    pub count: u64,
    /// Minimum.
    pub min: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95 % interval of the median that very many independent occurrences would have. Null with
    /// fewer than six.
    pub p50_ci95: Option<[f64; 2]>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Maximum. Null if a time had not ended.
    pub max: Option<f64>,
}
