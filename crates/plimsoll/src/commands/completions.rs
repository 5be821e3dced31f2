//! `plimsoll completions`: a completion script for the user's shell.

use clap::CommandFactory as _;

use crate::cli::{self, Cli};
use crate::exit::{Done, Failure};
use crate::output;

/// Prints the script.
pub fn run(arguments: &cli::Completions) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "plimsoll", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Done::Well)
}
