//! Table: what each host of the lab got, so that a stranger knows what the figures are of.

use record::events::HostFigures;
use record::results::Host;

use super::{Cell, Column, Kind, Row, Table, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::groups;
use crate::numbers;

pub const KIND: Kind = Kind { name: "lab", place: 50, fill };

const MANY: usize = 12;

/// Heading, meaning, and the text where it is known.
type Figure = (&'static str, &'static str, fn(&HostFigures) -> Option<String>);

const FIGURES: [Figure; 8] = [
    ("address", "where the others reach it", |is| is.address.clone()),
    ("cores", "and what each can do, in cores of the machine that plays it", cores),
    ("CPUs", "of the machine, that it runs on", |is| is.cpus.clone()),
    ("memory", "", |is| is.memory_bytes.map(|bytes| numbers::bytes(bytes as f64))),
    ("link", "in each direction", |is| is.link_bits_per_s.map(|rate| format!("{}bit/s", numbers::tick(rate)))),
    ("reads", "4 KiB at random, before the load", |is| is.storage_read_per_s.map(per_s)),
    ("synced writes", "4 KiB at random, before the load", |is| is.storage_write_per_s.map(per_s)),
    ("sync", "mean, before the load", |is| is.storage_sync_us.map(numbers::micros)),
];

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let known = |host: &Host| host.kind.is_some();
    let hosts = || input.results.trials.iter().flat_map(|trial| &trial.hosts).filter(|host| known(host));
    let shown: Vec<&Figure> = FIGURES
        .iter()
        .filter(|figure| hosts().any(|host| host.figures.as_ref().is_some_and(|is| (figure.2)(is).is_some())))
        .collect();
    let mut columns = label_columns(&groups);
    columns.extend([Column::text("host"), Column::text("kind"), Column::text("profile")]);
    columns.extend(shown.iter().map(|figure| Column::numeric(figure.0, figure.1)));
    let mut rows = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        // Repeats have the same hosts.
        let first = group.trials.iter().find(|trial| trial.hosts.iter().any(known));
        for (place, host) in first.iter().flat_map(|trial| &trial.hosts).filter(|host| known(host)).enumerate() {
            let mut cells = label_cells(group, &groups);
            cells.extend([Some(&host.name), host.kind.as_ref(), host.profile.as_ref()].map(text));
            cells.extend(shown.iter().map(|figure| text(host.figures.as_ref().and_then(figure.2).as_ref())));
            rows.push(Row { cells, begins: place == 0 && begins(index, &groups) });
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Lab".to_owned(),
        note: note(input, hosts().filter_map(|host| host.figures.as_ref()?.storage_unmeasured.as_deref())),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}

fn text(value: Option<&String>) -> Cell {
    Cell::new(value.map_or(numbers::NONE, String::as_str))
}

/// `4 × 0.1`.
fn cores(is: &HostFigures) -> Option<String> {
    let cores = is.cores?;
    Some(is.core_speed.map_or_else(|| cores.to_string(), |speed| format!("{cores} × {}", numbers::number(speed))))
}

fn per_s(rate: f64) -> String {
    format!("{}/s", numbers::number(rate))
}

/// What is modelled, and what was not measured.
fn note<'a>(input: &Input, mut unmeasured: impl Iterator<Item = &'a str>) -> String {
    let mut notes = Vec::new();
    if let Some(emulated) = input.results.trials.iter().find_map(|trial| trial.emulated.as_ref()) {
        notes.push(
            "Emulated: profiles say what real machines of that kind can do, and the hosts are held to that.".to_owned(),
        );
        if (emulated.speed - 1.0).abs() > f64::EPSILON {
            notes.push(format!(
                "All of it, time included, ran at {} of real speed: rates divided by that, and times multiplied by it, are those of \
                 the machines meant.",
                numbers::number(emulated.speed)
            ));
        }
        if let Some(period_s) = emulated.granularity_s {
            notes
                .push(format!("A slow core is slow over {} and more, not over less.", numbers::micros(period_s * 1e6)));
        }
    }
    notes.extend(unmeasured.next().map(|why| format!("Storage was not measured: {why}.")));
    notes.join(" ")
}
