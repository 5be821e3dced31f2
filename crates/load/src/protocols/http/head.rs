//! The header block of an answer: where it ends, how its body is framed, whether the connection lives on. A block that is byte for
//! byte the last one of the same request is recognised without parsing. It must not touch the body.

use crate::protocols::Cause;

/// The longest header block that is taken for one.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Most headers of an answer.
const HEADERS: usize = 128;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After its last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// What a header block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// The body's end.
    pub framing: Framing,
    /// Whether another request may follow.
    pub reusable: bool,
    /// Bytes of the block, with the empty line.
    pub length: usize,
}

/// The last header block of a request, and what it said.
#[derive(Debug, Default)]
pub struct Last {
    block: Vec<u8>,
    head: Option<Head>,
}

impl Last {
    /// The head at the start of the input; `None` if it is not whole.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<Head>, Cause> {
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

/// Parses the head at the start of the input; `None` if it is not whole.
pub fn parse(input: &[u8]) -> Result<Option<Head>, Cause> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // No further than it may be long, so that what follows cannot change what is said of it.
    let seen = &input[..input.len().min(HEAD_LIMIT)];
    let length = match response.parse(seen) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if seen.len() < HEAD_LIMIT => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(Cause::TooLong),
        Err(_) => return Err(Cause::BadAnswer),
    };
    let status = response.code.filter(|status| *status >= 100).ok_or(Cause::BadAnswer)?;
    let mut facts = Facts { length: None, chunked: None, close: false, keep_alive: false };
    for header in response.headers.iter() {
        facts.note(header.name, header.value)?;
    }
    let framing = match (facts.chunked, facts.length) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    };
    let is_new = response.version == Some(1);
    // A length beside a transfer encoding smells of smuggling: the answer counts, the connection does not live on.
    let is_ambiguous = facts.chunked.is_some() && facts.length.is_some();
    let reusable = !facts.close && (is_new || facts.keep_alive) && !is_ambiguous;
    Ok(Some(Head { status, framing, reusable, length }))
}

struct Facts {
    length: Option<u64>,
    /// Whether the last transfer encoding is `chunked`; `None` without any.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl Facts {
    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), Cause> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = number(value).ok_or(Cause::BadAnswer)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(Cause::BadAnswer);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let last = words(value).last().unwrap_or(b"");
            self.chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
        } else if name.eq_ignore_ascii_case("connection") {
            self.close |= words(value).any(|word| word.eq_ignore_ascii_case(b"close"));
            self.keep_alive |= words(value).any(|word| word.eq_ignore_ascii_case(b"keep-alive"));
        }
        Ok(())
    }
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Plain digits that fit.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The value of a header in a block, its name in lower case; the first one of that name.
pub fn header<'a>(block: &'a [u8], name: &str) -> Option<&'a [u8]> {
    block.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
    })
}
