//! Table: the safe load of each variant under each condition.

use record::results::SafeLoad;

use super::crossings::interval;
use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::numbers;
use crate::sweep_charts::short;

pub const KIND: Kind = Kind { name: "safe_loads", place: 0, fill };

fn fill(input: &Input) -> Option<Table> {
    let lines = &input.results.safe_loads;
    let first = lines.first()?;
    let with_variant = lines.iter().any(|line| line.variant.is_some());
    let mut columns: Vec<Column> = with_variant.then(|| Column::text("variant")).into_iter().collect();
    columns.push(Column::text("surviving"));
    columns.push(Column::numeric(&format!("highest {}", short(&first.over)), "at which all limits hold").brief());
    columns.push(Column::text("limited by"));
    columns.push(Column::numeric("trials", "of this search").brief());
    Some(Table {
        title: "The Plimsoll line".to_owned(),
        note: String::new(),
        columns,
        rows: lines.iter().map(|line| Row { cells: cells(line, with_variant), begins: false }).collect(),
        terms: vec![(
            "95 % interval".to_owned(),
            "where the edge is, after what the trials of the search said, some of which may be wrong".to_owned(),
        )],
        folded: false,
    })
}

fn cells(line: &SafeLoad, with_variant: bool) -> Vec<Cell> {
    let variant = with_variant.then(|| Cell::new(line.variant.clone().unwrap_or_default()));
    let mut cells: Vec<Cell> = variant.into_iter().collect();
    cells.push(Cell::new(condition(&line.surviving)));
    cells.push(match nowhere(line) {
        Some(least) => Cell::new(format!("not even {}", numbers::number(least))).toned(Tone::Bad),
        None => Cell::of(line.value, numbers::number).with(interval(Some(line.ci95))),
    });
    cells.push(Cell::new(line.limited_by.clone()));
    cells.push(Cell::new(numbers::count(line.steps.len() as u64)));
    cells
}

/// The lowest value that was tried, if the limits did not even hold there.
pub fn nowhere(line: &SafeLoad) -> Option<f64> {
    line.ci95[1].filter(|_| line.value.is_none())
}

/// How a condition is called that has no name.
pub fn condition(surviving: &str) -> String {
    if surviving.is_empty() { "the file's faults".to_owned() } else { surviving.to_owned() }
}
