//! The table of keys as a JSON Schema, so that an editor completes and checks an experiment file, and as a reference to
//! read. Nothing is added here that the table does not say.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::keys::experiment::EXPERIMENT;
use crate::keys::profile::PROFILE;
use crate::keys::{Key, Kind, Need};

/// JSON Schema (2020-12) of an experiment file.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(EXPERIMENT, true);
    if let Value::Object(fields) = &mut schema {
        let mut whole = Map::new();
        whole.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        whole.insert("title".to_owned(), json!("Plimsoll experiment"));
        whole.insert("description".to_owned(), json!("A question, a target, a load, faults, a sweep, expectations"));
        whole.append(fields);
        return Value::Object(whole);
    }
    schema
}

/// A table with these keys; `whole` says whether the required ones have to be there.
fn object(keys: &'static [Key], whole: bool) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key, whole))).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| whole && key.need == Need::Required).map(|key| key.name).collect();
    let mut object = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn property(key: &'static Key, whole: bool) -> Value {
    let mut property = value(&key.kind, whole);
    if let Value::Object(fields) = &mut property {
        fields.insert("description".to_owned(), json!(key.help));
        if let Need::Default(default) = key.need {
            fields.insert("default".to_owned(), default_value(&key.kind, default));
        }
    }
    property
}

fn default_value(kind: &Kind, default: &str) -> Value {
    match kind {
        Kind::Whole { .. } | Kind::Number | Kind::Positive | Kind::Boolean => {
            serde_json::from_str(default).unwrap_or_else(|_| json!(default))
        }
        Kind::Either(kinds, _) => kinds.first().map_or_else(|| json!(default), |first| default_value(first, default)),
        _ => json!(default),
    }
}

fn value(kind: &'static Kind, whole: bool) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string", "minLength": 1 }),
        Kind::Name => json!({ "type": "string", "pattern": "^[a-z0-9_-]+$" }),
        Kind::Scalar | Kind::Template => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Duration { .. } => {
            json!({ "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]*)?\s*(us|ms|s|m|h)\s*$" })
        }
        Kind::Quantity(quantity) => json!({ "type": "string", "pattern": quantity.pattern() }),
        Kind::Whole { min, max } => {
            let mut whole = json!({ "type": "integer", "minimum": min });
            if *max < i64::from(u32::MAX) {
                whole["maximum"] = json!(max);
            }
            whole
        }
        Kind::Number => json!({ "type": "number" }),
        Kind::Positive => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Any => json!({}),
        Kind::Table(keys) => object(keys, whole),
        Kind::Tables(keys) if whole => json!({ "type": "array", "items": object(keys, true) }),
        // In an overlay: either the whole list anew, or parts of its tables by name.
        Kind::Tables(keys) => json!({ "anyOf": [
            { "type": "array", "items": object(keys, true) },
            { "type": "object", "additionalProperties": object(keys, false) },
        ] }),
        Kind::Overlays(keys) => json!({ "type": "array", "items": overlay(keys) }),
        Kind::Map(of) => json!({ "type": "object", "additionalProperties": value(of, whole) }),
        Kind::Paths(of) => {
            let mut deeper = json!({ "type": "object" });
            // A table that has one of these is a value and no step of a path.
            let words: Vec<&str> = of.keys().iter().map(|key| key.name).collect();
            if !words.is_empty() {
                deeper["propertyNames"] = json!({ "not": { "enum": words } });
            }
            json!({ "type": "object", "additionalProperties": { "anyOf": [value(of, whole), deeper] } })
        }
        Kind::List(of) => json!({ "type": "array", "items": value(of, whole) }),
        Kind::Either(kinds, _) => {
            let kinds: Vec<Value> = kinds.iter().map(|kind| value(kind, whole)).collect();
            json!({ "anyOf": kinds })
        }
    }
}

/// A variant: its own required keys, and parts of sections.
fn overlay(keys: &'static [Key]) -> Value {
    let mut overlay = object(keys, false);
    let required: Vec<&str> = keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name).collect();
    overlay["required"] = json!(required);
    overlay
}

/// The same as Markdown: a table for each section.
#[must_use]
pub fn reference() -> String {
    let mut text = "# The experiment file: every key\n\n\
        Made from the table of keys that the checker uses; `plimsoll schema experiment` prints the same as a JSON\n\
        Schema. What the words mean is in [formats.md](../formats.md).\n"
        .to_owned();
    section(&mut text, "## Top level", "", EXPERIMENT);
    text
}

/// The keys of a profile as Markdown.
#[must_use]
pub fn profile_reference() -> String {
    let mut text = "# The profile: every key\n\n\
        A profile is a file `profiles/NAME.toml`: what one kind of host can do, uses and costs. Made from the table of keys\n\
        that the checker uses; what the words mean is in [formats.md](../formats.md).\n"
        .to_owned();
    section(&mut text, "## Top level", "", PROFILE);
    text
}

fn section(text: &mut String, heading: &str, path: &str, keys: &'static [Key]) {
    table(text, heading, keys);
    for key in keys.iter().filter(|key| !key.kind.below().is_empty()) {
        // What is below it is told in its line: a table that is a value is small.
        table(text, &format!("## A value of `{path}.{}`", key.name), key.kind.below());
    }
    for key in keys.iter().filter(|key| !key.kind.keys().is_empty() && !matches!(key.kind, Kind::Overlays(_))) {
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        for (heading, keys) in key.sections(&below) {
            section(text, &format!("## `{heading}`"), &below, keys);
        }
    }
}

/// The keys, a line each.
fn table(text: &mut String, heading: &str, keys: &'static [Key]) {
    // Writing into a String does not fail.
    let _ = write!(text, "\n{heading}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let need = match key.need {
            Need::Required => "required".to_owned(),
            Need::Optional => String::new(),
            Need::Default(default) => format!("`{}`", shown(&key.kind, default)),
        };
        let takes = match key.kind {
            Kind::Overlays(_) => "a list of tables; any part of a section".to_owned(),
            _ => key.kind.words().replace('|', "\\|"),
        };
        let _ = writeln!(text, "| `{}` | {takes} | {need} | {} |", key.name, key.help);
    }
}

/// A default as it would be written.
fn shown(kind: &Kind, default: &str) -> String {
    match kind {
        Kind::Whole { .. } | Kind::Number | Kind::Positive | Kind::Boolean => default.to_owned(),
        Kind::Either([first, ..], _) => shown(first, default),
        _ => format!("\"{default}\""),
    }
}

#[cfg(test)]
mod tests;
