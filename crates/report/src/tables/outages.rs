//! Tables of what went wrong: what clients felt of each fault, outages that no fault explains, and what the target said meanwhile.

use record::results::{Disturbance, Fault, Outage, OutageDistribution, Said, Spread, Trial};

use super::{Cell, Column, Row, Table, Tone};
use crate::groups::{planned, trial_name};
use crate::run_charts::{name, repeated};
use crate::{ReportInput, numbers};

/// Rows beyond which the table is folded: the comparison stands above it then.
const MANY: usize = 12;

const OUTAGE_COLUMNS: [(&str, &str); 12] = [
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
    ("recovered after", "from the fault until service was as before, for good: throughput within 5 % of its baseline"),
    ("overshoot", "throughput beyond the baseline while a backlog drained, and until when"),
    (
        "lost operations",
        "ok operations missing against the baseline until then, those made up for not counted; 95 % interval",
    ),
    ("memory released", "largest fall of the target's resident memory within 5 s of the fault"),
    ("baseline", "ok operations per second before the fault, 95 % interval"),
];

/// Columns that the narrow terminal has, too.
const BRIEF: [&str; 6] = ["failed", "wrong", "first failure", "first ok", "no service", "recovered after"];

pub fn outages(input: &ReportInput) -> Option<Table> {
    let several = input.results.trials.len() > 1;
    let mut columns = if several { vec![Column::text("trial")] } else { Vec::new() };
    columns.push(Column::text("fault"));
    columns.extend(OUTAGE_COLUMNS.map(|(head, explained)| {
        let column = Column::numeric(head, explained);
        if BRIEF.contains(&head) { column.brief() } else { column }
    }));
    let blocks = input.results.trials.iter().any(|trial| trial.faults.len() > 1);
    let mut rows = Vec::new();
    for trial in &input.results.trials {
        for (index, fault) in trial.faults.iter().filter(|fault| !stands(input, &trial.id, fault)).enumerate() {
            let mut cells = Vec::new();
            if several {
                cells.push(Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)));
            }
            cells.push(fault_name(fault));
            cells.extend(felt(trial, fault));
            rows.push(Row { cells, begins: blocks && index == 0 && !rows.is_empty() });
        }
    }
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        title: "Effect of each fault on clients".to_owned(),
        note: note(input),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: OUTAGE_COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

/// Whether it is a condition of the trial, there before the load began: nobody felt it begin.
fn stands(input: &ReportInput, trial: &str, fault: &Fault) -> bool {
    let planned = planned(input.plan, trial).into_iter().flat_map(|trial| &trial.faults);
    planned.into_iter().any(|planned| planned.standing && planned.name == fault.name)
}

fn note(input: &ReportInput) -> String {
    let members = input.results.trials.iter().any(|trial| trial.hosts.len() > 1);
    let over_all = " They are over all members: while one is down, the others go on, and service does not break off.";
    format!("Times count from the moment the fault began.{}", if members { over_all } else { "" })
}

fn fault_name(fault: &Fault) -> Cell {
    let label = if fault.label.is_empty() { &fault.kind } else { &fault.label };
    let times = if fault.number > 1 { format!(" #{}", fault.number) } else { String::new() };
    let on = if fault.on.is_empty() { String::new() } else { format!("{} ", fault.on) };
    Cell::new(format!("{}{times}", fault.name)).with(format!("{label}: {on}at {}", numbers::moment(fault.at_s)))
}

fn felt(trial: &Trial, fault: &Fault) -> Vec<Cell> {
    if let Some(reason) = &fault.failed {
        let mut cells = vec![Cell::new("not injected").with(reason.clone()).toned(Tone::Bad)];
        cells.resize(OUTAGE_COLUMNS.len(), Cell::new(numbers::NONE));
        return cells;
    }
    let Some(outage) = &fault.outage else {
        return vec![Cell::new(numbers::NONE); OUTAGE_COLUMNS.len()];
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

fn interval(ci95: Option<[f64; 2]>, write: fn(f64) -> String) -> String {
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
    let all = crate::groups::operations(trial);
    (all > 0 && outage.failed > 0).then(|| format!("of {}", numbers::count_in_words(all)))
}

fn back(outage: &Outage) -> Cell {
    match (outage.back_to_baseline_s, outage.baseline_per_s) {
        (Some(back), _) => Cell::new(numbers::seconds(back)),
        (None, Some(_)) => Cell::new("never").with("within the trial").toned(Tone::Bad),
        (None, None) => Cell::new(numbers::NONE),
    }
}

const RECOVERY_COLUMNS: [(&str, &str); 7] = [
    ("occurrences", "in trials that are not void"),
    ("first ok", "median time to the first operation that succeeded again, 95 % interval"),
    ("recovered after", "median time until service was as before, for good, 95 % interval"),
    ("p90", "nine of ten had recovered after this"),
    ("longest", "the one that took longest"),
    ("failed", "median of the operations that failed, 95 % interval"),
    ("lost operations", "median of the ok operations missing against the baseline, 95 % interval"),
];

pub fn recovery(input: &ReportInput) -> Option<Table> {
    let repeated: Vec<&OutageDistribution> = repeated(input.results).collect();
    if repeated.is_empty() {
        return None;
    }
    let named = repeated.iter().any(|of| !name(of, input).is_empty());
    let mut columns = vec![Column::text("fault")];
    columns.extend(named.then(|| Column::text("with")));
    columns.extend(RECOVERY_COLUMNS.map(|(head, explained)| Column::numeric(head, explained)));
    let rows = repeated.into_iter().map(|of| {
        let mut cells = vec![Cell::new(of.fault.clone())];
        cells.extend(named.then(|| Cell::new(name(of, input))));
        cells.extend(figures(of));
        Row { cells, begins: false }
    });
    Some(Table {
        title: "Each fault over all its occurrences".to_owned(),
        note: "Service that was never back counts as longer than all others. A quantile that too few occurrences support is left out: \
               the median takes 5, its interval 6, p90 29."
            .to_owned(),
        columns,
        rows: rows.collect(),
        terms: RECOVERY_COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
        folded: false,
    })
}

fn figures(of: &OutageDistribution) -> Vec<Cell> {
    let figure = |name: &str| of.figures.get(name).cloned().unwrap_or_default();
    let median =
        |spread: &Spread, write: fn(f64) -> String| Cell::of(spread.p50, write).with(interval(spread.p50_ci95, write));
    let back = figure("back_to_baseline_s");
    let longest = match (back.max, of.never_back) {
        (_, 1..) => Cell::new("never").with(format!("{} of {}", of.never_back, of.count)).toned(Tone::Bad),
        (longest, 0) => Cell::of(longest, numbers::seconds),
    };
    vec![
        Cell::new(numbers::count(of.count)),
        median(&figure("first_ok_s"), numbers::seconds),
        median(&back, numbers::seconds),
        Cell::of(back.p90, numbers::seconds),
        longest,
        median(&figure("failed"), numbers::median_count),
        median(&figure("lost_operations"), |lost| numbers::median_count_in_words(lost.max(0.0).round())),
    ]
}

const DISTURBANCE_COLUMNS: [(&str, &str); 6] = [
    ("failed", "operations that ended with an error or without an answer in time, until service was as before"),
    ("wrong", "answers that contradict what the client did before, until then"),
    ("no service", "time in which nothing succeeded"),
    ("partial", "time in which some operations failed while others succeeded"),
    ("recovered after", "until service was as before, for good"),
    ("lost operations", "ok operations missing against the time before"),
];

pub fn disturbances(input: &ReportInput) -> Option<Table> {
    let several = input.results.trials.len() > 1;
    let mut columns = if several { vec![Column::text("trial")] } else { Vec::new() };
    columns.push(Column::numeric("at", "when it began, from load start").brief());
    columns.extend(DISTURBANCE_COLUMNS.map(|(head, explained)| Column::numeric(head, explained).brief()));
    let of_trial = |trial: &Trial, one: &Disturbance| {
        let mut cells = Vec::new();
        if several {
            cells.push(Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)));
        }
        cells.push(Cell::new(numbers::moment(one.at_s)));
        cells.extend(felt_unexplained(one));
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
        note: "Something else failed, or the target did by itself. All times but the first count from the start of the outage."
            .to_owned(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: DISTURBANCE_COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

fn felt_unexplained(one: &Disturbance) -> Vec<Cell> {
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

pub fn said(input: &ReportInput) -> Option<Table> {
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
