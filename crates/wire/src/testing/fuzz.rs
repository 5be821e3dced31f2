//! Body of a protocol's fuzz target. An answer is decoded in the same way whole or in pieces, and
//! the decoder does not keep more bytes than necessary.
//!
//! The first byte of an input selects the operation, the requested fields and whether the
//! connection ends. The second is the seed for the cuts. The rest is the answer.

use experiment::catalog::{Field, Operation};
use fastrand::Rng;

use super::TestedProtocol;
use super::exchange::{Compiled, Seen, compile, feed};
use crate::session::Opening;

/// Request id, for protocols that have one.
const ID: u32 = 0x0102_0304;
/// Longest answer that is also decoded byte by byte.
const SHORT: usize = 300;

/// Decodes an input as an answer, and as the answer to a greeting.
pub fn answers<P: TestedProtocol>(input: &[u8]) {
    if let Some(([how, seed], answer)) = input.split_first_chunk::<2>() {
        decode::<P>(*how, &mut Rng::with_seed(u64::from(*seed)), answer);
    }
    if let Some(service) = P::GREETED {
        greet::<P>(service, input).unwrap();
    }
    P::fuzz(input);
}

fn decode<P: TestedProtocol>(how: u8, random: &mut Rng, answer: &[u8]) {
    let operations = P::INFO.operations;
    let operation = &operations[usize::from(how >> 2 & 0x1f) % operations.len()];
    let wants = if how & 2 == 2 { Vec::new() } else { wants(operation) };
    let ends = how & 1 == 1;
    // A path begins with a slash, and other values may. A method of HTTP is a word.
    let value = |name: &'static str| match P::REQUIRED.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => *value,
        None => match name {
            "method" => "PROPFIND",
            "id" | "ttl" | "version" => "7",
            _ => "/",
        },
    };
    let required = operation.takes.iter().filter(|field| field.required);
    let mut with: Vec<(&str, &str)> = required.map(|field| (field.name, value(field.name))).collect();
    if how & 0x80 != 0 {
        with.extend(P::OPTIONAL.iter().filter(|(name, _)| operation.takes.iter().any(|field| field.name == *name)));
    }
    let compiled = compile(&P::open("127.0.0.1:1").unwrap(), operation.name, &with, &wants).unwrap();
    let whole = feed_twice(&compiled, &[answer], ends);
    assert_eq!(whole, feed_twice(&compiled, &cut(answer, random), ends), "cut");
    if answer.len() <= SHORT {
        let bytes: Vec<&[u8]> = answer.chunks(1).collect();
        assert_eq!(whole, feed_twice(&compiled, &bytes, ends), "byte by byte");
    }
}

/// Decodes the same pieces twice. The memory of the thread must not change the result.
fn feed_twice<P: TestedProtocol>(compiled: &Compiled<P>, pieces: &[&[u8]], ends: bool) -> Seen {
    let mut memory = P::Memory::default();
    let first = feed(compiled, &mut memory, ID, pieces, ends);
    assert_eq!(first, feed(compiled, &mut memory, ID, pieces, ends), "the second time");
    first
}

/// Opens a service and decodes the answer to its greeting. Every beginning of the answer must
/// decode to "more" or to the result of the whole answer.
///
/// # Errors
/// Returns an error if the service's address is not valid.
pub fn greet<P: TestedProtocol>(service: &str, input: &[u8]) -> Result<(), String> {
    let opened = P::open(service)?;
    let greeted = |input| {
        let (mut session, mut out) = (P::Session::default(), Vec::new());
        match opened.greet(&mut session, &mut out) {
            Opening::Wait { .. } => opened.greeted(&mut session, input, &mut out),
            opening => opening,
        }
    };
    let whole = greeted(input);
    if let Opening::Open { used } = whole {
        assert!(used <= input.len());
    }
    for end in 0..input.len().min(SHORT) {
        let begun = greeted(&input[..end]);
        assert!(matches!(begun, Opening::Wait { .. }) || begun == whole, "{begun:?} at {end} became {whole:?}");
    }
    Ok(())
}

/// Returns all fields of the operation's answer. For fields with free names, returns one example.
fn wants(operation: &Operation) -> Vec<&'static str> {
    let example = |field: &Field| match field.name {
        "header.*" => "header.x-kind",
        "message.*" => "message.status",
        name => name,
    };
    operation.answers.iter().map(example).collect()
}

/// Cuts the bytes into up to five pieces.
pub fn cut<'a>(bytes: &'a [u8], random: &mut Rng) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for _ in 0..random.usize(1..5) {
        let (piece, behind) = rest.split_at(random.usize(0..=rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}
