//! Test data of HTTP/2: hostile servers, and the fuzz targets of header blocks, Huffman codes and
//! connections with several streams.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;

use super::{Http2, Request, StreamLayout};
use crate::http2::Http2Memory;
use crate::http2::frames::{FrameHead, HEAD, LONGEST, PREFACE, flag, kind};
use crate::http2::hpack::{self, HeaderBlock, HeaderName};
use crate::http2::huffman;
use crate::http2::session::Http2Session;
use crate::protocols::Protocol as _;
use crate::session::{Encoded, OpenRequests, RequestContext, SessionEvent, SessionProtocol as _};
use crate::testing::exchange::compile;
use crate::testing::hostile::PeerAction::{
    Again, Drip, Endless, Hear, HearAnything, Reply, Reset, Say, Shake, Stay, Wait,
};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{FuzzTarget, ReceivedRequest, TestedProtocol, fuzz, read_bytes, source};
use crate::values::OperationValues;

impl TestedProtocol for Http2 {
    const HOSTILE: &'static [HostileCase] = CASES;
    /// Largest incomplete frame.
    const HELD_BYTES: usize = HEAD + LONGEST;
    const GREETED: Option<&'static str> = Some("http://127.0.0.1:1");
    const FUZZ: &'static [FuzzTarget] = &[
        FuzzTarget { name: "hpack", body: header_blocks, mutants: 4000 },
        FuzzTarget { name: "huffman", body: huffman_codes, mutants: 4000 },
        FuzzTarget { name: "streams", body: streams, mutants: 2000 },
    ];

    /// Reads up to the end of a request's stream.
    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let mut block = Vec::new();
        loop {
            let head = read_bytes(from, HEAD)?;
            if PREFACE.starts_with(&head) {
                read_bytes(from, PREFACE.len() - HEAD)?;
                continue;
            }
            let head = FrameHead::read(&head)?;
            let body = read_bytes(from, head.length)?;
            if head.kind == kind::HEADERS {
                block = body;
            }
            if matches!(head.kind, kind::HEADERS | kind::DATA) && head.has(flag::END_STREAM) {
                return Some(ReceivedRequest { id: head.stream, opcode: head.kind, body: block });
            }
        }
    }
}

const fn case(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { call: "get", with: &["path=/x"], keep: Some("answer.body"), ..HostileCase::new(name, actions, ends) }
}

/// Decodes the input as a header block. Fields that can be decoded are written and read again.
fn header_blocks(input: &[u8]) {
    let status = HeaderBlock::new(input).status(&mut Vec::new());
    let mut block = HeaderBlock::new(input);
    let mut count = 0;
    while let Ok(Some(field)) = block.next_field() {
        count += 1;
        let (mut name, mut value) = (Vec::new(), Vec::new());
        let Ok(Ok(())) = field.name().write(&mut name).map(|()| field.value.write(&mut value)) else { continue };
        assert!(name.len() <= 8 * input.len().max(8) && value.len() <= 8 * input.len().max(8));
        let Ok(text) = String::from_utf8(name) else { continue };
        let mut again = Vec::new();
        hpack::write_field(&text, &value, &mut again);
        let field = HeaderBlock::new(&again).next_field().unwrap().unwrap();
        let mut read = Vec::new();
        field.value.write(&mut read).unwrap();
        assert!(field.is(&HeaderName::new(&text)) && read == value, "{text}");
    }
    assert!(count <= input.len() && (count > 0 || !matches!(status, Ok(Some(_)))));
}

/// Decodes the input as a Huffman code, which is encoded again, and the other way round.
fn huffman_codes(input: &[u8]) {
    let (mut text, mut code) = (Vec::new(), Vec::new());
    if huffman::decode(input, &mut text) {
        huffman::encode(&text, &mut code);
        assert_eq!((code.as_slice(), code.len()), (input, huffman::encoded_length(&text)));
    }
    (text, code) = (Vec::new(), Vec::new());
    huffman::encode(input, &mut code);
    assert!(huffman::decode(&code, &mut text) && text == input);
}

/// The open requests of a connection.
pub struct OpenIds<'a> {
    pub ids: Vec<u32>,
    pub request: &'a Request<StreamLayout>,
}

impl<'a> OpenRequests<'a, Http2> for OpenIds<'a> {
    fn oldest(&self) -> Option<RequestContext<'a, Http2>> {
        self.get(*self.ids.first()?)
    }

    fn get(&self, id: u32) -> Option<RequestContext<'a, Http2>> {
        self.ids.contains(&id).then_some(RequestContext { request: self.request, id })
    }
}

/// Feeds the input to a connection with several requests, some of which are cancelled. Each request
/// ends at most once, and only sends what the windows allow.
fn streams(input: &[u8]) {
    let Some(([how, seed], input)) = input.split_first_chunk::<2>() else { return };
    let mut random = fastrand::Rng::with_seed(u64::from(*seed));
    let wants: &[&str] = if how & 1 == 1 { &["body", "header.x-kind"] } else { &[] };
    let with = [("path", "/"), ("body", if how & 2 == 2 { "{bytes:90000}" } else { "" })];
    let compiled = compile(&Http2::open("127.0.0.1:1").unwrap(), "post", &with, wants).unwrap();
    let (mut session, mut memory) = (Http2Session::default(), Http2Memory::default());
    let (mut out, mut next) = (Vec::new(), 1);
    let mut open = OpenIds { ids: Vec::new(), request: &compiled.request };
    Http2::open("127.0.0.1:1").unwrap().greet(&mut session, &mut out);
    let mut input_left = Vec::new();
    let mut drains = false;
    for piece in fuzz::cut(input, &mut random) {
        while open.ids.len() < 4 && !drains {
            let values = OperationValues {
                source: source(3, 12),
                arguments: &compiled.arguments,
                cookies: None,
                redirection: None,
            };
            match Http2::encode(&mut session, &mut memory, &compiled.request, next, &values, &mut out).unwrap() {
                Encoded::Done => open.ids.push(next),
                Encoded::NotNow => break,
            }
            next += 1;
        }
        input_left.extend_from_slice(piece);
        loop {
            let event = Http2::receive(&mut session, &mut memory, &open, &input_left, false, &mut out);
            let (used, ended) = match event {
                SessionEvent::More { used } => (used, None),
                SessionEvent::Control { used } | SessionEvent::Pushed { used } | SessionEvent::Part { used, .. } => {
                    (used, None)
                }
                SessionEvent::Drain { used } => {
                    drains = true;
                    (used, None)
                }
                SessionEvent::Untouched { id, used } => (used, Some(id)),
                SessionEvent::Answer { id, answer } => {
                    Http2::finish(&mut session, &mut memory);
                    (answer.used, Some(id))
                }
                SessionEvent::Bad(_) => return Http2::reset(&mut session, &mut memory),
            };
            input_left.drain(..used);
            if let Some(id) = ended {
                assert!(open.ids.contains(&id), "{id} ended twice");
                open.ids.retain(|other| *other != id);
            }
            Http2::send_rest(&mut session, &mut memory, &mut out);
            if matches!(event, SessionEvent::More { .. }) {
                break;
            }
        }
        if random.u8(..4) == 0 && !open.ids.is_empty() {
            let id = open.ids.remove(0);
            Http2::cancel(&mut session, &mut memory, id, &mut out);
        }
    }
    Http2::reset(&mut session, &mut memory);
}

/// A target with TLS. Any certificate is trusted.
const fn by_tls(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "https://{address}/", ..case(name, actions, ends) }
}

/// A request with a body that is longer than all windows.
const fn upload(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    case(name, actions, ends).asked("post", &["path=/x", "body={bytes:3000000}"])
}

/// Settings without an entry.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
/// An unknown setting, an unknown frame, and pings with unknown flags and with the reserved bit.
const UNKNOWN: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\xff\0\0\0\x01\0\0\x01\x16\0\0\0\0\0x\
    \0\0\x08\x06\x16\0\0\0\0abcdefgh\0\0\x08\x06\0\x80\0\0\0abcdefgh";
/// An answer with the status 200 and no body, on a stream that no client has opened yet.
const STRANGE: &[u8] = b"\0\0\x01\x01\x05\x7f\xff\xff\xff\x88";
/// GOAWAY: no stream was begun.
const GONE: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// GOAWAY: all streams are answered.
const GOING: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";

const SIZE: &str = "bad answer: HTTP/2: a frame of a wrong length";
const STREAM: &str = "bad answer: HTTP/2: a frame on a wrong stream";
const PARTS: &str = "bad answer: HTTP/2: a header block is interrupted";
const BLOCK: &str = "bad answer: HTTP/2: a header block cannot be decoded";
const FIELDS: &str = "bad answer: HTTP/2: headers are missing or not allowed";
const SETTING: &str = "bad answer: HTTP/2: a setting has a wrong value";
const WINDOW: &str = "bad answer: HTTP/2: a window does not grow or is too large";
const TOO_MANY: &str = "bad answer: HTTP/2: too many frames without an answer";
const LENGTH: &str = "bad answer: HTTP/2: the body has another length than content-length";
const PADDING: &str = "bad answer: HTTP/2: more padding than frame";

/// Returns a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    crate::http2::frames::write(kind, flags, stream, body, &mut frame);
    frame
}

/// Returns the frame of a complete header block.
fn head(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flags, stream, block)
}

/// Returns an answer with the status 200 and a body.
fn ok(stream: u32) -> Vec<u8> {
    [head(stream, 0, &[0x88]), frame(kind::DATA, flag::END_STREAM, stream, b"hi")].concat()
}

/// Returns a frame that resets a stream.
fn reset(stream: u32, code: u8) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, code])
}

/// Returns a frame that lets a client send more.
fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// Returns an answer of this header block alone.
fn only(stream: u32, block: &[u8]) -> Vec<u8> {
    head(stream, flag::END_STREAM, block)
}

static CASES: &[HostileCase] = &[
    case("answers", &[Say(SETTINGS), Hear, Reply(ok), Again], &["ok"]),
    case("is silent", &[Say(SETTINGS), Hear, Wait], &["timeout"]),
    // The opening.
    case("says nothing", &[Hear, Wait], &["connect timeout"]),
    case("speaks HTTP/1.1", &[HearAnything, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait], &[NOT]),
    case("ends when it is opened", &[], &["connect failed"]).or(&["connection closed", "connection reset"]),
    case("resets when it is opened", &[Reset], &["connect failed"]).or(&["connection closed", "connection reset"]),
    case("settings that are cut", &[Say(b"\0\0\x06\x04\0\0\0\0\0\0\x03"), Wait], &["connect timeout"]),
    case("settings byte by byte", &[Drip(SETTINGS)], &["connect timeout"]),
    case("zeros without end", &[Endless(b"\0")], &[NOT]),
    case("another frame first", &[Say(PING), Wait], &[NOT]),
    case("settings of a wrong length", &[Say(b"\0\0\x05\x04\0\0\0\0\0\0\x03\0\0\0"), Wait], &[NOT]),
    case("takes nothing", &[Say(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\0"), Wait], &["timeout"]),
    case("takes one at a time", &[Say(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01"), Hear, Reply(ok), Again], &["ok"])
        .or(&["timeout"]),
    // Header blocks.
    case(
        "an interim answer",
        &[Say(SETTINGS), Hear, Reply(|id| [head(id, 0, b"\x08\x03103"), ok(id)].concat()), Again],
        &["ok"],
    ),
    case(
        "trailers",
        &[Say(SETTINGS), Hear, Reply(|id| [head(id, 0, &[0x88]), only(id, b"\0\x01t\x01v")].concat()), Again],
        &["ok"],
    ),
    case("two answers", &[Say(SETTINGS), Hear, Reply(|id| ok(id).repeat(2)), Again], &["ok"]),
    case("a header block twice", &[Say(SETTINGS), Hear, Reply(|id| head(id, 0, &[0x88]).repeat(2)), Again], &[FIELDS]),
    case("data before headers", &[Say(SETTINGS), Hear, Reply(|id| frame(kind::DATA, 0, id, b"hi")), Again], &[FIELDS]),
    case("no status", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\0\x01a\x01b")), Again], &[FIELDS]),
    case("a status in letters", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x08\x03abc")), Again], &[FIELDS]),
    case("an empty block", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"")), Again], &[FIELDS]),
    case("101", &[Say(SETTINGS), Hear, Reply(|id| head(id, 0, b"\x08\x03101")), Again], &[FIELDS]),
    case("an interim answer that ends", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x08\x03103")), Again], &[FIELDS]),
    case(
        "interim answers without end",
        &[Say(SETTINGS), Hear, Reply(|id| head(id, 0, b"\x08\x03103").repeat(20_000)), Wait],
        &[TOO_MANY],
    ),
    case("an index of the dynamic table", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x88\xbe")), Wait], &[BLOCK]),
    case("the index 0", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x88\x80")), Wait], &[BLOCK]),
    case(
        "an endless integer",
        &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x88\0\x7f\xff\xff\xff\xff\xff\x01")), Wait],
        &[BLOCK],
    ),
    case(
        "a string longer than its block",
        &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x88\0\x0aab")), Wait],
        &[BLOCK],
    ),
    case("a table of another size", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x3f\xe1\x1f\x88")), Again], &["ok"]),
    case("a line end in a value", &[Say(SETTINGS), Hear, Reply(|id| only(id, b"\x88\0\x01a\x03b\r\n")), Wait], &[])
        .or(&["ok", FIELDS, "timeout"]),
    case("a block in three frames", &[Say(SETTINGS), Hear, Reply(continued), Again], &["ok"]),
    case(
        "a block without end",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                [frame(kind::HEADERS, 0, id, &[0x88]), frame(kind::CONTINUATION, 0, id, &[b'x'; 8000]).repeat(10)]
                    .concat()
            }),
            Wait,
        ],
        &[LONG],
    ),
    case(
        "empty parts of a block without end",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                [frame(kind::HEADERS, 0, id, &[0x88]), frame(kind::CONTINUATION, 0, id, b"").repeat(20_000)].concat()
            }),
            Wait,
        ],
        &[TOO_MANY],
    ),
    case(
        "a block that is interrupted",
        &[Say(SETTINGS), Hear, Reply(|id| [frame(kind::HEADERS, 0, id, &[0x88]), PING.to_vec()].concat()), Wait],
        &[PARTS],
    ),
    case(
        "a part without a block",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::CONTINUATION, flag::END_HEADERS, id, &[0x88])), Wait],
        &[PARTS],
    ),
    case("a decompression bomb", &[Say(SETTINGS), Hear, Reply(bomb), Wait], &[]).or(&["ok", LONG, MANY, "timeout"]),
    // Data.
    case("less than its length", &[Say(SETTINGS), Hear, Reply(|id| sized(id, b"9", b"hi")), Again], &[LENGTH]),
    case("more than its length", &[Say(SETTINGS), Hear, Reply(|id| sized(id, b"1", b"hi")), Again], &[LENGTH]),
    case("a length in letters", &[Say(SETTINGS), Hear, Reply(|id| sized(id, b"x", b"hi")), Again], &[FIELDS]),
    case(
        "a body without end",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [head(id, 0, &[0x88]), frame(kind::DATA, 0, id, &[b'x'; 16_384]).repeat(4200)].concat()),
            Again,
        ],
        &["answer too long"],
    ),
    case(
        "empty data without end",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [head(id, 0, &[0x88]), frame(kind::DATA, 0, id, b"").repeat(20_000)].concat()),
            Wait,
        ],
        &[TOO_MANY],
    ),
    case(
        "more padding than frame",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [head(id, 0, &[0x88]), frame(kind::DATA, flag::PADDED, id, b"\x09hi")].concat()),
            Wait,
        ],
        &[PADDING],
    ),
    case(
        "padding alone",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                [head(id, 0, &[0x88]), frame(kind::DATA, flag::PADDED | flag::END_STREAM, id, b"\x02\0\0")].concat()
            }),
            Again,
        ],
        &["ok"],
    ),
    case("data that is cut", &[Say(SETTINGS), Hear, Reply(|id| ok(id)[..18].to_vec()), Wait], &["timeout"]),
    case(
        "data that ends with the connection",
        &[Say(SETTINGS), Hear, Reply(|id| ok(id)[..20].to_vec())],
        &["connection closed"],
    ),
    case("data, and a reset", &[Say(SETTINGS), Hear, Reply(|id| ok(id)[..20].to_vec()), Reset], &["connection reset"]),
    // Streams.
    case("a stream that nobody opened", &[Say(SETTINGS), Hear, Say(STRANGE), Wait], &[STREAM]),
    case("data on no stream", &[Say(SETTINGS), Hear, Say(b"\0\0\x01\0\0\0\0\0\0x"), Wait], &[STREAM]),
    case("a stream of the target's own", &[Say(SETTINGS), Hear, Reply(|_| head(2, 0, &[0x88])), Wait], &[STREAM]),
    case(
        "a pushed stream",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::PUSH_PROMISE, flag::END_HEADERS, id, b"\0\0\0\x02\x82")), Wait],
        &[PUSH],
    ),
    case(
        "resets the stream",
        &[Say(SETTINGS), Hear, Reply(|id| reset(id, 2)), Again],
        &["stream reset: INTERNAL_ERROR"],
    ),
    case(
        "resets with an unknown code",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::RST_STREAM, 0, id, &[9; 4])), Again],
        &["stream reset: an unknown code"],
    ),
    case("refuses each stream", &[Say(SETTINGS), Hear, Reply(|id| reset(id, 7)), Again], &["timeout"]),
    case(
        "resets of streams that are closed",
        &[Say(SETTINGS), Hear, Reply(|id| [ok(id), reset(id, 8).repeat(20_000)].concat()), Wait],
        &[],
    )
    .or(&["ok", "timeout", TOO_MANY]),
    case(
        "a reset of a wrong length",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::RST_STREAM, 0, id, b"abc")), Wait],
        &[SIZE],
    ),
    case("a reset of the connection's stream", &[Say(SETTINGS), Hear, Reply(|_| reset(0, 8)), Wait], &[STREAM]),
    case("a frame longer than any", &[Say(SETTINGS), Hear, Say(b"\0\x40\x01\0\0\0\0\0\x01"), Wait], &[SIZE]),
    // The connection.
    case("settings without end", &[Say(SETTINGS), Hear, Endless(SETTINGS)], &[TOO_MANY]).or(&["bad answer"]),
    case("pings without end", &[Say(SETTINGS), Hear, Endless(PING)], &[TOO_MANY]).or(&["bad answer"]),
    case("unknown frames without end", &[Say(SETTINGS), Hear, Endless(b"\0\0\0\xee\0\0\0\0\0")], &[TOO_MANY]),
    case("a ping of a wrong length", &[Say(SETTINGS), Hear, Say(b"\0\0\x01\x06\0\0\0\0\0x"), Wait], &[SIZE]),
    case(
        "push is switched on",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x06\x04\0\0\0\0\0\0\x02\0\0\0\x01"), Wait],
        &[SETTING],
    ),
    case(
        "a window above the largest",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x06\x04\0\0\0\0\0\0\x04\xff\xff\xff\xff"), Wait],
        &[SETTING],
    ),
    case(
        "a frame size that is too small",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\0\x01"), Wait],
        &[SETTING],
    ),
    case(
        "a window that does not grow",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0"), Wait],
        &[WINDOW],
    ),
    case(
        "a window that overflows",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff"), Wait],
        &[WINDOW],
    ),
    case("goes away and begins nothing", &[Say(SETTINGS), Hear, Say(GONE), Wait], &[]).or(&[
        "timeout",
        "connect timeout",
        "connection closed",
    ]),
    case("goes away and answers", &[Say(SETTINGS), Hear, Say(GOING), Reply(ok), Wait], &["ok"]).or(&["timeout"]),
    case("goes away and ends", &[Say(SETTINGS), Hear, Say(GOING)], &["connection closed"]),
    case(
        "goes away with an error",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| [&[0, 0, 8, 7, 0, 0, 0, 0, 0], &id.to_be_bytes()[..], &[0, 0, 0, 11]].concat()),
            Wait,
        ],
        &["connection ended by the target: ENHANCE_YOUR_CALM"],
    ),
    case("a short GOAWAY", &[Say(SETTINGS), Hear, Say(b"\0\0\x04\x07\0\0\0\0\0\0\0\0\0"), Wait], &[SIZE]),
    // Cases of h2spec for clients that are not above, by its sections: 4.1, 5.5 and 6.5.2/4 send
    // unknown frames, flags and settings; 4.2/1; 5.1 and 6.4/2 send frames on idle streams; 5.1 and
    // 6.1/2 on closed streams, which are ignored here, because closed streams have no state; 6.2,
    // 6.3, 6.5, 6.7/3, 6.8, 6.9 and 6.10. Tests beside this file have those about what a client
    // sends: 5.4.1/2, 6.5.3, 6.7/1 and 6.7/2.
    case("unknown frames, flags, bits and settings", &[Say(SETTINGS), Say(UNKNOWN), Hear, Reply(ok), Again], &["ok"]),
    case("the longest frame", &[Say(SETTINGS), Hear, Reply(longest), Again], &["ok"]),
    case("data on an idle stream", &[Say(SETTINGS), Hear, Reply(|_| frame(kind::DATA, 1, 2, b"x")), Wait], &[STREAM]),
    case("a reset of an idle stream", &[Say(SETTINGS), Hear, Reply(|_| reset(2, 8)), Wait], &[STREAM]),
    case("a window of an idle stream", &[Say(SETTINGS), Hear, Reply(|_| window(2, 9)), Wait], &[STREAM]),
    case(
        "a part of a block on an idle stream",
        &[Say(SETTINGS), Hear, Reply(|_| frame(kind::CONTINUATION, flag::END_HEADERS, 2, &[0x88])), Wait],
        &[PARTS],
    ),
    case(
        "data after the end",
        &[Say(SETTINGS), Hear, Reply(|id| [ok(id), frame(kind::DATA, flag::END_STREAM, id, b"x")].concat()), Again],
        &["ok"],
    ),
    case(
        "headers and data after a reset",
        &[Say(SETTINGS), Hear, Reply(|id| [reset(id, 8), ok(id)].concat()), Again],
        &["stream reset: CANCEL"],
    ),
    case(
        "a part of a block after the end",
        &[Say(SETTINGS), Hear, Reply(|id| [ok(id), frame(kind::CONTINUATION, 4, id, &[0x88])].concat()), Wait],
        &[],
    )
    .or(&["ok", "timeout", PARTS]),
    case("headers on no stream", &[Say(SETTINGS), Hear, Reply(|_| only(0, &[0x88])), Wait], &[STREAM]),
    case(
        "headers with more padding than frame",
        &[Say(SETTINGS), Hear, Reply(|id| head(id, flag::PADDED, b"\x09\x88")), Wait],
        &[PADDING],
    ),
    case(
        "priority on no stream",
        &[Say(SETTINGS), Hear, Reply(|_| frame(kind::PRIORITY, 0, 0, &[0; 5])), Wait],
        &[STREAM],
    ),
    case(
        "priority of a wrong length",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::PRIORITY, 0, id, &[0; 4])), Wait],
        &[SIZE],
    ),
    case(
        "an acknowledgement with settings",
        &[Say(SETTINGS), Hear, Reply(|_| frame(kind::SETTINGS, flag::ACK, 0, &[0; 6])), Wait],
        &[SIZE],
    ),
    case(
        "settings on a stream",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::SETTINGS, 0, id, b"")), Wait],
        &[STREAM],
    ),
    case(
        "later settings of a wrong length",
        &[Say(SETTINGS), Hear, Reply(|_| frame(kind::SETTINGS, 0, 0, b"\0\x03\0")), Wait],
        &[SIZE],
    ),
    case(
        "a frame size that is too large",
        &[Say(SETTINGS), Hear, Say(b"\0\0\x06\x04\0\0\0\0\0\0\x05\x01\0\0\0"), Wait],
        &[SETTING],
    ),
    case("a ping on a stream", &[Say(SETTINGS), Hear, Reply(|id| frame(kind::PING, 0, id, &[0; 8])), Wait], &[STREAM]),
    case(
        "GOAWAY on a stream",
        &[Say(SETTINGS), Hear, Reply(|id| frame(kind::GOAWAY, 0, id, &[0; 8])), Wait],
        &[STREAM],
    ),
    case(
        "a window of a wrong length",
        &[Say(SETTINGS), Hear, Reply(|_| frame(kind::WINDOW_UPDATE, 0, 0, b"abc")), Wait],
        &[SIZE],
    ),
    case(
        "a stream's window that does not grow",
        &[Say(SETTINGS), Hear, Reply(|id| [window(id, 0), ok(id)].concat()), Again],
        &[WINDOW],
    ),
    case(
        "a stream's window that overflows",
        &[Say(SETTINGS), Hear, Reply(|id| [window(id, i32::MAX as u32), ok(id)].concat()), Again],
        &[WINDOW],
    ),
    case(
        "a part of a block on another stream",
        &[
            Say(SETTINGS),
            Hear,
            Reply(|id| {
                [frame(kind::HEADERS, 0, id, &[0x88]), frame(kind::CONTINUATION, flag::END_HEADERS, 0, b"")].concat()
            }),
            Wait,
        ],
        &[PARTS],
    ),
    // Uploads.
    upload("windows that never open", &[Say(SETTINGS), HearAnything, Wait], &["timeout"]),
    upload("no window at all", &[Say(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0"), HearAnything, Wait], &["timeout"]),
    upload("does not read", &[Say(SETTINGS), Stay], &["timeout"]),
    upload("answers in the middle of the body", &[Say(SETTINGS), HearAnything, Reply(|_| ok(1)), Wait], &["ok"])
        .or(&["timeout"]),
    // TLS.
    by_tls("answers", &[Shake, Say(SETTINGS), Hear, Reply(ok), Wait], &[]).or(&["ok", "timeout"]),
    by_tls("speaks HTTP/1.1", &[Shake, HearAnything, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait], &[NOT]),
    by_tls("pings without end", &[Shake, Say(SETTINGS), Hear, Endless(PING)], &[TOO_MANY]).or(&["bad answer"]),
    by_tls(
        "cut without a word",
        &[Shake, Say(SETTINGS), Hear, Reply(|id| ok(id)[..20].to_vec())],
        &["connection closed"],
    ),
];

const NOT: &str = "connect: the target does not speak HTTP/2";
const PUSH: &str = "bad answer: HTTP/2: a pushed stream, which was not asked for";
const LONG: &str = "answer too long: headers of more than 64 KiB";
const MANY: &str = "answer too long: more than 128 headers";

/// Returns an answer whose header block is in three frames.
fn continued(stream: u32) -> Vec<u8> {
    let begin = frame(kind::HEADERS, flag::END_STREAM, stream, &[0x88]);
    let end = frame(kind::CONTINUATION, flag::END_HEADERS, stream, b"\x01a\x01b");
    [begin, frame(kind::CONTINUATION, 0, stream, b"\0"), end].concat()
}

/// Returns an answer whose body is the longest frame.
fn longest(stream: u32) -> Vec<u8> {
    [head(stream, 0, &[0x88]), frame(kind::DATA, flag::END_STREAM, stream, &[b'x'; LONGEST])].concat()
}

/// Returns an answer with this `content-length` and body.
fn sized(stream: u32, length: &[u8], body: &[u8]) -> Vec<u8> {
    let block = [b"\x88\x0f\x0d\x01", length].concat();
    [head(stream, 0, &block), frame(kind::DATA, flag::END_STREAM, stream, body)].concat()
}

/// Returns an answer with as many fields as fit, each of one byte.
fn bomb(stream: u32) -> Vec<u8> {
    let mut block = vec![0x88];
    block.resize(16_000, 0x90);
    only(stream, &block)
}
