//! Protocols whose answers arrive in the order of the requests, such as HTTP/1.1 and RESP.

use crate::cause::AttemptCause;
use crate::cookies::CookieJar;
use crate::protocols::{Protocol, ShownAnswer};
use crate::redirection::{Redirection, Unfollowed};
use crate::session::{Answer, Encoded, OpenRequests, Opening, RequestContext, SessionEvent, SessionProtocol};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;

/// A protocol whose answers arrive in the order of the requests. Every such protocol is a
/// [`SessionProtocol`].
pub trait InOrderProtocol: Protocol {
    /// State of a connection between pieces of an answer. The state must be small, and must hold no
    /// heap memory between answers.
    type Decoder: Default + Send + 'static;

    /// State of a thread between answers.
    type Memory: Default + Send + 'static;

    /// Begins a new connection; see [`SessionProtocol::greet`].
    fn greet(&self, _decoder: &mut Self::Decoder, _out: &mut Vec<u8>) -> Opening {
        Opening::Open { used: 0 }
    }

    /// Continues the opening; see [`SessionProtocol::greeted`].
    fn greeted(&self, _decoder: &mut Self::Decoder, _input: &[u8], _out: &mut Vec<u8>) -> Opening {
        Opening::Refused(AttemptCause::BadAnswer)
    }

    /// Appends the request. `id` identifies the request on this connection.
    ///
    /// # Errors
    /// Returns an error if the protocol cannot represent the values. In that case, the appended
    /// bytes must not be sent.
    fn encode(
        request: &Self::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable>;

    /// Decodes received bytes. `ended` is true if the stream has ended. The next call gets the
    /// unused bytes and the bytes received since.
    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Self::Decoder,
        memory: &mut Self::Memory,
        input: &[u8],
        ended: bool,
    ) -> Progress;

    /// Returns the requested field with index `want` of the answer that [`InOrderProtocol::decode`]
    /// just found in `input`, or `None` if the answer does not have it. `scratch` is empty and may
    /// be used.
    fn field<'a>(
        request: &'a Self::Request,
        decoder: &'a Self::Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;

    /// Returns the value with index `nth` of a field that the answer has several times, such as a
    /// header. [`InOrderProtocol::field`] returns the value with index 0.
    fn field_again<'a>(
        _request: &'a Self::Request,
        _decoder: &'a Self::Decoder,
        _want: usize,
        _nth: usize,
        _input: &'a [u8],
    ) -> Option<&'a [u8]> {
        None
    }

    /// Stores the cookies that the answer sets; see [`SessionProtocol::take_cookies`].
    fn take_cookies(
        _request: &Self::Request,
        _decoder: &Self::Decoder,
        _input: &[u8],
        _values: &OperationValues<'_>,
        _now_s: i64,
        _jar: &mut CookieJar,
        _scratch: &mut Vec<u8>,
    ) {
    }

    /// Resets the decoder and gives its heap memory back to `memory`, after an answer has been
    /// processed or the connection is gone.
    fn rest(decoder: &mut Self::Decoder, memory: &mut Self::Memory);

    /// Returns the bytes of the answer, for an excerpt.
    fn shown<'a>(_decoder: &'a Self::Decoder, input: &'a [u8]) -> ShownAnswer<'a> {
        ShownAnswer { bytes: input, is_decoded: false }
    }

    /// Returns the status and the destination of an answer that is a redirect.
    fn redirect<'a>(_decoder: &'a Self::Decoder, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        None
    }

    /// Sets the request that follows a redirect; see [`SessionProtocol::follow`].
    fn follow(
        _request: &Self::Request,
        _decoder: &Self::Decoder,
        _input: &[u8],
        _values: &OperationValues<'_>,
        _redirection: &mut Redirection,
        _scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        None
    }

    /// Returns the numeric status of the answer, if the protocol has one.
    fn status_code(_decoder: &Self::Decoder) -> Option<u16> {
        None
    }

    /// Returns the status of the answer in the protocol's terms: `ok`, `not_found`, `200`.
    fn status<'a>(decoder: &'a Self::Decoder, input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8];
}

/// Result of [`InOrderProtocol::decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer is not complete.
    More {
        /// Number of bytes that the decoder has consumed and does not need again.
        used: usize,
    },
    /// A part of the answer in which `messages` messages of a stream end; see
    /// [`SessionEvent::Part`].
    Part { used: usize, messages: u32 },
    /// The answer is complete.
    Answer(Answer),
    /// The bytes are not a valid answer. The connection cannot be used any more.
    Bad(AttemptCause),
}

impl<P: InOrderProtocol> SessionProtocol for P {
    const SPEAKS_UNASKED: bool = false;
    type Session = P::Decoder;
    type Memory = <P as InOrderProtocol>::Memory;

    fn greet(&self, session: &mut P::Decoder, out: &mut Vec<u8>) -> Opening {
        InOrderProtocol::greet(self, session, out)
    }

    fn greeted(&self, session: &mut P::Decoder, input: &[u8], out: &mut Vec<u8>) -> Opening {
        InOrderProtocol::greeted(self, session, input, out)
    }

    #[inline]
    fn encode(
        _session: &mut P::Decoder,
        _memory: &mut <P as InOrderProtocol>::Memory,
        request: &P::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable> {
        <P as InOrderProtocol>::encode(request, id, values, out).map(|()| Encoded::Done)
    }

    #[inline]
    fn receive<'a>(
        session: &mut P::Decoder,
        memory: &mut <P as InOrderProtocol>::Memory,
        open: &impl OpenRequests<'a, P>,
        input: &[u8],
        ended: bool,
        _out: &mut Vec<u8>,
    ) -> SessionEvent {
        let Some(asked) = open.oldest() else { return SessionEvent::Bad(AttemptCause::BadAnswer) };
        match P::decode(&asked, session, memory, input, ended) {
            Progress::More { used } => SessionEvent::More { used },
            Progress::Part { used, messages } => SessionEvent::Part { id: asked.id, used, messages },
            Progress::Answer(answer) => SessionEvent::Answer { id: asked.id, answer },
            Progress::Bad(cause) => SessionEvent::Bad(cause),
        }
    }

    #[inline]
    fn field<'a>(
        request: &'a P::Request,
        session: &'a P::Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        <P as InOrderProtocol>::field(request, session, want, input, scratch)
    }

    fn field_again<'a>(
        request: &'a P::Request,
        session: &'a P::Decoder,
        want: usize,
        nth: usize,
        input: &'a [u8],
    ) -> Option<&'a [u8]> {
        <P as InOrderProtocol>::field_again(request, session, want, nth, input)
    }

    fn take_cookies(
        request: &P::Request,
        session: &P::Decoder,
        input: &[u8],
        values: &OperationValues<'_>,
        now_s: i64,
        jar: &mut CookieJar,
        scratch: &mut Vec<u8>,
    ) {
        <P as InOrderProtocol>::take_cookies(request, session, input, values, now_s, jar, scratch);
    }

    fn shown<'a>(session: &'a P::Decoder, input: &'a [u8]) -> ShownAnswer<'a> {
        <P as InOrderProtocol>::shown(session, input)
    }

    fn redirect<'a>(session: &'a P::Decoder, input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        <P as InOrderProtocol>::redirect(session, input)
    }

    fn follow(
        request: &P::Request,
        session: &P::Decoder,
        input: &[u8],
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        <P as InOrderProtocol>::follow(request, session, input, values, redirection, scratch)
    }

    fn status_code(session: &P::Decoder) -> Option<u16> {
        <P as InOrderProtocol>::status_code(session)
    }

    fn status<'a>(session: &'a P::Decoder, input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        <P as InOrderProtocol>::status(session, input, scratch)
    }

    #[inline]
    fn finish(session: &mut P::Decoder, memory: &mut <P as InOrderProtocol>::Memory) {
        P::rest(session, memory);
    }

    fn reset(session: &mut P::Decoder, memory: &mut <P as InOrderProtocol>::Memory) {
        P::rest(session, memory);
    }
}
