//! Messages encoded before the load: constant bytes with gaps for values and for the lengths of the
//! texts and messages around them.

use super::json_tree::{JsonNode, TextShare, VariableText};
use super::types::{FieldKind, MessageField, MessageType, MessageTypes, Scalar};
use super::well_known::{self, WellKnown};
use super::{BYTES, GROUP, GROUP_END, VARINT, varint_length, write_key, write_varint, zigzag};
use crate::values::allowed::NotSendable;
use crate::values::{CompiledTemplate, PieceWriter};

/// A message that is encoded as far as it is known before the load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageLayout {
    pieces: Box<[MessagePiece]>,
}

#[derive(Debug, Clone, PartialEq)]
enum MessagePiece {
    Bytes(Vec<u8>),
    /// A value of the template, as text.
    Text(usize),
    /// A text, encoded as a number.
    Number {
        text: Box<[TextShare]>,
        kind: NumberKind,
    },
    /// A text that is base64, decoded.
    Base64(Box<[TextShare]>),
    /// Begins a part whose length is written before it. The length gets this many bytes, and more
    /// if it needs them.
    Begin(usize),
    End,
}

/// The type of a number that is read from a text.
#[derive(Debug, Clone, PartialEq)]
enum NumberKind {
    Scalar(Scalar),
    /// Names and numbers of an enumeration.
    Enum(Box<[(String, i32)]>),
}

/// Maximum depth of parts whose length is known only when a message is written.
const DEPTH: usize = 24;

/// Checks a template that is the JSON form of a message whose type is not known yet.
///
/// # Errors
/// Returns an error if the template is no JSON.
pub fn check_json(template: &CompiledTemplate) -> Result<(), String> {
    JsonNode::parse(template).map(drop)
}

/// Compiles a template that is the JSON form of a message of the type with index `of`. If
/// `may_be_list`, an array is several messages.
///
/// # Errors
/// A member that the type does not have, or a value that its field cannot have. The text names the
/// field.
pub fn compile(
    types: &MessageTypes,
    of: usize,
    template: &CompiledTemplate,
    may_be_list: bool,
) -> Result<Vec<MessageLayout>, String> {
    match JsonNode::parse(template)? {
        JsonNode::List(messages) if may_be_list => {
            messages.iter().map(|message| MessageLayout::compile(types, of, message)).collect()
        }
        message => Ok(vec![MessageLayout::compile(types, of, &message)?]),
    }
}

impl MessageLayout {
    fn compile(types: &MessageTypes, of: usize, json: &JsonNode) -> Result<Self, String> {
        let pieces = MessageCompiler { types }.message(types.message(of), json).map_err(FieldMistake::told)?;
        let mut depth = 0_usize;
        for piece in &pieces {
            match piece {
                MessagePiece::Begin(_) => depth += 1,
                MessagePiece::End => depth -= 1,
                _ => {}
            }
            if depth > DEPTH {
                return Err(format!("a placeholder is inside more than {DEPTH} messages"));
            }
        }
        Ok(Self { pieces: pieces.into() })
    }

    /// Returns the message, if it has no values of a template.
    #[must_use]
    pub fn as_constant(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(&[]),
            [MessagePiece::Bytes(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Appends the message with the values of its template.
    ///
    /// # Errors
    /// A value that its field cannot have. The appended bytes must not be sent.
    pub fn write(&self, values: &mut PieceWriter<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        let mut begins = [(0_usize, 0_usize); DEPTH];
        let mut depth = 0;
        for piece in &self.pieces {
            match piece {
                MessagePiece::Bytes(bytes) => out.extend_from_slice(bytes),
                MessagePiece::Text(piece) => {
                    let begin = out.len();
                    values.write(*piece, out);
                    if std::str::from_utf8(&out[begin..]).is_err() {
                        return Err(NotSendable::InText);
                    }
                }
                MessagePiece::Number { text, kind } => {
                    let begin = out.len();
                    write_text(text, values, out);
                    let number = std::str::from_utf8(&out[begin..]).ok().and_then(|text| kind.read(text.trim()));
                    out.truncate(begin);
                    number.ok_or(NotSendable::NotNumber)?.write(out);
                }
                MessagePiece::Base64(text) => {
                    let begin = out.len();
                    write_text(text, values, out);
                    decode_base64(out, begin).ok_or(NotSendable::NotBase64)?;
                }
                MessagePiece::Begin(width) => {
                    begins[depth] = (out.len(), *width);
                    depth += 1;
                    out.resize(out.len() + width, 0);
                }
                MessagePiece::End => {
                    depth -= 1;
                    let (begin, width) = begins[depth];
                    write_length(out, begin, width);
                }
            }
        }
        Ok(())
    }
}

fn write_text(text: &[TextShare], values: &mut PieceWriter<'_>, out: &mut Vec<u8>) {
    for share in text {
        match share {
            TextShare::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TextShare::Value(piece) => values.write(*piece, out),
        }
    }
}

/// Fills the gap of `width` bytes at `begin` with the length of the bytes behind it. Moves these
/// bytes if the length needs more or less room.
fn write_length(out: &mut Vec<u8>, begin: usize, width: usize) {
    let length = out.len() - begin - width;
    let needed = varint_length(length as u64);
    if needed != width {
        out.resize(begin + needed.max(width) + length, 0);
        out.copy_within(begin + width..begin + width + length, begin + needed);
        out.truncate(begin + needed + length);
    }
    let mut rest = length as u64;
    for place in &mut out[begin..begin + needed] {
        *place = rest as u8 & 0x7f | 0x80;
        rest >>= 7;
    }
    out[begin + needed - 1] &= 0x7f;
}

/// Decodes base64. Returns `None` if the text is none.
#[must_use]
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.as_bytes().to_vec();
    decode_base64(&mut bytes, 0)?;
    Some(bytes)
}

/// Decodes base64 in place, from `begin`. Both alphabets are allowed, with and without padding.
fn decode_base64(out: &mut Vec<u8>, begin: usize) -> Option<()> {
    let padding = out[begin..].iter().rev().take_while(|byte| **byte == b'=').count();
    let end = out.len() - padding.min(2);
    if (end - begin) % 4 == 1 || padding > 2 {
        return None;
    }
    let (mut bits, mut count, mut at) = (0_u32, 0, begin);
    for index in begin..end {
        let six = match out[index] {
            letter @ b'A'..=b'Z' => letter - b'A',
            letter @ b'a'..=b'z' => letter - b'a' + 26,
            digit @ b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out[at] = (bits >> count) as u8;
            at += 1;
        }
    }
    out.truncate(at);
    Some(())
}

/// A number, ready to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WireNumber {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
}

impl WireNumber {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Varint(number) => write_varint(number, out),
            Self::Fixed32(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Fixed64(number) => out.extend_from_slice(&number.to_le_bytes()),
        }
    }

    fn is_zero(self) -> bool {
        matches!(self, Self::Varint(0) | Self::Fixed32(0) | Self::Fixed64(0))
    }
}

impl NumberKind {
    fn form(&self) -> u8 {
        match self {
            Self::Scalar(scalar) => scalar.form(),
            Self::Enum(_) => VARINT,
        }
    }

    /// Reads a number, as JSON has it. Returns `None` if the text is none, or out of range.
    fn read(&self, text: &str) -> Option<WireNumber> {
        let scalar = match self {
            Self::Scalar(scalar) => *scalar,
            Self::Enum(values) => {
                let named = values.iter().find(|(name, _)| name == text).map(|(_, number)| i64::from(*number));
                let number = named.or_else(|| whole::<i32>(text).map(i64::from))?;
                return Some(WireNumber::Varint(number as u64));
            }
        };
        Some(match scalar {
            Scalar::Double => WireNumber::Fixed64(decimal(text)?.to_bits()),
            Scalar::Float => {
                let number = decimal(text)?;
                let short = number as f32;
                WireNumber::Fixed32((short.is_finite() || !number.is_finite()).then_some(short)?.to_bits())
            }
            Scalar::Int32 => WireNumber::Varint(i64::from(whole::<i32>(text)?) as u64),
            Scalar::Int64 => WireNumber::Varint(whole::<i64>(text)? as u64),
            Scalar::Uint32 => WireNumber::Varint(u64::from(whole::<u32>(text)?)),
            Scalar::Uint64 => WireNumber::Varint(whole::<u64>(text)?),
            Scalar::Sint32 => WireNumber::Varint(zigzag(i64::from(whole::<i32>(text)?))),
            Scalar::Sint64 => WireNumber::Varint(zigzag(whole::<i64>(text)?)),
            Scalar::Fixed32 => WireNumber::Fixed32(whole::<u32>(text)?),
            Scalar::Fixed64 => WireNumber::Fixed64(whole::<u64>(text)?),
            Scalar::Sfixed32 => WireNumber::Fixed32(whole::<i32>(text)? as u32),
            Scalar::Sfixed64 => WireNumber::Fixed64(whole::<i64>(text)? as u64),
            Scalar::Bool => WireNumber::Varint(match text {
                "true" => 1,
                "false" => 0,
                _ => return None,
            }),
            Scalar::String | Scalar::Bytes => return None,
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Scalar(scalar) => scalar.name().to_owned(),
            Self::Enum(values) => {
                let names: Vec<&str> = values.iter().take(8).map(|(name, _)| name.as_str()).collect();
                format!("one of {}{}", names.join(", "), if values.len() > 8 { ", …" } else { "" })
            }
        }
    }
}

/// Reads a whole number, which JSON may also write as `1.0` or `1e3`.
fn whole<N: std::str::FromStr + TryFrom<i128>>(text: &str) -> Option<N> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        let is_whole = number.fract() == 0.0 && number.abs() < 9.1e15;
        is_whole.then(|| N::try_from(number as i128).ok()).flatten()
    })
}

/// Reads a number with decimals.
fn decimal(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// A value that its field cannot have, and the path of the field.
#[derive(Debug)]
struct FieldMistake {
    path: Vec<String>,
    what: String,
}

impl FieldMistake {
    fn below(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }

    fn told(self) -> String {
        let Self { mut path, what } = self;
        path.reverse();
        if path.is_empty() { what } else { format!("`{}`: {what}", path.join(".")) }
    }
}

fn mistake<T>(what: String) -> Result<T, FieldMistake> {
    Err(FieldMistake { path: Vec::new(), what })
}

type Pieces = Vec<MessagePiece>;

struct MessageCompiler<'a> {
    types: &'a MessageTypes,
}

impl MessageCompiler<'_> {
    /// Compiles the content of a message.
    fn message(&self, of: &MessageType, json: &JsonNode) -> Result<Pieces, FieldMistake> {
        if let Some(special) = of.well_known
            && let Some(pieces) = self.well_known(special, of, json)?
        {
            return Ok(pieces);
        }
        let JsonNode::Object(members) = json else {
            return mistake(format!("expected an object, because `{}` is a message, found {}", of.name, json.kind()));
        };
        let (mut pieces, mut seen) = (Pieces::new(), Vec::new());
        for (name, value) in members {
            let Some(name) = name.as_constant() else {
                return mistake("a placeholder cannot be the name of a field".to_owned());
            };
            let Some(field) = of.field(name) else {
                let fields = of.field_names();
                return mistake(format!("`{}` has no field `{name}`; its fields are {fields}", of.name));
            };
            let is_twice = |other: &&&MessageField| {
                other.number == field.number || (other.oneof.is_some() && other.oneof == field.oneof)
            };
            if *value != JsonNode::Null
                && let Some(other) = seen.iter().find(is_twice)
            {
                return mistake(format!("only one of `{}` and `{name}` is possible", other.json_name));
            }
            if *value != JsonNode::Null {
                seen.push(field);
            }
            pieces.extend(self.field(field, value).map_err(|wrong| wrong.below(name))?);
        }
        Ok(merged(pieces))
    }

    /// Compiles a field with its key.
    fn field(&self, field: &MessageField, json: &JsonNode) -> Result<Pieces, FieldMistake> {
        let has_null = matches!(field.kind, FieldKind::Message(of)
            if self.types.message(of).well_known == Some(WellKnown::Value));
        if *json == JsonNode::Null && (field.is_repeated || !has_null) {
            return Ok(Pieces::new());
        }
        if let (FieldKind::Message(of), true) = (field.kind, field.is_repeated)
            && self.types.message(of).is_map_entry
        {
            return self.map(field, self.types.message(of), json);
        }
        if !field.is_repeated {
            return self.single(field, json, !field.has_presence);
        }
        let JsonNode::List(elements) = json else {
            return mistake(format!("expected an array, because the field is repeated, found {}", json.kind()));
        };
        let mut pieces = Pieces::new();
        for (index, element) in elements.iter().enumerate() {
            let element = match field.is_packed {
                true => self.number(field.kind, element).map(|(piece, _)| vec![piece]),
                false => self.single(field, element, false),
            };
            pieces.extend(element.map_err(|wrong| wrong.below(&index.to_string()))?);
        }
        Ok(if field.is_packed && !pieces.is_empty() { with_length(field.number, pieces) } else { pieces })
    }

    /// Compiles a value of a field with its key. If `omits_default`, a default value is left out.
    fn single(&self, field: &MessageField, json: &JsonNode, omits_default: bool) -> Result<Pieces, FieldMistake> {
        match field.kind {
            FieldKind::Message(of) => {
                let content = self.message(self.types.message(of), json)?;
                Ok(if field.is_delimited {
                    in_group(field.number, content)
                } else {
                    with_length(field.number, content)
                })
            }
            FieldKind::Scalar(scalar @ (Scalar::String | Scalar::Bytes)) => {
                let JsonNode::Text(text) = json else {
                    let hint = if matches!(json, JsonNode::Bare(_)) { ": put it in quotes" } else { "" };
                    return mistake(format!("expected a text, found {}{hint}", json.kind()));
                };
                let content = text_pieces(scalar, text)?;
                Ok(if omits_default && content.is_empty() { content } else { with_length(field.number, content) })
            }
            kind => {
                let (number, is_zero) = self.number(kind, json)?;
                if omits_default && is_zero {
                    return Ok(Pieces::new());
                }
                let form = self.number_kind(kind).form();
                Ok(vec![key(field.number, form), number])
            }
        }
    }

    fn number_kind(&self, kind: FieldKind) -> NumberKind {
        match kind {
            FieldKind::Scalar(scalar) => NumberKind::Scalar(scalar),
            FieldKind::Enum(of) => NumberKind::Enum(self.types.enumeration(of).values.clone().into()),
            FieldKind::Message(_) => NumberKind::Enum(Box::default()),
        }
    }

    /// Compiles a number without a key. Also returns whether it is certainly zero.
    fn number(&self, kind: FieldKind, json: &JsonNode) -> Result<(MessagePiece, bool), FieldMistake> {
        let kind = self.number_kind(kind);
        let is_bool = kind == NumberKind::Scalar(Scalar::Bool);
        let constant = match json {
            JsonNode::Bare(piece) => {
                return Ok((MessagePiece::Number { text: Box::new([TextShare::Value(*piece)]), kind }, false));
            }
            JsonNode::Text(text) => match text.as_constant() {
                None => return Ok((MessagePiece::Number { text: text.0.clone().into(), kind }, false)),
                Some(text) => Some(text),
            },
            JsonNode::Number(number) => Some(number.as_str()),
            JsonNode::Bool(true) if is_bool => Some("true"),
            JsonNode::Bool(false) if is_bool => Some("false"),
            _ => None,
        };
        let Some(number) = constant.and_then(|text| kind.read(text)) else {
            let found = constant.map_or_else(|| json.kind().to_owned(), |text| format!("`{text}`"));
            return mistake(format!("expected {}, found {found}", kind.name()));
        };
        let mut bytes = Vec::new();
        number.write(&mut bytes);
        Ok((MessagePiece::Bytes(bytes), number.is_zero()))
    }

    fn map(&self, field: &MessageField, entry: &MessageType, json: &JsonNode) -> Result<Pieces, FieldMistake> {
        let (JsonNode::Object(members), [key_field, value_field]) = (json, entry.fields.as_slice()) else {
            return mistake(format!("expected an object, because the field is a map, found {}", json.kind()));
        };
        let mut pieces = Pieces::new();
        for (name, value) in members {
            let below = |wrong: FieldMistake| wrong.below(name.as_constant().unwrap_or("…"));
            let mut content = self.single(key_field, &JsonNode::Text(name.clone()), false).map_err(below)?;
            content.extend(self.single(value_field, value, false).map_err(below)?);
            pieces.extend(with_length(field.number, content));
        }
        Ok(pieces)
    }

    /// Compiles a message with a form of its own in JSON. Returns `None` if the message has its
    /// usual form: the members of an object.
    fn well_known(
        &self,
        special: WellKnown,
        of: &MessageType,
        json: &JsonNode,
    ) -> Result<Option<Pieces>, FieldMistake> {
        let text = match json {
            JsonNode::Text(text) => Some(text),
            _ => None,
        };
        Ok(Some(match (special, json) {
            (WellKnown::Timestamp | WellKnown::Duration, JsonNode::Text(_)) => {
                let is_time = special == WellKnown::Timestamp;
                let read = if is_time { well_known::timestamp } else { well_known::duration };
                let Some((seconds, nanos)) = text.and_then(VariableText::as_constant).and_then(read) else {
                    let example = if is_time { "\"2024-12-31T23:59:59Z\"" } else { "\"1.5s\"" };
                    return mistake(format!(
                        "expected a constant such as {example}, or an object with `seconds` and `nanos`, which may have \
                         placeholders"
                    ));
                };
                let mut bytes = Vec::new();
                for (number, value) in
                    [(1, seconds), (2, i64::from(nanos))].into_iter().filter(|(_, value)| *value != 0)
                {
                    write_key(number, VARINT, &mut bytes);
                    write_varint(value as u64, &mut bytes);
                }
                vec![MessagePiece::Bytes(bytes)]
            }
            (WellKnown::FieldMask, JsonNode::Text(text)) => {
                let Some(paths) = text.as_constant() else {
                    return mistake("a field mask cannot have placeholders".to_owned());
                };
                let mut pieces = Pieces::new();
                for path in paths.split(',').filter(|path| !path.is_empty()) {
                    let snake: String = path.chars().flat_map(snake_letters).collect();
                    pieces.extend(with_length(1, vec![MessagePiece::Bytes(snake.into_bytes())]));
                }
                merged(pieces)
            }
            (WellKnown::Any, JsonNode::Object(members)) => self.any(members)?,
            (WellKnown::Wrapper, json) if !matches!(json, JsonNode::Object(_)) => match of.fields.as_slice() {
                [value] => merged(self.single(value, json, true)?),
                _ => return Ok(None),
            },
            (WellKnown::Struct, JsonNode::Object(members)) => self.any_object(members)?,
            (WellKnown::ListValue, JsonNode::List(elements)) => self.any_list(elements)?,
            (WellKnown::Value, json) => self.any_value(json)?,
            _ => return Ok(None),
        }))
    }

    /// Compiles a message of any type: the type's name is the member `@type`.
    fn any(&self, members: &[(VariableText, JsonNode)]) -> Result<Pieces, FieldMistake> {
        let is_type = |(name, _): &&(VariableText, JsonNode)| name.as_constant() == Some("@type");
        let url = match members.iter().find(is_type) {
            Some((_, JsonNode::Text(text))) => text.as_constant(),
            _ => None,
        };
        let Some(url) = url else {
            return mistake("expected a member \"@type\" such as \"type.googleapis.com/pkg.Message\"".to_owned());
        };
        let name = url.rsplit('/').next().unwrap_or_default();
        let Some(of) = self.types.find_message(name) else {
            return mistake(format!("no file defines the message `{name}` of \"@type\""));
        };
        let of = self.types.message(of);
        let rest: Vec<_> = members.iter().filter(|member| !is_type(member)).cloned().collect();
        let content = match (of.well_known, rest.as_slice()) {
            (Some(_), [(name, value)]) if name.as_constant() == Some("value") => self.message(of, value)?,
            _ => self.message(of, &JsonNode::Object(rest))?,
        };
        let mut pieces = with_length(1, vec![MessagePiece::Bytes(url.as_bytes().to_vec())]);
        pieces.extend(with_length(2, content));
        Ok(merged(pieces))
    }

    fn any_object(&self, members: &[(VariableText, JsonNode)]) -> Result<Pieces, FieldMistake> {
        let mut pieces = Pieces::new();
        for (name, value) in members {
            let mut entry = with_length(1, text_pieces(Scalar::String, name)?);
            entry.extend(with_length(2, self.any_value(value)?));
            pieces.extend(with_length(1, entry));
        }
        Ok(merged(pieces))
    }

    fn any_list(&self, elements: &[JsonNode]) -> Result<Pieces, FieldMistake> {
        let mut pieces = Pieces::new();
        for element in elements {
            pieces.extend(with_length(1, self.any_value(element)?));
        }
        Ok(merged(pieces))
    }

    /// Compiles a `google.protobuf.Value`.
    fn any_value(&self, json: &JsonNode) -> Result<Pieces, FieldMistake> {
        Ok(merged(match json {
            JsonNode::Null => vec![key(1, VARINT), MessagePiece::Bytes(vec![0])],
            JsonNode::Number(_) | JsonNode::Bare(_) => {
                let kind = FieldKind::Scalar(Scalar::Double);
                vec![key(2, Scalar::Double.form()), self.number(kind, json)?.0]
            }
            JsonNode::Text(text) => with_length(3, text_pieces(Scalar::String, text)?),
            JsonNode::Bool(is) => vec![key(4, VARINT), MessagePiece::Bytes(vec![u8::from(*is)])],
            JsonNode::Object(members) => with_length(5, self.any_object(members)?),
            JsonNode::List(elements) => with_length(6, self.any_list(elements)?),
        }))
    }
}

/// Returns the letters of a name in JSON as they are in a `.proto` file.
fn snake_letters(letter: char) -> impl Iterator<Item = char> {
    letter.is_ascii_uppercase().then_some('_').into_iter().chain([letter.to_ascii_lowercase()])
}

fn key(number: u32, form: u8) -> MessagePiece {
    let mut bytes = Vec::new();
    write_key(number, form, &mut bytes);
    MessagePiece::Bytes(bytes)
}

/// Returns the content of a text or of bytes.
fn text_pieces(scalar: Scalar, text: &VariableText) -> Result<Pieces, FieldMistake> {
    if scalar == Scalar::Bytes {
        let Some(constant) = text.as_constant() else {
            return Ok(vec![MessagePiece::Base64(text.0.clone().into())]);
        };
        let mut bytes = constant.as_bytes().to_vec();
        if decode_base64(&mut bytes, 0).is_none() {
            return mistake("expected base64, because the field is bytes".to_owned());
        }
        return Ok(merged(vec![MessagePiece::Bytes(bytes)]));
    }
    let share = |share: &TextShare| match share {
        TextShare::Literal(text) => MessagePiece::Bytes(text.clone().into_bytes()),
        TextShare::Value(piece) => MessagePiece::Text(*piece),
    };
    Ok(text.0.iter().map(share).collect())
}

/// Returns a field whose length is written before it.
fn with_length(number: u32, content: Pieces) -> Pieces {
    let content = merged(content);
    let mut begin = Vec::new();
    write_key(number, BYTES, &mut begin);
    match content.as_slice() {
        [] => begin.push(0),
        [MessagePiece::Bytes(bytes)] => {
            write_varint(bytes.len() as u64, &mut begin);
            begin.extend_from_slice(bytes);
        }
        pieces => {
            let known = pieces.iter().map(|piece| if let MessagePiece::Bytes(bytes) = piece { bytes.len() } else { 0 });
            let width = varint_length(known.sum::<usize>() as u64);
            let around = [MessagePiece::Bytes(begin), MessagePiece::Begin(width)];
            return around.into_iter().chain(content).chain([MessagePiece::End]).collect();
        }
    }
    vec![MessagePiece::Bytes(begin)]
}

/// Returns a message between two keys.
fn in_group(number: u32, content: Pieces) -> Pieces {
    let mut pieces = vec![key(number, GROUP)];
    pieces.extend(content);
    pieces.push(key(number, GROUP_END));
    pieces
}

/// Joins constant bytes that follow each other.
fn merged(pieces: Pieces) -> Pieces {
    let mut merged = Pieces::new();
    for piece in pieces {
        match (merged.last_mut(), piece) {
            (_, MessagePiece::Bytes(bytes)) if bytes.is_empty() => {}
            (Some(MessagePiece::Bytes(last)), MessagePiece::Bytes(bytes)) => last.extend_from_slice(&bytes),
            (_, piece) => merged.push(piece),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
