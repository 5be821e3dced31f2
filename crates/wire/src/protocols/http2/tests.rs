//! Tests of HTTP/2.
#![allow(clippy::unwrap_used, clippy::panic)]

use experiment::plan::StreamEnd;

use super::testing::{OpenIds, frame};
use super::*;
use crate::http2::Http2Memory;
use crate::http2::frames::{FrameHead, HEAD, flag, kind};
use crate::http2::session::Http2Session;
use crate::protocols::Protocol;
use crate::session::SessionProtocol as _;
use crate::testing::exchange::{Compiled, Seen, compile, compile_stream, encode, feed, is_the_same_in_pieces};
use crate::testing::source;

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

#[test]
fn a_body_follows_its_headers() {
    let post = compiled("post", &[("path", "/"), ("form.a b", "{seq}&")], &[]);
    let values =
        OperationValues { source: source(3, 12), arguments: &post.arguments, cookies: None, redirection: None };
    let (mut session, mut memory, mut out) = (Http2Session::default(), Http2Memory::default(), Vec::new());
    Http2::open("h:1").unwrap().greet(&mut session, &mut Vec::new());
    Http2::encode(&mut session, &mut memory, &post.request, 7, &values, &mut out).unwrap();
    let frames = frames(&out);
    let [(head, block), (data, body)] = frames[..] else { panic!("{frames:?}") };
    assert_eq!(
        (head.kind, head.flags, data.kind, data.flags),
        (kind::HEADERS, flag::END_HEADERS, kind::DATA, flag::END_STREAM)
    );
    assert_eq!(lines(block)[4..], ["content-type application/x-www-form-urlencoded", "content-length 7"]);
    assert_eq!(body, b"a+b=12&");
}

#[test]
fn long_values_and_blocks_are_sent_whole() {
    let long = "x".repeat(40_000);
    let get =
        compiled("get", &[("path", "/"), ("header.a", "{seq}-{seq}"), ("header.b", &format!("{long}{{seq}}"))], &[]);
    let bytes = encode(&get, 7);
    let frames = frames(&bytes);
    let kinds: Vec<(u8, u8)> = frames.iter().map(|(head, _)| (head.kind, head.flags)).collect();
    assert_eq!(
        kinds,
        [(kind::HEADERS, flag::END_STREAM), (kind::CONTINUATION, 0), (kind::CONTINUATION, flag::END_HEADERS)]
    );
    let block: Vec<u8> = frames.iter().flat_map(|(_, body)| body.to_vec()).collect();
    assert_eq!(lines(&block)[4..], ["a 12-12".to_owned(), format!("b {long}12")]);
}

#[test]
fn headers_of_connections_are_refused() {
    for (name, value, why) in [
        ("header.Connection", "close", "sets"),
        ("header.keep-alive", "5", "no such header"),
        ("header.Upgrade", "x", "no such header"),
        ("header.te", "gzip", "trailers"),
        ("header.transfer-encoding", "chunked", "sets"),
        ("header.a b", "x", "not the name"),
    ] {
        let refused = compile(&Http2::open("h:1").unwrap(), "get", &[("path", "/"), (name, value)], &[]).err();
        assert!(refused.as_deref().is_some_and(|text| text.contains(why)), "{name}: {refused:?}");
    }
    let get = compiled("get", &[("path", "/"), ("header.te", "trailers"), ("header.Host", "own")], &[]);
    assert_eq!(lines(frames(&encode(&get, 1))[0].1)[3..], [":authority own", "te trailers"]);
}

#[test]
fn services_have_schemes() {
    for (service, authority, host) in [
        ("h2://h/base", "h:443", Some("h")),
        ("h2c://h:8080", "h:8080", None),
        ("https://h", "h:443", Some("h")),
        ("http://h", "h:80", None),
    ] {
        let opened = Http2::open(service).unwrap();
        assert_eq!((opened.authority(), opened.tls_host()), (authority, host), "{service}");
    }
}

#[test]
fn statuses_redirects_and_excerpts() {
    let fields = [(":status", "302"), ("location", "/new"), ("content-type", "text/plain")];
    let bytes = [
        frame(kind::HEADERS, flag::END_HEADERS, 1, &headers(&fields)),
        frame(kind::DATA, flag::END_STREAM, 1, b"moved"),
    ]
    .concat();
    let state = answered(&compiled("get", &[("path", "/")], &[]), &bytes);
    assert_eq!(Http2Streams::redirect(&state), Some((302, Some(&b"/new"[..]))));
    let mut shown = Vec::new();
    Http2Streams::show_answer(Http2Streams::shown(&state), &mut shown);
    assert_eq!(String::from_utf8(shown).unwrap(), "HTTP/2 302; content-type: text/plain; body: moved");
}

/// Returns the state of an answer without other frames.
fn answered(compiled: &Compiled<Http2>, bytes: &[u8]) -> AnswerState {
    let (mut state, mut memory) = (AnswerState::default(), AnswerMemory::default());
    for (head, body) in frames(bytes) {
        if head.kind == kind::HEADERS {
            let mut block = HeaderBlock::new(body);
            let status = block.status(&mut Vec::new()).unwrap().unwrap();
            Http2Streams::headers(&compiled.request, &mut state, &mut memory, status, block).unwrap();
        } else {
            state.content.take(&compiled.request, body).unwrap();
            state.content.stored.extend_from_slice(body);
        }
    }
    state
}

/// Returns the frames that a client sends back.
fn sent_back(input: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let get = get();
    let values = OperationValues { source: source(3, 12), arguments: &get.arguments, cookies: None, redirection: None };
    let (mut session, mut memory, mut out) = (Http2Session::default(), Http2Memory::default(), Vec::new());
    Http2::open("h:1").unwrap().greet(&mut session, &mut Vec::new());
    Http2::encode(&mut session, &mut memory, &get.request, 7, &values, &mut Vec::new()).unwrap();
    Http2::receive(&mut session, &mut memory, &OpenIds { ids: vec![7], request: &get.request }, input, false, &mut out);
    frames(&out).into_iter().map(|(head, body)| (head.kind, head.flags, body.to_vec())).collect()
}

#[test]
fn settings_and_pings_are_acknowledged() {
    assert_eq!(sent_back(&frame(kind::SETTINGS, 0, 0, &[0; 6])), [(kind::SETTINGS, flag::ACK, Vec::new())]);
    let pings = [frame(kind::PING, flag::ACK, 0, b"an echo."), frame(kind::PING, 0, 0, b"12345678")].concat();
    assert_eq!(sent_back(&pings), [(kind::PING, flag::ACK, b"12345678".to_vec())]);
}

#[test]
fn the_target_is_told_why_a_connection_or_a_stream_ends() {
    let too_large = |stream| frame(kind::WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]);
    for (input, kind, code) in [
        (frame(kind::PING, 0, 0, b"x"), kind::GOAWAY, 6),
        (frame(kind::PING, 0, 1, b"12345678"), kind::GOAWAY, 1),
        (too_large(0), kind::GOAWAY, 3),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88, 0x80]), kind::GOAWAY, 9),
        (frame(kind::SETTINGS, flag::ACK, 0, b"").repeat(20_000), kind::GOAWAY, 11),
        (too_large(1), kind::RST_STREAM, 3),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]), kind::RST_STREAM, 1),
    ] {
        let sent = sent_back(&input);
        let [(sent_kind, 0, body)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((*sent_kind, body.last()), (kind, Some(&code)), "{:?}", &input[..input.len().min(20)]);
    }
    assert_eq!(sent_back(&frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 2])), [], "the target has ended it");
}
