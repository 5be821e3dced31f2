//! Tables of judgements: consistency checks, claims, requirements, and the verdict of every trial.

use analysis::answer::steadiness;
use analysis::trial_groups::{Group, groups, short};
use experiment::plan::{self, Plan};
use record::events::Ending;
use record::results::{Claim, Holds, LoadStop, PooledConsistency, Requirement, Results, Steady, Trial, Verdict};
use text::{Tone, numbers, of_json};

use super::{Cell, Column, Row, Table, tone_of, trial_cell, trust_word};
use crate::ReportInput;
use crate::words::summary::shared_starts;
use crate::words::usable_figures;

const MANY: usize = 12;
/// Maximum number of groups with examples.
const EXEMPLARY: usize = 3;
const NOT_CHECKED: &str = "not checked";

/// A column, and its cell for a group. The column is left out if no trial has data for it.
struct VerdictColumn {
    head: &'static str,
    explained: &'static str,
    is_known: fn(&Trial) -> bool,
    cell: fn(&Group, &Results) -> Cell,
}

const FIGURES: &[VerdictColumn] = &[
    VerdictColumn {
        head: "keys checked",
        explained: "audited keys that were read back after the run and judged",
        is_known: |_| true,
        cell: |group, _| count(group, |trial| trial.consistency.checked, false),
    },
    VerdictColumn {
        head: "acknowledged",
        explained: "keys with an acknowledged write or removal; if fewer were checked, those are a random sample",
        is_known: |trial| trial.consistency.acknowledged.is_some(),
        cell: |group, _| count(group, |trial| trial.consistency.acknowledged, false),
    },
    VerdictColumn {
        head: "lost writes",
        explained: "keys whose acknowledged write was gone or changed after the run; if members were queried, on all \
                    of them",
        is_known: |_| true,
        cell: |group, _| count(group, |trial| trial.consistency.lost_writes, true),
    },
    VerdictColumn {
        head: "wrong answers",
        explained: "answers that contradict what the same client did before",
        is_known: |_| true,
        cell: |group, _| count(group, |trial| trial.consistency.wrong, true),
    },
    VerdictColumn {
        head: "wrong per 1,000",
        explained: "wrong answers per 1,000 cycles, over all repeats; below, the 95 % interval",
        is_known: |trial| {
            trial.consistency.wrong.is_some() && trial.consistency.cycles.is_some_and(|cycles| cycles > 0)
        },
        cell: |group, results| rate(pooled(group, results)),
    },
    VerdictColumn {
        head: "diverged keys",
        explained: "keys on which members differed after the run, or that some of them lacked",
        is_known: |_| true,
        cell: |group, _| diverged(group),
    },
    VerdictColumn {
        head: "records by member",
        explained: "records of each member after the run, in the trial in which members differed most",
        is_known: |trial| !trial.consistency.replicas.is_empty(),
        cell: |group, _| tables(group),
    },
    VerdictColumn {
        head: "linearizable",
        explained: "whether a single copy of each audited key explains all that clients saw during the load; below, keys \
                    that none explains",
        is_known: |trial| !["", NOT_CHECKED].contains(&trial.consistency.linearizable.as_str()),
        cell: |group, _| linearizable(group),
    },
    VerdictColumn {
        head: "missed own writes",
        explained: "reads that returned an older value than the same client's last write",
        is_known: |trial| trial.consistency.not_read_your_writes.is_some(),
        cell: |group, _| count(group, |trial| trial.consistency.not_read_your_writes, true),
    },
    VerdictColumn {
        head: "reads went back",
        explained: "reads that returned an older value than an earlier read of the same client",
        is_known: |trial| trial.consistency.not_monotonic_reads.is_some(),
        cell: |group, _| count(group, |trial| trial.consistency.not_monotonic_reads, true),
    },
];

/// Returns a trial's examples.
type ExamplesOf = fn(&Trial) -> &[String];

/// Examples, each with its heading and source. They are too long for a column.
const EXAMPLES: [(&str, ExamplesOf); 3] = [
    ("Lost keys, for example", |trial| &trial.consistency.lost_examples),
    ("Diverged keys, for example", |trial| &trial.consistency.diverged_examples),
    ("Keys that are not linearizable, for example", |trial| &trial.consistency.not_linearizable_examples),
];

pub fn consistency(input: &ReportInput) -> Option<Table> {
    let (results, groups) = (input.results, groups(input.results, input.plan));
    if !results.trials.iter().any(checked) {
        return None;
    }
    let figures: Vec<&VerdictColumn> =
        FIGURES.iter().filter(|figure| results.trials.iter().any(|trial| (figure.is_known)(trial))).collect();
    let columns = figures.iter().map(|figure| Column::numeric(figure.head, figure.explained).brief()).collect();
    let table = Table::new("Consistency", note(results, &groups), columns);
    let table =
        table.by_group(&groups, |group| vec![figures.iter().map(|figure| (figure.cell)(group, results)).collect()]);
    Some(table?.folded_beyond(MANY).explained())
}

/// Returns a note with members that could not be asked, and examples of lost and differing keys.
fn note(results: &Results, groups: &[Group]) -> String {
    let mut sentences = vec![not_asked(results)];
    for (of_what, of) in EXAMPLES {
        let found = groups.iter().filter_map(|group| some(group, of_what, of));
        sentences.extend(found.take(EXEMPLARY));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

/// Names members that could not be asked, so that their absence from the counts is not mistaken for
/// agreement.
fn not_asked(results: &Results) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for trial in &results.trials {
        let silent = trial.consistency.replicas.iter().filter_map(|table| Some((table, table.failed.as_ref()?)));
        reasons.extend(silent.map(|(table, reason)| format!("{} in trial {} ({reason})", table.name, trial.id)));
    }
    match reasons.as_slice() {
        [] => String::new(),
        [only] => format!("Not queried, and not counted: {only}."),
        [first, others @ ..] => format!("Not queried, and not counted: {first}, and {} more.", others.len()),
    }
}

fn checked(trial: &Trial) -> bool {
    let found = &trial.consistency;
    let counts = [found.checked, found.wrong, found.lost_writes, found.diverged_keys, found.not_linearizable];
    counts.iter().any(Option::is_some)
}

fn count(group: &Group, value: fn(&Trial) -> Option<u64>, loss: bool) -> Cell {
    let spread = group.spread(|trial| value(trial).map(|count| count as f64));
    let cell = Cell::spread(spread, numbers::median_count);
    match spread {
        Some(spread) if loss => cell.toned(if spread.most > 0.0 { Tone::Bad } else { Tone::Good }),
        _ => cell,
    }
}

fn pooled<'a>(group: &Group, results: &'a Results) -> Option<&'a PooledConsistency> {
    let first = group.trials.first()?;
    results.consistencies.iter().find(|found| found.variant == first.variant && found.point == first.point)
}

fn rate(found: Option<&PooledConsistency>) -> Cell {
    let cell = Cell::of(found.and_then(|found| found.wrong_per_1000_cycles), numbers::number);
    match found.and_then(|found| found.ci95) {
        Some([_, high]) if found.is_some_and(|found| found.wrong == Some(0)) => {
            cell.with(format!("at most {}", numbers::number(high)))
        }
        ends => cell.over(ends, numbers::number),
    }
}

fn diverged(group: &Group) -> Cell {
    let cell = count(group, |trial| trial.consistency.diverged_keys, true);
    let differing = group.counting().filter_map(|trial| trial.consistency.diverged_differing).max();
    let missing = group.counting().filter_map(|trial| trial.consistency.diverged_missing).max();
    let mut kinds = Vec::new();
    for (most, kind) in [(differing, "differing"), (missing, "missing somewhere")] {
        kinds.extend(most.filter(|most| *most > 0).map(|most| format!("{} {kind}", numbers::count(most))));
    }
    match (group.counting().count(), kinds.as_slice()) {
        (_, []) => cell,
        (1, kinds) => cell.with(kinds.join(", ")),
        (_, kinds) => {
            let range = if cell.small.is_empty() { String::new() } else { format!("{}; ", cell.small) };
            cell.with(format!("{range}up to {}", kinds.join(", ")))
        }
    }
}

/// Returns the members' table sizes in the trial in which they differed most.
fn tables(group: &Group) -> Cell {
    let most = group.counting().filter(|trial| !trial.consistency.replicas.is_empty());
    // The first of several equal trials, unlike with `max_by_key`.
    let most = most.reduce(
        |best, next| {
            if next.consistency.diverged_keys > best.consistency.diverged_keys { next } else { best }
        },
    );
    let Some(replicas) = most.map(|trial| &trial.consistency.replicas) else { return Cell::new(numbers::NONE) };
    let sizes: Vec<String> = replicas.iter().map(|table| numbers::or_none(table.records, numbers::count)).collect();
    let alike = replicas.iter().all(|table| table.records == replicas[0].records);
    Cell::new(match sizes.as_slice() {
        [first, _, ..] if alike => format!("{} × {first}", sizes.len()),
        all => {
            let named = replicas.iter().zip(all).map(|(table, size)| format!("{} {size}", table.name));
            named.collect::<Vec<_>>().join(", ")
        }
    })
}

fn linearizable(group: &Group) -> Cell {
    let words: Vec<&str> = group.counting().map(|trial| trial.consistency.linearizable.as_str()).collect();
    let cell = match words.first() {
        Some(first) if !first.is_empty() && words.iter().all(|word| word == first) => Cell::new(*first),
        Some(first) if !first.is_empty() => Cell::new("differs between repeats"),
        _ => return Cell::new(NOT_CHECKED),
    };
    match group.spread(|trial| trial.consistency.not_linearizable.map(|keys| keys as f64)) {
        Some(spread) if spread.most > 0.0 => cell.toned(Tone::Bad).with(spread.text(numbers::median_count)),
        _ if words.iter().all(|word| *word == "yes") => cell.toned(Tone::Good),
        _ => cell,
    }
}

/// Returns the examples of the trial that has the most examples.
fn some(group: &Group, of_what: &str, of: ExamplesOf) -> Option<String> {
    let examples = group.counting().map(of).max_by_key(|examples| examples.len()).filter(|found| !found.is_empty())?;
    let name = group.name();
    let place = if name.is_empty() { String::new() } else { format!(" with {name}") };
    Some(format!("{of_what}{place}: {}.", examples.join("; ")))
}

pub fn claims(input: &ReportInput) -> Option<Table> {
    let claims = &input.results.claims;
    let mut columns = ["claim", "metric", "expected", "this run", "holds"].map(Column::text).to_vec();
    columns[1..3].iter_mut().for_each(|column| column.brief = false);
    // A source that all claims share is shown once.
    let source = claims.first().map(|claim| claim.source.as_str());
    let source = source.filter(|source| !source.is_empty() && claims.iter().all(|claim| claim.source == *source));
    let rows = claims.iter().enumerate().map(|(index, claim)| {
        let mut planned = input.plan.claims.get(index).into_iter().chain(&input.plan.claims);
        let planned = planned.find(|planned| planned.says == claim.says && *planned.metric == *claim.metric);
        Row::of(claim_row(claim, planned, source, input.results))
    });
    let says = source.map_or_else(String::new, |source| format!("By {source}. "));
    let note = "Other hardware gives other numbers. What matters is whether the claim holds. Below a figure is its \
                range over the trials, or the 95 % interval of a function such as peak(a).";
    let table = Table::new("Claims", says + note, columns).filled(rows.collect())?;
    // If no claim was measured, the table contains no finding.
    let table = Table { folded: claims.iter().all(|claim| claim.holds == Holds::NotMeasured), ..table };
    let on_void = (ON_VOID, "the claim is about void trials, which no other figure uses");
    let terms = [
        ("not shown", "the trials disagree, or the bound of the claim lies inside the 95 % interval"),
        ("not measured", "this run does not measure it"),
        on_void,
    ];
    let used = if claims.iter().any(|claim| claim.on_void) { &terms[..] } else { &terms[..2] };
    Some(table.with_terms(used))
}

const ON_VOID: &str = "on void trials";

fn claim_row(claim: &Claim, planned: Option<&plan::Claim>, source: Option<&str>, results: &Results) -> Vec<Cell> {
    let asked = planned.map_or_else(String::new, |planned| asked(&claim.metric, &planned.range, results));
    let filter = planned.map_or_else(String::new, |planned| filter(&planned.filter));
    let of_its_own = if source.is_some() { String::new() } else { claim.source.clone() };
    let filter = if filter.is_empty() { filter } else { format!("where {filter}") };
    vec![
        Cell::new(claim.says.clone()).with(of_its_own),
        Cell::new(claim.metric.clone()).with(filter),
        Cell::new(asked),
        said(claim, results),
        held(claim),
    ]
}

/// Formats a figure with its unit. A safe load has the unit of the value that its search raised.
pub fn figure(metric: &str, value: f64, results: &Results) -> String {
    let raised = results.safe_loads.first().filter(|_| metric.starts_with("safe_load("));
    match raised.map(|found| short(&found.over)) {
        Some("rate") => numbers::rate(value),
        Some(unit) => format!("{} {unit}", numbers::number(value)),
        None => numbers::by_metric(metric, value),
    }
}

/// Returns this run's value with its range, or the reason why there is none.
pub fn said(claim: &Claim, results: &Results) -> Cell {
    let write = |value| figure(&claim.metric, value, results);
    // The edge of a search is not safe, because half of all trials break there.
    if let Some([low, _]) = claim.range.filter(|_| claim.metric.starts_with("safe_load(")) {
        let edge = claim.value.map(|value| format!("edge near {}", write(value)));
        let small = edge.into_iter().chain(numbers::interval(claim.range, write));
        return Cell::new(format!("at least {}", write(low))).with(small.collect::<Vec<_>>().join("; "));
    }
    let small = [numbers::interval(claim.range, write).unwrap_or_default(), claim.note.clone()]
        .into_iter()
        .filter(|text| !text.is_empty());
    Cell::of(claim.value, write).with(small.collect::<Vec<_>>().join("; "))
}

/// Returns a word for whether the claim holds.
pub fn held(claim: &Claim) -> Cell {
    let (word, tone) = match claim.holds {
        Holds::Yes if claim.trials == 1 => ("yes, one trial", Tone::Good),
        Holds::Yes => ("yes", Tone::Good),
        Holds::No => ("no", Tone::Bad),
        Holds::NotShown => ("not shown", Tone::Doubtful),
        Holds::NotMeasured => ("not measured", Tone::Muted),
    };
    let word = if claim.on_void { format!("{word}, {ON_VOID}") } else { word.to_owned() };
    Cell::new(word).toned(tone)
}

/// Returns a text such as `at least 10 ms and at most 20 ms`.
pub fn asked(metric: &str, range: &plan::MetricRange, results: &Results) -> String {
    let words = range.bounds().map(|(word, bound)| {
        let word = if word == "equal to" { "exactly" } else { word };
        format!("{word} {}", figure(metric, bound, results))
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Returns a text such as `variant is wait, target.with.state is ets`.
pub fn filter(filter: &std::collections::BTreeMap<String, serde_json::Value>) -> String {
    let parts: Vec<String> = filter.iter().map(|(path, value)| format!("{path} is {}", of_json(value))).collect();
    parts.join(", ")
}

/// Returns the limits of the requirement at this index, with unit, and the trials to which it
/// applies.
pub fn requirement_asked(requirement: &Requirement, index: usize, plan: &Plan, results: &Results) -> (String, String) {
    let planned = plan.requirements.get(index).filter(|planned| *planned.metric == *requirement.metric);
    planned.map_or_else(
        || (requirement.asked.clone(), String::new()),
        |planned| {
            let is_at_safe_load = plan.find.is_some() && planned.metric.path().is_some();
            let of = is_at_safe_load.then(|| "at the safe load".to_owned()).into_iter();
            let of: Vec<String> = of.chain([filter(&planned.filter)]).filter(|words| !words.is_empty()).collect();
            (asked(&requirement.metric, &planned.range, results), of.join(", "))
        },
    )
}

pub fn requirements(input: &ReportInput) -> Option<Table> {
    let rows = input.results.requirements.iter().enumerate().map(|(index, requirement)| {
        let (asked, filter) = requirement_asked(requirement, index, input.plan, input.results);
        let (word, tone) = match (requirement.holds, requirement.trials) {
            (true, 1) => ("met, one trial", Tone::Good),
            (true, _) => ("met", Tone::Good),
            (false, _) => ("violated", Tone::Bad),
        };
        let worst = match requirement.value {
            Some(value) => {
                let value = figure(&requirement.metric, value, input.results);
                // A trial that did not measure the figure violates the requirement, although the
                // measured values are in range.
                match &requirement.unmeasured {
                    Some(why) => Cell::new(format!("{value}, not measured in every trial: {why}")),
                    None => Cell::new(value),
                }
            }
            None => {
                Cell::new("not measured").toned(Tone::Muted).with(requirement.unmeasured.clone().unwrap_or_default())
            }
        };
        let metric = Cell::new(requirement.metric.clone()).with(filter);
        Row::of(vec![metric, Cell::new(asked), worst, Cell::new(word).toned(tone)])
    });
    let columns = ["required", "asked", "worst value", "met"].map(Column::text).to_vec();
    let table = Table::new("Requirements", "A requirement that was not measured is violated.", columns);
    // The page also shows the requirements next to its verdict.
    let folded = input.results.requirements.iter().all(|requirement| requirement.holds);
    Table { folded, ..table }.filled(rows.collect())
}

pub fn trials(input: &ReportInput) -> Option<Table> {
    let columns = ["trial", "load started", "ended", "figures taken from", "verdict"].map(Column::text).to_vec();
    let shared = shared_starts(input.results).map_or_else(String::new, |told| format!(" {told}."));
    let table = Table::new("Trials", format!("In the order in which they ran.{shared}"), columns);
    let rows = input.results.trials.iter().map(|trial| trial_row(trial, input));
    Some(table.filled(rows.collect())?.folded_beyond(MANY))
}

fn trial_row(trial: &Trial, input: &ReportInput) -> Row {
    let (ended, tone) = match trial.ended {
        Some(Ending::Done) => ("done", Tone::Plain),
        Some(Ending::Interrupted) => ("interrupted", Tone::Doubtful),
        Some(Ending::Failed) => ("failed", Tone::Bad),
        None => ("records end early", Tone::Bad),
    };
    let ended = match &trial.stopped {
        None => Cell::new(ended).toned(tone),
        Some(LoadStop { at_s, key, after_fault }) => {
            let fault = after_fault.as_ref().map(|fault| format!(", after fault {fault}")).unwrap_or_default();
            let what = format!("first violation: key {key}{fault}");
            Cell::new(format!("stopped at {}", numbers::moment(*at_s))).toned(Tone::Bad).with(what)
        }
    };
    let measured = trial.measured_s.map(|[from, to]| format!("{} to {}", numbers::moment(from), numbers::moment(to)));
    let started = input.trials.iter().find(|series| series.trial == trial.id).and_then(|s| s.start_unix_s());
    let verdict = Cell::new(trust_word(trial.verdict.is)).toned(tone_of(trial.verdict.is));
    Row::of(vec![
        trial_cell(trial, input),
        Cell::of(started, numbers::utc),
        ended,
        Cell::optional(measured.as_ref()).with(trial.steady.as_ref().map(how).unwrap_or_default()),
        verdict.with(why(&trial.verdict)),
    ])
}

/// Returns the reasons for a verdict, its notes and, if only some figures can be used, which ones.
fn why(verdict: &Verdict) -> String {
    let notes = verdict.notes.iter().map(|note| format!("note: {note}"));
    let parts = verdict.reasons.iter().cloned().chain(notes).chain([usable_figures(verdict)]);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Returns how the end of the warm-up was found, and the result.
fn how(steady: &Steady) -> String {
    let how = match (&steady.unsteady, steady.method.as_str()) {
        (Some(what), method) => format!("warm-up by {method}; {what} not steady"),
        (None, "MSER-5") if steady.is == Some(true) => "warm-up by MSER-5; steady".to_owned(),
        (None, "MSER-5") => "warm-up by MSER-5".to_owned(),
        (None, "given") if steady.is == Some(true) => "warm-up as given; steady".to_owned(),
        (None, "given") => "warm-up as given".to_owned(),
        (None, method) => format!("warm-up: {method}"),
    };
    let trends =
        [("throughput", steady.throughput_change_ci95), ("latency", steady.latency_change_ci95)].map(|(name, ci95)| {
            ci95.map_or_else(String::new, |[low, high]| format!("; trend of {name} {low:+.1} to {high:+.1} %"))
        });
    let notes = steadiness::notes(steady).into_iter().map(|note| format!("; {note}"));
    how + &trends.concat() + &notes.collect::<String>()
}

#[cfg(test)]
mod tests {
    use experiment::plan::Plan;
    use record::results::ReplicaTable;

    use super::*;
    use crate::example;

    fn table(results: &Results, plan: &Plan) -> Table {
        consistency(&ReportInput::without_records(results, plan)).unwrap()
    }

    fn cell<'a>(table: &'a Table, head: &str) -> &'a Cell {
        &table.rows[0].cells[table.columns.iter().position(|column| column.head == head).unwrap()]
    }

    fn replica(name: &str, records: Option<u64>) -> ReplicaTable {
        let failed = records.is_none().then(|| "its host is down".to_owned());
        ReplicaTable { name: name.to_owned(), records, failed }
    }

    #[test]
    fn wrong_answer_rates_have_intervals_and_zero_has_a_bound() {
        let (plan, mut results) = example::plain();
        results.trials[0].consistency.cycles = Some(16_000);
        assert_eq!(cell(&table(&results, &plan), "wrong per 1,000").text, numbers::NONE, "not pooled");
        for (wrong, per_1000, ci95, shown) in [
            (0, 0.0, [0.0, 0.2306], Cell::new("0").with("at most 0.231")),
            (160, 10.0, [8.5, 11.5], Cell::new("10").with("8.5–11.5")),
        ] {
            results.consistencies = vec![PooledConsistency {
                wrong: Some(wrong),
                wrong_per_1000_cycles: Some(per_1000),
                ci95: Some(ci95),
                ..Default::default()
            }];
            assert_eq!(cell(&table(&results, &plan), "wrong per 1,000"), &shown);
        }
        // Without counted cycles, there is no such column.
        results.trials[0].consistency.cycles = None;
        assert!(table(&results, &plan).columns.iter().all(|column| column.head != "wrong per 1,000"));
    }

    #[test]
    fn members_that_differ_are_shown_with_their_records() {
        let (plan, mut results) = example::plain();
        let found = &mut results.trials[0].consistency;
        (found.diverged_keys, found.diverged_differing, found.diverged_missing) = (Some(6), Some(2), Some(5));
        found.diverged_examples =
            vec!["a: n1 version 1, n2 version 2".to_owned(), "b: n1 \"x\", n2 nothing".to_owned()];
        found.replicas = vec![replica("n2", Some(1_176)), replica("n3", Some(1_180)), replica("n4", None)];
        let shown = table(&results, &plan);
        assert_eq!(
            cell(&shown, "diverged keys"),
            &Cell::new("6").with("2 differing, 5 missing somewhere").toned(Tone::Bad)
        );
        assert_eq!(cell(&shown, "records by member").text, format!("n2 1,176, n3 1,180, n4 {}", numbers::NONE));
        let note = "Not queried, and not counted: n4 in trial 001 (its host is down). Diverged keys, for example: a: n1 version 1, n2 version 2; \
                b: n1 \"x\", n2 nothing.";
        assert_eq!(shown.note, note, "a column of its own was squeezed to nothing");

        let found = &mut results.trials[0].consistency;
        found.replicas = vec![replica("n2", Some(1_180)), replica("n3", Some(1_180))];
        (found.diverged_keys, found.diverged_differing, found.diverged_missing) = (Some(0), Some(0), Some(0));
        found.diverged_examples.clear();
        let shown = table(&results, &plan);
        assert_eq!(cell(&shown, "diverged keys"), &Cell::new("0").toned(Tone::Good));
        assert_eq!((cell(&shown, "records by member").text.as_str(), shown.note.as_str()), ("2 × 1,180", ""));
    }
}
