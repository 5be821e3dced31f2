//! `plimsoll schema`: the JSON Schema of what users write and of what they read.

use crate::cli::{self, SchemaOf};
use crate::exit::{Done, Failure};

/// Prints a schema.
pub fn run(arguments: &cli::Schema) -> Result<Done, Failure> {
    let schema = match arguments.of {
        SchemaOf::Experiment => experiment::schema::schema(),
        SchemaOf::Results => schemars::schema_for!(record::results::Results).to_value(),
    };
    println!("{}", serde_json::to_string_pretty(&schema).map_err(|error| Failure::Ours(error.to_string()))?);
    Ok(Done::Well)
}
