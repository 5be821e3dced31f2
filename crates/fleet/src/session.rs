//! Conductor's side of a fleet. It sets up every generator, compares clocks, starts all generators
//! at one time, and passes on their intervals as if they came from threads of this process. It ends
//! all generators if one is lost.

use std::io::{self, BufRead, Read as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use experiment::plan::Tls;
use load::{IntervalTerms, IntervalText, LoadSlice, Summary, ThreadInterval};
use record::clock::Clock;
use record::rows::FleetSecond;

use crate::calls::{GeneratorCaller, PendingCalls};
use crate::clock_offset::{ClockComparison, ClockExchange, ClockOffset};
use crate::generator::{monotonic_ns, named};
use crate::messages::{GeneratorMessage, GeneratorOrder, GeneratorSetup, LONGEST_LINE};
use crate::order_writer::OrderWriter;
use crate::roll_call::{LossCause, LostGenerator, RollCall, SILENCE_S};

/// Number of clock exchanges with each generator before a load begins.
const PINGS: usize = 40;
/// Number of generators whose clocks are compared at once before a load begins.
const ASKED_AT_ONCE: usize = 16;
/// Minimum interval of clock comparisons during a load. Each exchange narrows the bound of the
/// offset again.
const PING_EACH: Duration = Duration::from_millis(100);
/// Maximum interval of clock comparisons during a load. With many generators the interval is
/// longer, to limit the conductor's work.
const PING_EACH_AT_LEAST: Duration = Duration::from_millis(500);
/// Time between the pings of two generators.
const BETWEEN_PINGS: Duration = Duration::from_millis(4);
/// Time limit for a generator to read its feeds and compile its part.
const SETUP: Duration = Duration::from_secs(60);
/// Time from the order to start a load to its start, in addition to the way to the generators.
const LEAD_NS: u64 = 200_000_000;
/// Size of the part of a file that one order sends. In base64, its line is four thirds as long.
const FILE_PART_BYTES: u64 = 1 << 20;
/// Interval of checks for lost generators.
const GLANCE: Duration = Duration::from_millis(50);
/// Maximum number of characters shown of a generator's reason.
const LONGEST_REASON: usize = 1000;

const GO_ON: u8 = 0;
const STOP: u8 = 1;
const ABORT: u8 = 2;

/// A generator, as an engine provides it.
pub struct GeneratorStream {
    pub name: String,
    /// Stream for orders.
    pub orders: Box<dyn Write + Send>,
    /// Stream of messages.
    pub messages: Box<dyn BufRead + Send>,
}

/// Error of a fleet's load.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A generator cannot play its part, or its part failed.
    #[error("generator {name}: {reason}")]
    Generator {
        /// Name of the generator.
        name: String,
        /// Reason, with the remedy if there is one.
        reason: String,
    },
    /// A generator cannot reach the target.
    #[error("generator {name}: nothing answers at {service}: {reason}")]
    Unreached {
        /// Name of the generator.
        name: String,
        /// Address of the target.
        service: String,
        /// Reason.
        reason: String,
    },
    /// A file that a load names cannot be handed over.
    #[error("cannot send `{name}` to a generator: {error}")]
    File {
        /// Name of the file as in the load.
        name: String,
        /// System error.
        error: io::Error,
    },
    /// A generator is lost.
    #[error("generator {name} was lost at {at_s:.1} s: {reason}")]
    Lost {
        /// Name of the generator.
        name: String,
        /// Time of its last message, seconds since load start.
        at_s: f64,
        /// Cause of the loss.
        reason: &'static str,
    },
    /// A thread of this process could not be started.
    #[error("cannot start a thread for the fleet: {0}")]
    System(#[from] io::Error),
    /// The receiver of the records has ended.
    #[error("the recorder of the load has ended")]
    RecorderGone,
    /// The caller has given up.
    #[error("cancelled")]
    GivenUp,
    /// Bug: the session was started before its set-up.
    #[error("a fleet began before its setup; this is a bug")]
    NotSetUp,
    /// Bug: a thread panicked.
    #[error("a thread of the fleet panicked; this is a bug")]
    Panicked,
}

/// Generators that wait for a load.
pub struct FleetSession {
    members: Vec<SessionMember>,
    /// Number of generators that play the load: the first ones in `members`.
    playing: usize,
    /// Properties of the load that are needed to read its intervals.
    terms: Option<IntervalTerms>,
    heard: Receiver<Heard>,
}

struct SessionMember {
    name: String,
    orders: OrderWriter,
    clock: ClockComparison,
    calls: Arc<PendingCalls>,
}

/// A message from a generator.
struct Heard {
    generator: usize,
    at_ns: u64,
    /// Message. `None`: the stream ended, or a line is not a message.
    message: Option<GeneratorMessage>,
    /// CRC-32 of the lines of all the load's intervals. Set with the final message only.
    crc: u32,
}

impl FleetSession {
    /// Takes over the generators.
    pub fn begin(streams: Vec<GeneratorStream>) -> Result<Self, SessionError> {
        let (sender, heard) = channel();
        let mut members = Vec::new();
        for (generator, stream) in streams.into_iter().enumerate() {
            let GeneratorStream { name, orders, messages } = stream;
            let (sender, orders) = (sender.clone(), OrderWriter::begin(orders)?);
            let calls = Arc::new(PendingCalls::default());
            let answered = Arc::clone(&calls);
            named("fleet-read", move || read_messages(generator, messages, &sender, &answered))?;
            members.push(SessionMember { name, orders, clock: ClockComparison::default(), calls });
        }
        Ok(Self { playing: members.len(), members, terms: None, heard })
    }

    /// Sets up each generator's part, and compares clocks with each. Sends nothing to the service
    /// yet. Fills in the slice of `setup`. Stops if `given_up` returns true.
    ///
    /// # Errors
    /// The first refusal, or the first generator that does not answer.
    pub fn set_up(
        &mut self,
        setup: &GeneratorSetup,
        threads_each: u32,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), SessionError> {
        self.set_up_those(self.members.len(), setup, threads_each, given_up)
    }

    /// Sets up a load for one process, such as a preparation, on the first generator alone. The
    /// others wait.
    pub fn set_up_first(&mut self, setup: &GeneratorSetup, given_up: &dyn Fn() -> bool) -> Result<(), SessionError> {
        self.set_up_those(1, setup, 1, given_up)
    }

    fn set_up_those(
        &mut self,
        playing: usize,
        setup: &GeneratorSetup,
        threads_each: u32,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), SessionError> {
        self.playing = playing.min(self.members.len());
        let count = u32::try_from(self.playing).unwrap_or(u32::MAX);
        self.terms = Some(IntervalTerms {
            operations: load::operation_names(&setup.load).into(),
            threads: count.saturating_mul(threads_each),
            services: setup.load.outcome_places(u32::try_from(setup.services.len()).unwrap_or(u32::MAX)),
            slot_s: setup.slot_s,
        });
        for (number, slice) in LoadSlice::deal(count, threads_each).enumerate() {
            self.tell(number, &GeneratorOrder::Setup(Box::new(GeneratorSetup { slice, ..setup.clone() })));
        }
        self.await_all(self.playing, |message| matches!(message, GeneratorMessage::Ready { .. }), given_up)?;
        self.compare_all_clocks(given_up)
    }

    /// Waits for this answer from each of the first `count` generators.
    fn await_all(
        &self,
        count: usize,
        is_answer: fn(&GeneratorMessage) -> bool,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), SessionError> {
        let mut answered = vec![false; count];
        let until = Instant::now() + SETUP;
        while let Some(missing) = answered.iter().position(|has_answered| !has_answered) {
            let heard = self.next_message(missing, until, given_up)?;
            match heard.message {
                Some(GeneratorMessage::Refused { reason }) => return Err(self.wrong(heard.generator, &reason)),
                Some(message) if heard.generator < count && is_answer(&message) => answered[heard.generator] = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares clocks with all generators, to check that they still answer.
    pub fn compare_all_clocks(&mut self, given_up: &dyn Fn() -> bool) -> Result<(), SessionError> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        all.chunks(ASKED_AT_ONCE).try_for_each(|generators| self.compare_clocks(generators, given_up))
    }

    /// Connects the first generator to a service, because this process may be unable to reach the
    /// service.
    ///
    /// # Errors
    /// The generator's reason, or it does not answer.
    pub fn reach(
        &mut self,
        (protocol, service): (&str, &str),
        (tls, files): (&Tls, &Path),
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), SessionError> {
        let (protocol, service) = (protocol.to_owned(), service.to_owned());
        self.tell(
            0,
            &GeneratorOrder::Reach { protocol, service: service.clone(), tls: tls.clone(), files: files.to_path_buf() },
        );
        let until = Instant::now() + SETUP;
        loop {
            let heard = self.next_message(0, until, given_up)?;
            match heard.message {
                Some(GeneratorMessage::Reached { refused: None }) => return Ok(()),
                Some(GeneratorMessage::Reached { refused: Some(reason) }) => {
                    let name = self.members[0].name.clone();
                    return Err(SessionError::Unreached { name, service, reason: shortened(&reason) });
                }
                _ => {}
            }
        }
    }

    fn compare_clocks(&mut self, generators: &[usize], given_up: &dyn Fn() -> bool) -> Result<(), SessionError> {
        for _ in 0..PINGS {
            let mut asked = generators.to_vec();
            asked.iter().for_each(|generator| self.members[*generator].orders.ping());
            let until = Instant::now() + Duration::from_secs_f64(SILENCE_S);
            while let Some(missing) = asked.first().copied() {
                let heard = self.next_message(missing, until, given_up)?;
                asked.retain(|generator| *generator != heard.generator);
                self.take_pong(&heard)?;
            }
        }
        Ok(())
    }

    /// Returns the next message of any generator. On timeout, generator `missing` is reported as
    /// silent.
    ///
    /// # Errors
    /// A timeout, the end of a stream, a line that is not a message, or `given_up` returns true.
    fn next_message(&self, missing: usize, until: Instant, given_up: &dyn Fn() -> bool) -> Result<Heard, SessionError> {
        loop {
            if given_up() {
                return Err(SessionError::GivenUp);
            }
            match self.heard.recv_timeout(GLANCE) {
                Ok(Heard { generator, message: None, .. }) => {
                    return Err(self.wrong(generator, "it ended, or sent an invalid message"));
                }
                Ok(heard) => return Ok(heard),
                Err(_) if Instant::now() < until => {}
                Err(_) => return Err(self.wrong(missing, "it does not answer")),
            }
        }
    }

    /// Records the answer to a ping.
    ///
    /// # Errors
    /// There was no such ping.
    fn take_pong(&mut self, heard: &Heard) -> Result<(), SessionError> {
        let Some(GeneratorMessage::Pong { t0_ns, t1_ns, t2_ns }) = heard.message else { return Ok(()) };
        let member = &mut self.members[heard.generator];
        if !member.orders.has_pinged(t0_ns) {
            return Err(self.wrong(heard.generator, "it answered a ping that was not sent"));
        }
        member.clock.take(ClockExchange { t0_ns, t1_ns, t2_ns, t3_ns: heard.at_ns });
        Ok(())
    }

    /// Hands a file over to each generator, under its name in loads and connections.
    pub fn hand_over(
        &mut self,
        name: &str,
        mut file: impl io::Read,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), SessionError> {
        let mut is_first = true;
        loop {
            let mut bytes = Vec::new();
            let read = io::Read::take(&mut file, FILE_PART_BYTES).read_to_end(&mut bytes);
            read.map_err(|error| SessionError::File { name: name.to_owned(), error })?;
            if bytes.is_empty() && !is_first {
                return Ok(());
            }
            let part = GeneratorOrder::File { name: name.to_owned(), is_first, bytes: BASE64.encode(&bytes) };
            self.tell_all(&part);
            self.await_all(self.members.len(), |message| *message == GeneratorMessage::Stored, given_up)?;
            is_first = false;
        }
    }

    /// Returns the caller of single operations through the first generator. It works before, during
    /// and after a load, until the generator ends.
    #[must_use]
    pub fn caller(&self) -> Option<GeneratorCaller> {
        let first = self.members.first()?;
        Some(GeneratorCaller::new(&first.name, first.orders.sender(), Arc::clone(&first.calls)))
    }

    /// Returns the minimum time between now and the start of a load.
    #[must_use]
    pub fn lead(&self) -> Duration {
        let longest_ns = self.members.iter().map(|member| member.clock.longest_ns()).max().unwrap_or(0);
        Duration::from_nanos(2 * longest_ns + LEAD_NS)
    }

    /// Returns the current clock offset of each generator. `None` before the set-up.
    #[must_use]
    pub fn offsets(&self) -> Vec<(&str, Option<ClockOffset>)> {
        let now_ns = monotonic_ns();
        self.members.iter().map(|member| (member.name.as_str(), member.clock.at(now_ns))).collect()
    }

    /// Starts all generators at the clock's zero. Sends their intervals to `sink` and, each second,
    /// their clock offsets to `clocks`, until the load is over or a generator is lost.
    ///
    /// # Errors
    /// A thread cannot be started, or the clock's zero is impossible on a generator's clock.
    pub fn start(
        mut self,
        clock: Clock,
        threads_each: u32,
        sink: SyncSender<ThreadInterval>,
        clocks: SyncSender<FleetSecond>,
    ) -> Result<RunningFleet, SessionError> {
        let Some(terms) = self.terms.clone() else { return Err(SessionError::NotSetUp) };
        let left = clock.origin().saturating_duration_since(Instant::now());
        let zero_ns = monotonic_ns() + u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let mut begun_with_ns = Vec::new();
        for generator in 0..self.playing {
            let offset = self.members[generator].clock.at(zero_ns);
            let offset = offset.and_then(|offset| Some((offset.offset_ns, offset.there_ns(zero_ns)?)));
            let (offset_ns, at_ns) = offset.ok_or_else(|| self.wrong(generator, "its clock was not measured"))?;
            begun_with_ns.push(offset_ns);
            self.tell(generator, &GeneratorOrder::Begin { at_ns });
        }
        let wish = Arc::new(AtomicU8::new(GO_ON));
        let generators = u32::try_from(self.playing).unwrap_or(u32::MAX);
        let ping_each = BETWEEN_PINGS.saturating_mul(generators).clamp(PING_EACH, PING_EACH_AT_LEAST);
        let calls = RollCall::new(self.playing, threads_each as usize);
        let mut play = FleetPlay {
            session: self,
            calls,
            clock,
            threads_each,
            terms,
            sink,
            clocks,
            begun_with_ns,
            next_second: 0,
            wish: Arc::clone(&wish),
            obeyed: GO_ON,
            summary: Summary::default(),
            pinged: Instant::now(),
            ping_each,
        };
        Ok(RunningFleet { wish, thread: named("fleet", move || play.play().map(|()| (play.summary, play.session)))? })
    }

    /// Ends all generators.
    pub fn dismiss(mut self) {
        self.tell_all(&GeneratorOrder::End);
    }

    fn tell(&mut self, generator: usize, order: &GeneratorOrder) {
        self.members[generator].orders.tell(order);
    }

    fn tell_all(&mut self, order: &GeneratorOrder) {
        (0..self.members.len()).for_each(|generator| self.tell(generator, order));
    }

    fn wrong(&self, generator: usize, reason: &str) -> SessionError {
        SessionError::Generator { name: self.members[generator].name.clone(), reason: shortened(reason) }
    }
}

/// A fleet that plays a load.
pub struct RunningFleet {
    wish: Arc<AtomicU8>,
    thread: JoinHandle<Result<(Summary, FleetSession), SessionError>>,
}

impl RunningFleet {
    /// Starts no new operations. Open operations may continue for the load's drain time.
    pub fn stop(&self) {
        self.wish.fetch_max(STOP, Ordering::Relaxed);
    }

    /// Ends the load at once. Open operations stay unfinished.
    pub fn abort(&self) {
        self.wish.fetch_max(ABORT, Ordering::Relaxed);
    }

    /// Whether the load has ended, successfully or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end. Returns the totals of the load, and the generators for the next load.
    ///
    /// # Errors
    /// The reason for an early end. The generators have ended then.
    pub fn join(self) -> Result<(Summary, FleetSession), SessionError> {
        self.thread.join().unwrap_or(Err(SessionError::Panicked))
    }
}

struct FleetPlay {
    session: FleetSession,
    calls: RollCall,
    clock: Clock,
    threads_each: u32,
    terms: IntervalTerms,
    sink: SyncSender<ThreadInterval>,
    clocks: SyncSender<FleetSecond>,
    /// Clock offset with which each generator's start time was computed.
    begun_with_ns: Vec<i128>,
    /// Next full second at which clock offsets are recorded.
    next_second: u64,
    wish: Arc<AtomicU8>,
    obeyed: u8,
    summary: Summary,
    pinged: Instant,
    ping_each: Duration,
}

impl FleetPlay {
    fn play(&mut self) -> Result<(), SessionError> {
        let played = self.listen();
        if played.is_err() {
            self.session.tell_all(&GeneratorOrder::Abort);
            self.session.tell_all(&GeneratorOrder::End);
        }
        played
    }

    fn listen(&mut self) -> Result<(), SessionError> {
        while !self.calls.is_over() {
            let now_s = match self.session.heard.recv_timeout(GLANCE) {
                Ok(heard) => {
                    // Use the time of arrival: a message that waits in the queue is no silence,
                    // because the recorder may be slow.
                    let came_s = self.came_s(&heard);
                    self.take(heard, came_s)?;
                    came_s
                }
                Err(RecvTimeoutError::Timeout) => self.clock.at_s(),
                // All streams have ended, and each end has been reported.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::park_timeout(GLANCE);
                    self.clock.at_s()
                }
            };
            if let Some(lost) = self.calls.lost(now_s) {
                return Err(self.lost(lost));
            }
            self.pass_on_wish();
            if self.pinged.elapsed() >= self.ping_each {
                self.pinged = Instant::now();
                self.ping_all();
            }
            self.write_clocks();
        }
        Ok(())
    }

    fn ping_all(&mut self) {
        for (generator, member) in self.session.members.iter_mut().enumerate().take(self.session.playing) {
            member.orders.ping();
            if member.orders.is_stuck() {
                self.calls.takes_no_orders(generator);
            }
        }
    }

    /// Records the clock offsets once a second, from zero.
    fn write_clocks(&mut self) {
        let at_s = self.clock.at_s();
        if at_s < self.next_second as f64 {
            return;
        }
        self.next_second = at_s as u64 + 1;
        let now_ns = monotonic_ns();
        for (member, begun_with_ns) in self.session.members.iter().zip(&self.begun_with_ns) {
            let Some(ClockOffset { offset_ns, bound_ns }) = member.clock.at(now_ns) else { continue };
            let moved_ns = (offset_ns - begun_with_ns).unsigned_abs();
            let row = FleetSecond {
                at_s,
                generator: member.name.clone(),
                offset_us: offset_ns as f64 / 1e3,
                bound_us: bound_ns as f64 / 1e3,
                error_us: (moved_ns as f64 + bound_ns as f64) / 1e3,
            };
            // If the receiver has ended, it reports its own error.
            let _ = self.clocks.send(row);
        }
    }

    fn pass_on_wish(&mut self) {
        let wish = self.wish.load(Ordering::Relaxed);
        if wish > self.obeyed {
            self.obeyed = wish;
            self.session.tell_all(if wish == STOP { &GeneratorOrder::Stop } else { &GeneratorOrder::Abort });
        }
    }

    /// Returns the time of arrival, seconds since load start.
    fn came_s(&self, heard: &Heard) -> f64 {
        let age_ns = monotonic_ns().saturating_sub(heard.at_ns);
        self.clock.at_s() - Duration::from_nanos(age_ns).as_secs_f64()
    }

    fn take(&mut self, heard: Heard, now_s: f64) -> Result<(), SessionError> {
        let generator = heard.generator;
        self.session.take_pong(&heard)?;
        if generator >= self.session.playing {
            // A waiting generator sends no relevant messages.
            return match heard.message {
                Some(_) => Ok(()),
                None => Err(self.session.wrong(generator, "it ended, or sent an invalid message")),
            };
        }
        match heard.message {
            None => self.calls.stream_ended(generator),
            Some(GeneratorMessage::Interval { number, of }) => {
                return self.take_interval(generator, now_s, number, *of);
            }
            Some(GeneratorMessage::Summary { came, intervals, crc }) => {
                self.calls.last_word(generator, now_s, intervals, heard.crc == crc);
                add(&mut self.summary, &came);
            }
            Some(GeneratorMessage::Refused { reason } | GeneratorMessage::Failed { reason }) => {
                return Err(self.session.wrong(generator, &reason));
            }
            Some(
                GeneratorMessage::Pong { .. }
                | GeneratorMessage::Ready { .. }
                | GeneratorMessage::Reached { .. }
                | GeneratorMessage::Called { .. }
                | GeneratorMessage::Stored,
            ) => self.calls.heard(generator, now_s),
        }
        Ok(())
    }

    fn take_interval(
        &mut self,
        generator: usize,
        now_s: f64,
        number: u64,
        of: IntervalText,
    ) -> Result<(), SessionError> {
        let first = u64::from(self.threads_each) * generator as u64;
        // A thread of another generator gets an invalid index.
        let thread = u64::from(of.thread).checked_sub(first).map_or(usize::MAX, |thread| thread as usize);
        let place = (thread, of.start_s.max(0.0) as u64, of.is_last);
        let interval = of.into_interval(self.clock, &self.terms);
        let interval = interval.map_err(|error| self.session.wrong(generator, &error.to_string()))?;
        self.calls.take(generator, now_s, number, place);
        if self.calls.lost(now_s).is_none() {
            self.sink.send(interval).map_err(|_| SessionError::RecorderGone)?;
            self.session.members[generator].orders.acknowledge(number);
        }
        Ok(())
    }

    fn lost(&self, lost: LostGenerator) -> SessionError {
        let name = self.session.members[lost.generator].name.clone();
        let reason = match lost.cause {
            LossCause::StreamEnded => "its stream ended",
            LossCause::Silent => "it sent nothing for 3 s",
            LossCause::Stalled => "it sent no results for 10 s, although it answers",
            LossCause::Deaf => "it does not read its orders",
            LossCause::Incoherent => "its data is incomplete or inconsistent",
        };
        SessionError::Lost { name, at_s: lost.heard_s, reason }
    }
}

/// Limits the length of a generator's reason.
fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

fn add(sum: &mut Summary, came: &Summary) {
    let Summary { ok, failed, timeout, wrong, unfinished, attempts, cycles, dropped } = came;
    sum.ok = sum.ok.saturating_add(*ok);
    sum.failed = sum.failed.saturating_add(*failed);
    sum.timeout = sum.timeout.saturating_add(*timeout);
    sum.wrong = sum.wrong.saturating_add(*wrong);
    sum.unfinished = sum.unfinished.saturating_add(*unfinished);
    sum.attempts = sum.attempts.saturating_add(*attempts);
    sum.cycles = sum.cycles.saturating_add(*cycles);
    sum.dropped = sum.dropped.saturating_add(*dropped);
}

fn read_messages(generator: usize, mut messages: Box<dyn BufRead + Send>, told: &Sender<Heard>, calls: &PendingCalls) {
    let (mut line, mut sum) = (Vec::new(), crc32fast::Hasher::new());
    loop {
        line.clear();
        let read = io::Read::take(&mut messages, LONGEST_LINE as u64).read_until(b'\n', &mut line);
        let at_ns = monotonic_ns();
        let is_whole = read.is_ok() && line.last() == Some(&b'\n');
        let message = if is_whole { GeneratorMessage::parse(&line) } else { None };
        let crc = match &message {
            Some(GeneratorMessage::Interval { .. }) => {
                sum.update(&line);
                0
            }
            // The next load has its own checksum.
            Some(GeneratorMessage::Summary { .. }) => std::mem::take(&mut sum).finalize(),
            _ => 0,
        };
        let is_end = message.is_none();
        let message = match message {
            // Only the caller waits for this answer.
            Some(GeneratorMessage::Called { number, came }) => {
                calls.answer(number, came);
                continue;
            }
            message => message,
        };
        if told.send(Heard { generator, at_ns, message, crc }).is_err() || is_end {
            return calls.end();
        }
    }
}

#[cfg(test)]
mod tests;
