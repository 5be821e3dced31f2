//! A thread of the engine: its loop over events and timers, from the clock's zero to the end of the
//! drain, and how it waits for what comes next.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Instant;

use record::clock::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::LoadControl;
use super::backlog::{self, Queue};
use super::connection::Connection;
use super::expectation::ExtractedFields;
use super::ids::{AgentId, ConnId};
use super::limits::SourceAddresses;
use super::operation::{Agent, AgentWork};
use super::script::{NS_PER_S, Script};
use super::thread_stats::{ThreadIdentity, ThreadStats, ThreadTotals};
use super::timer_wheel::Wheel;
use crate::answer_budget::BudgetShare;
use crate::protocols::Protocol;
use crate::ring::{Completion, Ring, WakePolicy};
use crate::tls::TlsPeers;
use crate::values::{FeedRows, ValueSource, lua, mix};
use crate::{Error, LoadPurpose, ThreadInterval};

/// How often a thread looks at its orders, and measures how late it does when nothing else is due.
const HEARTBEAT_NS: u64 = 10_000_000;
/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// Makes the values of a preparation differ from those of the load.
const PREPARE_SEED: u64 = 0x7072_6570_6172_6521;

/// Between where and where connections are made.
pub struct ConnectPaths {
    /// Of each service.
    pub addresses: Arc<[SocketAddr]>,
    /// Where connections to it come from.
    pub sources: Arc<SourceAddresses>,
}

/// A thread's whole state.
pub struct Worker<P: Protocol> {
    pub(super) script: Arc<Script<P>>,
    pub(super) control: Arc<LoadControl>,
    /// Of each service.
    pub(super) addresses: Arc<[SocketAddr]>,
    /// Where connections to it come from.
    pub(super) sources: Arc<SourceAddresses>,
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
    pub(super) stats: ThreadStats,
    pub(super) memory: P::Memory,
    /// What is received goes here first.
    pub(super) buffer: Vec<u8>,
    /// What it means goes here, where it was sealed; empty where nothing is.
    pub(super) clear: Vec<u8>,
    /// The services that are spoken to by TLS, if any are.
    pub(super) peers: Option<TlsPeers>,
    /// Requests are written here.
    pub(super) outgoing: Vec<u8>,
    /// Connections that agents share, on which requests have become ready in this turn of the loop.
    pub(super) ready: Vec<ConnId>,
    pub(super) scratch: ValueScratch,
    /// Buffers for answers and requests that are cut in pieces.
    pub(super) spare: Vec<Vec<u8>>,
    /// Agents that are not done.
    pub(super) running_agents: usize,
    /// No operation starts from here on.
    pub(super) end_ns: u64,
    /// What is open then is unfinished.
    pub(super) drain_end_ns: u64,
    /// What waits for its agent, where that is bounded.
    pub(super) queue: Option<Queue>,
    /// Whether operations wait for moments, which it is worth to meet.
    pub(super) is_paced: bool,
    /// What may be spent on meeting them.
    pub(super) spin: SpinBudget,
    /// Whether everything that was due before the end counts as open.
    has_counted_all: bool,
    /// What ends the load early.
    pub(super) failure: Option<Error>,
    /// Whether requests that had to be sent twice have been reported.
    pub(super) has_noticed_resend: bool,
    /// Whether bytes that nobody asked for have been reported.
    pub(super) has_noticed_unsolicited: bool,
    /// The same of its certificate.
    pub(super) has_noticed_certificate: bool,
    /// What slots hold.
    pub(super) kept_held: BudgetShare,
    /// Bytes that long values have taken in slots.
    pub(super) kept_bytes: usize,
    /// Whether a lack of ports or descriptors has been reported.
    pub(super) has_noticed_resources: bool,
    /// Of agents whose protocol runs programs.
    pub(super) program_workers: Vec<JoinHandle<()>>,
}

/// Reused memory for values that are compared or kept.
#[derive(Debug, Default)]
pub struct ValueScratch {
    /// For what is read of an answer.
    pub found: ExtractedFields,
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
        control: Arc<LoadControl>,
        paths: ConnectPaths,
        number: u32,
        clock: Clock,
        sink: SyncSender<ThreadInterval>,
    ) -> Result<Self, Error> {
        let seed = match script.purpose {
            LoadPurpose::Measure => script.seed,
            LoadPurpose::Prepare { .. } => mix(script.seed ^ PREPARE_SEED),
        };
        let connections: Vec<Connection<P>> = script.places.connections_of(number).map(Connection::new).collect();
        let in_turn = (0..connections.len()).map(ConnId::at).cycle();
        let new_agent = |(agent, connection)| Agent::new(agent, seed, script.place_of(agent), connection);
        let agents: Vec<Agent> = script.places.agents_of(number).zip(in_turn).map(new_agent).collect();
        let queue = backlog::queue(&script, number, script.places.agents_of(number));
        let identity = ThreadIdentity {
            thread: number,
            threads: script.threads,
            clock,
            slot_ns: script.slot_ns,
            names: Arc::clone(&script.names),
            refusals: P::REFUSALS,
        };
        let mut stats = ThreadStats::new(identity, sink);
        stats.notices.extend((number == 0).then(|| paths.sources.notice()).flatten());
        Ok(Self {
            control,
            addresses: paths.addresses,
            sources: paths.sources,
            thread: number,
            origin: clock.origin(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(Error::system("cannot create an epoll instance"))?,
            ring: None,
            slots: vec![Vec::new(); agents.len() * script.slots],
            rows: vec![0; agents.len() * script.feeds.len()],
            next_rows: vec![number; script.feeds.len()],
            wheel: Wheel::new(agents.len() * if queue.is_some() { 3 } else { 2 } + 1),
            stats,
            memory: P::Memory::default(),
            buffer: vec![0; BUFFER],
            clear: if script.peers.is_some() { vec![0; BUFFER] } else { Vec::new() },
            peers: script.peers.as_ref().map(TlsPeers::for_a_thread),
            outgoing: Vec::new(),
            ready: Vec::new(),
            scratch: ValueScratch::default(),
            spare: Vec::new(),
            running_agents: agents.len(),
            end_ns: script.schedule.end_ns(),
            drain_end_ns: script.schedule.end_ns().saturating_add(script.drain_ns),
            queue,
            is_paced: script.schedule.is_fixed(),
            spin: SpinBudget::default(),
            has_counted_all: false,
            failure: None,
            has_noticed_resend: false,
            has_noticed_unsolicited: false,
            has_noticed_certificate: false,
            kept_held: BudgetShare::default(),
            kept_bytes: 0,
            has_noticed_resources: false,
            program_workers: Vec::new(),
            agents,
            connections,
            script,
        })
    }

    /// Plays the load to its end.
    ///
    /// # Errors
    /// What ended it early.
    pub fn run(mut self) -> Result<ThreadTotals, Error> {
        // Without it the kernel may wake the thread 50 µs late. A kernel that refuses costs precision only, and that is measured.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.stats.begin_on_this_thread();
        self.open_ring();
        self.wait_for_zero()?;
        self.set_first_timers();
        // Each thread has the same schedule.
        let notice = self.agents.first().filter(|first| first.number == 1).and_then(|_| self.script.schedule.notice());
        self.stats.notices.extend(notice);
        let looped = if self.control.is_aborted() { Ok(()) } else { self.run_loop() };
        let now = self.now();
        self.leave_unfinished(now);
        lua::close();
        self.stats.finish(now);
        self.join_programs();
        looped?;
        match self.failure {
            Some(error) => Err(error),
            None if self.stats.is_cut_off => Err(Error::RecorderGone),
            None => Ok(self.stats.totals),
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

    fn run_loop(&mut self) -> Result<(), Error> {
        let mut events = Events::default();
        loop {
            let now = self.now();
            self.fire_timers();
            self.check_script();
            self.send_ready();
            if self.is_over(now) {
                return Ok(());
            }
            self.wait_for_events(&mut events)?;
            for event in &events.ready {
                self.handle(event.data.u64(), event.flags);
                if self.ring.is_none() {
                    self.send_ready();
                }
            }
            self.handle_completions(&mut events);
        }
    }

    /// Nanoseconds since zero; every second that has ended by then is handed over first.
    pub(super) fn now(&mut self) -> u64 {
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if now >= self.stats.boundary_ns() {
            self.hand_over_seconds(now);
        }
        now
    }

    fn hand_over_seconds(&mut self, now: u64) {
        let spent = self.stats.take_spent_per_second(now);
        while now >= self.stats.boundary_ns() {
            self.count_due(self.stats.boundary_ns());
            self.stats.hand_over_second(spent);
        }
    }

    /// Whether no operation may start any more.
    pub(super) fn is_ending(&self, now: u64) -> bool {
        now >= self.end_ns
    }

    /// A script that fails ends the load: what it should have said is not known.
    fn check_script(&mut self) {
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
            || self.stats.is_cut_off
            || self.running_agents == 0
            || now >= self.drain_end_ns
            || (self.is_ending(now) && self.stats.open_now() == 0)
    }
}

/// What the values of an agent's operation depend on.
pub fn source<'a, P: Protocol>(
    agent: &Agent,
    id: AgentId,
    script: &'a Script<P>,
    slots: &'a [Vec<u8>],
    rows: &'a [u32],
) -> ValueSource<'a> {
    let feeds: &'a [FeedRows] = &script.feeds;
    ValueSource {
        agent: u64::from(agent.number),
        seq: agent.cycle,
        draw: agent.draw,
        slots: &slots[id.index() * script.slots..][..script.slots],
        kept: agent.kept,
        feeds,
        rows: &rows[id.index() * feeds.len()..][..feeds.len()],
    }
}

/// Most events or timers that are handled before the other kind gets its turn.
pub const BATCH: usize = 256;

/// What has happened.
pub struct Events {
    /// Sockets that can be read or written.
    pub ready: Vec<epoll::Event>,
    /// What the ring has done.
    pub arrivals: Vec<Completion>,
}

impl Default for Events {
    fn default() -> Self {
        Self { ready: Vec::with_capacity(BATCH), arrivals: Vec::with_capacity(BATCH) }
    }
}

impl Events {
    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.arrivals.is_empty()
    }
}

impl<P: Protocol> Worker<P> {
    /// Waits for events, at most so long. With a ring, what was made ready before goes out first.
    pub(super) fn wait(&mut self, events: &mut Events, left_ns: u64) -> Result<(), Error> {
        events.ready.clear();
        events.arrivals.clear();
        let gathering = self.gathering();
        let Some(ring) = &mut self.ring else { return self.ask_epoll(events, left_ns) };
        let left_ns = if ring.is_watched_ready() { 0 } else { left_ns };
        let waited = ring.wait(left_ns, gathering, &mut events.arrivals);
        waited.map_err(|source| Error::System { doing: "cannot wait for events", source })?;
        if ring.is_watched_ready() {
            self.ask_epoll(events, 0)?;
            // As long as there may be more it is asked again.
            if events.ready.len() < BATCH
                && let Some(ring) = &mut self.ring
            {
                ring.watched_was_emptied();
            }
        }
        Ok(())
    }

    fn ask_epoll(&self, events: &mut Events, left_ns: u64) -> Result<(), Error> {
        let timeout =
            Timespec { tv_sec: (left_ns / NS_PER_S).cast_signed(), tv_nsec: (left_ns % NS_PER_S).cast_signed() };
        match epoll::wait(&self.epoll, spare_capacity(&mut events.ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("cannot wait for events")(errno)),
        }
    }
}

// A thread that sleeps until a deadline wakes some 5 to 50 µs after it. So it sleeps until a little before, and spends the rest
// looking at its sockets without sleeping: an answer that comes meanwhile is taken at once. That costs CPU for each start. The
// rule: of all time at most a twentieth is spent so, and what was not spent is saved up for 20 starts at most. Up to 1,600 starts per
// second and thread each gets its 30 µs; beyond, a part of them, and the more starts there are the less there is to wait. A closed loop
// has no starts to wait for, and none of this.
//
// In a closed loop it is the other way round: to be woken for every answer costs more than to receive it. So, where many answers are
// awaited, a thread that has nothing else to do sleeps until some have come, at most a quarter of a microsecond for each awaited one.
// Where the target is what limits the load this changes no mean latency, for in a closed loop that is the agents by the throughput
// (Little's law). Elsewhere an answer is taken late by at most a quarter of a microsecond times the throughput of its latency: at
// 20,000/s by 0.5 %.

/// So much before a deadline a sleep ends.
const EARLY_NS: u64 = 30_000;
/// One nanosecond in so many may be spent looking.
const ONE_IN: u64 = 20;
/// What may be saved up.
const SAVED_MOST_NS: u64 = 20 * EARLY_NS;

/// One answer of so many that are awaited is gathered, and a microsecond spent on it for so many.
const GATHERED_ONE_IN: usize = 4;
/// Most answers that are gathered, …
const GATHERED_MOST: usize = 32;
/// … and most microseconds.
const GATHERED_MOST_US: usize = 50;

/// What a thread may still spend without sleeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpinBudget {
    /// Times [`ONE_IN`], so that no nanosecond is lost to rounding.
    saved: u64,
    /// Until when it has been counted.
    until_ns: u64,
}

impl SpinBudget {
    /// Whether there is enough by now to wait for a deadline.
    fn is_enough(&mut self, now_ns: u64) -> bool {
        let grown = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.saved = self.saved.saturating_add(grown).min(SAVED_MOST_NS * ONE_IN);
        self.saved >= EARLY_NS * ONE_IN
    }

    /// So much was spent.
    fn spend(&mut self, spent_ns: u64) {
        self.saved = self.saved.saturating_sub(spent_ns.saturating_mul(ONE_IN));
    }
}

/// What is gathered where so many operations are open on so many connections.
fn gathering(open: i64, connections: usize) -> WakePolicy {
    // Those on one connection are often answered at once.
    let awaited = usize::try_from(open).unwrap_or(0).min(connections);
    let part = awaited / GATHERED_ONE_IN;
    // At most 50: it fits.
    WakePolicy { arrivals: part.clamp(1, GATHERED_MOST), within_us: part.min(GATHERED_MOST_US) as u32 }
}

impl<P: Protocol> Worker<P> {
    /// What is gathered now.
    pub(super) fn gathering(&self) -> WakePolicy {
        if self.is_paced { WakePolicy::NONE } else { gathering(self.stats.open_now(), self.connections.len()) }
    }

    /// Waits for events, at most until the next timer or the end of the second.
    pub(super) fn wait_for_events(&mut self, events: &mut Events) -> Result<(), Error> {
        let soonest = self.wheel.soonest_ns();
        let next = soonest.min(self.stats.boundary_ns()).min(self.drain_end_ns);
        let now = self.now();
        let left = next.saturating_sub(now);
        // Only for a deadline: the wheel may merely say that there is none before.
        let is_deadline = next == soonest && self.wheel.is_exact();
        if !self.is_paced || left == 0 || !is_deadline || !self.spin.is_enough(now) {
            return self.wait(events, left);
        }
        if left > EARLY_NS {
            self.wait(events, left - EARLY_NS)?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.spin_until(next, events)
    }

    /// Looks for events without sleeping until some have come, or until that moment.
    fn spin_until(&mut self, deadline_ns: u64, events: &mut Events) -> Result<(), Error> {
        let begun = self.now();
        let mut now = begun;
        while events.is_empty() && now < deadline_ns {
            self.wait(events, 0)?;
            now = self.now();
        }
        self.spin.spend(now - begun);
        Ok(())
    }
}

/// After a stall, time to take the answers that came in it before they are given up.
const REPRIEVE_NS: u64 = 1_000_000;

/// What a timer is for; its number follows from it and from the agent.
enum TimerKind {
    Wake(AgentId),
    Timeout(AgentId),
    Heartbeat,
    /// The agent's next operation is due; only where what waits is bounded.
    Arrival(AgentId),
}

impl<P: Protocol> Worker<P> {
    /// Every agent's first operation, and the heartbeat.
    fn set_first_timers(&mut self) {
        for id in (0..self.agents.len()).map(AgentId::at) {
            let first = self.script.schedule.first_ns(self.agents[id].number - 1);
            self.agents[id].intended_ns = first;
            let timer = if self.queue.is_some() { TimerKind::Arrival(id) } else { TimerKind::Wake(id) };
            self.set_timer(&timer, first);
        }
        self.set_timer(&TimerKind::Heartbeat, HEARTBEAT_NS);
    }

    fn fire_timers(&mut self) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some((number, due)) = self.wheel.pop(now) else { return };
            match self.timer(number) {
                TimerKind::Heartbeat => {
                    self.stats.late(now - due);
                    self.set_timer(&TimerKind::Heartbeat, (due + HEARTBEAT_NS).max(now));
                }
                TimerKind::Wake(id) => {
                    self.stats.late(now - due);
                    self.count_late(id, due, now);
                    self.woken(id, due, now);
                }
                TimerKind::Timeout(id) => self.timed_out(id, now),
                TimerKind::Arrival(id) => self.arrived(id, now),
            }
        }
    }

    fn woken(&mut self, id: AgentId, due: u64, now: u64) {
        match self.agents[id].work {
            AgentWork::Unborn => {
                if !self.is_ending(now) {
                    self.stats.agents += 1;
                }
                self.begin(id, due, now);
            }
            AgentWork::Pause => self.begin(id, due, now),
            AgentWork::RetryPause => self.attempt(id, now),
            AgentWork::Attempt | AgentWork::Done => {}
        }
    }

    /// An agent's timeout is not moved with each operation: it fires early and is set again.
    fn timed_out(&mut self, id: AgentId, now: u64) {
        let agent = &mut self.agents[id];
        agent.is_timer_set = false;
        if agent.work != AgentWork::Attempt {
            return;
        }
        if agent.deadline_ns.saturating_add(HEARTBEAT_NS) < now && !agent.has_reprieve {
            // The thread stood still at the deadline. The answer may be waiting in the socket, so there is one more look at it: or
            // else it is the generator that is measured. One: a target may send so much that the thread is always late.
            agent.has_reprieve = true;
            agent.deadline_ns = now;
            agent.is_timer_set = true;
            self.set_timer(&TimerKind::Timeout(id), now + REPRIEVE_NS);
        } else if agent.deadline_ns <= now {
            self.attempt_timed_out(id, now);
        } else {
            let deadline = agent.deadline_ns;
            agent.is_timer_set = true;
            self.set_timer(&TimerKind::Timeout(id), deadline);
        }
    }

    /// The agent is woken at that moment.
    pub(super) fn wake_at(&mut self, id: AgentId, due: u64) {
        self.set_timer(&TimerKind::Wake(id), due);
    }

    /// The agent's next operation is due at that moment.
    pub(super) fn expect_arrival(&mut self, id: AgentId, due: u64) {
        self.set_timer(&TimerKind::Arrival(id), due);
    }

    /// The agent's attempt times out at its deadline.
    pub(super) fn arm_timeout(&mut self, id: AgentId) {
        let agent = &mut self.agents[id];
        if !agent.is_timer_set {
            agent.is_timer_set = true;
            let deadline = agent.deadline_ns;
            self.set_timer(&TimerKind::Timeout(id), deadline);
        }
    }

    fn set_timer(&mut self, timer: &TimerKind, due: u64) {
        let number = match timer {
            TimerKind::Wake(id) => id.index() * 2,
            TimerKind::Timeout(id) => id.index() * 2 + 1,
            TimerKind::Heartbeat => self.agents.len() * 2,
            TimerKind::Arrival(id) => self.agents.len() * 2 + 1 + id.index(),
        };
        self.wheel.set(u32::try_from(number).unwrap_or(u32::MAX), due);
    }

    fn timer(&self, number: u32) -> TimerKind {
        let number = number as usize;
        if let Some(id) = number.checked_sub(self.agents.len() * 2 + 1) {
            return TimerKind::Arrival(AgentId::at(id));
        }
        match (number / 2, number % 2) {
            (index, _) if index == self.agents.len() => TimerKind::Heartbeat,
            (index, 0) => TimerKind::Wake(AgentId::at(index)),
            (index, _) => TimerKind::Timeout(AgentId::at(index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends all it may in a time with starts so far apart; how much that was.
    fn spent_ns(length_ns: u64, gap_ns: u64) -> u64 {
        let (mut spin, mut spent_ns) = (SpinBudget::default(), 0);
        for now_ns in (0..length_ns).step_by(usize::try_from(gap_ns).unwrap()) {
            if spin.is_enough(now_ns) {
                spin.spend(EARLY_NS.min(gap_ns));
                spent_ns += EARLY_NS.min(gap_ns);
            }
        }
        spent_ns
    }

    #[test]
    fn no_more_than_a_twentieth_is_spent() {
        for gap_ns in [1_000, 20_000, 50_000, 100_000, 333_333, 625_000, 1_000_000, 40_000_000] {
            let second_ns = 1_000_000_000;
            let spent_ns = spent_ns(second_ns, gap_ns);
            assert!(spent_ns <= second_ns / ONE_IN, "{spent_ns} ns at a start every {gap_ns} ns");
            // What may be spent is spent, where there is enough to wait for.
            let wanted_ns = second_ns / gap_ns * EARLY_NS.min(gap_ns);
            assert!(spent_ns * 10 >= wanted_ns.min(second_ns / ONE_IN) * 9, "{spent_ns} of {wanted_ns}");
        }
    }

    #[test]
    fn the_fewer_are_awaited_the_less_is_gathered() {
        let gathered = |open, connections| {
            let WakePolicy { arrivals, within_us } = gathering(open, connections);
            (arrivals, within_us)
        };
        assert_eq!(gathered(0, 64), (1, 0));
        assert_eq!(gathered(7, 64), (1, 1));
        assert_eq!(gathered(64, 64), (16, 16));
        assert_eq!(gathered(1000, 1000), (32, 50));
        // Many on few connections are answered by few arrivals.
        assert_eq!(gathered(256, 4), (1, 1));
    }

    #[test]
    fn up_to_1600_starts_a_second_each_is_waited_for() {
        let mut spin = SpinBudget::default();
        for start in 1..=1600_u64 {
            assert!(spin.is_enough(start * 625_000), "start {start}");
            spin.spend(EARLY_NS);
        }
    }

    #[test]
    fn an_idle_hour_is_not_saved_up() {
        let mut spin = SpinBudget::default();
        let hour_ns = 3_600_000_000_000;
        assert!(spin.is_enough(hour_ns));
        for _ in 0..20 {
            assert!(spin.is_enough(hour_ns));
            spin.spend(EARLY_NS);
        }
        assert!(!spin.is_enough(hour_ns));
        // A clock that seems to stand or go back gives nothing.
        assert!(!spin.is_enough(hour_ns - 5));
    }
}
