//! What can go wrong before the server runs. It must not hold anything that a client can cause: a bad client costs its
//! own connection only.

use std::io;
use std::net::SocketAddr;

/// Why the server did not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an impossible value.
    #[error("echo: {name} must be {must_be}")]
    Option {
        /// The field of [`crate::Options`].
        name: &'static str,
        /// What it must be.
        must_be: &'static str,
    },
    /// Something else listens there.
    #[error("echo: {address} is already taken: something else listens there")]
    PortTaken {
        /// What was asked for.
        address: SocketAddr,
    },
    /// The port cannot be opened for another reason.
    #[error("echo: cannot listen on {address}: {source}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A system call failed that has no reason to.
    #[error("echo: {call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err` on a system call.
    pub(crate) fn of(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::System { call, source: errno.into() }
    }
}
