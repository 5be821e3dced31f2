//! `plimsoll schema`: the JSON Schema of what users write and of what they read.

use crate::cli::{self, SchemaOf};
use crate::exit::{Done, Failure};
use crate::output;

/// Prints a schema.
pub fn run(arguments: &cli::Schema) -> Result<Done, Failure> {
    let schema = match arguments.of {
        SchemaOf::Experiment => experiment::schema::schema(),
        SchemaOf::Comparison => schemars::schema_for!(record::compared::Compared).to_value(),
        SchemaOf::Results => schemars::schema_for!(record::results::Results).to_value(),
    };
    output::json(&schema)?;
    Ok(Done::Well)
}
