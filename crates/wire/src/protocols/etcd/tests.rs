//! Tests of etcd's requests and answers.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::testing::{answer, begin, block, bytes, failure, frame, header, number, pair, prefixed};
use super::*;
use crate::http2::Http2Memory;
use crate::http2::frames::{flag, kind};
use crate::testing::exchange::{Compiled, Seen, compile, feed, is_the_same_in_pieces};
use crate::testing::source;

const ID: u32 = 7;

fn etcd() -> Etcd {
    Etcd::open("etcd://h:1").unwrap()
}

fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Etcd> {
    compile(&etcd(), operation, with, wants).unwrap()
}

/// Returns the header fields and the message of a request.
fn request(operation: &str, with: &[(&str, &str)]) -> (Vec<String>, Vec<u8>) {
    let Compiled { request, arguments, .. } = compiled(operation, with, &[]);
    let values = OperationValues { source: source(3, 12), arguments: &arguments, cookies: None, redirection: None };
    let (mut block, mut body) = (Vec::new(), Vec::new());
    let end =
        EtcdStreams::encode_body(&request, &mut EtcdAnswer::default(), &mut GrpcMemory::default(), &values, &mut body);
    assert_eq!(end.unwrap() == BodyEnd::Open, operation == "watch");
    EtcdStreams::encode_headers(&request, body.len(), &values, &mut block).unwrap();
    let (mut block, mut fields) = (HeaderBlock::new(&block), Vec::new());
    while let Some(field) = block.next_field().unwrap() {
        let mut text = Vec::new();
        field.name().write(&mut text).unwrap();
        text.push(b' ');
        field.value.write(&mut text).unwrap();
        fields.push(String::from_utf8(text).unwrap());
    }
    let (prefix, message) = body.split_at(5);
    assert_eq!(prefix, &prefixed(message)[..5]);
    (fields, message.to_vec())
}

fn message(operation: &str, with: &[(&str, &str)]) -> Vec<u8> {
    request(operation, with).1
}

#[test]
fn services() {
    for (service, authority, tls) in [
        ("127.0.0.1:1", "127.0.0.1:1", None),
        ("etcd://host:2/", "host:2", None),
        ("etcd://host", "host:2379", None),
        ("etcds://host:3", "host:3", Some("host")),
        ("etcds://[::1]", "[::1]:2379", Some("::1")),
    ] {
        let etcd = Etcd::open(service).unwrap();
        assert_eq!((etcd.authority(), etcd.tls_host()), (authority, tls), "{service}");
    }
    for service in ["etcd://", "http://host:1", "etcd://user@host:1", "etcd://host:1/x", "etcd://host:x", ":1"] {
        assert!(Etcd::open(service).is_err(), "{service}");
    }
}

#[test]
fn a_call_is_a_post_with_a_message() {
    let (fields, message) = request("put", &[("key", "k{seq}"), ("value", "v")]);
    assert_eq!(
        fields,
        [
            ":method POST",
            ":scheme http",
            ":path /etcdserverpb.KV/Put",
            ":authority h:1",
            "content-type application/grpc",
            "te trailers"
        ]
    );
    assert_eq!(message, b"\x0a\x03k12\x12\x01v");
}

#[test]
fn messages_byte_for_byte() {
    assert_eq!(message("get", &[("key", "k")]), b"\x0a\x01k");
    assert_eq!(message("get", &[("key", "k"), ("consistency", "serializable")]), b"\x0a\x01k\x38\x01");
    assert_eq!(message("put", &[("key", "k"), ("value", ""), ("lease", "30{seq}")]), b"\x0a\x01k\x12\x00\x18\xc4\x17");
    assert_eq!(message("delete", &[("key", "k")]), b"\x0a\x01k");
    let range = message("range", &[("prefix", "a{seq}/"), ("limit", "300"), ("keys_only", "true")]);
    assert_eq!(range, b"\x0a\x04a12/\x18\xac\x02\x40\x01\x12\x04a120");
    assert_eq!(message("watch", &[("key", "k"), ("start", "5")]), b"\x0a\x05\x0a\x01k\x18\x05");
    assert_eq!(message("lease_grant", &[("ttl", "60")]), b"\x08\x3c");
    assert_eq!(message("lease_keep_alive", &[("id", "1{seq}")]), b"\x08\x70");
    let read = b"\x1a\x05\x0a\x03\x0a\x01k";
    let put = b"\x12\x08\x12\x06\x0a\x01k\x12\x01w";
    for (operation, with, comparison) in [
        ("cas", &[("from", "v")][..], &b"\x0a\x08\x10\x03\x1a\x01k\x3a\x01v"[..]),
        ("cas", &[], b"\x0a\x07\x10\x01\x1a\x01k\x28\x00"),
        ("update", &[("version", "{seq}")], b"\x0a\x07\x10\x02\x1a\x01k\x30\x0c"),
    ] {
        let with = [&[("key", "k"), ("value", "w")], with].concat();
        assert_eq!(message(operation, &with), [comparison, put, read].concat(), "{with:?}");
    }
}

#[test]
fn invalid_requests_are_refused() {
    for (operation, with, wants) in [
        ("put", &[("key", "k")][..], &[][..]),
        ("get", &[("key", "k"), ("value", "v")], &[]),
        ("put", &[("key", "k"), ("value", "v")], &["value"]),
        ("put", &[("key", "k"), ("value", "v"), ("lease", "x")], &[]),
        ("get", &[("key", "k"), ("consistency", "strong")], &[]),
        ("get", &[("key", "k"), ("consistency", "{seq}")], &[]),
        ("range", &[("prefix", "")], &[]),
        ("range", &[("prefix", "a"), ("keys_only", "yes")], &[]),
        ("watch", &[("key", "k"), ("events", "0")], &[]),
        ("lease_grant", &[("ttl", "-1")], &[]),
    ] {
        assert!(compile(&etcd(), operation, with, wants).is_err(), "{operation} {with:?} {wants:?}");
    }
}

fn seen(result: AttemptCause, status: &str, fields: &[Option<&str>]) -> Seen {
    Seen::answer(result, true, status, fields)
}

fn refused(name: &str, fields: &[Option<&str>]) -> Seen {
    seen(AttemptCause::Answer(statuses::number(name)), name, fields)
}

#[test]
fn answers_to_reads_and_changes() {
    let ok = |fields: &[Option<&str>]| seen(AttemptCause::Ok, "ok", fields);
    let get = compiled("get", &[("key", "k")], &["value", "found", "version", "revision", "text"]);
    let put = compiled("put", &[("key", "k"), ("value", "v")], &["version", "revision"]);
    let delete = compiled("delete", &[("key", "k")], &["deleted", "version"]);
    let range = compiled("range", &[("prefix", "k")], &["count", "value"]);
    let grant = compiled("lease_grant", &[("ttl", "60")], &["id", "ttl"]);
    let alive = compiled("lease_keep_alive", &[("id", "1")], &["ttl"]);
    let one = bytes(2, &pair("k", 5, "v"));
    for (asked, message, expected) in [
        (
            &get,
            [header(9), one.clone(), number(4, 1)].concat(),
            ok(&[Some("v"), Some("true"), Some("5"), Some("9"), None]),
        ),
        (
            &get,
            [header(9), bytes(2, &number(3, 5))].concat(),
            ok(&[Some(""), Some("true"), Some("5"), Some("9"), None]),
        ),
        (&get, header(9), seen(AttemptCause::Ok, "not_found", &[None, Some("false"), None, Some("9"), None])),
        (&put, header(9), ok(&[Some("9"), Some("9")])),
        (&delete, [header(9), number(2, 1)].concat(), ok(&[Some("1"), Some("9")])),
        (&delete, header(9), ok(&[Some("0"), None])),
        (&range, [header(9), one.clone(), one.repeat(2), number(4, 30)].concat(), ok(&[Some("30"), Some("v")])),
        (&range, header(9), ok(&[Some("0"), None])),
        (
            &grant,
            [header(9), number(2, 1 << 60), number(3, 60)].concat(),
            ok(&[Some("1152921504606846976"), Some("60")]),
        ),
        (&alive, [header(9), number(3, 60)].concat(), ok(&[Some("60")])),
        (&alive, header(9), refused("lease_not_found", &[Some("0")])),
        // Fields that a later version may add are skipped.
        (&put, [header(9), number(15, 1), bytes(14, b"x")].concat(), ok(&[Some("9"), Some("9")])),
    ] {
        let expected_too = expected.clone();
        assert_eq!(is_the_same_in_pieces(asked, ID, &answer(1, &message), false), expected_too, "{message:?}");
    }
}

#[test]
fn answers_to_transactions() {
    let cas = compiled("cas", &[("key", "k"), ("value", "v")], &["succeeded", "value", "version"]);
    let update = compiled("update", &[("key", "k"), ("value", "v"), ("version", "1")], &["version"]);
    let put = bytes(3, &bytes(2, &header(9)));
    let read = bytes(3, &bytes(1, &[header(9), bytes(2, &pair("k", 5, "old")), number(4, 1)].concat()));
    let none = bytes(3, &bytes(1, &header(9)));
    let ok = |fields: &[Option<&str>]| seen(AttemptCause::Ok, "ok", fields);
    for (asked, message, expected) in [
        (&cas, [header(9), number(2, 1), put.clone()].concat(), ok(&[Some("true"), None, Some("9")])),
        (&cas, [header(9), read.clone()].concat(), ok(&[Some("false"), Some("old"), Some("5")])),
        (&cas, [header(9), none.clone()].concat(), ok(&[Some("false"), None, None])),
        (&update, [header(9), number(2, 1), put].concat(), ok(&[Some("9")])),
        (&update, [header(9), read].concat(), refused("changed", &[Some("5")])),
        (&update, [header(9), none].concat(), refused("changed", &[None])),
    ] {
        assert_eq!(is_the_same_in_pieces(asked, ID, &answer(1, &message), false), expected, "{message:?}");
    }
}

#[test]
fn a_watch_ends_with_its_events() {
    let watch = compiled("watch", &[("key", "k"), ("events", "2")], &["value", "found", "count", "version"]);
    let event =
        |kind: u64, version, value| bytes(11, &[number(1, kind), bytes(2, &pair("k", version, value))].concat());
    let data = |message: &[u8]| frame(kind::DATA, 0, 1, &prefixed(message));
    let created = data(&[header(4), number(3, 1)].concat());
    let one = data(&[header(5), event(0, 5, "a")].concat());
    let ok = |fields: &[Option<&str>]| seen(AttemptCause::Ok, "ok", fields);
    for (rest, expected) in [
        (data(&[header(6), event(0, 6, "b")].concat()), ok(&[Some("b"), Some("true"), Some("2"), Some("6")])),
        (data(&[header(6), event(1, 6, "")].concat()), ok(&[None, Some("false"), Some("2"), Some("6")])),
        (
            data(&[header(6), number(4, 1)].concat()),
            refused("watch_cancelled", &[None, Some("false"), Some("1"), None]),
        ),
    ] {
        let bytes = [begin(1), created.clone(), one.clone(), rest].concat();
        assert_eq!(is_the_same_in_pieces(&watch, ID, &bytes, false), expected);
    }
    let Seen::More = feed(&watch, &mut Http2Memory::default(), ID, &[&[begin(1), created, one].concat()], false) else {
        panic!("ended after one event");
    };
}

#[test]
fn a_text_before_the_status_is_kept() {
    let get = compiled("get", &[("key", "k")], &["text"]);
    let fields = [("grpc-message", "etcdserver: request timed out"), ("grpc-status", "14")];
    let bytes = [begin(1), block(1, flag::END_STREAM, &fields)].concat();
    let expected = refused("timed_out", &[Some("etcdserver: request timed out")]);
    assert_eq!(is_the_same_in_pieces(&get, ID, &bytes, false), expected);
}

/// The memory of long answers was kept for the next ones, however long they were.
#[test]
fn a_long_answer_leaves_no_long_buffer() {
    let get = compiled("get", &[("key", "k")], &["value"]);
    let mut memory = GrpcMemory::default();
    for length in [100, 10_000_000] {
        let message = prefixed(&[header(9), bytes(2, &pair("k", 5, &"v".repeat(length)))].concat());
        let mut answer = EtcdAnswer::default();
        let mut block = Vec::new();
        hpack::write_field("content-type", b"application/grpc", &mut block);
        answer.call.head(&mut memory, 200, HeaderBlock::new(&block)).unwrap();
        answer.data(get.request.verb, 0, &mut memory, &message).unwrap();
        assert_eq!(answer.call.message().map(<[u8]>::len), Some(message.len() - 5));
        answer.rest(&mut memory);
        assert!(memory.spare_bytes() < 1_000_000, "{length}: {}", memory.spare_bytes());
    }
}

#[test]
fn failures() {
    let get = compiled("get", &[("key", "k")], &["text", "status", "value"]);
    let timed_out = "etcdserver: request timed out";
    for (bytes, expected) in [
        (
            failure(1, "14", "etcdserver%3A request timed out"),
            refused("timed_out", &[Some(timed_out), Some("timed_out"), None]),
        ),
        (failure(1, "14", "gone 100%"), refused("unavailable", &[Some("gone 100%"), Some("unavailable"), None])),
        (
            [
                begin(1),
                block(
                    1,
                    flag::END_STREAM,
                    &[("grpc-status", "3"), ("grpc-message", "etcdserver: key is not provided")],
                ),
            ]
            .concat(),
            refused("invalid_argument", &[Some("etcdserver: key is not provided"), Some("invalid_argument"), None]),
        ),
    ] {
        assert_eq!(is_the_same_in_pieces(&get, ID, &bytes, false), expected);
    }
    assert_eq!(Etcd::about_data(AttemptCause::Answer(statuses::number("changed"))), Some(AboutData::Different));
    assert_eq!(Etcd::about_data(AttemptCause::Answer(statuses::number("unavailable"))), None);
}

proptest! {
    #[test]
    fn random_messages_never_panic(message in prop::collection::vec(any::<u8>(), 0..60)) {
        for (operation, with) in [("get", &[("key", "k")][..]), ("cas", &[("key", "k"), ("value", "v")]), ("watch", &[("key", "k")])] {
            feed(&compiled(operation, with, &["value"]), &mut Http2Memory::default(), ID, &[&answer(1, &message)], false);
        }
    }

    #[test]
    fn values_are_decoded_unchanged(value in prop::collection::vec(any::<char>(), 0..300)) {
        let value: String = value.into_iter().collect();
        let get = compiled("get", &[("key", "k")], &["value"]);
        let message = [header(9), bytes(2, &pair("k", 5, &value))].concat();
        prop_assert_eq!(
            feed(&get, &mut Http2Memory::default(), ID, &[&answer(1, &message)], false),
            seen(AttemptCause::Ok, "ok", &[Some(&value)])
        );
    }
}
