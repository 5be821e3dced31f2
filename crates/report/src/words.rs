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

pub use crate::drawing::visible;

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

/// Items as in a sentence: `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A name out of an experiment, marked as one. Whoever sets the text turns the marks into what is usual there.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// With a capital at its beginning.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// With a full stop at its end.
pub(crate) fn stopped(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

#[cfg(test)]
mod tests;
