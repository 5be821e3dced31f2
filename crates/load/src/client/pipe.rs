//! The client's connection, in the clear or by TLS: bytes out, bytes in, each wait bounded by a deadline. It must not know what the
//! bytes mean.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::protocols::Cause;
use crate::tls::Session;

/// An open connection.
pub struct Pipe {
    socket: TcpStream,
    session: Option<Box<Session>>,
}

impl Pipe {
    /// Connects, and agrees on keys if there is a session.
    pub fn open(address: &SocketAddr, session: Option<Session>, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let socket = TcpStream::connect_timeout(address, timeout)?;
        socket.set_nodelay(true)?;
        let mut pipe = Self { socket, session: session.map(Box::new) };
        pipe.shake(deadline)?;
        Ok(pipe)
    }

    fn shake(&mut self, deadline: Instant) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while self.session.as_ref().is_some_and(|session| session.is_shaking()) {
            self.write(deadline)?;
            if self.receive(&mut buffer, &mut Vec::new(), deadline)? {
                return Err(in_words(Cause::TlsClosed));
            }
        }
        self.write(deadline)
    }

    /// Sends all of the bytes.
    pub fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        match &mut self.session {
            Some(session) => {
                session.say(bytes).map_err(in_words)?;
                self.write(deadline)
            }
            None => self.send_clear(bytes, deadline),
        }
    }

    /// The deadline holds for the whole, however little the target takes at a time.
    fn send_clear(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.limit(deadline)?;
            match self.socket.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Itself, if nothing came since the last answer, not even the end. What came would be taken for the next answer. By TLS it may be
    /// the session's own, which means nothing.
    pub fn if_silent(mut self) -> Option<Self> {
        self.socket.set_nonblocking(true).ok()?;
        let is_silent = match &mut self.session {
            Some(session) => means_nothing(&self.socket, session),
            None => is_empty(&self.socket.peek(&mut [0])),
        };
        (is_silent && self.socket.set_nonblocking(false).is_ok()).then_some(self)
    }

    /// Sends what the session has to send.
    fn write(&mut self, deadline: Instant) -> io::Result<()> {
        while self.session.as_ref().is_some_and(|session| session.wants_write()) {
            self.limit(deadline)?;
            let Some(session) = &mut self.session else { break };
            match session.write_to(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes and appends what they mean to the input, which may be nothing yet; whether no more will come.
    pub fn receive(&mut self, buffer: &mut [u8], input: &mut Vec<u8>, deadline: Instant) -> io::Result<bool> {
        self.limit(deadline)?;
        let count = match self.socket.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(session) = &mut self.session else {
            input.extend_from_slice(&buffer[..count]);
            return Ok(count == 0);
        };
        if count == 0 && session.is_shaking() {
            return Ok(true);
        }
        if count == 0 {
            // Nobody can say whether more was to come (RFC 9112, 9.8).
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed without a word"));
        }
        let mut sealed = &buffer[..count];
        let mut clear = [0; 4096];
        while !sealed.is_empty() {
            session.take(&mut sealed).map_err(in_words)?;
            while let Some(count) = session.read(&mut clear) {
                if count == 0 {
                    return Ok(true);
                }
                input.extend_from_slice(&clear[..count]);
            }
        }
        self.write(deadline)?;
        Ok(false)
    }

    /// The next wait ends at the deadline.
    fn limit(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }
}

/// Whether what has come by now, if anything has, is for the session itself.
fn means_nothing(mut socket: &TcpStream, session: &mut Session) -> bool {
    let mut buffer = [0; 4096];
    // As much as a session may say of itself; who says more is not trusted to stop.
    for _ in 0..16 {
        let count = match socket.read(&mut buffer) {
            Ok(count @ 1..) => count,
            other => return is_empty(&other),
        };
        let mut sealed = &buffer[..count];
        while !sealed.is_empty() {
            if session.take(&mut sealed).is_err() || session.read(&mut [0]).is_some() {
                return false;
            }
        }
    }
    false
}

/// Whether there was nothing to be read, and no end.
fn is_empty(read: &io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn in_words(cause: Cause) -> io::Error {
    io::Error::other(cause.text(&[]))
}
