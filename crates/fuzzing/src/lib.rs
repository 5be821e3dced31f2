//! The bodies of the fuzz targets. Each takes bytes and panics if a property does not hold. The
//! libFuzzer targets in `fuzz/` and the tests of this crate call the same bodies. The crate is not
//! shipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a fuzz target says what it found"
)]

mod expectations;
mod experiments;
mod fleets;
mod foreign_histories;
mod host_messages;
mod imports;
pub mod mutation;
mod records;

use std::sync::LazyLock;

use load::protocols::KINDS;
pub use wire::testing::FuzzTarget;
use wire::testing::hostile::PeerAction;

/// All targets, sorted by name: those of the protocols, and the others.
pub static TARGETS: LazyLock<Vec<FuzzTarget>> = LazyLock::new(|| {
    let protocols = KINDS.iter().flat_map(|kind| kind.tests.more_fuzz.iter().chain([&kind.tests.fuzz]));
    let mut targets: Vec<FuzzTarget> = OTHERS.iter().chain(protocols).copied().collect();
    targets.sort_by_key(|target| target.name);
    targets
});

static OTHERS: &[FuzzTarget] = &[
    FuzzTarget { name: "expectation", body: expectations::expectation, mutants: 3000 },
    FuzzTarget { name: "experiment", body: experiments::experiment, mutants: 400 },
    FuzzTarget { name: "generators", body: fleets::generators, mutants: 4000 },
    FuzzTarget { name: "histories", body: foreign_histories::histories, mutants: 1000 },
    FuzzTarget { name: "hosts", body: host_messages::hosts, mutants: 6000 },
    FuzzTarget { name: "import", body: imports::import, mutants: 1500 },
    FuzzTarget { name: "manifest", body: experiments::manifest, mutants: 300 },
    FuzzTarget { name: "orders", body: fleets::orders, mutants: 4000 },
    FuzzTarget { name: "pointer", body: expectations::pointer, mutants: 4000 },
    FuzzTarget { name: "records", body: records::records, mutants: 3000 },
    FuzzTarget { name: "replay", body: records::replay, mutants: 3000 },
    FuzzTarget { name: "service", body: experiments::service, mutants: 6000 },
    FuzzTarget { name: "template", body: experiments::template, mutants: 6000 },
];

/// Returns inputs for the fuzz target of a protocol: the bytes that its hostile targets send. Empty
/// for other targets.
#[must_use]
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let cases = load::protocols::find(name).map_or(&[][..], |kind| kind.tests.hostile);
    let actions = cases.iter().flat_map(|case| case.actions);
    actions
        .filter_map(|action| match action {
            PeerAction::Say(bytes) | PeerAction::Drip(bytes) | PeerAction::Endless(bytes) => Some(*bytes),
            _ => None,
        })
        .map(|bytes| [b"00", bytes].concat())
        .collect()
}

/// Returns the target with this name.
pub fn find(name: &str) -> &'static FuzzTarget {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target `{name}`"))
}
