//! Wrong answers in words: with which modes there were any, for 1,000 cycles, and with which none in how many cycles. It must not say that a
//! mode gives none: only that none was seen.

use super::side_by_side::{dimension, names, split, values_of};
use super::{capital, listed};
use crate::facts::{Figure, Group};
use crate::numbers;

/// What the trials of one value of a dimension say together.
struct Seen {
    name: String,
    wrong: u64,
    /// Cycles that ended, full or not; `None` where they were not counted.
    cycles: Option<u64>,
}

/// In one sentence; `None` where nothing was expected, or no answer was wrong.
pub fn sentence(groups: &[Group]) -> Option<String> {
    let wrong: Figure = |trial| trial.consistency.wrong.map(|count| count as f64);
    groups.iter().find(|group| group.spread(wrong).is_some_and(|wrong| wrong.most > 0.0))?;
    let index = split(groups, wrong).map_or(0, |split| split.index);
    let seen: Vec<Seen> = values_of(groups, index).into_iter().map(|name| seen(groups, index, name)).collect();
    let named = |one: &Seen| names(dimension(groups, index), std::slice::from_ref(&one.name));
    let (mut dirty, clean): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|one| one.wrong > 0);
    dirty.sort_by(|a, b| b.per_1000().unwrap_or(0.0).total_cmp(&a.per_1000().unwrap_or(0.0)));
    let counts: Vec<String> = dirty.iter().map(|one| format!("{} with {}", one.rate(), named(one))).collect();
    let of = if dirty.iter().all(|one| one.per_1000().is_some()) { " for 1,000 cycles" } else { "" };
    let mut text = format!("wrong answers{of}: {}", listed(&counts));
    let none: Vec<String> = clean.iter().map(|one| format!("{}{}", named(one), one.in_cycles())).collect();
    if !none.is_empty() {
        text.push_str(&format!("; none with {}", listed(&none)));
    }
    Some(capital(&format!("{text}.")))
}

fn seen(groups: &[Group], index: usize, name: String) -> Seen {
    let own = || groups.iter().filter(|group| group.labels.get(index).is_some_and(|label| label.1 == name));
    let trials = || own().flat_map(Group::usable);
    let wrong = trials().map(|trial| trial.outcomes.wrong).sum();
    let cycles: Option<u64> = trials().map(|trial| trial.consistency.cycles).sum();
    Seen { wrong, cycles, name }
}

impl Seen {
    fn per_1000(&self) -> Option<f64> {
        self.cycles.filter(|cycles| *cycles > 0).map(|cycles| 1_000.0 * self.wrong as f64 / cycles as f64)
    }

    fn rate(&self) -> String {
        match self.per_1000() {
            Some(rate) => numbers::number(rate),
            None => numbers::count_in_words(self.wrong),
        }
    }

    fn in_cycles(&self) -> String {
        self.cycles.map_or_else(String::new, |cycles| format!(" in {} cycles", numbers::count_in_words(cycles)))
    }
}

#[cfg(test)]
pub(super) mod tests;
