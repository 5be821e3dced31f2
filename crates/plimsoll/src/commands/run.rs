//! `plimsoll run`: from an experiment file to a report. The order of a run is here and nowhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conduct::{Audience, Interrupts, Run};
use experiment::plan::{Plan, TargetKind, Trial};
use experiment::source::Source;
use record::environment::{Build, Environment};
use record::events::Ending;
use record::folder::RunFolder;
use record::results::{Results, Trust};

use crate::catalog::{self, Known};
use crate::cli;
use crate::commands::{analyze, check, install};
use crate::exit::{Done, Failure};
use crate::{progress, signals};

/// Plays an experiment and reports.
pub fn run(arguments: &cli::Run) -> Result<Done, Failure> {
    clean_up()?;
    let known = catalog::known()?;
    let begun = match &arguments.resume {
        Some(folder) => resume(folder)?,
        None => begin(arguments, &known)?,
    };
    begun.can_be_played(&known, arguments.install)?;
    let interrupts = signals::interrupts()?;
    let folder = begun.open(&arguments.out, &known)?;
    eprintln!("{}", folder.path().display());
    let (ending, results) = begun.play(&folder, &known, progress::audience(arguments.plain), &interrupts)?;
    analyze::print(&folder, &results, arguments.json)?;
    Ok(outcome(ending, &results, arguments.accept))
}

/// Removes what interrupted runs left, and says what that was.
pub fn clean_up() -> Result<(), Failure> {
    let cleaned = lab::registry::clean()?;
    for removed in cleaned.removed {
        eprintln!("left by an interrupted run, removed: {removed}");
    }
    for unreached in cleaned.unreached {
        eprintln!("after an interrupted run: {unreached}");
    }
    Ok(())
}

/// The first of 130, 6, 5 that applies.
pub fn outcome(ending: Ending, results: &Results, accept: bool) -> Done {
    if ending == Ending::Interrupted {
        Done::Interrupted
    } else if results.verdict.is == Trust::Void && !accept {
        Done::Void
    } else if results.requirements.iter().any(|requirement| !requirement.holds) {
        Done::Violated
    } else {
        Done::Well
    }
}

/// A run that is known in full but has perhaps no folder yet.
pub struct Begun {
    plan: Plan,
    files: PathBuf,
    text: String,
    folder: Option<RunFolder>,
}

impl Begun {
    /// A run of this plan, which was made of this text. Feeds would be found beside it, in `files`.
    pub fn of(plan: Plan, text: String, files: PathBuf) -> Self {
        Self { plan, files, text, folder: None }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether this version and this machine can play it, and what it needs is installed: before there is a folder that nothing
    /// would ever be in.
    pub fn can_be_played(&self, known: &Known, install: bool) -> Result<(), Failure> {
        conduct::can_play(&self.plan)?;
        lab::hosts::can_make(self.plan.possible())?;
        for name in installed_here(&self.plan) {
            install::ensure(known, name, install)?;
        }
        Ok(())
    }

    /// Its folder; a new one gets everything that is known before the first trial.
    pub fn open(&self, out: &Path, known: &Known) -> Result<RunFolder, Failure> {
        if let Some(heavy) = conduct::heavy(&self.plan, out) {
            eprintln!("take care: {heavy}");
        }
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let what = || format!("cannot write the run folder in {}", out.display());
        let write = || -> std::io::Result<RunFolder> {
            let folder = RunFolder::create(out, &self.plan.title, record::clock::calendar())?;
            record::whole::write_whole(&folder.experiment(), self.text.as_bytes())?;
            record::whole::write_json(&folder.plan(), &self.plan)?;
            folder.write_environment(&environment(&self.plan, known, folder.path()))?;
            Ok(folder)
        };
        write().map_err(|error| Failure::File { what: what(), error })
    }

    /// Plays it into its folder, and analyses and reports what was recorded, however far that goes.
    pub fn play(
        &self,
        folder: &RunFolder,
        known: &Known,
        mut audience: Box<dyn Audience>,
        interrupts: &Interrupts,
    ) -> Result<(Ending, Results), Failure> {
        let plimsoll = std::env::current_exe()
            .map_err(|error| Failure::File { what: "cannot find this program".to_owned(), error })?;
        let targets = |name: &str| known.target(name).map(|target| (target.manifest.clone(), target.path.clone()));
        let run = Run { plan: &self.plan, folder, targets: &targets, files: self.files.clone(), plimsoll };
        let played = conduct::play(&run, audience.as_mut(), interrupts);
        drop(audience);
        // Whatever happened, what was measured is reported, and says how far it goes.
        let results = analyze::rebuild(folder);
        Ok((played?, results?))
    }
}

fn begin(arguments: &cli::Run, known: &Known) -> Result<Begun, Failure> {
    let file = arguments.file.as_deref().unwrap_or(Path::new(""));
    let source = check::source(file)?;
    let mut plan = check::plan(&source, &arguments.sets, known)?;
    if let Some(find) = &mut plan.find {
        find.accepts_void = arguments.accept;
    }
    // From wherever the run is resumed, the file's neighbours are found again.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let files = file.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Begun::of(plan, with_sets(&file, &source, &arguments.sets), files))
}

/// The first line of a run's `experiment.toml`: where it comes from.
const FROM: &str = "# from ";

/// The experiment as it was played: the file, and above it what was overridden.
fn with_sets(file: &Path, source: &Source, sets: &[String]) -> String {
    let notes: String = sets.iter().map(|set| format!("# played with --set {set}\n")).collect();
    format!("{FROM}{}\n{notes}{}", file.display(), source.text)
}

fn resume(path: &Path) -> Result<Begun, Failure> {
    let folder = RunFolder::at(path);
    let plan = analyze::read_plan(&folder)?;
    let text = std::fs::read_to_string(folder.experiment()).unwrap_or_default();
    let from = text.lines().next().and_then(|line| line.strip_prefix(FROM));
    let files = from.and_then(|file| Path::new(file).parent()).map(Path::to_path_buf).unwrap_or_default();
    Ok(Begun { plan, files, text: String::new(), folder: Some(folder) })
}

/// How often the disk is asked for a synced write: enough for a median, and a slow one is soon done.
const SYNCS: usize = 9;

/// All that is known of what the run will run on.
fn environment(plan: &Plan, known: &Known, folder: &Path) -> Environment {
    let mut environment = lab::environment::read(folder);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    environment.build = Build {
        profile: owned(option_env!("PLIMSOLL_PROFILE")),
        rustc: owned(option_env!("PLIMSOLL_RUSTC")),
        revision: owned(option_env!("PLIMSOLL_REVISION")),
    };
    environment.targets = versions(plan, known);
    let parts = |name: &str| known.target(name).map(|target| lab::targets::versions(&target.path, &target.manifest));
    let installed = installed_here(plan).into_iter().filter_map(|name| Some((name.to_owned(), parts(name)?)));
    environment.installed = installed.filter(|(_, parts)| !parts.is_empty()).collect();
    environment.disk.sync_us = lab::doctor::sync_us(folder, SYNCS).map(|sync| sync.p50);
    environment
}

/// The version of every target that the plan uses.
fn versions(plan: &Plan, known: &Known) -> BTreeMap<String, String> {
    let version = |name: &str| known.target(name).map(|target| target.manifest.about.version.clone());
    target_names(plan.possible()).into_iter().filter_map(|name| Some((name.to_owned(), version(name)?))).collect()
}

/// Targets that some trial starts on this machine; whether real hosts have what they need is asked there.
pub fn installed_here(plan: &Plan) -> Vec<&str> {
    target_names(plan.possible().iter().filter(|trial| trial.lab.hosts.is_empty() || trial.lab.is_virtual()))
}

fn target_names<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a str> {
    let name = |trial: &'a Trial| match &trial.target.kind {
        TargetKind::Folder { name, .. } => Some(name.as_str()),
        TargetKind::Running { .. } | TargetKind::Started { .. } => None,
    };
    let mut names: Vec<&str> = trials.into_iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
