//! A thread of the engine: its loop over events and timers, from the clock's zero to the end of the drain. It must not decide what
//! becomes of an operation, nor touch a socket.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use record::clock::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::agent::{Agent, Work};
use super::running::Control;
use super::script::{NS_PER_S, Script};
use super::tally::{Identity, Tally, Totals};
use super::wheel::Wheel;
use crate::protocols::Protocol;
use crate::values::feeds::Feed;
use crate::values::{Source, mix};
use crate::{Error, Interval, Purpose};

/// How often a thread looks at its orders, and measures how late it does when nothing else is due.
const HEARTBEAT_NS: u64 = 10_000_000;
/// After a stall, time to take the answers that came in it before they are given up.
const LOOK_NS: u64 = 1_000_000;
/// Most events or timers that are handled before the other kind gets its turn.
const BATCH: usize = 256;
/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// Makes the values of a preparation differ from those of the load.
const PREPARE_SEED: u64 = 0x7072_6570_6172_6521;

/// A thread's whole state.
pub struct Worker<P: Protocol> {
    pub(super) script: Arc<Script<P>>,
    pub(super) control: Arc<Control>,
    /// Of each service.
    pub(super) addresses: Arc<[SocketAddr]>,
    pub(super) origin: Instant,
    pub(super) epoll: OwnedFd,
    pub(super) agents: Vec<Agent<P>>,
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
    /// Requests are written here.
    pub(super) outgoing: Vec<u8>,
    pub(super) scratch: Scratch,
    /// Buffers for answers and requests that are cut in pieces.
    pub(super) spare: Vec<Vec<u8>>,
    /// Agents that are not done.
    pub(super) living: usize,
    /// No operation starts from here on.
    pub(super) end_ns: u64,
    /// What is open then is unfinished.
    drain_end_ns: u64,
    /// Whether everything that was due before the end counts as open.
    has_counted_all: bool,
    /// What ends the load early.
    pub(super) failure: Option<Error>,
    /// Whether bytes that nobody asked for have been reported.
    pub(super) has_told_of_unasked: bool,
    /// Whether a lack of ports or descriptors has been reported.
    pub(super) has_told_of_lack: bool,
}

/// Reused memory for values that are compared or kept.
#[derive(Debug, Default)]
pub struct Scratch {
    /// For a field of an answer.
    pub field: Vec<u8>,
    /// For a rendered value.
    pub value: Vec<u8>,
}

/// What a timer is for; its number follows from it and from the agent.
enum Timer {
    Wake(usize),
    Timeout(usize),
    Heartbeat,
}

impl<P: Protocol> Worker<P> {
    /// Thread `number` of a load.
    ///
    /// # Errors
    /// If the system has no epoll instance for it.
    pub fn new(
        script: Arc<Script<P>>,
        control: Arc<Control>,
        addresses: Arc<[SocketAddr]>,
        number: u32,
        clock: Clock,
        sink: SyncSender<Interval>,
    ) -> Result<Self, Error> {
        let seed = match script.purpose {
            Purpose::Measure => script.seed,
            Purpose::Prepare { .. } => mix(script.seed ^ PREPARE_SEED),
        };
        let numbers = (1 + number..=script.agents).step_by(script.threads as usize);
        let agents: Vec<Agent<P>> = numbers.map(|number| Agent::new(number, seed, script.place_of(number))).collect();
        let identity = Identity {
            thread: number,
            threads: script.threads,
            clock,
            slot_ns: script.slot_ns,
            names: Arc::clone(&script.names),
            refusals: P::REFUSALS,
        };
        Ok(Self {
            control,
            addresses,
            origin: clock.origin(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("cannot create an epoll instance"))?,
            slots: vec![Vec::new(); agents.len() * script.slots],
            rows: vec![0; agents.len() * script.feeds.len()],
            next_rows: vec![number; script.feeds.len()],
            wheel: Wheel::new(agents.len() * 2 + 1),
            tally: Tally::new(identity, sink),
            memory: P::Memory::default(),
            buffer: vec![0; BUFFER],
            outgoing: Vec::new(),
            scratch: Scratch::default(),
            spare: Vec::new(),
            living: agents.len(),
            end_ns: script.schedule.end_ns(),
            drain_end_ns: script.schedule.end_ns().saturating_add(script.drain_ns),
            has_counted_all: false,
            failure: None,
            has_told_of_unasked: false,
            has_told_of_lack: false,
            agents,
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
        self.wait_for_zero()?;
        for index in 0..self.agents.len() {
            let first = self.script.schedule.first_ns(self.agents[index].number - 1);
            self.agents[index].intended_ns = first;
            self.set_timer(&Timer::Wake(index), first);
        }
        self.set_timer(&Timer::Heartbeat, HEARTBEAT_NS);
        let looped = if self.control.is_aborted() { Ok(()) } else { self.turn() };
        let now = self.now();
        self.leave_unfinished(now);
        self.tally.finish(now);
        looped?;
        match self.failure {
            Some(error) => Err(error),
            None if self.tally.is_cut_off => Err(Error::RecorderGone),
            None => Ok(self.tally.totals),
        }
    }

    /// Zero may lie in the future; an abort does not wait for it.
    fn wait_for_zero(&self) -> Result<(), Error> {
        while let Some(left) = self.origin.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.control.is_aborted()
        {
            let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).min(HEARTBEAT_NS);
            self.wait(&mut Vec::with_capacity(1), left)?;
        }
        Ok(())
    }

    /// Waits for events, at most so long.
    fn wait(&self, events: &mut Vec<epoll::Event>, left_ns: u64) -> Result<(), Error> {
        let timeout =
            Timespec { tv_sec: (left_ns / NS_PER_S).cast_signed(), tv_nsec: (left_ns % NS_PER_S).cast_signed() };
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("cannot wait for events")(errno)),
        }
    }

    fn turn(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            let now = self.now();
            self.fire_timers();
            if self.is_over(now) {
                return Ok(());
            }
            let next = self.wheel.soonest_ns().min(self.tally.boundary_ns()).min(self.drain_end_ns);
            let left = next.saturating_sub(self.now());
            self.wait(&mut events, left)?;
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
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
            || (self.is_ending(now) && self.tally.open() == 0)
    }

    fn fire_timers(&mut self) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some((number, due)) = self.wheel.pop(now) else { return };
            match self.timer(number) {
                Timer::Heartbeat => {
                    self.tally.late(now - due);
                    self.set_timer(&Timer::Heartbeat, (due + HEARTBEAT_NS).max(now));
                }
                Timer::Wake(index) => {
                    self.tally.late(now - due);
                    self.count_late(index, due, now);
                    self.woken(index, due, now);
                }
                Timer::Timeout(index) => self.timed_out(index, now),
            }
        }
    }

    fn woken(&mut self, index: usize, due: u64, now: u64) {
        match self.agents[index].work {
            Work::Unborn => {
                if !self.is_ending(now) {
                    self.tally.agents += 1;
                }
                self.begin(index, due, now);
            }
            Work::Pause => self.begin(index, due, now),
            Work::RetryPause => self.attempt(index, now),
            Work::Attempt | Work::Done => {}
        }
    }

    /// An agent's timeout is not moved with each operation: it fires early and is set again.
    fn timed_out(&mut self, index: usize, now: u64) {
        let agent = &mut self.agents[index];
        agent.is_timer_set = false;
        if agent.work != Work::Attempt {
            return;
        }
        if agent.deadline_ns.saturating_add(HEARTBEAT_NS) < now {
            // The thread stood still at the deadline. The answer may be waiting in the socket, so there is one more look at it: or
            // else it is the generator that is measured.
            agent.deadline_ns = now;
            agent.is_timer_set = true;
            self.set_timer(&Timer::Timeout(index), now + LOOK_NS);
        } else if agent.deadline_ns <= now {
            self.give_up(index, now);
        } else {
            let deadline = agent.deadline_ns;
            agent.is_timer_set = true;
            self.set_timer(&Timer::Timeout(index), deadline);
        }
    }

    /// The agent is woken at that moment.
    pub(super) fn wake_at(&mut self, index: usize, due: u64) {
        self.set_timer(&Timer::Wake(index), due);
    }

    /// The agent's attempt times out at its deadline.
    pub(super) fn arm_timeout(&mut self, index: usize) {
        let agent = &mut self.agents[index];
        if !agent.is_timer_set {
            agent.is_timer_set = true;
            let deadline = agent.deadline_ns;
            self.set_timer(&Timer::Timeout(index), deadline);
        }
    }

    fn set_timer(&mut self, timer: &Timer, due: u64) {
        let number = match timer {
            Timer::Wake(index) => index * 2,
            Timer::Timeout(index) => index * 2 + 1,
            Timer::Heartbeat => self.agents.len() * 2,
        };
        self.wheel.set(u32::try_from(number).unwrap_or(u32::MAX), due);
    }

    fn timer(&self, number: u32) -> Timer {
        let number = number as usize;
        match (number / 2, number % 2) {
            (index, _) if index == self.agents.len() => Timer::Heartbeat,
            (index, 0) => Timer::Wake(index),
            (index, _) => Timer::Timeout(index),
        }
    }
}

/// What the values of an agent's operation depend on.
pub fn source<'a, P: Protocol>(
    agent: &Agent<P>,
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
