//! Places in JSON: what is found is what a tree of the text has there, and where there is a tree nothing else is.
//!
//! The first line of an input is a pointer; the rest is the text.

use load::fuzzing::find;
use serde_json::Value;

/// Most places of a text that are looked for beside the one that is asked for.
const PLACES: usize = 50;
/// In both ways to write it, the sign with which names begin by which `serde_json` hides values in trees.
const HIDDEN: [&[u8]; 2] = [b"$", b"\\u0024"];

/// Any pointer and any text.
pub fn pointer(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let pointer = String::from_utf8_lossy(&input[..end]);
    let json = input.get(end + 1..).unwrap_or_default();
    let found = find(&pointer, json);
    // There are texts that are JSON and have no tree: too deep, or with a number beyond all others.
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

/// Pointers to what is below a value.
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
