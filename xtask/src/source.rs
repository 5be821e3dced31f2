//! The parts of Rust's grammar that the rules need: comments, literals and brackets.

/// Returns the source with every comment and every literal's content blanked out. Lines and columns
/// do not change.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut kept = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_blank(&chars, at);
        if end == at {
            kept.push(chars[at]);
            at += 1;
        } else {
            kept.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    kept
}

/// Returns the end of the comment or literal that begins at `at`; `at` itself if none begins there.
fn end_of_blank(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => end_of_block_comment(chars, at),
        '"' => end_of_string(chars, at + 1),
        'r' | 'b' | 'c' if !in_word => end_of_prefixed(chars, at),
        '\'' => end_of_char(chars, at),
        _ => at,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&i| wanted(chars[i])).unwrap_or(chars.len())
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// Returns the end of a string. `i` is just after the opening quote.
fn end_of_string(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// Returns the end of `r"…"`, `r#"…"#`, `b"…"`, `br"…"` or `c"…"`; `at` itself if it is a name such
/// as `row`.
fn end_of_prefixed(chars: &[char], at: usize) -> usize {
    let mut i = at;
    let mut raw = false;
    while i < chars.len() && i < at + 2 && matches!(chars[i], 'r' | 'b' | 'c') {
        raw |= chars[i] == 'r';
        i += 1;
    }
    let hashes = find(chars, i, |c| c != '#') - i;
    let quote = i + hashes;
    if chars.get(quote) != Some(&'"') || (hashes > 0 && !raw) {
        return at;
    }
    if !raw {
        return end_of_string(chars, quote + 1);
    }
    (quote + 1..chars.len())
        .find(|&j| chars[j] == '"' && (1..=hashes).all(|k| chars.get(j + k) == Some(&'#')))
        .map_or(chars.len(), |j| j + 1 + hashes)
}

/// Returns the end of a character literal; `at` itself if the quote begins a lifetime.
fn end_of_char(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        // The character after the backslash may itself be a quote.
        return (find(chars, at + 3, |c| c == '\'') + 1).min(chars.len());
    }
    if chars.get(at + 2) == Some(&'\'') { at + 3 } else { at }
}

/// Returns the index of the brace that closes the brace at `open`, or the end of the code.
fn closing(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_i32;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    bytes.len().saturating_sub(1)
}

/// Returns code without its inline test modules. Lines keep their numbers.
pub fn without_inline_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let behind = &rest[at + MARK.len()..];
        let line = behind.trim_start().lines().next().unwrap_or_default();
        let opens = (line.split_whitespace().any(|word| word == "mod") && line.ends_with('{'))
            .then(|| at + MARK.len() + behind.find('{').unwrap_or(0));
        let until = opens.map_or(at + MARK.len(), |open| closing(rest.as_bytes(), open) + 1);
        kept.push_str(&rest[..at]);
        kept.extend(rest[at..until].chars().filter(|c| *c == '\n'));
        rest = &rest[until..];
    }
    kept + rest
}

/// Finds `word` in `code` where it is not part of a longer name. Returns byte offsets and lines.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(part_of_name);
        let after = code[at + word.len()..].chars().next().is_some_and(part_of_name);
        (!before && !after).then(|| (at, line_of(code, at)))
    })
}

/// Returns the line of byte offset `at`, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, kept) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x { y\")", "f(       )"),
            ("f(\"a \\\" b\")", "f(        )"),
            ("r#\"a \" b\"# + r", "           + r"),
            ("b\"x\" br\"y\"", "          "),
            ("let row = raw(b'x');", "let row = raw(b   );"),
            ("'{' + '\\'' + '\\u{7b}'", "    +      +         "),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ] {
            assert_eq!(code_only(source), kept, "{source}");
        }
    }

    #[test]
    fn line_numbers_are_kept() {
        let source = "/* 1\n2 */ a\n\"3\n4\" b\n";
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }
}
