//! Placeholders in texts of a recording. They are enclosed in two characters that no text has
//! (Unicode noncharacters), so that all other braces are literal.

const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// Returns a placeholder, such as `env:TOKEN` or `uniform:1..1000`, for a text of a recording.
pub fn placeholder(words: &str) -> String {
    format!("{OPEN}{words}{CLOSE}")
}

/// Whether the text has a placeholder.
pub fn has_placeholder(text: &str) -> bool {
    text.contains(OPEN)
}

/// Returns the template for a text: literal braces are doubled, placeholders have single braces.
pub fn template(text: &str) -> String {
    let mut template = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        template.push_str(&literal(before));
        let (words, behind) = after.split_once(CLOSE).unwrap_or((after, ""));
        match is_known(words) {
            true => template.push_str(&format!("{{{words}}}")),
            false => template.push_str(&literal(words)),
        }
        rest = behind;
    }
    template.push_str(&literal(rest));
    template
}

fn literal(text: &str) -> String {
    text.replace([OPEN, CLOSE], "").replace('{', "{{").replace('}', "}}")
}

/// Returns the names of the variables that a text reads from the environment.
pub fn variables(text: &str) -> Vec<&str> {
    let words = text.split(OPEN).skip(1).map(|part| part.split(CLOSE).next().unwrap_or_default());
    let words = words.filter(|words| is_known(words));
    words.filter_map(|words| Some(words.split_once("env:")?.1.trim_end_matches('}'))).collect()
}

/// Returns the text as a reader of comments expects it: `{env:TOKEN}`.
pub fn shown(text: &str) -> String {
    text.replace(OPEN, "{").replace(CLOSE, "}")
}

/// Whether Plimsoll has such a placeholder. A source could contain the enclosing characters.
fn is_known(words: &str) -> bool {
    let is_variable = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    match words.split_once(':') {
        Some(("env", name)) => is_variable(name),
        Some(("base64", inner)) => {
            inner.strip_prefix("{env:").and_then(|rest| rest.strip_suffix('}')).is_some_and(is_variable)
        }
        Some(("uniform", range)) => range.split_once("..").is_some_and(|(from, to)| {
            [from, to].iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        }),
        Some(("bytes", count)) => count.parse::<u16>().is_ok(),
        Some(("random_bytes", count)) => count.parse::<u16>().is_ok(),
        Some(("now", format)) => format.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%-:.".contains(&byte)),
        _ => words == "seq" || words == "uuid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_braces_are_doubled_and_placeholders_are_not() {
        let text = format!("{{\"a\": \"{}\"}}", placeholder("env:TOKEN"));
        assert_eq!(template(&text), "{{\"a\": \"{env:TOKEN}\"}}");
        assert_eq!(shown(&text), "{\"a\": \"{env:TOKEN}\"}");
    }

    #[test]
    fn unknown_words_of_a_source_are_literal() {
        for words in ["env:a b", "lua.f", "env:", "uniform:1", "uniform:..", "env:A}{env:B"] {
            assert!(
                !template(&placeholder(words)).starts_with("{env")
                    && template(&placeholder(words)) != format!("{{{words}}}")
            );
        }
        assert_eq!(template("\u{fdd0}env:A"), "{env:A}");
        assert_eq!(template("a\u{fdd1}b"), "ab");
    }
}
