//! Text for readers, in pure functions: numbers with their units, lists as in a sentence, lines and columns of a terminal, and values
//! as JSON, TOML and OpenMetrics write them.

pub mod numbers;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// How a text is meant; never by colour alone, the text says it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// As one would wish.
    Good,
    /// Unclear.
    Doubtful,
    /// Not as one would wish.
    Bad,
    /// Of no weight: nothing was measured, or the trial is void.
    Muted,
}

/// Items as in a sentence: `a, b and c`.
#[must_use]
pub fn listed(items: &[String], conjunction: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Each of them once, in the order in which they first come.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().fold(Vec::new(), |mut known, item| {
        if !known.contains(&item) {
            known.push(item);
        }
        known
    })
}

/// A name out of an experiment, marked as one. Whoever sets the text turns the marks into what is usual there.
#[must_use]
pub fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// With a capital at its beginning.
#[must_use]
pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// With a full stop at its end.
#[must_use]
pub fn stopped(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// A JSON value without the quotes of a text.
#[must_use]
pub fn of_json(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A name with the characters that names of metrics and labels may have in OpenMetrics.
#[must_use]
pub fn metric_name(name: &str) -> String {
    name.chars().map(|one| if one.is_ascii_alphanumeric() || one == '_' { one } else { '_' }).collect()
}

/// A label of OpenMetrics, with a comma behind it.
#[must_use]
pub fn metric_label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{}=\"{value}\",", metric_name(name))
}

/// A basic string of TOML, in one line.
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

/// Without control characters, which would let a target steer the terminal.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text whose letters stand in the order in which they were written: what would turn them round is shown instead.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_bidi) {
        return text.into();
    }
    let shown = |c: char| if is_bidi(c) { format!("[U+{:04X}]", u32::from(c)) } else { c.to_string() };
    text.chars().map(shown).collect::<String>().into()
}

/// A text of somebody else's that commands no terminal: what moves the cursor is replaced, and what would turn letters round is shown. Lines
/// and tabs stay.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_command = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let text = visible(text);
    if text.contains(is_command) { text.replace(is_command, "\u{fffd}").into() } else { text }
}

/// A text of as many bytes that commands no terminal, for places in it that are counted in bytes.
#[must_use]
pub fn plain_in_place(text: &str) -> Cow<'_, str> {
    let is_command =
        |character: char| is_bidi(character) || character.is_control() && !matches!(character, '\n' | '\t' | '\r');
    if !text.contains(is_command) {
        return text.into();
    }
    let shown = |character: char| match character.len_utf8() {
        _ if !is_command(character) => character,
        1 => '?',
        2 => '\u{bf}',
        _ => '\u{fffd}',
    };
    text.chars().map(shown).collect::<String>().into()
}

/// Whether the character changes the direction of those around it (Unicode Bidirectional Algorithm, UAX 9).
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How many columns of a terminal the text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `most` characters, broken between words where that is possible; a longer word is cut.
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

/// The text, wrapped: its first line begins with `first`, the others with `rest`, and none is wider than `most`. Empty if there is no text.
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

/// Rows with their columns aligned, two spaces apart; a column that is empty in all rows is left out.
#[must_use]
pub fn aligned<R: AsRef<[String]>>(rows: &[R]) -> Vec<String> {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let wide = |column: usize| rows.iter().filter_map(|row| row.as_ref().get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
    let line = |row: &R| {
        let cells = row.as_ref().iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn labels_hold_any_text() {
        assert_eq!(metric_label("a.b", "\"1\\2\"\n"), r#"a_b="\"1\\2\"\n","#);
    }

    #[test]
    fn lists_read_as_in_a_sentence() {
        let of = |items: &[&str]| listed(&owned(items), "and");
        assert_eq!([of(&[]), of(&["a"]), of(&["a", "b"]), of(&["a", "b", "c"])], ["", "a", "a and b", "a, b and c"]);
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
    }

    #[test]
    fn words_are_wrapped_and_only_long_ones_cut() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a abcdefgh i", 3), ["a", "abc", "def", "gh", "i"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(hanging("one two\u{7} three", "- ", "  ", 9), "- one two\n  three\n");
        assert_eq!(hanging(" ", "- ", "  ", 9), "");
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = [owned(&["n1", "", "1 core"]), owned(&["n10", "", "2"])];
        assert_eq!(aligned(&rows), ["n1   1 core", "n10  2"]);
    }

    #[test]
    fn a_toml_string_is_one_line() {
        assert_eq!(toml_string("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
    }

    #[test]
    fn what_turns_letters_round_is_shown() {
        assert_eq!(visible("ok\u{202e}drow\u{2066}"), "ok[U+202E]drow[U+2066]");
        assert_eq!(visible("\u{5e9}\u{5dc}\u{5d5}\u{5dd}"), "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "letters are letters");
    }
}
