//! The open port. It must not accept: that is the server's loop.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::{Error, Errors, Options, protocols};

/// Connections that may wait to be accepted; the system's own limit (`net.core.somaxconn`) may be lower.
const BACKLOG: i32 = 4096;

/// A port that is open and not yet served.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    address: SocketAddr,
}

impl Listener {
    pub(crate) fn bind(options: &Options) -> Result<Self, Error> {
        options.check()?;
        let address = options.listen;
        let (socket, address) = open(address).map_err(|errno| match errno {
            Errno::ADDRINUSE => Error::PortTaken { address },
            other => Error::Listen { address, source: other.into() },
        })?;
        Ok(Self { socket, address })
    }

    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is true, which is noticed within 50 ms; then every connection is closed. Raises this
    /// process's limit on open files as far as it may. Says when it answered with errors, as it was told to.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for an impossible option, [`Error::System`].
    pub fn serve(self, options: &Options, stop: &AtomicBool) -> Result<Vec<Errors>, Error> {
        options.check()?;
        protocols::kind(options.protocol).serve(self, options, stop)
    }
}

fn open(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a server that has just ended must not keep its port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Accepted sockets inherit it, which saves a system call for each.
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}
