//! What the server speaks, one kind per file. Sans-I/O: bytes in, answers out. No socket, clock or delay is known here.

use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

use crate::{Error, Listener, Options, ServedProtocol, ServerBook, server};

mod http;
mod vsns;

/// Every protocol, by name.
const KINDS: &[ServerKind] = &[ServerKind::of::<http::HttpCodec>(), ServerKind::of::<vsns::VsnsCodec>()];

/// The server, compiled for one protocol.
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

/// The kind that speaks `protocol`. Each protocol has one: a test holds the table against the enum.
pub(crate) fn kind(protocol: ServedProtocol) -> &'static ServerKind {
    KINDS.iter().find(|kind| kind.protocol == protocol).unwrap_or(&KINDS[0])
}

/// Takes requests out of bytes and appends their answers. One codec serves all connections.
pub(crate) trait Codec {
    /// Which it is.
    const PROTOCOL: ServedProtocol;

    /// What a connection remembers between pieces of a request.
    type Memory: Debug + Default;

    /// Prepares the answers.
    fn new(options: &Options) -> Self;

    /// Looks at `input`, which is never empty, and appends at most one answer. `failing`: the answer is the error that
    /// was asked for.
    fn advance(&mut self, memory: &mut Self::Memory, input: &[u8], failing: bool, answers: &mut Vec<u8>) -> CodecStep;
}

/// What a codec did with its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecStep {
    /// Bytes that need not be shown again.
    pub consumed: usize,
    /// What to do next.
    pub then: NextAction,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Wait for more bytes.
    Wait,
    /// An answer was appended; look at the rest.
    Next,
    /// Not an answer but an invitation to send the body was appended: it is never delayed. Wait for more bytes.
    Invite,
    /// The last answer was appended, as the client wished: close.
    Close,
    /// The client is not understood; what it was told, if anything, was appended. Close.
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
