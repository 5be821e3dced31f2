//! `analysis.json`, the public format of results. Fields are only ever added. What was not measured is null,
//! never 0. The reader accepts files that lack fields of later versions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::{HostFigures, ProcessShare};

mod conclusions;
mod consistency;
mod cost;
mod outages;
mod trust;

pub use conclusions::{
    Claim, Comparison, Crossing, Holds, Lead, Requirement, SafeLoad, Scaling, ScalingPoint, SearchStep, Usl,
};
pub use consistency::{Consistency, PooledConsistency, ReplicaTable};
pub use cost::{Cost, CostWithWarmup, PointCost};
pub use outages::{Disturbance, Fault, Outage, OutageDistribution, Spread};
pub use trust::{Generator, Trust, Verdict};

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
    /// The worst verdict among the trials that the answer uses.
    pub verdict: Verdict,
    /// Whether records of planned trials are missing: the run was interrupted, failed or still goes on.
    pub partial: Option<String>,
    /// Trials planned.
    pub planned_trials: u32,
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
    /// What the consistency checks found at each variant and point, over all repeats.
    pub consistencies: Vec<PooledConsistency>,
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
    /// Counts over the whole load.
    pub outcomes: Outcomes,
    /// `100 × (failed + timeout) / (ok + failed + timeout + wrong)`; null without operations.
    pub failed_pct: Option<f64>,
    /// Full cycles over the whole load: each operation of them was answered, be it wrong. Null where nobody counted them.
    pub cycles: Option<u64>,
    /// Wrong answers for 1,000 cycles, full or not; null without expectations, or without a cycle.
    pub wrong_per_1000_cycles: Option<f64>,
    /// Attempts in all; more than operations when calls were retried.
    pub attempts: u64,
    /// Result of an attempt (`ok`, `connection closed`, …) to count.
    pub attempt_results: BTreeMap<String, u64>,
    /// Intended start to answer, of `ok` operations that ended in the measured part, to the second.
    pub latency_us: Option<Quantiles>,
    /// Send to answer, of the same.
    pub service_us: Option<Quantiles>,
    /// Latency of operations that were not `ok`, by outcome.
    pub by_outcome: BTreeMap<String, Quantiles>,
    /// The same by operation.
    pub operations: BTreeMap<String, Operation>,
    /// Every occurrence of a fault, in time order.
    pub faults: Vec<Fault>,
    /// Outages that no fault explains, in time order.
    pub disturbances: Vec<Disturbance>,
    /// What the target's processes wrote that its `[log]` calls notable, in the order of the first time.
    pub said: Vec<Said>,
    /// What the checks found.
    pub consistency: Consistency,
    /// The machine as a whole.
    pub machine: Machine,
    /// Every host.
    pub hosts: Vec<Host>,
    /// What a lab that models other machines, or slows time, makes of the figures; null where all is real.
    pub emulated: Option<Emulated>,
    /// The generator's own health.
    pub generator: Generator,
    /// What a unit of work costs on the machines meant.
    pub cost: Cost,
}

/// Where a trial became steady.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Steady {
    /// End of the warm-up, seconds since load start.
    pub from_s: f64,
    /// How it was found: `MSER-5`, `given`, `too short to tell`.
    pub method: String,
    /// Whether the rest is steady; null if nobody looked, or could.
    pub is: Option<bool>,
    /// What is not steady, if so: `throughput`, `latency`.
    pub unsteady: Option<String>,
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
    /// 95 % interval of it from within this trial alone: what the next minute of the same trial would show. Trials differ by more.
    pub operations_per_s_ci95: Option<[f64; 2]>,
    /// How many independent observations that rests on.
    pub effective_samples: Option<f64>,
    /// Full cycles per second.
    pub cycles_per_s: Option<f64>,
    /// `ok` operations per second before the first fault, after warm-up; null without a fault.
    pub before_first_fault_per_s: Option<f64>,
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

/// Quantiles of a time, microseconds. A quantile that too few samples support is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 75 %.
    pub p75: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
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
}

/// One operation of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Operation {
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
    /// Time throttled by a quota.
    pub throttled_pct: Option<f64>,
    /// Runnable but not running.
    pub run_delay_pct: Option<f64>,
    /// Highest load average over 1 minute.
    pub load1_max: Option<f64>,
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
}
