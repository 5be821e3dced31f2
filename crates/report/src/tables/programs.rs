//! Table of the programs that the target's manifest names, in the process trees of the target.

use analysis::trial_groups::{Group, groups};
use record::results::HostProgram;
use text::{Tone, distinct, numbers};

use super::{Cell, Column, Table};
use crate::ReportInput;

const MANY: usize = 12;

/// Heading, meaning, figure and format.
type ProgramFigure = (&'static str, &'static str, fn(&HostProgram) -> Option<f64>, fn(f64) -> String);

const FIGURES: [ProgramFigure; 6] = [
    ("CPU", "mean, of all cores", |program| program.cpu_pct, numbers::percent),
    ("resident", "largest", |program| program.rss_max_bytes.map(|bytes| bytes as f64), numbers::bytes),
    (
        "PSS",
        "largest, shared pages in parts",
        |program| program.pss_max_bytes.map(|bytes| bytes as f64),
        numbers::bytes,
    ),
    ("processes", "at the end", |program| program.processes_last.map(|count| count as f64), numbers::number),
    ("fewest", "processes in any second", |program| program.processes_min.map(|count| count as f64), numbers::number),
    (
        "replaced",
        "by a process of the same name",
        |program| program.replaced.map(|count| count as f64),
        numbers::number,
    ),
];

pub fn programs(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let figures = FIGURES.iter().map(|(head, explained, ..)| Column::numeric(head, explained));
    let columns = ["host", "process", "program"].map(Column::text).into_iter().chain(figures).collect();
    let note = "Programs that the target names in the trees of its processes, over the whole load; without children \
                that ended. A program that is gone at the end was not started again.";
    Some(Table::new("Programs", note, columns).by_group(&groups, rows)?.folded_beyond(MANY))
}

fn rows(group: &Group) -> Vec<Vec<Cell>> {
    let all = group.counting().flat_map(|trial| &trial.hosts).flat_map(|host| {
        host.programs.iter().map(|program| (host.name.as_str(), program.process.as_str(), program.name.as_str()))
    });
    distinct(all).into_iter().map(|names| row(group, names)).collect()
}

fn row(group: &Group, (host, process, name): (&str, &str, &str)) -> Vec<Cell> {
    let mut cells = [host, process, name].map(Cell::new).to_vec();
    for (head, _, figure, write) in &FIGURES {
        let spread = group.spread(|trial| {
            let mut programs = trial.hosts.iter().find(|known| known.name == host)?.programs.iter();
            figure(programs.find(|program| (program.process.as_str(), program.name.as_str()) == (process, name))?)
        });
        let is_gone = *head == "processes" && spread.is_some_and(|spread| spread.least == 0.0);
        let cell = Cell::spread(spread, *write);
        cells.push(if is_gone { cell.toned(Tone::Bad) } else { cell });
    }
    cells
}
