//! `analysis.json`, the public format of results. Fields are only ever added. A value that was not
//! measured is null, never 0. The reader accepts files that lack fields of later versions.

mod arrival;
mod comparisons;
mod consistency;
mod costs;
mod outages;
mod quantiles;
mod scaling;
mod steadiness;
mod verdicts;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::{FailureExample, HostFigures, ProcessShare, StepResult, SweepStop};
use crate::rows::MetricKind;

pub use arrival::Arrival;
pub use comparisons::{Comparison, UnadjustedCovariate};
pub use consistency::{
    CheckBesideLoad, Consistency, ConsistencyProof, LoadStop, PooledConsistency, ProvingOperation, ReplicaTable,
};
pub use costs::{Cost, CostWithWarmup, DemandedHosts, PointCost};
pub use outages::{
    Disturbance, DisturbanceKind, Fault, MemberFigures, MemberOutage, OperatorAction, Outage, OutageDistribution,
    Spread,
};
pub use quantiles::{PERCENTILE, QuantileIntervals, QuantileMoments, Quantiles};
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
    /// Answer to the question in one or two sentences, with numbers.
    pub answer: String,
    /// Further findings, one sentence each, with numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The worst verdict among the trials that the answer uses.
    pub verdict: Verdict,
    /// Reason why records of planned trials are missing: the run was interrupted, failed or is
    /// still going on. Null if all are there.
    pub partial: Option<String>,
    /// Trials planned.
    pub planned_trials: u32,
    /// Sweeps that stopped early, and the trials that were skipped for that reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep_stops: Vec<SweepStop>,
    /// All trials with records, in the order of the plan.
    pub trials: Vec<Trial>,
    /// Claims of the source, compared with this run.
    pub claims: Vec<Claim>,
    /// The gates.
    pub requirements: Vec<Requirement>,
    /// The Plimsoll line, if the experiment searched for it. With several conditions, the lowest
    /// line of the first variant.
    pub safe_load: Option<SafeLoad>,
    /// The Plimsoll line of each variant under each condition.
    pub safe_loads: Vec<SafeLoad>,
    /// Scaling over a swept load, one entry per variant.
    pub scaling: Vec<Scaling>,
    /// Points at which one variant overtakes another.
    pub crossings: Vec<Crossing>,
    /// Comparison of each variant with the first variant, at each point.
    pub comparisons: Vec<Comparison>,
    /// Outages of each fault, over all its occurrences.
    pub outages: Vec<OutageDistribution>,
    /// Cost of a unit of work for each variant at each point. Empty if no trial has a cost.
    pub costs: Vec<PointCost>,
    /// Number of hosts that each variant needs to carry `[demand]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub demanded_hosts: Vec<DemandedHosts>,
    /// Results of the consistency checks at each variant and point, over all repeats.
    pub consistencies: Vec<PooledConsistency>,
}

/// Start of a target that several trials share (`[target] start = "once"`).
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
    /// Identifier, such as `001`.
    pub id: String,
    /// Variant, if any.
    pub variant: Option<String>,
    /// Values of the swept paths.
    pub point: BTreeMap<String, Value>,
    /// In a search: the condition under which the limits had to hold. Null for the faults as the
    /// file has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surviving: Option<String>,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Start of the target that this trial shares with earlier trials. Left out if the target was
    /// started for this trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_start: Option<SharedStart>,
    /// Whether this trial can be trusted.
    pub verdict: Verdict,
    /// Ending: `done`, `interrupted` or `failed`. Null if the records are cut off.
    pub ended: Option<crate::events::Ending>,
    /// Early end of the load at a violation. Left out if the load was not stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<LoadStop>,
    /// Part of the load that the figures below cover, seconds since load start: `[from, to]`, after
    /// the warm-up and before the drain.
    pub measured_s: Option<[f64; 2]>,
    /// End of the warm-up and how it was found. Null without load.
    pub steady: Option<Steady>,
    /// Rates over `measured_s`.
    pub throughput: Throughput,
    /// The same figures with the warm-up included, for comparison.
    pub with_warmup: WithWarmup,
    /// Units of work that `ok` operations did over the whole load. Left out if no operation counts
    /// units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Parts of `ok` answers over the whole load. Left out if no operation counts parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<AnswerParts>,
    /// Operations by outcome over the whole load.
    pub outcomes: Outcomes,
    /// `100 × (failed + timeout + unfinished) / (ok + failed + timeout + wrong + unfinished)`, over
    /// all operations that were due and started. Null without operations.
    pub failed_pct: Option<f64>,
    /// Percentage of operations that timed out.
    pub timeout_pct: Option<f64>,
    /// Percentage of operations with a wrong answer.
    pub wrong_pct: Option<f64>,
    /// Full cycles over the whole load. A cycle is full if each of its operations was answered,
    /// even wrongly. Null if cycles were not counted.
    pub cycles: Option<u64>,
    /// Agents that started to work and finished no full cycle in the whole load, drain included.
    /// Null if that was not recorded.
    pub agents_without_cycle: Option<u64>,
    /// Agents that finished no full cycle in `measured_s` and the drain. Null if that was not
    /// recorded.
    pub agents_without_measured_cycle: Option<u64>,
    /// Wrong answers per 1,000 cycles, full or not. Null without expectations or without a cycle.
    pub wrong_per_1000_cycles: Option<f64>,
    /// Number of attempts. Greater than the number of operations if operations were retried.
    pub attempts: u64,
    /// Number of attempts by result (`ok`, `connection closed`, …).
    pub attempt_results: BTreeMap<String, u64>,
    /// One failure of each kind, in the order in which the kinds first occurred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailureExample>,
    /// Time from intended start to answer, for `ok` operations that ended in the measured part (cut
    /// at whole seconds).
    pub latency_us: Option<Quantiles>,
    /// 95 % intervals of this trial's long-run quantiles, from ten batches of the trial. Other
    /// trials differ by more. Null if less than 10 s were measured, or if a batch has too few
    /// operations for its median.
    pub latency_intervals_us: Option<QuantileIntervals>,
    /// Number of separate moments at which operations took at least as long as each quantile of
    /// `latency_us`. Null without latencies.
    pub latency_moments: Option<QuantileMoments>,
    /// Latency of every operation of the measured part, regardless of its outcome. An operation
    /// that failed, timed out or was never answered counts as slower than all others. A quantile
    /// that falls among those is null, and so are mean and maximum. Null if all operations were
    /// answered.
    pub latency_of_all_us: Option<Quantiles>,
    /// `latency_us` without the generator's own delay in starting operations. Null if no timer
    /// starts operations, or if an older version measured.
    pub punctual_latency_us: Option<Quantiles>,
    /// Time from send to answer, for the same operations as `latency_us`.
    pub service_us: Option<Quantiles>,
    /// Times of answers while they arrive.
    #[serde(flatten)]
    pub arrival: Arrival,
    /// Latency of operations that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
    /// Figures of each operation, by its name.
    pub operations: BTreeMap<String, Operation>,
    /// Comparison of the answers with the expectations of each operation that has any, by the
    /// operation's name. Left out if there were none, or if an older version measured.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, OperationChecks>,
    /// Figures of each agent group, by its name. Empty if the load has no groups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupFigures>,
    /// All occurrences of faults, in time order.
    pub faults: Vec<Fault>,
    /// All occurrences of operator actions, in time order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<OperatorAction>,
    /// The steps of an exercise, in order, up to the last one that was played.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlayedStep>,
    /// Outages and slow times that no fault explains, in time order.
    pub disturbances: Vec<Disturbance>,
    /// Each member that clients used, ordered by name. Empty if all clients used the same address.
    pub members: Vec<MemberFigures>,
    /// Notable log lines of the target's processes, as its `[log]` defines them, in the order in
    /// which they first occurred.
    pub said: Vec<Said>,
    /// Results of the consistency checks.
    pub consistency: Consistency,
    /// The machine as a whole.
    pub machine: Machine,
    /// All hosts.
    pub hosts: Vec<Host>,
    /// The target's own metrics that its `[metrics]` keeps, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, TargetMetric>,
    /// Figures converted to the modelled machines, if a lab models other machines or slows time.
    /// Null otherwise.
    pub emulated: Option<Emulated>,
    /// Health of the load generator.
    pub generator: Generator,
    /// Delay by other processes and the hypervisor that reached the load's operations. Left out if
    /// it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayEffect>,
    /// Cost of a unit of work on the modelled machines.
    pub cost: Cost,
}

/// A step of an exercise, as played.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlayedStep {
    /// Name in the experiment.
    pub name: String,
    /// Start of the step, seconds since load start.
    pub at_s: f64,
    /// Result, audits included.
    pub result: StepResult,
    /// 1 if the result is anything but `ok`, else 0.
    pub failed: u64,
    /// Seconds from the start of the step until its condition held. Null if the condition did not
    /// hold.
    pub time_s: Option<f64>,
    /// Seconds from the start of the step until everything was done and only the condition was
    /// open. Null if that point was not reached.
    pub done_s: Option<f64>,
    /// End of the step, seconds since load start. Null if the step was cut off.
    pub ended_s: Option<f64>,
    /// Reason why the result is not `ok`.
    pub why: Option<String>,
    /// The audits that followed the step, each over all members.
    pub audits: Vec<StepAudit>,
    /// Time at which a fresh start of the target after the step was complete, seconds since load
    /// start. Null if none was needed.
    pub rebuilt_s: Option<f64>,
}

/// An audit after a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepAudit {
    /// Name in `target.toml`.
    pub name: String,
    /// Number of members that were audited.
    pub members: u64,
    /// Number of members that did not pass.
    pub failed: u64,
    /// Reason of each member that did not pass: `n2: two members lead`.
    pub reasons: Vec<String>,
}

impl Trial {
    /// Whether the trial's figures count. Those of a void trial do not.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.verdict.is != Trust::Void
    }

    /// Makes the figures count even if the trial is void: changes the verdict from void to suspect.
    /// Returns whether the trial was void.
    pub fn accept(&mut self) -> bool {
        let was_void = !self.counts();
        if was_void {
            self.verdict.is = Trust::Suspect;
            self.verdict.figures.iter_mut().for_each(|one| one.is = one.is.min(Trust::Suspect));
        }
        was_void
    }
}

/// Returns the trials of a run whose figures count.
///
/// If no trial counts, returns all of them, so that the measured figures can be shown. The verdict
/// says that nothing follows from them. Claims, requirements and comparisons do not use them.
pub fn counting<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a Trial> {
    let trials: Vec<&Trial> = trials.into_iter().collect();
    let none = !trials.iter().any(|trial| trial.counts());
    trials.into_iter().filter(|trial| none || trial.counts()).collect()
}

/// Figures over the whole load, warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WithWarmup {
    /// `ok` operations per second, from load start to the last new operation.
    pub operations_per_s: Option<f64>,
    /// Full cycles per second, over the same time.
    pub cycles_per_s: Option<f64>,
    /// Latency of all `ok` operations.
    pub latency_us: Option<Quantiles>,
    /// Service time of all `ok` operations.
    pub service_us: Option<Quantiles>,
}

/// Rates of operations, cycles, units and bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Throughput {
    /// `ok` operations per second.
    pub operations_per_s: Option<f64>,
    /// 95 % interval of this trial's long-run rate, from ten batches of `measured_s`. The rate of a
    /// second stretch of the same length differs by more: by up to √2 times the width. Another
    /// trial differs by still more.
    pub operations_per_s_ci95: Option<[f64; 2]>,
    /// Reason why the interval is null although there is a rate: `less than 10 s were measured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_ci95: Option<String>,
    /// Number of independent bins of 100 ms that would determine the mean rate equally well.
    pub effective_samples: Option<f64>,
    /// Full cycles per second.
    pub cycles_per_s: Option<f64>,
    /// `ok` operations per second after the warm-up and before the first fault. Null without a
    /// fault, or if that time is shorter than half a second.
    pub before_first_fault_per_s: Option<f64>,
    /// Units of work per second, such as documents. Left out if no operation counts units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_s: Option<f64>,
    /// Median of the units of work per second, over the whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_units_per_s: Option<f64>,
    /// Bytes of answers per second. Headers are included; TLS data counts decrypted.
    pub received_bytes_per_s: Option<f64>,
}

impl Throughput {
    /// Returns the work per second, the figure by which loads and variants are compared. The work
    /// is the median of the units per second if operations count units, and `ok` operations
    /// otherwise.
    #[must_use]
    pub fn work_per_s(&self) -> Option<f64> {
        self.median_units_per_s.or(self.operations_per_s)
    }
}

/// Operations by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Outcomes {
    /// Operations that were answered as expected.
    pub ok: u64,
    /// Operations that ended with a definite error.
    pub failed: u64,
    /// Operations without an answer in time.
    pub timeout: u64,
    /// Operations whose answer contradicts an expectation or an earlier operation of the client.
    pub wrong: u64,
    /// Operations still open when the drain ended.
    pub unfinished: u64,
}

/// Number of separate moments from which a quantile without an interval is reliable.
pub const SURE_MOMENTS: u64 = 10;

impl Trial {
    /// Returns the number of moments behind a quantile of `latency_us` if there are too few for a
    /// reliable quantile. `quantile` is a name such as `p99`.
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

/// A group of the load's agents, over all its operations. The trial's `operations` has each
/// operation by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GroupFigures {
    /// Number of agents in the group.
    pub agents: u32,
    /// Requested operations per second. Null in a closed loop, or if the rate changes by plan or
    /// starts sessions.
    pub offered_per_s: Option<f64>,
    /// `ok` operations per second over the measured part.
    pub throughput_per_s: Option<f64>,
    /// Full cycles over the whole load. Null if cycles were not counted.
    pub cycles: Option<u64>,
    /// Agents that started to work and finished no full cycle. Null if that was not recorded.
    pub agents_without_cycle: Option<u64>,
    /// Operations by outcome over the whole load.
    pub outcomes: Outcomes,
    /// Percentage of the group's operations that failed, timed out or stayed unfinished.
    pub failed_pct: Option<f64>,
    /// Percentage of the group's operations that timed out.
    pub timeout_pct: Option<f64>,
    /// Percentage of the group's operations with a wrong answer.
    pub wrong_pct: Option<f64>,
    /// Number of attempts.
    pub attempts: u64,
    /// Time from intended start to answer, for `ok` operations that ended in the measured part.
    pub latency_us: Option<Quantiles>,
    /// Time from send to answer, for the same operations.
    pub service_us: Option<Quantiles>,
    /// Times of answers while they arrive.
    #[serde(flatten)]
    pub arrival: Arrival,
    /// Latency of operations that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
}

/// One operation of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Operation {
    /// The group that the operation belongs to. Left out if the load has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `ok` operations per second over the measured part.
    pub throughput_per_s: Option<f64>,
    /// Counts by outcome over the whole load.
    pub outcomes: Outcomes,
    /// Number of attempts.
    pub attempts: u64,
    /// Time from intended start to answer, for `ok` operations that ended in the measured part.
    pub latency_us: Option<Quantiles>,
    /// Time from send to answer, for the same operations.
    pub service_us: Option<Quantiles>,
    /// Times of answers while they arrive.
    #[serde(flatten)]
    pub arrival: Arrival,
    /// Latency of operations that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
    /// Units of work per second over the measured part. This and the next fields are left out if
    /// the operation counts no units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_s: Option<f64>,
    /// Median of the units of work per second, over the whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_units_per_s: Option<f64>,
    /// Units of work over the whole load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Parts of the operation's `ok` answers over the whole load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<AnswerParts>,
}

/// An operation's answers, compared with its expectations. Covers the same seconds as `latency_us`.
/// Each expectation is added under its field: `body`, `header.location`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperationChecks {
    /// Answers that were compared with the expectations. The answer to each attempt counts.
    pub answers: u64,
    /// Answers that contradict at least one expectation.
    pub failed: u64,
    /// `100 × failed / answers`. Null without answers.
    pub failed_pct: Option<f64>,
    /// Each expectation, by the field of the answer.
    #[serde(flatten)]
    pub expectations: BTreeMap<String, FieldCheck>,
}

/// An expectation of an operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FieldCheck {
    /// Answers that contradict this expectation.
    pub failed: u64,
    /// `100 × failed`, divided by the operation's compared answers. Null without answers.
    pub failed_pct: Option<f64>,
}

/// Parts of `ok` answers, such as the items of a bulk request. Each part has its own status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswerParts {
    /// Parts with status 200 to 299.
    pub ok: u64,
    /// Parts with status 429: refused because there were too many.
    pub rejected: u64,
    /// Parts with any other status.
    pub failed: u64,
    /// `100 × (rejected + failed)`, divided by the number of parts.
    pub not_ok_pct: Option<f64>,
    /// Number of parts by status.
    pub by_status: BTreeMap<String, u64>,
}

/// Lines of a process's log that contain a text from the target's `[log]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Said {
    /// Time at which the first line was read, seconds since load start. Negative before load start.
    pub at_s: f64,
    /// Name of the host.
    pub host: String,
    /// Role of the process.
    pub role: String,
    /// The text from `[log]`.
    pub text: String,
    /// The first of the lines.
    pub line: String,
    /// Number of lines.
    pub count: u64,
    /// Whether the target calls the text alarming.
    pub alarming: bool,
}

/// The machine as a whole, mean over the load, percent of all its CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// CPU time idle while a task waited for a disk.
    pub iowait_pct: Option<f64>,
    /// CPU time taken by the hypervisor.
    pub steal_pct: Option<f64>,
    /// CPU time used by processes that are neither the target nor Plimsoll. Null if the target's
    /// processes cannot be identified.
    pub strangers_cpu_pct: Option<f64>,
    /// CPU time of each of these processes while the machine was sampled, the busiest first.
    pub other_processes: Vec<ProcessShare>,
    /// CPU time of each of the target's processes on this machine, likewise, if Plimsoll did not
    /// start the target.
    pub target_processes: Vec<ProcessShare>,
    /// Reason why the target's processes cannot be identified.
    pub not_judged: Option<String>,
    /// CPU time of other processes that started and ended between two readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_lived_cpu_pct: Option<f64>,
    /// CPU time of programs that run as operations. Left out if no operation is a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_cpu_pct: Option<f64>,
    /// CPU time of the target while these programs were sampled. Left out if the target is on
    /// another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cpu_pct: Option<f64>,
}

/// Figures of a trial as on the modelled machines. `throughput` and the latencies of the trial
/// itself are as measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Emulated {
    /// `lab.speed`: the speed at which everything ran, time included.
    pub speed: f64,
    /// Names of the profiles, without duplicates.
    pub profiles: Vec<String>,
    /// `throughput / speed`.
    pub throughput: Throughput,
    /// `latency_us × speed`.
    pub latency_us: Option<Quantiles>,
    /// Shortest time over which the slowed cores of the hosts have the intended speed, seconds: the
    /// longest period of a CPU quota. Null without slowed cores.
    pub granularity_s: Option<f64>,
}

/// A host over the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Host {
    /// Name.
    pub name: String,
    /// `local`, `netns` or `ssh`. Null without a lab.
    pub kind: Option<String>,
    /// Name of the profile, if any.
    pub profile: Option<String>,
    /// Resources of the host, and the speed of its storage before the load.
    pub figures: Option<HostFigures>,
    /// Mean CPU, percent of all cores of the host.
    pub cpu_pct: Option<f64>,
    /// Mean CPU of the target's processes on the host.
    pub target_cpu_pct: Option<f64>,
    /// Mean CPU of the busiest thread of the target's processes on the host, percent of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_thread_pct: Option<f64>,
    /// Time throttled by a CPU quota.
    pub throttled_pct: Option<f64>,
    /// Time in which threads were runnable but did not run.
    pub run_delay_pct: Option<f64>,
    /// Mean time blocked on I/O. `io_blocked_source` says how it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_blocked_pct: Option<f64>,
    /// Source of `io_blocked_pct`. `pressure`: time in which some task of the host waited for I/O
    /// (the kernel's PSI). `delay accounting`: the waits of all threads added up, so that the sum
    /// can exceed 100. Null if the kernel provides neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_blocked_source: Option<String>,
    /// Highest load average over 1 minute.
    pub load1_max: Option<f64>,
    /// Highest load average over 1 minute without run delay, which is averaged in the same way and
    /// summed over threads. Counts the threads that ran or waited for a disk, not those that only
    /// waited for a CPU. Null if run delay is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load1_own_max: Option<f64>,
    /// Highest load average over 5 minutes.
    pub load5_max: Option<f64>,
    /// Highest load average over 15 minutes.
    pub load15_max: Option<f64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Highest number of threads in uninterruptible sleep.
    pub io_wait_threads: Option<u64>,
    /// Largest resident memory of the target's processes.
    pub rss_max_bytes: Option<u64>,
    /// Bytes that the host wrote to disk.
    pub disk_write_bytes: Option<u64>,
    /// Bytes received and sent.
    pub net_bytes: Option<u64>,
    /// Mean power over `measured_s`.
    pub watts: Option<f64>,
    /// Source of `watts`. `profile`: a value between the idle and load watts of the host's profile,
    /// by CPU use.
    pub watts_source: Option<String>,
    /// Programs that the target's manifest names, in the process trees of the target on this host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<HostProgram>,
}

/// A program in the tree of a process of the target, on one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostProgram {
    /// Name of the program's file.
    pub name: String,
    /// Role of the process in whose tree the program runs.
    pub process: String,
    /// Mean CPU of the program's processes, percent of all cores of the host. Excludes children
    /// that ended.
    pub cpu_pct: Option<f64>,
    /// Largest resident memory of the program's processes together.
    pub rss_max_bytes: Option<u64>,
    /// Largest proportional set size: a page shared by n processes counts 1/n for each.
    pub pss_max_bytes: Option<u64>,
    /// Lowest number of the program's processes in any second.
    pub processes_min: Option<u64>,
    /// Number of the program's processes at the end.
    pub processes_last: Option<u64>,
    /// Number of the program's processes that ended and were replaced by a process of the same name
    /// and parent.
    pub replaced: Option<u64>,
}

/// A metric that the target reports, over the measured part, or over the whole trial if there is no
/// load. Series that differ only in their labels are added up, and so are the hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TargetMetric {
    /// Kind, as the target or its manifest declares it, otherwise derived from the metric's name.
    pub kind: MetricKind,
    /// Highest sum over all hosts in one second, or `last` if that is higher.
    pub max: Option<f64>,
    /// Sum of the hosts' means.
    pub mean: Option<f64>,
    /// Sum of the hosts' last values.
    pub last: Option<f64>,
    /// Increase of a counter. Null for a gauge.
    pub increase: Option<f64>,
    /// Increase of a counter per second.
    pub per_s: Option<f64>,
    /// Figures of each host that reported the metric.
    pub hosts: Vec<HostMetric>,
}

/// A metric of the target on one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostMetric {
    /// Name of the host.
    pub name: String,
    /// Highest value.
    pub max: Option<f64>,
    /// Mean over the seconds in which the host reported the metric.
    pub mean: Option<f64>,
    /// Last value.
    pub last: Option<f64>,
    /// Increase of a counter, restarts at 0 included. Null for a gauge.
    pub increase: Option<f64>,
    /// Increase of a counter per second.
    pub per_s: Option<f64>,
}

/// Health of the load generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generator {
    /// CPU time of the busiest engine thread, percent of one core: 95th percentile over the
    /// seconds.
    pub cpu_pct: Option<f64>,
    /// Delay of timers, microseconds: 99th percentile of the worst second of the measured part.
    pub late_us_p99: Option<f64>,
    /// Share of `latency_us` that is the generator's own delay, percent: the largest share in p50,
    /// p90 and p99. Null if no timer starts operations.
    pub lateness_effect_pct: Option<f64>,
    /// Percentage of the load's time in which late starts came in bunches: at least two operations
    /// became due while the generator did not run. Null in a closed loop.
    pub bunched_pct: Option<f64>,
    /// `failed_pct` without the time of `bunched_pct`, because the generator causes failures that
    /// follow late starts. Null in a closed loop, or if less than half of the time remains.
    pub punctual_failed_pct: Option<f64>,
    /// Error of Little's law, percent: `|agents × share busy − rate × latency| / in flight`.
    pub littles_law_error_pct: Option<f64>,
    /// Number of connects that failed.
    pub connect_failures: Option<u64>,
    /// Operations that were due and were not started.
    pub dropped: Option<u64>,
    /// Seconds of an open loop in which all agents were busy, so that no operation could start when
    /// due.
    pub all_busy_s: Option<f64>,
    /// Time in which a CPU quota of this machine (a container's) kept the generator from running,
    /// percent, summed over CPUs.
    pub throttled_pct: Option<f64>,
    /// Time in which an engine thread was runnable and did not run, percent: the worst thread over
    /// the measured part.
    pub run_delay_pct: Option<f64>,
    /// The part of `run_delay_pct` that other processes caused, not the target.
    pub preempted_pct: Option<f64>,
    /// Largest jump of the calendar clock against the monotonic clock during the trial, seconds.
    pub clock_jump_s: Option<f64>,
    /// Feeds that are read ahead, all together. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedFigures>,
    /// Clocks of a fleet's generators. Left out if one process made the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetFigures>,
    /// Resource that limited the generator: `none`, `cpu`, `lateness`, `connections`, `disk` or
    /// `balancer`. `balancer`: a host between clients and members was at its limit.
    pub limit: String,
    /// Each generator of a fleet. Left out if one process made the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<GeneratorFigures>,
}

/// A generator of a fleet, over the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorFigures {
    /// Name of the generator.
    pub name: String,
    /// CPU time of the busiest thread, percent of one core: mean over the seconds.
    pub cpu_pct: Option<f64>,
    /// Delay of timers, microseconds: 99th percentile of the worst second. Null if no timer fired.
    pub late_us_p99: Option<f64>,
    /// Number of operations that ended.
    pub operations: u64,
    /// Operations that ended per second.
    pub operations_per_s: Option<f64>,
    /// Operations that ended, percent of the operations that were due in that time. Null in a
    /// closed loop.
    pub carried_pct: Option<f64>,
    /// Mean latency of these operations, microseconds.
    pub latency_us_mean: Option<f64>,
}

/// Start and clock differences of a fleet's generators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FleetFigures {
    /// Number of generators.
    pub generators: u32,
    /// Longest time between the starts of two generators, microseconds.
    pub began_within_us: Option<f64>,
    /// Upper bound on the error of times in any generator's records, microseconds: the largest of
    /// the load.
    pub clock_error_us: Option<f64>,
}

/// Feeds that are read ahead, over the measured part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FeedFigures {
    /// Bytes read per second from the feeds' files, counted as stored (compressed).
    pub bytes_per_s: Option<f64>,
    /// Records read per second.
    pub records_per_s: Option<f64>,
    /// Time for which the feeds' readers waited for the disk, percent, summed over readers.
    pub read_pct: Option<f64>,
    /// Time for which agents waited for a record, percent of the agents' time. In an open loop:
    /// percent of the operations' latency.
    pub wait_pct: Option<f64>,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Holds {
    /// The claim holds in every matching trial.
    #[serde(rename = "yes")]
    Yes,
    /// The claim does not hold.
    #[serde(rename = "no")]
    No,
    /// The trials disagree or cannot tell.
    #[serde(rename = "not shown")]
    NotShown,
    /// This run does not measure the claim.
    #[default]
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// A claim of the source, compared with this run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Claim {
    /// The claim in words.
    pub says: String,
    /// Place in the source.
    pub source: String,
    /// Path of the metric.
    pub metric: String,
    /// Value in this run: the median over the matching trials. For a function of curves: the value
    /// of the function.
    pub value: Option<f64>,
    /// Smallest and largest value over the matching trials. This range has no defined confidence
    /// level. For a function of curves: its 95 % interval.
    pub range: Option<[f64; 2]>,
    /// Reason why a function has no value or an end of its range is missing (curves do not cross, a
    /// knee is not reached), or why a cost is unknown. Empty otherwise.
    pub note: String,
    /// Whether the claim holds in this run.
    pub holds: Holds,
    /// Number of trials that were read one by one; 0 for a function of all trials. A "yes" from one
    /// trial says little, because another trial can differ.
    pub trials: u64,
    /// Whether void trials were used, as the experiment asks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_void: bool,
}

/// A requirement (gate) and whether it holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Requirement {
    /// Path of the metric.
    pub metric: String,
    /// Requirement in words: `below 50 ms`.
    pub asked: String,
    /// Worst value over the matching trials.
    pub value: Option<f64>,
    /// Whether the requirement holds in every matching trial. A metric that was not measured does
    /// not hold.
    pub holds: bool,
    /// Number of trials that were checked one by one; 0 for a function of all trials.
    pub trials: u64,
    /// Reason why the metric could not be measured, if known. Null if it was measured.
    pub unmeasured: Option<String>,
}

/// The Plimsoll line of one variant under one condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SafeLoad {
    /// Variant, if any.
    pub variant: Option<String>,
    /// Path of the value that the search raised.
    pub over: String,
    /// Estimate of the edge, in the terms of the experiment file: the median of the values that the
    /// trials leave possible, or the highest value that held if the limits never broke. At the
    /// edge, `hold_pct` of the trials hold, so the safe load is the lower end of `ci95`. Null if
    /// the limits held at no value, or if nothing is known.
    pub value: Option<f64>,
    /// 95 % interval of the edge. The lower end is the safe load. An end is null if the search did
    /// not reach it: the limits broke at the lowest value tried, or held at the highest value that
    /// the generator or the search allowed.
    pub ci95: [Option<f64>; 2],
    /// Width of `ci95`, percent of its lower end. The width can exceed the requested precision
    /// although the search is complete. Null without both ends.
    pub width_pct: Option<f64>,
    /// Percentage of trials that hold at the edge: 50, unless the experiment asks for a load that
    /// rarely breaks. Null in results of older versions, which means 50.
    pub hold_pct: Option<f64>,
    /// The limit that was reached, or the reason why the search reached none.
    pub limited_by: String,
    /// Condition: `nothing lost`, `one member down`, or the name of a fault.
    pub surviving: String,
    /// Whether the search ended because more trials would not have helped: the values that its own
    /// trials leave possible became as narrow as requested. `ci95` is wider, because all trials of
    /// a search can share an error; `width_pct` is its width.
    pub complete: bool,
    /// The trials of the search, in order.
    pub steps: Vec<SearchStep>,
}

/// A trial of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchStep {
    /// Id of the trial.
    pub trial: String,
    /// Value that was tried.
    pub value: f64,
    /// Whether the limits held. Null if the trial is void or unfinished and so says nothing.
    pub held: Option<bool>,
    /// Limits that did not hold, each with its figure; or the reason why the trial says nothing.
    pub broke: Vec<String>,
    /// Measured value of each limit's metric, by metric.
    pub figures: BTreeMap<String, f64>,
}
