//! Statuses of calls, and what they say about the effect of a call.

use crate::cause::{AttemptCause, Refusal};

/// Names of the statuses from 1 to 16, in the order of their numbers.
const CODES: usize = 16;

/// Statuses other than `ok`, then defects of an answer, then the statuses of [`REJECTIONS`] for
/// calls with several messages: the target may have used the messages before it rejected one.
///
/// A status without effect is one by which a target rejects a call. The others come from a call
/// that may have begun: also `resource_exhausted`, by which servers fail answers that are too long.
pub const REFUSALS: [Refusal; CODES + 8 + REJECTIONS.len()] = [
    Refusal { name: "cancelled", harmless: false },
    Refusal { name: "unknown", harmless: false },
    Refusal { name: "invalid_argument", harmless: true },
    Refusal { name: "deadline_exceeded", harmless: false },
    Refusal { name: "not_found", harmless: true },
    Refusal { name: "already_exists", harmless: true },
    Refusal { name: "permission_denied", harmless: true },
    Refusal { name: "resource_exhausted", harmless: false },
    Refusal { name: "failed_precondition", harmless: true },
    Refusal { name: "aborted", harmless: false },
    Refusal { name: "out_of_range", harmless: true },
    Refusal { name: "unimplemented", harmless: true },
    Refusal { name: "internal", harmless: false },
    Refusal { name: "unavailable", harmless: false },
    Refusal { name: "data_loss", harmless: false },
    Refusal { name: "unauthenticated", harmless: true },
    Refusal { name: "no grpc-status", harmless: false },
    Refusal { name: "not gRPC", harmless: false },
    Refusal { name: "no message", harmless: false },
    Refusal { name: "more than one message", harmless: false },
    Refusal { name: "a message is cut off", harmless: false },
    Refusal { name: "a message is not framed", harmless: false },
    Refusal { name: "unknown grpc-encoding", harmless: false },
    Refusal { name: "two statuses", harmless: false },
    Refusal { name: "invalid_argument", harmless: false },
    Refusal { name: "not_found", harmless: false },
    Refusal { name: "already_exists", harmless: false },
    Refusal { name: "permission_denied", harmless: false },
    Refusal { name: "failed_precondition", harmless: false },
    Refusal { name: "out_of_range", harmless: false },
];

/// Statuses that say that a call was rejected and that can come after some of its messages.
const REJECTIONS: [u8; 6] = [3, 5, 6, 7, 9, 11];

/// A defect of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CallDefect {
    NoStatus = CODES as u8,
    /// The content type is not gRPC's.
    NotGrpc,
    NoMessage,
    SecondMessage,
    CutMessage,
    /// A flag that does not exist, or a compressed message without an encoding.
    BadFrame,
    UnknownEncoding,
    SecondStatus,
}

impl CallDefect {
    /// Returns the cause of an attempt that fails by the defect.
    pub fn cause(self) -> AttemptCause {
        AttemptCause::Answer(self as u8)
    }
}

/// A status of gRPC, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallStatus(u8);

impl CallStatus {
    pub const OK: Self = Self(0);
    /// The answer breaks a rule of gRPC.
    pub const INTERNAL: Self = Self(13);
    pub const UNKNOWN: Self = Self(2);

    /// Reads the value of `grpc-status`. Numbers that do not exist are `unknown`, as the
    /// specification of the statuses says.
    pub fn read(text: &[u8]) -> Self {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u8>().ok());
        Self(number.filter(|number| usize::from(*number) <= CODES).unwrap_or(Self::UNKNOWN.0))
    }

    /// Returns the status that stands for an answer without one, by its HTTP status (gRPC, "HTTP to
    /// gRPC status code mapping").
    pub fn of_http(status: u16) -> Self {
        Self(match status {
            400 => Self::INTERNAL.0,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502 | 503 | 504 => 14,
            _ => Self::UNKNOWN.0,
        })
    }

    /// Returns the number of the status.
    pub fn number(self) -> u8 {
        self.0
    }

    pub fn name(self) -> &'static str {
        match self.0.checked_sub(1) {
            None => "ok",
            Some(place) => REFUSALS[usize::from(place) % CODES].name,
        }
    }

    /// Returns the result of an attempt. `may_have_begun` is whether the target may have used some
    /// messages of the call before it sent the status.
    pub fn cause(self, may_have_begun: bool) -> AttemptCause {
        let rejection = REJECTIONS.iter().position(|number| *number == self.0).filter(|_| may_have_begun);
        match (self.0, rejection) {
            (0, _) => AttemptCause::Ok,
            (_, Some(place)) => AttemptCause::Answer((REFUSALS.len() - REJECTIONS.len() + place) as u8),
            (number, None) => AttemptCause::Answer(number - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_name_and_effect() {
        for (number, name, is_harmless) in [
            ("0", "ok", false),
            ("1", "cancelled", false),
            ("4", "deadline_exceeded", false),
            ("5", "not_found", true),
            ("8", "resource_exhausted", false),
            ("14", "unavailable", false),
            ("16", "unauthenticated", true),
            ("17", "unknown", false),
            ("", "unknown", false),
            ("-1", "unknown", false),
        ] {
            let status = CallStatus::read(number.as_bytes());
            assert_eq!((status.name(), status.cause(false).is_harmless(&REFUSALS)), (name, is_harmless), "{number}");
            if status != CallStatus::OK {
                assert_eq!(status.cause(false).text(&REFUSALS), format!("answer: {name}"));
            }
        }
    }

    #[test]
    fn rejections_in_mid_stream_may_have_had_an_effect() {
        for number in REJECTIONS {
            let status = CallStatus(number);
            assert_eq!(status.cause(true).text(&REFUSALS), status.cause(false).text(&REFUSALS));
            assert!(status.cause(false).is_harmless(&REFUSALS) && !status.cause(true).is_harmless(&REFUSALS));
        }
    }

    #[test]
    fn defects_have_their_own_names() {
        assert_eq!(CallDefect::NoStatus.cause().text(&REFUSALS), "answer: no grpc-status");
        assert_eq!(CallDefect::SecondStatus.cause().text(&REFUSALS), "answer: two statuses");
    }

    #[test]
    fn statuses_of_http() {
        for (http, name) in [(404, "unimplemented"), (503, "unavailable"), (401, "unauthenticated"), (302, "unknown")] {
            assert_eq!(CallStatus::of_http(http).name(), name);
        }
    }
}
