//! Tables that compare variants, points or runs: medians over the repeats, and differences that
//! exceed chance.

use std::collections::BTreeSet;

use analysis::answer::differing;
use analysis::trial_groups::{FigureOf, Group, counted, groups, longest, outages, retried};
use experiment::tier::only_storage;
use record::results::{Comparison, Trial, Trust};
use text::{Tone, numbers};

use super::operations::cycles_of_steps;
use super::{APPROXIMATE, Cell, Column, Row, Table, approximate, is_approximate};
use crate::ReportInput;

/// Number of groups above which the page folds their table, because charts over the swept values
/// are clearer.
const MANY: usize = 40;

/// A metric that is compared.
pub struct ComparedMetric {
    pub head: &'static str,
    pub explained: &'static str,
    /// Whether the terminal also shows the metric.
    pub brief: bool,
    /// Whether the metric is also drawn as bars.
    pub bars: bool,
    /// Returns the value of a trial.
    pub value: FigureOf,
    /// Formats the value with its unit.
    pub write: fn(f64) -> String,
    /// Whether any value above 0 is bad.
    pub loss: bool,
    /// Whether the column is replaced by a note if all values are 0.
    pub only_if_any: bool,
}

/// All compared metrics, in the order of the columns.
const MEASURES: &[ComparedMetric] = &[
    metric("ops/s", "ok operations per second, after warm-up", numbers::number, |trial| {
        trial.throughput.operations_per_s
    })
    .brief()
    .drawn(),
    metric("cycles/s", "full cycles of several operations per second, after warm-up", numbers::number, cycles_of_steps)
        .brief(),
    metric(
        "units/s",
        "units of work per second, after warm-up: the median over the seconds",
        numbers::number,
        |trial| trial.throughput.median_units_per_s,
    )
    .brief()
    .drawn(),
    metric("p50", "median latency of ok operations, from the intended start to the answer", numbers::micros, |trial| {
        trial.latency_us.as_ref()?.p50
    }),
    metric("p95", "19 of 20 ok operations were answered within it", numbers::micros, |trial| {
        trial.latency_us.as_ref()?.p95
    }),
    metric("p99", "99 of 100 ok operations were answered within it", numbers::micros, |trial| {
        trial.latency_us.as_ref()?.p99
    })
    .brief()
    .drawn(),
    metric("max", "the slowest ok operation", numbers::micros, |trial| trial.latency_us.as_ref()?.max).brief(),
    number_of("failed", "operations that ended with a definite error", |trial| counted(trial, |t| t.outcomes.failed))
        .loss()
        .brief()
        .drawn(),
    number_of("timeouts", "operations without an answer in time; they may have taken effect", |trial| {
        counted(trial, |trial| trial.outcomes.timeout)
    })
    .loss()
    .brief()
    .only_if_any(),
    number_of("retried", "attempts beyond the first of each operation", |trial| {
        retried(trial).map(|count| count as f64)
    })
    .only_if_any(),
    number_of("wrong", "answers that contradict what the client did before", |trial| {
        trial.consistency.wrong.map(|count| count as f64)
    })
    .loss()
    .brief(),
    number_of("lost", "acknowledged writes that were gone after the run", |trial| {
        trial.consistency.lost_writes.map(|count| count as f64)
    })
    .loss()
    .brief()
    .drawn(),
    number_of("diverged", "keys on which members differed after the run", |trial| {
        trial.consistency.diverged_keys.map(|count| count as f64)
    })
    .loss()
    .only_if_any(),
    number_of("bad steps", "steps of the exercise that did not end well, their audits included", |trial| {
        let bad: u64 = trial.steps.iter().map(|step| step.failed).sum();
        (!trial.steps.is_empty()).then_some(bad as f64)
    })
    .loss()
    .brief(),
    metric(
        "load 1 min",
        "highest load average over one minute of the lab's first host, in an exercise",
        numbers::number,
        |trial| trial.hosts.iter().find(|host| !trial.steps.is_empty() && host.kind.is_some())?.load1_max,
    )
    .brief()
    .drawn(),
    metric(
        "own load 1 min",
        "the same, less threads that only waited for a CPU: what it would be if the host had its CPUs to itself",
        numbers::number,
        |trial| trial.hosts.iter().find(|host| !trial.steps.is_empty() && host.kind.is_some())?.load1_own_max,
    )
    .brief()
    .drawn(),
    metric("no service", "longest time in which nothing succeeded", numbers::seconds, |trial| {
        longest(trial, |outage| outage.total_s)
    }),
    metric(
        "recovered after",
        "from the fault until throughput was within 5 % of its baseline for good",
        numbers::seconds,
        |trial| longest(trial, |outage| outage.back_to_baseline_s),
    )
    .brief()
    .drawn(),
    metric(
        "energy/cycle",
        "joules for each full cycle of operations, modelled from the profile's watts and the CPU",
        numbers::joules,
        |trial| trial.cost.joules_per_cycle,
    ),
    metric("price/million", "price of a million cycles, in the currency of the profile", numbers::number, |trial| {
        trial.cost.price_per_million_cycles
    }),
];

const fn metric(
    head: &'static str,
    explained: &'static str,
    write: fn(f64) -> String,
    value: FigureOf,
) -> ComparedMetric {
    ComparedMetric { head, explained, brief: false, bars: false, value, write, loss: false, only_if_any: false }
}

const fn number_of(head: &'static str, explained: &'static str, value: FigureOf) -> ComparedMetric {
    metric(head, explained, numbers::median_count, value)
}

impl ComparedMetric {
    const fn brief(self) -> Self {
        Self { brief: true, ..self }
    }

    const fn drawn(self) -> Self {
        Self { bars: true, ..self }
    }

    const fn loss(self) -> Self {
        Self { loss: true, ..self }
    }

    const fn only_if_any(self) -> Self {
        Self { only_if_any: true, ..self }
    }
}

/// Whether there are too many groups for an unfolded table and for bars.
pub fn is_long(groups: &[Group]) -> bool {
    groups.len() > MANY
}

pub fn comparison(input: &ReportInput) -> Option<Table> {
    (input.results.trials.len() > 1).then(|| comparison_of(&groups(input.results, input.plan)))
}

/// Returns the metrics that any of the groups has.
pub fn measured<'a>(groups: &'a [Group]) -> impl Iterator<Item = &'static ComparedMetric> + use<'a> {
    MEASURES.iter().filter(|measure| groups.iter().any(|group| group.spread(measure.value).is_some()))
}

/// Returns a table with the groups as rows and their measured metrics as columns.
pub fn comparison_of(groups: &[Group]) -> Table {
    let repeats = groups.iter().map(|group| group.trials.len()).max().unwrap_or(0);
    let (zero, measures): (Vec<&ComparedMetric>, Vec<&ComparedMetric>) = measured(groups).partition(|measure| {
        measure.only_if_any && groups.iter().all(|group| group.spread(measure.value).is_none_or(|s| s.most == 0.0))
    });
    let mut columns: Vec<Column> = measures
        .iter()
        .map(|measure| Column { brief: measure.brief, ..Column::numeric(measure.head, measure.explained) })
        .collect();
    if groups.len() < 2 {
        columns.insert(0, Column::text("trials"));
    }
    let title = if groups.len() > 1 { "Results by configuration" } else { "Over the repeats" };
    let mut note = if repeats > 1 {
        format!("Medians of up to {repeats} repeats, the range below. Void trials are left out.")
    } else {
        "One trial each: differences between neighbours may be chance.".to_owned()
    };
    if !zero.is_empty() {
        let heads: Vec<&str> = zero.iter().map(|measure| measure.head).collect();
        note.push_str(&format!(" 0 everywhere: {}.", heads.join(", ")));
    }
    if groups.iter().any(|group| measures.iter().any(|measure| is_approximate(group, measure.head))) {
        note.push_str(APPROXIMATE);
    }
    let table = Table::new(title, note, columns).by_group(groups, |group| {
        let number = (groups.len() < 2).then(|| Cell::new(numbers::count(group.trials.len() as u64)));
        vec![number.into_iter().chain(measures.iter().map(|measure| cell(group, measure))).collect()]
    });
    let mut table = table.unwrap_or_default();
    groups.iter().zip(&mut table.rows).for_each(|(group, row)| mark_trust(group, &mut row.cells));
    table.folded_beyond(MANY).explained()
}

/// Adds the worst verdict and its number of trials to the first cell, and mutes the row if no trial
/// counts.
fn mark_trust(group: &Group, cells: &mut [Cell]) {
    let trust = group.trust();
    if trust != Trust::Valid
        && let Some(first) = cells.first_mut()
    {
        let hit = group.trials.iter().filter(|trial| trial.verdict.is == trust).count();
        let of = if group.trials.len() > 1 { format!("{hit} of {} ", group.trials.len()) } else { String::new() };
        first.small = of + super::trust_word(trust);
    }
    if !group.trials.iter().any(|trial| trial.counts()) {
        cells.iter_mut().for_each(|cell| cell.tone = Tone::Muted);
    }
}

fn cell(group: &Group, measure: &ComparedMetric) -> Cell {
    let spread = group.spread(measure.value);
    let cell = approximate(Cell::spread(spread, measure.write), group, measure.head);
    match spread {
        Some(spread) if measure.loss && spread.most > 0.0 => cell.toned(Tone::Bad),
        Some(_) if measure.loss => cell.toned(Tone::Good),
        None if measure.head == "recovered after" && group.counting().any(never_back) => {
            Cell::new("never").toned(Tone::Bad)
        }
        _ => cell,
    }
}

/// Whether there was a baseline and throughput did not return to it within the trial.
fn never_back(trial: &Trial) -> bool {
    outages(trial).any(|(_, outage)| outage.is_never_back())
}

/// Maximum length of a name, such as a path, that serves as a heading.
const HEADING: usize = 16;

pub fn differences(input: &ReportInput) -> Option<Table> {
    let comparisons: Vec<&Comparison> = input.results.comparisons.iter().collect();
    let mut table = (!comparisons.is_empty()).then(|| differences_of(&comparisons))?;
    let unadjusted = text::distinct(comparisons.iter().flat_map(|one| differing::unadjusted(one)));
    for note in unadjusted.iter().map(|one| text::capital(one)).chain(only_storage(input.plan)) {
        table.note.push_str(&format!(" {}.", note.replace('`', "")));
    }
    Some(table)
}

/// Returns a table with the comparisons as rows.
pub fn differences_of(comparisons: &[&Comparison]) -> Table {
    let several_pairs = comparisons.iter().any(|one| (&one.a, &one.b) != (&comparisons[0].a, &comparisons[0].b));
    let placed = comparisons.iter().any(|one| !one.at.is_empty());
    let mut columns = Vec::new();
    if several_pairs {
        columns.push(Column::text("compared"));
    }
    if placed {
        columns.push(Column::text("at"));
    }
    columns.push(Column::text("figure"));
    let too_long = [&comparisons[0].a, &comparisons[0].b].iter().any(|name| name.chars().count() > HEADING);
    let (a, b) = if several_pairs || too_long {
        ("baseline".to_owned(), "other".to_owned())
    } else {
        (comparisons[0].a.clone(), comparisons[0].b.clone())
    };
    let figures_of = [
        (a.as_str(), "mean over its trials, as measured"),
        (b.as_str(), "mean over its trials, as measured"),
        (
            "ratio",
            "of the second to the first, or the difference where a figure can be 0; adjusted for CPU taken by others",
        ),
        ("p", "chance of so large a difference if there is none, corrected for all comparisons"),
    ];
    columns.extend(Column::numerics(&figures_of).into_iter().map(Column::brief));
    let adjusted = comparisons.iter().any(|one| one.raw_ratio.is_some());
    if adjusted {
        columns.push(Column { explained: "the ratio without adjusting".to_owned(), ..Column::text("raw ratio") });
    }
    columns.push(Column::text("verdict"));
    let mut before: Option<(&str, String)> = None;
    let rows = comparisons.iter().map(|one| {
        let place = differing::place(one);
        let begins = before.as_ref().is_some_and(|(b, at)| *b != one.b || *at != place);
        before = Some((&one.b, place.clone()));
        let mut cells = Vec::new();
        if several_pairs {
            cells.push(Cell::new(format!("{} against {}", one.b, one.a)));
        }
        if placed {
            cells.push(Cell::new(place));
        }
        let mut figures = figures(one);
        if adjusted {
            let (raw, interval) = differing::raw_estimate(one);
            figures.insert(figures.len() - 1, Cell::new(raw).with(interval));
        }
        cells.extend(figures);
        Row { cells, begins }
    });
    let shown = "what nine of ten such comparisons would show, by the spread of these trials";
    let table = Table { rows: rows.collect(), ..Table::new("Differences", note(comparisons), columns) };
    table.folded_beyond(MANY).explained().with_terms(&[("minimum detectable change", shown)])
}

fn figures(one: &Comparison) -> Vec<Cell> {
    let write = |value: f64| numbers::by_metric(&one.metric, value);
    let (estimate, interval) = differing::estimate(one);
    let (verdict, tone) = differing::verdict(one);
    let lacking = match one.without {
        [0, 0] => String::new(),
        [a, 0] => format!("missing in {a} trials of the first"),
        [0, b] => format!("missing in {b} trials of the second"),
        [a, b] => format!("missing in {a} trials of the first, {b} of the second"),
    };
    vec![
        Cell::new(differing::figure(&one.metric)),
        Cell::of(one.a_value, write),
        Cell::of(one.b_value, write),
        Cell::new(estimate).with(interval),
        Cell::of(one.p_adjusted, differing::chance),
        Cell::new(verdict.replace('`', "")).with(lacking).toned(tone),
    ]
}

fn note(comparisons: &[&Comparison]) -> String {
    let pairs = comparisons.iter().map(|one| one.pairs).max().unwrap_or(0);
    let how = match pairs {
        0 => "Separate runs (Welch's t; a run is one observation): drift of the machine between them is not in the \
              intervals."
            .to_owned(),
        1 => "One trial of each: nothing is tested, and differences may be chance. Set repeat = 3 or more.".to_owned(),
        pairs => format!("Up to {pairs} pairs of trials played in turn (one model of all of them, on logarithms)."),
    };
    let adjusted_for: BTreeSet<&String> = comparisons.iter().flat_map(|one| &one.adjusted_for).collect();
    let adjusted_for: Vec<String> = adjusted_for.into_iter().cloned().collect();
    let others = match adjusted_for.as_slice() {
        [] => String::new(),
        some => format!(" Ratios are adjusted for CPU taken by others ({}), means are not.", text::listed(some, "and")),
    };
    format!(
        "{how}{others} Intervals are consistent with p, which is corrected for all comparisons (Holm). Void trials are left \
         out."
    )
}

/// Returns how many comparisons differ: `13 of 72 differ`.
pub fn count(comparisons: &[Comparison]) -> String {
    if comparisons.iter().all(|one| one.p.is_none()) {
        return "not tested, one trial of each; set repeat = 3".to_owned();
    }
    let differ = comparisons.iter().filter(|one| one.significant).count();
    format!("{differ} of {} differ", comparisons.len())
}
