//! HTTP/1.1 over TCP or TLS. Requests are encoded in advance. Answers are framed by length, by
//! chunks or by the end of the connection. Bodies that no step needs are counted and dropped.
//! A coded body is decoded if a step needs it. Redirects are followed if the step says
//! so. Cookies are kept in the session's jar, if it has one.

use std::collections::BTreeMap;

use experiment::catalog;
use experiment::socket_url;

pub use self::address::{HttpAddress, IN_FILES};
use self::answer::{AnswerContent, AnswerMemory, AnswerView};
pub use self::content_coding::ContentCoding;
use self::event_stream::EventBody;
use self::framing::{ChunkStep, Chunks, Framing, LastHeaders, ResponseHead};
pub use self::framing::{HEAD_LIMIT, headers, http2_frames};
pub use self::operations::OPERATIONS;
use self::request::{RequestTarget, accepted_type, add_path, checked, header_arguments, header_check};
use super::{AboutData, Call, Protocol, ShownAnswer};
use crate::cause::Refusal;
use crate::cause::{AttemptCause, Malformation};
use crate::cookies::CookieJar;
use crate::in_order::{InOrderProtocol, Progress};
use crate::redirection::{Redirection, Unfollowed};
use crate::session::{Answer, RequestContext};
use crate::values::allowed::NotSendable;
use crate::values::encoding::ValuePlace;
use crate::values::layout::{CookieBegin, LayoutBuilder, RequestLayout};
use crate::values::{OperationValues, write_decimal};

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "http",
    schemes: &["http", "https", socket_url::SCHEME],
    help: "HTTP/1.1, with keep-alive and TLS",
    operations: &OPERATIONS,
};

/// A compiled step.
pub type Request = request::Request<RequestLayout>;

/// Longest accepted body, bytes.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;

/// An HTTP server.
#[derive(Debug)]
pub struct Http {
    place: HttpAddress,
}

/// State of a thread between answers.
#[derive(Debug, Default)]
pub struct HttpScratch {
    /// Last header block of each step.
    last: Vec<LastHeaders>,
    answers: AnswerMemory,
}

/// Position of a connection in an answer, and the parts stored so far.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: DecodeStage,
    head: Option<ResponseHead>,
    /// Start of the header block in the input, after interim answers. Valid only while nothing is
    /// stored.
    head_at: usize,
    /// Number of bytes so far in interim answers, chunk sizes and trailers.
    beside: u64,
    content: AnswerContent,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DecodeStage {
    #[default]
    Head,
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

impl Protocol for Http {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[];
    const ALPN: &'static [&'static [u8]] = &[b"http/1.1"];
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        HttpAddress::parse(service).map(|place| Self { place })
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.place.tls_host.as_deref()
    }

    fn value_place(argument: &str, arguments: &BTreeMap<String, String>) -> ValuePlace {
        match argument {
            "path" => ValuePlace::Path,
            _ => request_body::value_place(argument, arguments),
        }
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        Request::compile(&self.place, call, |method, target| layout(&self.place, call, method, target))
    }

    fn may_change(request: &Request) -> bool {
        !request.is_safe
    }

    fn is_stream(request: &Request) -> bool {
        request.stream.is_some()
    }

    /// 404 Not Found, 409 Conflict, 410 Gone, 412 Precondition Failed (RFC 9110, 15.5). Other
    /// statuses concern the request, the client or the server.
    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        match failure {
            AttemptCause::Status(404 | 410) => Some(AboutData::Missing),
            AttemptCause::Status(409 | 412) => Some(AboutData::Different),
            _ => None,
        }
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        match failure {
            AttemptCause::Malformed(Malformation::Http2) => Some(
                "the target answers in HTTP/2 and may support nothing else on this port: set `protocol = \"http2\"` in \
                 [target], or write h2:// (TLS) or h2c:// (without) for the URL's scheme",
            ),
            AttemptCause::Malformed(Malformation::UnknownCoding) => Some(
                "the target codes its answers in a way that Plimsoll cannot decode, but a step needs their bodies: \
                 request gzip, deflate, br or zstd with `header.accept-encoding`, or \"identity\"",
            ),
            AttemptCause::Malformed(Malformation::NotEventStream) => Some(
                "a step with `stream` is answered with another `Content-Type` than text/event-stream: ask the server \
                 for a stream (LLM servers want `\"stream\": true` in the body), or remove `stream`",
            ),
            AttemptCause::Malformed(Malformation::CodedStream) => Some(
                "the target codes its stream of events, which Plimsoll reads only as it is: remove \
                 `header.accept-encoding`, or set it to \"identity\"",
            ),
            _ => None,
        }
    }

    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        answer::show_answer(answer, out);
    }
}

impl InOrderProtocol for Http {
    type Decoder = Decoder;
    type Memory = HttpScratch;

    fn encode(request: &Request, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        request.layout(values).write(id, values, out)
    }

    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Decoder,
        memory: &mut HttpScratch,
        input: &[u8],
        ended: bool,
    ) -> Progress {
        decoder.decode(asked.request, memory, input, ended).unwrap_or_else(Progress::Bad)
    }

    fn field<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        decoder.view(input)?.field(request, want, scratch)
    }

    fn field_again<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        nth: usize,
        input: &'a [u8],
    ) -> Option<&'a [u8]> {
        decoder.view(input)?.field_again(request, want, nth)
    }

    fn take_cookies(
        request: &Request,
        decoder: &Decoder,
        input: &[u8],
        values: &OperationValues<'_>,
        now_s: i64,
        jar: &mut CookieJar,
        scratch: &mut Vec<u8>,
    ) {
        if let Some(answer) = decoder.view(input) {
            answer.take_cookies(request, values, now_s, jar, scratch);
        }
    }

    fn rest(decoder: &mut Decoder, memory: &mut HttpScratch) {
        memory.answers.recycle(std::mem::take(decoder).content.stored);
    }

    fn shown<'a>(decoder: &'a Decoder, input: &'a [u8]) -> ShownAnswer<'a> {
        decoder.content.shown(input)
    }

    fn redirect<'a>(decoder: &'a Decoder, input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        decoder.view(input)?.redirect()
    }

    fn follow(
        request: &Request,
        decoder: &Decoder,
        input: &[u8],
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        decoder.view(input)?.follow(request, values, redirection, scratch)
    }

    fn status_code(decoder: &Decoder) -> Option<u16> {
        decoder.head.map(|head| head.status)
    }

    fn status<'a>(decoder: &'a Decoder, _input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        write_decimal(decoder.head.map_or(0, |head| u64::from(head.status)), scratch);
        scratch
    }
}

impl HttpScratch {
    fn last(&mut self, number: usize) -> &mut LastHeaders {
        if self.last.len() <= number {
            self.last.resize_with(number + 1, LastHeaders::default);
        }
        &mut self.last[number]
    }
}

impl Decoder {
    /// Returns the answer that was just decoded in `input`.
    fn view<'a>(&'a self, input: &'a [u8]) -> Option<AnswerView<'a>> {
        Some(self.content.view(self.head?, input.get(self.head_at..)))
    }

    fn decode(
        &mut self,
        request: &Request,
        memory: &mut HttpScratch,
        input: &[u8],
        ended: bool,
    ) -> Result<Progress, AttemptCause> {
        let mut used = 0;
        while self.stage == DecodeStage::Head {
            let Some(head) = memory.last(request.number).read(&input[used..])? else {
                return Ok(Progress::More { used });
            };
            match head.status {
                // No request asks for an upgrade.
                101 => return Err(AttemptCause::Malformed(Malformation::Switched)),
                100..200 => {
                    self.pass(head.length, HEAD_LIMIT as u64)?;
                    used += head.length;
                }
                _ => {
                    self.head_at = used;
                    if let Some(answer) = self.begin(request, memory, head, input)? {
                        return Ok(Progress::Answer(answer));
                    }
                    used += head.length;
                }
            }
        }
        self.go_on(request, memory, input, used, ended)
    }

    /// Continues after a header block. Returns the answer if it is complete; otherwise sets the
    /// next stage.
    fn begin(
        &mut self,
        request: &Request,
        memory: &mut HttpScratch,
        head: ResponseHead,
        input: &[u8],
    ) -> Result<Option<Answer>, AttemptCause> {
        self.head = Some(head);
        let bodiless = request.is_head || matches!(head.status, 204 | 304);
        let framing = if bodiless { Framing::Length(0) } else { head.framing };
        let behind = self.head_at + head.length;
        if request.stream.is_some() {
            self.content.events = EventBody::begin(&input[self.head_at..behind]);
        }
        if let Framing::Length(length) = framing {
            if length > BODY_LIMIT {
                return Err(AttemptCause::TooLong);
            }
            if request.stream.is_none() && (input.len() - behind) as u64 >= length {
                self.content.body = length;
                return self.answer(request, memory, head, input, behind + length as usize).map(Some);
            }
        }
        self.stage = match framing {
            Framing::Length(length) => DecodeStage::Length(length),
            Framing::Chunked => DecodeStage::Chunked(Chunks::default()),
            Framing::UntilClose => DecodeStage::UntilClose,
        };
        if request.wants_head || request.wants_body {
            let content = &mut self.content;
            content.stored = memory.answers.buffer();
            content.stored.extend_from_slice(&input[self.head_at..behind]);
            content.is_stored = true;
        }
        Ok(None)
    }

    /// Decodes body bytes until the input is used up or the body ends. The answer is complete after
    /// the last event that the step reads. If the body's end has arrived, too, the connection is
    /// used again.
    fn go_on(
        &mut self,
        request: &Request,
        memory: &mut HttpScratch,
        input: &[u8],
        start: usize,
        ended: bool,
    ) -> Result<Progress, AttemptCause> {
        let (mut used, mut messages) = (start, 0);
        loop {
            let rest = &input[used..];
            let piece = match &mut self.stage {
                DecodeStage::Head => ChunkStep::More,
                DecodeStage::Chunked(chunks) => chunks.step(rest)?,
                DecodeStage::Length(0) => ChunkStep::End,
                DecodeStage::UntilClose if rest.is_empty() && ended => ChunkStep::End,
                DecodeStage::Length(_) | DecodeStage::UntilClose if rest.is_empty() => ChunkStep::More,
                DecodeStage::UntilClose => ChunkStep::Data(rest.len()),
                DecodeStage::Length(left) => {
                    let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= here as u64;
                    ChunkStep::Data(here)
                }
            };
            match piece {
                ChunkStep::More | ChunkStep::End if messages > 0 => return Ok(Progress::Part { used, messages }),
                ChunkStep::More if !self.content.events.has_ended() => return Ok(Progress::More { used }),
                ChunkStep::Framing(length) => {
                    self.pass(length, BODY_LIMIT)?;
                    used += length;
                }
                ChunkStep::Data(length) => {
                    messages += self.content.take(request, &rest[..length])?;
                    used += length;
                }
                ChunkStep::More | ChunkStep::End => {
                    let head = self.head.ok_or(AttemptCause::BadAnswer)?;
                    let head = ResponseHead { reusable: head.reusable && piece == ChunkStep::End, ..head };
                    return self.answer(request, memory, head, input, used).map(Progress::Answer);
                }
            }
        }
    }

    /// Counts bytes that are dropped. The limit stops a target that sends such bytes forever. A
    /// stream of events has no limit but the timeout.
    fn pass(&mut self, length: usize, limit: u64) -> Result<(), AttemptCause> {
        self.beside += length as u64;
        let is_limited = !matches!(self.content.events, EventBody::Read(_));
        if self.beside > limit && is_limited { Err(AttemptCause::TooLong) } else { Ok(()) }
    }

    #[inline]
    fn answer(
        &mut self,
        request: &Request,
        memory: &mut HttpScratch,
        head: ResponseHead,
        input: &[u8],
        used: usize,
    ) -> Result<Answer, AttemptCause> {
        let in_input = input.get(self.head_at..).unwrap_or_default();
        let (result, is_costly) = self.content.judge(request, &mut memory.answers, head, in_input)?;
        let reusable = head.reusable && self.stage != DecodeStage::UntilClose;
        Ok(Answer { used, result, reusable, is_costly })
    }
}

/// Lays out a request to a target.
fn layout(place: &HttpAddress, call: &Call<'_>, method: &str, target: RequestTarget) -> Result<RequestLayout, String> {
    let mut builder = LayoutBuilder::default();
    builder.bytes(method.as_bytes()).bytes(b" ");
    match target {
        // The target of a request to a forward proxy is a whole URL.
        RequestTarget::Path if place.base.is_empty() => add_path(&mut builder, place, call, &[b"/", b"http://"])?,
        RequestTarget::Path => add_path(&mut builder, place, call, &[b"/"])?,
        RequestTarget::Destination { .. } => {
            builder.target();
        }
    }
    builder.bytes(b" HTTP/1.1\r\n");
    add_headers(&mut builder, place, call, target.has_body())?;
    if target.has_body() {
        request_body::add_body(&mut builder, call, method)?;
    } else {
        builder.bytes(b"\r\n");
    }
    builder.finish()
}

/// Adds the header lines.
fn add_headers(
    builder: &mut LayoutBuilder,
    place: &HttpAddress,
    call: &Call<'_>,
    has_body: bool,
) -> Result<(), String> {
    if call.argument("header.host").or(call.argument("header.Host")).is_none() {
        builder.bytes(format!("Host: {}\r\n", place.host).as_bytes());
    }
    if call.closes {
        builder.bytes(b"Connection: close\r\n");
    }
    if let Some(accepted) = accepted_type(call) {
        builder.bytes(format!("Accept: {accepted}\r\n").as_bytes());
    }
    let (is_secure, mut has_cookies) = (place.tls_host.is_some(), false);
    for (number, name) in header_arguments(call, has_body)? {
        builder.bytes(name.as_bytes()).bytes(b": ");
        checked(builder, call, number, &header_check())?;
        if call.cookies && name.eq_ignore_ascii_case("cookie") {
            has_cookies = true;
            builder.cookies(call.cookie_host, is_secure, CookieBegin::Value);
        }
        builder.bytes(b"\r\n");
    }
    if call.cookies && !has_cookies {
        builder.cookies(call.cookie_host, is_secure, CookieBegin::Header);
    }
    Ok(())
}

pub(super) mod address;
pub(super) mod answer;
pub(super) mod content_coding;
pub(super) mod event_stream;
pub(super) mod framing;
mod operations;
mod redirects;
pub(super) mod request;
pub(super) mod request_body;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
