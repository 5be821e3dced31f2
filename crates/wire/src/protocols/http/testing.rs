//! Test data of HTTP: hostile servers and proxies, with and without TLS, and the fuzz
//! targets of chunked and coded bodies and of streams of events.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write as _};

use experiment::plan::StreamEnd;
use fastrand::Rng;

use super::{AttemptCause, CookieJar, HEAD_LIMIT, Http, HttpScratch, Protocol as _, redirects};
use crate::cookies::SetCookie;
use crate::testing::exchange::{Seen, compile, compile_stream, feed, shown};
use crate::testing::hostile::PeerAction::{
    Again, BeginToShake, Deaf, Drip, Endless, EndlessBare, EndlessKeys, Fin, Hear, HearAnything, HearHead, Part, Reset,
    Say, SayBare, Shake, Stay, Wait,
};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{FuzzTarget, ReceivedRequest, TestedProtocol, fuzz, read_bytes, read_until};

impl TestedProtocol for Http {
    const HOSTILE: &'static [HostileCase] = CASES;
    /// Largest incomplete header block.
    const HELD_BYTES: usize = HEAD_LIMIT;
    const FUZZ: &'static [FuzzTarget] = &[
        FuzzTarget { name: "chunks", body: chunks, mutants: 4000 },
        FuzzTarget { name: "codings", body: codings, mutants: 500 },
        FuzzTarget { name: "events", body: events, mutants: 4000 },
    ];

    /// Sets each line of the input as a cookie. The jar must stay within its limits, and its
    /// cookies must fit into a header. The input as the location of a redirect must give a target.
    fn fuzz(input: &[u8]) {
        let target = redirects::resolved(b"/a/b?c", input);
        assert!(target.starts_with(b"/") && target.iter().all(u8::is_ascii_graphic), "{}", shown(&target));
        let mut jar = CookieJar::default();
        for (now_s, line) in (0..).zip(input.split(|byte| *byte == b'\n')) {
            if let Some(cookie) = SetCookie::parse(line) {
                jar.set(&cookie, b"", line, now_s);
            }
            let mut out = line.to_vec();
            jar.write((b"", now_s % 2 == 0), 0..line.len(), now_s, b"Cookie: ", &mut out);
            let sent = &out[line.len()..];
            assert!(sent.len() < 128 * 1024, "{} bytes of cookies", sent.len());
            assert!(!sent.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'), "{}", shown(sent));
        }
    }

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let mut body = read_until(from, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&body).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        body.extend(read_bytes(from, length.map_or(0, |length| length.trim().parse().unwrap()))?);
        Some(ReceivedRequest { body, ..ReceivedRequest::default() })
    }
}

/// Decodes chunked bodies: the input itself, and a valid body made of the input, which must come
/// back unchanged.
fn chunks(input: &[u8]) {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some(([how, seed], body)) = input.split_first_chunk::<2>() else { return };
    fuzz::answers::<Http>(&[&[b'0' | how & 1, *seed][..], HEAD, body].concat());
    let mut random = Rng::with_seed(u64::from(*seed));
    let mut made = HEAD.to_vec();
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(random.usize(1..=rest.len()));
        let extension = if random.bool() { ";a=b" } else { "" };
        made.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        made.extend_from_slice(chunk);
        made.extend_from_slice(b"\r\n");
        rest = behind;
    }
    made.extend_from_slice(b"000\r\nT: t\r\n\r\n");
    let get = compile(&Http::open("127.0.0.1:1").unwrap(), "get", &[("path", "/")], &["body"]).unwrap();
    let seen = feed(&get, &mut HttpScratch::default(), 1, &fuzz::cut(&made, &mut random), false);
    let Seen::Answer { fields, surplus, .. } = seen else { panic!("{seen:?}") };
    assert_eq!((fields, surplus), (vec![Some(shown(body))], Vec::new()));
}

/// Decodes coded bodies: the input itself, and a valid body made of the input, which must come back
/// unchanged. The first byte selects the codings.
fn codings(input: &[u8]) {
    let Some((how, body)) = input.split_first() else { return };
    let name = ["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate"][usize::from(how & 7) % 6];
    let get = compile(&Http::open("127.0.0.1:1").unwrap(), "get", &[("path", "/")], &["body"]).unwrap();
    let mut memory = HttpScratch::default();
    let mut decode = |name: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {}\r\n\r\n", body.len());
        feed(&get, &mut memory, 1, &[head.as_bytes(), body], false)
    };
    let first = decode(name, body);
    assert_eq!(first, decode(name, body), "the second time");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    let made = zstd::encode_all(encoder.finish().unwrap().as_slice(), 1).unwrap();
    let seen = decode("gzip, zstd", &made);
    let Seen::Answer { fields, .. } = seen else { panic!("{seen:?}") };
    assert_eq!(fields, [Some(shown(body))]);
}

/// Reads the input as a stream of events, whose number must equal that of a plain reading of the
/// whole stream. The first byte selects the last event, the second is the seed for the cuts.
fn events(input: &[u8]) {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let Some(([how, seed], stream)) = input.split_first_chunk::<2>() else { return };
    let text: String = stream.iter().take(usize::from(how >> 4)).map(|byte| char::from(byte & 0x7f)).collect();
    let until = Some(text).filter(|text| how & 1 == 1 && !text.is_empty());
    let end = StreamEnd { messages: (how & 2 == 2).then_some(u32::from(how >> 2 & 3) + 1), until };
    let data = data_of_events(stream);
    let is_last = |(count, data): (u32, &Vec<u8>)| {
        let has_text = end.until.as_ref().is_some_and(|until| memchr::memmem::find(data, until.as_bytes()).is_some());
        has_text || end.messages == Some(count)
    };
    let last = (1..).zip(&data).find(|event| is_last(*event)).map(|(count, _)| count);
    let get = compile_stream(&Http::open("127.0.0.1:1").unwrap(), "get", &[("path", "/")], &[], &end).unwrap();
    let mut pieces = vec![HEAD];
    pieces.extend(fuzz::cut(stream, &mut Rng::with_seed(u64::from(*seed))));
    let seen = feed(&get, &mut HttpScratch::default(), 1, &pieces, true);
    let Seen::Answer { messages, result, .. } = seen else { panic!("{seen:?}") };
    assert_eq!(messages, last.unwrap_or(data.len() as u32), "{}", shown(stream));
    let is_ok = last.is_some() || end == StreamEnd::default();
    assert_eq!(result == AttemptCause::Ok, is_ok, "{result:?}");
}

/// Returns the data of each event, by the steps of WHATWG HTML, 9.2.6.
fn data_of_events(stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut events, mut data, mut line, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), stream.iter().peekable());
    while let Some(byte) = bytes.next() {
        if !matches!(byte, b'\r' | b'\n') {
            line.push(*byte);
            continue;
        }
        if *byte == b'\r' {
            bytes.next_if(|next| **next == b'\n');
        }
        let line = std::mem::take(&mut line);
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.map_or((&line[..], &b""[..]), |colon| (&line[..colon], &line[colon + 1..]));
        match name {
            b"" if line.is_empty() => {
                let mut data = std::mem::take(&mut data);
                events.extend(data.pop().map(|_| data));
            }
            b"data" => {
                data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                data.push(b'\n');
            }
            _ => {}
        }
    }
    events
}

/// A plain answer.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
/// Arguments of a request that is longer than all buffers between client and target.
const LONG_REQUEST: &[&str] = &["path=/x", "body={bytes:12000000}"];

const fn http(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "get", with: &["path=/x"], keep: Some("answer.body"), ..HostileCase::new(name, actions, ends) }
}

/// A target with TLS. Any certificate is trusted.
const fn https(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "https://{address}/", ..http(name, actions, ends) }
}

/// Answer of a TLS server to a request without TLS: an alert.
const TLS_ALERT: &[u8] = b"\x15\x03\x01\x00\x02\x02\x46";
/// The beginning of a `ServerHello`.
const TLS_HELLO: &[u8] =
    b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8";

const MANY: &str = "answer too long: more than 128 headers";
const LONG: &str = "answer too long: headers of more than 64 KiB";

/// A target whose answer is read as a stream of events.
const fn events_of(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { keep: None, ..http(name, actions, ends) }.as_stream().or(&["connection closed", "connection reset"])
}

/// The header block of a stream of events without length.
const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// The header block of a chunked answer.
macro_rules! chunked {
    ($body:literal) => {{
        const ANSWER: &[u8] = concat!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", $body).as_bytes();
        ANSWER
    }};
}

/// A chunk of four kilobytes.
const CHUNK: &[u8] = {
    const LENGTH: usize = 6 + 0x1000 + 2;
    const CHUNK: [u8; LENGTH] = {
        let mut chunk = [b'x'; LENGTH];
        let (head, mut place) = (b"1000\r\n", 0);
        while place < head.len() {
            chunk[place] = head[place];
            place += 1;
        }
        chunk[LENGTH - 2] = b'\r';
        chunk[LENGTH - 1] = b'\n';
        chunk
    };
    &CHUNK
};

/// A chunk of one byte, with almost four kilobytes of extensions.
const EXTENDED: &[u8] = {
    const LENGTH: usize = 4000;
    const CHUNK: [u8; LENGTH] = {
        let mut chunk = [b'e'; LENGTH];
        (chunk[0], chunk[1]) = (b'1', b';');
        let (tail, mut place) = (b"\r\nx\r\n", 0);
        while place < tail.len() {
            chunk[LENGTH - tail.len() + place] = tail[place];
            place += 1;
        }
        chunk
    };
    &CHUNK
};

/// An answer before the end of the request.
const TOO_MUCH: &[u8] = b"HTTP/1.1 413 Too Much\r\nContent-Length: 0\r\n\r\n";
/// Answer after which the connection is not used again.
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";

/// An answer that ends before its length.
const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi";
/// A handshake record whose message announces 64 KiB less 16 bytes, and has 16.
const PIECE: &[u8] = b"\x16\x03\x03\x00\x10\x02\x00\xff\xf0\x03\x03\0\0\0\0\0\0\0\0\0\0";
/// A TLS warning without meaning.
const WARNING: &[u8] = b"\x15\x03\x03\x00\x02\x01\x5a";
/// A record that looks encrypted, but not with the session's keys.
const FORGED: &[u8] = b"\x17\x03\x03\x00\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// An answer that sets as many cookies as its headers can.
const COOKIES: &[u8] = {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    const COOKIE: &[u8] = b"Set-Cookie: c000=";
    const COUNT: usize = 127;
    const EACH: usize = 125;
    const LENGTH: usize = HEAD.len() + COUNT * EACH + 2;
    const ANSWER: [u8; LENGTH] = {
        let mut answer = [b'x'; LENGTH];
        let mut place = 0;
        while place < HEAD.len() {
            answer[place] = HEAD[place];
            place += 1;
        }
        let mut number = 0;
        while number < COUNT {
            let start = HEAD.len() + number * EACH;
            place = 0;
            while place < COOKIE.len() {
                answer[start + place] = COOKIE[place];
                place += 1;
            }
            answer[start + COOKIE.len() - 4] = b'0' + (number / 100) as u8;
            answer[start + COOKIE.len() - 3] = b'0' + (number / 10 % 10) as u8;
            answer[start + COOKIE.len() - 2] = b'0' + (number % 10) as u8;
            (answer[start + EACH - 2], answer[start + EACH - 1]) = (b'\r', b'\n');
            number += 1;
        }
        (answer[LENGTH - 2], answer[LENGTH - 1]) = (b'\r', b'\n');
        answer
    };
    &ANSWER
};
/// An answer with headers that set no cookie, and headers with odd attributes.
const ODD_COOKIES: &[u8] = b"HTTP/1.1 200 OK\r\nSet-Cookie:\r\nSet-Cookie: =\r\nSet-Cookie: ;;;=;\r\nSet-Cookie: a\r\n\
    Set-Cookie: a=\xff\xfe; Path=\xff; Expires=\xff:\xff:\xff\r\nSet-Cookie: b=1; Max-Age=-99999999999999999999\r\n\
    Set-Cookie: c=1; Max-Age=99999999999999999999; Path=/x\r\nSet-Cookie: d=1; Expires=99:99:99 99 Dec 99999999999\r\n\
    Set-Cookie: e=1; Expires=0:0:0 31 Feb 9999; Domain=.; Path=/x/../..\r\nSet-Cookie: a=\t\"; \t; secure\r\n\
    Content-Length: 0\r\n\r\n";

static CASES: &[HostileCase] = &[
    // Header blocks that are invalid, never end, or are wrong, and interim answers without a final
    // answer.
    http("nonsense", &[Hear, Say(b"SSH-2.0-OpenSSH_9.2\r\n"), Wait], &["bad answer"]),
    http("HTTP/0.9", &[Hear, Say(b"<html>hi</html>\n")], &["bad answer"]),
    http("HTTP/3.7", &[Hear, Say(b"HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("frames of HTTP/2", &[Hear, Say(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80"), Wait], &["bad answer: HTTP/2"]),
    http("a TLS alert", &[Hear, Say(TLS_ALERT)], &["bad answer"]),
    http("a TLS hello", &[Hear, Say(TLS_HELLO), Wait], &["bad answer"]),
    http("status 000", &[Hear, Say(b"HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("status 999", &[Hear, Say(b"HTTP/1.1 999 Yes\r\nContent-Length: 0\r\n\r\n"), Again], &["status 999"]),
    http("status 20", &[Hear, Say(b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"), Wait], &["bad answer"]),
    http("NUL in a header", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"), Wait], &["bad answer"]),
    http(
        "8 bits in a header",
        &[Hear, Say(b"HTTP/1.1 200 \xe9\r\nX: \xff\r\nContent-Length: 0\r\n\r\n"), Again],
        &["ok"],
    ),
    http("a header without a colon", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX\r\n\r\n"), Wait], &["bad answer"]),
    http(
        "a header on two lines",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"), Wait],
        &["bad answer: a header is folded"],
    ),
    http("lines that end in LF", &[Hear, Say(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), Again], &["ok"]),
    http("cookies without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n"), Endless(b"Set-Cookie: a=1\r\n")], &[MANY])
        .with_cookies(),
    http("many cookies", &[Hear, Say(COOKIES), Again], &["ok"]).with_cookies(),
    http("odd cookies", &[Hear, Say(ODD_COOKIES), Again], &["ok"]).with_cookies(),
    http(
        "a cookie with a line end",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\rX: y\r\n\r\n"), Wait],
        &["bad answer"],
    )
    .with_cookies(),
    http("no header", &[Hear, Say(b"HTTP/1.1 204 No Content\r\n\r\n"), Again], &["ok"]),
    http("headers that end with the connection", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n")], &["connection closed"]),
    http("headers that end in silence", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n"), Wait], &["timeout"]),
    http("headers that end in a reset", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: y\r\n"), Reset], &["connection reset"]),
    http("headers without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n"), Endless(b"X: y\r\n")], &[MANY]),
    http("a header without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\nX: "), Endless(b"y")], &[LONG]),
    http("a status without end", &[Hear, Say(b"HTTP/1.1 200 "), Endless(b"OK ")], &[LONG]),
    http("empty lines without end", &[Hear, Endless(b"\r\n")], &[LONG]),
    http("NUL without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    http("a byte now and then", &[Hear, Drip(OK)], &["timeout"]),
    http(
        "two lengths",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi"), Wait],
        &["bad answer"],
    ),
    http(
        "one length twice",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi"), Again],
        &["ok"],
    ),
    http(
        "a list of lengths",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi"), Wait],
        &["bad answer"],
    ),
    http("a negative length", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi"), Wait], &["bad answer"]),
    http("a length in words", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nhi"), Wait], &["bad answer"]),
    http("a length of nothing", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi"), Wait], &["bad answer"]),
    http(
        "a length of 2^64",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n"), Wait],
        &["bad answer"],
    ),
    http(
        "a length of 2^64 - 1",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"), Wait],
        &["answer too long"],
    ),
    http("100 and the answer", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n"), Say(OK), Again], &["ok"]),
    http("100 and silence", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n"), Wait], &["timeout"]),
    http("100 and the end", &[Hear, Say(b"HTTP/1.1 100 Continue\r\n\r\n")], &["connection closed"]),
    http("100 without end", &[Hear, Endless(b"HTTP/1.1 100 Continue\r\n\r\n")], &["answer too long"]),
    http(
        "103 without end",
        &[Hear, Endless(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")],
        &["answer too long"],
    ),
    http(
        "101",
        &[Hear, Say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), Wait],
        &["bad answer: 101, which was not asked for"],
    ),
    // Bodies that are too short or too long, never end, or are not allowed, and invalid chunks.
    http(
        "less than its length",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi")],
        &["connection closed"],
    ),
    http(
        "less than its length, and silence",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), Wait],
        &["timeout"],
    ),
    http(
        "less than its length, and a reset",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), Reset],
        &["connection reset"],
    ),
    http("no length and no end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Wait], &["timeout"]),
    http("no length", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi")], &["ok"]),
    http("no length, and a reset", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Reset], &["connection reset"]),
    http("identity", &[Hear, Say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhi")], &["ok"]),
    http("a body behind 204", &[Hear, Say(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi"), Again], &["ok"]),
    http(
        "a body behind 304",
        &[Hear, Say(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi"), Again],
        &["ok"],
    ),
    http("a body behind HEAD", &[Hear, Say(OK), Again], &["ok"]).asked("head", &["path=/x"]),
    http(
        "two answers",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho"),
            Again,
        ],
        &["ok"],
    ),
    http(
        "an answer behind the last",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n"),
            Wait,
        ],
        &["ok"],
    ),
    http("more than its length without end", &[Hear, Say(OK), Endless(b"hi")], &["ok"]).or(&["bad answer"]),
    http("a body without end", &[Hear, Say(b"HTTP/1.1 200 OK\r\n\r\n"), Endless(b"hi")], &["answer too long"]),
    http(
        "a length above what is taken",
        &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), Endless(b"hi")],
        &["answer too long"],
    ),
    http(
        "a length beside chunks",
        &[
            Hear,
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
            Again,
        ],
        &["ok"],
    ),
    http("a size in letters", &[Hear, Say(chunked!("xyz\r\n")), Wait], &["bad answer"]),
    http("a negative size", &[Hear, Say(chunked!("-2\r\nhi\r\n")), Wait], &["bad answer"]),
    http("no size", &[Hear, Say(chunked!("\r\nhi\r\n")), Wait], &["bad answer"]),
    http("a size that overflows", &[Hear, Say(chunked!("FFFFFFFFFFFFFFFFF\r\n")), Wait], &["bad answer"]),
    http("the largest size", &[Hear, Say(chunked!("FFFFFFFFFFFFFFFF\r\n")), Wait], &["answer too long"]),
    http("a chunk longer than it says", &[Hear, Say(chunked!("2\r\nhigh\r\n0\r\n\r\n")), Wait], &["bad answer"]),
    http("a chunk without end", &[Hear, Say(chunked!("5\r\nhi")), Wait], &["timeout"]),
    http("a chunk that ends with the connection", &[Hear, Say(chunked!("5\r\nhi"))], &["connection closed"]),
    http("a chunk that ends in a reset", &[Hear, Say(chunked!("5\r\nhi")), Reset], &["connection reset"]),
    http("chunks without the last", &[Hear, Say(chunked!("2\r\nhi\r\n"))], &["connection closed"]),
    http("a last chunk without its line", &[Hear, Say(chunked!("2\r\nhi\r\n0\r\n")), Wait], &["timeout"]),
    http("chunks and trailers", &[Hear, Say(chunked!("2;a=b\r\nhi\r\n0\r\nT: t\r\n\r\n")), Again], &["ok"]),
    http("a size without end", &[Hear, Say(chunked!("")), Endless(b"0")], &["bad answer"]),
    http("an extension without end", &[Hear, Say(chunked!("2;")), Endless(b"e")], &["bad answer"]),
    http("extensions without end", &[Hear, Say(chunked!("")), Endless(EXTENDED)], &["answer too long"]),
    http("chunks without end", &[Hear, Say(chunked!("")), Endless(CHUNK)], &["answer too long"]),
    http("trailers without end", &[Hear, Say(chunked!("0\r\n")), Endless(b"T: t\r\n")], &["answer too long"]),
    http("a trailer without end", &[Hear, Say(chunked!("0\r\nT: ")), Endless(b"t")], &["answer too long"]),
    // Connections that are closed and reset in every state.
    http("ends when it is opened", &[], &[]).or(&["connection closed", "connection reset"]),
    http("ends its side when it is opened", &[Fin, Wait], &["connection closed"]),
    http("resets when it is opened", &[Reset], &[]).or(&["connection reset", "connect failed"]),
    http("hears and ends", &[Hear], &["connection closed"]),
    http("hears and ends its side", &[Hear, Fin, Wait], &["connection closed"]),
    http("hears and resets", &[Hear, Reset], &["connection reset"]),
    http("hears and is silent", &[Hear, Wait], &["timeout"]),
    http("does not listen", &[Deaf, Stay], &["timeout"]),
    http("does not hear a long request", &[Stay], &["timeout"]).asked("post", LONG_REQUEST),
    http("speaks first", &[Say(LAST), Wait], &[]).or(&["ok", "bad answer"]),
    http("speaks first and ends", &[Say(LAST), Fin, Wait], &[]).or(&["ok", "bad answer"]),
    http("answers and ends its side", &[Hear, Say(LAST), Fin, Wait], &["ok"]),
    http("answers and ends its side unsaid", &[Hear, Say(OK), Fin, Wait], &["ok"]).or(&["connection closed"]),
    http("answers and resets", &[Hear, Say(OK), Reset], &["ok"]).or(&["connection reset", "connect failed"]),
    http("answers once, and then no more", &[Hear, Say(OK), Wait], &[]).or(&["ok", "timeout"]),
    http("answers", &[Hear, Say(OK), Again], &["ok"]),
    // Bug: the rest of the request was sent first. This write fails if the target has closed the
    // connection, and the answer was never read.
    http("answers early and ends", &[HearHead, Say(TOO_MUCH)], &["status 413"]).asked("post", LONG_REQUEST),
    http("answers early and ends its side", &[HearHead, Say(TOO_MUCH), Fin, Wait], &["status 413"])
        .asked("post", LONG_REQUEST),
    // TLS: none, half of a handshake, too many bytes, and every kind of wrong bytes within a valid
    // session.
    https("ends when it is opened", &[], &["tls: closed in the handshake"]),
    https("resets when it is opened", &[Reset], &[]).or(&["tls: closed in the handshake", "connect failed"]),
    https("hears and ends", &[HearAnything], &["tls: closed in the handshake"]),
    https("hears and ends its side", &[HearAnything, Fin, Wait], &["tls: closed in the handshake"]),
    https("hears and resets", &[HearAnything, Reset], &["tls: closed in the handshake"]),
    https("hears and is silent", &[HearAnything, Wait], &["connect timeout"]),
    https("does not hear", &[Stay], &["connect timeout"]),
    https("half a handshake, and silence", &[BeginToShake, Wait], &["connect timeout"]),
    https("half a handshake, and the end", &[BeginToShake], &["tls: closed in the handshake"]),
    https("half a handshake, and a reset", &[BeginToShake, Reset], &["tls: closed in the handshake"]),
    https("half a handshake, and garbage", &[BeginToShake, Endless(b"\xa5")], &["tls: handshake failed"]),
    https("HTTP in the clear", &[HearAnything, Say(OK), Wait], &["tls: handshake failed"]),
    https("zeros for a hello", &[HearAnything, Endless(b"\0")], &["tls: handshake failed"]),
    https("garbage for a hello", &[HearAnything, Endless(b"\xde\xad\xbe\xef")], &["tls: handshake failed"]),
    https(
        "a hello of garbage",
        &[HearAnything, Endless(b"\x16\x03\x03\x00\x04\x02\x00\x00\x00")],
        &["tls: handshake failed"],
    ),
    https("a record longer than any", &[HearAnything, Say(b"\x16\x03\x03\xff\xff"), Wait], &["tls: handshake failed"]),
    https(
        "a hello longer than any",
        &[HearAnything, Say(b"\x16\x03\x03\x00\x04\x02\xff\xff\xff"), Wait],
        &["tls: handshake failed"],
    ),
    https("a hello without end", &[HearAnything, Endless(PIECE)], &["tls: handshake failed"]),
    https("warnings without end", &[HearAnything, Endless(WARNING)], &["tls: handshake failed"])
        .or(&["tls: refused by the target: user canceled"]),
    https(
        "a change of ciphers without end",
        &[HearAnything, Endless(b"\x14\x03\x03\x00\x01\x01")],
        &["tls: handshake failed"],
    ),
    https("a hello byte by byte", &[HearAnything, Drip(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76")], &["connect timeout"]),
    https(
        "an alert",
        &[HearAnything, Say(b"\x15\x03\x03\x00\x02\x02\x28"), Wait],
        &["tls: refused by the target: handshake failure"],
    ),
    https("ends after the handshake", &[Shake], &[]).or(&["connection closed", "connection reset"]),
    https("ends its session after the handshake", &[Shake, Part, Wait], &["connection closed"]),
    https("resets after the handshake", &[Shake, Reset], &["connection reset"]).or(&["connection closed"]),
    events_of("events without end", &[Hear, Say(EVENTS), Endless(b"data: x\n\n")], &["timeout"]),
    events_of("an event without end", &[Hear, Say(EVENTS), Endless(b"data: x\n")], &["timeout"]),
    events_of("a line of an event without end", &[Hear, Say(EVENTS), Endless(b"data")], &["timeout"]),
    events_of("an event now and then", &[Hear, Say(EVENTS), Drip(b"data: x\n\ndata: y\n\n")], &["timeout"]),
    events_of("an event and the end", &[Hear, Say(EVENTS), Say(b"data: x\n\n")], &["ok"]),
    events_of("an event and silence", &[Hear, Say(EVENTS), Say(b"data: x\n\n"), Wait], &["timeout"]),
    events_of("no stream of events", &[Hear, Say(OK), Again], &["bad answer: not a text/event-stream"]),
    https("is silent after the handshake", &[Shake, Wait], &["timeout"]),
    https("does not hear a long request", &[Shake, Stay], &["timeout"]).asked("post", LONG_REQUEST),
    https("speaks first", &[Shake, Say(OK), Wait], &[]).or(&["ok", "bad answer", "timeout"]),
    https("speaks first without end", &[Shake, Endless(b"hi")], &["bad answer"]),
    https("garbage after the handshake", &[Shake, SayBare(b"\xde\xad\xbe\xef\xde\xad"), Wait], &["tls: broken"]),
    https("garbage without end", &[Shake, EndlessBare(b"\xde\xad\xbe\xef")], &["tls: broken"]),
    https("records that are forged", &[Shake, Hear, SayBare(FORGED), Wait], &["tls: broken"]),
    https("forged in the middle of an answer", &[Shake, Hear, Say(SHORT), SayBare(FORGED), Wait], &["tls: broken"]),
    https("the clear in the middle of an answer", &[Shake, Hear, Say(SHORT), SayBare(OK), Wait], &["tls: broken"]),
    https("half a record, and silence", &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0"), Wait], &["timeout"]),
    https("half a record, and the end", &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0")], &["connection closed"]),
    https(
        "half a record, and a reset",
        &[Shake, Hear, SayBare(b"\x17\x03\x03\x00\x20\0\0"), Reset],
        &["connection reset"],
    ),
    https("new keys without end", &[Shake, Hear, EndlessKeys], &["tls: broken"]),
    https("cut without a word", &[Shake, Hear, Say(SHORT)], &["connection closed"]),
    https("cut with a word", &[Shake, Hear, Say(SHORT), Part], &["connection closed"]),
    https("cut by a reset", &[Shake, Hear, Say(SHORT), Reset], &["connection reset"]),
    https("cut in silence", &[Shake, Hear, Say(SHORT), Wait], &["timeout"]),
    https("half-closed in the middle of an answer", &[Shake, Hear, Say(SHORT), Fin, Wait], &["connection closed"]),
    https("no length, and a word at the end", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Part], &["ok"]),
    https("no length, and no word", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi")], &["connection closed"]),
    https("no length, and a reset", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\nhi"), Reset], &["connection reset"]),
    https("a byte now and then", &[Shake, Hear, Drip(OK)], &["timeout"]),
    https("does not listen", &[Shake, Hear, Deaf, Stay], &["timeout"]),
    https("a body without end", &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\n\r\n"), Endless(b"hi")], &["answer too long"]),
    https(
        "a header without end",
        &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\nX: "), Endless(b"y")],
        &["answer too long: headers of more than 64 KiB"],
    ),
    https("100 without end", &[Shake, Hear, Endless(b"HTTP/1.1 100 Continue\r\n\r\n")], &["answer too long"]),
    https("more than its length without end", &[Shake, Hear, Say(OK), Endless(b"hi")], &["ok"]).or(&["bad answer"]),
    https(
        "a bad chunk",
        &[Shake, Hear, Say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), Wait],
        &["bad answer"],
    ),
    https("an answer and the end of the session", &[Shake, Hear, Say(OK), Part, Wait], &["ok"])
        .or(&["connection closed"]),
    https("an answer and a reset", &[Shake, Hear, Say(OK), Reset], &["ok"]).or(&[
        "connection reset",
        "connection closed",
        "tls: closed in the handshake",
    ]),
];
