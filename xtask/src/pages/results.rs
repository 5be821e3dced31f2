//! The page of `analysis.json`, from the schema of its type.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Page, cell};

pub const KIND: Page = Page { name: "results", text };

fn text() -> String {
    let schema = schemars::schema_for!(record::results::Results).to_value();
    let mut page = String::from(
        "# Results\n\n`analysis.json`, format 1; `plimsoll schema results` prints its JSON Schema. Fields are only ever added. What \
         was not measured is null, never 0.\n",
    );
    add(&mut page, "Results", &schema);
    for (name, definition) in schema["$defs"].as_object().unwrap_or(&Map::new()) {
        add(&mut page, name, definition);
    }
    page
}

fn add(page: &mut String, name: &str, definition: &Value) {
    let help = definition["description"].as_str().unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {name}\n\n{}\n", help.trim());
    if let Some(fields) = definition["properties"].as_object() {
        page.push_str("\n| field | type | |\n|---|---|---|\n");
        for (field, schema) in fields {
            let help = cell(schema["description"].as_str().unwrap_or_default());
            let _ = writeln!(page, "| `{field}` | {} | {help} |", kind(schema));
        }
        return;
    }
    let words: Vec<String> = choices(definition);
    if !words.is_empty() {
        page.push_str("\n| value | |\n|---|---|\n");
        page.extend(words);
    }
}

/// The values of an enumeration, as rows.
fn choices(definition: &Value) -> Vec<String> {
    let listed = definition["enum"].as_array().map_or(&[][..], Vec::as_slice);
    let plain = listed.iter().filter_map(Value::as_str).map(|word| format!("| `{word}` | |\n"));
    let alternatives = definition["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    let told = alternatives.iter().filter_map(|one| {
        let help = cell(one["description"].as_str().unwrap_or_default());
        Some(format!("| `{}` | {help} |\n", one["const"].as_str()?))
    });
    plain.chain(told).collect()
}

/// A type in words: `number or null`, `list of Trial`.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(name) => named(name, schema),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(|name| named(name, schema)).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("table of {}", kind(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    }
}
