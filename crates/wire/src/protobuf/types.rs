//! Types of messages, and methods of services. Built from files, by names, and then used by index.

use std::collections::BTreeMap;

use super::well_known::WellKnown;

/// A `.proto` file, from its text or from a descriptor. Names are complete and have no leading dot,
/// except in [`ProtoKind::Named`] and in the types of a method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoFile {
    /// Name by which other files import the file.
    pub name: String,
    pub imports: Vec<String>,
    pub messages: Vec<ProtoMessage>,
    pub enums: Vec<ProtoEnum>,
    pub methods: Vec<ProtoMethod>,
}

/// A type of messages in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoMessage {
    pub name: String,
    pub fields: Vec<ProtoField>,
    /// Whether the messages are the entries of a map.
    pub is_map_entry: bool,
}

/// A field of a type in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtoField {
    pub name: String,
    /// Name in JSON.
    pub json_name: String,
    pub number: u32,
    pub kind: ProtoKind,
    pub is_repeated: bool,
    /// Whether several numbers share a key.
    pub is_packed: bool,
    /// Whether a message is written between two keys instead of behind a length.
    pub is_delimited: bool,
    /// Whether a default value differs from no value.
    pub has_presence: bool,
    /// Index of the `oneof` that the field belongs to, in its message.
    pub oneof: Option<u32>,
}

/// The type of a field, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtoKind {
    Scalar(Scalar),
    /// A name as in the file. With a leading dot the name is complete. Otherwise it is looked up in
    /// the message and in everything around the message.
    Named(String),
}

/// A type of enumerated values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoEnum {
    pub name: String,
    pub values: Vec<(String, i32)>,
}

/// A method in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoMethod {
    /// Complete name of the service.
    pub service: String,
    pub name: String,
    pub input: String,
    pub output: String,
    pub takes_stream: bool,
    pub answers_stream: bool,
}

/// A scalar type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

impl Scalar {
    const NAMES: [(&'static str, Self); 15] = [
        ("double", Self::Double),
        ("float", Self::Float),
        ("int32", Self::Int32),
        ("int64", Self::Int64),
        ("uint32", Self::Uint32),
        ("uint64", Self::Uint64),
        ("sint32", Self::Sint32),
        ("sint64", Self::Sint64),
        ("fixed32", Self::Fixed32),
        ("fixed64", Self::Fixed64),
        ("sfixed32", Self::Sfixed32),
        ("sfixed64", Self::Sfixed64),
        ("bool", Self::Bool),
        ("string", Self::String),
        ("bytes", Self::Bytes),
    ];

    /// Returns the type of this name in `.proto` files.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
    }

    /// Returns the type's name in `.proto` files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Returns the form of values on the wire.
    #[must_use]
    pub fn form(self) -> u8 {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => super::FIXED64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => super::FIXED32,
            Self::String | Self::Bytes => super::BYTES,
            _ => super::VARINT,
        }
    }
}

/// All types and methods of some files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageTypes {
    messages: Vec<MessageType>,
    enums: Vec<ProtoEnum>,
    methods: Vec<RpcMethod>,
}

/// A type of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageType {
    pub name: String,
    pub fields: Vec<MessageField>,
    pub is_map_entry: bool,
    /// The form in JSON, if the type has its own.
    pub well_known: Option<WellKnown>,
}

/// A field of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageField {
    pub name: String,
    pub json_name: String,
    pub number: u32,
    pub kind: FieldKind,
    pub is_repeated: bool,
    pub is_packed: bool,
    pub is_delimited: bool,
    pub has_presence: bool,
    pub oneof: Option<u32>,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Scalar(Scalar),
    /// Index of a type of messages.
    Message(usize),
    /// Index of a type of enumerated values.
    Enum(usize),
}

/// A method of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcMethod {
    /// Complete name of the service.
    pub service: String,
    pub name: String,
    /// Index of the type of the messages that are sent.
    pub input: usize,
    /// Index of the type of the messages that are received.
    pub output: usize,
    pub takes_stream: bool,
    pub answers_stream: bool,
}

impl RpcMethod {
    /// Returns the method's path in a request.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/{}/{}", self.service, self.name)
    }
}

/// Index of a named type.
#[derive(Debug, Clone, Copy)]
enum NamedType {
    Message(usize),
    Enum(usize),
}

/// Types by their complete names.
struct TypeNames(BTreeMap<String, NamedType>);

impl TypeNames {
    /// Returns the type of a name that is used inside `scope`.
    fn find(&self, name: &str, scope: &str) -> Option<NamedType> {
        if let Some(complete) = name.strip_prefix('.') {
            return self.0.get(complete).copied();
        }
        let mut scope = Some(scope);
        while let Some(around) = scope {
            let complete = if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
            if let Some(found) = self.0.get(&complete) {
                return Some(*found);
            }
            scope = match around.rsplit_once('.') {
                Some((outer, _)) => Some(outer),
                None => (!around.is_empty()).then_some(""),
            };
        }
        None
    }

    fn message(&self, name: &str, scope: &str) -> Result<usize, String> {
        match self.find(name, scope) {
            Some(NamedType::Message(index)) => Ok(index),
            Some(NamedType::Enum(_)) => Err(format!("`{name}` is no message, but {scope} takes or returns it")),
            None => Err(unknown(name, scope)),
        }
    }
}

fn unknown(name: &str, scope: &str) -> String {
    format!("the type `{}`, which `{scope}` uses, is not defined", name.trim_start_matches('.'))
}

impl MessageTypes {
    /// Connects the types of the files. A file that occurs twice counts once.
    ///
    /// # Errors
    /// A name that no file defines, or that two types have.
    pub fn link(files: Vec<ProtoFile>) -> Result<Self, String> {
        let (mut messages, mut enums, mut methods) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: Vec<String> = Vec::new();
        for file in files {
            if seen.contains(&file.name) {
                continue;
            }
            messages.extend(file.messages);
            enums.extend(file.enums);
            methods.extend(file.methods);
            seen.push(file.name);
        }
        let mut names = TypeNames(BTreeMap::new());
        let indexed_messages = messages.iter().enumerate().map(|(index, of)| (&of.name, NamedType::Message(index)));
        let indexed_enums =
            enums.iter().enumerate().map(|(index, of): (_, &ProtoEnum)| (&of.name, NamedType::Enum(index)));
        for (name, index) in indexed_messages.chain(indexed_enums) {
            if names.0.insert(name.clone(), index).is_some() {
                return Err(format!("`{name}` is defined twice"));
            }
        }
        let messages = messages.into_iter().map(|message| linked(message, &names)).collect::<Result<_, _>>()?;
        let methods = methods.into_iter().map(|method| {
            let scope = format!("{}.{}", method.service, method.name);
            Ok(RpcMethod {
                input: names.message(&method.input, &scope)?,
                output: names.message(&method.output, &scope)?,
                service: method.service,
                name: method.name,
                takes_stream: method.takes_stream,
                answers_stream: method.answers_stream,
            })
        });
        let methods = methods.collect::<Result<_, String>>()?;
        Ok(Self { messages, enums, methods })
    }

    /// Returns all types of messages.
    #[must_use]
    pub fn messages(&self) -> &[MessageType] {
        &self.messages
    }

    /// Returns the type of messages with this index.
    ///
    /// # Panics
    /// If the index belongs to other types.
    #[must_use]
    pub fn message(&self, index: usize) -> &MessageType {
        &self.messages[index]
    }

    /// Returns the index of the type with this complete name.
    #[must_use]
    pub fn find_message(&self, name: &str) -> Option<usize> {
        self.messages.iter().position(|message| message.name == name)
    }

    /// Returns the type of enumerated values with this index.
    ///
    /// # Panics
    /// If the index belongs to other types.
    #[must_use]
    pub fn enumeration(&self, index: usize) -> &ProtoEnum {
        &self.enums[index]
    }

    /// Returns all methods, in the order of the files.
    #[must_use]
    pub fn methods(&self) -> &[RpcMethod] {
        &self.methods
    }

    /// Returns the method `pkg.Service/Method`.
    #[must_use]
    pub fn method(&self, service: &str, name: &str) -> Option<&RpcMethod> {
        self.methods.iter().find(|method| method.service == service && method.name == name)
    }
}

fn linked(message: ProtoMessage, names: &TypeNames) -> Result<MessageType, String> {
    let ProtoMessage { name, fields, is_map_entry } = message;
    let fields = fields.into_iter().map(|field| {
        let kind = match &field.kind {
            ProtoKind::Scalar(scalar) => FieldKind::Scalar(*scalar),
            ProtoKind::Named(of) => match names.find(of, &name) {
                Some(NamedType::Message(index)) => FieldKind::Message(index),
                Some(NamedType::Enum(index)) => FieldKind::Enum(index),
                None => return Err(unknown(of, &name)),
            },
        };
        let is_message = matches!(kind, FieldKind::Message(_));
        let is_text = matches!(kind, FieldKind::Scalar(Scalar::String | Scalar::Bytes));
        Ok(MessageField {
            name: field.name,
            json_name: field.json_name,
            number: field.number,
            kind,
            is_repeated: field.is_repeated,
            is_packed: field.is_packed && !is_message && !is_text,
            is_delimited: field.is_delimited && is_message,
            has_presence: field.has_presence || is_message,
            oneof: field.oneof,
        })
    });
    let fields = fields.collect::<Result<_, String>>()?;
    Ok(MessageType { well_known: WellKnown::named(&name), name, fields, is_map_entry })
}

impl MessageType {
    /// Returns the field of this name, as it is in `.proto` files or in JSON.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&MessageField> {
        self.fields.iter().find(|field| field.name == name || field.json_name == name)
    }

    /// Returns the names of all fields in JSON, for messages.
    #[must_use]
    pub fn field_names(&self) -> String {
        let names: Vec<&str> = self.fields.iter().map(|field| field.json_name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// Returns the default name of a field in JSON: `page_size` is `pageSize`.
#[must_use]
pub fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut is_upper = false;
    for letter in name.chars() {
        match letter {
            '_' => is_upper = true,
            _ if std::mem::take(&mut is_upper) => json.push(letter.to_ascii_uppercase()),
            _ => json.push(letter),
        }
    }
    json
}
