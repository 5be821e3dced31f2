//! Results in words: the verdict, and the summaries that a terminal shows.

mod glance;
mod metric_history;
pub(crate) mod summary;

use analysis::trial_groups::is_measured;
use record::results::{Results, Trust, Verdict};
use text::Tone;

use crate::tables::{tone_of, trust_word};

pub use glance::{at_a_glance, bars};
pub use metric_history::course;
pub use summary::summary;

/// Returns the word for the verdict. Without measurements there is no verdict.
pub(crate) fn verdict(results: &Results) -> (&'static str, Tone) {
    match results.verdict.is {
        Trust::Valid if !is_measured(results) => ("not judged", Tone::Muted),
        is => (trust_word(is), tone_of(is)),
    }
}

/// Returns the meaning of the verdict, as a sentence without capital and full stop.
pub(crate) fn meaning(results: &Results) -> &'static str {
    match results.verdict.is {
        Trust::Void => "this result must not be used",
        Trust::Suspect => "something may have spoiled this result",
        Trust::Valid if is_measured(results) => "no check found a problem",
        Trust::Valid => "nothing was measured",
    }
}

/// Returns a text such as `valid: counts, throughput; suspect: tail latency (p99)`. Empty if all
/// figures have the same verdict.
pub(crate) fn usable_figures(verdict: &Verdict) -> String {
    let mut all = Vec::new();
    for is in [Trust::Valid, Trust::Suspect, Trust::Void] {
        let named = verdict.figures.iter().filter(|one| one.is == is).map(|one| one.figure.name());
        let names: Vec<&str> = named.collect();
        if !names.is_empty() {
            all.push(format!("{}: {}", trust_word(is), names.join(", ")));
        }
    }
    if all.len() > 1 { all.join("; ") } else { String::new() }
}

#[cfg(test)]
mod comparison_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod tests;
