//! Whether a result can be trusted: the verdict, and the health of who measured. It must not hold a figure of the target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a result can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Nothing speaks against it.
    #[default]
    Valid,
    /// Something may have spoiled it.
    Suspect,
    /// It must not be used.
    Void,
}

/// A verdict and its reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verdict {
    /// The verdict.
    pub is: Trust,
    /// A sentence for each rule that spoke against the result.
    pub reasons: Vec<String>,
    /// What can be done about each, in the same order.
    pub remedies: Vec<String>,
    /// The names of the rules, in the same order.
    pub rules: Vec<String>,
}

/// The generator's own health.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generator {
    /// Busiest engine thread, percent of one core, 95th percentile over the seconds.
    pub cpu_pct: Option<f64>,
    /// How late timers fired: 99th percentile of the worst second of the measured part.
    pub late_us_p99: Option<f64>,
    /// `|agents × share busy − rate × latency| / in flight`, percent: Little's law.
    pub littles_law_error_pct: Option<f64>,
    /// Connects that failed.
    pub connect_failures: Option<u64>,
    /// Operations that should have started and did not.
    pub dropped: Option<u64>,
    /// Time in which a quota of this machine's (a container's) kept the generator from running, summed over CPUs, percent.
    pub throttled_pct: Option<f64>,
    /// Time in which an engine thread could run and did not, percent: the worst thread over the measured part.
    pub run_delay_pct: Option<f64>,
    /// … of it the part for which strangers, not the target, are to blame.
    pub preempted_pct: Option<f64>,
    /// Largest jump of the calendar clock against the steady one during the trial, seconds.
    pub clock_jump_s: Option<f64>,
    /// What held it back: `none`, `cpu`, `lateness`, `connections`, `disk`.
    pub limit: String,
}
