//! A thread of the engine: its loop over events and timers from the clock's zero to the end of the
//! drain, its waiting, and the exchange of bytes and answers between connections and agents.

mod notices;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use record::clock::Clock;
use transport::conn_id::ConnId;
use transport::connections::{
    AT_ONCE, BATCH, ConnEvent, ConnectPaths, ConnectionSet, EventSource, LoadClock, ReadBuffers, Reported, SendPath,
};
use transport::ring::WakePolicy;
use transport::tls::NO_PROTOCOL;
use wire::cause::AttemptCause;
use wire::excerpt;
use wire::protocols::ShownAnswer;
use wire::session::{Answer, Opening, SessionEvent, SessionProtocol};
use wire::values::lua;

use super::agents::{AgentEffect, Agents, EventTime, HEARTBEAT_NS, NextConnect};
use super::control::LoadControl;
use super::ids::AgentId;
use super::pacing::{EARLY_NS, SpinBudget, gathering};
use super::pipelines::{Pipeline, Pipelines};
use super::script::Script;
use super::thread_stats::{ThreadIdentity, ThreadStats, ThreadTotals};
use crate::{Error, ThreadInterval};

/// Limit on the bytes that the protocol sends by itself while the target reads none, so that a
/// target cannot make them fill memory.
const CONTROL_BYTES: u32 = 1024 * 1024;

/// State of a thread.
pub struct Worker<P: SessionProtocol> {
    script: Arc<Script<P>>,
    control: Arc<LoadControl>,
    clock: LoadClock,
    /// Sockets of the connections.
    connections: ConnectionSet,
    /// Agents that wait for answers on the connections.
    pipelines: Pipelines<P>,
    /// Agents with their requests and the evaluation of answers.
    agents: Agents<P>,
    stats: ThreadStats,
    /// Budget for spinning before deadlines.
    spin: SpinBudget,
    /// End of the drain. Operations that are still open then are unfinished.
    drain_end_ns: u64,
    /// Whether all operations due before the end are counted as open.
    has_counted_all: bool,
    /// Whether this is the first thread of this process.
    is_first_here: bool,
    /// Notices given so far.
    noticed: Noticed,
}

/// Notices that a thread gives at most once.
#[derive(Debug, Default)]
struct Noticed {
    /// Requests were sent twice.
    resend: bool,
    /// The target sent unsolicited bytes.
    unsolicited: bool,
    /// A certificate was refused.
    certificate: bool,
    /// Local ports or file descriptors ran out.
    resources: bool,
    /// A greeting or a proxy refused a connection with a text.
    refusal: bool,
    /// A peer selected no protocol and closed the connection.
    protocol: bool,
}

impl<P: SessionProtocol> Worker<P> {
    /// Creates thread `number` of a load.
    ///
    /// # Errors
    /// If the system provides no epoll instance.
    pub fn new(
        script: Arc<Script<P>>,
        control: Arc<LoadControl>,
        paths: ConnectPaths,
        number: u32,
        clock: Clock,
        sink: SyncSender<ThreadInterval>,
    ) -> Result<Self, Error> {
        let identity = ThreadIdentity {
            thread: number,
            threads: script.threads,
            clock,
            slot_ns: script.slot_ns,
            services: script.places.services + u32::from(script.has_sites),
            names: Arc::clone(&script.names),
            has_expectations: script.has_expectations(),
            refusals: P::REFUSALS,
            has_pushes: P::HAS_PUSHES,
        };
        let mut stats = ThreadStats::new(identity, sink);
        stats.notices.extend((number == script.mine.start).then(|| paths.sources.notice()).flatten());
        if script.streams().next().is_some() {
            let readers = script.streams().filter(|_| number == 0);
            stats.watch_feeds(readers.map(Arc::clone).collect());
        }
        let mut agents = Agents::new(&script, &control, number);
        agents.set_zero(clock.unix_s());
        let clock = LoadClock { origin: clock.origin() };
        let connections = ConnectionSet::new(script.connection_settings(number), paths, clock)?;
        Ok(Self {
            clock,
            // Lanes do not share connections: only one of those on a connection is at work.
            pipelines: Pipelines::new(connections.count(), agents.ids().count()),
            agents,
            stats,
            spin: SpinBudget::default(),
            drain_end_ns: script.end_ns.saturating_add(script.drain_ns),
            has_counted_all: false,
            is_first_here: number == script.mine.start,
            noticed: Noticed::default(),
            connections,
            control,
            script,
        })
    }

    /// Runs the load to its end.
    ///
    /// # Errors
    /// The error that ended the load early.
    pub fn run(mut self) -> Result<ThreadTotals, Error> {
        // With the default slack the kernel may wake the thread 50 µs late. If the kernel refuses,
        // only precision is lost, and lateness is measured.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.stats.begin_on_this_thread();
        self.open_ring();
        self.wait_for_zero()?;
        self.agents.set_first_timers();
        // All threads have the same schedules, so one of them gives the notices.
        let groups = self.script.groups.iter().filter(|_| self.agents.has_first());
        self.stats.notices.extend(groups.filter_map(|group| group.schedule.notice()));
        let looped = if self.control.is_aborted() { Ok(()) } else { self.run_loop() };
        let now_ns = self.now();
        self.agents.leave_unfinished(now_ns, &mut self.stats);
        self.stats.agent_cycles = self.agents.cycles();
        lua::close();
        self.stats.finish(now_ns);
        for index in 0..self.connections.count() {
            self.leave(ConnId::at(index));
        }
        self.connections.join_programs();
        looped?;
        match self.agents.take_failure().or(self.connections.failure.map(Error::from)) {
            Some(error) => Err(error),
            None if self.stats.is_cut_off => Err(Error::RecorderGone),
            None => Ok(self.stats.totals),
        }
    }

    /// Opens a ring if the load can use it. On a ring, a new connection costs more than the ring
    /// saves. TLS connections are read by system calls. A protocol that sends bytes by itself sends
    /// more than once per turn of the event loop.
    fn open_ring(&mut self) {
        let is_plain = !P::RUNS_PROGRAMS && !P::SPEAKS_UNASKED && self.script.peers.is_none();
        if !self.script.may_ring || !is_plain || !self.script.keep_alive {
            return;
        }
        if let Err(error) = self.connections.open_ring()
            && self.is_first_here
        {
            self.stats.notices.push(format!(
                "io_uring is not available ({error}), so every request needs its own system calls: the generator \
                 uses up to a sixth more CPU"
            ));
        }
    }

    /// Waits for the clock's zero, which may be in the future. An abort ends the wait.
    fn wait_for_zero(&mut self) -> Result<(), Error> {
        while let Some(left) = self.clock.origin.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.control.is_aborted()
        {
            let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).min(HEARTBEAT_NS);
            self.connections.wait(&mut Reported::default(), left_ns, WakePolicy::NONE)?;
        }
        Ok(())
    }

    fn run_loop(&mut self) -> Result<(), Error> {
        let mut reported = Reported::default();
        let mut buffers = self.connections.buffers();
        loop {
            let now_ns = self.now();
            self.fire_timers();
            self.check_script();
            self.send_ready(&mut buffers);
            if self.is_over(now_ns) {
                return Ok(());
            }
            self.wait_for_events(&mut reported)?;
            while let Some(mut source) = reported.next_ready() {
                self.handle_source(&mut source, &mut buffers);
                if !self.connections.has_ring() {
                    self.send_ready(&mut buffers);
                }
            }
            self.handle_completions(&mut reported, &mut buffers);
        }
    }

    /// Returns the nanoseconds since the clock's zero. First hands every ended second to the
    /// recorder.
    #[inline]
    fn now(&mut self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.hand_over_until(now_ns);
        now_ns
    }

    #[inline]
    fn hand_over_until(&mut self, now_ns: u64) {
        if now_ns >= self.stats.boundary_ns() {
            self.hand_over_seconds(now_ns);
        }
    }

    #[cold]
    fn hand_over_seconds(&mut self, now_ns: u64) {
        let spent = self.stats.take_spent_per_second(now_ns);
        self.stats.open_since_ns = self.script.stops_at_violation.then(|| self.agents.open_since_ns(now_ns));
        while now_ns >= self.stats.boundary_ns() {
            self.agents.count_due(self.stats.boundary_ns(), &mut self.stats);
            self.stats.hand_over_second(spent);
        }
    }

    /// Ends the load if a script has failed, because the script's value is unknown.
    fn check_script(&mut self) {
        if let Some(program) = &self.script.program
            && let Some(reason) = lua::failure()
        {
            self.agents
                .failure
                .get_or_insert(wire::error::Error::Script { script: program.name().to_owned(), reason }.into());
        }
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        if self.agents.has_failed() || self.connections.failure.is_some() {
            self.control.abort();
        }
        if self.control.is_stopped() && now_ns < self.agents.starts.end_ns {
            self.agents.starts.end_ns = now_ns;
            self.drain_end_ns = now_ns.saturating_add(self.script.drain_ns);
        }
        let is_ending = now_ns >= self.agents.starts.end_ns;
        if is_ending && !std::mem::replace(&mut self.has_counted_all, true) {
            self.agents.count_due(self.agents.starts.end_ns, &mut self.stats);
            self.agents.end_pauses(now_ns);
        }
        self.control.is_aborted()
            || self.stats.is_cut_off
            || self.agents.are_done()
            || now_ns >= self.drain_end_ns
            || (is_ending && self.stats.open_now() == 0)
    }

    fn fire_timers(&mut self) {
        for _ in 0..BATCH {
            let now_ns = self.now();
            let Some((timer, due_ns)) = self.agents.timers.take(now_ns) else { return };
            let at = match timer.agent() {
                Some(id) => self.at(self.agents.all()[id].connection, now_ns),
                None => EventTime { now_ns, connect_after_ns: 0 },
            };
            let effect = self.agents.timer_fired(timer, due_ns, at, &mut self.stats);
            self.perform(effect, now_ns);
        }
    }

    /// Returns the time of an event for an agent of the connection.
    #[inline]
    fn at(&self, conn: ConnId, now_ns: u64) -> EventTime {
        EventTime { now_ns, connect_after_ns: self.connections.connect_after_ns(conn) }
    }

    #[inline]
    fn perform(&mut self, effect: AgentEffect, now_ns: u64) {
        match effect {
            AgentEffect::Wait => {}
            AgentEffect::Send(id) => self.send(id, now_ns),
            AgentEffect::TimeOut(id) => self.attempt_timed_out(id, now_ns),
            AgentEffect::Disconnect(conn) => self.disconnect(conn, now_ns),
        }
    }
}

// Sending, from agents to connections.

impl<P: SessionProtocol> Worker<P> {
    /// Sends the agent's request on its connection. Opens the connection first if it is down.
    fn send(&mut self, id: AgentId, now_ns: u64) {
        let conn = self.agents.all()[id].connection;
        let is_first = self.pipelines[conn].waiting.join(self.agents.all_mut(), id);
        match self.connections.send_path(conn) {
            SendPath::WithOthers => {
                if is_first {
                    self.pipelines.ready.push(conn);
                }
            }
            SendPath::Now => {
                if let Err(cause) = self.write_requests(conn, now_ns) {
                    self.connection_lost(conn, cause, now_ns);
                }
            }
            SendPath::WhenOpen => {}
            SendPath::Down => self.connect(conn, now_ns),
        }
    }

    /// Sends the requests that became ready in this turn of the loop, with one write for each
    /// connection. With a ring, all but the last batch are submitted here; the call that waits for
    /// events submits the last.
    #[inline]
    fn send_ready(&mut self, buffers: &mut ReadBuffers) {
        if self.pipelines.ready.is_empty() {
            return;
        }
        let at_once = if self.connections.has_ring() { AT_ONCE } else { 1 };
        let mut place = 0;
        while place < self.pipelines.ready.len() {
            if place > 0 {
                self.connections.submit();
            }
            let now_ns = self.now();
            let until = self.pipelines.ready.len().min(place + at_once);
            for conn in place..until {
                let conn = self.pipelines.ready[conn];
                if let Err(cause) = self.write_requests(conn, now_ns)
                    && let Some(mut source) = self.connections.broke_in_writing(conn, cause, now_ns)
                {
                    self.handle_source(&mut source, buffers);
                }
            }
            place = until;
        }
        self.pipelines.ready.clear();
    }

    /// Sends the requests that wait on the connection.
    #[inline]
    fn write_requests(&mut self, conn: ConnId, now_ns: u64) -> Result<(), AttemptCause> {
        if !self.connections.is_up(conn) || self.pipelines[conn].waiting.unsent() == AgentId::NONE {
            return Ok(());
        }
        if let Some(first) = self.pipelines.encode_unsent(conn, &mut self.agents, now_ns) {
            // The time that a script takes is not service time.
            self.agents.stamp_anew(first, self.pipelines[conn].waiting.unsent(), self.clock.now_ns());
        }
        if !self.pipelines.refused.is_empty() {
            self.fail_refused(conn, now_ns);
        }
        if self.pipelines.outgoing.is_empty() {
            return Ok(());
        }
        self.connections.send(conn, &self.pipelines.outgoing)
    }

    /// Fails the operations whose requests could not be encoded. Their agents send nothing before a
    /// timer wakes them.
    #[cold]
    fn fail_refused(&mut self, conn: ConnId, now_ns: u64) {
        let at = self.at(conn, now_ns);
        while let Some((id, refusal)) = self.pipelines.refused.pop() {
            let effect = self.agents.not_sent(id, refusal, at, &mut self.stats);
            self.perform(effect, now_ns);
        }
    }

    fn connect(&mut self, conn: ConnId, now_ns: u64) {
        let may = self.agents.routes.may_connect(conn, now_ns);
        let begun = if may { self.connections.connect(conn) } else { Err(AttemptCause::NotConnected) };
        if let Err(cause) = begun {
            self.notice_resources(cause);
            self.connect_failed(conn, cause, now_ns);
        }
    }

    /// Closes the connection if it is open, and resets its open requests. Returns the first agent
    /// that waited on the connection, if any.
    #[must_use = "who waits must not be forgotten"]
    fn close(&mut self, conn: ConnId) -> AgentId {
        self.connections.close(conn);
        self.pipelines.reset(conn)
    }

    /// Sends the bytes that end a connection, as far as the socket takes them at once.
    fn leave(&mut self, conn: ConnId) {
        if self.connections.is_up(conn) {
            let begin = self.pipelines.control.len();
            self.pipelines.leave(conn);
            let bytes = &self.pipelines.control[begin..];
            if !bytes.is_empty() {
                let _ = self.connections.send(conn, bytes);
                self.pipelines.control.truncate(begin);
            }
        }
    }

    /// Closes the connection of agents that have left.
    #[cold]
    fn disconnect(&mut self, conn: ConnId, now_ns: u64) {
        // An agent that has left has no attempt.
        let further = self.agents.sites.further(conn);
        for conn in std::iter::once(conn).chain(further) {
            self.leave(conn);
            let waiting = self.close(conn);
            self.fail_sent(waiting, now_ns, |_| AttemptCause::Closed);
        }
    }

    /// Handles an attempt that timed out.
    fn attempt_timed_out(&mut self, id: AgentId, now_ns: u64) {
        let conn = self.agents.all()[id].connection;
        let Pipeline { is_blocked, is_draining, .. } = self.pipelines[conn];
        if !self.connections.is_up(conn) {
            self.connect_failed(conn, AttemptCause::ConnectTimeout, now_ns);
        } else if let Some(sent_ns) = self.agents.all()[id].sent() {
            let is_silent = self.connections.timed_out(conn, sent_ns, now_ns);
            self.cancel(conn, id, is_silent && self.agents.routes.fails_over(conn), now_ns);
        } else if is_blocked || is_draining {
            self.pipelines[conn].waiting.remove(self.agents.all_mut(), id);
            self.attempt_failed(id, AttemptCause::Timeout, now_ns);
        } else {
            // The request is about to be sent in this turn of the loop, so the generator caused the
            // delay, not the target.
            self.agents.set_deadline(id, now_ns);
        }
    }

    /// Ends a request that timed out. If the protocol cannot cancel it, the connection is closed,
    /// because a late answer could be mistaken for the next answer. The other requests on the
    /// connection fail as closed. `leaves` is whether the agents go to the next member.
    fn cancel(&mut self, conn: ConnId, id: AgentId, leaves: bool, now_ns: u64) {
        if !leaves && self.pipelines.cancel(conn, self.agents.all_mut(), id) {
            let generation = self.connections.generation(conn);
            self.attempt_failed(id, AttemptCause::Timeout, now_ns);
            self.send_control(conn, generation, now_ns);
            return;
        }
        let waiting = self.close(conn);
        if leaves {
            self.connections.heard(conn);
            self.route_next(conn, AttemptCause::Timeout, now_ns);
        }
        let cause_of = |other| if other == id { AttemptCause::Timeout } else { AttemptCause::Closed };
        self.fail_sent(waiting, now_ns, cause_of);
    }

    /// Sends the bytes that the protocol sends by itself, and closes the connection if it has
    /// drained. The bytes belong to the socket with sequence number `generation`.
    fn send_control(&mut self, conn: ConnId, generation: u32, now_ns: u64) {
        let is_current = self.connections.generation(conn) == generation;
        let sent = if is_current { self.send_by_protocol(conn) } else { Ok(()) };
        if let Err(cause) = sent {
            self.connection_lost(conn, cause, now_ns);
        } else if is_current && self.pipelines[conn].is_draining && self.pipelines[conn].waiting.asked().is_none() {
            let others = self.close(conn);
            self.resend(others, now_ns);
        }
        self.pipelines.control.clear();
    }

    /// Sends the next parts of requests that the target did not take completely.
    #[inline]
    fn send_rest(&mut self, conn: ConnId, generation: u32, now_ns: u64) {
        if self.connections.generation(conn) == generation && self.pipelines.encode_rest(conn) {
            let sent = self.connections.send(conn, &self.pipelines.outgoing);
            if let Err(cause) = sent {
                self.connection_lost(conn, cause, now_ns);
            }
        }
    }

    /// Sends the bytes that the protocol sends by itself. Fails if the target causes many such
    /// bytes and reads none.
    fn send_by_protocol(&mut self, conn: ConnId) -> Result<(), AttemptCause> {
        if !self.pipelines.control.is_empty() {
            self.connections.send(conn, &self.pipelines.control)?;
            let is_taken = !self.connections.has_unsent(conn);
            if self.pipelines.count_control(conn, is_taken) > CONTROL_BYTES {
                return Err(AttemptCause::BadAnswer);
            }
        }
        Ok(())
    }
}

// Receiving, from connections to agents.

impl<P: SessionProtocol> Worker<P> {
    /// Handles all events of a connection.
    fn handle_source(&mut self, source: &mut EventSource, buffers: &mut ReadBuffers) {
        while let Some(event) = self.connections.next_event(source, buffers) {
            self.hand_over_until(source.now_ns);
            self.handle_event(source.conn, event, buffers.bytes(), source.now_ns);
        }
    }

    /// Handles the completions of the ring.
    fn handle_completions(&mut self, reported: &mut Reported, buffers: &mut ReadBuffers) {
        if !reported.has_completions() {
            return;
        }
        let now_ns = self.now();
        while let Some((conn, event)) = self.connections.next_completion(reported, buffers) {
            self.handle_event(conn, event, buffers.bytes(), now_ns);
        }
    }

    #[inline]
    fn handle_event(&mut self, conn: ConnId, event: ConnEvent, bytes: &[u8], now_ns: u64) {
        match event {
            ConnEvent::Bytes => self.received(conn, bytes, now_ns),
            ConnEvent::Connected => self.connected(conn, now_ns),
            ConnEvent::Ended => self.ended(conn, now_ns),
            ConnEvent::Closed(cause) => self.connection_lost(conn, cause, now_ns),
            ConnEvent::ConnectFailed(cause) => {
                match cause {
                    AttemptCause::BadAnswer => self.notice_unsolicited(),
                    AttemptCause::TlsCertificate => self.notice_certificate(conn),
                    AttemptCause::Proxy(_) => self.notice_refusal("the proxy", &self.connections.proxy_refusal(conn)),
                    _ => {}
                }
                self.connect_failed(conn, cause, now_ns);
            }
        }
    }

    /// Begins the protocol's opening on a new connection.
    fn connected(&mut self, conn: ConnId, now_ns: u64) {
        let service = self.connections.service(conn);
        let opening = self.pipelines.greet(conn, &self.script.services[service]);
        self.go_on_opening(conn, opening, Vec::new(), now_ns);
    }

    /// Continues the opening after received bytes.
    fn opening_received(&mut self, conn: ConnId, bytes: &[u8], now_ns: u64) {
        let Some(input) = self.pipelines.take_partial(conn, bytes) else {
            self.connect_failed(conn, AttemptCause::ConnectFailed, now_ns);
            return;
        };
        let service = self.connections.service(conn);
        let opening = self.pipelines.greeted(conn, &self.script.services[service], &input);
        self.go_on_opening(conn, opening, input, now_ns);
    }

    // The opening is part of connecting. If it is refused or not answered in time, the waiting
    // operations could not connect and certainly had no effect. Sending the request together with
    // the greeting would save a round trip. But if the greeting is refused, the request would run
    // as another user or on other data.

    fn go_on_opening(&mut self, conn: ConnId, mut opening: Opening, mut input: Vec<u8>, now_ns: u64) {
        let mut done = 0;
        while let Opening::Wait { used } = opening
            && (1..input.len() - done).contains(&used)
        {
            done += used;
            let service = self.connections.service(conn);
            opening = self.pipelines.greeted(conn, &self.script.services[service], &input[done..]);
        }
        input.drain(..done);
        let sent = self.send_by_protocol(conn);
        match opening {
            _ if sent.is_err() => {
                self.pipelines.drop_partial(conn, input);
                self.connect_failed(conn, AttemptCause::ConnectFailed, now_ns);
            }
            Opening::Wait { used } => {
                input.drain(..used);
                self.pipelines.keep_partial(conn, input);
            }
            Opening::Open { used } if used == input.len() || P::SPEAKS_UNASKED => {
                let generation = self.connections.generation(conn);
                self.opened(conn, now_ns);
                if used < input.len() && self.connections.generation(conn) == generation {
                    self.received(conn, &input[used..], now_ns);
                }
                self.pipelines.drop_partial(conn, input);
            }
            Opening::Open { .. } | Opening::Refused(_) => {
                let cause = match opening {
                    Opening::Refused(cause @ (AttemptCause::Greeted(_) | AttemptCause::NotHttp2)) => {
                        self.notice_refusal("the target", &excerpt::reason_line(&input));
                        cause
                    }
                    Opening::Refused(cause) => {
                        self.notice_opening(cause, &input);
                        AttemptCause::ConnectFailed
                    }
                    _ => AttemptCause::ConnectFailed,
                };
                self.pipelines.drop_partial(conn, input);
                self.connect_failed(conn, cause, now_ns);
            }
        }
    }

    /// Handles a connection that has opened: sends the requests that wait for it.
    fn opened(&mut self, conn: ConnId, now_ns: u64) {
        self.connections.open(conn);
        self.pipelines[conn].is_open = true;
        self.pipelines[conn].is_proven = false;
        self.agents.routes.connected(conn);
        self.stats.connected();
        if self.connections.is_on_ring(conn) {
            // Requests on a new connection are sent in this turn.
            if self.pipelines[conn].waiting.unsent() != AgentId::NONE {
                self.pipelines.ready.push(conn);
            }
        } else if let Err(cause) = self.write_requests(conn, now_ns) {
            self.connection_lost(conn, cause, now_ns);
        }
    }

    /// Handles bytes received on a connection.
    fn received(&mut self, conn: ConnId, bytes: &[u8], now_ns: u64) {
        self.stats.received(bytes.len());
        self.connections.heard(conn);
        let pipeline = &mut self.pipelines[conn];
        if pipeline.waiting.asked().is_none() && !(P::SPEAKS_UNASKED && pipeline.is_open) {
            if !pipeline.is_open {
                self.opening_received(conn, bytes, now_ns);
                return;
            }
            // The bytes match no request, so the connection is not used again.
            self.notice_unsolicited();
            self.connection_lost(conn, AttemptCause::BadAnswer, now_ns);
            return;
        }
        if P::SPEAKS_UNASKED {
            self.received_events(conn, bytes, now_ns);
        } else {
            self.received_answers(conn, bytes, now_ns);
        }
    }

    /// Handles bytes from a target that may also send unasked: sends the bytes that the protocol
    /// sends by itself, and the postponed requests.
    fn received_events(&mut self, conn: ConnId, bytes: &[u8], now_ns: u64) {
        let generation = self.connections.generation(conn);
        self.received_answers(conn, bytes, now_ns);
        self.send_control(conn, generation, now_ns);
        self.send_rest(conn, generation, now_ns);
        if self.connections.generation(conn) == generation && std::mem::take(&mut self.pipelines[conn].is_blocked) {
            self.pipelines.ready.push(conn);
        }
    }

    fn received_answers(&mut self, conn: ConnId, bytes: &[u8], now_ns: u64) {
        if !self.pipelines.has_partial(conn) {
            if let Some(rest) = self.decode_answers(conn, bytes, false, now_ns).and_then(|used| bytes.get(used..)) {
                self.pipelines.stash_partial(conn, rest);
            }
            return;
        }
        let Some(mut input) = self.pipelines.take_partial(conn, bytes) else {
            self.reject_answer(conn, AttemptCause::TooLarge, now_ns);
            return;
        };
        match self.decode_answers(conn, &input, false, now_ns) {
            Some(used) if used < input.len() => {
                input.drain(..used);
                self.pipelines.keep_partial(conn, input);
            }
            _ => self.pipelines.drop_partial(conn, input),
        }
    }

    /// Handles an answer that cannot be decoded or is too large.
    fn reject_answer(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) {
        if cause == AttemptCause::TooLarge {
            self.stats.notices.extend(self.control.budget_notice());
        }
        self.connection_lost(conn, cause, now_ns);
    }

    /// Handles a connection that the target closed. In some protocols, the close ends an answer.
    fn ended(&mut self, conn: ConnId, now_ns: u64) {
        if self.pipelines[conn].waiting.asked().is_none() {
            self.connection_lost(conn, AttemptCause::Closed, now_ns);
        } else if let Some(input) = self.pipelines.take_partial(conn, b"") {
            self.decode_answers(conn, &input, true, now_ns);
            self.pipelines.drop_partial(conn, input);
        }
    }

    /// Decodes answers. If the last answer is incomplete, returns the number of bytes that are no
    /// longer needed.
    fn decode_answers(&mut self, conn: ConnId, input: &[u8], ended: bool, now_ns: u64) -> Option<usize> {
        let generation = self.connections.generation(conn);
        let mut seen = 0;
        loop {
            let asked = self.pipelines[conn].waiting.asked();
            if !P::SPEAKS_UNASKED && asked.is_none() {
                return None;
            }
            let rest = &input[seen..];
            let event = self.pipelines.receive(conn, &self.agents, rest, ended);
            let used = match event {
                SessionEvent::Answer { id, answer } => {
                    let Some(id) = self.pipelines.agent(conn, self.agents.all(), id) else {
                        self.reject_answer(conn, AttemptCause::BadAnswer, now_ns);
                        return None;
                    };
                    self.agents.answer_arrives(id, 0, now_ns, &mut self.stats);
                    self.answered(conn, id, rest, answer, ended, now_ns);
                    answer.used
                }
                SessionEvent::Bad(cause) => {
                    if let Some(oldest) = asked {
                        let shown = ShownAnswer { bytes: rest, is_decoded: false };
                        self.agents.note_failure(oldest, cause, Some(shown), &mut self.stats);
                    }
                    // The protocol may tell the target why the connection ends.
                    let _ = self.send_by_protocol(conn);
                    self.reject_answer(conn, cause, now_ns);
                    return None;
                }
                SessionEvent::More { .. } if ended => {
                    self.connection_lost(conn, AttemptCause::Closed, now_ns);
                    return None;
                }
                SessionEvent::More { used } => {
                    if let Some(asked) = asked.filter(|_| !P::SPEAKS_UNASKED && !rest.is_empty()) {
                        self.agents.answer_arrives(asked, 0, now_ns, &mut self.stats);
                    }
                    return Some(seen + used);
                }
                SessionEvent::Control { used } => used,
                SessionEvent::Pushed { used } => {
                    self.stats.pushed();
                    used
                }
                SessionEvent::Part { id, used, messages } => {
                    self.pipelines[conn].is_proven = true;
                    if let Some(id) = self.pipelines.agent(conn, self.agents.all(), id) {
                        self.agents.answer_arrives(id, messages, now_ns, &mut self.stats);
                    }
                    seen = input.len().min(seen + used);
                    // The next event may need no further bytes.
                    continue;
                }
                SessionEvent::Drain { used } => {
                    self.pipelines[conn].is_draining = true;
                    used
                }
                SessionEvent::Untouched { id, used } => {
                    if let Some(id) = self.pipelines.agent(conn, self.agents.all(), id) {
                        self.pipelines[conn].waiting.remove(self.agents.all_mut(), id);
                        self.agents.unsend(id, true);
                        self.send(id, now_ns);
                    }
                    used
                }
            };
            seen = input.len().min(seen + used);
            // The remaining bytes belong to the next request, unless the connection was replaced.
            if seen == input.len() || self.connections.generation(conn) != generation {
                return None;
            }
        }
    }

    /// Handles an answer at the beginning of `input` to the agent's attempt.
    fn answered(&mut self, conn: ConnId, id: AgentId, input: &[u8], answer: Answer, ended: bool, now_ns: u64) {
        let decoded = self.pipelines.decoded(conn, input, answer.result);
        let class = self.agents.take_answer(id, &decoded, now_ns, &mut self.stats);
        self.finish_exchange(conn, id, input.len(), answer, ended, now_ns);
        // The generator spends the time for decoding and evaluating the answer, so the time is not
        // part of the next operation.
        let is_costly = answer.is_costly || self.agents.is_answer_costly(id);
        let now_ns = if is_costly { self.now() } else { now_ns };
        let at = self.at(conn, now_ns);
        let effect = self.agents.answered(id, class, answer.result, at, &mut self.stats);
        self.perform(effect, now_ns);
    }

    /// Finishes the exchange of an agent whose answer was read from input of `length` bytes. Closes
    /// the connection if it cannot be used again.
    #[inline]
    fn finish_exchange(&mut self, conn: ConnId, id: AgentId, length: usize, answer: Answer, ended: bool, now_ns: u64) {
        let has_others = self.pipelines.finish(conn, self.agents.all_mut(), id);
        // Bytes after the answer, or bytes not sent yet, may belong to other agents.
        let is_surplus = !P::SPEAKS_UNASKED && answer.used < length && !has_others;
        let is_sent = P::SPEAKS_UNASKED || has_others || !self.connections.has_unsent(conn);
        if answer.reusable && self.script.keep_alive && is_sent && !is_surplus && !ended {
            return;
        }
        if is_surplus && !ended {
            self.notice_surplus();
        }
        if answer.reusable && !ended {
            self.leave(conn);
        }
        let others = self.close(conn);
        if answer.reusable {
            if ended && has_others {
                self.pause_after_cut(conn, now_ns);
            }
            self.fail_sent(others, now_ns, |_| AttemptCause::Closed);
        } else {
            self.resend(others, now_ns);
        }
    }

    /// Handles an unusable connection. An idle connection is opened again at once if it has carried
    /// an answer.
    fn connection_lost(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) {
        self.notice_protocol(conn, cause);
        let was_proven = self.pipelines[conn].is_proven;
        let waiting = self.close(conn);
        if waiting != AgentId::NONE {
            if matches!(
                cause,
                AttemptCause::Reset | AttemptCause::Closed | AttemptCause::Broken | AttemptCause::CloseFrame(_)
            ) {
                self.pause_after_cut(conn, now_ns);
            }
            self.fail_sent(waiting, now_ns, |_| cause);
        } else if was_proven && now_ns < self.agents.starts.end_ns && self.agents.are_between_attempts(conn) {
            self.connect(conn, now_ns);
        }
    }

    /// Delays the next connect after the target closed the connection during an operation.
    fn pause_after_cut(&mut self, conn: ConnId, now_ns: u64) {
        if let Some(after_ns) = self.agents.connection_cut(conn, now_ns) {
            self.connections.set_connect_after(conn, after_ns);
        }
    }

    /// Handles the agents that waited on a closed connection, from `next` on. If an agent's request
    /// was sent, its attempt fails. Otherwise the request is sent on the next connection.
    fn fail_sent(&mut self, mut next: AgentId, now_ns: u64, cause_of: impl Fn(AgentId) -> AttemptCause) {
        while next != AgentId::NONE {
            let id = next;
            // The agent may join a connection's queue again at once.
            next = self.agents.all()[id].behind;
            if self.agents.all()[id].sent().is_none() {
                self.send(id, now_ns);
            } else {
                self.attempt_failed(id, cause_of(id), now_ns);
            }
        }
    }

    fn attempt_failed(&mut self, id: AgentId, cause: AttemptCause, now_ns: u64) {
        let at = self.at(self.agents.all()[id].connection, now_ns);
        let effect = self.agents.attempt_failed(id, cause, at, &mut self.stats);
        self.perform(effect, now_ns);
    }

    /// Handles a failed connect: all attempts on the connection fail, and the next connect is
    /// delayed.
    fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) {
        let mut next = self.close(conn);
        if cause != AttemptCause::NotConnected {
            self.stats.connect_failed();
        }
        self.route_next(conn, cause, now_ns);
        while next != AgentId::NONE {
            let id = next;
            next = self.agents.all()[id].behind;
            self.attempt_failed(id, cause, now_ns);
        }
    }

    /// Sets the service and the time of the next connect.
    fn route_next(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) {
        let NextConnect { service, after_ns } = self.agents.connect_failed(conn, cause, now_ns);
        self.connections.set_service(conn, service);
        self.connections.set_connect_after(conn, after_ns);
    }

    /// Sends the remaining requests of a connection again after the target announced that it
    /// answers no more on the connection (RFC 9112, 9.6). The attempts continue, but may already
    /// have taken effect: nothing proves that the target did not read the requests.
    fn resend(&mut self, mut next: AgentId, now_ns: u64) {
        while next != AgentId::NONE {
            let id = next;
            next = self.agents.all()[id].behind;
            if self.agents.unsend(id, false) {
                self.notice_resend();
            }
            self.send(id, now_ns);
        }
    }
}

impl<P: SessionProtocol> Worker<P> {
    /// Waits for events, for at most `left_ns`.
    fn wait(&mut self, reported: &mut Reported, left_ns: u64) -> Result<(), Error> {
        let policy = if self.script.is_paced {
            WakePolicy::NONE
        } else {
            gathering(self.stats.open_now(), self.connections.count())
        };
        Ok(self.connections.wait(reported, left_ns, policy)?)
    }

    /// Waits for events, at most until the next timer or the end of the second.
    fn wait_for_events(&mut self, reported: &mut Reported) -> Result<(), Error> {
        let (soonest_ns, is_exact) = self.agents.timers.next();
        let next_ns = soonest_ns.min(self.stats.boundary_ns()).min(self.drain_end_ns);
        let now_ns = self.now();
        let left_ns = next_ns.saturating_sub(now_ns);
        // Spins only before an exact deadline, because the timer wheel's time may be a lower bound.
        // Spins only at a rate, where the precision of starts is worth the CPU time.
        let is_deadline = next_ns == soonest_ns && is_exact && self.script.is_paced;
        if left_ns == 0 || !is_deadline || !self.spin.is_enough(now_ns) {
            return self.wait(reported, left_ns);
        }
        if left_ns > EARLY_NS {
            self.wait(reported, left_ns - EARLY_NS)?;
            if reported.has_events() {
                return Ok(());
            }
        }
        self.spin_until(reported, next_ns)
    }

    /// Polls for events without sleeping, until one arrives or the deadline passes.
    fn spin_until(&mut self, reported: &mut Reported, deadline_ns: u64) -> Result<(), Error> {
        let begun_ns = self.now();
        let mut now_ns = begun_ns;
        while !reported.has_events() && now_ns < deadline_ns {
            self.wait(reported, 0)?;
            now_ns = self.now();
        }
        self.spin.spend(now_ns - begun_ns);
        Ok(())
    }
}
