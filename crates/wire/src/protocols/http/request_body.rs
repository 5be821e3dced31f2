//! Bodies of requests: one value, a form, or parts (multipart/form-data, RFC 7578).

use std::collections::BTreeMap;

use super::request::checked;
use crate::protocols::Call;
use crate::values::Argument;
use crate::values::allowed::{AllowedBytes, NotSendable};
use crate::values::digests;
use crate::values::encoding::{Encoding, ValuePlace};
use crate::values::layout::{LayoutBuilder, LengthWidth, ValueCheck};

const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Types of files by the ends of their names, as in curl, and some more.
const TYPES: [(&str, &str); 15] = [
    (".csv", "text/csv"),
    (".gif", "image/gif"),
    (".htm", "text/html"),
    (".html", "text/html"),
    (".jpeg", "image/jpeg"),
    (".jpg", "image/jpeg"),
    (".json", "application/json"),
    (".mp4", "video/mp4"),
    (".pdf", "application/pdf"),
    (".png", "image/png"),
    (".svg", "image/svg+xml"),
    (".txt", "text/plain"),
    (".webp", "image/webp"),
    (".xml", "application/xml"),
    (".zip", "application/zip"),
];

/// Returns the place that an argument of the body fills.
pub fn value_place(argument: &str, arguments: &BTreeMap<String, String>) -> ValuePlace {
    match argument {
        "body" => body_place(arguments),
        _ if argument.starts_with("form.") => ValuePlace::FormValue,
        _ if argument.starts_with("filename.") => ValuePlace::PartName,
        _ => ValuePlace::Plain,
    }
}

/// Returns the format of a body, by its type or, without a type, by its first byte.
fn body_place(arguments: &BTreeMap<String, String>) -> ValuePlace {
    let is_type =
        |name: &str| name.strip_prefix("header.").is_some_and(|header| header.eq_ignore_ascii_case("content-type"));
    let given = arguments.iter().find(|(name, _)| is_type(name)).map(|(_, value)| value.to_ascii_lowercase());
    let body = arguments.get("body").map_or("", |body| body.trim_start());
    match given {
        Some(kind) if kind.starts_with(FORM_TYPE) => ValuePlace::Form,
        Some(kind) if kind.contains("json") => ValuePlace::Json,
        // A literal brace is written twice in a template.
        None if body.starts_with("{{") || body.starts_with('[') => ValuePlace::Json,
        _ => ValuePlace::Plain,
    }
}

/// The body of a step's request.
pub struct RequestBody<'a> {
    content: BodyContent<'a>,
    /// The type of the body, if Plimsoll itself sets it.
    pub content_type: Option<String>,
}

enum BodyContent<'a> {
    None,
    /// No bytes, although requests with the method always have a body.
    Empty,
    /// The value of the argument with this index.
    Whole(usize),
    /// Fields of a form: indexes of arguments, and names.
    Form(Vec<(usize, &'a str)>),
    Parts {
        parts: Vec<BodyPart<'a>>,
        boundary: String,
    },
}

impl<'a> RequestBody<'a> {
    /// Returns the body of a step's request with this method.
    pub fn of(call: &Call<'a>, method: &str) -> Result<Self, String> {
        let fields = call.arguments.iter().enumerate();
        let fields: Vec<_> = fields.filter_map(|(at, field)| Some((at, field.name.strip_prefix("form.")?))).collect();
        let (parts, body) = (parts(call)?, call.argument("body"));
        let given = [body.is_some(), !fields.is_empty(), !parts.is_empty()];
        if given.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err("`body`, `form.…` and `multipart.…` exclude each other: each of them is the body".to_owned());
        }
        let is_type = |argument: &Argument| argument.name.eq_ignore_ascii_case("header.content-type");
        let has_type = call.arguments.iter().any(is_type);
        if has_type && !parts.is_empty() {
            return Err("`header.content-type`: Plimsoll itself sets the type of a multipart body".to_owned());
        }
        let (content, content_type) = match body {
            Some(body) => (BodyContent::Whole(body), None),
            None if !fields.is_empty() => (BodyContent::Form(fields), (!has_type).then(|| FORM_TYPE.to_owned())),
            None if !parts.is_empty() => {
                let boundary = boundary(call);
                let content_type = format!("multipart/form-data; boundary={boundary}");
                (BodyContent::Parts { parts, boundary }, Some(content_type))
            }
            // Requests with these methods always have a body, which may be empty.
            None if matches!(method, "POST" | "PUT" | "PATCH") => (BodyContent::Empty, None),
            None => (BodyContent::None, None),
        };
        Ok(Self { content, content_type })
    }

    /// Whether the request has a body, which may be empty.
    pub fn is_any(&self) -> bool {
        !matches!(self.content, BodyContent::None)
    }

    /// Adds the bytes of the body.
    pub fn add(&self, builder: &mut LayoutBuilder, call: &Call<'_>) -> Result<(), String> {
        match &self.content {
            BodyContent::None | BodyContent::Empty => {}
            BodyContent::Whole(body) => {
                builder.checked(call.arguments, *body, ValueCheck::default());
            }
            BodyContent::Form(fields) => {
                for (index, (argument, name)) in fields.iter().enumerate() {
                    let mut encoded = name.as_bytes().to_vec();
                    Encoding::Form.apply(&mut encoded, 0);
                    builder.bytes(if index > 0 { b"&" } else { b"" }).bytes(&encoded).bytes(b"=");
                    builder.value(call.arguments, *argument);
                }
            }
            BodyContent::Parts { parts, boundary } => {
                for part in parts {
                    part.add(builder, call, boundary)?;
                }
                builder.bytes(format!("--{boundary}--\r\n").as_bytes());
            }
        }
        Ok(())
    }
}

/// Adds the last headers, the empty line and the body.
pub fn add_body(builder: &mut LayoutBuilder, call: &Call<'_>, method: &str) -> Result<(), String> {
    let body = RequestBody::of(call, method)?;
    if let Some(content_type) = &body.content_type {
        builder.bytes(format!("Content-Type: {content_type}\r\n").as_bytes());
    }
    if !body.is_any() {
        builder.bytes(b"\r\n");
        return Ok(());
    }
    builder.bytes(b"Content-Length: ");
    let length = builder.length(LengthWidth::Decimal);
    builder.bytes(b"\r\n\r\n").begin(length);
    body.add(builder, call)?;
    builder.end(length);
    Ok(())
}

/// A part of a multipart body. Values are indexes of arguments.
struct BodyPart<'a> {
    name: &'a str,
    value: usize,
    filename: Option<PartText<'a>>,
    kind: Option<PartText<'a>>,
}

/// A text of a part's head.
#[derive(Clone, Copy)]
enum PartText<'a> {
    Argument(usize),
    Constant(&'a str),
}

/// Returns the parts: first those without the name of a file, because many servers read fields
/// before files.
fn parts<'a>(call: &Call<'a>) -> Result<Vec<BodyPart<'a>>, String> {
    let mut parts = Vec::new();
    for (value, argument) in call.arguments.iter().enumerate() {
        if let Some((of, name)) = argument.name.split_once('.')
            && ["filename", "type"].contains(&of)
            && call.argument(&format!("multipart.{name}")).is_none()
        {
            return Err(format!("`{}` is about a part, but there is no `multipart.{name}`", argument.name));
        }
        let Some(name) = argument.name.strip_prefix("multipart.") else { continue };
        let given = |of: &str| call.argument(&format!("{of}.{name}"));
        let file = argument.template.as_file().map(|path| path.rsplit('/').next().unwrap_or(path));
        let filename = match given("filename") {
            // An empty name makes a file an ordinary field.
            Some(given) if call.arguments[given].template.as_constant() == Some(b"") => None,
            Some(given) => Some(PartText::Argument(given)),
            None => file.map(PartText::Constant),
        };
        let of_file = filename.and(file).map(|file| PartText::Constant(type_of(file)));
        parts.push(BodyPart { name, value, filename, kind: given("type").map(PartText::Argument).or(of_file) });
    }
    parts.sort_by_key(|part| part.filename.is_some());
    Ok(parts)
}

/// Returns the type of a file by its name, as curl does.
fn type_of(file: &str) -> &'static str {
    let name = file.to_ascii_lowercase();
    TYPES.iter().find(|(end, _)| name.ends_with(end)).map_or("application/octet-stream", |(_, kind)| kind)
}

/// Returns a boundary that occurs in no constant text of the arguments and in no file. It depends
/// only on them, so it is the same in each run. Variable text is checked when it is written.
fn boundary(call: &Call<'_>) -> String {
    let literals: Vec<&[u8]> = call.arguments.iter().flat_map(|argument| argument.template.literals()).collect();
    let mut seed = digests::sha256(&literals);
    loop {
        let boundary = format!("----plimsoll-{}", &seed[..32]);
        if !literals.iter().any(|text| memchr::memmem::find(text, boundary.as_bytes()).is_some()) {
            return boundary;
        }
        seed = digests::sha256(&[seed.as_bytes()]);
    }
}

impl BodyPart<'_> {
    fn add(&self, builder: &mut LayoutBuilder, call: &Call<'_>, boundary: &str) -> Result<(), String> {
        builder.bytes(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"").as_bytes());
        builder.bytes(&quoted(self.name)).bytes(b"\"");
        let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let in_head = |without: &[u8]| ValueCheck {
            allowed: AllowedBytes::which(|byte| is_text(byte) && !without.contains(&byte), NotSendable::InHeader),
            ..ValueCheck::default()
        };
        if let Some(filename) = self.filename {
            builder.bytes(b"; filename=\"");
            match filename {
                PartText::Argument(place) => checked(builder, call, place, &in_head(b"\""))?,
                PartText::Constant(name) => drop(builder.bytes(&quoted(name))),
            }
            builder.bytes(b"\"");
        }
        if let Some(kind) = self.kind {
            builder.bytes(b"\r\nContent-Type: ");
            match kind {
                PartText::Argument(place) => checked(builder, call, place, &in_head(b""))?,
                PartText::Constant(kind) => drop(builder.bytes(kind.as_bytes())),
            }
        }
        builder.bytes(b"\r\n\r\n");
        let check = ValueCheck { without: boundary.as_bytes().into(), ..ValueCheck::default() };
        builder.checked(call.arguments, self.value, check).bytes(b"\r\n");
        Ok(())
    }
}

/// Returns a name as browsers send it in the head of a part.
fn quoted(name: &str) -> Vec<u8> {
    let mut quoted = name.as_bytes().to_vec();
    Encoding::PartName.apply(&mut quoted, 0);
    quoted
}
