//! One connection: its socket, what came and is no whole request yet, what was answered and is not sent
//! yet; and all open ones, by token.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// Buffers that grew beyond this are given back once they are empty.
const SPARE_BYTES: usize = 256 << 10;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// Requests are read.
    Open,
    /// No more is read; closed when the last answer is sent.
    Ending {
        /// Whether the client may still be sending: closing at once would make the system discard the last answer.
        linger: bool,
    },
    /// All is sent, our side is shut; what comes is thrown away until the client closes.
    Lingering,
}

/// What a receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever again.
    End,
}

/// An accepted connection. `M` is what its protocol remembers between pieces of a request.
#[derive(Debug)]
pub(crate) struct Connection<M> {
    socket: OwnedFd,
    /// The protocol's.
    pub memory: M,
    /// How far it is.
    pub phase: ConnectionPhase,
    /// The beginning of a request, or requests that wait because too much is unsent.
    pub input: Vec<u8>,
    /// Whether requests wait in `input` or in the socket because too much is unsent.
    pub paused: bool,
    /// Whether the client has said that it will send no more.
    pub peer_ended: bool,
    /// Batches of answers that wait for their time, and their size.
    pub held: usize,
    pub held_bytes: usize,
    output: Vec<u8>,
    sent: usize,
}

impl<M: Default> Connection<M> {
    /// A fresh one.
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

    /// The socket, to be registered.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Answers that the client has not taken yet, and those that are not due.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent + self.held_bytes
    }

    /// Whether every answer is on its way.
    pub fn is_done(&self) -> bool {
        self.held == 0 && self.output.is_empty()
    }

    /// Reads once.
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

    /// Sends, behind what is unsent; keeps what the socket does not take.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let sent = if self.output.is_empty() { push(&self.socket, bytes)? } else { 0 };
        self.output.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends what the socket did not take before.
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

    /// Tells the client that nothing more will come.
    pub fn shut(&self) {
        // The only error is that the client has gone, which an event says, too.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

/// Clears a buffer, and frees it where it has grown large.
pub(crate) fn empty(buffer: &mut Vec<u8>) {
    if buffer.capacity() > SPARE_BYTES {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

/// Sends until the socket takes no more: only then does an edge-triggered epoll say when it does again.
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

/// Names a connection: its slot, and how many had that slot before it.
pub(crate) type ConnectionToken = u64;

/// Slots there may be; tokens above are free for what is no connection.
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
    /// None yet.
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Takes a connection in. `None`: there are too many to be told apart.
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

    /// The connection, unless it has been closed.
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

/// Index and generation.
fn parts(token: ConnectionToken) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let halves = (token as u32, (token >> 32) as u32);
    halves
}
