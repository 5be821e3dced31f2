//! Expectations: any is compiled or refused, and holds where reading it says so.
//!
//! An input is an expectation, as it stands in a `plan.json`; behind the first NUL is the text that is held against it.

use experiment::plan::{Comparison, Expected};
use experiment::template::Template;
use load::fuzzing::holds;

/// Any expectation and any text.
pub fn expectation(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let Ok(expected) = serde_json::from_slice::<Expected>(&input[..end]) else { return };
    let text = input.get(end + 1..).unwrap_or_default();
    let Ok(holds) = holds(&expected, text) else { return };
    if let Some(should) = all(&expected, text) {
        assert_eq!(holds, should, "{expected:?} of b\"{}\"", text.escape_ascii());
    }
}

/// Whether all of it holds; `None` if there is something in it that is not known here.
fn all(expected: &Expected, text: &[u8]) -> Option<bool> {
    match expected {
        Expected::Text(template) => Some(value(template)? == text),
        Expected::Compared(comparison) => Some(each(comparison, text, none)?.iter().all(|holds| *holds)),
    }
}

/// Whether nothing of it holds.
fn none(expected: &Expected, text: &[u8]) -> Option<bool> {
    match expected {
        Expected::Text(template) => Some(value(template)? != text),
        Expected::Compared(comparison) => Some(each(comparison, text, none)?.iter().all(|holds| !*holds)),
    }
}

/// Of each part, whether it holds.
fn each(comparison: &Comparison, text: &[u8], not: fn(&Expected, &[u8]) -> Option<bool>) -> Option<Vec<bool>> {
    let Comparison { matches: None, contains, one_of, lua: None, not: inner } = comparison else { return None };
    let mut parts = Vec::new();
    if let Some(part) = contains {
        let part = value(part)?;
        parts.push(part.is_empty() || text.windows(part.len()).any(|window| window == part));
    }
    if let Some(texts) = one_of {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| value(text)).collect::<Option<_>>()?;
        parts.push(texts.iter().any(|one| one == text));
    }
    if let Some(inner) = inner {
        parts.push(not(inner, text)?);
    }
    Some(parts)
}

/// What a template is always filled to.
fn value(template: &str) -> Option<Vec<u8>> {
    Template::parse(template).ok()?.constant().map(|text| text.as_bytes().to_vec())
}
