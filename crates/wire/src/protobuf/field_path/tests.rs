//! Fields of messages by paths.

use super::*;
use crate::protobuf::message_layout;
use crate::protobuf::testing::{kinds, types};
use crate::testing::{names, source};
use crate::values::CompiledTemplate;

fn message(json: &str) -> Vec<u8> {
    let template = json.replace('{', "{{").replace('}', "}}");
    let template = CompiledTemplate::compile(&template, 0, &names()).unwrap();
    let layout = message_layout::compile(&types(), kinds(), &template, false).unwrap().remove(0);
    let mut out = Vec::new();
    layout.write(&mut template.piece_writer(&source(1, 1)), &mut out).unwrap();
    out
}

fn found(path: &str, message: &[u8]) -> Option<String> {
    let types = types();
    let path = FieldPath::compile(&types, kinds(), path).unwrap();
    let mut scratch = Vec::new();
    path.find(&types, message, &mut scratch).map(|found| String::from_utf8(found.to_vec()).unwrap())
}

#[test]
fn fields_of_each_kind() {
    let full = message(
        r#"{"aDouble":1.5,"anInt64":"-5","aBool":true,"aString":"s\"","aBytes":"AAH/","colour":"COLOUR_RED",
        "inner":{"name":"a","next":{"name":"b"}},"numbers":[1,300,-1],"texts":["","x"],"inners":[{},{"count":4}],
        "counts":{"a":1,"b.c":2},"byId":{"7":{"name":"n"}},"maybe":0,"at":"2024-02-29T12:30:00Z","value":[1]}"#,
    );
    for (path, value) in [
        ("aDouble", Some("1.5")),
        ("a_double", Some("1.5")),
        ("anInt64", Some("-5")),
        ("aBool", Some("true")),
        ("aString", Some("s\"")),
        ("aBytes", Some("AAH/")),
        ("colour", Some("COLOUR_RED")),
        ("inner.name", Some("a")),
        ("inner.next.name", Some("b")),
        ("inner.next.next.name", None),
        ("inner.next", Some(r#"{"name":"b"}"#)),
        ("numbers", Some("[1,300,-1]")),
        ("numbers.1", Some("300")),
        ("numbers.3", None),
        ("loose", Some("[]")),
        ("texts.0", Some("")),
        ("inners.1.count", Some("4")),
        ("inners.0.count", Some("0")),
        ("inners.2.count", None),
        ("counts.a", Some("1")),
        ("counts.z", None),
        ("byId.7.name", Some("n")),
        ("byId.8.name", None),
        ("maybe", Some("0")),
        ("left", None),
        ("at", Some("\"2024-02-29T12:30:00Z\"")),
        ("at.seconds", Some("1709209800")),
        ("value", Some("[1]")),
    ] {
        assert_eq!(found(path, &full).as_deref(), value, "{path}");
    }
}

#[test]
fn absent_fields_have_their_default_if_senders_leave_it_out() {
    for (path, value) in [
        ("anInt32", Some("0")),
        ("aString", Some("")),
        ("aDouble", Some("0")),
        ("aBool", Some("false")),
        ("colour", Some("COLOUR_UNSPECIFIED")),
        ("maybe", None),
        ("inner", None),
        ("inner.count", None),
        ("numbers", Some("[]")),
        ("counts", Some("{}")),
    ] {
        assert_eq!(found(path, b"").as_deref(), value, "{path}");
    }
}

#[test]
fn broken_messages_have_no_fields() {
    for broken in [&b"\x08"[..], b"\x72\x09abc", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
        for path in ["aString", "numbers.0", "inner.name", "numbers", "inner"] {
            assert_eq!(found(path, broken), None, "{path}");
        }
    }
    assert_eq!(found("anInt32", b"\x1a\x01a"), None, "a text where a number belongs");
}

#[test]
fn wrong_paths_are_refused() {
    let types = types();
    for (path, expected) in [
        ("none", "has no field `none`"),
        ("aString.x", "there are no fields before `x`"),
        ("numbers.first", "write the index of an element before `first`"),
        ("inners.name", "write the index"),
        ("inner.name.x", "there are no fields before `x`"),
        ("", "has no field ``"),
    ] {
        let wrong = FieldPath::compile(&types, kinds(), path).unwrap_err();
        assert!(wrong.contains(expected), "{path}: {wrong}");
    }
}
