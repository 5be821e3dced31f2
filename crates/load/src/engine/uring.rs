//! Connections in the clear that are kept: their bytes are carried by the kernel's ring, where it is permitted, and
//! else like all others' by a system call each, when epoll says so.
//!
//! Connections are made, greeted and broken off as ever; the ring watches epoll for that. Once a connection takes requests epoll is told
//! to forget it, but for requests that its socket did not take at once. What has become ready in a turn of the loop goes out at the turn's
//! end, with the call that waits: some at a time, each stamped before, so that a request's service time contains at most the
//! handing-over of [`AT_ONCE`] others. What comes is stamped when that call returns.
//!
//! Measured against epoll on the same machine, its two cores busy with other work, medians of runs: with 64 connections 5 to 14 % more
//! requests per CPU-second of the generator, since a request costs no system calls of its own; with 1,000 between 2 % fewer and 11 %
//! more. That answers are gathered (see `worker`) is worth another 5 to 10 % where the target is the slower one.
//! Sockets registered with the ring, so that it need not look them up for each request, and 24 or 32 requests at once instead of 16 made
//! no difference that could be shown.

use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{Shutdown, shutdown};

use super::connection::{SocketState, SocketStream, broken_cause, event_data};
use super::ids::{AgentId, ConnId};
use super::worker::{Events, Worker};
use crate::Error;
use crate::protocols::Protocol;
use crate::ring::{Completion, Ring, RingToken};

/// Most requests that are handed over at once.
const AT_ONCE: usize = 16;

impl<P: Protocol> Worker<P> {
    /// A ring, if it is worth one: fresh connections would spend more on it than they gain, and sealed ones are read in their own way.
    pub(super) fn open_ring(&mut self) {
        if !self.script.may_ring || P::RUNS_PROGRAMS || self.script.peers.is_some() || !self.script.keep_alive {
            return;
        }
        match Ring::open(self.connections.len(), self.epoll.as_fd()) {
            Ok(ring) => self.ring = Some(Box::new(ring)),
            Err(error) if self.thread == 0 => self.stats.notices.push(format!(
                "this system has no io_uring for us ({error}), so every request costs system calls of its own: up to a sixth more of \
                 the generator's CPU"
            )),
            Err(_) => {}
        }
    }

    /// The connection takes requests from now on; how its bytes are carried.
    pub(super) fn hand_to_ring(&mut self, conn: ConnId, stream: SocketStream) -> SocketStream {
        let token = self.token(conn);
        match (stream, &mut self.ring) {
            (SocketStream::Plain(socket), Some(ring)) => {
                // Who does not want to wait is told so at once, and the ring is to wait.
                let handed = epoll::delete(&self.epoll, &socket)
                    .and_then(|()| ioctl_fionbio(&socket, false))
                    .map_err(Into::into)
                    .and_then(|()| ring.receive(token, socket.as_fd()));
                self.fail_by_ring(handed);
                SocketStream::Ring(socket)
            }
            (stream, _) => stream,
        }
    }

    /// The load cannot go on without its ring.
    fn fail_by_ring(&mut self, result: std::io::Result<()>) {
        if let Err(source) = result {
            self.failure.get_or_insert(Error::System { doing: "cannot use an io_uring", source });
        }
    }

    fn token(&self, conn: ConnId) -> RingToken {
        RingToken::new(conn.number(), self.connections[conn].generation)
    }

    /// The request goes out with the others of this turn.
    pub(super) fn queue_on_ring(&mut self, conn: ConnId) {
        let token = self.token(conn);
        if let (Some(ring), SocketState::Up(SocketStream::Ring(socket))) =
            (&mut self.ring, &self.connections[conn].state)
        {
            ring.send(token, socket.as_fd(), &self.outgoing);
        }
    }

    /// Encodes what has become ready in this turn, and hands over all but the last of it: that goes with the call that waits.
    pub(super) fn send_by_ring(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        let mut parts = ready.chunks(AT_ONCE).peekable();
        while let Some(part) = parts.next() {
            let now = self.now();
            for conn in part {
                if let Err(cause) = self.write_requests(*conn, now) {
                    self.broke_in_writing(*conn, cause, now);
                }
            }
            if parts.peek().is_some()
                && let Some(ring) = &mut self.ring
            {
                let handed = ring.hand_over();
                self.fail_by_ring(handed);
            }
        }
        ready.clear();
        // Nothing becomes ready in between, but for connections that broke.
        ready.append(&mut self.ready);
        self.ready = ready;
    }

    /// Deals with what the ring has told.
    pub(super) fn handle_completions(&mut self, events: &mut Events) {
        if events.arrivals.is_empty() {
            return;
        }
        let now = self.now();
        let mut buffer = std::mem::take(&mut self.buffer);
        for arrival in events.arrivals.drain(..) {
            self.handle_completion(arrival, &mut buffer, now);
        }
        self.buffer = buffer;
    }

    fn handle_completion(&mut self, arrival: Completion, buffer: &mut [u8], now: u64) {
        let token = arrival.token();
        let conn = ConnId::new(token.number);
        let is_current = |worker: &Self| worker.token(conn) == token;
        let is_known = is_current(self);
        match arrival {
            Completion::Bytes { place, length, is_last, .. } => {
                let Some(ring) = &mut self.ring else { return };
                let length = ring.take(place, length, buffer);
                if is_known {
                    self.received(conn, &buffer[..length], now);
                }
                if is_last && is_current(self) {
                    self.receive_again(conn);
                }
            }
            // An old socket's.
            _ if !is_known => {}
            Completion::Starved(_) => self.receive_again(conn),
            Completion::Ended(_) => self.ended(conn, now),
            Completion::Broken(_, errno) => self.connection_lost(conn, broken_cause(errno), now),
            Completion::Unsent { taken, .. } => self.keep_unsent(conn, taken),
            // The receiving ends, too, behind what was answered before.
            Completion::Mute(_, errno) => self.broke_in_writing(conn, broken_cause(errno), now),
        }
    }

    fn receive_again(&mut self, conn: ConnId) {
        let token = self.token(conn);
        if let (Some(ring), SocketState::Up(SocketStream::Ring(socket))) =
            (&mut self.ring, &self.connections[conn].state)
        {
            let asked = ring.receive(token, socket.as_fd());
            self.fail_by_ring(asked);
        }
    }

    /// The socket was full: epoll says when it is not.
    fn keep_unsent(&mut self, conn: ConnId, taken: usize) {
        let token = self.token(conn);
        let connection = &mut self.connections[conn];
        let (Some(ring), SocketState::Up(SocketStream::Ring(socket))) = (&self.ring, &connection.state) else {
            return;
        };
        if connection.output.is_empty() {
            connection.output = self.spare.pop().unwrap_or_default();
        }
        connection.output.extend_from_slice(ring.unsent(token, taken));
        let data = event_data(connection.generation, conn);
        let watched = epoll::add(&self.epoll, socket, data, EventFlags::OUT | EventFlags::ET);
        self.fail_by_ring(watched.map_err(Into::into));
    }

    /// Everything that the socket did not take at once has gone out.
    pub(super) fn unwatch_writable(&mut self, conn: ConnId) {
        if let SocketState::Up(SocketStream::Ring(socket)) = &self.connections[conn].state {
            let forgotten = epoll::delete(&self.epoll, socket);
            self.fail_by_ring(forgotten.map_err(Into::into));
        }
    }

    /// The socket is closed by its last owner, and the ring is one as long as it receives from it.
    pub(super) fn shut_down(&mut self, socket: OwnedFd) {
        if let Some(ring) = &mut self.ring {
            // A request for it that is still on its way would meet another socket of that number.
            let handed = ring.hand_over();
            self.fail_by_ring(handed);
        }
        // Bytes that nobody will read reset a connection that is closed, and not one that is shut down: with no room left for them,
        // the target's system would keep its answer and ask for room for minutes.
        if ioctl_fionread(&socket).is_ok_and(|unread| unread > 0) {
            let _ = set_socket_linger(&socket, Some(Duration::ZERO));
        }
        // One that is not connected any more needs no telling.
        let _ = shutdown(&socket, Shutdown::Both);
    }

    /// Who waits on a fresh connection is served in this turn.
    pub(super) fn ready_if_unsent(&mut self, conn: ConnId) {
        if self.connections[conn].waiting.unsent() != AgentId::NONE {
            self.ready.push(conn);
        }
    }
}
