//! What `plimsoll selfcheck` found: a machine, and the program on it, held against what is known beforehand. A public format:
//! fields are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::Trust;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// All truths that a machine was held against.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SelfCheck {
    /// Version of this format: 1.
    pub format: u32,
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// The machine in a line: processors and kernel.
    pub machine: String,
    /// When it began, Unix time in seconds.
    pub unix_s: f64,
    /// How long it took, seconds.
    pub took_s: f64,
    /// What was planted, and how long it lasted, follows from this number.
    pub seed: u64,
    /// How often each part was played.
    pub rounds: u32,
    /// Each truth, in the order of the parts.
    pub truths: Vec<HeldTruth>,
    /// The smallest differences that five repeats show here.
    pub smallest: Vec<SmallestDifference>,
    /// Folders of the runs, from the folder that the page is in.
    pub runs: Vec<String>,
}

/// Something that is known beforehand, and what was measured of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeldTruth {
    /// Of which part: `a full queue`, `stalls`, …
    pub of: String,
    /// What was asked.
    pub asked: String,
    /// The unit of the figures.
    pub unit: TruthUnit,
    /// What is true: from here to there; both ends are the same where nothing is left to chance.
    pub truth: [f64; 2],
    /// By how much more or less the figure may be off, for what the machine takes to carry bytes and to wake threads.
    pub allowed: [f64; 2],
    /// What was measured: of several times the worst; null if nothing was.
    pub measured: Option<f64>,
    /// How often it was asked.
    pub times: u32,
    /// … and what was measured was true.
    pub right: u32,
    /// … and it was not, and the verdict of the trial had said that something was in the way.
    pub marked: u32,
    /// Whether a right method is wrong in one of ten cases: what was planted is as small as the method can see, or its level is a share.
    pub by_chance: bool,
    /// The worst verdict of the trials.
    pub trust: Trust,
    /// What it came to.
    pub came: TruthOutcome,
}

/// A figure's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TruthUnit {
    /// A number of things.
    #[default]
    Count,
    /// A second.
    PerS,
    /// Seconds.
    S,
    /// Percent.
    Pct,
}

/// What a truth and what was measured come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TruthOutcome {
    /// They agree.
    #[default]
    Right,
    /// They do not, and the verdict had said that the trial was not to be trusted.
    Marked,
    /// They do not, and nothing had said so.
    Wrong,
}

/// A difference of a figure that nine of ten comparisons of five repeats would show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmallestDifference {
    /// Path of the figure.
    pub metric: String,
    /// Percent; the median over the rounds.
    pub pct: f64,
}

impl SelfCheck {
    /// How many truths came to this.
    #[must_use]
    pub fn count(&self, came: TruthOutcome) -> usize {
        self.truths.iter().filter(|truth| truth.came == came).count()
    }
}
