//! YAML as JSON values. Depth and size are limited, so that no file exhausts the memory.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::TScalarStyle;

use crate::ImportError;

/// Maximum depth of lists and mappings.
const DEPTH: usize = 200;
/// Maximum number of values, with those of aliases.
const VALUES: usize = 2_000_000;

const DOCUMENT: &str = "a YAML document";

/// Reads the first document of a YAML text.
///
/// # Errors
/// The text is not YAML, or its values exceed the limits.
pub fn parse(text: &str) -> Result<Value, ImportError> {
    let mut parser = Parser::new_from_str(text);
    let mut reader = YamlReader::default();
    loop {
        let (event, marker) = parser.next_token().map_err(|error| {
            ImportError::at(error.marker().line(), format!("this is not YAML: {}", error.info()), DOCUMENT)
        })?;
        match event {
            Event::DocumentEnd | Event::StreamEnd => return Ok(reader.root.unwrap_or(Value::Null)),
            event => reader.take(event).map_err(|what| ImportError::at(marker.line(), what, DOCUMENT))?,
        }
    }
}

/// A list or mapping that is being read.
enum OpenValue {
    List(Vec<Value>, usize),
    /// The members, the anchor, and the key whose value comes next.
    Mapping(Map<String, Value>, usize, Option<String>),
}

#[derive(Default)]
struct YamlReader {
    root: Option<Value>,
    open: Vec<OpenValue>,
    /// Values with an anchor, and the number of values in each.
    anchors: BTreeMap<usize, (Value, usize)>,
    values: usize,
}

impl YamlReader {
    fn take(&mut self, event: Event) -> Result<(), String> {
        if self.open.len() > DEPTH {
            return Err(format!("lists and mappings are nested more than {DEPTH} deep"));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != TScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                self.add(scalar(text, is_text), anchor, 1)
            }
            Event::SequenceStart(anchor, _) => {
                self.open.push(OpenValue::List(Vec::new(), anchor));
                Ok(())
            }
            Event::MappingStart(anchor, _) => {
                self.open.push(OpenValue::Mapping(Map::new(), anchor, None));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenValue::List(items, anchor)) => self.add(Value::Array(items), anchor, 1),
                Some(OpenValue::Mapping(members, anchor, _)) => self.add(Value::Object(members), anchor, 1),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let (value, count) = self.anchors.get(&anchor).cloned().unwrap_or((Value::Null, 1));
                self.add(value, 0, count)
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, value: Value, anchor: usize, count: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(count);
        if self.values > VALUES {
            return Err(format!("there are more than {VALUES} values"));
        }
        if anchor > 0 {
            let count = count_of(&value);
            self.anchors.insert(anchor, (value.clone(), count));
        }
        match self.open.last_mut() {
            None => self.root = self.root.take().or(Some(value)),
            Some(OpenValue::List(items, _)) => items.push(value),
            Some(OpenValue::Mapping(members, _, key)) => match key.take() {
                None => *key = Some(text::of_json(&value)),
                // A merge key has the members of another mapping.
                Some(name) if name == "<<" => merge(members, value),
                Some(name) => drop(members.insert(name, value)),
            },
        }
        Ok(())
    }
}

fn merge(members: &mut Map<String, Value>, value: Value) {
    match value {
        Value::Object(others) => {
            for (name, value) in others {
                members.entry(name).or_insert(value);
            }
        }
        Value::Array(values) => values.into_iter().for_each(|value| merge(members, value)),
        _ => {}
    }
}

fn count_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_of).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count_of).sum::<usize>(),
        _ => 1,
    }
}

/// Returns the value of a scalar, by the core schema of YAML 1.2.
fn scalar(text: String, is_text: bool) -> Value {
    if is_text {
        return Value::String(text);
    }
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let integer = text.parse::<i64>().ok().filter(|_| is_number).map(Value::from);
    let number =
        || text.parse::<f64>().ok().filter(|_| is_number).and_then(serde_json::Number::from_f64).map(Value::from);
    integer.or_else(number).unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_becomes_json() {
        let text = "a: &x [1, 2.5, '3', true, ~]\nb: *x\nc: |\n  text\n200: {d: 1.0.0}\ne:\n  <<: {f: 1}\n  g: 2\n";
        let list = json!([1, 2.5, "3", true, null]);
        let expected = json!({"a": list, "b": list, "c": "text\n", "200": {"d": "1.0.0"}, "e": {"f": 1, "g": 2}});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), Value::Null);
    }

    #[test]
    fn hostile_documents_are_refused() {
        assert!(parse("a: [1\nb: 2").unwrap_err().line.is_some());
        // The scanner has a limit of its own for lists in brackets.
        assert!(parse(&"[".repeat(100_000)).is_err());
        let deep: String = (0..300).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert!(parse(&deep).unwrap_err().what.contains("deep"));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", ")));
        }
        assert!(parse(&bomb).unwrap_err().what.contains("values"));
    }
}
