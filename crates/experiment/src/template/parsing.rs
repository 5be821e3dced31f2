//! Parsing of `{…}` placeholders in templates.

use super::filters::filters;
use super::{
    Arithmetic, BYTES_MAX, DECIMALS_MAX, PAD_MAX, RangeBound, Template, TemplateError, TemplatePart, TimeFormat,
};

/// Maximum nesting depth of placeholders. The parser is recursive.
const DEPTH_MAX: usize = 4;

pub(super) fn push_text(parts: &mut Vec<TemplatePart>, text: &mut String) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(std::mem::take(text)));
    }
}

/// Reads the placeholder whose brace opens at byte `at`. Also returns the position after its
/// closing brace. `depth` is the number of placeholders around it.
pub(super) fn placeholder(text: &str, at: usize, depth: usize) -> Result<(TemplatePart, usize), TemplateError> {
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
    if let Some(from) = holds("text:") {
        let (value, filters) = value_text(text, from)?;
        return filtered(TemplatePart::Value(value), text, at, filters);
    }
    if let Some(from) = holds("file:") {
        let (name, filters) = value_text(text, from)?;
        if name.is_empty() {
            return Err(
                Word { text: &inside[..from - at - 1], at: at + 1 }.wrong("the name of the file is missing", FILE)
            );
        }
        return filtered(TemplatePart::File(name), text, at, filters);
    }
    let closed = inside.find('}').ok_or_else(|| unclosed(at, text.len()))?;
    let length = inside[..closed].find('|').unwrap_or(closed);
    filtered(parse_placeholder(&inside[..length], at + 1)?, text, at, at + 1 + length)
}

/// Reads the constant of `{text:…}` from byte `from`. Also returns the position of the filters, or
/// of the closing brace.
pub(super) fn value_text(text: &str, from: usize) -> Result<(String, usize), TemplateError> {
    let mut value = String::new();
    let mut rest = from;
    while let Some(found) = text[rest..].find(['{', '}', '|', '\\']) {
        let at = rest + found;
        value.push_str(&text[rest..at]);
        let after = text[at + 1..].chars().next();
        match (&text[at..=at], after) {
            ("}" | "|", _) => return Ok((value, at)),
            ("\\", Some(escaped @ ('{' | '}' | '|' | '\\'))) => {
                value.push(escaped);
                rest = at + 2;
            }
            ("{", _) => return Err(Word { text: "{", at }.wrong("this brace is inside a text", ESCAPES)),
            _ => return Err(Word { text: "\\", at }.wrong("this backslash has nothing to escape", ESCAPES)),
        }
    }
    Err(unclosed(from, text.len()))
}

/// Reads the filters of a placeholder from byte `from`, and the closing brace. The placeholder
/// begins at byte `at`. Also returns the position after the brace.
fn filtered(of: TemplatePart, text: &str, at: usize, from: usize) -> Result<(TemplatePart, usize), TemplateError> {
    let (filters, end) = filters(text, from)?;
    if !text[end..].starts_with('}') {
        return Err(unclosed(at, text.len()));
    }
    let is_plain = filters.is_empty();
    Ok((if is_plain { of } else { TemplatePart::Filtered { of: Box::new(of), filters } }, end + 1))
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
                    "this is a literal text here, not a placeholder",
                    "write placeholders in braces, such as {seq}",
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

pub(super) fn unopened(at: usize) -> TemplateError {
    TemplateError {
        at: at..at + 1,
        what: "this `}` has no opening brace".to_owned(),
        hint: "write a literal brace twice: `}}`".to_owned(),
    }
}

fn unclosed(at: usize, end: usize) -> TemplateError {
    TemplateError {
        at: at..end,
        what: "this `{` is never closed".to_owned(),
        hint: "close it with `}`; write a literal brace twice: `{{`".to_owned(),
    }
}

/// Reads the inside of `{…}`, which begins at byte `at` of the template.
pub(super) fn parse_placeholder(inside: &str, at: usize) -> Result<TemplatePart, TemplateError> {
    let word = Word { text: inside, at };
    if inside.trim_start().starts_with('"') {
        return Err(Word { text: "{", at: at - 1 }.wrong("this `{` begins no placeholder", JSON));
    }
    if TimeFormat::is_it(inside) {
        return TimeFormat::parse(word).map(TemplatePart::Now);
    }
    if let Some((kind, argument)) = inside.split_once(':') {
        let argument = Word { text: argument, at: at + kind.len() + 1 };
        return match kind {
            "bytes" => bytes(argument).map(TemplatePart::Bytes),
            "counter" => shared_counter(argument),
            "random_bytes" => bytes(argument).map(TemplatePart::RandomBytes),
            "uniform" => uniform(argument),
            "choice" => choice(argument),
            "zipf" => zipf(argument),
            "env" => env(argument),
            _ if !kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                Err(word.wrong("not a placeholder", BRACES))
            }
            _ => Err(Word { text: kind, at }.wrong(
                format!("there is no `{{{kind}:…}}`"),
                "placeholders with a colon are {bytes:100}, {random_bytes:100}, {counter:orders}, {uniform:1..1000}, {choice:a,b}, {zipf:1..1000}, {now:%Y-%m-%d}, {file:photo.jpg}, {env:NAME}, {text:…}, {base64:…} and {pad:8:…}",
            )),
        };
    }
    match inside {
        "" => Err(Word { text: "{}", at: at - 1 }.wrong("nothing between the braces", NUMBERS)),
        "bytes" => Err(word.wrong("the number of bytes is missing", "write {bytes:100}")),
        "random_bytes" => Err(word.wrong("the number of bytes is missing", "write {random_bytes:100}")),
        "file" => Err(word.wrong("the name of the file is missing", FILE)),
        "uniform" | "zipf" => Err(word.wrong("the range is missing", "write {uniform:1..1000} or {zipf:1..1000}")),
        "uuid" => Ok(TemplatePart::Uuid),
        "choice" => Err(word.wrong("which texts are there to choose from?", "write {choice:red,green,blue}")),
        "env" => Err(word.wrong("the name of the variable is missing", "write {env:NAME}")),
        _ if inside == "feed" || inside.starts_with("feed.") => feed(word),
        _ if inside.starts_with("lua.") => script(word),
        _ => counter(word),
    }
}

const FILE: &str = "write {file:photo.jpg}: a file, relative to the experiment";

const BRACES: &str = "write literal braces twice: `{{` and `}}`";

const ESCAPES: &str = r"inside a placeholder, braces and backslashes are written `\{`, `\}` and `\\`, and in {text:…} and {file:…} a bar `\|`";

const JSON: &str =
    r#"write literal braces twice, and a text that contains quotes in single quotes: '{{"party": "p-{agent}"}}'"#;

const NUMBERS: &str = "for example {agent}, {seq}, {bytes:100}, or the name of a slot that an earlier step keeps";

/// A piece of the template's text, and its byte offset.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl Word<'_> {
    pub(super) fn wrong(self, what: impl Into<String>, hint: &str) -> TemplateError {
        TemplateError { at: self.at..self.at + self.text.len(), what: what.into(), hint: hint.to_owned() }
    }
}

fn bytes(count: Word<'_>) -> Result<u32, TemplateError> {
    match count.text.parse() {
        Ok(count @ 1..=BYTES_MAX) => Ok(count),
        Ok(_) => Err(count.wrong(format!("the number of bytes is from 1 to {BYTES_MAX}"), "write {bytes:100}")),
        Err(_) => Err(count.wrong("not a number of bytes", "write {bytes:100}")),
    }
}

fn choice(text: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let texts: Vec<String> = text.text.split(',').map(str::to_owned).collect();
    if texts.len() < 2 {
        return Err(text.wrong("a choice needs two texts or more", "write {choice:red,green,blue}"));
    }
    Ok(TemplatePart::Choice(texts))
}

/// Reads the range of `{uniform:…}`: whole numbers, decimal numbers, or values of other
/// placeholders.
fn uniform(text: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let Some((from, to)) = text.text.split_once("..") else {
        return range(text).map(|(from, to)| TemplatePart::Uniform { from, to });
    };
    let is_named = |bound: &str| bound.starts_with(|first: char| first.is_ascii_lowercase());
    if is_named(from) || is_named(to) {
        let to = Word { text: to, at: text.at + from.len() + 2 };
        return Ok(TemplatePart::Between { from: bound(Word { text: from, at: text.at })?, to: bound(to)? });
    }
    if !text.text.contains('-') && !from.contains('.') && !to.contains('.') {
        return range(text).map(|(from, to)| TemplatePart::Uniform { from, to });
    }
    let decimals_of = |bound: &str| bound.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let decimals = decimals_of(from).max(decimals_of(to));
    let scaled = |bound: &str| scaled(bound, decimals);
    match (scaled(from), scaled(to)) {
        (Some(from), Some(to)) if from <= to => Ok(TemplatePart::Decimal { from, to, decimals: decimals as u8 }),
        (Some(_), Some(_)) => Err(text.wrong("this range is empty", DECIMAL)),
        _ => Err(text.wrong("not a range", DECIMAL)),
    }
}

const DECIMAL: &str = "write the smallest and the largest number, such as -0.5..1.25, with at most 9 decimals";

/// Returns the number times ten to the power of `decimals`.
fn scaled(bound: &str, decimals: usize) -> Option<i64> {
    let (sign, digits) = bound.strip_prefix('-').map_or((1, bound), |digits| (-1, digits));
    let (integer, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !integer.is_empty() && (digits.contains('.') != part.is_empty());
    if !is_number || decimals > usize::from(DECIMALS_MAX) {
        return None;
    }
    let all = whole(&format!("{integer}{part:0<decimals$}"))?;
    Some(sign * i64::try_from(all).ok()?)
}

/// Reads a bound of a range: a whole number, or a name with optional arithmetic.
fn bound(text: Word<'_>) -> Result<RangeBound, TemplateError> {
    const HINT: &str = "a bound is a whole number, or a name such as day, day+1 or day-1";
    if let Some(number) = whole(text.text).filter(|_| !text.text.is_empty()) {
        return Ok(RangeBound { of: None, arithmetic: Arithmetic::Plus(number) });
    }
    let length = text.text.find(['+', '-', '%']).unwrap_or(text.text.len());
    let (name, operation) = text.text.split_at(length);
    if !is_slot_name(name) {
        return Err(text.wrong("not a bound of a range", HINT));
    }
    let by = operation.get(1..).and_then(whole);
    let arithmetic = match (operation.get(..1), by) {
        (None | Some(""), _) => Arithmetic::Plain,
        (Some("+"), Some(by)) => Arithmetic::Plus(by),
        (Some("-"), Some(by)) => Arithmetic::Minus(by),
        (Some("%"), Some(by)) if by > 0 => Arithmetic::Modulo(by),
        _ => return Err(text.wrong("not a bound of a range", HINT)),
    };
    Ok(RangeBound { of: Some(Box::new(TemplatePart::Slot(name.to_owned()))), arithmetic })
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
        _ => Err(word.wrong("the feed and the column are missing", "write {feed.NAME.COLUMN}")),
    }
}

fn script(word: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let name = word.text.strip_prefix("lua.").unwrap_or_default();
    if is_function_name(name) {
        return Ok(TemplatePart::Script(name.to_owned()));
    }
    Err(word.wrong("the function's name is missing", "write {lua.NAME}: letters, digits and `_`"))
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
        "repeat" => TemplatePart::Repeat,
        "seq" => TemplatePart::Seq,
        "copy" => TemplatePart::Copy,
        _ => return slot(word, operation),
    };
    arithmetic(Word { text: operation, at: word.at + name_length }).map(part)
}

/// Reads the name of a counter that all agents share, with optional arithmetic.
fn shared_counter(word: Word<'_>) -> Result<TemplatePart, TemplateError> {
    let name_length = word.text.find(['+', '-', '%']).unwrap_or(word.text.len());
    let (name, operation) = word.text.split_at(name_length);
    if !is_slot_name(name) {
        let hint = "a small letter, then small letters, digits and `_`, such as {counter:orders}";
        return Err(word.wrong("not the name of a counter", hint));
    }
    let arithmetic = arithmetic(Word { text: operation, at: word.at + name_length })?;
    Ok(TemplatePart::Counter { name: name.to_owned(), arithmetic })
}

/// Reads arithmetic on a counter: nothing, `+1`, `-20` or `%100`.
fn arithmetic(operation: Word<'_>) -> Result<Arithmetic, TemplateError> {
    if operation.text.is_empty() {
        return Ok(Arithmetic::Plain);
    }
    let (sign, number) = operation.text.split_at(1);
    let arithmetic = match (sign, whole(number)) {
        ("+", Some(by)) => Arithmetic::Plus(by),
        ("-", Some(by)) => Arithmetic::Minus(by),
        ("%", Some(by)) if by > 0 => Arithmetic::Modulo(by),
        ("%", Some(_)) => return Err(operation.wrong("nothing can be divided by 0", "write {seq%100}")),
        _ => return Err(operation.wrong("not a whole number", "write {seq+1}, {seq-20} or {seq%100}")),
    };
    Ok(arithmetic)
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
            word.wrong("not a placeholder", "expected {seq}, {seq+1}, {seq-20} or {seq%100}, or the same with agent")
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
