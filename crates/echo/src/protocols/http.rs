//! HTTP/1.1 with the same body for every resource: parsing of request heads, and answers that are
//! made once.

use super::{Codec, CodecStep, NextAction};
use crate::{Options, ServedProtocol};

/// Server side of HTTP.
#[derive(Debug)]
pub(crate) struct HttpCodec {
    heads: Heads,
    answers: Answers,
}

/// A request whose body is incomplete.
#[derive(Debug)]
pub(crate) struct UnfinishedRequest {
    left_bytes: u64,
    wish: WantedAnswer,
}

impl Codec for HttpCodec {
    const PROTOCOL: ServedProtocol = ServedProtocol::Http;

    type Memory = Option<UnfinishedRequest>;

    fn new(options: &Options) -> Self {
        Self { heads: Heads::new(options.head_limit_bytes), answers: Answers::new(options) }
    }

    fn advance(&mut self, memory: &mut Self::Memory, input: &[u8], failing: bool, answers: &mut Vec<u8>) -> CodecStep {
        if let Some(request) = memory {
            let (taken, left_bytes) = take(request.left_bytes, input.len());
            request.left_bytes = left_bytes;
            if left_bytes > 0 {
                return CodecStep::new(taken, NextAction::Wait);
            }
            let wish = request.wish;
            *memory = None;
            return self.answer(taken, wish, failing, answers);
        }
        let head = match self.heads.read(input) {
            Ok(Some(head)) => head,
            Ok(None) => return CodecStep::new(0, NextAction::Wait),
            Err((status, why)) => {
                answers.extend_from_slice(&refusal(status, why));
                return CodecStep::new(input.len(), NextAction::Refuse);
            }
        };
        let (taken, left_bytes) = take(head.body_bytes, input.len() - head.bytes);
        let consumed = head.bytes + taken;
        if left_bytes == 0 {
            return self.answer(consumed, head.wish, failing, answers);
        }
        *memory = Some(UnfinishedRequest { left_bytes, wish: head.wish });
        if head.invite && taken == 0 {
            answers.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            return CodecStep::new(consumed, NextAction::Invite);
        }
        CodecStep::new(consumed, NextAction::Wait)
    }
}

impl HttpCodec {
    fn answer(&self, consumed: usize, wish: WantedAnswer, failing: bool, answers: &mut Vec<u8>) -> CodecStep {
        answers.extend_from_slice(self.answers.get(wish, failing));
        let then = if wish.connection == ConnectionHeader::Closed { NextAction::Close } else { NextAction::Next };
        CodecStep::new(consumed, then)
    }
}

/// Returns how many of the `there` available bytes belong to a body with `left_bytes` missing, and
/// how many bytes of the body are then missing.
fn take(left_bytes: u64, there: usize) -> (usize, u64) {
    let taken = usize::try_from(left_bytes).map_or(there, |left| left.min(there));
    (taken, left_bytes - taken as u64)
}

/// Maximum number of header lines.
const HEADERS: usize = 100;

/// A parsed request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestHead {
    /// Length including the empty line.
    pub bytes: usize,
    /// Answer to the request.
    pub wish: WantedAnswer,
    /// Length of the body.
    pub body_bytes: u64,
    /// Whether the client waits for an invitation before it sends the body.
    pub invite: bool,
}

/// A head that is refused: status, and reason for the client.
type RejectedHead = (u16, &'static str);

/// Meaning of a request's header lines, independent of its first line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HeaderMeaning {
    close: bool,
    keep_alive: bool,
    body_bytes: u64,
    invite: bool,
}

/// Parser of request heads. The header lines of a load generator's requests are mostly the same
/// bytes, so the parser remembers the last header lines. Comparing them is far cheaper than parsing
/// them.
#[derive(Debug)]
struct Heads {
    limit_bytes: usize,
    /// Header lines of an HTTP/1.1 request, including the empty line.
    known: Vec<u8>,
    meaning: HeaderMeaning,
}

impl Heads {
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, known: Vec::new(), meaning: HeaderMeaning::default() }
    }

    /// Parses the head at the start of `input`. Returns `Ok(None)` if the head is incomplete.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<RequestHead>, RejectedHead> {
        if let Some((line, head_only)) = plain_first_line(input)
            && !self.known.is_empty()
            && input[line..].starts_with(&self.known)
        {
            return Ok(Some(head(line + self.known.len(), head_only, 1, self.meaning)));
        }
        self.parse(input)
    }

    fn parse(&mut self, input: &[u8]) -> Result<Option<RequestHead>, RejectedHead> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let bytes = match request.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if input.len() > self.limit_bytes => return Err(TOO_LONG),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err((431, "more than 100 header lines")),
            Err(_) => return Err((400, "the request is not HTTP")),
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

const TOO_LONG: RejectedHead = (431, "the head of the request is too long");

fn head(bytes: usize, head_only: bool, minor: u8, meaning: HeaderMeaning) -> RequestHead {
    let connection = match (minor, meaning.close, meaning.keep_alive) {
        (_, true, _) | (0, false, false) => ConnectionHeader::Closed,
        (0, false, true) => ConnectionHeader::KeptAndSaid,
        _ => ConnectionHeader::Kept,
    };
    let invite = meaning.invite && minor > 0;
    RequestHead { bytes, wish: WantedAnswer { head_only, connection }, body_bytes: meaning.body_bytes, invite }
}

/// Returns the length of a plain first line, and whether its method is HEAD. Returns `None` for an
/// unusual line.
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

fn meaning(headers: &[httparse::Header<'_>]) -> Result<HeaderMeaning, RejectedHead> {
    let mut meaning = HeaderMeaning::default();
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

const CHUNKED: RejectedHead = (411, "chunked request bodies are not supported: send a Content-Length");

/// Parses a number of decimal digits only.
fn number(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Body of all answers, repeated and cut to its length.
const BODY: &[u8] = b"Hello, world!\n";

/// Connection header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionHeader {
    /// No header: the connection stays open by default in HTTP/1.1.
    Kept,
    /// Keeps the connection open explicitly, as HTTP/1.0 clients require.
    KeptAndSaid,
    /// Closes the connection.
    Closed,
}

/// Selects the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WantedAnswer {
    /// Whether the body is left out, as for HEAD.
    pub head_only: bool,
    /// Connection header.
    pub connection: ConnectionHeader,
}

/// All answers to valid requests.
#[derive(Debug)]
struct Answers {
    made: [Vec<u8>; 12],
}

impl Answers {
    pub fn new(options: &Options) -> Self {
        let body: Vec<u8> = BODY.iter().copied().cycle().take(options.body_bytes).collect();
        let mut made: [Vec<u8>; 12] = Default::default();
        for failing in [false, true] {
            let (status, body) =
                if failing { (options.error_status, &b"told to fail\n"[..]) } else { (200, &body[..]) };
            for head_only in [false, true] {
                for connection in [ConnectionHeader::Kept, ConnectionHeader::KeptAndSaid, ConnectionHeader::Closed] {
                    let wish = WantedAnswer { head_only, connection };
                    made[place(wish, failing)] = message(status, body, wish);
                }
            }
        }
        Self { made }
    }

    /// Returns the complete answer.
    pub fn get(&self, wish: WantedAnswer, failing: bool) -> &[u8] {
        &self.made[place(wish, failing)]
    }
}

/// Returns the answer to a refused request. The connection is closed after it.
fn refusal(status: u16, why: &str) -> Vec<u8> {
    message(
        status,
        format!("{why}\n").as_bytes(),
        WantedAnswer { head_only: false, connection: ConnectionHeader::Closed },
    )
}

fn place(wish: WantedAnswer, failing: bool) -> usize {
    let connection = match wish.connection {
        ConnectionHeader::Kept => 0,
        ConnectionHeader::KeptAndSaid => 1,
        ConnectionHeader::Closed => 2,
    };
    6 * usize::from(failing) + 3 * usize::from(wish.head_only) + connection
}

fn message(status: u16, body: &[u8], wish: WantedAnswer) -> Vec<u8> {
    let connection = match wish.connection {
        ConnectionHeader::Kept => "",
        ConnectionHeader::KeptAndSaid => "Connection: keep-alive\r\n",
        ConnectionHeader::Closed => "Connection: close\r\n",
    };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{connection}\r\n",
        reason(status),
        body.len()
    );
    let mut message = head.into_bytes();
    if !wish.head_only {
        message.extend_from_slice(body);
    }
    message
}

/// Returns the reason phrase of RFC 9110 for common statuses.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        411 => "Length Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Told To Fail",
    }
}

#[cfg(test)]
mod tests {
    use super::HttpCodec;
    use crate::Options;
    use crate::protocols::{Codec, CodecStep, NextAction};

    fn http() -> HttpCodec {
        HttpCodec::new(&Options::default())
    }

    /// Performs one step on a new connection.
    fn advance(http: &mut HttpCodec, input: &str) -> (CodecStep, String) {
        let mut answers = Vec::new();
        let step = http.advance(&mut None, input.as_bytes(), false, &mut answers);
        (step, String::from_utf8(answers).unwrap())
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n";

    #[test]
    fn known_headers_give_the_same_answer() {
        let mut http = http();
        for _ in 0..3 {
            let (step, answer) = advance(&mut http, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2");
            assert_eq!(step, CodecStep::new(27, NextAction::Next));
            assert_eq!(answer, format!("{OK}\r\nHello, world!\n"));
            let (step, answer) = advance(&mut http, "HEAD /other HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(step, CodecStep::new(33, NextAction::Next));
            assert_eq!(answer, format!("{OK}\r\n"));
        }
    }

    #[test]
    fn known_headers_do_not_hide_different_ones() {
        let mut http = http();
        let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        let get = "GET / HTTP/1.1\r\n\r\n";
        let closing = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
        for _ in 0..2 {
            assert_eq!(advance(&mut http, post).0, CodecStep::new(post.len(), NextAction::Next));
            assert_eq!(advance(&mut http, get).0, CodecStep::new(get.len(), NextAction::Next));
            assert_eq!(advance(&mut http, closing).0, CodecStep::new(closing.len(), NextAction::Close));
            let old = closing.replace("1.1", "1.0");
            assert_eq!(advance(&mut http, &old).0, CodecStep::new(old.len(), NextAction::Close));
            assert_eq!(advance(&mut http, &get.replace("1.1", "1.0")).0.then, NextAction::Close);
        }
    }

    #[test]
    fn an_incomplete_head_waits_for_more_input() {
        let whole = "POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        let mut http = http();
        for known in [false, true] {
            for end in 1..whole.len() {
                assert_eq!(advance(&mut http, &whole[..end]).0, CodecStep::new(0, NextAction::Wait), "{end}, {known}");
            }
            assert_eq!(advance(&mut http, whole).0, CodecStep::new(whole.len(), NextAction::Next));
        }
    }

    #[test]
    fn a_body_is_discarded_in_pieces() {
        let mut http = http();
        let (mut memory, mut answers) = (None, Vec::new());
        let mut step = |input: &[u8]| http.advance(&mut memory, input, false, &mut answers);
        assert_eq!(step(b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123"), CodecStep::new(41, NextAction::Wait));
        assert_eq!(step(b"456"), CodecStep::new(3, NextAction::Wait));
        assert_eq!(step(b"7890GET "), CodecStep::new(4, NextAction::Next));
        assert_eq!(step(b"GET "), CodecStep::new(0, NextAction::Wait));
    }

    #[test]
    fn the_connection_header_is_honoured() {
        let said = |request: &str| advance(&mut http(), request).1;
        assert!(said("GET / HTTP/1.1\r\nConnection: foo, CLOSE\r\n\r\n").contains("\r\nConnection: close\r\n"));
        assert!(said("GET / HTTP/1.0\r\n\r\n").contains("\r\nConnection: close\r\n"));
        assert!(said("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").contains("\r\nConnection: keep-alive\r\n"));
        assert!(!said("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").contains("Connection"));
    }

    #[test]
    fn expect_100_continue_is_answered() {
        let mut http = http();
        let head = "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(
            advance(&mut http, head),
            (CodecStep::new(head.len(), NextAction::Invite), "HTTP/1.1 100 Continue\r\n\r\n".into())
        );
        // A client that has already sent the body needs no invitation.
        assert_eq!(advance(&mut http, &format!("{head}ab")).0.then, NextAction::Next);
        assert_eq!(
            advance(&mut http, &format!("{head}a")),
            (CodecStep::new(head.len() + 1, NextAction::Wait), String::new())
        );
    }

    #[test]
    fn bad_requests_are_refused_with_their_status() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        let endless = format!("GET /{}", "a".repeat(65 << 10));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(65 << 10));
        let table = [
            ("\0\x01\x02\r\n\r\n", 400),
            ("nonsense\r\n\r\n", 400),
            ("GET / HTTP/3.0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (&many, 431),
            (&endless, 431),
            (&long, 431),
        ];
        for (input, status) in table {
            let shown = &input[..input.len().min(70)];
            let (step, answer) = advance(&mut http(), input);
            assert_eq!(step, CodecStep::new(input.len(), NextAction::Refuse), "{shown}");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{shown}: {answer}");
        }
    }

    #[test]
    fn body_size_and_error_status_follow_the_options() {
        let options = Options { body_bytes: 30, error_status: 429, ..Options::default() };
        let mut http = HttpCodec::new(&options);
        let (_, answer) = advance(&mut http, "GET / HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("Content-Length: 30\r\n\r\nHello, world!\nHello, world!\nHe"), "{answer}");
        let mut answers = Vec::new();
        http.advance(&mut None, b"GET / HTTP/1.1\r\n\r\n", true, &mut answers);
        let answer = String::from_utf8(answers).unwrap();
        assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
        assert!(answer.ends_with("Content-Length: 13\r\n\r\ntold to fail\n"), "{answer}");
    }
}
