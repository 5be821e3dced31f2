//! The protocol of the very simple name service: one frame per request, one frame per answer.
//!
//! A frame is like Erlang's `{packet,4}`: a big-endian length of four bytes, then that number of
//! bytes. A request is its id (4 bytes), an opcode (1) and the arguments. An answer is the same id,
//! a status (1) and the fields.

use experiment::catalog::{self, Effect, Field, Operation};

use super::{AboutData, Call, Protocol};
use crate::cause::{AttemptCause, Refusal};
use crate::in_order::{InOrderProtocol, Progress};
use crate::session::{Answer, RequestContext};
use crate::values::allowed::NotSendable;
use crate::values::layout::{LayoutBuilder, LengthWidth, RequestLayout};
use crate::values::{CompiledTemplate, OperationValues, write_decimal};

const SPACE: Field = Field { name: "space", help: "the space; default: the empty one", required: false };
const KEY: Field = Field { name: "key", help: "the key, up to 65535 bytes", required: true };
const STATUS: Field = Field { name: "status", help: "`ok`, `not_found`, …", required: false };
const TEXT: Field = Field { name: "text", help: "the service's text about a failure", required: false };

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "vsns",
    schemes: &["vsns"],
    help: "frames of the very simple name service over TCP",
    operations: &[
        Operation {
            name: "save",
            help: "stores a value under a key",
            takes: &[SPACE, KEY, Field { name: "value", help: "the value to store", required: true }],
            answers: &[STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "load",
            help: "reads the value of a key; `not_found` is an answer",
            takes: &[SPACE, KEY],
            answers: &[Field { name: "value", help: "the stored value", required: false }, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "remove",
            help: "removes a key",
            takes: &[SPACE, KEY],
            answers: &[Field { name: "removed", help: "1 if the key existed, else 0", required: false }, STATUS, TEXT],
            effect: Effect::Remove,
        },
        Operation {
            name: "load_all",
            help: "reads a page of a space, in key order",
            takes: &[
                SPACE,
                Field { name: "after", help: "the key before the page; default: none", required: false },
                Field {
                    name: "limit",
                    help: "limit of entries of the page, 1 to 65535; default: 100",
                    required: false,
                },
            ],
            answers: &[
                Field { name: "count", help: "entries of the page", required: false },
                Field { name: "more", help: "1 if further entries follow, else 0", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
        Operation {
            name: "remove_all",
            help: "removes every key of a space",
            takes: &[SPACE],
            answers: &[Field { name: "count", help: "keys removed", required: false }, STATUS, TEXT],
            effect: Effect::RemoveAll,
        },
        Operation {
            name: "oops",
            help: "crashes the server on purpose",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "stats",
            help: "statistics of the service, as JSON in `text`",
            takes: &[],
            answers: &[TEXT, STATUS],
            effect: Effect::None,
        },
        Operation {
            name: "ping",
            help: "an answer without reading any data",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
    ],
};

/// Longest accepted answer, bytes.
const FRAME_LIMIT: usize = 64 * 1024 * 1024;
/// Size of id and status, bytes.
const HEAD: usize = 5;
/// Value of `limit` if `load_all` does not set it.
const DEFAULT_LIMIT: &str = "100";

/// A name service.
#[derive(Debug)]
pub struct Vsns {
    authority: String,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    layout: RequestLayout,
    opcode: Opcode,
    wants: Vec<Want>,
}

/// Opcodes of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Opcode {
    Save = 1,
    Load = 2,
    Remove = 3,
    LoadAll = 4,
    RemoveAll = 5,
    Oops = 6,
    Stats = 7,
    Ping = 8,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Value,
    Count,
    More,
    Removed,
    Text,
}

mod status {
    //! Statuses on the wire.
    pub const OK: u8 = 0;
    pub const NOT_FOUND: u8 = 1;
    pub const BAD_REQUEST: u8 = 2;
    pub const TOO_LARGE: u8 = 5;
    pub const BUSY: u8 = 4;
    /// Names of the statuses, indexed by status.
    pub const NAMES: [&str; 6] = ["ok", "not_found", "bad_request", "unavailable", "busy", "too_large"];
}

impl Protocol for Vsns {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[
        Refusal { name: "bad_request", harmless: true },
        Refusal { name: "unavailable", harmless: false },
        Refusal { name: "busy", harmless: true },
        Refusal { name: "too_large", harmless: true },
    ];
    type Request = Request;

    fn may_refuse_unasked(_first: u8) -> bool {
        true
    }

    fn open(service: &str) -> Result<Self, String> {
        let authority = service.strip_prefix("vsns://").unwrap_or(service).trim_end_matches('/');
        match authority.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self { authority: authority.to_owned() })
            }
            _ => Err("write host:port, such as 127.0.0.1:7000".to_owned()),
        }
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let opcode = Opcode::named(call.operation.name)?;
        let wants = call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?;
        Ok(Request { layout: layout(opcode, call)?, opcode, wants })
    }

    fn may_change(request: &Request) -> bool {
        matches!(request.opcode, Opcode::Save | Opcode::Remove | Opcode::RemoveAll | Opcode::Oops)
    }

    /// The only answer about data, `not_found`, is not a failure. `not_found` ends the operation as
    /// `wrong` if the step expects a value, and as `ok` otherwise.
    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl InOrderProtocol for Vsns {
    type Decoder = ();
    type Memory = ();

    fn encode(request: &Request, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        request.layout.write(id, values, out)
    }

    fn decode(asked: &RequestContext<'_, Self>, (): &mut (), (): &mut (), input: &[u8], _ended: bool) -> Progress {
        let Some(length) = input.first_chunk::<4>() else { return Progress::More { used: 0 } };
        let length = u32::from_be_bytes(*length) as usize;
        if length < HEAD {
            return Progress::Bad(AttemptCause::BadAnswer);
        }
        if length > FRAME_LIMIT {
            return Progress::Bad(AttemptCause::TooLong);
        }
        let Some(frame) = input[4..].get(..length) else { return Progress::More { used: 0 } };
        judge(asked, frame, 4 + length)
    }

    fn field<'a>(
        request: &'a Request,
        (): &'a (),
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        field(request.opcode, *request.wants.get(want)?, frame(input)?, scratch)
    }

    fn rest((): &mut (), (): &mut ()) {}

    fn status<'a>((): &'a (), input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        frame(input).map_or("?", |frame| status_name(frame[4])).as_bytes()
    }
}

/// Returns the frame at the start of the input: id, status, body. Returns `None` if the frame is
/// not complete.
fn frame(input: &[u8]) -> Option<&[u8]> {
    let length = u32::from_be_bytes(*input.first_chunk::<4>()?) as usize;
    input[4..].get(..length).filter(|frame| frame.len() >= HEAD)
}

fn status_name(status: u8) -> &'static str {
    status::NAMES.get(usize::from(status)).copied().unwrap_or("?")
}

fn judge(asked: &RequestContext<'_, Vsns>, frame: &[u8], used: usize) -> Progress {
    let (Some(id), Some(status)) = (frame.first_chunk::<4>(), frame.get(4)) else {
        return Progress::Bad(AttemptCause::BadAnswer);
    };
    let id = u32::from_be_bytes(*id);
    let refusal = |status: u8| AttemptCause::Answer(status - status::BAD_REQUEST);
    if id != asked.id {
        // A server that takes no more connections sends `busy` before it reads a request.
        if id == 0 && *status == status::BUSY {
            return Progress::Answer(Answer { used, result: refusal(*status), reusable: false, is_costly: false });
        }
        return Progress::Bad(AttemptCause::BadAnswer);
    }
    match *status {
        status::OK if asked.request.opcode.fits(&frame[HEAD..]) => {
            Progress::Answer(Answer { used, result: AttemptCause::Ok, reusable: true, is_costly: false })
        }
        status::NOT_FOUND => {
            Progress::Answer(Answer { used, result: AttemptCause::Ok, reusable: true, is_costly: false })
        }
        status @ status::BAD_REQUEST..=status::TOO_LARGE => {
            // After a frame that is too large, the service cannot find the start of the next frame.
            Progress::Answer(Answer {
                used,
                result: refusal(status),
                reusable: status != status::TOO_LARGE,
                is_costly: false,
            })
        }
        _ => Progress::Bad(AttemptCause::BadAnswer),
    }
}

fn field<'a>(opcode: Opcode, want: Want, frame: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let (status, body) = (*frame.get(4)?, frame.get(HEAD..)?);
    let is_ok = status == status::OK;
    let mut number = |number: u64| {
        write_decimal(number, scratch);
    };
    match want {
        Want::Status => return Some(status_name(status).as_bytes()),
        Want::Value if is_ok && opcode == Opcode::Load => return Some(body),
        Want::Text if !is_ok || opcode == Opcode::Stats => return Some(body),
        Want::Removed if is_ok && opcode == Opcode::Remove => number(u64::from(*body.first()?)),
        Want::More if is_ok && opcode == Opcode::LoadAll => number(u64::from(*body.first()?)),
        Want::Count if is_ok && opcode == Opcode::LoadAll => number(u32_at(body, 1)?),
        Want::Count if is_ok && opcode == Opcode::RemoveAll => number(u32_at(body, 0)?),
        _ => return None,
    }
    Some(scratch)
}

fn u32_at(body: &[u8], at: usize) -> Option<u64> {
    body.get(at..)?.first_chunk::<4>().map(|bytes| u64::from(u32::from_be_bytes(*bytes)))
}

impl Opcode {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "save" => Self::Save,
            "load" => Self::Load,
            "remove" => Self::Remove,
            "load_all" => Self::LoadAll,
            "remove_all" => Self::RemoveAll,
            "oops" => Self::Oops,
            "stats" => Self::Stats,
            "ping" => Self::Ping,
            _ => return Err(format!("there is no operation `{name}`")),
        })
    }

    /// Whether an `ok` answer has all its fields. Extra bytes are allowed for later versions of the
    /// protocol.
    fn fits(self, body: &[u8]) -> bool {
        match self {
            Self::Remove => !body.is_empty(),
            Self::RemoveAll => body.len() >= 4,
            Self::LoadAll => entries_fit(body),
            Self::Save | Self::Load | Self::Oops | Self::Stats | Self::Ping => true,
        }
    }
}

/// Whether a `load_all` answer has as many entries as its count: `more` (1 byte), count (4), then
/// for each entry the key with a 2-byte length and the value with a 4-byte length.
fn entries_fit(body: &[u8]) -> bool {
    let Some(count) = u32_at(body, 1) else { return false };
    let mut rest = &body[5..];
    for _ in 0..count {
        let Some(entry) = entry(rest) else { return false };
        rest = &rest[entry..];
    }
    true
}

/// Returns the length of the entry at the start of `rest`.
fn entry(rest: &[u8]) -> Option<usize> {
    let key = usize::from(u16::from_be_bytes(*rest.first_chunk::<2>()?));
    let value = usize::try_from(u32_at(rest, 2 + key)?).ok()?;
    let length = 2 + key + 4 + value;
    (length <= rest.len()).then_some(length)
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "value" => Self::Value,
            "count" => Self::Count,
            "more" => Self::More,
            "removed" => Self::Removed,
            "text" => Self::Text,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

fn layout(opcode: Opcode, call: &Call<'_>) -> Result<RequestLayout, String> {
    let mut builder = LayoutBuilder::default();
    let frame = builder.length(LengthWidth::U32);
    builder.begin(frame).id().bytes(&[opcode as u8]);
    let arguments: &[(&str, LengthWidth)] = match opcode {
        Opcode::Save => &[("space", LengthWidth::U16), ("key", LengthWidth::U16), ("value", LengthWidth::U32)],
        Opcode::Load | Opcode::Remove => &[("space", LengthWidth::U16), ("key", LengthWidth::U16)],
        Opcode::LoadAll => &[("space", LengthWidth::U16), ("after", LengthWidth::U16)],
        Opcode::RemoveAll => &[("space", LengthWidth::U16)],
        Opcode::Oops | Opcode::Stats | Opcode::Ping => &[],
    };
    for (name, width) in arguments {
        let length = builder.length(*width);
        builder.begin(length);
        if let Some(place) = call.argument(name) {
            builder.value(call.arguments, place);
        }
        builder.end(length);
    }
    if opcode == Opcode::LoadAll {
        builder.bytes(&limit(call)?.to_be_bytes());
    }
    builder.end(frame).finish()
}

/// Returns `limit`. The wire format has `limit` as a binary number, so the argument must be
/// constant.
fn limit(call: &Call<'_>) -> Result<u16, String> {
    let template = call.argument("limit").map(|place| &call.arguments[place].template);
    let text = template.map_or(Some(DEFAULT_LIMIT.as_bytes()), CompiledTemplate::as_constant);
    text.and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse().ok())
        .filter(|limit| *limit > 0)
        .ok_or_else(|| "`limit` must be a whole number from 1 to 65535, without placeholders".to_owned())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::frame as answer;
    use super::*;
    use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces, shown};

    const ID: u32 = 0x0102_0304;

    fn vsns() -> Vsns {
        Vsns::open("127.0.0.1:7000").unwrap()
    }

    fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Vsns> {
        compile(&vsns(), operation, with, wants).unwrap()
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
        // Example from the protocol's specification.
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
    fn invalid_requests_are_refused() {
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
            Seen::answer(AttemptCause::Answer(number), reusable, status, &[None, Some(status), Some(text)])
        };
        let table = [
            (&load, answer(ID, 0, b"hi"), Seen::answer(AttemptCause::Ok, true, "ok", &[Some("hi"), Some("ok"), None])),
            (&load, answer(ID, 0, b""), Seen::answer(AttemptCause::Ok, true, "ok", &[Some(""), Some("ok"), None])),
            (
                &load,
                answer(ID, 1, b""),
                Seen::answer(AttemptCause::Ok, true, "not_found", &[None, Some("not_found"), Some("")]),
            ),
            (&load, answer(ID, 2, b"why"), refused(0, true, "bad_request", "why")),
            (&load, answer(ID, 3, b"down"), refused(1, true, "unavailable", "down")),
            (&load, answer(ID, 4, b""), refused(2, true, "busy", "")),
            (&load, answer(0, 4, b""), refused(2, false, "busy", "")),
            (&load, answer(ID, 5, b""), refused(3, false, "too_large", "")),
            (&load, answer(ID, 6, b""), Seen::Bad(AttemptCause::BadAnswer)),
            (&load, answer(ID + 1, 0, b"hi"), Seen::Bad(AttemptCause::BadAnswer)),
            (&load, answer(0, 0, b"hi"), Seen::Bad(AttemptCause::BadAnswer)),
            (&load, b"\0\0\0\x04abcd".to_vec(), Seen::Bad(AttemptCause::BadAnswer)),
            (&load, b"\xff\xff\xff\xff".to_vec(), Seen::Bad(AttemptCause::TooLong)),
            (
                &page,
                answer(ID, 0, entries),
                Seen::answer(AttemptCause::Ok, true, "ok", &[Some("2"), Some("1"), Some("ok")]),
            ),
            (&page, answer(ID, 0, &entries[..entries.len() - 1]), Seen::Bad(AttemptCause::BadAnswer)),
            (&page, answer(ID, 0, b"\0"), Seen::Bad(AttemptCause::BadAnswer)),
            (&remove, answer(ID, 0, b"\x01"), Seen::answer(AttemptCause::Ok, true, "ok", &[Some("1"), None])),
            (&remove, answer(ID, 0, b""), Seen::Bad(AttemptCause::BadAnswer)),
            (&all, answer(ID, 0, b"\0\0\x01\0"), Seen::answer(AttemptCause::Ok, true, "ok", &[Some("256")])),
            (&stats, answer(ID, 0, b"{}"), Seen::answer(AttemptCause::Ok, true, "ok", &[Some("{}")])),
        ];
        for (request, bytes, expected) in table {
            assert_eq!(is_the_same_in_pieces(request, ID, &bytes, false), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_after_an_answer_are_left() {
        let ping = compiled("ping", &[], &[]);
        let mut bytes = answer(ID, 0, b"");
        bytes.extend_from_slice(b"more");
        let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&ping, ID, &bytes, false) else { panic!("no answer") };
        assert_eq!(surplus, b"more");
    }

    /// Encodes a frame as the protocol's specification says, independently of the tested code.
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
        fn random_bodies_never_panic(status in 0_u8..8, body in prop::collection::vec(any::<u8>(), 0..40)) {
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
        fn values_are_decoded_unchanged(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let load = compiled("load", &[("key", "k")], &["value"]);
            let text = shown(&value);
            prop_assert_eq!(
                feed(&load, &mut (), ID, &[&answer(ID, 0, &value)], false),
                Seen::answer(AttemptCause::Ok, true, "ok", &[Some(&text)])
            );
        }
    }
}
