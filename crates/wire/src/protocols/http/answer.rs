//! The parts of an answer that a step needs, in any version of HTTP: the header block and the body.
//! Other parts are counted and dropped. A coded body is decoded if a step needs it.

use super::BODY_LIMIT;
use super::content_coding::{BodyDecoder, ContentCodings};
use super::event_stream::EventBody;
use super::framing::{self, ChunkStep, Chunks, Framing, ResponseHead, cookie, headers};
use super::redirects;
use super::request::{Request, Want};
use crate::answer_budget::BudgetShare;
use crate::cause::AttemptCause;
use crate::cookies::{CookieJar, SetCookie};
use crate::http2::hpack::{BadBlock, HeaderText};
use crate::protocols::ShownAnswer;
use crate::redirection::{Redirection, Unfollowed};
use crate::values::{OperationValues, write_decimal};

/// Headers of a failed answer that an example shows: they describe the body and hold no secrets.
const SHOWN_HEADERS: [&str; 4] = ["content-type", "content-encoding", "content-length", "retry-after"];

/// Maximum number of spare buffers, and the capacity of the largest buffer that is kept.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 1024 * 1024;
/// Maximum capacity of all spare buffers together, bytes. The memory budget for answers does not
/// include them.
const SPARE_BYTES_IN_ALL: usize = 64 * 1024 * 1024;

/// Memory of a thread for answers.
#[derive(Debug, Default)]
pub struct AnswerMemory {
    /// Spare buffers for answers that arrive in pieces.
    spare: Vec<Vec<u8>>,
    /// Capacity of all spare buffers together, bytes.
    spare_bytes: usize,
    body_decoder: BodyDecoder,
    /// Text of a header while it is read.
    text: Vec<u8>,
}

impl AnswerMemory {
    /// Returns a header's value as a number, or `None` if it is no number.
    #[inline]
    pub fn number(&mut self, value: HeaderText<'_>) -> Option<u64> {
        value.number(&mut self.text)
    }

    /// Hands on the decoded value of a header.
    pub fn with_text(&mut self, value: HeaderText<'_>, take: impl FnOnce(&[u8])) -> Result<(), BadBlock> {
        self.text.clear();
        value.write(&mut self.text)?;
        take(&self.text);
        Ok(())
    }

    /// Returns an empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, stored: Vec<u8>) {
        let is_small = stored.capacity() > 0 && stored.capacity() <= SPARE_BYTES;
        if is_small && self.spare.len() < SPARE && self.spare_bytes + stored.capacity() <= SPARE_BYTES_IN_ALL {
            self.spare_bytes += stored.capacity();
            self.spare.push(stored);
        }
    }
}

/// Content of an answer so far.
#[derive(Debug, Default)]
pub struct AnswerContent {
    /// Number of body bytes so far.
    pub body: u64,
    /// Header block and body, if a step needs them and they are not in the input in one piece.
    pub stored: Vec<u8>,
    /// Share of the budget that `stored` uses.
    pub held: BudgetShare,
    /// Whether `stored` holds the requested fields.
    pub is_stored: bool,
    /// Result of decoding a coded body.
    unpacking: Unpacking,
    /// Reading of the body as a stream of events, if the step asks for it.
    pub events: EventBody,
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

impl AnswerContent {
    /// Counts bytes of the body, and stores them if a step needs them. Returns the number of events
    /// that end in them, up to the event with which the operation ends. A stream of events that is
    /// not stored has no limit but the timeout.
    pub fn take<L>(&mut self, request: &Request<L>, data: &[u8]) -> Result<u32, AttemptCause> {
        if self.events.has_ended() {
            return Ok(0);
        }
        let events = match (&mut self.events, &request.stream) {
            (EventBody::Read(events), Some(end)) => events.read(end, data),
            _ => 0,
        };
        self.body += data.len() as u64;
        let is_unlimited = matches!(self.events, EventBody::Read(_)) && !request.wants_body;
        if self.body > BODY_LIMIT && !is_unlimited {
            return Err(AttemptCause::TooLong);
        }
        if request.wants_body {
            if !self.held.grow_to(self.stored.len() + data.len()) {
                return Err(AttemptCause::TooLarge);
            }
            self.stored.extend_from_slice(data);
        }
        Ok(events)
    }

    /// Returns the complete answer. `in_input` begins with its header block, unless it is stored.
    #[inline]
    pub fn view<'a>(&'a self, head: ResponseHead, in_input: Option<&'a [u8]>) -> AnswerView<'a> {
        let whole = if self.is_stored { Some(self.stored.as_slice()) } else { in_input };
        AnswerView { head, whole, body: self.body, unpacking: self.unpacking }
    }

    /// Returns the bytes of the answer, for an excerpt.
    pub fn shown<'a>(&'a self, otherwise: &'a [u8]) -> ShownAnswer<'a> {
        match self.unpacking {
            Unpacking::Done => ShownAnswer { bytes: &self.stored, is_decoded: true },
            _ => ShownAnswer { bytes: otherwise, is_decoded: false },
        }
    }

    /// Returns the result of a complete answer, and whether it was costly to decode.
    ///
    /// # Errors
    /// If the memory budget does not suffice.
    #[inline]
    pub fn judge<L>(
        &mut self,
        request: &Request<L>,
        memory: &mut AnswerMemory,
        head: ResponseHead,
        in_input: &[u8],
    ) -> Result<(AttemptCause, bool), AttemptCause> {
        let result = match &request.stream {
            _ if head.status >= 400 => AttemptCause::Status(head.status),
            Some(end) => self.events.defect(end).map_or(AttemptCause::Ok, AttemptCause::Malformed),
            None => AttemptCause::Ok,
        };
        let is_coded = request.wants_body && head.codings.is_any() && self.body > 0;
        if !is_coded || self.view(head, Some(in_input)).is_followed(request) {
            return Ok((result, false));
        }
        match self.unpack(memory, head, in_input)? {
            Err(cause) if result == AttemptCause::Ok => Ok((cause, true)),
            _ => Ok((result, true)),
        }
    }

    /// Decodes the coded body of a complete answer into `stored`. The inner result is the reason
    /// why the body cannot be decoded; the connection can still be used.
    ///
    /// # Errors
    /// If the memory budget does not suffice.
    #[cold]
    fn unpack(
        &mut self,
        memory: &mut AnswerMemory,
        head: ResponseHead,
        in_input: &[u8],
    ) -> Result<Result<(), AttemptCause>, AttemptCause> {
        let mut decoded = memory.buffer();
        let whole = if self.is_stored { self.stored.as_slice() } else { in_input };
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

/// A complete answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerView<'a> {
    head: ResponseHead,
    /// Header block and body, if they are there.
    whole: Option<&'a [u8]>,
    body: u64,
    unpacking: Unpacking,
}

impl<'a> AnswerView<'a> {
    /// Returns the header block, if it is there.
    fn block(&self) -> Option<&'a [u8]> {
        self.whole?.get(..self.head.length)
    }

    /// Returns the requested field with index `want`.
    pub fn field<L>(&self, request: &Request<L>, want: usize, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match request.wants.get(want)? {
            Want::Status => {
                write_decimal(u64::from(self.head.status), scratch);
                Some(scratch)
            }
            Want::Body if self.unpacking == Unpacking::Failed => None,
            Want::Body => self.whole?.get(self.head.length..)?.get(..usize::try_from(self.body).ok()?),
            Want::Header(name) => headers(self.block()?, name).next(),
            Want::Cookie(name) => cookie(self.block()?, name),
        }
    }

    /// Returns the value with index `nth` of a header that the answer has several times.
    pub fn field_again<L>(&self, request: &Request<L>, want: usize, nth: usize) -> Option<&'a [u8]> {
        let Want::Header(name) = request.wants.get(want)? else { return None };
        headers(self.block()?, name).nth(nth)
    }

    /// Stores the cookies that the answer sets.
    pub fn take_cookies<L>(
        &self,
        request: &Request<L>,
        values: &OperationValues<'_>,
        now_s: i64,
        jar: &mut CookieJar,
        scratch: &mut Vec<u8>,
    ) {
        let Some((target, block)) = request.cookie_target.as_ref().zip(self.block()) else { return };
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

    /// Returns the status and the destination of a redirect: all statuses from 300 to 399 except
    /// 304 Not Modified (RFC 9110, 15.4).
    pub fn redirect(&self) -> Option<(u16, Option<&'a [u8]>)> {
        let status = Some(self.head.status).filter(|status| matches!(status, 300..=303 | 305..=399))?;
        Some((status, self.block().and_then(|block| headers(block, "location").next())))
    }

    /// Sets the request that follows a redirect.
    pub fn follow<L>(
        &self,
        request: &Request<L>,
        values: &OperationValues<'_>,
        redirection: &mut Redirection,
        scratch: &mut Vec<u8>,
    ) -> Option<Result<u16, Unfollowed>> {
        let destination = redirects::destination(self.head, self.block()?)?;
        redirects::follow(request, destination, values, redirection, scratch)
    }

    /// Whether the answer is a redirect that the step follows. Nobody needs its body.
    fn is_followed<L>(&self, request: &Request<L>) -> bool {
        let block = || self.block().and_then(|block| redirects::destination(self.head, block));
        request.following.is_some() && block().is_some()
    }
}

/// Appends the status line, the headers that describe the body, and the beginning of the body,
/// decoded. If the answer arrived in pieces, only the body may be available.
pub fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
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

/// Returns the beginning of a coded body that follows the header block, or `None` if the body is
/// not coded or cannot be decoded.
fn decoded_beginning(head: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    if !head.starts_with(b"HTTP/1") {
        // Other versions have no chunks.
        let mut codings = ContentCodings::default();
        headers(head, "content-encoding").for_each(|value| codings.note(value));
        let mut shown = Vec::new();
        let is_coded = codings.is_any() && BodyDecoder::decode_beginning(codings, body, &mut shown);
        return is_coded.then_some(shown);
    }
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
