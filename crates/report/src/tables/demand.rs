//! Table of the hosts that each variant needs for `[demand]`.

use analysis::answer::sweeps::interval;
use analysis::trial_groups::{curve_name, short};
use record::results::DemandedHosts;
use text::{numbers, of_json};

use super::{Cell, Column, Row, Table};
use crate::ReportInput;

const MANY: usize = 12;

pub fn hosts(input: &ReportInput) -> Option<Table> {
    let rows = &input.results.demanded_hosts;
    let first = rows.first()?;
    let with_name = rows.len() > 1;
    let with_load = rows.iter().any(|row| !load(row).is_empty());
    let with_price = rows.iter().any(|row| row.price.is_some());
    let mut columns: Vec<Column> = with_name.then(|| Column::text("curve")).into_iter().collect();
    columns.extend(with_load.then(|| Column::text("at")));
    columns.extend([
        Column::numeric("a host carries", "throughput of all hosts, divided by their number").brief(),
        Column::numeric("measured on", "hosts that carried it in this run, without balancers"),
        Column::numeric("hosts needed", "the number of hosts that carry the demand").brief(),
    ]);
    columns.extend(with_price.then(|| Column::numeric("price", "of that number of hosts, by their profiles").brief()));
    let note = format!(
        "For {} of {}. The throughput of hosts is assumed to add up, which is the best case: coordination costs grow \
         with the number of members. Below a figure its 95 % interval, if there were enough repeats.",
        numbers::by_metric(&first.metric, first.at_least),
        first.metric,
    );
    let rows = rows.iter().map(|row| Row::of(cells(row, with_name, with_load, with_price)));
    Some(Table { rows: rows.collect(), ..Table::new("Hosts for the demand", &note, columns) }.folded_beyond(MANY))
}

fn cells(row: &DemandedHosts, with_name: bool, with_load: bool, with_price: bool) -> Vec<Cell> {
    let mut at = row.at.clone();
    at.retain(|path, _| !path.starts_with("load."));
    let mut cells: Vec<Cell> = with_name.then(|| Cell::new(curve_name(&row.variant, &at))).into_iter().collect();
    cells.extend(with_load.then(|| Cell::new(load(row))));
    cells.extend([
        Cell::of(row.per_host, |carried| numbers::by_metric(&row.metric, carried))
            .with(interval(Some(row.per_host_ci95))),
        Cell::new(numbers::count(u64::from(row.measured_hosts))),
        Cell::of(row.hosts, numbers::count).with(hosts_interval(row)),
    ]);
    let currency = row.currency.as_deref().unwrap_or_default();
    cells.extend(with_price.then(|| Cell::of(row.price, |amount| numbers::money(amount, currency))));
    cells
}

fn hosts_interval(row: &DemandedHosts) -> String {
    interval(Some(row.hosts_ci95.map(|end| end.map(|hosts| hosts as f64))))
}

/// Returns a text such as `races 8`.
fn load(row: &DemandedHosts) -> String {
    let loads = row.at.iter().filter(|(path, _)| path.starts_with("load."));
    loads.map(|(path, value)| format!("{} {}", short(path), of_json(value))).collect::<Vec<_>>().join(", ")
}
