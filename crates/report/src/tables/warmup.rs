//! Table: figures after the warm-up beside those of the whole load, so that one sees whether the ramp favoured a side. It must not
//! say which of the two is right: those after the warm-up are the run's.

use record::results::Trial;

use super::{Cell, Column, Kind, Row, Table, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Figure, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "warmup", place: 58, fill };

/// Heading, what it means, the figure after the warm-up, with it, and how it is written.
type Pair = (&'static str, &'static str, Figure, Figure, fn(f64) -> String);

const PAIRS: [Pair; 5] = [
    (
        "calls/s",
        "ok operations per second",
        |trial| trial.throughput.operations_per_s,
        |trial| trial.with_warmup.operations_per_s,
        numbers::number,
    ),
    (
        "cycles/s",
        "full cycles per second",
        |trial| trial.throughput.cycles_per_s.filter(|_| has_steps(trial)),
        |trial| trial.with_warmup.cycles_per_s.filter(|_| has_steps(trial)),
        numbers::number,
    ),
    (
        "p50",
        "median latency of ok operations",
        |trial| trial.latency_us?.p50,
        |trial| trial.with_warmup.latency_us?.p50,
        numbers::micros,
    ),
    (
        "p99",
        "99 of 100 ok operations were answered within it",
        |trial| trial.latency_us?.p99,
        |trial| trial.with_warmup.latency_us?.p99,
        numbers::micros,
    ),
    (
        "energy/cycle",
        "energy for each cycle, modelled from the profile's watts and the CPU",
        |trial| trial.cost.joules_per_cycle,
        |trial| trial.cost.with_warmup.joules_per_cycle,
        numbers::joules,
    ),
];

/// Whether a cycle is more than one operation, so that cycles tell something that operations do not.
fn has_steps(trial: &Trial) -> bool {
    let rates = trial.throughput.cycles_per_s.zip(trial.throughput.operations_per_s);
    rates.is_some_and(|(cycles_per_s, operations_per_s)| cycles_per_s < 0.95 * operations_per_s)
}

const MANY: usize = 12;

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let has_both = |(_, _, cut, whole, _): &Pair| {
        input.results.trials.iter().any(|trial| cut(trial).is_some() && whole(trial).is_some())
    };
    let pairs: Vec<Pair> = PAIRS.into_iter().filter(has_both).collect();
    if pairs.is_empty() {
        return None;
    }
    let mut columns = label_columns(&groups);
    for (head, explained, ..) in &pairs {
        columns.push(Column::numeric(head, &format!("{explained}, after the warm-up")));
        let whole = format!("{explained}, over the whole load; below, how much that differs");
        columns.push(Column::numeric("with it", &whole));
    }
    let row = |(index, group): (usize, &crate::facts::Group)| {
        let mut cells = label_cells(group, &groups);
        for &(_, _, cut, whole, write) in &pairs {
            let (after, with) = (group.spread(cut), group.spread(whole));
            // Of each trial, so that no repeat is held against another's.
            let difference = group.spread(|trial| {
                let after = cut(trial).filter(|after| *after > 0.0)?;
                Some(100.0 * (whole(trial)? / after - 1.0))
            });
            cells.push(Cell::of(after, |spread| write(spread.median)));
            let differs = difference.map_or_else(String::new, |spread| numbers::change(spread.median));
            cells.push(Cell::of(with, |spread| write(spread.median)).with(differs));
        }
        Row { cells, begins: begins(index, &groups) }
    };
    let rows: Vec<Row> = groups.iter().enumerate().map(row).collect();
    Some(Table {
        title: "With and without the warm-up".to_owned(),
        note: "Where the differences of two rows are unlike, the ramp and the warm-up favoured one of them; all other figures of this \
               page are without."
            .to_owned(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}
