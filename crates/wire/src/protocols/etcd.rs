//! etcd's API, version 3: calls of gRPC to its services KV, Lease and Watch. The messages are few,
//! so they are laid out here, field by field.

use experiment::catalog::{self, Effect, Field, Operation};

use super::grpc::answer::GrpcMemory;
use super::{AboutData, Call, Protocol, ShownAnswer};
use crate::cause::{AttemptCause, Refusal};
use crate::http2::hpack::{self, HeaderBlock};
use crate::http2::{BodyEnd, OpenBody, OverHttp2, StreamAnswer, StreamFault, StreamProgress, StreamProtocol};
use crate::protobuf::{BYTES, VARINT};
use crate::values::allowed::NotSendable;
use crate::values::layout::{LayoutBuilder, LengthSpan, LengthWidth, RequestLayout};
use crate::values::{OperationValues, write_decimal};
use answer::{AnswerFacts, EtcdAnswer};

mod answer;
mod statuses;

const KEY: Field = Field { name: "key", help: "the key", required: true };
const NEW_VALUE: Field = Field { name: "value", help: "the value to store", required: true };
const LEASE: Field = Field {
    name: "lease",
    help: "id of the lease with which the key expires; default: 0, which is none",
    required: false,
};
const LEASE_ID: Field = Field { name: "id", help: "id of the lease", required: true };
const CONSISTENCY: Field = Field {
    name: "consistency",
    help: "`linearizable` (default): the member asks the leader what is newest; `serializable`: it answers from its own \
           data, which may be old",
    required: false,
};
const VALUE: Field = Field { name: "value", help: "the stored value", required: false };
const FOUND: Field = Field { name: "found", help: "`true` or `false`: whether the key exists", required: false };
const VERSION: Field = Field {
    name: "version",
    help: "the key's `mod_revision`: the revision of the store that changed the key last; absent without such a change",
    required: false,
};
const REVISION: Field = Field { name: "revision", help: "revision of the store", required: false };
const COUNT: Field = Field { name: "count", help: "number of keys in the range, or of events", required: false };
const STATUS: Field = Field {
    name: "status",
    help: "`ok`, `not_found`, `changed`, or the reason of a failure: `timed_out`, `unavailable`, …",
    required: false,
};
const TEXT: Field = Field { name: "text", help: "the server's text about a failure", required: false };

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "etcd",
    schemes: &["etcd", "etcds"],
    help: "etcd, version 3, by gRPC: etcd://host:port; etcds:// for TLS",
    operations: &[
        Operation {
            name: "get",
            help: "reads the value of a key; `not_found` is an answer",
            takes: &[KEY, CONSISTENCY],
            answers: &[VALUE, FOUND, VERSION, REVISION, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "put",
            help: "stores a value under a key",
            takes: &[KEY, NEW_VALUE, LEASE],
            answers: &[VERSION, REVISION, STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "delete",
            help: "removes a key",
            takes: &[KEY],
            answers: &[
                Field { name: "deleted", help: "1 if the key existed, else 0", required: false },
                VERSION,
                REVISION,
                STATUS,
                TEXT,
            ],
            effect: Effect::Remove,
        },
        Operation {
            name: "cas",
            help: "a transaction: stores a value if the key has the value `from`, or without `from`, if it does not exist",
            takes: &[
                KEY,
                Field { name: "from", help: "the expected value; without it the key must not exist", required: false },
                NEW_VALUE,
                LEASE,
            ],
            answers: &[
                Field { name: "succeeded", help: "`true` or `false`: whether the value was stored", required: false },
                Field { name: "value", help: "the value that the key has instead, if any", required: false },
                VERSION,
                REVISION,
                STATUS,
                TEXT,
            ],
            effect: Effect::CompareAndSet,
        },
        Operation {
            name: "update",
            help: "a transaction: stores a value if the key was last changed by the revision `version` (0: if it does not \
                   exist); otherwise it fails as `changed`",
            takes: &[KEY, Field { name: "version", help: "the expected `version`", required: true }, NEW_VALUE, LEASE],
            answers: &[VERSION, REVISION, STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "range",
            help: "reads the keys that begin with a prefix",
            takes: &[
                Field { name: "prefix", help: "the beginning of the keys", required: true },
                Field {
                    name: "limit",
                    help: "maximum number of keys in the answer; default: 0, which is all",
                    required: false,
                },
                Field { name: "keys_only", help: "`true`: keys without their values", required: false },
                CONSISTENCY,
            ],
            answers: &[
                COUNT,
                Field { name: "value", help: "the value of the first key", required: false },
                REVISION,
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
        Operation {
            name: "watch",
            help: "waits for changes of a key and ends with the last of them",
            takes: &[
                KEY,
                Field { name: "events", help: "number of changes to wait for; default: 1", required: false },
                Field { name: "start", help: "revision of the first change; default: the next one", required: false },
            ],
            answers: &[
                Field { name: "value", help: "the value after the last change", required: false },
                FOUND,
                COUNT,
                VERSION,
                REVISION,
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
        Operation {
            name: "lease_grant",
            help: "makes a lease, with which keys expire",
            takes: &[Field { name: "ttl", help: "seconds until it expires, unless it is kept alive", required: true }],
            answers: &[
                Field { name: "id", help: "id of the lease", required: false },
                Field { name: "ttl", help: "seconds until it expires", required: false },
                REVISION,
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
        Operation {
            name: "lease_keep_alive",
            help: "renews a lease; if it has expired, it fails as `lease_not_found`",
            takes: &[LEASE_ID],
            answers: &[Field { name: "ttl", help: "seconds until it expires", required: false }, STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "lease_revoke",
            help: "ends a lease and removes its keys",
            takes: &[LEASE_ID],
            answers: &[REVISION, STATUS, TEXT],
            effect: Effect::None,
        },
    ],
};

/// Usual port for clients.
const PORT: &str = ":2379";

/// etcd as the engine uses it.
pub type Etcd = OverHttp2<EtcdStreams>;

/// A member of an etcd cluster.
#[derive(Debug)]
pub struct EtcdStreams {
    authority: String,
    tls_host: Option<String>,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    verb: EtcdVerb,
    headers: Box<[u8]>,
    body: RequestLayout,
    /// Number of events that a watch waits for.
    events: u64,
    wants: Box<[Want]>,
}

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EtcdVerb {
    Get,
    Put,
    Delete,
    Cas,
    Update,
    Range,
    Watch,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Text,
    Value,
    Found,
    Version,
    Revision,
    Succeeded,
    Count,
    Id,
    Ttl,
}

impl Protocol for EtcdStreams {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = statuses::REFUSALS;
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        let sealed = service.strip_prefix("etcds://");
        let rest = sealed.or_else(|| service.strip_prefix("etcd://")).unwrap_or(service).trim_end_matches('/');
        // The colon before the port comes after the closing bracket of an IPv6 address.
        let bracket = rest.rfind(']').unwrap_or(0);
        let (host, port) = rest.split_at(rest[bracket..].rfind(':').map_or(rest.len(), |colon| bracket + colon));
        let port = if port.is_empty() { PORT } else { port };
        if host.is_empty() || host.contains(['/', '@', ' ', '?']) || port[1..].parse::<u16>().is_err() {
            return Err("write etcd://host:port, or etcds://host:port for TLS, without a login".to_owned());
        }
        let tls_host = sealed.is_some().then(|| host.trim_matches(['[', ']']).to_owned());
        Ok(Self { authority: format!("{host}{port}"), tls_host })
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.tls_host.as_deref()
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        let AttemptCause::Answer(number) = failure else { return None };
        match statuses::name(number) {
            "unauthenticated" | "permission_denied" => {
                Some("this protocol has no login: the cluster must work without one")
            }
            "no_space" => Some("the data have reached the member's quota; the target's parameter `quota` raises it"),
            _ => None,
        }
    }

    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        // Values may be secret.
        write_decimal(answer.bytes.len() as u64, out);
        out.extend_from_slice(b" bytes");
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let verb = EtcdVerb::named(call.operation.name)?;
        let wants = call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?;
        let events = match constant(call, "events")? {
            None => 1,
            Some(text) => {
                text.parse().ok().filter(|events| *events > 0).ok_or("`events` must be a whole number from 1")?
            }
        };
        Ok(Request { verb, headers: self.headers(verb), body: body(verb, call)?, events, wants })
    }

    fn may_change(request: &Request) -> bool {
        !matches!(request.verb, EtcdVerb::Get | EtcdVerb::Range | EtcdVerb::Watch)
    }

    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        let AttemptCause::Answer(number) = failure else { return None };
        match statuses::name(number) {
            "changed" => Some(AboutData::Different),
            "lease_not_found" => Some(AboutData::Missing),
            _ => None,
        }
    }
}

impl EtcdStreams {
    /// Returns the header block of a call. It is the same for all calls of a method.
    fn headers(&self, verb: EtcdVerb) -> Box<[u8]> {
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", if self.tls_host.is_some() { "https" } else { "http" }),
            (":path", verb.method()),
            (":authority", self.authority.as_str()),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ] {
            hpack::write_field(name, value.as_bytes(), &mut block);
        }
        block.into()
    }
}

impl StreamProtocol for EtcdStreams {
    type Stream = EtcdAnswer;
    type Memory = GrpcMemory;

    fn encode_body(
        request: &Request,
        _answer: &mut EtcdAnswer,
        _memory: &mut GrpcMemory,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<BodyEnd, NotSendable> {
        request.body.write(0, values, out)?;
        match request.verb {
            // The range ends before the next prefix. Its end is the last field, which has the
            // prefix.
            EtcdVerb::Range => match out.last_mut() {
                Some(last) if *last < 0xff => *last += 1,
                _ => return Err(NotSendable::InText),
            },
            // The member ends a watch whose requests have ended.
            EtcdVerb::Watch => return Ok(BodyEnd::Open),
            _ => {}
        }
        Ok(BodyEnd::Ended)
    }

    fn encode_headers(
        request: &Request,
        _body: usize,
        _values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable> {
        out.extend_from_slice(&request.headers);
        Ok(())
    }

    fn headers(
        _request: &Request,
        answer: &mut EtcdAnswer,
        memory: &mut GrpcMemory,
        status: u16,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        answer.call.head(memory, status, block).map(|()| StreamProgress::More)
    }

    fn data(
        request: &Request,
        answer: &mut EtcdAnswer,
        memory: &mut GrpcMemory,
        data: &[u8],
        _body: &mut OpenBody<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        Ok(match answer.data(request.verb, request.events, memory, data)? {
            true => StreamProgress::Done,
            false => StreamProgress::More,
        })
    }

    fn trailers(
        _request: &Request,
        answer: &mut EtcdAnswer,
        memory: &mut GrpcMemory,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        answer.call.fields(memory, block).map(|()| StreamProgress::More)
    }

    fn end(request: &Request, answer: &mut EtcdAnswer, memory: &mut GrpcMemory) -> StreamAnswer {
        answer.end(request.verb, request.events, memory)
    }

    fn rest(answer: &mut EtcdAnswer, memory: &mut GrpcMemory) {
        answer.rest(memory);
    }

    fn field<'a>(
        request: &'a Request,
        answer: &'a EtcdAnswer,
        want: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let want = request.wants.get(want)?;
        match want {
            Want::Status => return Some(answer.status().as_bytes()),
            Want::Text => return Some(answer.call.text.as_slice()).filter(|text| !text.is_empty()),
            _ => {}
        }
        let facts = AnswerFacts::read(request.verb, answer.call.message()?).ok()?;
        let number = match want {
            Want::Status | Want::Text | Want::Value => return facts.value,
            Want::Found => return Some(truth(facts.is_found)),
            Want::Succeeded => return Some(truth(facts.is_done)),
            Want::Version => facts.version?,
            Want::Revision => facts.revision,
            Want::Count if request.verb == EtcdVerb::Watch => answer.events,
            Want::Count => facts.count,
            Want::Id => facts.id,
            Want::Ttl => facts.ttl,
        };
        write_decimal(number, scratch);
        Some(scratch)
    }

    fn shown(answer: &EtcdAnswer) -> ShownAnswer<'_> {
        ShownAnswer { bytes: answer.call.message().unwrap_or_default(), is_decoded: false }
    }

    fn status_code(answer: &EtcdAnswer) -> Option<u16> {
        answer.call.refused()
    }

    fn status<'a>(answer: &'a EtcdAnswer, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let Some(status) = answer.call.refused() else { return answer.status().as_bytes() };
        write_decimal(u64::from(status), scratch);
        scratch
    }
}

fn truth(is_true: bool) -> &'static [u8] {
    if is_true { b"true" } else { b"false" }
}

impl EtcdVerb {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "get" => Self::Get,
            "put" => Self::Put,
            "delete" => Self::Delete,
            "cas" => Self::Cas,
            "update" => Self::Update,
            "range" => Self::Range,
            "watch" => Self::Watch,
            "lease_grant" => Self::LeaseGrant,
            "lease_keep_alive" => Self::LeaseKeepAlive,
            "lease_revoke" => Self::LeaseRevoke,
            _ => return Err(format!("there is no operation `{name}`")),
        })
    }

    fn method(self) -> &'static str {
        match self {
            Self::Get | Self::Range => "/etcdserverpb.KV/Range",
            Self::Put => "/etcdserverpb.KV/Put",
            Self::Delete => "/etcdserverpb.KV/DeleteRange",
            Self::Cas | Self::Update => "/etcdserverpb.KV/Txn",
            Self::Watch => "/etcdserverpb.Watch/Watch",
            Self::LeaseGrant => "/etcdserverpb.Lease/LeaseGrant",
            Self::LeaseKeepAlive => "/etcdserverpb.Lease/LeaseKeepAlive",
            Self::LeaseRevoke => "/etcdserverpb.Lease/LeaseRevoke",
        }
    }
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "text" => Self::Text,
            "value" => Self::Value,
            "found" => Self::Found,
            "version" => Self::Version,
            "revision" => Self::Revision,
            "succeeded" => Self::Succeeded,
            "count" | "deleted" => Self::Count,
            "id" => Self::Id,
            "ttl" => Self::Ttl,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

/// Returns the text of an argument that selects a form of the request, so it has no placeholders.
fn constant<'a>(call: &'a Call<'_>, name: &str) -> Result<Option<&'a str>, String> {
    let Some(place) = call.argument(name) else { return Ok(None) };
    let text = call.arguments[place].template.as_constant().and_then(|text| std::str::from_utf8(text).ok());
    text.map(Some).ok_or_else(|| format!("`{name}` must be a constant, without placeholders"))
}

/// Lays out the message of a call behind gRPC's prefix: not compressed, and the length.
fn body(verb: EtcdVerb, call: &Call<'_>) -> Result<RequestLayout, String> {
    let mut message = CallLayout { builder: LayoutBuilder::default(), call };
    message.builder.bytes(&[0]);
    let length = message.builder.length(LengthWidth::U32);
    message.builder.begin(length);
    match verb {
        EtcdVerb::Get => message.value(1, "key").consistency()?,
        EtcdVerb::Put => message.put()?,
        EtcdVerb::Delete => message.value(1, "key"),
        EtcdVerb::Cas | EtcdVerb::Update => message.transaction(verb)?,
        EtcdVerb::Range => {
            message.value(1, "prefix").number(3, "limit")?.consistency()?;
            match constant(call, "keys_only")? {
                Some("true") => drop(message.field(8, VARINT, &[1])),
                None | Some("false") => {}
                Some(other) => return Err(format!("`keys_only` must be `true` or `false`, not `{other}`")),
            }
            if constant(call, "prefix").is_ok_and(|prefix| prefix.is_none_or(str::is_empty)) {
                return Err("`prefix` must not be empty".to_owned());
            }
            message.value(2, "prefix")
        }
        EtcdVerb::Watch => {
            let create = message.open(1);
            message.value(1, "key").number(3, "start")?;
            message.close(create)
        }
        EtcdVerb::LeaseGrant => message.number(1, "ttl")?,
        EtcdVerb::LeaseKeepAlive | EtcdVerb::LeaseRevoke => message.number(1, "id")?,
    };
    message.builder.end(length).finish()
}

/// Lays out a message of protobuf from the arguments of a call. An argument that is not given
/// leaves its field out.
struct CallLayout<'a> {
    builder: LayoutBuilder,
    call: &'a Call<'a>,
}

impl CallLayout<'_> {
    /// Adds a field with constant bytes.
    fn field(&mut self, number: u8, kind: u8, bytes: &[u8]) -> &mut Self {
        self.builder.bytes(&[number << 3 | kind]).bytes(bytes);
        self
    }

    /// Begins a field with a message or bytes.
    fn open(&mut self, number: u8) -> LengthSpan {
        self.builder.bytes(&[number << 3 | BYTES]);
        let span = self.builder.length(LengthWidth::Varint);
        self.builder.begin(span);
        span
    }

    fn close(&mut self, span: LengthSpan) -> &mut Self {
        self.builder.end(span);
        self
    }

    fn value(&mut self, number: u8, name: &str) -> &mut Self {
        if let Some(place) = self.call.argument(name) {
            let span = self.open(number);
            self.builder.value(self.call.arguments, place);
            self.close(span);
        }
        self
    }

    fn number(&mut self, number: u8, name: &str) -> Result<&mut Self, String> {
        if let Some(place) = self.call.argument(name) {
            self.builder.bytes(&[number << 3 | VARINT]).number(self.call.arguments, place)?;
        }
        Ok(self)
    }

    fn consistency(&mut self) -> Result<&mut Self, String> {
        match constant(self.call, "consistency")? {
            None | Some("linearizable") => Ok(self),
            Some("serializable") => Ok(self.field(7, VARINT, &[1])),
            Some(other) => Err(format!("`consistency` must be `linearizable` or `serializable`, not `{other}`")),
        }
    }

    /// Adds the fields of a `PutRequest`.
    fn put(&mut self) -> Result<&mut Self, String> {
        self.value(1, "key").value(2, "value").number(3, "lease")
    }

    /// Adds the fields of a `TxnRequest`: a comparison, the put if it holds, and else a read.
    fn transaction(&mut self, verb: EtcdVerb) -> Result<&mut Self, String> {
        const CREATE: u8 = 1;
        const MOD: u8 = 2;
        const VALUE: u8 = 3;
        let comparison = self.open(1);
        let (target, field) = match verb {
            EtcdVerb::Update => (MOD, 6),
            _ if self.call.argument("from").is_some() => (VALUE, 7),
            // A key that does not exist has 0 as the revision of its creation.
            _ => (CREATE, 5),
        };
        // The result is EQUAL, which is 0 and left out.
        self.field(2, VARINT, &[target]).value(3, "key");
        match target {
            MOD => drop(self.number(field, "version")?),
            VALUE => drop(self.value(field, "from")),
            _ => drop(self.field(field, VARINT, &[0])),
        }
        self.close(comparison);
        let (success, request) = (self.open(2), self.open(2));
        self.put()?;
        self.close(request).close(success);
        let (failure, request) = (self.open(3), self.open(1));
        self.value(1, "key");
        Ok(self.close(request).close(failure))
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
