//! What stands between a template's braces. It must not know where the template stands in a file.

use super::{Arithmetic, BYTES_MAX, Part, TemplateError};

/// Reads the inside of `{…}`, which begins at byte `at` of the template.
pub(super) fn parse(inside: &str, at: usize) -> Result<Part, TemplateError> {
    let word = Word { text: inside, at };
    if inside.trim_start().starts_with('"') {
        return Err(Word { text: "{", at: at - 1 }.wrong("this `{` begins no placeholder", JSON));
    }
    if let Some((kind, argument)) = inside.split_once(':') {
        let argument = Word { text: argument, at: at + kind.len() + 1 };
        return match kind {
            "bytes" => bytes(argument),
            "uniform" => range(argument).map(|(from, to)| Part::Uniform { from, to }),
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

fn bytes(count: Word<'_>) -> Result<Part, TemplateError> {
    match count.text.parse() {
        Ok(count @ 1..=BYTES_MAX) => Ok(Part::Bytes(count)),
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

fn zipf(text: Word<'_>) -> Result<Part, TemplateError> {
    let (bounds, exponent) = text.text.split_once(':').unwrap_or((text.text, "1"));
    let (from, to) = range(Word { text: bounds, at: text.at })?;
    match exponent.parse::<f64>() {
        Ok(exponent) if exponent.is_finite() && exponent > 0.0 => Ok(Part::Zipf { from, to, exponent }),
        _ => Err(Word { text: exponent, at: text.at + bounds.len() + 1 }
            .wrong("not an exponent", "the exponent is a number above 0, such as {zipf:1..1000:1.2}")),
    }
}

fn env(name: Word<'_>) -> Result<Part, TemplateError> {
    if is_function_name(name.text) {
        Ok(Part::Env(name.text.to_owned()))
    } else {
        Err(name.wrong("not the name of an environment variable", "letters, digits and `_`, such as {env:PASSWORD}"))
    }
}

fn feed(word: Word<'_>) -> Result<Part, TemplateError> {
    let names = word.text.strip_prefix("feed.").and_then(|names| names.split_once('.'));
    match names {
        Some((feed, column)) if !feed.is_empty() && !column.is_empty() => {
            Ok(Part::Feed { feed: feed.to_owned(), column: column.to_owned() })
        }
        _ => Err(word.wrong("which feed and which column?", "write {feed.NAME.COLUMN}")),
    }
}

fn script(word: Word<'_>) -> Result<Part, TemplateError> {
    let name = word.text.strip_prefix("lua.").unwrap_or_default();
    if is_function_name(name) {
        return Ok(Part::Script(name.to_owned()));
    }
    Err(word.wrong("which function of the script?", "write {lua.NAME}: letters, digits and `_`"))
}

/// Whether a function of a script may have this name.
pub(crate) fn is_function_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `agent` or `seq`, perhaps with arithmetic, or else a slot.
fn counter(word: Word<'_>) -> Result<Part, TemplateError> {
    let name_length = word.text.find(['+', '-', '%']).unwrap_or(word.text.len());
    let (name, operation) = word.text.split_at(name_length);
    let part: fn(Arithmetic) -> Part = match name {
        "agent" => Part::Agent,
        "seq" => Part::Seq,
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

fn slot(word: Word<'_>, operation: &str) -> Result<Part, TemplateError> {
    if is_slot_name(word.text) {
        return Ok(Part::Slot(word.text.to_owned()));
    }
    if !operation.is_empty() {
        return Err(word.wrong("arithmetic works on `agent` and `seq` only", "write {seq+1}, {seq-20} or {seq%100}"));
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
