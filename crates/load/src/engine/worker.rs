//! A thread of the engine: its loop over events and timers, from the clock's zero to the end of the drain. It must not decide what
//! becomes of an operation, nor touch a socket.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Instant;

use record::clock::Clock;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::agent::Agent;
use super::backlog;
use super::connection::Connection;
use super::events::Events;
use super::field::Found;
use super::pacing::Allowance;
use super::queue::Queue;
use super::running::Control;
use super::script::Script;
use super::sources::Sources;
use super::tally::{Identity, Tally, Totals};
use super::wheel::Wheel;
use crate::answer_budget::Held;
use crate::protocols::Protocol;
use crate::ring::Ring;
use crate::tls::Peers;
use crate::values::feeds::Feed;
use crate::values::{Source, lua, mix};
use crate::{Error, Interval, Purpose};

/// How often a thread looks at its orders, and measures how late it does when nothing else is due.
pub(super) const HEARTBEAT_NS: u64 = 10_000_000;
/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// Makes the values of a preparation differ from those of the load.
const PREPARE_SEED: u64 = 0x7072_6570_6172_6521;

/// Between where and where connections are made.
pub struct Ways {
    /// Of each service.
    pub addresses: Arc<[SocketAddr]>,
    /// Where connections to it come from.
    pub sources: Arc<Sources>,
}

/// A thread's whole state.
pub struct Worker<P: Protocol> {
    pub(super) script: Arc<Script<P>>,
    pub(super) control: Arc<Control>,
    /// Of each service.
    pub(super) addresses: Arc<[SocketAddr]>,
    /// Where connections to it come from.
    pub(super) sources: Arc<Sources>,
    /// Its own number.
    pub(super) thread: u32,
    pub(super) origin: Instant,
    pub(super) epoll: OwnedFd,
    /// What carries bytes, where it is permitted.
    pub(super) ring: Option<Box<Ring>>,
    pub(super) agents: Vec<Agent>,
    pub(super) connections: Vec<Connection<P>>,
    /// Slots of all agents, one agent's after the other's.
    pub(super) slots: Vec<Vec<u8>>,
    /// Feed rows of all agents, likewise.
    pub(super) rows: Vec<u32>,
    /// The next row of each feed.
    pub(super) next_rows: Vec<u32>,
    pub(super) wheel: Wheel,
    pub(super) tally: Tally,
    pub(super) memory: P::Memory,
    /// What is received goes here first.
    pub(super) buffer: Vec<u8>,
    /// What it means goes here, where it was sealed; empty where nothing is.
    pub(super) clear: Vec<u8>,
    /// The services that are spoken to by TLS, if any are.
    pub(super) peers: Option<Peers>,
    /// Requests are written here.
    pub(super) outgoing: Vec<u8>,
    /// Connections that agents share, on which requests have become ready in this turn of the loop.
    pub(super) ready: Vec<usize>,
    pub(super) scratch: Scratch,
    /// Buffers for answers and requests that are cut in pieces.
    pub(super) spare: Vec<Vec<u8>>,
    /// Agents that are not done.
    pub(super) living: usize,
    /// No operation starts from here on.
    pub(super) end_ns: u64,
    /// What is open then is unfinished.
    pub(super) drain_end_ns: u64,
    /// What waits for its agent, where that is bounded.
    pub(super) queue: Option<Queue>,
    /// Whether operations wait for moments, which it is worth to meet.
    pub(super) is_paced: bool,
    /// What may be spent on meeting them.
    pub(super) allowance: Allowance,
    /// Whether everything that was due before the end counts as open.
    has_counted_all: bool,
    /// What ends the load early.
    pub(super) failure: Option<Error>,
    /// Whether requests that had to be sent twice have been reported.
    pub(super) has_told_of_again: bool,
    /// Whether bytes that nobody asked for have been reported.
    pub(super) has_told_of_unasked: bool,
    /// The same of its certificate.
    pub(super) has_told_of_certificate: bool,
    /// What slots hold.
    pub(super) kept_held: Held,
    /// Bytes that long values have taken in slots.
    pub(super) kept_bytes: usize,
    /// Whether a lack of ports or descriptors has been reported.
    pub(super) has_told_of_lack: bool,
    /// Of agents whose protocol runs programs.
    pub(super) attendants: Vec<JoinHandle<()>>,
}

/// Reused memory for values that are compared or kept.
#[derive(Debug, Default)]
pub struct Scratch {
    /// For what is read of an answer.
    pub found: Found,
    /// For a rendered value.
    pub value: Vec<u8>,
}

impl<P: Protocol> Worker<P> {
    /// Thread `number` of a load.
    ///
    /// # Errors
    /// If the system has no epoll instance for it.
    pub fn new(
        script: Arc<Script<P>>,
        control: Arc<Control>,
        ways: Ways,
        number: u32,
        clock: Clock,
        sink: SyncSender<Interval>,
    ) -> Result<Self, Error> {
        let seed = match script.purpose {
            Purpose::Measure => script.seed,
            Purpose::Prepare { .. } => mix(script.seed ^ PREPARE_SEED),
        };
        let connections: Vec<Connection<P>> = script.places.connections_of(number).map(Connection::new).collect();
        let in_turn = (0..u32::try_from(connections.len()).unwrap_or(u32::MAX)).cycle();
        let new_agent = |(agent, connection)| Agent::new(agent, seed, script.place_of(agent), connection);
        let agents: Vec<Agent> = script.places.agents_of(number).zip(in_turn).map(new_agent).collect();
        let queue = backlog::queue(&script, number, script.places.agents_of(number));
        let identity = Identity {
            thread: number,
            threads: script.threads,
            clock,
            slot_ns: script.slot_ns,
            names: Arc::clone(&script.names),
            refusals: P::REFUSALS,
        };
        let mut tally = Tally::new(identity, sink);
        tally.notices.extend((number == 0).then(|| ways.sources.notice()).flatten());
        Ok(Self {
            control,
            addresses: ways.addresses,
            sources: ways.sources,
            thread: number,
            origin: clock.origin(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("cannot create an epoll instance"))?,
            ring: None,
            slots: vec![Vec::new(); agents.len() * script.slots],
            rows: vec![0; agents.len() * script.feeds.len()],
            next_rows: vec![number; script.feeds.len()],
            wheel: Wheel::new(agents.len() * if queue.is_some() { 3 } else { 2 } + 1),
            tally,
            memory: P::Memory::default(),
            buffer: vec![0; BUFFER],
            clear: if script.peers.is_some() { vec![0; BUFFER] } else { Vec::new() },
            peers: script.peers.as_ref().map(Peers::for_a_thread),
            outgoing: Vec::new(),
            ready: Vec::new(),
            scratch: Scratch::default(),
            spare: Vec::new(),
            living: agents.len(),
            end_ns: script.schedule.end_ns(),
            drain_end_ns: script.schedule.end_ns().saturating_add(script.drain_ns),
            queue,
            is_paced: script.schedule.is_fixed(),
            allowance: Allowance::default(),
            has_counted_all: false,
            failure: None,
            has_told_of_again: false,
            has_told_of_unasked: false,
            has_told_of_certificate: false,
            kept_held: Held::default(),
            kept_bytes: 0,
            has_told_of_lack: false,
            attendants: Vec::new(),
            agents,
            connections,
            script,
        })
    }

    /// Plays the load to its end.
    ///
    /// # Errors
    /// What ended it early.
    pub fn run(mut self) -> Result<Totals, Error> {
        // Without it the kernel may wake the thread 50 µs late. A kernel that refuses costs precision only, and that is measured.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.tally.begin_on_this_thread();
        self.open_ring();
        self.wait_for_zero()?;
        self.set_first_timers();
        // Each thread has the same schedule.
        let notice = self.agents.first().filter(|first| first.number == 1).and_then(|_| self.script.schedule.notice());
        self.tally.notices.extend(notice);
        let looped = if self.control.is_aborted() { Ok(()) } else { self.turn() };
        let now = self.now();
        self.leave_unfinished(now);
        lua::close();
        self.tally.finish(now);
        self.dismiss_attendants();
        looped?;
        match self.failure {
            Some(error) => Err(error),
            None if self.tally.is_cut_off => Err(Error::RecorderGone),
            None => Ok(self.tally.totals),
        }
    }

    /// Zero may lie in the future; an abort does not wait for it.
    fn wait_for_zero(&mut self) -> Result<(), Error> {
        while let Some(left) = self.origin.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.control.is_aborted()
        {
            let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).min(HEARTBEAT_NS);
            self.wait(&mut Events::default(), left)?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        let mut events = Events::default();
        loop {
            let now = self.now();
            self.fire_timers();
            self.look_at_script();
            self.send_ready();
            if self.is_over(now) {
                return Ok(());
            }
            self.rest(&mut events)?;
            for event in &events.ready {
                self.handle(event.data.u64(), event.flags);
                if self.ring.is_none() {
                    self.send_ready();
                }
            }
            self.take_arrivals(&mut events);
        }
    }

    /// Nanoseconds since zero; every second that has ended by then is handed over first.
    pub(super) fn now(&mut self) -> u64 {
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if now >= self.tally.boundary_ns() {
            self.roll(now);
        }
        now
    }

    fn roll(&mut self, now: u64) {
        let spent = self.tally.take_spent_per_second(now);
        while now >= self.tally.boundary_ns() {
            self.count_due(self.tally.boundary_ns());
            self.tally.hand_over_second(spent);
        }
    }

    /// Whether no operation may start any more.
    pub(super) fn is_ending(&self, now: u64) -> bool {
        now >= self.end_ns
    }

    /// A script that fails ends the load: what it should have said is not known.
    fn look_at_script(&mut self) {
        if let Some(program) = &self.script.program
            && let Some(reason) = lua::failure()
        {
            self.failure.get_or_insert(Error::Script { script: program.name().to_owned(), reason });
        }
    }

    fn is_over(&mut self, now: u64) -> bool {
        if self.failure.is_some() {
            self.control.abort();
        }
        if self.control.is_stopped() && now < self.end_ns {
            self.end_ns = now;
            self.drain_end_ns = now.saturating_add(self.script.drain_ns);
        }
        if self.is_ending(now) && !std::mem::replace(&mut self.has_counted_all, true) {
            self.count_due(self.end_ns);
        }
        self.control.is_aborted()
            || self.tally.is_cut_off
            || self.living == 0
            || now >= self.drain_end_ns
            || (self.is_ending(now) && self.tally.open_now() == 0)
    }
}

/// What the values of an agent's operation depend on.
pub fn source<'a, P: Protocol>(
    agent: &Agent,
    index: usize,
    script: &'a Script<P>,
    slots: &'a [Vec<u8>],
    rows: &'a [u32],
) -> Source<'a> {
    let feeds: &'a [Feed] = &script.feeds;
    Source {
        agent: u64::from(agent.number),
        seq: agent.cycle,
        draw: agent.draw,
        slots: &slots[index * script.slots..][..script.slots],
        kept: agent.kept,
        feeds,
        rows: &rows[index * feeds.len()..][..feeds.len()],
    }
}
