//! The frames without a socket, against the table of the protocol's description.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Vsns;
use crate::Options;
use crate::protocols::{Codec, Step, Then};

fn advance(input: &[u8], failing: bool) -> (Step, Vec<u8>) {
    let mut answers = Vec::new();
    let mut vsns = Vsns::new(&Options { frame_limit_bytes: 1000, ..Options::default() });
    let step = vsns.advance(&mut (), input, failing, &mut answers);
    (step, answers)
}

/// A frame around a body.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), &body[..]].concat()
}

const ID: &[u8] = &[0, 0, 0, 7];

#[test]
fn the_example_of_the_description() {
    let save = b"\0\0\0\x12\0\0\0\x07\x01\0\x02a1\0\x01k\0\0\0\x02hi";
    assert_eq!(advance(save, false), (Step::new(22, Then::Next), b"\0\0\0\x05\0\0\0\x07\0".to_vec()));
    let load = b"\0\0\0\x0c\0\0\0\x08\x02\0\x02a1\0\x01k";
    assert_eq!(advance(load, false), (Step::new(16, Then::Next), b"\0\0\0\x06\0\0\0\x08\0k".to_vec()));
}

#[test]
fn each_operation_has_its_answer() {
    let table: [(&[u8], &[u8]); 8] = [
        (b"\x01\0\0\0\x01k\0\0\0\0", b""),
        (b"\x02\0\x01s\0\x03key", b"key"),
        (b"\x03\0\x01s\0\x03key", b"\x01"),
        (b"\x04\0\x01s\0\0\0\x0a", b"\0\0\0\0\0"),
        (b"\x05\0\x01s", b"\0\0\0\0"),
        (b"\x06", b""),
        (b"\x07", b"{}"),
        (b"\x08", b""),
    ];
    for (request, body) in table {
        let input = frame(&[ID, request]);
        let ok = frame(&[ID, &[0], body]);
        assert_eq!(advance(&input, false), (Step::new(input.len(), Then::Next), ok), "{request:?}");
        let unavailable = frame(&[ID, &[3], b"told to fail"]);
        assert_eq!(advance(&input, true), (Step::new(input.len(), Then::Next), unavailable), "{request:?}");
        for end in 1..input.len() {
            assert_eq!(advance(&input[..end], false), (Step::new(0, Then::Wait), vec![]), "{request:?} up to {end}");
        }
    }
}

#[test]
fn a_bad_request_is_told_so_and_may_go_on() {
    let table: [(&[u8], &[u8]); 14] = [
        (b"", b"no opcode"),
        (b"\0", b"unknown opcode"),
        (b"\x09", b"unknown opcode"),
        (b"\x01", b"the fields do not fit the opcode"),
        (b"\x01\0\0\0\0\0\0\0\0", b"the key is empty"),
        (b"\x01\0\0\0\x01k\0\0\0\x02v", b"the fields do not fit the opcode"),
        (b"\x01\0\0\0\x01k\0\0\0\x01vv", b"the fields do not fit the opcode"),
        (b"\x02\0\x01s\0\x04key", b"the fields do not fit the opcode"),
        (b"\x02\0\x01s\0\0", b"the key is empty"),
        (b"\x03\0\x01s\0\x01kk", b"the fields do not fit the opcode"),
        (b"\x04\0\0\0\0\0\0", b"limit is 0"),
        (b"\x04\0\0\0\0", b"the fields do not fit the opcode"),
        (b"\x05\0\0x", b"the fields do not fit the opcode"),
        (b"\x08x", b"the fields do not fit the opcode"),
    ];
    for (request, why) in table {
        let input = frame(&[ID, request]);
        for failing in [false, true] {
            let answer = frame(&[ID, &[2], why]);
            assert_eq!(advance(&input, failing), (Step::new(input.len(), Then::Next), answer), "{request:?}");
        }
    }
    let answer = frame(&[&[0, 0, 0, 0], &[2], b"no request id"]);
    for short in [&b"\0\0\0\0"[..], b"\0\0\0\x03abc"] {
        assert_eq!(advance(short, false), (Step::new(short.len(), Then::Next), answer.clone()));
    }
}

#[test]
fn a_frame_above_the_limit_is_refused_before_it_is_read() {
    assert_eq!(advance(b"\0\0\x03\xe9\0\0\0", false), (Step::new(0, Then::Wait), vec![]));
    let refused = frame(&[ID, &[5]]);
    assert_eq!(advance(b"\0\0\x03\xe9\0\0\0\x07", false), (Step::new(8, Then::Refuse), refused));
    assert_eq!(advance(b"\0\0\x03\xe8\0\0\0\x07", false), (Step::new(0, Then::Wait), vec![]));
    assert_eq!(advance(b"GET / HTTP/1.1\r\n\r\n", false).0.then, Then::Refuse);
}
