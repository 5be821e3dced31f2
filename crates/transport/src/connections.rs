//! Sockets of connections: opened, written, read and closed; with or without TLS; by system calls
//! or by io_uring.
//!
//! Each change of a connection is a [`ConnEvent`], regardless of the transport. The caller takes
//! events one by one and handles each before it takes the next. This module knows neither agents
//! nor statistics nor the meaning of bytes.

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
use wire::cause::AttemptCause;

use crate::buffer_pool::BufferPool;
use crate::conn_id::ConnId;
use crate::error::Error;
use crate::program_worker::{DeathSignal, ProgramHost, spawn_program_worker};
use crate::ring::{Completion, Ring, RingToken, WakePolicy};
use crate::service_address::ServiceAddress;
use crate::source_addresses::{SourceAddresses, use_for};
use crate::tls::TlsPeers;
use crate::tunnel::TunnelRequest;

mod causes;
mod opening;
mod silence;
mod tls;
mod uring;

pub use opening::OpeningRules;
pub use uring::AT_ONCE;

use causes::{broken_cause, connect_cause};
use silence::Silence;
use tls::{SealedBytes, TlsStream};

/// Maximum number of bytes per `recv`.
const BUFFER: usize = 64 * 1024;
/// Maximum number of events that are handled before timers get their turn.
pub const BATCH: usize = 256;
// Each socket is registered with epoll once, edge-triggered, for all events. A short read has
// emptied the socket, so no second `recv` follows: later bytes cause a new edge.
/// Events that epoll reports on a connection.
const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Events that epoll reports when the peer is gone.
const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// Maximum number of reads from one connection before other connections and timers get their turn.
/// A target that sends faster than the thread reads must not occupy the thread.
const READS: u8 = 16;

const NS_PER_S: u64 = 1_000_000_000;

/// Clock that counts nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy)]
pub struct LoadClock {
    pub origin: Instant,
}

impl LoadClock {
    /// Returns the current time; 0 before the load.
    #[inline]
    pub fn now_ns(self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Addresses at both ends of connections.
#[derive(Clone)]
pub struct ConnectPaths {
    /// Address of each service.
    pub addresses: Arc<[ServiceAddress]>,
    /// Tunnel requests to proxies, indexed by service. `None` for a service without a proxy.
    pub tunnels: Arc<[Option<TunnelRequest>]>,
    /// Source addresses of connections.
    pub sources: Arc<SourceAddresses>,
}

/// Settings of a thread's connections.
pub struct ConnectionSettings {
    /// Index of each connection's service.
    pub services: Vec<u32>,
    pub opening: OpeningRules,
    /// TLS settings of the services that use TLS, if any.
    pub peers: Option<TlsPeers>,
    /// Index of the thread's first connection among the connections of this process, and the
    /// distance to the thread's next connection.
    pub numbers: (u32, u32),
    /// Whether agents share connections.
    pub is_pipelined: bool,
    /// Ties started programs to the life of this process.
    pub tether: Option<DeathSignal>,
    /// Hosts that run the services' own programs.
    pub hosts: Arc<[ProgramHost]>,
}

/// Events of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnEvent {
    /// The connection is made, and its TLS handshake is complete. The caller must exchange what the
    /// protocol requires before the first request, and then [open](ConnectionSet::open) it.
    Connected,
    /// The connection could not be opened, and no request was sent on it. The caller must close it.
    ConnectFailed(AttemptCause),
    /// Bytes have arrived; see [`ReadBuffers::bytes`].
    Bytes,
    /// The peer will send no more. The caller must close the connection.
    Ended,
    /// The connection is unusable. The caller must close it.
    Closed(AttemptCause),
}

/// Options for sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPath {
    /// The request can be sent at once.
    Now,
    /// The request is sent at the end of this turn of the event loop, together with other requests.
    WithOthers,
    /// The request waits until the connection is open.
    WhenOpen,
    Down,
}

#[derive(Debug)]
enum SocketState {
    /// No socket exists.
    Down,
    /// The socket is connecting.
    Connecting(OwnedFd),
    /// The socket is connected to a proxy, and waits for its answer to the tunnel request.
    Tunnelling(Box<TlsStream>),
    /// The socket is connected, and the TLS handshake is in progress.
    Handshaking(Box<TlsStream>),
    /// The socket carries bytes, and the protocol's opening is not complete yet.
    Opening(OwnedFd),
    /// Like `Opening`, with TLS.
    OpeningTls(Box<TlsStream>),
    /// The socket is open and takes requests.
    Up(SocketStream),
}

/// Transport of an open connection.
#[derive(Debug)]
enum SocketStream {
    /// System calls, without TLS.
    Plain(OwnedFd),
    /// The ring, without TLS.
    Ring(OwnedFd),
    /// System calls, with TLS. Boxed to keep the other variants small.
    Tls(Box<TlsStream>),
}

/// A connection to a service. Agents keep their connection for the whole load; the connection's
/// socket is replaced when needed.
pub struct Connection {
    /// Index of the connection's current service.
    service: u32,
    /// Sequence number of the current socket. Tells late events of an old socket apart.
    generation: u32,
    state: SocketState,
    /// Cause of a failed write. The system reports the error only once; a later read sees an
    /// orderly end.
    broken: Option<AttemptCause>,
    silence: Silence,
    /// Earliest time of the next connect.
    connect_after_ns: u64,
    /// Bytes that the socket has not taken yet. Before the TLS handshake: bytes received in answer
    /// to the tunnel request.
    pending: Vec<u8>,
}

impl Connection {
    fn socket(&self) -> Option<&OwnedFd> {
        match &self.state {
            SocketState::Down => None,
            SocketState::Connecting(socket)
            | SocketState::Opening(socket)
            | SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) => Some(socket),
            SocketState::Tunnelling(tls)
            | SocketState::Handshaking(tls)
            | SocketState::OpeningTls(tls)
            | SocketState::Up(SocketStream::Tls(tls)) => Some(&tls.socket),
        }
    }

    /// Returns the socket and session of a TLS connection.
    #[inline]
    fn tls(&mut self) -> Option<&mut TlsStream> {
        match &mut self.state {
            SocketState::Handshaking(tls) | SocketState::OpeningTls(tls) | SocketState::Up(SocketStream::Tls(tls)) => {
                Some(tls)
            }
            _ => None,
        }
    }

    /// Whether bytes wait until the socket takes them.
    #[inline]
    fn has_unsent(&self) -> bool {
        match &self.state {
            SocketState::Handshaking(tls) | SocketState::OpeningTls(tls) | SocketState::Up(SocketStream::Tls(tls)) => {
                tls.session.wants_write()
            }
            SocketState::Opening(_) | SocketState::Up(_) => !self.pending.is_empty(),
            _ => false,
        }
    }

    /// Returns the event of an unusable connection. If the connection is not open yet, the connect
    /// has failed.
    fn lost(&self, cause: AttemptCause) -> ConnEvent {
        match self.state {
            SocketState::Opening(_) | SocketState::OpeningTls(_) | SocketState::Tunnelling(_) => {
                ConnEvent::ConnectFailed(AttemptCause::ConnectFailed)
            }
            // During the handshake there are no keys yet, so no request was sent.
            SocketState::Handshaking(_) => ConnEvent::ConnectFailed(AttemptCause::TlsClosed),
            _ => ConnEvent::Closed(cause),
        }
    }

    /// Returns the event after the peer ended its stream.
    fn ended(&self) -> ConnEvent {
        match self.broken {
            // An answer that ends with its connection is incomplete.
            Some(cause) => self.lost(cause),
            None if matches!(self.state, SocketState::Up(_)) => ConnEvent::Ended,
            None => self.lost(AttemptCause::Closed),
        }
    }
}

/// Buffers for received bytes.
#[derive(Debug)]
pub struct ReadBuffers {
    received: Vec<u8>,
    /// Received TLS bytes that are not decrypted yet.
    sealed: SealedBytes,
    /// Decrypted bytes. Empty if no service uses TLS.
    plaintext: Vec<u8>,
    is_plaintext: bool,
    length: usize,
}

impl ReadBuffers {
    /// Returns the bytes of the last event.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let buffer = if self.is_plaintext { &self.plaintext } else { &self.received };
        &buffer[..self.length]
    }
}

/// A connection that epoll reported or a failed write broke, and the progress of handling its
/// events.
pub struct EventSource {
    pub conn: ConnId,
    /// Time of the last event.
    pub now_ns: u64,
    generation: u32,
    stage: SourceStage,
    flags: EventFlags,
    is_gone: bool,
    reads: u8,
    /// Cause and time of a failed write.
    broken: Option<(AttemptCause, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceStage {
    Connect,
    Read,
    Write,
    Done,
}

/// Events that epoll and the ring have reported, and the progress of handling them.
pub struct Reported {
    ready: Vec<epoll::Event>,
    next_ready: usize,
    completions: Vec<Completion>,
    next_completion: usize,
    /// Receive request that ended with the last event and must be renewed.
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
    /// Whether a reported event is still unhandled.
    pub fn has_events(&self) -> bool {
        self.next_ready < self.ready.len() || self.has_completions()
    }

    /// Returns the next connection that epoll has reported.
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

    /// Whether a completion of the ring is still unhandled.
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.next_completion < self.completions.len()
    }
}

/// The connections of a thread.
pub struct ConnectionSet {
    list: Vec<Connection>,
    clock: LoadClock,
    epoll: OwnedFd,
    /// Ring that carries bytes, if permitted.
    ring: Option<Box<Ring>>,
    spare: BufferPool,
    opening: OpeningRules,
    paths: ConnectPaths,
    /// TLS settings of the services that use TLS, if any.
    peers: Option<TlsPeers>,
    /// Index of the thread's first connection among the connections of this process, and the
    /// distance to the thread's next connection.
    numbers: (u32, u32),
    /// Whether agents share connections.
    is_pipelined: bool,
    /// Ties started programs to the life of this process.
    tether: Option<DeathSignal>,
    /// Hosts that run the services' own programs.
    hosts: Arc<[ProgramHost]>,
    /// Threads that run programs for connections.
    program_workers: Vec<JoinHandle<()>>,
    /// Error that ends the load early.
    pub failure: Option<Error>,
}

impl ConnectionSet {
    /// Creates the connections of a thread, all of them closed.
    ///
    /// # Errors
    /// If the system provides no epoll instance.
    pub fn new(settings: ConnectionSettings, paths: ConnectPaths, clock: LoadClock) -> Result<Self, Error> {
        let ConnectionSettings { services, opening, peers, numbers, is_pipelined, tether, hosts } = settings;
        let connection = |service| Connection {
            service,
            generation: 0,
            state: SocketState::Down,
            broken: None,
            silence: Silence::default(),
            connect_after_ns: 0,
            pending: Vec::new(),
        };
        Ok(Self {
            list: services.into_iter().map(connection).collect(),
            clock,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("cannot create an epoll instance"))?,
            ring: None,
            spare: BufferPool::default(),
            opening,
            paths,
            peers,
            numbers,
            is_pipelined,
            tether,
            hosts,
            program_workers: Vec::new(),
            failure: None,
        })
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Creates buffers for received bytes.
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

    /// Returns the sequence number of the connection's current socket.
    #[inline]
    pub fn generation(&self, conn: ConnId) -> u32 {
        self.list[conn.index()].generation
    }

    /// Whether the connection takes requests.
    #[inline]
    pub fn is_up(&self, conn: ConnId) -> bool {
        matches!(self.list[conn.index()].state, SocketState::Up(_))
    }

    /// Whether bytes wait until the connection's socket takes them.
    #[inline]
    pub fn has_unsent(&self, conn: ConnId) -> bool {
        self.list[conn.index()].has_unsent()
    }

    /// Returns how a request on the connection can be sent now.
    #[inline]
    pub fn send_path(&self, conn: ConnId) -> SendPath {
        match &self.list[conn.index()].state {
            // Other agents of the connection may become ready in this turn of the loop. Their
            // requests are sent together.
            SocketState::Up(SocketStream::Ring(_)) => SendPath::WithOthers,
            SocketState::Up(_) if self.is_pipelined => SendPath::WithOthers,
            SocketState::Up(_) => SendPath::Now,
            SocketState::Connecting(_)
            | SocketState::Tunnelling(_)
            | SocketState::Handshaking(_)
            | SocketState::Opening(_)
            | SocketState::OpeningTls(_) => SendPath::WhenOpen,
            SocketState::Down => SendPath::Down,
        }
    }

    /// Returns the earliest time of the next connect if the connection is down, or else 0.
    #[inline]
    pub fn connect_after_ns(&self, conn: ConnId) -> u64 {
        let connection = &self.list[conn.index()];
        if matches!(connection.state, SocketState::Down) { connection.connect_after_ns } else { 0 }
    }

    /// Returns the index of the connection's service.
    pub fn service(&self, conn: ConnId) -> usize {
        self.list[conn.index()].service as usize
    }

    /// Sets the service for the next connect. The connection must be down.
    pub fn set_service(&mut self, conn: ConnId, service: u32) {
        self.list[conn.index()].service = service;
    }

    /// Sets the earliest time of the next connect.
    pub fn set_connect_after(&mut self, conn: ConnId, moment_ns: u64) {
        self.list[conn.index()].connect_after_ns = moment_ns;
    }

    /// Sends as many bytes as the socket takes, and the rest later. With a ring, the bytes are sent
    /// together with the bytes of other connections.
    #[inline]
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<(), AttemptCause> {
        let connection = &mut self.list[conn.index()];
        let sent = match &mut connection.state {
            SocketState::Up(SocketStream::Tls(tls)) | SocketState::OpeningTls(tls) => {
                return tls.write_plaintext(bytes);
            }
            // Earlier bytes still wait, so these bytes must wait too.
            SocketState::Up(_) | SocketState::Opening(_) if !connection.pending.is_empty() => 0,
            SocketState::Up(SocketStream::Plain(socket)) | SocketState::Opening(socket) => {
                write(socket.as_fd(), bytes)?
            }
            SocketState::Up(SocketStream::Ring(socket)) => {
                if let Some(ring) = &mut self.ring {
                    ring.send(RingToken::new(conn.number(), connection.generation), socket.as_fd(), bytes);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        if sent < bytes.len() {
            if connection.pending.is_empty() {
                connection.pending = self.spare.take();
            }
            connection.pending.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Begins to connect the connection.
    pub fn connect(&mut self, conn: ConnId) -> Result<(), AttemptCause> {
        let socket =
            if self.opening.runs_programs { self.spawn_program(conn) } else { self.dial(conn).map_err(connect_cause) }?;
        let data = event_data(self.list[conn.index()].generation, conn);
        epoll::add(&self.epoll, &socket, data, INTEREST).map_err(connect_cause)?;
        self.list[conn.index()].state = SocketState::Connecting(socket);
        Ok(())
    }

    /// Returns a socket that connects to the connection's service.
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

    /// Starts a program worker for the connection. Returns the load's end of the socket to the
    /// worker.
    fn spawn_program(&mut self, conn: ConnId) -> Result<OwnedFd, AttemptCause> {
        let number = self.list[conn.index()].service as usize;
        let (service, host) = (&self.opening.services[number], self.hosts.get(number).cloned());
        let failed = |error: io::Error| connect_cause(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let (socket, worker) = spawn_program_worker(self.tether, &service.authority, host).map_err(failed)?;
        // Workers whose agents have closed the connection need not be joined.
        self.program_workers.retain(|worker| !worker.is_finished());
        self.program_workers.push(worker);
        Ok(socket)
    }

    /// Closes every connection that runs programs, and waits until all programs have ended.
    pub fn join_programs(&mut self) {
        if !self.opening.runs_programs {
            return;
        }
        for index in 0..self.list.len() {
            self.close(ConnId::at(index));
        }
        for worker in self.program_workers.drain(..) {
            // A worker that panicked has dropped its program, which kills the program.
            let _ = worker.join();
        }
    }

    /// Closes the connection if it is open. Late events of its socket are ignored.
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

    /// Waits for events, for at most `left_ns`. With a ring, first submits the requests that are
    /// ready.
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
            // After a full batch, epoll may have more events, so it is asked again.
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

    /// Handles a failed write. Nothing more can be sent, but answers that arrived earlier can still
    /// be read.
    pub fn broke_in_writing(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) -> Option<EventSource> {
        let connection = &mut self.list[conn.index()];
        // If the target closed the connection in order, a read reports the close too.
        connection.broken = (cause != AttemptCause::Closed).then_some(cause);
        if matches!(connection.state, SocketState::Up(SocketStream::Ring(_))) {
            // The ring reports the end of the stream after the received bytes.
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

    /// Returns the next event of a reported connection. The caller must handle the event before it
    /// asks for the next. If the caller closes the connection, no event follows.
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
                // Writing comes last: a target may answer and close before it has read the whole
                // request.
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
            // Bytes that arrive before the first request is sent cannot be an answer.
            None if source.flags.contains(EventFlags::IN) && !self.opening.services[service].speaks_first => {
                match first_byte(&socket) {
                    Ok(Some(first)) if !(self.opening.may_refuse_unasked)(first) => {
                        Some(ConnEvent::ConnectFailed(AttemptCause::BadAnswer))
                    }
                    Ok(_) => Some(self.connected(source.conn, SocketState::Opening(socket))),
                    // The system reports this error only once. A later write would only find a
                    // broken pipe.
                    Err(errno) => Some(ConnEvent::ConnectFailed(connect_cause(errno))),
                }
            }
            None => Some(self.connected(source.conn, SocketState::Opening(socket))),
            Some(Ok(session)) => self.enter(source.conn, socket, session),
            Some(Err(cause)) => Some(ConnEvent::ConnectFailed(cause)),
        }
    }

    fn connected(&mut self, conn: ConnId, state: SocketState) -> ConnEvent {
        let connection = &mut self.list[conn.index()];
        (connection.state, connection.broken) = (state, None);
        ConnEvent::Connected
    }

    /// Makes a connected connection take requests.
    pub fn open(&mut self, conn: ConnId) {
        let state = match std::mem::replace(&mut self.list[conn.index()].state, SocketState::Down) {
            SocketState::Opening(socket) => SocketState::Up(self.hand_to_ring(conn, socket)),
            SocketState::OpeningTls(tls) => SocketState::Up(SocketStream::Tls(tls)),
            state => state,
        };
        self.list[conn.index()].state = state;
    }

    /// Reads the available bytes, or all bytes to the end if the peer is gone.
    #[inline]
    fn read(&mut self, source: &mut EventSource, buffers: &mut ReadBuffers) -> Option<ConnEvent> {
        loop {
            let connection = &self.list[source.conn.index()];
            let socket = match &connection.state {
                SocketState::Up(SocketStream::Plain(socket)) | SocketState::Opening(socket) => socket,
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
                    if matches!(connection.state, SocketState::Tunnelling(_)) {
                        return self.tunnelled(source.conn, &buffers.received[..count]);
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

    /// Gives other connections their turn. epoll reports this connection again even without new
    /// bytes.
    fn read_later(&mut self, source: &mut EventSource) -> Option<ConnEvent> {
        source.stage = SourceStage::Write;
        let connection = &self.list[source.conn.index()];
        let socket = connection.socket()?;
        let data = event_data(connection.generation, source.conn);
        let watched = epoll::modify(&self.epoll, socket, data, INTEREST);
        watched.is_err().then(|| connection.lost(AttemptCause::Broken))
    }

    /// Writes pending bytes, or returns the cause of a failed write. Called after all available
    /// bytes have been read.
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
        let (SocketState::Up(SocketStream::Plain(socket) | SocketStream::Ring(socket)) | SocketState::Opening(socket)) =
            &connection.state
        else {
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

/// Returns the data by which epoll identifies a connection.
fn event_data(generation: u32, conn: ConnId) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(conn.number()))
}

/// Returns the next byte to read, if any, without consuming it.
fn first_byte(socket: &OwnedFd) -> Result<Option<u8>, Errno> {
    let mut first = [0_u8; 1];
    match recv(socket, first.as_mut_slice(), RecvFlags::PEEK) {
        Ok((count, _)) => Ok((count > 0).then_some(first[0])),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Writes bytes. Returns the number of bytes that the socket took.
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

/// Returns a socket that connects to a Unix socket.
fn dial_file(path: &Path, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        // The accept queue is full, and the kernel does not retry (unix(7)).
        Err(Errno::AGAIN) => Err(Errno::CONNREFUSED),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use wire::protocols::Protocol as _;
    use wire::protocols::lines::Lines;

    use super::*;

    /// One connection to a target, and its events.
    struct TestConnection {
        connections: ConnectionSet,
        reported: Reported,
        buffers: ReadBuffers,
        seen: Vec<(ConnEvent, Vec<u8>)>,
    }

    const CONN: ConnId = ConnId::new(0);

    impl TestConnection {
        fn new(address: SocketAddr, with_ring: bool) -> Self {
            let service = Lines::open(&address.to_string()).unwrap();
            let settings = ConnectionSettings {
                services: vec![0],
                opening: OpeningRules::of(&[service]),
                peers: None,
                numbers: (0, 1),
                is_pipelined: false,
                tether: None,
                hosts: Arc::new([]),
            };
            let paths = ConnectPaths {
                addresses: vec![ServiceAddress::Network(address)].into(),
                tunnels: vec![None].into(),
                sources: Default::default(),
            };
            let clock = LoadClock { origin: Instant::now() };
            let mut connections = ConnectionSet::new(settings, paths, clock).unwrap();
            if with_ring {
                // Without io_uring, this test equals the other one.
                let _ = connections.open_ring();
            }
            let buffers = connections.buffers();
            Self { connections, reported: Reported::default(), buffers, seen: Vec::new() }
        }

        /// Returns the next event, with the bytes received.
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

        /// Handles an event as the worker does: opens or closes the connection if the event
        /// requires it.
        fn note(&mut self, event: ConnEvent) {
            let bytes = if event == ConnEvent::Bytes { self.buffers.bytes().to_vec() } else { Vec::new() };
            self.seen.push((event, bytes));
            if event == ConnEvent::Connected {
                self.connections.open(CONN);
            }
            if !matches!(event, ConnEvent::Connected | ConnEvent::Bytes) {
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
    fn epoll_and_ring_report_the_same_events() {
        for with_ring in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut talk = TestConnection::new(listener.local_addr().unwrap(), with_ring);
            assert_eq!(talk.connections.send_path(CONN), SendPath::Down);
            for _ in 0..2 {
                talk.connections.connect(CONN).unwrap();
                assert_eq!(talk.connections.send_path(CONN), SendPath::WhenOpen);
                assert_eq!(talk.next().0, ConnEvent::Connected);
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
    fn bytes_before_a_reset_are_reported_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut talk = TestConnection::new(listener.local_addr().unwrap(), false);
        talk.connections.connect(CONN).unwrap();
        assert_eq!(talk.next().0, ConnEvent::Connected);
        let mut target = listener.accept().unwrap().0;
        talk.connections.send(CONN, b"never read").unwrap();
        target.write_all(b"enough\n").unwrap();
        assert_eq!(talk.next(), (ConnEvent::Bytes, b"enough\n".to_vec()));
        // The target has unread bytes, so the drop resets the connection.
        drop(target);
        assert!(matches!(talk.next().0, ConnEvent::Closed(AttemptCause::Reset)));
    }

    #[test]
    fn events_of_a_closed_socket_are_not_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut talk = TestConnection::new(address, false);
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
