//! The results in words: the answer, and the summary that a terminal shows.

mod answer;
pub(crate) mod differing;
mod glance;
mod metric_history;
mod side_by_side;
pub(crate) mod summary;
pub(crate) mod sweeps;

use record::results::{Results, Trust};

use crate::groups::is_measured;
use crate::tables::{Tone, trust_word};

pub use answer::answer;
pub use glance::{at_a_glance, bars};
pub use metric_history::course;
pub use summary::summary;

/// The word for the verdict. Where nothing was measured there is nothing to judge.
pub(crate) fn verdict(results: &Results) -> (&'static str, Tone) {
    match results.verdict.is {
        Trust::Valid if !is_measured(results) => ("not judged", Tone::Muted),
        is => (trust_word(is), Tone::of(is)),
    }
}

/// What the verdict means, as a sentence without its capital and its stop.
pub(crate) fn meaning(results: &Results) -> &'static str {
    match results.verdict.is {
        Trust::Void => "this result must not be used",
        Trust::Suspect => "something may have spoiled this result",
        Trust::Valid if is_measured(results) => "no check found a problem",
        Trust::Valid => "nothing was measured",
    }
}

#[cfg(test)]
mod tests;
