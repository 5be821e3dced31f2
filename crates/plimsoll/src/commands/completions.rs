//! `plimsoll completions`: a completion script for the user's shell.

use clap::CommandFactory as _;

use crate::cli::{self, Cli};
use crate::exit::{Done, Failure};

/// Prints the script.
pub fn run(arguments: &cli::Completions) -> Result<Done, Failure> {
    clap_complete::generate(arguments.shell, &mut Cli::command(), "plimsoll", &mut std::io::stdout());
    Ok(Done::Well)
}
