//! Figures of an experiment over its runs, oldest first, with their changes. The figures come from
//! each run's `analysis.json`; a run without it is analyzed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use experiment::plan::{MetricPath, percentile};
use record::environment::Environment;
use record::folder::RunFolder;
use record::metric_history::{Changed, CourseRun, FORMAT, FigureChange, FigureSeries, MetricHistory};
use record::results::{Results, Trial};
use serde_json::Value;

use crate::Error;
use crate::compare::{accept, is_ever_changing};
use crate::metrics::metric;
use crate::run::{analyze_for, found, started_unix_s};
use crate::stats::change_points::change_points;
use crate::stats::quantiles::median;
use crate::stats::significance::holm;

/// Metrics that are shown by default, if the runs have them.
pub const USUAL: [&str; 4] =
    ["throughput.operations_per_s", "latency_us.p50", "latency_us.p99", "faults.outage.back_to_baseline_s"];

/// Fixed seed, so that the p-values of a change are the same each time.
const SEED: u64 = 1;

/// A run with its results.
#[derive(Debug, Clone, Default)]
struct HistoryRun {
    folder: String,
    start_unix_s: Option<f64>,
    results: Results,
    /// Number of void trials that are used nevertheless.
    accepted: u32,
    environment: Option<Environment>,
}

/// Variant and point. The point is text, because a JSON value has no order.
type GroupKey = (Option<String>, String);

/// Returns the history of `metrics` (the default metrics if empty) over the runs in these folders.
/// Each folder is a run folder or a folder of run folders. Void trials are used only if they are
/// accepted.
///
/// # Errors
/// If there is no run, if the runs are of different experiments, if no trial has a requested
/// metric, or if a record is damaged elsewhere than at its end.
pub fn history(folders: &[&Path], metrics: &[String], accepts_void: bool) -> Result<MetricHistory, Error> {
    let mut runs: Vec<HistoryRun> = Vec::new();
    for folder in folders {
        runs.extend(read_runs(folder, metrics, accepts_void)?);
    }
    course(runs, metrics)
}

fn read_runs(path: &Path, metrics: &[String], accepts_void: bool) -> Result<Vec<HistoryRun>, Error> {
    let folders = found(path, "give folders that `plimsoll run` made, or a folder of such folders")?;
    folders.iter().map(|folder| read_run(folder, metrics, accepts_void)).collect()
}

fn read_run(folder: &RunFolder, metrics: &[String], accepts_void: bool) -> Result<HistoryRun, Error> {
    let mut results = match folder.read_results()? {
        Some(results) if has_percentiles(&results, metrics) => results,
        // If the run's records are gone, its results are the only figures.
        Some(results) => {
            Some(analyze_for(folder, metrics)?).filter(|new| has_percentiles(new, metrics)).unwrap_or(results)
        }
        None => analyze_for(folder, metrics)?,
    };
    let accepted = if accepts_void { accept(&mut results) } else { 0 };
    let mut start_unix_s: Option<f64> = None;
    for trial in &results.trials {
        let clock = started_unix_s(folder, &trial.id)?;
        start_unix_s = start_unix_s.into_iter().chain(clock).reduce(f64::min);
    }
    Ok(HistoryRun {
        folder: folder.path().display().to_string(),
        start_unix_s,
        results,
        accepted,
        environment: folder.read_environment()?,
    })
}

/// Whether results have the percentiles that these metrics name. Other percentiles must be computed
/// from the records.
fn has_percentiles(results: &Results, metrics: &[String]) -> bool {
    let paths = metrics.iter().map(|path| MetricPath::from(path.as_str()));
    let mut percentiles = paths.filter(|path| path.0.last().is_some_and(|name| percentile(name).is_some()));
    percentiles.all(|path| results.trials.iter().any(|trial| !metric(trial, &path).is_empty()))
}

fn course(mut runs: Vec<HistoryRun>, metrics: &[String]) -> Result<MetricHistory, Error> {
    // A folder may be given twice: directly, and by its parent folder.
    runs.sort_by(|a, b| a.folder.cmp(&b.folder));
    runs.dedup_by(|a, b| a.folder == b.folder);
    // Folder names contain their time, so that runs without a clock are ordered, too.
    runs.sort_by_key(|run| Path::new(&run.folder).file_name().map(std::ffi::OsStr::to_os_string));
    if runs.iter().all(|run| run.start_unix_s.is_some()) {
        runs.sort_by(|a, b| a.start_unix_s.unwrap_or(0.0).total_cmp(&b.start_unix_s.unwrap_or(0.0)));
    }
    let title = one_experiment(&runs)?;
    let environments: Vec<BTreeMap<String, String>> = runs.iter().map(|run| fields(run.environment.as_ref())).collect();
    let mut series = Vec::new();
    let asked: Vec<&str> =
        if metrics.is_empty() { USUAL.to_vec() } else { metrics.iter().map(String::as_str).collect() };
    for path in asked {
        let found = of_metric(path, &runs);
        if found.is_empty() && !metrics.is_empty() {
            return Err(Error::Incomparable {
                what: format!("no usable trial has a figure `{path}`"),
                hint: "a metric is a path inside a trial of analysis.json, such as latency_us.p99 or failed_pct; void trials are not \
                       used without --accept"
                    .to_owned(),
            });
        }
        series.extend(found);
    }
    find_changes(&mut series, &environments);
    let listed = runs.iter().enumerate().map(|(index, run)| CourseRun {
        folder: run.folder.clone(),
        start_unix_s: run.start_unix_s,
        trials: count(run, |_| true),
        void: run.accepted + count(run, |trial| !trial.counts()),
        accepted: run.accepted,
        changed: if index == 0 { Vec::new() } else { changed(&environments[index - 1], &environments[index]) },
    });
    Ok(MetricHistory { format: FORMAT, title, runs: listed.collect(), series })
}

/// Smallest change that is reported, percent.
const SMALLEST_PCT: f64 = 5.0;

/// Chance of a false alarm, over all series together.
const LEVEL: f64 = 0.05;

/// Finds the changes in each series. Leaves out changes that chance explains for this number of
/// series (Holm), and changes smaller than [`SMALLEST_PCT`].
fn find_changes(series: &mut [FigureSeries], environments: &[BTreeMap<String, String>]) {
    let together = series.len();
    series.iter_mut().for_each(|one| one.changes = changes(&one.values, environments, together));
    // A series without a change has an unknown p-value of at least the level. Using 1 instead does
    // not alter the results of the others.
    let chances: Vec<f64> =
        series.iter().map(|one| one.changes.iter().map(|change| change.p).fold(1.0, f64::min)).collect();
    for (one, chance) in series.iter_mut().zip(holm(&chances)) {
        let is_real = chance < LEVEL;
        one.changes.retain(|change| is_real && change.change_pct.is_none_or(|pct| pct.abs() >= SMALLEST_PCT));
    }
}

fn count(run: &HistoryRun, which: impl Fn(&&Trial) -> bool) -> u32 {
    u32::try_from(run.results.trials.iter().filter(which).count()).unwrap_or(u32::MAX)
}

/// Returns the common title of all runs.
fn one_experiment(runs: &[HistoryRun]) -> Result<String, Error> {
    let mut titles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in runs {
        titles.entry(&run.results.title).or_default().push(&run.folder);
    }
    if titles.len() > 1 {
        let each = titles.iter().map(|(title, folders)| format!("\n  `{title}`: {}", folders.join(", ")));
        return Err(Error::Incomparable {
            what: format!("these runs belong to {} experiments:{}", titles.len(), each.collect::<String>()),
            hint: "give runs of one experiment".to_owned(),
        });
    }
    Ok(titles.keys().next().map(|title| (*title).to_owned()).unwrap_or_default())
}

/// Returns the series of a metric for every variant and point where any run has it.
fn of_metric(path: &str, runs: &[HistoryRun]) -> Vec<FigureSeries> {
    let mut places: Vec<(GroupKey, &Trial)> = Vec::new();
    for trial in runs.iter().flat_map(|run| &run.results.trials) {
        if !places.iter().any(|(known, _)| *known == place(trial)) {
            places.push((place(trial), trial));
        }
    }
    let series = places.iter().filter_map(|(wanted, example)| {
        let values: Vec<Option<f64>> = runs.iter().map(|run| value(path, run, wanted)).collect();
        values.iter().any(Option::is_some).then(|| FigureSeries {
            metric: path.to_owned(),
            variant: example.variant.clone(),
            point: example.point.clone(),
            changes: Vec::new(),
            values,
        })
    });
    series.collect()
}

fn place(trial: &Trial) -> GroupKey {
    (trial.variant.clone(), serde_json::to_string(&trial.point).unwrap_or_default())
}

/// Returns the median over a run's usable trials at this variant and point. If a trial has several
/// values, for example of several faults, their median is used.
fn value(path: &str, run: &HistoryRun, wanted: &GroupKey) -> Option<f64> {
    let usable = run.results.trials.iter().filter(|trial| trial.counts() && place(trial) == *wanted);
    let values: Vec<f64> = usable.filter_map(|trial| median(&metric(trial, &path.into()))).collect();
    median(&values)
}

fn changes(values: &[Option<f64>], environments: &[BTreeMap<String, String>], together: usize) -> Vec<FigureChange> {
    // Runs without the figure are not part of its series.
    let (at, series): (Vec<usize>, Vec<f64>) =
        values.iter().enumerate().filter_map(|(run, value)| Some((run, (*value)?))).unzip();
    let found = change_points(&series, SEED, together);
    let begins = std::iter::once(0).chain(found.iter().map(|change| change.at));
    let ends = found.iter().skip(1).map(|change| change.at).chain([series.len()]);
    let changes = found.iter().zip(begins.zip(ends)).filter_map(|(change, (begin, end))| {
        let (before, after) = (median(&series[begin..change.at])?, median(&series[change.at..end])?);
        Some(FigureChange {
            run: u32::try_from(at[change.at]).ok()?,
            before,
            after,
            change_pct: (before != 0.0).then(|| 100.0 * (after - before) / before),
            p: change.p,
            environment: changed(&environments[at[change.at - 1]], &environments[at[change.at]]),
        })
    });
    changes.collect()
}

/// Returns every known field of an environment, by its path.
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
mod tests {
    use record::results::{Fault, Outage, Quantiles, Throughput, Trust, Verdict};

    use super::*;

    /// A run on this day, with a trial for each of these rates.
    fn run(day: u32, kernel: &str, rates: &[f64]) -> HistoryRun {
        let trial = |(index, rate): (usize, &f64)| Trial {
            id: format!("{:03}", index + 1),
            throughput: Throughput { operations_per_s: Some(*rate), ..Throughput::default() },
            latency_us: Some(Quantiles { p50: Some(1e6 / rate), ..Quantiles::default() }),
            ..Trial::default()
        };
        HistoryRun {
            folder: format!("runs/2026-11-{day:02}T03-00-00-nightly"),
            start_unix_s: Some(1e9 + f64::from(day) * 86_400.0),
            results: Results {
                title: "Nightly".into(),
                trials: rates.iter().enumerate().map(trial).collect(),
                ..Results::default()
            },
            accepted: 0,
            environment: Some(Environment { kernel: Some(kernel.into()), ..Environment::default() }),
        }
    }

    /// Twelve nights of about 1,000/s, and 900/s from the ninth on with another kernel; out of
    /// order.
    fn nights() -> Vec<HistoryRun> {
        let mut runs: Vec<HistoryRun> = (1..=12)
            .map(|day| {
                let (kernel, rate) = if day < 9 { ("6.1.0-18", 1_000.0) } else { ("6.1.0-19", 900.0) };
                let wobble = f64::from(day * 7 % 5);
                run(day, kernel, &[rate + wobble, rate - 3.0, rate + 500.0])
            })
            .collect();
        runs.rotate_left(5);
        runs
    }

    #[test]
    fn a_slower_kernel_is_found_with_its_night() {
        let course = course(nights(), &[]).unwrap();
        assert_eq!((course.title.as_str(), course.runs.len()), ("Nightly", 12));
        assert!(course.runs.is_sorted_by(|a, b| a.start_unix_s < b.start_unix_s));
        let metrics: Vec<&str> = course.series.iter().map(|series| series.metric.as_str()).collect();
        assert_eq!(metrics, ["throughput.operations_per_s", "latency_us.p50"], "what no run has is left out");
        let [change] = &course.series[0].changes[..] else { panic!("{:?}", course.series[0]) };
        assert_eq!(change.run, 8);
        assert!((change.before - 1_002.0).abs() < 2.0 && (change.after - 902.0).abs() < 3.0, "{change:?}");
        assert!((change.change_pct.unwrap() + 10.0).abs() < 0.5 && change.p < 0.05);
        let kernel = Changed { field: "kernel".into(), from: Some("6.1.0-18".into()), to: Some("6.1.0-19".into()) };
        assert_eq!(change.environment, std::slice::from_ref(&kernel));
        assert_eq!(course.runs[8].changed, [kernel]);
        assert!(course.runs.iter().enumerate().all(|(index, run)| index == 8 || run.changed.is_empty()));
        assert_eq!(course.series[1].changes.len(), 1, "latency tells the same");
    }

    #[test]
    fn runs_of_void_trials_are_gaps() {
        let mut runs = nights();
        runs.sort_by(|a, b| a.folder.cmp(&b.folder));
        for trial in &mut runs[8].results.trials {
            trial.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        }
        runs[0].results.trials[0].verdict.is = Trust::Void;
        let course = course(runs, &[]).unwrap();
        let rates = &course.series[0];
        assert_eq!(rates.values[0], Some((997.0 + 1_500.0) / 2.0));
        assert_eq!(rates.values[8], None);
        assert_eq!((course.runs[0].void, course.runs[8].void, course.runs[8].trials), (1, 3, 3));
        assert_eq!(rates.changes.last().map(|change| change.run), Some(9), "the first that was usable");
        assert_eq!(rates.changes.last().unwrap().environment[0].field, "kernel", "changed in the run that was void");
    }

    #[test]
    fn variants_have_series_and_faults_have_medians() {
        let mut runs = vec![run(1, "6", &[10.0, 20.0]), run(2, "6", &[11.0, 21.0])];
        for run in &mut runs {
            run.results.trials[1].variant = Some("other".into());
            let fault = |back_s| Fault {
                name: "oops".into(),
                outage: Some(Outage { back_to_baseline_s: Some(back_s), ..Outage::default() }),
                ..Fault::default()
            };
            run.results.trials[1].faults = vec![fault(1.0), fault(2.0), fault(9.0)];
        }
        let course =
            course(runs, &["throughput.operations_per_s".into(), "faults.oops.outage.back_to_baseline_s".into()]);
        let series = course.unwrap().series;
        let found: Vec<_> = series.iter().map(|series| (series.variant.as_deref(), series.values.clone())).collect();
        let expected = [
            (None, vec![Some(10.0), Some(11.0)]),
            (Some("other"), vec![Some(20.0), Some(21.0)]),
            (Some("other"), vec![Some(2.0), Some(2.0)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn mixed_experiments_and_unknown_metrics_are_errors() {
        let mut runs = nights();
        runs[3].results.title = "Another".into();
        let message = course(runs.clone(), &[]).unwrap_err().to_string();
        assert!(
            message.contains("2 experiments") && message.contains("`Another`: runs/") && message.contains("`Nightly`")
        );
        let message = course(nights(), &["latency_us.p98".into()]).unwrap_err().to_string();
        assert!(message.contains("no usable trial has a figure `latency_us.p98`"), "{message}");
        let twice = [nights(), nights()].concat();
        assert_eq!(course(twice, &[]).unwrap().runs.len(), 12, "named twice, counted once");
    }
}
