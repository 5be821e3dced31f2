//! Results of `plimsoll compare`, a public format beside `analysis.json`: fields are only ever
//! added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::{Comparison, Trust};

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Comparison of two or more sides with the first side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compared {
    /// Version of this format: 1.
    pub format: u32,
    /// Compared sides, the baseline first. A single side means that its variants are compared.
    pub sides: Vec<Side>,
    /// Differences from the baseline in machine, versions and plan.
    pub surroundings: Vec<Surrounding>,
    /// Warnings that a reader must know before reading the comparisons.
    pub warnings: Vec<String>,
    /// Limit of the gate: smallest change for the worse that fails, percent. Null without a gate.
    pub gate_pct: Option<f64>,
    /// Whether the gate fails only if the whole interval is beyond the limit (`--sure`).
    pub gate_is_sure: bool,
    /// The comparisons.
    pub comparisons: Vec<GatedComparison>,
}

/// One or several runs of an experiment, taken together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Side {
    /// The folder, as given on the command line.
    pub name: String,
    /// The experiment's title.
    pub title: String,
    /// Number of run folders.
    pub runs: u32,
    /// Number of trials with records.
    pub trials: u32,
    /// Number of void trials. They are left out unless they were accepted.
    pub void: u32,
    /// Number of void trials that are used because of `--accept`.
    pub accepted: u32,
    /// Worst verdict of the side's runs.
    pub verdict: Trust,
}

/// A field in which a side differs from the baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Surrounding {
    /// Name of the side.
    pub side: String,
    /// Source of the field: `environment` or `plan`.
    pub of: String,
    /// Path of the field.
    pub field: String,
    /// Value of the baseline. Several values if its runs differ among themselves.
    pub a: String,
    /// Value of the side.
    pub b: String,
}

/// A comparison and the result of its gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GatedComparison {
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Percentage of `a` by which the other side is worse, by `ratio` or `difference`. Negative if
    /// it is better. Null if `a` is 0 and `b` is not.
    pub worse_pct: Option<f64>,
    /// Result of the gate. Null without a gate.
    pub gate: Option<Gated>,
    /// Repeats of each side with which nine of ten such comparisons would show a change as large as
    /// the gate, if repeats vary as before. Only for an inconclusive gate. Null if unknown or above
    /// 1,000.
    pub repeats_needed: Option<u32>,
}

/// Result of a gate on a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gated {
    /// The comparison excludes a change for the worse as large as the gate: the corrected interval
    /// ends below it.
    Passes,
    /// The side is significantly worse, by at least the limit of the gate, with the adjustment or
    /// without it (`raw_ratio`).
    Fails,
    /// Inconclusive: neither is shown.
    CannotTell,
}

impl Compared {
    /// Returns the comparisons with this result of the gate.
    pub fn gated(&self, gated: Gated) -> impl Iterator<Item = &GatedComparison> {
        self.comparisons.iter().filter(move |judged| judged.gate == Some(gated))
    }

    /// Whether a side is void.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.sides.iter().any(|side| side.verdict == Trust::Void)
    }
}
