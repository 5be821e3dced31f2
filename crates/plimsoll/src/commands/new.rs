//! `plimsoll new`: an experiment file to start from.

use experiment::example::{Example, example};

use crate::catalog;
use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Prints the file.
pub fn run(arguments: &cli::New) -> Result<Done, Failure> {
    let known = catalog::known(None)?;
    let target = arguments.target.as_deref().unwrap_or("echo");
    let wanted =
        if target.contains("://") { Example::Url(target.to_owned()) } else { Example::Target(target.to_owned()) };
    if let Example::Target(name) = &wanted
        && known.refused().any(|(refused, _)| refused == name)
    {
        known.trusted_target(name)?;
    }
    let text = example(&wanted, &known.catalog).map_err(|problem| Failure::Bad {
        what: problem.to_string(),
        remedy: "`plimsoll targets` lists the targets; anything with :// is taken as a URL".to_owned(),
    })?;
    output::text(&text)?;
    Ok(Done::Well)
}
