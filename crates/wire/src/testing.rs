//! Test support for this crate, the engine and the fuzz targets: values and feeds, exchanges with
//! protocols, targets that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed property is a panic")]

pub mod exchange;
pub mod fuzz;
pub mod hostile;
pub mod multiplexed;

use std::io::Read;

use experiment::plan;

use crate::session::SessionProtocol;
use crate::values::{TemplateNames, ValueSource};
use hostile::HostileCase;

/// A protocol with its test data. The file `testing.rs` in the protocol's folder implements it.
pub trait TestedProtocol: SessionProtocol {
    /// Targets that misbehave, and the results in which attempts on them end.
    const HOSTILE: &'static [HostileCase];
    /// Maximum number of bytes that the decoder may leave in the input. Without a limit, an answer
    /// may stay in the input until it is complete.
    const HELD_BYTES: usize = usize::MAX;
    /// A service whose connections begin with a greeting.
    const GREETED: Option<&'static str> = None;
    /// Values of required arguments of fuzzed operations, if `/` is not valid.
    const REQUIRED: &'static [(&'static str, &'static str)] = &[];
    /// Arguments that half of the fuzzed operations have besides the required arguments.
    const OPTIONAL: &'static [(&'static str, &'static str)] = &[];
    /// Further fuzz targets.
    const FUZZ: &'static [FuzzTarget] = &[];

    /// Checks further properties of an input of the fuzz target.
    fn fuzz(_input: &[u8]) {}

    /// Reads a request as a server does. Returns `None` if the stream ends, or if the protocol has
    /// no server.
    fn read_request(_from: &mut dyn Read) -> Option<ReceivedRequest> {
        None
    }
}

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Name of the target and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the target. Panics if a property does not hold.
    pub body: fn(&[u8]),
    /// Number of mutated inputs in the short run of `make test`.
    pub mutants: usize,
}

/// A request that a test server has read.
#[derive(Debug, Default)]
pub struct ReceivedRequest {
    /// Request id, if the protocol has one.
    pub id: u32,
    /// Code of the operation, if the protocol has one.
    pub opcode: u8,
    /// The rest of the request.
    pub body: Vec<u8>,
}

/// Test data of a protocol, for the table of protocols.
#[derive(Debug)]
pub struct ProtocolTests {
    pub hostile: &'static [HostileCase],
    /// [`SessionProtocol::SPEAKS_UNASKED`]. Such a
    /// protocol never uses a ring.
    pub speaks_unasked: bool,
    pub read_request: fn(&mut dyn Read) -> Option<ReceivedRequest>,
    /// Opens a service. Then decodes an answer to the greeting, if the protocol has a greeting.
    pub greet: fn(&str, &[u8]) -> Result<(), String>,
    /// The protocol's own fuzz target.
    pub fuzz: FuzzTarget,
    /// Further fuzz targets.
    pub more_fuzz: &'static [FuzzTarget],
}

impl ProtocolTests {
    /// Returns the test data of a protocol.
    #[must_use]
    pub const fn of<P: TestedProtocol>() -> Self {
        Self {
            hostile: P::HOSTILE,
            speaks_unasked: P::SPEAKS_UNASKED,
            read_request: P::read_request,
            greet: fuzz::greet::<P>,
            fuzz: FuzzTarget { name: P::INFO.name, body: fuzz::answers::<P>, mutants: 3000 },
            more_fuzz: P::FUZZ,
        }
    }
}

/// Returns template names without slots or feeds.
pub fn names() -> TemplateNames<'static> {
    TemplateNames::default()
}

/// Returns value inputs without slots or feeds.
pub fn source(agent: u64, seq: u64) -> ValueSource<'static> {
    ValueSource { agent, seq, draw: 99, ..ValueSource::NOTHING }
}

pub fn feed(file: &str) -> plan::Feed {
    plan::Feed { name: "docs".into(), file: file.into(), ..plan::Feed::default() }
}

/// Reads a line without its line end, as a server does. Returns `None` if the stream ends.
pub fn read_line(from: &mut dyn Read) -> Option<Vec<u8>> {
    let mut line = read_until(from, b"\n")?;
    line.pop();
    line.pop_if(|last| *last == b'\r');
    Some(line)
}

/// Reads up to the first `end`, and includes `end`.
pub fn read_until(from: &mut dyn Read, end: &[u8]) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.extend(read_bytes(from, 1)?);
    }
    Some(read)
}

/// Reads this number of bytes.
pub fn read_bytes(from: &mut dyn Read, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
