//! Results of `plimsoll selfcheck`: measurements of this machine, compared with truths known
//! beforehand. A public format: fields are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::Trust;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Results of a self-check: all truths and how well Plimsoll measured them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SelfCheck {
    /// Version of this format: 1.
    pub format: u32,
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// The machine in one line: processors and kernel.
    pub machine: String,
    /// Start, Unix time in seconds.
    pub unix_s: f64,
    /// Duration, seconds.
    pub took_s: f64,
    /// Seed that determines the planted faults and their durations.
    pub seed: u64,
    /// Number of times that each part was played.
    pub rounds: u32,
    /// All truths, in the order of the parts.
    pub truths: Vec<HeldTruth>,
    /// Smallest differences that five repeats can show on this machine.
    pub smallest: Vec<SmallestDifference>,
    /// Folders of the runs, relative to the folder of the page.
    pub runs: Vec<String>,
}

/// A truth known beforehand, and the measured value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeldTruth {
    /// Part of the self-check: `a full queue`, `stalls`, …
    pub of: String,
    /// Quantity that is compared.
    pub asked: String,
    /// Unit of the figures.
    pub unit: TruthUnit,
    /// True range. Both ends are equal if nothing is left to chance.
    pub truth: [f64; 2],
    /// Allowed deviation below and above the range, for the time that the machine takes to transfer
    /// bytes and to wake threads.
    pub allowed: [f64; 2],
    /// Measured value: the worst of several measurements. Null if nothing was measured.
    pub measured: Option<f64>,
    /// Number of measurements.
    pub times: u32,
    /// Number of measurements that were right.
    pub right: u32,
    /// Number of wrong measurements in trials whose verdict had raised doubts.
    pub marked: u32,
    /// Whether even a correct method can err by chance in one of ten cases: the planted effect is
    /// the smallest detectable one, or the method has an error rate by design, such as a 95 %
    /// interval.
    pub by_chance: bool,
    /// Worst verdict of the trials.
    pub trust: Trust,
    /// Result of the comparison.
    pub came: TruthOutcome,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TruthUnit {
    /// A count.
    #[default]
    Count,
    /// Per second.
    PerS,
    /// Seconds.
    S,
    /// Percent.
    Pct,
}

/// Result of comparing a measurement with the truth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TruthOutcome {
    /// The measurement agrees with the truth.
    #[default]
    Right,
    /// The measurement is wrong, and the trial's verdict had raised doubts.
    Marked,
    /// The measurement is wrong, and the trial's verdict had raised no doubts.
    Wrong,
}

/// Smallest difference of a figure that nine of ten comparisons of five repeats would show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmallestDifference {
    /// Path of the figure.
    pub metric: String,
    /// Difference in percent, median over the rounds.
    pub pct: f64,
}

impl SelfCheck {
    /// Returns the number of truths with this result.
    #[must_use]
    pub fn count(&self, came: TruthOutcome) -> usize {
        self.truths.iter().filter(|truth| truth.came == came).count()
    }
}
