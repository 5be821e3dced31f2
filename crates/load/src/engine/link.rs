//! An agent's connection: opened, written, read until a short read, closed. It must not decide what an answer means or what follows
//! a failure.
//!
//! A connection is registered with epoll once, edge-triggered, for everything. After a short read the socket was empty, so no second
//! `recv` is made: whatever comes later makes a new edge.

use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};

use super::agent::{Link, NEVER, Work};
use super::worker::{Worker, source};
use crate::protocols::{Cause, Protocol};
use crate::values::Values;

/// How sending went.
pub enum Went {
    /// Sent, or on its way.
    On,
    /// The connection broke.
    Wrong(Cause),
    /// There is no connection, and none could be begun.
    Unconnected(Cause),
}

/// Buffers that are kept for the next piece, and their largest size.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 1024 * 1024;

impl<P: Protocol> Worker<P> {
    /// Sends the agent's request; connects first if need be, and then sends when that is done.
    pub(super) fn send(&mut self, index: usize, now: u64) -> Went {
        match &self.agents[index].link {
            Link::Up(_) => self.write_request(index, now),
            Link::Connecting(_) => Went::On,
            Link::Down => self.connect(index).map_or_else(Went::Unconnected, |()| Went::On),
        }
    }

    fn write_request(&mut self, index: usize, now: u64) -> Went {
        let agent = &mut self.agents[index];
        let Link::Up(socket) = &agent.link else { return Went::On };
        let step = &self.script.steps[usize::from(agent.step)];
        // 0 is left to answers that belong to no request.
        agent.request_id = agent.request_id.wrapping_add(1).max(1);
        agent.sent_ns = now;
        let values =
            Values { source: source(agent, index, &self.script, &self.slots, &self.rows), arguments: &step.arguments };
        self.outgoing.clear();
        P::encode(self.script.request(agent), agent.request_id, &values, &mut self.outgoing);
        let sent = match write(socket.as_fd(), &self.outgoing) {
            Ok(sent) => sent,
            Err(cause) => return Went::Wrong(cause),
        };
        if sent < self.outgoing.len() {
            agent.output = self.spare.pop().unwrap_or_default();
            agent.output.extend_from_slice(&self.outgoing[sent..]);
        }
        Went::On
    }

    fn connect(&mut self, index: usize) -> Result<(), Cause> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let address = self.addresses[self.agents[index].place.service as usize];
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| self.lack(errno))?;
        set_tcp_nodelay(&socket, true).map_err(|errno| self.lack(errno))?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(self.lack(errno)),
        }
        let agent = &mut self.agents[index];
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = u64::from(agent.generation) << 32 | index as u64;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(data), flags).map_err(|errno| self.lack(errno))?;
        self.agents[index].link = Link::Connecting(socket);
        Ok(())
    }

    /// Why there is no connection. What this machine lacks is told once.
    fn lack(&mut self, errno: Errno) -> Cause {
        let cause = connect_cause(errno);
        let text = match cause {
            Cause::NoPort => "no local port is left to connect from: widen net.ipv4.ip_local_port_range",
            Cause::NoFile => "no file descriptor is left to connect with: raise `ulimit -n`",
            _ => return cause,
        };
        if !std::mem::replace(&mut self.has_told_of_lack, true) {
            self.tally.notices.push(text.to_owned());
        }
        cause
    }

    /// Epoll reports on a connection.
    pub(super) fn handle(&mut self, data: u64, flags: EventFlags) {
        let index = (data & u64::from(u32::MAX)) as usize;
        let generation = (data >> 32) as u32;
        let is_current = |worker: &Self| worker.agents[index].generation == generation;
        if !is_current(self) {
            return;
        }
        if matches!(self.agents[index].link, Link::Connecting(_)) {
            self.connected(index, flags);
        } else if flags.contains(EventFlags::OUT) && !self.agents[index].output.is_empty() {
            self.write_rest(index);
        }
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if is_current(self) && flags.intersects(EventFlags::IN | gone) {
            self.read(index, flags.intersects(gone));
        }
    }

    fn connected(&mut self, index: usize, flags: EventFlags) {
        if !flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let now = self.now();
        let agent = &mut self.agents[index];
        let Link::Connecting(socket) = std::mem::replace(&mut agent.link, Link::Down) else { return };
        if let Ok(Err(errno)) | Err(errno) = socket_error(&socket) {
            self.connect_failed(index, connect_cause(errno), now);
            return;
        }
        agent.link = Link::Up(socket);
        agent.is_proven = false;
        let is_waited_for = agent.work == Work::Attempt;
        self.tally.connected();
        if is_waited_for && let Went::Wrong(cause) = self.write_request(index, now) {
            self.link_lost(index, cause, now);
        }
    }

    fn write_rest(&mut self, index: usize) {
        let now = self.now();
        let agent = &mut self.agents[index];
        let Link::Up(socket) = &agent.link else { return };
        match write(socket.as_fd(), &agent.output) {
            Ok(sent) if sent == agent.output.len() => {
                let output = std::mem::take(&mut agent.output);
                self.give_back(output);
            }
            Ok(sent) => drop(agent.output.drain(..sent)),
            Err(cause) => self.link_lost(index, cause, now),
        }
    }

    fn read(&mut self, index: usize, is_gone: bool) {
        let generation = self.agents[index].generation;
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.agents[index].generation == generation
            && let Link::Up(socket) = &self.agents[index].link
        {
            let received = recv(socket, buffer.as_mut_slice(), RecvFlags::empty());
            let now = self.now();
            match received {
                Ok((0, _)) => {
                    self.ended(index, now);
                    break;
                }
                Ok((count, _)) => {
                    self.received(index, &buffer[..count], now);
                    // Where the peer is gone, what is left is read to its end.
                    if count < buffer.len() && !is_gone {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.link_lost(index, broken_cause(errno), now);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// The agent's connection is of no use any more. An idle agent connects again at once, if the connection ever served it.
    pub(super) fn link_lost(&mut self, index: usize, cause: Cause, now: u64) {
        let was_proven = self.agents[index].is_proven;
        self.close(index);
        match self.agents[index].work {
            Work::Attempt => self.attempt_failed(index, cause, now),
            Work::Pause | Work::RetryPause if was_proven && now < self.end_ns => {
                if let Err(cause) = self.connect(index) {
                    self.connect_failed(index, cause, now);
                }
            }
            Work::Pause | Work::RetryPause | Work::Unborn | Work::Done => {}
        }
    }

    /// The agent could not connect, and tries no more for a while.
    pub(super) fn connect_failed(&mut self, index: usize, cause: Cause, now: u64) {
        self.close(index);
        self.tally.connect_failed();
        let agent = &mut self.agents[index];
        agent.connect_after_ns = now.saturating_add(self.script.reconnect_ns.max(1));
        if agent.work == Work::Attempt {
            self.attempt_failed(index, cause, now);
        }
    }

    /// The agent's attempt has timed out. Its answer may still come, so the connection is closed.
    pub(super) fn give_up(&mut self, index: usize, now: u64) {
        if self.agents[index].sent_ns == NEVER {
            self.connect_failed(index, Cause::ConnectTimeout, now);
        } else {
            self.close(index);
            self.attempt_failed(index, Cause::Timeout, now);
        }
    }

    /// Closes the agent's connection, if there is one, and forgets what was under way on it.
    pub(super) fn close(&mut self, index: usize) {
        let agent = &mut self.agents[index];
        agent.link = Link::Down;
        agent.generation = agent.generation.wrapping_add(1);
        P::rest(&mut agent.decoder, &mut self.memory);
        let (input, output) = (std::mem::take(&mut agent.input), std::mem::take(&mut agent.output));
        self.give_back(input);
        self.give_back(output);
    }

    /// A buffer is not needed any more.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES && self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// Bytes that the socket took.
fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Cause> {
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(sent),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(errno) => return Err(broken_cause(errno)),
        }
    }
}

fn connect_cause(errno: Errno) -> Cause {
    match errno {
        Errno::CONNREFUSED => Cause::ConnectRefused,
        Errno::TIMEDOUT => Cause::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH => Cause::ConnectUnreachable,
        Errno::ADDRNOTAVAIL => Cause::NoPort,
        Errno::MFILE | Errno::NFILE => Cause::NoFile,
        _ => Cause::ConnectFailed,
    }
}

fn broken_cause(errno: Errno) -> Cause {
    match errno {
        Errno::CONNRESET => Cause::Reset,
        Errno::PIPE => Cause::Closed,
        _ => Cause::Broken,
    }
}
