//! Table of a fleet's generators, which shows whether a load-generating machine was slower than the
//! others.

use analysis::trial_groups::{Group, groups};
use record::results::GeneratorFigures;
use text::{distinct, numbers};

use super::{Cell, Column, Table};
use crate::ReportInput;

const MANY: usize = 12;

/// Heading, meaning, figure and format.
type GeneratorColumn = (&'static str, &'static str, fn(&GeneratorFigures) -> Option<f64>, fn(f64) -> String);

const COLUMNS: [GeneratorColumn; 5] = [
    ("ops/s", "that ended, in the measured part", |one| one.operations_per_s, numbers::number),
    ("carried", "of the operations that were due", |one| one.carried_pct, numbers::percent),
    ("mean latency", "of its operations", |one| one.latency_us_mean, numbers::micros),
    ("CPU", "of its busiest thread, percent of a core, mean", |one| one.cpu_pct, numbers::percent),
    ("lateness p99", "how late its timers fired, in its worst second", |one| one.late_us_p99, numbers::micros),
];

pub fn generators(input: &ReportInput) -> Option<Table> {
    let all: Vec<&GeneratorFigures> = input.results.trials.iter().flat_map(|trial| &trial.generator.each).collect();
    let shown: Vec<&GeneratorColumn> =
        COLUMNS.iter().filter(|column| all.iter().any(|one| (column.2)(one).is_some())).collect();
    let mut columns = vec![Column::text("generator")];
    columns.extend(shown.iter().map(|(head, explained, ..)| Column::numeric(head, explained)));
    let rows = |group: &Group| {
        let names = group.counting().flat_map(|trial| trial.generator.each.iter().map(|one| one.name.as_str()));
        let names = distinct(names);
        // A single generator is the whole load, which the rest of the page covers.
        if names.len() < 2 {
            return Vec::new();
        }
        names.into_iter().map(|name| row(group, name, &shown)).collect()
    };
    let note = "The figures of each generator. If one is behind the others at the same load, the cause is its machine \
                and not the target.";
    let groups = groups(input.results, input.plan);
    Some(Table::new("Generators", note, columns).by_group(&groups, rows)?.folded_beyond(MANY).explained())
}

fn row(group: &Group, name: &str, columns: &[&GeneratorColumn]) -> Vec<Cell> {
    let mut cells = vec![Cell::new(name)];
    for (_, _, figure, write) in columns {
        let spread = group.spread(|trial| figure(trial.generator.each.iter().find(|one| one.name == name)?));
        cells.push(Cell::spread(spread, *write));
    }
    cells
}
