//! From a byte of a decoded TOML text back to the byte of the file it came from, so that a mistake inside a
//! text is underlined where it is. It must not decode: the TOML parser has done that.

/// For each byte of `decoded`, and one past its end, the byte of `raw` (with its quotes) it came from. Empty if the
/// two do not belong together.
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

/// How many bytes the opening quote takes, and whether backslashes mean anything.
fn opening(raw: &str) -> (usize, bool) {
    for (quote, width, escapes) in [("\"\"\"", 3, true), ("'''", 3, false), ("\"", 1, true), ("'", 1, false)] {
        if raw.starts_with(quote) {
            return (width, escapes);
        }
    }
    (0, false)
}

/// A backslash at the end of a line swallows the break and the blanks that follow.
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
    use super::offsets;

    #[test]
    fn escapes_and_quotes_are_stepped_over() {
        assert_eq!(offsets(r#""a\tb""#, "a\tb"), [1, 2, 4, 5]);
        assert_eq!(offsets(r#""\u00e9x""#, "éx"), [1, 2, 7, 8]);
        assert_eq!(offsets("'a\\b'", "a\\b"), [1, 2, 3, 4]);
        assert_eq!(offsets("\"\"\"\nab\"\"\"", "ab"), [4, 5, 6]);
        assert_eq!(offsets("\"\"\"a\\\n   b\"\"\"", "ab"), [3, 9, 10]);
        assert_eq!(offsets("30s", "30s"), [0, 1, 2, 3]);
        assert!(offsets("\"a\"", "abcdef").is_empty());
    }
}
