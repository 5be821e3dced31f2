//! Table: what clients felt of each fault.

use record::results::{Fault, Outage, Trial};

use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::facts::trial_name;
use crate::numbers;

pub const KIND: Kind = Kind { name: "outages", place: 2, fill };

/// Rows beyond which the table is folded: the comparison stands above it then.
const MANY: usize = 12;

const COLUMNS: [(&str, &str); 12] = [
    ("failed", "operations that ended with an error or without an answer in time, while the fault was felt"),
    ("wrong", "answers that contradict what the client did before, while the fault was felt"),
    ("first failure", "from the fault to the first operation that failed"),
    ("first ok", "from the fault to the first operation that succeeded again after service broke off"),
    ("no service", "time in which nothing succeeded"),
    ("partial", "time in which some operations failed while others succeeded"),
    (
        "degraded",
        "time in which nothing failed and throughput was below the bound, or latency far above the baseline's",
    ),
    ("back after", "from the fault until service was as before, for good: throughput within 5 % of its baseline"),
    ("overshoot", "throughput beyond the baseline while a backlog drained, and until when"),
    (
        "lost operations",
        "ok operations missing against the baseline until then, those made up for not counted; 95 % interval",
    ),
    ("memory released", "largest fall of the target's resident memory within 5 s of the fault"),
    ("baseline", "ok operations per second before the fault, 95 % interval"),
];

/// Columns that the narrow terminal has, too.
const BRIEF: [&str; 6] = ["failed", "wrong", "first failure", "first ok", "no service", "back after"];

fn fill(input: &Input) -> Option<Table> {
    let several = input.results.trials.len() > 1;
    let mut columns = if several { vec![Column::text("trial")] } else { Vec::new() };
    columns.push(Column::text("fault"));
    columns.extend(COLUMNS.map(|(head, explained)| {
        let column = Column::numeric(head, explained);
        if BRIEF.contains(&head) { column.brief() } else { column }
    }));
    let blocks = input.results.trials.iter().any(|trial| trial.faults.len() > 1);
    let mut rows = Vec::new();
    for trial in &input.results.trials {
        for (index, fault) in trial.faults.iter().enumerate() {
            let mut cells = Vec::new();
            if several {
                cells.push(Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)));
            }
            cells.push(name(fault));
            cells.extend(felt(trial, fault));
            rows.push(Row { cells, begins: blocks && index == 0 && !rows.is_empty() });
        }
    }
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: "What clients felt of each fault".to_owned(),
        note: note(input),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

fn note(input: &Input) -> String {
    let members = input.results.trials.iter().any(|trial| trial.hosts.len() > 1);
    let over_all = " They are over all members: while one is down, the others go on, and service does not break off.";
    format!("Times count from the moment the fault began.{}", if members { over_all } else { "" })
}

fn name(fault: &Fault) -> Cell {
    let label = if fault.label.is_empty() { &fault.kind } else { &fault.label };
    let times = if fault.number > 1 { format!(" #{}", fault.number) } else { String::new() };
    let on = if fault.on.is_empty() { String::new() } else { format!("{} ", fault.on) };
    Cell::new(format!("{}{times}", fault.name)).with(format!("{label}: {on}at {}", numbers::moment(fault.at_s)))
}

fn felt(trial: &Trial, fault: &Fault) -> Vec<Cell> {
    if let Some(reason) = &fault.failed {
        let mut cells = vec![Cell::new("not injected").with(reason.clone()).toned(Tone::Bad)];
        cells.resize(COLUMNS.len(), Cell::new(numbers::NONE));
        return cells;
    }
    let Some(outage) = &fault.outage else {
        return vec![Cell::new(numbers::NONE); COLUMNS.len()];
    };
    let loss = |count: u64| {
        let tone = if count == 0 { Tone::Good } else { Tone::Bad };
        Cell::new(numbers::count(count)).toned(tone)
    };
    let failed = match share(outage, trial) {
        Some(share) => loss(outage.failed).with(share),
        None => loss(outage.failed),
    };
    vec![
        failed,
        loss(outage.wrong),
        Cell::of(outage.first_failure_s, numbers::seconds),
        Cell::of(outage.first_ok_s, numbers::seconds),
        Cell::of(outage.total_s, numbers::seconds),
        Cell::of(outage.partial_s, numbers::seconds),
        Cell::of(outage.degraded_s, numbers::seconds),
        back(outage),
        overshoot(outage),
        Cell::of(outage.lost_operations, whole).with(interval(outage.lost_operations_ci95, whole)),
        Cell::of(outage.memory_released_bytes, |bytes| numbers::bytes(bytes as f64)),
        Cell::of(outage.baseline_per_s, numbers::rate).with(interval(outage.baseline_ci95, numbers::rate)),
    ]
}

/// Of operations: more than expected are none lost.
fn whole(lost: f64) -> String {
    numbers::count_in_words(lost.max(0.0).round() as u64)
}

pub(super) fn interval(ci95: Option<[f64; 2]>, write: fn(f64) -> String) -> String {
    let ends = ci95.map(|ends| ends.map(write)).filter(|[low, high]| low != high);
    ends.map_or_else(String::new, |[low, high]| numbers::from_to(&low, &high))
}

fn overshoot(outage: &Outage) -> Cell {
    let until = match outage.overshoot_until_s {
        Some(until) => format!("until {}", numbers::seconds(until)),
        None => "to the end".to_owned(),
    };
    let cell = Cell::of(outage.overshoot_ratio, |ratio| format!("{} ×", numbers::number(ratio)));
    if outage.overshoot_ratio.is_some() { cell.with(until) } else { cell }
}

fn share(outage: &Outage, trial: &Trial) -> Option<String> {
    let all = crate::facts::operations(trial);
    (all > 0 && outage.failed > 0).then(|| format!("of {}", numbers::count_in_words(all)))
}

pub(super) fn back(outage: &Outage) -> Cell {
    match (outage.back_to_baseline_s, outage.baseline_per_s) {
        (Some(back), _) => Cell::new(numbers::seconds(back)),
        (None, Some(_)) => Cell::new("never").with("within the trial").toned(Tone::Bad),
        (None, None) => Cell::new(numbers::NONE),
    }
}
