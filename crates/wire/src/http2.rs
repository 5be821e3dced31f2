//! HTTP/2 (RFC 9113) from a client's view: frames, header blocks, windows and streams of a
//! connection, without I/O. A protocol whose requests are streams implements [`StreamProtocol`],
//! and the engine uses it as [`OverHttp2`].

use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::catalog;
use experiment::example::DescribedCall;

use crate::cause::{AttemptCause, Refusal};
use crate::cookies::CookieJar;
use crate::protobuf::types::MessageTypes;
use crate::protocols::{AboutData, Call, DescribingCall, Protocol, ShownAnswer};
use crate::redirection::{Redirection, Unfollowed};
use crate::session::{Encoded, OpenRequests, Opening, SessionEvent, SessionProtocol};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;
use crate::values::encoding::ValuePlace;
use frames::code;
use hpack::{BadBlock, HeaderBlock};
use session::Http2Session;
use streams::{StreamSlot, Upload};

pub mod frames;
pub mod hpack;
pub mod huffman;
pub mod session;
mod streams;

/// A protocol whose requests are streams of HTTP/2. It writes header blocks and bodies, and takes
/// the parts of answers; it knows no frames, windows and connections.
pub trait StreamProtocol: Protocol {
    /// State of a stream: the answer so far. Its heap memory comes from
    /// [`StreamProtocol::Memory`], so that nothing is allocated for each operation.
    type Stream: Default + Send + 'static;

    /// State of a thread.
    type Memory: Default + Send + 'static;

    /// Appends the body of a request to `out`, which is empty. If the body stays open, answers can
    /// append to it and end it; see [`OpenBody`].
    ///
    /// # Errors
    /// If the protocol cannot represent the values. The request is then not sent.
    fn encode_body(
        request: &Self::Request,
        stream: &mut Self::Stream,
        memory: &mut Self::Memory,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<BodyEnd, NotSendable>;

    /// Appends the header block of a request, which [`hpack`] encodes. `body` is the length of the
    /// body so far, bytes.
    ///
    /// # Errors
    /// If the protocol cannot represent the values. The request is then not sent.
    fn encode_headers(
        request: &Self::Request,
        body: usize,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable>;

    /// Takes the header block of an answer with its status. The block begins after `:status`.
    /// Interim answers are left out.
    ///
    /// # Errors
    /// If the answer is not valid.
    fn headers(
        request: &Self::Request,
        stream: &mut Self::Stream,
        memory: &mut Self::Memory,
        status: u16,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault>;

    /// Takes bytes of an answer's body, in pieces of any length.
    ///
    /// # Errors
    /// If the answer is not valid or too long.
    fn data(
        request: &Self::Request,
        stream: &mut Self::Stream,
        memory: &mut Self::Memory,
        data: &[u8],
        body: &mut OpenBody<'_>,
    ) -> Result<StreamProgress, StreamFault>;

    /// Takes the trailers of an answer. [`StreamProtocol::end`] follows.
    ///
    /// # Errors
    /// If the answer is not valid.
    fn trailers(
        _request: &Self::Request,
        _stream: &mut Self::Stream,
        _memory: &mut Self::Memory,
        _block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        Ok(StreamProgress::More)
    }

    /// Ends a complete answer.
    fn end(request: &Self::Request, stream: &mut Self::Stream, memory: &mut Self::Memory) -> StreamAnswer;

    /// Resets the state of a stream, and gives its heap memory back to `memory`.
    fn rest(stream: &mut Self::Stream, memory: &mut Self::Memory);

    /// Returns the requested field with index `want` of the answer; see [`SessionProtocol::field`].
    fn field<'a>(
        request: &'a Self::Request,
        stream: &'a Self::Stream,
        want: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;

    /// Returns the value with index `nth` of a field that the answer has several times; see
    /// [`SessionProtocol::field_again`].
    fn field_again<'a>(
        _request: &'a Self::Request,
        _stream: &'a Self::Stream,
        _want: usize,
        _nth: usize,
    ) -> Option<&'a [u8]> {
        None
    }

    /// Stores the cookies that the answer sets; see [`SessionProtocol::take_cookies`].
    fn take_cookies(
        _request: &Self::Request,
        _stream: &Self::Stream,
        _values: &OperationValues<'_>,
        _now_s: i64,
        _jar: &mut CookieJar,
        _scratch: &mut Vec<u8>,
    ) {
    }

    /// Returns the bytes of the answer, for an excerpt.
    fn shown(stream: &Self::Stream) -> ShownAnswer<'_>;

    /// Returns the status and the destination of an answer that is a redirect.
    fn redirect(_stream: &Self::Stream) -> Option<(u16, Option<&[u8]>)> {
        None
    }

    /// Sets the request that follows a redirect; see [`SessionProtocol::follow`].
    fn follow(
        _request: &Self::Request,
        _stream: &Self::Stream,
        _values: &OperationValues<'_>,
        _redirection: &mut Redirection,
        _scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        None
    }

    /// Returns the numeric status of the answer, if the protocol has one.
    fn status_code(_stream: &Self::Stream) -> Option<u16> {
        None
    }

    /// Returns the status of the answer in the protocol's terms.
    fn status<'a>(stream: &'a Self::Stream, scratch: &'a mut Vec<u8>) -> &'a [u8];
}

/// State of a request's body after its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// The body is complete.
    Ended,
    /// More may follow.
    Open,
}

/// Whether an answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamProgress {
    /// More is expected, up to the end of the stream.
    More,
    /// More is expected. This number of messages has ended, for a request whose answer
    /// [is a stream](Protocol::is_stream).
    Messages(u32),
    /// The answer is complete, and this number of messages has ended in it. If the target has not
    /// ended the stream, the stream is cancelled.
    LastMessages(u32),
    /// The answer is complete. If the target has not ended the stream, the stream is cancelled.
    Done,
}

/// The reason why an answer is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFault {
    /// The request fails, and its stream is reset. Other streams go on.
    Stream(AttemptCause),
    /// The connection cannot be used any more.
    Connection(AttemptCause),
}

impl From<AttemptCause> for StreamFault {
    fn from(cause: AttemptCause) -> Self {
        Self::Stream(cause)
    }
}

impl From<BadBlock> for StreamFault {
    fn from(block: BadBlock) -> Self {
        Self::Connection(block.into())
    }
}

/// Result of a complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamAnswer {
    /// [`AttemptCause::Ok`], or the reason why the answer is a failure.
    pub result: AttemptCause,
    /// Whether decoding took more than reading the bytes.
    pub is_costly: bool,
}

/// The open body of a request, to which an answer can append. The bytes are sent as the target's
/// windows allow.
pub struct OpenBody<'a> {
    upload: &'a mut Option<Upload>,
    spare: &'a mut Vec<Upload>,
}

impl OpenBody<'_> {
    /// Returns the buffer to append to, or `None` if the body has ended.
    pub fn buffer(&mut self) -> Option<&mut Vec<u8>> {
        let spare = &mut self.spare;
        let upload = self.upload.get_or_insert_with(|| spare.pop().unwrap_or_default());
        if upload.ends {
            return None;
        }
        if upload.sent == upload.bytes.len() {
            upload.clear();
        }
        Some(&mut upload.bytes)
    }

    /// Ends the body after the appended bytes.
    pub fn end(&mut self) {
        if let Some(upload) = self.upload {
            upload.ends = true;
        }
    }
}

/// A [`StreamProtocol`] with its connections.
#[derive(Debug)]
pub struct OverHttp2<P>(P);

/// Spare memory of a thread.
pub struct Http2Memory<P: StreamProtocol> {
    /// Tables of streams.
    tables: Vec<Vec<StreamSlot<P::Stream>>>,
    uploads: Vec<Upload>,
    /// Header blocks that arrive in several frames.
    blocks: Vec<Vec<u8>>,
    /// The body of a request while it is encoded.
    body: Vec<u8>,
    of_protocol: P::Memory,
}

impl<P: StreamProtocol> Default for Http2Memory<P> {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            uploads: Vec::new(),
            blocks: Vec::new(),
            body: Vec::new(),
            of_protocol: P::Memory::default(),
        }
    }
}

impl<P: StreamProtocol> Protocol for OverHttp2<P> {
    const INFO: &'static catalog::Protocol = P::INFO;
    const REFUSALS: &'static [Refusal] = P::REFUSALS;
    const ALPN: &'static [&'static [u8]] = &[b"h2"];
    type Request = P::Request;

    fn open(service: &str) -> Result<Self, String> {
        P::open(service).map(Self)
    }

    fn authority(&self) -> &str {
        self.0.authority()
    }

    fn tls_host(&self) -> Option<&str> {
        self.0.tls_host()
    }

    fn lacks_types(&self, arguments: &BTreeMap<String, String>) -> Option<String> {
        self.0.lacks_types(arguments)
    }

    fn learn_types(&mut self, types: &Arc<MessageTypes>) {
        self.0.learn_types(types);
    }

    fn ask_types(names: &[String], call: &mut DescribingCall<'_>) -> Result<MessageTypes, String> {
        P::ask_types(names, call)
    }

    fn described_calls(types: &MessageTypes) -> Vec<DescribedCall> {
        P::described_calls(types)
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        P::advice(failure)
    }

    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        P::show_answer(answer, out);
    }

    fn value_place(argument: &str, arguments: &BTreeMap<String, String>) -> ValuePlace {
        P::value_place(argument, arguments)
    }

    fn compile(&self, call: &Call<'_>) -> Result<P::Request, String> {
        self.0.compile(call)
    }

    fn may_change(request: &P::Request) -> bool {
        P::may_change(request)
    }

    fn is_stream(request: &P::Request) -> bool {
        P::is_stream(request)
    }

    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        P::about_data(failure)
    }
}

impl<P: StreamProtocol> SessionProtocol for OverHttp2<P> {
    const SPEAKS_UNASKED: bool = true;
    type Session = Http2Session<P::Stream>;
    type Memory = Http2Memory<P>;

    fn greet(&self, session: &mut Self::Session, out: &mut Vec<u8>) -> Opening {
        session.greet(out)
    }

    fn greeted(&self, session: &mut Self::Session, input: &[u8], out: &mut Vec<u8>) -> Opening {
        session.greeted(input, out)
    }

    #[inline]
    fn encode(
        session: &mut Self::Session,
        memory: &mut Self::Memory,
        request: &P::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable> {
        session.encode(memory, request, id, values, out)
    }

    #[inline]
    fn receive<'a>(
        session: &mut Self::Session,
        memory: &mut Self::Memory,
        open: &impl OpenRequests<'a, Self>,
        input: &[u8],
        _ended: bool,
        out: &mut Vec<u8>,
    ) -> SessionEvent {
        session.receive(memory, open, input, out)
    }

    fn send_rest(session: &mut Self::Session, memory: &mut Self::Memory, out: &mut Vec<u8>) {
        session.send_rest(memory, out);
    }

    fn cancel(session: &mut Self::Session, memory: &mut Self::Memory, id: u32, out: &mut Vec<u8>) -> bool {
        session.cancel(memory, id, out);
        true
    }

    fn leave(_session: &mut Self::Session, out: &mut Vec<u8>) {
        frames::write_goaway(code::NO_ERROR, out);
    }

    fn field<'a>(
        request: &'a P::Request,
        session: &'a Self::Session,
        want: usize,
        _input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        P::field(request, session.answered()?, want, scratch)
    }

    fn field_again<'a>(
        request: &'a P::Request,
        session: &'a Self::Session,
        want: usize,
        nth: usize,
        _input: &'a [u8],
    ) -> Option<&'a [u8]> {
        P::field_again(request, session.answered()?, want, nth)
    }

    fn take_cookies(
        request: &P::Request,
        session: &Self::Session,
        _input: &[u8],
        values: &OperationValues<'_>,
        now_s: i64,
        jar: &mut CookieJar,
        scratch: &mut Vec<u8>,
    ) {
        if let Some(stream) = session.answered() {
            P::take_cookies(request, stream, values, now_s, jar, scratch);
        }
    }

    fn shown<'a>(session: &'a Self::Session, _input: &'a [u8]) -> ShownAnswer<'a> {
        session.answered().map_or(ShownAnswer { bytes: b"", is_decoded: false }, P::shown)
    }

    fn redirect<'a>(session: &'a Self::Session, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        P::redirect(session.answered()?)
    }

    fn follow(
        request: &P::Request,
        session: &Self::Session,
        _input: &[u8],
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        P::follow(request, session.answered()?, values, redirection, scratch)
    }

    fn status_code(session: &Self::Session) -> Option<u16> {
        P::status_code(session.answered()?)
    }

    fn status<'a>(session: &'a Self::Session, _input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        session.answered().map_or(b"", |stream| P::status(stream, scratch))
    }

    #[inline]
    fn finish(session: &mut Self::Session, memory: &mut Self::Memory) {
        session.finish(memory);
    }

    fn reset(session: &mut Self::Session, memory: &mut Self::Memory) {
        session.reset(memory);
    }
}
