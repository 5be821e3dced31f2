//! Figures of an experiment over its runs, oldest first, and where they changed. Figures are those of each run's `analysis.json`; a run
//! without one is analysed. It must not word the outcome, nor say which change of the environment is to blame.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use record::course::{Change, Changed, Course, CourseRun, FORMAT, Series};
use record::environment::Environment;
use record::folder::RunFolder;
use record::results::{Results, Trial, Trust};
use serde_json::Value;

use crate::found::{found, started_unix_s};
use crate::metrics::metric;
use crate::stats::change_points::{ChangePoint, change_points};
use crate::stats::order::median;
use crate::surroundings::is_ever_changing;
use crate::{Error, analyze};

/// What is looked at if nobody says what; of these, what the runs have.
pub const USUAL: [&str; 4] =
    ["throughput.operations_per_s", "latency_us.p50", "latency_us.p99", "faults.outage.back_to_baseline_s"];

/// The chances of a change are the same each time they are asked for.
const SEED: u64 = 1;

/// A run, read.
#[derive(Debug, Clone, Default)]
struct Run {
    folder: String,
    start_unix_s: Option<f64>,
    results: Results,
    environment: Option<Environment>,
}

/// Variant and point; the point as text, because a JSON value has no order.
type Place = (Option<String>, String);

/// The course of `metrics` (the usual ones if empty) over the runs in these folders, each a run folder or a folder of such.
///
/// # Errors
/// If there is no run, they are of different experiments, no trial has a metric that was asked for, or a record is broken elsewhere
/// than at its end.
pub fn history(folders: &[&Path], metrics: &[String]) -> Result<Course, Error> {
    let mut runs: Vec<Run> = Vec::new();
    for folder in folders {
        runs.extend(read_runs(folder)?);
    }
    course(runs, metrics)
}

fn read_runs(path: &Path) -> Result<Vec<Run>, Error> {
    let folders = found(path, "give folders that `plimsoll run` made, or one that holds several of them")?;
    folders.iter().map(read_run).collect()
}

fn read_run(folder: &RunFolder) -> Result<Run, Error> {
    let results = match folder.read_results()? {
        Some(results) => results,
        None => analyze(folder)?,
    };
    let mut start_unix_s: Option<f64> = None;
    for trial in &results.trials {
        let clock = started_unix_s(folder, &trial.id)?;
        start_unix_s = start_unix_s.into_iter().chain(clock).reduce(f64::min);
    }
    Ok(Run {
        folder: folder.path().display().to_string(),
        start_unix_s,
        results,
        environment: folder.read_environment()?,
    })
}

fn course(mut runs: Vec<Run>, metrics: &[String]) -> Result<Course, Error> {
    // A folder may have been named twice, itself and by the one it lies in.
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    runs.dedup_by(|a, b| a.folder == b.folder);
    // Folders are named by when they were made, so that those without a clock find their place, too.
    let name = |run: &Run| Path::new(&run.folder).file_name().map(std::ffi::OsStr::to_os_string);
    runs.sort_by_key(name);
    if runs.iter().all(|run| run.start_unix_s.is_some()) {
        runs.sort_by(|a, b| a.start_unix_s.unwrap_or(0.0).total_cmp(&b.start_unix_s.unwrap_or(0.0)));
    }
    let title = one_experiment(&runs)?;
    let environments: Vec<BTreeMap<String, String>> = runs.iter().map(|run| fields(run.environment.as_ref())).collect();
    let mut series = Vec::new();
    let asked: Vec<&str> =
        if metrics.is_empty() { USUAL.to_vec() } else { metrics.iter().map(String::as_str).collect() };
    for path in asked {
        let found = of_metric(path, &runs, &environments);
        if found.is_empty() && !metrics.is_empty() {
            return Err(Error::Incomparable {
                what: format!("no usable trial has a figure `{path}`"),
                hint: "a metric is a path inside a trial of analysis.json, such as latency_us.p99 or failed_pct"
                    .to_owned(),
            });
        }
        series.extend(found);
    }
    let listed = runs.iter().enumerate().map(|(index, run)| CourseRun {
        folder: run.folder.clone(),
        start_unix_s: run.start_unix_s,
        trials: count(run, |_| true),
        void: count(run, |trial| trial.verdict.is == Trust::Void),
        changed: if index == 0 { Vec::new() } else { changed(&environments[index - 1], &environments[index]) },
    });
    Ok(Course { format: FORMAT, title, runs: listed.collect(), series })
}

fn count(run: &Run, which: impl Fn(&&Trial) -> bool) -> u32 {
    u32::try_from(run.results.trials.iter().filter(which).count()).unwrap_or(u32::MAX)
}

/// The title that all runs have.
fn one_experiment(runs: &[Run]) -> Result<String, Error> {
    let mut titles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in runs {
        titles.entry(&run.results.title).or_default().push(&run.folder);
    }
    if titles.len() > 1 {
        let each = titles.iter().map(|(title, folders)| format!("\n  `{title}`: {}", folders.join(", ")));
        return Err(Error::Incomparable {
            what: format!("these runs are of {} experiments:{}", titles.len(), each.collect::<String>()),
            hint: "give the runs of one of them".to_owned(),
        });
    }
    Ok(titles.keys().next().map(|title| (*title).to_owned()).unwrap_or_default())
}

/// A metric at every variant and point where any run has it.
fn of_metric(path: &str, runs: &[Run], environments: &[BTreeMap<String, String>]) -> Vec<Series> {
    let mut places: Vec<(Place, &Trial)> = Vec::new();
    for trial in runs.iter().flat_map(|run| &run.results.trials) {
        if !places.iter().any(|(known, _)| *known == place(trial)) {
            places.push((place(trial), trial));
        }
    }
    let of_place = |(wanted, example): &(Place, &Trial)| {
        let values: Vec<Option<f64>> = runs.iter().map(|run| value(path, run, wanted)).collect();
        values.iter().any(Option::is_some).then(|| Series {
            metric: path.to_owned(),
            variant: example.variant.clone(),
            point: example.point.clone(),
            changes: changes(&values, environments),
            values,
        })
    };
    places.iter().filter_map(of_place).collect()
}

fn place(trial: &Trial) -> Place {
    (trial.variant.clone(), serde_json::to_string(&trial.point).unwrap_or_default())
}

/// The median over a run's usable trials there; of a trial that has several values, such as of several faults, their median.
fn value(path: &str, run: &Run, wanted: &Place) -> Option<f64> {
    let usable = run.results.trials.iter().filter(|trial| trial.verdict.is != Trust::Void && place(trial) == *wanted);
    let values: Vec<f64> = usable.filter_map(|trial| median(&metric(trial, path))).collect();
    median(&values)
}

fn changes(values: &[Option<f64>], environments: &[BTreeMap<String, String>]) -> Vec<Change> {
    // Runs without the figure are no part of its series.
    let (at, series): (Vec<usize>, Vec<f64>) =
        values.iter().enumerate().filter_map(|(run, value)| Some((run, (*value)?))).unzip();
    let found = change_points(&series, SEED);
    let end = |index: usize| found.get(index).map_or(series.len(), |change| change.at);
    let change = |(index, change): (usize, &ChangePoint)| {
        let begin = index.checked_sub(1).map_or(0, |earlier| found[earlier].at);
        let (before, after) = (median(&series[begin..change.at])?, median(&series[change.at..end(index + 1)])?);
        Some(Change {
            run: u32::try_from(at[change.at]).ok()?,
            before,
            after,
            change_pct: (before != 0.0).then(|| 100.0 * (after - before) / before),
            p: change.p,
            environment: changed(&environments[at[change.at - 1]], &environments[at[change.at]]),
        })
    };
    found.iter().enumerate().filter_map(change).collect()
}

/// Every field of an environment that is known, by its path.
fn fields(environment: Option<&Environment>) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    if let Some(environment) = environment {
        collect(&serde_json::to_value(environment).unwrap_or_default(), "", &mut fields);
    }
    fields.retain(|path, _| !is_ever_changing(path));
    fields
}

fn collect(value: &Value, path: &str, fields: &mut BTreeMap<String, String>) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| collect(value, &below(key), fields)),
        Value::Null => {}
        Value::String(text) => {
            fields.insert(path.to_owned(), text.clone());
        }
        other => {
            fields.insert(path.to_owned(), other.to_string());
        }
    }
}

fn changed(from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> Vec<Changed> {
    let paths: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let differ = paths.into_iter().filter(|path| from.get(*path) != to.get(*path));
    differ
        .map(|path| Changed { field: path.clone(), from: from.get(path).cloned(), to: to.get(path).cloned() })
        .collect()
}

#[cfg(test)]
mod tests;
