//! Table: the load generator's own health.

use record::results::Trial;

use super::{Cell, Column, Kind, Row, Table, Tone, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "generator", place: 54, fill };

const MANY: usize = 12;

const COLUMNS: [(&str, &str); 8] = [
    ("CPU", "of its busiest thread, percent of a core, 95th percentile over the seconds"),
    (
        "kept from it",
        "time in which a thread could run and did not, of its worst thread; below, the strangers' part of that",
    ),
    ("throttled", "time in which a CPU quota of Plimsoll's own groups kept it from running, summed over CPUs"),
    ("lateness p99", "how late its timers fired, in the worst second"),
    ("Little's law", "how far operations in flight are from rate times latency: a check on the bookkeeping"),
    ("connects failed", "connections that could not be opened"),
    ("dropped", "operations that should have started and did not"),
    ("held back by", "what limited the generator"),
];

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    if !input.results.trials.iter().any(known) {
        return None;
    }
    let mut columns = label_columns(&groups);
    columns.extend(COLUMNS.map(|(head, explained)| Column::numeric(head, explained)));
    let rows: Vec<Row> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let mut cells = label_cells(group, &groups);
            cells.extend(health(group));
            Row { cells, begins: begins(index, &groups) }
        })
        .collect();
    Some(Table {
        title: "Load generator".to_owned(),
        note: "Past its limits the generator measures itself and not the target; the verdict says so.".to_owned(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

fn known(trial: &Trial) -> bool {
    trial.generator.cpu_pct.is_some() || !trial.generator.limit.is_empty()
}

fn health(group: &Group) -> Vec<Cell> {
    let of = |value: fn(&Trial) -> Option<f64>, write: fn(f64) -> String| Cell::spread(group.spread(value), write);
    let count = |value: fn(&Trial) -> Option<u64>| {
        let spread = group.spread(|trial| value(trial).map(|count| count as f64));
        Cell::spread(spread, numbers::median_count)
    };
    let mut limits: Vec<&str> = group.usable().map(|trial| trial.generator.limit.as_str()).collect();
    limits.retain(|limit| !limit.is_empty());
    limits.sort_unstable();
    limits.dedup();
    let limit = match limits.as_slice() {
        [] => Cell::new(numbers::NONE),
        ["none"] => Cell::new("nothing").toned(Tone::Good),
        limits => Cell::new(limits.join(", ")).toned(Tone::Bad),
    };
    let preempted = group.spread(|trial| trial.generator.preempted_pct);
    let strangers =
        preempted.map_or_else(String::new, |spread| format!("strangers {}", numbers::percent(spread.median)));
    vec![
        of(|trial| trial.generator.cpu_pct, numbers::percent),
        of(|trial| trial.generator.run_delay_pct, numbers::percent).with(strangers),
        of(|trial| trial.generator.throttled_pct, numbers::percent),
        of(|trial| trial.generator.late_us_p99, numbers::micros),
        of(|trial| trial.generator.littles_law_error_pct, |error| format!("off by {}", numbers::percent(error))),
        count(|trial| trial.generator.connect_failures),
        count(|trial| trial.generator.dropped),
        limit,
    ]
}
