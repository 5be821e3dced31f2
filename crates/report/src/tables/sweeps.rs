//! Tables of swept and searched loads: safe loads and the trials of their search, scaling laws,
//! crossings, and cost of a cycle.

use analysis::answer::sweeps::{cost_name, edge, interval, nowhere, surely};
use analysis::trial_groups::{curve_name, short};
use experiment::profile::Profile;
use record::events::SweepStop;
use record::results::{Crossing, Lead, PointCost, SafeLoad, Scaling, SearchStep};
use text::{Tone, distinct, listed, numbers, of_json};

use super::{Cell, Column, Row, Table};
use crate::ReportInput;

pub fn safe_loads(input: &ReportInput) -> Option<Table> {
    let lines = &input.results.safe_loads;
    let first = lines.first()?;
    let with_variant = lines.iter().any(|line| line.variant.is_some());
    let mut columns: Vec<Column> = with_variant.then(|| Column::text("variant")).into_iter().collect();
    columns.push(Column::text("surviving"));
    columns.push(Column::numeric(&format!("{} carried", short(&first.over)), "at least, with 95 % confidence").brief());
    let estimate = format!("{} near", edge(first));
    columns.push(Column::numeric(&estimate, "estimate, with its 95 % interval").brief());
    columns.push(Column::text("limited by"));
    columns.push(Column::numeric("trials", "of this search").brief());
    let rows = lines.iter().map(|line| Row::of(safe_load_cells(line, with_variant)));
    let table = Table { rows: rows.collect(), ..Table::new("The Plimsoll line", "", columns) };
    let edge = "contains the edge with a probability of 95 %; some trials of the search may be wrong";
    Some(table.with_terms(&[("95 % interval", edge)]))
}

fn safe_load_cells(line: &SafeLoad, with_variant: bool) -> Vec<Cell> {
    let variant = with_variant.then(|| Cell::new(line.variant.clone().unwrap_or_default()));
    let mut cells: Vec<Cell> = variant.into_iter().collect();
    cells.push(Cell::new(condition(&line.surviving)));
    cells.push(match nowhere(line) {
        Some(least) => Cell::new(format!("not even {}", numbers::number(least))).toned(Tone::Bad),
        None => Cell::of(surely(line), |low| format!("≥ {}", numbers::number(low))),
    });
    cells.push(Cell::of(line.value, numbers::number).with(interval(Some(line.ci95))));
    cells.push(Cell::new(line.limited_by.clone()));
    cells.push(Cell::new(numbers::count(line.steps.len() as u64)));
    cells
}

/// Returns the name of a condition, or a text for the condition without a name.
pub fn condition(surviving: &str) -> String {
    if surviving.is_empty() { "the file's faults".to_owned() } else { surviving.to_owned() }
}

/// Returns the sweeps that stopped early, and the trials that were skipped.
pub fn stops(input: &ReportInput) -> Option<Table> {
    let stops = &input.results.sweep_stops;
    let variant = stops.iter().any(|stop| stop.variant.is_some()).then(|| Column::text("variant"));
    let others = ["stopped at", "because", "trial", "not played"].map(Column::text);
    let columns = variant.iter().cloned().chain(others).collect();
    let mut rows = Vec::new();
    for stop in stops {
        let variant = variant.is_some().then(|| Cell::new(stop.variant.clone().unwrap_or_default()));
        let at = curve_name("", &stop.point);
        let cells = [at, stop.because.clone(), stop.trial.clone(), left_out(input, stop)].map(Cell::new);
        rows.push(Row::of(variant.into_iter().chain(cells).collect()));
    }
    let note = "The experiment's stop rule left higher values out. Their trials are neither missing nor failed.";
    Table::new("Stopped sweeps", note, columns).filled(rows)
}

/// Returns a text such as `agents 128 and 256 (4 trials)`.
fn left_out(input: &ReportInput, stop: &SweepStop) -> String {
    let trials = input.plan.trials.iter().filter(|trial| stop.not_played.contains(&trial.id));
    let values = distinct(trials.filter_map(|trial| Some(of_json(trial.point.get(&stop.over)?))));
    let count = stop.not_played.len();
    let trials = if count == 1 { "1 trial".to_owned() } else { format!("{count} trials") };
    format!("{} {} ({trials})", short(&stop.over), listed(&values, "and"))
}

pub fn scaling(input: &ReportInput) -> Option<Table> {
    let scaling = &input.results.scaling;
    let first = scaling.first()?;
    let several_paths = scaling.iter().any(|other| other.over != first.over);
    let mut columns = vec![Column::text("curve")];
    columns.extend(several_paths.then(|| Column::text("over")));
    columns.extend([
        Column::numeric("knee", "the load from which more load adds little throughput").brief(),
        Column::numeric("peak", "highest throughput: the mean of the best point").brief(),
        Column::numeric("peak at", "the load of that point").brief(),
        Column::numeric("λ", "fitted: throughput at a load of 1"),
        Column::numeric("σ", "fitted: contention, the share of the work that is done one at a time"),
        Column::numeric(
            "κ",
            "fitted: coherency, the cost of coordination for each pair; above 0, throughput falls at high load",
        ),
        Column::numeric("law peaks at", "the load at which the fitted law peaks; may lie beyond what was measured"),
        Column::numeric("r²", "share of the variance that the fitted law explains"),
    ]);
    let rows = scaling.iter().map(|scaling| Row::of(scaling_cells(scaling, several_paths)));
    let title = format!("Scaling over {}", if several_paths { "the swept loads" } else { first.over.as_str() });
    let note = "Below each figure its 95 % interval: the true values that these trials leave possible. Figures with \
                too few repeats have none.";
    let law = "the Universal Scalability Law, λN / (1 + σ(N − 1) + κN(N − 1)), by least squares; left out where \
               the curve does not follow it (F test of lack of fit against the spread of repeats)";
    let table = Table { rows: rows.collect(), ..Table::new(&title, note, columns) };
    Some(table.with_terms(&[("still rises", "the highest load of the sweep lies before the knee"), ("fitted", law)]))
}

fn scaling_cells(scaling: &Scaling, with_path: bool) -> Vec<Cell> {
    let law = scaling.usl.as_ref();
    let values = [law.map(|law| law.lambda), law.map(|law| law.sigma), law.map(|law| law.kappa)];
    let intervals = law.and_then(|law| law.ci95);
    let [lambda, sigma, kappa] =
        std::array::from_fn(|index| with_interval(values[index], intervals.map(|ci95| ci95[index])));
    let knee = match scaling.knee {
        None if scaling.points.len() > 2 && scaling.peak_per_s.is_some() => Cell::new("still rises"),
        knee => with_interval(knee, scaling.knee_ci95),
    };
    let mut cells = vec![Cell::new(curve_name(&scaling.variant, &scaling.at))];
    cells.extend(with_path.then(|| Cell::new(short(&scaling.over))));
    cells.extend([
        knee,
        with_interval(scaling.peak_per_s, scaling.peak_ci95),
        Cell::of(scaling.peak_at, numbers::number),
        match &scaling.usl_missing {
            Some(why) => Cell::new("no law").with(why.clone()),
            None => lambda,
        },
        sigma,
        kappa,
        Cell::of(law.and_then(|law| law.peak_at), numbers::number),
        Cell::of(law.map(|law| law.r2), |r2| format!("{r2:.3}")),
    ]);
    cells
}

/// Returns a cell with a figure and its interval below.
fn with_interval(value: Option<f64>, ci95: Option<[f64; 2]>) -> Cell {
    // A parameter at its bound of 0 may be off by the fit's rounding error.
    let write = |value: f64| if value.abs() < 1e-9 { "0".to_owned() } else { numbers::number(value) };
    Cell::of(value, write).over(ci95, write)
}

/// Number of rows above which the page folds the table: one row for each pair of variants at each
/// point.
pub const MANY_CROSSINGS: usize = 24;

pub fn crossings(input: &ReportInput) -> Option<Table> {
    let crossings = &input.results.crossings;
    let first = crossings.first()?;
    let with_point = crossings.iter().any(|crossing| !crossing.point.is_empty());
    let several_paths = crossings.iter().any(|other| other.over != first.over);
    let mut columns = vec![Column::text("ahead at the highest load"), Column::text("of")];
    columns.extend(several_paths.then(|| Column::text("over")));
    columns.extend(with_point.then(|| Column::text("at")));
    let head = if several_paths { "from … on".to_owned() } else { format!("from … {} on", short(&first.over)) };
    columns.push(Column::numeric(&head, "the load from which it is ahead for good").brief());
    let of_peaks = "its highest throughput, as a multiple of the other's; below it the 95 % interval";
    columns.push(Column::numeric("ratio of peaks", of_peaks).brief());
    let rows = crossings.iter().map(|crossing| Row::of(crossing_cells(crossing, several_paths, with_point)));
    let note = "Between measured loads the lead is taken to change evenly with the logarithm of the load.";
    let not_shown = "repeats differ too much to tell which is ahead at the highest load";
    let table = Table { rows: rows.collect(), ..Table::new("Crossovers", note, columns) };
    Some(table.folded_beyond(MANY_CROSSINGS).with_terms(&[("not shown", not_shown)]))
}

fn crossing_cells(crossing: &Crossing, with_path: bool, with_point: bool) -> Vec<Cell> {
    let mut cells = vec![Cell::new(crossing.a.clone()), Cell::new(crossing.b.clone())];
    cells.extend(with_path.then(|| Cell::new(short(&crossing.over))));
    cells.extend(with_point.then(|| Cell::new(curve_name("", &crossing.point))));
    cells.push(match crossing.lead {
        Lead::Crosses => Cell::of(crossing.at, numbers::number).with(interval(crossing.ci95)),
        Lead::Throughout => Cell::new("throughout").with(interval(crossing.ci95)),
        Lead::NotShown => Cell::new("not shown").toned(Tone::Doubtful).with(interval(crossing.ci95)),
    });
    cells.push(Cell::of(crossing.peak_ratio, numbers::number).over(crossing.peak_ratio_ci95, numbers::number));
    cells
}

const MANY: usize = 12;

pub fn cost(input: &ReportInput) -> Option<Table> {
    let costs = &input.results.costs;
    let shown: Vec<&PointCost> = costs.iter().filter(|cost| cost.at_peak || cost.cheapest).collect();
    let first = shown.first()?;
    let with_name = shown.iter().any(|cost| cost_name(cost) != cost_name(first));
    let with_load = shown.iter().any(|cost| !load(cost).is_empty());
    let with_price = shown.iter().any(|cost| cost.price_per_million_cycles.is_some());
    let electricity = input.results.trials.iter().any(|trial| trial.cost.electricity_per_million_cycles.is_some());
    let mut columns: Vec<Column> = with_name.then(|| Column::text("curve")).into_iter().collect();
    columns.extend(with_load.then(|| Column::text("at")));
    columns.extend([
        Column::numeric("cycles/s", "full cycles per second, on the real machines").brief(),
        Column::numeric("watts", "mean power of all hosts together").brief(),
        Column::numeric("energy/cycle", "energy for each cycle, after the warm-up").brief(),
        Column::numeric("with warm-up", "energy for each cycle, over the whole load"),
    ]);
    if with_price {
        columns.push(Column::numeric("price/million", "price of a million cycles, after the warm-up").brief());
        columns.push(Column::numeric("with warm-up", "price of a million cycles, over the whole load"));
    }
    let rows = shown.iter().map(|cost| Row::of(cost_cells(cost, with_name, with_load, with_price)));
    let table = Table { rows: rows.collect(), ..Table::new("Cost", note(costs, electricity), columns) };
    let mut table = table.folded_beyond(MANY).with_terms(&terms(electricity));
    table.terms.extend(profiles(input));
    Some(table)
}

fn note(costs: &[PointCost], electricity: bool) -> String {
    let mut note = "Modelled from the profile's watts and the measured CPU, of all hosts of the lab. Below a figure its 95 % interval, \
                    if there were enough repeats."
        .to_owned();
    if electricity {
        note.push_str(" The price includes electricity.");
    }
    let lacking = costs.iter().filter_map(|cost| {
        let who = if cost.variant.is_empty() { String::new() } else { format!("{}: ", cost.variant) };
        Some(format!(" {who}{}", cost.lacks.as_ref()?))
    });
    note + &distinct(lacking).concat()
}

fn terms(electricity: bool) -> [(&'static str, &'static str); 4] {
    let price = if electricity {
        "the hosts' prices, spread evenly over their lifetimes, and electricity"
    } else {
        "the hosts' prices, spread evenly over their lifetimes; electricity, cooling, space and staff are not in it"
    };
    [
        (
            "watts",
            "each host's idle watts and, by the share of its cores' capacity that was used, what is between idle and load watts",
        ),
        ("price/million", price),
        ("peak", "the load of this curve with the most cycles"),
        ("cheapest", "the load at which a cycle has the lowest price or, without prices, takes the least energy"),
    ]
}

/// Returns power and price of each profile, with the source.
fn profiles(input: &ReportInput) -> Vec<(String, String)> {
    let profiles = input.plan.trials.iter().flat_map(|trial| &trial.lab.profiles);
    let known =
        profiles.map(|profile| (profile.name.clone(), figures(profile))).filter(|(_, figures)| !figures.is_empty());
    distinct(known)
}

fn figures(profile: &Profile) -> String {
    let power = profile.idle_watts.zip(profile.load_watts).map(|(idle, load)| {
        let [least, most] = [idle, load].map(|watts| format!("{} W", numbers::number(watts)));
        let range = if idle == load { most } else { numbers::from_to(&least, &most) };
        format!("{range}{}", source(profile, "power"))
    });
    let price = profile.price.as_ref().zip(profile.lifetime_years).map(|(price, years)| {
        let amount = numbers::money(price.amount, &price.currency);
        format!("{amount} over {} years{}", numbers::number(years), source(profile, "price"))
    });
    power.into_iter().chain(price).collect::<Vec<_>>().join("; ")
}

/// Returns the source of a section of the profile in parentheses, if it has one.
fn source(profile: &Profile, section: &str) -> String {
    let found = profile.source.lines().find_map(|line| line.strip_prefix(section)?.strip_prefix(": "));
    found.map_or_else(String::new, |source| format!(" ({source})"))
}

fn cost_cells(cost: &PointCost, with_name: bool, with_load: bool, with_price: bool) -> Vec<Cell> {
    let which = match (cost.at_peak, cost.cheapest) {
        (true, true) => "peak, cheapest",
        (true, false) => "peak",
        _ => "cheapest",
    };
    let mut cells: Vec<Cell> = with_name.then(|| Cell::new(cost_name(cost))).into_iter().collect();
    cells.extend(with_load.then(|| Cell::new(load(cost)).with(which)));
    cells.extend([
        Cell::of(cost.cycles_per_s, numbers::number),
        Cell::of(cost.watts, numbers::number),
        Cell::of(cost.joules_per_cycle, numbers::joules).over(cost.joules_per_cycle_ci95, numbers::joules),
        Cell::of(cost.with_warmup.joules_per_cycle, numbers::joules),
    ]);
    if with_price {
        let currency = cost.currency.as_deref().unwrap_or_default();
        let money = |amount| numbers::money(amount, currency);
        let price = Cell::of(cost.price_per_million_cycles, money);
        cells.push(price.over(cost.price_per_million_cycles_ci95, numbers::number));
        cells.push(Cell::of(cost.with_warmup.price_per_million_cycles, money));
    }
    cells
}

/// Returns a text such as `agents 32`.
fn load(cost: &PointCost) -> String {
    let loads = cost.point.iter().filter(|(path, _)| path.starts_with("load."));
    loads.map(|(path, value)| format!("{} {}", short(path), of_json(value))).collect::<Vec<_>>().join(", ")
}

pub fn search(input: &ReportInput) -> Option<Table> {
    let lines = &input.results.safe_loads;
    let first = lines.first()?;
    let several = lines.len() > 1;
    let mut columns: Vec<Column> = several.then(|| Column::text("search")).into_iter().collect();
    columns.push(Column::text("trial"));
    columns.push(Column::numeric(short(&first.over), "the value tried").brief());
    columns.push(Column::text("limits"));
    columns.push(Column::text("because"));
    let mut rows = Vec::new();
    for line in lines {
        for (index, step) in line.steps.iter().enumerate() {
            rows.push(Row { cells: search_cells(line, step, several), begins: index == 0 });
        }
    }
    let note = "Each trial was chosen by the results of the trials before it; see docs/find.md.";
    Table::new("The search", note, columns).filled(rows)
}

fn search_cells(line: &SafeLoad, step: &SearchStep, several: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    if several {
        let parts = [line.variant.clone(), Some(condition(&line.surviving))];
        cells.push(Cell::new(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    }
    cells.push(Cell::new(step.trial.clone()));
    cells.push(Cell::new(numbers::number(step.value)));
    cells.push(match step.held {
        Some(true) => Cell::new("held").toned(Tone::Good),
        Some(false) => Cell::new("broke").toned(Tone::Bad),
        None => Cell::new("no result").toned(Tone::Muted),
    });
    cells.push(Cell::new(step.broke.join("; ")));
    cells
}
