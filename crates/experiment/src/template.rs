//! Templates: texts with `{…}` placeholders, in arguments and expectations. This module only parses
//! them; the load engine compiles them and fills them in.

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Parts, left to right. Two texts never follow each other.
    pub parts: Vec<TemplatePart>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePart {
    /// Literal text.
    Text(String),
    /// `{agent}`: id of the agent, from 1.
    Agent(Arithmetic),
    /// `{seq}`: index of the agent's current cycle, from 1. In `[[prepare]]`, index of the
    /// repetition, from 1.
    Seq(Arithmetic),
    /// `{copy}`: id of the agent's copy of the load, from 1; see `load.copies`.
    Copy(Arithmetic),
    /// `{bytes:100}`: 100 printable bytes, different each time.
    Bytes(u32),
    /// `{uniform:1..1000}`: a whole number, each equally likely, both ends included.
    Uniform {
        /// Smallest number.
        from: u64,
        /// Largest number.
        to: u64,
    },
    /// `{zipf:1..1000:1.2}`: a whole number. The weight of the k-th smallest is 1 / k^exponent.
    Zipf {
        /// Smallest number, which is the most frequent.
        from: u64,
        /// Largest number.
        to: u64,
        /// Exponent: above 0; the default is 1.
        exponent: f64,
    },
    /// `{feed.NAME.COLUMN}`: a value from a CSV file.
    Feed {
        /// Name of a `[[load.feed]]`.
        feed: String,
        /// Name of a column, from the file's header line.
        column: String,
    },
    /// `{slot}`: the value that `keep` of an earlier step stored in the slot.
    Slot(String),
    /// `{lua.NAME}`: the result of a function in the load's script.
    Script(String),
    /// `{env:NAME}`: value of an environment variable when the run starts; redacted in every
    /// record.
    Env(String),
    /// `{base64:…}`: another template's value in base64 (RFC 4648, 4).
    Base64(Template),
    /// `{pad:8:…}`: another template's value, padded with zeros in front to a width.
    Pad {
        /// Width in bytes, from 1 to [`PAD_MAX`]. A longer value is unchanged.
        width: u8,
        /// Template of the value.
        of: Template,
    },
}

/// Arithmetic on a counter's value before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// No change.
    Plain,
    /// Addition: `{seq+1}`.
    Plus(u64),
    /// Subtraction: `{seq-20}`; the result is never below 0.
    Minus(u64),
    /// Remainder: `{seq%100}`; the divisor is at least 1.
    Modulo(u64),
}

impl Arithmetic {
    /// Applies the arithmetic to `value`.
    #[must_use]
    pub fn apply(self, value: u64) -> u64 {
        match self {
            Self::Plain => value,
            Self::Plus(by) => value.saturating_add(by),
            Self::Minus(by) => value.saturating_sub(by),
            Self::Modulo(by) => value.checked_rem(by).unwrap_or(0),
        }
    }
}

/// The reason why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TemplateError {
    /// Byte range of the mistake in the text.
    pub at: Range<usize>,
    /// Description of the problem.
    pub what: String,
    /// Suggested fix.
    pub hint: String,
}

/// Words that start a placeholder. A slot may not have one of these names.
pub const WORDS: &[&str] = &["agent", "bytes", "copy", "env", "feed", "seq", "uniform", "zipf"];

/// Maximum N in `{bytes:N}`. Larger values are probably mistakes: even a megabyte is unusual.
pub const BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Maximum N in `{pad:N:…}`. A counter's value has at most 20 digits.
pub const PAD_MAX: u8 = 64;

/// Maximum nesting depth of placeholders. The parser is recursive.
const DEPTH_MAX: usize = 4;

/// Replaces each `{env:NAME}` for which `value` returns a value, because the text goes to a process
/// with another environment. Does not change a text that is not a template.
#[must_use]
pub fn with_environment(text: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    match Template::parse(text) {
        Ok(template) if text.contains("{env:") => template.filled(value).to_string(),
        _ => text.to_owned(),
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A single brace or an invalid placeholder, with its byte range in `text`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = 0;
        // Searches bytes, which is much faster than characters, because a body may be long.
        while let Some(found) = text.as_bytes()[rest..].iter().position(|byte| matches!(byte, b'{' | b'}')) {
            let at = rest + found;
            literal.push_str(&text[rest..at]);
            let brace = &text[at..=at];
            if text[at + 1..].starts_with(brace) {
                literal.push_str(brace);
                rest = at + 2;
                continue;
            }
            if brace == "}" {
                return Err(unopened(at));
            }
            push_text(&mut parts, &mut literal);
            let (part, end) = placeholder(text, at, 0)?;
            parts.push(part);
            rest = end;
        }
        literal.push_str(&text[rest..]);
        push_text(&mut parts, &mut literal);
        Ok(Self { parts })
    }

    /// Returns every part, including the parts inside `{base64:…}` and `{pad:…}`.
    #[must_use]
    pub fn all_parts(&self) -> Vec<&TemplatePart> {
        let mut all: Vec<&TemplatePart> = self.parts.iter().collect();
        let mut next = 0;
        while let Some(part) = all.get(next) {
            if let TemplatePart::Base64(of) | TemplatePart::Pad { of, .. } = part {
                all.extend(&of.parts);
            }
            next += 1;
        }
        all
    }

    /// Returns an example value, with `1` for each placeholder.
    #[must_use]
    pub fn example(&self) -> String {
        let mut example = String::new();
        for part in &self.parts {
            example += &match part {
                TemplatePart::Text(text) => text.clone(),
                TemplatePart::Base64(of) => BASE64.encode(of.example()),
                TemplatePart::Pad { of, .. } => of.example(),
                _ => "1".to_owned(),
            };
        }
        example
    }

    /// Returns the template with environment variables filled in.
    fn filled(self, value: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut parts = Vec::new();
        for part in self.parts {
            parts.push(match part {
                TemplatePart::Env(name) => value(&name).map_or(TemplatePart::Env(name), TemplatePart::Text),
                TemplatePart::Base64(of) => TemplatePart::Base64(of.filled(value)),
                TemplatePart::Pad { width, of } => TemplatePart::Pad { width, of: of.filled(value) },
                other => other,
            });
        }
        Self { parts }
    }

    /// Returns the text, if the template has no placeholders.
    #[must_use]
    pub fn constant(&self) -> Option<String> {
        self.parts.iter().map(TemplatePart::constant).collect()
    }
}

impl TemplatePart {
    fn constant(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Base64(of) => of.constant().map(|value| BASE64.encode(value)),
            Self::Pad { width, of } => of.constant().map(|value| zeros(value.len(), *width).to_owned() + &value),
            _ => None,
        }
    }
}

/// Encodes the bytes of `out` from `start` in base64 (RFC 4648, 4).
pub fn base64_in_place(out: &mut Vec<u8>, start: usize) {
    let end = out.len();
    let length = (end - start).div_ceil(3) * 4;
    out.resize(end + length, 0);
    let (value, encoded) = out.split_at_mut(end);
    // Cannot fail: `encoded` has exactly the length of the encoded value.
    let _ = BASE64.encode_slice(&value[start..], encoded);
    out.drain(start..end);
}

/// Pads the bytes of `out` from `start` with zeros in front, to a width.
pub fn pad_in_place(out: &mut Vec<u8>, start: usize, width: u8) {
    out.splice(start..start, zeros(out.len() - start, width).bytes());
}

/// Returns the zeros that pad a value of `length` bytes to `width` bytes.
fn zeros(length: usize, width: u8) -> &'static str {
    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
    &ZEROS[..usize::from(width.min(PAD_MAX)).saturating_sub(length)]
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &mut String) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(std::mem::take(text)));
    }
}

/// Reads the placeholder whose brace opens at byte `at`. Also returns the position after its
/// closing brace. `depth` is the number of placeholders around it.
fn placeholder(text: &str, at: usize, depth: usize) -> Result<(TemplatePart, usize), TemplateError> {
    let inside = &text[at + 1..];
    let holds = |word| inside.strip_prefix(word).map(|_| at + 1 + str::len(word));
    if let Some(from) = holds("base64:") {
        let (of, end) = nested(text, from, depth + 1)?;
        return Ok((TemplatePart::Base64(of), end));
    }
    if let Some(from) = holds("pad:") {
        let (width, from) = pad_width(text, from)?;
        let (of, end) = nested(text, from, depth + 1)?;
        return Ok((TemplatePart::Pad { width, of }, end));
    }
    let Some(length) = inside.find('}') else { return Err(unclosed(at, text.len())) };
    Ok((parse_placeholder(&inside[..length], at + 1)?, at + 1 + length + 1))
}

/// Reads the template inside a placeholder from byte `from`, up to the closing brace. A literal
/// brace has a backslash before it here, because a double brace could end two placeholders.
fn nested(text: &str, from: usize, depth: usize) -> Result<(Template, usize), TemplateError> {
    let wrong =
        |length: usize, what: &str, hint: &str| Word { text: &text[from..from + length], at: from }.wrong(what, hint);
    if depth > DEPTH_MAX {
        return Err(wrong(0, "too many placeholders inside each other", "at most 4"));
    }
    let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), from);
    while let Some(found) = text[rest..].find(['{', '}', '\\']) {
        let at = rest + found;
        literal.push_str(&text[rest..at]);
        match &text[at..=at] {
            "\\" => {
                let escaped = text[at + 1..].chars().next().filter(|next| ['{', '}', '\\'].contains(next));
                let wrong = || Word { text: &text[at..=at], at }.wrong("this backslash has nothing to escape", ESCAPES);
                literal.push(escaped.ok_or_else(wrong)?);
                rest = at + 2;
            }
            "{" if text[at + 1..].starts_with('{') => {
                return Err(Word { text: "{{", at }.wrong("this brace is inside a placeholder", ESCAPES));
            }
            "{" => {
                push_text(&mut parts, &mut literal);
                let (part, end) = placeholder(text, at, depth)?;
                parts.push(part);
                rest = end;
            }
            _ => {
                let length = at - from;
                if let Ok(TemplatePart::Slot(_)) | Err(_) = parse_placeholder(&text[from..at], from) {
                    push_text(&mut parts, &mut literal);
                    return Ok((Template { parts }, at + 1));
                }
                return Err(wrong(
                    length,
                    "this is a text here, and no placeholder",
                    "write braces around it, such as {seq}",
                ));
            }
        }
    }
    Err(unclosed(from, text.len()))
}

/// Reads the `8:` of `{pad:8:…}`. Also returns the position after it.
fn pad_width(text: &str, from: usize) -> Result<(u8, usize), TemplateError> {
    let end = text[from..].find([':', '{', '}']).map_or(text.len(), |length| from + length);
    match text[from..end].parse() {
        Ok(width @ 1..=PAD_MAX) if text[end..].starts_with(':') => Ok((width, end + 1)),
        _ => Err(Word { text: &text[from..end], at: from }
            .wrong(format!("not a width from 1 to {PAD_MAX}"), "write {pad:8:{seq}}")),
    }
}

fn unopened(at: usize) -> TemplateError {
    TemplateError {
        at: at..at + 1,
        what: "this `}` closes nothing".to_owned(),
        hint: "a brace that is meant as a brace is written twice: `}}`".to_owned(),
    }
}

fn unclosed(at: usize, end: usize) -> TemplateError {
    TemplateError {
        at: at..end,
        what: "this `{` is never closed".to_owned(),
        hint: "close it with `}`; a brace that is meant as a brace is written twice: `{{`".to_owned(),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| part.fmt(out))
    }
}

/// A template as it is written inside a placeholder.
struct Nested<'a>(&'a Template);

impl fmt::Display for Nested<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.parts.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => {
                out.write_str(&text.replace('\\', r"\\").replace('{', r"\{").replace('}', r"\}"))
            }
            other => other.fmt(out),
        })
    }
}

impl fmt::Display for TemplatePart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Self::Agent(arithmetic) => write!(out, "{{agent{arithmetic}}}"),
            Self::Seq(arithmetic) => write!(out, "{{seq{arithmetic}}}"),
            Self::Copy(arithmetic) => write!(out, "{{copy{arithmetic}}}"),
            Self::Bytes(count) => write!(out, "{{bytes:{count}}}"),
            Self::Uniform { from, to } => write!(out, "{{uniform:{from}..{to}}}"),
            Self::Zipf { from, to, exponent } => write!(out, "{{zipf:{from}..{to}:{exponent}}}"),
            Self::Feed { feed, column } => write!(out, "{{feed.{feed}.{column}}}"),
            Self::Slot(slot) => write!(out, "{{{slot}}}"),
            Self::Script(name) => write!(out, "{{lua.{name}}}"),
            Self::Env(name) => write!(out, "{{env:{name}}}"),
            Self::Base64(of) => write!(out, "{{base64:{}}}", Nested(of)),
            Self::Pad { width, of } => write!(out, "{{pad:{width}:{}}}", Nested(of)),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => Ok(()),
            Self::Plus(by) => write!(out, "+{by}"),
            Self::Minus(by) => write!(out, "-{by}"),
            Self::Modulo(by) => write!(out, "%{by}"),
        }
    }
}

/// Reads the inside of `{…}`, which begins at byte `at` of the template.
fn parse_placeholder(inside: &str, at: usize) -> Result<TemplatePart, TemplateError> {
    let word = Word { text: inside, at };
    if inside.trim_start().starts_with('"') {
        return Err(Word { text: "{", at: at - 1 }.wrong("this `{` begins no placeholder", JSON));
    }
    if let Some((kind, argument)) = inside.split_once(':') {
        let argument = Word { text: argument, at: at + kind.len() + 1 };
        return match kind {
            "bytes" => bytes(argument),
            "uniform" => range(argument).map(|(from, to)| TemplatePart::Uniform { from, to }),
            "zipf" => zipf(argument),
            "env" => env(argument),
            _ if !kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                Err(word.wrong("not a placeholder", BRACES))
            }
            _ => Err(Word { text: kind, at }.wrong(
                format!("there is no `{{{kind}:…}}`"),
                "with a colon there are {bytes:100}, {uniform:1..1000}, {zipf:1..1000}, {env:NAME}, {base64:…} and {pad:8:…}",
            )),
        };
    }
    match inside {
        "" => Err(Word { text: "{}", at: at - 1 }.wrong("nothing between the braces", NUMBERS)),
        "bytes" => Err(word.wrong("how many bytes?", "write {bytes:100}")),
        "uniform" | "zipf" => Err(word.wrong("between which numbers?", "write {uniform:1..1000} or {zipf:1..1000}")),
        "env" => Err(word.wrong("which variable of the environment?", "write {env:NAME}")),
        _ if inside == "feed" || inside.starts_with("feed.") => feed(word),
        _ if inside.starts_with("lua.") => script(word),
        _ => counter(word),
    }
}

const BRACES: &str = "braces that are meant as braces are written twice: `{{` and `}}`";

const ESCAPES: &str = r"inside a placeholder, braces and backslashes are written `\{`, `\}` and `\\`";

const JSON: &str = r#"braces that are meant as braces are written twice, and texts with quotes in single ones: '{{"party": "p-{agent}"}}'"#;

const NUMBERS: &str = "for example {agent}, {seq}, {bytes:100}, or the name of a slot that an earlier step keeps";

/// A piece of the template's text, and its byte offset.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    at: usize,
}

impl Word<'_> {
    fn wrong(self, what: impl Into<String>, hint: &str) -> TemplateError {
        TemplateError { at: self.at..self.at + self.text.len(), what: what.into(), hint: hint.to_owned() }
    }
}

fn bytes(count: Word<'_>) -> Result<TemplatePart, TemplateError> {
    match count.text.parse() {
        Ok(count @ 1..=BYTES_MAX) => Ok(TemplatePart::Bytes(count)),
        Ok(_) => Err(count.wrong(format!("the number of bytes is from 1 to {BYTES_MAX}"), "write {bytes:100}")),
        Err(_) => Err(count.wrong("not a number of bytes", "write {bytes:100}")),
    }
}

fn range(text: Word<'_>) -> Result<(u64, u64), TemplateError> {
    const HINT: &str = "write the smallest and the largest whole number, such as 1..1000; both are included";
    let bounds = text.text.split_once("..").and_then(|(from, to)| Some((whole(from)?, whole(to)?)));
    match bounds {
        Some((from, to)) if from <= to => Ok((from, to)),
        Some(_) => Err(text.wrong("this range is empty", HINT)),
        None => Err(text.wrong("not a range", HINT)),
    }
}

fn zipf(text: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let (bounds, exponent) = text.text.split_once(':').unwrap_or((text.text, "1"));
    let (from, to) = range(Word { text: bounds, at: text.at })?;
    match exponent.parse::<f64>() {
        Ok(exponent) if exponent.is_finite() && exponent > 0.0 => Ok(TemplatePart::Zipf { from, to, exponent }),
        _ => Err(Word { text: exponent, at: text.at + bounds.len() + 1 }
            .wrong("not an exponent", "the exponent is a number above 0, such as {zipf:1..1000:1.2}")),
    }
}

fn env(name: Word<'_>) -> Result<TemplatePart, TemplateError> {
    if is_function_name(name.text) {
        Ok(TemplatePart::Env(name.text.to_owned()))
    } else {
        Err(name.wrong("not the name of an environment variable", "letters, digits and `_`, such as {env:PASSWORD}"))
    }
}

fn feed(word: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let names = word.text.strip_prefix("feed.").and_then(|names| names.split_once('.'));
    match names {
        Some((feed, column)) if !feed.is_empty() && !column.is_empty() => {
            Ok(TemplatePart::Feed { feed: feed.to_owned(), column: column.to_owned() })
        }
        _ => Err(word.wrong("which feed and which column?", "write {feed.NAME.COLUMN}")),
    }
}

fn script(word: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let name = word.text.strip_prefix("lua.").unwrap_or_default();
    if is_function_name(name) {
        return Ok(TemplatePart::Script(name.to_owned()));
    }
    Err(word.wrong("which function of the script?", "write {lua.NAME}: letters, digits and `_`"))
}

/// Whether this is a valid name for a function of the load's script.
pub(crate) fn is_function_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads the counter `agent`, `seq` or `copy` with optional arithmetic. Any other name is a slot.
fn counter(word: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let name_length = word.text.find(['+', '-', '%']).unwrap_or(word.text.len());
    let (name, operation) = word.text.split_at(name_length);
    let part: fn(Arithmetic) -> TemplatePart = match name {
        "agent" => TemplatePart::Agent,
        "seq" => TemplatePart::Seq,
        "copy" => TemplatePart::Copy,
        _ => return slot(word, operation),
    };
    if operation.is_empty() {
        return Ok(part(Arithmetic::Plain));
    }
    let operation = Word { text: operation, at: word.at + name_length };
    let (sign, number) = operation.text.split_at(1);
    let arithmetic = match (sign, whole(number)) {
        ("+", Some(by)) => Arithmetic::Plus(by),
        ("-", Some(by)) => Arithmetic::Minus(by),
        ("%", Some(by)) if by > 0 => Arithmetic::Modulo(by),
        ("%", Some(_)) => return Err(operation.wrong("nothing can be divided by 0", "write {seq%100}")),
        _ => return Err(operation.wrong("not a whole number", "write {seq+1}, {seq-20} or {seq%100}")),
    };
    Ok(part(arithmetic))
}

fn slot(word: Word<'_>, operation: &str) -> Result<TemplatePart, TemplateError> {
    if is_slot_name(word.text) {
        return Ok(TemplatePart::Slot(word.text.to_owned()));
    }
    if !operation.is_empty() {
        return Err(
            word.wrong("arithmetic works on `agent`, `seq` and `copy` only", "write {seq+1}, {seq-20} or {seq%100}")
        );
    }
    if ["agent", "seq"].iter().any(|counter| word.text.starts_with(counter)) {
        return Err(
            word.wrong("not a placeholder", "there are {seq}, {seq+1}, {seq-20} and {seq%100}, and the same of agent")
        );
    }
    let is_wordy = word.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    Err(word.wrong("not a placeholder", if is_wordy { NUMBERS } else { BRACES }))
}

/// Whether the text has the form of a slot's name.
pub(crate) fn is_slot_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Parses a whole number of digits only; `parse` would also accept `+5`.
fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Arithmetic, Template, TemplatePart, with_environment};

    fn parts(text: &str) -> Vec<TemplatePart> {
        Template::parse(text).unwrap().parts
    }

    fn text(text: &str) -> TemplatePart {
        TemplatePart::Text(text.to_owned())
    }

    #[test]
    fn only_environment_placeholders_are_filled_in() {
        let value = |name: &str| (name == "TOKEN").then(|| "a{b}".to_owned());
        for (text, filled) in [
            ("Bearer {env:TOKEN}/{seq}", "Bearer a{{b}}/{seq}"),
            ("{{env:TOKEN}} {env:OTHER}", "{{env:TOKEN}} {env:OTHER}"),
            ("{env:TOKEN}{env:TOKEN}", "a{{b}}a{{b}}"),
            ("{base64:u:{env:TOKEN}}}}", r"{base64:u:a\{b\}}}}"),
            ("nothing", "nothing"),
            ("{", "{"),
        ] {
            assert_eq!(with_environment(text, &value), filled);
        }
    }

    #[test]
    fn every_placeholder() {
        assert_eq!(parts("plain"), [text("plain")]);
        assert_eq!(
            parts("{agent}-{seq}"),
            [TemplatePart::Agent(Arithmetic::Plain), text("-"), TemplatePart::Seq(Arithmetic::Plain)]
        );
        assert_eq!(parts("{seq%100}"), [TemplatePart::Seq(Arithmetic::Modulo(100))]);
        assert_eq!(
            parts("{seq-20}{agent+1}"),
            [TemplatePart::Seq(Arithmetic::Minus(20)), TemplatePart::Agent(Arithmetic::Plus(1))]
        );
        assert_eq!(parts("{copy%2}"), [TemplatePart::Copy(Arithmetic::Modulo(2))]);
        assert_eq!(parts("{bytes:100}"), [TemplatePart::Bytes(100)]);
        assert_eq!(parts("{uniform:1..9}"), [TemplatePart::Uniform { from: 1, to: 9 }]);
        assert_eq!(parts("{zipf:1..9}"), [TemplatePart::Zipf { from: 1, to: 9, exponent: 1.0 }]);
        assert_eq!(parts("{zipf:1..9:1.2}"), [TemplatePart::Zipf { from: 1, to: 9, exponent: 1.2 }]);
        assert_eq!(
            parts("{feed.users.e-mail}"),
            [TemplatePart::Feed { feed: "users".into(), column: "e-mail".into() }]
        );
        assert_eq!(parts("{saved}"), [TemplatePart::Slot("saved".into())]);
        assert_eq!(parts("{env:TOKEN}"), [TemplatePart::Env("TOKEN".into())]);
        assert_eq!(parts("{lua.Order_id2}"), [TemplatePart::Script("Order_id2".into())]);
        assert_eq!(parts("{lua}"), [TemplatePart::Slot("lua".into())]);
        let seq = || TemplatePart::Seq(Arithmetic::Plain);
        let template = |parts: Vec<TemplatePart>| Template { parts };
        assert_eq!(parts("{base64:k-{seq}}"), [TemplatePart::Base64(template(vec![text("k-"), seq()]))]);
        assert_eq!(parts("{pad:8:{seq}}"), [TemplatePart::Pad { width: 8, of: template(vec![seq()]) }]);
        assert_eq!(
            parts(r#"{{{base64:\{"a": {pad:3:{seq}}\\\}}}}"#),
            [
                text("{"),
                TemplatePart::Base64(template(vec![
                    text("{\"a\": "),
                    TemplatePart::Pad { width: 3, of: template(vec![seq()]) },
                    text("\\}"),
                ])),
                text("}"),
            ]
        );
        assert_eq!(parts("{base64:}"), [TemplatePart::Base64(template(Vec::new()))]);
        assert_eq!(parts(""), []);
    }

    #[test]
    fn doubled_braces_are_braces() {
        assert_eq!(parts("{{\"query\": {{}}}}"), [text("{\"query\": {}}")]);
        assert_eq!(parts("{{{seq}}}"), [text("{"), TemplatePart::Seq(Arithmetic::Plain), text("}")]);
    }

    #[test]
    fn mistakes_are_underlined() {
        for (text, underlined) in [
            ("a{seq", "{seq"),
            ("a}b", "}"),
            ("a{}b", "{}"),
            ("{bytes}", "bytes"),
            ("{bytes:x}", "x"),
            ("{bytes:0}", "0"),
            ("{uniform:9..1}", "9..1"),
            ("{uniform:1}", "1"),
            ("{zipf:1..9:0}", "0"),
            ("{zipf:1..9:x}", "x"),
            ("{zipf:1-9:1}", "1-9"),
            ("{gauss:1..9}", "gauss"),
            ("{seq*2}", "seq*2"),
            ("{seq+x}", "+x"),
            ("{seq%0}", "%0"),
            ("{slot+1}", "slot+1"),
            ("{Seq}", "Seq"),
            ("{feed.users}", "feed.users"),
            ("{env:9}", "9"),
            ("{lua.}", "lua."),
            ("{base64:{seq}", "{seq}"),
            ("{base64:seq+1}", "seq+1"),
            ("{base64:{{x}", "{{"),
            (r"{base64:a\b}", r"\"),
            ("{base64:{base64:{base64:{base64:{base64:x}}}}}", ""),
            ("{pad:8}", "8"),
            ("{pad:0:{seq}}", "0"),
            ("{pad:65:{seq}}", "65"),
            ("{pad:8:seq}", "seq"),
            ("{lua.a-b}", "lua.a-b"),
            ("é{env:}", ""),
            ("é{ seq }", " seq "),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
            assert!(!error.hint.is_empty());
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Arithmetic::Minus(20).apply(5), 0);
        assert_eq!(Arithmetic::Plus(1).apply(u64::MAX), u64::MAX);
        assert_eq!(Arithmetic::Modulo(100).apply(250), 50);
    }

    proptest! {
        #[test]
        fn any_text_is_a_template_or_an_error_in_it(input in any::<String>()) {
            match Template::parse(&input) {
                Ok(template) => prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template),
                Err(error) => prop_assert!(input.get(error.at).is_some()),
            }
        }

        #[test]
        fn templates_survive_printing_and_parsing(input in "([a-z{}:.%+-]|seq|agent|bytes:[0-9]|base64:|pad:4:|\\\\|uniform:1\\.\\.[0-9]|\\{|\\}){0,12}") {
            if let Ok(template) = Template::parse(&input) {
                prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template);
            }
        }
    }
}
