//! Table of the target's own metrics.

use analysis::trial_groups::{Group, groups};
use record::results::TargetMetric;
use record::rows::MetricKind;
use text::{distinct, numbers};

use super::{Cell, Column, Table};
use crate::ReportInput;

const MANY: usize = 12;

/// Name of a figure in a metric's path, and the figure.
type MetricFigure = (&'static str, fn(&TargetMetric) -> Option<f64>);

/// Heading, meaning and figure of each column. For a counter, only its growth is meaningful.
const COLUMNS: [(&str, &str, MetricFigure); 5] = [
    ("mean", "the hosts' means, added up", ("mean", |metric| of_gauge(metric, metric.mean))),
    ("highest", "the highest sum of all hosts in one second", ("max", |metric| of_gauge(metric, metric.max))),
    ("last", "the hosts' last values, added up", ("last", |metric| metric.last)),
    ("growth", "of a counter, over the measured part", ("increase", |metric| metric.increase)),
    ("per second", "its growth in each second", ("per_s", |metric| metric.per_s)),
];

fn of_gauge(metric: &TargetMetric, value: Option<f64>) -> Option<f64> {
    value.filter(|_| metric.kind == MetricKind::Gauge)
}

pub fn metrics(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let columns = COLUMNS.iter().map(|(head, explained, _)| Column::numeric(head, explained));
    let columns = [Column::text("metric")].into_iter().chain(columns).collect();
    let note = "The target's own metrics, from the measured part, summed over labels and hosts. analysis.json has the \
                figures of each host.";
    let table = Table::new("Metrics of the target", note, columns);
    Some(table.by_group(&groups, rows)?.folded_beyond(MANY).explained())
}

fn rows(group: &Group) -> Vec<Vec<Cell>> {
    let names = distinct(group.counting().flat_map(|trial| trial.metrics.keys()));
    names.into_iter().map(|name| row(group, name)).collect()
}

fn row(group: &Group, name: &str) -> Vec<Cell> {
    let mut cells = vec![Cell::new(name)];
    for (_, _, (figure, of)) in &COLUMNS {
        let spread = group.spread(|trial| of(trial.metrics.get(name)?));
        let write = |value| numbers::by_metric(&format!("metrics.{name}.{figure}"), value);
        cells.push(Cell::median(spread, write).over(spread.map(|spread| [spread.least, spread.most]), write));
    }
    cells
}
