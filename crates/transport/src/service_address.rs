//! Address of a service: on the network, or a socket in the file system.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use wire::protocols::http::IN_FILES;

use crate::error::Error;

/// Connect timeout for choosing between several addresses of a service before the load.
const PROBE: Duration = Duration::from_secs(1);

/// Address of a service, or of the proxy that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAddress {
    /// An address and a port.
    Network(SocketAddr),
    /// The path of a socket.
    File(PathBuf),
}

impl ServiceAddress {
    /// Parses an authority without looking up names.
    pub fn written(authority: &str) -> Option<Self> {
        match authority.strip_prefix(IN_FILES) {
            Some(path) => Some(Self::File(path.into())),
            None => authority.parse().ok().map(Self::Network),
        }
    }

    /// Resolves the address of a service. If the name has several addresses, chooses the first that
    /// accepts a connection. For example, `localhost` may include `::1` while the service listens
    /// only on `127.0.0.1`.
    ///
    /// # Errors
    /// Returns an error if the name has no address.
    pub fn resolve(authority: &str) -> Result<Self, Error> {
        if let Some(written) = Self::written(authority) {
            return Ok(written);
        }
        let wrong = |reason: String| Error::Service { service: authority.to_owned(), reason };
        let addresses: Vec<SocketAddr> =
            authority.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
        let Some(first) = addresses.first() else { return Err(wrong("the name has no address".to_owned())) };
        if addresses.len() == 1 {
            return Ok(Self::Network(*first));
        }
        let answers = addresses.iter().find(|address| TcpStream::connect_timeout(address, PROBE).is_ok());
        Ok(Self::Network(*answers.unwrap_or(first)))
    }

    /// Connects a blocking stream. The returned type also serves for Unix sockets, because reads,
    /// writes and timeouts work in the same way.
    pub fn open(&self, timeout: Duration) -> io::Result<TcpStream> {
        match self {
            Self::Network(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            // A listening Unix socket accepts at once, unless its queue is full. If the queue is
            // full, the call waits.
            Self::File(path) => Ok(TcpStream::from(OwnedFd::from(UnixStream::connect(path)?))),
        }
    }
}
