//! Test data of WebSocket: servers that misbehave.

use std::io::Read;

use super::Websocket;
use super::frame::apply_mask;
use super::handshake::{number_of, write_accept};
use crate::testing::hostile::PeerAction::{Drip, Endless, Fin, Hear, Reply, Reset, Say, Wait};
use crate::testing::hostile::{HostileCase, PeerAction};
use crate::testing::{ReceivedRequest, TestedProtocol, read_bytes, read_until};

impl TestedProtocol for Websocket {
    const HOSTILE: &'static [HostileCase] = CASES;
    const GREETED: Option<&'static str> = Some("ws://127.0.0.1:1/");
    const OPTIONAL: &'static [(&'static str, &'static str)] =
        &[("kind", "binary"), ("contains", "a"), ("messages", "2")];

    /// Reads a handshake, whose id is the number of its key, or a frame.
    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let first = read_bytes(from, 1)?;
        if first[0] == b'G' {
            let body = read_until(from, b"\r\n\r\n")?;
            let text = String::from_utf8_lossy(&body);
            let key = text.split("Sec-WebSocket-Key: ").nth(1)?.lines().next()?;
            return Some(ReceivedRequest { id: number_of(key)?, opcode: b'G', body: body.clone() });
        }
        let length = match read_bytes(from, 1)?[0] & 0x7f {
            126 => u64::from(u16::from_be_bytes(read_bytes(from, 2)?.try_into().ok()?)),
            127 => u64::from_be_bytes(read_bytes(from, 8)?.try_into().ok()?),
            short => u64::from(short),
        };
        let mask: [u8; 4] = read_bytes(from, 4)?.try_into().ok()?;
        let mut body = read_bytes(from, usize::try_from(length).ok()?)?;
        apply_mask(&mut body, mask);
        Some(ReceivedRequest { id: 0, opcode: first[0] & 0x0f, body })
    }
}

/// Returns the answer to the handshake of the connection with this number.
pub fn welcome(number: u32) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
          Sec-WebSocket-Accept: "
        .to_vec();
    write_accept(number, &mut answer);
    answer.extend_from_slice(b"\r\n\r\n");
    answer
}

fn welcome_with_extension(number: u32) -> Vec<u8> {
    let mut answer = welcome(number);
    answer.truncate(answer.len() - 2);
    answer.extend_from_slice(b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n");
    answer
}

fn welcome_to_others(number: u32) -> Vec<u8> {
    welcome(number.wrapping_add(1))
}

fn welcome_and_close(number: u32) -> Vec<u8> {
    [welcome(number), b"\x88\x02\x03\xe9".to_vec()].concat()
}

/// A server that welcomes.
const fn open(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    let (service, with, keep) = ("ws://{address}/", ["message=x"].as_slice(), Some("answer.message"));
    HostileCase { service, call: "send", with, keep, ..HostileCase::new(name, actions, ends) }
}

/// A server that refuses the handshake with a status.
const fn refused(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { greets: true, ..open(name, actions, ends) }
}

const fn post(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { keep: None, ..open(name, actions, ends).asked("post", &["message=x"]) }
}

const WELCOME: PeerAction = Reply(welcome);
/// A text message of three bytes.
const YES: &[u8] = b"\x81\x03yes";
const PING: &[u8] = b"\x89\x02hi";
/// A frame of a message that never ends.
const MORE: [u8; 4100] = {
    let mut frame = [b'm'; 4100];
    frame[0] = 0;
    frame[1] = 126;
    frame[2] = 0x10;
    frame[3] = 0;
    frame
};

static CASES: &[HostileCase] = &[
    open("answers", &[Hear, WELCOME, Hear, Say(YES), Hear, Say(YES), Wait], &["ok"]).or(&["timeout"]),
    open("an empty answer", &[Hear, WELCOME, Hear, Say(b"\x82\0"), Wait], &["ok"]).or(&["timeout"]),
    open(
        "answers in frames, with a ping between",
        &[Hear, WELCOME, Hear, Say(b"\x01\x01y\x89\0\x80\x02es"), Wait],
        &["ok"],
    )
    .or(&["timeout"]),
    open("answers twice", &[Hear, WELCOME, Hear, Say(b"\x81\x01a\x81\x01b"), Wait], &["ok"]).or(&["timeout"]),
    open("answers without end", &[Hear, WELCOME, Hear, Endless(YES)], &["ok"]),
    open("silence after the welcome", &[Hear, WELCOME, Wait], &["timeout"]),
    open("pings without end", &[Hear, WELCOME, Hear, Endless(PING)], &[]).or(&["bad answer", "timeout"]),
    open("frames without end", &[Hear, WELCOME, Hear, Say(b"\x01\0"), Endless(&MORE)], &[])
        .or(&["answer too long", "timeout"]),
    open("empty frames without end", &[Hear, WELCOME, Hear, Say(b"\x01\0"), Endless(b"\0\0")], &["timeout"]),
    open(
        "a message of 2^63 - 1 bytes",
        &[Hear, WELCOME, Hear, Say(b"\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), Wait],
        &["answer too long"],
    ),
    open(
        "a length with its highest bit",
        &[Hear, WELCOME, Hear, Say(b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), Wait],
        &["bad answer"],
    ),
    open("a length in a long form", &[Hear, WELCOME, Hear, Say(b"\x81\x7e\0\x03yes"), Wait], &["bad answer"]),
    open("a masked frame", &[Hear, WELCOME, Hear, Say(b"\x81\x83\0\0\0\0yes"), Wait], &["bad answer"]),
    open("a reserved bit", &[Hear, WELCOME, Hear, Say(b"\xc1\x03yes"), Wait], &["bad answer"]),
    open("an unknown kind of frame", &[Hear, WELCOME, Hear, Say(b"\x83\x03yes"), Wait], &["bad answer"]),
    open("a ping in frames", &[Hear, WELCOME, Hear, Say(b"\x09\x01a"), Wait], &["bad answer"]),
    open("a ping that is too long", &[Hear, WELCOME, Hear, Say(b"\x89\x7e\0\x7e"), Wait], &["bad answer"]),
    open("a continuation of nothing", &[Hear, WELCOME, Hear, Say(b"\x80\x03yes"), Wait], &["bad answer"]),
    open("a message within a message", &[Hear, WELCOME, Hear, Say(b"\x01\x01y\x81\x01e"), Wait], &["bad answer"]),
    open("a text that is not UTF-8", &[Hear, WELCOME, Hear, Say(b"\x81\x02\xc3("), Wait], &["bad answer"]),
    open("a closing frame of one byte", &[Hear, WELCOME, Hear, Say(b"\x88\x01\x03"), Wait], &["bad answer"]),
    open("a closing frame with the code 1006", &[Hear, WELCOME, Hear, Say(b"\x88\x02\x03\xee"), Wait], &["bad answer"]),
    open(
        "closes",
        &[Hear, WELCOME, Hear, Say(b"\x88\x05\x03\xe9bye"), Hear],
        &["closed by the target: 1001 going away"],
    )
    .or(&["connection closed", "connection reset", "timeout"]),
    open("closes and answers", &[Hear, WELCOME, Hear, Say(b"\x88\0"), Say(YES), Wait], &["timeout"]),
    open("closes at once", &[Hear, Reply(welcome_and_close), Wait], &["timeout"]).or(&["connection closed"]),
    open("cut in a header", &[Hear, WELCOME, Hear, Say(b"\x81")], &["connection closed"]),
    open("cut in a message", &[Hear, WELCOME, Hear, Say(b"\x81\x03ye")], &["connection closed"]),
    open(
        "cut in a message, on its side",
        &[Hear, WELCOME, Hear, Say(b"\x81\x03ye"), Fin, Wait],
        &["connection closed"],
    ),
    open("cut and reset", &[Hear, WELCOME, Hear, Say(b"\x81\x03ye"), Reset], &["connection reset"]),
    open("a byte now and then", &[Hear, WELCOME, Hear, Drip(YES)], &["timeout"]),
    post("answers without a pong", &[Hear, WELCOME, Hear, Say(YES), Wait], &["timeout"]),
    post("pongs before the ping", &[Hear, WELCOME, Say(b"\x8a\0\x8a\x04zzzz"), Wait], &["timeout"]),
    open("pushes", &[Hear, WELCOME, Say(YES), Hear, Say(YES), Say(YES), Wait], &["ok"])
        .or(&["timeout"])
        .asked("receive", &["messages=2"]),
    // Without a valid handshake, no message is sent, so no operation takes effect.
    open("says nothing", &[Wait], &["connect timeout"]),
    open("another key's welcome", &[Hear, Reply(welcome_to_others), Wait], &["connect failed"]),
    open("an extension that was not offered", &[Hear, Reply(welcome_with_extension), Wait], &["connect failed"]),
    open(
        "a switch without a key",
        &[Hear, Say(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), Wait],
        &["connect failed"],
    ),
    open("no HTTP", &[Hear, Say(b"SSH-2.0-x\r\n"), Wait], &["connect failed"]),
    open("headers without end", &[Hear, Say(b"HTTP/1.1 101 x\r\n"), Endless(b"x: y\r\n")], &["connect failed"]),
    open("half a welcome", &[Hear, Say(b"HTTP/1.1 101 Switching"), Wait], &["connect timeout"]),
    open("half a welcome, and the end", &[Hear, Say(b"HTTP/1.1 101 Switching")], &["connect failed"]),
    refused("a page", &[Hear, Say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Wait], &["answer: http-200"]),
    refused("no right", &[Hear, Say(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"), Wait], &["answer: http-401"]),
];
