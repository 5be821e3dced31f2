//! `plimsoll compare`: run folders held against the first, or the variants of one.

use std::path::Path;

use record::compared::{Compared, Gated};

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Compares, writes what was asked for, prints.
pub fn run(arguments: &cli::Compare) -> Result<Done, Failure> {
    let gate_pct = arguments.gate.as_deref().map(percent).transpose()?;
    let folders: Vec<&Path> = arguments.folders.iter().map(AsRef::as_ref).collect();
    let options = analysis::Options { metrics: arguments.metrics.clone(), gate_pct };
    let compared = analysis::compare(&folders, &options)?;
    if let Some(path) = &arguments.junit {
        write(path, &report::compared::junit(&compared))?;
    }
    if let Some(path) = &arguments.markdown {
        write(path, &report::compared::markdown(&compared))?;
    }
    if arguments.json {
        output::json(&compared)?;
    } else {
        output::text(&report::compared::text(&compared, output::colour_on_stdout()))?;
    }
    Ok(outcome(&compared, arguments.accept))
}

/// The first of 6 and 5 that applies.
fn outcome(compared: &Compared, accept: bool) -> Done {
    if compared.is_void() && !accept {
        Done::Void
    } else if compared.gated(Gated::Fails).next().is_some() {
        Done::Violated
    } else {
        Done::Well
    }
}

/// `5%`, `2.5 %` or `5`.
fn percent(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(pct) if pct.is_finite() && pct > 0.0 => Ok(pct),
        _ => Err(Failure::Bad {
            what: format!("--gate {text}: expected a percentage above 0"),
            remedy: "such as --gate 5%".to_owned(),
        }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::File { what: format!("cannot write {}", path.display()), error })
}
