//! `plimsoll man`: the manual page, in roff.

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Prints the page.
pub fn run() -> Result<Done, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Failure::File { what: "cannot make the manual page".to_owned(), error })?;
    output::text(&String::from_utf8_lossy(&page))?;
    Ok(Done::Well)
}
