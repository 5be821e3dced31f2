//! Table: the trials of a search, in the order in which each was decided on.

use record::results::{SafeLoad, SearchStep};

use super::safe_loads::condition;
use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::numbers;
use crate::sweep_charts::short;

pub const KIND: Kind = Kind { name: "search", place: 56, fill };

fn fill(input: &Input) -> Option<Table> {
    let lines = &input.results.safe_loads;
    let first = lines.first().filter(|_| lines.iter().any(|line| !line.steps.is_empty()))?;
    let several = lines.len() > 1;
    let mut columns: Vec<Column> = several.then(|| Column::text("search")).into_iter().collect();
    columns.push(Column::text("trial"));
    columns.push(Column::numeric(short(&first.over), "the value tried").brief());
    columns.push(Column::text("limits"));
    columns.push(Column::text("because"));
    let rows = lines.iter().flat_map(|line| {
        let step =
            move |(index, step): (usize, &SearchStep)| Row { cells: cells(line, step, several), begins: index == 0 };
        line.steps.iter().enumerate().map(step)
    });
    Some(Table {
        title: "The search".to_owned(),
        note: "Each trial was chosen by what those before it had said; see docs/find.md.".to_owned(),
        columns,
        rows: rows.collect(),
        terms: Vec::new(),
        folded: false,
    })
}

fn cells(line: &SafeLoad, step: &SearchStep, several: bool) -> Vec<Cell> {
    let name = || {
        let parts = [line.variant.clone(), Some(condition(&line.surviving))];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let mut cells: Vec<Cell> = several.then(|| Cell::new(name())).into_iter().collect();
    cells.push(Cell::new(step.trial.clone()));
    cells.push(Cell::new(numbers::number(step.value)));
    cells.push(match step.held {
        Some(true) => Cell::new("held").toned(Tone::Good),
        Some(false) => Cell::new("broke").toned(Tone::Bad),
        None => Cell::new("says nothing").toned(Tone::Muted),
    });
    cells.push(Cell::new(step.broke.join("; ")));
    cells
}
