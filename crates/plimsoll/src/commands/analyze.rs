//! `plimsoll analyze`: from the records alone to `analysis.json` and `report.html`.

use experiment::plan::{self, Plan};
use record::ReadError;
use record::folder::RunFolder;
use record::results::Results;

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Rebuilds both files and prints the summary.
pub fn run(arguments: &cli::OneRun) -> Result<Done, Failure> {
    let folder = RunFolder::at(&arguments.folder);
    let results = rebuild(&folder)?;
    print(&folder, &results, arguments.json)?;
    Ok(Done::Well)
}

/// Analyses the records, words the answer, and writes both files.
pub fn rebuild(folder: &RunFolder) -> Result<Results, Failure> {
    let mut results = analysis::analyze(folder)?;
    let plan = read_plan(folder)?;
    results.answer = report::words::answer(&results, &plan);
    let written = |error| Failure::File { what: format!("cannot write into {}", folder.path().display()), error };
    folder.write_results(&results).map_err(written)?;
    let page = report::page(&report::read(folder, &results, &plan)?)?;
    record::whole::write_whole(&folder.report(), page.as_bytes()).map_err(written)?;
    Ok(results)
}

/// Prints results on stdout, and where the page is.
pub fn print(folder: &RunFolder, results: &Results, json: bool) -> Result<(), Failure> {
    if json {
        output::json(results)
    } else {
        let plan = read_plan(folder)?;
        let summary = report::words::summary(results, &plan, output::colour_on_stdout());
        output::text(&format!("{summary}\n{}\n", folder.report().display()))
    }
}

/// The plan that was played.
pub fn read_plan(folder: &RunFolder) -> Result<Plan, Failure> {
    let no_run = |why: String| Failure::Bad {
        what: format!("{} is not a run folder: {why}", folder.path().display()),
        remedy: "give a folder that `plimsoll run` made".to_owned(),
    };
    let plan: Plan = record::whole::read_json_up_to(&folder.plan(), plan::FORMAT)
        .map_err(|error| match error {
            ReadError::Later { .. } => Failure::Analysis(error.into()),
            error => no_run(error.to_string()),
        })?
        .ok_or_else(|| no_run("it has no plan.json".to_owned()))?;
    // Folders are made and removed by these names.
    let hosts = plan.trials.iter().flat_map(|trial| &trial.lab.hosts);
    let bad_host = hosts.map(|host| &host.name).find(|name| !record::folder::is_folder_name(name));
    let bad_trial = plan.trials.iter().map(|trial| &trial.id).find(|id| !record::folder::is_trial_id(id));
    match (bad_trial, bad_host) {
        (Some(id), _) => Err(no_run(format!("`{id}` in its plan.json is no name of a trial"))),
        (None, Some(name)) => Err(no_run(format!("`{name}` in its plan.json is no name of a host"))),
        (None, None) => Ok(plan),
    }
}
