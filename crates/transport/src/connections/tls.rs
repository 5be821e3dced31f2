//! TLS connections: the handshake, which is part of connecting, and bytes sent and received through
//! a session.
//!
//! Received bytes are stamped right after the `recv`, as without TLS. Decrypting an answer takes
//! some microseconds, which count towards the agent's next operation. Encrypting a request counts
//! as service time.

use std::io::{self, IoSlice, Write};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use wire::cause::AttemptCause;
use wire::excerpt;

use super::{ConnEvent, ConnectionSet, EventSource, READS, ReadBuffers, SocketState, SourceStage, broken_cause, write};
use crate::conn_id::ConnId;
use crate::tls::TlsSession;
use crate::tunnel::TunnelAnswer;

/// A socket with its TLS session.
#[derive(Debug)]
pub struct TlsStream {
    pub socket: OwnedFd,
    pub session: TlsSession,
}

impl TlsStream {
    /// Encrypts a request and sends as much of it as the socket takes. The session keeps the rest.
    pub(super) fn write_plaintext(&mut self, clear: &[u8]) -> Result<(), AttemptCause> {
        self.session.write_plaintext(clear)?;
        self.write()
    }

    /// Sends as many of the session's encrypted bytes as the socket takes.
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

    /// Sends the peer a close notification, if the socket takes it.
    pub fn send_close_notify(&mut self) {
        self.session.end();
        // If the peer is gone, it needs no notification.
        let _ = self.write();
    }
}

/// Output of a session.
struct TlsOutput<'a>(BorrowedFd<'a>);

impl Write for TlsOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Sends the end of the handshake and the first request together.
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg(self.0, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Received TLS bytes that are not decrypted yet.
#[derive(Debug, Default)]
pub(super) struct SealedBytes {
    from: usize,
    to: usize,
    /// Whether decrypted bytes are left to read first.
    is_decrypted: bool,
    /// Whether bytes arrived to which the session may have to respond.
    came: bool,
}

impl ConnectionSet {
    /// Begins the use of a connected socket: sends the tunnel request to a proxy, or starts the
    /// handshake with the target.
    pub(super) fn enter(&mut self, conn: ConnId, socket: OwnedFd, session: TlsSession) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        let Some(tunnel) = self.paths.tunnels.get(connection.service as usize).and_then(Option::as_ref) else {
            return self.start_handshake(conn, socket, session);
        };
        // The buffer of a new socket always has space for a tunnel request.
        if write(socket.as_fd(), &tunnel.bytes).is_ok_and(|sent| sent == tunnel.bytes.len()) {
            connection.state = SocketState::Tunnelling(Box::new(TlsStream { socket, session }));
            return None;
        }
        Some(ConnEvent::ConnectFailed(AttemptCause::ConnectFailed))
    }

    /// Handles bytes that answer the tunnel request.
    pub(super) fn tunnelled(&mut self, conn: ConnId, bytes: &[u8]) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        connection.pending.extend_from_slice(bytes);
        match TunnelAnswer::of(&connection.pending) {
            TunnelAnswer::More => return None,
            TunnelAnswer::Open => {}
            TunnelAnswer::Refused { status, .. } => return Some(ConnEvent::ConnectFailed(AttemptCause::Proxy(status))),
        }
        connection.pending.clear();
        match std::mem::replace(&mut connection.state, SocketState::Down) {
            SocketState::Tunnelling(tls) => {
                let TlsStream { socket, session } = *tls;
                self.start_handshake(conn, socket, session)
            }
            _ => None,
        }
    }

    /// Starts the TLS handshake with the target.
    pub(super) fn start_handshake(&mut self, conn: ConnId, socket: OwnedFd, session: TlsSession) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        let mut tls = Box::new(TlsStream { socket, session });
        let written = tls.write();
        connection.state = SocketState::Handshaking(tls);
        written.err().map(|cause| connection.lost(cause))
    }

    /// Returns one printable line of the proxy's refusal to open a tunnel. Empty if the refusal has
    /// no text.
    pub fn proxy_refusal(&self, conn: ConnId) -> String {
        let connection = &self.list[conn.index()];
        let line = connection.pending.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if matches!(connection.state, SocketState::Tunnelling(_)) { excerpt::reason_line(line) } else { String::new() }
    }

    /// Whether the peer selected no protocol (ALPN) although the client offered some.
    pub fn has_no_protocol(&mut self, conn: ConnId) -> bool {
        self.list[conn.index()].tls().is_some_and(|tls| tls.session.has_no_protocol())
    }

    /// Returns the reason why the peer's certificate was refused, or `None` if it was not refused.
    pub fn certificate_error(&mut self, conn: ConnId) -> Option<String> {
        self.list[conn.index()].tls()?.session.refused()
    }

    /// Reads from a TLS connection and decrypts the bytes.
    pub(super) fn read_tls(&mut self, source: &mut EventSource, buffers: &mut ReadBuffers) -> Option<ConnEvent> {
        if source.reads == 0 {
            // The buffer holds bytes of another connection.
            buffers.sealed = SealedBytes::default();
        }
        loop {
            let connection = &mut self.list[source.conn.index()];
            let broken = connection.broken;
            let tls = connection.tls()?;
            let sealed = &mut buffers.sealed;
            if sealed.is_decrypted {
                match tls.session.read(&mut buffers.plaintext) {
                    Some(0) => return Some(connection.ended()),
                    Some(count) => {
                        (buffers.is_plaintext, buffers.length) = (true, count);
                        return Some(ConnEvent::Bytes);
                    }
                    None => sealed.is_decrypted = false,
                }
            } else if sealed.from < sealed.to {
                if let Some(event) = self.decrypt(source.conn, buffers) {
                    return Some(event);
                }
            } else if std::mem::take(&mut sealed.came) {
                if sealed.to < buffers.received.len() && !source.is_gone {
                    source.stage = SourceStage::Write;
                }
                // Sends the next handshake message, or the session's response to the peer.
                if let Err(cause) = tls.write() {
                    return Some(connection.lost(cause));
                }
                if source.stage == SourceStage::Write {
                    return None;
                }
            } else if source.reads == READS {
                return self.read_later(source);
            } else {
                source.reads += 1;
                let received = recv(&tls.socket, buffers.received.as_mut_slice(), RecvFlags::empty());
                source.now_ns = self.clock.now_ns();
                match received {
                    // The stream ended without a close notification. An answer that ends with its
                    // connection may be incomplete (RFC 9112, 9.8).
                    Ok((0, _)) => return Some(connection.lost(broken.unwrap_or(AttemptCause::Closed))),
                    Ok((count, _)) => (sealed.from, sealed.to, sealed.came) = (0, count, true),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        source.stage = SourceStage::Write;
                        return None;
                    }
                    Err(errno) => return Some(connection.lost(broken_cause(errno))),
                }
            }
        }
    }

    fn decrypt(&mut self, conn: ConnId, buffers: &mut ReadBuffers) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        let sealed = &mut buffers.sealed;
        let mut bytes = &buffers.received[sealed.from..sealed.to];
        let tls = connection.tls()?;
        let taken = tls.session.take(&mut bytes);
        sealed.from = sealed.to - bytes.len();
        sealed.is_decrypted = true;
        if let Err(cause) = taken {
            // Sends the alert with the reason, if the peer can still receive it.
            let _ = tls.write();
            return Some(match (&connection.state, cause) {
                // In TLS 1.3, the client is connected before the server reads the client's
                // certificate.
                (SocketState::Up(_), cause) if !matches!(cause, AttemptCause::TlsAlert(_)) => ConnEvent::Closed(cause),
                _ => ConnEvent::ConnectFailed(cause),
            });
        }
        if tls.session.is_handshaking() {
            return None;
        }
        match std::mem::replace(&mut connection.state, SocketState::Down) {
            SocketState::Handshaking(tls) => Some(self.connected(conn, SocketState::OpeningTls(tls))),
            state => {
                connection.state = state;
                None
            }
        }
    }
}
