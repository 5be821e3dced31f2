//! Tables of the operations: results of attempts, outcomes, each operation, and the effect of the
//! warm-up.

use std::collections::BTreeMap;

use analysis::trial_groups::{FigureOf, Group, groups, operations};
use record::events::FailureExample;
use record::results::{GroupFigures, Operation, Trial};
use text::{Tone, distinct, numbers};

use super::{Cell, Column, Table, approximate};
use crate::ReportInput;
use crate::failed_checks::FailedCheck;

const MANY: usize = 12;

pub fn attempts(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let columns = vec![
        Column::text("result of an attempt"),
        Column::numeric("attempts", "").brief(),
        Column::numeric("share", "of all attempts"),
    ];
    let note = "Each retry is an attempt of its own.";
    let repeats = if groups.iter().any(|group| group.counting().count() > 1) { " Repeats are added up." } else { "" };
    let table = Table::new("Attempts by result", format!("{note}{repeats}"), columns);
    let mut table = table.by_group(&groups, attempt_rows)?.folded_beyond(MANY);
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
    let columns = ["result of an attempt", "request", "expected", "got", "answer"].map(Column::text).to_vec();
    let note = "The first of each kind in a trial. Values of headers and queries are left out, control characters are escaped.";
    let groups = groups(input.results, input.plan);
    let table = Table::new("Examples of failures", note, columns);
    Some(table.by_group(&groups, example_rows)?.folded_beyond(MANY))
}

/// Returns the expectations that failed.
pub fn failed_checks(input: &ReportInput) -> Option<Table> {
    let columns = vec![
        Column::text("operation"),
        Column::text("expected"),
        Column::numeric("failed", "answers that contradict it"),
        Column::numeric("share", "of all answers that were compared"),
    ];
    let note =
        "Over the measured part. The answer to each attempt counts. One answer may contradict several expectations.";
    let groups = groups(input.results, input.plan);
    let table = Table::new("Failed expectations", note, columns);
    let rows = |group: &Group| {
        let checks = FailedCheck::of(group.counting(), input.plan).into_iter();
        let rows = checks.map(|FailedCheck { operation, expectation, failed, answers }| {
            let (count, share) = (numbers::count(failed), numbers::share(failed, answers));
            [operation, expectation, count, share].map(Cell::new).to_vec()
        });
        rows.collect()
    };
    Some(table.by_group(&groups, rows)?.folded_beyond(MANY))
}

fn example_rows(group: &Group) -> Vec<Vec<Cell>> {
    let mut shown: Vec<&FailureExample> = Vec::new();
    for example in group.trials.iter().flat_map(|trial| &trial.examples) {
        let is_shown = shown.iter().any(|other| {
            (&other.operation, &other.result, &other.expectation)
                == (&example.operation, &example.result, &example.expectation)
        });
        if !is_shown {
            shown.push(example);
        }
    }
    let rows = shown.into_iter().map(|FailureExample { result, request, expectation, got, answer, .. }| {
        [Some(result), Some(request), expectation.as_ref(), got.as_ref(), answer.as_ref()].map(Cell::optional).to_vec()
    });
    rows.collect()
}

fn attempt_rows(group: &Group) -> Vec<Vec<Cell>> {
    let results = added_up(group);
    let all: u64 = results.values().sum();
    let mut ordered: Vec<(String, u64)> = results.into_iter().collect();
    // `ok` first, then by falling count.
    ordered.sort_by_key(|(name, count)| (name != "ok", std::cmp::Reverse(*count)));
    let rows = ordered
        .into_iter()
        .map(|(name, count)| [name, numbers::count(count), numbers::share(count, all)].map(Cell::new).to_vec());
    rows.collect()
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

/// Returns the count of one outcome in a trial.
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
        knows_agents.then(|| Column::numeric("agents without a cycle", "agents that did not finish their first cycle")),
    );
    columns.extend(COLUMNS.map(|(head, explained, _)| Column::numeric(head, explained)));
    columns.push(Column::numeric("wrong per 1,000 cycles", "wrong answers per 1,000 full cycles"));
    let note = "Over the whole load, warm-up included, and all repeats together. Void trials are left out. Below each count its share of \
                the operations that ended.";
    let table = Table::new("Outcomes of the operations", note, columns);
    Some(table.by_group(&groups, |group| vec![row(group, knows_agents)])?.folded_beyond(MANY_POINTS).explained())
}

fn sums(group: &Group) -> [u64; 5] {
    COLUMNS.map(|(_, _, count)| group.counting().map(count).sum())
}

/// Returns the number of agents that finished no cycle. Returns `None` if a trial did not record
/// this number.
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

/// Heading, meaning, figure, format, and whether any count is bad.
type OperationColumn = (&'static str, &'static str, fn(&Operation) -> Option<f64>, fn(f64) -> String, bool);

const OF_OK: &str = "latency of ok ones";
const SERVICE: &str = "from the send to the answer";

/// Columns of an operation; latency is that of `ok` operations.
const OPERATION_COLUMNS: [OperationColumn; 15] = [
    ("ok/s", "after warm-up", |of| of.throughput_per_s, numbers::number, false),
    ("ok", "over the whole load", |of| Some(of.outcomes.ok as f64), numbers::median_count, false),
    ("failed", "definite errors", |of| Some(of.outcomes.failed as f64), numbers::median_count, true),
    ("timeout", "no answer in time", |of| Some(of.outcomes.timeout as f64), numbers::median_count, true),
    ("wrong", "contradicting answers", |of| Some(of.outcomes.wrong as f64), numbers::median_count, true),
    (
        "unfinished",
        "open when the drain ended; in no rate",
        |of| Some(of.outcomes.unfinished as f64),
        numbers::median_count,
        false,
    ),
    ("p50", OF_OK, |of| of.latency_us.as_ref()?.p50, numbers::micros, false),
    ("p90", OF_OK, |of| of.latency_us.as_ref()?.p90, numbers::micros, false),
    ("p95", OF_OK, |of| of.latency_us.as_ref()?.p95, numbers::micros, false),
    ("p99", OF_OK, |of| of.latency_us.as_ref()?.p99, numbers::micros, false),
    ("p99.9", OF_OK, |of| of.latency_us.as_ref()?.p999, numbers::micros, false),
    ("max", OF_OK, |of| of.latency_us.as_ref()?.max, numbers::micros, false),
    ("service p50", SERVICE, |of| of.service_us.as_ref()?.p50, numbers::micros, false),
    ("service p99", SERVICE, |of| of.service_us.as_ref()?.p99, numbers::micros, false),
    ("service max", SERVICE, |of| of.service_us.as_ref()?.max, numbers::micros, false),
];

/// Columns of an operation that counts units of work.
const UNIT_COLUMNS: [OperationColumn; 5] = [
    ("units/s", "units of work, after warm-up", |of| of.units_per_s, numbers::number, false),
    ("units/s, median", "over the seconds after warm-up", |of| of.median_units_per_s, numbers::number, false),
    ("units", "over the whole load", |of| of.units.map(|units| units as f64), numbers::median_count, false),
    (
        "parts rejected",
        "parts of ok answers with status 429 (too many requests)",
        |of| Some(of.parts.as_ref()?.rejected as f64),
        numbers::median_count,
        true,
    ),
    (
        "parts failed",
        "parts of ok answers with another status than 200 to 299",
        |of| Some(of.parts.as_ref()?.failed as f64),
        numbers::median_count,
        true,
    ),
];

const FIRST_BYTE: &str = "from the send to the first byte of the answer";
const FIRST_MESSAGE: &str = "from the send to the first message of the stream";
const GAP: &str = "between two messages of a stream";

/// Columns of an operation whose answers are timed while they arrive.
const FIRST_BYTE_COLUMNS: [OperationColumn; 3] = [
    ("first byte p50", FIRST_BYTE, |of| of.arrival.first_byte_us.as_ref()?.p50, numbers::micros, false),
    ("first byte p99", FIRST_BYTE, |of| of.arrival.first_byte_us.as_ref()?.p99, numbers::micros, false),
    ("first byte max", FIRST_BYTE, |of| of.arrival.first_byte_us.as_ref()?.max, numbers::micros, false),
];

/// Columns of an operation whose answers are streams of messages.
const MESSAGE_COLUMNS: [OperationColumn; 8] = [
    ("messages/s", "messages of streams, after warm-up", |of| of.arrival.messages_per_s, numbers::number, false),
    (
        "messages",
        "over the whole load",
        |of| of.arrival.messages.map(|messages| messages as f64),
        numbers::median_count,
        false,
    ),
    ("first message p50", FIRST_MESSAGE, |of| of.arrival.first_message_us.as_ref()?.p50, numbers::micros, false),
    ("first message p99", FIRST_MESSAGE, |of| of.arrival.first_message_us.as_ref()?.p99, numbers::micros, false),
    ("first message max", FIRST_MESSAGE, |of| of.arrival.first_message_us.as_ref()?.max, numbers::micros, false),
    ("gap p50", GAP, |of| of.arrival.gap_us.as_ref()?.p50, numbers::micros, false),
    ("gap p99", GAP, |of| of.arrival.gap_us.as_ref()?.p99, numbers::micros, false),
    ("gap max", GAP, |of| of.arrival.gap_us.as_ref()?.max, numbers::micros, false),
];

/// Heading, meaning, whether the terminal also shows the column, figure, and format.
type GroupColumn = (&'static str, &'static str, bool, fn(&GroupFigures) -> Option<f64>, fn(f64) -> String);

const NOT_OK: &str = "not ok";

/// Columns of an agent group; latency is that of `ok` operations.
const GROUP_COLUMNS: [GroupColumn; 10] = [
    ("agents", "", true, |of| Some(f64::from(of.agents)), numbers::median_count),
    (
        "asked/s",
        "requested operations per second; none in a closed loop",
        false,
        |of| of.offered_per_s,
        numbers::number,
    ),
    ("ok/s", "after warm-up", true, |of| of.throughput_per_s, numbers::number),
    ("ok", "over the whole load", false, |of| Some(of.outcomes.ok as f64), numbers::median_count),
    (NOT_OK, "failed or timed out, of the operations that ended", true, |of| of.failed_pct, numbers::percent),
    ("p50", OF_OK, true, |of| of.latency_us.as_ref()?.p50, numbers::micros),
    ("p95", OF_OK, false, |of| of.latency_us.as_ref()?.p95, numbers::micros),
    ("p99", OF_OK, true, |of| of.latency_us.as_ref()?.p99, numbers::micros),
    ("max", OF_OK, false, |of| of.latency_us.as_ref()?.max, numbers::micros),
    ("service p99", SERVICE, false, |of| of.service_us.as_ref()?.p99, numbers::micros),
];

/// Returns the agent groups of the load.
pub fn agent_groups(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let mut columns = vec![Column::text("group")];
    for &(head, explained, brief, ..) in &GROUP_COLUMNS {
        columns.push(Column { brief, ..Column::numeric(head, explained) });
    }
    let rows = |group: &Group| {
        let names = distinct(group.trials.iter().flat_map(|trial| trial.groups.keys()));
        names.into_iter().map(|name| group_row(group, name)).collect()
    };
    let repeats = if groups.iter().any(|group| group.trials.len() > 1) { "Medians over the repeats." } else { "" };
    let table = Table::new("Groups of agents", repeats, columns);
    Some(table.by_group(&groups, rows)?.folded_beyond(MANY_OPERATIONS))
}

fn group_row(group: &Group, name: &str) -> Vec<Cell> {
    let mut cells = vec![Cell::new(name)];
    for (head, _, _, figure, write) in &GROUP_COLUMNS {
        let spread = group.spread(|trial| figure(trial.groups.get(name)?));
        let is_bad = *head == NOT_OK && spread.is_some_and(|spread| spread.most > 0.0);
        let cell = Cell::median(spread, write);
        cells.push(if is_bad { cell.toned(Tone::Bad) } else { cell });
    }
    cells
}

pub fn each_operation(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let any = |has: fn(&Trial) -> bool| input.results.trials.iter().any(has);
    let optional: [(bool, &[OperationColumn]); 3] = [
        (any(|trial| trial.units.is_some()), &UNIT_COLUMNS),
        (any(|trial| trial.arrival.first_byte_us.is_some()), &FIRST_BYTE_COLUMNS),
        (any(|trial| trial.arrival.messages.is_some()), &MESSAGE_COLUMNS),
    ];
    let optional = optional.into_iter().filter(|(has, _)| *has).flat_map(|(_, columns)| columns);
    let shown: Vec<&OperationColumn> = OPERATION_COLUMNS.iter().chain(optional).collect();
    let mut columns = vec![Column::text("operation")];
    columns.extend(shown.iter().map(|(head, explained, ..)| Column::numeric(head, explained)));
    let rows = |group: &Group| {
        let names = distinct(group.trials.iter().flat_map(|trial| trial.operations.keys()));
        names.into_iter().map(|name| operation_row(group, name, &shown)).collect()
    };
    let repeats = if groups.iter().any(|group| group.trials.len() > 1) { " Medians over the repeats." } else { "" };
    let note = format!(
        "Of ok operations: latency from the intended start to the answer, service time from the send. A quantile of \
         too few operations is left out: p99 needs 299, p99.9 2,995.{repeats}"
    );
    Some(Table::new("Operations", note, columns).by_group(&groups, rows)?.folded_beyond(MANY_OPERATIONS))
}

fn operation_row(group: &Group, name: &str, columns: &[&OperationColumn]) -> Vec<Cell> {
    let agents = group.trials.iter().find_map(|trial| trial.operations.get(name)?.group.clone());
    let mut cells = vec![Cell::new(name).with(agents.unwrap_or_default())];
    for (_, _, figure, write, loss) in columns {
        let spread = group.spread(|trial| figure(trial.operations.get(name)?));
        let cell = Cell::median(spread, write);
        let is_bad = *loss && spread.is_some() && cell.text != "0";
        cells.push(if is_bad { cell.toned(Tone::Bad) } else { cell });
    }
    cells
}

/// Heading, meaning, figure without the warm-up, figure with the warm-up, and format.
type Pair = (&'static str, &'static str, FigureOf, FigureOf, fn(f64) -> String);

const PAIRS: [Pair; 5] = [
    (
        "ops/s",
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
    let trials = &input.results.trials;
    let mut pairs: Vec<Pair> = PAIRS.to_vec();
    pairs.retain(|(_, _, cut, whole, _)| trials.iter().any(|trial| cut(trial).is_some() && whole(trial).is_some()));
    if pairs.is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    for (head, explained, ..) in &pairs {
        columns.push(Column::numeric(head, &format!("{explained}, after the warm-up")));
        let whole = format!("{explained}, over the whole load; below, the difference");
        columns.push(Column::numeric("with it", &whole));
    }
    let note = "Where two rows differ by different shares, the ramp and the warm-up favoured one of them. All other figures of this page leave \
                them out.";
    let table = Table::new("With and without the warm-up", note, columns);
    Some(table.by_group(&groups, |group| vec![warmup_row(group, &pairs)])?.folded_beyond(MANY))
}

fn warmup_row(group: &Group, pairs: &[Pair]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &(head, _, cut, whole, write) in pairs {
        // Compares within each trial, so that repeats are not mixed.
        let difference = group.spread(|trial| {
            let after = cut(trial).filter(|after| *after > 0.0)?;
            Some(100.0 * (whole(trial)? / after - 1.0))
        });
        let differs = difference.map_or_else(String::new, |spread| numbers::change(spread.median));
        cells.push(approximate(Cell::median(group.spread(cut), write), group, head));
        cells.push(Cell::median(group.spread(whole), write).with(differs));
    }
    cells
}
