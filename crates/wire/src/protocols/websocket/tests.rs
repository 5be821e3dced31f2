//! Tests of WebSocket: handshakes, frames byte by byte, and which message answers which.

use proptest::prelude::*;

use super::*;
use crate::cause::Malformation;
use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

fn service() -> Websocket {
    Websocket::open("ws://server.example.com/chat").unwrap()
}

fn compiled(call: &str, with: &[(&str, &str)]) -> Compiled<Websocket> {
    let wants: &[&str] = if call == "post" { &[] } else { &["message", "kind"] };
    compile(&service(), call, with, wants).unwrap()
}

fn seen(message: &str, kind: &str) -> Seen {
    Seen::answer(AttemptCause::Ok, true, "ok", &[Some(message), Some(kind)])
}

/// Returns the first request of a connection, with the key replaced.
fn request(service: &str) -> String {
    let (mut session, mut out) = (WebsocketState::default(), Vec::new());
    assert_eq!(Websocket::open(service).unwrap().greet(&mut session, &mut out), Opening::Wait { used: 0 });
    let text = String::from_utf8(out).unwrap();
    let (head, key) = text.split_once("Sec-WebSocket-Key: ").unwrap();
    assert_eq!(handshake::number_of(key), Some(session.number));
    assert_eq!(&key[24..], "\r\n\r\n");
    head.to_owned()
}

#[test]
fn the_example_of_rfc_6455() {
    let mut accept = handshake::accept_of(b"dGhlIHNhbXBsZSBub25jZQ==").to_vec();
    experiment::template::base64_in_place(&mut accept, 0);
    assert_eq!(accept, b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn requests_of_the_handshake() {
    let common = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
    for (service, begin, more) in [
        ("ws://h/chat?room=1", "GET /chat?room=1 HTTP/1.1\r\nHost: h\r\n", ""),
        ("ws://h:81", "GET / HTTP/1.1\r\nHost: h:81\r\n", ""),
        ("h:81", "GET / HTTP/1.1\r\nHost: h:81\r\n", ""),
        ("ws://h?a", "GET /?a HTTP/1.1\r\nHost: h\r\n", ""),
        ("wss://me:p%40ss@[::1]/", "GET / HTTP/1.1\r\nHost: [::1]\r\n", "Authorization: Basic bWU6cEBzcw==\r\n"),
        (
            "ws://h/#origin=https://a.example&Sec-WebSocket-Protocol=chat,%20soap",
            "GET / HTTP/1.1\r\nHost: h\r\n",
            "origin: https://a.example\r\nSec-WebSocket-Protocol: chat, soap\r\n",
        ),
    ] {
        assert_eq!(request(service), format!("{begin}{common}{more}"), "{service}");
    }
    let address = |service| Websocket::open(service).unwrap().authority().to_owned();
    assert_eq!(
        (address("ws://h/"), address("wss://h/"), address("ws://h:8/")),
        ("h:80".into(), "h:443".into(), "h:8".into())
    );
    assert_eq!(Websocket::open("wss://h:8/").unwrap().tls_host(), Some("h"));
}

#[test]
fn invalid_services_are_refused() {
    for service in [
        "",
        "ws://",
        "ws://h:x/",
        "http://h/",
        "ws://h/a b",
        "ws://h/#x",
        "ws://h/#host=x",
        "ws://h/#sec-websocket-extensions=permessage-deflate",
        "ws://h/#a b=x",
        "ws://h/#a=%0d%0ax",
        "ws://h/#=x",
    ] {
        assert!(Websocket::open(service).is_err(), "{service}");
    }
}

#[test]
fn answers_to_the_handshake() {
    let service = Websocket::open("ws://h/#sec-websocket-protocol=chat").unwrap();
    let mut session = WebsocketState::default();
    service.greet(&mut session, &mut Vec::new());
    let welcome = String::from_utf8(testing::welcome(session.number)).unwrap();
    let with = |more: &str| welcome.replace("\r\n\r\n", &format!("\r\n{more}\r\n\r\n"));
    let greeted = |session: &mut WebsocketState, text: &str| service.greeted(session, text.as_bytes(), &mut Vec::new());
    let open = |text: &str| Opening::Open { used: text.len() };
    assert_eq!(greeted(&mut session, &welcome), open(&welcome));
    assert_eq!(greeted(&mut session, &format!("{welcome}\x01")), open(&welcome));
    for more in ["Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Extensions:"] {
        assert_eq!(greeted(&mut session, &with(more)), open(&with(more)));
    }
    for end in 0..welcome.len() {
        assert_eq!(greeted(&mut session, &welcome[..end]), Opening::Wait { used: 0 });
    }
    let bad = Opening::Refused(AttemptCause::BadAnswer);
    for text in [
        with("Sec-WebSocket-Protocol: soap"),
        with("Sec-WebSocket-Extensions: permessage-deflate"),
        with("Sec-WebSocket-Accept: x"),
        welcome.replace("Upgrade: websocket", "Upgrade: h2c"),
        welcome.replace("keep-alive, Upgrade", "keep-alive"),
    ] {
        assert_eq!(greeted(&mut session, &text), bad, "{text}");
    }
    let http2 = Opening::Refused(AttemptCause::Malformed(Malformation::Http2));
    assert_eq!(greeted(&mut session, "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0d"), http2, "a server of HTTP/2 only");
    for (status, word) in [("200", "http-200"), ("503", "http-503"), ("504", "http-504"), ("418", "http-other")] {
        let answer = format!("HTTP/1.1 {status} No\r\n\r\n");
        let Opening::Refused(cause) = greeted(&mut session, &answer) else { panic!("not refused") };
        assert_eq!(cause.text(Websocket::REFUSALS), format!("answer: {word}"));
        assert!(cause.is_harmless(Websocket::REFUSALS));
    }
}

/// Removes the mask of a frame. Returns its first byte and its body.
fn unmasked(frame: &[u8]) -> (u8, Vec<u8>) {
    let head = match frame[1] {
        0xfe => 4,
        0xff => 10,
        _ => 2,
    };
    let mut body = frame[head + 4..].to_vec();
    frame::apply_mask(&mut body, *frame[head..].first_chunk().unwrap());
    (frame[0], body)
}

#[test]
fn sent_frames_byte_for_byte() {
    // The masked message of RFC 6455, 5.7.
    let mut out = Vec::new();
    frame::write(FrameKind::Text, [0x37, 0xfa, 0x21, 0x3d], b"Hello", &mut out);
    assert_eq!(out, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
    for (length, head) in [
        (0, &b"\x81\x80"[..]),
        (125, b"\x81\xfd"),
        (126, b"\x81\xfe\0\x7e"),
        (0xffff, b"\x81\xfe\xff\xff"),
        (0x1_0000, b"\x81\xff\0\0\0\0\0\x01\0\0"),
    ] {
        let text = "x".repeat(length);
        let frame = encode(&compiled("send", &[("message", &text)]), 7);
        assert!(frame.starts_with(head), "{length}");
        assert_eq!(unmasked(&frame), (0x81, text.into_bytes()));
    }
    let binary = encode(&compiled("send", &[("message", "{agent}-{seq}"), ("kind", "binary")]), 7);
    assert_eq!(unmasked(&binary), (0x82, b"3-12".to_vec()));
    let post = encode(&compiled("post", &[("message", "x")]), 7);
    assert_eq!(unmasked(&post[..7]), (0x81, b"x".to_vec()));
    assert_eq!(unmasked(&post[7..]), (0x89, b"\0\0\0\x07".to_vec()));
}

#[test]
fn invalid_steps_are_refused() {
    for (call, with) in [
        ("send", &[][..]),
        ("send", &[("message", "x"), ("kind", "json")]),
        ("send", &[("message", "x"), ("match", "id")]),
        ("send", &[("message", "x"), ("match", "/{seq}")]),
        ("send", &[("message", "x"), ("match", "/id"), ("contains", "x")]),
        ("post", &[("message", "x"), ("match", "/id")]),
        ("receive", &[("messages", "0")]),
        ("receive", &[("messages", "many")]),
        ("receive", &[("message", "x")]),
    ] {
        assert!(compile(&service(), call, with, &[]).is_err(), "{call} {with:?}");
    }
}

#[test]
fn received_messages() {
    let next = compiled("send", &[("message", "x")]);
    let bad = Seen::Bad(AttemptCause::BadAnswer);
    for (bytes, expected) in [
        // The unmasked messages of RFC 6455, 5.7.
        (&b"\x81\x05Hello"[..], seen("Hello", "text")),
        (b"\x01\x03Hel\x80\x02lo", seen("Hello", "text")),
        (b"\x89\x05Hello\x81\x01x", seen("x", "text")),
        (b"\x01\x03Hel\x89\x01x\x8a\x01y\0\0\x80\x02lo", seen("Hello", "text")),
        (b"\x82\x02\xff\0", seen("\\xff\\x00", "binary")),
        (b"\x81\0", seen("", "text")),
        // A character may be divided between frames.
        (b"\x01\x01\xc3\x80\x01\xa9", seen("\u{e9}", "text")),
        (b"\x01\x01\xc3\x80\x01(", bad.clone()),
        (b"\x81\x01\xff", bad.clone()),
        (b"\x83\0", bad.clone()),
        (b"\x91\0", bad.clone()),
        (b"\x81\x80\0\0\0\0", bad.clone()),
        (b"\x80\0", bad.clone()),
        (b"\x01\0\x01\0", bad.clone()),
        (b"\x09\0", bad.clone()),
        (b"\x88\x01\x03", bad.clone()),
        (b"\x88\x02\x03\xed", bad.clone()),
        (b"\x88\x03\x03\xe8\xff", bad.clone()),
        (b"\x81\x7e\0\x7d", bad.clone()),
        (b"\x81\x7f\0\0\0\0\0\0\xff\xff", bad),
        (b"\x81\x7f\0\0\0\0\x04\0\0\x01", Seen::Bad(AttemptCause::TooLong)),
        (b"\x01\x01x", Seen::More),
        (b"\x81\x05Hell", Seen::More),
    ] {
        assert_eq!(is_the_same_in_pieces(&next, 7, bytes, false), expected, "{bytes:x?}");
    }
    let long = [&b"\x82\x7e\x01\0"[..], &[b'x'; 256]].concat();
    assert_eq!(is_the_same_in_pieces(&next, 7, &long, false), seen(&"x".repeat(256), "binary"));
}

#[test]
fn a_close_ends_the_connection_with_its_code() {
    let next = compiled("send", &[("message", "x")]);
    for (bytes, code) in [(&b"\x88\0"[..], 1005), (b"\x88\x02\x03\xe9", 1001), (b"\x88\x05\x0f\xa1bye\x81\x01x", 4001)]
    {
        let expected = Seen::Bad(AttemptCause::CloseFrame(code));
        assert_eq!(is_the_same_in_pieces(&next, 7, bytes, true), expected, "{bytes:x?}");
    }
}

#[test]
fn answers_are_found_by_value_or_text() {
    let same = compiled("send", &[("message", r#"{{"id": "a{seq}", "x": 1}}"#), ("match", "/id")]);
    let contains = compiled("send", &[("message", "x"), ("contains", "re:{seq}.")]);
    for (request, messages, expected) in [
        (&same, &[r#"{"id":"a12"}"#][..], seen(r#"{"id":"a12"}"#, "text")),
        (&same, &["hello", r#"{"id":"a1"}"#, r#"{"y": 2, "id": "\u0061\u00312"}"#], {
            seen(r#"{"y": 2, "id": "\u0061\u00312"}"#, "text")
        }),
        (&same, &["a12", r#"{"id":12}"#, "[]"], Seen::More),
        (&contains, &["re:1.", "re:123.", "hi re:12. yes"], seen("hi re:12. yes", "text")),
        (&contains, &[""], Seen::More),
    ] {
        let frame = |text: &&str| [&[0x81, text.len() as u8], text.as_bytes()].concat();
        let bytes: Vec<u8> = messages.iter().flat_map(frame).collect();
        assert_eq!(is_the_same_in_pieces(request, 7, &bytes, false), expected, "{messages:?}");
    }
    let missing = compiled("send", &[("message", "{{}}"), ("match", "/id")]);
    let values = OperationValues {
        source: crate::testing::source(3, 12),
        arguments: &missing.arguments,
        cookies: None,
        redirection: None,
    };
    let (mut session, mut scratch, mut out) = (WebsocketState::default(), MessageScratch::default(), Vec::new());
    let refusal = Websocket::encode(&mut session, &mut scratch, &missing.request, 7, &values, &mut out);
    assert_eq!(refusal, Err(NotSendable::NoMatch));
}

#[test]
fn posts_end_with_a_pong_and_pushes_are_counted() {
    let post = compiled("post", &[("message", "x")]);
    let done = Seen::answer(AttemptCause::Ok, true, "ok", &[]);
    assert_eq!(is_the_same_in_pieces(&post, 7, b"\x81\x01x\x8a\0\x8a\x04\0\0\0\x06\x8a\x04\0\0\0\x07", false), done);
    assert_eq!(is_the_same_in_pieces(&post, 7, b"\x81\x01x\x8a\x04\0\0\0\x06", false), Seen::More);
    let two = compiled("receive", &[("messages", "2")]);
    let seen_two = |last| seen(last, "binary").with_messages(2);
    assert_eq!(is_the_same_in_pieces(&two, 7, b"\x81\x01a\x8a\x04\0\0\0\x07\x82\x01b", false), seen_two("b"));
    assert_eq!(is_the_same_in_pieces(&two, 7, b"\x81\x01a\x02\x01b\x89\0\x80\x01c", false), seen_two("bc"));
    assert_eq!(is_the_same_in_pieces(&two, 7, b"\x81\x01a", false), Seen::More);
}

/// Requests that share a connection.
struct Shared<'a>(&'a [(u32, &'a Request)]);

impl<'a> OpenRequests<'a, Websocket> for Shared<'a> {
    fn oldest(&self) -> Option<crate::session::RequestContext<'a, Websocket>> {
        self.0.first().and_then(|(id, _)| self.get(*id))
    }

    fn get(&self, id: u32) -> Option<crate::session::RequestContext<'a, Websocket>> {
        let (id, request) = self.0.iter().find(|(known, _)| *known == id)?;
        Some(crate::session::RequestContext { request, id: *id })
    }
}

#[test]
fn requests_share_a_connection() {
    let requests = [
        compiled("post", &[("message", "x")]),
        compiled("send", &[("message", "x")]),
        compiled("send", &[("message", "x"), ("contains", "c")]),
        compiled("post", &[("message", "x")]),
        compiled("send", &[("message", "x")]),
    ];
    let (mut session, mut scratch, mut out) = (WebsocketState::default(), MessageScratch::default(), Vec::new());
    let open: Vec<_> = (1..).zip(requests.iter().map(|compiled| &compiled.request)).collect();
    for (id, request) in &open {
        let arguments = &requests[*id as usize - 1].arguments;
        let source = crate::testing::source(1, 1);
        let values = OperationValues { source, arguments, cookies: None, redirection: None };
        Websocket::encode(&mut session, &mut scratch, request, *id, &values, &mut out).unwrap();
    }
    let mut input = &b"\x81\x01n\x8a\x04\0\0\0\x04\x81\x01c\x81\x01d\x81\x01e\x01\x01f\x80\0"[..];
    let (mut answered, mut pushed) = (Vec::new(), 0);
    let shared = Shared(&open);
    while !input.is_empty() {
        let used = match Websocket::receive(&mut session, &mut scratch, &shared, input, false, &mut out) {
            SessionEvent::Answer { id, answer } => {
                Websocket::finish(&mut session, &mut scratch);
                answered.push(id);
                answer.used
            }
            SessionEvent::Control { used } => used,
            SessionEvent::Pushed { used } => {
                pushed += 1;
                used
            }
            other => panic!("{other:?}"),
        };
        input = &input[used..];
    }
    // The pong of the second post also answers the first one. The last two messages answer nothing.
    assert_eq!((answered.as_slice(), pushed), ([2, 1, 4, 3, 5].as_slice(), 2));
    let values = OperationValues {
        source: crate::testing::source(1, 1),
        arguments: &requests[2].arguments,
        cookies: None,
        redirection: None,
    };
    for (id, index, is_cancelled) in [(8, 2, true), (9, 1, false)] {
        Websocket::encode(&mut session, &mut scratch, &requests[index].request, id, &values, &mut out).unwrap();
        assert_eq!(Websocket::cancel(&mut session, &mut scratch, id, &mut out), is_cancelled);
    }
}

#[test]
fn a_client_closes_with_a_frame_unless_the_server_did() {
    let next = compiled("send", &[("message", "x")]);
    let (mut session, mut scratch, mut out) = (WebsocketState::default(), MessageScratch::default(), Vec::new());
    Websocket::leave(&mut session, &mut out);
    let mut code = out.split_off(6);
    frame::apply_mask(&mut code, out[2..].try_into().unwrap());
    assert_eq!((&out[..2], code.as_slice()), (&b"\x88\x82"[..], &b"\x03\xe8"[..]));
    let open = [(7, &next.request)];
    out.clear();
    let closed = Websocket::receive(&mut session, &mut scratch, &Shared(&open), b"\x88\x02\x03\xe9", false, &mut out);
    assert!(matches!(closed, SessionEvent::Drain { used: 4 }), "{closed:?}");
    out.clear();
    Websocket::leave(&mut session, &mut out);
    assert!(out.is_empty(), "{out:?}");
}

proptest! {
    #[test]
    fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
        let (left, right) = bytes.split_at(cut.min(bytes.len()));
        for compiled in [compiled("send", &[("message", "x")]), compiled("receive", &[("messages", "2")])] {
            feed(&compiled, &mut MessageScratch::default(), 7, &[left, right], ends);
        }
    }

    #[test]
    fn masks_are_removed_as_they_were_applied(body in prop::collection::vec(any::<u8>(), 0..100), mask: [u8; 4]) {
        let mut masked = body.clone();
        frame::apply_mask(&mut masked, mask);
        for (place, (masked, byte)) in masked.iter().zip(&body).enumerate() {
            prop_assert_eq!(*masked, byte ^ mask[place % 4]);
        }
    }
}
