//! Commands about experiment files: `plimsoll check` describes what `run` would do and starts
//! nothing, `new` prints a file to start from, and `schema` prints the JSON Schema of experiment
//! files, results or comparisons.

use std::path::Path;

use experiment::example::{Example, example};
use experiment::mistake::Mistake;
use experiment::plan::{FORMAT, Plan, Trial};
use experiment::secrets::Secrets;
use experiment::source::Source;
use experiment::timeline::UsualTimes;
use record::events::{Ending, What, start_unix_s};
use record::folder::RunFolder;

use crate::catalog::{self, TargetCatalog};
use crate::cli::{self, SchemaOf};
use crate::commands::{imports, methods};
use crate::exit::{Exit, Failure};
use crate::{output, packed, placement_text};

/// Checks an experiment file, and prints what `run` would do with it.
pub fn check(arguments: &cli::Check) -> Result<Exit, Failure> {
    let file = packed::experiment(&arguments.file)?;
    let known = catalog::known(Some(&file))?;
    let source = source(&file)?;
    let secrets = Secrets::of(&source, &arguments.sets);
    output::hide(&secrets);
    let plan = plan(&source, &arguments.sets, &known)?;
    let files = file.parent().unwrap_or(Path::new(""));
    let mistakes = conduct::mistakes(&plan, files);
    for mistake in mistakes.iter().filter(|mistake| is_built_later(&mistake.reason)) {
        output::say(&format!("note: {}; `run --install` creates this file", mistake.reason));
    }
    for mistake in mistakes.iter().filter(|mistake| mistake.is_note) {
        output::say(&format!("note: {}", mistake.reason));
    }
    refuse(&source, &arguments.sets, mistakes, |reason| is_built_later(reason) || reason.contains(UNSET))?;
    for note in experiment::timeline::notes(&plan) {
        output::say(&format!("note: {note}"));
    }
    if arguments.json {
        let plan = conduct::recorded(&plan, &secrets).map_err(|error| Failure::Ours(error.to_string()))?;
        output::json(&plan)?;
    } else {
        output::text(&experiment::timeline::print_with(&plan, &usual_times(&plan, &known)))?;
        output::text(&placement_text::words(&plan))?;
        if let Some(heavy) = conduct::heavy(&plan, Path::new(cli::OUT)) {
            output::text(&format!("\nWarning: {heavy}.\n"))?;
        }
    }
    Ok(Exit::Well)
}

/// Returns the usual durations of trials: those that the targets' manifests declare, and those in
/// the last complete run of this title.
fn usual_times(plan: &Plan, known: &TargetCatalog) -> UsualTimes {
    let targets = known.targets.iter();
    let around = targets.filter_map(|found| Some((found.manifest.name.clone(), found.manifest.about.around_s?)));
    let runs = RunFolder::found_at(Path::new(cli::OUT)).unwrap_or_default();
    let mut named = runs.iter().rev().filter(|run| run.is_named(&plan.title));
    UsualTimes { around_s: around.collect(), played: named.find_map(|run| played(plan, run)).unwrap_or_default() }
}

/// Returns the trials of a run, each with the seconds from its start to the next trial's start.
/// Returns `None` if the run is incomplete or has another title.
fn played(plan: &Plan, run: &RunFolder) -> Option<Vec<(Trial, f64)>> {
    run.read_ending().ok()?.filter(|ending| ending.how == Ending::Done)?;
    let before: Plan = record::checked_file::read_json_up_to(&run.plan(), FORMAT).ok()??;
    if before.title != plan.title {
        return None;
    }
    let mut times: Vec<(Trial, f64, f64)> = before.trials.into_iter().filter_map(|trial| span(run, trial)).collect();
    times.sort_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    let next: Vec<Option<f64>> = (1..=times.len()).map(|index| Some(times.get(index)?.1)).collect();
    let timed = times.into_iter().zip(next);
    Some(timed.map(|((trial, begun_s, ended_s), next_s)| (trial, next_s.unwrap_or(ended_s) - begun_s)).collect())
}

/// Returns the trial with the Unix times of its start and end, or `None` if it was not played to
/// the end.
fn span(run: &RunFolder, trial: Trial) -> Option<(Trial, f64, f64)> {
    let events = record::lines::read_events(&run.trial(&trial.id).events()).ok()?.items;
    let unix_s = start_unix_s(&events)?;
    let ended = events.last().filter(|event| matches!(event.what, What::Ended { how: Ending::Done, .. }))?;
    let begun_s = events.iter().map(|event| event.at_s).fold(0.0, f64::min);
    Some((trial, unix_s + begun_s, unix_s + ended.at_s))
}

/// Start of a mistake's text about a missing environment variable. The variable may be set where
/// the experiment runs, but not where it is checked.
const UNSET: &str = "the environment has no `";

/// Whether the reason of a mistake is a missing file that a target's installation will make.
pub fn is_built_later(reason: &str) -> bool {
    reason.contains("/_build/") && reason.contains("No such file or directory")
}

/// Refuses a plan with these mistakes. Ignores mistakes whose reason `is_no_matter` accepts.
pub fn refuse(
    source: &Source,
    sets: &[String],
    mut mistakes: Vec<Mistake>,
    is_no_matter: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    mistakes.retain(|mistake| !mistake.is_note && !is_no_matter(&mistake.reason));
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(Failure::Problems(experiment::mistake::located(source, sets, &mistakes).render(output::colour_on_stderr())))
}

/// Reads an experiment file.
pub fn source(file: &Path) -> Result<Source, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::Bad {
        what: format!("cannot read {}: {error}", file.display()),
        remedy: "give an experiment file; `plimsoll new` prints one to start from, `plimsoll experiments` lists those that are built in"
            .to_owned(),
    })?;
    Ok(Source { name: file.display().to_string(), text })
}

/// Turns an experiment's source into a plan, or returns all problems of the source.
pub fn plan(source: &Source, sets: &[String], known: &TargetCatalog) -> Result<Plan, Failure> {
    let plan = experiment::read(source, sets, &known.catalog)
        .map_err(|problems| Failure::Problems(problems.render(output::colour_on_stderr())))?;
    needs_scripts(&plan, cfg!(feature = "scripts"))?;
    Ok(plan)
}

/// Refuses a plan with a script if this program was built without scripts.
fn needs_scripts(plan: &Plan, has_scripts: bool) -> Result<(), Failure> {
    let mut loads = plan.possible().iter().filter_map(|trial| trial.load.as_ref());
    match loads.find_map(|load| load.script.as_ref()).filter(|_| !has_scripts) {
        None => Ok(()),
        Some(script) => Err(Failure::Bad {
            what: format!("this experiment has a script, {script}, but this plimsoll was built without scripts"),
            remedy: "`cargo build --release --features scripts` builds plimsoll with scripts and needs a C++ compiler"
                .to_owned(),
        }),
    }
}

/// Prints an experiment file to start from.
pub fn new(arguments: &cli::New) -> Result<Exit, Failure> {
    let is_described = arguments.target.as_deref().is_some_and(methods::are_described);
    if let Some(given) = arguments.tls.given().filter(|_| !is_described) {
        return Err(Failure::Bad {
            what: format!("{given}: only a server of gRPC is asked"),
            remedy: "write plimsoll new grpcs://HOST:PORT --cacert FILE".to_owned(),
        });
    }
    if let Some(from) = &arguments.from {
        return imports::new(from, arguments);
    }
    let known = catalog::known(None)?;
    let target = arguments.target.as_deref().unwrap_or("echo");
    if let Some(file) = arguments.proto.first().filter(|_| !is_described) {
        return Err(Failure::Bad {
            what: format!("--proto {file}: `{target}` is not a URL of gRPC"),
            remedy: "write plimsoll new grpc://HOST:PORT --proto FILE".to_owned(),
        });
    }
    let wanted = match target.contains("://") {
        true if is_described => methods::example(target, &arguments.proto, &arguments.tls)?,
        true => Example::Url(target.to_owned()),
        false => Example::Target(target.to_owned()),
    };
    if let Example::Target(name) = &wanted
        && known.refused().any(|(refused, _)| refused == name)
    {
        known.trusted_target(name)?;
    }
    let text = example(&wanted, &known.catalog).map_err(|problem| Failure::Bad {
        what: problem.to_string(),
        remedy: "`plimsoll targets` lists the targets; text with :// is read as a URL".to_owned(),
    })?;
    output::data(&text)?;
    Ok(Exit::Well)
}

/// Prints the requested JSON Schema.
pub fn schema(arguments: &cli::Schema) -> Result<Exit, Failure> {
    let schema = match arguments.of {
        SchemaOf::Experiment => experiment::schema::schema(),
        SchemaOf::Comparison => schemars::schema_for!(record::compared::Compared).to_value(),
        SchemaOf::Results => schemars::schema_for!(record::results::Results).to_value(),
    };
    output::json(&schema)?;
    Ok(Exit::Well)
}

#[cfg(test)]
mod tests {
    use experiment::plan::{Load, Trial};

    use super::*;

    #[test]
    fn scripts_are_refused_by_a_build_without_them() {
        let plan = |script: Option<&str>| {
            let load = Load { script: script.map(str::to_owned), ..Load::default() };
            Plan { trials: vec![Trial { load: Some(load), ..Trial::default() }], ..Plan::default() }
        };
        assert!(needs_scripts(&plan(None), false).is_ok() && needs_scripts(&plan(Some("s.lua")), true).is_ok());
        let Err(Failure::Bad { what, remedy }) = needs_scripts(&plan(Some("s.lua")), false) else { panic!("accepted") };
        assert!(what.contains("s.lua") && remedy.contains("--features scripts"), "{what}");
    }
}
