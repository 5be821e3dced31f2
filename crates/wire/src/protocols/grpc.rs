//! gRPC over HTTP/2: unary calls, and calls whose requests or answers are streams of messages.
//! Messages are compiled from JSON before the load, by the types of `.proto` files or of the
//! target's server reflection. The status in the trailers decides the outcome.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use experiment::catalog::{self, Effect, Field, Operation};
use experiment::example::DescribedCall;
use flate2::Compression;
use flate2::write::GzEncoder;

use self::answer::{CallAnswer, CallShape, FRAME, GrpcMemory};
use self::status::REFUSALS;
use super::http::HttpAddress;
use super::http::request::{checked, header_check};
use super::{AboutData, Call, DescribingCall, Protocol, ShownAnswer};
use crate::cause::{AttemptCause, Refusal};
use crate::http2::hpack::{self, HeaderBlock};
use crate::http2::{BodyEnd, OpenBody, OverHttp2, StreamAnswer, StreamFault, StreamProgress, StreamProtocol};
use crate::protobuf::field_path::FieldPath;
use crate::protobuf::json_text;
use crate::protobuf::message_layout::{self, MessageLayout};
use crate::protobuf::types::{MessageTypes, RpcMethod};
use crate::values::allowed::NotSendable;
use crate::values::layout::{LayoutBuilder, RequestLayout};
use crate::values::{CompiledTemplate, OperationValues, write_decimal};

pub mod answer;
mod built_in;
mod described;
mod reflection;
pub mod status;

const METHOD: Field = Field { name: "method", help: "the method: package.Service/Method", required: true };
const MESSAGE: Field = Field {
    name: "message",
    help: "the message as JSON, in which a placeholder is a value or part of a text; an array is a stream; default: {}",
    required: false,
};
const MESSAGES: Field = Field {
    name: "messages",
    help: "stream of messages: number of times that `message` is sent; default: 1",
    required: false,
};
const METADATA: Field = Field {
    name: "metadata.*",
    help: "a header, such as metadata.authorization; names that end in -bin have base64",
    required: false,
};
const DEADLINE: Field = Field {
    name: "deadline",
    help: "time that the target has, such as 200ms; it is sent as `grpc-timeout`; default: none",
    required: false,
};
const COMPRESSION: Field =
    Field { name: "compression", help: "gzip, of messages without placeholders; default: none", required: false };

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "grpc",
    schemes: &["grpc", "grpcs"],
    help: "gRPC: unary and streaming calls, with TLS (grpcs) or without it (grpc)",
    operations: &[Operation {
        name: "rpc",
        help: "calls a method; the method says whether messages are streams",
        takes: &[METHOD, MESSAGE, MESSAGES, METADATA, DEADLINE, COMPRESSION],
        answers: &[
            Field { name: "status", help: "`ok`, `not_found`, `unavailable`, …", required: false },
            Field { name: "text", help: "the target's text about a status other than `ok`", required: false },
            Field { name: "message", help: "the answer as JSON; of a stream the last message", required: false },
            Field { name: "message.*", help: "a field of the answer, such as message.user.id", required: false },
            Field { name: "messages", help: "number of messages in the answer", required: false },
        ],
        effect: Effect::None,
    }],
};

/// Metadata that a call has by itself.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "grpc-accept-encoding",
    "grpc-encoding",
    "grpc-timeout",
    "host",
    "te",
    "transfer-encoding",
];

/// Longest request without placeholders, bytes.
const LONGEST_REQUEST: usize = 256 * 1024 * 1024;

/// gRPC as the engine uses it.
pub type Grpc = OverHttp2<GrpcStreams>;

/// A gRPC server.
#[derive(Debug)]
pub struct GrpcStreams {
    place: HttpAddress,
    /// Types of the target's messages, if they are known.
    types: Option<Arc<MessageTypes>>,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    headers: RequestLayout,
    body: CallBody,
    shape: CallShape,
    wants: Vec<Want>,
    types: Arc<MessageTypes>,
    /// Index of the type of the messages that are received.
    output: usize,
}

/// Messages of a request.
#[derive(Debug)]
enum CallBody {
    /// Messages without placeholders, with their frames.
    Constant(Vec<u8>),
    Variable {
        /// Index of the argument with the messages.
        argument: usize,
        messages: Vec<MessageLayout>,
        /// Number of times that all messages are sent.
        times: u32,
    },
}

/// A field of an answer.
#[derive(Debug)]
enum Want {
    Status,
    Text,
    Message,
    Messages,
    Field(FieldPath),
}

impl Protocol for GrpcStreams {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &REFUSALS;
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        let place = match service.split_once("://") {
            Some(("grpcs", rest)) => HttpAddress::parse(&format!("https://{rest}")),
            Some(("grpc", rest)) => HttpAddress::parse(&format!("http://{rest}")),
            Some(_) => HttpAddress::parse(service),
            None => HttpAddress::parse(&format!("http://{service}")),
        }?;
        match place.base.as_str() {
            "" => Ok(Self { place, types: None }),
            path => {
                Err(format!("a gRPC target has no path: write `{}` as `method` of the step", path.trim_matches('/')))
            }
        }
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.place.tls_host.as_deref()
    }

    fn lacks_types(&self, arguments: &BTreeMap<String, String>) -> Option<String> {
        let (service, name) = split_method(arguments.get("method")?).ok()?;
        let is_known = |types: &Arc<MessageTypes>| types.method(service, name).is_some();
        (!is_known(built_in::types()) && !self.types.as_ref().is_some_and(is_known)).then(|| service.to_owned())
    }

    fn learn_types(&mut self, types: &Arc<MessageTypes>) {
        self.types = Some(Arc::clone(types));
    }

    fn ask_types(names: &[String], call: &mut DescribingCall<'_>) -> Result<MessageTypes, String> {
        reflection::ask(names, call)
    }

    fn described_calls(types: &MessageTypes) -> Vec<DescribedCall> {
        described::calls(types)
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        compile(self, call)
    }

    fn may_change(_request: &Request) -> bool {
        true
    }

    fn is_stream(request: &Request) -> bool {
        request.shape.answers_stream
    }

    fn about_data(failure: AttemptCause) -> Option<AboutData> {
        let AttemptCause::Answer(number) = failure else { return None };
        let refusal = REFUSALS.get(usize::from(number)).filter(|refusal| refusal.harmless)?;
        match refusal.name {
            "not_found" => Some(AboutData::Missing),
            "already_exists" | "failed_precondition" => Some(AboutData::Different),
            _ => None,
        }
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        match failure {
            AttemptCause::NotHttp2 => Some(
                "the target does not speak HTTP/2 on this port: give the port of its gRPC server, and `grpcs://` if it \
                 uses TLS",
            ),
            AttemptCause::Status(_) => Some(
                "the target answers as a web server or proxy does, without gRPC: give the port of its gRPC server, or \
                 a proxy that passes gRPC on",
            ),
            _ => None,
        }
    }
}

impl StreamProtocol for GrpcStreams {
    type Stream = CallAnswer;
    type Memory = GrpcMemory;

    #[inline]
    fn encode_body(
        request: &Request,
        _stream: &mut CallAnswer,
        _memory: &mut GrpcMemory,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<BodyEnd, NotSendable> {
        match &request.body {
            CallBody::Constant(bytes) => out.extend_from_slice(bytes),
            CallBody::Variable { argument, messages, times } => {
                let Some(argument) = values.arguments.get(*argument) else { return Ok(BodyEnd::Ended) };
                let mut writer = argument.template.piece_writer(&values.source);
                for _ in 0..*times {
                    for message in messages {
                        let begin = out.len();
                        out.extend_from_slice(&[0; FRAME]);
                        message.write(&mut writer, out)?;
                        set_length(out, begin)?;
                    }
                }
            }
        }
        Ok(BodyEnd::Ended)
    }

    #[inline]
    fn encode_headers(
        request: &Request,
        _body: usize,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable> {
        request.headers.write(0, values, out)
    }

    #[inline]
    fn headers(
        _request: &Request,
        answer: &mut CallAnswer,
        memory: &mut GrpcMemory,
        status: u16,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        answer.head(memory, status, block).map(|()| StreamProgress::More)
    }

    #[inline]
    fn data(
        request: &Request,
        answer: &mut CallAnswer,
        memory: &mut GrpcMemory,
        data: &[u8],
        _body: &mut OpenBody<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        Ok(match answer.data(request.shape, memory, data)? {
            messages @ 1.. if request.shape.answers_stream => StreamProgress::Messages(messages),
            _ => StreamProgress::More,
        })
    }

    #[inline]
    fn trailers(
        _request: &Request,
        answer: &mut CallAnswer,
        memory: &mut GrpcMemory,
        block: HeaderBlock<'_>,
    ) -> Result<StreamProgress, StreamFault> {
        answer.fields(memory, block).map(|()| StreamProgress::More)
    }

    #[inline]
    fn end(request: &Request, answer: &mut CallAnswer, memory: &mut GrpcMemory) -> StreamAnswer {
        answer.end(request.shape, memory)
    }

    #[inline]
    fn rest(answer: &mut CallAnswer, memory: &mut GrpcMemory) {
        answer.rest(memory);
    }

    fn field<'a>(
        request: &'a Request,
        answer: &'a CallAnswer,
        want: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        match request.wants.get(want)? {
            Want::Status => Some(answer.call_status().name().as_bytes()),
            Want::Text => Some(&answer.text).filter(|text| !text.is_empty()).map(Vec::as_slice),
            Want::Messages => {
                write_decimal(u64::from(answer.messages), scratch);
                Some(scratch)
            }
            Want::Message => {
                json_text::write_message(&request.types, request.output, answer.message()?, scratch)?;
                Some(scratch)
            }
            Want::Field(path) => path.find(&request.types, answer.message()?, scratch),
        }
    }

    fn shown(answer: &CallAnswer) -> ShownAnswer<'_> {
        ShownAnswer { bytes: &answer.text, is_decoded: true }
    }

    fn status<'a>(answer: &'a CallAnswer, _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        answer.call_status().name().as_bytes()
    }
}

/// Sets the length of the message behind the frame at `begin`.
fn set_length(out: &mut [u8], begin: usize) -> Result<(), NotSendable> {
    let length = u32::try_from(out.len() - begin - FRAME).map_err(|_| NotSendable::TooLong)?;
    out[begin + 1..begin + FRAME].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Splits `package.Service/Method`.
fn split_method(method: &str) -> Result<(&str, &str), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    };
    match method.trim_start_matches('/').split_once('/') {
        Some((service, name)) if is_name(service) && is_name(name) && !name.contains('.') => Ok((service, name)),
        _ => Err(format!("`method`: `{method}` is not the name of a method: write package.Service/Method")),
    }
}

fn compile(grpc: &GrpcStreams, call: &Call<'_>) -> Result<Request, String> {
    call.check()?;
    let method = constant(call, "method")?.unwrap_or_default();
    let (service, name) = split_method(&method)?;
    let own = built_in::types();
    let types = match grpc.types.as_ref() {
        Some(types) if types.method(service, name).is_some() => types,
        Some(types) if own.method(service, name).is_none() => return Err(unknown_method(types, service, name)),
        _ => own,
    };
    let headers = headers(grpc, call, service, name)?;
    let Some(found) = types.method(service, name) else {
        return unchecked(call, headers);
    };
    let wants = call.wants.iter().map(|want| Want::compile(want, types, found)).collect::<Result<Vec<_>, _>>()?;
    let shape = CallShape {
        takes_stream: found.takes_stream,
        answers_stream: found.answers_stream,
        keeps_message: wants.iter().any(|want| matches!(want, Want::Message | Want::Field(_))),
    };
    let body = CallBody::compile(call, types, found)?;
    Ok(Request { headers, body, shape, wants, types: Arc::clone(types), output: found.output })
}

/// Checks a step whose types are not known yet: they come from the target's reflection. The request
/// is not sent.
fn unchecked(call: &Call<'_>, headers: RequestLayout) -> Result<Request, String> {
    if let Some(message) = call.argument("message") {
        let checked = message_layout::check_json(&call.arguments[message].template);
        checked.map_err(|wrong| format!("`message`: {wrong}"))?;
    }
    times(call)?;
    is_gzip(call)?;
    let shape = CallShape { takes_stream: true, answers_stream: true, keeps_message: false };
    let types = Arc::clone(built_in::types());
    Ok(Request { headers, body: CallBody::Constant(Vec::new()), shape, wants: Vec::new(), types, output: 0 })
}

fn unknown_method(types: &MessageTypes, service: &str, name: &str) -> String {
    let of_service = types.methods().iter().filter(|method| method.service == service);
    let known: Vec<&str> = of_service.map(|method| method.name.as_str()).collect();
    if !known.is_empty() {
        return format!("`method`: `{service}` has no method `{name}`; its methods are {}", known.join(", "));
    }
    let mut services: Vec<&str> = types.methods().iter().map(|method| method.service.as_str()).collect();
    services.dedup();
    format!("`method`: there is no service `{service}`; the services are {}", services.join(", "))
}

/// Returns the text of an argument that cannot have placeholders.
fn constant(call: &Call<'_>, name: &str) -> Result<Option<String>, String> {
    let Some(place) = call.argument(name) else { return Ok(None) };
    let text = call.arguments[place].template.as_constant().and_then(|text| std::str::from_utf8(text).ok());
    text.map(|text| Some(text.to_owned()))
        .ok_or_else(|| format!("`{name}` must be a literal text, without placeholders"))
}

fn times(call: &Call<'_>) -> Result<u32, String> {
    let Some(text) = constant(call, "messages")? else { return Ok(1) };
    match text.parse() {
        Ok(times @ 1..=1_000_000) => Ok(times),
        _ => Err(format!("`messages`: expected a number from 1 to 1000000, found `{text}`")),
    }
}

fn is_gzip(call: &Call<'_>) -> Result<bool, String> {
    match constant(call, "compression")?.as_deref() {
        None | Some("none" | "identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(other) => Err(format!("`compression`: expected gzip or none, found `{other}`")),
    }
}

impl CallBody {
    fn compile(call: &Call<'_>, types: &MessageTypes, method: &RpcMethod) -> Result<Self, String> {
        let (argument, times) = (call.argument("message"), times(call)?);
        let empty = CompiledTemplate::constant(b"{}");
        let template = argument.map_or(&empty, |argument| &call.arguments[argument].template);
        let messages = message_layout::compile(types, method.input, template, method.takes_stream);
        let messages = messages.map_err(|wrong| format!("`message`: {wrong}"))?;
        if call.argument("messages").is_some() && !method.takes_stream {
            return Err(format!("`messages`: `{}` takes one message, not a stream", method.name));
        }
        let (constants, is_gzip) = (messages.iter().map(MessageLayout::as_constant).collect(), is_gzip(call)?);
        let constants: Vec<&[u8]> = match (constants, argument) {
            (None, Some(_)) if is_gzip => {
                return Err("`compression`: only a message without placeholders can be compressed".to_owned());
            }
            (None, Some(argument)) => return Ok(Self::Variable { argument, messages, times }),
            (constants, _) => constants.unwrap_or_default(),
        };
        let mut bytes = Vec::new();
        for message in constants.iter().cycle().take(constants.len() * times as usize) {
            let begin = bytes.len();
            if begin + message.len() > LONGEST_REQUEST {
                return Err(format!("`messages`: all messages together have more than {} MiB", LONGEST_REQUEST >> 20));
            }
            bytes.extend_from_slice(&[u8::from(is_gzip), 0, 0, 0, 0]);
            if is_gzip {
                let mut encoder = GzEncoder::new(&mut bytes, Compression::default());
                encoder
                    .write_all(message)
                    .and_then(|()| encoder.finish().map(drop))
                    .map_err(|error| error.to_string())?;
            } else {
                bytes.extend_from_slice(message);
            }
            set_length(&mut bytes, begin).map_err(|why| format!("`message`: {why}"))?;
        }
        Ok(Self::Constant(bytes))
    }
}

impl Want {
    fn compile(name: &str, types: &MessageTypes, method: &RpcMethod) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "text" => Self::Text,
            "message" => Self::Message,
            "messages" => Self::Messages,
            _ => {
                let path = name.strip_prefix("message.").unwrap_or(name);
                Self::Field(FieldPath::compile(types, method.output, path)?)
            }
        })
    }
}

/// Lays out the header block of a call.
fn headers(grpc: &GrpcStreams, call: &Call<'_>, service: &str, name: &str) -> Result<RequestLayout, String> {
    let scheme = if grpc.place.tls_host.is_some() { "https" } else { "http" };
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", &format!("/{service}/{name}")),
        (":authority", &grpc.place.host),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-accept-encoding", "gzip"),
    ] {
        hpack::write_field(name, value.as_bytes(), &mut block);
    }
    if is_gzip(call)? {
        hpack::write_field("grpc-encoding", b"gzip", &mut block);
    }
    if let Some(deadline) = constant(call, "deadline")? {
        hpack::write_field("grpc-timeout", grpc_timeout(&deadline)?.as_bytes(), &mut block);
    }
    let mut builder = LayoutBuilder::default();
    builder.bytes(&block);
    for (number, argument) in call.arguments.iter().enumerate() {
        let Some(name) = argument.name.strip_prefix("metadata.") else { continue };
        let name = name.to_ascii_lowercase();
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if !is_name || OWN_HEADERS.contains(&name.as_str()) {
            return Err(format!("`metadata.{name}`: a call cannot have such metadata, or sets it by itself"));
        }
        let mut value = LayoutBuilder::default();
        checked(&mut value, call, number, &header_check())?;
        let mut begin = Vec::new();
        hpack::write_name(&name, &mut begin);
        builder.bytes(&begin).header_string(value.finish()?, false);
    }
    builder.finish()
}

/// Returns a time as `grpc-timeout` has it: at most eight digits and a unit.
fn grpc_timeout(text: &str) -> Result<String, String> {
    let wrong = || format!("`deadline`: expected a time such as 200ms or 5s, found `{text}`");
    let time_s = experiment::duration::parse_s(text).map_err(|_| wrong())?;
    if time_s <= 0.0 {
        return Err(wrong());
    }
    const UNITS: [(&str, f64); 6] =
        [("n", 1e9), ("u", 1e6), ("m", 1e3), ("S", 1.0), ("M", 1.0 / 60.0), ("H", 1.0 / 3600.0)];
    let fits = |(unit, per_s): (&str, f64)| {
        let number = (time_s * per_s).round();
        (1.0..1e8).contains(&number).then(|| format!("{number}{unit}"))
    };
    UNITS.into_iter().find_map(fits).ok_or_else(wrong)
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
