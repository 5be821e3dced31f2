//! Frames of the name service: requests byte for byte, answers cut anywhere, and nonsense.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::protocols::tests::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

const ID: u32 = 0x0102_0304;

fn vsns() -> Vsns {
    Vsns::open("127.0.0.1:7000").unwrap()
}

fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Vsns> {
    compile(&vsns(), operation, with, wants).unwrap()
}

fn answer(id: u32, status: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len() + HEAD).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&id.to_be_bytes());
    frame.push(status);
    frame.extend_from_slice(body);
    frame
}

fn seen(result: Cause, reusable: bool, status: &str, fields: &[Option<&str>]) -> Seen {
    let fields = fields.iter().map(|field| field.map(str::to_owned)).collect();
    Seen::Answer { result, reusable, surplus: Vec::new(), fields, status: status.to_owned() }
}

#[test]
fn services() {
    for (service, authority) in
        [("127.0.0.1:7000", "127.0.0.1:7000"), ("vsns://host:1/", "host:1"), ("[::1]:9", "[::1]:9")]
    {
        assert_eq!(Vsns::open(service).unwrap().authority(), authority);
    }
    for service in ["", "host", ":7000", "host:", "host:x", "host:70000", "http://host:1"] {
        assert!(Vsns::open(service).is_err(), "{service}");
    }
}

#[test]
fn requests_byte_for_byte() {
    // The example of the protocol's page.
    let save = compiled("save", &[("key", "k"), ("space", "a1"), ("value", "hi")], &[]);
    assert_eq!(encode(&save, 7), b"\0\0\0\x12\0\0\0\x07\x01\0\x02a1\0\x01k\0\0\0\x02hi");
    let load = compiled("load", &[("key", "k"), ("space", "a1")], &[]);
    assert_eq!(encode(&load, 8), b"\0\0\0\x0c\0\0\0\x08\x02\0\x02a1\0\x01k");
    let page = compiled("load_all", &[("space", "a{agent}"), ("after", "{seq}"), ("limit", "20")], &[]);
    assert_eq!(encode(&page, 1), b"\0\0\0\x0f\0\0\0\x01\x04\0\x02a3\0\x0212\0\x14");
    let all = compiled("load_all", &[], &[]);
    assert_eq!(encode(&all, 1), b"\0\0\0\x0b\0\0\0\x01\x04\0\0\0\0\0\x64");
    for (operation, opcode) in [("oops", 6), ("stats", 7), ("ping", 8)] {
        assert_eq!(encode(&compiled(operation, &[], &[]), 1), [0, 0, 0, 5, 0, 0, 0, 1, opcode]);
    }
}

#[test]
fn requests_that_make_no_sense() {
    for (operation, with, wants) in [
        ("save", &[("key", "k")][..], &[][..]),
        ("load", &[("key", "k"), ("colour", "red")], &[]),
        ("load", &[("key", "k")], &["removed"]),
        ("load_all", &[("limit", "{seq}")], &[]),
        ("load_all", &[("limit", "0")], &[]),
        ("load_all", &[("limit", "70000")], &[]),
    ] {
        assert!(compile(&vsns(), operation, with, wants).is_err(), "{operation} {with:?} {wants:?}");
    }
}

#[test]
fn answers() {
    let load = compiled("load", &[("key", "k")], &["value", "status", "text"]);
    let entries = b"\x01\0\0\0\x02\0\x01a\0\0\0\x02xy\0\x01b\0\0\0\0";
    let page = compiled("load_all", &[], &["count", "more", "status"]);
    let remove = compiled("remove", &[("key", "k")], &["removed", "text"]);
    let all = compiled("remove_all", &[], &["count"]);
    let stats = compiled("stats", &[], &["text"]);
    let refused = |number, reusable, status, text| {
        seen(Cause::Answer(number), reusable, status, &[None, Some(status), Some(text)])
    };
    let table = [
        (&load, answer(ID, 0, b"hi"), seen(Cause::Ok, true, "ok", &[Some("hi"), Some("ok"), None])),
        (&load, answer(ID, 0, b""), seen(Cause::Ok, true, "ok", &[Some(""), Some("ok"), None])),
        (&load, answer(ID, 1, b""), seen(Cause::Ok, true, "not_found", &[None, Some("not_found"), Some("")])),
        (&load, answer(ID, 2, b"why"), refused(0, true, "bad_request", "why")),
        (&load, answer(ID, 3, b"down"), refused(1, true, "unavailable", "down")),
        (&load, answer(ID, 4, b""), refused(2, true, "busy", "")),
        (&load, answer(0, 4, b""), refused(2, false, "busy", "")),
        (&load, answer(ID, 5, b""), refused(3, false, "too_large", "")),
        (&load, answer(ID, 6, b""), Seen::Bad(Cause::BadAnswer)),
        (&load, answer(ID + 1, 0, b"hi"), Seen::Bad(Cause::BadAnswer)),
        (&load, answer(0, 0, b"hi"), Seen::Bad(Cause::BadAnswer)),
        (&load, b"\0\0\0\x04abcd".to_vec(), Seen::Bad(Cause::BadAnswer)),
        (&load, b"\xff\xff\xff\xff".to_vec(), Seen::Bad(Cause::TooLong)),
        (&page, answer(ID, 0, entries), seen(Cause::Ok, true, "ok", &[Some("2"), Some("1"), Some("ok")])),
        (&page, answer(ID, 0, &entries[..entries.len() - 1]), Seen::Bad(Cause::BadAnswer)),
        (&page, answer(ID, 0, b"\0"), Seen::Bad(Cause::BadAnswer)),
        (&remove, answer(ID, 0, b"\x01"), seen(Cause::Ok, true, "ok", &[Some("1"), None])),
        (&remove, answer(ID, 0, b""), Seen::Bad(Cause::BadAnswer)),
        (&all, answer(ID, 0, b"\0\0\x01\0"), seen(Cause::Ok, true, "ok", &[Some("256")])),
        (&stats, answer(ID, 0, b"{}"), seen(Cause::Ok, true, "ok", &[Some("{}")])),
    ];
    for (request, bytes, expected) in table {
        assert_eq!(is_the_same_in_pieces(request, ID, &bytes, false), expected, "{bytes:?}");
    }
}

#[test]
fn what_follows_an_answer_is_left() {
    let ping = compiled("ping", &[], &[]);
    let mut bytes = answer(ID, 0, b"");
    bytes.extend_from_slice(b"more");
    let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&ping, ID, &bytes, false) else { panic!("no answer") };
    assert_eq!(surplus, b"more");
}

/// The frame as the protocol's page has it, written a second way.
fn reference(id: u32, space: &str, key: &str, value: &str) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    body.push(1);
    for text in [space, key] {
        body.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend_from_slice(value.as_bytes());
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    frame
}

proptest! {
    #[test]
    fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
        for operation in ["load_all", "remove_all", "stats", "ping"] {
            let compiled = compiled(operation, &[], &["text", "status"]);
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            feed(&compiled, &mut (), ID, &[left, right], ends);
        }
    }

    #[test]
    fn bodies_of_any_shape_never_panic(status in 0_u8..8, body in prop::collection::vec(any::<u8>(), 0..40)) {
        let page = compiled("load_all", &[], &["count", "more", "text"]);
        feed(&page, &mut (), ID, &[&answer(ID, status, &body)], false);
    }

    #[test]
    fn requests_agree_with_the_reference(id: u32, space in "[a-z]{0,20}", key in "[a-z]{1,20}", value in "[a-z]{0,80}") {
        let constant = compiled("save", &[("space", &space), ("key", &key), ("value", &value)], &[]);
        prop_assert_eq!(encode(&constant, id), reference(id, &space, &key, &value));
        let written = compiled("save", &[("space", &format!("{space}{{agent}}")), ("key", &format!("{{seq}}{key}")), ("value", &value)], &[]);
        prop_assert_eq!(encode(&written, id), reference(id, &format!("{space}3"), &format!("12{key}"), &value));
    }

    #[test]
    fn values_come_back(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let load = compiled("load", &[("key", "k")], &["value"]);
        let text = String::from_utf8_lossy(&value).into_owned();
        prop_assert_eq!(
            feed(&load, &mut (), ID, &[&answer(ID, 0, &value)], false),
            seen(Cause::Ok, true, "ok", &[Some(&text)])
        );
    }
}
