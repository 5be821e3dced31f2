//! Keys of an audited request that changes many keys. The keys are in lines of JSON within an
//! argument, as in a bulk request. The value of a written key is the line after the key's line.

use experiment::pointer::{self, Pointer};
use serde_json::Value;
use wire::values::Argument;

/// Location of the keys in a request.
#[derive(Debug, Clone)]
pub struct BulkKeys {
    /// Index of the argument that contains the lines.
    pub argument: usize,
    /// Path to a key in its line. `*` matches any member or element.
    steps: Box<[String]>,
    /// Whether each key's line is followed by a line with its value.
    pub have_values: bool,
}

/// A key of a request, and its new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkItem {
    pub key: String,
    /// Value of a written key.
    pub value: Option<String>,
}

impl BulkKeys {
    /// Parses `request.FIELD/JSON/POINTER`.
    pub fn compile(text: &str, arguments: &[Argument], have_values: bool) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not request.FIELD/JSON/POINTER");
        let (field, place) = pointer::split(text.strip_prefix("request.").ok_or_else(wrong)?);
        let argument = arguments.iter().position(|argument| argument.name == field).ok_or_else(wrong)?;
        let parsed = Pointer::parse(place.ok_or_else(wrong)?).map_err(|error| format!("`{text}`: {error}"))?;
        Ok(Self { argument, steps: parsed.steps.into(), have_values })
    }

    /// Returns the keys of a request in order. A line that is not JSON, or does not contain the
    /// path, has no key.
    pub fn of(&self, body: &[u8]) -> Vec<BulkItem> {
        let mut lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let mut items = Vec::new();
        while let Some(line) = lines.next() {
            let Some(key) = serde_json::from_slice(line).ok().and_then(|line| key(&line, &self.steps)) else {
                continue;
            };
            let value = if self.have_values { lines.next() } else { None };
            items.push(BulkItem { key, value: value.map(|line| String::from_utf8_lossy(line).into_owned()) });
        }
        items
    }
}

/// Returns the text at the end of the path, or the number in its JSON form.
fn key(value: &Value, steps: &[String]) -> Option<String> {
    let Some((step, rest)) = steps.split_first() else {
        return match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
    };
    match value {
        Value::Object(members) if step == "*" => members.values().find_map(|value| key(value, rest)),
        Value::Array(elements) if step == "*" => elements.iter().find_map(|value| key(value, rest)),
        Value::Object(members) => key(members.get(step)?, rest),
        Value::Array(elements) => key(elements.get(pointer::index(step)?)?, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wire::values::CompiledTemplate;

    use super::*;

    fn keys(text: &str, have_values: bool) -> BulkKeys {
        let body = Argument { name: "body".to_owned(), template: CompiledTemplate::constant(b"") };
        BulkKeys::compile(text, &[body], have_values).unwrap()
    }

    fn item(key: &str, value: Option<&str>) -> BulkItem {
        BulkItem { key: key.to_owned(), value: value.map(str::to_owned) }
    }

    #[test]
    fn each_key_of_a_bulk_has_the_next_line() {
        let body = b"{\"index\":{\"_id\":\"a-1\"}}\n{\"index\":{\"_id\":\"not a key\"}}\n\n{\"create\": {\"_id\": 7}}\r\n{\"n\":2}\n{\"index\":{}}\n{\"n\":3}\n";
        let found = keys("request.body/*/_id", true).of(body);
        assert_eq!(
            found,
            [item("a-1", Some("{\"index\":{\"_id\":\"not a key\"}}")), item("7", Some("{\"n\":2}"))],
            "what the server names itself is not known"
        );
        assert_eq!(keys("request.body/index/_id", true).of(body).len(), 1);
        assert_eq!(keys("request.body/*/_id", true).of(b"{\"index\":{\"_id\":\"cut\"}}\n"), [item("cut", None)]);
    }

    #[test]
    fn lines_of_a_removal_have_no_values() {
        let body = b"{\"delete\":{\"_id\":\"a\"}}\n{\"delete\":{\"_id\":\"b\"}}\nnothing\n[{\"_id\":\"c\"}]";
        assert_eq!(keys("request.body/*/_id", false).of(body), [item("a", None), item("b", None), item("c", None)]);
    }

    #[test]
    fn texts_that_name_no_place_are_refused() {
        for text in ["answer.body/x", "request.body", "request.other/x", "request.body/~x"] {
            let body = Argument { name: "body".to_owned(), template: CompiledTemplate::constant(b"") };
            assert!(BulkKeys::compile(text, &[body], true).is_err(), "{text}");
        }
    }
}
