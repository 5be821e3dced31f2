//! Tables of the page and of the terminal, as plain cells, with a submodule for each theme.

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

use analysis::trial_groups::{Group, MedianRange, trial_name};
use record::results::{Trial, Trust};
use serde::Serialize;
use text::{Tone, numbers};

use crate::ReportInput;

/// Characters that fit in half of a page of 1,400 px.
const HALF_CHARACTERS: usize = 86;
/// Width of the space between two columns, in characters.
const BETWEEN_COLUMNS: usize = 3;
/// Length from which the text of a cell is broken into lines, characters.
const BROKEN_AT: usize = 26;
/// Maximum number of rows of a table that shares the page's width with another table.
const MOST_OF_HALF: usize = 8;

/// Returns a table of the run, or `None` if the run has no data for it.
pub type TableOf = fn(&ReportInput) -> Option<Table>;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    pub title: String,
    /// Note that a reader needs before reading the table; may be empty.
    pub note: String,
    pub columns: Vec<Column>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Row>,
    /// Terms in the table and their meaning.
    pub terms: Vec<(String, String)>,
    /// Whether the page folds the table, because it is long and of secondary interest.
    pub folded: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    pub head: String,
    /// Meaning of the column; may be empty.
    pub explained: String,
    /// Whether the column contains numbers, which are right-aligned.
    pub numeric: bool,
    /// Whether the narrow terminal also shows the column.
    pub brief: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// Whether a group of rows begins here.
    pub begins: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cell {
    pub text: String,
    /// Smaller text below `text`: a range, a reason; may be empty.
    pub small: String,
    /// Tone: good, bad or neutral.
    pub tone: Tone,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(title: &str, note: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.to_owned(), note: note.into(), columns, ..Self::default() }
    }

    /// Adds the rows. `None` if there are none.
    pub fn filled(self, rows: Vec<Row>) -> Option<Self> {
        (!rows.is_empty()).then_some(Self { rows, ..self })
    }

    /// Adds rows for each group. With several groups, adds columns that distinguish them.
    pub fn by_group<'a>(self, groups: &[Group<'a>], rows: impl Fn(&Group<'a>) -> Vec<Vec<Cell>>) -> Option<Self> {
        let several = groups.len() > 1;
        let heads = groups.iter().take(1).filter(|_| several).flat_map(|group| &group.labels);
        let columns = heads.map(|(name, _)| Column::text(name)).chain(self.columns.iter().cloned()).collect();
        let mut units = Vec::new();
        for group in groups {
            let labels = group.labels.iter().filter(|_| several).map(|(_, value)| Cell::new(value));
            units.push((labels.collect(), rows(group)));
        }
        Self { columns, ..self }.filled(blocks(units, |index| begins(index, groups)))
    }

    /// Adds rows for each trial. With several trials, adds a column with their names.
    pub fn by_trial(self, input: &ReportInput, rows: impl Fn(&Trial) -> Vec<Vec<Cell>>) -> Option<Self> {
        let several = input.results.trials.len() > 1;
        let columns = several.then(|| Column::text("trial")).into_iter().chain(self.columns.iter().cloned()).collect();
        let units = input.results.trials.iter().map(|trial| {
            let name = several.then(|| trial_cell(trial, input));
            (name.into_iter().collect(), rows(trial))
        });
        Self { columns, ..self }.filled(blocks(units.collect(), |_| false))
    }

    /// Folds the table on the page if it has more than `most` rows.
    pub fn folded_beyond(self, most: usize) -> Self {
        Self { folded: self.rows.len() > most, ..self }
    }

    /// Adds the meanings of the columns as terms.
    pub fn explained(self) -> Self {
        let columns = self.columns.iter().filter(|column| !column.explained.is_empty());
        let terms = columns.map(|column| (column.head.clone(), column.explained.clone())).collect();
        Self { terms, ..self }
    }

    /// Whether the table is short and narrow enough for half of the page, so that readers need not
    /// scroll.
    pub fn fits_half(&self) -> bool {
        let widths = self.columns.iter().enumerate().map(|(index, column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| cell.width(column.numeric));
            let words = column.head.split(' ').map(|word| word.chars().count());
            cells.chain(words).max().unwrap_or(0) + BETWEEN_COLUMNS
        });
        self.rows.len() <= MOST_OF_HALF && widths.sum::<usize>() <= HALF_CHARACTERS
    }

    pub fn with_terms(mut self, terms: &[(&str, &str)]) -> Self {
        self.terms.extend(terms.iter().map(|(term, meaning)| ((*term).to_owned(), (*meaning).to_owned())));
        self
    }
}

impl Row {
    /// Returns a row in the same block as the previous row.
    pub fn of(cells: Vec<Cell>) -> Self {
        Self { cells, begins: false }
    }
}

impl Column {
    /// Returns columns of numbers, each from its heading and meaning.
    pub fn numerics(columns: &[(&str, &str)]) -> Vec<Self> {
        columns.iter().map(|(head, explained)| Self::numeric(head, explained)).collect()
    }

    /// Returns a column of text.
    pub fn text(head: &str) -> Self {
        Self { head: head.to_owned(), brief: true, ..Self::default() }
    }

    /// Returns a column of numbers.
    pub fn numeric(head: &str, explained: &str) -> Self {
        Self { head: head.to_owned(), explained: explained.to_owned(), numeric: true, brief: false }
    }

    /// Shows the column on the terminal too.
    pub fn brief(self) -> Self {
        Self { brief: true, ..self }
    }
}

impl Cell {
    /// Returns a cell with the text; [`numbers::NONE`] is muted.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let tone = if text == numbers::NONE { Tone::Muted } else { Tone::Plain };
        Self { text, small: String::new(), tone }
    }

    /// Returns a cell with an optional value, formatted by `write`.
    pub fn of<T>(value: Option<T>, write: impl Fn(T) -> String) -> Self {
        Self::new(numbers::or_none(value, write))
    }

    /// Returns a cell with a text, if there is one.
    pub fn optional(text: Option<&String>) -> Self {
        Self::new(text.map_or(numbers::NONE, String::as_str))
    }

    /// Returns the minimum width, in characters. Longer texts are broken into lines of at least
    /// that length. The smaller text below a number is never broken.
    fn width(&self, is_numeric: bool) -> usize {
        let below = if is_numeric { self.small.chars().count() * 6 / 7 } else { 0 };
        self.text.chars().count().min(BROKEN_AT).max(below)
    }

    /// Returns a cell with a median.
    pub fn median(spread: Option<MedianRange>, write: impl Fn(f64) -> String) -> Self {
        Self::of(spread, |spread| write(spread.median))
    }

    /// Returns a cell with a median and its range.
    pub fn spread(spread: Option<MedianRange>, write: fn(f64) -> String) -> Self {
        Self::median(spread, write).with(spread.and_then(|spread| spread.range(write)).unwrap_or_default())
    }

    /// Returns a cell with a count of failures: good if 0, otherwise bad.
    pub fn loss(count: u64) -> Self {
        Self::new(numbers::count(count)).toned(if count == 0 { Tone::Good } else { Tone::Bad })
    }

    /// Adds an interval as the smaller text.
    pub fn over(self, ends: Option<[f64; 2]>, write: impl Fn(f64) -> String) -> Self {
        self.with(numbers::interval(ends, write).unwrap_or_default())
    }

    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// Adds a smaller text below the text.
    pub fn with(self, small: impl Into<String>) -> Self {
        Self { small: small.into(), ..self }
    }
}

/// Explanation of the mark of [`approximate`].
const APPROXIMATE: &str = " ~: a quantile without an interval, from fewer than ten separate moments of a trial.";

/// Marks the cell of a quantile with `~` if it is not reliable in some trial.
fn approximate(cell: Cell, group: &Group, quantile: &str) -> Cell {
    if is_approximate(group, quantile) { Cell { text: format!("~{}", cell.text), ..cell } } else { cell }
}

fn is_approximate(group: &Group, quantile: &str) -> bool {
    group.counting().any(|trial| trial.unsure_moments(quantile).is_some())
}

/// Returns a cell that names a trial.
fn trial_cell(trial: &Trial, input: &ReportInput) -> Cell {
    Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan))
}

/// Returns the tone of a verdict.
pub fn tone_of(trust: Trust) -> Tone {
    match trust {
        Trust::Valid => Tone::Good,
        Trust::Suspect => Tone::Doubtful,
        Trust::Void => Tone::Bad,
    }
}

/// Returns the word for a verdict.
pub fn trust_word(trust: Trust) -> &'static str {
    match trust {
        Trust::Valid => "valid",
        Trust::Suspect => "suspect",
        Trust::Void => "void",
    }
}

/// Returns the rows of groups or trials: the cells that distinguish each unit, combined with each
/// of its rows. `begins` says whether a block begins with a unit. If any unit has several rows,
/// each unit is a block.
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

/// Whether a block of rows begins with the group at `index`. With several labels, a block begins if
/// the label that changes least often differs from that of the previous group.
pub fn begins(index: usize, groups: &[Group]) -> bool {
    let labels = groups.first().map_or(0, |group| group.labels.len());
    let changes = (0..labels).map(|label| (groups.windows(2).filter(|pair| differ(pair, label)).count(), label));
    let steadiest = changes.filter(|(changes, _)| *changes > 0).min();
    steadiest.is_some_and(|(_, label)| index > 0 && labels > 1 && differ(&groups[index - 1..=index], label))
}

fn differ(pair: &[Group], label: usize) -> bool {
    pair[0].labels.get(label) != pair[1].labels.get(label)
}

#[cfg(test)]
mod tests;
