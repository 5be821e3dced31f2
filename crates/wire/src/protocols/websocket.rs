//! WebSocket over TCP or TLS (RFC 6455). Agents hold sockets, and an operation is a message with
//! the message that answers it. The protocol does not say which messages belong together, so a step
//! does: the next message, the one with the same value, the one that contains a text, or none.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use experiment::catalog::{self, Effect, Field, Operation};

use self::frame::{FrameKind, SocketFrame};
use self::handshake::Handshake;
use super::{AboutData, Call, Protocol, ShownAnswer};
use crate::answer_budget::BudgetShare;
use crate::cause::{AttemptCause, Refusal};
use crate::pointer::CompiledPointer;
use crate::session::{Answer, Encoded, OpenRequests, Opening, SessionEvent, SessionProtocol};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;
use crate::values::encoding::ValuePlace;

mod frame;
mod handshake;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

const MESSAGE: Field = Field { name: "message", help: "the message to send", required: true };
const KIND: Field = Field { name: "kind", help: "`text`, which is the default, or `binary`", required: false };
const ANSWERED: &[Field] = &[
    Field { name: "message", help: "the message that answers", required: false },
    Field { name: "kind", help: "`text` or `binary`", required: false },
];

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "websocket",
    schemes: &["ws", "wss"],
    help: "WebSocket: messages over a socket that agents hold; ws://host/path, wss://host/path",
    operations: &[
        Operation {
            name: "send",
            help: "sends a message and waits for the message that answers it: the next one, unless `match` or \
                   `contains` says which",
            takes: &[
                MESSAGE,
                KIND,
                Field {
                    name: "match",
                    help: "a JSON pointer: the answer has the same value there as the sent message, such as \"/id\"",
                    required: false,
                },
                Field { name: "contains", help: "a text that the answer contains", required: false },
            ],
            answers: ANSWERED,
            effect: Effect::None,
        },
        Operation {
            name: "post",
            help: "sends a message that nothing answers; a ping behind it tells when the server has read it",
            takes: &[MESSAGE, KIND],
            answers: &[],
            effect: Effect::None,
        },
        Operation {
            name: "receive",
            help: "waits for messages that the server sends by itself; the last of them is the answer",
            takes: &[Field { name: "messages", help: "the number of messages; default: 1", required: false }],
            answers: ANSWERED,
            effect: Effect::None,
        },
    ],
};

/// Code of a connection that has served its purpose (RFC 6455, 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;
/// Longest accepted message, bytes.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// A WebSocket server.
#[derive(Debug)]
pub struct Websocket {
    handshake: Handshake,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    /// Index of the message among the arguments. `None` if nothing is sent.
    message: Option<usize>,
    kind: FrameKind,
    answer: AnswerRule,
    wants: Box<[Want]>,
}

/// Rule by which a message answers a request.
#[derive(Debug)]
enum AnswerRule {
    /// The next message that answers no other request.
    Next,
    /// The message has the same value as the request at this place.
    Same(CompiledPointer),
    /// The message contains the argument with this index.
    Contains(usize),
    /// The pong to the ping that follows the request.
    Pong,
    /// This number of messages that answer no other request.
    Pushed(u32),
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Message,
    Kind,
}

/// State of a connection.
#[derive(Debug, Default)]
pub struct WebsocketState {
    /// Number of the connection, from which its key is made.
    number: u32,
    /// Requests without an answer, in the order in which they were sent.
    open: Vec<OpenMessage>,
    /// Kind of the message whose frames are arriving, if it has several.
    fragmented: Option<FrameKind>,
    /// Frames of the message so far.
    stored: Vec<u8>,
    /// Share of the budget that `stored` uses.
    held: BudgetShare,
    /// Code with which the server has closed the connection.
    closed: Option<u16>,
    answered: AnsweredMessage,
}

/// A request without an answer.
#[derive(Debug)]
struct OpenMessage {
    id: u32,
    expected: ExpectedMessage,
}

/// The message that answers a request.
#[derive(Debug)]
enum ExpectedMessage {
    Next,
    /// Hash of the value that the messages share.
    Same(u64),
    Contains(Vec<u8>),
    Pong,
    /// Number of messages that are still missing. If it is 0, the next message is the last one,
    /// which is read again after it was counted.
    Pushed(u32),
}

/// The message that was just received.
#[derive(Debug, Default)]
struct AnsweredMessage {
    /// Index of the request among the open ones.
    request: usize,
    is_binary: bool,
    /// Position in the input, or `None` if the message is stored.
    place: Option<Range<usize>>,
}

/// State of a thread.
#[derive(Debug, Default)]
pub struct MessageScratch {
    /// Spare buffers for texts.
    spare: Vec<Vec<u8>>,
    /// Buffer for a value with escapes.
    value: Vec<u8>,
}

impl Protocol for Websocket {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &handshake::REFUSALS;
    const ALPN: &'static [&'static [u8]] = &[b"http/1.1"];
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        Handshake::parse(service).map(|handshake| Self { handshake })
    }

    fn authority(&self) -> &str {
        &self.handshake.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.handshake.tls_host.as_deref()
    }

    /// A message that begins like JSON is JSON.
    fn value_place(argument: &str, arguments: &BTreeMap<String, String>) -> ValuePlace {
        let message = arguments.get("message").map_or("", |message| message.trim_start());
        // A literal brace is written twice in a template.
        let is_json = arguments.contains_key("match") || message.starts_with("{{") || message.starts_with('[');
        if argument == "message" && is_json { ValuePlace::Json } else { ValuePlace::Plain }
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        Ok(Request {
            message: call.argument("message"),
            kind: match constant(call, "kind")?.unwrap_or("text") {
                "text" => FrameKind::Text,
                "binary" => FrameKind::Binary,
                other => return Err(format!("`kind` is `text` or `binary`, not `{other}`")),
            },
            answer: AnswerRule::of(call)?,
            wants: call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?,
        })
    }

    /// A message may change data; Plimsoll cannot tell.
    fn may_change(request: &Request) -> bool {
        request.message.is_some()
    }

    fn is_stream(request: &Request) -> bool {
        matches!(request.answer, AnswerRule::Pushed(_))
    }

    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl SessionProtocol for Websocket {
    const SPEAKS_UNASKED: bool = true;
    const HAS_PUSHES: bool = true;
    type Session = WebsocketState;
    type Memory = MessageScratch;

    fn greet(&self, session: &mut WebsocketState, out: &mut Vec<u8>) -> Opening {
        session.number = self.handshake.request(out);
        Opening::Wait { used: 0 }
    }

    fn greeted(&self, session: &mut WebsocketState, input: &[u8], _out: &mut Vec<u8>) -> Opening {
        self.handshake.answered(session.number, input)
    }

    fn encode(
        session: &mut WebsocketState,
        memory: &mut MessageScratch,
        request: &Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable> {
        let begin = out.len();
        if let Some(message) = request.message {
            values.write(message, out);
        }
        let body = &out[begin..];
        if request.kind == FrameKind::Text && std::str::from_utf8(body).is_err() {
            return Err(NotSendable::InMessage);
        }
        let expected = match &request.answer {
            AnswerRule::Next => ExpectedMessage::Next,
            AnswerRule::Same(pointer) => {
                ExpectedMessage::Same(hash_at(pointer, body, &mut memory.value).ok_or(NotSendable::NoMatch)?)
            }
            AnswerRule::Contains(text) => {
                let mut wanted = memory.spare.pop().unwrap_or_default();
                values.write(*text, &mut wanted);
                ExpectedMessage::Contains(wanted)
            }
            AnswerRule::Pong => ExpectedMessage::Pong,
            AnswerRule::Pushed(messages) => ExpectedMessage::Pushed(*messages),
        };
        let mask = mask_of(id);
        if request.message.is_some() {
            frame::wrap(request.kind, mask, begin, out);
        }
        // A request of no bytes would wait for bytes of others to be sent.
        if matches!(expected, ExpectedMessage::Pong | ExpectedMessage::Pushed(_)) {
            frame::write(FrameKind::Ping, mask, &id.to_be_bytes(), out);
        }
        session.open.push(OpenMessage { id, expected });
        Ok(Encoded::Done)
    }

    fn receive<'a>(
        session: &mut WebsocketState,
        memory: &mut MessageScratch,
        open: &impl OpenRequests<'a, Self>,
        input: &[u8],
        ended: bool,
        out: &mut Vec<u8>,
    ) -> SessionEvent {
        session.receive(memory, open, input, ended, out).unwrap_or_else(SessionEvent::Bad)
    }

    /// A late answer to a request that names its answer is counted as a message that the server
    /// sent by itself. The next message, without a name, would be taken for the next answer.
    fn cancel(session: &mut WebsocketState, memory: &mut MessageScratch, id: u32, _out: &mut Vec<u8>) -> bool {
        let Some(index) = session.open.iter().position(|open| open.id == id) else { return true };
        let is_next = matches!(session.open[index].expected, ExpectedMessage::Next);
        if !is_next {
            session.remove(index, memory);
        }
        !is_next
    }

    fn leave(session: &mut WebsocketState, out: &mut Vec<u8>) {
        if session.closed.is_none() {
            frame::write(FrameKind::Close, mask_of(session.number), &NORMAL_CLOSURE.to_be_bytes(), out);
        }
    }

    fn field<'a>(
        request: &'a Request,
        session: &'a WebsocketState,
        want: usize,
        input: &'a [u8],
        _scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        match request.wants.get(want)? {
            Want::Message => session.message(input),
            Want::Kind => Some(if session.answered.is_binary { b"binary" } else { b"text" }),
        }
    }

    fn shown<'a>(session: &'a WebsocketState, input: &'a [u8]) -> ShownAnswer<'a> {
        ShownAnswer { bytes: session.message(input).unwrap_or_default(), is_decoded: false }
    }

    fn redirect<'a>(_session: &'a WebsocketState, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        None
    }

    fn status_code(_session: &WebsocketState) -> Option<u16> {
        None
    }

    fn status<'a>(_session: &'a WebsocketState, _input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        b"ok"
    }

    fn finish(session: &mut WebsocketState, memory: &mut MessageScratch) {
        session.remove(session.answered.request, memory);
        session.drop_stored();
    }

    fn reset(session: &mut WebsocketState, memory: &mut MessageScratch) {
        while let Some(last) = session.open.len().checked_sub(1) {
            session.remove(last, memory);
        }
        session.drop_stored();
        session.closed = None;
        session.fragmented = None;
    }
}

impl WebsocketState {
    fn receive<'a>(
        &mut self,
        memory: &mut MessageScratch,
        open: &impl OpenRequests<'a, Websocket>,
        input: &[u8],
        ended: bool,
        out: &mut Vec<u8>,
    ) -> Result<SessionEvent, AttemptCause> {
        if let Some(code) = self.closed {
            // Nothing that follows a closing frame is read.
            let used = input.len();
            return if ended { Err(AttemptCause::CloseFrame(code)) } else { Ok(SessionEvent::More { used }) };
        }
        let Some(head) = SocketFrame::read(input)? else { return Ok(SessionEvent::More { used: 0 }) };
        if head.body > MESSAGE_LIMIT - self.stored.len() {
            return Err(AttemptCause::TooLong);
        }
        let used = head.head + head.body;
        let Some(body) = input.get(head.head..used) else { return Ok(SessionEvent::More { used: 0 }) };
        match head.kind {
            FrameKind::Ping => {
                frame::write(FrameKind::Pong, mask_of(self.number), body, out);
                Ok(SessionEvent::Control { used })
            }
            FrameKind::Pong => Ok(self.pong(body, used)),
            FrameKind::Close => {
                let code = frame::close_code(body)?;
                self.closed = Some(code);
                frame::write(FrameKind::Close, mask_of(self.number), body.get(..2).unwrap_or_default(), out);
                Ok(SessionEvent::Drain { used })
            }
            FrameKind::Text | FrameKind::Binary if self.fragmented.is_some() => Err(AttemptCause::BadAnswer),
            FrameKind::Text | FrameKind::Binary if head.is_last => {
                self.message_received(memory, open, body, (head.kind, used, Some(head.head..used)))
            }
            FrameKind::Text | FrameKind::Binary => {
                self.fragmented = Some(head.kind);
                self.store(body, used)
            }
            FrameKind::Continuation => {
                let kind = self.fragmented.ok_or(AttemptCause::BadAnswer)?;
                let before = self.stored.len();
                let event = self.store(body, used)?;
                if !head.is_last {
                    return Ok(event);
                }
                let message = std::mem::take(&mut self.stored);
                let event = self.message_received(memory, open, &message, (kind, used, None))?;
                self.stored = message;
                if let SessionEvent::Part { used: 0, .. } = event {
                    self.stored.truncate(before);
                    return Ok(event);
                }
                self.fragmented = None;
                if !matches!(event, SessionEvent::Answer { .. }) {
                    self.drop_stored();
                }
                Ok(event)
            }
        }
    }

    /// Appends a frame to the message that is arriving.
    fn store(&mut self, body: &[u8], used: usize) -> Result<SessionEvent, AttemptCause> {
        if !self.held.grow_to(self.stored.len() + body.len()) {
            return Err(AttemptCause::TooLarge);
        }
        self.stored.extend_from_slice(body);
        Ok(SessionEvent::Control { used })
    }

    /// Drops the stored message. Memory of a long message is given back.
    fn drop_stored(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.stored.clear();
        self.stored.shrink_to(KEPT);
        self.held = BudgetShare::default();
    }

    /// A server may answer the last of several pings only (RFC 6455, 5.5.3), so a pong also answers
    /// what was sent before its ping.
    fn pong(&mut self, body: &[u8], used: usize) -> SessionEvent {
        let is_ours =
            |open: &OpenMessage| matches!(open.expected, ExpectedMessage::Pong) && body == open.id.to_be_bytes();
        let Some(last) = self.open.iter().position(is_ours) else { return SessionEvent::Control { used } };
        let first = self.open.iter().position(|open| matches!(open.expected, ExpectedMessage::Pong)).unwrap_or(last);
        // The pong is read again until it has answered all of them.
        let used = if first == last { used } else { 0 };
        self.answer(first, used, (false, Some(0..0)))
    }

    /// Finds the request that a message answers.
    fn message_received<'a>(
        &mut self,
        memory: &mut MessageScratch,
        open: &impl OpenRequests<'a, Websocket>,
        message: &[u8],
        (kind, used, place): (FrameKind, usize, Option<Range<usize>>),
    ) -> Result<SessionEvent, AttemptCause> {
        if kind == FrameKind::Text && std::str::from_utf8(message).is_err() {
            return Err(AttemptCause::BadAnswer);
        }
        let found = self.named_answer(memory, open, message).or_else(|| {
            self.open
                .iter()
                .position(|open| matches!(open.expected, ExpectedMessage::Next | ExpectedMessage::Pushed(_)))
        });
        let Some(index) = found else { return Ok(SessionEvent::Pushed { used }) };
        let id = self.open[index].id;
        if let ExpectedMessage::Pushed(missing @ 1..) = &mut self.open[index].expected {
            *missing -= 1;
            let used = if *missing == 0 { 0 } else { used };
            return Ok(SessionEvent::Part { id, used, messages: 1 });
        }
        Ok(self.answer(index, used, (kind == FrameKind::Binary, place)))
    }

    /// Returns the index of the first request that names the message as its answer.
    fn named_answer<'a>(
        &self,
        memory: &mut MessageScratch,
        open: &impl OpenRequests<'a, Websocket>,
        message: &[u8],
    ) -> Option<usize> {
        // Most open requests have the same pointer, so the message is searched once.
        let mut last: Option<(&CompiledPointer, Option<u64>)> = None;
        self.open.iter().position(|waiting| match &waiting.expected {
            ExpectedMessage::Same(hash) => {
                let Some(AnswerRule::Same(pointer)) = open.get(waiting.id).map(|open| &open.request.answer) else {
                    return false;
                };
                let found = match last {
                    Some((known, found)) if known == pointer => found,
                    _ => hash_at(pointer, message, &mut memory.value),
                };
                last = Some((pointer, found));
                found == Some(*hash)
            }
            ExpectedMessage::Contains(text) => memchr::memmem::find(message, text).is_some(),
            ExpectedMessage::Next | ExpectedMessage::Pong | ExpectedMessage::Pushed(_) => false,
        })
    }

    fn answer(
        &mut self,
        request: usize,
        used: usize,
        (is_binary, place): (bool, Option<Range<usize>>),
    ) -> SessionEvent {
        self.answered = AnsweredMessage { request, is_binary, place };
        let answer = Answer { used, result: AttemptCause::Ok, reusable: true, is_costly: false };
        SessionEvent::Answer { id: self.open[request].id, answer }
    }

    /// Returns the message that was just received.
    fn message<'a>(&'a self, input: &'a [u8]) -> Option<&'a [u8]> {
        match &self.answered.place {
            Some(place) => input.get(place.clone()),
            None => Some(&self.stored),
        }
    }

    fn remove(&mut self, index: usize, memory: &mut MessageScratch) {
        if index >= self.open.len() {
            return;
        }
        if let ExpectedMessage::Contains(mut text) = self.open.remove(index).expected {
            text.clear();
            memory.spare.push(text);
        }
    }
}

/// Returns the mask of a frame. A mask protects proxies from what a browser's scripts could make it
/// send; a load generator needs none that cannot be predicted.
fn mask_of(id: u32) -> [u8; 4] {
    id.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// Returns the hash of the value at a place of a JSON text.
fn hash_at(pointer: &CompiledPointer, json: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
    let value = pointer.find(json, scratch)?;
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns an argument that is the same for all operations of a step.
fn constant<'a>(call: &'a Call<'_>, name: &str) -> Result<Option<&'a str>, String> {
    let Some(index) = call.argument(name) else { return Ok(None) };
    let text = call.arguments[index].template.as_constant().and_then(|text| std::str::from_utf8(text).ok());
    text.map(Some).ok_or_else(|| format!("`{name}` is the same for all operations: it takes no placeholders"))
}

impl AnswerRule {
    fn of(call: &Call<'_>) -> Result<Self, String> {
        match (call.operation.name, constant(call, "match")?, call.argument("contains")) {
            ("send", Some(_), Some(_)) => Err("`match` and `contains` exclude each other".to_owned()),
            ("send", Some(pointer), None) => CompiledPointer::compile(pointer).map(Self::Same),
            ("send", None, Some(text)) => Ok(Self::Contains(text)),
            ("send", None, None) => Ok(Self::Next),
            ("post", ..) => Ok(Self::Pong),
            _ => {
                let messages = constant(call, "messages")?.unwrap_or("1").parse();
                let messages = messages.ok().filter(|messages| *messages > 0);
                messages.map(Self::Pushed).ok_or_else(|| "`messages` is a number from 1".to_owned())
            }
        }
    }
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "message" => Ok(Self::Message),
            "kind" => Ok(Self::Kind),
            _ => Err(format!("an answer has no `{name}`")),
        }
    }
}
