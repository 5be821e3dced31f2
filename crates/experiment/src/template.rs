//! Templates: the texts with `{…}` in them, as arguments and expectations are written. Parsed here, compiled and
//! filled by the load engine. Nothing is filled in here: no random number is drawn, no environment is read.

use std::fmt;
use std::ops::Range;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// What it is made of, left to right. Two texts never follow each other.
    pub parts: Vec<TemplatePart>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePart {
    /// As it stands.
    Text(String),
    /// `{agent}`: the agent's number, from 1.
    Agent(Arithmetic),
    /// `{seq}`: the agent's cycle, from 1; in `[[prepare]]` the repetition, from 1.
    Seq(Arithmetic),
    /// `{copy}`: the number of the agent's copy of the load, from 1; see `load.copies`.
    Copy(Arithmetic),
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
pub const WORDS: &[&str] = &["agent", "bytes", "copy", "env", "feed", "seq", "uniform", "zipf"];

/// The largest `{bytes:N}`: a megabyte is already an unusual value, and this many is certainly a slip.
pub const BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The text of a template with values in place of each `{env:NAME}` that `value` knows: for whoever fills it elsewhere, where the
/// environment is another.
#[must_use]
pub fn with_environment(text: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    const OPENS: &str = "{env:";
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let known = from.strip_prefix(OPENS).and_then(|inner| inner.split_once('}'));
        let known = known.and_then(|(name, after)| Some((value(name)?, after)));
        // A brace that is written twice is one, and opens nothing.
        let (piece, after) = match known {
            Some((value, after)) => (value.replace('{', "{{").replace('}', "}}"), after),
            None => {
                let length = if from.starts_with("{{") { 2 } else { 1 };
                (from[..length].to_owned(), &from[length..])
            }
        };
        filled.push_str(&piece);
        rest = after;
    }
    filled + rest
}

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
                parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
            }
            parts.push(parse_placeholder(&text[at + 1..end], at + 1)?);
            rest = end + 1;
        }
        literal.push_str(&text[rest..]);
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }
        Ok(Self { parts })
    }

    /// The text, if nothing in it has to be filled in.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Text(text)] => Some(text),
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
                "with a colon there are {bytes:100}, {uniform:1..1000}, {zipf:1..1000} and {env:NAME}",
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

const JSON: &str = r#"braces that are meant as braces are written twice, and texts with quotes in single ones: '{{"party": "p-{agent}"}}'"#;

const NUMBERS: &str = "for example {agent}, {seq}, {bytes:100}, or the name of a slot that an earlier step keeps";

/// A piece of the template and where it begins.
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

/// Whether a function of a script may have this name.
pub(crate) fn is_function_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `agent`, `seq` or `copy`, perhaps with arithmetic, or else a slot.
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

/// Whether a slot may have this name.
pub(crate) fn is_slot_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// A whole number in plain digits; `parse` alone would also take `+5`.
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
    fn the_environment_is_filled_in_and_nothing_else() {
        let value = |name: &str| (name == "TOKEN").then(|| "a{b}".to_owned());
        for (text, filled) in [
            ("Bearer {env:TOKEN}/{seq}", "Bearer a{{b}}/{seq}"),
            ("{{env:TOKEN}} {env:OTHER}", "{{env:TOKEN}} {env:OTHER}"),
            ("{env:TOKEN}{env:TOKEN}", "a{{b}}a{{b}}"),
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
