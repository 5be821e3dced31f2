//! Tables of the operations: results of attempts, outcomes, each operation, and the effect of the
//! warm-up.

use std::collections::BTreeMap;

use analysis::trial_groups::{FigureOf, Group, groups, operations};
use record::events::FailureExample;
use record::results::{AnswerParts, GroupFigures, Operation, Quantiles, Trial};
use text::{Tone, distinct, numbers};

use super::{Cell, Column, Table, approximate};
use crate::ReportInput;

const MANY: usize = 12;

pub fn attempts(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let columns = vec![
        Column::text("result of an attempt"),
        Column::numeric("attempts", "").brief(),
        Column::numeric("share", "of all attempts"),
    ];
    let rows = |group: &Group| {
        let results = added_up(group);
        let all: u64 = results.values().sum();
        let mut ordered: Vec<(&String, &u64)> = results.iter().collect();
        // `ok` first, then by falling count.
        ordered.sort_by_key(|(name, count)| (*name != "ok", std::cmp::Reverse(**count)));
        let row = |(name, count): (&String, &u64)| {
            [name.clone(), numbers::count(*count), numbers::share(*count, all)].map(Cell::new).to_vec()
        };
        ordered.into_iter().map(row).collect()
    };
    let note = "Each retry is an attempt of its own.";
    let repeats = if groups.iter().any(|group| group.counting().count() > 1) { " Repeats are added up." } else { "" };
    let table = Table::new("Attempts by result", format!("{note}{repeats}"), columns);
    let mut table = table.by_group(&groups, rows)?.folded_beyond(MANY);
    // The outcomes already show that all operations were ok.
    table.folded |= groups.iter().flat_map(|group| added_up(group).into_keys()).all(|result| result == "ok");
    if table.rows.len() > groups.len() {
        let labels = table.columns.len() - 3;
        let others = table.rows.iter_mut().skip(1).filter(|row| !row.begins);
        others.flat_map(|row| &mut row.cells[..labels]).for_each(|cell| cell.text.clear());
    }
    Some(table)
}

/// Returns one failure of each kind.
pub fn examples(input: &ReportInput) -> Option<Table> {
    let columns = ["result of an attempt", "request", "expected", "came instead", "answer"].map(Column::text).to_vec();
    let note = "The first of each kind in a trial. Values of headers and queries are left out, control characters are escaped.";
    let groups = groups(input.results, input.plan);
    let rows = |group: &Group| {
        let mut told: Vec<&FailureExample> = Vec::new();
        for example in group.trials.iter().flat_map(|trial| &trial.examples) {
            let is_same = |other: &&FailureExample| {
                (&other.operation, &other.result, &other.expectation)
                    == (&example.operation, &example.result, &example.expectation)
            };
            if !told.iter().any(is_same) {
                told.push(example);
            }
        }
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| numbers::NONE.to_owned());
        let row = |example: &FailureExample| {
            let FailureExample { result, request, expectation, got, answer, .. } = example;
            [result.clone(), request.clone(), or_none(expectation), or_none(got), or_none(answer)]
                .map(Cell::new)
                .to_vec()
        };
        told.into_iter().map(row).collect()
    };
    let table = Table::new("Examples of failures", note, columns);
    Some(table.by_group(&groups, rows)?.folded_beyond(MANY)).filter(|table| !table.rows.is_empty())
}

fn added_up(group: &Group) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (result, count) in group.counting().flat_map(|trial| &trial.attempt_results) {
        *sums.entry(result.clone()).or_default() += count;
    }
    sums
}

/// Number of rows above which the page folds the table.
const MANY_POINTS: usize = 24;

/// Returns the count of one outcome of a trial. The last two do not count among operations that
/// ended well or badly.
type OutcomeCount = fn(&Trial) -> u64;

const COLUMNS: [(&str, &str, OutcomeCount); 5] = [
    ("ok", "answered as expected", |trial| trial.outcomes.ok),
    ("failed", "a definite error, such as 503", |trial| trial.outcomes.failed),
    ("timeout", "no answer in time; it may have taken effect", |trial| trial.outcomes.timeout),
    ("wrong", "an answer that contradicts what the client did before", |trial| trial.outcomes.wrong),
    ("unfinished", "still open when the drain ended; in no share", |trial| trial.outcomes.unfinished),
];

pub fn outcomes(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    // If all operations were ok, there is nothing to compare. A single case is covered by the key
    // figures.
    let any_not_ok = groups.iter().any(|group| sums(group)[1..4].iter().any(|count| *count > 0));
    if groups.len() < 2 || !any_not_ok {
        return None;
    }
    let mut columns = vec![Column::numeric("cycles", "full cycles: each operation was answered, right or wrong")];
    let knows_agents = groups.iter().any(|group| without_cycle(group).is_some());
    columns.extend(
        knows_agents.then(|| Column::numeric("agents without a cycle", "not even their first cycle was finished")),
    );
    columns.extend(COLUMNS.map(|(head, explained, _)| Column::numeric(head, explained)));
    columns.push(Column::numeric("wrong for 1,000 cycles", "wrong answers for each 1,000 full cycles"));
    let note = "Over the whole load, warm-up included, and all repeats together. Void trials are left out. Below each count its share of \
                the operations that ended.";
    let table = Table::new("Outcomes of the operations", note, columns);
    Some(table.by_group(&groups, |group| vec![row(group, knows_agents)])?.folded_beyond(MANY_POINTS).explained())
}

fn sums(group: &Group) -> [u64; 5] {
    COLUMNS.map(|(_, _, count)| group.counting().map(count).sum())
}

/// Returns the number of agents that finished no cycle. `None` if a trial did not record it.
fn without_cycle(group: &Group) -> Option<u64> {
    group.counting().map(|trial| trial.agents_without_cycle).sum()
}

fn row(group: &Group, knows_agents: bool) -> Vec<Cell> {
    let sums = sums(group);
    let all: u64 = group.counting().map(operations).sum();
    let cycles: Option<u64> = group.counting().map(|trial| trial.cycles).sum();
    let mut cells = vec![Cell::of(cycles, numbers::count_in_words)];
    cells.extend(knows_agents.then(|| without_cycle(group).map_or_else(|| Cell::new(numbers::NONE), Cell::loss)));
    for ((head, _, _), count) in COLUMNS.iter().zip(sums) {
        let ended = *head != "unfinished";
        let small = if count > 0 && ended { numbers::share(count, all) } else { String::new() };
        let tone = match *head {
            "ok" | "unfinished" => Tone::Plain,
            _ if count > 0 => Tone::Bad,
            _ => Tone::Good,
        };
        let cell = if all == 0 && ended {
            Cell::new(numbers::NONE)
        } else {
            Cell::new(numbers::count_in_words(count)).toned(tone)
        };
        cells.push(cell.with(small));
    }
    // Without expectations, no answer could be wrong.
    let looked = group.counting().all(|trial| trial.consistency.wrong.is_some());
    let wrong = cycles.filter(|cycles| *cycles > 0 && looked).map(|cycles| 1_000.0 * sums[3] as f64 / cycles as f64);
    cells.push(Cell::of(wrong, numbers::number));
    cells
}

const MANY_OPERATIONS: usize = 16;

/// Columns of an operation; latency is that of `ok` operations.
const OPERATION_COLUMNS: [(&str, &str); 15] = [
    ("ok/s", "after warm-up"),
    ("ok", "over the whole load"),
    ("failed", "definite errors"),
    ("timeout", "no answer in time"),
    ("wrong", "contradicting answers"),
    ("unfinished", "open when the drain ended; in no rate"),
    ("p50", "latency of ok ones"),
    ("p90", "latency of ok ones"),
    ("p95", "latency of ok ones"),
    ("p99", "latency of ok ones"),
    ("p99.9", "latency of ok ones"),
    ("max", "latency of ok ones"),
    ("service p50", "from the send to the answer"),
    ("service p99", "from the send to the answer"),
    ("service max", "from the send to the answer"),
];

/// Columns of an agent group; latency is that of `ok` operations.
const GROUP_COLUMNS: [(&str, &str, bool); 10] = [
    ("agents", "", true),
    ("asked/s", "operations per second that were asked for; none in a closed loop", false),
    ("ok/s", "after warm-up", true),
    ("ok", "over the whole load", false),
    ("not ok", "failed or timed out, of the operations that ended", true),
    ("p50", "latency of ok ones", true),
    ("p95", "latency of ok ones", false),
    ("p99", "latency of ok ones", true),
    ("max", "latency of ok ones", false),
    ("service p99", "from the send to the answer", false),
];

/// Returns the agent groups of the load.
pub fn agent_groups(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let column =
        |(head, explained, brief): &(&str, &str, bool)| Column { brief: *brief, ..Column::numeric(head, explained) };
    let columns = [Column::text("group")].into_iter().chain(GROUP_COLUMNS.iter().map(column)).collect();
    let rows = |group: &Group| {
        let names = distinct(group.trials.iter().flat_map(|trial| trial.groups.keys()));
        names.into_iter().map(|name| [vec![Cell::new(name)], group_figures(group, name)].concat()).collect()
    };
    let repeats = if groups.iter().any(|group| group.trials.len() > 1) { "Medians over the repeats." } else { "" };
    let table = Table::new("Groups of agents", repeats, columns);
    Some(table.by_group(&groups, rows)?.folded_beyond(MANY_OPERATIONS))
}

fn group_figures(group: &Group, name: &str) -> Vec<Cell> {
    let median = |value: &dyn Fn(&GroupFigures) -> Option<f64>, write: fn(f64) -> String| {
        Cell::of(group.spread(|trial: &Trial| value(trial.groups.get(name)?)), |spread| write(spread.median))
    };
    let failed = median(&|figures| figures.failed_pct, numbers::percent);
    let is_bad = group.counting().any(|trial| trial.groups.get(name).is_some_and(|own| own.failed_pct > Some(0.0)));
    vec![
        median(&|figures| Some(f64::from(figures.agents)), numbers::median_count),
        median(&|figures| figures.offered_per_s, numbers::number),
        median(&|figures| figures.throughput_per_s, numbers::number),
        median(&|figures| Some(figures.outcomes.ok as f64), numbers::median_count),
        if is_bad { failed.toned(Tone::Bad) } else { failed },
        median(&|figures| figures.latency_us.as_ref()?.p50, numbers::micros),
        median(&|figures| figures.latency_us.as_ref()?.p95, numbers::micros),
        median(&|figures| figures.latency_us.as_ref()?.p99, numbers::micros),
        median(&|figures| figures.latency_us.as_ref()?.max, numbers::micros),
        median(&|figures| figures.service_us.as_ref()?.p99, numbers::micros),
    ]
}

/// Columns of an operation that counts units of work.
const UNIT_COLUMNS: [(&str, &str); 5] = [
    ("units/s", "units of work, after warm-up"),
    ("units/s, median", "over the seconds after warm-up"),
    ("units", "over the whole load"),
    ("parts rejected", "parts of ok answers with status 429: too much"),
    ("parts failed", "parts of ok answers with another status than 200 to 299"),
];

pub fn each_operation(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let mut columns = vec![Column::text("operation")];
    columns.extend(Column::numerics(&OPERATION_COLUMNS));
    let has_units = input.results.trials.iter().any(|trial| trial.units.is_some());
    if has_units {
        columns.extend(Column::numerics(&UNIT_COLUMNS));
    }
    let rows = |group: &Group| {
        let names = distinct(group.trials.iter().flat_map(|trial| trial.operations.keys()));
        let of = |name: &String| group.trials.iter().find_map(|trial| trial.operations.get(name)?.group.clone());
        let head = |name: &String| Cell::new(name).with(of(name).unwrap_or_default());
        let cells = |name: &String| {
            let units = if has_units { unit_figures(group, name) } else { Vec::new() };
            [vec![head(name)], figures(group, name), units].concat()
        };
        names.into_iter().map(cells).collect()
    };
    let repeats = if groups.iter().any(|group| group.trials.len() > 1) { " Medians over the repeats." } else { "" };
    let note = format!(
        "Of ok operations: latency from the intended start to the answer, service time from the send. Too few for a quantile leave \
         it out: p99 takes 299, p99.9 2,995.{repeats}"
    );
    Some(Table::new("Operations", note, columns).by_group(&groups, rows)?.folded_beyond(MANY_OPERATIONS))
}

fn median_cell(group: &Group, name: &str, value: &dyn Fn(&Operation) -> Option<f64>, write: fn(f64) -> String) -> Cell {
    let spread = group.spread(|trial: &Trial| value(trial.operations.get(name)?));
    Cell::of(spread, |spread| write(spread.median))
}

fn unit_figures(group: &Group, name: &str) -> Vec<Cell> {
    let median = |value: fn(&Operation) -> Option<f64>, write| median_cell(group, name, &value, write);
    let parts = |count: fn(&AnswerParts) -> u64| {
        let cell = median_cell(
            group,
            name,
            &move |operation| Some(count(operation.parts.as_ref()?) as f64),
            numbers::median_count,
        );
        if cell.text != "0" && cell.text != numbers::NONE { cell.toned(Tone::Bad) } else { cell }
    };
    vec![
        median(|operation| operation.units_per_s, numbers::number),
        median(|operation| operation.median_units_per_s, numbers::number),
        median(|operation| operation.units.map(|units| units as f64), numbers::median_count),
        parts(|parts| parts.rejected),
        parts(|parts| parts.failed),
    ]
}

fn figures(group: &Group, name: &str) -> Vec<Cell> {
    let median = |value: &dyn Fn(&Operation) -> Option<f64>, write| median_cell(group, name, value, write);
    let count = |value: fn(&Operation) -> u64, loss: bool| {
        let cell = median(&|operation| Some(value(operation) as f64), numbers::median_count);
        if loss && cell.text != "0" && cell.text != numbers::NONE { cell.toned(Tone::Bad) } else { cell }
    };
    let latency = |quantile: fn(&Quantiles) -> Option<f64>| {
        median(&move |operation| quantile(operation.latency_us.as_ref()?), numbers::micros)
    };
    let service = |quantile: fn(&Quantiles) -> Option<f64>| {
        median(&move |operation| quantile(operation.service_us.as_ref()?), numbers::micros)
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
        latency(|quantiles| quantiles.p95),
        latency(|quantiles| quantiles.p99),
        latency(|quantiles| quantiles.p999),
        latency(|quantiles| quantiles.max),
        service(|quantiles| quantiles.p50),
        service(|quantiles| quantiles.p99),
        service(|quantiles| quantiles.max),
    ]
}

/// Heading, meaning, figure without the warm-up, figure with the warm-up, and format.
type Pair = (&'static str, &'static str, FigureOf, FigureOf, fn(f64) -> String);

const PAIRS: [Pair; 5] = [
    (
        "calls/s",
        "ok operations per second",
        |trial| trial.throughput.operations_per_s,
        |trial| trial.with_warmup.operations_per_s,
        numbers::number,
    ),
    (
        "cycles/s",
        "full cycles per second",
        cycles_of_steps,
        |trial| trial.with_warmup.cycles_per_s.filter(|_| has_steps(trial)),
        numbers::number,
    ),
    (
        "p50",
        "median latency of ok operations",
        |trial| trial.latency_us.as_ref()?.p50,
        |trial| trial.with_warmup.latency_us.as_ref()?.p50,
        numbers::micros,
    ),
    (
        "p99",
        "99 of 100 ok operations were answered within it",
        |trial| trial.latency_us.as_ref()?.p99,
        |trial| trial.with_warmup.latency_us.as_ref()?.p99,
        numbers::micros,
    ),
    (
        "energy/cycle",
        "energy for each cycle, modelled from the profile's watts and the CPU",
        |trial| trial.cost.joules_per_cycle,
        |trial| trial.cost.with_warmup.joules_per_cycle,
        numbers::joules,
    ),
];

/// Returns full cycles per second if a cycle has several operations.
pub(super) fn cycles_of_steps(trial: &Trial) -> Option<f64> {
    trial.throughput.cycles_per_s.filter(|_| has_steps(trial))
}

/// Whether a cycle has several operations, so that cycles give more information than operations.
fn has_steps(trial: &Trial) -> bool {
    let rates = trial.throughput.cycles_per_s.zip(trial.throughput.operations_per_s);
    rates.is_some_and(|(cycles_per_s, operations_per_s)| cycles_per_s < 0.95 * operations_per_s)
}

pub fn warmup(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let has_both = |(_, _, cut, whole, _): &Pair| {
        input.results.trials.iter().any(|trial| cut(trial).is_some() && whole(trial).is_some())
    };
    let pairs: Vec<Pair> = PAIRS.into_iter().filter(has_both).collect();
    if pairs.is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    for (head, explained, ..) in &pairs {
        columns.push(Column::numeric(head, &format!("{explained}, after the warm-up")));
        let whole = format!("{explained}, over the whole load; below, how much that differs");
        columns.push(Column::numeric("with it", &whole));
    }
    let row = |group: &Group| {
        let mut cells = Vec::new();
        for &(head, _, cut, whole, write) in &pairs {
            // Compares within each trial, so that repeats are not mixed.
            let difference = group.spread(|trial| {
                let after = cut(trial).filter(|after| *after > 0.0)?;
                Some(100.0 * (whole(trial)? / after - 1.0))
            });
            let differs = difference.map_or_else(String::new, |spread| numbers::change(spread.median));
            cells.push(approximate(Cell::of(group.spread(cut), |spread| write(spread.median)), group, head));
            cells.push(Cell::of(group.spread(whole), |spread| write(spread.median)).with(differs));
        }
        vec![cells]
    };
    let note = "Where two rows differ by different shares, the ramp and the warm-up favoured one of them. All other figures of this page leave \
                them out.";
    Some(Table::new("With and without the warm-up", note, columns).by_group(&groups, row)?.folded_beyond(MANY))
}
