//! Framing of answers: header blocks, and the chunks of a body.

use super::BODY_LIMIT;
pub use super::content_coding::ContentCodings;
use crate::cause::{AttemptCause, Malformation};
use crate::cookies::SetCookie;

/// Longest accepted header block, bytes.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Maximum number of headers of an answer.
pub const HEADERS: usize = 128;

/// The way in which a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The body has this length in bytes.
    Length(u64),
    /// The body ends after its last chunk.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// Parsed header block of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub framing: Framing,
    /// Whether the connection can take another request.
    pub reusable: bool,
    /// Codings of the body.
    pub codings: ContentCodings,
    /// Length of the block with its empty line, bytes.
    pub length: usize,
}

impl ResponseHead {
    /// Returns the head of an answer that is a stream, so that nothing but its body ends it.
    pub fn of_stream(status: u16) -> Self {
        Self { status, framing: Framing::UntilClose, reusable: true, codings: ContentCodings::default(), length: 0 }
    }
}

/// The last header block of a step, with its parsed form. An equal block is not parsed again.
#[derive(Debug, Default)]
pub struct LastHeaders {
    block: Vec<u8>,
    head: Option<ResponseHead>,
}

impl LastHeaders {
    /// Returns the header block at the start of the input, or `None` if the block is not complete.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<ResponseHead>, AttemptCause> {
        if let Some(head) = self.head
            && input.get(..head.length) == Some(self.block.as_slice())
        {
            return Ok(Some(head));
        }
        let Some(head) = parse(input)? else { return Ok(None) };
        self.block.clear();
        self.block.extend_from_slice(&input[..head.length]);
        self.head = Some(head);
        Ok(Some(head))
    }
}

/// Parses the header block at the start of the input. Returns `None` if the block is not complete.
pub fn parse(input: &[u8]) -> Result<Option<ResponseHead>, AttemptCause> {
    if input.first() == Some(&0) {
        return http2_frames(input);
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // Bytes beyond the limit are not parsed, so that they cannot change the result.
    let seen = &input[..input.len().min(HEAD_LIMIT)];
    let length = match response.parse(seen) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if seen.len() < HEAD_LIMIT => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(AttemptCause::Malformed(Malformation::LongHead)),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(AttemptCause::Malformed(Malformation::TooManyHeaders));
        }
        Err(httparse::Error::HeaderName) if is_folded(seen) => {
            return Err(AttemptCause::Malformed(Malformation::FoldedHeader));
        }
        Err(_) => return Err(AttemptCause::BadAnswer),
    };
    let status = response.code.filter(|status| *status >= 100).ok_or(AttemptCause::BadAnswer)?;
    let mut facts = HeaderFacts::default();
    for header in response.headers.iter() {
        facts.note(header.name, header.value)?;
    }
    let framing = match (facts.chunked, facts.length) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    };
    let is_new = response.version == Some(1);
    // A `Content-Length` beside a `Transfer-Encoding` may be request smuggling. The answer is
    // accepted, but the connection is not reused.
    let is_ambiguous = facts.chunked.is_some() && facts.length.is_some();
    let reusable = !facts.close && (is_new || facts.keep_alive) && !is_ambiguous;
    Ok(Some(ResponseHead { status, framing, reusable, codings: facts.codings, length }))
}

/// Checks whether bytes that begin with a zero are an HTTP/2 frame: a SETTINGS or GOAWAY frame on
/// stream 0 (RFC 9113, 4.1, 6.5, 6.8).
pub fn http2_frames(input: &[u8]) -> Result<Option<ResponseHead>, AttemptCause> {
    const HEAD: usize = 9;
    let is_frame = |at: usize, byte: u8| match at {
        0 | 5..=8 => byte == 0,
        3 => matches!(byte, 4 | 7),
        4 => byte <= 1,
        _ => true,
    };
    let head = &input[..input.len().min(HEAD)];
    if !head.iter().enumerate().all(|(at, byte)| is_frame(at, *byte)) {
        return Err(AttemptCause::BadAnswer);
    }
    if head.len() < HEAD { Ok(None) } else { Err(AttemptCause::Malformed(Malformation::Http2)) }
}

/// Whether a header continues on the next line and all bytes before that line are valid. Later
/// bytes cannot change the result.
fn is_folded(block: &[u8]) -> bool {
    let Some(line_end) = block.windows(2).position(|two| matches!(two, [b'\n', b' ' | b'\t'])) else { return false };
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let before = httparse::Response::new(&mut headers).parse(&block[..=line_end]);
    matches!(before, Ok(httparse::Status::Partial))
}

#[derive(Default)]
struct HeaderFacts {
    length: Option<u64>,
    /// Whether the last transfer coding is `chunked`. `None` without transfer codings.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
    codings: ContentCodings,
}

impl HeaderFacts {
    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), AttemptCause> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = number(value).ok_or(AttemptCause::BadAnswer)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(AttemptCause::BadAnswer);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let last = words(value).last().unwrap_or(b"");
            self.chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
        } else if name.eq_ignore_ascii_case("connection") {
            self.close |= words(value).any(|word| word.eq_ignore_ascii_case(b"close"));
            self.keep_alive |= words(value).any(|word| word.eq_ignore_ascii_case(b"keep-alive"));
        } else if name.eq_ignore_ascii_case("content-encoding") {
            self.codings.note(value);
        }
        Ok(())
    }
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Parses plain digits. Returns `None` if they are not a `u64`.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the values of all headers with this name in a header block. `name` is in lower case.
pub fn headers<'a>(block: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    block.split(|byte| *byte == b'\n').skip(1).filter_map(move |line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
    })
}

/// Returns the value that a header block gives a cookie: the value of the last `Set-Cookie` header
/// with the cookie's name.
pub fn cookie<'a>(block: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let set = headers(block, "set-cookie").filter_map(SetCookie::parse);
    set.filter(|cookie| cookie.name == name.as_bytes()).last().map(|cookie| cookie.value)
}

/// Longest line with a chunk's size and extensions, bytes.
const SIZE_LINE_LIMIT: usize = 4 * 1024;
/// Longest trailer line, bytes.
const TRAILER_LIMIT: usize = 16 * 1024;
/// Maximum number of trailer lines.
const TRAILERS: u16 = 128;

/// Position in a chunked body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunks {
    /// The start of a chunk's size.
    #[default]
    Size,
    /// A chunk's data. Holds the number of bytes left.
    Data(u64),
    /// The line end after a chunk's data.
    DataEnd,
    /// The trailers. Holds the number of trailers so far.
    Trailers(u16),
    /// The end of the body.
    End,
}

/// A step through a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkStep {
    /// More bytes are needed.
    More,
    /// Framing bytes. Holds their number.
    Framing(usize),
    /// Body bytes. Holds their number.
    Data(usize),
    /// The body has ended.
    End,
}

impl Chunks {
    /// Returns the kind and length of the bytes at the start of the input. The caller skips these
    /// bytes before the next call.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkStep, AttemptCause> {
        match *self {
            Self::End => Ok(ChunkStep::End),
            Self::Data(left) => {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                if here == 0 {
                    return Ok(ChunkStep::More);
                }
                let left = left - here as u64;
                *self = if left == 0 { Self::DataEnd } else { Self::Data(left) };
                Ok(ChunkStep::Data(here))
            }
            Self::DataEnd => match input {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    Ok(ChunkStep::Framing(2))
                }
                [] | [b'\r'] => Ok(ChunkStep::More),
                _ => Err(AttemptCause::BadAnswer),
            },
            Self::Size => self.size(input),
            Self::Trailers(count) => self.trailer(count, input),
        }
    }

    fn size(&mut self, input: &[u8]) -> Result<ChunkStep, AttemptCause> {
        match input.first() {
            None => return Ok(ChunkStep::More),
            Some(first) if !first.is_ascii_hexdigit() => return Err(AttemptCause::BadAnswer),
            Some(_) => {}
        }
        let line = &input[..input.len().min(SIZE_LINE_LIMIT)];
        match httparse::parse_chunk_size(line) {
            // The size alone shows that the body is too long; no data is needed.
            Ok(httparse::Status::Complete((_, size))) if size > BODY_LIMIT => Err(AttemptCause::TooLong),
            Ok(httparse::Status::Complete((length, size))) => {
                *self = if size == 0 { Self::Trailers(0) } else { Self::Data(size) };
                Ok(ChunkStep::Framing(length))
            }
            Ok(httparse::Status::Partial) if line.len() < SIZE_LINE_LIMIT => Ok(ChunkStep::More),
            Ok(httparse::Status::Partial) | Err(_) => Err(AttemptCause::BadAnswer),
        }
    }

    fn trailer(&mut self, count: u16, input: &[u8]) -> Result<ChunkStep, AttemptCause> {
        let Some(end) = input.iter().take(TRAILER_LIMIT).position(|byte| *byte == b'\n') else {
            return if input.len() < TRAILER_LIMIT { Ok(ChunkStep::More) } else { Err(AttemptCause::TooLong) };
        };
        if input[..end] == *b"\r" || end == 0 {
            *self = Self::End;
        } else if count == TRAILERS {
            return Err(AttemptCause::TooLong);
        } else {
            *self = Self::Trailers(count + 1);
        }
        Ok(ChunkStep::Framing(end + 1))
    }
}
