//! What `plimsoll compare` found, a public format beside `analysis.json`: fields are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::{Comparison, Trust};

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Two or more sides held against the first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compared {
    /// Version of this format: 1.
    pub format: u32,
    /// Who is compared, the baseline first. One only: its variants are.
    pub sides: Vec<Side>,
    /// In what machine, versions and plan differ from those of the baseline.
    pub surroundings: Vec<Surrounding>,
    /// What a reader has to know before reading the comparisons.
    pub warnings: Vec<String>,
    /// How much worse is too much, percent; null without a gate.
    pub gate_pct: Option<f64>,
    /// Whether the gate fails only where the whole interval is beyond it (`--sure`).
    pub gate_is_sure: bool,
    /// The comparisons.
    pub comparisons: Vec<GatedComparison>,
}

/// One or several runs of an experiment, taken together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Side {
    /// The folder, as it was given.
    pub name: String,
    /// The experiment's title.
    pub title: String,
    /// Run folders.
    pub runs: u32,
    /// Trials with records.
    pub trials: u32,
    /// Trials that are void; they are left out, unless they were accepted.
    pub void: u32,
    /// Void trials that are taken all the same, as `--accept` asks.
    pub accepted: u32,
    /// The worst verdict of its runs.
    pub verdict: Trust,
}

/// A field in which a side differs from the baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Surrounding {
    /// The side.
    pub side: String,
    /// `environment` or `plan`.
    pub of: String,
    /// The path of the field.
    pub field: String,
    /// What the baseline has; several values where its runs differ among themselves.
    pub a: String,
    /// What the side has.
    pub b: String,
}

/// A comparison, and what a gate makes of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GatedComparison {
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// By how many percent of `a` the other is worse, by `ratio` or `difference`; negative if it is better; null where `a` is 0 and `b` is
    /// not.
    pub worse_pct: Option<f64>,
    /// What the gate makes of it; null without one.
    pub gate: Option<Gated>,
    /// Where the gate cannot tell: repeats of each side with which nine of ten such comparisons would show a change as large as the
    /// gate, if they go on to differ as much as these did; null if that is not known, or more than 1,000.
    pub repeats_needed: Option<u32>,
}

/// What a gate makes of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gated {
    /// A change for the worse as large as the gate is excluded: the corrected interval ends below it.
    Passes,
    /// Significantly worse, by at least so much, either by the comparison or without adjusting it (`raw_ratio`).
    Fails,
    /// Inconclusive: neither of the two is shown.
    CannotTell,
}

impl Compared {
    /// Comparisons of which the gate made this.
    pub fn gated(&self, gated: Gated) -> impl Iterator<Item = &GatedComparison> {
        self.comparisons.iter().filter(move |judged| judged.gate == Some(gated))
    }

    /// Whether a side is void.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.sides.iter().any(|side| side.verdict == Trust::Void)
    }
}
