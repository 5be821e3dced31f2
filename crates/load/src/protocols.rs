//! The table of protocols. Holds the engine and the client compiled for each protocol.

use std::time::Duration;

use experiment::catalog;
use experiment::example::DescribedCall;
use experiment::mistake::Mistake;
use wire::protocols::command::Command;
use wire::protocols::etcd::Etcd;
use wire::protocols::grpc::Grpc;
use wire::protocols::http::Http;
use wire::protocols::http2::Http2;
use wire::protocols::lines::Lines;
use wire::protocols::memcached::Memcached;
use wire::protocols::redis::Redis;
use wire::protocols::vsns::Vsns;
use wire::protocols::websocket::Websocket;
#[cfg(not(feature = "testing"))]
use wire::session::SessionProtocol as Implementation;
#[cfg(feature = "testing")]
use wire::testing::{ProtocolTests, TestedProtocol as Implementation};

use crate::client::{CallError, Client};
use crate::{Error, LoadOrder, StartLoad, TlsTrust};

/// All protocols, sorted by name.
pub static KINDS: &[&ProtocolKind] = &[
    &ProtocolKind::of::<Command>(),
    &ProtocolKind::of::<Etcd>(),
    &ProtocolKind::of::<Grpc>(),
    &ProtocolKind::of::<Http>(),
    &ProtocolKind::of::<Http2>(),
    &ProtocolKind::of::<Lines>(),
    &ProtocolKind::of::<Memcached>(),
    &ProtocolKind::of::<Redis>(),
    &ProtocolKind::of::<Vsns>(),
    &ProtocolKind::of::<Websocket>(),
];

/// Protocols that only tests use. No experiment can name them.
#[cfg(feature = "testing")]
pub static TEST_KINDS: &[&ProtocolKind] = &[&ProtocolKind::of::<wire::testing::multiplexed::Multiplexed>()];
#[cfg(not(feature = "testing"))]
static TEST_KINDS: &[&ProtocolKind] = &[];

/// Returns the protocol with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProtocolKind> {
    KINDS.iter().chain(TEST_KINDS).copied().find(|kind| kind.info.name == name)
}

/// Returns the calls of a service, described by files or by the service.
type DescribeCalls = fn(&str, &TlsTrust, &[String], Duration) -> Result<Vec<DescribedCall>, CallError>;

/// A protocol, with the engine and the client compiled for it.
#[derive(Debug)]
pub struct ProtocolKind {
    /// Description for experiment files.
    pub info: &'static catalog::Protocol,
    pub(crate) check: fn(&LoadOrder) -> Result<(), Error>,
    pub(crate) mistakes: fn(&LoadOrder) -> Vec<Mistake>,
    pub(crate) compile: fn(&LoadOrder) -> Result<StartLoad, Error>,
    pub(crate) connect: fn(&str, &TlsTrust, Duration) -> Result<Client, CallError>,
    pub(crate) described_calls: DescribeCalls,
    #[cfg(feature = "testing")]
    pub tests: ProtocolTests,
}

impl ProtocolKind {
    const fn of<P: Implementation>() -> Self {
        Self {
            info: P::INFO,
            check: crate::engine::check::<P>,
            mistakes: crate::engine::script::Script::<P>::mistakes,
            compile: crate::engine::compile::<P>,
            connect: transport::client::connect::<P>,
            described_calls: transport::client::described_calls::<P>,
            #[cfg(feature = "testing")]
            tests: ProtocolTests::of::<P>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
