//! The contract between the engine and a protocol about the bytes of a connection: its opening,
//! requests, answers in any order, bytes that belong to no answer, cancelled requests and draining.
//!
//! The engine gives each request an id, and the protocol returns the id of the request to which an
//! answer belongs. A protocol without request ids, which answers in the order of the requests,
//! implements [`InOrderProtocol`](crate::in_order::InOrderProtocol) instead.

use crate::cause::AttemptCause;
use crate::cookies::CookieJar;
use crate::protocols::{Protocol, ShownAnswer};
use crate::redirection::{Redirection, Unfollowed};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;

/// A protocol with a state for each connection. Pure functions from bytes to bytes.
pub trait SessionProtocol: Protocol {
    /// Whether the target may send bytes that answer no request, such as pings and settings.
    /// Otherwise such bytes end the connection.
    const SPEAKS_UNASKED: bool;

    /// Whether the target may send messages that answer no request. The engine counts them.
    const HAS_PUSHES: bool = false;

    /// State of a connection. The state must be small. Its heap memory comes from
    /// [`SessionProtocol::Memory`], so that nothing is allocated for each operation.
    type Session: Default + Send + 'static;

    /// State of a thread.
    type Memory: Default + Send + 'static;

    /// Begins a new connection, after the TLS handshake if there is one. Appends the first bytes to
    /// send.
    fn greet(&self, session: &mut Self::Session, out: &mut Vec<u8>) -> Opening;

    /// Continues the opening with received bytes. Appends the next bytes to send. The next call
    /// gets the unused bytes followed by the bytes received since.
    fn greeted(&self, session: &mut Self::Session, input: &[u8], out: &mut Vec<u8>) -> Opening;

    /// Appends a request. `id` identifies the request on this connection and is not used twice.
    ///
    /// # Errors
    /// Returns an error if the protocol cannot represent the values. In that case, the appended
    /// bytes must not be sent.
    fn encode(
        session: &mut Self::Session,
        memory: &mut Self::Memory,
        request: &Self::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable>;

    /// Reads received bytes up to the next event. Appends bytes to send back, such as
    /// acknowledgements. `ended` is true if the stream has ended. The next call gets the unused
    /// bytes followed by the bytes received since.
    fn receive<'a>(
        session: &mut Self::Session,
        memory: &mut Self::Memory,
        open: &impl OpenRequests<'a, Self>,
        input: &[u8],
        ended: bool,
        out: &mut Vec<u8>,
    ) -> SessionEvent;

    /// Appends the next parts of requests that the target did not take completely. Called after
    /// events. Unlike the bytes that [`SessionProtocol::receive`] appends, they may be many.
    fn send_rest(_session: &mut Self::Session, _memory: &mut Self::Memory, _out: &mut Vec<u8>) {}

    /// Cancels a request that was sent. Appends the bytes that cancel it at the target. A late
    /// answer to the request is skipped. Returns false if only closing the connection ends the
    /// request.
    fn cancel(_session: &mut Self::Session, _memory: &mut Self::Memory, _id: u32, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the bytes by which the client ends a connection that takes requests.
    fn leave(_session: &mut Self::Session, _out: &mut Vec<u8>) {}

    // The following functions describe the answer that `receive` has just returned, until `finish`.

    /// Returns the requested field with index `want` of the answer, or `None` if the answer does
    /// not have it. `input` begins as in [`SessionProtocol::receive`]. `scratch` is empty and may
    /// be used.
    fn field<'a>(
        request: &'a Self::Request,
        session: &'a Self::Session,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;

    /// Returns the value with index `nth` of a field that the answer has several times, such as a
    /// header. [`SessionProtocol::field`] returns the value with index 0.
    fn field_again<'a>(
        _request: &'a Self::Request,
        _session: &'a Self::Session,
        _want: usize,
        _nth: usize,
        _input: &'a [u8],
    ) -> Option<&'a [u8]> {
        None
    }

    /// Stores the cookies that the answer sets in the session's jar. `values` are those of the
    /// request, `now_s` is the Unix time. `scratch` is empty and may be used.
    fn take_cookies(
        _request: &Self::Request,
        _session: &Self::Session,
        _input: &[u8],
        _values: &OperationValues<'_>,
        _now_s: i64,
        _jar: &mut CookieJar,
        _scratch: &mut Vec<u8>,
    ) {
    }

    /// Returns the bytes of the answer, for an excerpt.
    fn shown<'a>(_session: &'a Self::Session, input: &'a [u8]) -> ShownAnswer<'a> {
        ShownAnswer { bytes: input, is_decoded: false }
    }

    /// Returns the status and the destination of an answer that is a redirect.
    fn redirect<'a>(session: &'a Self::Session, input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)>;

    /// Sets the request that follows the redirect in the answer, and returns the redirect's status.
    /// Returns `None` if the answer is no redirect, or if the step does not follow redirects.
    /// `values` are those of the answered request. `scratch` may be used.
    fn follow(
        _request: &Self::Request,
        _session: &Self::Session,
        _input: &[u8],
        _values: &OperationValues<'_>,
        _redirection: &mut Redirection,
        _scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        None
    }

    /// Returns the numeric status of the answer, if the protocol has one.
    fn status_code(session: &Self::Session) -> Option<u16>;

    /// Returns the status of the answer in the protocol's terms: `ok`, `not_found`, `200`.
    fn status<'a>(session: &'a Self::Session, input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// Ends the use of the answer.
    fn finish(session: &mut Self::Session, memory: &mut Self::Memory);

    /// Resets the state of a connection that is gone.
    fn reset(session: &mut Self::Session, memory: &mut Self::Memory);
}

/// Requests of a connection that are sent but not answered yet.
pub trait OpenRequests<'a, P: Protocol> {
    /// Returns the request that was sent first.
    fn oldest(&self) -> Option<RequestContext<'a, P>>;

    /// Returns the request with this id, or `None` if the request is not open.
    fn get(&self, id: u32) -> Option<RequestContext<'a, P>>;
}

/// The parts of a request that are needed to decode its answer.
pub struct RequestContext<'a, P: Protocol> {
    pub request: &'a P::Request,
    /// Id of the request on its connection.
    pub id: u32,
}

/// Progress of the opening of a connection. `used` bytes of the input are not needed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The connection takes requests.
    Open { used: usize },
    /// The target must send more.
    Wait { used: usize },
    /// The target refuses the connection, or its bytes are not valid.
    Refused(AttemptCause),
}

/// Result of encoding a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded {
    Done,
    /// The target takes no more requests at present. Nothing was appended. The engine tries again
    /// after the next bytes from the target.
    NotNow,
}

/// Event in the bytes of a connection. `used` bytes of the input are not needed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent {
    /// The next event is not complete.
    More { used: usize },
    /// The bytes belong to no open request.
    Control { used: usize },
    /// A message that answers no open request.
    Pushed { used: usize },
    /// Part of the answer to a request, in which `messages` messages of a stream end. More parts
    /// follow. The engine then calls again, even if no bytes are left.
    Part { id: u32, used: usize, messages: u32 },
    /// A complete answer, or its last part.
    Answer { id: u32, answer: Answer },
    /// The target did not begin the request, so the request is sent again.
    Untouched { id: u32, used: usize },
    /// The target takes no more requests on this connection, but answers the requests that it has.
    Drain { used: usize },
    /// The bytes are not valid. The connection cannot be used any more.
    Bad(AttemptCause),
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Number of bytes of the input that belong to the answer.
    pub used: usize,
    /// [`AttemptCause::Ok`], or the reason why the answer is a failure.
    pub result: AttemptCause,
    /// Whether the connection can take another request. If not, the connection is closed at once,
    /// and the other requests on it are sent again.
    pub reusable: bool,
    /// Whether decoding took more than reading the bytes.
    pub is_costly: bool,
}
