//! `plimsoll install`: what a target needs, named before it is installed.

use crate::catalog::{self, Known};
use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Installs (or only names) what a target needs.
pub fn run(arguments: &cli::Install) -> Result<Done, Failure> {
    let known = catalog::known(None)?;
    if arguments.check {
        let missing = missing(&known, &arguments.target)?;
        for line in &missing {
            output::text(&format!("{line}\n"))?;
        }
        return Ok(if missing.is_empty() { Done::Well } else { Done::Violated });
    }
    ensure(&known, &arguments.target, true)?;
    Ok(Done::Well)
}

/// Makes sure that a target is installed: installs it if allowed, else says what is missing.
pub fn ensure(known: &Known, name: &str, may_install: bool) -> Result<(), Failure> {
    let missing = missing(known, name)?;
    if missing.is_empty() {
        return Ok(());
    }
    if may_install {
        let target = known.trusted_target(name)?;
        lab::targets::install(&target.path, &target.manifest, true, &mut |line| eprintln!("  {line}"))?;
        return Ok(());
    }
    Err(Failure::Lab(lab::Error::NotInstalled { target: name.to_owned(), missing }))
}

/// What a target lacks on this machine, a line each.
pub fn missing(known: &Known, name: &str) -> Result<Vec<String>, Failure> {
    let target = known.trusted_target(name)?;
    let mut missing = Vec::new();
    lab::targets::install(&target.path, &target.manifest, false, &mut |line| missing.push(line.to_owned()))?;
    Ok(missing)
}
