//! Check of regular expressions for `matches`. Parses as the load engine does: over bytes, with
//! ASCII classes such as `\d` and `\w`.

use std::ops::Range;

use regex_syntax::ParserBuilder;
use regex_syntax::ast::Span;

/// The reason why a text is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PatternError {
    /// Byte range of the mistake in the text.
    pub at: Range<usize>,
    /// Description of the problem.
    pub what: String,
}

/// Returns the number of capturing groups in a regular expression.
///
/// # Errors
/// The syntax error and its place.
pub fn groups(text: &str) -> Result<usize, PatternError> {
    match ParserBuilder::new().unicode(false).utf8(false).build().parse(text) {
        Ok(tree) => Ok(tree.properties().explicit_captures_len()),
        Err(regex_syntax::Error::Parse(error)) => Err(wrong(error.span(), error.kind())),
        Err(regex_syntax::Error::Translate(error)) => Err(wrong(error.span(), error.kind())),
        Err(error) => Err(PatternError { at: 0..text.len(), what: error.to_string() }),
    }
}

fn wrong(span: &Span, kind: &impl ToString) -> PatternError {
    PatternError { at: span.start.offset..span.end.offset, what: kind.to_string() }
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn capture_groups_are_counted() {
        for (text, count) in
            [("^ok", 0), ("id=([0-9]+)", 1), ("(?:a|b)(?P<n>c)", 1), ("(a)(b)", 2), (r"\d\w\s(?i)é\xff", 0), ("", 0)]
        {
            assert_eq!(groups(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn mistakes_are_underlined() {
        for (text, underlined) in [("é(a", "("), ("[z-a]", "z-a"), (r"a\y", r"\y")] {
            let error = groups(text).unwrap_err();
            assert_eq!(text.get(error.at.clone()), Some(underlined), "{text}: {error}");
            assert!(!error.what.is_empty());
        }
    }
}
