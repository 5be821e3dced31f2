//! `plimsoll run`: from an experiment file to a report. Only this module defines the order of a
//! run's steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::AnalyzedRun;
use conduct::{Interrupts, Observer, Run};
use experiment::plan::{Plan, TargetKind, Trial};
use experiment::secrets::{self, Secrets};
use experiment::source::Source;
use record::environment::{Build, Environment};
use record::events::Ending;
use record::folder::RunFolder;
use record::results::{Results, Trust};

use crate::catalog::{self, TargetCatalog};
use crate::cli;
use crate::commands::{experiments, folders, install};
use crate::exit::{Exit, Failure};
use crate::live_server::{LiveOptions, LiveServer};
use crate::{metrics_export, named_files, output, packed, progress, signals};

/// Plays an experiment and reports its results.
pub fn run(arguments: &cli::Run) -> Result<Exit, Failure> {
    clean_up();
    let (begun, known) = match &arguments.resume {
        Some(folder) => resume(folder)?,
        None => begin(arguments)?,
    };
    begun.can_be_played(&known, arguments.install)?;
    let interrupts = signals::interrupts()?;
    let figures = Arc::default();
    let wanted = LiveOptions { watch: arguments.watch, metrics: arguments.serve_metrics };
    let channel = LiveServer::begin(wanted, || begun.plan_without_secrets(), &figures)?;
    let observer = progress::observer(arguments.plain);
    let observer = match (wanted.metrics, arguments.otlp.as_deref()) {
        (None, None) => observer,
        (_, collector) => metrics_export::kept(&figures, collector, &begun.plan().title, observer)?,
    };
    let observer = channel.iter().fold(observer, |observer, channel| channel.observing(observer));
    let folder = begun.open(&arguments.out, &known)?;
    output::say(&folder.path().display().to_string());
    channel.iter().for_each(|channel| channel.follow(&folder));
    let (ending, run) = begun.play_on(&folder, &known, observer, &interrupts)?;
    channel.iter().for_each(|channel| channel.end(&folder));
    // After a failure, the results are printed if at least one trial is complete.
    let is_empty = run.results.trials.iter().all(|trial| trial.ended != Some(Ending::Done));
    let ending = match ending {
        Err(failure) if is_empty => return Err(failure),
        ending => ending,
    };
    let printed = folders::write_summaries(&folder, &run.results, &arguments.written)
        .and_then(|()| folders::print_results(&folder, &run.results, arguments.json));
    done(outcome(ending?, &run.results, arguments.accept), printed)
}

/// Removes leftovers of interrupted runs, and prints their names. Also prints leftovers that cannot
/// be removed, which do not stop the run.
pub fn clean_up() {
    let cleaned = lab::clean();
    for removed in &cleaned.removed {
        output::say(&format!("removed, left by an interrupted run: {removed}"));
    }
    for unreached in &cleaned.unreached {
        output::say(&format!("after an interrupted run: {unreached}"));
    }
    for left in &cleaned.left_alone {
        output::say(&format!("left alone: {left}"));
    }
    for failed in &cleaned.failed {
        output::say(&format!("not removed, left by an interrupted run: {failed}"));
    }
}

/// Returns the exit of a run: the first of the exit codes 130, 6 and 5 that applies, or 0.
pub fn outcome(ending: Ending, results: &Results, accept: bool) -> Exit {
    if ending == Ending::Interrupted {
        Exit::Interrupted
    } else if results.verdict.is == Trust::Void && !accept {
        Exit::Void
    } else if results.requirements.iter().any(|requirement| !requirement.holds) {
        Exit::Violated
    } else {
        Exit::Well
    }
}

/// Returns a run's outcome, or the failure to print its results. After an interruption that failure
/// is ignored, because the terminal may be closed.
pub fn done(outcome: Exit, printed: Result<(), Failure>) -> Result<Exit, Failure> {
    if outcome == Exit::Interrupted { Ok(outcome) } else { printed.map(|()| outcome) }
}

/// A run that is ready to be played. It may have no folder yet.
pub struct PreparedRun {
    plan: Plan,
    files: PathBuf,
    /// Text of `experiment.toml` for the records, without secrets.
    text: String,
    secrets: Secrets,
    folder: Option<RunFolder>,
    /// Source of the plan and the `--set` options, for errors that underline a mistake. `None` if
    /// the plan does not come from a file of the user.
    written: Option<(Source, Vec<String>)>,
}

impl PreparedRun {
    /// Returns a run of this plan. `text` is the experiment file's text without secrets. `files` is
    /// the folder that the experiment's feeds are relative to.
    pub fn of(plan: Plan, text: String, secrets: Secrets, files: PathBuf) -> Self {
        Self { plan, files, text, secrets, folder: None, written: None }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the plan without secrets, as it is recorded.
    fn plan_without_secrets(&self) -> Result<Plan, Failure> {
        let recorded = conduct::recorded(&self.plan, &self.secrets).and_then(|plan| Ok(serde_json::from_value(plan)?));
        recorded.map_err(|error| Failure::Ours(format!("plan.json: {error}")))
    }

    /// Checks that this machine can play the run, and that all software is installed. Installs it
    /// first if `install` is set. No run folder exists yet, so a failed check leaves none.
    pub fn can_be_played(&self, known: &TargetCatalog, install: bool) -> Result<(), Failure> {
        for name in target_names(self.plan.possible()) {
            known.trusted_target(name)?;
        }
        if install {
            install::for_plan(known, &self.plan)?;
        }
        lab::hosts::can_make(self.plan.possible())?;
        install::ensure(known, &self.plan)?;
        if let Some((source, sets)) = &self.written {
            // After the installation, also the files that it makes must exist.
            experiments::refuse(source, sets, conduct::mistakes(&self.plan, &self.files), |_| false)?;
        }
        install::settings(known, &self.plan)
    }

    /// Returns the run's folder. A new folder gets the records that are known before the first
    /// trial.
    pub fn open(&self, out: &Path, known: &TargetCatalog) -> Result<RunFolder, Failure> {
        if let Some(heavy) = conduct::heavy(&self.plan, out) {
            output::say(&format!("warning: {heavy}"));
        }
        for note in experiment::timeline::notes(&self.plan) {
            output::say(&format!("note: {note}"));
        }
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        named_files::make_folder(out)?;
        self.create(out, known).map_err(Failure::file(format!("cannot write the run folder in {}", out.display())))
    }

    fn create(&self, out: &Path, known: &TargetCatalog) -> std::io::Result<RunFolder> {
        let folder = RunFolder::create(out, &self.secrets.hidden(&self.plan.title), record::clock::calendar())?;
        record::checked_file::write_whole(&folder.experiment(), self.text.as_bytes())?;
        record::checked_file::write_json(&folder.plan(), &conduct::recorded(&self.plan, &self.secrets)?)?;
        folder.write_environment(&environment(&self.plan, known, folder.path()))?;
        Ok(folder)
    }

    /// Plays the run into its folder, then analyses the records and writes the report.
    pub fn play(
        &self,
        folder: &RunFolder,
        known: &TargetCatalog,
        observer: Box<dyn Observer>,
        interrupts: &Interrupts,
    ) -> Result<(Ending, AnalyzedRun), Failure> {
        let (ending, analyzed) = self.play_on(folder, known, observer, interrupts)?;
        Ok((ending?, analyzed))
    }

    /// Plays the run and analyses it. Returns how the run ended or its failure, with the results so
    /// far.
    fn play_on(
        &self,
        folder: &RunFolder,
        known: &TargetCatalog,
        mut observer: Box<dyn Observer>,
        interrupts: &Interrupts,
    ) -> Result<(Result<Ending, Failure>, AnalyzedRun), Failure> {
        let plimsoll = std::env::current_exe().map_err(Failure::file("cannot find the path of this program"))?;
        let run = Run {
            plan: &self.plan,
            folder,
            targets: &|name| known.target(name).map(|target| (target.manifest.clone(), target.path.clone())),
            files: self.files.clone(),
            plimsoll,
            secrets: &self.secrets,
        };
        let played = conduct::play(&run, observer.as_mut(), interrupts);
        drop(observer);
        // Even after a failure, the trials that were measured are analysed and reported.
        match (played, folders::rebuild(folder)) {
            (played, Ok(analyzed)) => Ok((played.map_err(Failure::from), analyzed)),
            (Err(failure), Err(_)) => Err(failure.into()),
            (Ok(_), Err(failure)) => Err(failure),
        }
    }
}

fn begin(arguments: &cli::Run) -> Result<(PreparedRun, TargetCatalog), Failure> {
    let file = packed::experiment(arguments.file.as_deref().unwrap_or(Path::new("")))?;
    let file = file.as_path();
    let source = experiments::source(file)?;
    let secrets = Secrets::of(&source, &arguments.sets);
    output::hide(&secrets);
    let known = catalog::known(Some(file))?;
    let mut plan = experiments::plan(&source, &arguments.sets, &known)?;
    if let Some(find) = &mut plan.find {
        find.accepts_void = arguments.accept;
    }
    if let Some(stop) = &mut plan.stop {
        stop.accepts_void = arguments.accept;
    }
    // The path is absolute, so that a resumed run finds the files next to the experiment file.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let files = file.parent().map(Path::to_path_buf).unwrap_or_default();
    experiments::refuse(&source, &arguments.sets, conduct::mistakes(&plan, &files), experiments::is_built_later)?;
    let text = with_sets(&file, &source, &arguments.sets, &secrets);
    let written = Some((source, arguments.sets.clone()));
    Ok((PreparedRun { written, ..PreparedRun::of(plan, text, secrets, files) }, known))
}

/// Prefix of the first line of a run's `experiment.toml`, which names the original file.
const FROM: &str = "# from ";

/// Prefix of the next lines of a run's `experiment.toml`, one for each overridden value.
const SET: &str = "# played with --set ";

/// Returns the text of a run's `experiment.toml`: the original file's path, the overridden values
/// and the file's text, without secrets.
fn with_sets(file: &Path, source: &Source, sets: &[String], secrets: &Secrets) -> String {
    let notes: String =
        sets.iter().enumerate().map(|(number, set)| format!("{SET}{}\n", secrets.hidden_set(number, set))).collect();
    format!("{FROM}{}\n{notes}{}", file.display(), secrets.hidden_file(source))
}

/// Prepares to resume a run. Refuses a folder that another user can have written, because its plan
/// can start programs, and because the records of unfinished trials are removed.
fn resume(path: &Path) -> Result<(PreparedRun, TargetCatalog), Failure> {
    let folder = RunFolder::at(path);
    if path.exists() {
        lab::trusted::tree(path)?;
    }
    let recorded = folders::read_plan(&folder)?;
    let text = record::checked_file::read_text(&folder.experiment()).ok().flatten().unwrap_or_default();
    let from = text.lines().next().and_then(|line| line.strip_prefix(FROM));
    let files = from.and_then(|file| Path::new(file).parent()).map(Path::to_path_buf).unwrap_or_default();
    let (plan, secrets) = with_secrets(recorded, &text, from.map(Path::new), path)?;
    output::hide(&secrets);
    let known = catalog::known(from.map(Path::new))?;
    let begun = PreparedRun::of(plan, String::new(), secrets, files);
    Ok((PreparedRun { folder: Some(folder), ..begun }, known))
}

/// Restores the secrets of a recorded plan from the original experiment file, the only place that
/// has them.
fn with_secrets(recorded: Plan, text: &str, from: Option<&Path>, run: &Path) -> Result<(Plan, Secrets), Failure> {
    let mut plan = serde_json::to_value(&recorded).map_err(wrong_plan)?;
    if secrets::missing(&plan).is_empty() {
        return Ok((recorded, Secrets::default()));
    }
    let sets: Vec<String> = text.lines().skip(1).map_while(|line| line.strip_prefix(SET)).map(str::to_owned).collect();
    let source = from.and_then(|file| experiments::source(file).ok());
    let found = source.map(|source| Secrets::of(&source, &sets)).unwrap_or_default();
    found.restore(&mut plan);
    let missing = secrets::missing(&plan);
    if !missing.is_empty() {
        let from = from.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
        return Err(Failure::Bad {
            what: format!(
                "{} cannot be resumed without its secrets: {} {} left out of the records, and {from} does not contain \
                 {} any more",
                run.display(),
                missing.join(", "),
                if missing.len() == 1 { "was" } else { "were" },
                if missing.len() == 1 { "it" } else { "them" },
            ),
            remedy: "put the values back into that file, or play the experiment again with {env:NAME} instead: such a \
                     run can be resumed wherever the variable is set"
                .to_owned(),
        });
    }
    Ok((serde_json::from_value(plan).map_err(wrong_plan)?, found))
}

fn wrong_plan(error: serde_json::Error) -> Failure {
    Failure::Ours(format!("plan.json: {error}"))
}

/// Number of synced writes that test the disk. It is enough for a median, and small because each
/// write is slow on a slow disk.
const SYNCS: usize = 9;

/// Describes the machine and the software of the run, for `environment.json`.
fn environment(plan: &Plan, known: &TargetCatalog, folder: &Path) -> Environment {
    let mut environment = runner::environment::read(folder);
    environment.build = Build {
        profile: option_env!("PLIMSOLL_PROFILE").map(str::to_owned),
        rustc: option_env!("PLIMSOLL_RUSTC").map(str::to_owned),
        revision: option_env!("PLIMSOLL_REVISION").map(str::to_owned),
    };
    environment.targets = versions(plan, known);
    environment.installed = install::versions(known, plan);
    environment.disk.sync_us = doctor::sync_us(folder, SYNCS).map(|sync| sync.p50);
    environment
}

/// Returns the version that the manifest of each target in the plan names, by target.
fn versions(plan: &Plan, known: &TargetCatalog) -> BTreeMap<String, String> {
    let targets = target_names(plan.possible()).into_iter().filter_map(|name| Some((name, known.target(name)?)));
    targets.map(|(name, target)| (name.to_owned(), target.manifest.about.version.clone())).collect()
}

fn target_names<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a str> {
    let names = trials.into_iter().filter_map(|trial| match &trial.target.kind {
        TargetKind::Folder { name, .. } => Some(name.as_str()),
        TargetKind::Running { .. } | TargetKind::Started { .. } => None,
    });
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}
