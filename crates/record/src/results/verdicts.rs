//! Verdict on a result and on each class of its figures, and outside delay that reached the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a result can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// No rule found a problem.
    #[default]
    Valid,
    /// Something may have distorted the result.
    Suspect,
    /// The result must not be used.
    Void,
}

/// A verdict and its reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verdict {
    /// The verdict.
    pub is: Trust,
    /// One sentence for each rule that speaks against the result.
    pub reasons: Vec<String>,
    /// Remedy for each reason, in the same order.
    pub remedies: Vec<String>,
    /// Name of the rule for each reason, in the same order.
    pub rules: Vec<String>,
    /// Severity of each reason by itself, in the same order. The most severe reason comes first.
    /// Empty in records from before version 0.2.
    pub severities: Vec<Trust>,
    /// Verdict on each class of figures. Empty in records from before version 0.2.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureVerdict>,
    /// Notes on the measurement that do not speak against the figures used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether this reason is less severe than the verdict: the result is void, and this reason
    /// alone would make it only suspect.
    #[must_use]
    pub fn is_minor(&self, reason: usize) -> bool {
        self.severities.get(reason).is_some_and(|severity| *severity < self.is)
    }

    /// Returns the verdict on a class of figures, or the overall verdict if the class has none.
    #[must_use]
    pub fn of(&self, class: FigureClass) -> Trust {
        self.figures.iter().find(|one| one.figure == class).map_or(self.is, |one| one.is)
    }

    /// Whether the figures of a class must not be used, regardless of the overall verdict.
    #[must_use]
    pub fn voids(&self, class: FigureClass) -> bool {
        self.figures.iter().any(|one| one.figure == class && one.is == Trust::Void)
    }

    /// Returns the number of reasons that are as severe as the verdict.
    #[must_use]
    pub fn decisive(&self) -> usize {
        (0..self.reasons.len()).filter(|reason| !self.is_minor(*reason)).count()
    }
}

/// A class of figures with a separate verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureClass {
    /// Operations by outcome, and results of the consistency checks.
    #[default]
    Counts,
    /// Rates of operations, cycles and units.
    Throughput,
    /// Quantiles of latency and service time below p75.
    MedianLatency,
    /// Quantiles from p75 to below p99, and the mean.
    UpperLatency,
    /// Quantiles from p99 to below p99.9.
    TailLatency,
    /// Quantiles from p99.9, and the maximum.
    ExtremeLatency,
    /// Outages, recoveries and disturbances.
    Outages,
    /// CPU, memory, disks and networks of hosts, and the cost.
    HostFigures,
}

impl FigureClass {
    /// All classes, in the order of the results.
    pub const ALL: &[Self] = &[
        Self::Counts,
        Self::Throughput,
        Self::MedianLatency,
        Self::UpperLatency,
        Self::TailLatency,
        Self::ExtremeLatency,
        Self::Outages,
        Self::HostFigures,
    ];

    /// Returns the name for readers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Throughput => "throughput",
            Self::MedianLatency => "median latency",
            Self::UpperLatency => "upper latency (p75 to p95)",
            Self::TailLatency => "tail latency (p99)",
            Self::ExtremeLatency => "extreme latency (p99.9, max)",
            Self::Outages => "outages",
            Self::HostFigures => "host figures",
        }
    }
}

/// The verdict on one class of figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FigureVerdict {
    /// The class.
    pub figure: FigureClass,
    /// Whether its figures can be used.
    pub is: Trust,
    /// One sentence for each rule that speaks against the figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// Delay by other processes and the hypervisor that reached the load's operations, and its largest
/// possible effect on the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DelayEffect {
    /// Time in which other processes or the hypervisor kept the generator's threads from running,
    /// percent of the measured part, summed over threads.
    pub generator_pct: Option<f64>,
    /// Time in which they kept the target's threads from running, likewise. Null if it was not
    /// measured.
    pub target_pct: Option<f64>,
    /// Mean delay of an operation from these causes, microseconds.
    pub operation_us: f64,
    /// Largest possible decrease of throughput, percent.
    pub throughput_pct: f64,
    /// Largest possible increase of the median latency, percent. This and the next fields are null
    /// if the quantile is.
    pub p50_pct: Option<f64>,
    /// Largest possible increase of p90, percent.
    pub p90_pct: Option<f64>,
    /// Largest possible increase of p95, percent.
    pub p95_pct: Option<f64>,
    /// Largest possible increase of p99, percent.
    pub p99_pct: Option<f64>,
    /// Largest possible increase of p99.9, percent.
    pub p999_pct: Option<f64>,
}
