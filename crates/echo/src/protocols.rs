//! Protocols of the server, one per file. Sans-I/O: bytes in, answers out, without sockets, clocks
//! or delays.

use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

use crate::{Error, Listener, Options, ServedProtocol, ServerBook, server};

mod http;
mod vsns;

/// All protocols, by name.
const KINDS: &[ServerKind] = &[ServerKind::of::<http::HttpCodec>(), ServerKind::of::<vsns::VsnsCodec>()];

/// A server compiled for one protocol.
pub(crate) struct ServerKind {
    protocol: ServedProtocol,
    serve: fn(Listener, &Options, &AtomicBool) -> Result<ServerBook, Error>,
}

impl ServerKind {
    const fn of<C: Codec>() -> Self {
        Self { protocol: C::PROTOCOL, serve: server::run::<C> }
    }

    /// Serves until `stop`.
    pub fn serve(&self, listener: Listener, options: &Options, stop: &AtomicBool) -> Result<ServerBook, Error> {
        (self.serve)(listener, options, stop)
    }
}

/// Returns the server for `protocol`. A test checks that each protocol has one.
pub(crate) fn kind(protocol: ServedProtocol) -> &'static ServerKind {
    KINDS.iter().find(|kind| kind.protocol == protocol).unwrap_or(&KINDS[0])
}

/// Extracts requests from bytes and appends their answers. One codec serves all connections.
pub(crate) trait Codec {
    /// Protocol of the codec.
    const PROTOCOL: ServedProtocol;

    /// State of a connection between parts of a request.
    type Memory: Debug + Default;

    /// Prepares the answers.
    fn new(options: &Options) -> Self;

    /// Reads `input`, which is never empty, and appends at most one answer. If `failing`, the
    /// answer is the configured error.
    fn advance(&mut self, memory: &mut Self::Memory, input: &[u8], failing: bool, answers: &mut Vec<u8>) -> CodecStep;
}

/// Result of a codec's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecStep {
    /// Number of bytes that the codec has used.
    pub consumed: usize,
    pub then: NextAction,
}

/// Next action on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Wait for more bytes.
    Wait,
    /// An answer was appended. Read the rest.
    Next,
    /// An invitation to send the body was appended instead of an answer. It is never delayed. Wait
    /// for more bytes.
    Invite,
    /// The last answer was appended, as the client requested. Close the connection.
    Close,
    /// The client's data is invalid. An error answer may have been appended. Close the connection.
    Refuse,
}

impl CodecStep {
    fn new(consumed: usize, then: NextAction) -> Self {
        Self { consumed, then }
    }
}

#[cfg(test)]
mod tests {
    use super::{KINDS, kind};
    use crate::ServedProtocol;

    #[test]
    fn every_protocol_has_its_kind() {
        for protocol in [ServedProtocol::Http, ServedProtocol::Vsns] {
            assert_eq!(kind(protocol).protocol, protocol);
        }
        assert_eq!(KINDS.len(), 2);
    }
}
