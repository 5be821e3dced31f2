//! JSON Pointer (RFC 6901): paths into a JSON text, such as `/items/0/id`. This module only parses
//! pointers; the load engine looks them up in JSON.

use std::ops::Range;

/// A parsed pointer with at least one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// Names of members or indexes of elements, with `~1` and `~0` decoded to `/` and `~`.
    pub steps: Vec<String>,
}

/// The reason why a text is not a pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PointerError {
    /// Byte range of the mistake in the text.
    pub at: Range<usize>,
    /// Description of the problem.
    pub what: String,
}

impl Pointer {
    /// Reads a pointer, which begins with `/`.
    ///
    /// # Errors
    /// The text does not begin with `/`, or has a `~` that is no escape.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        let Some(steps) = text.strip_prefix('/') else {
            return Err(PointerError { at: 0..text.len(), what: "a JSON pointer begins with `/`".to_owned() });
        };
        if let Some((at, _)) = text.match_indices('~').find(|(at, _)| !text[at + 1..].starts_with(['0', '1'])) {
            let what = "in a JSON pointer `~` is written `~0`, and a `/` inside a name `~1`".to_owned();
            return Err(PointerError { at: at..at + 1, what });
        }
        // `~1` must be decoded first, because `~01` would otherwise become `/`.
        Ok(Self { steps: steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect() })
    }
}

/// Splits `FIELD/POINTER` into the field and the pointer with its first `/`, if there is one. No
/// field has a `/` in its name.
#[must_use]
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.find('/') {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    }
}

/// Returns the index of a list element, if the step has the form of one: `0`, or digits that do not
/// begin with 0.
#[must_use]
pub fn index(step: &str) -> Option<usize> {
    let is_number = step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if is_number { step.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Pointer, index, split};

    fn steps(text: &str) -> Vec<String> {
        Pointer::parse(text).unwrap().steps
    }

    #[test]
    fn pointers_are_split_into_steps() {
        assert_eq!(steps("/items/0/id"), ["items", "0", "id"]);
        assert_eq!(steps("/"), [""], "the member without a name");
        assert_eq!(steps("/a~1b/m~0n/~01"), ["a/b", "m~n", "~1"]);
        assert_eq!(steps("/é.x/ "), ["é.x", " "]);
    }

    #[test]
    fn invalid_pointers_are_underlined() {
        for (text, underlined) in [("", ""), ("items", "items"), ("/é~2", "~"), ("/a~", "~"), ("/~0~~1", "~")] {
            let error = Pointer::parse(text).unwrap_err();
            assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
        }
    }

    #[test]
    fn fields_and_pointers() {
        assert_eq!(split("body/items/0"), ("body", Some("/items/0")));
        assert_eq!(split("header.etag"), ("header.etag", None));
        assert_eq!(split("body/"), ("body", Some("/")));
    }

    #[test]
    fn element_indexes_are_parsed() {
        for (step, number) in [("0", Some(0)), ("10", Some(10)), ("01", None), ("-", None), ("+1", None), ("", None)] {
            assert_eq!(index(step), number, "{step}");
        }
        assert_eq!(index("99999999999999999999999"), None);
    }
}
