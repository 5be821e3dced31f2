//! A process that a runner started, as the lab sees it. It must not outlive its host in the lab's eyes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{GLANCE, PATIENCE, Session};
use crate::Error;
use crate::ears::Ears;
use crate::hosts::{Ended, Process, Start};
use crate::process_log::{Sink, Tail};
use crate::runner::{Order, Program};

/// For a process that was killed to be gone.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// What is heard of a process.
pub struct Feed {
    state: Mutex<State>,
    changed: Condvar,
    lines: Tail,
}

struct State {
    /// `None` once nothing more can come.
    sink: Option<Sink>,
    ended: Option<Ended>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("ended", &self.state().ended).finish_non_exhaustive()
    }
}

impl Feed {
    pub fn open(log: &Path, ears: &Ears) -> io::Result<Arc<Self>> {
        let sink = Sink::open(log, ears)?;
        let lines = sink.lines();
        let state = Mutex::new(State { sink: Some(sink), ended: None });
        Ok(Arc::new(Self { state, changed: Condvar::new(), lines }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It wrote this, or what it started did.
    pub fn take(&self, bytes: &[u8]) {
        if let Some(sink) = &mut self.state().sink {
            sink.take(bytes);
        }
    }

    /// It ended. What it started may still write.
    pub fn end(&self, how: Ended) {
        self.state().ended.get_or_insert(how);
        self.changed.notify_all();
    }

    /// Nothing is heard of it any more: if it runs, it is killed with its host.
    pub fn lose(&self) {
        self.state().sink = None;
        self.end(Ended::Signal(Signal::KILL.as_raw()));
    }
}

/// A process in a host.
pub struct RemoteProcess {
    session: Arc<Session>,
    number: u64,
    /// Inside the host.
    pub pid: u32,
    feed: Arc<Feed>,
}

impl RemoteProcess {
    pub fn new(session: Arc<Session>, number: u64, feed: Arc<Feed>) -> Self {
        Self { session, number, pid: 0, feed }
    }

    /// It was not started.
    pub fn never_was(&self) {
        self.feed.lose();
    }

    fn ask_signal(&self, signal: Signal, group: bool) {
        let order = Order::Signal { process: self.number, signal: signal.as_raw(), group };
        // If its host is gone, so is the process.
        let _ = self.session.ask(order, PATIENCE);
    }
}

impl Process for RemoteProcess {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn ended(&mut self) -> Option<Ended> {
        self.feed.state().ended
    }

    fn wait(&mut self, within: Duration) -> Option<Ended> {
        let until = Instant::now() + within;
        let mut state = self.feed.state();
        while state.ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let glance = left.min(GLANCE);
            state = self.feed.changed.wait_timeout(state, glance).unwrap_or_else(PoisonError::into_inner).0;
            // That ends every process, so its state must not be held.
            drop(state);
            self.session.is_at_once();
            state = self.feed.state();
        }
        state.ended
    }

    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            self.ask_signal(signal, false);
        }
    }

    fn signal_group(&mut self, signal: Signal) {
        self.ask_signal(signal, true);
    }

    fn last_lines(&mut self) -> Vec<String> {
        // All that it wrote before its end was heard before its end.
        self.feed.lines.last()
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_group(Signal::KILL);
            self.wait(END_PATIENCE);
        }
        self.session.shared.state().feeds.remove(&self.number);
        self.feed.lose();
    }
}

/// As a runner is told to start it.
pub fn program(start: &Start) -> Result<Program, Error> {
    let mut command = vec![text(&start.program)?];
    for argument in &start.arguments {
        command.push(text(argument)?);
    }
    let pairs = start.environment.iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
    Ok(Program {
        role: start.role.clone(),
        command,
        environment: pairs.collect::<Result<BTreeMap<String, String>, Error>>()?,
        folder: start.folder.clone(),
        keeps_bytes: None,
    })
}

/// Messages are text.
fn text(of: &OsStr) -> Result<String, Error> {
    let not_utf8 = |of: OsString| Error::Manifest(format!("`{}` is not UTF-8", of.display()));
    of.to_owned().into_string().map_err(not_utf8)
}
