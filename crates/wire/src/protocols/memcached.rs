//! Memcached's binary protocol: one packet per request, one packet per answer.
//!
//! A packet is a header of 24 bytes, then extras, key and value. Numbers are big-endian. The header
//! of an answer has the opcode and the id (`opaque`) of its request.

use std::ops::Range;
use std::str::FromStr;

use experiment::catalog::{self, Effect, Field, Operation};

use super::{AboutData, Call, Protocol};
use crate::cause::{AttemptCause, Refusal};
use crate::in_order::{InOrderProtocol, Progress};
use crate::session::{Answer, RequestContext};
use crate::values::allowed::NotSendable;
use crate::values::layout::{LayoutBuilder, LengthWidth, RequestLayout};
use crate::values::{OperationValues, write_decimal};

const KEY: Field = Field { name: "key", help: "the key, up to 250 bytes", required: true };
const VALUE: Field = Field { name: "value", help: "the value to store", required: true };
const EXPIRES: Field = Field {
    name: "expires",
    help: "seconds until the key expires, up to 30 days; a larger number is a Unix time; default: 0, which is never",
    required: false,
};
const STATUS: Field = Field { name: "status", help: "`ok`, `not_found`, `exists`, …", required: false };
const VERSION: Field = Field {
    name: "version",
    help: "the version of the value (its `cas` number), which grows with each write; absent if the server keeps none",
    required: false,
};
const TEXT: Field = Field { name: "text", help: "the server's text about a status other than `ok`", required: false };

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "memcached",
    schemes: &["memcached"],
    help: "memcached's binary protocol over TCP, without SASL; memcached://host:port",
    operations: &[
        Operation {
            name: "get",
            help: "reads the value of a key; `not_found` is an answer",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "the stored value", required: false }, VERSION, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "set",
            help: "stores a value under a key",
            takes: &[KEY, VALUE, EXPIRES],
            answers: &[VERSION, STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "add",
            help: "stores a value under a key that has none; otherwise it fails as `exists`",
            takes: &[KEY, VALUE, EXPIRES],
            answers: &[VERSION, STATUS, TEXT],
            effect: Effect::CompareAndSet,
        },
        Operation {
            name: "delete",
            help: "removes a key; `not_found` is an answer",
            takes: &[KEY],
            answers: &[STATUS, TEXT],
            effect: Effect::Remove,
        },
        Operation {
            name: "incr",
            help: "adds to the number under a key; without the key it fails as `not_found`",
            takes: &[KEY, Field { name: "by", help: "a whole number; default: 1", required: false }],
            answers: &[Field { name: "value", help: "the number afterwards", required: false }, STATUS, TEXT],
            effect: Effect::None,
        },
    ],
};

/// First byte of a request.
const REQUEST: u8 = 0x80;
/// First byte of an answer.
const ANSWER: u8 = 0x81;
/// Size of the header, bytes.
const HEADER: usize = 24;
/// Longest accepted body of an answer, bytes.
const BODY_LIMIT: usize = 64 * 1024 * 1024;
/// Expiry of an `incr` that does not create its key.
const NO_CREATION: [u8; 4] = [0xff; 4];
/// Text that the server sends to a connection beyond its limit, before it reads a request.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// A memcached server.
#[derive(Debug)]
pub struct Memcached {
    authority: String,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    layout: RequestLayout,
    opcode: CommandCode,
    wants: Vec<Want>,
}

/// Opcodes of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum CommandCode {
    Get = 0,
    Set = 1,
    Add = 2,
    Delete = 4,
    Incr = 5,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Text,
    Value,
    Version,
}

/// The answer that was decoded.
#[derive(Debug, Default)]
pub struct Decoder {
    status: &'static str,
    /// Position of the value, or of the server's text.
    value: Range<usize>,
    /// Version of the value, or 0 without one.
    version: u64,
}

/// Statuses other than 0, in the order of [`REFUSALS`].
const STATUSES: [u16; REFUSALS.len() - 1] =
    [0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x20, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86];
/// Answers other than `ok`. `too_large` and `out_of_memory` are not harmless: the server removes
/// the key's old value. The last element is for [`TOO_MANY`].
const REFUSALS: [Refusal; 15] = [
    Refusal { name: "not_found", harmless: true },
    Refusal { name: "exists", harmless: true },
    Refusal { name: "too_large", harmless: false },
    Refusal { name: "invalid", harmless: true },
    Refusal { name: "not_stored", harmless: true },
    Refusal { name: "not_a_number", harmless: true },
    Refusal { name: "wrong_server", harmless: true },
    Refusal { name: "auth_error", harmless: true },
    Refusal { name: "unknown_command", harmless: true },
    Refusal { name: "out_of_memory", harmless: false },
    Refusal { name: "not_supported", harmless: true },
    Refusal { name: "internal_error", harmless: false },
    Refusal { name: "busy", harmless: false },
    Refusal { name: "temporary_failure", harmless: false },
    Refusal { name: "too_many_connections", harmless: true },
];
/// Statuses after which the server closes the connection.
const LAST_STATUSES: [&str; 2] = ["invalid", "auth_error"];

impl Protocol for Memcached {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &REFUSALS;
    type Request = Request;

    fn may_refuse_unasked(first: u8) -> bool {
        first == TOO_MANY[0]
    }

    fn open(service: &str) -> Result<Self, String> {
        let authority = service.strip_prefix("memcached://").unwrap_or(service).trim_end_matches('/');
        match authority.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !host.contains(['/', '@']) && port.parse::<u16>().is_ok() => {
                Ok(Self { authority: authority.to_owned() })
            }
            _ => Err("write memcached://host:port, without a login".to_owned()),
        }
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let opcode = CommandCode::named(call.operation.name)?;
        let wants = call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?;
        Ok(Request { layout: layout(opcode, call)?, opcode, wants })
    }

    fn may_change(request: &Request) -> bool {
        request.opcode != CommandCode::Get
    }

    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        let AttemptCause::Answer(number) = failure else { return None };
        match REFUSALS.get(usize::from(number))?.name {
            "not_found" => Some(AboutData::Missing),
            "exists" | "not_stored" | "not_a_number" => Some(AboutData::Different),
            _ => None,
        }
    }
}

impl InOrderProtocol for Memcached {
    type Decoder = Decoder;
    type Memory = ();

    fn encode(request: &Request, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        request.layout.write(id, values, out)
    }

    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Decoder,
        (): &mut (),
        input: &[u8],
        _ended: bool,
    ) -> Progress {
        match input.first() {
            None => return Progress::More { used: 0 },
            Some(&ANSWER) => {}
            Some(_) => return decoder.refuse(input),
        }
        let Some(header) = input.first_chunk() else { return Progress::More { used: 0 } };
        let header = Header::of(header);
        if header.opcode != asked.request.opcode as u8 || header.id != asked.id || header.before_value > header.body {
            return Progress::Bad(AttemptCause::BadAnswer);
        }
        if header.body > BODY_LIMIT {
            return Progress::Bad(AttemptCause::TooLong);
        }
        if input.len() < HEADER + header.body {
            return Progress::More { used: 0 };
        }
        decoder.judge(asked.request.opcode, &header)
    }

    fn field<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let is_ok = decoder.status == "ok";
        let value = input.get(decoder.value.clone())?;
        match (request.wants.get(want)?, request.opcode) {
            (Want::Status, _) => Some(decoder.status.as_bytes()),
            (Want::Text, _) => (!is_ok).then_some(value),
            (Want::Value, CommandCode::Incr) if is_ok => {
                write_decimal(u64::from_be_bytes(*value.first_chunk()?), scratch);
                Some(scratch)
            }
            (Want::Value, _) => is_ok.then_some(value),
            (Want::Version, _) if is_ok && decoder.version > 0 => {
                write_decimal(decoder.version, scratch);
                Some(scratch)
            }
            (Want::Version, _) => None,
        }
    }

    fn rest(decoder: &mut Decoder, (): &mut ()) {
        *decoder = Decoder::default();
    }

    fn status<'a>(decoder: &'a Decoder, _input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        decoder.status.as_bytes()
    }
}

/// The header of an answer.
struct Header {
    opcode: u8,
    /// Size of extras and key, bytes.
    before_value: usize,
    status: u16,
    /// Size of extras, key and value, bytes.
    body: usize,
    id: u32,
    version: u64,
}

impl Header {
    fn of(bytes: &[u8; HEADER]) -> Self {
        let [_, opcode, k0, k1, extras, _, s0, s1, b0, b1, b2, b3, i0, i1, i2, i3, version @ ..] = *bytes;
        Self {
            opcode,
            before_value: usize::from(extras) + usize::from(u16::from_be_bytes([k0, k1])),
            status: u16::from_be_bytes([s0, s1]),
            body: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            id: u32::from_be_bytes([i0, i1, i2, i3]),
            version: u64::from_be_bytes(version),
        }
    }
}

impl Decoder {
    fn judge(&mut self, opcode: CommandCode, header: &Header) -> Progress {
        let used = HEADER + header.body;
        self.value = HEADER + header.before_value..used;
        self.version = header.version;
        if header.status == 0 {
            self.status = "ok";
            if opcode == CommandCode::Incr && self.value.len() != 8 {
                return Progress::Bad(AttemptCause::BadAnswer);
            }
            return Progress::Answer(Answer { used, result: AttemptCause::Ok, reusable: true, is_costly: false });
        }
        let found = STATUSES.iter().zip(0_u8..).find(|(status, _)| **status == header.status);
        let Some((_, number)) = found else { return Progress::Bad(AttemptCause::BadAnswer) };
        self.status = REFUSALS[usize::from(number)].name;
        let is_answer = self.status == "not_found" && matches!(opcode, CommandCode::Get | CommandCode::Delete);
        let result = if is_answer { AttemptCause::Ok } else { AttemptCause::Answer(number) };
        Progress::Answer(Answer { used, result, reusable: !LAST_STATUSES.contains(&self.status), is_costly: false })
    }

    /// Decodes bytes that are no packet. Only [`TOO_MANY`] is valid.
    fn refuse(&mut self, input: &[u8]) -> Progress {
        if input.starts_with(TOO_MANY) {
            self.status = "too_many_connections";
            self.value = 0..TOO_MANY.len() - 2;
            let result = AttemptCause::Answer(STATUSES.len() as u8);
            return Progress::Answer(Answer { used: TOO_MANY.len(), result, reusable: false, is_costly: false });
        }
        if TOO_MANY.starts_with(input) { Progress::More { used: 0 } } else { Progress::Bad(AttemptCause::BadAnswer) }
    }
}

impl CommandCode {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "get" => Self::Get,
            "set" => Self::Set,
            "add" => Self::Add,
            "delete" => Self::Delete,
            "incr" => Self::Incr,
            _ => return Err(format!("there is no operation `{name}`")),
        })
    }
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "text" => Self::Text,
            "value" => Self::Value,
            "version" => Self::Version,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

fn layout(opcode: CommandCode, call: &Call<'_>) -> Result<RequestLayout, String> {
    let mut extras = Vec::new();
    match opcode {
        CommandCode::Get | CommandCode::Delete => {}
        CommandCode::Set | CommandCode::Add => {
            // Flags: memcached stores them with the value and does not interpret them.
            extras.extend_from_slice(&[0; 4]);
            extras.extend_from_slice(&number(call, "expires", 0_u32)?.to_be_bytes());
        }
        CommandCode::Incr => {
            extras.extend_from_slice(&number(call, "by", 1_u64)?.to_be_bytes());
            // Initial value of a key that is created.
            extras.extend_from_slice(&[0; 8]);
            extras.extend_from_slice(&NO_CREATION);
        }
    }
    let mut builder = LayoutBuilder::default();
    builder.bytes(&[REQUEST, opcode as u8]);
    let key = builder.length(LengthWidth::U16);
    // Size of the extras, data type and partition.
    builder.bytes(&[extras.len() as u8, 0, 0, 0]);
    let body = builder.length(LengthWidth::U32);
    // After the id, 0 as the version (`cas`): the operation is unconditional.
    builder.id().bytes(&[0; 8]).begin(body).bytes(&extras).begin(key);
    if let Some(place) = call.argument("key") {
        builder.value(call.arguments, place);
    }
    builder.end(key);
    if let Some(place) = call.argument("value") {
        builder.value(call.arguments, place);
    }
    builder.end(body).finish()
}

/// Returns a number of the request. The wire format has the number in binary, so the argument must
/// be constant.
fn number<N: FromStr>(call: &Call<'_>, name: &str, default: N) -> Result<N, String> {
    let Some(place) = call.argument(name) else { return Ok(default) };
    let text = call.arguments[place].template.as_constant().and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("`{name}` must be a whole number from 0, without placeholders"))
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{answer, text};
    use super::*;
    use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces, shown};

    const ID: u32 = 0x0102_0304;

    fn memcached() -> Memcached {
        Memcached::open("127.0.0.1:11211").unwrap()
    }

    fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Memcached> {
        compile(&memcached(), operation, with, wants).unwrap()
    }

    #[test]
    fn services() {
        for (service, authority) in
            [("127.0.0.1:1", "127.0.0.1:1"), ("memcached://host:2/", "host:2"), ("memcached://[::1]:9", "[::1]:9")]
        {
            assert_eq!(Memcached::open(service).unwrap().authority(), authority);
        }
        for service in ["", "host", ":1", "host:x", "host:70000", "redis://host:1", "memcached://me:word@host:1"] {
            assert!(Memcached::open(service).is_err(), "{service}");
        }
    }

    #[test]
    fn requests_byte_for_byte() {
        // Examples from the protocol's specification, with other ids.
        let get = compiled("get", &[("key", "Hello")], &[]);
        assert_eq!(encode(&get, 7), b"\x80\0\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x07\0\0\0\0\0\0\0\0Hello");
        let add = compiled("add", &[("key", "Hello"), ("value", "World"), ("expires", "3600")], &[]);
        let expected = b"\x80\x02\0\x05\x08\0\0\0\0\0\0\x12\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0e\x10HelloWorld";
        assert_eq!(encode(&add, 7), expected);
        let delete = compiled("delete", &[("key", "Hello")], &[]);
        assert_eq!(encode(&delete, 7), b"\x80\x04\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x07\0\0\0\0\0\0\0\0Hello");
        let incr = compiled("incr", &[("key", "counter"), ("by", "258")], &[]);
        let extras = b"\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\0\xff\xff\xff\xff";
        let header = b"\x80\x05\0\x07\x14\0\0\0\0\0\0\x1b\0\0\0\x07\0\0\0\0\0\0\0\0";
        assert_eq!(encode(&incr, 7), [&header[..], extras, b"counter"].concat());
        // Lengths that are known when the request is written.
        let set = compiled("set", &[("key", "k{seq}"), ("value", "{agent}")], &[]);
        let expected = b"\x80\x01\0\x03\x08\0\0\0\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0k123";
        assert_eq!(encode(&set, 7), expected);
    }

    #[test]
    fn invalid_requests_are_refused() {
        for (operation, with, wants) in [
            ("set", &[("key", "k")][..], &[][..]),
            ("get", &[("key", "k"), ("value", "v")], &[]),
            ("set", &[("key", "k"), ("value", "v")], &["value"]),
            ("set", &[("key", "k"), ("value", "v"), ("expires", "{seq}")], &[]),
            ("set", &[("key", "k"), ("value", "v"), ("expires", "4294967296")], &[]),
            ("incr", &[("key", "k"), ("by", "-1")], &[]),
        ] {
            assert!(compile(&memcached(), operation, with, wants).is_err(), "{operation} {with:?} {wants:?}");
        }
    }

    #[test]
    fn answers() {
        let get = compiled("get", &[("key", "k")], &["value", "status", "text"]);
        let add = compiled("add", &[("key", "k"), ("value", "v")], &["status", "text"]);
        let delete = compiled("delete", &[("key", "k")], &["status"]);
        let incr = compiled("incr", &[("key", "k")], &["value", "status"]);
        let failed = |number, reusable, status| {
            Seen::answer(AttemptCause::Answer(number), reusable, status, &[Some(status), Some("why")])
        };
        let ok = |status, fields| Seen::answer(AttemptCause::Ok, true, status, fields);
        let bad = Seen::Bad(AttemptCause::BadAnswer);
        let with_key = b"\x81\0\0\x01\x04\0\0\0\0\0\0\x07\x01\x02\x03\x04\0\0\0\0\0\0\0\x09\xde\xad\xbe\xefkhi";
        let table = [
            (&get, answer(0, ID, b"hi"), ok("ok", &[Some("hi"), Some("ok"), None])),
            (&get, answer(0, ID, b""), ok("ok", &[Some(""), Some("ok"), None])),
            (&get, with_key.to_vec(), ok("ok", &[Some("hi"), Some("ok"), None])),
            (&get, text(0, ID, 1, "no"), ok("not_found", &[None, Some("not_found"), Some("no")])),
            (&delete, text(4, ID, 1, "no"), ok("not_found", &[Some("not_found")])),
            (&delete, text(4, ID, 0, ""), ok("ok", &[Some("ok")])),
            (&add, text(2, ID, 0, ""), ok("ok", &[Some("ok"), None])),
            (&add, text(2, ID, 2, "why"), failed(1, true, "exists")),
            (&add, text(2, ID, 3, "why"), failed(2, true, "too_large")),
            (&add, text(2, ID, 4, "why"), failed(3, false, "invalid")),
            (&add, text(2, ID, 0x20, "why"), failed(7, false, "auth_error")),
            (&add, text(2, ID, 0x82, "why"), failed(9, true, "out_of_memory")),
            (&add, text(2, ID, 0x86, "why"), failed(13, true, "temporary_failure")),
            (
                &add,
                TOO_MANY.to_vec(),
                Seen::answer(
                    AttemptCause::Answer(14),
                    false,
                    "too_many_connections",
                    &[Some("too_many_connections"), Some("ERROR Too many open connections")],
                ),
            ),
            (&incr, text(5, ID, 0, "\0\0\0\0\0\0\x01\x02"), ok("ok", &[Some("258"), Some("ok")])),
            (
                &incr,
                text(5, ID, 1, ""),
                Seen::answer(AttemptCause::Answer(0), true, "not_found", &[None, Some("not_found")]),
            ),
            (&incr, text(5, ID, 0, "12"), bad.clone()),
            (&get, answer(0, ID + 1, b"hi"), bad.clone()),
            (&get, answer(1, ID, b"hi"), bad.clone()),
            (&get, text(0, ID, 0x21, "continue"), bad.clone()),
            (&get, b"\x80".to_vec(), bad.clone()),
            (&get, b"ERROR\r\n".to_vec(), bad.clone()),
            (&get, [&with_key[..11], b"\x04", &with_key[12..]].concat(), bad),
            (&get, [&with_key[..8], b"\x7f", &with_key[9..]].concat(), Seen::Bad(AttemptCause::TooLong)),
        ];
        for (request, bytes, expected) in table {
            assert_eq!(is_the_same_in_pieces(request, ID, &bytes, false), expected, "{bytes:?}");
        }
    }

    #[test]
    fn statements_about_data() {
        for (number, about) in [(0, Some(AboutData::Missing)), (1, Some(AboutData::Different)), (2, None), (99, None)] {
            assert_eq!(Memcached::about_data(AttemptCause::Answer(number)), about, "{number}");
        }
        assert_eq!(Memcached::about_data(AttemptCause::Timeout), None);
    }

    #[test]
    fn bytes_after_an_answer_are_left() {
        let get = compiled("get", &[("key", "k")], &[]);
        let bytes = [answer(0, ID, b"hi"), b"more".to_vec()].concat();
        let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&get, ID, &bytes, false) else { panic!("no answer") };
        assert_eq!(surplus, b"more");
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(header in prop::collection::vec(any::<u8>(), 23), body in prop::collection::vec(any::<u8>(), 0..40), ends: bool) {
            let bytes = [&[ANSWER][..], &header, &body].concat();
            for operation in ["get", "delete", "incr"] {
                feed(&compiled(operation, &[("key", "k")], &["status"]), &mut (), ID, &[&bytes], ends);
            }
        }

        #[test]
        fn values_are_decoded_unchanged(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let get = compiled("get", &[("key", "k")], &["value"]);
            prop_assert_eq!(
                feed(&get, &mut (), ID, &[&answer(0, ID, &value)], false),
                Seen::answer(AttemptCause::Ok, true, "ok", &[Some(&shown(&value))])
            );
        }
    }
}
