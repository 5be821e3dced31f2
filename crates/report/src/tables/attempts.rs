//! Table: how attempts ended, by cause.

use std::collections::BTreeMap;

use super::{Cell, Column, Kind, Row, Table, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "attempts", place: 3, fill };

const MANY: usize = 12;

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let mut columns = label_columns(&groups);
    columns.extend([
        Column::text("result of an attempt"),
        Column::numeric("attempts", "").brief(),
        Column::numeric("share", "of all attempts"),
    ]);
    let mut rows = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let results = added_up(group);
        let all: u64 = results.values().sum();
        let mut ordered: Vec<(&String, &u64)> = results.iter().collect();
        // `ok` first, then what happened most.
        ordered.sort_by_key(|(name, count)| (*name != "ok", std::cmp::Reverse(**count)));
        for (place, (name, count)) in ordered.into_iter().enumerate() {
            let mut cells = label_cells(group, &groups);
            if place > 0 {
                cells.iter_mut().for_each(|cell| cell.text = String::new());
            }
            cells.extend([
                Cell::new(name.clone()),
                Cell::new(numbers::count(*count)),
                Cell::new(numbers::share(*count, all)),
            ]);
            rows.push(Row { cells, begins: place == 0 && (begins(index, &groups) || (index > 0 && groups.len() > 1)) });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let note = "An operation that was retried is several attempts and one outcome.";
    let repeats = if groups.iter().any(|group| group.usable().count() > 1) { " Repeats are added up." } else { "" };
    Some(Table {
        title: "Attempts by result".to_owned(),
        note: format!("{note}{repeats}"),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}

fn added_up(group: &Group) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (result, count) in group.usable().flat_map(|trial| &trial.attempt_results) {
        *sums.entry(result.clone()).or_default() += count;
    }
    sums
}
