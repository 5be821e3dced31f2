//! Check of the statistics on simulated runs with known truths. The runs are written as run folders
//! and analysed by the functions that `plimsoll analyze` and `plimsoll compare` call. The check
//! counts how often intervals contain the truth and how often a decision is wrong.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use analysis::CompareOptions;
use fastrand::Rng;
use record::calibration::CalibrationRow;
use record::compared::Compared;
use record::metric_history::MetricHistory;
use record::results::Results;
use synthetic_run::{SimulatedPlan, SyntheticTrial};

use crate::exit::Failure;

mod comparisons;
mod courses;
mod curves;
mod quantiles;
mod recovery;
mod steadiness;
mod synthetic_run;
mod throughput;

/// Calibration rows of a setting.
pub type Rows = Result<Vec<CalibrationRow>, Failure>;
/// Function that simulates a setting and returns its rows.
pub type Job = Box<dyn Fn(&Bench<'_>) -> Rows + Send + Sync>;

/// Function that returns the simulations of a subject, one for each setting.
type Jobs = fn() -> Vec<Job>;

/// Names of the subjects, each with its simulations.
const SUBJECTS: &[(&str, Jobs)] = &[
    ("throughput", throughput::jobs),
    ("steadiness", steadiness::jobs),
    ("quantiles", quantiles::jobs),
    ("recovery", recovery::jobs),
    ("compare", comparisons::jobs),
    ("curves", curves::jobs),
    ("history", courses::jobs),
];

/// Goal for the share of 95 % intervals that contain the truth: minimum and maximum.
const COVERAGE: [Option<f64>; 2] = [Some(0.92), Some(0.98)];

/// Returns the goal of a share with this minimum.
fn at_least(share: f64) -> [Option<f64>; 2] {
    [Some(share), None]
}

/// Returns the goal of a share with this maximum.
fn at_most(share: f64) -> [Option<f64>; 2] {
    [None, Some(share)]
}

/// Returns a row that counts no replicates yet.
fn row(of: &str, setting: &str, asked: &str, goal: [Option<f64>; 2]) -> CalibrationRow {
    let [of, setting, asked] = [of, setting, asked].map(str::to_owned);
    CalibrationRow { of, setting, asked, goal, ..CalibrationRow::default() }
}

/// Returns the names of the subjects.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUBJECTS.iter().map(|(name, _)| *name)
}

/// Inputs of all simulations: folder, number of replicates and seed.
pub struct Bench<'a> {
    /// Folder for run folders.
    scratch: &'a Path,
    /// Sequence number of the next run folder.
    next: AtomicUsize,
    /// Factor of all numbers of replicates.
    factor: f64,
    seed: u64,
}

impl Bench<'_> {
    /// Returns the number of replicates of a setting. `short` is the number in the short form.
    fn replicates(&self, short: u32) -> u32 {
        (f64::from(short) * self.factor).ceil() as u32
    }

    /// Returns the random number generator of a setting. It does not depend on other settings.
    fn random(&self, setting: &str) -> Rng {
        // FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo 1991).
        let hashed = setting
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Rng::with_seed(self.seed ^ hashed)
    }

    /// Writes a run of these trials, and analyses it.
    fn analyzed(&self, trials: &[SyntheticTrial]) -> Result<Results, Failure> {
        self.analyzed_sweep(&SimulatedPlan::default(), trials)
    }

    /// Writes a run of these trials with the plan's variants and sweep, and analyses it.
    fn analyzed_sweep(&self, plan: &SimulatedPlan<'_>, trials: &[SyntheticTrial]) -> Result<Results, Failure> {
        self.in_folder(|path| Ok(analysis::analyze(&synthetic_run::write(path, plan, trials)?)?))
    }

    /// Writes a run of these trials, and compares its variants.
    fn compared(
        &self,
        variants: &[&str],
        trials: &[SyntheticTrial],
        options: &CompareOptions,
    ) -> Result<Compared, Failure> {
        self.in_folder(|path| {
            let plan = SimulatedPlan { variants, ..SimulatedPlan::default() };
            let run = synthetic_run::write(path, &plan, trials)?;
            Ok(analysis::compare(&[run.path()], options)?)
        })
    }

    /// Writes runs with these results, and returns the history of a metric over them.
    fn course(&self, runs: &[Results], metric: &str) -> Result<MetricHistory, Failure> {
        self.in_folder(|path| {
            for (number, results) in runs.iter().enumerate() {
                synthetic_run::write_results(&path.join(format!("{number:03}")), results)?;
            }
            Ok(analysis::history(&[path], &[metric.to_owned()], true)?)
        })
    }

    /// Calls a function with the path of a new folder, which is removed afterwards.
    fn in_folder<T>(&self, with: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
        let path = self.scratch.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let found = with(&path);
        // A leftover is removed with the scratch folder.
        let _ = std::fs::remove_dir_all(&path);
        found
    }
}

/// Choice of simulations, and their size.
pub struct Wanted<'a> {
    /// Names of the subjects to simulate; all subjects if empty.
    pub parts: &'a [String],
    /// Seed of the simulations.
    pub seed: u64,
    /// Factor of the numbers of replicates, which is 1 in the short form.
    pub rounds: u32,
    /// Another factor of the numbers of replicates, for tests.
    pub scale: f64,
}

/// Simulates all settings of the chosen subjects, on all processors. Returns `None` if interrupted.
pub fn calibrated(
    wanted: &Wanted<'_>,
    scratch: &Path,
    is_interrupted: &(dyn Fn() -> bool + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<Vec<CalibrationRow>>, Failure> {
    let subjects =
        SUBJECTS.iter().filter(|(name, _)| wanted.parts.is_empty() || wanted.parts.iter().any(|part| part == name));
    let jobs: Vec<Job> = subjects.flat_map(|(_, jobs)| jobs()).collect();
    let bench = Bench {
        scratch,
        next: AtomicUsize::new(0),
        factor: f64::from(wanted.rounds) * wanted.scale,
        seed: wanted.seed,
    };
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<(usize, Rows)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some((number, job)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, jobs.get(at)?)))
        {
            if is_interrupted() {
                return;
            }
            let rows = job(&bench);
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, rows));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    if is_interrupted() {
        return Ok(None);
    }
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    let rows: Vec<Vec<CalibrationRow>> = results.into_iter().map(|(_, rows)| rows).collect::<Result<_, Failure>>()?;
    Ok(Some(merged(rows.into_iter().flatten(), wanted.rounds == 1)))
}

/// Groups rows by subject, and adds up the counts of rows with the same subject, setting and
/// question.
fn merged(rows: impl Iterator<Item = CalibrationRow>, allows_chance: bool) -> Vec<CalibrationRow> {
    let mut all: Vec<CalibrationRow> = Vec::new();
    for row in rows {
        match all
            .iter_mut()
            .find(|known| (&known.of, &known.setting, &known.asked) == (&row.of, &row.setting, &row.asked))
        {
            Some(known) => {
                known.replicates += row.replicates;
                known.refused += row.refused;
                known.hits += row.hits;
            }
            None => {
                // The row goes after the last row of its subject.
                let place = all.iter().rposition(|known| known.of == row.of).map_or(all.len(), |last| last + 1);
                all.insert(place, row);
            }
        }
    }
    all.iter_mut().for_each(|row| row.judge(allows_chance));
    all
}
