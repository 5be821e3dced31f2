//! Messages as JSON text, in the form of the Protocol Buffers guide: members that are absent on the
//! wire are left out.

use experiment::template::base64_in_place;

use super::types::{FieldKind, MessageField, MessageType, MessageTypes, Scalar};
use super::well_known::{self, WellKnown};
use super::{ProtobufFields, ProtobufValue, read_varint, unzigzag};
use crate::values::encoding::Encoding;

/// Maximum depth of messages in each other.
const DEPTH: usize = 64;

/// Appends a message of the type with index `of` as JSON. Returns `None` if the message is broken
/// or too deep. In that case, the appended bytes are of no use.
pub fn write_message(types: &MessageTypes, of: usize, message: &[u8], out: &mut Vec<u8>) -> Option<()> {
    JsonWriter { types, out }.message(types.message(of), message, 0)
}

/// Appends all values of a field that is not a single scalar, as JSON.
pub(super) fn write_field(types: &MessageTypes, field: &MessageField, message: &[u8], out: &mut Vec<u8>) -> Option<()> {
    JsonWriter { types, out }.field(field, message, 0)
}

/// Appends a scalar as text: a number, `true`, the name of an enumerated value, a text, or base64.
/// Returns `None` if the value does not have the form of its type.
pub(super) fn write_scalar(
    types: &MessageTypes,
    kind: FieldKind,
    value: ProtobufValue<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    use std::io::Write as _;
    if let Some(number) = whole_number(kind, value) {
        return match (kind, number) {
            (FieldKind::Scalar(Scalar::Bool), _) => write!(out, "{}", number != 0),
            (FieldKind::Enum(of), _) => {
                match types.enumeration(of).values.iter().find(|(_, known)| i128::from(*known) == number) {
                    Some((name, _)) => out.write_all(name.as_bytes()),
                    None => write!(out, "{number}"),
                }
            }
            _ => write!(out, "{number}"),
        }
        .ok();
    }
    match (kind, value) {
        (FieldKind::Scalar(Scalar::Double), ProtobufValue::Fixed64(bits)) => {
            write_decimal(f64::from_bits(bits), out).ok()
        }
        (FieldKind::Scalar(Scalar::Float), ProtobufValue::Fixed32(bits)) => {
            write_decimal(f32::from_bits(bits), out).ok()
        }
        (FieldKind::Scalar(Scalar::String), ProtobufValue::Bytes(text)) => out.write_all(text).ok(),
        (FieldKind::Scalar(Scalar::Bytes), ProtobufValue::Bytes(bytes)) => {
            write_base64(bytes, out);
            Some(())
        }
        _ => None,
    }
}

/// Returns the number of a field of whole numbers, of truth values or of an enumeration.
pub(super) fn whole_number(kind: FieldKind, value: ProtobufValue<'_>) -> Option<i128> {
    let scalar = match kind {
        FieldKind::Scalar(scalar) => scalar,
        FieldKind::Enum(_) => Scalar::Int32,
        FieldKind::Message(_) => return None,
    };
    Some(match (scalar, value) {
        (Scalar::Int32, ProtobufValue::Varint(number)) => (number as i32).into(),
        (Scalar::Int64, ProtobufValue::Varint(number)) => (number as i64).into(),
        (Scalar::Uint32, ProtobufValue::Varint(number)) => (number as u32).into(),
        (Scalar::Uint64, ProtobufValue::Varint(number)) => number.into(),
        (Scalar::Sint32, ProtobufValue::Varint(number)) => (unzigzag(number) as i32).into(),
        (Scalar::Sint64, ProtobufValue::Varint(number)) => unzigzag(number).into(),
        (Scalar::Bool, ProtobufValue::Varint(number)) => i128::from(number != 0),
        (Scalar::Fixed32, ProtobufValue::Fixed32(number)) => number.into(),
        (Scalar::Fixed64, ProtobufValue::Fixed64(number)) => number.into(),
        (Scalar::Sfixed32, ProtobufValue::Fixed32(number)) => (number as i32).into(),
        (Scalar::Sfixed64, ProtobufValue::Fixed64(number)) => (number as i64).into(),
        _ => return None,
    })
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(bytes);
    base64_in_place(out, begin);
}

/// Appends a number as JSON has it. Numbers that JSON does not have are names.
fn write_decimal<N: Into<f64> + std::fmt::Display + Copy>(number: N, out: &mut Vec<u8>) -> std::io::Result<()> {
    use std::io::Write as _;
    match number.into() {
        number if number.is_nan() => out.write_all(b"NaN"),
        number if number.is_infinite() => out.write_all(if number > 0.0 { b"Infinity" } else { b"-Infinity" }),
        large if large.abs() >= 1e17 => write!(out, "{large:e}"),
        _ => write!(out, "{number}"),
    }
}

/// Passes the numbers of a packed field. Returns `None` if they are broken.
pub(super) fn unpacked(
    scalar: Scalar,
    mut packed: &[u8],
    mut take: impl FnMut(ProtobufValue<'_>) -> Option<()>,
) -> Option<()> {
    while !packed.is_empty() {
        let value = match scalar.form() {
            super::FIXED64 => {
                let (number, rest) = packed.split_first_chunk()?;
                packed = rest;
                ProtobufValue::Fixed64(u64::from_le_bytes(*number))
            }
            super::FIXED32 => {
                let (number, rest) = packed.split_first_chunk()?;
                packed = rest;
                ProtobufValue::Fixed32(u32::from_le_bytes(*number))
            }
            _ => ProtobufValue::Varint(read_varint(&mut packed)?),
        };
        take(value)?;
    }
    Some(())
}

/// Returns the scalar type by which the numbers of a packed field are read, if the field can be
/// packed.
pub(super) fn packed_scalar(kind: FieldKind) -> Option<Scalar> {
    match kind {
        FieldKind::Scalar(Scalar::String | Scalar::Bytes) | FieldKind::Message(_) => None,
        FieldKind::Scalar(scalar) => Some(scalar),
        FieldKind::Enum(_) => Some(Scalar::Int32),
    }
}

/// Passes each value of a field, also of one that is packed. Returns `None` if the message is
/// broken.
pub(super) fn each_value<'a>(
    field: &MessageField,
    message: &'a [u8],
    mut take: impl FnMut(ProtobufValue<'a>) -> Option<()>,
) -> Option<()> {
    for read in ProtobufFields::of(message) {
        let (number, value) = read.ok()?;
        if number != field.number {
            continue;
        }
        match (value, packed_scalar(field.kind).filter(|_| field.is_repeated)) {
            (ProtobufValue::Bytes(packed), Some(scalar)) => {
                // Numbers have no bytes of the message in them, so their lifetime does not matter.
                unpacked(scalar, packed, |value| match value {
                    ProtobufValue::Varint(number) => take(ProtobufValue::Varint(number)),
                    ProtobufValue::Fixed32(number) => take(ProtobufValue::Fixed32(number)),
                    ProtobufValue::Fixed64(number) => take(ProtobufValue::Fixed64(number)),
                    ProtobufValue::Bytes(_) | ProtobufValue::Group(_) => None,
                })?;
            }
            (value, _) => take(value)?,
        }
    }
    Some(())
}

struct JsonWriter<'a> {
    types: &'a MessageTypes,
    out: &'a mut Vec<u8>,
}

impl JsonWriter<'_> {
    fn message(&mut self, of: &MessageType, message: &[u8], depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        if let Some(special) = of.well_known {
            return self.well_known(special, of, message, depth);
        }
        self.out.push(b'{');
        self.members(of, message, depth, true)?;
        self.out.push(b'}');
        Some(())
    }

    /// Appends the members of an object. `is_first` is whether none was written before.
    fn members(&mut self, of: &MessageType, message: &[u8], depth: usize, mut is_first: bool) -> Option<()> {
        // The first fields by their index; each further field is looked for.
        let mut present = [false; 256];
        for read in ProtobufFields::of(message) {
            let (number, _) = read.ok()?;
            if let Some(index) = of.fields.iter().position(|field| field.number == number)
                && let Some(is_present) = present.get_mut(index)
            {
                *is_present = true;
            }
        }
        for (index, field) in of.fields.iter().enumerate() {
            let is_present = present.get(index).copied();
            if !is_present.unwrap_or_else(|| has_field(message, field.number)) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            self.text(field.json_name.as_bytes());
            self.out.push(b':');
            self.field(field, message, depth)?;
        }
        Some(())
    }

    fn field(&mut self, field: &MessageField, message: &[u8], depth: usize) -> Option<()> {
        if let (FieldKind::Message(of), true) = (field.kind, field.is_repeated)
            && self.types.message(of).is_map_entry
        {
            return self.map(field, self.types.message(of), message, depth);
        }
        if field.is_repeated {
            self.out.push(b'[');
            let mut is_first = true;
            each_value(field, message, |value| {
                if !std::mem::take(&mut is_first) {
                    self.out.push(b',');
                }
                self.value(field.kind, value, depth)
            })?;
            self.out.push(b']');
            return Some(());
        }
        let mut last = None;
        each_value(field, message, |value| {
            last = Some(value);
            Some(())
        })?;
        self.value(field.kind, last?, depth)
    }

    fn map(&mut self, field: &MessageField, entry: &MessageType, message: &[u8], depth: usize) -> Option<()> {
        let [key, value] = entry.fields.as_slice() else { return None };
        self.out.push(b'{');
        let mut is_first = true;
        each_value(field, message, |element| {
            let ProtobufValue::Bytes(element) = element else { return None };
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            let begin = self.out.len();
            self.out.push(b'"');
            match self.last(key, element)? {
                Some(found) => write_scalar(self.types, key.kind, found, self.out)?,
                None => write_default(self.types, key.kind, self.out)?,
            }
            Encoding::Json.apply(self.out, begin + 1);
            self.out.extend_from_slice(b"\":");
            match (self.last(value, element)?, value.kind) {
                (Some(found), kind) => self.value(kind, found, depth),
                (None, FieldKind::Message(of)) => self.message(self.types.message(of), &[], depth + 1),
                (None, kind) => self.quoted(kind, |writer| write_default(writer.types, kind, writer.out)),
            }
        })?;
        self.out.push(b'}');
        Some(())
    }

    /// Returns the last value of a field. The outer value is `None` if the message is broken.
    #[expect(clippy::option_option, reason = "a broken message differs from an absent field")]
    fn last<'m>(&self, field: &MessageField, message: &'m [u8]) -> Option<Option<ProtobufValue<'m>>> {
        let mut last = None;
        each_value(field, message, |value| {
            last = Some(value);
            Some(())
        })?;
        Some(last)
    }

    fn value(&mut self, kind: FieldKind, value: ProtobufValue<'_>, depth: usize) -> Option<()> {
        match (kind, value) {
            (FieldKind::Message(of), ProtobufValue::Bytes(message) | ProtobufValue::Group(message)) => {
                self.message(self.types.message(of), message, depth + 1)
            }
            (kind, value) => self.quoted(kind, |writer| write_scalar(writer.types, kind, value, writer.out)),
        }
    }

    /// Writes a scalar. Texts, names and numbers of 64 bits are in quotes.
    fn quoted(&mut self, kind: FieldKind, write: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let begin = self.out.len();
        write(self)?;
        let is_plain = match kind {
            FieldKind::Scalar(scalar) => matches!(
                scalar,
                Scalar::Int32
                    | Scalar::Uint32
                    | Scalar::Sint32
                    | Scalar::Fixed32
                    | Scalar::Sfixed32
                    | Scalar::Bool
                    | Scalar::Double
                    | Scalar::Float
            ),
            FieldKind::Enum(_) => true,
            FieldKind::Message(_) => return None,
        };
        let first = self.out.get(begin).copied().unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_bool = kind == FieldKind::Scalar(Scalar::Bool);
        let is_infinite = self.out[begin..].starts_with(b"-I");
        if is_plain && (is_bool || !is_name(first)) && !is_infinite {
            return Some(());
        }
        std::str::from_utf8(&self.out[begin..]).ok()?;
        Encoding::Json.apply(self.out, begin);
        self.out.insert(begin, b'"');
        self.out.push(b'"');
        Some(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        let begin = self.out.len();
        self.out.extend_from_slice(text);
        Encoding::Json.apply(self.out, begin);
        self.out.push(b'"');
    }

    fn well_known(&mut self, special: WellKnown, of: &MessageType, message: &[u8], depth: usize) -> Option<()> {
        match special {
            WellKnown::Timestamp | WellKnown::Duration => {
                let (mut seconds, mut nanos) = (0, 0);
                for read in ProtobufFields::of(message) {
                    match read.ok()? {
                        (1, ProtobufValue::Varint(is)) => seconds = is as i64,
                        (2, ProtobufValue::Varint(is)) => nanos = is as i32,
                        _ => {}
                    }
                }
                let is_time = special == WellKnown::Timestamp;
                let write = if is_time { well_known::timestamp_text } else { well_known::duration_text };
                match write(seconds, nanos) {
                    Some(text) => self.text(text.as_bytes()),
                    None => self.out.extend_from_slice(b"null"),
                }
                Some(())
            }
            WellKnown::FieldMask => {
                let paths = of.fields.first()?;
                let mut joined = String::new();
                each_value(paths, message, |path| {
                    let ProtobufValue::Bytes(path) = path else { return None };
                    let separator = if joined.is_empty() { "" } else { "," };
                    joined.push_str(separator);
                    joined.push_str(&super::types::json_name(std::str::from_utf8(path).ok()?));
                    Some(())
                })?;
                self.text(joined.as_bytes());
                Some(())
            }
            WellKnown::Wrapper => {
                let value = of.fields.first()?;
                match self.last(value, message)? {
                    Some(found) => self.value(value.kind, found, depth),
                    None => self.quoted(value.kind, |writer| write_default(writer.types, value.kind, writer.out)),
                }
            }
            WellKnown::Struct | WellKnown::ListValue => self.field(of.fields.first()?, message, depth + 1),
            WellKnown::Value => self.any_value(of, message, depth),
            WellKnown::Any => self.any(message, depth),
        }
    }

    fn any_value(&mut self, of: &MessageType, message: &[u8], depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let mut last = None;
        for read in ProtobufFields::of(message) {
            last = Some(read.ok()?);
        }
        match last {
            Some((number @ 2.., value)) => {
                let field = of.fields.iter().find(|field| field.number == number)?;
                self.value(field.kind, value, depth)
            }
            _ => {
                self.out.extend_from_slice(b"null");
                Some(())
            }
        }
    }

    fn any(&mut self, message: &[u8], depth: usize) -> Option<()> {
        let (mut url, mut content) = (&b""[..], &b""[..]);
        for read in ProtobufFields::of(message) {
            match read.ok()? {
                (1, ProtobufValue::Bytes(is)) => url = is,
                (2, ProtobufValue::Bytes(is)) => content = is,
                _ => {}
            }
        }
        let name = std::str::from_utf8(url).ok()?.rsplit('/').next()?;
        self.out.extend_from_slice(b"{\"@type\":");
        self.text(url);
        match self.types.find_message(name).map(|of| self.types.message(of)) {
            Some(of) if of.well_known.is_some() => {
                self.out.extend_from_slice(b",\"value\":");
                self.message(of, content, depth + 1)?;
            }
            Some(of) if depth < DEPTH => self.members(of, content, depth + 1, false)?,
            Some(_) => return None,
            None => {
                self.out.extend_from_slice(b",\"value\":");
                self.out.push(b'"');
                write_base64(content, self.out);
                self.out.push(b'"');
            }
        }
        self.out.push(b'}');
        Some(())
    }
}

/// Whether a message has a field with this number.
fn has_field(message: &[u8], number: u32) -> bool {
    ProtobufFields::of(message).any(|field| field.is_ok_and(|(found, _)| found == number))
}

/// Appends the default value of a scalar.
pub(super) fn write_default(types: &MessageTypes, kind: FieldKind, out: &mut Vec<u8>) -> Option<()> {
    let value = match kind {
        FieldKind::Enum(_) => ProtobufValue::Varint(0),
        FieldKind::Scalar(scalar) => match scalar.form() {
            super::FIXED64 => ProtobufValue::Fixed64(0),
            super::FIXED32 => ProtobufValue::Fixed32(0),
            super::BYTES => ProtobufValue::Bytes(&[]),
            _ => ProtobufValue::Varint(0),
        },
        FieldKind::Message(_) => return None,
    };
    write_scalar(types, kind, value, out)
}
