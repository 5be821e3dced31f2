//! Example messages as JSON: each field with its default value, for a user to fill in.

use super::types::{FieldKind, MessageField, MessageType, MessageTypes, ProtoEnum, Scalar};
use super::well_known::WellKnown;

/// Maximum number of fields of an example. Further messages inside it are empty.
const FIELDS: usize = 200;
/// Longest example in one line, characters.
const LINE: usize = 80;

/// Returns an example of the type with index `of`. A list has one element, and of the fields that
/// exclude each other there is one. A message does not contain itself.
#[must_use]
pub fn example(types: &MessageTypes, of: usize) -> String {
    let mut writer = ExampleWriter { types, around: Vec::new(), left: FIELDS };
    let members = match writer.types.message(of).well_known {
        Some(_) => return writer.message(of).unwrap_or_else(|| "{}".to_owned()),
        None => writer.members(of),
    };
    let line = format!("{{{}}}", members.join(", "));
    if line.chars().count() > LINE { format!("{{\n  {}\n}}", members.join(",\n  ")) } else { line }
}

struct ExampleWriter<'a> {
    types: &'a MessageTypes,
    /// Indexes of the types that the current message is part of.
    around: Vec<usize>,
    /// Number of fields that may still be written.
    left: usize,
}

impl ExampleWriter<'_> {
    /// Returns the members of a message.
    fn members(&mut self, of: usize) -> Vec<String> {
        let MessageType { fields, .. } = self.types.message(of);
        self.around.push(of);
        let (mut members, mut choices) = (Vec::new(), Vec::new());
        for field in fields {
            if self.left == 0 || field.oneof.is_some_and(|choice| choices.contains(&choice)) {
                continue;
            }
            self.left -= 1;
            let Some(value) = self.field(field) else { continue };
            choices.extend(field.oneof);
            members.push(format!("{}: {value}", quoted(&field.json_name)));
        }
        self.around.pop();
        members
    }

    /// Returns the value of a field, or `None` if the field is left out.
    fn field(&mut self, field: &MessageField) -> Option<String> {
        if let FieldKind::Message(of) = field.kind
            && let MessageType { is_map_entry: true, fields, .. } = self.types.message(of)
            && let [key, value] = fields.as_slice()
        {
            let key = self.field(key)?;
            let key = if key.starts_with('"') { key } else { quoted(&key) };
            return Some(format!("{{{key}: {}}}", self.field(value)?));
        }
        let value = match field.kind {
            FieldKind::Scalar(scalar) => scalar_value(scalar).to_owned(),
            FieldKind::Enum(of) => enum_value(self.types.enumeration(of)),
            FieldKind::Message(of) => self.message(of)?,
        };
        Some(if field.is_repeated { format!("[{value}]") } else { value })
    }

    /// Returns a message, or `None` if it contains itself or has no default.
    fn message(&mut self, of: usize) -> Option<String> {
        let message = self.types.message(of);
        let special = match message.well_known {
            None if self.around.contains(&of) => return None,
            None => return Some(format!("{{{}}}", self.members(of).join(", "))),
            Some(special) => special,
        };
        Some(match special {
            // A message of unknown type.
            WellKnown::Any => return None,
            WellKnown::Timestamp => quoted("1970-01-01T00:00:00Z"),
            WellKnown::Duration => quoted("0s"),
            WellKnown::FieldMask => quoted(""),
            WellKnown::Struct => "{}".to_owned(),
            WellKnown::Value => "null".to_owned(),
            WellKnown::ListValue => "[]".to_owned(),
            WellKnown::Wrapper => return self.field(message.fields.first()?),
        })
    }
}

fn scalar_value(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "false",
        Scalar::String | Scalar::Bytes => "\"\"",
        _ => "0",
    }
}

fn enum_value(of: &ProtoEnum) -> String {
    of.values.first().map_or_else(|| "0".to_owned(), |(name, _)| quoted(name))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::message_layout;
    use super::super::testing::types;
    use super::*;
    use crate::testing::names;
    use crate::values::CompiledTemplate;

    fn example_of(name: &str) -> String {
        let types = types();
        example(&types, types.find_message(name).unwrap())
    }

    #[test]
    fn every_field_has_its_default() {
        let kinds = example_of("test.kinds.v1.Kinds");
        for member in [
            "{\n  \"aDouble\": 0,\n",
            "\"aBool\": false",
            "\"colour\": \"COLOUR_UNSPECIFIED\"",
            "\"inner\": {\"name\": \"\", \"count\": 0},",
            "\"numbers\": [0]",
            "\"inners\": [{\"name\": \"\", \"count\": 0}]",
            "\"counts\": {\"\": 0}",
            "\"byId\": {\"0\": {\"name\": \"\", \"count\": 0}}",
            "\"left\": \"\",\n  \"at\": \"1970-01-01T00:00:00Z\",\n  \"lasts\": \"0s\",\n  \"value\": null,\n  \"wrapped\": 0,\n",
            "\"other\": \"\"\n}",
        ] {
            assert!(kinds.contains(member), "no {member} in:\n{kinds}");
        }
        assert_eq!(example_of("test.kinds.v1.Kinds.Inner"), r#"{"name": "", "count": 0}"#);
        assert_eq!(example_of("google.protobuf.Empty"), "{}");
        assert_eq!(example_of("google.protobuf.Duration"), "\"0s\"");
    }

    #[test]
    fn examples_are_messages() {
        let types = types();
        for (index, message) in types.messages().iter().enumerate() {
            if message.is_map_entry || message.well_known == Some(WellKnown::Any) {
                continue;
            }
            let json = example(&types, index).replace('{', "{{").replace('}', "}}");
            let template = CompiledTemplate::compile(&json, 3, &names()).unwrap();
            let compiled = message_layout::compile(&types, index, &template, false);
            assert!(compiled.is_ok(), "{}: {json}: {compiled:?}", message.name);
        }
    }
}
