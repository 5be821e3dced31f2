//! HTTP/1.1 over TCP or TLS. Requests are encoded in advance. Answers are framed by length, by
//! chunks or by the end of the connection. Bodies that no step needs are counted and dropped.
//! A coded body is decoded if a step needs it. Redirects are followed if the step says
//! so. Cookies are kept in the session's jar, if it has one.

use std::collections::BTreeMap;

use experiment::catalog::{self, Effect, Field, Operation};
use experiment::socket_url;

use self::content_coding::BodyDecoder;
pub use self::content_coding::ContentCoding;
use self::framing::{ChunkStep, Chunks, Framing, LastHeaders, ResponseHead, cookie};
pub use self::framing::{HEAD_LIMIT, headers};
use self::redirects::FollowingRequests;
use super::{AboutData, Call, Protocol, ShownAnswer};
use crate::answer_budget::BudgetShare;
use crate::cause::{AttemptCause, Malformation, Refusal};
use crate::cookies::{CookieJar, SetCookie};
use crate::in_order::{InOrderProtocol, Progress};
use crate::redirection::{Redirection, Unfollowed};
use crate::session::{Answer, RequestContext};
use crate::values::allowed::{AllowedBytes, NotSendable};
use crate::values::encoding::ValuePlace;
use crate::values::layout::{CookieBegin, LayoutBuilder, RequestLayout, ValueCheck};
use crate::values::{Argument, OperationValues, write_decimal};

const PATH: Field = Field {
    name: "path",
    help: "path and query, from the first `/`; for a forward proxy, a complete http:// URL",
    required: true,
};
const METHOD: Field =
    Field { name: "method", help: "the method, such as PROPFIND: a literal text, sent as it is", required: true };
const BODY: Field = Field { name: "body", help: "the request's body", required: false };
const FORM: Field =
    Field { name: "form.*", help: "a field of an HTML form, such as form.user, instead of a body", required: false };
const MULTIPART: Field = Field {
    name: "multipart.*",
    help: "a part of a multipart body, such as multipart.photo, instead of a body; a file is {file:photo.jpg}",
    required: false,
};
const FILENAME: Field = Field {
    name: "filename.*",
    help: "the file's name that is sent for the part, such as filename.photo; default: the name of the part's file",
    required: false,
};
const PART_TYPE: Field = Field {
    name: "type.*",
    help: "the type of the part, such as type.photo; default: by the name of the part's file",
    required: false,
};
const HEADER: Field = Field { name: "header.*", help: "a header, such as header.accept", required: false };
const STATUS: Field = Field { name: "status", help: "the status code, such as 200", required: false };
const ANSWER_BODY: Field = Field { name: "body", help: "the answer's body", required: false };
const ANSWER_HEADER: Field = Field { name: "header.*", help: "a header of the answer", required: false };
const ANSWER_COOKIE: Field =
    Field { name: "cookie.*", help: "a cookie that the answer sets, such as cookie.sid: its value", required: false };

const fn operation(name: &'static str, help: &'static str) -> Operation {
    Operation {
        name,
        help,
        takes: &[PATH, BODY, FORM, MULTIPART, FILENAME, PART_TYPE, HEADER],
        answers: &[STATUS, ANSWER_BODY, ANSWER_HEADER, ANSWER_COOKIE],
        effect: Effect::None,
    }
}

/// An operation with any method.
const REQUEST: Operation = Operation {
    takes: &[METHOD, PATH, BODY, FORM, MULTIPART, FILENAME, PART_TYPE, HEADER],
    ..operation("request", "any other method, such as OPTIONS or PROPFIND")
};

/// Prefix of an authority that is the path of a socket.
pub const IN_FILES: &str = "unix:";

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "http",
    schemes: &["http", "https", socket_url::SCHEME],
    help: "HTTP/1.1, with keep-alive and TLS",
    operations: &[
        operation("get", "GET"),
        operation("head", "HEAD: an answer without its body"),
        operation("post", "POST"),
        operation("put", "PUT"),
        operation("patch", "PATCH"),
        operation("delete", "DELETE"),
        REQUEST,
    ],
};

/// Headers of a failed answer that an example shows: they describe the body and hold no secrets.
const SHOWN_HEADERS: [&str; 4] = ["content-type", "content-encoding", "content-length", "retry-after"];

/// Longest accepted body, bytes.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;

/// An HTTP server.
#[derive(Debug)]
pub struct Http {
    place: HttpAddress,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    number: usize,
    layout: RequestLayout,
    is_head: bool,
    /// Whether the method is safe: it changes nothing (RFC 9110, 9.2.1).
    is_safe: bool,
    wants: Vec<Want>,
    /// Destination of the request, if cookies are kept.
    cookie_target: Option<CookieTarget>,
    /// The requests that follow redirects, if the step follows them.
    following: Option<Box<FollowingRequests>>,
    wants_head: bool,
    wants_body: bool,
}

/// Destination of a request, by which cookies are stored.
#[derive(Debug)]
struct CookieTarget {
    /// Host in lower case. Empty if the session has one host.
    host: Box<str>,
    /// Prefix of the path.
    base: Box<str>,
    /// Index of the path among the arguments.
    path: usize,
}

/// State of a thread between answers.
#[derive(Debug, Default)]
pub struct HttpScratch {
    /// Last header block of each step.
    last: Vec<LastHeaders>,
    /// Spare buffers for answers that arrive in pieces.
    spare: Vec<Vec<u8>>,
    /// Capacity of all spare buffers together, bytes.
    spare_bytes: usize,
    body_decoder: BodyDecoder,
}

/// Maximum number of spare buffers, and the capacity of the largest buffer that is kept.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 1024 * 1024;
/// Maximum capacity of all spare buffers together, bytes. The memory budget for answers does not
/// include them.
const SPARE_BYTES_IN_ALL: usize = 64 * 1024 * 1024;

/// Position of a connection in an answer, and the parts stored so far.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: DecodeStage,
    head: Option<ResponseHead>,
    /// Start of the header block in the input, after interim answers. Valid only while `stored` is
    /// empty.
    head_at: usize,
    /// Number of body bytes so far.
    body: u64,
    /// Number of bytes so far in interim answers, chunk sizes and trailers.
    beside: u64,
    /// Header block and body, if a step needs them and the answer did not arrive in one piece.
    stored: Vec<u8>,
    /// Share of the budget that `stored` uses.
    held: BudgetShare,
    /// Whether `stored` holds the requested fields.
    is_stored: bool,
    /// Result of decoding a coded body.
    unpacking: Unpacking,
}

/// Result of decoding a coded body that a step needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Unpacking {
    /// The body is not coded, or no step needs it.
    #[default]
    None,
    /// `stored` holds the decoded body.
    Done,
    /// The body cannot be decoded.
    Failed,
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
        compile(&self.place, call)
    }

    fn may_change(request: &Request) -> bool {
        !request.is_safe
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
                "the target answers in HTTP/2 and may support nothing else on this port, but Plimsoll uses HTTP/1.1: \
                 give a port or a proxy that supports HTTP/1.1",
            ),
            AttemptCause::Malformed(Malformation::UnknownCoding) => Some(
                "the target codes its answers in a way that Plimsoll cannot decode, but a step needs their bodies: \
                 request gzip, deflate, br or zstd with `header.accept-encoding`, or \"identity\"",
            ),
            _ => None,
        }
    }

    /// Appends the status line, the headers that describe the body, and the beginning of the body,
    /// decoded. If the answer arrived in pieces, only the body may be available.
    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        const BODY: usize = 200;
        let ShownAnswer { bytes, is_decoded } = answer;
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").filter(|_| bytes.starts_with(b"HTTP/"));
        let (head, body) = end.map_or((&b""[..], bytes), |end| (&bytes[..end], &bytes[end + 4..]));
        out.extend_from_slice(head.split(|byte| *byte == b'\r').next().unwrap_or_default());
        for name in SHOWN_HEADERS {
            if let Some(value) = headers(head, name).next() {
                out.extend([b"; ", name.as_bytes(), b": ", &value[..value.len().min(80)]].concat());
            }
        }
        if !head.is_empty() && !body.is_empty() {
            out.extend_from_slice(b"; body: ");
        }
        let decoded = end.filter(|_| !is_decoded).and_then(|end| decoded_beginning(&bytes[..end + 4], body));
        let body = decoded.as_deref().unwrap_or(body);
        out.extend_from_slice(&body[..body.len().min(BODY)]);
    }
}

/// Returns the beginning of a coded body that follows the header block, or `None` if the body is
/// not coded or cannot be decoded.
fn decoded_beginning(head: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let head = framing::parse(head).ok()??;
    if !head.codings.is_any() {
        return None;
    }
    let mut joined = Vec::new();
    let coded = match head.framing {
        Framing::Chunked => {
            let (mut chunks, mut rest) = (Chunks::default(), body);
            loop {
                let length = match chunks.step(rest) {
                    Ok(ChunkStep::Framing(length)) => length,
                    Ok(ChunkStep::Data(length)) => {
                        joined.extend_from_slice(&rest[..length]);
                        length
                    }
                    _ => break,
                };
                rest = &rest[length..];
            }
            joined.as_slice()
        }
        Framing::Length(length) => &body[..body.len().min(usize::try_from(length).unwrap_or(usize::MAX))],
        Framing::UntilClose => body,
    };
    let mut shown = Vec::new();
    BodyDecoder::decode_beginning(head.codings, coded, &mut shown).then_some(shown)
}

impl InOrderProtocol for Http {
    type Decoder = Decoder;
    type Memory = HttpScratch;

    fn encode(request: &Request, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        let layout = match (&request.following, values.redirection) {
            (Some(following), Some(redirection)) => following.layout(redirection),
            _ => &request.layout,
        };
        layout.write(id, values, out)
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
        let head = decoder.head?;
        let whole = if decoder.is_stored { decoder.stored.as_slice() } else { input.get(decoder.head_at..)? };
        match request.wants.get(want)? {
            Want::Status => {
                write_decimal(u64::from(head.status), scratch);
                Some(scratch)
            }
            Want::Body if decoder.unpacking == Unpacking::Failed => None,
            Want::Body => whole.get(head.length..)?.get(..usize::try_from(decoder.body).ok()?),
            Want::Header(name) => headers(whole.get(..head.length)?, name).next(),
            Want::Cookie(name) => cookie(whole.get(..head.length)?, name),
        }
    }

    fn field_again<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        nth: usize,
        input: &'a [u8],
    ) -> Option<&'a [u8]> {
        let Want::Header(name) = request.wants.get(want)? else { return None };
        headers(decoder.block(input)?, name).nth(nth)
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
        let Some((target, block)) = request.cookie_target.as_ref().zip(decoder.block(input)) else { return };
        for cookie in headers(block, "set-cookie").filter_map(SetCookie::parse) {
            if cookie.path.is_none() && scratch.is_empty() {
                match values.redirection {
                    Some(redirection) => scratch.extend_from_slice(&redirection.target),
                    None => {
                        scratch.extend_from_slice(target.base.as_bytes());
                        values.write(target.path, scratch);
                    }
                }
            }
            jar.set(&cookie, target.host.as_bytes(), scratch, now_s);
        }
    }

    fn rest(decoder: &mut Decoder, memory: &mut HttpScratch) {
        memory.recycle(std::mem::take(decoder).stored);
    }

    fn shown<'a>(decoder: &'a Decoder, input: &'a [u8]) -> ShownAnswer<'a> {
        match decoder.unpacking {
            Unpacking::Done => ShownAnswer { bytes: &decoder.stored, is_decoded: true },
            _ => ShownAnswer { bytes: input, is_decoded: false },
        }
    }

    /// All statuses from 300 to 399 except 304 Not Modified (RFC 9110, 15.4).
    fn redirect<'a>(decoder: &'a Decoder, input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        let head = decoder.head.filter(|head| matches!(head.status, 300..=303 | 305..=399))?;
        Some((head.status, decoder.block(input).and_then(|block| headers(block, "location").next())))
    }

    fn follow(
        request: &Request,
        decoder: &Decoder,
        input: &[u8],
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        let destination = redirects::destination(decoder.head?, decoder.block(input)?)?;
        redirects::follow(request, destination, values, redirection, scratch)
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

    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back.
    fn recycle(&mut self, stored: Vec<u8>) {
        let is_small = stored.capacity() > 0 && stored.capacity() <= SPARE_BYTES;
        if is_small && self.spare.len() < SPARE && self.spare_bytes + stored.capacity() <= SPARE_BYTES_IN_ALL {
            self.spare_bytes += stored.capacity();
            self.spare.push(stored);
        }
    }
}

impl Decoder {
    /// Returns the header block of the answer that was just decoded in `input`, if it is there.
    fn block<'a>(&'a self, input: &'a [u8]) -> Option<&'a [u8]> {
        let whole = if self.is_stored { self.stored.as_slice() } else { input.get(self.head_at..)? };
        whole.get(..self.head?.length)
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
        if let Framing::Length(length) = framing {
            if length > BODY_LIMIT {
                return Err(AttemptCause::TooLong);
            }
            if (input.len() - behind) as u64 >= length {
                self.body = length;
                return self.answer(request, memory, head, input, behind + length as usize).map(Some);
            }
        }
        self.stage = match framing {
            Framing::Length(length) => DecodeStage::Length(length),
            Framing::Chunked => DecodeStage::Chunked(Chunks::default()),
            Framing::UntilClose => DecodeStage::UntilClose,
        };
        if request.wants_head || request.wants_body {
            self.stored = memory.buffer();
            self.stored.extend_from_slice(&input[self.head_at..behind]);
            self.is_stored = true;
        }
        Ok(None)
    }

    /// Decodes body bytes until the input is used up or the body ends.
    fn go_on(
        &mut self,
        request: &Request,
        memory: &mut HttpScratch,
        input: &[u8],
        start: usize,
        ended: bool,
    ) -> Result<Progress, AttemptCause> {
        let mut used = start;
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
                ChunkStep::More => return Ok(Progress::More { used }),
                ChunkStep::Framing(length) => {
                    self.pass(length, BODY_LIMIT)?;
                    used += length;
                }
                ChunkStep::Data(length) => {
                    self.take(request, &rest[..length])?;
                    used += length;
                }
                ChunkStep::End => {
                    let head = self.head.ok_or(AttemptCause::BadAnswer)?;
                    return self.answer(request, memory, head, input, used).map(Progress::Answer);
                }
            }
        }
    }

    /// Counts bytes that are dropped. The limit stops a target that sends such bytes forever.
    fn pass(&mut self, length: usize, limit: u64) -> Result<(), AttemptCause> {
        self.beside += length as u64;
        if self.beside > limit { Err(AttemptCause::TooLong) } else { Ok(()) }
    }

    fn take(&mut self, request: &Request, data: &[u8]) -> Result<(), AttemptCause> {
        self.body += data.len() as u64;
        if self.body > BODY_LIMIT {
            return Err(AttemptCause::TooLong);
        }
        if request.wants_body {
            if !self.held.grow_to(self.stored.len() + data.len()) {
                return Err(AttemptCause::TooLarge);
            }
            self.stored.extend_from_slice(data);
        }
        Ok(())
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
        let result = if head.status >= 400 { AttemptCause::Status(head.status) } else { AttemptCause::Ok };
        let reusable = head.reusable && self.stage != DecodeStage::UntilClose;
        let mut answer = Answer { used, result, reusable, is_costly: false };
        if request.wants_body && head.codings.is_any() && self.body > 0 && !self.is_followed(request, head, input) {
            answer.is_costly = true;
            if let Err(cause) = self.unpack(memory, head, input)?
                && result == AttemptCause::Ok
            {
                answer.result = cause;
            }
        }
        Ok(answer)
    }

    /// Whether the answer is a redirect that the step follows. Nobody needs its body.
    fn is_followed(&self, request: &Request, head: ResponseHead, input: &[u8]) -> bool {
        let block = || self.block(input).and_then(|block| redirects::destination(head, block));
        request.following.is_some() && block().is_some()
    }

    /// Decodes the coded body of a complete answer into `stored`. The inner result is the reason
    /// why the body cannot be decoded; the connection can still be used.
    ///
    /// # Errors
    /// If the memory budget does not suffice.
    #[cold]
    fn unpack(
        &mut self,
        memory: &mut HttpScratch,
        head: ResponseHead,
        input: &[u8],
    ) -> Result<Result<(), AttemptCause>, AttemptCause> {
        let mut decoded = memory.buffer();
        let whole = if self.is_stored { self.stored.as_slice() } else { &input[self.head_at..] };
        let (block, rest) = whole.split_at(head.length);
        let coded = &rest[..usize::try_from(self.body).unwrap_or(usize::MAX).min(rest.len())];
        decoded.extend_from_slice(block);
        let beside = if self.is_stored { self.stored.len() } else { 0 };
        let result = memory.body_decoder.decode(head.codings, coded, &mut decoded, &mut self.held, beside);
        match result {
            Ok(()) => {
                self.unpacking = Unpacking::Done;
                self.body = (decoded.len() - head.length) as u64;
                self.is_stored = true;
                let stored = std::mem::replace(&mut self.stored, decoded);
                memory.recycle(stored);
                Ok(Ok(()))
            }
            Err(cause) => {
                self.unpacking = Unpacking::Failed;
                memory.recycle(decoded);
                if cause == AttemptCause::TooLarge { Err(cause) } else { Ok(Err(cause)) }
            }
        }
    }
}

/// Address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    /// Address to connect to: `host:port`, or the path of a socket after [`IN_FILES`].
    pub authority: String,
    /// Host name for the server's certificate, without port and brackets. `None` without TLS.
    pub tls_host: Option<String>,
    /// Value of the `Host` header.
    host: String,
    /// Prefix of every path, without a `/` at its end.
    base: String,
}

impl HttpAddress {
    /// Reads `host:port`, `http://host[:port][/base]`, `https://…`, `http+unix://…`.
    pub fn parse(service: &str) -> Result<Self, String> {
        if let Some(path) = socket_url::socket_of(service) {
            let path: String = path?;
            return Self::of_socket(service, &path);
        }
        let (scheme, rest) = service.split_once("://").map_or((None, service), |(scheme, rest)| (Some(scheme), rest));
        let usual_port = match scheme {
            Some("http") => Some(80),
            Some("https") => Some(443),
            Some(_) => return Err("write http://host:port or https://host:port".to_owned()),
            None => None,
        };
        let (host, base) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let is_blank = |byte: u8| byte <= b' ' || byte == 0x7f;
        if host.is_empty()
            || host.contains('@')
            || base.starts_with(['?', '#'])
            || base.contains(['?', '#'])
            || rest.bytes().any(is_blank)
        {
            return Err("write http://host:port/path or https://…, without user, query or fragment".to_owned());
        }
        // The colon before the port comes after the closing bracket of an IPv6 address.
        let bracket = host.rfind(']').unwrap_or(0);
        let port = host[bracket..].rsplit_once(':').map(|(_, port)| port);
        let authority = match (port, usual_port) {
            (Some(port), _) if port.parse::<u16>().is_ok() => host.to_owned(),
            (Some(port), _) => return Err(format!("`{port}` is not a port")),
            (None, Some(usual)) => format!("{host}:{usual}"),
            (None, None) => return Err("write host:port, such as 127.0.0.1:8080".to_owned()),
        };
        let name = port.map_or(host, |port| &host[..host.len() - port.len() - 1]);
        let tls_host = (scheme == Some("https")).then(|| name.trim_matches(['[', ']']).to_owned());
        Ok(Self { authority, tls_host, host: host.to_owned(), base: base.trim_end_matches('/').to_owned() })
    }

    /// Reads the address of a Unix socket. A socket has no host name; clients send `localhost` by
    /// convention.
    fn of_socket(service: &str, path: &str) -> Result<Self, String> {
        let base = service.splitn(4, '/').nth(3).map_or_else(String::new, |base| format!("/{base}"));
        if base.contains(['?', '#']) || base.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("write http+unix://%2Fpath%2Fof.sock/path, without query or fragment".to_owned());
        }
        let (host, base) = ("localhost".to_owned(), base.trim_end_matches('/').to_owned());
        Ok(Self { authority: format!("{IN_FILES}{path}"), tls_host: None, host, base })
    }
}

/// A requested field of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    Status,
    Body,
    /// A header, with its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl Want {
    fn named(name: &str) -> Self {
        match name.split_once('.') {
            Some(("header", header)) => Self::Header(header.to_ascii_lowercase()),
            Some(("cookie", cookie)) => Self::Cookie(cookie.to_owned()),
            _ if name == "body" => Self::Body,
            _ => Self::Status,
        }
    }
}

/// Compiles a step.
pub fn compile(place: &HttpAddress, call: &Call<'_>) -> Result<Request, String> {
    call.check()?;
    let wants: Vec<Want> = call.wants.iter().map(|want| Want::named(want)).collect();
    let method = method(call)?;
    let redirected = |has_body| layout(place, call, &method, RequestTarget::Destination { has_body });
    Ok(Request {
        number: call.number,
        layout: layout(place, call, &method, RequestTarget::Path)?,
        is_head: method == "HEAD",
        is_safe: SAFE_METHODS.contains(&method.as_str()),
        following: FollowingRequests::compile(place, call, &method, redirected)?,
        cookie_target: call.argument("path").filter(|_| call.cookies).map(|path| CookieTarget {
            host: call.cookie_host.into(),
            base: place.base.as_str().into(),
            path,
        }),
        wants_head: call.cookies
            || call.follow > 0
            || wants.iter().any(|want| matches!(want, Want::Header(_) | Want::Cookie(_))),
        wants_body: wants.contains(&Want::Body),
        wants,
    })
}

/// Methods that change nothing (RFC 9110, 9.2.1, and IANA's registry of methods).
const SAFE_METHODS: [&str; 8] = ["GET", "HEAD", "OPTIONS", "PROPFIND", "QUERY", "REPORT", "SEARCH", "TRACE"];

/// Returns the method of a step.
fn method(call: &Call<'_>) -> Result<String, String> {
    let Some(argument) = call.argument("method") else { return Ok(call.operation.name.to_ascii_uppercase()) };
    let Some(method) = call.arguments[argument].template.as_constant() else {
        return Err("`method` must be a literal text, without placeholders".to_owned());
    };
    let shown = String::from_utf8_lossy(method).into_owned();
    if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
        return Err(format!("`method`: {shown:?} is not the name of a method: write one word, such as PROPFIND"));
    }
    if shown == "CONNECT" {
        return Err(
            "`method`: CONNECT opens a tunnel and is no request: for a proxy, write `tls.proxy` in [target]".into()
        );
    }
    let is_body = |name: &str| name == "body" || ["form.", "multipart."].iter().any(|start| name.starts_with(start));
    let has_body = call.arguments.iter().any(|argument| is_body(&argument.name));
    if shown == "TRACE" && has_body {
        return Err("`method`: TRACE has no body (RFC 9110, 9.3.8)".to_owned());
    }
    Ok(shown)
}

/// Whether a token of HTTP may have this byte (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Targets of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestTarget {
    /// The step's path.
    Path,
    /// The destination of a redirect. Without a body, the method is GET or HEAD.
    Destination { has_body: bool },
}

fn layout(place: &HttpAddress, call: &Call<'_>, method: &str, target: RequestTarget) -> Result<RequestLayout, String> {
    let mut builder = LayoutBuilder::default();
    let has_body = target != RequestTarget::Destination { has_body: false };
    let method = if has_body || method == "HEAD" { method } else { "GET" };
    builder.bytes(method.as_bytes()).bytes(b" ");
    match target {
        RequestTarget::Path => add_path(&mut builder, place, call)?,
        RequestTarget::Destination { .. } => {
            builder.target();
        }
    }
    builder.bytes(b" HTTP/1.1\r\n");
    add_headers(&mut builder, place, call, has_body)?;
    if has_body {
        request_body::add_body(&mut builder, call, method)?;
    } else {
        builder.bytes(b"\r\n");
    }
    builder.finish()
}

fn add_path(builder: &mut LayoutBuilder, place: &HttpAddress, call: &Call<'_>) -> Result<(), String> {
    let path = call.argument("path").ok_or("an operation needs a `path`")?;
    builder.bytes(place.base.as_bytes());
    let template = &call.arguments[path].template;
    let begins: &[&[u8]] = if place.base.is_empty() { &[b"/", b"http://"] } else { &[b"/"] };
    let begins_with = template.begins_with();
    let is_known = !template.is_from_outside() || !begins_with.is_empty();
    if is_known && !begins.iter().any(|begins| begins_with.starts_with(begins)) {
        return Err("`path` must begin with `/`, or be a complete http:// URL for a forward proxy".to_owned());
    }
    let check = ValueCheck {
        allowed: AllowedBytes::which(|byte| byte > b' ' && byte != 0x7f, NotSendable::InPath),
        begins: if is_known { &[] } else { begins },
        ..ValueCheck::default()
    };
    checked(builder, call, path, &check)
}

/// Adds the header lines. Without a body, headers that describe it are left out (RFC 9110, 15.4).
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
    let is_in_header = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    let in_header =
        ValueCheck { allowed: AllowedBytes::which(is_in_header, NotSendable::InHeader), ..ValueCheck::default() };
    let (is_secure, mut has_cookies) = (place.tls_host.is_some(), false);
    for (number, argument) in call.arguments.iter().enumerate() {
        let Some(name) = argument.name.strip_prefix("header.") else { continue };
        check_header_name(name)?;
        let is_same = |other: &&Argument| {
            other.name.strip_prefix("header.").is_some_and(|other| other.eq_ignore_ascii_case(name))
        };
        if let Some(other) = call.arguments[..number].iter().find(is_same) {
            return Err(format!("`{}` is the same header as `{}`: set it only once", argument.name, other.name));
        }
        if !has_body && name.to_ascii_lowercase().starts_with("content-") {
            continue;
        }
        builder.bytes(name.as_bytes()).bytes(b": ");
        checked(builder, call, number, &in_header)?;
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

/// Adds a value. Its literal parts are checked now; its variable parts are checked when they are
/// written.
fn checked(builder: &mut LayoutBuilder, call: &Call<'_>, place: usize, check: &ValueCheck) -> Result<(), String> {
    let Argument { name, template } = &call.arguments[place];
    if template.literals().into_iter().any(|text| check.allowed.check(text).is_err()) {
        return Err(format!("`{name}` has a character that HTTP does not allow in it"));
    }
    builder.checked(call.arguments, place, check.clone());
    Ok(())
}

fn check_header_name(name: &str) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(format!("`header.{name}`: `{name}` is not the name of a header"));
    }
    if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("`header.{name}`: Plimsoll itself sets `{name}`"));
    }
    Ok(())
}

mod content_coding;
mod framing;
mod redirects;
mod request_body;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
