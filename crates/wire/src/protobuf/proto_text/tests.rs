//! `.proto` files, compared with the descriptors that `protoc` makes of the same files.

use super::*;
use crate::protobuf::descriptors;
use crate::protobuf::testing::{DESCRIPTORS, files, types};
use crate::protobuf::types::{FieldKind, MessageTypes};

/// Describes all types, sorted by name.
fn described(types: &MessageTypes) -> String {
    let kind = |kind: FieldKind| match kind {
        FieldKind::Scalar(scalar) => scalar.name().to_owned(),
        FieldKind::Message(of) => types.message(of).name.clone(),
        FieldKind::Enum(of) => format!("{:?}", types.enumeration(of)),
    };
    let mut lines = Vec::new();
    for of in types.messages() {
        let fields = of.fields.iter().map(|field| {
            let field = field.clone();
            format!("\n  {} {} {field:?}", field.name, kind(field.kind)).replace(&format!("{:?}", field.kind), "")
        });
        let fields: String = fields.collect();
        lines.push(format!("{} {} {:?}{fields}", of.name, of.is_map_entry, of.well_known));
    }
    lines.extend(types.methods().iter().map(|method| {
        let (input, output) = (&types.message(method.input).name, &types.message(method.output).name);
        format!("{} {input} {output} {} {}", method.path(), method.takes_stream, method.answers_stream)
    }));
    lines.sort();
    lines.join("\n")
}

#[test]
fn files_have_the_types_of_their_descriptors() {
    let by_descriptors = MessageTypes::link(descriptors::read_set(DESCRIPTORS).unwrap()).unwrap();
    let (mine, others) = (described(&types()), described(&by_descriptors));
    let pairs = mine.lines().zip(others.lines());
    for (mine, other) in pairs {
        assert_eq!(mine, other);
    }
    assert_eq!(mine.lines().count(), others.lines().count());
    assert_eq!(files().len(), descriptors::read_set(DESCRIPTORS).unwrap().len());
}

#[test]
fn cut_descriptors_are_refused() {
    for end in (0..DESCRIPTORS.len()).step_by(11) {
        // A cut between two files leaves a valid set.
        if let Some(files) = descriptors::read_set(&DESCRIPTORS[..end]) {
            assert!(files.len() < 9, "{end}");
        }
    }
}

fn wrong(text: &str) -> String {
    parse("a.proto", text).unwrap_err()
}

#[test]
fn mistakes_have_a_place() {
    for (text, expected) in [
        ("message A {\n  string name 1;\n}", "a.proto:2:15: expected `=`, found `1`"),
        ("message A {\n  string name = 0;\n}", "a.proto:2:17: expected a number from 1 to 536870911, found `0`"),
        ("message A {", "a.proto:1:12: expected a field, or `}`, found the end of the file"),
        ("mesage A {}", "a.proto:1:1: expected `message`, `enum`"),
        ("service S { rpc A (B) (C); }", "a.proto:1:23: expected `returns`, found `(`"),
        ("enum E { A = x; }", "a.proto:1:14: expected the number of the value, found `x`"),
        ("/* open", "a.proto:1:1: this comment is never closed"),
        ("import \"open\n\";", "a.proto:1:8: this text is never closed"),
        ("message A { option (x) = { a: 1 ", "expected `;`, found the end of the file"),
        ("message A { int32 a = 1 [x = 1; }", "expected `]`, found the end of the file"),
    ] {
        let told = wrong(text);
        assert!(told.contains(expected), "{text}: {told}");
    }
    assert!(wrong(&"message A { ".repeat(99)).contains("at most 64 messages"));
}

#[test]
fn names_that_are_keywords_elsewhere() {
    let text = "edition = \"2023\"; option features.field_presence = IMPLICIT;
        message stream { string message = 1; int32 enum = 2 [features.field_presence = EXPLICIT]; bool stream = 3;
            repeated int32 reserved_numbers = 4 [features.repeated_field_encoding = EXPANDED]; map<string, stream> map = 5; }
        service S { rpc returns(stream) returns (stream stream) { option (x) = \"a;}\"; } }";
    let file = parse("k.proto", text).unwrap();
    let fields: Vec<_> =
        file.messages[0].fields.iter().map(|f| (f.name.as_str(), f.has_presence, f.is_packed)).collect();
    assert_eq!(
        fields,
        [
            ("message", false, false),
            ("enum", true, false),
            ("stream", false, false),
            ("reserved_numbers", false, false),
            ("map", false, false)
        ]
    );
    let method = &file.methods[0];
    assert_eq!((method.takes_stream, method.answers_stream), (false, true));
    assert!(MessageTypes::link(vec![file]).is_ok());
}

#[test]
fn absent_types_are_named() {
    let link = |text: &str| MessageTypes::link(vec![parse("a.proto", text).unwrap()]).unwrap_err();
    assert_eq!(link("message A { B b = 1; }"), "the type `B`, which `A` uses, is not defined");
    assert_eq!(link("package p; message A {} message A {}"), "`p.A` is defined twice");
    assert!(link("enum E { A = 0; } message M {} service S { rpc X(E) returns (M); }").contains("no message"));
}

#[test]
fn the_innermost_name_is_used() {
    let text = "package p.q; message A { message B { string inner = 1; } B b = 1; .p.q.B c = 2; q.B d = 3; }
        message B { string outer = 1; }";
    let types = MessageTypes::link(vec![parse("a.proto", text).unwrap()]).unwrap();
    let a = types.message(types.find_message("p.q.A").unwrap());
    let names: Vec<&str> = a
        .fields
        .iter()
        .map(|field| match field.kind {
            FieldKind::Message(of) => types.message(of).name.as_str(),
            _ => "",
        })
        .collect();
    assert_eq!(names, ["p.q.A.B", "p.q.B", "p.q.B"]);
}
