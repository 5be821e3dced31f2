//! A connection's life: its socket opened, greeted, written, read and closed, what is under way on it,
//! which agents wait for its answers, and what becomes of them when it ends.

use std::io;

use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};

use super::ids::{AgentId, ConnId};
use super::limits::use_for;
use super::operation::{Agent, AgentWork, NEVER};
use super::tls_stream::TlsStream;
use super::worker::{Worker, source};
use crate::answer_budget::BudgetShare;
use crate::program_worker::attend;
use crate::protocols::{AttemptCause, Progress, Protocol};
use crate::values::OperationValues;

/// The state of a socket.
#[derive(Debug)]
pub enum SocketState {
    /// There is none.
    Down,
    /// On its way.
    Connecting(OwnedFd),
    /// Connected, and the two sides agree on keys.
    Handshaking(Box<TlsStream>),
    /// Open in the clear, and the greeting is not answered yet.
    Greeting(OwnedFd),
    /// Open, and takes requests.
    Up(SocketStream),
}

/// An open connection, in the clear or not.
#[derive(Debug)]
pub enum SocketStream {
    /// In the clear.
    Plain(OwnedFd),
    /// In the clear, by the ring.
    Ring(OwnedFd),
    /// By TLS. Apart, so that the others stay small.
    Tls(Box<TlsStream>),
}

/// A connection to a service. Agents keep to theirs for the whole load; its socket comes and goes.
pub struct Connection<P: Protocol> {
    /// Number of the service it leads to. It never changes.
    pub service: u32,
    /// Its socket.
    pub state: SocketState,
    /// Counts its sockets, so that late events of an old one are recognised.
    pub generation: u32,
    /// Whether this socket has carried an answer.
    pub is_proven: bool,
    /// How this socket broke, where a write was told of it: the system says it once, and a read hears of an end in order.
    pub broken: Option<AttemptCause>,
    /// Number of the last request.
    pub last_id: u32,
    /// Agents whose attempts wait for an answer.
    pub waiting: WaitingAgents,
    /// No connect before this moment.
    pub connect_after_ns: u64,
    /// Of the answer that comes next.
    pub decoder: P::Decoder,
    /// Bytes of an answer that is not whole.
    pub input: Vec<u8>,
    /// What these have of the budget of answers.
    pub held: BudgetShare,
    /// Bytes of requests that the socket did not take yet.
    pub output: Vec<u8>,
}

impl<P: Protocol> Connection<P> {
    /// A new connection to that service, without a socket.
    pub fn new(service: u32) -> Self {
        Self {
            service,
            state: SocketState::Down,
            generation: 0,
            is_proven: false,
            broken: None,
            last_id: 0,
            waiting: WaitingAgents::default(),
            connect_after_ns: 0,
            decoder: P::Decoder::default(),
            input: Vec::new(),
            held: BudgetShare::default(),
            output: Vec::new(),
        }
    }

    /// Whether there is no socket, nor one on its way.
    pub fn is_down(&self) -> bool {
        matches!(self.state, SocketState::Down)
    }

    /// Whether requests can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self.state, SocketState::Up(_))
    }

    /// Its socket, if there is one.
    pub fn socket(&self) -> Option<&OwnedFd> {
        match &self.state {
            SocketState::Down => None,
            SocketState::Connecting(socket)
            | SocketState::Greeting(socket)
            | SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) => Some(socket),
            SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => Some(&tls.socket),
        }
    }

    /// Its socket with its session, where it has one.
    #[inline]
    pub fn tls(&mut self) -> Option<&mut TlsStream> {
        match &mut self.state {
            SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => Some(tls),
            _ => None,
        }
    }

    /// Whether there are bytes that the socket did not take yet.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match &self.state {
            SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => tls.session.wants_write(),
            _ => !self.output.is_empty(),
        }
    }
}

/// Agents whose attempts wait, in the order of their requests: first those whose request was sent, then those whose was not. Each
/// knows who comes behind it ([`Agent::behind`]), so that the line takes no memory of its own.
#[derive(Debug, Clone, Copy)]
pub struct WaitingAgents {
    first: AgentId,
    last: AgentId,
    /// The first whose request was not sent.
    unsent: AgentId,
}

impl Default for WaitingAgents {
    fn default() -> Self {
        Self { first: AgentId::NONE, last: AgentId::NONE, unsent: AgentId::NONE }
    }
}

impl WaitingAgents {
    /// The agent comes to the end of the line; whether it is the first there whose request is to be sent.
    #[inline]
    pub fn join(&mut self, agents: &mut [Agent], id: AgentId) -> bool {
        agents[id].behind = AgentId::NONE;
        match self.last {
            AgentId::NONE => self.first = id,
            last => agents[last].behind = id,
        }
        self.last = id;
        let is_first_unsent = self.unsent == AgentId::NONE;
        if is_first_unsent {
            self.unsent = id;
        }
        is_first_unsent
    }

    /// The agent that the next answer is for, if one was asked for.
    #[inline]
    pub fn asked(&self) -> Option<AgentId> {
        (self.first != self.unsent).then_some(self.first)
    }

    /// The first of the line is answered and leaves it.
    #[inline]
    pub fn leave(&mut self, agents: &[Agent]) {
        if self.first == AgentId::NONE {
            return;
        }
        let behind = agents[self.first].behind;
        if self.unsent == self.first {
            self.unsent = behind;
        }
        self.first = behind;
        if behind == AgentId::NONE {
            self.last = AgentId::NONE;
        }
    }

    /// The first whose request is to be sent, or [`AgentId::NONE`].
    pub fn unsent(&self) -> AgentId {
        self.unsent
    }

    /// All requests are sent from now on.
    fn all_sent(&mut self) {
        self.unsent = AgentId::NONE;
    }

    /// Everybody leaves: the first of the line, or [`AgentId::NONE`].
    #[must_use = "who waits must not be forgotten"]
    fn disband(&mut self) -> AgentId {
        std::mem::take(self).first
    }
}

// A socket is registered with epoll once, edge-triggered, for everything. After a short read it was empty, so no second `recv` is
// made: whatever comes later makes a new edge.

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
    pub(super) fn send(&mut self, id: AgentId, now: u64) {
        let conn = self.agents[id].connection;
        let connection = &mut self.connections[conn];
        let is_first = connection.waiting.join(&mut self.agents, id);
        match &connection.state {
            // Others of the connection may be ready in this turn of the loop, too: they go out together.
            SocketState::Up(stream) if matches!(stream, SocketStream::Ring(_)) || self.script.places.is_pipelined() => {
                if is_first {
                    self.ready.push(conn);
                }
            }
            SocketState::Up(_) => {
                if let Err(cause) = self.write_requests(conn, now) {
                    self.connection_lost(conn, cause, now);
                }
            }
            SocketState::Connecting(_) | SocketState::Handshaking(_) | SocketState::Greeting(_) => {}
            SocketState::Down => {
                if let Err(cause) = self.connect(conn) {
                    self.connect_failed(conn, cause, now);
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
            self.send_by_ring();
            return;
        }
        let mut place = 0;
        while let Some(conn) = self.ready.get(place).copied() {
            place += 1;
            let now = self.now();
            if let Err(cause) = self.write_requests(conn, now) {
                self.broke_in_writing(conn, cause, now);
            }
        }
        self.ready.clear();
    }

    /// Sends the requests of all who wait for that.
    pub(super) fn write_requests(&mut self, conn: ConnId, now: u64) -> Result<(), AttemptCause> {
        let connection = &self.connections[conn];
        if !connection.is_up() || connection.waiting.unsent() == AgentId::NONE {
            return Ok(());
        }
        self.encode_requests(conn, now);
        let connection = &mut self.connections[conn];
        let sent = match &mut connection.state {
            // What goes out first has to wait itself.
            SocketState::Up(SocketStream::Plain(_) | SocketStream::Ring(_)) if !connection.output.is_empty() => 0,
            SocketState::Up(SocketStream::Plain(socket)) => write(socket.as_fd(), &self.outgoing)?,
            SocketState::Up(SocketStream::Ring(_)) => {
                self.queue_on_ring(conn);
                return Ok(());
            }
            SocketState::Up(SocketStream::Tls(tls)) => return tls.write_plaintext(&self.outgoing),
            SocketState::Down | SocketState::Connecting(_) | SocketState::Handshaking(_) | SocketState::Greeting(_) => {
                return Ok(());
            }
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
    fn encode_requests(&mut self, conn: ConnId, now: u64) {
        let connection = &mut self.connections[conn];
        let first = connection.waiting.unsent();
        connection.waiting.all_sent();
        self.outgoing.clear();
        let mut asks_script = false;
        let mut next = first;
        while next != AgentId::NONE {
            let id = next;
            let agent = &mut self.agents[id];
            // 0 is left to answers that belong to no request.
            connection.last_id = connection.last_id.wrapping_add(1).max(1);
            agent.request_id = connection.last_id;
            agent.sent_ns = now;
            next = agent.behind;
            let step = &self.script.steps[agent.step];
            let source = source(agent, id, &self.script, &self.slots, &self.rows);
            let values = OperationValues { source, arguments: &step.arguments };
            P::encode(self.script.request(agent), agent.request_id, &values, &mut self.outgoing);
            asks_script |= step.asks_script;
        }
        if asks_script {
            self.stamp_anew(first);
        }
    }

    /// What a script took is no part of the service.
    fn stamp_anew(&mut self, mut next: AgentId) {
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        while next != AgentId::NONE {
            let agent = &mut self.agents[next];
            agent.sent_ns = now;
            next = agent.behind;
        }
    }

    pub(super) fn connect(&mut self, conn: ConnId) -> Result<(), AttemptCause> {
        let socket = if P::RUNS_PROGRAMS { self.spawn_program(conn)? } else { self.dial(conn)? };
        let data = event_data(self.connections[conn].generation, conn);
        epoll::add(&self.epoll, &socket, data, INTEREST).map_err(|errno| self.resource_error(errno))?;
        self.connections[conn].state = SocketState::Connecting(socket);
        Ok(())
    }

    /// A socket that connects to the connection's service.
    fn dial(&mut self, conn: ConnId) -> Result<OwnedFd, AttemptCause> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let service = self.connections[conn].service;
        let address = self.addresses[service as usize];
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket =
            socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| self.resource_error(errno))?;
        set_tcp_nodelay(&socket, true).map_err(|errno| self.resource_error(errno))?;
        if let Some(source) = self.sources.of_connection(self.script.places.number_of(self.thread, conn), service) {
            use_for(&socket, &source).map_err(|errno| self.resource_error(errno))?;
        }
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(self.resource_error(errno)),
        }
    }

    /// Why there is no connection. What this machine lacks is told once.
    pub(super) fn resource_error(&mut self, errno: Errno) -> AttemptCause {
        let cause = connect_cause(errno);
        let text = match cause {
            AttemptCause::NoPort if !self.script.keep_alive => {
                "no local port is left to connect from: without `keep_alive` each operation takes one, and may keep it for a minute; \
                 set net.ipv4.tcp_tw_reuse to 1, or widen net.ipv4.ip_local_port_range"
            }
            AttemptCause::NoPort => "no local port is left to connect from: widen net.ipv4.ip_local_port_range",
            AttemptCause::NoFile => "no file descriptor is left to connect with: raise `ulimit -n`",
            _ => return cause,
        };
        if !std::mem::replace(&mut self.has_noticed_resources, true) {
            self.stats.notices.push(text.to_owned());
        }
        cause
    }

    /// Epoll reports on a connection.
    pub(super) fn handle(&mut self, data: u64, flags: EventFlags) {
        let conn = ConnId::new((data & u64::from(u32::MAX)) as u32);
        let generation = (data >> 32) as u32;
        let is_current = |worker: &Self| worker.connections[conn].generation == generation;
        if !is_current(self) {
            return;
        }
        if matches!(self.connections[conn].state, SocketState::Connecting(_)) {
            self.connected(conn, flags);
        }
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if is_current(self) && flags.intersects(EventFlags::IN | gone) {
            self.read(conn, flags.intersects(gone));
        }
        // Only then: a target may answer before it has read the whole request, and close.
        if is_current(self) && flags.contains(EventFlags::OUT) && self.connections[conn].has_unsent() {
            self.write_rest(conn);
        }
    }

    fn connected(&mut self, conn: ConnId, flags: EventFlags) {
        if !flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let now = self.now();
        let connection = &mut self.connections[conn];
        let SocketState::Connecting(socket) = std::mem::replace(&mut connection.state, SocketState::Down) else {
            return;
        };
        if let Ok(Err(errno)) | Err(errno) = socket_error(&socket) {
            self.connect_failed(conn, connect_cause(errno), now);
            return;
        }
        let service = connection.service as usize;
        match self.peers.as_ref().and_then(|peers| peers.session(service)) {
            // What is there before anything was asked answers nothing.
            None if flags.contains(EventFlags::IN) && !self.may_speak_first(service) => match has_bytes(&socket) {
                Ok(true) => {
                    self.notice_unsolicited();
                    self.connect_failed(conn, AttemptCause::BadAnswer, now);
                }
                Ok(false) => self.greet(conn, socket, now),
                // The system says it once: whoever wrote now would only hear that nobody listens.
                Err(errno) => self.connect_failed(conn, connect_cause(errno), now),
            },
            None => self.greet(conn, socket, now),
            Some(Ok(session)) => self.start_handshake(conn, socket, session, now),
            Some(Err(cause)) => self.connect_failed(conn, cause, now),
        }
    }

    fn may_speak_first(&self, service: usize) -> bool {
        let greeting = self.script.services[service].greeting();
        P::MAY_REFUSE_UNASKED || greeting.is_some_and(|greeting| greeting.bytes.is_empty())
    }

    /// The connection is open, and who waited for that is served.
    pub(super) fn opened(&mut self, conn: ConnId, stream: SocketStream, now: u64) {
        let stream = self.hand_to_ring(conn, stream);
        let connection = &mut self.connections[conn];
        let is_on_ring = matches!(stream, SocketStream::Ring(_));
        connection.state = SocketState::Up(stream);
        connection.is_proven = false;
        connection.broken = None;
        self.stats.connected();
        if is_on_ring {
            self.ready_if_unsent(conn);
        } else if let Err(cause) = self.write_requests(conn, now) {
            self.connection_lost(conn, cause, now);
        }
    }

    fn write_rest(&mut self, conn: ConnId) {
        let now = self.now();
        let connection = &mut self.connections[conn];
        let SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) = &connection.state else {
            self.write_tls(conn, now);
            return;
        };
        match write(socket.as_fd(), &connection.output) {
            Ok(sent) if sent == connection.output.len() => {
                let output = std::mem::take(&mut connection.output);
                self.recycle(output);
                self.unwatch_writable(conn);
            }
            Ok(sent) => drop(connection.output.drain(..sent)),
            Err(cause) => self.broke_in_writing(conn, cause, now),
        }
    }

    /// Reads what is there; to its end where the peer is gone.
    pub(super) fn read(&mut self, conn: ConnId, is_gone: bool) {
        if self.connections[conn].tls().is_some() {
            return self.read_tls(conn, is_gone);
        }
        let generation = self.connections[conn].generation;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reads = 0;
        while self.connections[conn].generation == generation
            && let SocketState::Up(SocketStream::Plain(socket)) | SocketState::Greeting(socket) =
                &self.connections[conn].state
        {
            if reads == READS {
                self.read_later(conn);
                break;
            }
            reads += 1;
            let received = recv(socket, buffer.as_mut_slice(), RecvFlags::empty());
            let now = self.now();
            match received {
                Ok((0, _)) => {
                    self.ended(conn, now);
                    break;
                }
                Ok((count, _)) => {
                    self.received(conn, &buffer[..count], now);
                    if count < buffer.len() && !is_gone {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.connection_lost(conn, broken_cause(errno), now);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// Others get their turn: epoll reports the connection again although nothing new may come.
    pub(super) fn read_later(&mut self, conn: ConnId) {
        let connection = &self.connections[conn];
        let Some(socket) = connection.socket() else { return };
        if epoll::modify(&self.epoll, socket, event_data(connection.generation, conn), INTEREST).is_err() {
            let now = self.now();
            self.connection_lost(conn, AttemptCause::Broken, now);
        }
    }

    /// Closes the connection, if there is one, and forgets what was under way on it: the first of those who waited for it, if any.
    #[must_use = "who waits must not be forgotten"]
    pub(super) fn close(&mut self, conn: ConnId) -> AgentId {
        let connection = &mut self.connections[conn];
        match std::mem::replace(&mut connection.state, SocketState::Down) {
            SocketState::Up(SocketStream::Tls(mut tls)) => tls.send_close_notify(),
            SocketState::Up(SocketStream::Ring(socket)) => self.shut_down(socket),
            _ => {}
        }
        let connection = &mut self.connections[conn];
        connection.generation = connection.generation.wrapping_add(1);
        P::rest(&mut connection.decoder, &mut self.memory);
        let waiting = connection.waiting.disband();
        let (input, output) = (std::mem::take(&mut connection.input), std::mem::take(&mut connection.output));
        connection.held = BudgetShare::default();
        self.recycle(input);
        self.recycle(output);
        waiting
    }

    /// A buffer is not needed any more.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES && self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// What epoll tells a connection by.
pub(super) fn event_data(generation: u32, conn: ConnId) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(conn.number()))
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
pub(super) fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, AttemptCause> {
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => return Ok(sent),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(errno) => return Err(broken_cause(errno)),
        }
    }
}

fn connect_cause(errno: Errno) -> AttemptCause {
    match errno {
        Errno::CONNREFUSED => AttemptCause::ConnectRefused,
        Errno::TIMEDOUT => AttemptCause::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH => AttemptCause::ConnectUnreachable,
        Errno::ADDRNOTAVAIL => AttemptCause::NoPort,
        Errno::MFILE | Errno::NFILE => AttemptCause::NoFile,
        _ => AttemptCause::ConnectFailed,
    }
}

/// What became of a connection.
pub fn broken_cause(errno: Errno) -> AttemptCause {
    match errno {
        Errno::CONNRESET => AttemptCause::Reset,
        Errno::PIPE => AttemptCause::Closed,
        _ => AttemptCause::Broken,
    }
}

// The first words on a connection belong to connecting: whoever waits on a connection whose greeting is not answered in time, or refused, could not connect, and the operation certainly
// had no effect. Sending the request along would spare a round trip, and carry it out as somebody else or on other data where the
// greeting is refused.

impl<P: Protocol> Worker<P> {
    /// The connection's socket is connected.
    pub(super) fn greet(&mut self, conn: ConnId, socket: OwnedFd, now: u64) {
        let connection = &mut self.connections[conn];
        let Some(greeting) = self.script.services[connection.service as usize].greeting() else {
            self.opened(conn, SocketStream::Plain(socket), now);
            return;
        };
        // A fresh socket takes so little at once.
        if write(socket.as_fd(), &greeting.bytes).is_ok_and(|sent| sent == greeting.bytes.len()) {
            connection.state = SocketState::Greeting(socket);
        } else {
            self.connect_failed(conn, AttemptCause::ConnectFailed, now);
        }
    }

    /// Bytes came in answer to the greeting.
    pub(super) fn greeted(&mut self, conn: ConnId, bytes: &[u8], now: u64) {
        let connection = &mut self.connections[conn];
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let greeting = self.script.services[connection.service as usize].greeting();
        let progress = greeting.map(|greeting| P::greeted(greeting, &input));
        let refused = match progress {
            Some(Progress::More { .. }) => {
                connection.input = input;
                return;
            }
            Some(Progress::Answer(answer)) if answer.result == AttemptCause::Ok && answer.used == input.len() => {
                if let SocketState::Greeting(socket) = std::mem::replace(&mut connection.state, SocketState::Down) {
                    self.opened(conn, SocketStream::Plain(socket), now);
                }
                return;
            }
            Some(Progress::Answer(answer)) if answer.result.is_harmless(P::REFUSALS) => answer.result,
            _ => AttemptCause::ConnectFailed,
        };
        self.connect_failed(conn, refused, now);
    }
}

impl<P: Protocol> Worker<P> {
    /// A new attendant for the connection: the load's end of their socket.
    fn spawn_program(&mut self, conn: ConnId) -> Result<OwnedFd, AttemptCause> {
        let service = &self.script.services[self.connections[conn].service as usize];
        let attended = attend(self.script.tether, service.authority());
        let lacks = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let (socket, attendant) = attended.map_err(|error| self.resource_error(lacks(error)))?;
        // Those whose agents have hung up need not be waited for.
        self.program_workers.retain(|attendant| !attendant.is_finished());
        self.program_workers.push(attendant);
        Ok(socket)
    }

    /// Every agent hangs up; waits until no program of theirs is left.
    pub(super) fn join_programs(&mut self) {
        if !P::RUNS_PROGRAMS {
            return;
        }
        for conn in (0..self.connections.len()).map(ConnId::at) {
            // Nobody waits any more.
            let _ = self.close(conn);
        }
        for attendant in self.program_workers.drain(..) {
            // One that panicked has dropped its program, and so killed it.
            let _ = attendant.join();
        }
    }
}

impl<P: Protocol> Worker<P> {
    /// The connection is of no use any more. An idle one is made again at once, if it ever served.
    pub(super) fn connection_lost(&mut self, conn: ConnId, cause: AttemptCause, now: u64) {
        if matches!(self.connections[conn].state, SocketState::Greeting(_)) {
            // Nothing was asked on it.
            self.connect_failed(conn, AttemptCause::ConnectFailed, now);
            return;
        }
        let was_proven = self.connections[conn].is_proven;
        let waiting = self.close(conn);
        if waiting != AgentId::NONE {
            self.fail_sent(waiting, now, |_| cause);
        } else if was_proven
            && now < self.end_ns
            && self.may_serve(conn)
            && let Err(cause) = self.connect(conn)
        {
            self.connect_failed(conn, cause, now);
        }
    }

    /// Nothing can be sent on the connection any more. What was answered before is still there to be read.
    pub(super) fn broke_in_writing(&mut self, conn: ConnId, cause: AttemptCause, now: u64) {
        let connection = &mut self.connections[conn];
        // Where the target has ended in order a write is told just that.
        connection.broken = (cause != AttemptCause::Closed).then_some(cause);
        if matches!(connection.state, SocketState::Up(SocketStream::Ring(_))) {
            // The ring tells of it in turn.
            connection.output.clear();
            return;
        }
        let generation = connection.generation;
        self.read(conn, true);
        if self.connections[conn].generation == generation {
            self.connection_lost(conn, cause, now);
        }
    }

    /// Whether an agent of the connection has begun to work and is not done.
    fn may_serve(&self, conn: ConnId) -> bool {
        let mut own = self.agents.iter().skip(conn.index()).step_by(self.connections.len());
        own.any(|agent| matches!(agent.work, AgentWork::Pause | AgentWork::RetryPause))
    }

    /// Of those who waited on a connection that is closed, from `next` on: whose request was sent has failed, and the others' goes
    /// out on the next connection.
    pub(super) fn fail_sent(&mut self, mut next: AgentId, now: u64, cause_of: impl Fn(AgentId) -> AttemptCause) {
        while next != AgentId::NONE {
            let id = next;
            // Each may be in line again at once.
            next = self.agents[id].behind;
            if self.agents[id].sent_ns == NEVER {
                self.send(id, now);
            } else {
                self.attempt_failed(id, cause_of(id), now);
            }
        }
    }

    /// There is no connection, and none is tried for a while: everybody's attempt has failed.
    pub(super) fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, now: u64) {
        let mut next = self.close(conn);
        self.stats.connect_failed();
        self.connections[conn].connect_after_ns = now.saturating_add(self.script.reconnect_ns.max(1));
        while next != AgentId::NONE {
            let id = next;
            next = self.agents[id].behind;
            self.attempt_failed(id, cause, now);
        }
    }

    /// The agent's attempt has timed out. Its answer may still come, and could not be told from the next one's, so the connection is
    /// closed: whoever else asked there finds it so.
    pub(super) fn attempt_timed_out(&mut self, id: AgentId, now: u64) {
        let agent = &mut self.agents[id];
        let conn = agent.connection;
        if !self.connections[conn].is_up() {
            self.connect_failed(conn, AttemptCause::ConnectTimeout, now);
        } else if agent.sent_ns == NEVER {
            // It is ready in this very turn of the loop, and the time that has passed is the generator's.
            agent.deadline_ns = now.saturating_add(self.script.timeout_ns);
            agent.has_reprieve = false;
            self.arm_timeout(id);
        } else {
            let waiting = self.close(conn);
            self.fail_sent(
                waiting,
                now,
                |other| {
                    if other == id { AttemptCause::Timeout } else { AttemptCause::Closed }
                },
            );
        }
    }

    /// The target has said that it answers no more on a connection, so it has not looked at what else was sent there (RFC 9112, 9.6).
    /// This goes out again on the next one, and the attempt goes on; since nobody can prove it, the attempt may have had an effect.
    pub(super) fn resend(&mut self, mut next: AgentId, now: u64) {
        while next != AgentId::NONE {
            let id = next;
            let agent = &mut self.agents[id];
            next = agent.behind;
            if agent.sent_ns != NEVER {
                agent.sent_ns = NEVER;
                agent.is_unsure = true;
                self.notice_resend();
            }
            self.send(id, now);
        }
    }

    fn notice_resend(&mut self) {
        if !std::mem::replace(&mut self.has_noticed_resend, true) {
            let text = "the target ended connections on which requests were still in flight; those were sent again on the next";
            self.stats.notices.push(text.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::operation::AgentService;
    use crate::protocols::http::Http;
    use crate::protocols::vsns::Vsns;

    fn agents(count: u32) -> Vec<Agent> {
        let place = AgentService { service: 0, requests: 0 };
        (1..=count).map(|number| Agent::new(number, 0, place, ConnId::at(0))).collect()
    }

    fn at(index: usize) -> AgentId {
        AgentId::at(index)
    }

    /// Everybody in the line, in order.
    fn line(agents: &[Agent], first: AgentId) -> Vec<usize> {
        let present = |id: AgentId| Some(id).filter(|id| *id != AgentId::NONE);
        std::iter::successors(present(first), |id| present(agents[*id].behind)).map(AgentId::index).collect()
    }

    #[test]
    fn one_agent_asks_and_is_answered() {
        let mut agents = agents(1);
        let mut waiting = WaitingAgents::default();
        for _ in 0..3 {
            assert_eq!(waiting.asked(), None, "nothing was sent");
            assert!(waiting.join(&mut agents, at(0)));
            assert_eq!((waiting.asked(), waiting.unsent()), (None, at(0)));
            waiting.all_sent();
            assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(0)), AgentId::NONE));
            waiting.leave(&agents);
        }
        assert_eq!(waiting.disband(), AgentId::NONE);
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut agents = agents(4);
        let mut waiting = WaitingAgents::default();
        assert!(waiting.join(&mut agents, at(2)));
        assert!(!waiting.join(&mut agents, at(0)));
        waiting.all_sent();
        assert!(waiting.join(&mut agents, at(3)), "the first that was not sent");
        assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(2)), at(3)));
        waiting.leave(&agents);
        assert_eq!(waiting.asked(), Some(at(0)));
        assert!(!waiting.join(&mut agents, at(2)), "who was answered comes again behind the others");
        waiting.leave(&agents);
        assert_eq!((waiting.asked(), waiting.unsent()), (None, at(3)), "nobody else was sent");
        assert_eq!(line(&agents, waiting.disband()), [3, 2]);
        assert_eq!((waiting.asked(), waiting.unsent(), waiting.disband()), (None, AgentId::NONE, AgentId::NONE));
    }

    #[test]
    fn whatever_happens_the_line_is_what_a_list_would_be() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut agents = agents(6);
        let (mut waiting, mut list, mut sent) = (WaitingAgents::default(), Vec::new(), 0);
        for _ in 0..20_000 {
            match random.u8(..10) {
                0 => {
                    let first = waiting.disband();
                    assert_eq!(line(&agents, first), list);
                    (list, sent) = (Vec::new(), 0);
                }
                1 | 2 => {
                    waiting.all_sent();
                    sent = list.len();
                }
                3..6 if sent > 0 => {
                    waiting.leave(&agents);
                    list.remove(0);
                    sent -= 1;
                }
                _ => {
                    let free: Vec<usize> = (0..6).filter(|index| !list.contains(index)).collect();
                    let Some(index) = random.choice(free) else { continue };
                    assert_eq!(waiting.join(&mut agents, at(index)), sent == list.len());
                    list.push(index);
                }
            }
            assert_eq!(waiting.asked(), list.first().filter(|_| sent > 0).copied().map(at));
            assert_eq!(waiting.unsent(), list.get(sent).copied().map_or(AgentId::NONE, at));
        }
    }

    /// What an idle agent with a connection of its own takes, beside its two timers (32 bytes) and whatever its cycle keeps.
    #[test]
    fn an_idle_agent_is_small() {
        assert!(size_of::<Agent>() <= 112, "{}", size_of::<Agent>());
        assert!(size_of::<Connection<Http>>() <= 320, "{}", size_of::<Connection<Http>>());
        assert!(size_of::<Connection<Vsns>>() <= 128, "{}", size_of::<Connection<Vsns>>());
    }
}
