//! Table: every host over the load.

use record::results::{Host, Machine, Trial};

use super::{Cell, Column, Kind, Row, Table, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "hosts", place: 52, fill };

const MANY: usize = 12;

/// Heading, meaning, value and how it is written.
type Figure = (&'static str, &'static str, fn(&Trial, &Host) -> Option<f64>, fn(f64) -> String);

const FIGURES: [Figure; 14] = [
    ("CPU", "mean, of all cores", |_, host| host.cpu_pct, numbers::percent),
    ("CPU of target", "mean of the target's processes, of all cores", |_, host| host.target_cpu_pct, numbers::percent),
    (
        "strangers",
        "mean CPU of neither target nor Plimsoll",
        |trial, host| of_machine(trial, host)?.strangers_cpu_pct,
        numbers::percent,
    ),
    (
        "I/O wait",
        "idle while a task waited for a disk",
        |trial, host| of_machine(trial, host)?.iowait_pct,
        numbers::percent,
    ),
    ("steal", "taken by the hypervisor", |trial, host| of_machine(trial, host)?.steal_pct, numbers::percent),
    ("throttled", "by a quota", |_, host| host.throttled_pct, numbers::percent),
    ("run delay", "runnable but not running", |_, host| host.run_delay_pct, numbers::percent),
    ("load 1 min", "highest", |_, host| host.load1_max, numbers::number),
    ("load 15 min", "highest", |_, host| host.load15_max, numbers::number),
    ("resident", "largest, of the target's processes", |_, host| host.rss_max_bytes.map(|b| b as f64), numbers::bytes),
    ("out of memory", "processes killed", |_, host| host.oom_kills.map(|k| k as f64), numbers::number),
    ("disk written", "by the host", |_, host| host.disk_write_bytes.map(|bytes| bytes as f64), numbers::bytes),
    ("network", "received and sent", |_, host| host.net_bytes.map(|bytes| bytes as f64), numbers::bytes),
    (
        "power",
        "mean; see below where it comes from",
        |_, host| host.watts,
        |watts| format!("{} W", numbers::number(watts)),
    ),
];

/// The machine's figures, where the machine is the host.
fn of_machine<'a>(trial: &'a Trial, host: &Host) -> Option<&'a Machine> {
    host.kind.is_none().then_some(&trial.machine)
}

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let mut columns = label_columns(&groups);
    columns.push(Column::text("host"));
    let hosts = || input.results.trials.iter().flat_map(|trial| trial.hosts.iter().map(move |host| (trial, host)));
    // A column that no host has says nothing: what a machine lacks is told once, below.
    let (shown, missing): (Vec<&Figure>, Vec<&Figure>) =
        FIGURES.iter().partition(|figure| hosts().any(|(trial, host)| (figure.2)(trial, host).is_some()));
    columns.extend(shown.iter().map(|figure| Column::numeric(figure.0, figure.1)));
    let mut rows = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        for (place, name) in names(group).into_iter().enumerate() {
            let mut cells = label_cells(group, &groups);
            cells.push(Cell::new(name));
            cells.extend(shown.iter().map(|figure| figure_of(group, name, figure)));
            rows.push(Row { cells, begins: place == 0 && begins(index, &groups) });
        }
    }
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: "Hosts".to_owned(),
        note: note(
            &missing,
            hosts().filter_map(|(_, host)| host.watts_source.as_deref()),
            input.results.trials.iter().filter_map(|trial| trial.machine.not_judged.as_deref()),
        ),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}

fn figure_of(group: &Group, name: &str, figure: &Figure) -> Cell {
    let value = |trial: &Trial| figure.2(trial, trial.hosts.iter().find(|host| host.name == name)?);
    Cell::spread(group.spread(value), figure.3)
}

fn note<'a>(
    missing: &[&Figure],
    mut sources: impl Iterator<Item = &'a str>,
    mut not_judged: impl Iterator<Item = &'a str>,
) -> String {
    let mut note = "Over the whole load.".to_owned();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|figure| figure.0).collect();
        note.push_str(&format!(" Not measured: {}.", names.join(", ")));
    }
    if let Some(why) = not_judged.next() {
        note.push_str(&format!(" Other processes were not judged: {why}."));
    }
    if let Some(source) = sources.next() {
        let origin = if source == "rapl" {
            "measured by the processor (RAPL)"
        } else {
            "modelled from the profile's watts and the CPU after the warm-up"
        };
        note.push_str(&format!(" Power is {origin}."));
    }
    note
}

fn names<'a>(group: &Group<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for host in group.trials.iter().flat_map(|trial| &trial.hosts) {
        if !names.contains(&host.name.as_str()) {
            names.push(&host.name);
        }
    }
    names
}
