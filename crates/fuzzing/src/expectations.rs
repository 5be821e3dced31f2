//! Fuzz targets for expectations and JSON pointers. An input is compiled or refused. The results
//! agree with a plain reading of the expectation, or with a parsed JSON tree.

use experiment::plan::{Expected, TextCondition};
use experiment::template::Template;
use load::fuzzing::holds;
use serde_json::Value;
use wire::pointer::CompiledPointer;

/// Evaluates an expectation, written as in `plan.json`, against the text after the first NUL.
pub fn expectation(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let Ok(expected) = serde_json::from_slice::<Expected>(&input[..end]) else { return };
    let text = input.get(end + 1..).unwrap_or_default();
    let Ok(holds) = holds(&expected, text) else { return };
    if let Some(should) = all(&expected, text) {
        assert_eq!(holds, should, "{expected:?} of b\"{}\"", text.escape_ascii());
    }
}

/// Whether all conditions hold. `None` if a condition has no plain reading here.
fn all(expected: &Expected, text: &[u8]) -> Option<bool> {
    match expected {
        Expected::Text(template) => Some(value(template)? == text),
        Expected::Compared(comparison) => Some(each(comparison, text, none)?.iter().all(|holds| *holds)),
    }
}

/// Whether no condition holds. `None` if a condition has no plain reading here.
fn none(expected: &Expected, text: &[u8]) -> Option<bool> {
    match expected {
        Expected::Text(template) => Some(value(template)? != text),
        Expected::Compared(comparison) => Some(each(comparison, text, none)?.iter().all(|holds| !*holds)),
    }
}

/// Returns for each condition whether it holds.
fn each(comparison: &TextCondition, text: &[u8], not: fn(&Expected, &[u8]) -> Option<bool>) -> Option<Vec<bool>> {
    let TextCondition { matches: None, contains, one_of, lua: None, not: inner } = comparison else { return None };
    let mut parts = Vec::new();
    if let Some(part) = contains {
        let part = value(part)?;
        parts.push(part.is_empty() || text.windows(part.len()).any(|window| window == part));
    }
    if let Some(texts) = one_of {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| value(text)).collect::<Option<_>>()?;
        parts.push(texts.iter().any(|one| one == text));
    }
    if let Some(inner) = inner {
        parts.push(not(inner, text)?);
    }
    Some(parts)
}

/// Returns the value of a constant template.
fn value(template: &str) -> Option<Vec<u8>> {
    Template::parse(template).ok()?.constant().map(String::into_bytes)
}

/// Maximum number of places of a text that are looked up besides the requested one.
const PLACES: usize = 50;
/// Two spellings of `$`. Names that begin with `$` are reserved by `serde_json` for values that it
/// hides in trees.
const HIDDEN: [&[u8]; 2] = [b"$", b"\\u0024"];

/// Looks up a pointer in a JSON text. The first line of the input is the pointer, the rest is the
/// text.
pub fn pointer(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let pointer = String::from_utf8_lossy(&input[..end]);
    let json = input.get(end + 1..).unwrap_or_default();
    let found = find(&pointer, json);
    // Some valid JSON has no tree: it is nested too deeply, or a number is too large.
    let Ok(tree) = serde_json::from_slice::<Value>(json) else { return };
    if HIDDEN.iter().any(|sign| json.windows(sign.len()).any(|window| window == *sign)) {
        return;
    }
    if let Ok(found) = found {
        compare(&pointer, found, &tree);
    }
    let mut places = Vec::new();
    list(&tree, "", &mut places);
    for place in places {
        compare(&place, find(&place, json).unwrap(), &tree);
        let beyond = format!("{place}/no such thing");
        compare(&beyond, find(&beyond, json).unwrap(), &tree);
    }
}

fn find(pointer: &str, json: &[u8]) -> Result<Option<Vec<u8>>, String> {
    Ok(CompiledPointer::compile(pointer)?.find(json, &mut Vec::new()).map(<[u8]>::to_vec))
}

fn compare(pointer: &str, found: Option<Vec<u8>>, tree: &Value) {
    let found = found.map(|found| String::from_utf8(found).unwrap());
    match (tree.pointer(pointer), found) {
        (None, None) => {}
        (Some(Value::String(text)), Some(found)) => assert_eq!(*text, found, "{pointer:?}"),
        (Some(value), Some(found)) => {
            let read: Value =
                serde_json::from_str(&found).unwrap_or_else(|error| panic!("{pointer:?}: {found}: {error}"));
            assert_eq!(*value, read, "{pointer:?}");
        }
        (expected, found) => panic!("{pointer:?}: {found:?} is there, and not {expected:?}"),
    }
}

/// Lists pointers to all values below a value.
fn list(value: &Value, way: &str, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(number, value)| (number.to_string(), value)).collect()
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        _ => return,
    };
    for (step, child) in children {
        if places.len() >= PLACES {
            return;
        }
        let place = format!("{way}/{step}");
        places.push(place.clone());
        list(child, &place, places);
    }
}
