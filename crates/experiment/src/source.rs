//! Parser of TOML texts. Returns a tree of values with their places, and reports all syntax errors
//! at once, in terms that the file's author understands.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::problem::Problem;
use crate::tree::{Node, TableEntry, TextSpan, TomlTable, TomlValue};

/// A text to read, such as an experiment file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name in error messages; for a file, its path as the user gave it.
    pub name: String,
    pub text: String,
}

/// Maximum number of syntax errors in one report.
const ERRORS_MAX: usize = 50;

/// Reads a text. Each statement that is not valid TOML is reported and left out; the table has the
/// rest.
///
/// The parser's own recovery may lose the rest of a file after one mistake, or report a mistake
/// again for every following line. So this function takes the first error, replaces its statement
/// by blanks, which keeps all positions, and reads the text again.
pub(crate) fn parse(source: &Arc<Source>) -> (TomlTable, Vec<Problem>) {
    let mut text = source.text.clone();
    let mut problems = Vec::new();
    loop {
        let (document, mut errors) = DeTable::parse_recoverable(&text);
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        problems.extend(duplicates(source, &errors));
        let first = errors.iter().find(|error| !is_duplicate(error));
        let Some(first) = first.filter(|_| problems.len() < ERRORS_MAX) else {
            return (table(source, 0, 0, document.get_ref()), problems);
        };
        let (problem, statement) = explain(source, &text, first);
        problems.retain(|known| !says_duplicate(known));
        problems.push(problem);
        let blanked = blank(&text, statement);
        if blanked == text {
            return (table(source, 0, 0, document.get_ref()), problems);
        }
        text = blanked;
    }
}

/// Reports duplicates. For a duplicate section, it reports only the heading.
fn duplicates(source: &Arc<Source>, errors: &[Error]) -> Vec<Problem> {
    let twice: Vec<_> = errors.iter().filter(|error| is_duplicate(error)).collect();
    let (headings, keys): (Vec<_>, Vec<_>) = twice.into_iter().partition(|error| is_heading(source, error));
    // `headings` and `keys` are in the order of the text. Each section ends at the next heading.
    let sections: Vec<_> = headings.iter().map(|heading| section_of(source, heading)).collect();
    let inside = |error: &&Error| {
        let at = error.span().unwrap_or_default().start;
        let begun = sections.partition_point(|section| section.start <= at);
        sections[..begun].last().is_some_and(|section| section.contains(&at))
    };
    let keys = keys.into_iter().filter(|error| !inside(error));
    headings.iter().copied().chain(keys).map(|error| duplicate(source, error)).collect()
}

/// Reads the value of a `--set`, which begins at byte `at` of the source. A value that is not TOML
/// is a text.
pub(crate) fn parse_value(source: &Arc<Source>, rank: usize, at: usize) -> Node {
    let text = source.text.get(at..).unwrap_or_default();
    match DeValue::parse(text) {
        Ok(value) => node(source, rank, at, &value),
        Err(_) => {
            Node { place: TextSpan::new(source, rank, at..source.text.len()), value: TomlValue::Text(text.to_owned()) }
        }
    }
}

/// Replaces every byte in `range` by a blank, except line breaks.
fn blank(text: &str, range: Range<usize>) -> String {
    let kept = |byte: u8| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' };
    let middle: String = text[range.clone()].bytes().map(kept).collect();
    [&text[..range.start], &middle, &text[range.end..]].concat()
}

fn table(source: &Arc<Source>, rank: usize, base: usize, table: &DeTable<'_>) -> TomlTable {
    let mut entries = Vec::new();
    for (key, value) in table {
        entries.push(TableEntry {
            key: key.get_ref().to_string(),
            key_place: TextSpan::new(source, rank, base + key.span().start..base + key.span().end),
            node: node(source, rank, base, value),
        });
    }
    TomlTable { entries }
}

fn node(source: &Arc<Source>, rank: usize, base: usize, spanned: &Spanned<DeValue<'_>>) -> Node {
    let place = TextSpan::new(source, rank, base + spanned.span().start..base + spanned.span().end);
    let value = match spanned.get_ref() {
        DeValue::String(text) => TomlValue::Text(text.to_string()),
        DeValue::Integer(whole) => TomlValue::Whole(i64::from_str_radix(whole.as_str(), whole.radix()).ok()),
        DeValue::Float(decimal) => TomlValue::Decimal(decimal.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => TomlValue::Boolean(*boolean),
        DeValue::Datetime(_) => TomlValue::Date,
        DeValue::Array(list) => TomlValue::List(list.iter().map(|item| node(source, rank, base, item)).collect()),
        DeValue::Table(entries) => TomlValue::Table(table(source, rank, base, entries)),
    };
    Node { place, value }
}

const TWICE: &str = "written twice";

fn is_duplicate(error: &Error) -> bool {
    error.message().starts_with("duplicate key")
}

fn says_duplicate(problem: &Problem) -> bool {
    problem.expected == TWICE
}

fn duplicate(source: &Arc<Source>, error: &Error) -> Problem {
    let place = TextSpan::new(source, 0, error.span().unwrap_or_default());
    let problem = Problem::new(&place, format!("`{}` is written twice", place.text())).expected(TWICE);
    if is_heading(source, error) {
        problem
            .hint("put both together; only a section that may occur several times, such as [[fault]], is written again")
    } else {
        problem.hint("keep one of them")
    }
}

/// Whether the duplicate is a section's heading.
fn is_heading(source: &Source, error: &Error) -> bool {
    let line = line_around(&source.text, error.span().unwrap_or_default().start);
    source.text[line].trim_start().starts_with('[')
}

/// Returns the byte range of a duplicate section. Keys in it may be duplicates too.
fn section_of(source: &Source, error: &Error) -> Range<usize> {
    section(&source.text, error.span().unwrap_or_default().start)
}

/// Returns the problem that a syntax error means, and the byte range to leave out.
fn explain(source: &Arc<Source>, text: &str, error: &Error) -> (Problem, Range<usize>) {
    let span = error.span().unwrap_or_default();
    let at = span.start.min(text.len());
    let line = line_around(text, at);
    let message = error.message();
    if let Some(found) = unclosed_text(source, text, message, at) {
        return found;
    }
    let in_brackets = ["array", "inline table", "key-value pairs"].iter().any(|words| message.contains(words));
    if let Some(found) = in_brackets.then(|| unclosed_bracket(source, text, at)).flatten() {
        return found;
    }
    let written = text[line.clone()].trim();
    let indent = text[line.clone()].len() - text[line.clone()].trim_start().len();
    let whole = TextSpan::new(source, 0, line.start + indent..line.start + indent + written.len());
    if written.starts_with('[') && (message.starts_with("unclosed") || message.contains("table")) {
        let problem = Problem::new(&whole, "this section's name is never closed")
            .expected("a `]` is missing")
            .hint("write [load], or [[fault]] for a section that may occur several times");
        return (problem, section(text, line.start));
    }
    if message.starts_with("key with no value") && !written.is_empty() {
        let problem = Problem::new(&whole, "this is not `key = value`")
            .expected("no `=` found")
            .hint("a comment begins with `#`");
        return (problem, line);
    }
    if let Some(problem) = unquoted(source, text, &line) {
        return (problem, line);
    }
    (as_told(source, message, span, &line), line)
}

/// Returns a problem with the parser's own message.
fn as_told(source: &Arc<Source>, message: &str, span: Range<usize>, line: &Range<usize>) -> Problem {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    // An empty span is widened so that it is visible.
    let place =
        TextSpan::new(source, 0, if span.is_empty() { span.start..(span.start + 1).min(line.end) } else { span });
    let expected = if expected.is_empty() { "not TOML".to_owned() } else { format!("expected {expected}") };
    Problem::new(&place, format!("this is not TOML: {what}")).expected(expected)
}

/// Reports a text whose closing quote is missing.
fn unclosed_text(source: &Arc<Source>, text: &str, message: &str, at: usize) -> Option<(Problem, Range<usize>)> {
    let quote = match message.split_once(", expected ")? {
        ("invalid multi-line basic string", "`\"`") => "\"\"\"",
        ("invalid multi-line literal string", "`'`") => "'''",
        ("invalid basic string", "`\"`") => "\"",
        ("invalid literal string", "`'`") => "'",
        _ => return None,
    };
    let start = if quote.len() == 3 { text[..at].rfind(quote)? } else { open_quote(text, at, quote)? };
    let line = line_around(text, start);
    let place = TextSpan::new(source, 0, start..line.start + text[line.clone()].trim_end().len());
    let problem = Problem::new(&place, "this text is never closed").expected(format!("a closing {quote} is missing"));
    Some((problem, line))
}

/// Returns the position of the quote that is still open at `at`, in the same line.
fn open_quote(text: &str, at: usize, quote: &str) -> Option<usize> {
    let line = line_around(text, at);
    let mut open: Option<(usize, char)> = None;
    let mut escaped = false;
    for (offset, character) in text[line.start..at].char_indices() {
        match open {
            Some((_, '"')) if escaped => escaped = false,
            Some((_, '"')) if character == '\\' => escaped = true,
            Some((_, by)) if character == by => open = None,
            Some(_) => {}
            None if character == '"' || character == '\'' => open = Some((line.start + offset, character)),
            None => {}
        }
    }
    open.map(|(start, _)| start).or_else(|| text[line.start..at].find(quote).map(|found| line.start + found))
}

/// Reports a list or an inline table that continues over later lines because its closing bracket is
/// missing.
fn unclosed_bracket(source: &Arc<Source>, text: &str, at: usize) -> Option<(Problem, Range<usize>)> {
    let error_line = line_around(text, at);
    let mut start = error_line.start;
    while start > 0 {
        let line = line_around(text, start - 1);
        start = line.start;
        let statement = text[line.clone()].split('#').next().unwrap_or_default();
        let Some((_, value)) = statement.split_once('=') else { continue };
        let opener = value.trim_start().chars().next().filter(|first| matches!(first, '[' | '{'))?;
        let from = line.start + statement.len() - value.trim_start().len();
        let place = TextSpan::new(source, 0, from..from + value.trim().len());
        let (name, closer) = if opener == '[' { ("list", "`]`") } else { ("table", "`}`") };
        let problem = Problem::new(&place, format!("this {name} is never closed"))
            .expected(format!("a closing {closer} is missing"));
        return Some((problem, line.start..error_line.start));
    }
    None
}

/// Reports an unquoted word, an unquoted number with a unit, or a missing value.
fn unquoted(source: &Arc<Source>, text: &str, line: &Range<usize>) -> Option<Problem> {
    let statement = text[line.clone()].split('#').next()?;
    let (key, value) = statement.split_once('=')?;
    let key = key.trim();
    if value.trim().is_empty() {
        let place = TextSpan::new(source, 0, line.start..line.start + statement.trim_end().len());
        return Some(Problem::new(&place, format!("`{key}` has no value")).expected("nothing after the `=`"));
    }
    let bare = value.trim();
    let from = line.start + statement.len() - value.trim_start().len();
    if bare.contains(['"', '\'', '[', ']', '{', '}', '=', ',']) {
        return None;
    }
    let place = TextSpan::new(source, 0, from..from + bare.len());
    let what = if crate::duration::parse_s(bare).is_ok() {
        "a duration is written in quotes"
    } else {
        "a text is written in quotes"
    };
    Some(Problem::new(&place, what).expected(format!("write \"{bare}\"")))
}

/// Returns the byte range from a broken heading to the next section. Keys in it belong to no
/// section.
fn section(text: &str, start: usize) -> Range<usize> {
    let first = line_around(text, start);
    let next = text[first.end..].find("\n[").map_or(text.len(), |found| first.end + found + 1);
    start..next
}

/// Returns the byte range of the line that contains `at`, without its line break. A line break
/// belongs to the line that it ends.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    start..end
}

/// Returns, for each byte of `decoded` and for its end, the position in `raw`, which includes the
/// quotes. Empty if `raw` is not a quoted form of `decoded`.
pub(crate) fn offsets(raw: &str, decoded: &str) -> Vec<usize> {
    let (quote, escapes) = opening(raw);
    let mut at = quote;
    // A line break right after an opening triple quote is not part of the text.
    if quote == 3 {
        at += ["\r\n", "\n"].iter().find(|newline| raw[at..].starts_with(**newline)).map_or(0, |newline| newline.len());
    }
    let mut offsets = Vec::with_capacity(decoded.len() + 1);
    for character in decoded.chars() {
        if escapes && raw[at..].starts_with('\\') {
            at = past_folded_lines(raw, at);
        }
        let Some(rest) = raw.get(at..) else { return Vec::new() };
        let width = if escapes && rest.starts_with('\\') { escape_width(rest) } else { character.len_utf8() };
        offsets.extend((0..character.len_utf8()).map(|byte| at + byte.min(width - 1)));
        at += width;
        if at > raw.len() || !raw.is_char_boundary(at) {
            return Vec::new();
        }
    }
    offsets.push(at);
    offsets
}

/// Returns the length of the opening quote, and whether backslashes are escapes.
fn opening(raw: &str) -> (usize, bool) {
    for (quote, width, escapes) in [("\"\"\"", 3, true), ("'''", 3, false), ("\"", 1, true), ("'", 1, false)] {
        if raw.starts_with(quote) {
            return (width, escapes);
        }
    }
    (0, false)
}

/// Skips a backslash at the end of a line, the line break, and the blanks that follow.
fn past_folded_lines(raw: &str, mut at: usize) -> usize {
    while let Some(rest) = raw[at..].strip_prefix('\\') {
        let blank = rest.len() - rest.trim_start().len();
        if !rest[..blank].contains('\n') {
            break;
        }
        at += 1 + blank;
    }
    at
}

fn escape_width(rest: &str) -> usize {
    match rest.as_bytes().get(1) {
        Some(b'x') => 4,
        Some(b'u') => 6,
        Some(b'U') => 10,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{offsets, parse};
    use crate::source::Source;

    fn problems(text: &str) -> (Vec<String>, Vec<String>) {
        let source = Arc::new(Source { name: "f".to_owned(), text: text.to_owned() });
        let (table, problems) = parse(&source);
        let told = problems.iter().map(|problem| {
            let (line, column) = problem.place.line_and_column();
            format!("{line}:{column} {} `{}`", problem.what, problem.place.text())
        });
        (told.collect(), table.entries.into_iter().map(|entry| entry.key).collect())
    }

    #[test]
    fn parsing_continues_after_each_mistake() {
        let text = "title = \"abc\nagents = \nfoo = = 3\n[load\nx = 1\n[a]\ntime = 30s\nb = [1, 2\nc = 3\n\
        d = \"\"\"never\n[[fault]]\nname = 'x\nsome words\n[b]\n";
        let (told, keys) = problems(text);
        assert_eq!(
            told,
            [
                "1:9 this text is never closed `\"abc`",
                "2:1 `agents` has no value `agents =`",
                "3:7 this is not TOML: extra `=` `=`",
                "4:1 this section's name is never closed `[load`",
                "7:8 a duration is written in quotes `30s`",
                "8:5 this list is never closed `[1, 2`",
                "10:5 this text is never closed `\"\"\"never`",
                "12:8 this text is never closed `'x`",
                "13:1 this is not `key = value` `some words`",
            ]
        );
        assert_eq!(keys, ["a", "fault", "b"]);
    }

    #[test]
    fn duplicate_keys_are_reported() {
        let (told, keys) = problems("a = 1\na = 2\n[b]\nc = 1\n[b]\nc = 1\n[c]\nbad\n");
        assert_eq!(
            told,
            ["8:1 this is not `key = value` `bad`", "5:2 `b` is written twice `b`", "2:1 `a` is written twice `a`"]
        );
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn offsets_skip_escapes_and_quotes() {
        assert_eq!(offsets(r#""a\tb""#, "a\tb"), [1, 2, 4, 5]);
        assert_eq!(offsets(r#""\u00e9x""#, "éx"), [1, 2, 7, 8]);
        assert_eq!(offsets("'a\\b'", "a\\b"), [1, 2, 3, 4]);
        assert_eq!(offsets("\"\"\"\nab\"\"\"", "ab"), [4, 5, 6]);
        assert_eq!(offsets("\"\"\"a\\\n   b\"\"\"", "ab"), [3, 9, 10]);
        assert_eq!(offsets("30s", "30s"), [0, 1, 2, 3]);
        assert!(offsets("\"a\"", "abcdef").is_empty());
    }
}
