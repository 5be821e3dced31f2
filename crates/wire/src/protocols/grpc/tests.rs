//! Requests byte by byte, and answers in pieces.

use std::sync::Arc;

use super::testing::{answer, only_headers};
use super::*;
use crate::http2::frames::{kind, write};
use crate::protobuf::testing::types;
use crate::protocols::Description;
use crate::testing::exchange::{Compiled, Seen, compile as compile_step, is_the_same_in_pieces};
use crate::testing::source;

const SAY: (&str, &str) = ("method", "test.kinds.v1.Echo/Say");
const CHECK: (&str, &str) = ("method", "grpc.health.v1.Health/Check");

fn grpc() -> Grpc {
    let mut grpc = Grpc::open("grpc://h:1").unwrap();
    grpc.learn_types(&Arc::new(types()));
    grpc
}

fn compiled(with: &[(&str, &str)], wants: &[&str]) -> Compiled<Grpc> {
    compile_step(&grpc(), "rpc", with, wants).unwrap_or_else(|wrong| panic!("{with:?}: {wrong}"))
}

fn wrong(with: &[(&str, &str)], wants: &[&str]) -> String {
    compile_step(&grpc(), "rpc", with, wants).map(|_| ()).unwrap_err()
}

/// Returns the header block as text, and the body.
fn request(with: &[(&str, &str)]) -> (String, Vec<u8>) {
    let compiled = compiled(with, &[]);
    let values =
        OperationValues { source: source(3, 12), arguments: &compiled.arguments, cookies: None, redirection: None };
    let (mut block, mut body) = (Vec::new(), Vec::new());
    let (mut state, mut memory) = (CallAnswer::default(), GrpcMemory::default());
    GrpcStreams::encode_body(&compiled.request, &mut state, &mut memory, &values, &mut body).unwrap();
    GrpcStreams::encode_headers(&compiled.request, body.len(), &values, &mut block).unwrap();
    let (mut rest, mut text) = (HeaderBlock::new(&block), Vec::new());
    while let Some(field) = rest.next_field().unwrap() {
        field.name().write(&mut text).unwrap();
        text.extend_from_slice(b": ");
        field.value.write(&mut text).unwrap();
        text.push(b'\n');
    }
    (String::from_utf8(text).unwrap(), body)
}

#[test]
fn services() {
    for (service, authority, host) in [
        ("grpc://h:1", "h:1", None),
        ("grpcs://h", "h:443", Some("h")),
        ("grpcs://[::1]:9", "[::1]:9", Some("::1")),
        ("h:50051", "h:50051", None),
    ] {
        let grpc = Grpc::open(service).unwrap();
        assert_eq!((grpc.authority(), grpc.tls_host()), (authority, host), "{service}");
    }
    let refused = Grpc::open("grpc://h:1/pkg.Service/Method").unwrap_err();
    assert!(refused.contains("write `pkg.Service/Method` as `method`"), "{refused}");
}

#[test]
fn a_request() {
    let (headers, body) = request(&[
        SAY,
        ("message", r#"{{"anInt32": {seq}, "aString": "{agent}"}}"#),
        ("metadata.X-Kind", "k{agent}"),
        ("deadline", "1.5s"),
    ]);
    assert_eq!(
        headers,
        ":method: POST\n:scheme: http\n:path: /test.kinds.v1.Echo/Say\n:authority: h:1\nte: trailers\n\
         content-type: application/grpc\ngrpc-accept-encoding: gzip\ngrpc-timeout: 1500000u\nx-kind: k3\n"
    );
    assert_eq!(body, b"\0\0\0\0\x05\x18\x0c\x72\x013");
    assert_eq!(request(&[SAY]).1, b"\0\0\0\0\0");
}

#[test]
fn streams_of_messages() {
    let (_, body) = request(&[
        ("method", "test.kinds.v1.Echo/Sum"),
        ("message", r#"[{{"count": {agent}}}, {{"count": 1}}]"#),
        ("messages", "2"),
    ]);
    assert_eq!(body, b"\0\0\0\0\x02\x10\x03\0\0\0\0\x02\x10\x01".repeat(2));
    let constant = [("method", "test.kinds.v1.Echo/Sum"), ("message", r#"{{"count": 1}}"#), ("messages", "3")];
    assert_eq!(request(&constant).1, b"\0\0\0\0\x02\x10\x01".repeat(3));
    assert_eq!(request(&[("method", "test.kinds.v1.Echo/Sum"), ("message", "[]")]).1, b"");
}

#[test]
fn compressed_messages() {
    let (headers, body) = request(&[SAY, ("message", r#"{{"aString": "aaaaaaaa"}}"#), ("compression", "gzip")]);
    assert!(headers.contains("grpc-encoding: gzip\n"), "{headers}");
    assert!(body.starts_with(&[1, 0, 0, 0, body.len() as u8 - 5, 0x1f, 0x8b]), "{body:?}");
}

#[test]
fn times_of_deadlines() {
    for (text, timeout) in
        [("1ms", "1000000n"), ("200ms", "200000u"), ("10s", "10000000u"), ("2m", "120000m"), ("99h", "356400S")]
    {
        assert_eq!(grpc_timeout(text).as_deref(), Ok(timeout), "{text}");
    }
    assert!(grpc_timeout("5").is_err() && grpc_timeout("0s").is_err() && grpc_timeout("soon").is_err());
}

#[test]
fn mistakes_in_steps() {
    let message = |json| [SAY, ("message", json)];
    for (with, expected) in [
        (&[("method", "Say")][..], "`Say` is not the name of a method"),
        (
            &[("method", "test.kinds.v1.Echo/Shout")],
            "has no method `Shout`; its methods are Say, Count, Sum, Chat, Nothing",
        ),
        (&[("method", "Echo/Say")], "there is no service `Echo`; the services are test.kinds.v1.Echo"),
        (&[("method", "{seq}")], "without placeholders"),
        (&message(r#"{{"none": 1}}"#), "`message`: `test.kinds.v1.Kinds` has no field `none`"),
        (&message("[{{}}]"), "`message`: expected an object"),
        (&[SAY, ("messages", "2")], "takes one message, not a stream"),
        (&[SAY, ("metadata.te", "x")], "`metadata.te`"),
        (&[SAY, ("metadata.a b", "x")], "`metadata.a b`"),
        (&[SAY, ("metadata.x", "a\nb")], "`metadata.x`"),
        (&[SAY, ("deadline", "5")], "`deadline`: expected a time"),
        (&[SAY, ("compression", "br")], "`compression`: expected gzip or none"),
        (
            &[SAY, ("message", r#"{{"aString": "{seq}"}}"#), ("compression", "gzip")],
            "only a message without placeholders",
        ),
        (&[("method", "test.kinds.v1.Echo/Sum"), ("messages", "0")], "`messages`: expected a number from 1"),
        (&[("message", "{{}}")], "`rpc` needs `method`"),
    ] {
        let told = wrong(with, &[]);
        assert!(told.contains(expected), "{with:?}: {told}");
    }
    assert!(wrong(&[SAY], &["message.none"]).contains("has no field `none`"));
    assert!(wrong(&[SAY], &["body"]).contains("has no `body`"));
}

#[test]
fn a_step_without_types_is_checked_as_far_as_possible() {
    let grpc = Grpc::open("grpc://h:1").unwrap();
    let check = |with: &[(&str, &str)]| compile_step(&grpc, "rpc", with, &["message.x"]).map(|_| ());
    assert_eq!(check(&[SAY, ("message", r#"{{"any": [{seq}]}}"#)]), Ok(()));
    assert!(check(&[SAY, ("message", "{{")]).unwrap_err().contains("the JSON text is not valid"));
    assert!(check(&[SAY, ("deadline", "x")]).is_err());
    let arguments = |method: &str| BTreeMap::from([("method".to_owned(), method.to_owned())]);
    assert_eq!(grpc.lacks_types(&arguments("test.kinds.v1.Echo/Say")).as_deref(), Some("test.kinds.v1.Echo"));
    assert_eq!(grpc.lacks_types(&arguments("grpc.health.v1.Health/Check")), None);
}

/// Decodes an answer to a health check in all splits, after the server's settings.
fn seen(wants: &[&str], answer: &[u8]) -> Seen {
    is_the_same_in_pieces(&compiled(&[CHECK], wants), 7, answer, false)
}

const ALL: [&str; 5] = ["status", "text", "message", "message.status", "messages"];
const SERVING: &[u8] = b"\0\0\0\0\x02\x08\x01";
const OK: &[(&str, &str)] = &[("grpc-status", "0")];

#[test]
fn answers_in_pieces() {
    let ok = |fields: &[Option<&str>]| Seen::answer(AttemptCause::Ok, true, "ok", fields);
    let serving = [Some("ok"), None, Some(r#"{"status":"SERVING"}"#), Some("SERVING"), Some("1")];
    assert_eq!(seen(&ALL, &answer(1, &[], SERVING, OK)), ok(&serving));
    assert_eq!(seen(&[], &answer(1, &[("x-other", "y")], SERVING, OK)), ok(&[]));
    let empty = [Some("ok"), None, Some("{}"), Some("UNKNOWN"), Some("1")];
    assert_eq!(seen(&ALL, &answer(1, &[], b"\0\0\0\0\0", OK)), ok(&empty));
    let mut gzip = GzEncoder::new(vec![1, 0, 0, 0, 0], Compression::default());
    gzip.write_all(&SERVING[FRAME..]).unwrap();
    let mut gzip = gzip.finish().unwrap();
    set_length(&mut gzip, 0).unwrap();
    assert_eq!(seen(&ALL, &answer(1, &[("grpc-encoding", "gzip")], &gzip, OK)), ok(&serving));
}

#[test]
fn failures_in_pieces() {
    let trailers = [("grpc-status", "5"), ("grpc-message", "no such %C3%A9%")];
    let fields = [Some("not_found"), Some("no such é%"), None, None, Some("0")];
    let not_found = Seen::answer(AttemptCause::Answer(4), true, "not_found", &fields);
    assert_eq!(seen(&ALL, &answer(1, &[], b"", &trailers)), not_found);
    let head = [&[(":status", "200"), ("content-type", "application/grpc")][..], &trailers].concat();
    assert_eq!(seen(&ALL, &only_headers(1, &head)), not_found);
    let web = only_headers(1, &[(":status", "404"), ("content-type", "text/html")]);
    assert_eq!(seen(&[], &web), Seen::answer(AttemptCause::Status(404), true, "unimplemented", &[]));
    // A status of gRPC counts more than that of HTTP.
    let both = only_headers(1, &[(":status", "503"), ("content-type", "application/grpc"), ("grpc-status", "14")]);
    assert_eq!(seen(&[], &both), Seen::answer(AttemptCause::Answer(13), true, "unavailable", &[]));
    let cut = seen(&[], &answer(1, &[], &SERVING[..4], OK));
    assert_eq!(cut, Seen::answer(AttemptCause::Answer(20), true, "internal", &[]));
}

#[test]
fn rejections_of_streams_may_have_had_an_effect() {
    let sum = compiled(&[("method", "test.kinds.v1.Echo/Sum"), ("message", "[{{}}, {{}}]")], &[]);
    let Seen::Answer { result, status, .. } =
        is_the_same_in_pieces(&sum, 7, &answer(1, &[], b"", &[("grpc-status", "3")]), false)
    else {
        panic!("no answer")
    };
    assert_eq!(status, "invalid_argument");
    assert!(!result.is_harmless(&REFUSALS) && result.text(&REFUSALS) == "answer: invalid_argument");
    assert_eq!(Grpc::about_data(result), None);
    assert_eq!(Grpc::about_data(AttemptCause::Answer(4)), Some(AboutData::Missing));
    assert_eq!(Grpc::about_data(AttemptCause::Answer(8)), Some(AboutData::Different));
}

#[test]
fn a_long_stream_keeps_its_last_message() {
    let count = compiled(&[("method", "test.kinds.v1.Echo/Count")], &["messages", "message.count"]);
    let messages: Vec<u8> = (1..=40_u8).flat_map(|count| [0, 0, 0, 0, 2, 0x10, count]).collect();
    let mut bytes = answer(1, &[], &messages, OK);
    let fields = [Some("40"), Some("40")];
    let seen = Seen::answer(AttemptCause::Ok, true, "ok", &fields).with_messages(40);
    assert_eq!(is_the_same_in_pieces(&count, 7, &bytes, false), seen);
    bytes.clear();
    write(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8], &mut bytes);
    let Seen::Answer { status, .. } = is_the_same_in_pieces(&count, 7, &bytes, false) else { panic!("no answer") };
    assert_eq!(status, "internal");
}

/// Answers questions of reflection from the files of the examples.
fn reflected(with: &BTreeMap<String, String>, version: &str) -> Description {
    let status = |status: &str| Description { status: status.to_owned(), message: None };
    if !with["method"].starts_with(&format!("grpc.reflection.{version}.")) {
        return status("unimplemented");
    }
    let files = crate::protobuf::ProtobufFields::of(crate::protobuf::testing::DESCRIPTORS);
    let files = files.filter_map(|field| match field.ok()?.1 {
        crate::protobuf::ProtobufValue::Bytes(file) => Some(file),
        _ => None,
    });
    let asked: serde_json::Value = serde_json::from_str(&with["message"]).unwrap();
    let asked = &asked[0];
    let message = match (&asked["listServices"], &asked["fileContainingSymbol"], &asked["fileByFilename"]) {
        (serde_json::Value::String(_), ..) => {
            serde_json::json!({"listServicesResponse": {"service": [{"name": "test.kinds.v1.Echo"}]}})
        }
        (_, serde_json::Value::String(symbol), _) if symbol != "test.kinds.v1.Echo" => {
            serde_json::json!({"errorResponse": {"errorMessage": "not found"}})
        }
        (_, _, name) => {
            let wanted = name.as_str().unwrap_or("kinds.proto");
            let of = |file: &&[u8]| crate::protobuf::descriptors::read_file(file).unwrap().name == wanted;
            let found: Vec<String> = files.filter(of).map(base64).collect();
            serde_json::json!({"fileDescriptorResponse": {"fileDescriptorProto": found}})
        }
    };
    Description { message: Some(message.to_string().into_bytes()), ..status("ok") }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = bytes.to_vec();
    experiment::template::base64_in_place(&mut text, 0);
    String::from_utf8(text).unwrap()
}

#[test]
fn types_come_from_reflection_of_both_versions() {
    for version in ["v1", "v1alpha"] {
        for names in [vec!["test.kinds.v1.Echo".to_owned()], Vec::new()] {
            let types = Grpc::ask_types(&names, &mut |_, with| Ok(reflected(with, version))).unwrap();
            assert!(types.method("test.kinds.v1.Echo", "Chat").is_some());
            assert!(types.find_message("google.protobuf.Timestamp").is_some());
        }
    }
    let refused = Grpc::ask_types(&["a.B".to_owned()], &mut |_, with| Ok(reflected(with, "v1"))).unwrap_err();
    assert_eq!(refused, "`a.B`: not found");
    let absent = Grpc::ask_types(&["a.B".to_owned()], &mut |_, with| Ok(reflected(with, "v9"))).unwrap_err();
    assert!(absent.contains("no server reflection"), "{absent}");
}

#[test]
fn built_in_services_have_their_types() {
    for (service, name) in [
        ("grpc.health.v1.Health", "Watch"),
        ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo"),
        ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo"),
    ] {
        assert!(built_in::types().method(service, name).is_some(), "{service}");
    }
}
