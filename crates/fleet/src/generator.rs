//! Generator: performs its part of a load by orders from a stream, and sends its measurements over
//! the same stream.
//!
//! Besides the engine's threads there are four, so that none waits for another: they read orders
//! and answer pings, convert intervals to lines, perform single operations, and write. Lines that
//! cannot be written yet are queued, so the engine never waits for the stream.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use load::client::{CallError, Client};
use load::program_worker::DeathSignal;
use load::{InputFiles, IntervalText, LoadOrder, LoadPurpose, RunningLoad, Summary, ThreadInterval, TlsTrust};
use record::clock::Clock;
use rustix::time::{ClockId, clock_gettime};

use crate::messages::{
    GeneratorCall, GeneratorMessage, GeneratorOrder, GeneratorSetup, LONGEST_LINE as LONGEST_MESSAGE, VERSION,
};

/// Interval of checks whether the load has ended.
const GLANCE: Duration = Duration::from_millis(10);
/// Longest line that is read, bytes.
const LONGEST_LINE: u64 = 64 << 20;
/// Number of the engine's intervals that may wait for conversion.
const PENDING: usize = 64;
/// Number of unacknowledged intervals that causes a notice.
const WINDOW: u64 = 64;

/// Time limit for connecting to a service.
const TO_REACH: Duration = Duration::from_secs(10);
/// Time without an order after which a running load's conductor counts as gone. A conductor pings
/// twice a second. The stream may stay open: sshd does not notice a missing peer while it has data
/// to send to the generator.
const SILENCE: Duration = Duration::from_secs(20);
/// Latest start of a load, nanoseconds from now. A later time means that the conductor has a wrong
/// offset for this machine's clock.
const LATEST_BEGIN_NS: u64 = 3600 * 1_000_000_000;

/// Reason why a generator ended without an order to end.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The stream failed.
    #[error("the stream to the conductor failed: {0}")]
    Stream(#[from] io::Error),
    /// A line is not an order.
    #[error("line {line} is not an order: {reason}")]
    Order {
        /// Line number, from 1.
        line: u64,
        /// Error in the line.
        reason: String,
    },
}

/// Carries out orders until `end` or the end of input. Aborts a load that still runs then. `tether`
/// ties programs that the protocol runs to this process.
pub fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    tether: Option<DeathSignal>,
) -> Result<(), GeneratorError> {
    let (outbox, lines) = channel();
    let writer = named("generator-write", move || write_lines(output, &lines))?;
    let (orders_in, orders) = channel();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let heard_ns = Arc::new(AtomicU64::new(monotonic_ns()));
    let pongs = (outbox.clone(), Arc::clone(&acknowledged), Arc::clone(&heard_ns));
    let (calls, ordered_calls) = channel();
    let called = outbox.clone();
    // Not joined, because a target may answer late.
    named("generator-call", move || make_calls(&ordered_calls, &called))?;
    // Not joined, because a read may wait for ever.
    named("generator-read", move || read_orders(input, &orders_in, &pongs.0, (&pongs.1, &pongs.2)))?;
    let files = InputFiles::default();
    let mut generator = ServedGenerator { outbox, calls, files, acknowledged, heard_ns, part: LoadState::None, tether };
    let ended = generator.obey(&orders, &|| writer.is_finished());
    drop(generator);
    // The reader may hold the outbox until its input ends. All messages so far are sent anyway.
    if ended.is_ok() && writer.is_finished() {
        return writer.join().unwrap_or(Ok(())).map_err(GeneratorError::Stream);
    }
    ended
}

/// Serves on the standard input and output of this process. Programs that a load runs end with it.
#[expect(clippy::disallowed_methods, reason = "standard output is the connection to the conductor")]
pub fn serve_standard_streams() -> Result<(), GeneratorError> {
    serve_tethered(io::BufReader::new(io::stdin()), io::stdout())
}

/// Serves on any stream. Programs that a load runs end with this process.
pub fn serve_tethered(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), GeneratorError> {
    serve(input, output, Some(linux::ends_with_us))
}

/// Returns the time of the monotonic clock, nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (s, ns) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    s * 1_000_000_000 + ns
}

/// Entry in the writer's queue.
enum Outgoing {
    Line(String),
    /// Answer that contains the time of its writing.
    Pong {
        t0_ns: u64,
        t1_ns: u64,
    },
    /// Writes nothing, but reports that everything before it has been written.
    Flushed(Sender<()>),
}

/// State of the generator's load.
enum LoadState {
    None,
    Ready(Box<LoadOrder>),
    Running { load: RunningLoad, intervals: JoinHandle<HandedOver> },
}

/// Intervals of a load that were handed over to the writer.
#[derive(Default)]
struct HandedOver {
    count: u64,
    crc: crc32fast::Hasher,
    /// Reason why some intervals are missing.
    failed: Option<String>,
}

struct ServedGenerator {
    outbox: Sender<Outgoing>,
    /// Single operations on the target, performed one after the other.
    calls: Sender<(GeneratorCall, TlsTrust)>,
    /// Files that were handed over.
    files: InputFiles,
    acknowledged: Arc<AtomicU64>,
    /// Time of the last order.
    heard_ns: Arc<AtomicU64>,
    part: LoadState,
    tether: Option<DeathSignal>,
}

impl ServedGenerator {
    /// Carries out orders until `end`, or until `is_mute` returns true, because a load without a
    /// receiver is useless.
    fn obey(
        &mut self,
        orders: &Receiver<Result<GeneratorOrder, GeneratorError>>,
        is_mute: &dyn Fn() -> bool,
    ) -> Result<(), GeneratorError> {
        loop {
            if is_mute() || self.is_forsaken() {
                self.abort();
                return Ok(());
            }
            match orders.recv_timeout(GLANCE) {
                Ok(Ok(GeneratorOrder::End)) => {
                    self.abort();
                    self.flush();
                    return Ok(());
                }
                Ok(Ok(order)) => self.carry_out(order),
                Ok(Err(error)) => {
                    self.abort();
                    return Err(error);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.abort();
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look_at_load();
        }
    }

    /// Whether a load runs and no order has come for too long.
    fn is_forsaken(&self) -> bool {
        let silent_ns = monotonic_ns().saturating_sub(self.heard_ns.load(Ordering::Relaxed));
        matches!(self.part, LoadState::Running { .. }) && Duration::from_nanos(silent_ns) > SILENCE
    }

    fn carry_out(&mut self, order: GeneratorOrder) {
        match (order, std::mem::replace(&mut self.part, LoadState::None)) {
            (GeneratorOrder::Setup(setup), LoadState::None | LoadState::Ready(_)) => {
                match prepared(*setup, &self.files, self.tether) {
                    Ok(orders) => {
                        self.part = LoadState::Ready(Box::new(orders));
                        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                        self.say(&GeneratorMessage::Ready { version: VERSION, cores });
                    }
                    Err(reason) => self.say(&GeneratorMessage::Refused { reason }),
                }
            }
            (GeneratorOrder::Begin { at_ns }, LoadState::Ready(orders)) => match self.begin(*orders, at_ns) {
                Ok(running) => self.part = running,
                Err(reason) => self.say(&GeneratorMessage::Failed { reason }),
            },
            (GeneratorOrder::Stop, LoadState::Running { load, intervals }) => {
                load.stop();
                self.part = LoadState::Running { load, intervals };
            }
            (GeneratorOrder::Abort, LoadState::Running { load, intervals }) => {
                load.abort();
                self.part = LoadState::Running { load, intervals };
            }
            // A load that has ended cannot be stopped, and a load that has not begun is forgotten.
            (GeneratorOrder::Stop | GeneratorOrder::Abort, _) => {}
            (GeneratorOrder::Setup(_) | GeneratorOrder::Begin { .. }, part) => {
                self.part = part;
                self.say(&GeneratorMessage::Refused {
                    reason: "unexpected order: expected `setup`, then `begin`, then the end of the load".into(),
                });
            }
            (GeneratorOrder::Reach { protocol, service, tls, files }, part) => {
                self.part = part;
                let trust = TlsTrust { tls, files: self.files.with_folder(files) };
                let reached = load::client::connect_trusting(&protocol, &service, &trust, TO_REACH);
                self.say(&GeneratorMessage::Reached { refused: reached.err().map(|error| error.to_string()) });
            }
            (GeneratorOrder::File { name, is_first, bytes }, part) => {
                self.part = part;
                let bytes = BASE64.decode(bytes).map_err(io::Error::other);
                let stored = bytes.and_then(|bytes| self.files.take(&name, is_first, &bytes));
                self.say(&match stored {
                    Ok(()) => GeneratorMessage::Stored,
                    Err(error) => GeneratorMessage::Refused { reason: format!("cannot store `{name}`: {error}") },
                });
            }
            (GeneratorOrder::Call(call), part) => {
                self.part = part;
                // The thread performs operations until this sender is dropped.
                let trust = TlsTrust { tls: call.tls.clone(), files: self.files.with_folder(&call.files) };
                let _ = self.calls.send((*call, trust));
            }
            // The reader handles these.
            (GeneratorOrder::Ping { .. } | GeneratorOrder::Ack { .. } | GeneratorOrder::End, part) => self.part = part,
        }
    }

    fn begin(&self, orders: LoadOrder, at_ns: u64) -> Result<LoadState, String> {
        let Some(left_ns) = at_ns.checked_sub(monotonic_ns()) else {
            return Err("the start time has already passed".to_owned());
        };
        if left_ns > LATEST_BEGIN_NS {
            return Err("the start time is more than an hour away".to_owned());
        }
        let clock = Clock::starting_in(Duration::from_nanos(left_ns));
        let (sink, intervals) = sync_channel(PENDING);
        self.acknowledged.store(0, Ordering::Relaxed);
        let (outbox, acknowledged) = (self.outbox.clone(), Arc::clone(&self.acknowledged));
        let intervals = named("generator-intervals", move || hand_over(&intervals, &outbox, &acknowledged));
        let intervals = intervals.map_err(|error| error.to_string())?;
        let load = load::start(orders, clock, sink).map_err(|error| error.to_string())?;
        Ok(LoadState::Running { load, intervals })
    }

    /// Sends the load's final message if the load has ended.
    fn look_at_load(&mut self) {
        if !matches!(&self.part, LoadState::Running { load, .. } if load.is_finished()) {
            return;
        }
        if let LoadState::Running { load, intervals } = std::mem::replace(&mut self.part, LoadState::None) {
            let came = load.join().map_err(|error| error.to_string());
            let handed = intervals.join().map_err(|_| "the thread that hands over intervals panicked".to_owned());
            self.say(&last_word(came, handed));
        }
    }

    fn abort(&mut self) {
        // Dropping a load aborts it and waits for its threads.
        self.part = LoadState::None;
    }

    fn say(&self, message: &GeneratorMessage) {
        say(&self.outbox, message);
    }

    fn flush(&self) {
        let (sender, written) = channel();
        if self.outbox.send(Outgoing::Flushed(sender)).is_ok() {
            // An error means that the stream has failed.
            let _ = written.recv();
        }
    }
}

fn say(outbox: &Sender<Outgoing>, message: &GeneratorMessage) {
    // The writer ends only when the stream has failed. Then the input ends too.
    if let Ok(line) = line(message) {
        let _ = outbox.send(Outgoing::Line(line));
    }
}

/// Maximum number of connections that are kept for later operations.
const KEPT_CONNECTIONS: usize = 64;

/// Performs each operation on a connection to its service. The connection is kept after an answer.
fn make_calls(ordered: &Receiver<(GeneratorCall, TlsTrust)>, outbox: &Sender<Outgoing>) {
    let mut kept: Vec<(GeneratorCall, Client)> = Vec::new();
    for (call, trust) in ordered {
        let client = match kept.iter().position(|(last, _)| goes_the_same_way(last, &call)) {
            Some(place) => Ok(kept.swap_remove(place).1),
            None => connect(&call, &trust),
        };
        let came = client.and_then(|mut client| {
            let answer = client.call(&call.operation, &call.with)?;
            kept.truncate(KEPT_CONNECTIONS - 1);
            kept.push((call.clone(), client));
            Ok(answer)
        });
        say(outbox, &GeneratorMessage::Called { number: call.number, came });
    }
}

fn goes_the_same_way(one: &GeneratorCall, other: &GeneratorCall) -> bool {
    let is_to_the_same = one.protocol == other.protocol && one.service == other.service;
    let is_trusted_alike = one.tls == other.tls && one.files == other.files;
    is_to_the_same && is_trusted_alike && one.within_s.total_cmp(&other.within_s).is_eq()
}

fn connect(call: &GeneratorCall, trust: &TlsTrust) -> Result<Client, CallError> {
    let within = Duration::try_from_secs_f64(call.within_s).unwrap_or(TO_REACH);
    load::client::connect_trusting(&call.protocol, &call.service, trust, within)
}

/// Starts a thread with this name.
pub(crate) fn named<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Returns the load order for this generator's part.
fn prepared(setup: GeneratorSetup, files: &InputFiles, tether: Option<DeathSignal>) -> Result<LoadOrder, String> {
    if setup.version != VERSION {
        return Err(format!(
            "this generator uses message version {VERSION}, but the conductor uses {}: use the same Plimsoll on both",
            setup.version
        ));
    }
    let orders = LoadOrder {
        protocol: setup.protocol,
        services: setup.services,
        load: setup.load,
        purpose: setup.purpose,
        seed: setup.seed,
        tls: setup.tls,
        files: files.with_folder(setup.files),
        slot_s: setup.slot_s,
        tether,
        hosts: Vec::new(),
        without_ring: false,
        slice: (setup.purpose == LoadPurpose::Measure).then_some(setup.slice),
    };
    load::check(&orders).map_err(|error| error.to_string())?;
    Ok(orders)
}

fn last_word(came: Result<Summary, String>, handed: Result<HandedOver, String>) -> GeneratorMessage {
    match (came, handed) {
        (Ok(came), Ok(HandedOver { count: intervals, crc, failed: None })) => {
            GeneratorMessage::Summary { came, intervals, crc: crc.finalize() }
        }
        (Err(reason), _) | (_, Err(reason) | Ok(HandedOver { failed: Some(reason), .. })) => {
            GeneratorMessage::Failed { reason }
        }
    }
}

/// Converts intervals to lines until the engine has ended.
fn hand_over(intervals: &Receiver<ThreadInterval>, outbox: &Sender<Outgoing>, acknowledged: &AtomicU64) -> HandedOver {
    let mut handed = HandedOver::default();
    let mut has_noticed = false;
    for mut interval in intervals {
        let waiting = handed.count.saturating_sub(acknowledged.load(Ordering::Relaxed));
        if waiting >= WINDOW && !has_noticed {
            has_noticed = true;
            interval.notices.push(format!(
                "{waiting} intervals of a generator are not acknowledged yet: the connection to it is slow"
            ));
        }
        let number = handed.count + 1;
        let written = IntervalText::of(&interval).map_err(|error| error.to_string());
        let message = written.map(|of| GeneratorMessage::Interval { number, of: Box::new(of) });
        match message.and_then(|message| line(&message)) {
            Ok(line) => {
                handed.count = number;
                handed.crc.update(line.as_bytes());
                // The writer ends only when the stream has failed, as in `say`.
                let _ = outbox.send(Outgoing::Line(line));
            }
            // Without this interval the others are useless. The final message reports the failure.
            Err(reason) => handed.failed = handed.failed.or(Some(reason)),
        }
    }
    handed
}

fn line(message: &GeneratorMessage) -> Result<String, String> {
    let mut line = serde_json::to_string(message).map_err(|error| error.to_string())?;
    line.push('\n');
    if line.len() > LONGEST_MESSAGE {
        let (mib, most) = (line.len() >> 20, LONGEST_MESSAGE >> 20);
        return Err(format!(
            "a message of {mib} MiB is too large: the conductor accepts {most} MiB; audit fewer keys, or use more \
             generators"
        ));
    }
    Ok(line)
}

fn write_lines(mut output: impl Write, lines: &Receiver<Outgoing>) -> io::Result<()> {
    for outgoing in lines {
        let line = match outgoing {
            Outgoing::Line(line) => line,
            Outgoing::Pong { t0_ns, t1_ns } => {
                let pong = GeneratorMessage::Pong { t0_ns, t1_ns, t2_ns: monotonic_ns() };
                line(&pong).map_err(io::Error::other)?
            }
            Outgoing::Flushed(told) => {
                // The caller may be gone.
                let _ = told.send(());
                continue;
            }
        };
        output.write_all(line.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

fn read_orders(
    mut input: impl BufRead,
    orders: &Sender<Result<GeneratorOrder, GeneratorError>>,
    outbox: &Sender<Outgoing>,
    (acknowledged, heard_ns): (&AtomicU64, &AtomicU64),
) {
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let read = io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut text);
        let t1_ns = monotonic_ns();
        heard_ns.store(t1_ns, Ordering::Relaxed);
        let order = match read {
            Ok(0) => return,
            // Ignore a line that was cut off with the stream.
            Ok(_) if text.last() != Some(&b'\n') && (text.len() as u64) < LONGEST_LINE => return,
            Ok(_) => serde_json::from_slice(&text)
                .map_err(|error| GeneratorError::Order { line: number, reason: error.to_string() }),
            Err(error) => Err(GeneratorError::Stream(error)),
        };
        let is_wrong = order.is_err();
        // If the receiving thread has ended, its own result shows this.
        let _ = match order {
            Ok(GeneratorOrder::Ping { t0_ns }) => outbox.send(Outgoing::Pong { t0_ns, t1_ns }).is_ok(),
            Ok(GeneratorOrder::Ack { through }) => acknowledged.fetch_max(through, Ordering::Relaxed) > 0,
            order => orders.send(order).is_ok(),
        };
        if is_wrong {
            return;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
