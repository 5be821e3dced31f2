//! Table: each operation of the load by itself.

use record::results::{Operation, Quantiles, Trial};

use super::{Cell, Column, Kind, Row, Table, Tone, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "operations", place: 51, fill };

const MANY: usize = 16;

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let mut columns = label_columns(&groups);
    columns.push(Column::text("operation"));
    columns.extend(
        [
            ("ok/s", "after warm-up"),
            ("ok", "over the whole load"),
            ("failed", "definite errors"),
            ("timeout", "no answer in time"),
            ("wrong", "contradicting answers"),
            ("unfinished", "open when the drain ended; in no rate"),
            ("p50", "latency of ok ones"),
            ("p90", "latency of ok ones"),
            ("p99", "latency of ok ones"),
            ("p99.9", "latency of ok ones"),
            ("max", "latency of ok ones"),
            ("service p50", "from the send to the answer"),
            ("service p99", "from the send to the answer"),
            ("service max", "from the send to the answer"),
        ]
        .map(|(head, explained)| Column::numeric(head, explained)),
    );
    let mut rows = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        for (place, name) in names(group).into_iter().enumerate() {
            let mut cells = label_cells(group, &groups);
            cells.push(Cell::new(name));
            cells.extend(figures(group, name));
            rows.push(Row { cells, begins: index > 0 && place == 0 });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let repeats = if groups.iter().any(|group| group.trials.len() > 1) { " Medians over the repeats." } else { "" };
    Some(Table {
        title: "Operations".to_owned(),
        note: format!(
            "Latency runs from the intended start to the answer, service time from the send; both of ok operations. A quantile \
             is left out where too few operations support it: p99 takes 299, p99.9 takes 2,995.{repeats}"
        ),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}

fn names<'a>(group: &Group<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in group.trials.iter().flat_map(|trial| trial.operations.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn figures(group: &Group, name: &str) -> Vec<Cell> {
    let median = |value: &dyn Fn(&Operation) -> Option<f64>, write: fn(f64) -> String| {
        let spread = group.spread(|trial: &Trial| value(trial.operations.get(name)?));
        Cell::of(spread, |spread| write(spread.median))
    };
    let count = |value: fn(&Operation) -> u64, loss: bool| {
        let cell = median(&|operation| Some(value(operation) as f64), numbers::median_count);
        if loss && cell.text != "0" { cell.toned(Tone::Bad) } else { cell }
    };
    let latency = |quantile: fn(&Quantiles) -> Option<f64>| {
        median(&move |operation| quantile(&operation.latency_us?), numbers::micros)
    };
    let service = |quantile: fn(&Quantiles) -> Option<f64>| {
        median(&move |operation| quantile(&operation.service_us?), numbers::micros)
    };
    vec![
        median(&|operation| operation.throughput_per_s, numbers::number),
        count(|operation| operation.outcomes.ok, false),
        count(|operation| operation.outcomes.failed, true),
        count(|operation| operation.outcomes.timeout, true),
        count(|operation| operation.outcomes.wrong, true),
        count(|operation| operation.outcomes.unfinished, false),
        latency(|quantiles| quantiles.p50),
        latency(|quantiles| quantiles.p90),
        latency(|quantiles| quantiles.p99),
        latency(|quantiles| quantiles.p999),
        latency(|quantiles| quantiles.max),
        service(|quantiles| quantiles.p50),
        service(|quantiles| quantiles.p99),
        service(|quantiles| quantiles.max),
    ]
}
