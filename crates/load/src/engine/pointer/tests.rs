//! Places in JSON: the table of RFC 6901, what values say, and that no text, JSON or not, breaks it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::Value;

use super::Pointer;

fn found(json: &str, pointer: &str) -> Option<String> {
    let mut scratch = Vec::new();
    let found = Pointer::compile(pointer).unwrap().find(json.as_bytes(), &mut scratch)?.to_vec();
    Some(String::from_utf8(found).unwrap())
}

/// RFC 6901, 5.
const EXAMPLE: &str = r#"{
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
}"#;

#[test]
fn the_table_of_the_standard() {
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
fn what_values_say() {
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
fn of_two_members_of_one_name_the_last_counts() {
    assert_eq!(found(r#"{"a": 1, "b": 2, "a": 3}"#, "/a").as_deref(), Some("3"));
    assert_eq!(found(r#"{"a": {"b": 1}, "a": {"c": 2}}"#, "/a/b"), None);
}

#[test]
fn what_is_no_json_has_no_places() {
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
    let pointer = Pointer::compile("/a").unwrap();
    assert_eq!(pointer.find(b"{\"a\": \"\xff\"}", &mut scratch), None, "not UTF-8");
    assert!(Pointer::compile("a").is_err() && Pointer::compile("/~").is_err());
}

#[test]
fn depth_is_no_danger() {
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

/// What a tree of the text says at the place.
fn of_tree(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

proptest! {
    #[test]
    fn it_finds_what_a_tree_has(value in json(), pointer in "(/([ab01]|~0|~1){0,2}){1,4}") {
        prop_assert_eq!(found(&value.to_string(), &pointer), of_tree(&value, &pointer));
    }

    #[test]
    fn any_bytes_are_survived(text in prop::collection::vec(any::<u8>(), 0..60), pointer in "(/[a0]{0,1}){1,3}") {
        let mut scratch = Vec::new();
        let _ = Pointer::compile(&pointer).unwrap().find(&text, &mut scratch);
    }

    #[test]
    fn anything_like_json_is_read_as_a_tree_would(
        text in "([\\[\\]{}:,\" ]|\"a\"|\"a\":|0|1e|true|nul|\\\\u00e9|\\\\){0,12}",
        pointer in "(/[a0]){1,2}",
    ) {
        let tree: Option<Value> = serde_json::from_str(&text).ok();
        prop_assert_eq!(found(&text, &pointer).is_some(), tree.is_some_and(|tree| tree.pointer(&pointer).is_some()));
    }
}
