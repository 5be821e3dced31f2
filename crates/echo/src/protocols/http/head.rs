//! The head of a request: how long it is and what follows from it. It must not look at the body.

use super::answers::{Connection, Wish};

/// Header lines above this are refused.
const HEADERS: usize = 100;

/// A request's head, understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Its bytes, the empty line included.
    pub bytes: usize,
    /// The answer it gets.
    pub wish: Wish,
    /// Bytes of the body that follows.
    pub body_bytes: u64,
    /// Whether the client waits for an invitation before it sends the body.
    pub invite: bool,
}

/// A head that is not served: the status and the reason for the client.
pub(super) type Refused = (u16, &'static str);

/// What the header lines of a request mean, whatever its first line is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Meaning {
    close: bool,
    keep_alive: bool,
    body_bytes: u64,
    invite: bool,
}

/// Reads heads. The header lines of a load generator's requests are mostly the same bytes over and over, so it remembers
/// the last ones: comparing them is far cheaper than parsing them.
#[derive(Debug)]
pub(super) struct Heads {
    limit_bytes: usize,
    /// Header lines, the empty line included, of an HTTP/1.1 request.
    known: Vec<u8>,
    meaning: Meaning,
}

impl Heads {
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, known: Vec::new(), meaning: Meaning::default() }
    }

    /// Reads the head at the start of `input`; `Ok(None)` if its end is not there yet.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<Head>, Refused> {
        if let Some((line, head_only)) = plain_first_line(input)
            && !self.known.is_empty()
            && input[line..].starts_with(&self.known)
        {
            return Ok(Some(head(line + self.known.len(), head_only, 1, self.meaning)));
        }
        self.parse(input)
    }

    fn parse(&mut self, input: &[u8]) -> Result<Option<Head>, Refused> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let bytes = match request.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if input.len() > self.limit_bytes => return Err(TOO_LONG),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err((431, "more than 100 header lines")),
            Err(_) => return Err((400, "this is not HTTP")),
        };
        if bytes > self.limit_bytes {
            return Err(TOO_LONG);
        }
        let meaning = meaning(request.headers)?;
        let head_only = request.method == Some("HEAD");
        let minor = request.version.unwrap_or(1);
        if let Some((line, _)) = plain_first_line(input) {
            self.known.clear();
            self.known.extend_from_slice(&input[line..bytes]);
            self.meaning = meaning;
        }
        Ok(Some(head(bytes, head_only, minor, meaning)))
    }
}

const TOO_LONG: Refused = (431, "the head of the request is too long");

fn head(bytes: usize, head_only: bool, minor: u8, meaning: Meaning) -> Head {
    let connection = match (minor, meaning.close, meaning.keep_alive) {
        (_, true, _) | (0, false, false) => Connection::Closed,
        (0, false, true) => Connection::KeptAndSaid,
        _ => Connection::Kept,
    };
    let invite = meaning.invite && minor > 0;
    Head { bytes, wish: Wish { head_only, connection }, body_bytes: meaning.body_bytes, invite }
}

/// The length of a first line with nothing unusual in it, and whether its method is HEAD.
fn plain_first_line(input: &[u8]) -> Option<(usize, bool)> {
    const REST: &[u8] = b" HTTP/1.1\r\n";
    let method = input.iter().position(|byte| !byte.is_ascii_uppercase())?;
    if method == 0 || input[method] != b' ' {
        return None;
    }
    let target = &input[method + 1..];
    let target_bytes = target.iter().position(|byte| !byte.is_ascii_graphic())?;
    let plain = target_bytes > 0 && target[target_bytes..].starts_with(REST);
    plain.then(|| (method + 1 + target_bytes + REST.len(), &input[..method] == b"HEAD"))
}

fn meaning(headers: &[httparse::Header<'_>]) -> Result<Meaning, Refused> {
    let mut meaning = Meaning::default();
    let mut length = None;
    for header in headers {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let bytes = number(value).ok_or((400, "Content-Length is not a number"))?;
            if length.is_some_and(|other| other != bytes) {
                return Err((400, "two different Content-Lengths"));
            }
            length = Some(bytes);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            let chunked = value.eq_ignore_ascii_case(b"chunked");
            return Err(if chunked { CHUNKED } else { (501, "this transfer coding is not implemented") });
        } else if header.name.eq_ignore_ascii_case("connection") {
            for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                meaning.close |= option.eq_ignore_ascii_case(b"close");
                meaning.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if header.name.eq_ignore_ascii_case("expect") {
            meaning.invite |= value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    meaning.body_bytes = length.unwrap_or(0);
    Ok(meaning)
}

const CHUNKED: Refused = (411, "chunked request bodies are not read here: send a Content-Length");

/// Decimal digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
