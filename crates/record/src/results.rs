//! `analysis.json`, the public format of results. Fields are only ever added. What was not measured is null,
//! never 0. The reader accepts files that lack fields of later versions.

mod consistency;
mod costs;
mod outages;
mod scaling;
mod steadiness;
mod verdicts;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::{FailureExample, HostFigures, ProcessShare, StepResult, SweepStop};
use crate::rows::MetricKind;

pub use consistency::{Consistency, PooledConsistency, ReplicaTable};
pub use costs::{Cost, CostWithWarmup, DemandedHosts, PointCost};
pub use outages::{
    Disturbance, DisturbanceKind, Fault, MemberFigures, MemberOutage, OperatorAction, Outage, OutageDistribution,
    Spread,
};
pub use scaling::{Crossing, Lead, Scaling, ScalingPoint, Usl};
pub use steadiness::{FasterStart, Steady};
pub use verdicts::{DelayEffect, FigureClass, FigureVerdict, Trust, Verdict};

/// Version of the format.
pub const FORMAT: u32 = 1;

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Results {
    /// Version of this format: 1.
    pub format: u32,
    /// The experiment's title.
    pub title: String,
    /// The experiment's question.
    pub asks: String,
    /// The finding in one or two sentences, with numbers.
    pub answer: String,
    /// Further findings, a sentence each, with numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The worst verdict among the trials that the answer uses.
    pub verdict: Verdict,
    /// Whether records of planned trials are missing: the run was interrupted, failed or still goes on.
    pub partial: Option<String>,
    /// Trials planned.
    pub planned_trials: u32,
    /// Sweeps that went no higher, and the trials that were not played for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep_stops: Vec<SweepStop>,
    /// Every trial with records, in the order of the plan.
    pub trials: Vec<Trial>,
    /// What the source says, held against this run.
    pub claims: Vec<Claim>,
    /// The gates.
    pub requirements: Vec<Requirement>,
    /// The Plimsoll line, if the experiment searched for it: of several conditions, the lowest of the first variant.
    pub safe_load: Option<SafeLoad>,
    /// The line of each variant under each condition.
    pub safe_loads: Vec<SafeLoad>,
    /// Scaling over a swept load, one entry per variant.
    pub scaling: Vec<Scaling>,
    /// Where variants overtake each other.
    pub crossings: Vec<Crossing>,
    /// Each variant beside the first, at each point.
    pub comparisons: Vec<Comparison>,
    /// Each fault over all its occurrences.
    pub outages: Vec<OutageDistribution>,
    /// What a unit of work costs, for each variant at each point; empty where no trial says it.
    pub costs: Vec<PointCost>,
    /// How many hosts each variant takes to carry `[demand]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub demanded_hosts: Vec<DemandedHosts>,
    /// What the consistency checks found at each variant and point, over all repeats.
    pub consistencies: Vec<PooledConsistency>,
}

/// Start of a target that several trials have in common (`[target] start = "once"`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SharedStart {
    /// Id of the trial for which the target was started.
    pub of: String,
    /// Whether the target's hook `reset` ran before this trial.
    pub reset: bool,
}

/// One trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Trial {
    /// `001`, …
    pub id: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Swept path to value.
    pub point: BTreeMap<String, Value>,
    /// In a search: the condition under which the limits were to hold; empty: the file's faults as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surviving: Option<String>,
    /// From 1.
    pub repeat: u32,
    /// Start of the target that this trial has in common with earlier ones; left out if the target was started for this trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_start: Option<SharedStart>,
    /// Whether this trial can be trusted.
    pub verdict: Verdict,
    /// `done`, `interrupted`, `failed`; null: the records end in the middle.
    pub ended: Option<crate::events::Ending>,
    /// Seconds of load that the figures below are taken from: `[from, to]`, after warm-up, before drain.
    pub measured_s: Option<[f64; 2]>,
    /// Where the warm-up ends, and how that was found; null without load.
    pub steady: Option<Steady>,
    /// Rates over `measured_s`.
    pub throughput: Throughput,
    /// The same figures with the warm-up left in, to be seen beside them.
    pub with_warmup: WithWarmup,
    /// Units of work that `ok` operations did over the whole load; left out where none counts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Parts of `ok` answers over the whole load; left out where none are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<AnswerParts>,
    /// Counts over the whole load.
    pub outcomes: Outcomes,
    /// `100 × (failed + timeout + unfinished) / (ok + failed + timeout + wrong + unfinished)`: of all that was due and begun; null without
    /// operations.
    pub failed_pct: Option<f64>,
    /// The share of those that timed out.
    pub timeout_pct: Option<f64>,
    /// The share of those whose answer was wrong.
    pub wrong_pct: Option<f64>,
    /// Full cycles over the whole load: each operation of them was answered, be it wrong. Null where nobody counted them.
    pub cycles: Option<u64>,
    /// Agents that began to work and finished no full cycle in the whole load, drain included: not even their first one. Null where
    /// that was not recorded.
    pub agents_without_cycle: Option<u64>,
    /// The same of `measured_s` and the drain alone: agents that finished no cycle after the warm-up.
    pub agents_without_measured_cycle: Option<u64>,
    /// Wrong answers for 1,000 cycles, full or not; null without expectations, or without a cycle.
    pub wrong_per_1000_cycles: Option<f64>,
    /// Attempts in all; more than operations when calls were retried.
    pub attempts: u64,
    /// Result of an attempt (`ok`, `connection closed`, …) to count.
    pub attempt_results: BTreeMap<String, u64>,
    /// One failure of each kind, in the order of their first time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailureExample>,
    /// Intended start to answer, of `ok` operations that ended in the measured part, to the second.
    pub latency_us: Option<Quantiles>,
    /// 95 % intervals of the long-run quantiles of this trial, from ten batches of it. Other trials differ by more. Null if less than 10 s were
    /// measured, or a batch has too few operations for its median.
    pub latency_intervals_us: Option<QuantileIntervals>,
    /// From how many separate moments the operations come that took as long as each quantile of `latency_us`, or longer; null without latencies.
    pub latency_moments: Option<QuantileMoments>,
    /// Latency of every operation of the measured part, whatever became of it: one that failed, timed out or was never answered took longer
    /// than all others. A quantile that lies among those is null, and so are mean and maximum. Null where all were answered.
    pub latency_of_all_us: Option<Quantiles>,
    /// `latency_us` less what the generator itself was late to start operations; null where no timer starts them, or an older version measured.
    pub punctual_latency_us: Option<Quantiles>,
    /// Send to answer, of the same.
    pub service_us: Option<Quantiles>,
    /// Latency of operations that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
    /// The same by operation.
    pub operations: BTreeMap<String, Operation>,
    /// Each group of the load's agents, by its name; empty where the load has no groups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupFigures>,
    /// Every occurrence of a fault, in time order.
    pub faults: Vec<Fault>,
    /// Every occurrence of an operator's action, in time order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<OperatorAction>,
    /// The steps of an exercise, in order, as far as they were played.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlayedStep>,
    /// Outages that no fault explains, in time order.
    pub disturbances: Vec<Disturbance>,
    /// Each member that clients went to, in the order of their names; empty where all went to the same address.
    pub members: Vec<MemberFigures>,
    /// What the target's processes wrote that its `[log]` calls notable, in the order of the first time.
    pub said: Vec<Said>,
    /// What the checks found.
    pub consistency: Consistency,
    /// The machine as a whole.
    pub machine: Machine,
    /// Every host.
    pub hosts: Vec<Host>,
    /// What the target tells of itself: each metric that its `[metrics]` keeps, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, TargetMetric>,
    /// What a lab that models other machines, or slows time, makes of the figures; null where all is real.
    pub emulated: Option<Emulated>,
    /// The generator's own health.
    pub generator: Generator,
    /// Delay by other processes and the hypervisor that reached the load's operations; null where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayEffect>,
    /// What a unit of work costs on the machines meant.
    pub cost: Cost,
}

/// A step of an exercise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlayedStep {
    /// Name in the experiment.
    pub name: String,
    /// When it began, seconds since load start.
    pub at_s: f64,
    /// What came of it, audits included.
    pub result: StepResult,
    /// 1 if it was bad, that is anything but `ok`; else 0.
    pub failed: u64,
    /// From its beginning until its condition held; null if it did not.
    pub time_s: Option<f64>,
    /// From its beginning until all was done and only the condition was waited for; null if that was not reached.
    pub done_s: Option<f64>,
    /// When it ended, seconds since load start; null if it was cut off.
    pub ended_s: Option<f64>,
    /// Why it was bad, in words.
    pub why: Option<String>,
    /// The audits that followed, each over all members.
    pub audits: Vec<StepAudit>,
    /// When the target had been started anew after it, seconds since load start; null if that was not needed.
    pub rebuilt_s: Option<f64>,
}

/// An audit after a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepAudit {
    /// Its name in `target.toml`.
    pub name: String,
    /// Members that were audited.
    pub members: u64,
    /// Members that did not pass.
    pub failed: u64,
    /// What each of them said: `n2: two members lead`.
    pub reasons: Vec<String>,
}

impl Trial {
    /// Whether its figures count: not those of a void trial.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.verdict.is != Trust::Void
    }

    /// Has its figures count, also if it is void: suspect is what it is then. Whether it was void.
    pub fn accept(&mut self) -> bool {
        let was_void = !self.counts();
        if was_void {
            self.verdict.is = Trust::Suspect;
            self.verdict.figures.iter_mut().for_each(|one| one.is = one.is.min(Trust::Suspect));
        }
        was_void
    }
}

/// The trials of a run whose figures count. Where none does, all of them, so that what was measured can be shown; the verdict says that
/// nothing follows from it, and neither claims, requirements nor comparisons are held against it.
pub fn counting<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a Trial> {
    let trials: Vec<&Trial> = trials.into_iter().collect();
    let none = !trials.iter().any(|trial| trial.counts());
    trials.into_iter().filter(|trial| none || trial.counts()).collect()
}

/// Figures of the whole load, warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WithWarmup {
    /// `ok` operations per second from load start to the last new operation.
    pub operations_per_s: Option<f64>,
    /// Full cycles per second, likewise.
    pub cycles_per_s: Option<f64>,
    /// Latency of all `ok` operations.
    pub latency_us: Option<Quantiles>,
    /// Service time of all `ok` operations.
    pub service_us: Option<Quantiles>,
}

/// Rates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Throughput {
    /// `ok` operations per second.
    pub operations_per_s: Option<f64>,
    /// 95 % interval of the long-run rate of this trial, from ten batches of `measured_s`. A second stretch of the same length differs by more,
    /// by up to √2 times the width, and another trial by more than that.
    pub operations_per_s_ci95: Option<[f64; 2]>,
    /// Why that interval is null though there is a rate, in words: `less than 10 s were measured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_ci95: Option<String>,
    /// Number of independent bins of 100 ms that would tell as much of the mean rate.
    pub effective_samples: Option<f64>,
    /// Full cycles per second.
    pub cycles_per_s: Option<f64>,
    /// `ok` operations per second before the first fault, after warm-up; null without a fault, and where less than half a second lies before it.
    pub before_first_fault_per_s: Option<f64>,
    /// Units of work per second, such as documents; left out where no operation counts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_s: Option<f64>,
    /// The same as the median over the whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_units_per_s: Option<f64>,
    /// Bytes of answers per second, headers included and by TLS decrypted.
    pub received_bytes_per_s: Option<f64>,
}

impl Throughput {
    /// Work per second, by which loads and variants are held beside each other: units of work where operations count any, as the median over
    /// the seconds, and `ok` operations otherwise.
    #[must_use]
    pub fn work_per_s(&self) -> Option<f64> {
        self.median_units_per_s.or(self.operations_per_s)
    }
}

/// Counts of operations by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Outcomes {
    /// Answered as expected.
    pub ok: u64,
    /// A definite error.
    pub failed: u64,
    /// No answer in time.
    pub timeout: u64,
    /// A consistency error.
    pub wrong: u64,
    /// Open when the drain ended.
    pub unfinished: u64,
}

/// Quantiles of a time, microseconds. A quantile that too few samples support is null. Beside those listed there is each percentile that the
/// experiment asks for, under its name: `p97.5`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 75 %.
    pub p75: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 95 %.
    pub p95: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Samples.
    pub count: u64,
    /// Other percentiles that were asked for, by name.
    #[serde(flatten)]
    #[schemars(schema_with = "other_percentiles")]
    pub others: BTreeMap<String, Option<f64>>,
}

fn other_percentiles(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let number = serde_json::json!({ "type": ["number", "null"] });
    schemars::json_schema!({ "type": "object", "patternProperties": { (PERCENTILE): number } })
}

/// Names of percentiles, as a regular expression.
pub const PERCENTILE: &str = "^p[0-9]+(\\.[0-9]+)?$";

/// 95 % intervals of quantiles of a time, microseconds. The interval of a quantile is null if one of the ten batches has too few operations for
/// that quantile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuantileIntervals {
    /// Interval of the median.
    pub p50_ci95: Option<[f64; 2]>,
    /// Interval of the 75th percentile.
    pub p75_ci95: Option<[f64; 2]>,
    /// Interval of the 90th percentile.
    pub p90_ci95: Option<[f64; 2]>,
    /// Interval of the 95th percentile.
    pub p95_ci95: Option<[f64; 2]>,
    /// Interval of the 99th percentile.
    pub p99_ci95: Option<[f64; 2]>,
    /// Interval of the 99.9th percentile.
    pub p999_ci95: Option<[f64; 2]>,
}

/// Separate moments of the measured part in which operations took as long as a quantile, or longer. Slow operations come in bunches, and a
/// bunch is one observation: the operations are divided by the index of dispersion of their counts by second. A quantile without an interval
/// is sure from ten moments on; the tables mark others with `~`. Null where the quantile is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuantileMoments {
    /// Moments of the median.
    pub p50: Option<u64>,
    /// Moments of the 75th percentile.
    pub p75: Option<u64>,
    /// Moments of the 90th percentile.
    pub p90: Option<u64>,
    /// Moments of the 95th percentile.
    pub p95: Option<u64>,
    /// Moments of the 99th percentile.
    pub p99: Option<u64>,
    /// Moments of the 99.9th percentile.
    pub p999: Option<u64>,
}

/// Separate moments from which a quantile without an interval is sure.
pub const SURE_MOMENTS: u64 = 10;

impl Trial {
    /// From how many moments a quantile of `latency_us` comes, if these are too few for it to be sure; by its name, such as `p99`.
    #[must_use]
    pub fn unsure_moments(&self, quantile: &str) -> Option<u64> {
        let (moments, ci95) = (self.latency_moments?, self.latency_intervals_us.unwrap_or_default());
        let (moments, ci95) = match quantile {
            "p50" => (moments.p50, ci95.p50_ci95),
            "p75" => (moments.p75, ci95.p75_ci95),
            "p90" => (moments.p90, ci95.p90_ci95),
            "p95" => (moments.p95, ci95.p95_ci95),
            "p99" => (moments.p99, ci95.p99_ci95),
            "p99.9" | "p999" => (moments.p999, ci95.p999_ci95),
            _ => return None,
        };
        moments.filter(|moments| *moments < SURE_MOMENTS && ci95.is_none())
    }
}

/// A group of the load's agents, over all its operations. Each of these by itself is among the trial's `operations`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GroupFigures {
    /// Its agents.
    pub agents: u32,
    /// Operations per second that were asked for; null in a closed loop, and where the rate was to change.
    pub offered_per_s: Option<f64>,
    /// `ok` per second over the measured part.
    pub throughput_per_s: Option<f64>,
    /// Full cycles over the whole load; null where nobody counted them.
    pub cycles: Option<u64>,
    /// Agents that began to work and finished no full cycle; null where that was not recorded.
    pub agents_without_cycle: Option<u64>,
    /// Counts over the whole load.
    pub outcomes: Outcomes,
    /// Percentage of the group's operations that failed, timed out or stayed unfinished.
    pub failed_pct: Option<f64>,
    /// Percentage of the group's operations that timed out.
    pub timeout_pct: Option<f64>,
    /// Percentage of the group's operations with a wrong answer.
    pub wrong_pct: Option<f64>,
    /// Attempts in all.
    pub attempts: u64,
    /// Intended start to answer, of `ok` ones that ended in the measured part.
    pub latency_us: Option<Quantiles>,
    /// Send to answer, of the same.
    pub service_us: Option<Quantiles>,
    /// Latency of those that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
}

/// One operation of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Operation {
    /// The group whose operation it is; none where the load has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `ok` per second over the measured part.
    pub throughput_per_s: Option<f64>,
    /// Counts over the whole load.
    pub outcomes: Outcomes,
    /// Attempts in all.
    pub attempts: u64,
    /// Intended start to answer, of `ok` ones that ended in the measured part.
    pub latency_us: Option<Quantiles>,
    /// Send to answer, of the same.
    pub service_us: Option<Quantiles>,
    /// Latency of those that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
    /// Units of work that it did per second over the measured part; left out where it counts none, as are the next ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_s: Option<f64>,
    /// The same as the median over the whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_units_per_s: Option<f64>,
    /// Units over the whole load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Parts of its `ok` answers over the whole load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<AnswerParts>,
}

/// Parts of `ok` answers, such as the items of a bulk request, each with a status of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswerParts {
    /// Status 200 to 299.
    pub ok: u64,
    /// Status 429: refused because there was too much.
    pub rejected: u64,
    /// Any other status.
    pub failed: u64,
    /// `100 × (rejected + failed)` over all of them.
    pub not_ok_pct: Option<f64>,
    /// Status to count.
    pub by_status: BTreeMap<String, u64>,
}

/// Lines of a process's log that have a text in them which the target's `[log]` names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Said {
    /// When the first was read, seconds since load start; negative: before it.
    pub at_s: f64,
    /// Host.
    pub host: String,
    /// Role of the process.
    pub role: String,
    /// The text.
    pub text: String,
    /// The first of the lines.
    pub line: String,
    /// How many there were.
    pub count: u64,
    /// Whether the target calls the text alarming.
    pub alarming: bool,
}

/// The machine as a whole, mean over the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// Waiting for a disk.
    pub iowait_pct: Option<f64>,
    /// Taken by the hypervisor.
    pub steal_pct: Option<f64>,
    /// Used by others than the target and Plimsoll; null where it cannot be told which processes are the target's.
    pub strangers_cpu_pct: Option<f64>,
    /// … by each of them, the busiest first, while the machine was sampled.
    pub other_processes: Vec<ProcessShare>,
    /// Of a target that Plimsoll did not start: its processes on this machine, likewise.
    pub target_processes: Vec<ProcessShare>,
    /// Why it cannot be told which processes are the target's.
    pub not_judged: Option<String>,
    /// Used by other processes that were started and ended between two readings, percent of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_lived_cpu_pct: Option<f64>,
    /// Used by programs that are operations, percent of the machine; left out where none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_cpu_pct: Option<f64>,
    /// Used by the target while these programs were sampled, percent of the machine; left out where it is on another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cpu_pct: Option<f64>,
}

/// A trial on hosts that are modelled: `throughput` and the latencies are as measured, these are as on the machines meant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Emulated {
    /// `lab.speed`: everything, time included, ran at this speed.
    pub speed: f64,
    /// Names of the profiles, each once.
    pub profiles: Vec<String>,
    /// `throughput / speed`.
    pub throughput: Throughput,
    /// `latency_us × speed`.
    pub latency_us: Option<Quantiles>,
    /// Shortest time over which the slow cores of the hosts are true, seconds: the longest period of a CPU quota; null
    /// without slow cores.
    pub granularity_s: Option<f64>,
}

/// A host over the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Host {
    /// Name.
    pub name: String,
    /// `local`, `netns`, `ssh`; null where no lab was made.
    pub kind: Option<String>,
    /// Its profile.
    pub profile: Option<String>,
    /// What it got, and how its storage did before the load.
    pub figures: Option<HostFigures>,
    /// Mean CPU, percent of all its cores.
    pub cpu_pct: Option<f64>,
    /// Mean CPU of the target's processes on it.
    pub target_cpu_pct: Option<f64>,
    /// Mean CPU of the busiest thread of the target's processes on it, percent of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_thread_pct: Option<f64>,
    /// Time throttled by a quota.
    pub throttled_pct: Option<f64>,
    /// Runnable but not running.
    pub run_delay_pct: Option<f64>,
    /// Blocked on I/O, mean of the time; what is counted depends on the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_blocked_pct: Option<f64>,
    /// `pressure`: time in which some task of the host waited for I/O (the kernel's PSI); `delay accounting`: such waits of all
    /// threads added up, so that it may be above 100. Null where the kernel keeps neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_blocked_source: Option<String>,
    /// Highest load average over 1 minute.
    pub load1_max: Option<f64>,
    /// Highest load average over 1 minute less run delay averaged in the same way, summed over threads: the threads that ran or waited for a
    /// disk, without those that only waited for a CPU. Null where run delay is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load1_own_max: Option<f64>,
    /// … 5 minutes.
    pub load5_max: Option<f64>,
    /// … 15 minutes.
    pub load15_max: Option<f64>,
    /// Processes killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Most threads in uninterruptible sleep.
    pub io_wait_threads: Option<u64>,
    /// Largest resident memory of the target's processes.
    pub rss_max_bytes: Option<u64>,
    /// Written to disk by the host.
    pub disk_write_bytes: Option<u64>,
    /// Received and sent.
    pub net_bytes: Option<u64>,
    /// Mean power over `measured_s`.
    pub watts: Option<f64>,
    /// `profile`: between idle and load watts of its profile, by the CPU it used.
    pub watts_source: Option<String>,
    /// Programs in the trees of the target's processes on it, as the target names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<HostProgram>,
}

/// A program in the tree of a process of the target, on one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostProgram {
    /// Name of its file.
    pub name: String,
    /// Role of the process in whose tree it runs.
    pub process: String,
    /// Mean CPU of its processes, without children that ended; percent of all cores of the host.
    pub cpu_pct: Option<f64>,
    /// Largest resident memory of its processes together.
    pub rss_max_bytes: Option<u64>,
    /// Largest proportional set: of pages that several processes share, each has its part.
    pub pss_max_bytes: Option<u64>,
    /// Fewest processes of it in any second.
    pub processes_min: Option<u64>,
    /// How many there were at the end.
    pub processes_last: Option<u64>,
    /// Processes of it that ended and were replaced by one of the same name and parent.
    pub replaced: Option<u64>,
}

/// A metric that the target tells of itself, over the measured part; without load, over the whole trial. What differs only in its
/// labels is added up, and so are the hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TargetMetric {
    /// What it is: said by the target or its manifest, else by its name.
    pub kind: MetricKind,
    /// Highest sum of all hosts in one second, or of what they told last.
    pub max: Option<f64>,
    /// The hosts' means, added up.
    pub mean: Option<f64>,
    /// What the hosts told last, added up.
    pub last: Option<f64>,
    /// By how much a counter grew; null of a gauge.
    pub increase: Option<f64>,
    /// The same per second.
    pub per_s: Option<f64>,
    /// Each host that told it.
    pub hosts: Vec<HostMetric>,
}

/// A metric of the target as one host told it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostMetric {
    /// The host.
    pub name: String,
    /// Highest value.
    pub max: Option<f64>,
    /// Mean over the seconds in which it answered.
    pub mean: Option<f64>,
    /// The last value.
    pub last: Option<f64>,
    /// By how much a counter grew, also where it began again at 0; null of a gauge.
    pub increase: Option<f64>,
    /// The same per second.
    pub per_s: Option<f64>,
}

/// The generator's own health.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generator {
    /// Busiest engine thread, percent of one core, 95th percentile over the seconds.
    pub cpu_pct: Option<f64>,
    /// How late timers fired: 99th percentile of the worst second of the measured part.
    pub late_us_p99: Option<f64>,
    /// How much of `latency_us` is the generator's own lateness, percent: the largest share in p50, p90 and p99. Null where no timer starts
    /// operations.
    pub lateness_effect_pct: Option<f64>,
    /// Percentage of the load's time in which late starts arrived in bunches: at least two operations became due while the generator did not
    /// run. Null in a closed loop.
    pub bunched_pct: Option<f64>,
    /// `failed_pct` without that time: failures that follow late starts are the generator's. Null in a closed loop, or if less than half of
    /// the time is left.
    pub punctual_failed_pct: Option<f64>,
    /// `|agents × share busy − rate × latency| / in flight`, percent: Little's law.
    pub littles_law_error_pct: Option<f64>,
    /// Connects that failed.
    pub connect_failures: Option<u64>,
    /// Operations that should have started and did not.
    pub dropped: Option<u64>,
    /// Seconds of an open loop in which all agents were busy, so that no operation could start when it was due.
    pub all_busy_s: Option<f64>,
    /// Time in which a quota of this machine's (a container's) kept the generator from running, summed over CPUs, percent.
    pub throttled_pct: Option<f64>,
    /// Time in which an engine thread could run and did not, percent: the worst thread over the measured part.
    pub run_delay_pct: Option<f64>,
    /// … of it the part for which strangers, not the target, are to blame.
    pub preempted_pct: Option<f64>,
    /// Largest jump of the calendar clock against the steady one during the trial, seconds.
    pub clock_jump_s: Option<f64>,
    /// Feeds that are read ahead, all together; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedFigures>,
    /// The generators of a fleet; left out where one process made the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetFigures>,
    /// What held it back: `none`, `cpu`, `lateness`, `connections`, `disk`; or `balancer`: a host between clients and members was at
    /// its limit.
    pub limit: String,
    /// The generators of a fleet, one by one; left out where one process made the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<GeneratorFigures>,
}

/// A generator of a fleet, over the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorFigures {
    /// What it is called.
    pub name: String,
    /// Its busiest thread, percent of one core, the mean over the seconds.
    pub cpu_pct: Option<f64>,
    /// How late its timers fired: 99th percentile of its worst second; null where none did.
    pub late_us_p99: Option<f64>,
    /// Operations that ended.
    pub operations: u64,
    /// … per second.
    pub operations_per_s: Option<f64>,
    /// Operations that ended, percent of those that were due in that time; null in a closed loop.
    pub carried_pct: Option<f64>,
    /// Their mean latency, microseconds.
    pub latency_us_mean: Option<f64>,
}

/// The generators of a fleet, by how their clocks were compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FleetFigures {
    /// How many there were.
    pub generators: u32,
    /// They began within this time of each other, microseconds.
    pub began_within_us: Option<f64>,
    /// Times in the records of any of them are off by no more than this, microseconds: the largest of the load.
    pub clock_error_us: Option<f64>,
}

/// Feeds that are read ahead, over the measured part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FeedFigures {
    /// Bytes read of their files per second, packed as they are.
    pub bytes_per_s: Option<f64>,
    /// Records read per second.
    pub records_per_s: Option<f64>,
    /// Time for which their readers waited for the disk, percent, added up.
    pub read_pct: Option<f64>,
    /// Time for which agents waited for a record: percent of the agents' time; in an open loop, of the operations' latency.
    pub wait_pct: Option<f64>,
}

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
    /// Smallest and largest over the matching trials, which is no interval of a given probability; of a function of curves, its 95 % interval.
    pub range: Option<[f64; 2]>,
    /// Why a function has no value or no end of its range, in words: that curves do not cross, or a knee was not reached; or why a cost is
    /// not known. Empty otherwise.
    pub note: String,
    /// Whether the claim holds here.
    pub holds: Holds,
    /// Trials whose figures it was read on, one by one; 0 for a function of all of them. "Yes" of one trial says little: another may
    /// differ.
    pub trials: u64,
    /// Whether void trials are among those that it was read on, as the experiment asks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_void: bool,
}

/// A gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Requirement {
    /// The metric.
    pub metric: String,
    /// What was asked, in words: `below 50 ms`.
    pub asked: String,
    /// Its worst value over the matching trials.
    pub value: Option<f64>,
    /// Whether every matching trial holds. What was not measured does not hold.
    pub holds: bool,
    /// Trials whose figures it was held against, one by one; 0 for a function of all of them.
    pub trials: u64,
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
    /// Estimate of the edge, in the terms of the experiment file: the median of what the trials leave possible, or the highest that
    /// held where they never broke. At the edge itself `hold_pct` of the trials hold, so the load that is safe is the lower end of `ci95`.
    /// Null if the limits held at no value, or nothing is known.
    pub value: Option<f64>,
    /// 95 % interval of the edge: the load that is safe is the first end. An end is null where the search met none: the limits broke at
    /// the lowest value tried, or held at the highest that the generator or the search allowed.
    pub ci95: [Option<f64>; 2],
    /// Width of `ci95`, percent of its lower end. It can be above the precision that was asked for although the search is complete.
    /// Null without both ends.
    pub width_pct: Option<f64>,
    /// Percentage of trials that hold at the edge: 50, unless the experiment asks for a load that rarely breaks. Null in results of
    /// older versions, which is 50.
    pub hold_pct: Option<f64>,
    /// The limit that was hit, or what kept the search from hitting one.
    pub limited_by: String,
    /// Under which condition: `nothing lost`, `one member down`, or the name of a fault.
    pub surviving: String,
    /// Whether the search ended because more trials would not have helped: what its own trials leave possible became as narrow as was asked
    /// for. `ci95` is wider, because all trials of a search may be off together; `width_pct` is its width.
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
    /// 95 % interval of the ratio that very many such trials would give; null with too few trials.
    pub ci95: Option<[f64; 2]>,
    /// The same at the level at which the difference is tested, which is corrected for all comparisons made together (Holm), so that it is
    /// consistent with `p_adjusted`: 1 is outside of it exactly where the difference is significant. These intervals are not simultaneous.
    pub ci95_adjusted: Option<[f64; 2]>,
    /// b − a, for figures that can be 0.
    pub difference: Option<f64>,
    /// 95 % interval of the difference that very many such trials would give; null with too few trials, or where nothing spreads.
    pub difference_ci95: Option<[f64; 2]>,
    /// The same at the level at which the difference is tested; see `ci95_adjusted`.
    pub difference_ci95_adjusted: Option<[f64; 2]>,
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
    /// What of the machine the comparison is adjusted for: `steal`, `strangers`. The difference is that at the same amount of it; empty where
    /// it did not differ, or there are too few trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adjusted_for: Vec<String>,
    /// b / a without adjusting; left out where the comparison is adjusted for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_ratio: Option<f64>,
    /// The interval of `raw_ratio` at the level at which it is tested; see `ci95_adjusted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_ci95_adjusted: Option<[f64; 2]>,
    /// What of the machine differs between the sides by more than chance. The comparison is not adjusted for it, because `b` may cause it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_adjusted_for: Vec<UnadjustedCovariate>,
    /// Points of the sweep whose errors were pooled for the interval and the chance, moderated by how much they differ; left out where it is
    /// the error of this point alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_points: Option<u32>,
    /// Pairs of trials that were played beside each other; 0: they were not, and the machine's drift is in the difference.
    pub pairs: u32,
    /// Trials of `a` and of `b` that have the figure.
    pub trials: [u32; 2],
    /// Trials of `a` and of `b` that can be used and lack the figure: a service that never came back has no time until then.
    pub without: [u32; 2],
    /// Which of the two is better, if they differ.
    pub better: Option<String>,
}

/// CPU taken by others that differs between the sides of a comparison by more than chance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnadjustedCovariate {
    /// `steal` or `strangers`.
    pub name: String,
    /// How much more of it there was beside `b` than beside `a`, points of the machine's CPU in percent.
    pub difference: f64,
    /// Chance of so large a difference between the sides if none of them causes it (F).
    pub p: f64,
}
