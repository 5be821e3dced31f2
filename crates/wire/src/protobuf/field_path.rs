//! Fields of messages by a path such as `user.addresses.0.city`, compiled to numbers. Reading walks
//! the message on the wire and skips everything else.

use super::types::{FieldKind, MessageField, MessageTypes};
use super::{ProtobufValue, json_text};

/// A compiled path.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath {
    steps: Box<[FieldStep]>,
}

/// A step from a message to a field, and possibly to an element of the field.
#[derive(Debug, Clone, PartialEq)]
struct FieldStep {
    field: MessageField,
    element: FieldElement,
}

#[derive(Debug, Clone, PartialEq)]
enum FieldElement {
    /// The field's value, or all of its values.
    All,
    /// The value with this index.
    Index(usize),
    /// The value of a map under this key.
    Key { key: String, of: Box<[MessageField; 2]> },
}

impl FieldPath {
    /// Compiles a path from a message of the type with index `of`.
    ///
    /// # Errors
    /// A name that is no field, or a step from something that has no fields.
    pub fn compile(types: &MessageTypes, of: usize, path: &str) -> Result<Self, String> {
        let mut steps: Vec<FieldStep> = Vec::new();
        let mut message = Some(of);
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let Some(of) = message else {
                return Err(format!("`{path}`: there are no fields before `{name}`"));
            };
            let of = types.message(of);
            let field = of.field(name).ok_or_else(|| {
                format!("`{path}`: `{}` has no field `{name}`; its fields are {}", of.name, of.field_names())
            })?;
            let mut kind = field.kind;
            let map = match kind {
                FieldKind::Message(of) if field.is_repeated && types.message(of).is_map_entry => {
                    Some(types.message(of))
                }
                _ => None,
            };
            let element = match (map, field.is_repeated.then(|| names.next()).flatten()) {
                (_, None) => FieldElement::All,
                (Some(entry), Some(key)) => {
                    let [key_field, value] = entry.fields.as_slice() else {
                        return Err(format!("`{path}`: `{name}` is no valid map"));
                    };
                    kind = value.kind;
                    FieldElement::Key { key: key.to_owned(), of: Box::new([key_field.clone(), value.clone()]) }
                }
                (None, Some(index)) => FieldElement::Index(index.parse().map_err(|_| {
                    format!("`{path}`: `{name}` is repeated: write the index of an element before `{index}`")
                })?),
            };
            message = match (kind, &element, field.is_repeated) {
                (_, FieldElement::All, true) => None,
                (FieldKind::Message(of), ..) => Some(of),
                _ => None,
            };
            steps.push(FieldStep { field: field.clone(), element });
        }
        Ok(Self { steps: steps.into() })
    }

    /// Returns the value at the path: the text of a scalar, or a message or all values as JSON. A
    /// scalar that a sender leaves out when it has its default value has this value. Returns `None`
    /// if there is no value, or if the message is broken. `scratch` is empty.
    pub fn find<'a>(&self, types: &MessageTypes, message: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let (last, before) = self.steps.split_last()?;
        let mut at = message;
        for step in before {
            at = match step.value(at)?? {
                ProtobufValue::Bytes(inner) | ProtobufValue::Group(inner) => inner,
                _ => return None,
            };
        }
        if last.element == FieldElement::All && last.field.is_repeated {
            json_text::write_field(types, &last.field, at, scratch)?;
            return Some(scratch);
        }
        let kind = match &last.element {
            FieldElement::Key { of, .. } => of[1].kind,
            _ => last.field.kind,
        };
        match (last.value(at)?, kind) {
            (Some(ProtobufValue::Bytes(text)), FieldKind::Scalar(super::types::Scalar::String)) => Some(text),
            (Some(ProtobufValue::Bytes(inner) | ProtobufValue::Group(inner)), FieldKind::Message(of)) => {
                json_text::write_message(types, of, inner, scratch)?;
                Some(scratch)
            }
            (Some(value), kind) => {
                json_text::write_scalar(types, kind, value, scratch)?;
                Some(scratch)
            }
            (None, _) if last.field.has_presence || last.field.is_repeated => None,
            (None, kind) => {
                json_text::write_default(types, kind, scratch)?;
                Some(scratch)
            }
        }
    }
}

impl FieldStep {
    /// Returns the value to which the step leads in a message. The outer value is `None` if the
    /// message is broken.
    #[expect(clippy::option_option, reason = "a broken message differs from an absent field")]
    fn value<'a>(&self, message: &'a [u8]) -> Option<Option<ProtobufValue<'a>>> {
        let mut found = None;
        match &self.element {
            FieldElement::All => json_text::each_value(&self.field, message, |value| {
                found = Some(value);
                Some(())
            })?,
            FieldElement::Index(index) => {
                let mut count = 0;
                json_text::each_value(&self.field, message, |value| {
                    if count == *index {
                        found = Some(value);
                    }
                    count += 1;
                    Some(())
                })?;
            }
            FieldElement::Key { key, of } => json_text::each_value(&self.field, message, |entry| {
                let ProtobufValue::Bytes(entry) = entry else { return None };
                if has_key(&of[0], entry, key)? {
                    found = None;
                    json_text::each_value(&of[1], entry, |value| {
                        found = Some(value);
                        Some(())
                    })?;
                }
                Some(())
            })?,
        }
        Some(found)
    }
}

/// Whether the entry of a map has this key. Returns `None` if the entry is broken.
fn has_key(field: &MessageField, entry: &[u8], key: &str) -> Option<bool> {
    let mut found = None;
    json_text::each_value(field, entry, |value| {
        found = Some(value);
        Some(())
    })?;
    Some(match found {
        Some(ProtobufValue::Bytes(text)) => text == key.as_bytes(),
        Some(value) => {
            let number = json_text::whole_number(field.kind, value)?;
            key.parse() == Ok(number) || (key == "true" && number == 1) || (key == "false" && number == 0)
        }
        None => key.is_empty() || key == "0" || key == "false",
    })
}

#[cfg(test)]
mod tests;
