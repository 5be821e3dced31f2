//! The target's side of a connection: unencrypted at first, and encrypted after the handshake. It
//! knows nothing of the target's actions.

use std::io::{Error, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::secret::{Authority, Stream};

/// A certificate from an untrusted authority.
static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| Arc::new(Authority::new().vouch(&["127.0.0.1"], |_| {})));

/// The target's side of a connection.
pub enum TargetStream {
    Clear(TcpStream),
    Sealed(Box<Stream>),
}

impl TargetStream {
    /// Returns the socket below the session.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Clear(socket) => socket,
            Self::Sealed(stream) => &mut stream.sock,
        }
    }

    /// Performs the TLS handshake.
    pub fn shake(&mut self) -> Result<(), Error> {
        let mut session = session();
        while session.is_handshaking() {
            session.complete_io(self.socket())?;
        }
        let socket = self.socket().try_clone()?;
        *self = Self::Sealed(Box::new(StreamOwned::new(session, socket)));
        Ok(())
    }

    /// Sends the first half of the target's handshake messages.
    pub fn begin_to_shake(&mut self) -> Result<(), Error> {
        let mut session = session();
        while !session.wants_write() {
            session.read_tls(self.socket())?;
            session.process_new_packets().map_err(Error::other)?;
        }
        let mut said = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut said)?;
        }
        self.socket().write_all(&said[..said.len() / 2])
    }

    /// Requests new keys again and again.
    pub fn change_keys(&mut self) -> Result<(), Error> {
        let Self::Sealed(stream) = self else { panic!("there are no keys") };
        loop {
            stream.conn.refresh_traffic_keys().map_err(Error::other)?;
            stream.flush()?;
        }
    }

    /// Sends a close notification.
    pub fn part(&mut self) -> Result<(), Error> {
        let Self::Sealed(stream) = self else { panic!("there is no session") };
        stream.conn.send_close_notify();
        stream.flush()
    }
}

impl Read for TargetStream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        match self {
            Self::Clear(socket) => socket.read(buffer),
            Self::Sealed(stream) => stream.read(buffer),
        }
    }
}

impl Write for TargetStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        match self {
            Self::Clear(socket) => socket.write(bytes),
            Self::Sealed(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        match self {
            Self::Clear(socket) => socket.flush(),
            Self::Sealed(stream) => stream.flush(),
        }
    }
}

fn session() -> ServerConnection {
    ServerConnection::new(Arc::clone(&CONFIG)).unwrap()
}
