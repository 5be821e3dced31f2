//! `plimsoll history`: figures of an experiment over its runs, and where they changed.

use std::path::Path;

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Prints the course of each figure.
pub fn run(arguments: &cli::History) -> Result<Done, Failure> {
    let folders: Vec<&Path> = arguments.folders.iter().map(std::path::PathBuf::as_path).collect();
    let course = analysis::history(&folders, &arguments.metrics)?;
    if arguments.json {
        output::json(&course)?;
    } else {
        output::text(&report::words::course(&course, output::colour_on_stdout()))?;
    }
    Ok(Done::Well)
}
