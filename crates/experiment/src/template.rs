//! Templates: the texts with `{…}` in them, as arguments and expectations are written. Parsed here, compiled and
//! filled by the load engine. Nothing is filled in here: no random number is drawn, no environment is read.

use std::fmt;
use std::ops::Range;

mod placeholder;

pub(crate) use placeholder::{is_function_name, is_slot_name};

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// What it is made of, left to right. Two texts never follow each other.
    pub parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// As it stands.
    Text(String),
    /// `{agent}`: the agent's number, from 1.
    Agent(Arithmetic),
    /// `{seq}`: the agent's cycle, from 1; in `[[prepare]]` the repetition, from 1.
    Seq(Arithmetic),
    /// `{bytes:100}`: so many printable bytes, different each time.
    Bytes(u32),
    /// `{uniform:1..1000}`: a whole number, each equally likely, both ends included.
    Uniform {
        /// Smallest.
        from: u64,
        /// Largest.
        to: u64,
    },
    /// `{zipf:1..1000:1.2}`: a whole number, the k-th smallest with a weight of 1 / k^exponent.
    Zipf {
        /// Smallest, and most frequent.
        from: u64,
        /// Largest.
        to: u64,
        /// Above 0; 1 where none is written.
        exponent: f64,
    },
    /// `{feed.NAME.COLUMN}`: from a CSV file.
    Feed {
        /// `name` of a `[[load.feed]]`.
        feed: String,
        /// A word of the file's header line.
        column: String,
    },
    /// `{slot}`: what an earlier step's `keep` kept.
    Slot(String),
    /// `{lua.NAME}`: what a function of the load's script gives.
    Script(String),
    /// `{env:NAME}`: from the environment when the run starts; redacted in every record.
    Env(String),
}

/// What is done to a number before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Nothing.
    Plain,
    /// `{seq+1}`
    Plus(u64),
    /// `{seq-20}`; never below 0.
    Minus(u64),
    /// `{seq%100}`; at least 1.
    Modulo(u64),
}

impl Arithmetic {
    /// The number that is written for `value`.
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

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TemplateError {
    /// The offending bytes of the text.
    pub at: Range<usize>,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

/// The words that start a placeholder; a slot cannot have such a name.
pub const WORDS: &[&str] = &["agent", "bytes", "env", "feed", "seq", "uniform", "zipf"];

/// The largest `{bytes:N}`: a megabyte is already an unusual value, and this many is certainly a slip.
pub const BYTES_MAX: u32 = 16 * 1024 * 1024;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A brace without its partner, or a placeholder that is not one: with its place in `text`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = 0;
        while let Some(found) = text[rest..].find(['{', '}']) {
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
            let Some(length) = text[at..].find('}') else { return Err(unclosed(at, text.len())) };
            let end = at + length;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(placeholder::parse(&text[at + 1..end], at + 1)?);
            rest = end + 1;
        }
        literal.push_str(&text[rest..]);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// The text, if nothing in it has to be filled in.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
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

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Self::Agent(arithmetic) => write!(out, "{{agent{arithmetic}}}"),
            Self::Seq(arithmetic) => write!(out, "{{seq{arithmetic}}}"),
            Self::Bytes(count) => write!(out, "{{bytes:{count}}}"),
            Self::Uniform { from, to } => write!(out, "{{uniform:{from}..{to}}}"),
            Self::Zipf { from, to, exponent } => write!(out, "{{zipf:{from}..{to}:{exponent}}}"),
            Self::Feed { feed, column } => write!(out, "{{feed.{feed}.{column}}}"),
            Self::Slot(slot) => write!(out, "{{{slot}}}"),
            Self::Script(name) => write!(out, "{{lua.{name}}}"),
            Self::Env(name) => write!(out, "{{env:{name}}}"),
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

    use super::{Arithmetic, Part, Template};

    fn parts(text: &str) -> Vec<Part> {
        Template::parse(text).unwrap().parts
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn every_placeholder() {
        assert_eq!(parts("plain"), [text("plain")]);
        assert_eq!(parts("{agent}-{seq}"), [Part::Agent(Arithmetic::Plain), text("-"), Part::Seq(Arithmetic::Plain)]);
        assert_eq!(parts("{seq%100}"), [Part::Seq(Arithmetic::Modulo(100))]);
        assert_eq!(parts("{seq-20}{agent+1}"), [Part::Seq(Arithmetic::Minus(20)), Part::Agent(Arithmetic::Plus(1))]);
        assert_eq!(parts("{bytes:100}"), [Part::Bytes(100)]);
        assert_eq!(parts("{uniform:1..9}"), [Part::Uniform { from: 1, to: 9 }]);
        assert_eq!(parts("{zipf:1..9}"), [Part::Zipf { from: 1, to: 9, exponent: 1.0 }]);
        assert_eq!(parts("{zipf:1..9:1.2}"), [Part::Zipf { from: 1, to: 9, exponent: 1.2 }]);
        assert_eq!(parts("{feed.users.e-mail}"), [Part::Feed { feed: "users".into(), column: "e-mail".into() }]);
        assert_eq!(parts("{saved}"), [Part::Slot("saved".into())]);
        assert_eq!(parts("{env:TOKEN}"), [Part::Env("TOKEN".into())]);
        assert_eq!(parts("{lua.Order_id2}"), [Part::Script("Order_id2".into())]);
        assert_eq!(parts("{lua}"), [Part::Slot("lua".into())]);
        assert_eq!(parts(""), []);
    }

    #[test]
    fn doubled_braces_are_braces() {
        assert_eq!(parts("{{\"query\": {{}}}}"), [text("{\"query\": {}}")]);
        assert_eq!(parts("{{{seq}}}"), [text("{"), Part::Seq(Arithmetic::Plain), text("}")]);
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
    fn arithmetic_stays_above_zero() {
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
        fn placeholders_come_back(input in "([a-z{}:.%+-]|seq|agent|bytes:[0-9]|uniform:1\\.\\.[0-9]|\\{|\\}){0,12}") {
            if let Ok(template) = Template::parse(&input) {
                prop_assert_eq!(Template::parse(&template.to_string()).unwrap(), template);
            }
        }
    }
}
