//! The bodies of the fuzz targets. Each takes bytes and panics if a property does not hold. The
//! libFuzzer targets in `fuzz/` and the tests of this crate call the same bodies. The crate is not
//! shipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a fuzz target says what it found"
)]

mod answers;
mod expectations;
mod experiments;
mod fleets;
mod host_messages;
pub mod mutation;
mod records;

/// A fuzz target.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Name of the target, of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the target. Panics if a property does not hold.
    pub body: fn(&[u8]),
    /// Number of mutated inputs in the short run of `make test`.
    pub mutants: usize,
}

/// All targets, sorted by name.
pub static TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "chunks", body: answers::chunks, mutants: 4000 },
    FuzzTarget { name: "command", body: answers::command, mutants: 6000 },
    FuzzTarget { name: "expectation", body: expectations::expectation, mutants: 3000 },
    FuzzTarget { name: "experiment", body: experiments::experiment, mutants: 400 },
    FuzzTarget { name: "generators", body: fleets::generators, mutants: 4000 },
    FuzzTarget { name: "hosts", body: host_messages::hosts, mutants: 6000 },
    FuzzTarget { name: "http", body: answers::http, mutants: 6000 },
    FuzzTarget { name: "lines", body: answers::lines, mutants: 4000 },
    FuzzTarget { name: "manifest", body: experiments::manifest, mutants: 300 },
    FuzzTarget { name: "orders", body: fleets::orders, mutants: 4000 },
    FuzzTarget { name: "pointer", body: expectations::pointer, mutants: 4000 },
    FuzzTarget { name: "records", body: records::records, mutants: 3000 },
    FuzzTarget { name: "redis", body: answers::redis, mutants: 4000 },
    FuzzTarget { name: "replay", body: records::replay, mutants: 3000 },
    FuzzTarget { name: "service", body: experiments::service, mutants: 6000 },
    FuzzTarget { name: "template", body: experiments::template, mutants: 6000 },
    FuzzTarget { name: "vsns", body: answers::vsns, mutants: 6000 },
];

/// Runs the target `name` with the input.
pub fn play(name: &str, input: &[u8]) {
    let target =
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target `{name}`"));
    (target.body)(input);
}
