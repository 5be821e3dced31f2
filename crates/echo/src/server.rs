//! Server loop and listening port: one thread and one epoll, with every file registered once and
//! edge-triggered; and the server's clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime};

use crate::connection::{Connection, ConnectionToken, Slots};
use crate::connection_server::{ConnectionFate, ConnectionServer};
use crate::options::Timing;
use crate::protocols::{self, Codec};
use crate::{Error, Options};

/// Maximum number of events per wait.
const EVENTS: usize = 512;
/// Default of `fs.nr_open`, which limits the open files of a process.
const FILES: u64 = 1 << 20;
/// Time that a refused client gets to close its side, nanoseconds.
const LINGER_NS: u64 = 2_000_000_000;

/// Tokens that belong to no connection, because no slot has these numbers.
const LISTENER: ConnectionToken = u64::MAX;
const TIMER: ConnectionToken = u64::MAX - 1;

/// Serves until `stop`.
pub(crate) fn run<C: Codec>(listener: Listener, options: &Options, stop: &AtomicBool) -> Result<ServerBook, Error> {
    allow_open_files();
    Server::<C>::new(listener, options)?.run(stop)
}

/// A period in which requests were answered with configured errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Time of the first error answer, Unix time in seconds.
    pub first_unix_s: f64,
    /// Time of the last error answer, Unix time in seconds.
    pub last_unix_s: f64,
    /// Number of error answers.
    pub answers: u64,
}

/// A configured stall, in which the server did nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Start, Unix time in seconds.
    pub first_unix_s: f64,
    /// End, Unix time in seconds.
    pub last_unix_s: f64,
}

/// Record of the server's configured errors and stalls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerBook {
    /// Periods with errors.
    pub errors: Vec<Errors>,
    pub stalls: Vec<Stall>,
}

/// Maximum number of periods that are recorded.
const SPELLS: usize = 10_000;

struct Server<C: Codec> {
    epoll: OwnedFd,
    listener: OwnedFd,
    timer: OwnedFd,
    /// Time at which the timer fires next. 0: not set yet.
    timer_ns: u64,
    timing: Timing,
    /// Time of the first accepted connection. The schedules start at this time.
    first_ns: Option<u64>,
    desk: ConnectionServer<C>,
    /// Recorded errors and stalls. `in_spell` is true while the last period with errors continues.
    book: ServerBook,
    in_spell: bool,
    slots: Slots<C::Memory>,
    /// Whether accepting failed for lack of files or memory. No event reports when accepting is
    /// possible again.
    accept_again: bool,
    /// Connections to handle although no event reports them.
    again: Vec<ConnectionToken>,
    /// Lingering connections, with the times at which they are dropped.
    lingering: VecDeque<(u64, ConnectionToken)>,
}

impl<C: Codec> Server<C> {
    fn new(listener: Listener, options: &Options) -> Result<Self, Error> {
        let timing = options.timing()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Error::of("epoll_create1"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(Error::of("timerfd_create"))?;
        for (file, token) in [(&listener.socket, LISTENER), (&timer, TIMER)] {
            // Edge-triggered, so that the timer need never be read.
            epoll::add(&epoll, file, EventData::new_u64(token), EventFlags::IN | EventFlags::ET)
                .map_err(Error::of("epoll_ctl"))?;
        }
        Ok(Self {
            epoll,
            listener: listener.socket,
            timer,
            timer_ns: 0,
            timing,
            first_ns: None,
            desk: ConnectionServer::new(C::new(options), timing.delay_ns, options),
            book: ServerBook::default(),
            in_spell: false,
            slots: Slots::new(),
            accept_again: false,
            again: Vec::new(),
            lingering: VecDeque::new(),
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<ServerBook, Error> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        while !stop.load(Ordering::Relaxed) {
            self.set_timer()?;
            let timeout = timespec(if self.again.is_empty() { TICK_NS } else { 0 });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::of("epoll_wait")(errno)),
            }
            self.keep_schedules(stop);
            let errors = self.desk.errors;
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    TIMER => {}
                    token => self.attend(token, event.flags),
                }
                self.release_due();
            }
            self.release_due();
            self.catch_up();
            self.note_errors(self.desk.errors - errors);
        }
        Ok(self.book)
    }

    /// Waits while a stall lasts. Updates whether answers are errors.
    fn keep_schedules(&mut self, stop: &AtomicBool) {
        let Some(first_ns) = self.first_ns else { return };
        if let Some(stalls) = self.timing.stalls {
            while let Some(end_ns) = stalls.end_ns(now_ns().saturating_sub(first_ns))
                && !stop.load(Ordering::Relaxed)
            {
                let first_unix_s = unix_s();
                wait_until(first_ns.saturating_add(end_ns), stop);
                if self.book.stalls.len() < SPELLS {
                    self.book.stalls.push(Stall { first_unix_s, last_unix_s: unix_s() });
                }
            }
        }
        if let Some(errors) = self.timing.errors {
            self.desk.failing = errors.is_on(now_ns().saturating_sub(first_ns));
        }
    }

    /// Records how many requests of this round were answered with errors.
    fn note_errors(&mut self, answers: u64) {
        self.in_spell &= self.desk.failing;
        if answers == 0 {
            return;
        }
        let now_s = unix_s();
        if !self.in_spell {
            if self.book.errors.len() >= SPELLS {
                return;
            }
            self.book.errors.push(Errors { first_unix_s: now_s, last_unix_s: now_s, answers: 0 });
            self.in_spell = true;
        }
        if let Some(spell) = self.book.errors.last_mut() {
            spell.last_unix_s = now_s;
            spell.answers += answers;
        }
    }

    fn accept(&mut self) {
        self.accept_again = false;
        loop {
            match rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.take_in(socket),
                Err(Errno::WOULDBLOCK) => return,
                // A signal, or a client that is already gone: continue.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn take_in(&mut self, socket: OwnedFd) {
        self.first_ns.get_or_insert_with(now_ns);
        let Some(token) = self.slots.insert(Connection::new(socket)) else { return };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let Some(connection) = self.slots.get(token) else { return };
        if epoll::add(&self.epoll, connection.socket(), EventData::new_u64(token), flags).is_err() {
            self.slots.remove(token);
        }
    }

    fn attend(&mut self, token: ConnectionToken, flags: EventFlags) {
        if let Some(connection) = self.slots.get(token) {
            let fate = self.desk.attend(token, connection, flags);
            self.settle(token, fate);
        }
    }

    fn settle(&mut self, token: ConnectionToken, fate: ConnectionFate) {
        match fate {
            ConnectionFate::Keep => {}
            ConnectionFate::Again => self.again.push(token),
            ConnectionFate::Linger => {
                self.lingering.push_back((now_ns().saturating_add(LINGER_NS), token));
                self.again.push(token);
            }
            ConnectionFate::Gone => self.slots.remove(token),
        }
    }

    /// Sends the answers that are due.
    fn release_due(&mut self) {
        if self.desk.next_due_ns().is_none() {
            return;
        }
        while let Some((token, bytes)) = self.desk.pop_due(now_ns()) {
            if let Some(connection) = self.slots.get(token) {
                let fate = self.desk.release(token, connection, &bytes);
                self.settle(token, fate);
            }
            self.desk.recycle(bytes);
        }
    }

    /// Sets the timer to the next due answer. A timer is needed because the timeout of an epoll
    /// wait is rounded up to whole milliseconds.
    fn set_timer(&mut self) -> Result<(), Error> {
        let Some(due_ns) = self.desk.next_due_ns().filter(|due_ns| *due_ns != self.timer_ns) else { return Ok(()) };
        let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(due_ns) };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
            .map_err(Error::of("timerfd_settime"))?;
        self.timer_ns = due_ns;
        Ok(())
    }

    /// Handles work that no event reports.
    fn catch_up(&mut self) {
        if self.accept_again {
            self.accept();
        }
        for token in std::mem::take(&mut self.again) {
            self.attend(token, EventFlags::IN);
        }
        while self.lingering.front().is_some_and(|(end_ns, _)| *end_ns <= now_ns()) {
            if let Some((_, token)) = self.lingering.pop_front() {
                self.slots.remove(token);
            }
        }
    }
}

/// Raises the limit on open files as far as allowed. Root may exceed the hard limit. If raising
/// fails, fewer connections are open and the others wait to be accepted.
fn allow_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    for most in [hard.map(|hard| hard.max(FILES)), hard] {
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            return;
        }
    }
}

/// Maximum number of connections that wait to be accepted. The system's limit
/// (`net.core.somaxconn`) may be lower.
const BACKLOG: i32 = 4096;

/// An open port that is not yet served.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    address: SocketAddr,
}

impl Listener {
    pub(crate) fn bind(options: &Options) -> Result<Self, Error> {
        options.check()?;
        let address = options.listen;
        let (socket, address) = open(address).map_err(|errno| match errno {
            Errno::ADDRINUSE => Error::PortTaken { address },
            other => Error::Listen { address, source: other.into() },
        })?;
        Ok(Self { socket, address })
    }

    /// Returns the address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is true, which is noticed within 50 ms. Then closes every connection.
    /// Raises this process's limit on open files as far as allowed. Returns the times of configured
    /// errors and stalls.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for an impossible option, [`Error::System`].
    pub fn serve(self, options: &Options, stop: &AtomicBool) -> Result<ServerBook, Error> {
        options.check()?;
        protocols::kind(options.protocol).serve(self, options, stop)
    }
}

fn open(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a server that has just ended must not block its port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Accepted sockets inherit this option, which saves a system call for each.
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// Maximum time until `stop` is noticed.
pub(crate) const TICK_NS: u64 = 50_000_000;

/// Returns the time of the monotonic clock, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Returns the Unix time in seconds, for reports.
fn unix_s() -> f64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Converts nanoseconds for system calls.
fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

/// Waits until `end_ns`, or until one tick after `stop` has become true.
fn wait_until(end_ns: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return;
        }
        // A signal may end the wait early, and the loop then checks `stop`. There are no other
        // errors.
        let _ = poll(&mut [], Some(&timespec(left_ns.min(TICK_NS))));
    }
}

#[cfg(test)]
mod tests;
