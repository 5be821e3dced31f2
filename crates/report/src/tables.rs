//! The tables of the page and of the terminal, as plain cells, in files by theme.

pub mod comparison;
pub mod hosts;
pub mod operations;
pub mod outages;
pub mod sweeps;
pub mod verdicts;

use record::results::Trust;
use serde::Serialize;

use crate::groups::{Group, MedianRange};
use crate::{ReportInput, numbers};

/// A table of the run; `None` where the run has nothing for it.
pub type TableOf = fn(&ReportInput) -> Option<Table>;

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// What a reader has to know before reading it; may be empty.
    pub note: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// Terms of the table and what they mean.
    pub terms: Vec<(String, String)>,
    /// Whether it is long and not the first thing a reader wants, so that the page folds it.
    pub folded: bool,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    /// Its heading.
    pub head: String,
    /// What it means; may be empty.
    pub explained: String,
    /// Numbers are set flush right.
    pub numeric: bool,
    /// Whether it also stands on the narrow terminal.
    pub brief: bool,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Whether a group of rows begins with it.
    pub begins: bool,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// Smaller, below it: a range, a reason; may be empty.
    pub small: String,
    /// How it is meant.
    pub tone: Tone,
}

/// How a cell is meant; never by colour alone, the text says it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// As one would wish.
    Good,
    /// Unclear.
    Doubtful,
    /// Not as one would wish.
    Bad,
    /// Of no weight: nothing was measured, or the trial is void.
    Muted,
}

impl Column {
    /// A column of text.
    pub fn text(head: &str) -> Self {
        Self { head: head.to_owned(), brief: true, ..Self::default() }
    }

    /// A column of numbers.
    pub fn numeric(head: &str, explained: &str) -> Self {
        Self { head: head.to_owned(), explained: explained.to_owned(), numeric: true, brief: false }
    }

    /// The column, on the terminal too.
    pub fn brief(self) -> Self {
        Self { brief: true, ..self }
    }
}

impl Cell {
    /// Says `text`; [`numbers::NONE`] is muted.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let tone = if text == numbers::NONE { Tone::Muted } else { Tone::Plain };
        Self { text, small: String::new(), tone }
    }

    /// What an option holds, written by `write`.
    pub fn of<T>(value: Option<T>, write: impl Fn(T) -> String) -> Self {
        Self::new(numbers::or_none(value, write))
    }

    /// A median with its range.
    pub fn spread(spread: Option<MedianRange>, write: fn(f64) -> String) -> Self {
        let mut cell = Self::of(spread, |spread| write(spread.median));
        cell.small = spread.and_then(|spread| spread.range(write)).unwrap_or_default();
        cell
    }

    /// The same cell, meant so.
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The same cell with something smaller below.
    pub fn with(self, small: impl Into<String>) -> Self {
        Self { small: small.into(), ..self }
    }
}

impl Tone {
    /// Of a verdict.
    pub fn of(trust: Trust) -> Self {
        match trust {
            Trust::Valid => Self::Good,
            Trust::Suspect => Self::Doubtful,
            Trust::Void => Self::Bad,
        }
    }
}

/// The word for a verdict.
pub fn trust_word(trust: Trust) -> &'static str {
    match trust {
        Trust::Valid => "valid",
        Trust::Suspect => "suspect",
        Trust::Void => "void",
    }
}

/// Columns that tell groups apart; none if there is only one group.
fn label_columns(groups: &[Group]) -> Vec<Column> {
    let labels = groups.first().filter(|_| groups.len() > 1).map(|group| group.labels.as_slice()).unwrap_or_default();
    labels.iter().map(|(name, _)| Column::text(name)).collect()
}

/// The cells below [`label_columns`].
fn label_cells(group: &Group, groups: &[Group]) -> Vec<Cell> {
    if groups.len() < 2 {
        return Vec::new();
    }
    group.labels.iter().map(|(_, value)| Cell::new(value.clone())).collect()
}

/// Whether a block of rows begins with a group: of its several labels, the one that changes least often from group to group
/// differs from that of the group before.
pub fn begins(index: usize, groups: &[Group]) -> bool {
    let differ = |pair: &[Group], label: usize| pair[0].labels.get(label) != pair[1].labels.get(label);
    let changes = |label: usize| groups.windows(2).filter(|pair| differ(pair, label)).count();
    let labels = groups.first().map_or(0, |group| group.labels.len());
    let steadiest = (0..labels).filter(|&label| changes(label) > 0).min_by_key(|&label| changes(label));
    steadiest.is_some_and(|label| index > 0 && labels > 1 && differ(&groups[index - 1..=index], label))
}

#[cfg(test)]
mod tests;
