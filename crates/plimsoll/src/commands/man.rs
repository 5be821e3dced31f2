//! `plimsoll man`: the manual page, in roff.

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit::{Done, Failure};

/// Prints the page.
pub fn run() -> Result<Done, Failure> {
    clap_mangen::Man::new(Cli::command())
        .render(&mut std::io::stdout())
        .map_err(|error| Failure::File { what: "cannot print the manual page".to_owned(), error })?;
    Ok(Done::Well)
}
