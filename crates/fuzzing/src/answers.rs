//! Fuzz targets for the answers of each protocol. An answer is decoded in the same way whole or in
//! pieces, and the decoder does not keep more bytes than necessary.
//!
//! The first byte of an input selects the operation, the requested fields and whether the
//! connection ends. The second is the seed for the cuts. The rest is the answer.

use experiment::catalog::Operation;
use fastrand::Rng;
use load::fuzzing::{Decoded, Exchange, ExchangeResult, Greeted, greet, hear};

/// Request id of `vsns`.
const ID: u32 = 0x0102_0304;
/// Arguments that mark the last line of an answer with several lines.
const LAST_LINES: &[(&str, &str)] = &[("until", "END|."), ("fails", "ERR|-")];
/// Longest answer that is also decoded byte by byte.
const SHORT: usize = 300;
/// Most bytes that the HTTP decoder may leave in the input: an incomplete header block.
const HTTP_HELD: usize = 64 * 1024;

/// Decodes answers of an HTTP server.
pub fn http(input: &[u8]) {
    held_together("http", input, HTTP_HELD);
}

/// Decodes answers of a name service. A frame stays in the input until it is complete.
pub fn vsns(input: &[u8]) {
    held_together("vsns", input, usize::MAX);
}

/// Decodes replies of Redis. A reply stays in the input until it is complete.
pub fn redis(input: &[u8]) {
    held_together("redis", input, usize::MAX);
    greeted("redis", "redis://127.0.0.1:1/3", input);
}

/// Decodes lines. All lines of an answer stay in the input until the last line is there.
pub fn lines(input: &[u8]) {
    held_together("lines", input, usize::MAX);
    greeted("lines", "tcp://127.0.0.1:1?banner=2", input);
}

/// Decodes outcomes of programs and orders for programs. Encoding a decoded message gives the same
/// bytes.
pub fn command(input: &[u8]) {
    held_together("command", input, usize::MAX);
    if let Some(written) = load::fuzzing::outcome(input) {
        let (length, frame) = written.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, frame.len());
        assert_eq!(load::fuzzing::outcome(frame).as_deref(), Some(&written[..]));
        // The encoding of the exit status may differ; the program's output may not.
        assert!(written.len() == input.len() + 4 && frame.ends_with(&input[6..]));
    }
    if let Some(written) = load::fuzzing::order(input) {
        assert_eq!(written, input);
    }
}

/// Checks that every beginning of an answer to a greeting decodes to "more" or to the result of the
/// whole answer.
fn greeted(protocol: &str, service: &str, input: &[u8]) {
    let answer = |input: &[u8]| greet(protocol, service, input).unwrap().unwrap();
    let whole = answer(input);
    if let Greeted::Answer(_, bytes) = &whole {
        assert!(*bytes <= input.len());
    }
    for end in 0..input.len().min(SHORT) {
        let begun = answer(&input[..end]);
        assert!(begun == Greeted::More || begun == whole, "{begun:?} at {end} became {whole:?}");
    }
}

/// Decodes chunked bodies: the input itself, and a valid body made of the input, which must come
/// back unchanged.
pub fn chunks(input: &[u8]) {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some(([how, seed], body)) = input.split_first_chunk::<2>() else { return };
    held_together("http", &[&[b'0' | how & 1, *seed][..], HEAD, body].concat(), HTTP_HELD);
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
    let talk = Exchange { with: &[("path", "/")], ..asking("get", &["body"], &[], false) };
    let [heard, _] = hear("http", &Exchange { pieces: &cut(&made, &mut random), ..talk }).unwrap();
    let Decoded::Answer { fields, bytes, .. } = heard.seen else { panic!("{:?}", heard.seen) };
    assert_eq!((fields[0].as_deref(), bytes), (Some(body), made.len()));
}

fn held_together(protocol: &str, input: &[u8], most: usize) {
    let Some(([how, seed], answer)) = input.split_first_chunk::<2>() else { return };
    let info = load::protocols::find(protocol).unwrap().info;
    let operation = &info.operations[usize::from(how >> 2 & 0x1f) % info.operations.len()];
    let ends = how & 1 == 1;
    let wants = if how & 2 == 2 { Vec::new() } else { wants(operation) };
    let with = if how & 0x80 == 0 { &[] } else { LAST_LINES };
    let asking = |pieces: &[&[u8]]| {
        listen(protocol, operation, &Exchange { with, ..asking(operation.name, &wants, pieces, ends) })
    };
    let whole = asking(&[answer]);
    let mut random = Rng::with_seed(u64::from(*seed));
    let pieces = cut(answer, &mut random);
    let in_pieces = asking(&pieces);
    assert_eq!(whole.seen, in_pieces.seen, "cut");
    assert!(whole.held_bytes <= most && in_pieces.held_bytes <= most, "{whole:?}");
    if answer.len() <= SHORT {
        let bytes: Vec<&[u8]> = answer.chunks(1).collect();
        let single = asking(&bytes);
        assert_eq!(whole.seen, single.seen, "byte by byte");
    }
    if let Decoded::Answer { bytes, .. } = whole.seen {
        assert!(bytes <= answer.len());
    }
}

/// Runs the same exchange twice. The memory of the thread must not change the result.
fn listen(protocol: &str, operation: &Operation, talk: &Exchange<'_>) -> ExchangeResult {
    let mut with: Vec<(&str, &str)> = operation
        .takes
        .iter()
        .filter(|field| field.required)
        .map(|field| (field.name, if field.name == "path" { "/" } else { "x" }))
        .collect();
    with.extend(talk.with.iter().filter(|(name, _)| operation.takes.iter().any(|field| field.name == *name)));
    let [first, second] = hear(protocol, &Exchange { with: &with, ..*talk }).unwrap();
    assert_eq!(first, second, "the second time");
    first
}

/// Returns all fields of the operation's answer. Of fields with free names, returns one example.
fn wants(operation: &Operation) -> Vec<&'static str> {
    let name = |name: &'static str| if name == "header.*" { "header.x-kind" } else { name };
    operation.answers.iter().map(|field| name(field.name)).collect()
}

fn asking<'a>(operation: &'a str, wants: &'a [&'a str], pieces: &'a [&'a [u8]], ends: bool) -> Exchange<'a> {
    Exchange { operation, with: &[], wants, id: ID, pieces, ends }
}

/// Cuts the bytes into up to five pieces.
fn cut<'a>(bytes: &'a [u8], random: &mut Rng) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for _ in 0..random.usize(1..5) {
        let (piece, behind) = rest.split_at(random.usize(0..=rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}
