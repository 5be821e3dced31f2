//! Connections by TLS: the handshake, which belongs to connecting, and bytes on their way through a session.
//!
//! What is read here is stamped as in the clear, right after the `recv`: unsealing an answer, some microseconds, counts in what the
//! agent does next, and sealing a request in its service time.

use std::io::{self, IoSlice, Write};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::connection::{READS, SocketState, SocketStream, broken_cause};
use super::ids::ConnId;
use super::worker::Worker;
use crate::protocols::{AttemptCause, Protocol};
use crate::tls::{TlsPeers, TlsSession, TlsTrust};
use crate::{Error, LoadOrder};

/// A socket and the session on it.
#[derive(Debug)]
pub struct TlsStream {
    /// The socket.
    pub socket: OwnedFd,
    /// The session.
    pub session: TlsSession,
}

impl TlsStream {
    /// Sends a request, or as much of it as the socket takes; the session keeps the rest.
    pub fn write_plaintext(&mut self, clear: &[u8]) -> Result<(), AttemptCause> {
        self.session.write_plaintext(clear)?;
        self.write()
    }

    /// Sends what the session has to send, as much as the socket takes.
    pub fn write(&mut self) -> Result<(), AttemptCause> {
        while self.session.wants_write() {
            match self.session.write_to(&mut TlsOutput(self.socket.as_fd())) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(Errno::from_io_error(&error).map_or(AttemptCause::Broken, broken_cause)),
                },
            }
        }
        Ok(())
    }

    /// Says that nothing more will come, if the socket takes it.
    pub fn send_close_notify(&mut self) {
        self.session.end();
        // Who has gone does not need to be told.
        let _ = self.write();
    }
}

/// Where a session writes to.
struct TlsOutput<'a>(BorrowedFd<'a>);

impl Write for TlsOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// The end of the handshake and the first request go out together.
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg(self.0, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P: Protocol> Worker<P> {
    /// The socket is connected, and the two sides have to agree on keys.
    pub(super) fn start_handshake(&mut self, conn: ConnId, socket: OwnedFd, session: TlsSession, now: u64) {
        self.connections[conn].state = SocketState::Handshaking(Box::new(TlsStream { socket, session }));
        self.write_tls(conn, now);
    }

    /// Sends what the session has to send.
    pub(super) fn write_tls(&mut self, conn: ConnId, now: u64) {
        if let Some(tls) = self.connections[conn].tls()
            && let Err(cause) = tls.write()
        {
            self.tls_lost(conn, cause, now);
        }
    }

    /// Reads from a connection by TLS.
    pub(super) fn read_tls(&mut self, conn: ConnId, is_gone: bool) {
        let generation = self.connections[conn].generation;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reads = 0;
        while self.connections[conn].generation == generation
            && let Some(tls) = self.connections[conn].tls()
        {
            if reads == READS {
                self.read_later(conn);
                break;
            }
            reads += 1;
            let received = recv(&tls.socket, buffer.as_mut_slice(), RecvFlags::empty());
            let now = self.now();
            match received {
                // Without a word. So nobody can say whether an answer that ends with its connection is whole (RFC 9112, 9.8).
                Ok((0, _)) => {
                    let cause = self.connections[conn].broken.unwrap_or(AttemptCause::Closed);
                    self.tls_lost(conn, cause, now);
                }
                Ok((count, _)) => {
                    self.receive_tls(conn, &buffer[..count], now);
                    if count < buffer.len() && !is_gone {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => self.tls_lost(conn, broken_cause(errno), now),
            }
        }
        self.buffer = buffer;
    }

    /// The socket has ended or broken. Before there were keys nothing can have been sent.
    fn tls_lost(&mut self, conn: ConnId, cause: AttemptCause, now: u64) {
        if self.connections[conn].is_up() {
            self.connection_lost(conn, cause, now);
        } else {
            self.connect_failed(conn, AttemptCause::TlsClosed, now);
        }
    }

    /// Hands on what the bytes mean.
    fn receive_tls(&mut self, conn: ConnId, mut bytes: &[u8], now: u64) {
        let generation = self.connections[conn].generation;
        let mut clear = std::mem::take(&mut self.clear);
        while !bytes.is_empty() && self.connections[conn].generation == generation {
            match self.decrypt(conn, &mut bytes, now) {
                Ok(()) => self.deliver_plaintext(conn, &mut clear, now),
                Err(cause) if self.connections[conn].is_up() => self.connection_lost(conn, cause, now),
                Err(cause) => self.connect_failed(conn, cause, now),
            }
        }
        self.clear = clear;
        // What the handshake says next, or an answer to what the peer asks of the session itself.
        if self.connections[conn].generation == generation {
            self.write_tls(conn, now);
        }
    }

    fn decrypt(&mut self, conn: ConnId, bytes: &mut &[u8], now: u64) -> Result<(), AttemptCause> {
        let connection = &mut self.connections[conn];
        let Some(tls) = connection.tls() else { return Ok(()) };
        if let Err(cause) = tls.session.take(bytes) {
            // The peer is told why, if it can be.
            let _ = tls.write();
            let refused = tls.session.refused().filter(|_| !self.has_noticed_certificate);
            if let Some(why) = refused {
                self.has_noticed_certificate = true;
                self.stats.notices.push(format!("TLS: the target's certificate is not taken: {why}"));
            }
            return Err(cause);
        }
        if tls.session.is_handshaking() {
            return Ok(());
        }
        match std::mem::replace(&mut connection.state, SocketState::Down) {
            SocketState::Handshaking(tls) => self.opened(conn, SocketStream::Tls(tls), now),
            state => connection.state = state,
        }
        Ok(())
    }

    fn deliver_plaintext(&mut self, conn: ConnId, clear: &mut [u8], now: u64) {
        let generation = self.connections[conn].generation;
        while self.connections[conn].generation == generation
            && let Some(tls) = self.connections[conn].tls()
        {
            match tls.session.read(clear) {
                Some(0) => self.ended(conn, now),
                Some(count) => self.received(conn, &clear[..count], now),
                None => return,
            }
        }
    }
}

/// Of the services, those that are spoken to by TLS, and whom to trust there.
pub fn peers<P: Protocol>(orders: &LoadOrder, services: &[P]) -> Result<Option<TlsPeers>, Error> {
    let trust = TlsTrust { tls: orders.tls.clone(), files: orders.files.clone() };
    let hosts: Vec<Option<&str>> = services.iter().map(P::tls_host).collect();
    TlsPeers::of(&trust, P::ALPN, &hosts).map_err(|reason| Error::Setting(format!("TLS: {reason}")))
}
