//! Table: what the target's processes wrote that the target itself calls notable, in their own words.

use record::results::{Said, Trial};

use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::facts::trial_name;
use crate::numbers;

pub const KIND: Kind = Kind { name: "said", place: 42, fill };

/// Rows beyond which the table is folded.
const MANY: usize = 12;

fn fill(input: &Input) -> Option<Table> {
    let several = input.results.trials.len() > 1;
    let mut columns = if several { vec![Column::text("trial")] } else { Vec::new() };
    columns.push(Column::numeric("first", "when it was first read, from load start; negative: before it").brief());
    columns.extend(["host", "role", "line"].map(Column::text));
    columns.push(Column::numeric("times", "lines with the same text in them").brief());
    let of_trial = |trial: &Trial, said: &Said| {
        let mut cells = Vec::new();
        if several {
            cells.push(Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)));
        }
        let line =
            Cell::new(said.line.clone()).with(if said.alarming { "alarming, by the target's own list" } else { "" });
        let tone = if said.alarming { Tone::Bad } else { Tone::Plain };
        cells.push(Cell::new(numbers::moment(said.at_s)));
        cells.extend([Cell::new(said.host.clone()), Cell::new(said.role.clone()), line.toned(tone)]);
        cells.push(Cell::new(numbers::count(said.count)));
        Row { cells, begins: false }
    };
    let trials = input.results.trials.iter();
    let rows: Vec<Row> = trials.flat_map(|trial| trial.said.iter().map(move |said| of_trial(trial, said))).collect();
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: "What the members said".to_owned(),
        note: "Lines of their logs that the target's `[log]` names; of those with one text the first. The whole logs are in each \
               trial's folder."
            .to_owned(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}
