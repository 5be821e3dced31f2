//! A connection with its socket, incomplete requests and unsent answers, and the table of all open
//! connections by token.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// Capacity above which an empty buffer is freed.
const SPARE_BYTES: usize = 256 << 10;

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The server reads requests.
    Open,
    /// The server reads nothing more, and closes the connection after the last answer.
    Ending {
        /// Whether the client may still be sending. An immediate close would then make the system
        /// discard the last answer.
        linger: bool,
    },
    /// Everything is sent and the server's side is shut. Input is discarded until the client
    /// closes.
    Lingering,
}

/// Result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Number of bytes received.
    Bytes(usize),
    /// No data at present.
    Nothing,
    /// End of input.
    End,
}

/// An accepted connection. `M` is the protocol's state between parts of a request.
#[derive(Debug)]
pub(crate) struct Connection<M> {
    socket: OwnedFd,
    /// State of the protocol.
    pub memory: M,
    pub phase: ConnectionPhase,
    /// Beginning of a request, or requests that wait because too much is unsent.
    pub input: Vec<u8>,
    /// Whether requests wait in `input` or in the socket because too much is unsent.
    pub paused: bool,
    /// Whether the client has shut its sending side.
    pub peer_ended: bool,
    /// Number of delayed batches of answers, and their size.
    pub held: usize,
    pub held_bytes: usize,
    output: Vec<u8>,
    sent: usize,
}

impl<M: Default> Connection<M> {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            memory: M::default(),
            phase: ConnectionPhase::Open,
            input: Vec::new(),
            paused: false,
            peer_ended: false,
            held: 0,
            held_bytes: 0,
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Returns the socket, for registration.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns the size of unsent and delayed answers.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent + self.held_bytes
    }

    /// Whether all answers are sent.
    pub fn is_done(&self) -> bool {
        self.held == 0 && self.output.is_empty()
    }

    /// Receives once.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        loop {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(Received::End),
                Ok((_, count)) => return Ok(Received::Bytes(count)),
                Err(Errno::WOULDBLOCK) => return Ok(Received::Nothing),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends `bytes` after the unsent bytes. Keeps the bytes that the socket does not accept.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let sent = if self.output.is_empty() { push(&self.socket, bytes)? } else { 0 };
        self.output.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends the unsent bytes.
    pub fn flush(&mut self) -> Result<(), Errno> {
        self.sent += push(&self.socket, &self.output[self.sent..])?;
        if self.sent == self.output.len() {
            self.sent = 0;
            empty(&mut self.output);
        } else if self.sent > SPARE_BYTES {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Shuts the server's sending side.
    pub fn shut(&self) {
        // An error means that the client is gone, which an event also reports.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

/// Clears a buffer, and frees it if it is large.
pub(crate) fn empty(buffer: &mut Vec<u8>) {
    if buffer.capacity() > SPARE_BYTES {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

/// Sends until the socket accepts no more. Only then does an edge-triggered epoll report that the
/// socket accepts data again.
fn push(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::WOULDBLOCK) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(sent)
}

/// Identifies a connection by its slot and the number of earlier connections in that slot.
pub(crate) type ConnectionToken = u64;

/// Maximum number of slots. Tokens of slots above this number are free for other uses.
const MOST: u32 = u32::MAX - 15;

/// All open connections.
#[derive(Debug)]
pub(crate) struct Slots<M> {
    slots: Vec<ConnectionSlot<M>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct ConnectionSlot<M> {
    generation: u32,
    connection: Option<Connection<M>>,
}

impl<M> Slots<M> {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Adds a connection. Returns `None` if there are too many.
    pub fn insert(&mut self, connection: Connection<M>) -> Option<ConnectionToken> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).ok().filter(|index| *index < MOST)?;
                self.slots.push(ConnectionSlot { generation: 0, connection: None });
                index
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.connection = Some(connection);
        Some(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Returns the connection unless it has been closed.
    pub fn get(&mut self, token: ConnectionToken) -> Option<&mut Connection<M>> {
        let (index, generation) = parts(token);
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation == generation { slot.connection.as_mut() } else { None }
    }

    /// Closes the connection.
    pub fn remove(&mut self, token: ConnectionToken) {
        let (index, generation) = parts(token);
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.generation == generation
            && slot.connection.take().is_some()
        {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}

/// Returns the slot index and the generation of a token.
fn parts(token: ConnectionToken) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let halves = (token as u32, (token >> 32) as u32);
    halves
}
