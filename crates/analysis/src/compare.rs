//! Run folders beside each other: read, brought to sides, compared, held against a gate. Where one side is given, its variants
//! are compared. It must not word the outcome, nor decide on an exit code.

use std::path::Path;

use experiment::plan::Plan;
use record::compared::{Compared, FORMAT, Gated, Judged, Side, Surrounding};
use record::environment::Environment;
use record::folder::RunFolder;
use record::results::{Comparison, Results, Trial, Trust};

use crate::comparisons::{self, Played, gated, worse_pct};
use crate::found::{found, started_unix_s};
use crate::metrics::metric;
use crate::run::plan_of;
use crate::surroundings::{self, PLAN};
use crate::{Error, analyze};

/// How to compare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Paths of the figures; the usual ones if empty.
    pub metrics: Vec<String>,
    /// How much worse is too much, percent; `None` without a gate.
    pub gate_pct: Option<f64>,
}

/// A run, read.
struct Run {
    plan: Plan,
    results: Results,
    environment: Option<Environment>,
    /// When each trial's load began, by the calendar.
    started_unix_s: Vec<Option<f64>>,
}

/// The runs of a side, with its name.
struct Runs {
    name: String,
    runs: Vec<Run>,
}

/// Compares folders: each a run folder or a folder of such. The first is the baseline; of one alone the variants are compared.
///
/// # Errors
/// If there is nothing to compare, or a record is broken elsewhere than at its end.
pub fn compare(folders: &[&Path], options: &Options) -> Result<Compared, Error> {
    let mut sides = folders.iter().map(|folder| read_side(folder)).collect::<Result<Vec<Runs>, Error>>()?;
    tell_apart(&mut sides);
    known(&options.metrics, &sides)?;
    let comparisons = match sides.as_slice() {
        [only] => of_variants(only, &options.metrics)?,
        sides => of_sides(sides, &options.metrics)?,
    };
    let surroundings = all_surroundings(&sides);
    Ok(Compared {
        format: FORMAT,
        warnings: warnings(&sides, &surroundings, &comparisons, options),
        surroundings,
        sides: sides.iter().map(summed).collect(),
        gate_pct: options.gate_pct,
        comparisons: comparisons.into_iter().map(|comparison| judged(comparison, options.gate_pct)).collect(),
    })
}

fn read_side(path: &Path) -> Result<Runs, Error> {
    let folders = found(path, "give a folder that `plimsoll run` made, or one that holds several of them")?;
    let runs = folders.iter().map(read_run).collect::<Result<Vec<Run>, Error>>()?;
    let side = Runs { name: path.display().to_string(), runs };
    let Some((first, others)) = side.runs.split_first() else { return Ok(side) };
    for (other, folder) in others.iter().zip(&folders[1..]) {
        let plans = |run: &Run| std::slice::from_ref(&run.plan).to_vec();
        if let Some(one) = surroundings::plans(&plans(first), &plans(other)).first() {
            let (field, a, b) = (&one.field, &one.a, &one.b);
            return Err(Error::Incomparable {
                what: format!("{}: the runs in it are of different experiments", side.name),
                hint: format!(
                    "{field} is {a} in {} and {b} in {}",
                    folders[0].path().display(),
                    folder.path().display()
                ),
            });
        }
    }
    Ok(side)
}

/// A folder that is given twice gets a number, so that it is told which of the two is better.
fn tell_apart(sides: &mut [Runs]) {
    for index in 1..sides.len() {
        let (before, side) =
            (sides[..index].iter().map(|side| side.name.clone()).collect::<Vec<_>>(), &mut sides[index]);
        if before.contains(&side.name) {
            side.name = format!("{} ({})", side.name, index + 1);
        }
    }
}

fn read_run(folder: &RunFolder) -> Result<Run, Error> {
    let results = analyze(folder)?;
    let started_unix_s =
        results.trials.iter().map(|trial| started_unix_s(folder, &trial.id)).collect::<Result<Vec<_>, _>>()?;
    Ok(Run { plan: plan_of(folder)?, environment: folder.read_environment()?, results, started_unix_s })
}

fn known(metrics: &[String], sides: &[Runs]) -> Result<(), Error> {
    let trials = || sides.iter().flat_map(|side| &side.runs).flat_map(|run| &run.results.trials);
    match metrics.iter().find(|path| !trials().any(|trial| !metric(trial, path).is_empty())) {
        None => Ok(()),
        Some(path) => Err(Error::Incomparable {
            what: format!("no trial has a figure `{path}`"),
            hint: "a metric is a path inside a trial of analysis.json, such as latency_us.p99 or failed_pct".to_owned(),
        }),
    }
}

fn played(side: &Runs) -> Vec<Played<'_>> {
    let of_run = |(run, read): (usize, &'_ Run)| -> Vec<(usize, usize)> {
        (0..read.results.trials.len()).map(|trial| (run, trial)).collect()
    };
    let all = side.runs.iter().enumerate().flat_map(of_run);
    all.map(|(run, index)| Played {
        trial: &side.runs[run].results.trials[index],
        run,
        started_unix_s: side.runs[run].started_unix_s.get(index).copied().flatten(),
    })
    .collect()
}

fn of_variants(side: &Runs, metrics: &[String]) -> Result<Vec<Comparison>, Error> {
    let Some(first) = side.runs.first() else { return Ok(Vec::new()) };
    let found = comparisons::within_runs(&first.plan, &played(side), metrics);
    if found.is_empty() {
        return Err(Error::Incomparable {
            what: format!("{} has nothing to compare: no two variants with usable trials at one point", side.name),
            hint: "give two folders, the first of them the baseline".to_owned(),
        });
    }
    Ok(found)
}

fn of_sides(sides: &[Runs], metrics: &[String]) -> Result<Vec<Comparison>, Error> {
    let as_sides: Vec<comparisons::Side<'_>> =
        sides.iter().map(|side| comparisons::Side { name: side.name.clone(), trials: played(side) }).collect();
    let found = comparisons::between(&as_sides, metrics);
    if let Some(side) = sides.iter().skip(1).find(|side| !found.iter().any(|found| found.b == side.name)) {
        return Err(Error::Incomparable {
            what: format!("{} and {} have no common point with usable trials", sides[0].name, side.name),
            hint: "compare runs of one experiment, or of experiments with the same variants and swept values"
                .to_owned(),
        });
    }
    Ok(found)
}

fn all_surroundings(sides: &[Runs]) -> Vec<Surrounding> {
    let environments =
        |side: &Runs| -> Vec<Option<Environment>> { side.runs.iter().map(|run| run.environment.clone()).collect() };
    let plans = |side: &Runs| -> Vec<Plan> { side.runs.iter().map(|run| run.plan.clone()).collect() };
    let Some((a, others)) = sides.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for b in others {
        let mut of_side = surroundings::environments(&environments(a), &environments(b));
        of_side.extend(surroundings::plans(&plans(a), &plans(b)));
        of_side.iter_mut().for_each(|one| one.side.clone_from(&b.name));
        found.append(&mut of_side);
    }
    found
}

fn summed(side: &Runs) -> Side {
    let trials: Vec<&Trial> = side.runs.iter().flat_map(|run| &run.results.trials).collect();
    Side {
        name: side.name.clone(),
        title: side.runs.first().map(|run| run.results.title.clone()).unwrap_or_default(),
        runs: side.runs.len() as u32,
        trials: trials.len() as u32,
        void: trials.iter().filter(|trial| trial.verdict.is == Trust::Void).count() as u32,
        verdict: side.runs.iter().map(|run| run.results.verdict.is).max().unwrap_or_default(),
    }
}

/// What a reader has to know before reading the comparisons.
fn warnings(
    sides: &[Runs],
    surroundings: &[Surrounding],
    comparisons: &[Comparison],
    options: &Options,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((a, others)) = sides.split_first() {
        let is_experiment =
            |one: &Surrounding| ["load.", "target.", "faults.", "steps."].iter().any(|of| one.field.starts_with(of));
        for b in others {
            if surroundings.iter().filter(|one| one.of == PLAN && one.side == b.name).any(is_experiment) {
                warnings.push(format!(
                    "{} and {} are different experiments: target, load or faults differ",
                    a.name, b.name
                ));
            }
        }
    }
    for side in sides.iter().map(summed).filter(|side| side.void > 0) {
        warnings.push(format!("{}: {} of {} trials are void and left out", side.name, side.void, side.trials));
    }
    if sides.len() > 1 && comparisons.iter().any(|comparison| comparison.pairs == 0) {
        warnings.push(
            "the runs were not played in turn, so what drifted on the machine between them is in the differences and not \
             in their intervals"
                .to_owned(),
        );
    }
    let lacking =
        comparisons.iter().filter(|found| found.without.iter().any(|count| *count > 0)).map(|found| &found.metric);
    let mut lacking: Vec<&String> = lacking.collect();
    lacking.dedup();
    lacking.sort();
    lacking.dedup();
    warnings.extend(
        lacking
            .into_iter()
            .map(|metric| format!("{metric}: some trials do not have it and are left out of its comparison")),
    );
    let unsure =
        options.gate_pct.map(|gate| comparisons.iter().filter(|found| gated(found, gate) == Gated::CannotTell).count());
    if let (Some(gate), Some(unsure @ 1..)) = (options.gate_pct, unsure) {
        warnings.push(format!(
            "a change of {gate} % might not have been shown in {unsure} of {} comparisons: more repeats, or longer trials, help",
            comparisons.len()
        ));
    }
    warnings
}

fn judged(comparison: Comparison, gate_pct: Option<f64>) -> Judged {
    let gate = gate_pct.map(|gate| gated(&comparison, gate));
    let worse_pct = worse_pct(&comparison).filter(|worse| worse.is_finite());
    Judged { comparison, worse_pct, gate }
}

#[cfg(test)]
mod tests;
