//! Access for fuzzers to the crate's parsers: protocol decoders, templates, JSON pointers,
//! expectations and recorded schedules. Present only with the feature `fuzzing`.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::plan::Expected;
use wire::pointer::CompiledPointer;
use wire::protocols::command::{Command, ProgramOutcome, ProgramRun, measured};
use wire::protocols::http::Http;
use wire::protocols::lines::Lines;
use wire::protocols::redis::Redis;
use wire::protocols::vsns::Vsns;
use wire::protocols::{Call, Progress, Protocol, RequestContext};
use wire::values::words::TemplateWords;
use wire::values::{Argument, CompiledTemplate, TemplateNames, ValueSource};

use crate::engine::expectation::{ExpectationCompiler, TextCheck};
use crate::schedules::Schedule;
use crate::schedules::replay::Replay;

/// A request and the bytes of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Name of the operation.
    pub operation: &'a str,
    /// Arguments of the operation, without template expansion.
    pub with: &'a [(&'a str, &'a str)],
    /// Fields of the answer to read.
    pub wants: &'a [&'a str],
    /// Id of the request.
    pub id: u32,
    /// The answer, in pieces.
    pub pieces: &'a [&'a [u8]],
    /// Whether the connection ends after the answer.
    pub ends: bool,
}

/// Result of a protocol's decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The answer is not complete.
    More,
    /// The bytes are not a valid answer. Holds the cause.
    Bad(String),
    /// An answer.
    Answer {
        /// Name of the result.
        result: String,
        /// Whether the connection takes another request.
        reusable: bool,
        /// Bytes of the answer, over all pieces.
        bytes: usize,
        /// Values of the requested fields.
        fields: Vec<Option<Vec<u8>>>,
        /// Status in the protocol's terms.
        status: Vec<u8>,
    },
}

/// Result of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeResult {
    pub seen: Decoded,
    /// Most bytes that the decoder left in the input.
    pub held_bytes: usize,
}

/// Decodes the same exchange twice. The second time uses the thread memory of the first.
///
/// # Errors
/// Returns an error if there is no such protocol or operation, or if a decoder uses more bytes than
/// the input has.
pub fn hear(protocol: &str, talk: &Exchange<'_>) -> Result<[ExchangeResult; 2], String> {
    match protocol {
        "command" => hear_in::<Command>(talk),
        "http" => hear_in::<Http>(talk),
        "lines" => hear_in::<Lines>(talk),
        "redis" => hear_in::<Redis>(talk),
        "vsns" => hear_in::<Vsns>(talk),
        _ => Err(format!("there is no door to `{protocol}`")),
    }
}

fn hear_in<P: Protocol>(talk: &Exchange<'_>) -> Result<[ExchangeResult; 2], String> {
    let operation = P::INFO.operations.iter().find(|known| known.name == talk.operation);
    let operation = operation.ok_or_else(|| format!("there is no operation `{}`", talk.operation))?;
    let argument = |(name, value): &(&str, &str)| Argument {
        name: (*name).to_owned(),
        template: CompiledTemplate::constant(value.as_bytes()),
    };
    let arguments: Vec<Argument> = talk.with.iter().map(argument).collect();
    let wants: Vec<String> = talk.wants.iter().map(|want| (*want).to_owned()).collect();
    let call = Call { number: 0, operation, arguments: &arguments, wants: &wants, program: None, closes: false };
    let request = P::open("127.0.0.1:1")?.compile(&call)?;
    let asked = RequestContext::<'_, P> { request: &request, id: talk.id };
    let mut memory = P::Memory::default();
    Ok([feed(&asked, &mut memory, talk)?, feed(&asked, &mut memory, talk)?])
}

/// Decodes the pieces as the engine does: unused bytes stay in the input when the next piece is
/// appended.
fn feed<P: Protocol>(
    asked: &RequestContext<'_, P>,
    memory: &mut P::Memory,
    talk: &Exchange<'_>,
) -> Result<ExchangeResult, String> {
    let mut decoder = P::Decoder::default();
    let (mut input, mut passed, mut held_bytes) = (Vec::new(), 0, 0);
    let mut seen = Decoded::More;
    let end = talk.ends.then_some((&[][..], true));
    for (piece, ended) in talk.pieces.iter().map(|piece| (*piece, false)).chain(end) {
        input.extend_from_slice(piece);
        match P::decode(asked, &mut decoder, memory, &input, ended) {
            Progress::More { used } | Progress::Answer(wire::protocols::Answer { used, .. }) if used > input.len() => {
                return Err(format!("{used} bytes are used of {}", input.len()));
            }
            Progress::More { used } => {
                input.drain(..used);
                passed += used;
                held_bytes = held_bytes.max(input.len());
            }
            Progress::Bad(cause) => {
                seen = Decoded::Bad(cause.text(P::REFUSALS));
                break;
            }
            Progress::Answer(answer) => {
                seen = Decoded::Answer {
                    result: answer.result.text(P::REFUSALS),
                    reusable: answer.reusable,
                    bytes: passed + answer.used,
                    fields: (0..talk.wants.len()).map(|want| field(asked, &decoder, want, &input)).collect(),
                    status: P::status(&decoder, &input, &mut Vec::new()).to_vec(),
                };
                break;
            }
        }
    }
    P::rest(&mut decoder, memory);
    Ok(ExchangeResult { seen, held_bytes })
}

fn field<P: Protocol>(
    asked: &RequestContext<'_, P>,
    decoder: &P::Decoder,
    want: usize,
    input: &[u8],
) -> Option<Vec<u8>> {
    P::field(asked.request, decoder, want, input, &mut Vec::new()).map(<[u8]>::to_vec)
}

/// Output of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedTemplate {
    pub value: Vec<u8>,
    /// Output of a second write.
    pub again: Vec<u8>,
    /// Length of every output, as declared by the template.
    pub fixed_length: Option<usize>,
    /// Constant output, as declared by the template.
    pub constant: Option<Vec<u8>>,
}

/// Compiles a template without slots, feeds and programs.
fn compile(text: &str) -> Result<CompiledTemplate, String> {
    CompiledTemplate::compile(text, 0, &TemplateNames { slots: &[], feeds: &[], program: None, own: BTreeMap::new() })
}

const SOURCE: ValueSource<'static> =
    ValueSource { agent: 3, seq: 12, copy: 1, draw: 99, slots: &[], kept: 0, feeds: &[], records: &[] };

/// Compiles a template without slots and feeds, and writes it.
pub fn write(text: &str) -> Result<RenderedTemplate, String> {
    let template = compile(text)?;
    let (mut value, mut again) = (Vec::new(), Vec::new());
    template.write(&SOURCE, &mut value);
    template.write(&SOURCE, &mut again);
    let constant = template.as_constant().map(<[u8]>::to_vec);
    Ok(RenderedTemplate { value, again, fixed_length: template.fixed_length(), constant })
}

/// Splits a template into words, as in a command, and writes the words.
pub fn words(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let words = TemplateWords::cut(&compile(text)?)?;
    let mut saying = words.say(&SOURCE);
    let next = |_| {
        let mut word = Vec::new();
        saying.next_into(&mut word);
        word
    };
    Ok((0..words.count()).map(next).collect())
}

/// Result of decoding the answer to a protocol's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeted {
    /// The answer is not complete.
    More,
    /// The bytes are not a valid answer. Holds the cause.
    Bad(String),
    /// A complete answer: name of the result, and number of bytes.
    Answer(String, usize),
}

/// Opens a service and decodes the answer to its greeting. `None` if the protocol has no greeting.
///
/// # Errors
/// Returns an error if there is no such protocol, or if the service's address is not valid.
pub fn greet(protocol: &str, service: &str, input: &[u8]) -> Result<Option<Greeted>, String> {
    match protocol {
        "command" => greet_in::<Command>(service, input),
        "http" => greet_in::<Http>(service, input),
        "lines" => greet_in::<Lines>(service, input),
        "redis" => greet_in::<Redis>(service, input),
        "vsns" => greet_in::<Vsns>(service, input),
        _ => Err(format!("there is no door to `{protocol}`")),
    }
}

fn greet_in<P: Protocol>(service: &str, input: &[u8]) -> Result<Option<Greeted>, String> {
    let opened = P::open(service)?;
    let Some(greeting) = opened.greeting() else { return Ok(None) };
    Ok(Some(match P::greeted(greeting, input) {
        Progress::More { .. } => Greeted::More,
        Progress::Bad(cause) => Greeted::Bad(cause.text(P::REFUSALS)),
        Progress::Answer(answer) => Greeted::Answer(answer.result.text(P::REFUSALS), answer.used),
    }))
}

/// Reads a frame as a program's outcome and encodes it again. `None` if the frame is not valid.
#[must_use]
pub fn outcome(frame: &[u8]) -> Option<Vec<u8>> {
    let mut written = Vec::new();
    ProgramOutcome::read(frame)?.write(&mut written);
    Some(written)
}

/// Reads a frame as an order for a program and encodes it again. `None` if the frame is not valid.
#[must_use]
pub fn order(frame: &[u8]) -> Option<Vec<u8>> {
    let order = ProgramRun::read(frame)?;
    let mut written = vec![u8::from(order.on_member)];
    written.extend_from_slice(&u32::try_from(order.words.len()).unwrap_or(u32::MAX).to_be_bytes());
    for part in order.words.into_iter().chain(order.stdin) {
        measured(&mut written, |written| written.extend_from_slice(part));
    }
    Some(written)
}

/// Returns the value at a pointer in a JSON text.
///
/// # Errors
/// Returns an error if the pointer is not valid.
pub fn find(pointer: &str, json: &[u8]) -> Result<Option<Vec<u8>>, String> {
    Ok(CompiledPointer::compile(pointer)?.find(json, &mut Vec::new()).map(<[u8]>::to_vec))
}

/// Whether a text meets an expectation. Templates in it have no slots and feeds, and there are no
/// scripts.
///
/// # Errors
/// Returns an error if the expectation is not valid.
pub fn holds(expected: &Expected, text: &[u8]) -> Result<bool, String> {
    let check =
        TextCheck::compile(expected, ExpectationCompiler { template: &mut |text| compile(text), program: None })?;
    let holds = check.holds(text, &SOURCE, &mut Vec::new());
    assert!(check.is_filled(&SOURCE), "it has no slots");
    Ok(holds)
}

/// Start times of an agent's operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    /// Start times as the agent finds them one after the other, nanoseconds.
    pub walked: Vec<u64>,
    /// Start times as counted in two parts, nanoseconds.
    pub counted: Vec<u64>,
}

/// Reads a recorded schedule and deals its starts to agents. Returns the starts before `end_ns` for
/// each agent. The counted starts are split at `cut_ns`.
///
/// # Errors
/// Returns an error if the file has no starts, or if they are not in order.
pub fn replay(path: &Path, agents: u32, cut_ns: u64, end_ns: u64) -> Result<Vec<Starts>, String> {
    let replay = Replay::read(path, 1.0, agents, end_ns).map_err(|error| error.to_string())?;
    let starts = |agent| {
        let mut walked = Vec::new();
        let mut next = replay.first_ns(agent);
        while next < end_ns {
            walked.push(next);
            next = replay.next_ns(agent, next, next);
        }
        let mut counted = Vec::new();
        replay.due(agent, 0, cut_ns, &mut |due| counted.push(due.first_ns));
        replay.due(agent, cut_ns, end_ns, &mut |due| counted.push(due.first_ns));
        Starts { walked, counted }
    };
    Ok((0..agents).map(starts).collect())
}
