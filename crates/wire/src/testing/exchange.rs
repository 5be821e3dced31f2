//! Exchanges of a request and an answer, without a connection.

use experiment::plan::StreamEnd;

use crate::cause::AttemptCause;
use crate::protocols::{Call, Protocol};
use crate::session::{Encoded, OpenRequests, RequestContext, SessionEvent, SessionProtocol};
use crate::testing::{TestedProtocol, names, source};
use crate::values::{Argument, CompiledTemplate, OperationValues};

/// A compiled request with its arguments.
pub struct Compiled<P: Protocol> {
    pub request: P::Request,
    pub arguments: Vec<Argument>,
    wants: usize,
}

/// Result of decoding some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    More,
    Bad(AttemptCause),
    Answer {
        result: AttemptCause,
        reusable: bool,
        surplus: Vec<u8>,
        fields: Vec<Option<String>>,
        status: String,
        /// Number of messages of a stream.
        messages: u32,
    },
}

impl Seen {
    /// Returns an answer without surplus.
    pub fn answer(result: AttemptCause, reusable: bool, status: &str, fields: &[Option<&str>]) -> Self {
        let fields = fields.iter().map(|field| field.map(str::to_owned)).collect();
        Self::Answer { result, reusable, surplus: Vec::new(), fields, status: status.to_owned(), messages: 0 }
    }

    /// The same answer as a stream of `count` messages.
    #[must_use]
    pub fn with_messages(mut self, count: u32) -> Self {
        if let Self::Answer { messages, .. } = &mut self {
            *messages = count;
        }
        self
    }
}

/// Returns the bytes as text. Bytes that are not UTF-8 are escaped.
pub fn shown(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

/// Compiles a step.
pub fn compile<P: Protocol>(
    protocol: &P,
    operation: &str,
    with: &[(&str, &str)],
    wants: &[&str],
) -> Result<Compiled<P>, String> {
    compile_for(protocol, operation, with, wants, false)
}

/// Compiles a step whose answer is read as a stream up to this end.
pub fn compile_stream<P: Protocol>(
    protocol: &P,
    operation: &str,
    with: &[(&str, &str)],
    wants: &[&str],
    end: &StreamEnd,
) -> Result<Compiled<P>, String> {
    compile_with(protocol, operation, with, wants, (false, Some(end)))
}

/// Compiles a step. If `closes`, the connection ends after the answer.
pub fn compile_for<P: Protocol>(
    protocol: &P,
    operation: &str,
    with: &[(&str, &str)],
    wants: &[&str],
    closes: bool,
) -> Result<Compiled<P>, String> {
    compile_with(protocol, operation, with, wants, (closes, None))
}

fn compile_with<P: Protocol>(
    protocol: &P,
    operation: &str,
    with: &[(&str, &str)],
    wants: &[&str],
    (closes, stream): (bool, Option<&StreamEnd>),
) -> Result<Compiled<P>, String> {
    let operation = P::INFO.operations.iter().find(|known| known.name == operation).unwrap();
    let arguments: Vec<Argument> = with
        .iter()
        .enumerate()
        .map(|(stream, (name, text))| Argument {
            name: (*name).to_owned(),
            template: CompiledTemplate::compile(text, stream as u64, &names()).unwrap(),
        })
        .collect();
    let wants: Vec<String> = wants.iter().map(|want| (*want).to_owned()).collect();
    let call = Call {
        number: 0,
        operation,
        arguments: &arguments,
        wants: &wants,
        program: None,
        closes,
        cookies: false,
        cookie_host: "",
        follow: 0,
        stream,
    };
    let request = protocol.compile(&call)?;
    Ok(Compiled { request, arguments, wants: wants.len() })
}

/// Returns the bytes of a request.
pub fn encode<P: SessionProtocol>(compiled: &Compiled<P>, id: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let values =
        OperationValues { source: source(3, 12), arguments: &compiled.arguments, cookies: None, redirection: None };
    let (mut session, mut memory) = (P::Session::default(), P::Memory::default());
    let encoded = P::encode(&mut session, &mut memory, &compiled.request, id, &values, &mut out).unwrap();
    assert_eq!(encoded, Encoded::Done);
    out
}

/// The only open request of a connection.
struct OnlyRequest<'a, P: Protocol> {
    request: &'a P::Request,
    id: u32,
}

impl<'a, P: Protocol> OpenRequests<'a, P> for OnlyRequest<'a, P> {
    fn oldest(&self) -> Option<RequestContext<'a, P>> {
        Some(RequestContext { request: self.request, id: self.id })
    }

    fn get(&self, id: u32) -> Option<RequestContext<'a, P>> {
        self.oldest().filter(|request| request.id == id)
    }
}

/// Sends the request. Decodes the pieces one after the other, and then the end of the connection if
/// `ends`. Unused bytes stay in the input when the next piece is appended.
pub fn feed<P: TestedProtocol>(
    compiled: &Compiled<P>,
    memory: &mut P::Memory,
    id: u32,
    pieces: &[&[u8]],
    ends: bool,
) -> Seen {
    let open = OnlyRequest { request: &compiled.request, id };
    let mut session = P::Session::default();
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let values =
        OperationValues { source: source(3, 12), arguments: &compiled.arguments, cookies: None, redirection: None };
    let encoded = P::encode(&mut session, memory, &compiled.request, id, &values, &mut out);
    assert_eq!(encoded, Ok(Encoded::Done));
    let mut fed = pieces.iter().map(|piece| (*piece, false)).chain(ends.then_some((&[][..], true)));
    let (mut ended, mut all) = (false, 0);
    let seen = loop {
        match P::receive(&mut session, memory, &open, &input, ended, &mut out) {
            SessionEvent::More { used } => {
                input.drain(..used);
                assert!(input.len() <= P::HELD_BYTES, "{} bytes stay in the input", input.len());
                let Some((piece, is_end)) = fed.next() else { break Seen::More };
                input.extend_from_slice(piece);
                ended = is_end;
            }
            SessionEvent::Part { used, messages, .. } => {
                all += messages;
                input.drain(..used);
            }
            SessionEvent::Control { used }
            | SessionEvent::Pushed { used }
            | SessionEvent::Drain { used }
            | SessionEvent::Untouched { used, .. } => drop(input.drain(..used)),
            SessionEvent::Bad(cause) => break Seen::Bad(cause),
            SessionEvent::Answer { answer, .. } => {
                let mut scratch = Vec::new();
                let status = shown(P::status(&session, &input, &mut scratch));
                let mut fields = Vec::new();
                for want in 0..compiled.wants {
                    scratch.clear();
                    fields.push(P::field(&compiled.request, &session, want, &input, &mut scratch).map(shown));
                }
                let mut surplus = input[answer.used..].to_vec();
                fed.for_each(|(piece, _)| surplus.extend_from_slice(piece));
                let (result, reusable) = (answer.result, answer.reusable);
                break Seen::Answer { result, reusable, surplus, fields, status, messages: all };
            }
        }
    };
    P::reset(&mut session, memory);
    seen
}

/// Decodes the bytes in one piece, in every split into two pieces, and byte by byte. All
/// results must be equal.
pub fn is_the_same_in_pieces<P: TestedProtocol>(compiled: &Compiled<P>, id: u32, bytes: &[u8], ends: bool) -> Seen {
    let whole = feed(compiled, &mut P::Memory::default(), id, &[bytes], ends);
    let mut memory = P::Memory::default();
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(feed(compiled, &mut memory, id, &[left, right], ends), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(feed(compiled, &mut memory, id, &single, ends), whole, "byte by byte");
    whole
}
