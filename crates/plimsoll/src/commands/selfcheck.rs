//! `plimsoll selfcheck`: compares measurements on this machine with known truths. The self-check
//! measures only as `plimsoll run` does: it plays experiments, and reads the results from the run
//! folders.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use conduct::Interrupts;
use experiment::secrets::Secrets;
use experiment::source::Source;
use fastrand::Rng;
use parts::{PARTS, PlannedPart};
use record::calibration::{self, Calibration};
use record::environment::Environment;
use record::events::Ending;
use record::folder::RunFolder;
use record::results::Results;
use record::selfcheck::{FORMAT, HeldTruth, SelfCheck, TruthOutcome};

use crate::catalog::{self, TargetCatalog};
use crate::commands::run::{self, PreparedRun};
use crate::commands::{experiments, folders};
use crate::exit::{Exit, Failure};
use crate::{cli, named_files, output, progress, signals};

mod parts;
mod statistics;

/// Number of times that each part is played in the long form.
const ROUNDS: u32 = 10;
/// Names of the result files in the folder that holds the runs.
const PAGE: &str = "selfcheck.html";
const RESULTS: &str = "selfcheck.json";
const STATISTICS: &str = "statistics.json";
/// Factor by which the long form multiplies the number of simulated runs.
const STATISTICS_ROUNDS: u32 = 5;

/// Plays the requested parts, or simulates runs for `--statistics`, and prints the result.
pub fn run(arguments: &cli::Selfcheck) -> Result<Exit, Failure> {
    arguments.refuse_others()?;
    if arguments.statistics {
        return run_statistics(arguments);
    }
    run::clean_up();
    let known = catalog::known(None)?;
    let interrupts = signals::interrupts()?;
    let begun_s = unix_s();
    let seed = arguments.seed.unwrap_or(begun_s as u64);
    let mut checking = Checking { arguments, known: &known, interrupts: &interrupts, played: Vec::new() };
    let mut random = Rng::with_seed(seed);
    let rounds = if arguments.long { ROUNDS } else { 1 };
    let wanted = PARTS.iter().filter(|part| arguments.wants(part.name, part.is_long));
    let count = rounds as usize * wanted.clone().count();
    let mut held = Vec::new();
    for part in (0..rounds).flat_map(|_| wanted.clone()) {
        output::say(&format!("{} of {count}: {}", checking.played.len() + 1, part.name));
        let planned = (part.plan)(&mut random, arguments.scale);
        match checking.play(&planned)? {
            Some(truths) => held.extend(truths),
            None => return Ok(Exit::Interrupted),
        }
    }
    let checked = SelfCheck {
        format: FORMAT,
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        machine: checking.machine(),
        unix_s: begun_s,
        took_s: unix_s() - begun_s,
        seed,
        rounds,
        truths: analysis::truths::folded(held),
        smallest: analysis::truths::smallest(&checking.results(), parts::SAME),
        runs: checking.played.iter().map(|(folder, _)| name(folder)).collect(),
    };
    tell(arguments, &checked)?;
    Ok(match checked {
        _ if checked.count(TruthOutcome::Wrong) > 0 => Exit::Violated,
        _ if checked.count(TruthOutcome::Marked) > 0 => Exit::Void,
        _ => Exit::Well,
    })
}

/// Counts how often the statistics are right on simulated runs.
fn run_statistics(arguments: &cli::Selfcheck) -> Result<Exit, Failure> {
    let interrupts = signals::interrupts()?;
    let begun_s = unix_s();
    let seed = arguments.seed.unwrap_or(1);
    let rounds = if arguments.long { STATISTICS_ROUNDS } else { 1 };
    let scratch = Scratch::new()?;
    let wanted = statistics::Wanted { parts: &arguments.parts, seed, rounds, scale: arguments.scale };
    let rows = statistics::calibrated(&wanted, &scratch.0, &|| interrupts.asked() > 0, &|done, all| {
        if done.is_multiple_of(10) || done == all {
            output::say(&format!("{done} of {all} settings"));
        }
    })?;
    let Some(rows) = rows else { return Ok(Exit::Interrupted) };
    let calibration = Calibration {
        format: calibration::FORMAT,
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        unix_s: begun_s,
        took_s: unix_s() - begun_s,
        seed,
        rounds,
        rows,
    };
    let path = arguments.out.join(STATISTICS);
    std::fs::create_dir_all(&arguments.out)
        .and_then(|()| record::checked_file::write_json(&path, &calibration))
        .map_err(Failure::file(format!("cannot write {}", path.display())))?;
    if let Some(markdown) = &arguments.markdown {
        named_files::write(markdown, report::calibration::markdown(&calibration).as_bytes())?;
    }
    if arguments.json {
        output::json(&calibration)?;
    } else {
        output::text(&report::calibration::text(&calibration, output::colour_on_stdout()))?;
    }
    let is_met = calibration.rows.iter().all(|row| row.is_met);
    Ok(if is_met { Exit::Well } else { Exit::Violated })
}

/// A folder for simulated runs, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("plimsoll-statistics-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(Failure::file(format!("cannot make {}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the names of all parts, including the parts of the statistics.
pub fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name).chain(statistics::names())
}

impl cli::Selfcheck {
    /// Refuses parts of the statistics if `--statistics` is not given, and other parts if it is.
    fn refuse_others(&self) -> Result<(), Failure> {
        let mut parts = self.parts.iter();
        match parts.find(|part| statistics::names().any(|name| name == *part) != self.statistics) {
            None => Ok(()),
            Some(part) if self.statistics => Err(Failure::Bad {
                what: format!("--statistics has no part `{part}`"),
                remedy: format!("the parts are {}", statistics::names().collect::<Vec<_>>().join(", ")),
            }),
            Some(part) => Err(Failure::Bad {
                what: format!("`{part}` is a part of --statistics"),
                remedy: "add --statistics".to_owned(),
            }),
        }
    }

    fn wants(&self, name: &str, is_long: bool) -> bool {
        if self.parts.is_empty() { self.long || !is_long } else { self.parts.iter().any(|part| part == name) }
    }
}

/// Writes the self-check's page and its data, and prints the result.
fn tell(arguments: &cli::Selfcheck, checked: &SelfCheck) -> Result<(), Failure> {
    let page = arguments.out.join(PAGE);
    record::checked_file::write_whole(&page, report::selfcheck::page(checked)?.as_bytes())
        .map_err(|error| named_files::cannot_write(&page, error))?;
    let results = arguments.out.join(RESULTS);
    record::checked_file::write_json(&results, checked).map_err(|error| named_files::cannot_write(&results, error))?;
    if let Some(path) = &arguments.markdown {
        named_files::write(path, report::selfcheck::markdown(checked).as_bytes())?;
    }
    if arguments.json {
        return output::json(checked);
    }
    let text = report::selfcheck::text(checked, output::colour_on_stdout());
    output::text(&format!("{text}\n{}\n", page.display()))
}

/// State of a self-check: the runs so far, and the inputs for playing more.
struct Checking<'a> {
    arguments: &'a cli::Selfcheck,
    known: &'a TargetCatalog,
    interrupts: &'a Interrupts,
    played: Vec<(RunFolder, Results)>,
}

impl Checking<'_> {
    /// Plays a part, and compares the results with the planted truths. Returns `None` if
    /// interrupted.
    fn play(&mut self, planned: &PlannedPart) -> Result<Option<Vec<HeldTruth>>, Failure> {
        let source = Source { name: "plimsoll selfcheck".to_owned(), text: planned.experiment.clone() };
        let plan = experiments::plan(&source, &[], self.known)?;
        let begun = PreparedRun::of(plan, source.text, Secrets::default(), PathBuf::new());
        begun.can_be_played(self.known, false)?;
        let folder = begun.open(&self.arguments.out, self.known)?;
        let observer = progress::observer(self.arguments.plain);
        let (ending, analyzed) = begun.play(&folder, self.known, observer, self.interrupts)?;
        if ending == Ending::Interrupted {
            return Ok(None);
        }
        let truths = (planned.hold)(&folder, &analyzed.results, self.arguments.misinformed)?;
        self.played.push((folder, analyzed.results));
        Ok(Some(truths))
    }

    fn results(&self) -> Vec<&Results> {
        self.played.iter().map(|(_, results)| results).collect()
    }

    /// Describes the machine from the records of the first run: `2 × AMD EPYC, Linux 6.18`.
    fn machine(&self) -> String {
        let environment = self.played.first().and_then(|(folder, _)| folder.read_environment().ok().flatten());
        let Environment { cpu, kernel, .. } = environment.unwrap_or_default();
        let model = cpu.model.unwrap_or_else(|| "unknown processor".to_owned());
        let cores = cpu.cores.map_or_else(String::new, |cores| format!("{cores} × "));
        format!("{cores}{model}, Linux {}", kernel.as_deref().unwrap_or("unknown"))
    }
}

fn name(folder: &RunFolder) -> String {
    folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn unix_s() -> f64 {
    record::clock::calendar().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Returns the length of the load in a run's plan, seconds.
fn planned_load_s(folder: &RunFolder) -> Result<f64, Failure> {
    let plan = folders::read_plan(folder)?;
    let load = plan.trials.first().and_then(|trial| trial.load.as_ref());
    Ok(load.map_or(0.0, |load| load.time_s))
}
