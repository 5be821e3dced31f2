//! Results of attempts, their texts, and the causes that certainly had no effect.

use crate::http2::frames::code_name;
use crate::open_words::ERROR_WORDS;
use crate::protocols::http::ContentCoding;
use crate::redirection::Unfollowed;
use crate::values::allowed::NotSendable;

/// An answer by which a target refuses or fails an operation.
#[derive(Debug)]
pub struct Refusal {
    /// The name after `answer: `.
    pub name: &'static str,
    /// Whether the operation certainly had no effect.
    pub harmless: bool,
}

/// Result of an attempt. The text of a result is made when records are written, not for each
/// operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptCause {
    /// Answered as expected.
    Ok,
    /// Answered as expected, with a status other than 200.
    OkStatus(u16),
    /// Answered, but the answer contradicts an expectation.
    Wrong,
    /// No answer in time.
    Timeout,
    /// Connection refused: the target does not listen at this address.
    ConnectRefused,
    /// No connection in time.
    ConnectTimeout,
    /// No route to the host.
    ConnectUnreachable,
    /// Connecting failed in another way.
    ConnectFailed,
    /// The request was not sent, because it lacks a value, or the protocol cannot represent one.
    NotSent(NotSendable),
    /// No attempt was made: the connection was cut, and the agent does not reconnect yet.
    NotConnected,
    /// No local port left on this machine.
    NoPort,
    /// No file descriptor left in this process.
    NoFile,
    /// Connection reset by the peer during the operation.
    Reset,
    /// Connection closed by the peer during the operation.
    Closed,
    /// Connection broken in another way.
    Broken,
    /// The target closed the WebSocket connection with this code.
    CloseFrame(u16),
    /// The target's certificate is not trusted.
    TlsCertificate,
    /// The target does not speak TLS, or no version and cipher suite that this client supports.
    TlsHandshake,
    /// The target ended the connection during the handshake.
    TlsClosed,
    /// The target refused the handshake with this alert. In TLS 1.3 the alert may arrive after the
    /// client has sent its first data. The target has not read that data.
    TlsAlert(u8),
    /// A record after the handshake failed decryption or was an alert.
    TlsBroken,
    /// The proxy opened no tunnel. Holds the status of its answer, or 0 if the answer has no
    /// status.
    Proxy(u16),
    /// The received bytes are not a valid answer of the protocol.
    BadAnswer,
    /// An invalid answer with a known defect.
    Malformed(Malformation),
    /// The answer exceeds the limit for one answer.
    TooLong,
    /// All incomplete answers together exceed the memory budget.
    TooLarge,
    /// Redirect. Only the attempt is recorded with this result; its operation is `ok`.
    Redirect(u16),
    /// Redirect that was followed with the next attempt of the operation.
    Followed(u16),
    /// Redirect that the step should follow, but cannot.
    Unfollowed(Unfollowed),
    /// Refused with an answer of [`Protocol::REFUSALS`](crate::protocols::Protocol::REFUSALS).
    /// Numbers beyond that list index [`ERROR_WORDS`].
    Answer(u8),
    /// Like `Answer`, but in answer to the greeting, before any request.
    Greeted(u8),
    /// HTTP status of 400 or more.
    Status(u16),
    /// The first bytes of the target are not HTTP/2.
    NotHttp2,
    /// The target reset the stream of the request with this code (RFC 9113, 7). The largest number
    /// stands for all unknown codes.
    StreamReset(u8),
    /// The target ended the connection with this code, which names an error.
    GoneAway(u8),
}

impl AttemptCause {
    /// Returns the text for `attempts.csv`.
    pub fn text(self, refusals: &[Refusal]) -> String {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Timeout => "timeout",
            Self::ConnectRefused => "connect refused",
            Self::ConnectTimeout => "connect timeout",
            Self::ConnectUnreachable => "connect unreachable",
            Self::ConnectFailed => "connect failed",
            Self::NotConnected => "not connected",
            Self::NoPort => "connect: no local port left",
            Self::NoFile => "connect: no file descriptor left",
            Self::Reset => "connection reset",
            Self::Closed => "connection closed",
            Self::Broken => "connection broken",
            Self::TlsCertificate => "tls: bad certificate",
            Self::TlsHandshake => "tls: handshake failed",
            Self::TlsClosed => "tls: closed in the handshake",
            Self::TlsBroken => "tls: broken",
            Self::BadAnswer => "bad answer",
            Self::Malformed(malformation) => malformation.text(),
            Self::Proxy(0) => "proxy: bad answer",
            Self::TooLong => "answer too long",
            Self::TooLarge => "answer too large",
            Self::NotSent(why) => return format!("not sent: {why}"),
            Self::OkStatus(status) => return format!("ok {status}"),
            Self::Redirect(status) => return format!("redirect {status}"),
            Self::Followed(status) => return format!("followed {status}"),
            Self::Unfollowed(why) => return format!("not followed: {why}"),
            Self::Answer(number) | Self::Greeted(number) => {
                return format!("answer: {}", word_of(refusals, number));
            }
            Self::TlsAlert(alert) => return format!("tls: refused by the target: {}", alert_name(alert)),
            Self::CloseFrame(code) => return format!("closed by the target: {code} {}", close_name(code)),
            Self::Proxy(status) => return format!("proxy: {status}"),
            Self::Status(status) => return format!("status {status}"),
            Self::NotHttp2 => "connect: the target does not speak HTTP/2",
            Self::StreamReset(code) => return format!("stream reset: {}", code_name(code)),
            Self::GoneAway(code) => return format!("connection ended by the target: {}", code_name(code)),
        }
        .to_owned()
    }

    /// Whether the operation certainly had no effect.
    pub fn is_harmless(self, refusals: &[Refusal]) -> bool {
        match self {
            Self::ConnectRefused
            | Self::ConnectTimeout
            | Self::ConnectUnreachable
            | Self::ConnectFailed
            | Self::NotSent(_)
            | Self::NotConnected
            | Self::NoPort
            | Self::NoFile
            | Self::TlsCertificate
            | Self::TlsHandshake
            | Self::TlsClosed
            | Self::TlsAlert(_)
            | Self::Proxy(_)
            | Self::NotHttp2
            | Self::Greeted(_) => true,
            Self::Answer(number) => refusals.get(usize::from(number)).is_some_and(|refusal| refusal.harmless),
            _ => false,
        }
    }
}

/// Returns the name of an answer that refuses an operation.
pub fn word_of(refusals: &[Refusal], number: u8) -> &'static str {
    let number = usize::from(number);
    match refusals.get(number) {
        Some(refusal) => refusal.name,
        None => ERROR_WORDS.word(number - refusals.len()).unwrap_or("?"),
    }
}

/// Returns the number of a server's error word. The numbers of error words follow the numbers of
/// the refusals. `None` if the text is not a word, or if the list is full.
pub fn open_word(refusals: &[Refusal], word: &[u8]) -> Option<u8> {
    u8::try_from(refusals.len() + ERROR_WORDS.number(word)?).ok()
}

/// A defect of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformation {
    /// A header continues on the next line (obs-fold; RFC 9112, 5.2).
    FoldedHeader,
    /// More headers than the limit.
    TooManyHeaders,
    /// A header block longer than the limit.
    LongHead,
    /// The server switches to another protocol without a request for it.
    Switched,
    /// HTTP/2 frames (RFC 9113, 4.1).
    Http2,
    /// A content coding that is not known here.
    UnknownCoding,
    /// A coded body that is broken or cut off.
    BrokenCoding(ContentCoding),
    /// A coded body that is longer than the limit when it is decoded.
    LongWhenDecoded,
    /// Frames of HTTP/2 that are not valid.
    Frames(FrameDefect),
    /// An answer that should be a stream of events, and has another type.
    NotEventStream,
    /// A stream of events whose content is coded.
    CodedStream,
    /// A stream that ended before the message with which the operation ends.
    EndedEarly,
}

/// A defect of frames of HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameDefect {
    /// A frame that is too long, or has another length than its kind.
    Size,
    /// More padding than the frame has bytes.
    Padding,
    /// A frame on a stream that does not exist, or on which its kind does not exist.
    Stream,
    /// A frame between the parts of a header block, or a part without a block.
    Continuation,
    /// A header block that cannot be decoded.
    HeaderBlock,
    /// Headers that no answer has, or that are missing.
    HeaderFields,
    /// A value that a setting cannot have.
    Setting,
    /// A window that does not grow, or is too large.
    Window,
    /// A pushed stream, although push is switched off.
    Push,
    /// Too many frames that bring no request forward.
    TooMany,
    /// A body that is shorter or longer than its `content-length`.
    Length,
}

impl FrameDefect {
    fn text(self) -> &'static str {
        match self {
            Self::Size => "bad answer: HTTP/2: a frame of a wrong length",
            Self::Padding => "bad answer: HTTP/2: more padding than frame",
            Self::Stream => "bad answer: HTTP/2: a frame on a wrong stream",
            Self::Continuation => "bad answer: HTTP/2: a header block is interrupted",
            Self::HeaderBlock => "bad answer: HTTP/2: a header block cannot be decoded",
            Self::HeaderFields => "bad answer: HTTP/2: headers are missing or not allowed",
            Self::Setting => "bad answer: HTTP/2: a setting has a wrong value",
            Self::Window => "bad answer: HTTP/2: a window does not grow or is too large",
            Self::Push => "bad answer: HTTP/2: a pushed stream, which was not asked for",
            Self::TooMany => "bad answer: HTTP/2: too many frames without an answer",
            Self::Length => "bad answer: HTTP/2: the body has another length than content-length",
        }
    }
}

impl Malformation {
    fn text(self) -> &'static str {
        match self {
            Self::FoldedHeader => "bad answer: a header is folded",
            Self::TooManyHeaders => "answer too long: more than 128 headers",
            Self::LongHead => "answer too long: headers of more than 64 KiB",
            Self::Switched => "bad answer: 101, which was not asked for",
            Self::Http2 => "bad answer: HTTP/2",
            Self::UnknownCoding | Self::BrokenCoding(ContentCoding::Unknown) => "bad answer: unknown content-encoding",
            Self::BrokenCoding(ContentCoding::Gzip) => "bad answer: gzip is broken or cut off",
            Self::BrokenCoding(ContentCoding::Deflate) => "bad answer: deflate is broken or cut off",
            Self::BrokenCoding(ContentCoding::Brotli) => "bad answer: br is broken or cut off",
            Self::BrokenCoding(ContentCoding::Zstd) => "bad answer: zstd is broken or cut off",
            Self::LongWhenDecoded => "answer too long: more than 64 MiB when decoded",
            Self::Frames(defect) => defect.text(),
            Self::NotEventStream => "bad answer: not a text/event-stream",
            Self::CodedStream => "bad answer: an event stream with content-encoding",
            Self::EndedEarly => "bad answer: the stream ended before its last message",
        }
    }
}

/// Returns the meaning of a code in a closing frame (RFC 6455, 7.4.1).
fn close_name(code: u16) -> &'static str {
    match code {
        1000 => "normal closure",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1005 => "no code",
        1007 => "invalid data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "missing extension",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => "of the application",
    }
}

/// Returns the name of an alert (RFC 8446, 6.2; RFC 5246, 7.2.2).
pub fn alert_name(alert: u8) -> &'static str {
    match alert {
        0 => "close notify",
        10 => "unexpected message",
        20 => "bad record MAC",
        22 => "record overflow",
        40 => "handshake failure",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown CA",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        70 => "protocol version",
        71 => "insufficient security",
        80 => "internal error",
        86 => "inappropriate fallback",
        90 => "user canceled",
        109 => "missing extension",
        110 => "unsupported extension",
        112 => "unrecognised name",
        113 => "bad certificate status response",
        115 => "unknown PSK identity",
        116 => "certificate required",
        120 => "no application protocol",
        _ => "another alert",
    }
}

#[cfg(test)]
mod tests {
    use super::AttemptCause;
    use crate::protocols::Protocol as _;
    use crate::protocols::vsns::Vsns;

    #[test]
    fn causes_have_descriptions() {
        let refusals = Vsns::REFUSALS;
        for (cause, text) in [
            (AttemptCause::Ok, "ok"),
            (AttemptCause::ConnectRefused, "connect refused"),
            (AttemptCause::Reset, "connection reset"),
            (AttemptCause::Answer(1), "answer: unavailable"),
            (AttemptCause::Answer(2), "answer: busy"),
            (AttemptCause::Status(503), "status 503"),
            (AttemptCause::OkStatus(201), "ok 201"),
            (AttemptCause::BadAnswer, "bad answer"),
            (AttemptCause::CloseFrame(1001), "closed by the target: 1001 going away"),
            (AttemptCause::CloseFrame(4000), "closed by the target: 4000 of the application"),
        ] {
            assert_eq!(cause.text(refusals), text);
        }
        assert!(AttemptCause::Answer(2).is_harmless(refusals) && AttemptCause::ConnectTimeout.is_harmless(refusals));
        assert!(!AttemptCause::Answer(1).is_harmless(refusals) && !AttemptCause::Timeout.is_harmless(refusals));
    }
}
