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
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder for one test, gone when it is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plimsoll-compare-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// A copy of the golden run.
        fn copy(&self, name: &str) -> PathBuf {
            let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../record/golden");
            let from = golden.join("2026-11-20T10-31-05-a-name-server-crashes");
            let to = self.0.join(name);
            copy(&from, &to);
            to
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }

    fn edit(path: &Path, from: &str, to: &str) {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    fn refused(folders: &[&Path], options: &Options) -> String {
        compare(folders, options).expect_err("that cannot be compared").to_string()
    }

    #[test]
    fn a_run_and_its_copy_do_not_differ() {
        let scratch = Scratch::new("copy");
        let (a, b) = (scratch.copy("a"), scratch.copy("b"));
        let found = compare(&[&a, &b], &Options { gate_pct: Some(5.0), ..Options::default() }).unwrap();
        assert_eq!(found.surroundings, Vec::new());
        assert_eq!(found.sides[0].name, a.display().to_string());
        assert_eq!((found.sides[0].runs, found.sides[0].trials), (1, 2));
        assert!(found.comparisons.len() > 3, "{found:#?}");
        assert!(found.comparisons.iter().all(|judged| !judged.comparison.significant), "{found:#?}");
        assert!(found.gated(Gated::Fails).next().is_none(), "{found:#?}");
        // Two trials that differ among themselves could not have shown 5 %, and the gate says so.
        assert!(found.gated(Gated::CannotTell).count() > 3, "{found:#?}");
        assert!(
            found.warnings.iter().any(|warning| warning.contains("might not have been shown")),
            "{:?}",
            found.warnings
        );
        assert!(found.warnings.iter().any(|warning| warning.contains("not played in turn")), "{:?}", found.warnings);
    }

    #[test]
    fn what_differs_is_said() {
        let scratch = Scratch::new("differs");
        let (a, b) = (scratch.copy("a"), scratch.copy("b"));
        edit(&b.join("plan.json"), "\"agents\": 200", "\"agents\": 100");
        let kernel = RunFolder::at(&b).read_environment().unwrap().unwrap().kernel.unwrap();
        edit(&b.join("environment.json"), &kernel, "7.0.0");
        let found = compare(&[&a, &b], &Options::default()).unwrap();
        let fields: Vec<(&str, &str)> =
            found.surroundings.iter().map(|one| (one.of.as_str(), one.field.as_str())).collect();
        assert_eq!(fields, [("environment", "kernel"), ("plan", "load.agents")]);
        assert!(found.warnings.iter().any(|warning| warning.contains("different experiments")), "{:?}", found.warnings);
    }

    #[test]
    fn a_folder_of_runs_is_one_side() {
        let scratch = Scratch::new("pool");
        let (base, candidate) = (scratch.0.join("base"), scratch.0.join("candidate"));
        for name in ["1", "2", "3"] {
            copy(&scratch.copy("one"), &base.join(name));
            copy(&scratch.copy("one"), &candidate.join(name));
        }
        let found = compare(&[&base, &candidate], &Options::default()).unwrap();
        assert_eq!((found.sides[0].runs, found.sides[1].trials), (3, 6));
        edit(&base.join("2/plan.json"), "\"agents\": 200", "\"agents\": 100");
        let why = refused(&[&base, &candidate], &Options::default());
        assert!(why.contains("different experiments") && why.contains("load.agents is 200"), "{why}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_a_reason() {
        let scratch = Scratch::new("refused");
        let (a, empty) = (scratch.copy("a"), scratch.0.join("empty"));
        std::fs::create_dir(&empty).unwrap();
        for (folders, metric, word) in [
            (vec![a.as_path(), empty.as_path()], "failed_pct", "not a run folder"),
            (vec![a.as_path(), Path::new("nowhere/at/all")], "failed_pct", "nowhere/at/all"),
            (vec![a.as_path()], "failed_pct", "two folders"),
            (vec![a.as_path(), a.as_path()], "latency_us.p98", "latency_us.p98"),
        ] {
            let why = refused(&folders, &Options { metrics: vec![metric.to_owned()], gate_pct: None });
            assert!(why.contains(word), "{why}");
        }
        let other = scratch.copy("other");
        edit(&other.join("plan.json"), "\"point\": {}", "\"point\": { \"load.agents\": 200 }");
        let why = refused(&[&a, &other], &Options::default());
        assert!(why.contains("no common point"), "{why}");
    }
}
