//! The tables of the page and of the terminal, as plain cells, in files by theme.

pub mod comparison;
pub mod demand;
pub mod generators;
pub mod hosts;
pub mod operations;
pub mod outages;
pub mod programs;
pub mod steps;
pub mod sweeps;
pub mod target_metrics;
pub mod verdicts;

use analysis::groups::{Group, MedianRange, trial_name};
use record::results::{Trial, Trust};
use serde::Serialize;
use text::{Tone, numbers};

use crate::ReportInput;

/// Characters that fit in half of a page of 1,400 px.
const HALF_CHARACTERS: usize = 86;
/// What the space between two columns takes, in characters.
const BETWEEN_COLUMNS: usize = 3;
/// As long as a cell is before it is broken into lines.
const BROKEN_AT: usize = 26;
/// Rows of a table that may stand beside another.
const MOST_OF_HALF: usize = 8;

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

impl Table {
    /// A table without rows.
    pub fn new(title: &str, note: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.to_owned(), note: note.into(), columns, ..Self::default() }
    }

    /// With these rows; `None` if there are none.
    pub fn filled(self, rows: Vec<Row>) -> Option<Self> {
        (!rows.is_empty()).then_some(Self { rows, ..self })
    }

    /// With rows for each group, below columns that tell the groups apart, if there are several.
    pub fn by_group<'a>(self, groups: &[Group<'a>], rows: impl Fn(&Group<'a>) -> Vec<Vec<Cell>>) -> Option<Self> {
        let labels = |group: &Group| -> Vec<(String, String)> {
            if groups.len() > 1 { group.labels.clone() } else { Vec::new() }
        };
        let heads = groups.first().map(labels).unwrap_or_default();
        let columns = heads.iter().map(|(name, _)| Column::text(name)).chain(self.columns.iter().cloned()).collect();
        let cells = |group| labels(group).into_iter().map(|(_, value)| Cell::new(value)).collect();
        let units = groups.iter().map(|group| (cells(group), rows(group))).collect();
        Self { columns, ..self }.filled(blocks(units, |index| begins(index, groups)))
    }

    /// With rows for each trial, below its name, if there are several.
    pub fn by_trial(self, input: &ReportInput, rows: impl Fn(&Trial) -> Vec<Vec<Cell>>) -> Option<Self> {
        let several = input.results.trials.len() > 1;
        let name = |trial: &Trial| Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan));
        let columns = several.then(|| Column::text("trial")).into_iter().chain(self.columns.iter().cloned()).collect();
        let units =
            input.results.trials.iter().map(|trial| (several.then(|| name(trial)).into_iter().collect(), rows(trial)));
        Self { columns, ..self }.filled(blocks(units.collect(), |_| false))
    }

    /// Folded on the page if it has more rows.
    pub fn folded_beyond(self, most: usize) -> Self {
        Self { folded: self.rows.len() > most, ..self }
    }

    /// With what its columns mean as terms.
    pub fn explained(self) -> Self {
        let columns = self.columns.iter().filter(|column| !column.explained.is_empty());
        let terms = columns.map(|column| (column.head.clone(), column.explained.clone())).collect();
        Self { terms, ..self }
    }

    /// Whether it is short, and narrow enough for half of the page: what has to be scrolled to is not read.
    pub fn fits_half(&self) -> bool {
        let width = |(index, column): (usize, &Column)| {
            let of_cell = |cell: &Cell| {
                // Longer texts are broken into lines of no less than that; what stands below a number never is, in smaller letters.
                let below = if column.numeric { cell.small.chars().count() * 6 / 7 } else { 0 };
                cell.text.chars().count().min(BROKEN_AT).max(below)
            };
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(of_cell);
            let words = column.head.split(' ').map(|word| word.chars().count());
            cells.chain(words).max().unwrap_or(0) + BETWEEN_COLUMNS
        };
        let widths = self.columns.iter().enumerate().map(width);
        self.rows.len() <= MOST_OF_HALF && widths.sum::<usize>() <= HALF_CHARACTERS
    }

    /// With these terms, too.
    pub fn with_terms(mut self, terms: &[(&str, &str)]) -> Self {
        self.terms.extend(terms.iter().map(|(term, meaning)| ((*term).to_owned(), (*meaning).to_owned())));
        self
    }
}

impl Row {
    /// A row in a block with the one before it.
    pub fn of(cells: Vec<Cell>) -> Self {
        Self { cells, begins: false }
    }
}

impl Column {
    /// Columns of numbers: heading and meaning of each.
    pub fn numerics(columns: &[(&str, &str)]) -> Vec<Self> {
        columns.iter().map(|(head, explained)| Self::numeric(head, explained)).collect()
    }

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

    /// A count of what nobody wants.
    pub fn loss(count: u64) -> Self {
        Self::new(numbers::count(count)).toned(if count == 0 { Tone::Good } else { Tone::Bad })
    }

    /// The same cell with an interval below it.
    pub fn over(self, ends: Option<[f64; 2]>, write: impl Fn(f64) -> String) -> Self {
        self.with(numbers::interval(ends, write).unwrap_or_default())
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

/// Explains the mark of [`approximate`].
const APPROXIMATE: &str = " ~: a quantile without an interval, from fewer than ten separate moments of a trial.";

/// The cell of a quantile, marked with `~` if it is not sure in some trial.
fn approximate(cell: Cell, group: &Group, quantile: &str) -> Cell {
    if is_approximate(group, quantile) { Cell { text: format!("~{}", cell.text), ..cell } } else { cell }
}

fn is_approximate(group: &Group, quantile: &str) -> bool {
    group.counting().any(|trial| trial.unsure_moments(quantile).is_some())
}

/// How a verdict is meant.
pub fn tone_of(trust: Trust) -> Tone {
    match trust {
        Trust::Valid => Tone::Good,
        Trust::Suspect => Tone::Doubtful,
        Trust::Void => Tone::Bad,
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

/// Rows of groups or trials: of each the cells that tell it from the others, and below them a row or more. Blocks of rows are set apart
/// by `begins`, or each by itself where one has several rows.
fn blocks(units: Vec<(Vec<Cell>, Vec<Vec<Cell>>)>, begins: impl Fn(usize) -> bool) -> Vec<Row> {
    let several = units.iter().any(|(_, rows)| rows.len() > 1);
    let mut blocks: Vec<Row> = Vec::new();
    for (index, (labels, rows)) in units.into_iter().enumerate() {
        for (place, cells) in rows.into_iter().enumerate() {
            let begins = place == 0 && !blocks.is_empty() && (several || begins(index));
            blocks.push(Row { cells: labels.iter().cloned().chain(cells).collect(), begins });
        }
    }
    blocks
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
