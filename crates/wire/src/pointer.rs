//! Lookup of a JSON pointer (RFC 6901) in a JSON text without building a tree: values off the path
//! are skipped. The text is read to its end, because an incomplete text is not JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledPointer(Box<[PointerStep]>);

/// A step of a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerStep {
    /// Name of a member of an object.
    name: Box<str>,
    /// Index of an element of an array, if the name is a number.
    index: Option<usize>,
}

impl PointerStep {
    /// Returns the step to the member or element of this name.
    pub fn named(name: String) -> Self {
        Self { index: experiment::pointer::index(&name), name: name.into() }
    }

    /// Returns the index of the step's element, if the step can lead into an array.
    pub fn index(&self) -> Option<usize> {
        self.index
    }

    /// Returns a matcher for the name of the step's member.
    pub fn member(&self) -> MemberMatcher<'_> {
        MemberMatcher(&self.name)
    }
}

impl CompiledPointer {
    /// Compiles `/items/0/id`.
    pub fn compile(text: &str) -> Result<Self, String> {
        let parsed = experiment::pointer::Pointer::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
        Ok(Self(parsed.steps.into_iter().map(PointerStep::named).collect()))
    }

    /// Returns the value at the place: the content of a string, or the JSON text of any other
    /// value. Returns `None` if there is no value or `json` is not JSON. If a name occurs twice in
    /// an object, the last member counts, as with most readers (RFC 8259, 4).
    pub fn find<'a>(&self, json: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let mut found = None;
        let mut reader = serde_json::Deserializer::from_slice(json);
        PointerRest { steps: &self.0, found: &mut found }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        said(found?, scratch)
    }
}

/// Returns the text of a JSON value: strings without quotes and escapes, other values unchanged.
fn said<'a>(written: &'a str, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let Some(text) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Some(written.as_bytes());
    };
    if !text.contains('\\') {
        return Some(text.as_bytes());
    }
    let text: String = serde_json::from_str(written).ok()?;
    scratch.clear();
    scratch.extend_from_slice(text.as_bytes());
    Some(scratch)
}

/// Remaining pointer steps from a value, and the result of the lookup.
struct PointerRest<'p, 'json> {
    steps: &'p [PointerStep],
    found: &'p mut Option<&'json str>,
}

impl<'json> DeserializeSeed<'json> for PointerRest<'_, 'json> {
    type Value = ();

    fn deserialize<D: Deserializer<'json>>(self, value: D) -> Result<(), D::Error> {
        *self.found = None;
        if self.steps.is_empty() {
            *self.found = Some(<&'json RawValue>::deserialize(value)?.get());
            return Ok(());
        }
        value.deserialize_any(self)
    }
}

impl<'json> Visitor<'json> for PointerRest<'_, 'json> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'json>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.steps.split_first() else { return Ok(()) };
        while let Some(is_it) = members.next_key_seed(step.member())? {
            if is_it {
                members.next_value_seed(PointerRest { steps: rest, found: &mut *self.found })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'json>>(self, mut elements: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.steps.split_first() else { return Ok(()) };
        for number in 0.. {
            let element = if step.index == Some(number) {
                elements.next_element_seed(PointerRest { steps: rest, found: &mut *self.found })?
            } else {
                elements.next_element::<IgnoredAny>()?.map(|_| ())
            };
            if element.is_none() {
                break;
            }
        }
        Ok(())
    }

    // Values other than objects and arrays contain no place.

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Whether the name of a member equals this name.
pub struct MemberMatcher<'p>(&'p str);

impl<'json> DeserializeSeed<'json> for MemberMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'json>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::CompiledPointer;

    fn found(json: &str, pointer: &str) -> Option<String> {
        let mut scratch = Vec::new();
        let found = CompiledPointer::compile(pointer).unwrap().find(json.as_bytes(), &mut scratch)?.to_vec();
        Some(String::from_utf8(found).unwrap())
    }

    /// Example of RFC 6901, section 5.
    const EXAMPLE: &str = r#"{
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
}"#;

    #[test]
    fn the_examples_of_rfc_6901() {
        for (pointer, expected) in [
            ("/foo", r#"["bar", "baz"]"#),
            ("/foo/0", "bar"),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(found(EXAMPLE, pointer).as_deref(), Some(expected), "{pointer}");
        }
        for pointer in ["/bar", "/foo/2", "/foo/-", "/foo/00", "/foo/bar", "/foo/0/0", "//x", "/m~1n"] {
            assert_eq!(found(EXAMPLE, pointer), None, "{pointer}");
        }
    }

    #[test]
    fn values_become_text() {
        for (value, said) in [
            ("\"plain é\"", "plain é"),
            (r#""\u00e9\n\"\\\/\ud834\udd1e""#, "é\n\"\\/𝄞"),
            ("\"\"", ""),
            ("-1.50e+3", "-1.50e+3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("true", "true"),
            ("null", "null"),
            ("{ \"a\" : [1,  2] }", "{ \"a\" : [1,  2] }"),
            ("[]", "[]"),
        ] {
            let json = format!("\n[ {{\"x\": 1}}, {{\"é\":\t{value} , \"y\": [[{value}]]}}]\r\n");
            assert_eq!(found(&json, "/1/é").as_deref(), Some(said), "{value}");
            assert_eq!(found(&json, "/1/y/0/0").as_deref(), Some(said), "{value}");
        }
    }

    #[test]
    fn numbers_are_elements_or_members() {
        assert_eq!(found(r#"{"0": "member"}"#, "/0").as_deref(), Some("member"));
        assert_eq!(found(r#"["element"]"#, "/0").as_deref(), Some("element"));
        assert_eq!(found(r#"{"01": "member"}"#, "/01").as_deref(), Some("member"));
    }

    #[test]
    fn the_last_of_duplicate_members_counts() {
        assert_eq!(found(r#"{"a": 1, "b": 2, "a": 3}"#, "/a").as_deref(), Some("3"));
        assert_eq!(found(r#"{"a": {"b": 1}, "a": {"c": 2}}"#, "/a/b"), None);
    }

    #[test]
    fn invalid_json_has_no_places() {
        for text in [
            "",
            " ",
            "a",
            "1",
            "null",
            "\"a\"",
            "{\"a\": 1",
            "{\"a\": 1,}",
            "{\"a\": 1} x",
            "{\"a\": 1}{\"a\": 1}",
            "{\"a\": 1, \"b\": tru}",
            "{\"a\": 01}",
            "{\"a\": \"\\x\"}",
            "{\"a\": \"\\ud800\"}",
            "{'a': 1}",
            "[{\"a\": 1}]",
            "\u{feff}{\"a\": 1}",
            "<html>",
        ] {
            assert_eq!(found(text, "/a"), None, "{text}");
        }
        let mut scratch = Vec::new();
        let pointer = CompiledPointer::compile("/a").unwrap();
        assert_eq!(pointer.find(b"{\"a\": \"\xff\"}", &mut scratch), None, "not UTF-8");
        assert!(CompiledPointer::compile("a").is_err() && CompiledPointer::compile("/~").is_err());
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = format!("{{\"a\": {}1{}, \"b\": 2}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(&deep, "/b").as_deref(), Some("2"));
        assert_eq!(found(&deep, &format!("/a{}", "/0".repeat(100_000))), None, "that deep nobody goes");
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ab01/~]{0,2}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Looks the pointer up in a tree of the text.
    fn of_tree(value: &Value, pointer: &str) -> Option<String> {
        match value.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_parsed_tree(value in json(), pointer in "(/([ab01]|~0|~1){0,2}){1,4}") {
            prop_assert_eq!(found(&value.to_string(), &pointer), of_tree(&value, &pointer));
        }

        #[test]
        fn random_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..60), pointer in "(/[a0]{0,1}){1,3}") {
            let mut scratch = Vec::new();
            let _ = CompiledPointer::compile(&pointer).unwrap().find(&text, &mut scratch);
        }

        #[test]
        fn json_like_text_agrees_with_a_parsed_tree(
            text in "([\\[\\]{}:,\" ]|\"a\"|\"a\":|0|1e|true|nul|\\\\u00e9|\\\\){0,12}",
            pointer in "(/[a0]){1,2}",
        ) {
            let tree: Option<Value> = serde_json::from_str(&text).ok();
            prop_assert_eq!(found(&text, &pointer).is_some(), tree.is_some_and(|tree| tree.pointer(&pointer).is_some()));
        }
    }
}
