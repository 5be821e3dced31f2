//! `plimsoll show`: the summary again, from `analysis.json` as it is.

use record::ReadError;
use record::folder::RunFolder;

use crate::cli;
use crate::commands::analyze;
use crate::exit::{Done, Failure};

/// Prints a run's summary.
pub fn run(arguments: &cli::OneRun) -> Result<Done, Failure> {
    let folder = RunFolder::at(&arguments.folder);
    let no_results = |why: String| Failure::Bad {
        what: format!("{} has no results: {why}", arguments.folder.display()),
        remedy: "`plimsoll analyze` makes them from the records".to_owned(),
    };
    let results = folder
        .read_results()
        .map_err(|error| match error {
            // What this version makes of its records may not be what they say.
            ReadError::Later { .. } => Failure::Analysis(error.into()),
            error => no_results(error.to_string()),
        })?
        .ok_or_else(|| no_results("it has no analysis.json".to_owned()))?;
    analyze::print(&folder, &results, arguments.json)?;
    Ok(Done::Well)
}
