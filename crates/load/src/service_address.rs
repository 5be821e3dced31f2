//! Where a service listens: at an address of the network, or on a socket in the file system.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// An authority that begins so goes on with the path of a socket.
pub const IN_FILES: &str = "unix:";

/// How long each of several addresses of a service is tried before the load.
const PROBE: Duration = Duration::from_secs(1);

/// What is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAddress {
    /// An address and a port.
    Network(SocketAddr),
    /// The path of a socket.
    File(PathBuf),
}

impl ServiceAddress {
    /// What is known of an authority without looking up names.
    pub fn written(authority: &str) -> Option<Self> {
        match authority.strip_prefix(IN_FILES) {
            Some(path) => Some(Self::File(path.into())),
            None => authority.parse().ok().map(Self::Network),
        }
    }

    /// The address of a service. Of several, the first that accepts a connection: `localhost` may mean `::1`, where nobody listens.
    ///
    /// # Errors
    /// If its name has no address.
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

    /// Connects, for a client that waits. Streams of both kinds are read, written and waited for alike.
    ///
    /// # Errors
    /// If nobody accepts the connection.
    pub fn open(&self, timeout: Duration) -> io::Result<TcpStream> {
        match self {
            Self::Network(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            // Whoever listens there accepts at once, or the queue is full and the call waits.
            Self::File(path) => Ok(TcpStream::from(OwnedFd::from(UnixStream::connect(path)?))),
        }
    }
}
