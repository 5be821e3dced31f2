//! Descriptors: `.proto` files as messages, which compilers write (`protoc --descriptor_set_out`,
//! `buf build`) and servers send in answer to reflection.

use super::types::{ProtoEnum, ProtoField, ProtoFile, ProtoKind, ProtoMessage, ProtoMethod, Scalar, json_name};
use super::{ProtobufFields, ProtobufValue};

/// Maximum depth of types in each other.
const DEPTH: usize = 64;

/// Reads a `FileDescriptorSet`: several files. Returns `None` if it is broken.
#[must_use]
pub fn read_set(set: &[u8]) -> Option<Vec<ProtoFile>> {
    let mut files = Vec::new();
    each(set, |number, value| {
        if let (1, ProtobufValue::Bytes(file)) = (number, value) {
            files.push(read_file(file)?);
        }
        Some(())
    })?;
    (!files.is_empty()).then_some(files)
}

/// Reads a `FileDescriptorProto`. Returns `None` if it is broken.
#[must_use]
pub fn read_file(descriptor: &[u8]) -> Option<ProtoFile> {
    let defaults = FieldDefaults::of_file(descriptor)?;
    let package = text_of(descriptor, 2)?;
    let mut file = ProtoFile { name: text_of(descriptor, 1)?, ..ProtoFile::default() };
    each(descriptor, |number, value| {
        match (number, value) {
            (3, ProtobufValue::Bytes(name)) => file.imports.push(utf8(name)?),
            (4, ProtobufValue::Bytes(message)) => read_message(message, &package, defaults, 0, &mut file)?,
            (5, ProtobufValue::Bytes(of)) => file.enums.push(read_enum(of, &package)?),
            (6, ProtobufValue::Bytes(service)) => read_service(service, &package, &mut file)?,
            _ => {}
        }
        Some(())
    })?;
    Some(file)
}

/// Rules for fields that say nothing else.
#[derive(Clone, Copy)]
struct FieldDefaults {
    is_packed: bool,
    has_presence: bool,
    is_delimited: bool,
}

impl FieldDefaults {
    fn of_file(descriptor: &[u8]) -> Option<Self> {
        let is_edition = number_of(descriptor, 14)?.is_some();
        let is_proto3 = text_of(descriptor, 12)? == "proto3";
        let rules =
            Self { is_packed: is_proto3 || is_edition, has_presence: !is_proto3 || is_edition, is_delimited: false };
        let options = bytes_of(descriptor, 8)?.unwrap_or_default();
        bytes_of(options, 50)?.map_or(Some(rules), |features| rules.with(features))
    }

    /// Returns the rules with the changes of a `FeatureSet`.
    fn with(self, features: &[u8]) -> Option<Self> {
        Some(Self {
            has_presence: number_of(features, 1)?.map_or(self.has_presence, |presence| presence != 2),
            is_packed: number_of(features, 3)?.map_or(self.is_packed, |encoding| encoding == 1),
            is_delimited: number_of(features, 5)?.map_or(self.is_delimited, |encoding| encoding == 2),
        })
    }
}

fn read_message(
    message: &[u8],
    scope: &str,
    defaults: FieldDefaults,
    depth: usize,
    file: &mut ProtoFile,
) -> Option<()> {
    if depth > DEPTH {
        return None;
    }
    let name = inside(scope, &text_of(message, 1)?);
    let options = bytes_of(message, 7)?.unwrap_or_default();
    let is_map_entry = number_of(options, 7)?.is_some_and(|is_entry| is_entry != 0);
    let place = file.messages.len();
    file.messages.push(ProtoMessage { name: name.clone(), fields: Vec::new(), is_map_entry });
    each(message, |number, value| {
        match (number, value) {
            (2, ProtobufValue::Bytes(field)) => {
                let field = read_field(field, defaults)?;
                file.messages[place].fields.push(field);
            }
            (3, ProtobufValue::Bytes(nested)) => read_message(nested, &name, defaults, depth + 1, file)?,
            (4, ProtobufValue::Bytes(of)) => file.enums.push(read_enum(of, &name)?),
            _ => {}
        }
        Some(())
    })
}

fn read_field(field: &[u8], defaults: FieldDefaults) -> Option<ProtoField> {
    const REPEATED: u64 = 3;
    const GROUP: u64 = 10;
    let name = text_of(field, 1)?;
    let options = bytes_of(field, 8)?.unwrap_or_default();
    let rules = bytes_of(options, 21)?.map_or(Some(defaults), |features| defaults.with(features))?;
    let kind = number_of(field, 5)?.unwrap_or(0);
    let oneof = number_of(field, 9)?.and_then(|index| u32::try_from(index).ok());
    let is_optional = number_of(field, 17)? == Some(1);
    let is_repeated = number_of(field, 4)? == Some(REPEATED);
    Some(ProtoField {
        json_name: bytes_of(field, 10)?.map_or_else(|| Some(json_name(&name)), utf8)?,
        name,
        number: u32::try_from(number_of(field, 3)?.unwrap_or(0)).ok()?,
        is_repeated,
        is_packed: is_repeated && number_of(options, 2)?.map_or(rules.is_packed, |is_packed| is_packed != 0),
        is_delimited: kind == GROUP || rules.is_delimited,
        has_presence: !is_repeated && (rules.has_presence || oneof.is_some()),
        // An optional field of proto3 is alone in a `oneof` that is not in its file.
        oneof: oneof.filter(|_| !is_optional),
        kind: match scalar(kind) {
            Some(scalar) => ProtoKind::Scalar(scalar),
            None => ProtoKind::Named(text_of(field, 6)?),
        },
    })
}

/// Returns the scalar type with this number in a descriptor.
fn scalar(number: u64) -> Option<Scalar> {
    Some(match number {
        1 => Scalar::Double,
        2 => Scalar::Float,
        3 => Scalar::Int64,
        4 => Scalar::Uint64,
        5 => Scalar::Int32,
        6 => Scalar::Fixed64,
        7 => Scalar::Fixed32,
        8 => Scalar::Bool,
        9 => Scalar::String,
        12 => Scalar::Bytes,
        13 => Scalar::Uint32,
        15 => Scalar::Sfixed32,
        16 => Scalar::Sfixed64,
        17 => Scalar::Sint32,
        18 => Scalar::Sint64,
        _ => return None,
    })
}

fn read_enum(of: &[u8], scope: &str) -> Option<ProtoEnum> {
    let mut read = ProtoEnum { name: inside(scope, &text_of(of, 1)?), values: Vec::new() };
    each(of, |number, value| {
        if let (2, ProtobufValue::Bytes(value)) = (number, value) {
            let number = number_of(value, 2)?.unwrap_or(0);
            read.values.push((text_of(value, 1)?, number as i32));
        }
        Some(())
    })?;
    Some(read)
}

fn read_service(service: &[u8], package: &str, file: &mut ProtoFile) -> Option<()> {
    let name = inside(package, &text_of(service, 1)?);
    each(service, |number, value| {
        if let (2, ProtobufValue::Bytes(method)) = (number, value) {
            file.methods.push(ProtoMethod {
                service: name.clone(),
                name: text_of(method, 1)?,
                input: text_of(method, 2)?,
                output: text_of(method, 3)?,
                takes_stream: number_of(method, 5)? == Some(1),
                answers_stream: number_of(method, 6)? == Some(1),
            });
        }
        Some(())
    })
}

/// Passes each field of a message. Returns `None` if the message is broken, or if a call returns
/// `None`.
fn each<'a>(message: &'a [u8], mut take: impl FnMut(u32, ProtobufValue<'a>) -> Option<()>) -> Option<()> {
    ProtobufFields::of(message).try_for_each(|field| {
        let (number, value) = field.ok()?;
        take(number, value)
    })
}

/// Returns the last field with this number that is bytes. The outer value is `None` if the message
/// is broken.
#[expect(clippy::option_option, reason = "a broken message differs from an absent field")]
fn bytes_of(message: &[u8], wanted: u32) -> Option<Option<&[u8]>> {
    let mut found = None;
    each(message, |number, value| {
        if let (true, ProtobufValue::Bytes(bytes)) = (number == wanted, value) {
            found = Some(bytes);
        }
        Some(())
    })?;
    Some(found)
}

/// Returns the last field with this number that is a number. The outer value is `None` if the
/// message is broken.
#[expect(clippy::option_option, reason = "a broken message differs from an absent field")]
fn number_of(message: &[u8], wanted: u32) -> Option<Option<u64>> {
    let mut found = None;
    each(message, |number, value| {
        if let (true, ProtobufValue::Varint(is)) = (number == wanted, value) {
            found = Some(is);
        }
        Some(())
    })?;
    Some(found)
}

/// Returns the last text with this number, which is empty if the field is absent.
fn text_of(message: &[u8], wanted: u32) -> Option<String> {
    utf8(bytes_of(message, wanted)?.unwrap_or_default())
}

fn utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Returns the complete name of something that is defined in `scope`.
pub(super) fn inside(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}
