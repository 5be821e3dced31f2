//! `stream`: an answer that is a stream of messages, and the message with which its operation ends.

use serde::{Deserialize, Serialize};

use crate::keys::{KeyType, section};
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;

/// Longest `until`, bytes.
const LONGEST: usize = 1000;

section! {
    const STREAM_END {
        messages: Whole { min: 1, max: 1_000_000_000 },
            "Number of messages with which the operation ends; the rest of the stream is not read",
            ["events", "count", "limit", "n"];
        until: Text, "Text in the message with which the operation ends, such as \"[DONE]\"; the rest is not read",
            ["end", "last", "stop", "contains"];
    }
}

/// Type of `stream`.
pub(super) const STREAM: KeyType = KeyType::Either(
    &[KeyType::Boolean, KeyType::Table(STREAM_END)],
    "true, or the message with which the operation ends: { messages = 10 } or { until = \"[DONE]\" }",
);

/// The message with which the operation of a stream ends. With neither key, it ends with the
/// stream; with both, with the message that comes first. A stream that ends before is a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// Number of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Text in the last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Reads `stream`. Returns `None` if the answer is not read as a stream.
pub(super) fn read(section: &Section<'_>) -> Option<StreamEnd> {
    match section.section("stream") {
        Some(end) => Some(StreamEnd { messages: end.get("messages"), until: end.get("until") }),
        None => section.boolean("stream").then(StreamEnd::default),
    }
}

/// Reports an end that is too long.
pub(super) fn check(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let end = section.section("stream");
    let until = end.as_ref().and_then(|end| end.node("until"));
    if let Some(node) = until.filter(|node| node.text().is_some_and(|text| text.len() > LONGEST)) {
        let problem = Problem::new(&node.place, format!("`until` is longer than {LONGEST} bytes"));
        context.problems.push(problem.expected("a text that marks the last message").hint("shorten it"));
    }
}
