//! Requests of a source, before they become steps.

use crate::left_out::LeftOut;
use crate::multipart::{self, FormPart};

/// Requests of a source, with what its reader left out. Texts may have placeholders.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedRecording {
    /// Title of the experiment; `None`: the file's name.
    pub title: Option<String>,
    pub order: RequestOrder,
    pub requests: Vec<RecordedRequest>,
    pub left_out: LeftOut,
    /// Remarks about the source, for comments.
    pub notes: Vec<String>,
    /// Whether the client keeps the cookies that answers set.
    pub has_cookie_jar: bool,
    /// Whether any certificate is accepted.
    pub is_insecure: bool,
    /// URL of the target with its base path, if all requests are below it.
    pub base: Option<String>,
}

/// Relation of the requests to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestOrder {
    /// One user's requests, one after the other.
    #[default]
    Session,
    /// Independent requests.
    Mix,
    /// Requests of many users, with their times.
    Log,
}

/// A request of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRequest {
    /// Name of the request in the source.
    pub name: Option<String>,
    pub method: String,
    /// Absolute URL, literal up to the path.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: RecordedBody,
    /// Status of the recorded answer.
    pub status: Option<u16>,
    /// Time of the request, seconds since any moment that all requests of the recording share.
    pub at_s: Option<f64>,
    /// Time from the request to its answer, seconds.
    pub took_s: f64,
}

/// Body of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordedBody {
    #[default]
    None,
    Text(String),
    /// Parts of a multipart body. The request's header has the type of the body as one text.
    Parts(Vec<FormPart>),
    /// A body that an experiment cannot have, with the reason.
    LeftOut(String),
}

/// Longest body that is written into an experiment, bytes.
const LONGEST_BODY: usize = 64 * 1024;

impl RecordedBody {
    /// Returns the body for a text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.len() > LONGEST_BODY {
            return Self::LeftOut(format!("longer than {} KiB", LONGEST_BODY / 1024));
        }
        // The length of a text with NUL or other control characters says that it was binary.
        if text.chars().any(|one| one.is_control() && !matches!(one, '\n' | '\r' | '\t') || one == '\u{fffd}') {
            return Self::LeftOut("it is binary".to_owned());
        }
        Self::Text(text)
    }

    /// Returns the body without parts: they become one text, if they are known.
    #[must_use]
    pub fn in_one_text(self) -> Self {
        if let Self::Parts(parts) = self { multipart::in_one_text(&parts) } else { self }
    }

    /// Returns the body for bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|_| Self::LeftOut("it is binary".to_owned()), Self::text)
    }
}
