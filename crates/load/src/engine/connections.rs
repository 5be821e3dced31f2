//! Connections: sockets opened, greeted, written, read and closed, in the clear and by TLS, by
//! system calls and by the kernel's ring.
//!
//! Whatever carries the bytes, what happens to a connection is told by a [`ConnEvent`], one at a
//! time and when it is asked for, so that each is dealt with before the next is looked for. Nothing
//! here knows what the bytes mean, who waits for them, or what is counted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use super::ids::ConnId;
use super::limits::{SourceAddresses, use_for};
use super::pipelines::BufferPool;
use super::script::Script;
use crate::Error;
use crate::program_worker::{DeathSignal, ProgramHost, spawn_program_worker};
use crate::protocols::{AttemptCause, Progress, Protocol};
use crate::ring::{Completion, Ring, RingToken, WakePolicy};
use crate::schedules::NS_PER_S;
use crate::service_address::ServiceAddress;
use crate::tls::TlsPeers;
use crate::tunnel::TunnelRequest;

mod tls;
mod uring;

pub use uring::AT_ONCE;

use tls::{SealedBytes, TlsStream};

/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// Most events that are handled before timers get their turn.
pub const BATCH: usize = 256;
// A socket is registered with epoll once, edge-triggered, for everything. After a short read it was
// empty, so no second `recv` is made: whatever comes later makes a new edge.
/// What epoll reports on a connection.
const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// What it reports when the peer is gone.
const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// Most buffers that are read from one connection before the others, and the timers, get their
/// turn: a target that sends faster than it is read must not keep the thread to itself.
const READS: u8 = 16;

/// Nanoseconds since the load's zero.
#[derive(Debug, Clone, Copy)]
pub struct LoadClock {
    /// The load's zero.
    pub origin: Instant,
}

impl LoadClock {
    /// The present moment; 0 before the load.
    #[inline]
    pub fn now_ns(self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Between where and where connections are made.
#[derive(Clone)]
pub struct ConnectPaths {
    /// Of each service.
    pub addresses: Arc<[ServiceAddress]>,
    /// What is asked of a proxy that the address of a service is, by its number; none where nothing is.
    pub tunnels: Arc<[Option<TunnelRequest>]>,
    /// Where connections to it come from.
    pub sources: Arc<SourceAddresses>,
}

/// What has happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnEvent {
    /// It takes requests.
    Opened,
    /// It could not be opened, and nothing was asked on it. It is to be closed.
    ConnectFailed(AttemptCause),
    /// Bytes have come: [`ReadBuffers::bytes`].
    Bytes,
    /// The peer will send no more. It is to be closed.
    Ended,
    /// It is of no use any more. It is to be closed.
    Closed(AttemptCause),
}

/// What can be done with a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPath {
    /// It is sent at once.
    Now,
    /// It goes out with others at the end of this turn of the loop.
    WithOthers,
    /// It waits until the connection is open.
    WhenOpen,
    /// There is no connection.
    Down,
}

/// The state of a socket.
#[derive(Debug)]
enum SocketState {
    /// There is none.
    Down,
    /// On its way.
    Connecting(OwnedFd),
    /// Connected to a proxy, which was asked for a tunnel.
    Tunnelling(Box<TlsStream>),
    /// Connected, and the two sides agree on keys.
    Handshaking(Box<TlsStream>),
    /// Open in the clear, and the greeting is not answered yet.
    Greeting(OwnedFd),
    /// Open, and takes requests.
    Up(SocketStream),
}

/// What carries the bytes of an open connection.
#[derive(Debug)]
enum SocketStream {
    /// System calls, in the clear.
    Plain(OwnedFd),
    /// The ring, in the clear.
    Ring(OwnedFd),
    /// System calls, by TLS. Apart, so that the others stay small.
    Tls(Box<TlsStream>),
}

/// A connection to a service. Agents keep to theirs for the whole load; its socket comes and goes.
pub struct Connection {
    /// Number of the service it leads to.
    service: u32,
    /// Counts its sockets, so that late events of an old one are recognised.
    generation: u32,
    state: SocketState,
    /// How this socket broke, where a write was told of it: the system says it once, and a read
    /// hears of an end in order.
    broken: Option<AttemptCause>,
    /// No connect before this moment.
    connect_after_ns: u64,
    /// Bytes of requests that the socket did not take yet; before it is open, what came in answer
    /// to the greeting.
    pending: Vec<u8>,
}

impl Connection {
    /// Its socket, if there is one.
    fn socket(&self) -> Option<&OwnedFd> {
        match &self.state {
            SocketState::Down => None,
            SocketState::Connecting(socket)
            | SocketState::Greeting(socket)
            | SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) => Some(socket),
            SocketState::Tunnelling(tls) | SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => {
                Some(&tls.socket)
            }
        }
    }

    /// Its socket with its session, where it has one.
    #[inline]
    fn tls(&mut self) -> Option<&mut TlsStream> {
        match &mut self.state {
            SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => Some(tls),
            _ => None,
        }
    }

    /// Whether there are bytes that the socket did not take yet.
    #[inline]
    fn has_unsent(&self) -> bool {
        match &self.state {
            SocketState::Handshaking(tls) | SocketState::Up(SocketStream::Tls(tls)) => tls.session.wants_write(),
            SocketState::Up(_) => !self.pending.is_empty(),
            _ => false,
        }
    }

    /// It is of no use any more. What is greeted or shakes hands yet could not connect.
    fn lost(&self, cause: AttemptCause) -> ConnEvent {
        match self.state {
            SocketState::Greeting(_) | SocketState::Tunnelling(_) => {
                ConnEvent::ConnectFailed(AttemptCause::ConnectFailed)
            }
            // Before there were keys nothing can have been sent.
            SocketState::Handshaking(_) => ConnEvent::ConnectFailed(AttemptCause::TlsClosed),
            _ => ConnEvent::Closed(cause),
        }
    }

    /// The peer will send no more.
    fn ended(&self) -> ConnEvent {
        match self.broken {
            // An answer that ends with its connection is not whole.
            Some(cause) => self.lost(cause),
            None if matches!(self.state, SocketState::Greeting(_) | SocketState::Tunnelling(_)) => {
                self.lost(AttemptCause::Closed)
            }
            None => ConnEvent::Ended,
        }
    }
}

/// Where bytes are received.
#[derive(Debug)]
pub struct ReadBuffers {
    received: Vec<u8>,
    /// What of it was not decrypted yet, where it came by TLS.
    sealed: SealedBytes,
    /// What it means, where it came by TLS; empty where nothing does.
    plaintext: Vec<u8>,
    is_plaintext: bool,
    length: usize,
}

impl ReadBuffers {
    /// What came last.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let buffer = if self.is_plaintext { &self.plaintext } else { &self.received };
        &buffer[..self.length]
    }
}

/// A connection that epoll has reported, or that broke in writing, and how far it has been looked
/// at.
pub struct EventSource {
    /// Which.
    pub conn: ConnId,
    /// When what was told last happened.
    pub now_ns: u64,
    generation: u32,
    stage: SourceStage,
    flags: EventFlags,
    is_gone: bool,
    reads: u8,
    /// What broke it in writing, and when.
    broken: Option<(AttemptCause, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceStage {
    Connect,
    Read,
    Write,
    Done,
}

/// What epoll and the ring have reported, and how much of it was looked at.
pub struct Reported {
    ready: Vec<epoll::Event>,
    next_ready: usize,
    completions: Vec<Completion>,
    next_completion: usize,
    /// Whose receiving ended with what was told last.
    receive_again: Option<RingToken>,
}

impl Default for Reported {
    fn default() -> Self {
        Self {
            ready: Vec::with_capacity(BATCH),
            next_ready: 0,
            completions: Vec::with_capacity(BATCH),
            next_completion: 0,
            receive_again: None,
        }
    }
}

impl Reported {
    /// Whether something has happened that was not looked at yet.
    pub fn has_events(&self) -> bool {
        self.next_ready < self.ready.len() || self.has_completions()
    }

    /// The next connection that epoll has reported.
    #[inline]
    pub fn next_ready(&mut self) -> Option<EventSource> {
        let event = self.ready.get(self.next_ready)?;
        self.next_ready += 1;
        let (data, flags) = (event.data.u64(), event.flags);
        Some(EventSource {
            conn: ConnId::new((data & u64::from(u32::MAX)) as u32),
            now_ns: 0,
            generation: (data >> 32) as u32,
            stage: SourceStage::Connect,
            flags,
            is_gone: flags.intersects(GONE),
            reads: 0,
            broken: None,
        })
    }

    /// Whether the ring has told something that was not looked at yet.
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.next_completion < self.completions.len()
    }
}

/// The connections of a thread.
pub struct ConnectionSet<P: Protocol> {
    list: Vec<Connection>,
    clock: LoadClock,
    epoll: OwnedFd,
    /// What carries bytes, where it is permitted.
    ring: Option<Box<Ring>>,
    spare: BufferPool,
    /// What to connect to, and what is said first there.
    services: Arc<[P]>,
    paths: ConnectPaths,
    /// The services that are spoken to by TLS, if any are.
    peers: Option<TlsPeers>,
    /// The number of each, over all threads of this process: the first, and from one to the next.
    numbers: (u32, u32),
    /// Whether agents share them.
    is_pipelined: bool,
    /// What ties programs to this process.
    tether: Option<DeathSignal>,
    /// Where the services' own programs are run.
    hosts: Arc<[ProgramHost]>,
    /// Those who run programs behind a connection.
    program_workers: Vec<JoinHandle<()>>,
    /// What ends the load early.
    pub failure: Option<Error>,
}

impl<P: Protocol> ConnectionSet<P> {
    /// The connections of a thread, none of them open.
    ///
    /// # Errors
    /// If the system has no epoll instance for them.
    pub fn new(script: &Script<P>, paths: ConnectPaths, thread: u32, clock: LoadClock) -> Result<Self, Error> {
        let connection = |service| Connection {
            service,
            generation: 0,
            state: SocketState::Down,
            broken: None,
            connect_after_ns: 0,
            pending: Vec::new(),
        };
        Ok(Self {
            list: script.places.connections_of(thread).map(connection).collect(),
            clock,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("cannot create an epoll instance"))?,
            ring: None,
            spare: BufferPool::default(),
            services: Arc::clone(&script.services),
            paths,
            peers: script.peers.as_ref().map(TlsPeers::for_a_thread),
            numbers: (thread.saturating_sub(script.mine.start), script.mine.len().max(1) as u32),
            is_pipelined: script.places.is_pipelined(),
            tether: script.tether,
            hosts: Arc::clone(&script.hosts),
            program_workers: Vec::new(),
            failure: None,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Room for what they receive.
    pub fn buffers(&self) -> ReadBuffers {
        let plaintext = if self.peers.is_some() { vec![0; BUFFER] } else { Vec::new() };
        ReadBuffers {
            received: vec![0; BUFFER],
            sealed: SealedBytes::default(),
            plaintext,
            is_plaintext: false,
            length: 0,
        }
    }

    /// Tells one of its sockets from the next.
    #[inline]
    pub fn generation(&self, conn: ConnId) -> u32 {
        self.list[conn.index()].generation
    }

    /// Whether requests can be sent.
    #[inline]
    pub fn is_up(&self, conn: ConnId) -> bool {
        matches!(self.list[conn.index()].state, SocketState::Up(_))
    }

    /// Whether there are bytes that its socket did not take yet.
    #[inline]
    pub fn has_unsent(&self, conn: ConnId) -> bool {
        self.list[conn.index()].has_unsent()
    }

    /// What can be done with a request on it now.
    #[inline]
    pub fn send_path(&self, conn: ConnId) -> SendPath {
        match &self.list[conn.index()].state {
            // Others of the connection may be ready in this turn of the loop, too: they go out
            // together.
            SocketState::Up(SocketStream::Ring(_)) => SendPath::WithOthers,
            SocketState::Up(_) if self.is_pipelined => SendPath::WithOthers,
            SocketState::Up(_) => SendPath::Now,
            SocketState::Connecting(_)
            | SocketState::Tunnelling(_)
            | SocketState::Handshaking(_)
            | SocketState::Greeting(_) => SendPath::WhenOpen,
            SocketState::Down => SendPath::Down,
        }
    }

    /// The moment before which it is not tried, where it is down; else 0.
    #[inline]
    pub fn connect_after_ns(&self, conn: ConnId) -> u64 {
        let connection = &self.list[conn.index()];
        if matches!(connection.state, SocketState::Down) { connection.connect_after_ns } else { 0 }
    }

    /// It leads there when it is made again; it is down.
    pub fn set_service(&mut self, conn: ConnId, service: u32) {
        self.list[conn.index()].service = service;
    }

    /// It is not tried before that moment.
    pub fn set_connect_after(&mut self, conn: ConnId, moment_ns: u64) {
        self.list[conn.index()].connect_after_ns = moment_ns;
    }

    /// Sends the bytes, or as much of them as the socket takes, and the rest when it takes more.
    /// Where a ring carries them they go out with those of others.
    #[inline]
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<(), AttemptCause> {
        let connection = &mut self.list[conn.index()];
        let sent = match &mut connection.state {
            // What goes out first has to wait itself.
            SocketState::Up(SocketStream::Plain(_) | SocketStream::Ring(_)) if !connection.pending.is_empty() => 0,
            SocketState::Up(SocketStream::Plain(socket)) => write(socket.as_fd(), bytes)?,
            SocketState::Up(SocketStream::Ring(socket)) => {
                if let Some(ring) = &mut self.ring {
                    ring.send(RingToken::new(conn.number(), connection.generation), socket.as_fd(), bytes);
                }
                return Ok(());
            }
            SocketState::Up(SocketStream::Tls(tls)) => return tls.write_plaintext(bytes),
            SocketState::Down
            | SocketState::Connecting(_)
            | SocketState::Tunnelling(_)
            | SocketState::Handshaking(_)
            | SocketState::Greeting(_) => return Ok(()),
        };
        if sent < bytes.len() {
            if connection.pending.is_empty() {
                connection.pending = self.spare.take();
            }
            connection.pending.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Begins to connect.
    pub fn connect(&mut self, conn: ConnId) -> Result<(), AttemptCause> {
        let socket = if P::RUNS_PROGRAMS { self.spawn_program(conn) } else { self.dial(conn).map_err(connect_cause) }?;
        let data = event_data(self.list[conn.index()].generation, conn);
        epoll::add(&self.epoll, &socket, data, INTEREST).map_err(connect_cause)?;
        self.list[conn.index()].state = SocketState::Connecting(socket);
        Ok(())
    }

    /// A socket that connects to the connection's service.
    fn dial(&self, conn: ConnId) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let service = self.list[conn.index()].service;
        let address = match &self.paths.addresses[service as usize] {
            ServiceAddress::Network(address) => address,
            ServiceAddress::File(path) => return dial_file(path, flags),
        };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        set_tcp_nodelay(&socket, true)?;
        let (first, step) = self.numbers;
        if let Some(source) = self.paths.sources.of_connection(first + conn.number() * step, service) {
            use_for(&socket, &source)?;
        }
        match connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }

    /// A new program worker for the connection: the load's end of their socket.
    fn spawn_program(&mut self, conn: ConnId) -> Result<OwnedFd, AttemptCause> {
        let number = self.list[conn.index()].service as usize;
        let (service, host) = (&self.services[number], self.hosts.get(number).cloned());
        let failed = |error: io::Error| connect_cause(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let (socket, worker) = spawn_program_worker(self.tether, service.authority(), host).map_err(failed)?;
        // Those whose agents have hung up need not be waited for.
        self.program_workers.retain(|worker| !worker.is_finished());
        self.program_workers.push(worker);
        Ok(socket)
    }

    /// Hangs up every connection behind which programs run; waits until no program is left.
    pub fn join_programs(&mut self) {
        if !P::RUNS_PROGRAMS {
            return;
        }
        for index in 0..self.list.len() {
            self.close(ConnId::at(index));
        }
        for worker in self.program_workers.drain(..) {
            // One that panicked has dropped its program, and so killed it.
            let _ = worker.join();
        }
    }

    /// Closes the connection, if there is one. Late events of its socket are not told.
    pub fn close(&mut self, conn: ConnId) {
        let connection = &mut self.list[conn.index()];
        let state = std::mem::replace(&mut connection.state, SocketState::Down);
        connection.generation = connection.generation.wrapping_add(1);
        let pending = std::mem::take(&mut connection.pending);
        self.spare.recycle(pending);
        match state {
            SocketState::Up(SocketStream::Tls(mut tls)) => tls.send_close_notify(),
            SocketState::Up(SocketStream::Ring(socket)) => self.shut_down(socket),
            _ => {}
        }
    }

    /// Waits for something to happen, at most so long. With a ring, what was made ready before goes
    /// out first.
    pub fn wait(&mut self, reported: &mut Reported, left_ns: u64, gathering: WakePolicy) -> Result<(), Error> {
        reported.ready.clear();
        reported.completions.clear();
        (reported.next_ready, reported.next_completion) = (0, 0);
        let Some(ring) = &mut self.ring else { return self.ask_epoll(reported, left_ns) };
        let left_ns = if ring.is_watched_ready() { 0 } else { left_ns };
        let waited = ring.wait(left_ns, gathering, &mut reported.completions);
        waited.map_err(|source| Error::System { doing: "cannot wait for events", source })?;
        if ring.is_watched_ready() {
            self.ask_epoll(reported, 0)?;
            // As long as there may be more it is asked again.
            if reported.ready.len() < BATCH
                && let Some(ring) = &mut self.ring
            {
                ring.watched_was_emptied();
            }
        }
        Ok(())
    }

    fn ask_epoll(&self, reported: &mut Reported, left_ns: u64) -> Result<(), Error> {
        let timeout =
            Timespec { tv_sec: (left_ns / NS_PER_S).cast_signed(), tv_nsec: (left_ns % NS_PER_S).cast_signed() };
        match epoll::wait(&self.epoll, spare_capacity(&mut reported.ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("cannot wait for events")(errno)),
        }
    }

    /// Nothing can be sent on the connection any more. What was answered before is still there to
    /// be read.
    pub fn broke_in_writing(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) -> Option<EventSource> {
        let connection = &mut self.list[conn.index()];
        // Where the target has ended in order a write is told just that.
        connection.broken = (cause != AttemptCause::Closed).then_some(cause);
        if matches!(connection.state, SocketState::Up(SocketStream::Ring(_))) {
            // The ring tells of it in turn.
            connection.pending.clear();
            return None;
        }
        Some(EventSource {
            conn,
            now_ns,
            generation: connection.generation,
            stage: SourceStage::Read,
            flags: EventFlags::IN,
            is_gone: true,
            reads: 0,
            broken: Some((cause, now_ns)),
        })
    }

    /// What has happened next to a connection that was reported. It has to be dealt with before the
    /// next is asked for: where that closes the connection there is none.
    #[inline]
    pub fn next_event(&mut self, source: &mut EventSource, buffers: &mut ReadBuffers) -> Option<ConnEvent> {
        loop {
            let connection = &mut self.list[source.conn.index()];
            if connection.generation != source.generation {
                return None;
            }
            let event = match source.stage {
                SourceStage::Connect => {
                    let reads = source.flags.intersects(EventFlags::IN | GONE);
                    source.stage = if reads { SourceStage::Read } else { SourceStage::Write };
                    match connection.state {
                        SocketState::Connecting(_) => self.finish_connect(source),
                        _ => None,
                    }
                }
                SourceStage::Read if connection.tls().is_some() => self.read_tls(source, buffers),
                SourceStage::Read => self.read(source, buffers),
                // Only then: a target may answer before it has read the whole request, and close.
                SourceStage::Write => {
                    source.stage = SourceStage::Done;
                    self.write_rest(source)
                }
                SourceStage::Done => return None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    #[cold]
    fn finish_connect(&mut self, source: &mut EventSource) -> Option<ConnEvent> {
        if !source.flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            return None;
        }
        source.now_ns = self.clock.now_ns();
        let connection = &mut self.list[source.conn.index()];
        let SocketState::Connecting(socket) = std::mem::replace(&mut connection.state, SocketState::Down) else {
            return None;
        };
        if let Ok(Err(errno)) | Err(errno) = socket_error(&socket) {
            return Some(ConnEvent::ConnectFailed(connect_cause(errno)));
        }
        let service = connection.service as usize;
        match self.peers.as_ref().and_then(|peers| peers.session(service)) {
            // What is there before anything was asked answers nothing.
            None if source.flags.contains(EventFlags::IN) && !self.may_speak_first(service) => {
                match first_byte(&socket) {
                    Ok(Some(first)) if !P::may_refuse_unasked(first) => {
                        Some(ConnEvent::ConnectFailed(AttemptCause::BadAnswer))
                    }
                    Ok(_) => self.greet(source.conn, socket),
                    // The system says it once: whoever wrote now would only hear that nobody listens.
                    Err(errno) => Some(ConnEvent::ConnectFailed(connect_cause(errno))),
                }
            }
            None => self.greet(source.conn, socket),
            Some(Ok(session)) => self.enter(source.conn, socket, session),
            Some(Err(cause)) => Some(ConnEvent::ConnectFailed(cause)),
        }
    }

    fn may_speak_first(&self, service: usize) -> bool {
        let greeting = self.services[service].greeting();
        greeting.is_some_and(|greeting| greeting.bytes.is_empty())
    }

    /// The connection takes requests from now on.
    fn opened(&mut self, conn: ConnId, stream: SocketStream) -> ConnEvent {
        let stream = self.hand_to_ring(conn, stream);
        let connection = &mut self.list[conn.index()];
        connection.state = SocketState::Up(stream);
        connection.broken = None;
        let greeting = std::mem::take(&mut connection.pending);
        self.spare.recycle(greeting);
        ConnEvent::Opened
    }

    // The first words on a connection belong to connecting: whoever waits on a connection whose
    // greeting is not answered in time, or refused, could not connect, and the operation certainly
    // had no effect. Sending the request along would spare a round trip, and carry it out as
    // somebody else or on other data where the greeting is refused.

    /// The connection's socket is connected.
    fn greet(&mut self, conn: ConnId, socket: OwnedFd) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        let Some(greeting) = self.services[connection.service as usize].greeting() else {
            return Some(self.opened(conn, SocketStream::Plain(socket)));
        };
        // A fresh socket takes so little at once.
        if write(socket.as_fd(), &greeting.bytes).is_ok_and(|sent| sent == greeting.bytes.len()) {
            connection.state = SocketState::Greeting(socket);
            return None;
        }
        Some(ConnEvent::ConnectFailed(AttemptCause::ConnectFailed))
    }

    /// Bytes came in answer to the greeting.
    fn greeted(&mut self, conn: ConnId, bytes: &[u8]) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        connection.pending.extend_from_slice(bytes);
        let greeting = self.services[connection.service as usize].greeting();
        let refused = match greeting.map(|greeting| P::greeted(greeting, &connection.pending)) {
            Some(Progress::More { .. }) => return None,
            Some(Progress::Answer(answer))
                if answer.result == AttemptCause::Ok && answer.used == connection.pending.len() =>
            {
                return match std::mem::replace(&mut connection.state, SocketState::Down) {
                    SocketState::Greeting(socket) => Some(self.opened(conn, SocketStream::Plain(socket))),
                    _ => None,
                };
            }
            Some(Progress::Answer(answer)) if answer.result != AttemptCause::Ok => answer.result,
            _ => AttemptCause::ConnectFailed,
        };
        Some(ConnEvent::ConnectFailed(refused))
    }

    /// Reads what is there; to its end where the peer is gone.
    #[inline]
    fn read(&mut self, source: &mut EventSource, buffers: &mut ReadBuffers) -> Option<ConnEvent> {
        loop {
            let connection = &self.list[source.conn.index()];
            let socket = match &connection.state {
                SocketState::Up(SocketStream::Plain(socket)) | SocketState::Greeting(socket) => socket,
                SocketState::Tunnelling(tls) => &tls.socket,
                _ => {
                    source.stage = SourceStage::Write;
                    return None;
                }
            };
            if source.reads == READS {
                return self.read_later(source);
            }
            source.reads += 1;
            let received = recv(socket, buffers.received.as_mut_slice(), RecvFlags::empty());
            source.now_ns = self.clock.now_ns();
            match received {
                Ok((0, _)) => {
                    source.stage = SourceStage::Write;
                    return Some(connection.ended());
                }
                Ok((count, _)) => {
                    if count < buffers.received.len() && !source.is_gone {
                        source.stage = SourceStage::Write;
                    }
                    match connection.state {
                        SocketState::Greeting(_) => return self.greeted(source.conn, &buffers.received[..count]),
                        SocketState::Tunnelling(_) => return self.tunnelled(source.conn, &buffers.received[..count]),
                        _ => {}
                    }
                    (buffers.is_plaintext, buffers.length) = (false, count);
                    return Some(ConnEvent::Bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    source.stage = SourceStage::Write;
                    return None;
                }
                Err(errno) => {
                    source.stage = SourceStage::Write;
                    return Some(connection.lost(broken_cause(errno)));
                }
            }
        }
    }

    /// Others get their turn: epoll reports the connection again although nothing new may come.
    fn read_later(&mut self, source: &mut EventSource) -> Option<ConnEvent> {
        source.stage = SourceStage::Write;
        let connection = &self.list[source.conn.index()];
        let socket = connection.socket()?;
        let data = event_data(connection.generation, source.conn);
        let watched = epoll::modify(&self.epoll, socket, data, INTEREST);
        watched.is_err().then(|| connection.lost(AttemptCause::Broken))
    }

    /// Everything has been read: sends what the socket did not take before, or tells what broke the
    /// connection.
    #[inline]
    fn write_rest(&mut self, source: &mut EventSource) -> Option<ConnEvent> {
        let connection = &mut self.list[source.conn.index()];
        if let Some((cause, broken_ns)) = source.broken {
            source.now_ns = broken_ns;
            return Some(connection.lost(cause));
        }
        if !source.flags.contains(EventFlags::OUT) || !connection.has_unsent() {
            return None;
        }
        source.now_ns = self.clock.now_ns();
        if let Some(tls) = connection.tls() {
            return tls.write().err().map(|cause| connection.lost(cause));
        }
        let SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) = &connection.state else {
            return None;
        };
        match write(socket.as_fd(), &connection.pending) {
            Ok(sent) if sent == connection.pending.len() => {
                let pending = std::mem::take(&mut connection.pending);
                self.spare.recycle(pending);
                self.unwatch_writable(source.conn);
            }
            Ok(sent) => drop(connection.pending.drain(..sent)),
            Err(cause) => {
                if let Some(broken) = self.broke_in_writing(source.conn, cause, source.now_ns) {
                    *source = broken;
                }
            }
        }
        None
    }
}

/// What epoll tells a connection by.
fn event_data(generation: u32, conn: ConnId) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(conn.number()))
}

/// The next byte to be read, if there is one.
fn first_byte(socket: &OwnedFd) -> Result<Option<u8>, Errno> {
    let mut first = [0_u8; 1];
    match recv(socket, first.as_mut_slice(), RecvFlags::PEEK) {
        Ok((count, _)) => Ok((count > 0).then_some(first[0])),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Bytes that the socket took.
fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, AttemptCause> {
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => return Ok(sent),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(errno) => return Err(broken_cause(errno)),
        }
    }
}

/// A socket that connects to one in the file system.
fn dial_file(path: &Path, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        // Its accept queue is full, and nobody tries again in our place (unix(7)).
        Err(Errno::AGAIN) => Err(Errno::CONNREFUSED),
        Err(errno) => Err(errno),
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
fn broken_cause(errno: Errno) -> AttemptCause {
    match errno {
        Errno::CONNRESET => AttemptCause::Reset,
        Errno::PIPE => AttemptCause::Closed,
        _ => AttemptCause::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use experiment::plan::Load;

    use super::*;
    use crate::LoadOrder;
    use crate::engine::agents::tests::{load, orders, step};
    use crate::protocols::lines::Lines;

    /// One connection to a target, and what it has been told of it.
    struct Talk {
        connections: ConnectionSet<Lines>,
        reported: Reported,
        buffers: ReadBuffers,
        seen: Vec<(ConnEvent, Vec<u8>)>,
    }

    const CONN: ConnId = ConnId::new(0);

    impl Talk {
        fn new(address: SocketAddr, with_ring: bool) -> Self {
            let load = Load { steps: vec![step("send", &[("line", "hello")], &[])], ..load(1) };
            let orders = LoadOrder { without_ring: !with_ring, ..orders("lines", &address.to_string(), load) };
            let script = Script::<Lines>::compile(&orders).unwrap();
            let paths = ConnectPaths {
                addresses: vec![ServiceAddress::Network(address)].into(),
                tunnels: vec![None].into(),
                sources: Default::default(),
            };
            let clock = LoadClock { origin: Instant::now() };
            let mut connections = ConnectionSet::new(&script, paths, 0, clock).unwrap();
            if with_ring {
                // Where there is none the test is the same as the other one.
                let _ = connections.open_ring();
            }
            let buffers = connections.buffers();
            Self { connections, reported: Reported::default(), buffers, seen: Vec::new() }
        }

        /// What happens next, with the bytes that came.
        fn next(&mut self) -> (ConnEvent, Vec<u8>) {
            while self.seen.is_empty() {
                self.connections.wait(&mut self.reported, 1_000_000_000, WakePolicy::NONE).unwrap();
                while let Some(mut source) = self.reported.next_ready() {
                    while let Some(event) = self.connections.next_event(&mut source, &mut self.buffers) {
                        self.note(event);
                    }
                }
                while let Some((_, event)) = self.connections.next_completion(&mut self.reported, &mut self.buffers) {
                    self.note(event);
                }
            }
            self.seen.remove(0)
        }

        /// As the worker does it: what is to be closed is.
        fn note(&mut self, event: ConnEvent) {
            let bytes = if event == ConnEvent::Bytes { self.buffers.bytes().to_vec() } else { Vec::new() };
            self.seen.push((event, bytes));
            if !matches!(event, ConnEvent::Opened | ConnEvent::Bytes) {
                self.connections.close(CONN);
            }
        }
    }

    fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn whatever_carries_the_bytes_the_same_is_told() {
        for with_ring in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut talk = Talk::new(listener.local_addr().unwrap(), with_ring);
            assert_eq!(talk.connections.send_path(CONN), SendPath::Down);
            for _ in 0..2 {
                talk.connections.connect(CONN).unwrap();
                assert_eq!(talk.connections.send_path(CONN), SendPath::WhenOpen);
                assert_eq!(talk.next().0, ConnEvent::Opened);
                let mut target = listener.accept().unwrap().0;
                talk.connections.send(CONN, b"hello\n").unwrap();
                talk.connections.submit();
                assert_eq!(read(&mut target, 6), b"hello\n");
                target.write_all(b"good day\n").unwrap();
                assert_eq!(talk.next(), (ConnEvent::Bytes, b"good day\n".to_vec()));
                drop(target);
                assert_eq!(talk.next().0, ConnEvent::Ended);
                assert_eq!(talk.connections.send_path(CONN), SendPath::Down, "and can be connected again");
            }
        }
    }

    #[test]
    fn what_a_target_said_before_it_reset_the_connection_is_told_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut talk = Talk::new(listener.local_addr().unwrap(), false);
        talk.connections.connect(CONN).unwrap();
        assert_eq!(talk.next().0, ConnEvent::Opened);
        let mut target = listener.accept().unwrap().0;
        talk.connections.send(CONN, b"never read").unwrap();
        target.write_all(b"enough\n").unwrap();
        assert_eq!(talk.next(), (ConnEvent::Bytes, b"enough\n".to_vec()));
        // With bytes unread.
        drop(target);
        assert!(matches!(talk.next().0, ConnEvent::Closed(AttemptCause::Reset)));
    }

    #[test]
    fn events_of_a_socket_that_was_closed_are_not_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut talk = Talk::new(address, false);
        talk.connections.connect(CONN).unwrap();
        talk.connections.wait(&mut talk.reported, 1_000_000_000, WakePolicy::NONE).unwrap();
        talk.connections.close(CONN);
        let mut source = talk.reported.next_ready().unwrap();
        assert_eq!(talk.connections.next_event(&mut source, &mut talk.buffers), None);
        drop(listener);
        talk.connections.connect(CONN).unwrap();
        assert_eq!(talk.next().0, ConnEvent::ConnectFailed(AttemptCause::ConnectRefused));
    }
}
