//! What clients felt of faults, and of what no fault explains: a part of `analysis.json`.

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
    /// Kind.
    pub kind: String,
    /// The member it hit.
    pub on: String,
    /// Occurrence, from 1.
    pub number: u32,
    /// Begun, seconds since load start.
    pub at_s: f64,
    /// Healed; null: it heals by itself.
    pub healed_s: Option<f64>,
    /// Why it could not be injected, if so.
    pub failed: Option<String>,
    /// For charts.
    pub label: String,
    /// For charts.
    pub colour: String,
    /// What clients felt of it; null without load.
    pub outage: Option<Outage>,
    /// What the clients of each member felt of it, as far as that was recorded; empty where all clients went to the same address.
    pub members: Vec<MemberOutage>,
}

/// One occurrence of an operator's action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperatorAction {
    /// Name in the experiment.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// The members it was for.
    pub on: String,
    /// Occurrence, from 1.
    pub number: u32,
    /// Begun, seconds since load start.
    pub at_s: f64,
    /// Reason why the action failed. Null if it succeeded.
    pub failed: Option<String>,
}

/// What the clients of one member felt of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberOutage {
    /// The member.
    pub name: String,
    /// From this member's own counts, against its own baseline. Latency is not recorded by member, nor is memory here.
    pub outage: Outage,
}

/// A member, by what its clients saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberFigures {
    /// Name of its host.
    pub name: String,
    /// `ok` operations per second over `measured_s`.
    pub operations_per_s: Option<f64>,
    /// Operations that ended `ok` over the whole load.
    pub ok: u64,
    /// … `failed` or `timeout`.
    pub failed: u64,
    /// … `wrong`.
    pub wrong: u64,
    /// Outages of its clients that no fault explains, in time order, whether the sum over all members shows them or not.
    pub disturbances: Vec<Disturbance>,
}

/// What clients felt of a fault, or of a disturbance. Times are seconds after it began, to the slot of `outcomes.csv`. Where there are several
/// members, the figures are over all of them, but for a [`MemberOutage`]. `docs/outages.md` draws each figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Outage {
    /// `ok` per second before the fault.
    pub baseline_per_s: Option<f64>,
    /// The part of the load that this is taken from, seconds since load start: up to 10 s that end with the fault, or where service was not
    /// undisturbed for half a second there, the longest undisturbed part before.
    pub baseline_s: Option<[f64; 2]>,
    /// 95 % interval of the load's long-run rate before the fault, from ten batches. Null if the baseline is shorter than 8 s.
    pub baseline_ci95: Option<[f64; 2]>,
    /// Half the spread (interquartile range / 2) of the baseline over windows of 100 ms.
    pub baseline_spread_per_s: Option<f64>,
    /// `ok` per second below which throughput over `bound_window_s` counts as lower than the baseline. Null without a baseline.
    pub bound_per_s: Option<f64>,
    /// Length of the window that `bound_per_s` applies to, seconds. Null without a baseline.
    pub bound_window_s: Option<f64>,
    /// Operations that ended `failed` or `timeout` in the affected window.
    pub failed: u64,
    /// Operations that ended `timeout` in the affected window.
    pub timed_out: u64,
    /// Operations that ended `failed` or `timeout` in the affected window and that the usual share
    /// of failures does not explain. Null without a baseline.
    pub failed_excess: Option<f64>,
    /// Operations that ended `wrong` in the affected window.
    pub wrong: u64,
    /// First failure after the fault; null: none.
    pub first_failure_s: Option<f64>,
    /// Last failure of the affected window; null: none.
    pub last_failure_s: Option<f64>,
    /// First `ok` answer after service broke off (or after the fault, if it never did).
    pub first_ok_s: Option<f64>,
    /// Time in which nothing succeeded, longer than chance or the baseline's own stalls explain.
    pub total_s: Option<f64>,
    /// Time in which some operations failed and others succeeded.
    pub partial_s: Option<f64>,
    /// Until service was as before, for good: throughput within its bounds, no more failures than in the baseline, latency not far above
    /// it; null: not within the trial, or before the next fault. Found by the signs in `recovery_by`.
    pub back_to_baseline_s: Option<f64>,
    /// Whether service was as before within the trial, or before the next fault; null: that cannot be told, for the reason
    /// in `cannot_tell`.
    pub recovered: Option<bool>,
    /// Reason why `recovered` is null.
    pub cannot_tell: Option<String>,
    /// Signs by which `back_to_baseline_s` was found: `throughput`, `failures`, `gaps`, `latency`. Throughput is missing if the
    /// baseline varies too much, latency if too little of it was recorded before the fault. Empty without a baseline.
    pub recovery_by: Vec<String>,
    /// `ok` operations missing against the baseline until then, or until an overshoot was over, or until the next fault or the load's end
    /// if service was never back. Negative where there were more.
    pub lost_operations: Option<f64>,
    /// 95 % interval of the operations that the fault cost, from the spread of the baseline over times of that length. Null if the baseline is shorter than 8 s.
    pub lost_operations_ci95: Option<[f64; 2]>,
    /// Time in which nothing failed and throughput was below the bound, or latency far above what it was before: half again as high
    /// as in the slowest second of the baseline, for seconds.
    pub degraded_s: Option<f64>,
    /// Highest throughput over 100 ms (longer for a slow target) after service was back, as a share of the baseline: what the drained
    /// backlog made of it. Null where it was not beyond what the baseline itself shows.
    pub overshoot_ratio: Option<f64>,
    /// Until when such an overshoot went on; null: there was none, or it went on to the next fault or the load's end.
    pub overshoot_until_s: Option<f64>,
    /// Largest fall of the target's resident memory within 5 s.
    pub memory_released_bytes: Option<u64>,
}

impl Outage {
    /// Whether clients noticed anything, as far as that is known.
    #[must_use]
    pub fn is_noticed(&self) -> bool {
        let is_back_at_once = self.back_to_baseline_s == Some(0.0) || self.baseline_per_s.is_none();
        self.failed + self.wrong > 0 || !is_back_at_once
    }

    /// Whether service was below its baseline to the end, so that it is known not to have recovered.
    #[must_use]
    pub fn is_never_back(&self) -> bool {
        self.baseline_per_s.is_some() && self.back_to_baseline_s.is_none() && self.cannot_tell.is_none()
    }

    /// Operations that ended with a definite error.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.failed.saturating_sub(self.timed_out)
    }
}

/// What service was like in a disturbance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DisturbanceKind {
    /// Operations failed, or none succeeded.
    #[default]
    Outage,
    /// It was slower for seconds: less throughput, or a higher latency.
    Slow,
}

/// An outage, or a slow time, that no fault explains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// It began, seconds since load start: with its first failure, or with the time in which nothing succeeded, or service became slow.
    pub at_s: f64,
    /// Whether service broke off or was slow.
    pub kind: DisturbanceKind,
    /// Throughput while it was slow, as a share of what it usually was; null for an outage.
    pub throughput_ratio: Option<f64>,
    /// Latency while it was slow, as a multiple of what it usually was: the median, or where that was not higher the quantile that was;
    /// null for an outage, and with too few operations.
    pub latency_ratio: Option<f64>,
    /// The quantile that `latency_ratio` is of, 0.5 or 0.75; null where that is.
    pub latency_quantile: Option<f64>,
    /// What clients felt; its times count from `at_s`.
    pub outage: Outage,
}

/// What clients felt of one fault over all its occurrences and repeats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutageDistribution {
    /// Name of the fault.
    pub fault: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Swept path to value.
    pub point: BTreeMap<String, Value>,
    /// Occurrences in usable trials.
    pub count: u64,
    /// … of which service was not back before the next fault or the load's end.
    pub never_back: u64,
    /// By figure: `first_ok_s`, `back_to_baseline_s`, `failed`, `lost_operations`, …; only those that any occurrence has.
    pub figures: BTreeMap<String, Spread>,
    /// The same of the clients of each member, by its name; empty where all clients went to the same address.
    pub members: BTreeMap<String, BTreeMap<String, Spread>>,
}

/// Quantiles of a figure over occurrences. One that too few of them support is null. A time that was not over when it could no
/// longer be seen counts as longer than all others; a quantile that falls among such is null, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spread {
    /// Occurrences that have it, those of unknown length included.
    pub count: u64,
    /// Smallest.
    pub min: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95 % interval of the median that very many independent occurrences would have; null for less than six.
    pub p50_ci95: Option<[f64; 2]>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// Largest; null if one was not over.
    pub max: Option<f64>,
}
