//! The verdict on a result and on each class of its figures, and the delay that reached the load from outside of it.

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
    /// What each makes of the result by itself, in the same order: what is worse comes first. Empty in records of before 0.2.
    pub severities: Vec<Trust>,
    /// Each class of figures and whether it can be used. Empty in records of before 0.2.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureVerdict>,
    /// Sentences about the measurement that do not speak against the figures used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether the result is void, and this reason alone would only make it suspect.
    #[must_use]
    pub fn is_minor(&self, reason: usize) -> bool {
        self.severities.get(reason).is_some_and(|severity| *severity < self.is)
    }

    /// The verdict on a class of figures; that on the result as a whole where there is none.
    #[must_use]
    pub fn of(&self, class: FigureClass) -> Trust {
        self.figures.iter().find(|one| one.figure == class).map_or(self.is, |one| one.is)
    }

    /// Whether figures of a class must not be used, whatever the verdict on the result as a whole.
    #[must_use]
    pub fn voids(&self, class: FigureClass) -> bool {
        self.figures.iter().any(|one| one.figure == class && one.is == Trust::Void)
    }

    /// How many reasons make it what it is.
    #[must_use]
    pub fn decisive(&self) -> usize {
        (0..self.reasons.len()).filter(|reason| !self.is_minor(*reason)).count()
    }
}

/// A class of figures that have a verdict of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureClass {
    /// Operations by outcome, and the consistency checks.
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
    /// Quantiles from p99.9 on, and the maximum.
    ExtremeLatency,
    /// Outages, recoveries and disturbances.
    Outages,
    /// CPU, memory, disks and networks of hosts, and the cost.
    HostFigures,
}

impl FigureClass {
    /// Every class, in the order of the results.
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

    /// Name for readers.
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
    /// A sentence for each rule that spoke against them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// Delay by other processes and the hypervisor that reached the load's operations, and how far it can have moved their figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DelayEffect {
    /// Time for which others kept the generator's threads from running, percent of the measured part, summed over threads.
    pub generator_pct: Option<f64>,
    /// Time for which others kept the target's threads from running, likewise; null where it was not measured.
    pub target_pct: Option<f64>,
    /// Mean delay of an operation by these, microseconds.
    pub operation_us: f64,
    /// How far throughput can have fallen, percent.
    pub throughput_pct: f64,
    /// How far the median can have risen, percent of it; null without the quantile, as are the next ones.
    pub p50_pct: Option<f64>,
    /// How far p90 can have risen.
    pub p90_pct: Option<f64>,
    /// How far p95 can have risen.
    pub p95_pct: Option<f64>,
    /// How far p99 can have risen.
    pub p99_pct: Option<f64>,
    /// How far p99.9 can have risen.
    pub p999_pct: Option<f64>,
}
