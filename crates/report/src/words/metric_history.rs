//! Output of `history`: each figure over the runs, with its changes and the changes of the
//! environment at the same run.

use record::metric_history::{Changed, CourseRun, FigureChange, FigureSeries, MetricHistory};
use text::{Tone, listed, numbers, without_controls};

use super::summary::set;
use crate::tables::{Cell, Column, Row, Table};

/// Maximum width in the terminal, columns.
const WIDTH: usize = 100;
/// Maximum number of environment changes that are named; further changes are only counted.
const NAMED: usize = 4;

/// Returns every series of a history, ending in a newline, with the terminal's colours if `colour`.
pub fn course(course: &MetricHistory, colour: bool) -> String {
    let mut parts = vec![heading(course)];
    parts.extend(course.series.iter().map(|series| section(course, series, colour)));
    if course.series.is_empty() {
        let void: u32 = course.runs.iter().map(|run| run.void - run.accepted).sum();
        let hint = if void > 0 { "; --accept uses void trials as well" } else { "" };
        parts.push(format!("no usable trial has any of the figures{hint}\n"));
    }
    text::visible(&parts.join("\n")).into_owned()
}

fn heading(course: &MetricHistory) -> String {
    let runs = numbers::plural(course.runs.len(), "run");
    let found = match course.series.iter().map(|series| series.changes.len()).sum() {
        0 => "no change point in any figure".to_owned(),
        changes => numbers::plural(changes, "change point"),
    };
    format!("{}\n{runs}: {found}\n", without_controls(&course.title))
}

fn section(course: &MetricHistory, series: &FigureSeries, colour: bool) -> String {
    let point = series.point.iter().map(|(path, value)| format!("{path} = {}", text::of_json(value)));
    let place: Vec<String> = series.variant.iter().cloned().chain(point).collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    let rows = course.runs.iter().zip(&series.values).enumerate().map(|(index, (run, value))| {
        let change = series.changes.iter().find(|change| change.run as usize == index);
        let value = Cell::of(*value, |value| numbers::by_metric(&series.metric, value));
        let said = change.map_or_else(|| also(run), |change| said(&series.metric, change));
        let parts = [accepted(run), said].into_iter().filter(|part| !part.is_empty());
        let said = parts.collect::<Vec<_>>().join("; ");
        // A path does not tell whether a higher value is better.
        let tone = if change.is_some() { Tone::Doubtful } else { Tone::Muted };
        Row { cells: vec![Cell::new(name(run)), value, Cell::new(said).toned(tone)], begins: change.is_some() }
    });
    let value = Column { brief: true, ..Column::numeric("median", "") };
    let table = Table {
        columns: vec![Column::text("run"), value, Column::text("change")],
        rows: rows.collect(),
        ..Table::default()
    };
    format!("{}{}\n{}", without_controls(&series.metric), without_controls(&place), set(&table, WIDTH, colour))
}

/// Returns the folder's name without its path.
fn name(run: &CourseRun) -> String {
    run.folder.trim_end_matches('/').rsplit('/').next().unwrap_or(&run.folder).to_owned()
}

/// Returns a text such as
/// `1,000/s → 900/s (−10 %, p = 0.001); changed since the run before: kernel 6.1.0-18 → 6.1.0-19`.
fn said(metric: &str, change: &FigureChange) -> String {
    let [before, after] = [change.before, change.after].map(|value| numbers::by_metric(metric, value));
    let pct = change.change_pct.map_or_else(String::new, |pct| format!("{}, ", numbers::change(pct)));
    let levels = format!("{before} → {after} ({pct}p = {})", numbers::number(change.p));
    match named(&change.environment) {
        None => format!("{levels}; no change of the environment is known"),
        Some(changed) => format!("{levels}; changed since the run before: {changed}"),
    }
}

/// Returns a note that the run's median includes void trials.
fn accepted(run: &CourseRun) -> String {
    if run.accepted == 0 {
        return String::new();
    }
    format!("{} of {} trials void, used all the same", run.accepted, run.trials)
}

/// Returns environment changes of a run whose figure has not changed.
fn also(run: &CourseRun) -> String {
    named(&run.changed).map_or_else(String::new, |changed| format!("changed: {changed}"))
}

fn named(changed: &[Changed]) -> Option<String> {
    let mut fields = Vec::new();
    for one in changed.iter().take(NAMED) {
        let [from, to] = [&one.from, &one.to].map(|value| value.as_deref().unwrap_or("unknown"));
        fields.push(format!("{} {from} → {to}", one.field));
    }
    if changed.len() > NAMED {
        fields.push(format!("{} more", changed.len() - NAMED));
    }
    (!fields.is_empty()).then(|| listed(&fields, "and"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn made_up() -> MetricHistory {
        let changed = vec![Changed { field: "kernel".into(), from: Some("6.1.0-18".into()), to: None }];
        let mut runs = [1, 2, 3].map(|day| CourseRun {
            folder: format!("runs/2026-11-{day:02}T03-00-00-nightly"),
            trials: 3,
            ..CourseRun::default()
        });
        runs[2].changed.clone_from(&changed);
        let change = FigureChange {
            run: 2,
            before: 1_000.0,
            after: 822.0,
            change_pct: Some(-17.8),
            p: 0.004,
            environment: changed,
        };
        let series = FigureSeries {
            metric: "throughput.operations_per_s".into(),
            variant: Some("wait".into()),
            point: BTreeMap::from([("load.agents".to_owned(), 8.into())]),
            values: vec![Some(1_000.0), None, Some(822.0)],
            changes: vec![change],
        };
        MetricHistory { title: "Nightly".into(), runs: runs.to_vec(), series: vec![series], ..MetricHistory::default() }
    }

    #[test]
    fn a_change_is_listed_with_its_run_and_environment() {
        insta::assert_snapshot!(course(&made_up(), false));
    }

    #[test]
    fn run_names_are_not_wrapped() {
        let mut long = made_up();
        let name = "2026-11-03T03-00-00-what-a-crash-of-my-own-program-costs-its-callers";
        long.runs[2].folder = format!("runs/{name}");
        let text = course(&long, false);
        assert!(text.contains(&format!("  {name}  ")), "{text}");
        assert!(text.lines().all(|line| text::width(line) <= WIDTH), "{text}");
    }

    #[test]
    fn a_history_without_changes_is_reported() {
        let mut calm = made_up();
        calm.series[0].changes.clear();
        let text = course(&calm, false);
        assert!(text.contains("3 runs: no change point in any figure\n"), "{text}");
        assert!(text.contains("changed: kernel 6.1.0-18 → unknown"), "{text}");
        calm.series.clear();
        assert!(course(&calm, false).ends_with("no usable trial has any of the figures\n"));
    }
}
