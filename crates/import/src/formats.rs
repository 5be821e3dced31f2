//! Formats that can be imported, and their detection.

use serde_json::Value;

use crate::recording::ImportedRecording;
use crate::{ImportError, ImportSource};

pub mod access_log;
pub mod curl;
pub mod har;
pub mod openapi;
pub mod postman;
pub mod vegeta;

/// A format of another tool.
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// Name for readers.
    pub title: &'static str,
    /// Whether a browser wrote the requests.
    pub is_of_a_browser: bool,
    pub recognises: fn(&Content<'_>) -> bool,
    pub read: fn(&ImportSource<'_>) -> Result<ImportedRecording, ImportError>,
}

/// All formats, sorted by name.
pub const KINDS: &[Format] =
    &[access_log::FORMAT, curl::FORMAT, har::FORMAT, openapi::FORMAT, postman::FORMAT, vegeta::FORMAT];

/// Beginning of a source, as the formats look at it.
pub struct Content<'a> {
    pub text: &'a str,
    /// The source as JSON, or its first line as JSON.
    pub json: Option<Value>,
    /// First line that is neither empty nor a comment.
    pub first_line: &'a str,
}

/// Returns the format with this name.
///
/// # Errors
/// There is no such format.
pub fn named(name: &str) -> Result<&'static Format, ImportError> {
    KINDS
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| ImportError::new(format!("there is no format `{name}`"), format!("one of {}", names())))
}

/// Returns the format of a text.
///
/// # Errors
/// No format matches.
pub fn detected(text: &str) -> Result<&'static Format, ImportError> {
    let lines = text.lines().map(str::trim);
    let first_line = lines.clone().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let whole =
        if text.trim_start().starts_with('{') { serde_json::from_str(text) } else { serde_json::from_str(first_line) };
    let error = whole.as_ref().err().map(ToString::to_string);
    let json = whole.or_else(|_| serde_json::from_str(first_line)).ok().filter(Value::is_object);
    let content = Content { text, json, first_line };
    // An access log is the most general: it is recognised by single lines. So it is last.
    if let Some(format) = KINDS.iter().rev().find(|format| (format.recognises)(&content)) {
        return Ok(format);
    }
    let what = match error {
        _ if first_line.is_empty() => "the file is empty".to_owned(),
        Some(error) if text.trim_start().starts_with('{') && content.json.is_none() => {
            format!("the file begins like JSON and is broken: {error}")
        }
        _ => "the format of this file is not known".to_owned(),
    };
    Err(ImportError::new(what, format!("one of {}; `--format NAME` skips the detection", names())))
}

fn names() -> String {
    KINDS.iter().map(|format| format.name).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unknown_ones_are_refused() {
        assert!(KINDS.is_sorted_by_key(|format| format.name));
        assert!(named("jmeter").err().unwrap().expected.contains("vegeta"));
    }

    #[test]
    fn a_format_is_detected_from_the_content() {
        for (text, name) in [
            ("# Two\ncurl http://a/", "curl"),
            ("#!/bin/sh\nset -e\nid=$(curl -s http://a/)", "curl"),
            ("::1 - - [10/Oct/2025:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1", "access-log"),
            ("{\"ts\": 1.5, \"request\": {\"method\": \"GET\", \"uri\": \"/\"}}", "access-log"),
            ("{\"log\": {\"entries\": []}}", "har"),
            ("# An API\nopenapi: 3.0.0\n", "openapi"),
            ("{\"swagger\": \"2.0\"}", "openapi"),
            ("{\"info\": {}, \"item\": []}", "postman"),
            ("GET http://a/\n", "vegeta"),
            ("{\"method\": \"GET\", \"url\": \"http://a/\"}\n{\"method\": \"GET\", \"url\": \"http://a/b\"}", "vegeta"),
        ] {
            assert_eq!(detected(text).map(|format| format.name), Ok(name), "{text}");
        }
        for (text, what) in [("", "empty"), ("{\"a\": ", "broken"), ("hello", "not known"), ("{}", "not known")] {
            assert!(detected(text).err().unwrap().what.contains(what), "{text}");
        }
    }
}
