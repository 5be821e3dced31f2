//! Templates: texts with `{…}` placeholders, in arguments and expectations. This module only parses
//! them; the load engine compiles them and fills them in.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

mod filters;
pub(crate) mod parsing;
mod time;

pub use filters::Filter;
pub(crate) use parsing::{is_function_name, is_slot_name};
use parsing::{placeholder, push_text, unopened};
pub use time::TimeFormat;

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
    /// `{repeat}`: how often the step has begun in a row, from 1; see `repeat` of a step.
    Repeat(Arithmetic),
    /// `{counter:orders}`: the next number of a counter that all agents share, from 1.
    Counter {
        /// Name of the counter.
        name: String,
        /// Arithmetic on the number.
        arithmetic: Arithmetic,
    },
    /// `{bytes:100}`: 100 printable bytes, different each time.
    Bytes(u32),
    /// `{random_bytes:100}`: 100 random bytes of any value.
    RandomBytes(u32),
    /// `{file:photo.jpg}`: the bytes of a file.
    File(String),
    /// `{uniform:1..1000}`: a whole number, each equally likely, both ends included.
    Uniform {
        /// Smallest number.
        from: u64,
        /// Largest number.
        to: u64,
    },
    /// `{uniform:-0.5..1.25}`: a number with as many decimals as its bounds, each equally likely,
    /// both ends included.
    Decimal {
        /// Smallest number, times ten to the power of `decimals`.
        from: i64,
        /// Largest number, times ten to the power of `decimals`.
        to: i64,
        /// Number of decimals, at most [`DECIMALS_MAX`].
        decimals: u8,
    },
    /// `{uniform:day+1..31}`: a whole number between bounds that are values. A bound that is no
    /// whole number counts as 0, and an empty range as its lower bound.
    Between {
        /// Smallest number.
        from: RangeBound,
        /// Largest number.
        to: RangeBound,
    },
    /// `{choice:red,green,blue}`: one of the texts, each equally likely.
    Choice(Vec<String>),
    /// `{uuid}`: a random UUID (RFC 9562, version 4).
    Uuid,
    /// `{now+1d:%Y-%m-%d}`: the time at which the operation starts.
    Now(TimeFormat),
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
    /// `{text:…}`: a constant that is encoded for its place, as values are.
    Value(String),
    /// `{…|url}`: a placeholder's value, changed by filters.
    Filtered {
        /// The placeholder.
        of: Box<TemplatePart>,
        /// Filters, first to last; at least one.
        filters: Vec<Filter>,
    },
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

/// A bound of `{uniform:…}` that may depend on a value.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeBound {
    /// The value: a [`TemplatePart::Slot`]. `None` for 0.
    pub of: Option<Box<TemplatePart>>,
    /// Arithmetic on the value.
    pub arithmetic: Arithmetic,
}

impl RangeBound {
    /// Returns the bound with its slot filled in. A value that is no whole number counts as 0.
    fn with_slots(self, values: &BTreeMap<String, String>) -> Self {
        let value = match self.of.as_deref() {
            Some(TemplatePart::Slot(slot)) => values.get(slot),
            _ => None,
        };
        let Some(value) = value else { return self };
        Self { of: None, arithmetic: Arithmetic::Plus(self.arithmetic.apply(value.parse().unwrap_or(0))) }
    }
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
pub const WORDS: &[&str] =
    &["agent", "bytes", "copy", "env", "feed", "now", "repeat", "seq", "uniform", "uuid", "zipf"];

/// Maximum N in `{bytes:N}` and `{random_bytes:N}`. Larger values are probably mistakes: even a
/// megabyte is unusual.
pub const BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Maximum number of decimals of `{uniform:…}`.
pub const DECIMALS_MAX: u8 = 9;

/// Maximum N in `{pad:N:…}`. A counter's value has at most 20 digits.
pub const PAD_MAX: u8 = 64;

/// Replaces each `{env:NAME}` for which `value` returns a value, because the text goes to a process
/// with another environment. Does not change a text that is not a template.
#[must_use]
pub fn with_environment(text: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    match Template::parse(text) {
        Ok(template) if text.contains("env:") => template.filled(value).to_string(),
        _ => text.to_owned(),
    }
}

/// Replaces each `{slot}` for which there is a value by the value. Does not change a text that is
/// not a template.
#[must_use]
pub fn with_slots(text: &str, values: &BTreeMap<String, String>) -> String {
    let uses = |template: &Template| {
        let parts = template.all_parts();
        parts.iter().any(|part| matches!(part, TemplatePart::Slot(slot) if values.contains_key(slot)))
    };
    match Template::parse(text) {
        Ok(template) if uses(&template) => template.with_slots(values).to_string(),
        _ => text.to_owned(),
    }
}

/// Passes every part of each template in a JSON value to `visit`. Texts that are not templates have
/// no parts.
pub fn visit_parts(value: &Json, visit: &mut dyn FnMut(&TemplatePart)) {
    match value {
        Json::String(text) if text.contains('{') => {
            let template = Template::parse(text);
            template.iter().flat_map(Template::all_parts).for_each(visit);
        }
        Json::Array(list) => list.iter().for_each(|value| visit_parts(value, visit)),
        Json::Object(fields) => fields.values().for_each(|value| visit_parts(value, visit)),
        _ => {}
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
            match part {
                TemplatePart::Base64(of) | TemplatePart::Pad { of, .. } => all.extend(&of.parts),
                TemplatePart::Filtered { of, filters } => {
                    all.push(of);
                    all.extend(filters.iter().filter_map(Filter::key));
                }
                TemplatePart::Between { from, to } => {
                    all.extend([from, to].into_iter().flat_map(|bound| bound.of.as_deref()))
                }
                _ => {}
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
                TemplatePart::Text(text) | TemplatePart::Value(text) => text.clone(),
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
            parts.push(part.filled(value));
        }
        Self { parts }
    }

    /// Returns the template with slots filled in.
    fn with_slots(self, values: &BTreeMap<String, String>) -> Self {
        Self { parts: self.parts.into_iter().map(|part| part.with_slots(values)).collect() }
    }

    /// Returns the text, if the template has no placeholders.
    #[must_use]
    pub fn constant(&self) -> Option<String> {
        self.parts.iter().map(TemplatePart::constant).collect()
    }
}

impl TemplatePart {
    /// Returns the name of the file whose bytes are the value.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        if let Self::File(name) = self { Some(name) } else { None }
    }

    /// Whether the value is encoded by its last filter, or must not be encoded.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        let Self::Filtered { filters, .. } = self else { return false };
        filters.last().is_some_and(|last| last.is_place_encoding())
    }

    fn filled(self, value: &dyn Fn(&str) -> Option<String>) -> Self {
        match self {
            Self::Env(name) => value(&name).map_or(Self::Env(name), Self::Value),
            Self::Filtered { of, filters } => {
                let filters = filters.into_iter().map(|filter| filter.with_key(|key| key.filled(value)));
                Self::Filtered { of: Box::new(of.filled(value)), filters: filters.collect() }
            }
            Self::Base64(of) => Self::Base64(of.filled(value)),
            Self::Pad { width, of } => Self::Pad { width, of: of.filled(value) },
            other => other,
        }
    }

    fn with_slots(self, values: &BTreeMap<String, String>) -> Self {
        match self {
            Self::Slot(slot) => values.get(&slot).cloned().map_or(Self::Slot(slot), Self::Value),
            Self::Filtered { of, filters } => {
                let filters = filters.into_iter().map(|filter| filter.with_key(|key| key.with_slots(values)));
                Self::Filtered { of: Box::new(of.with_slots(values)), filters: filters.collect() }
            }
            Self::Base64(of) => Self::Base64(of.with_slots(values)),
            Self::Pad { width, of } => Self::Pad { width, of: of.with_slots(values) },
            Self::Between { from, to } => Self::Between { from: from.with_slots(values), to: to.with_slots(values) },
            other => other,
        }
    }

    fn constant(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Value(text) => Some(text.clone()),
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
            Self::Repeat(arithmetic) => write!(out, "{{repeat{arithmetic}}}"),
            Self::Counter { name, arithmetic } => write!(out, "{{counter:{name}{arithmetic}}}"),
            Self::Bytes(count) => write!(out, "{{bytes:{count}}}"),
            Self::RandomBytes(count) => write!(out, "{{random_bytes:{count}}}"),
            Self::File(name) => write!(out, "{{file:{}}}", escaped(name)),
            Self::Uniform { from, to } => write!(out, "{{uniform:{from}..{to}}}"),
            Self::Decimal { from, to, decimals } => {
                write!(out, "{{uniform:{}..{}}}", decimal(*from, *decimals), decimal(*to, *decimals))
            }
            Self::Between { from, to } => write!(out, "{{uniform:{from}..{to}}}"),
            Self::Choice(texts) => write!(out, "{{choice:{}}}", texts.join(",")),
            Self::Uuid => out.write_str("{uuid}"),
            Self::Now(time) => write!(out, "{{{time}}}"),
            Self::Zipf { from, to, exponent } => write!(out, "{{zipf:{from}..{to}:{exponent}}}"),
            Self::Feed { feed, column } => write!(out, "{{feed.{feed}.{column}}}"),
            Self::Slot(slot) => write!(out, "{{{slot}}}"),
            Self::Script(name) => write!(out, "{{lua.{name}}}"),
            Self::Env(name) => write!(out, "{{env:{name}}}"),
            Self::Value(text) => write!(out, "{{text:{}}}", escaped(text)),
            Self::Filtered { of, filters } => {
                let of = of.to_string();
                out.write_str(of.strip_suffix('}').unwrap_or(&of))?;
                filters.iter().try_for_each(|filter| write!(out, "|{filter}"))?;
                out.write_str("}")
            }
            Self::Base64(of) => write!(out, "{{base64:{}}}", Nested(of)),
            Self::Pad { width, of } => write!(out, "{{pad:{width}:{}}}", Nested(of)),
        }
    }
}

/// Returns a constant as it is written inside a placeholder.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('{', r"\{").replace('}', r"\}").replace('|', r"\|")
}

/// Returns the number with its decimals: -50 with 2 decimals is -0.50.
fn decimal(scaled: i64, decimals: u8) -> String {
    let mut text = Vec::new();
    decimal_into(scaled, decimals, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Appends the number `scaled` / 10^`decimals` with all its decimals.
pub fn decimal_into(scaled: i64, decimals: u8, out: &mut Vec<u8>) {
    // The digits of a number, and the zeros before the decimals of a small one.
    let mut digits = [b'0'; 20 + DECIMALS_MAX as usize];
    let (mut at, mut rest) = (digits.len(), scaled.unsigned_abs());
    while rest > 0 || digits.len() - at <= usize::from(decimals) {
        at -= 1;
        digits[at] += (rest % 10) as u8;
        rest /= 10;
    }
    if scaled < 0 {
        out.push(b'-');
    }
    let (whole, part) = digits[at..].split_at(digits.len() - at - usize::from(decimals));
    out.extend_from_slice(whole);
    if decimals > 0 {
        out.push(b'.');
        out.extend_from_slice(part);
    }
}

impl fmt::Display for RangeBound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.of.as_deref(), self.arithmetic) {
            (Some(TemplatePart::Slot(slot)), arithmetic) => write!(out, "{slot}{arithmetic}"),
            (_, arithmetic) => write!(out, "{}", arithmetic.apply(0)),
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
            ("Bearer {env:TOKEN}/{seq}", r"Bearer {text:a\{b\}}/{seq}"),
            ("{env:TOKEN|raw}", r"{text:a\{b\}|raw}"),
            ("{{env:TOKEN}} {env:OTHER}", "{{env:TOKEN}} {env:OTHER}"),
            ("{env:TOKEN}{env:TOKEN}", r"{text:a\{b\}}{text:a\{b\}}"),
            ("{base64:u:{env:TOKEN}}}}", r"{base64:u:{text:a\{b\}}}}}"),
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
        let counter = |arithmetic| TemplatePart::Counter { name: "orders".to_owned(), arithmetic };
        assert_eq!(parts("{counter:orders}"), [counter(Arithmetic::Plain)]);
        assert_eq!(parts("{counter:orders+100}"), [counter(Arithmetic::Plus(100))]);
        assert_eq!(Template::parse("{counter:orders%9}").unwrap().to_string(), "{counter:orders%9}");
        assert_eq!(
            parts("{seq-20}{agent+1}"),
            [TemplatePart::Seq(Arithmetic::Minus(20)), TemplatePart::Agent(Arithmetic::Plus(1))]
        );
        assert_eq!(parts("{copy%2}"), [TemplatePart::Copy(Arithmetic::Modulo(2))]);
        assert_eq!(parts("{bytes:100}"), [TemplatePart::Bytes(100)]);
        assert_eq!(parts("{random_bytes:100}"), [TemplatePart::RandomBytes(100)]);
        assert_eq!(parts(r"{file:a \}b\|.jpg}"), [TemplatePart::File("a }b|.jpg".into())]);
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
            ("{random_bytes:0}", "0"),
            ("{random_bytes}", "random_bytes"),
            ("{file}", "file"),
            ("{file:}", "file:"),
            ("{file:a{seq}}", "{"),
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
            ("{counter:}", ""),
            ("{counter:My orders}", "My orders"),
            ("{counter:a+x}", "+x"),
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
            ("{seq|}", ""),
            ("{seq|raw|hex}", "hex"),
            ("{text:a|hex}", "hex"),
            ("{text:{seq}}", "{"),
            ("{text:a", "a"),
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
        fn templates_survive_printing_and_parsing(input in "([a-z{}:.%+-]|seq|agent|bytes:[0-9]|base64:|pad:4:|text:|file:|[|]raw|[|]url|\\\\|uniform:1\\.\\.[0-9]|\\{|\\}){0,12}") {
            if let Ok(template) = Template::parse(&input) {
                prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template);
            }
        }
    }
}
