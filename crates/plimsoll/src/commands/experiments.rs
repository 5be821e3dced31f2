//! Experiment files: `plimsoll check` says in words what one would do, and starts nothing; `new` prints one to start from, `schema`
//! the JSON Schema of what users write and of what they read.

use std::path::Path;

use experiment::example::{Example, example};
use experiment::plan::Plan;
use experiment::secrets::Secrets;
use experiment::source::Source;

use crate::catalog::{self, TargetCatalog};
use crate::cli::{self, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::{output, placement_text};

/// Checks a file and prints what `run` would do.
pub fn check(arguments: &cli::Check) -> Result<Exit, Failure> {
    let known = catalog::known(Some(&arguments.file))?;
    let source = source(&arguments.file)?;
    let secrets = Secrets::of(&source, &arguments.sets);
    output::hide(&secrets);
    let plan = plan(&source, &arguments.sets, &known)?;
    if arguments.json {
        let plan = conduct::recorded(&plan, &secrets).map_err(|error| Failure::Ours(error.to_string()))?;
        output::json(&plan)?;
    } else {
        output::text(&experiment::timeline::print(&plan))?;
        output::text(&placement_text::words(&plan))?;
        if let Some(heavy) = conduct::heavy(&plan, Path::new(cli::OUT)) {
            output::text(&format!("\nTake care: {heavy}.\n"))?;
        }
    }
    Ok(Exit::Well)
}

/// Reads an experiment file.
pub fn source(file: &Path) -> Result<Source, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::Bad {
        what: format!("cannot read {}: {error}", file.display()),
        remedy: "give an experiment file; `plimsoll new` prints one to start from".to_owned(),
    })?;
    Ok(Source { name: file.display().to_string(), text })
}

/// Turns a source into a plan, or into all of its problems.
pub fn plan(source: &Source, sets: &[String], known: &TargetCatalog) -> Result<Plan, Failure> {
    experiment::read(source, sets, &known.catalog)
        .map_err(|problems| Failure::Problems(problems.render(output::colour_on_stderr())))
}

/// Prints the file.
pub fn new(arguments: &cli::New) -> Result<Exit, Failure> {
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
    Ok(Exit::Well)
}

/// Prints a schema.
pub fn schema(arguments: &cli::Schema) -> Result<Exit, Failure> {
    let schema = match arguments.of {
        SchemaOf::Experiment => experiment::schema::schema(),
        SchemaOf::Comparison => schemars::schema_for!(record::compared::Compared).to_value(),
        SchemaOf::Results => schemars::schema_for!(record::results::Results).to_value(),
    };
    output::json(&schema)?;
    Ok(Exit::Well)
}
