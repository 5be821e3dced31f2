//! The TOML parser's errors in the words of someone who wanted to write a file, and which part of the text to leave
//! out to go on reading. It must not read values.

use std::ops::Range;
use std::sync::Arc;

use toml::de::Error;

use crate::problem::Problem;
use crate::source::Source;
use crate::tree::Place;

const TWICE: &str = "written twice";

pub(super) fn is_duplicate(error: &Error) -> bool {
    error.message().starts_with("duplicate key")
}

pub(super) fn says_duplicate(problem: &Problem) -> bool {
    problem.expected == TWICE
}

pub(super) fn duplicate(source: &Arc<Source>, error: &Error) -> Problem {
    let place = Place::new(source, 0, error.span().unwrap_or_default());
    let problem = Problem::new(&place, format!("`{}` is written twice", place.text())).expected(TWICE);
    if is_heading(source, error) {
        problem
            .hint("put both together; only a section that may occur several times, such as [[fault]], is written again")
    } else {
        problem.hint("keep one of them")
    }
}

/// Whether what is written twice is a section.
pub(super) fn is_heading(source: &Source, error: &Error) -> bool {
    let line = line_around(&source.text, error.span().unwrap_or_default().start);
    source.text[line].trim_start().starts_with('[')
}

/// The section that a heading written twice opens: its keys may well be there twice too.
pub(super) fn section_of(source: &Source, error: &Error) -> Range<usize> {
    section(&source.text, error.span().unwrap_or_default().start)
}

/// What is wrong, and the bytes to leave out.
pub(super) fn explain(source: &Arc<Source>, text: &str, error: &Error) -> (Problem, Range<usize>) {
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
    let whole = Place::new(source, 0, line.start + indent..line.start + indent + written.len());
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

/// The parser's own words.
fn as_told(source: &Arc<Source>, message: &str, span: Range<usize>, line: &Range<usize>) -> Problem {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    // An empty span is widened to something that can be seen.
    let place = Place::new(source, 0, if span.is_empty() { span.start..(span.start + 1).min(line.end) } else { span });
    let expected = if expected.is_empty() { "not TOML".to_owned() } else { format!("expected {expected}") };
    Problem::new(&place, format!("this is not TOML: {what}")).expected(expected)
}

/// A text whose closing quote is missing.
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
    let place = Place::new(source, 0, start..line.start + text[line.clone()].trim_end().len());
    let problem = Problem::new(&place, "this text is never closed").expected(format!("a closing {quote} is missing"));
    Some((problem, line))
}

/// Where, in the line that ends at `at`, the quote was opened that is still open there.
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

/// A list or an inline table that goes on over the following lines because its closing bracket is missing.
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
        let place = Place::new(source, 0, from..from + value.trim().len());
        let (name, closer) = if opener == '[' { ("list", "`]`") } else { ("table", "`}`") };
        let problem = Problem::new(&place, format!("this {name} is never closed"))
            .expected(format!("a closing {closer} is missing"));
        return Some((problem, line.start..error_line.start));
    }
    None
}

/// A word or a number with a unit that should have been in quotes, or nothing at all.
fn unquoted(source: &Arc<Source>, text: &str, line: &Range<usize>) -> Option<Problem> {
    let statement = text[line.clone()].split('#').next()?;
    let (key, value) = statement.split_once('=')?;
    let key = key.trim();
    if value.trim().is_empty() {
        let place = Place::new(source, 0, line.start..line.start + statement.trim_end().len());
        return Some(Problem::new(&place, format!("`{key}` has no value")).expected("nothing after the `=`"));
    }
    let bare = value.trim();
    let from = line.start + statement.len() - value.trim_start().len();
    if bare.contains(['"', '\'', '[', ']', '{', '}', '=', ',']) {
        return None;
    }
    let place = Place::new(source, 0, from..from + bare.len());
    let what = if crate::duration::parse_s(bare).is_ok() {
        "a duration is written in quotes"
    } else {
        "a text is written in quotes"
    };
    Some(Problem::new(&place, what).expected(format!("write \"{bare}\"")))
}

/// From a broken section name up to the next section: its keys belong nowhere.
fn section(text: &str, start: usize) -> Range<usize> {
    let first = line_around(text, start);
    let next = text[first.end..].find("\n[").map_or(text.len(), |found| first.end + found + 1);
    start..next
}

/// The line that `at` is in, without its line break. At a line break: the line it ends.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    start..end
}
