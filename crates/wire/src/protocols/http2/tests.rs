//! Tests of HTTP/2.
#![allow(clippy::unwrap_used, clippy::panic)]

use experiment::plan::StreamEnd;

use super::testing::frame;
use super::*;
use crate::http2::Http2Memory;
use crate::http2::frames::{FrameHead, HEAD, flag, kind};
use crate::protocols::Protocol;
use crate::testing::exchange::{Compiled, Seen, compile, compile_stream, encode, feed, is_the_same_in_pieces};

fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Http2> {
    compile(&Http2::open("http://h:1/base").unwrap(), operation, with, wants).unwrap()
}

fn get() -> Compiled<Http2> {
    compiled("get", &[("path", "/")], &["status", "body", "header.X-Kind"])
}

/// Returns a header block as lines.
fn lines(block: &[u8]) -> Vec<String> {
    let (mut block, mut lines) = (HeaderBlock::new(block), Vec::new());
    while let Some(field) = block.next_field().unwrap() {
        let mut line = Vec::new();
        field.name().write(&mut line).unwrap();
        line.push(b' ');
        field.value.write(&mut line).unwrap();
        lines.push(String::from_utf8(line).unwrap());
    }
    lines
}

/// Returns the frames of a text.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHead, &[u8])> {
    let mut frames = Vec::new();
    while let Some(head) = FrameHead::read(bytes) {
        let (body, rest) = bytes[HEAD..].split_at(head.length);
        frames.push((head, body));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::write_field(name, value.as_bytes(), &mut block));
    block
}

#[test]
fn a_request_is_a_header_block() {
    let bytes = encode(&compiled("get", &[("path", "/a/{seq}"), ("header.X-Own", "b")], &[]), 7);
    let frames = frames(&bytes);
    let (head, block) = frames[0];
    assert_eq!((frames.len(), head.kind, head.flags), (1, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM));
    assert_eq!(lines(block), [":method GET", ":scheme http", ":path /base/a/12", ":authority h:1", "x-own b"]);
}

#[test]
fn answers_are_the_same_in_pieces() {
    let head = headers(&[(":status", "200"), ("x-kind", "k"), ("content-length", "4")]);
    let bytes = [
        frame(kind::PING, 0, 0, b"12345678"),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &head),
        frame(kind::DATA, flag::PADDED, 1, b"\x03hi\0\0\0"),
        frame(kind::DATA, 0, 1, b""),
        frame(kind::DATA, flag::END_STREAM, 1, b"ho"),
    ]
    .concat();
    let seen = is_the_same_in_pieces(&get(), 7, &bytes, false);
    assert_eq!(seen, Seen::answer(AttemptCause::Ok, true, "200", &[Some("200"), Some("hiho"), Some("k")]));
    let short = [
        frame(kind::HEADERS, flag::END_HEADERS, 1, &headers(&[(":status", "200"), ("content-length", "5")])),
        frame(kind::DATA, flag::END_STREAM, 1, b"ho"),
    ];
    let cause = AttemptCause::Malformed(Malformation::Frames(FrameDefect::Length));
    let Seen::Answer { result, .. } = feed(&get(), &mut Http2Memory::default(), 7, &[&short.concat()], false) else {
        panic!("no answer");
    };
    assert_eq!(result, cause);
}

#[test]
fn events_are_the_same_in_pieces() {
    let http2 = Http2::open("http://h:1").unwrap();
    let head = headers(&[(":status", "200"), ("content-type", "text/event-stream"), ("content-length", "45")]);
    let bytes = [
        frame(kind::HEADERS, flag::END_HEADERS, 1, &head),
        frame(kind::DATA, 0, 1, b"data: one\n\ndata: t"),
        frame(kind::DATA, flag::PADDED, 1, b"\x03wo\n\ndata: [DONE]\n\n\0\0\0"),
        frame(kind::DATA, flag::END_STREAM, 1, b"data: x\n\n"),
    ]
    .concat();
    for (until, expected) in [(None, 4), (Some("two"), 2), (Some("[DONE]"), 3), (Some("x"), 4)] {
        let end = StreamEnd { until: until.map(str::to_owned), messages: None };
        let get = compile_stream(&http2, "get", &[("path", "/")], &[], &end).unwrap();
        let sent = encode(&get, 7);
        assert!(lines(frames(&sent)[0].1).contains(&"accept text/event-stream".to_owned()));
        for piece in 1..bytes.len() {
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            let seen = feed(&get, &mut Http2Memory::default(), 7, &pieces, false);
            let Seen::Answer { result, reusable, messages, .. } = seen else { panic!("{seen:?} in {piece}") };
            assert_eq!((result, reusable, messages), (AttemptCause::Ok, true, expected), "{until:?} in {piece}");
        }
    }
}
