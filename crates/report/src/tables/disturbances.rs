//! Table: outages that no fault explains.

use record::results::{Disturbance, Trial};

use super::outages::back;
use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::facts::trial_name;
use crate::numbers;

pub const KIND: Kind = Kind { name: "disturbances", place: 41, fill };

/// Rows beyond which the table is folded.
const MANY: usize = 12;

const COLUMNS: [(&str, &str); 6] = [
    ("failed", "operations that ended with an error or without an answer in time, until service was as before"),
    ("wrong", "answers that contradict what the client did before, until then"),
    ("no service", "time in which nothing succeeded"),
    ("partial", "time in which some operations failed while others succeeded"),
    ("back after", "until service was as before, for good"),
    ("lost operations", "ok operations missing against the time before"),
];

fn fill(input: &Input) -> Option<Table> {
    let several = input.results.trials.len() > 1;
    let mut columns = if several { vec![Column::text("trial")] } else { Vec::new() };
    columns.push(Column::numeric("at", "when it began, from load start").brief());
    columns.extend(COLUMNS.map(|(head, explained)| Column::numeric(head, explained).brief()));
    let of_trial = |trial: &Trial, one: &Disturbance| {
        let mut cells = Vec::new();
        if several {
            cells.push(Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)));
        }
        cells.push(Cell::new(numbers::moment(one.at_s)));
        cells.extend(felt(one));
        Row { cells, begins: false }
    };
    let trials = input.results.trials.iter();
    let rows: Vec<Row> =
        trials.flat_map(|trial| trial.disturbances.iter().map(move |one| of_trial(trial, one))).collect();
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: "Outages that no fault explains".to_owned(),
        note: "Something else broke, or the target did so of its own accord. Times but the first count from the moment it began."
            .to_owned(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

fn felt(one: &Disturbance) -> Vec<Cell> {
    let count = |count: u64| {
        let cell = Cell::new(numbers::count(count));
        if count > 0 { cell.toned(Tone::Bad) } else { cell }
    };
    let outage = &one.outage;
    vec![
        count(outage.failed),
        count(outage.wrong),
        Cell::of(outage.total_s, numbers::seconds),
        Cell::of(outage.partial_s, numbers::seconds),
        back(outage),
        Cell::of(outage.lost_operations, |lost| numbers::count_in_words(lost.max(0.0).round() as u64)),
    ]
}
