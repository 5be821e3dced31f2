//! JSON Schema and reference of an experiment file, made from the key table alone. An editor can
//! use the schema to complete and check the file.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::keys::{Key, KeyType, Need};
use crate::plan::EXPERIMENT;
use crate::profile::PROFILE;

/// Returns the JSON Schema (2020-12) of an experiment file.
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

/// Returns the schema of a table with these keys. `whole` says whether required keys must be
/// present.
fn object(keys: &'static [Key], whole: bool) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key, whole))).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| whole && key.need == Need::Required).map(|key| key.name).collect();
    let mut object = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    let mut choices = keys.iter().filter(|_| whole).filter_map(|key| match key.need {
        Need::RequiredUnless(other) => Some([key.name, other].map(|name| json!({ "required": [name] }))),
        _ => None,
    });
    if let Some(choice) = choices.next_back() {
        object["anyOf"] = json!(choice);
    }
    object
}

fn property(key: &'static Key, whole: bool) -> Value {
    let mut property = value(&key.kind, whole);
    if let Value::Object(fields) = &mut property {
        fields.insert("description".to_owned(), json!(key.help));
        if let Need::Default(default) = key.need {
            fields.insert("default".to_owned(), key.kind.default_value(default));
        }
    }
    property
}

fn value(kind: &'static KeyType, whole: bool) -> Value {
    match kind {
        KeyType::Text => json!({ "type": "string", "minLength": 1 }),
        KeyType::Argument => json!({ "type": "string" }),
        KeyType::Name => json!({ "type": "string", "pattern": "^[a-z0-9_-]+$" }),
        KeyType::Scalar | KeyType::Template => json!({ "type": ["string", "number", "boolean"] }),
        KeyType::Duration { .. } => {
            json!({ "type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]*)?\s*(us|ms|s|m|h)\s*)+$" })
        }
        KeyType::Quantity(quantity) => json!({ "type": "string", "pattern": quantity.pattern() }),
        KeyType::Whole { min, max } => {
            let mut whole = json!({ "type": "integer", "minimum": min });
            if *max < i64::from(u32::MAX) {
                whole["maximum"] = json!(max);
            }
            whole
        }
        KeyType::Number => json!({ "type": "number" }),
        KeyType::Figure => json!({ "type": ["number", "string"] }),
        KeyType::Positive => json!({ "type": "number", "exclusiveMinimum": 0 }),
        KeyType::Boolean => json!({ "type": "boolean" }),
        KeyType::Choice(choices) => json!({ "enum": choices }),
        KeyType::Any => json!({}),
        KeyType::Table(keys) => object(keys, whole),
        KeyType::Tables(keys) if whole => json!({ "type": "array", "items": object(keys, true) }),
        // In an overlay: either a new list, or parts of its tables by name.
        KeyType::Tables(keys) => json!({ "anyOf": [
            { "type": "array", "items": object(keys, true) },
            { "type": "object", "additionalProperties": object(keys, false) },
        ] }),
        KeyType::Overlays(keys) => json!({ "type": "array", "items": overlay(keys) }),
        KeyType::Map(of) => json!({ "type": "object", "additionalProperties": value(of, whole) }),
        KeyType::Paths(of) => {
            let mut deeper = json!({ "type": "object" });
            // A table with one of these keys is a value and not a step of a path.
            let words: Vec<&str> = of.keys().iter().map(|key| key.name).collect();
            if !words.is_empty() {
                deeper["propertyNames"] = json!({ "not": { "enum": words } });
            }
            json!({ "type": "object", "additionalProperties": { "anyOf": [value(of, whole), deeper] } })
        }
        KeyType::PathsBeside(keys, paths) => {
            let mut table = object(keys, whole);
            table["additionalProperties"] = value(paths, whole)["additionalProperties"].take();
            table
        }
        KeyType::List(of) => json!({ "type": "array", "items": value(of, whole) }),
        KeyType::Either(kinds, _) => {
            let kinds: Vec<Value> = kinds.iter().map(|kind| value(kind, whole)).collect();
            json!({ "anyOf": kinds })
        }
    }
}

/// Returns the schema of a variant: the required keys of the variant itself, and sections that may
/// be incomplete.
fn overlay(keys: &'static [Key]) -> Value {
    let mut overlay = object(keys, false);
    let required: Vec<&str> = keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name).collect();
    overlay["required"] = json!(required);
    overlay
}

/// Returns the reference as Markdown: a table for each section.
#[must_use]
pub fn reference() -> String {
    let mut text = "# The experiment file: every key\n\n\
        Made from the checker's table of keys; `plimsoll schema experiment` prints the same as a JSON Schema.\n\
        [experiment.md](../experiment.md) explains how the keys work together. For an editor\n\
        with Taplo (VS Code: Even Better TOML) to complete and check a file, put the schema beside it and `#:schema\n\
        ./experiment.schema.json` on its first\n\
        line, as `plimsoll new` does.\n"
        .to_owned();
    section(&mut text, "## Top level", "", EXPERIMENT);
    text
}

/// Returns the reference of a profile as Markdown.
#[must_use]
pub fn profile_reference() -> String {
    let mut text = "# The profile: every key\n\n\
        A profile is a file `profiles/NAME.toml`: performance, power and price of one kind of host. Made from the checker's\n\
        table of keys; [formats.md](../formats.md) explains the terms.\n"
        .to_owned();
    section(&mut text, "## Top level", "", PROFILE);
    text
}

fn section(text: &mut String, heading: &str, path: &str, keys: &'static [Key]) {
    table(text, heading, keys);
    for key in keys.iter().filter(|key| !key.kind.below().is_empty()) {
        // The keys of a table with free keys follow directly, because its values have few keys.
        table(text, &format!("## A value of `{path}.{}`", key.name), key.kind.below());
    }
    for key in keys.iter().filter(|key| !key.kind.keys().is_empty() && !matches!(key.kind, KeyType::Overlays(_))) {
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        for (heading, keys) in key.sections(&below) {
            section(text, &format!("## `{heading}`"), &below, keys);
        }
    }
}

/// Writes the keys, a line each.
fn table(text: &mut String, heading: &str, keys: &'static [Key]) {
    // Writing into a String does not fail.
    let _ = write!(text, "\n{heading}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let need = match key.need {
            Need::Required => "required".to_owned(),
            Need::RequiredUnless(other) => format!("required without `{other}`"),
            Need::Optional => String::new(),
            Need::Default(default) => format!("`{}`", shown(&key.kind, default)),
        };
        let takes = match key.kind {
            KeyType::Overlays(_) => "a list of tables; any part of a section".to_owned(),
            _ => key.kind.words().replace('|', "\\|"),
        };
        let _ = writeln!(text, "| `{}` | {takes} | {need} | {} |", key.name, key.help);
    }
}

/// Formats a default as in a file.
fn shown(kind: &KeyType, default: &str) -> String {
    match kind {
        KeyType::Whole { .. } | KeyType::Number | KeyType::Positive | KeyType::Boolean => default.to_owned(),
        KeyType::Either([first, ..], _) => shown(first, default),
        _ => format!("\"{default}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::{reference, schema};
    use crate::keys::{Key, KeyType, Need};
    use crate::plan::EXPERIMENT;

    #[test]
    fn every_key_is_in_schema_and_reference() {
        let (schema, reference) = (schema().to_string(), reference());
        fn each(keys: &'static [Key], visit: &mut dyn FnMut(&Key)) {
            for key in keys {
                visit(key);
                each(key.kind.keys(), visit);
            }
        }
        each(EXPERIMENT, &mut |key| {
            assert!(schema.contains(&format!("\"{}\":", key.name)), "{}", key.name);
            assert!(reference.contains(&format!("`{}`", key.name)), "{}", key.name);
            assert!(!key.help.ends_with('.') && !key.help.is_empty(), "{}", key.name);
        });
    }

    #[test]
    fn sections_are_closed_and_list_required_keys() {
        let schema = schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], serde_json::json!(["target"]));
        let load = &schema["properties"]["load"];
        assert_eq!(load["required"], serde_json::json!(["time"]));
        assert_eq!(load["anyOf"], serde_json::json!([{ "required": ["agents"] }, { "required": ["group"] }]));
        assert_eq!(load["properties"]["cycle"]["items"]["additionalProperties"], false);
        assert_eq!(load["properties"]["timeout"]["default"], "10s");
        assert_eq!(load["properties"]["cycle"]["items"]["properties"]["audit"]["default"], false);
        assert_eq!(load["properties"]["retry"]["default"], "fail-fast");
        let variant = &schema["properties"]["variant"]["items"];
        assert_eq!(variant["required"], serde_json::json!(["name"]));
        assert!(variant["properties"]["load"].get("required").is_none());
    }

    #[test]
    fn defaults_are_values_of_their_kind() {
        fn each(keys: &'static [Key]) {
            for key in keys {
                if let Need::Default(default) = key.need {
                    let fits = match key.kind {
                        KeyType::Duration { .. } => crate::duration::parse_s(default).is_ok(),
                        KeyType::Whole { min, max } => (min..=max).contains(&default.parse().unwrap()),
                        KeyType::Boolean => default.parse::<bool>().is_ok(),
                        KeyType::Choice(choices) => choices.contains(&default),
                        _ => true,
                    };
                    assert!(fits, "{} = {default}", key.name);
                }
                each(key.kind.keys());
            }
        }
        each(EXPERIMENT);
        each(crate::manifest::MANIFEST);
    }

    #[test]
    fn alternative_sections_of_a_key_are_all_listed() {
        let reference = reference();
        for heading in ["## `[load.rate]`", "## `[[load.rate]]`", "## `[[lab.network]]`", "## `[load.retry]`"] {
            assert_eq!(reference.matches(heading).count(), 1, "{heading}");
        }
        assert!(!reference.contains("## `[lab.network]`"), "the same keys once or several times are one section");
    }

    #[test]
    fn table_values_are_in_schema_and_reference() {
        let schema = schema();
        let step = &schema["properties"]["load"]["properties"]["cycle"]["items"]["properties"];
        let value = &step["expect"]["additionalProperties"]["anyOf"];
        let comparison = &value[0]["anyOf"][1];
        assert_eq!(comparison["additionalProperties"], false);
        assert_eq!(comparison["properties"]["one_of"]["type"], "array");
        assert!(comparison["properties"]["not"]["anyOf"][1]["properties"].get("contains").is_some());
        // Otherwise a misspelt comparison would be read as the header `header.etag.contains`.
        let deeper = &value[1]["propertyNames"]["not"]["enum"];
        assert_eq!(*deeper, serde_json::json!(["matches", "contains", "one_of", "lua", "not"]));
        let kept = &step["keep"]["additionalProperties"]["anyOf"][1];
        assert_eq!(kept["required"], serde_json::json!(["from", "matches"]));
        let reference = reference();
        for heading in [
            "## A value of `load.cycle.expect`\n",
            "## A value of `load.mix.keep`\n",
            "## A value of `prepare.expect`\n",
        ] {
            assert!(reference.contains(heading), "{heading}");
        }
    }
}
