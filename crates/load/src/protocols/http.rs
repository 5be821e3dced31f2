//! HTTP/1.1 over TCP or TLS: requests pre-encoded, answers framed by length, chunks or the connection's end. Bodies that
//! nobody asked for are counted and let go. It must not follow redirects or keep cookies; whoever moves
//! its bytes seals them where the service is `https`.

use experiment::catalog;

use super::{AboutData, Answer, Asked, Call, Cause, Progress, Protocol, Refusal};
use crate::answer_budget::Held;
use crate::values::layout::Layout;
use crate::values::{Values, write_decimal};

mod chunks;
mod head;
mod operations;
mod request;

use chunks::{Chunks, Piece};
use head::{Framing, HEAD_LIMIT, Head, Last};
pub use operations::INFO;
use request::{Place, Want};

/// The longest body that is taken for one.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;

/// An HTTP server.
#[derive(Debug)]
pub struct Http {
    place: Place,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    number: usize,
    layout: Layout,
    is_head: bool,
    /// Its method changes nothing (RFC 9110, 9.2.1).
    is_safe: bool,
    wants: Vec<Want>,
    wants_head: bool,
    wants_body: bool,
}

/// What a thread remembers.
#[derive(Debug, Default)]
pub struct Memory {
    /// The last header block of each step.
    last: Vec<Last>,
    /// Buffers for answers that come in pieces.
    spare: Vec<Vec<u8>>,
    /// What these take.
    spare_bytes: usize,
}

/// Most buffers, and their largest size, that are kept for the next answer.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 1024 * 1024;
/// What they may take together: what is kept for later is in no budget.
const SPARE_BYTES_IN_ALL: usize = 64 * 1024 * 1024;

/// Where in an answer a connection is, and what was kept of it so far.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: Stage,
    head: Option<Head>,
    /// Where the header block begins in the input: behind interim answers. Only while `stored` is empty.
    head_at: usize,
    /// Bytes of the body so far.
    body: u64,
    /// Bytes beside the header block and the body so far: interim answers, sizes of chunks, trailers.
    beside: u64,
    /// Header block and body, as far as they are wanted, if the answer did not come in one piece.
    stored: Vec<u8>,
    /// What `stored` has of the budget.
    held: Held,
    /// Whether the wanted fields are in `stored`.
    is_stored: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
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
    type Decoder = Decoder;
    type Memory = Memory;

    fn open(service: &str) -> Result<Self, String> {
        Place::parse(service).map(|place| Self { place })
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.place.tls_host.as_deref()
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        request::compile(&self.place, call)
    }

    fn may_change(request: &Request) -> bool {
        !request.is_safe
    }

    /// 404 Not Found, 409 Conflict, 410 Gone, 412 Precondition Failed (RFC 9110, 15.5). Others are about the request, the client, or
    /// the server.
    fn about_data(failure: Cause) -> Option<AboutData> {
        match failure {
            Cause::Status(404 | 410) => Some(AboutData::Missing),
            Cause::Status(409 | 412) => Some(AboutData::Different),
            _ => None,
        }
    }

    fn encode(request: &Request, id: u32, values: &Values<'_>, out: &mut Vec<u8>) {
        request.layout.write(id, values, out);
    }

    fn decode(
        asked: &Asked<'_, Self>,
        decoder: &mut Decoder,
        memory: &mut Memory,
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
            Want::Body => whole.get(head.length..)?.get(..usize::try_from(decoder.body).ok()?),
            Want::Header(name) => head::header(whole.get(..head.length)?, name),
        }
    }

    fn rest(decoder: &mut Decoder, memory: &mut Memory) {
        let stored = std::mem::take(decoder).stored;
        let is_small = stored.capacity() > 0 && stored.capacity() <= SPARE_BYTES;
        if is_small && memory.spare.len() < SPARE && memory.spare_bytes + stored.capacity() <= SPARE_BYTES_IN_ALL {
            memory.spare_bytes += stored.capacity();
            memory.spare.push(stored);
        }
    }

    /// 300 to 399 but 304 Not Modified (RFC 9110, 15.4).
    fn redirect<'a>(decoder: &'a Decoder, input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        let head = decoder.head.filter(|head| matches!(head.status, 300..=303 | 305..=399))?;
        let whole = if decoder.is_stored { decoder.stored.as_slice() } else { input.get(decoder.head_at..)? };
        Some((head.status, whole.get(..head.length).and_then(|block| head::header(block, "location"))))
    }

    fn status<'a>(decoder: &'a Decoder, _input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        write_decimal(decoder.head.map_or(0, |head| u64::from(head.status)), scratch);
        scratch
    }
}

impl Memory {
    fn last(&mut self, number: usize) -> &mut Last {
        if self.last.len() <= number {
            self.last.resize_with(number + 1, Last::default);
        }
        &mut self.last[number]
    }

    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer.clear();
        buffer
    }
}

impl Decoder {
    fn decode(&mut self, request: &Request, memory: &mut Memory, input: &[u8], ended: bool) -> Result<Progress, Cause> {
        let mut used = 0;
        while self.stage == Stage::Head {
            let Some(head) = memory.last(request.number).read(&input[used..])? else {
                return Ok(Progress::More { used });
            };
            match head.status {
                // Nothing was asked to be upgraded.
                101 => return Err(Cause::BadAnswer),
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
        self.go_on(request, input, used, ended)
    }

    /// A header block is there: the answer, if the whole of it is, and otherwise the stage that follows.
    fn begin(
        &mut self,
        request: &Request,
        memory: &mut Memory,
        head: Head,
        input: &[u8],
    ) -> Result<Option<Answer>, Cause> {
        self.head = Some(head);
        let bodiless = request.is_head || matches!(head.status, 204 | 304);
        let framing = if bodiless { Framing::Length(0) } else { head.framing };
        let behind = self.head_at + head.length;
        if let Framing::Length(length) = framing {
            if length > BODY_LIMIT {
                return Err(Cause::TooLong);
            }
            if (input.len() - behind) as u64 >= length {
                self.body = length;
                return Ok(Some(self.answer(head, behind + length as usize)));
            }
        }
        self.stage = match framing {
            Framing::Length(length) => Stage::Length(length),
            Framing::Chunked => Stage::Chunked(Chunks::default()),
            Framing::UntilClose => Stage::UntilClose,
        };
        if request.wants_head || request.wants_body {
            self.stored = memory.buffer();
            self.stored.extend_from_slice(&input[self.head_at..behind]);
            self.is_stored = true;
        }
        Ok(None)
    }

    /// In the body: uses up whatever is there.
    fn go_on(&mut self, request: &Request, input: &[u8], start: usize, ended: bool) -> Result<Progress, Cause> {
        let mut used = start;
        loop {
            let rest = &input[used..];
            let piece = match &mut self.stage {
                Stage::Head => Piece::More,
                Stage::Chunked(chunks) => chunks.step(rest)?,
                Stage::Length(0) => Piece::End,
                Stage::UntilClose if rest.is_empty() && ended => Piece::End,
                Stage::Length(_) | Stage::UntilClose if rest.is_empty() => Piece::More,
                Stage::UntilClose => Piece::Data(rest.len()),
                Stage::Length(left) => {
                    let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= here as u64;
                    Piece::Data(here)
                }
            };
            match piece {
                Piece::More => return Ok(Progress::More { used }),
                Piece::Framing(length) => {
                    self.pass(length, BODY_LIMIT)?;
                    used += length;
                }
                Piece::Data(length) => {
                    self.take(request, &rest[..length])?;
                    used += length;
                }
                Piece::End => {
                    let head = self.head.ok_or(Cause::BadAnswer)?;
                    return Ok(Progress::Answer(self.answer(head, used)));
                }
            }
        }
    }

    /// Passes over bytes that are of no use to anybody. A target could send them without end.
    fn pass(&mut self, length: usize, limit: u64) -> Result<(), Cause> {
        self.beside += length as u64;
        if self.beside > limit { Err(Cause::TooLong) } else { Ok(()) }
    }

    fn take(&mut self, request: &Request, data: &[u8]) -> Result<(), Cause> {
        self.body += data.len() as u64;
        if self.body > BODY_LIMIT {
            return Err(Cause::TooLong);
        }
        if request.wants_body {
            if !self.held.grow_to(self.stored.len() + data.len()) {
                return Err(Cause::TooLarge);
            }
            self.stored.extend_from_slice(data);
        }
        Ok(())
    }

    fn answer(&self, head: Head, used: usize) -> Answer {
        let result = if head.status >= 400 { Cause::Status(head.status) } else { Cause::Ok };
        let reusable = head.reusable && self.stage != Stage::UntilClose;
        Answer { used, result, reusable }
    }
}

#[cfg(test)]
mod tests;
