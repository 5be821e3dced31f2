//! HTTP/2 over TCP (prior knowledge) or TLS (ALPN). The steps are those of `http`; their requests
//! are streams, so agents share a connection without waiting for each other's answers.

use std::collections::BTreeMap;

use experiment::catalog;

use super::http::answer::{AnswerContent, AnswerMemory, AnswerView, show_answer};
use super::http::event_stream::EventBody;
use super::http::framing::ResponseHead;
use super::http::request::{Request, RequestTarget, accepted_type, add_path, checked, header_arguments, header_check};
use super::http::request_body::RequestBody;
use super::http::{Http, HttpAddress, OPERATIONS};
use super::{AboutData, Call, Protocol, ShownAnswer};
use crate::cause::{AttemptCause, FrameDefect, Malformation, Refusal};
use crate::cookies::CookieJar;
use crate::http2::hpack::{self, HeaderBlock, HeaderField};
use crate::http2::{BodyEnd, OpenBody, OverHttp2, StreamAnswer, StreamFault, StreamProgress, StreamProtocol};
use crate::redirection::{Redirection, Unfollowed};
use crate::values::allowed::NotSendable;
use crate::values::encoding::ValuePlace;
use crate::values::layout::{CookieBegin, LayoutBuilder, RequestLayout};
use crate::values::{OperationValues, write_decimal};

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "http2",
    schemes: &["h2", "h2c"],
    help: "HTTP/2: requests as streams of shared connections, with TLS or with prior knowledge",
    operations: &OPERATIONS,
};

/// Headers that HTTP/2 does not have (RFC 9113, 8.2.2).
const CONNECTION_HEADERS: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];
/// Names in the static table of HPACK.
const CONTENT_ENCODING: usize = 26;
const CONTENT_LENGTH: usize = 28;
/// Number of body bytes of a failed answer that are kept for an example.
const SHOWN_BODY: usize = 400;

/// HTTP/2 as the engine uses it.
pub type Http2 = OverHttp2<Http2Streams>;

/// An HTTP/2 server.
#[derive(Debug)]
pub struct Http2Streams {
    place: HttpAddress,
}

/// Layout of a request.
#[derive(Debug)]
pub struct StreamLayout {
    headers: RequestLayout,
    /// The body, if the request has one.
    body: Option<RequestLayout>,
}

/// State of an answer.
#[derive(Debug, Default)]
pub struct AnswerState {
    head: Option<ResponseHead>,
    /// Length of the body according to its header.
    length: Option<u64>,
    content: AnswerContent,
}

impl Protocol for Http2Streams {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[];
    type Request = Request<StreamLayout>;

    fn open(service: &str) -> Result<Self, String> {
        let place = match service.split_once("://") {
            Some(("h2", rest)) => HttpAddress::parse(&format!("https://{rest}")),
            Some(("h2c", rest)) => HttpAddress::parse(&format!("http://{rest}")),
            _ => HttpAddress::parse(service),
        };
        place.map(|place| Self { place })
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.place.tls_host.as_deref()
    }

    fn value_place(argument: &str, arguments: &BTreeMap<String, String>) -> ValuePlace {
        Http::value_place(argument, arguments)
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request<StreamLayout>, String> {
        Request::compile(&self.place, call, |method, target| layout(&self.place, call, method, target))
    }

    fn may_change(request: &Request<StreamLayout>) -> bool {
        !request.is_safe
    }

    fn is_stream(request: &Request<StreamLayout>) -> bool {
        request.stream.is_some()
    }

    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        Http::about_data(failure)
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        const HTTP_1_1_REQUIRED: u8 = 13;
        match failure {
            AttemptCause::NotHttp2 => {
                Some("the target does not speak HTTP/2 on this port: use the protocol `http` for HTTP/1.1")
            }
            AttemptCause::StreamReset(HTTP_1_1_REQUIRED) => {
                Some("the target wants HTTP/1.1 for this request: use the protocol `http`")
            }
            other => Http::advice(other),
        }
    }

    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        show_answer(answer, out);
    }
}

impl StreamProtocol for Http2Streams {
    type Stream = AnswerState;
    type Memory = AnswerMemory;

    #[inline]
    fn encode_body(
        request: &Request<StreamLayout>,
        _stream: &mut AnswerState,
        _memory: &mut AnswerMemory,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<BodyEnd, NotSendable> {
        match &request.layout(values).body {
            Some(body) => body.write(0, values, out).map(|()| BodyEnd::Ended),
            None => Ok(BodyEnd::Ended),
        }
    }

    #[inline]
    fn encode_headers(
        request: &Request<StreamLayout>,
        body: usize,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable> {
        let layout = request.layout(values);
        layout.headers.write(0, values, out)?;
        if layout.body.is_some() {
            hpack::write_name("content-length", out);
            out.push(0);
            let gap = out.len() - 1;
            write_decimal(body as u64, out);
            hpack::set_length(gap, out);
        }
        Ok(())
    }

    #[inline]
    fn headers(
        request: &Request<StreamLayout>,
        state: &mut AnswerState,
        memory: &mut AnswerMemory,
        status: u16,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        let mut head = ResponseHead::of_stream(status);
        let mut rest = block;
        while let Some(field) = rest.next_field()? {
            if field.has_index(CONTENT_LENGTH) {
                state.length = Some(memory.number(field.value).ok_or(WRONG_FIELDS)?);
            } else if request.wants_body && field.has_index(CONTENT_ENCODING) {
                memory.with_text(field.value, |value| head.codings.note(value))?;
            }
        }
        if request.wants_head || request.wants_body || status >= 300 {
            state.content.stored = memory.buffer();
            write_head(status, block, &mut state.content.stored)?;
            state.content.is_stored = true;
            head.length = state.content.stored.len();
        }
        if request.stream.is_some() {
            state.content.events = EventBody::begin(&state.content.stored);
        }
        state.head = Some(head);
        Ok(StreamProgress::More)
    }

    #[inline]
    fn data(
        request: &Request<StreamLayout>,
        state: &mut AnswerState,
        _memory: &mut AnswerMemory,
        data: &[u8],
        _body: &mut OpenBody<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        let shown = state.content.is_stored && !request.wants_body && state.content.body < SHOWN_BODY as u64;
        let messages = state.content.take(request, data)?;
        if shown {
            state.content.stored.extend_from_slice(&data[..data.len().min(SHOWN_BODY)]);
        }
        Ok(match messages {
            0 => StreamProgress::More,
            messages if state.content.events.has_ended() => StreamProgress::LastMessages(messages),
            messages => StreamProgress::Messages(messages),
        })
    }

    #[inline]
    fn end(request: &Request<StreamLayout>, state: &mut AnswerState, memory: &mut AnswerMemory) -> StreamAnswer {
        let Some(head) = state.head else { return StreamAnswer { result: WRONG_FIELDS, is_costly: false } };
        let is_bodiless = request.is_head || head.status == 304 || state.content.events.has_ended();
        if state.length.is_some_and(|length| length != state.content.body) && !is_bodiless {
            let result = AttemptCause::Malformed(Malformation::Frames(FrameDefect::Length));
            return StreamAnswer { result, is_costly: false };
        }
        match state.content.judge(request, memory, head, b"") {
            Ok((result, is_costly)) => StreamAnswer { result, is_costly },
            Err(result) => StreamAnswer { result, is_costly: true },
        }
    }

    #[inline]
    fn rest(state: &mut AnswerState, memory: &mut AnswerMemory) {
        memory.recycle(std::mem::take(state).content.stored);
    }

    fn field<'a>(
        request: &'a Request<StreamLayout>,
        state: &'a AnswerState,
        want: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        state.view()?.field(request, want, scratch)
    }

    fn field_again<'a>(
        request: &'a Request<StreamLayout>,
        state: &'a AnswerState,
        want: usize,
        nth: usize,
    ) -> Option<&'a [u8]> {
        state.view()?.field_again(request, want, nth)
    }

    fn take_cookies(
        request: &Request<StreamLayout>,
        state: &AnswerState,
        values: &OperationValues<'_>,
        now_s: i64,
        jar: &mut CookieJar,
        scratch: &mut Vec<u8>,
    ) {
        if let Some(answer) = state.view() {
            answer.take_cookies(request, values, now_s, jar, scratch);
        }
    }

    fn shown(state: &AnswerState) -> ShownAnswer<'_> {
        state.content.shown(&state.content.stored)
    }

    fn redirect(state: &AnswerState) -> Option<(u16, Option<&[u8]>)> {
        state.view()?.redirect()
    }

    fn follow(
        request: &Request<StreamLayout>,
        state: &AnswerState,
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        state.view()?.follow(request, values, redirection, scratch)
    }

    fn status_code(state: &AnswerState) -> Option<u16> {
        state.head.map(|head| head.status)
    }

    fn status<'a>(state: &'a AnswerState, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        write_decimal(state.head.map_or(0, |head| u64::from(head.status)), scratch);
        scratch
    }
}

const WRONG_FIELDS: AttemptCause = AttemptCause::Malformed(Malformation::Frames(FrameDefect::HeaderFields));

impl AnswerState {
    fn view(&self) -> Option<AnswerView<'_>> {
        Some(self.content.view(self.head?, None))
    }
}

/// Appends a header block as text: a status line, and a line for each field.
fn write_head(status: u16, mut block: HeaderBlock<'_>, out: &mut Vec<u8>) -> Result<(), StreamFault> {
    out.extend_from_slice(b"HTTP/2 ");
    write_decimal(u64::from(status), out);
    out.extend_from_slice(b"\r\n");
    let mut count = 0;
    while let Some(field) = block.next_field()? {
        write_line(&field, out)?;
        count += 1;
        if count > super::http::framing::HEADERS {
            return Err(AttemptCause::Malformed(Malformation::TooManyHeaders).into());
        }
        if out.len() > super::http::HEAD_LIMIT {
            return Err(AttemptCause::Malformed(Malformation::LongHead).into());
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends a field as a line, if its name and its value are valid (RFC 9113, 8.2.1).
fn write_line(field: &HeaderField<'_>, out: &mut Vec<u8>) -> Result<(), StreamFault> {
    let begin = out.len();
    field.name().write(out)?;
    let is_name = |byte: &u8| (b'!'..=b'~').contains(byte) && !byte.is_ascii_uppercase() && *byte != b':';
    let is_valid = out.len() > begin && out[begin..].iter().all(is_name);
    out.extend_from_slice(b": ");
    let begin = out.len();
    field.value.write(out)?;
    if !is_valid || out[begin..].iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err(WRONG_FIELDS.into());
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Lays out a request to a target.
fn layout(place: &HttpAddress, call: &Call<'_>, method: &str, target: RequestTarget) -> Result<StreamLayout, String> {
    let mut builder = LayoutBuilder::default();
    let scheme = if place.tls_host.is_some() { "https" } else { "http" };
    let mut begin = Vec::new();
    hpack::write_field(":method", method.as_bytes(), &mut begin);
    hpack::write_field(":scheme", scheme.as_bytes(), &mut begin);
    hpack::write_name(":path", &mut begin);
    let mut path = LayoutBuilder::default();
    match target {
        RequestTarget::Path => add_path(&mut path, place, call, &[b"/"])?,
        RequestTarget::Destination { .. } => {
            path.target();
        }
    }
    builder.bytes(&begin).header_string(path.finish()?, call.cookies);
    add_authority(&mut builder, place, call)?;
    add_headers(&mut builder, place, call, target.has_body())?;
    if !target.has_body() {
        return Ok(StreamLayout { headers: builder.finish()?, body: None });
    }
    let body = RequestBody::of(call, method)?;
    if let Some(content_type) = &body.content_type {
        builder.bytes(&field_bytes("content-type", content_type.as_bytes()));
    }
    let mut bytes = LayoutBuilder::default();
    body.add(&mut bytes, call)?;
    let bytes = bytes.finish()?;
    Ok(StreamLayout { headers: builder.finish()?, body: body.is_any().then_some(bytes) })
}

fn field_bytes(name: &str, value: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    hpack::write_field(name, value, &mut field);
    field
}

/// Adds `:authority`: the header `host` of the step, or the address.
fn add_authority(builder: &mut LayoutBuilder, place: &HttpAddress, call: &Call<'_>) -> Result<(), String> {
    let given = call.arguments.iter().position(|argument| argument.name.eq_ignore_ascii_case("header.host"));
    match given {
        None => drop(builder.bytes(&field_bytes(":authority", place.host.as_bytes()))),
        Some(number) => add_value(builder, call, ":authority", number, None)?,
    }
    Ok(())
}

/// Adds a field with the value of an argument, and the session's cookies to it.
fn add_value(
    builder: &mut LayoutBuilder,
    call: &Call<'_>,
    name: &str,
    number: usize,
    cookies: Option<bool>,
) -> Result<(), String> {
    let mut value = LayoutBuilder::default();
    checked(&mut value, call, number, &header_check())?;
    if let Some(is_secure) = cookies {
        value.cookies(call.cookie_host, is_secure, CookieBegin::Value);
    }
    let mut begin = Vec::new();
    hpack::write_name(name, &mut begin);
    builder.bytes(&begin).header_string(value.finish()?, false);
    Ok(())
}

fn add_headers(
    builder: &mut LayoutBuilder,
    place: &HttpAddress,
    call: &Call<'_>,
    has_body: bool,
) -> Result<(), String> {
    if let Some(accepted) = accepted_type(call) {
        builder.bytes(&field_bytes("accept", accepted.as_bytes()));
    }
    let (is_secure, mut has_cookies) = (place.tls_host.is_some(), false);
    for (number, name) in header_arguments(call, has_body)? {
        let name = name.to_ascii_lowercase();
        if CONNECTION_HEADERS.contains(&name.as_str()) {
            return Err(format!("`header.{name}`: HTTP/2 has no such header, because its connections are shared"));
        }
        let is_trailers = || call.arguments[number].template.as_constant() == Some(b"trailers");
        if name == "te" && !is_trailers() {
            return Err("`header.te`: in HTTP/2 it can only be `trailers` (RFC 9113, 8.2.2)".to_owned());
        }
        if name == "host" {
            continue;
        }
        let is_cookie = call.cookies && name == "cookie";
        has_cookies |= is_cookie;
        add_value(builder, call, &name, number, is_cookie.then_some(is_secure))?;
    }
    if call.cookies && !has_cookies {
        builder.cookies(call.cookie_host, is_secure, CookieBegin::Field);
    }
    Ok(())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
