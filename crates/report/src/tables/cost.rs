//! Table: what a unit of work costs, for each variant at its peak throughput, and where a cycle is cheapest if that is elsewhere. It must
//! not show a modelled figure without saying that it is one.

use std::collections::BTreeMap;

use experiment::profile::Profile;
use record::results::PointCost;
use serde_json::Value;

use super::{Cell, Column, Kind, Row, Table};
use crate::Input;
use crate::facts::plain;
use crate::numbers;
use crate::sweep_charts::{curve_name, short};

pub const KIND: Kind = Kind { name: "cost", place: 10, fill };

/// Swept paths under it are loads.
const LOAD: &str = "load.";
const MANY: usize = 12;

fn fill(input: &Input) -> Option<Table> {
    let costs = &input.results.costs;
    let shown: Vec<&PointCost> = costs.iter().filter(|cost| cost.at_peak || cost.cheapest).collect();
    let first = shown.first()?;
    let with_name = shown.iter().any(|cost| name(cost) != name(first));
    let with_load = shown.iter().any(|cost| !load(cost).is_empty());
    let with_price = shown.iter().any(|cost| cost.price_per_million_cycles.is_some());
    let electricity = input.results.trials.iter().any(|trial| trial.cost.electricity_per_million_cycles.is_some());
    let mut columns: Vec<Column> = with_name.then(|| Column::text("curve")).into_iter().collect();
    columns.extend(with_load.then(|| Column::text("at")));
    columns.extend([
        Column::numeric("cycles/s", "full cycles per second, on the machines meant").brief(),
        Column::numeric("watts", "mean power of all hosts together").brief(),
        Column::numeric("energy/cycle", "energy for each cycle, after the warm-up").brief(),
        Column::numeric("with warm-up", "energy for each cycle, over the whole load"),
    ]);
    if with_price {
        columns.push(Column::numeric("price/million", "price of a million cycles, after the warm-up").brief());
        columns.push(Column::numeric("with warm-up", "price of a million cycles, over the whole load"));
    }
    let rows = shown.iter().map(|cost| Row { cells: cells(cost, with_name, with_load, with_price), begins: false });
    let rows: Vec<Row> = rows.collect();
    Some(Table {
        title: "Cost".to_owned(),
        note: note(costs, electricity),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: terms(electricity).into_iter().chain(profiles(input)).collect(),
    })
}

fn note(costs: &[PointCost], electricity: bool) -> String {
    let mut note = "Modelled from the profile's watts and the measured CPU, of all hosts of the lab. Below a figure its 95 % interval, \
                    where there were repeats enough."
        .to_owned();
    if electricity {
        note.push_str(" The price includes electricity.");
    }
    let mut lacking: Vec<String> = Vec::new();
    for cost in costs {
        let Some(lacks) = &cost.lacks else { continue };
        let who = if cost.variant.is_empty() { String::new() } else { format!("{}: ", cost.variant) };
        let said = format!(" {who}{lacks}");
        if !lacking.contains(&said) {
            lacking.push(said);
        }
    }
    note + &lacking.concat()
}

fn terms(electricity: bool) -> Vec<(String, String)> {
    let price = if electricity {
        "the hosts' prices, spread evenly over their lifetimes, and electricity"
    } else {
        "the hosts' prices, spread evenly over their lifetimes; electricity, cooling, space and staff are not in it"
    };
    [
        ("watts", "each host's idle watts and, by the share of its cores' capacity that was used, what is between idle and load watts"),
        ("price/million", price),
        ("peak", "where most cycles are completed of all loads of this curve"),
        ("cheapest", "where a cycle has the lowest price or, without prices, takes the least energy"),
    ]
    .map(|(term, meaning)| (term.to_owned(), meaning.to_owned()))
    .to_vec()
}

/// What each profile draws and costs, and who says so.
fn profiles(input: &Input) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for profile in input.plan.trials.iter().flat_map(|trial| &trial.lab.profiles) {
        let line = (profile.name.clone(), figures(profile));
        if !line.1.is_empty() && !seen.contains(&line) {
            seen.push(line);
        }
    }
    seen
}

fn figures(profile: &Profile) -> String {
    let source = |section: &str| {
        let found = profile.source.lines().find_map(|line| line.strip_prefix(section)?.strip_prefix(": "));
        found.map_or_else(String::new, |source| format!(" ({source})"))
    };
    let watts = |watts: f64| format!("{} W", numbers::number(watts));
    let power = profile.idle_watts.zip(profile.load_watts).map(|(idle, load)| {
        let range = if idle == load { watts(load) } else { numbers::from_to(&watts(idle), &watts(load)) };
        format!("{range}{}", source("power"))
    });
    let price = profile.price.as_ref().zip(profile.lifetime_years).map(|(price, years)| {
        let amount = numbers::money(price.amount, &price.currency);
        format!("{amount} over {} years{}", numbers::number(years), source("price"))
    });
    power.into_iter().chain(price).collect::<Vec<_>>().join("; ")
}

fn cells(cost: &PointCost, with_name: bool, with_load: bool, with_price: bool) -> Vec<Cell> {
    let which = match (cost.at_peak, cost.cheapest) {
        (true, true) => "peak, cheapest",
        (true, false) => "peak",
        _ => "cheapest",
    };
    let mut cells: Vec<Cell> = with_name.then(|| Cell::new(name(cost))).into_iter().collect();
    cells.extend(with_load.then(|| Cell::new(load(cost)).with(which)));
    let written = |value: Option<f64>, write: &dyn Fn(f64) -> String, ci95: Option<[f64; 2]>| {
        let ends = ci95.map(|ends| ends.map(write)).filter(|[low, high]| low != high);
        Cell::of(value, write).with(ends.map_or_else(String::new, |[low, high]| numbers::from_to(&low, &high)))
    };
    cells.extend([
        Cell::of(cost.cycles_per_s, numbers::number),
        Cell::of(cost.watts, numbers::number),
        written(cost.joules_per_cycle, &numbers::joules, cost.joules_per_cycle_ci95),
        Cell::of(cost.with_warmup.joules_per_cycle, numbers::joules),
    ]);
    if with_price {
        let currency = cost.currency.as_deref().unwrap_or_default();
        let ci95 = cost.price_per_million_cycles_ci95.map(|ends| ends.map(numbers::number));
        let range = ci95.filter(|[low, high]| low != high).map(|[low, high]| numbers::from_to(&low, &high));
        let money = |amount| numbers::money(amount, currency);
        cells.push(Cell::of(cost.price_per_million_cycles, money).with(range.unwrap_or_default()));
        cells.push(Cell::of(cost.with_warmup.price_per_million_cycles, money));
    }
    cells
}

/// What tells it from other curves; may be empty.
pub fn name(cost: &PointCost) -> String {
    let is_load = |path: &str| path.starts_with(LOAD);
    let at: BTreeMap<String, Value> = cost
        .point
        .iter()
        .filter(|(path, _)| !is_load(path))
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect();
    if cost.variant.is_empty() && at.is_empty() { String::new() } else { curve_name(&cost.variant, &at) }
}

/// `agents 32`.
fn load(cost: &PointCost) -> String {
    let loads = cost.point.iter().filter(|(path, _)| path.starts_with(LOAD));
    loads.map(|(path, value)| format!("{} {}", short(path), plain(value))).collect::<Vec<_>>().join(", ")
}
