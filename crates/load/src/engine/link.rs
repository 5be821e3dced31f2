//! A connection's socket: opened, written, read until a short read, closed. It must not decide what an answer means or what follows
//! a failure.
//!
//! A socket is registered with epoll once, edge-triggered, for everything. After a short read it was empty, so no second `recv` is
//! made: whatever comes later makes a new edge.

use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};

use super::connection::{Link, NOBODY, Stream};
use super::sources::use_for;
use super::worker::{Worker, source};
use crate::answer_budget::Held;
use crate::protocols::{Cause, Protocol};
use crate::values::Values;

/// What epoll reports on a connection.
const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Most buffers that are read from one connection before the others, and the timers, get their turn: a target that sends faster than
/// it is read must not keep the thread to itself.
pub(super) const READS: usize = 16;

/// Buffers that are kept for the next piece, and their largest size.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 1024 * 1024;

impl<P: Protocol> Worker<P> {
    /// The agent's request goes out on its connection, which is made first if need be.
    pub(super) fn send(&mut self, index: usize, now: u64) {
        let number = self.agents[index].connection as usize;
        let connection = &mut self.connections[number];
        let is_first = connection.waiting.join(&mut self.agents, index);
        match &connection.link {
            // Others of the connection may be ready in this turn of the loop, too: they go out together.
            Link::Up(stream) if matches!(stream, Stream::Carried(_)) || self.script.places.is_pipelined() => {
                if is_first {
                    self.ready.push(number);
                }
            }
            Link::Up(_) => {
                if let Err(cause) = self.write_requests(number, now) {
                    self.link_lost(number, cause, now);
                }
            }
            Link::Connecting(_) | Link::Shaking(_) | Link::Greeting(_) => {}
            Link::Down => {
                if let Err(cause) = self.connect(number) {
                    self.connect_failed(number, cause, now);
                }
            }
        }
    }

    /// Sends what has become ready in this turn of the loop, by one write for each connection.
    #[inline]
    pub(super) fn send_ready(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        if self.ring.is_some() {
            self.send_carried();
            return;
        }
        let mut place = 0;
        while let Some(number) = self.ready.get(place).copied() {
            place += 1;
            let now = self.now();
            if let Err(cause) = self.write_requests(number, now) {
                self.broke_in_writing(number, cause, now);
            }
        }
        self.ready.clear();
    }

    /// Sends the requests of all who wait for that.
    pub(super) fn write_requests(&mut self, number: usize, now: u64) -> Result<(), Cause> {
        let connection = &self.connections[number];
        if !connection.is_up() || connection.waiting.unsent() == NOBODY {
            return Ok(());
        }
        self.encode_requests(number, now);
        let connection = &mut self.connections[number];
        let sent = match &mut connection.link {
            // What goes out first has to wait itself.
            Link::Up(Stream::Plain(_) | Stream::Carried(_)) if !connection.output.is_empty() => 0,
            Link::Up(Stream::Plain(socket)) => write(socket.as_fd(), &self.outgoing)?,
            Link::Up(Stream::Carried(_)) => {
                self.send_later(number);
                return Ok(());
            }
            Link::Up(Stream::Tls(sealed)) => return sealed.say(&self.outgoing),
            Link::Down | Link::Connecting(_) | Link::Shaking(_) | Link::Greeting(_) => return Ok(()),
        };
        if sent < self.outgoing.len() {
            if connection.output.is_empty() {
                connection.output = self.spare.pop().unwrap_or_default();
            }
            connection.output.extend_from_slice(&self.outgoing[sent..]);
        }
        Ok(())
    }

    /// Writes the requests of all who wait for that, one behind the other.
    fn encode_requests(&mut self, number: usize, now: u64) {
        let connection = &mut self.connections[number];
        let first = connection.waiting.unsent();
        connection.waiting.all_sent();
        self.outgoing.clear();
        let mut asks_script = false;
        let mut next = first;
        while next != NOBODY {
            let index = next as usize;
            let agent = &mut self.agents[index];
            // 0 is left to answers that belong to no request.
            connection.last_id = connection.last_id.wrapping_add(1).max(1);
            agent.request_id = connection.last_id;
            agent.sent_ns = now;
            next = agent.behind;
            let step = &self.script.steps[usize::from(agent.step)];
            let source = source(agent, index, &self.script, &self.slots, &self.rows);
            let values = Values { source, arguments: &step.arguments };
            P::encode(self.script.request(agent), agent.request_id, &values, &mut self.outgoing);
            asks_script |= step.asks_script;
        }
        if asks_script {
            self.stamp_anew(first);
        }
    }

    /// What a script took is no part of the service.
    fn stamp_anew(&mut self, mut next: u32) {
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        while next != NOBODY {
            let agent = &mut self.agents[next as usize];
            agent.sent_ns = now;
            next = agent.behind;
        }
    }

    pub(super) fn connect(&mut self, number: usize) -> Result<(), Cause> {
        let socket = if P::RUNS_PROGRAMS { self.summon(number)? } else { self.dial(number)? };
        let data = event_data(self.connections[number].generation, number);
        epoll::add(&self.epoll, &socket, data, INTEREST).map_err(|errno| self.lack(errno))?;
        self.connections[number].link = Link::Connecting(socket);
        Ok(())
    }

    /// A socket that connects to the connection's service.
    fn dial(&mut self, number: usize) -> Result<OwnedFd, Cause> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let service = self.connections[number].service;
        let address = self.addresses[service as usize];
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| self.lack(errno))?;
        set_tcp_nodelay(&socket, true).map_err(|errno| self.lack(errno))?;
        if let Some(source) = self.sources.of_connection(self.script.places.number_of(self.thread, number), service) {
            use_for(&socket, &source).map_err(|errno| self.lack(errno))?;
        }
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(self.lack(errno)),
        }
    }

    /// Why there is no connection. What this machine lacks is told once.
    pub(super) fn lack(&mut self, errno: Errno) -> Cause {
        let cause = connect_cause(errno);
        let text = match cause {
            Cause::NoPort if !self.script.keep_alive => {
                "no local port is left to connect from: without `keep_alive` each operation takes one, and may keep it for a minute; \
                 set net.ipv4.tcp_tw_reuse to 1, or widen net.ipv4.ip_local_port_range"
            }
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
        let number = (data & u64::from(u32::MAX)) as usize;
        let generation = (data >> 32) as u32;
        let is_current = |worker: &Self| worker.connections[number].generation == generation;
        if !is_current(self) {
            return;
        }
        if matches!(self.connections[number].link, Link::Connecting(_)) {
            self.connected(number, flags);
        }
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if is_current(self) && flags.intersects(EventFlags::IN | gone) {
            self.read(number, flags.intersects(gone));
        }
        // Only then: a target may answer before it has read the whole request, and close.
        if is_current(self) && flags.contains(EventFlags::OUT) && self.connections[number].has_unwritten() {
            self.write_rest(number);
        }
    }

    fn connected(&mut self, number: usize, flags: EventFlags) {
        if !flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let now = self.now();
        let connection = &mut self.connections[number];
        let Link::Connecting(socket) = std::mem::replace(&mut connection.link, Link::Down) else { return };
        if let Ok(Err(errno)) | Err(errno) = socket_error(&socket) {
            self.connect_failed(number, connect_cause(errno), now);
            return;
        }
        let service = connection.service as usize;
        match self.peers.as_ref().and_then(|peers| peers.session(service)) {
            // What is there before anything was asked answers nothing.
            None if flags.contains(EventFlags::IN) && !self.may_speak_first(service) => match has_bytes(&socket) {
                Ok(true) => {
                    self.tell_of_unasked();
                    self.connect_failed(number, Cause::BadAnswer, now);
                }
                Ok(false) => self.greet(number, socket, now),
                // The system says it once: whoever wrote now would only hear that nobody listens.
                Err(errno) => self.connect_failed(number, connect_cause(errno), now),
            },
            None => self.greet(number, socket, now),
            Some(Ok(session)) => self.shake(number, socket, session, now),
            Some(Err(cause)) => self.connect_failed(number, cause, now),
        }
    }

    fn may_speak_first(&self, service: usize) -> bool {
        let greeting = self.script.services[service].greeting();
        P::MAY_REFUSE_UNASKED || greeting.is_some_and(|greeting| greeting.bytes.is_empty())
    }

    /// The connection is open, and who waited for that is served.
    pub(super) fn opened(&mut self, number: usize, stream: Stream, now: u64) {
        let stream = self.carry(number, stream);
        let connection = &mut self.connections[number];
        let is_carried = matches!(stream, Stream::Carried(_));
        connection.link = Link::Up(stream);
        connection.is_proven = false;
        connection.broken = None;
        self.tally.connected();
        if is_carried {
            self.ready_if_asked(number);
        } else if let Err(cause) = self.write_requests(number, now) {
            self.link_lost(number, cause, now);
        }
    }

    fn write_rest(&mut self, number: usize) {
        let now = self.now();
        let connection = &mut self.connections[number];
        let Link::Up(Stream::Plain(socket) | Stream::Carried(socket)) = &connection.link else {
            self.write_sealed(number, now);
            return;
        };
        match write(socket.as_fd(), &connection.output) {
            Ok(sent) if sent == connection.output.len() => {
                let output = std::mem::take(&mut connection.output);
                self.give_back(output);
                self.forget_writable(number);
            }
            Ok(sent) => drop(connection.output.drain(..sent)),
            Err(cause) => self.broke_in_writing(number, cause, now),
        }
    }

    /// Reads what is there; to its end where the peer is gone.
    pub(super) fn read(&mut self, number: usize, is_gone: bool) {
        if self.connections[number].sealed().is_some() {
            return self.read_sealed(number, is_gone);
        }
        let generation = self.connections[number].generation;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reads = 0;
        while self.connections[number].generation == generation
            && let Link::Up(Stream::Plain(socket)) | Link::Greeting(socket) = &self.connections[number].link
        {
            if reads == READS {
                self.read_later(number);
                break;
            }
            reads += 1;
            let received = recv(socket, buffer.as_mut_slice(), RecvFlags::empty());
            let now = self.now();
            match received {
                Ok((0, _)) => {
                    self.ended(number, now);
                    break;
                }
                Ok((count, _)) => {
                    self.received(number, &buffer[..count], now);
                    if count < buffer.len() && !is_gone {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.link_lost(number, broken_cause(errno), now);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// Others get their turn: epoll reports the connection again although nothing new may come.
    pub(super) fn read_later(&mut self, number: usize) {
        let connection = &self.connections[number];
        let Some(socket) = connection.socket() else { return };
        if epoll::modify(&self.epoll, socket, event_data(connection.generation, number), INTEREST).is_err() {
            let now = self.now();
            self.link_lost(number, Cause::Broken, now);
        }
    }

    /// Closes the connection, if there is one, and forgets what was under way on it: the first of those who waited for it, if any.
    #[must_use = "who waits must not be forgotten"]
    pub(super) fn close(&mut self, number: usize) -> u32 {
        let connection = &mut self.connections[number];
        match std::mem::replace(&mut connection.link, Link::Down) {
            Link::Up(Stream::Tls(mut sealed)) => sealed.say_goodbye(),
            Link::Up(Stream::Carried(socket)) => self.let_go(socket),
            _ => {}
        }
        let connection = &mut self.connections[number];
        connection.generation = connection.generation.wrapping_add(1);
        P::rest(&mut connection.decoder, &mut self.memory);
        let waiting = connection.waiting.disband();
        let (input, output) = (std::mem::take(&mut connection.input), std::mem::take(&mut connection.output));
        connection.held = Held::default();
        self.give_back(input);
        self.give_back(output);
        waiting
    }

    /// A buffer is not needed any more.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES && self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// What epoll tells a connection by.
pub(super) fn event_data(generation: u32, number: usize) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | number as u64)
}

/// Whether bytes are there to be read.
fn has_bytes(socket: &OwnedFd) -> Result<bool, Errno> {
    match recv(socket, [0_u8; 1].as_mut_slice(), RecvFlags::PEEK) {
        Ok((count, _)) => Ok(count > 0),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Bytes that the socket took.
pub(super) fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Cause> {
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
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

/// What became of a connection.
pub fn broken_cause(errno: Errno) -> Cause {
    match errno {
        Errno::CONNRESET => Cause::Reset,
        Errno::PIPE => Cause::Closed,
        _ => Cause::Broken,
    }
}
