//! The lab's side of the conversation with a host's runner. Threads send orders, each with an id.
//! One thread reads the runner's messages and passes each reply to the thread that sent the order.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use linux::ProcessGroup;
use record::events::HostFigures;
use record::rows::{ProgramSample, Sample};
use runner::plain_text;
use runner::{
    HostLines, Injection, KEPT_BYTES, NumberedOrder, Order, OrderRefusal, OrderReply, ProgramSpec, RunnerMessage, Setup,
};
use rustix::process::Signal;

use crate::Error;
use crate::host_process::{ProcessExit, ProgramOutput, Start};
use crate::process_log::{LogSink, LogWatcher, Tail};

/// Reason for a lost session if no other is known.
pub(crate) const RUNNER_GONE: &str = "its runner is gone";
/// Reason for a lost session if the user ended the run at once.
pub(crate) const ENDED_AT_ONCE: &str = "the run was ended at once";
/// Time limit for quick orders. A runner that misses an order's time limit counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for starting a program. A slow disk may have to load it first.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a waiting thread checks whether the run must end at once.
const GLANCE: Duration = Duration::from_millis(50);
/// Allowance for notes about omitted output, bytes. Added to the limit of a program's output.
const NOTES_BYTES: usize = 4 << 10;

/// A conversation with a runner. Dropping it closes the runner's input. The runner then ends with
/// every process that it started.
#[derive(Debug)]
pub(crate) struct RunnerSession {
    shared: Arc<Shared>,
    out: Mutex<PendingRequests>,
    /// Notices about the host that the runner sent when it was ready.
    notices: Vec<String>,
    /// Whether the user wants to end the run at once. If set, orders do not wait for replies.
    at_once: Arc<AtomicBool>,
}

/// The sending side of a session.
#[derive(Debug)]
struct PendingRequests {
    /// Id of the last order.
    number: u64,
    /// Channel to the writer thread. A runner that does not read blocks only that thread. `None`
    /// once the session is closed.
    lines: Option<Sender<Vec<u8>>>,
}

/// State shared by the threads that send orders and the thread that reads replies.
#[derive(Debug)]
struct Shared {
    host: String,
    /// Whether the host is this machine.
    is_here: bool,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    /// Reason why the session is lost.
    lost: Option<String>,
    /// Reason why the runner is about to end, if its end is expected.
    ending: Option<String>,
    /// Whether the session was lost unexpectedly.
    is_by_itself: bool,
    pending: BTreeMap<u64, Pending>,
    feeds: BTreeMap<u64, Arc<ProcessFeed>>,
}

/// An order that waits for its reply.
#[derive(Debug)]
struct Pending {
    asker: Sender<Result<OrderReply, OrderRefusal>>,
    /// Program output received so far.
    output: String,
    errors: String,
    /// Bytes of program output that may still arrive.
    left_bytes: usize,
}

impl Pending {
    fn of(asker: Sender<Result<OrderReply, OrderRefusal>>, order: &Order) -> Self {
        let left_bytes = match order {
            Order::Run { program, .. } => program.keeps_bytes.unwrap_or(KEPT_BYTES) + KEPT_BYTES + NOTES_BYTES,
            _ => 0,
        };
        Self { asker, output: String::new(), errors: String::new(), left_bytes }
    }

    /// Stores a piece of program output. Returns false if the output exceeds its limit.
    fn take(&mut self, to_errors: bool, text: &str) -> bool {
        let Some(left_bytes) = self.left_bytes.checked_sub(text.len()) else { return false };
        self.left_bytes = left_bytes;
        if to_errors {
            self.errors.push_str(text);
        } else {
            self.output.push_str(text);
        }
        true
    }

    /// Sends the reply, with all output received before it.
    fn answered(mut self, answer: OrderReply) {
        let answer = match answer {
            OrderReply::Ran { how, output, errors } => {
                self.output.push_str(&output);
                self.errors.push_str(&errors);

                OrderReply::Ran { how, output: self.output, errors: plain_text::lines(&self.errors) }
            }
            other => other,
        };
        // An error means that the asker no longer waits.
        let _ = self.asker.send(Ok(answer));
    }
}

impl RunnerSession {
    /// Sends the runner its setup and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Host`] with the runner's reason, or if the runner ended or was not ready in time.
    /// [`Error::Interrupted`] if the run must end at once.
    pub fn open(
        input: Box<dyn Write + Send>,
        output: Box<dyn Read + Send>,
        setup: &Setup,
        within: Duration,
        at_once: &Arc<AtomicBool>,
    ) -> Result<Arc<Self>, Error> {
        let failed = |reason: String| Error::Host { host: setup.host.clone(), reason };
        let shared = Arc::new(Shared { host: setup.host.clone(), is_here: setup.is_here, state: Mutex::default() });
        let lines = write_on(input)?;
        let first = begin_hearing(output, Arc::clone(&shared))?;
        // If the runner is already gone, the reading thread notices.
        let _ = lines.send(line(setup)?);
        let notices = match within_or_at_once(&first, within, at_once) {
            Ok(notices) => notices.map_err(failed)?,
            Err(RecvTimeoutError::Timeout) if at_once.load(Ordering::SeqCst) => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {
                return Err(failed(format!("its runner was not ready within {} s", within.as_secs_f64())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(failed(shared.reason())),
        };
        let (out, at_once) = (Mutex::new(PendingRequests { number: 0, lines: Some(lines) }), Arc::clone(at_once));
        Ok(Arc::new(Self { shared, out, notices, at_once }))
    }

    /// Starts a runner on a thread of this process and opens a session with it.
    pub fn on_thread(setup: &Setup, at_once: &Arc<AtomicBool>) -> Result<(Arc<Self>, JoinHandle<u8>), Error> {
        let (input, to) = io::pipe().map_err(Error::system("make a pipe"))?;
        let (from, output) = io::pipe().map_err(Error::system("make a pipe"))?;
        let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
        let serving = Builder::new().name("runner".to_owned()).spawn(move || runner::serve(false, input, output));
        let serving = serving.map_err(Error::system("start a thread"))?;
        Ok((Self::open(Box::new(to), Box::new(from), setup, PATIENCE, at_once)?, serving))
    }

    /// Sends an order and waits for its reply.
    ///
    /// # Errors
    /// The runner's refusal, or [`Error::HostLost`] if the runner is gone or misses the time limit.
    /// A late runner ends the session, because each further order would wait as long. A late sample
    /// does not end the session: only that sample is missing.
    pub fn ask(&self, order: Order, within: Duration) -> Result<OrderReply, Error> {
        let (about, is_sample) = (OrderSubject::of(&order), order == Order::Sample);
        let (number, answer) = self.send(order, None)?;
        let answer = self.answer(number, &answer, within);
        if matches!(&answer, Err(Error::HostLost { .. })) && !is_sample {
            self.give_up(&no_answer(within));
        }
        answer?.map_err(|why| about.error(&self.shared, why))
    }

    /// Starts a process. Its output goes to `start.log`.
    pub fn start(self: &Arc<Self>, start: &Start) -> Result<HostProcess, Error> {
        let feed = ProcessFeed::open(&start.log, &start.log_watcher).map_err(Error::on("write the log", &start.log))?;
        let order = Order::Start(program(start)?);
        let about = OrderSubject::of(&order);
        let (number, answer) = self.send(order, Some(Arc::clone(&feed)))?;
        // From here on, dropping `process` ends it, whatever goes wrong.
        let mut process = HostProcess { session: Arc::clone(self), number, group: ProcessGroup::default(), feed };
        let answer = self.answer(number, &answer, START_PATIENCE);
        match answer.inspect_err(|_| self.give_up(&no_answer(START_PATIENCE)))? {
            Ok(OrderReply::Started(group)) => {
                process.group = group;
                Ok(process)
            }
            Ok(other) => Err(self.unexpected(&other)),
            Err(why) => {
                // The runner refused the order, so there is no process.
                process.feed.lose();
                Err(about.error(&self.shared, why))
            }
        }
    }

    /// Whether the session is open, as far as is known.
    pub fn is_open(&self) -> bool {
        self.shared.state().lost.is_none()
    }

    /// Returns the reason why the session is lost, if it is.
    pub fn lost_for(&self) -> Option<String> {
        self.shared.state().lost.clone()
    }

    /// Returns the reason why the session is lost, if its end was neither requested nor expected.
    pub fn lost_by_itself(&self) -> Option<String> {
        let state = self.shared.state();
        state.lost.clone().filter(|_| state.is_by_itself)
    }

    /// Notices for the user about the host.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Has the runner undo all changes to the host, and ends the session. Returns false if the
    /// runner did not confirm in time.
    pub fn close(&self, within: Duration) -> bool {
        self.expect_end("the host was shut down");
        let ended = self.ask(Order::End, within).is_ok();
        self.give_up("the host was shut down");
        ended
    }

    /// Records that the runner is about to end, and why.
    pub fn expect_end(&self, reason: &str) {
        self.shared.state().ending = Some(reason.to_owned());
    }

    /// Ends the session. Waiting orders get no reply, and every process counts as killed.
    pub fn give_up(&self, reason: &str) {
        // The reason is set first: the runner ends when its input closes, and the reading thread
        // may notice that before this function continues.
        self.shared.state().ending.get_or_insert_with(|| reason.to_owned());
        self.shared.lose(reason);
        self.out().lines = None;
    }

    /// Whether the run must end at once. If so, ends the session.
    fn is_at_once(&self) -> bool {
        let at_once = self.at_once.load(Ordering::SeqCst);
        if at_once {
            self.give_up(ENDED_AT_ONCE);
        }
        at_once
    }

    fn out(&self) -> MutexGuard<'_, PendingRequests> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an order. Returns the order's id and the channel for its reply.
    fn send(
        &self,
        order: Order,
        feed: Option<Arc<ProcessFeed>>,
    ) -> Result<(u64, Receiver<Result<OrderReply, OrderRefusal>>), Error> {
        if self.is_at_once() {
            return Err(self.lost());
        }
        let (sender, answer) = channel();
        let pending = Pending::of(sender, &order);
        let mut out = self.out();
        let number = out.number + 1;
        let line = line(&NumberedOrder { number, order })?;
        {
            // Registers the order before sending it, because the reply may arrive at once.
            let mut state = self.shared.state();
            if state.lost.is_some() {
                drop(state);
                return Err(self.lost());
            }
            state.pending.insert(number, pending);
            state.feeds.extend(feed.map(|feed| (number, feed)));
        }
        out.number = number;
        // If sending fails, the session is lost, and the reading thread notices.
        let _ = out.lines.as_ref().map(|lines| lines.send(line));
        Ok((number, answer))
    }

    fn answer(
        &self,
        number: u64,
        answer: &Receiver<Result<OrderReply, OrderRefusal>>,
        within: Duration,
    ) -> Result<Result<OrderReply, OrderRefusal>, Error> {
        within_or_at_once(answer, within, &self.at_once).map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.lost(),
            RecvTimeoutError::Timeout if self.is_at_once() => self.lost(),
            RecvTimeoutError::Timeout => {
                self.shared.state().pending.remove(&number);
                Error::HostLost { host: self.shared.host.clone(), reason: no_answer(within) }
            }
        })
    }

    fn lost(&self) -> Error {
        Error::HostLost { host: self.shared.host.clone(), reason: self.shared.reason() }
    }

    fn unexpected(&self, answer: &OrderReply) -> Error {
        let answer = plain_text::beginning(&format!("{answer:?}"), plain_text::LINE_CHARACTERS);
        Error::Host {
            host: self.shared.host.clone(),
            reason: format!("its runner sent an unexpected answer: {answer}"),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the session is lost.
    fn reason(&self) -> String {
        self.state().lost.clone().unwrap_or_else(|| RUNNER_GONE.to_owned())
    }

    /// Marks the session as lost. The first reason is kept.
    fn lose(&self, reason: &str) {
        let mut state = self.state();
        let known = state.ending.take();
        if state.lost.is_none() {
            state.is_by_itself = known.is_none();
            state.lost = Some(known.unwrap_or_else(|| reason.to_owned()));
        }
        state.pending.clear();
        let feeds = std::mem::take(&mut state.feeds);
        drop(state);
        for feed in feeds.values() {
            feed.lose();
        }
    }
}

fn no_answer(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs_f64())
}

/// Waits for a message until the time limit, or until the run must end at once.
fn within_or_at_once<T>(from: &Receiver<T>, within: Duration, at_once: &AtomicBool) -> Result<T, RecvTimeoutError> {
    let begun = Instant::now();
    loop {
        let left = within.saturating_sub(begun.elapsed());
        match from.recv_timeout(left.min(GLANCE)) {
            Err(RecvTimeoutError::Timeout) if !left.is_zero() && !at_once.load(Ordering::SeqCst) => {}
            came => return came,
        }
    }
}

/// Encodes a message as one line of JSON.
fn line(message: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message).map_err(|error| Error::system("write an order")(error.into()))?;
    line.push(b'\n');
    Ok(line)
}

/// Starts a thread that writes lines to `input` and closes it once all senders are dropped.
fn write_on(mut input: Box<dyn Write + Send>) -> Result<Sender<Vec<u8>>, Error> {
    let (lines_in, lines) = channel::<Vec<u8>>();
    let thread = Builder::new().name("orders".to_owned()).spawn(move || {
        for line in lines {
            if input.write_all(&line).and_then(|()| input.flush()).is_err() {
                return;
            }
        }
    });
    thread.map_err(Error::system("start a thread"))?;
    Ok(lines_in)
}

/// Subject of an order. It decides how a refusal is worded.
enum OrderSubject {
    /// A program with this role.
    Role(String),
    Fault,
    /// Any other order.
    Other,
}

impl OrderSubject {
    fn of(order: &Order) -> Self {
        match order {
            Order::Start(ProgramSpec { role, .. }) | Order::Run { program: ProgramSpec { role, .. }, .. } => {
                Self::Role(role.clone())
            }
            Order::Inject { .. } | Order::Heal { .. } | Order::SignalProgram { .. } => Self::Fault,
            _ => Self::Other,
        }
    }

    /// Converts the refusal into an error.
    fn error(self, from: &Shared, why: OrderRefusal) -> Error {
        let host = from.host.clone();
        match (why, self) {
            (OrderRefusal::NoProgram { program }, Self::Role(role)) => Error::Missing { role, program },
            (OrderRefusal::NoProgram { program }, _) => {
                Error::Host { host, reason: format!("`{program}` is not on the host") }
            }
            (OrderRefusal::NoUser { user }, Self::Role(role)) => Error::NoUser { role, user },
            (OrderRefusal::NoUser { user }, _) => {
                Error::Host { host, reason: format!("the host has no user `{user}`") }
            }
            (OrderRefusal::PortTaken { port }, _) => Error::PortTaken { port, holder: None },
            (OrderRefusal::Cannot { reason }, Self::Fault) => Error::Fault(reason),
            (OrderRefusal::Cannot { reason }, _) => Error::Host { host, reason },
            (OrderRefusal::System { doing, error }, _) => {
                let doing = if from.is_here { doing } else { format!("{doing} on {host}") };
                Error::System { doing, error: io::Error::other(error) }
            }
        }
    }
}

// The reading side: reads the runner's messages and passes each to the waiting thread.

/// Number of output lines that are quoted if no runner starts. Other programs, such as a login
/// shell, may print before the runner.
const NOISE_LINES: usize = 5;
const QUOTED_CHARACTERS: usize = 200;
/// Size limit of the output before the runner's first message, bytes.
const NOISE_BYTES: usize = 1 << 20;
/// Largest number of unsolicited messages. Late replies to orders that timed out are among them, so
/// a few are normal.
const UNASKED: usize = 10_000;

type RunnerOutput = HostLines<Box<dyn Read + Send>>;

/// Starts the reading thread. The returned channel first reports whether the runner is ready.
fn begin_hearing(
    output: Box<dyn Read + Send>,
    shared: Arc<Shared>,
) -> Result<Receiver<Result<Vec<String>, String>>, Error> {
    let (sender, first) = channel();
    let thread = Builder::new().name("session".to_owned()).spawn(move || {
        let mut lines = HostLines::of(output);
        let reason = match until_ready(&mut lines, sender) {
            Ok(()) => hear(&mut lines, &shared),
            Err(reason) => reason,
        };
        // Closes the runner's output. A runner that still writes is then blocked, or ends.
        drop(lines);
        shared.lose(&reason);
    });
    thread.map_err(Error::system("start a thread"))?;
    Ok(first)
}

/// Skips lines that are not from the runner, and sends the runner's first message to `first`.
fn until_ready(lines: &mut RunnerOutput, first: Sender<Result<Vec<String>, String>>) -> Result<(), String> {
    let (mut noise, mut heard_bytes): (Vec<String>, usize) = (Vec::new(), 0);
    let outcome = loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break Err(silent(&noise)),
            Err(reason) => break Err(format!("the output is not from a runner: {reason}")),
        };
        heard_bytes += line.len();
        if heard_bytes > NOISE_BYTES {
            break Err(format!("{}; more than {} MiB in all", silent(&noise), NOISE_BYTES >> 20));
        }
        match RunnerMessage::read(line) {
            Ok(RunnerMessage::Ready { notices, .. }) => break Ok(notices),
            Ok(RunnerMessage::Failed { reason }) => break Err(reason),
            Ok(_) | Err(_) => {
                noise.push(quoted(line));
                noise.drain(..noise.len().saturating_sub(NOISE_LINES));
            }
        }
    };
    let result = outcome.as_ref().map(drop).map_err(Clone::clone);
    // An error means that the time limit passed and no one waits.
    let _ = first.send(outcome);
    result
}

fn silent(noise: &[String]) -> String {
    if noise.is_empty() {
        return "its runner ended without any output".to_owned();
    }
    format!("the output is not from a runner: {}", noise.join(" / "))
}

fn quoted(line: &[u8]) -> String {
    plain_text::beginning(String::from_utf8_lossy(line).trim(), QUOTED_CHARACTERS)
}

/// Reads messages until the session ends. Returns the reason for its end.
fn hear(lines: &mut RunnerOutput, shared: &Shared) -> String {
    let mut unasked = 0;
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return RUNNER_GONE.to_owned(),
            Err(reason) => return format!("its runner sent unreadable output: {reason}"),
        };
        let was_asked = match RunnerMessage::read(line) {
            Ok(said) => take(said, shared),
            // A reply may be lost, so the session is no longer reliable.
            Err(why) => return format!("its runner sent an invalid message: {} ({why})", quoted(line)),
        };
        match was_asked {
            Ok(true) => {}
            Ok(false) if unasked < UNASKED => unasked += 1,
            Ok(false) => return format!("its runner sent more than {UNASKED} unsolicited messages"),
            Err(reason) => return reason,
        }
    }
}

/// Passes on a message. Returns false if no order asked for it.
fn take(said: RunnerMessage, shared: &Shared) -> Result<bool, String> {
    match said {
        RunnerMessage::Done { number, answer } => {
            let asker = shared.state().pending.remove(&number);
            Ok(asker.map(|asker| asker.answered(answer)).is_some())
        }
        RunnerMessage::Refused { number, why } => {
            let asker = shared.state().pending.remove(&number);
            // An error means that the asker no longer waits.
            Ok(asker.map(|asker| drop(asker.asker.send(Err(why)))).is_some())
        }
        RunnerMessage::Printed { number, to_errors, text } => {
            match shared.state().pending.get_mut(&number).map(|asker| asker.take(to_errors, &text)) {
                Some(false) => Err("its runner sent more of a program's output than requested".to_owned()),
                taken => Ok(taken.is_some()),
            }
        }
        RunnerMessage::Wrote { process, text, bytes } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.take(&[text.into_bytes(), bytes].concat());
            }
            // Never counts as unsolicited: a process's children may write long after its end.
            Ok(true)
        }
        RunnerMessage::Ended { process, how } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.end(ProcessExit::from_code(how));
            }
            Ok(true)
        }
        // The runner sends these messages only once, at the beginning.
        RunnerMessage::Ready { .. } | RunnerMessage::Failed { .. } => Ok(false),
    }
}

// One method for each order.

/// Time limit for measuring a machine. That takes about ten seconds on an idle machine.
const MEASURE_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for injecting faults and for folder orders, which may wait for a disk.
const SLOW_PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for programs that the caller ends: one day.
const DAY_S: f64 = 86_400.0;
/// Time limit for healing a fault. Healing starts no program and measures nothing.
const LIFT_PATIENCE: Duration = Duration::from_secs(30);

impl RunnerSession {
    /// Runs a program to its end. Kills it once `goes_on` returns false, and then returns `None`.
    pub fn run_while(
        &self,
        program: &ProgramSpec,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<ProgramOutput>, Error> {
        let (program, input) = (program.clone(), input.to_owned());
        let order = Order::Run { program, input, within_s: DAY_S };
        let about = OrderSubject::of(&order);
        let (number, answer) = self.send(order, None)?;
        let came = loop {
            match answer.recv_timeout(GLANCE) {
                Err(RecvTimeoutError::Timeout) if goes_on() && !self.is_at_once() => {}
                Err(RecvTimeoutError::Timeout) => {
                    // The reply still arrives, but no one waits for it.
                    let (process, signal) = (number, Signal::KILL.as_raw());
                    let _ = self.send(Order::Signal { process, signal, group: true }, None)?;
                    return Ok(None);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Ok(came) => break came,
            }
        };
        match came.map_err(|why| about.error(&self.shared, why))? {
            OrderReply::Ran { how, output, errors } => {
                Ok(Some(ProgramOutput { ended: ProcessExit::from_code(how), output, errors }))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs a program to its end. Kills it after `within`.
    pub fn run(&self, program: &ProgramSpec, input: &str, within: Duration) -> Result<ProgramOutput, Error> {
        let (program, input, within_s) = (program.clone(), input.to_owned(), within.as_secs_f64());
        match self.ask(Order::Run { program, input, within_s }, within.saturating_add(START_PATIENCE))? {
            OrderReply::Ran { how, output, errors } => {
                Ok(ProgramOutput { ended: ProcessExit::from_code(how), output, errors })
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns `count` different ports on which no process listens.
    pub fn ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        match self.ask(Order::Ports { count }, PATIENCE)? {
            OrderReply::Ports { ports } if ports.len() == count => Ok(ports),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes an empty private folder with this name.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, Error> {
        match self.ask(Order::Folder { name: name.to_owned() }, SLOW_PATIENCE)? {
            OrderReply::Folder { path } => Ok(path),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes a user of the host the owner of a folder.
    pub fn own(&self, path: &Path, user: &str) -> Result<(), Error> {
        self.ask(Order::Own { path: path.to_path_buf(), user: user.to_owned() }, SLOW_PATIENCE).map(drop)
    }

    pub fn remove_folder(&self, name: &str) -> Result<(), Error> {
        self.ask(Order::RemoveFolder { name: name.to_owned() }, SLOW_PATIENCE).map(drop)
    }

    /// Reads the probes. Leaves `at_s` and `host` of the samples to the caller.
    pub fn sample(&self, within: Duration) -> Result<(Vec<Sample>, Vec<ProgramSample>), Error> {
        match self.ask(Order::Sample, within)? {
            OrderReply::Samples { rows, programs } => Ok((rows, programs)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Injects a fault. The key identifies it to `heal`.
    pub fn inject(&self, key: &str, control: &Injection) -> Result<(), Error> {
        self.ask(Order::Inject { key: key.to_owned(), control: control.clone() }, SLOW_PATIENCE).map(drop)
    }

    pub fn heal(&self, key: &str) -> Result<(), Error> {
        self.ask(Order::Heal { key: key.to_owned() }, LIFT_PATIENCE).map(drop)
    }

    /// Measures the storage of the host's folder, or of a tier, for this duration.
    pub fn measure_storage(&self, tier: Option<&str>, for_: Duration) -> Result<HostFigures, Error> {
        let order = Order::MeasureStorage { for_s: for_.as_secs_f64(), tier: tier.map(str::to_owned) };
        self.figures_of(order, for_.saturating_mul(2).saturating_add(SLOW_PATIENCE))
    }

    /// Measures the machine for a profile.
    pub fn measure_machine(&self) -> Result<String, Error> {
        match self.ask(Order::MeasureMachine, MEASURE_PATIENCE)? {
            OrderReply::Text { text } => Ok(text),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the host's properties and limits.
    pub fn figures(&self) -> Result<HostFigures, Error> {
        self.figures_of(Order::Figures, PATIENCE)
    }

    fn figures_of(&self, order: Order, within: Duration) -> Result<HostFigures, Error> {
        match self.ask(order, within)? {
            OrderReply::Figures { figures } => Ok(*figures),
            other => Err(self.unexpected(&other)),
        }
    }
}

// A process that a runner started, as the lab sees it.

/// Time limit for a killed process to disappear.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Output and end of a process, as reported by its runner.
struct ProcessFeed {
    state: Mutex<ProcessState>,
    changed: Condvar,
    lines: Tail,
}

struct ProcessState {
    /// `None` once no more output can arrive.
    sink: Option<LogSink>,
    ended: Option<ProcessExit>,
}

impl fmt::Debug for ProcessFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("ended", &self.state().ended).finish_non_exhaustive()
    }
}

impl ProcessFeed {
    pub fn open(log: &Path, log_watcher: &LogWatcher) -> io::Result<Arc<Self>> {
        let sink = LogSink::open(log, log_watcher)?;
        let lines = sink.lines();
        let state = Mutex::new(ProcessState { sink: Some(sink), ended: None });
        Ok(Arc::new(Self { state, changed: Condvar::new(), lines }))
    }

    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes output of the process or of its children.
    pub fn take(&self, bytes: &[u8]) {
        if let Some(sink) = &mut self.state().sink {
            sink.take(bytes);
        }
    }

    /// Records that the process ended. Its children may still write.
    pub fn end(&self, how: ProcessExit) {
        self.state().ended.get_or_insert(how);
        self.changed.notify_all();
    }

    /// Stops taking output. The process counts as killed: if it still runs, it is killed with its
    /// host.
    pub fn lose(&self) {
        self.state().sink = None;
        self.end(ProcessExit::Signal(Signal::KILL.as_raw()));
    }
}

/// A process in a host. Dropping this value kills the process group.
pub(crate) struct HostProcess {
    session: Arc<RunnerSession>,
    number: u64,
    /// Process group that the process leads, with process ids as in the host.
    group: ProcessGroup,
    feed: Arc<ProcessFeed>,
}

impl HostProcess {
    /// Returns the process id inside the host.
    pub fn pid(&self) -> u32 {
        self.group.pid
    }

    /// Returns the process group that the process leads, with process ids as in the host.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    fn ask_signal(&self, signal: Signal, group: bool) {
        let order = Order::Signal { process: self.number, signal: signal.as_raw(), group };
        // An error means that the host is gone, and the process with it.
        let _ = self.session.ask(order, PATIENCE);
    }

    /// Returns the exit status, or `None` while the process runs.
    pub fn ended(&self) -> Option<ProcessExit> {
        self.feed.state().ended
    }

    /// Waits for the end of the process.
    pub fn wait(&self, within: Duration) -> Option<ProcessExit> {
        let until = Instant::now() + within;
        let mut state = self.feed.state();
        while state.ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let glance = left.min(GLANCE);
            state = self.feed.changed.wait_timeout(state, glance).unwrap_or_else(PoisonError::into_inner).0;
            // `is_at_once` may end every process and then locks this state, so it must not be
            // locked here.
            drop(state);
            self.session.is_at_once();
            state = self.feed.state();
        }
        state.ended
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            self.ask_signal(signal, false);
        }
    }

    /// Sends a signal to the process group, even if the process itself has ended.
    pub fn signal_group(&self, signal: Signal) {
        self.ask_signal(signal, true);
    }

    /// Sends a signal to every process of a program in its tree. Returns their process ids.
    pub fn signal_program(&self, program: &str, signal: Signal) -> Result<Vec<u32>, Error> {
        let order = Order::SignalProgram { process: self.number, program: program.to_owned(), signal: signal.as_raw() };
        match self.session.ask(order, PATIENCE)? {
            OrderReply::Processes { pids } => Ok(pids),
            other => Err(self.session.unexpected(&other)),
        }
    }

    /// Returns the last lines of output, oldest first. Complete once the process has ended.
    pub fn last_lines(&self) -> Vec<String> {
        // The runner sends all output before it reports the end.
        self.feed.lines.last()
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_group(Signal::KILL);
            self.wait(END_PATIENCE);
        }
        self.session.shared.state().feeds.remove(&self.number);
        self.feed.lose();
    }
}

/// Converts a start into the program specification that runners take.
fn program(start: &Start) -> Result<ProgramSpec, Error> {
    let mut command = vec![text(&start.program)?];
    for argument in &start.arguments {
        command.push(text(argument)?);
    }
    let pairs = start.environment.iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
    Ok(ProgramSpec {
        role: start.role.clone(),
        command,
        environment: pairs.collect::<Result<BTreeMap<String, String>, Error>>()?,
        folder: start.folder.clone(),
        user: start.user.clone(),
        keeps_bytes: None,
        programs: start.programs.clone(),
    })
}

/// Converts to UTF-8, because messages are text.
fn text(of: &OsStr) -> Result<String, Error> {
    of.to_str().map(str::to_owned).ok_or_else(|| Error::Manifest(format!("`{}` is not UTF-8", of.display())))
}

#[cfg(test)]
mod tests;
