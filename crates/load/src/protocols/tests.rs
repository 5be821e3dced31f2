//! The table of protocols, and a way to feed a decoder in pieces as a socket would, for the tests of each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::values::Template;
use crate::values::tests::{names, source};

/// A compiled request with its arguments.
pub struct Compiled<P: Protocol> {
    pub request: P::Request,
    pub arguments: Vec<Argument>,
    wants: usize,
}

/// What a decoder made of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    More,
    Bad(Cause),
    Answer { result: Cause, reusable: bool, surplus: Vec<u8>, fields: Vec<Option<String>>, status: String },
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

/// The same, for a connection that ends with the answer if it `closes`.
pub fn compile_for<P: Protocol>(
    protocol: &P,
    operation: &str,
    with: &[(&str, &str)],
    wants: &[&str],
    closes: bool,
) -> Result<Compiled<P>, String> {
    let operation = P::INFO.operations.iter().find(|known| known.name == operation).unwrap();
    let arguments: Vec<Argument> = with
        .iter()
        .enumerate()
        .map(|(stream, (name, text))| Argument {
            name: (*name).to_owned(),
            template: Template::compile(text, stream as u64, &names()).unwrap(),
        })
        .collect();
    let wants: Vec<String> = wants.iter().map(|want| (*want).to_owned()).collect();
    let request = protocol.compile(&Call { number: 0, operation, arguments: &arguments, wants: &wants, closes })?;
    Ok(Compiled { request, arguments, wants: wants.len() })
}

/// The bytes of a request.
pub fn encode<P: Protocol>(compiled: &Compiled<P>, id: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let values = Values { source: source(3, 12), arguments: &compiled.arguments };
    P::encode(&compiled.request, id, &values, &mut out);
    out
}

/// Feeds the pieces one after the other, and then the end of the connection if `ends`.
pub fn feed<P: Protocol>(
    compiled: &Compiled<P>,
    memory: &mut P::Memory,
    id: u32,
    pieces: &[&[u8]],
    ends: bool,
) -> Seen {
    let asked = Asked { request: &compiled.request, id };
    let mut decoder = P::Decoder::default();
    let mut input = Vec::new();
    let mut fed = pieces.iter().map(|piece| (*piece, false)).chain(ends.then_some((&[][..], true)));
    let seen = loop {
        let Some((piece, ended)) = fed.next() else { break Seen::More };
        input.extend_from_slice(piece);
        match P::decode(&asked, &mut decoder, memory, &input, ended) {
            Progress::More { used } => drop(input.drain(..used)),
            Progress::Bad(cause) => break Seen::Bad(cause),
            Progress::Answer(answer) => {
                let field = |want| {
                    let mut scratch = Vec::new();
                    P::field(&compiled.request, &decoder, want, &input, &mut scratch)
                        .map(|value| String::from_utf8_lossy(value).into_owned())
                };
                let mut scratch = Vec::new();
                let status = String::from_utf8_lossy(P::status(&decoder, &input, &mut scratch)).into_owned();
                let mut surplus = input[answer.used..].to_vec();
                fed.for_each(|(piece, _)| surplus.extend_from_slice(piece));
                let fields = (0..compiled.wants).map(field).collect();
                break Seen::Answer { result: answer.result, reusable: answer.reusable, surplus, fields, status };
            }
        }
    };
    P::rest(&mut decoder, memory);
    seen
}

/// Whatever the place at which the bytes are cut in two, and byte by byte: the same is seen as in one piece.
pub fn is_the_same_in_pieces<P: Protocol>(compiled: &Compiled<P>, id: u32, bytes: &[u8], ends: bool) -> Seen {
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

#[test]
fn kinds_are_sorted_and_described() {
    assert!(KINDS.windows(2).all(|pair| pair[0].info.name < pair[1].info.name));
    for kind in KINDS {
        assert!(std::ptr::eq(find(kind.info.name).unwrap(), *kind));
        assert!(!kind.info.help.is_empty());
        let mut names: Vec<&str> = kind.info.operations.iter().map(|operation| operation.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), kind.info.operations.len());
        for operation in kind.info.operations {
            assert!(operation.takes.iter().chain(operation.answers).all(|field| !field.help.is_empty()));
        }
    }
    assert!(find("gopher").is_none());
}

#[test]
fn causes_have_words() {
    let refusals = vsns::Vsns::REFUSALS;
    for (cause, text) in [
        (Cause::Ok, "ok"),
        (Cause::ConnectRefused, "connect refused"),
        (Cause::Reset, "connection reset"),
        (Cause::Answer(1), "answer: unavailable"),
        (Cause::Answer(2), "answer: busy"),
        (Cause::Status(503), "status 503"),
        (Cause::BadAnswer, "bad answer"),
    ] {
        assert_eq!(cause.text(refusals), text);
    }
    assert!(Cause::Answer(2).is_harmless(refusals) && Cause::ConnectTimeout.is_harmless(refusals));
    assert!(!Cause::Answer(1).is_harmless(refusals) && !Cause::Timeout.is_harmless(refusals));
}
