//! A door for fuzzers: what a protocol makes of bytes in whatever pieces they come, what a template writes, what stands
//! at a place in a text, whether a text is as expected, and when recorded starts come. It is only there with the
//! feature `fuzzing`.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::plan::Expected;

use crate::engine::expectation::{ExpectationCompiler, TextCheck};
use crate::engine::pointer::CompiledPointer;
use crate::protocols::command::{Command, ProgramOutcome, ProgramRun, measured};
use crate::protocols::http::Http;
use crate::protocols::lines::Lines;
use crate::protocols::redis::Redis;
use crate::protocols::vsns::Vsns;
use crate::protocols::{Call, Progress, Protocol, RequestContext};
use crate::schedules::Schedule;
use crate::schedules::replay::Replay;
use crate::values::words::TemplateWords;
use crate::values::{Argument, CompiledTemplate, TemplateNames, ValueSource};

/// A question, and the bytes that come back.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Name of the operation.
    pub operation: &'a str,
    /// Its arguments, as they are.
    pub with: &'a [(&'a str, &'a str)],
    /// Fields of the answer that are looked at.
    pub wants: &'a [&'a str],
    /// Number of the request.
    pub id: u32,
    /// What comes, piece by piece.
    pub pieces: &'a [&'a [u8]],
    /// Whether the connection ends behind it.
    pub ends: bool,
}

/// What a protocol made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// No whole answer.
    More,
    /// No answer, with the word for it.
    Bad(String),
    /// An answer.
    Answer {
        /// The word for its result.
        result: String,
        /// Whether the connection takes another request.
        reusable: bool,
        /// Bytes that belong to it, of all that came.
        bytes: usize,
        /// The fields that were asked for.
        fields: Vec<Option<Vec<u8>>>,
        /// The word for its status.
        status: Vec<u8>,
    },
}

/// What came of a talk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeResult {
    /// What was seen.
    pub seen: Decoded,
    /// Most bytes that had to be shown again.
    pub held_bytes: usize,
}

/// Has the talk twice; the second time with what a thread remembers of the first.
///
/// # Errors
/// If there is no such protocol or operation, or a decoder uses more bytes than it was shown.
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

/// As the engine does it: what is not used is shown again with what comes next.
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
            Progress::More { used } | Progress::Answer(crate::protocols::Answer { used, .. }) if used > input.len() => {
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

/// What a template writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedTemplate {
    /// Its value.
    pub value: Vec<u8>,
    /// The same, written a second time.
    pub again: Vec<u8>,
    /// What it says of the length of each of its values.
    pub fixed_length: Option<usize>,
    /// What it says it always writes.
    pub constant: Option<Vec<u8>>,
}

/// Of what cannot be known before a load, nothing.
fn compile(text: &str) -> Result<CompiledTemplate, String> {
    CompiledTemplate::compile(text, 0, &TemplateNames { slots: &[], feeds: &[], program: None, own: BTreeMap::new() })
}

const SOURCE: ValueSource<'static> =
    ValueSource { agent: 3, seq: 12, copy: 1, draw: 99, slots: &[], kept: 0, feeds: &[], records: &[] };

/// Compiles a template, without slots and feeds, and writes it.
///
/// # Errors
/// If it is none.
pub fn write(text: &str) -> Result<RenderedTemplate, String> {
    let template = compile(text)?;
    let (mut value, mut again) = (Vec::new(), Vec::new());
    template.write(&SOURCE, &mut value);
    template.write(&SOURCE, &mut again);
    let constant = template.as_constant().map(<[u8]>::to_vec);
    Ok(RenderedTemplate { value, again, fixed_length: template.fixed_length(), constant })
}

/// Cuts a template into words, as a command is cut; the words as they are written.
///
/// # Errors
/// If it is no template, or a quote is left open.
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

/// What a protocol makes of all that came in answer to its greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeted {
    /// No whole answer.
    More,
    /// No answer, with the word for it.
    Bad(String),
    /// An answer: the word for it, and its bytes.
    Answer(String, usize),
}

/// Opens a service, and shows it what came in answer to its greeting. `None` where it has none.
///
/// # Errors
/// If there is no such protocol, or its service is written otherwise.
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

/// Reads a frame as what came of a program; the frame written anew, if it is one.
#[must_use]
pub fn outcome(frame: &[u8]) -> Option<Vec<u8>> {
    let mut written = Vec::new();
    ProgramOutcome::read(frame)?.write(&mut written);
    Some(written)
}

/// Reads a frame as an order for a program; the order written anew, if it is one.
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

/// What stands at a place in a text that has to be JSON.
///
/// # Errors
/// If the pointer is none.
pub fn find(pointer: &str, json: &[u8]) -> Result<Option<Vec<u8>>, String> {
    Ok(CompiledPointer::compile(pointer)?.find(json, &mut Vec::new()).map(<[u8]>::to_vec))
}

/// Whether a text is as expected; templates in it are without slots and feeds, and there is no script.
///
/// # Errors
/// If the expectation makes no sense.
pub fn holds(expected: &Expected, text: &[u8]) -> Result<bool, String> {
    let check =
        TextCheck::compile(expected, ExpectationCompiler { template: &mut |text| compile(text), program: None })?;
    let holds = check.holds(text, &SOURCE, &mut Vec::new());
    assert!(check.is_filled(&SOURCE), "it has no slots");
    Ok(holds)
}

/// When an agent's operations start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    /// As it finds them one after the other, nanoseconds.
    pub walked: Vec<u64>,
    /// As they are counted, with one cut in between.
    pub counted: Vec<u64>,
}

/// Reads recorded starts, dealt to agents; those of each before `end_ns`, counted with a cut at `cut_ns`.
///
/// # Errors
/// If the file holds none, or not in order.
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
