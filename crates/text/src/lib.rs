//! Text formatting in pure functions: numbers with units, lists in a sentence, lines and columns
//! for a terminal, and values in JSON, TOML and OpenMetrics.

pub mod numbers;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// The judgement that a text expresses. It selects the text's colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// A desired result.
    Good,
    /// Unclear.
    Doubtful,
    /// An undesired result.
    Bad,
    /// Irrelevant: nothing was measured, or the trial is void.
    Muted,
}

/// Joins items as in a sentence: `a, b and c`.
#[must_use]
pub fn listed(items: &[String], conjunction: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Percent-encodes all bytes except those that `is_kept` (RFC 3986, section 2.1).
#[must_use]
pub fn percent_encoded(text: &str, is_kept: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii() && is_kept(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Whether a byte means itself everywhere in a URL (RFC 3986, section 2.3).
#[must_use]
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns each item once, in the order of first occurrence.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().fold(Vec::new(), |mut known, item| {
        if !known.contains(&item) {
            known.push(item);
        }
        known
    })
}

/// Marks a name from an experiment with backquotes. Each output format renders the marks in its own
/// way.
#[must_use]
pub fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// Makes the first character a capital letter.
#[must_use]
pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Adds a full stop if the text has no final punctuation.
#[must_use]
pub fn stopped(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Writes a JSON value; a string without its quotes.
#[must_use]
pub fn of_json(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Replaces characters that OpenMetrics does not allow in names of metrics and labels.
#[must_use]
pub fn metric_name(name: &str) -> String {
    name.chars().map(|one| if one.is_ascii_alphanumeric() || one == '_' { one } else { '_' }).collect()
}

/// Writes an OpenMetrics label, followed by a comma.
#[must_use]
pub fn metric_label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{}=\"{value}\",", metric_name(name))
}

/// Writes a TOML basic string on one line.
#[must_use]
pub fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                // Writing into a String does not fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Replaces control characters by blanks, so that a target's output cannot control the terminal.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Replaces characters that change the text's direction by texts such as `[U+202E]`, so that the
/// letters appear in the order in which they were written.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_bidi) {
        return text.into();
    }
    let shown = text.chars().map(|c| if is_bidi(c) { format!("[U+{:04X}]", u32::from(c)) } else { c.to_string() });
    shown.collect::<String>().into()
}

/// Makes untrusted text safe to print on a terminal: replaces control characters, and characters
/// that change the text's direction. Line ends and tabs stay.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_command = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let text = visible(text);
    if text.contains(is_command) { text.replace(is_command, "\u{fffd}").into() } else { text }
}

/// Makes untrusted text safe to print on a terminal and keeps its length in bytes, so that byte
/// offsets in the text stay valid.
#[must_use]
pub fn plain_in_place(text: &str) -> Cow<'_, str> {
    let is_command =
        |character: char| is_bidi(character) || character.is_control() && !matches!(character, '\n' | '\t' | '\r');
    if !text.contains(is_command) {
        return text.into();
    }
    let shown = text.chars().map(|character| match character.len_utf8() {
        _ if !is_command(character) => character,
        1 => '?',
        2 => '\u{bf}',
        _ => '\u{fffd}',
    });
    shown.collect::<String>().into()
}

/// Whether the character changes the direction of the text around it (Unicode Bidirectional
/// Algorithm, UAX 9).
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the number of terminal columns that the text needs.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Wraps a text into lines of at most `most` characters, between words if possible. A word longer
/// than `most` is cut.
#[must_use]
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let words = text.split_whitespace().map(|word| word.chars().collect::<Vec<char>>());
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words {
        if used > 0 && used + 1 + word.len() > most {
            lines.push(String::new());
            used = 0;
        }
        let gap = if used > 0 { " " } else { "" };
        for (index, part) in word.chunks(most).enumerate() {
            if index > 0 {
                lines.push(String::new());
            }
            let line = lines.last_mut().map(|line| {
                line.push_str(if index == 0 { gap } else { "" });
                line.extend(part);
                width(line)
            });
            used = line.unwrap_or(0);
        }
    }
    lines
}

/// Wraps a text to `most` columns with a hanging indent: the first line begins with `first`, the
/// others with `rest`. Returns an empty string if there is no text.
#[must_use]
pub fn hanging(text: &str, first: &str, rest: &str, most: usize) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let wrapped = wrapped(&without_controls(text), most - width(first).max(width(rest)));
    let lines = wrapped.iter().enumerate().map(|(index, line)| {
        let indent = if index == 0 { first } else { rest };
        format!("{indent}{line}").trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Formats rows as lines with aligned columns, two spaces apart. Leaves out a column that is empty
/// in all rows.
#[must_use]
pub fn aligned<R: AsRef<[String]>>(rows: &[R]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.as_ref().len()), 0);
        for (widest, cell) in widths.iter_mut().zip(row.as_ref()) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(metric_label("a.b", "\"1\\2\"\n"), r#"a_b="\"1\\2\"\n","#);
    }

    #[test]
    fn lists_read_as_in_a_sentence() {
        let of = |items: &[&str]| listed(&owned(items), "and");
        assert_eq!([of(&[]), of(&["a"]), of(&["a", "b"]), of(&["a", "b", "c"])], ["", "a", "a and b", "a, b and c"]);
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
    }

    #[test]
    fn text_is_wrapped_and_only_long_words_are_cut() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a abcdefgh i", 3), ["a", "abc", "def", "gh", "i"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(hanging("one two\u{7} three", "- ", "  ", 9), "- one two\n  three\n");
        assert_eq!(hanging(" ", "- ", "  ", 9), "");
    }

    #[test]
    fn columns_are_aligned_and_empty_columns_left_out() {
        let rows = [owned(&["n1", "", "1 core"]), owned(&["n10", "", "2"])];
        assert_eq!(aligned(&rows), ["n1   1 core", "n10  2"]);
    }

    #[test]
    fn a_toml_string_is_one_line() {
        assert_eq!(toml_string("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
    }

    #[test]
    fn text_direction_characters_are_made_visible() {
        assert_eq!(visible("ok\u{202e}drow\u{2066}"), "ok[U+202E]drow[U+2066]");
        assert_eq!(visible("\u{5e9}\u{5dc}\u{5d5}\u{5dd}"), "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "letters are letters");
    }
}
