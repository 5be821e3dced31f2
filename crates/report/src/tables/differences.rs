//! Table: what differs by more than chance, and what was not shown to. It must not repeat the figures of each trial.

use record::results::Comparison;

use super::{Cell, Column, Kind, Row, Table};
use crate::Input;
use crate::numbers;
use crate::words::differing;

pub const KIND: Kind = Kind { name: "differences", place: 7, fill };

/// A name longer than this, such as a path, is no heading.
const HEADING: usize = 16;
/// More rows than this are folded on the page.
const LONG: usize = 40;

fn fill(input: &Input) -> Option<Table> {
    let comparisons: Vec<&Comparison> = input.results.comparisons.iter().collect();
    (!comparisons.is_empty()).then(|| table(&comparisons))
}

/// The comparisons as rows.
pub fn table(comparisons: &[&Comparison]) -> Table {
    let several_pairs = comparisons.iter().any(|one| (&one.a, &one.b) != (&comparisons[0].a, &comparisons[0].b));
    let placed = comparisons.iter().any(|one| !one.at.is_empty());
    let mut columns = Vec::new();
    if several_pairs {
        columns.push(Column::text("compared"));
    }
    if placed {
        columns.push(Column::text("at"));
    }
    columns.push(Column::text("figure"));
    let too_long = [&comparisons[0].a, &comparisons[0].b].iter().any(|name| name.chars().count() > HEADING);
    let (a, b) = if several_pairs || too_long {
        ("baseline".to_owned(), "other".to_owned())
    } else {
        (comparisons[0].a.clone(), comparisons[0].b.clone())
    };
    columns.push(Column::numeric(&a, "mean over its trials").brief());
    columns.push(Column::numeric(&b, "mean over its trials").brief());
    columns.push(
        Column::numeric("ratio", "of the second to the first, or the difference where a figure can be 0").brief(),
    );
    columns.push(
        Column::numeric("p", "chance of so large a difference if there is none, corrected for all comparisons").brief(),
    );
    columns.push(Column::text("verdict"));
    let mut before: Option<(&str, String)> = None;
    let rows = comparisons.iter().map(|one| {
        let place = differing::place(one);
        let begins = before.as_ref().is_some_and(|(b, at)| *b != one.b || *at != place);
        before = Some((&one.b, place.clone()));
        let mut cells = Vec::new();
        if several_pairs {
            cells.push(Cell::new(format!("{} against {}", one.b, one.a)));
        }
        if placed {
            cells.push(Cell::new(place));
        }
        cells.extend(figures(one));
        Row { cells, begins }
    });
    let rows: Vec<Row> = rows.collect();
    Table {
        title: "Differences".to_owned(),
        note: note(comparisons),
        terms: terms(&columns),
        folded: rows.len() > LONG,
        columns,
        rows,
    }
}

fn figures(one: &Comparison) -> Vec<Cell> {
    let write = |value: f64| numbers::by_metric(&one.metric, value);
    let (estimate, interval) = differing::estimate(one);
    let (verdict, tone) = differing::verdict(one);
    let lacking = match one.without {
        [0, 0] => String::new(),
        [a, 0] => format!("missing in {a} of the first"),
        [0, b] => format!("missing in {b} of the second"),
        [a, b] => format!("missing in {a} of the first, {b} of the second"),
    };
    vec![
        Cell::new(differing::figure(&one.metric)),
        Cell::of(one.a_value, write),
        Cell::of(one.b_value, write),
        Cell::new(estimate).with(interval),
        Cell::of(one.p_adjusted, differing::chance),
        Cell::new(verdict.replace('`', "")).with(lacking).toned(tone),
    ]
}

fn note(comparisons: &[&Comparison]) -> String {
    let pairs = comparisons.iter().map(|one| one.pairs).max().unwrap_or(0);
    let how = match pairs {
        0 => "Trials of separate runs (Welch's t): what drifted on the machine between them is not in the intervals."
            .to_owned(),
        1 => "One pair of trials: no interval, and differences may be chance.".to_owned(),
        pairs => format!("Up to {pairs} pairs of trials played beside each other (paired t of logarithms)."),
    };
    format!("{how} Intervals of 95 %; p corrected for all comparisons (Holm). Void trials are left out.")
}

fn terms(columns: &[Column]) -> Vec<(String, String)> {
    let explained = columns.iter().filter(|column| !column.explained.is_empty());
    let mut terms: Vec<(String, String)> =
        explained.map(|column| (column.head.clone(), column.explained.clone())).collect();
    let shown = "what nine of ten such comparisons would show, by the spread of these trials".to_owned();
    terms.push(("would have been".to_owned(), shown));
    terms
}

/// How the verdicts are spread over the rows: `13 of 72 differ`.
pub fn count(comparisons: &[Comparison]) -> String {
    let differ = comparisons.iter().filter(|one| one.significant).count();
    format!("{differ} of {} differ", comparisons.len())
}
