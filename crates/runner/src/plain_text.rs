//! Escaping of text from other machines or programs, so that it can be shown safely. Characters
//! that move a terminal's cursor, set its title or reverse the reading direction become escapes.

/// Maximum length of a quoted line.
pub const LINE_CHARACTERS: usize = 500;

/// Escapes a text into one line. An escape character becomes `\u{1b}`, the end of a line `\n`.
#[must_use]
pub fn line(text: &str) -> String {
    escaped(text, |c| c == '\t')
}

/// Escapes a text and keeps its lines.
#[must_use]
pub fn lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\t' | '\n'))
}

/// Returns the beginning of a text, escaped into one line.
#[must_use]
pub fn beginning(text: &str, characters: usize) -> String {
    let mut rest = text.chars();
    let begun: String = rest.by_ref().take(characters).collect();
    let more = if rest.next().is_some() { "…" } else { "" };
    line(&begun) + more
}

/// Formats a number of bytes with at most three digits: `23 GB`.
#[must_use]
pub fn amount(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit = units.into_iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(|| format!("{bytes} bytes"), |(size, name)| format!("{} {name}", bytes / size))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let is_plain = |c: char| is_kept(c) || !(c.is_control() || turns(c));
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            plain.push(c);
        } else {
            plain.extend(c.escape_default());
        }
    }
    plain
}

/// Whether a character is invisible but changes how other characters are shown: their direction,
/// their line or their apparent identity.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || ('\u{e0000}'..='\u{e007f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(line("a\u{1b}]0;owned\u{7}b"), "a\\u{1b}]0;owned\\u{7}b");
        assert_eq!(line("safe\u{202e}txt.exe"), "safe\\u{202e}txt.exe");
        assert_eq!(line("one\r\ntwo\u{9b}2J\u{85}"), "one\\r\\ntwo\\u{9b}2J\\u{85}");
        assert_eq!(lines("one\ntwo\r\u{200b}"), "one\ntwo\\r\\u{200b}");
        assert_eq!(line("Grün, 船, é\t\u{1f6a2}"), "Grün, 船, é\t\u{1f6a2}");
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        assert_eq!((beginning("abc", 3).as_str(), beginning("abcd", 3).as_str()), ("abc", "abc…"));
        assert_eq!((amount(999).as_str(), amount(23_400_000_000).as_str()), ("999 bytes", "23 GB"));
    }
}
