//! Test support: the types of the files in `examples`, and the fuzz targets.
#![allow(clippy::unwrap_used, reason = "the examples are valid")]

use super::types::{MessageTypes, ProtoFile};
use super::{descriptors, field_path, json_text, proto_text, well_known};
use crate::protobuf::ProtobufFields;

const KINDS: &str = include_str!("examples/kinds.proto");
const OLD: &str = include_str!("examples/old.proto");
/// The output of `protoc --include_imports --descriptor_set_out` for both files.
pub const DESCRIPTORS: &[u8] = include_bytes!("examples/both.binpb");

/// Returns the files by their texts.
pub fn files() -> Vec<ProtoFile> {
    let mut files =
        vec![proto_text::parse("kinds.proto", KINDS).unwrap(), proto_text::parse("old.proto", OLD).unwrap()];
    let imports: Vec<String> = files.iter().flat_map(|file| file.imports.clone()).collect();
    files.extend(imports.iter().map(|import| well_known::file(import).unwrap()));
    files
}

/// Returns the types of the files.
pub fn types() -> MessageTypes {
    MessageTypes::link(files()).unwrap()
}

/// Returns the index of the type with a field of each kind.
pub fn kinds() -> usize {
    types().find_message("test.kinds.v1.Kinds").unwrap()
}

/// Body of the fuzz target of `.proto` files: any text has a result, and a file that can be read
/// can be linked or has a message.
pub fn proto(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(file) = proto_text::parse("fuzzed.proto", text)
    {
        let _ = MessageTypes::link(vec![file]);
    }
}

/// Body of the fuzz target of descriptors.
pub fn descriptor(input: &[u8]) {
    if let Some(files) = descriptors::read_set(input) {
        let _ = MessageTypes::link(files);
    }
}

/// Body of the fuzz target of messages: a message that is read becomes JSON, and fields of a broken
/// message have no effect.
pub fn message(input: &[u8]) {
    thread_local! {
        static TYPES: (MessageTypes, usize, Vec<field_path::FieldPath>) = {
            let (types, kinds) = (types(), kinds());
            let paths = ["aString", "numbers.1", "inners.0.next.name", "byId.7.name", "counts", "inner", "aDouble", "any"];
            let paths = paths.iter().map(|path| field_path::FieldPath::compile(&types, kinds, path).unwrap()).collect();
            (types, kinds, paths)
        };
    }
    TYPES.with(|(types, kinds, paths)| {
        let mut text = Vec::new();
        let written = json_text::write_message(types, *kinds, input, &mut text);
        if written.is_some() {
            let read: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&text);
            assert!(read.is_ok(), "not JSON: {}", String::from_utf8_lossy(&text));
            assert!(ProtobufFields::of(input).all(|field| field.is_ok()), "a broken message has a JSON form");
        }
        for path in paths {
            text.clear();
            let _ = path.find(types, input, &mut text);
        }
    });
}
