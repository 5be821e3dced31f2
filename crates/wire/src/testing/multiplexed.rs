//! A small protocol for tests of the session contract: it answers in any order and in parts, speaks
//! unasked, limits the open requests, cancels, refuses and drains.
//!
//! A frame is the length of its body (2 bytes), its kind (1), the id of a request (4) and the body.
//! The parts of an answer are `p`, or `m` for a message of a stream, and at last `a` or `e`.
//! With `?login`, the client sends `h`, the target a challenge `c`, the client the challenge in
//! reverse as `l`, and the target `w` with the number of requests that the target takes at a time.

use std::io::Read;

use experiment::catalog::{self, Effect, Field, Operation};

use super::hostile::PeerAction::{Again, Drip, Endless, Hear, Reply, Reset, Say, Wait};
use super::hostile::{HostileCase, PeerAction};
use super::{ReceivedRequest, TestedProtocol, read_bytes};
use crate::cause::{AttemptCause, Refusal};
use crate::protocols::{AboutData, Call, Protocol};
use crate::session::{Answer, Encoded, OpenRequests, Opening, SessionEvent, SessionProtocol};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;

/// Number of bytes of a frame before its body.
const HEAD: usize = 7;
/// Longest accepted body of an answer, bytes.
const ANSWER_LIMIT: usize = 100_000;
/// Number of requests that a target takes at a time, without a login.
const WINDOW: u32 = 8;

static INFO: catalog::Protocol = catalog::Protocol {
    name: "multiplexed",
    schemes: &["mux"],
    help: "frames with numbers, for tests",
    operations: &[
        Operation {
            name: "echo",
            help: "asks for the text back",
            takes: TEXT,
            answers: ANSWERED,
            effect: Effect::None,
        },
        Operation {
            name: "listen",
            help: "asks for a stream of messages",
            takes: TEXT,
            answers: ANSWERED,
            effect: Effect::None,
        },
    ],
};

const TEXT: &[Field] = &[Field { name: "text", help: "the text", required: true }];
const ANSWERED: &[Field] = &[Field { name: "text", help: "the text of the answer", required: false }];

/// A target that speaks in frames.
#[derive(Debug)]
pub struct Multiplexed {
    authority: String,
    logs_in: bool,
}

/// A compiled request.
#[derive(Debug)]
pub struct Request {
    /// Index of its argument.
    text: usize,
    is_stream: bool,
}

/// State of a connection.
#[derive(Debug)]
pub struct Session {
    /// Number of requests that the target takes at a time.
    window: u32,
    streams: Vec<Stream>,
    /// Index of the stream that was just answered.
    answered: usize,
}

impl Default for Session {
    fn default() -> Self {
        Self { window: WINDOW, streams: Vec::new(), answered: 0 }
    }
}

/// An open request, with the parts of its answer so far.
#[derive(Debug)]
struct Stream {
    id: u32,
    body: Vec<u8>,
}

impl Session {
    fn find(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    fn remove(&mut self, index: usize, spare: &mut Vec<Vec<u8>>) {
        let mut body = self.streams.swap_remove(index).body;
        body.clear();
        spare.push(body);
    }

    fn frame(
        &mut self,
        spare: &mut Vec<Vec<u8>>,
        Frame { kind, id, body }: Frame<'_>,
        out: &mut Vec<u8>,
    ) -> SessionEvent {
        let used = HEAD + body.len();
        let Some(stream) = self.find(id) else {
            return match kind {
                b'i' => {
                    write_frame(out, b'o', 0, body);
                    SessionEvent::Control { used }
                }
                b'g' => SessionEvent::Drain { used },
                b'w' => {
                    self.window = u32::from(body.first().copied().unwrap_or_default());
                    SessionEvent::Control { used }
                }
                // A late answer to a request that was cancelled.
                b'p' | b'm' | b'a' | b'e' | b'r' => SessionEvent::Control { used },
                _ => SessionEvent::Bad(AttemptCause::BadAnswer),
            };
        };
        if !matches!(kind, b'p' | b'm' | b'a' | b'e' | b'r') {
            return SessionEvent::Bad(AttemptCause::BadAnswer);
        }
        let parts = &mut self.streams[stream].body;
        parts.extend_from_slice(body);
        if parts.len() > ANSWER_LIMIT {
            return SessionEvent::Bad(AttemptCause::TooLong);
        }
        self.answered = stream;
        let result = if kind == b'e' { AttemptCause::Answer(0) } else { AttemptCause::Ok };
        match kind {
            b'p' => SessionEvent::Part { id, used, messages: 0 },
            b'm' => SessionEvent::Part { id, used, messages: 1 },
            b'r' => {
                self.remove(stream, spare);
                SessionEvent::Untouched { id, used }
            }
            _ => SessionEvent::Answer { id, answer: Answer { used, result, reusable: true, is_costly: false } },
        }
    }
}

struct Frame<'a> {
    kind: u8,
    id: u32,
    body: &'a [u8],
}

/// Returns the frame at the beginning of the input, if it is complete.
fn first_frame(input: &[u8]) -> Option<Frame<'_>> {
    let head = input.first_chunk::<HEAD>()?;
    let body = input[HEAD..].get(..usize::from(u16::from_be_bytes([head[0], head[1]])))?;
    Some(Frame { kind: head[2], id: u32::from_be_bytes([head[3], head[4], head[5], head[6]]), body })
}

fn write_frame(out: &mut Vec<u8>, kind: u8, id: u32, body: &[u8]) {
    let length = u16::try_from(body.len()).unwrap();
    out.extend_from_slice(&length.to_be_bytes());
    out.push(kind);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(body);
}

/// Returns a frame.
pub fn frame(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, kind, id, body);
    frame
}

impl Protocol for Multiplexed {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[Refusal { name: "no", harmless: true }];
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        let rest = service.strip_prefix("mux://").unwrap_or(service);
        let (authority, logs_in) = rest.strip_suffix("?login").map_or((rest, false), |authority| (authority, true));
        Ok(Self { authority: authority.to_owned(), logs_in })
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let text = call.argument("text").ok_or_else(|| "no text".to_owned())?;
        Ok(Request { text, is_stream: call.operation.name == "listen" })
    }

    fn may_change(_request: &Request) -> bool {
        true
    }

    fn is_stream(request: &Request) -> bool {
        request.is_stream
    }

    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl SessionProtocol for Multiplexed {
    const SPEAKS_UNASKED: bool = true;
    type Session = Session;
    /// Spare bodies.
    type Memory = Vec<Vec<u8>>;

    fn greet(&self, session: &mut Session, out: &mut Vec<u8>) -> Opening {
        session.window = WINDOW;
        if !self.logs_in {
            return Opening::Open { used: 0 };
        }
        write_frame(out, b'h', 0, b"");
        Opening::Wait { used: 0 }
    }

    fn greeted(&self, session: &mut Session, input: &[u8], out: &mut Vec<u8>) -> Opening {
        let Some(Frame { kind, body, .. }) = first_frame(input) else { return Opening::Wait { used: 0 } };
        let used = HEAD + body.len();
        match kind {
            b'c' => {
                let reversed: Vec<u8> = body.iter().rev().copied().collect();
                write_frame(out, b'l', 0, &reversed);
                Opening::Wait { used }
            }
            b'w' => {
                session.window = u32::from(body.first().copied().unwrap_or_default());
                Opening::Open { used }
            }
            b'e' => Opening::Refused(AttemptCause::Greeted(0)),
            _ => Opening::Refused(AttemptCause::BadAnswer),
        }
    }

    fn encode(
        session: &mut Session,
        spare: &mut Vec<Vec<u8>>,
        request: &Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable> {
        if session.streams.len() >= session.window as usize {
            return Ok(Encoded::NotNow);
        }
        let begin = out.len();
        write_frame(out, b'q', id, b"");
        values.write(request.text, out);
        let length = u16::try_from(out.len() - begin - HEAD).unwrap();
        out[begin..begin + 2].copy_from_slice(&length.to_be_bytes());
        session.streams.push(Stream { id, body: spare.pop().unwrap_or_default() });
        Ok(Encoded::Done)
    }

    fn receive<'a>(
        session: &mut Session,
        spare: &mut Vec<Vec<u8>>,
        _open: &impl OpenRequests<'a, Self>,
        input: &[u8],
        _ended: bool,
        out: &mut Vec<u8>,
    ) -> SessionEvent {
        match first_frame(input) {
            Some(frame) => session.frame(spare, frame, out),
            None => SessionEvent::More { used: 0 },
        }
    }

    fn cancel(session: &mut Session, spare: &mut Vec<Vec<u8>>, id: u32, out: &mut Vec<u8>) -> bool {
        if let Some(stream) = session.find(id) {
            session.remove(stream, spare);
            write_frame(out, b'x', id, b"");
        }
        true
    }

    fn field<'a>(
        _request: &'a Request,
        session: &'a Session,
        _want: usize,
        _input: &'a [u8],
        _scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        session.streams.get(session.answered).map(|stream| stream.body.as_slice())
    }

    fn redirect<'a>(_session: &'a Session, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        None
    }

    fn status_code(_session: &Session) -> Option<u16> {
        None
    }

    fn status<'a>(_session: &'a Session, input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if input.get(2) == Some(&b'e') { b"no" } else { b"ok" }
    }

    fn finish(session: &mut Session, spare: &mut Vec<Vec<u8>>) {
        session.remove(session.answered, spare);
    }

    fn reset(session: &mut Session, spare: &mut Vec<Vec<u8>>) {
        while !session.streams.is_empty() {
            session.remove(0, spare);
        }
    }
}

impl TestedProtocol for Multiplexed {
    const HOSTILE: &'static [HostileCase] = CASES;
    const GREETED: Option<&'static str> = Some("mux://127.0.0.1:1?login");

    fn read_request(from: &mut dyn Read) -> Option<ReceivedRequest> {
        let head = read_bytes(from, HEAD)?;
        let body = read_bytes(from, usize::from(u16::from_be_bytes([head[0], head[1]])))?;
        Some(ReceivedRequest { opcode: head[2], id: u32::from_be_bytes([head[3], head[4], head[5], head[6]]), body })
    }
}

const fn case(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    let (service, with, keep) = ("mux://{address}", ["text=hi"].as_slice(), Some("answer.text"));
    HostileCase { service, call: "echo", with, keep, ..HostileCase::new(name, actions, ends) }
}

const fn login(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> HostileCase {
    HostileCase { service: "mux://{address}?login", greets: true, ..case(name, actions, ends) }
}

const PING: &[u8] = b"\0\x02i\0\0\0\0hi";
const GONE: &[u8] = b"\0\0g\0\0\0\0";
const CHALLENGE: &[u8] = b"\0\x03c\0\0\0\0abc";
const WELCOME: &[u8] = b"\0\x01w\0\0\0\0\x04";
/// A part of 32 bytes for a request that no client has sent.
const STRANGE: &[u8] = b"\0\x20p\x7f\xff\xff\xff--------------------------------";

static CASES: &[HostileCase] = &[
    case("answers", &[Hear, Reply(|id| frame(b'a', id, b"hi")), Again], &["ok"]),
    case("refuses", &[Hear, Reply(|id| frame(b'e', id, b"")), Again], &["answer: no"]),
    case("answers twice", &[Hear, Reply(|id| frame(b'a', id, b"hi").repeat(2)), Again], &["ok"]),
    case(
        "answers in parts and pings",
        &[Hear, Reply(|id| frame(b'p', id, b"h")), Say(PING), Hear, Reply(|id| frame(b'a', id, b"i")), Wait],
        &["timeout"],
    )
    .or(&["ok"]),
    case("pings at once", &[Say(PING), Hear, Wait], &["timeout"]),
    case("answers strangers", &[Hear, Reply(|id| frame(b'a', id ^ 0x4000_0000, b"hi")), Wait], &["timeout"]),
    case("answers strangers without end", &[Hear, Endless(STRANGE)], &["timeout"]),
    case("pings without end", &[Hear, Endless(PING)], &[]).or(&["bad answer", "timeout"]),
    case(
        "an answer without end",
        &[Hear, Reply(|id| frame(b'p', id, &[b'x'; 50_000]).repeat(3)), Wait],
        &["answer too long"],
    ),
    case("an unknown kind", &[Hear, Reply(|id| frame(b'?', id, b"")), Wait], &["bad answer"]),
    case("an unknown kind for nobody", &[Hear, Say(b"\0\0?\0\0\0\0"), Wait], &["bad answer"]),
    case("a ping in an answer's name", &[Hear, Reply(|id| frame(b'i', id, b"")), Wait], &["bad answer"]),
    case(
        "another protocol",
        &[Hear, Say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), Wait],
        &["timeout"],
    ),
    case("zeros without end", &[Hear, Endless(b"\0")], &["bad answer"]),
    case("cut in its head", &[Hear, Say(b"\0\0a")], &["connection closed"]),
    case("cut in its body", &[Hear, Reply(|id| frame(b'a', id, b"hi")[..8].to_vec())], &["connection closed"]),
    case("cut, and silence", &[Hear, Reply(|id| frame(b'a', id, b"hi")[..8].to_vec()), Wait], &["timeout"]),
    case("cut, and a reset", &[Hear, Say(b"\0\0a"), Reset], &["connection reset"]),
    case("a byte now and then", &[Hear, Drip(PING)], &["timeout"]),
    case("silence", &[Hear, Wait], &["timeout"]),
    case("drains and answers nothing", &[Hear, Say(GONE), Wait], &["timeout"]),
    case("drains and closes", &[Hear, Say(GONE)], &["connection closed"]).or(&["connection reset"]),
    case("drains and answers", &[Hear, Say(GONE), Reply(|id| frame(b'a', id, b"hi")), Wait], &["ok"]).or(&["timeout"]),
    case("never begins", &[Hear, Reply(|id| frame(b'r', id, b"")), Again], &["timeout"]),
    case("takes nothing", &[Say(b"\0\x01w\0\0\0\0\0"), Wait], &["timeout"]),
    login(
        "a login",
        &[Hear, Say(CHALLENGE), Hear, Say(WELCOME), Hear, Reply(|id| frame(b'a', id, b"hi")), Wait],
        &["ok"],
    )
    .or(&["timeout"]),
    login("refuses to be greeted", &[Hear, Say(b"\0\0e\0\0\0\0"), Wait], &["answer: no"]),
    login("refuses the login", &[Hear, Say(CHALLENGE), Hear, Say(b"\0\0e\0\0\0\0"), Wait], &["answer: no"]),
    login("challenges and ends", &[Hear, Say(CHALLENGE)], &["connect failed"]),
    login("challenges and is silent", &[Hear, Say(CHALLENGE), Wait], &["connect timeout"]),
    login("challenges without end", &[Hear, Endless(CHALLENGE)], &[]).or(&["connect failed", "connect timeout"]),
    login("answers before the login", &[Hear, Say(b"\0\0a\0\0\0\x01"), Wait], &["connect failed"]),
    login("welcomes and ends", &[Hear, Say(WELCOME)], &["connection closed"]).or(&["connection reset"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exchange::{Seen, compile, is_the_same_in_pieces};
    use crate::testing::fuzz;

    #[test]
    fn pieces_do_not_matter() {
        let compiled = compile(&Multiplexed::open("mux://h:1").unwrap(), "echo", &[("text", "hi")], &["text"]).unwrap();
        // The answer is a late one to another request.
        let bytes = [frame(b'i', 0, b"ping"), frame(b'a', 8, b"hi"), frame(b'?', 0, b"")].concat();
        assert_eq!(is_the_same_in_pieces(&compiled, 7, &bytes, false), Seen::Bad(AttemptCause::BadAnswer));
    }

    #[test]
    fn nonsense_never_panics() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2000 {
            let mut input: Vec<u8> = (0..random.usize(..64)).map(|_| random.u8(..4)).collect();
            for at in [4, 11, 18] {
                if let Some(kind) = input.get_mut(at) {
                    *kind = random.choice(*b"cwigpmaer?").unwrap();
                }
            }
            fuzz::answers::<Multiplexed>(&input);
        }
    }
}
