//! The lab's end of a runner: asks and hears. One thread reads what the runner says; whoever asks waits for the answer to
//! its own number. It must not know how the runner came to its host.

mod hearing;
mod orders;
mod process;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Answer, Order, Program, Refusal, Request, Setup};
use crate::Error;
use crate::hosts::{Process, Start};
use crate::{hooks, plain_text};
use process::{Feed, RemoteProcess};

/// Why nothing is heard, where nothing else is known.
pub(crate) const RUNNER_GONE: &str = "its runner is gone";
/// … and where the user wanted an end at once.
pub(crate) const ENDED_AT_ONCE: &str = "the run was ended at once";
/// For an order that takes no time to be carried out. Who is later than this, or than a longer one's time, counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// For a program to be started: a slow disk may have to give it first.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How often whoever waits looks whether all is to end at once.
const GLANCE: Duration = Duration::from_millis(50);
/// Beside what a program may print: the notes that something was left out.
const NOTES_BYTES: usize = 4 << 10;

/// A conversation with a runner. Dropped, its input is closed, and the runner ends with all that it started.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    out: Mutex<Out>,
    /// What the runner said of the host when it was ready.
    notices: Vec<String>,
    /// The user wants an end at once: no answer is waited for any more.
    at_once: Arc<AtomicBool>,
}

/// What is asked.
#[derive(Debug)]
struct Out {
    /// Of the last request.
    number: u64,
    /// To the thread that writes, so that a runner that does not read holds up nobody; `None`: closed.
    lines: Option<Sender<Vec<u8>>>,
}

/// What is known to whoever asks and to whoever hears.
#[derive(Debug)]
struct Shared {
    host: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Why nothing is heard any more.
    lost: Option<String>,
    /// Why the runner is about to end, if that is known beforehand.
    ending: Option<String>,
    /// Nobody had it end.
    is_by_itself: bool,
    pending: BTreeMap<u64, Pending>,
    feeds: BTreeMap<u64, Arc<Feed>>,
}

/// Whoever waits for an answer.
#[derive(Debug)]
struct Pending {
    asker: Sender<Result<Answer, Refusal>>,
    /// What a program has printed so far.
    output: String,
    errors: String,
    /// How much more it may.
    left_bytes: usize,
}

impl Pending {
    fn of(asker: Sender<Result<Answer, Refusal>>, order: &Order) -> Self {
        let left_bytes = match order {
            Order::Run { program, .. } => {
                program.keeps_bytes.unwrap_or(hooks::ANSWER_BYTES) + hooks::ANSWER_BYTES + NOTES_BYTES
            }
            _ => 0,
        };
        Self { asker, output: String::new(), errors: String::new(), left_bytes }
    }

    /// Keeps a piece of what a program printed. False: that is more than it was to keep.
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

    /// With all that came before it.
    fn answered(mut self, answer: Answer) {
        let answer = match answer {
            Answer::Ran { how, output, errors } => {
                self.output.push_str(&output);
                self.errors.push_str(&errors);
                // What is printed to standard output may be data; of errors there is nothing to do but to show them.
                Answer::Ran { how, output: self.output, errors: plain_text::lines(&self.errors) }
            }
            other => other,
        };
        // Who does not wait any more is not told.
        let _ = self.asker.send(Ok(answer));
    }
}

impl Session {
    /// Tells the runner its setup and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Host`]: in the runner's words; that it said nothing in time, or ended.
    pub fn open(
        input: Box<dyn Write + Send>,
        output: Box<dyn Read + Send>,
        setup: &Setup,
        within: Duration,
        at_once: &Arc<AtomicBool>,
    ) -> Result<Arc<Self>, Error> {
        let failed = |reason: String| Error::Host { host: setup.host.clone(), reason };
        let shared = Arc::new(Shared { host: setup.host.clone(), state: Mutex::default() });
        let lines = write_on(input)?;
        let first = hearing::begin(output, Arc::clone(&shared))?;
        // If it is gone already, that is heard.
        let _ = lines.send(line(setup)?);
        let notices = match within_or_at_once(&first, within, at_once) {
            Ok(notices) => notices.map_err(failed)?,
            Err(RecvTimeoutError::Timeout) if at_once.load(Ordering::SeqCst) => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {
                return Err(failed(format!("its runner was not ready within {} s", within.as_secs_f64())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(failed(shared.reason())),
        };
        let (out, at_once) = (Mutex::new(Out { number: 0, lines: Some(lines) }), Arc::clone(at_once));
        Ok(Arc::new(Self { shared, out, notices, at_once }))
    }

    /// Has an order carried out.
    ///
    /// # Errors
    /// What the runner refused, [`Error::HostLost`] if it is gone or does not answer in time. It is not asked again then: whoever
    /// is stopped, or hangs, would cost that time with every order. A sample is no order: one that is late is one that is
    /// missing.
    pub fn ask(&self, order: Order, within: Duration) -> Result<Answer, Error> {
        let (about, is_sample) = (About::of(&order), order == Order::Sample);
        let (number, answer) = self.send(order, None)?;
        let answer = self.answer(number, &answer, within);
        if matches!(&answer, Err(Error::HostLost { .. })) && !is_sample {
            self.give_up(&no_answer(within));
        }
        answer?.map_err(|why| about.error(&self.shared.host, why))
    }

    /// Starts a process; its output goes to `start.log`.
    pub fn start(self: &Arc<Self>, start: &Start) -> Result<Box<dyn Process>, Error> {
        let feed = Feed::open(&start.log, &start.ears)
            .map_err(Error::system(format!("write the log {}", start.log.display())))?;
        let order = Order::Start(process::program(start)?);
        let about = About::of(&order);
        let (number, answer) = self.send(order, Some(Arc::clone(&feed)))?;
        // From here on it is ended with this, whatever goes wrong.
        let mut process = RemoteProcess::new(Arc::clone(self), number, feed);
        let answer = self.answer(number, &answer, START_PATIENCE);
        match answer.inspect_err(|_| self.give_up(&no_answer(START_PATIENCE)))? {
            Ok(Answer::Started { pid }) => {
                process.pid = pid;
                Ok(Box::new(process))
            }
            Ok(other) => Err(self.unexpected(&other)),
            Err(why) => {
                process.never_was();
                Err(about.error(&self.shared.host, why))
            }
        }
    }

    /// Whether the runner still answers, as far as is known.
    pub fn is_open(&self) -> bool {
        self.shared.state().lost.is_none()
    }

    /// Why it does not, if it does not.
    pub fn lost_for(&self) -> Option<String> {
        self.shared.state().lost.clone()
    }

    /// Why nothing is heard any more, if nobody ended the conversation or knew beforehand that it would end.
    pub fn lost_by_itself(&self) -> Option<String> {
        let state = self.shared.state();
        state.lost.clone().filter(|_| state.is_by_itself)
    }

    /// What a user should know of the host.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Has the host undo everything, and ends the conversation. False if it did not say in time that it has.
    pub fn close(&self, within: Duration) -> bool {
        self.expect_end("it was taken down");
        let ended = self.ask(Order::End, within).is_ok();
        self.give_up("it was taken down");
        ended
    }

    /// The runner is about to end, for this reason.
    pub fn expect_end(&self, reason: &str) {
        self.shared.state().ending = Some(reason.to_owned());
    }

    /// Ends the conversation: who waits for an answer does not get one, and every process counts as killed.
    pub fn give_up(&self, reason: &str) {
        self.out().lines = None;
        self.shared.state().ending.get_or_insert_with(|| reason.to_owned());
        self.shared.lose(reason);
    }

    /// Whether all is to end at once; then nothing is heard any more.
    fn is_at_once(&self) -> bool {
        let at_once = self.at_once.load(Ordering::SeqCst);
        if at_once {
            self.give_up(ENDED_AT_ONCE);
        }
        at_once
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an order; gives its number and where its answer comes.
    fn send(&self, order: Order, feed: Option<Arc<Feed>>) -> Result<(u64, Receiver<Result<Answer, Refusal>>), Error> {
        if self.is_at_once() {
            return Err(self.lost());
        }
        let (sender, answer) = channel();
        let pending = Pending::of(sender, &order);
        let mut out = self.out();
        let number = out.number + 1;
        let line = line(&Request { number, order })?;
        {
            // Before it is sent: the answer may be there at once.
            let mut state = self.shared.state();
            if state.lost.is_some() {
                drop(state);
                return Err(self.lost());
            }
            state.pending.insert(number, pending);
            state.feeds.extend(feed.map(|feed| (number, feed)));
        }
        out.number = number;
        // If it cannot be sent, the conversation is lost, and that is heard.
        let _ = out.lines.as_ref().map(|lines| lines.send(line));
        Ok((number, answer))
    }

    fn answer(
        &self,
        number: u64,
        answer: &Receiver<Result<Answer, Refusal>>,
        within: Duration,
    ) -> Result<Result<Answer, Refusal>, Error> {
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

    fn unexpected(&self, answer: &Answer) -> Error {
        let answer = plain_text::beginning(&format!("{answer:?}"), plain_text::LINE_CHARACTERS);
        Error::Host { host: self.shared.host.clone(), reason: format!("its runner gave the answer {answer}") }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing is heard any more.
    fn reason(&self) -> String {
        self.state().lost.clone().unwrap_or_else(|| RUNNER_GONE.to_owned())
    }

    /// Nothing is heard from now on. The first reason is the one that counts.
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

/// Waits for what comes, but not once all is to end at once.
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

/// A message as a line.
fn line(message: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message).map_err(|error| Error::system("write an order")(error.into()))?;
    line.push(b'\n');
    Ok(line)
}

/// Writes lines on a thread of its own until nobody sends any, and closes `input` then.
fn write_on(mut input: Box<dyn Write + Send>) -> Result<Sender<Vec<u8>>, Error> {
    let (lines_in, lines) = channel::<Vec<u8>>();
    let write = move || {
        for line in lines {
            if input.write_all(&line).and_then(|()| input.flush()).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("orders".to_owned()).spawn(write);
    thread.map_err(Error::system("start a thread"))?;
    Ok(lines_in)
}

/// What an order was about, for the words of its refusal.
enum About {
    /// A program, for this role.
    Role(String),
    /// A fault.
    Fault,
    /// Anything else.
    Other,
}

impl About {
    fn of(order: &Order) -> Self {
        match order {
            Order::Start(Program { role, .. }) | Order::Run { program: Program { role, .. }, .. } => {
                Self::Role(role.clone())
            }
            Order::Impose { .. } | Order::Lift { .. } => Self::Fault,
            _ => Self::Other,
        }
    }

    fn error(self, host: &str, why: Refusal) -> Error {
        let host = host.to_owned();
        match (why, self) {
            (Refusal::NoProgram { program }, Self::Role(role)) => Error::Missing { role, program },
            (Refusal::NoProgram { program }, _) => Error::Host { host, reason: format!("`{program}` is not there") },
            (Refusal::PortTaken { port }, _) => Error::PortTaken { port, holder: None },
            (Refusal::Cannot { reason }, Self::Fault) => Error::Fault(reason),
            (Refusal::Cannot { reason }, _) => Error::Host { host, reason },
            (Refusal::System { doing, error }, _) => {
                Error::System { doing: format!("{doing} on {host}"), error: std::io::Error::other(error) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
