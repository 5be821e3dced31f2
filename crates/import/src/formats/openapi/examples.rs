//! Values for parameters and bodies: the examples of a description, or values that match a schema.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use crate::placeholder::placeholder;

/// Maximum depth of a made value.
const DEPTH: usize = 6;
/// Maximum number of values in a body.
const VALUES: usize = 300;
/// Maximum number of references that are followed to a value.
const REFERENCES: usize = 16;

/// Maker of example values.
pub struct ExampleMaker<'a> {
    document: &'a Value,
    /// Number of values that the current body may still have.
    left: Cell<usize>,
}

impl<'a> ExampleMaker<'a> {
    pub fn new(document: &'a Value) -> Self {
        Self { document, left: Cell::new(VALUES) }
    }

    /// Follows references within the document.
    pub fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..REFERENCES {
            let reference = value.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#')).map(decoded);
            match pointer.and_then(|pointer| self.document.pointer(&pointer)) {
                Some(found) => value = found,
                None => break,
            }
        }
        value
    }

    /// Returns the text of a parameter. An identifier in a path without an example is random.
    pub fn parameter(&self, parameter: &'a Value, is_in_path: bool) -> String {
        self.left.set(VALUES);
        let content = parameter.get("content").and_then(Value::as_object).and_then(|kinds| kinds.values().next());
        let described = content.unwrap_or(parameter);
        if let Some(example) = self.given(described) {
            return of_parameter(&example);
        }
        let schema = described.get("schema").map(|schema| self.resolved(schema)).unwrap_or(&Value::Null);
        let is_given = ["example", "examples", "default", "enum", "const"].iter().any(|key| schema.get(key).is_some());
        let kind = kind(schema);
        let is_plain = schema.get("format").is_none() && schema.get("pattern").is_none();
        let is_id = is_in_path && (kind == "integer" || kind == "number" || matches!(kind, "string" | "") && is_plain);
        if is_id && !is_given {
            return placeholder(&range(schema));
        }
        of_parameter(&self.value(schema, 0))
    }

    /// Returns the example of a body.
    pub fn media(&self, media: &'a Value) -> Value {
        self.left.set(VALUES);
        self.given(media).unwrap_or_else(|| media.get("schema").map_or(Value::Null, |schema| self.value(schema, 0)))
    }

    /// Returns the members of the form that are files.
    pub fn files(&self, media: &'a Value) -> Vec<&'a String> {
        let schema = media.get("schema").map(|schema| self.resolved(schema));
        let members = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let is_file = |member: &'a Value| {
            let member = self.resolved(member);
            is_binary(member) || member.get("items").is_some_and(|items| is_binary(self.resolved(items)))
        };
        members.into_iter().flatten().filter(|(_, member)| is_file(member)).map(|(name, _)| name).collect()
    }

    /// Whether the whole body is a file.
    pub fn is_file(&self, media: &'a Value) -> bool {
        media.get("schema").is_some_and(|schema| is_binary(self.resolved(schema)))
    }

    /// Returns the example that a parameter or a body gives.
    fn given(&self, described: &'a Value) -> Option<Value> {
        let first = described.get("examples").and_then(Value::as_object).and_then(|examples| examples.values().next());
        let first = first.map(|example| self.resolved(example)).and_then(|example| example.get("value"));
        described.get("example").or(first).filter(|example| !example.is_null()).cloned()
    }

    /// Returns a value that matches a schema.
    fn value(&self, schema: &'a Value, depth: usize) -> Value {
        let schema = self.resolved(schema);
        if self.left.get() == 0 || depth > DEPTH {
            return Value::Null;
        }
        self.left.set(self.left.get() - 1);
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|values| values.first());
        let given =
            schema.get("example").or_else(|| first("examples")).or(schema.get("default")).or(schema.get("const"));
        if let Some(given) = given.or_else(|| first("enum")).filter(|given| !given.is_null()) {
            return given.clone();
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, depth);
        }
        if let Some(choice) = first("oneOf").or_else(|| first("anyOf")) {
            return self.value(choice, depth + 1);
        }
        match kind(schema) {
            "object" => Value::Object(self.object(schema, depth)),
            "array" => {
                let item = schema.get("items").map(|items| self.value(items, depth + 1));
                Value::Array(item.filter(|item| !item.is_null()).into_iter().collect())
            }
            "integer" => schema.get("minimum").and_then(Value::as_i64).map_or(json!(1), Value::from),
            "number" => schema.get("minimum").filter(|minimum| minimum.is_number()).cloned().unwrap_or(json!(1.5)),
            "boolean" => json!(true),
            "string" => json!(string(schema)),
            _ if schema.get("properties").is_some() => Value::Object(self.object(schema, depth)),
            _ => json!("text"),
        }
    }

    /// Returns the members of all parts in one object. If no part is an object, returns the value
    /// of the first.
    fn all_of(&self, schema: &'a Value, parts: &'a [Value], depth: usize) -> Value {
        let mut members = self.object(schema, depth);
        let mut other = None;
        for part in parts {
            match self.value(part, depth + 1) {
                Value::Object(more) => members.extend(more),
                value => other = other.or(Some(value)),
            }
        }
        other.filter(|_| members.is_empty()).unwrap_or(Value::Object(members))
    }

    /// Returns the required members or, if none is required, all.
    fn object(&self, schema: &'a Value, depth: usize) -> Map<String, Value> {
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut object = Map::new();
        for (name, member) in members {
            let is_answer = self.resolved(member).get("readOnly") == Some(&Value::Bool(true));
            if is_answer || !required.is_empty() && !required.contains(&name.as_str()) {
                continue;
            }
            object.insert(name.clone(), self.value(member, depth + 1));
        }
        object
    }
}

/// Decodes the percent-encoding of a JSON pointer in a URL.
fn decoded(pointer: &str) -> String {
    pointer.replace("%7B", "{").replace("%7D", "}").replace("%7b", "{").replace("%7d", "}").replace("%20", " ")
}

/// Returns the type of a schema; of several types, the first that is not `null`.
fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or(""),
        _ => "",
    }
}

fn is_binary(schema: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    format == "binary" || schema.get("contentMediaType").is_some()
}

/// Returns the placeholder of a random number within the limits of a schema.
fn range(schema: &Value) -> String {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64).filter(|limit| *limit <= 1_000_000_000);
    let from = limit("minimum").unwrap_or(1);
    let to = limit("maximum").unwrap_or(1000).max(from + 1);
    format!("uniform:{from}..{to}")
}

/// Returns a text of the format of a schema.
fn string(schema: &Value) -> String {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match format {
        "uuid" => placeholder("uuid"),
        "date" => "2025-01-31".to_owned(),
        "date-time" => "2025-01-31T12:00:00Z".to_owned(),
        "time" => "12:00:00Z".to_owned(),
        "email" => "ann@example.com".to_owned(),
        "uri" | "url" | "uri-reference" => "https://example.com/".to_owned(),
        "hostname" => "example.com".to_owned(),
        "ipv4" => "192.0.2.1".to_owned(),
        "ipv6" => "2001:db8::1".to_owned(),
        "byte" => "dGV4dA==".to_owned(),
        _ => {
            let length =
                |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
            let shortest = length("minLength").unwrap_or(0).min(1000);
            let longest = length("maxLength").unwrap_or(usize::MAX).max(shortest);
            let text = "text ".repeat(shortest / 5 + 1);
            let text: String = text.chars().take(shortest.max(4).min(longest)).collect();
            // A blank at its end is no good example.
            if text.ends_with(' ') { text.replace(' ', "-") } else { text }
        }
    }
}

/// Returns a value as a text of a path or a query: lists with commas (style `simple` and `form`).
fn of_parameter(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(text::of_json).collect::<Vec<String>>().join(","),
        other => text::of_json(other),
    }
}
